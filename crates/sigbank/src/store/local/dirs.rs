//! Whole directories, and files that move between them, in one step.

use super::root::os;
use super::write::{Tactic, not_offered, temporary_name};
use super::{LocalStore, is_errno, taken};
use crate::error::{Code, Error, Result};
use crate::store::Store;
use crate::uri::RelPath;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime};

impl LocalStore {
    /// Gives the directory `from`, which was filled unseen, the name `to` in one step: `AlreadyExists` when that is taken, except
    /// by an empty directory where the filesystem knows no rename without replacement.
    pub fn publish_dir(&self, from: &RelPath, to: &RelPath) -> Result<()> {
        let publish = || {
            let source = self.root.open_dir(from.parent().as_ref())?;
            let (target, name) = self.root.make_parent(to)?;
            let renamed = match self.tactic {
                Tactic::Rename => {
                    let flags = rustix::fs::RenameFlags::NOREPLACE;
                    rustix::fs::renameat_with(&source, from.file_name(), &target, name, flags)
                }
                _ => Err(rustix::io::Errno::INVAL),
            };
            match renamed {
                // Renaming a directory replaces an empty one only.
                Err(e) if e == rustix::io::Errno::INVAL || not_offered(e) => {
                    rustix::fs::renameat(&source, from.file_name(), &target, name).map_err(os)
                }
                other => other.map_err(os),
            }
        };
        publish().map_err(|e| {
            match (e.code(), is_errno(&e, rustix::io::Errno::NOTEMPTY) || is_errno(&e, rustix::io::Errno::NOTDIR)) {
                (Code::AlreadyExists, _) | (_, true) => taken().at(self.locate(to)),
                (Code::NotFound, _) => e.at(self.locate(from)),
                _ => e.at(self.locate(to)),
            }
        })
    }
    /// Takes the directory `dir` away with all that is in it: its name is gone in one step, its files thereafter. No error when
    /// there is none. What a kill leaves over lies in the private directory.
    pub fn delete_dir(&self, dir: &RelPath) -> Result<()> {
        let delete = || {
            let parent = match self.root.open_dir(dir.parent().as_ref()) {
                Err(e) if e.code() == Code::NotFound => return Ok(()),
                other => other?,
            };
            let trash = temporary_name();
            let private = self.root.make_dir(Some(&self.private))?;
            match rustix::fs::renameat(&parent, dir.file_name(), &private, &trash) {
                Err(rustix::io::Errno::NOENT) => return Ok(()),
                other => other.map_err(os)?,
            }
            self.empty_trash(&trash)
        };
        delete().map_err(|e: Error| e.at(self.locate(dir)))
    }

    pub(super) fn empty_trash(&self, name: &str) -> Result<()> {
        match std::fs::remove_dir_all(self.root.path.join(self.private.as_str()).join(name)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e.into()),
            _ => Ok(()),
        }
    }

    /// Takes away the directories directly in `dir` that nobody changed for so long, with all that is in them.
    pub fn delete_dirs_older_than(&self, dir: &RelPath, age: Duration) -> Result<()> {
        for entry in self.dir_entries(Some(dir))? {
            let path = entry.path();
            let changed = std::fs::metadata(self.root.path.join(path.as_str())).and_then(|meta| meta.modified());
            if changed.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|past| past >= age)) {
                self.delete_dir(path)?;
            }
        }
        Ok(())
    }

    /// A directory, open: it stays the same one when it is renamed. What is done in it is past the store's own checks of names.
    pub(crate) fn dir(&self, dir: &RelPath) -> Result<OwnedFd> {
        self.root.open_dir(Some(dir)).map_err(|e| e.at(self.locate(dir)))
    }
    /// As [`LocalStore::dir`], of the root too, made where it is not there.
    pub(crate) fn make_dir(&self, dir: Option<&RelPath>) -> Result<OwnedFd> {
        self.root.make_dir(dir).map_err(|e| e.at(dir.map_or_else(|| self.location(), |dir| self.locate(dir))))
    }
}
