//! Whole directories, and files that move between them, in one step.

use super::root::os;
use super::write::{Tactic, not_offered, temporary_name};
use super::{LocalStore, is_errno, taken};
use crate::error::{Code, Error, Result};
use crate::store::Store;
use crate::uri::RelPath;
use rustix::fs::AtFlags;
use rustix::io::Errno;
use std::io;
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

    /// Gives the object `from` the name `to` in one step: `AlreadyExists` when that is taken, `NotFound` where there is no `from` or the
    /// directory of `to` is not there.
    pub fn rename_new(&self, from: &RelPath, to: &RelPath) -> Result<()> {
        let rename = || {
            let source = self.root.open_dir(from.parent().as_ref()).map_err(|e| e.at(self.locate(from)))?;
            let target = self.root.open_dir(to.parent().as_ref())?;
            let (old, new) = (from.file_name(), to.file_name());
            let renamed = match self.tactic {
                Tactic::Rename => rustix::fs::renameat_with(&source, old, &target, new, rustix::fs::RenameFlags::NOREPLACE),
                _ => Err(Errno::INVAL),
            };
            match renamed {
                Err(e) if e == Errno::INVAL || not_offered(e) => {
                    rustix::fs::linkat(&source, old, &target, new, AtFlags::empty()).map_err(os)?;
                    rustix::fs::unlinkat(&source, old, AtFlags::empty()).map_err(os)
                }
                other => other.map_err(os),
            }
        };
        rename().map_err(|e: Error| match e.code() {
            Code::AlreadyExists => taken().at(self.locate(to)),
            Code::NotFound => e.at(self.locate(from)),
            _ => e.at(self.locate(to)),
        })
    }
    /// Makes a directory, with all above it. No error when it is there.
    pub fn make_dir(&self, dir: &RelPath) -> Result<()> {
        self.root.make_dir(Some(dir)).map(|_| ()).map_err(|e| e.at(self.locate(dir)))
    }
    /// Takes an empty directory away; one that is not empty or not there stays as it is.
    pub fn remove_empty_dir(&self, dir: &RelPath) -> Result<()> {
        let remove = || match self.root.open_dir(dir.parent().as_ref()) {
            Err(e) if e.code() == Code::NotFound => Ok(()),
            Err(e) => Err(e),
            Ok(parent) => match rustix::fs::unlinkat(&parent, dir.file_name(), AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
                Err(e) => Err(os(e)),
            },
        };
        remove().map_err(|e| e.at(self.locate(dir)))
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
}
