//! What was found, of whatever layout.

use sigbank::Error;
use sigbank::layout::signal_dataset::Uncommitted;
use sigbank::layout::{Layout, detect, sedpack, signal_dataset};
use sigbank::store::{StorageOptions, Store, connect, local_path};
use sigbank::uri::RelPath;
use std::sync::Arc;
use std::time::Duration;

/// An object that nothing names.
pub(super) struct Orphan {
    pub(super) path: RelPath,
    pub(super) bytes: u64,
    pub(super) age: Option<Duration>,
    pub(super) kind: &'static str,
    pub(super) kept: Option<&'static str>,
}

/// Objects, their bytes, and unfinished files.
pub(super) struct Deleted {
    pub(super) objects: u64,
    pub(super) bytes: u64,
    pub(super) unfinished: u64,
}

enum Of {
    Signal(signal_dataset::Garbage),
    Sedpack(sedpack::Garbage),
}

/// What was found, and where.
pub(super) struct Garbage {
    pub(super) orphans: Vec<Orphan>,
    pub(super) not_ours: Vec<RelPath>,
    pub(super) not_ours_count: u64,
    pub(super) live: (u64, u64),
    pub(super) published: bool,
    pub(super) storage_clock: bool,
    /// What is complete among the orphans.
    pub(super) uncommitted: Vec<Uncommitted>,
    of: Of,
    store: Arc<dyn Store>,
}

/// Both layouts tell of the same things.
macro_rules! garbage {
    ($found:ident, $of:path, $store:ident) => {
        Garbage {
            orphans: $found
                .orphans
                .iter()
                .map(|o| Orphan {
                    path: o.path.clone(),
                    bytes: o.bytes,
                    age: o.age,
                    kind: o.kind.as_str(),
                    kept: o.kept.map(|kept| kept.as_str()),
                })
                .collect(),
            not_ours: $found.not_ours.clone(),
            not_ours_count: $found.not_ours_count,
            live: $found.live,
            published: $found.published,
            storage_clock: $found.storage_clock,
            uncommitted: Vec::new(),
            of: $of($found),
            store: $store,
        }
    };
}

impl Garbage {
    /// Looks for what nothing names, by the layout of the dataset there; where there is none yet, by the names of what lies there.
    pub(super) fn find(args: &super::Args, storage: StorageOptions) -> Result<Self, Error> {
        let folder = local_path(&args.dataset);
        let mut store: Arc<dyn Store> = match folder {
            Some(folder) => Arc::new(signal_dataset::local_store(folder)?),
            None => connect(&args.dataset, &storage)?,
        };
        let layout = detect(&*store)?;
        if layout == Some(Layout::Jbof) {
            let what = "gc is for Sedpack datasets and signal-datasets, and this is a JBOF data set";
            return Err(Error::unsupported(what).at(&args.dataset).remedy(
                "there is nothing to do: JBOF puts right by itself what killed processes left, with the next one that writes",
            ));
        }
        let older_than = args.older_than.unwrap_or_default();
        if matches!(layout, None | Some(Layout::Sedpack)) {
            let of_sedpack: Arc<dyn Store> = match folder {
                Some(folder) => Arc::new(sedpack::local_store(folder)?),
                None => Arc::clone(&store),
            };
            let options = sedpack::GcOptions { unpublished: args.unpublished, ..sedpack::GcOptions::new(older_than) };
            let found = sedpack::gc(&of_sedpack, &options)?;
            if layout.is_some() || !found.orphans.is_empty() {
                store = of_sedpack;
                return Ok(garbage!(found, Of::Sedpack, store));
            }
        }
        let options = signal_dataset::GcOptions {
            elsewhere: signal_dataset::Elsewhere::with_options(storage),
            unpublished: args.unpublished,
            old_annotations: args.old_annotations,
            uncommitted: args.uncommitted,
            ..signal_dataset::GcOptions::new(older_than)
        };
        let found = signal_dataset::gc(&store, &options)?;
        let uncommitted = found.uncommitted.clone();
        Ok(Garbage { uncommitted, ..garbage!(found, Of::Signal, store) })
    }

    /// Those that are deleted.
    pub(super) fn doomed(&self) -> impl Iterator<Item = &Orphan> {
        self.orphans.iter().filter(|orphan| orphan.kept.is_none())
    }

    pub(super) fn delete(&self) -> Result<Deleted, Error> {
        let (objects, bytes, unfinished) = match &self.of {
            Of::Signal(found) => found.delete(&self.store).map(|d| (d.objects, d.bytes, d.unfinished)),
            Of::Sedpack(found) => found.delete(&self.store).map(|d| (d.objects, d.bytes, d.unfinished)),
        }?;
        Ok(Deleted { objects, bytes, unfinished })
    }
}
