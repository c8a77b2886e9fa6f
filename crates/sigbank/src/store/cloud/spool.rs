//! An object that is written piece by piece: kept in memory while it is small, then in a file, and sent when it is complete.

use super::client::Inner;
use super::runtime;
use super::settings::Service;
use super::write::{Condition, Content, put};
use crate::error::{Error, Result};
use crate::store::NewObject;
use crate::uri::RelPath;
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;

/// More than this goes to a file.
const SMALL: usize = 4 << 20;

pub(super) struct Spool {
    inner: Arc<Inner>,
    path: RelPath,
    small: Vec<u8>,
    file: Option<File>,
    len: u64,
    /// Of what is in the file; S3 signs it.
    sha256: Sha256,
    failed: Option<Error>,
}

impl fmt::Debug for Spool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spool({}, {} bytes)", self.inner.locate(&self.path), self.len)
    }
}

impl Spool {
    pub(super) fn new(inner: Arc<Inner>, path: RelPath) -> Self {
        Self { inner, path, small: Vec::new(), file: None, len: 0, sha256: Sha256::new(), failed: None }
    }

    /// The most that the service takes in one request.
    fn most(&self) -> u64 {
        match self.inner.settings.service {
            Service::Azure => 5000 << 20,
            _ => 5 << 30,
        }
    }

    fn add(&mut self, buf: &[u8]) -> Result<()> {
        let len = self.len + buf.len() as u64;
        if len > self.most() {
            let most = self.most();
            return Err(Error::limit(format!("an object of more than {most} bytes cannot be made in one request"))
                .remedy("make smaller shards: one request is what lets an object appear whole, and once"));
        }
        if self.file.is_none() && self.small.len() + buf.len() > SMALL {
            self.file = Some(spool_file()?);
            let small = std::mem::take(&mut self.small);
            self.spill(&small)?;
        }
        match self.file {
            Some(_) => self.spill(buf)?,
            None => self.small.extend_from_slice(buf),
        }
        self.len = len;
        Ok(())
    }

    fn spill(&mut self, buf: &[u8]) -> Result<()> {
        if let Some(file) = &mut self.file {
            file.write_all(buf).map_err(|e| Error::from(e).at(spool_dir().display()).remedy(REMEDY))?;
        }
        if self.inner.settings.service == Service::S3 {
            self.sha256.update(buf);
        }
        Ok(())
    }
}

const REMEDY: &str = "objects are collected there before they are sent: free some space, or name another folder by SIGBANK_SPOOL";

fn spool_dir() -> PathBuf {
    std::env::var_os("SIGBANK_SPOOL").filter(|dir| !dir.is_empty()).map_or_else(std::env::temp_dir, PathBuf::from)
}

/// A file without a name: it is gone when it is closed, however that comes about.
fn spool_file() -> Result<File> {
    let dir = spool_dir();
    let path = dir.join(format!("sigbank-{}.spool", uuid::Uuid::new_v4().simple()));
    let opened = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
    let file = opened.map_err(|e| Error::from(e).at(dir.display()).remedy(REMEDY))?;
    std::fs::remove_file(&path).map_err(|e| Error::from(e).at(path.display()))?;
    Ok(file)
}

impl Write for Spool {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if let Some(e) = &self.failed {
            return Err(e.clone().into());
        }
        match self.add(buf) {
            Ok(()) => Ok(buf.len()),
            Err(e) => {
                let e = e.at(self.inner.locate(&self.path));
                self.failed = Some(e.clone());
                Err(e.into())
            }
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl NewObject for Spool {
    fn commit(self: Box<Self>) -> Result<()> {
        if let Some(e) = self.failed {
            return Err(e);
        }
        let (inner, path, location) = (Arc::clone(&self.inner), self.path.clone(), self.inner.locate(&self.path));
        let content = match self.file {
            None => Content::of(&[&self.small]),
            Some(file) => Content::File { file: Arc::new(file), len: self.len, sha256: self.sha256.finalize().into() },
        };
        runtime::wait(async move { put(&inner, &path, content, Condition::Absent).await }).map(|_| ()).map_err(|e| e.at(location))
    }
}
