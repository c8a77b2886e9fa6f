//! Whole datasets from one place to another, object by object, unchanged.
//!
//! Which objects these are is read from the root down ([`contents`]); nothing is listed. Each is compared with its digest on
//! the way, where a document gives one, and else with its size. What is there already is not copied again, so that an interrupted copy is
//! completed by running it again. The root comes last: before that there is no dataset at the destination.
//!
//! JBOF data sets are edited in place. Where a copy of one is brought forward, files that differ are replaced: on a disk whatever is there, in one
//! step; in a bucket the version that was looked at. Data comes before the documents that name it; what is deleted goes the other way round.

mod each;
mod forward;
mod transfer;

use crate::error::{Code, Error, Result};
use crate::layout::signal_dataset::CopyGuard;
use crate::layout::{Contents, Entrance, Object, appear};
use crate::layout::{Layout, contents, detect, jbof, sedpack, signal_dataset};
use crate::store::{Entry, LocalStore, StorageOptions, Store, connect, exists, local_path};
use crate::uri::RelPath;
use bytes::Bytes;
use each::each;
use forward::{Surplus, surplus};
use sigbank_format::checksum::{Algorithm, digest_all};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use transfer::{Care, Old, There, Transfer, there};

/// How a dataset is copied.
///
/// ```
/// use sigbank::convert::copy::CopyOptions;
/// let options = CopyOptions { update: true, ..CopyOptions::default() };
/// assert_eq!((options.jobs, options.checksum), (0, false));
/// ```
#[derive(Debug, Clone, Default)]
pub struct CopyOptions {
    /// Objects that are copied at once; 0 (the default) for 8.
    pub jobs: usize,
    /// Whether a dataset that is at the destination is brought forward to what the source is now. Else it is refused.
    pub update: bool,
    /// Whether objects that are at the destination already are read and compared with their digests there (without a digest: with the
    /// source). Else, where a dataset is brought forward in a store far away, the size of its shards must do; documents, what an unfinished copy
    /// left, and what is on a local disk, are compared in any case where there is a digest. The files of JBOF, which change in place and have no
    /// digests, are always compared with the source.
    pub checksum: bool,
    /// Whether items and arrays of a JBOF copy that the source does not have are deleted there, where it is brought forward. Else they are kept
    /// ([`CopyPlan::kept`]). `Unsupported` for other layouts.
    pub delete: bool,
}

impl CopyOptions {
    fn jobs(&self) -> usize {
        if self.jobs == 0 { 8 } else { self.jobs }
    }
}

/// An object that is to be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyObject {
    /// Its name, relative to the root.
    pub path: RelPath,
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether it takes the place of another one of its name: a file of JBOF that differs, or a root.
    pub replaces: bool,
}

/// What a copy is going to do, see [`plan`].
#[derive(Debug)]
pub struct CopyPlan {
    /// The dataset's layout.
    pub layout: Layout,
    /// What is to be copied, in this order; documents after what they name, those that readers begin at last.
    pub todo: Vec<CopyObject>,
    /// Objects that are at the destination already, and their bytes.
    pub skipped: (u64, u64),
    /// So many of them were compared with their digest, or with the source.
    pub compared: u64,
    /// Whether there is a dataset at the destination, which is brought forward.
    pub update: bool,
    /// Files of JBOF that are at the destination and not in the source, and stay there since [`CopyOptions::delete`] is not given.
    pub kept: Vec<RelPath>,
    /// Objects at absolute addresses, which a published view names: they stay where they are.
    pub elsewhere: u64,
    /// The digest of the root, as [`crate::layout::Source::root_digest`] gives it; of JBOF that of its metadata document.
    pub root: String,
    from: Arc<dyn Store>,
    to: Arc<dyn Store>,
    options: CopyOptions,
    shards: Vec<Sized>,
    documents: Vec<Sized>,
    entrances: Vec<Entrance>,
    succession: Option<Succession>,
    all: Vec<RelPath>,
    surplus: Surplus,
    /// Against a `gc` at the destination.
    guard: Option<CopyGuard>,
}

/// An object of known size.
#[derive(Debug, Clone)]
struct Sized {
    object: Object,
    size: u64,
    /// What it takes the place of.
    old: Option<Old>,
}

/// A Sedpack root that takes the place of an older one.
#[derive(Debug)]
struct Succession {
    old_root: Bytes,
    root: Bytes,
    lists: Vec<Object>,
}

/// What a copy did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopyReport {
    /// Objects that were copied.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that were there already, and their bytes.
    pub skipped: (u64, u64),
    /// Objects that were compared with a digest (or with the source), of those copied and those that were there.
    pub verified: u64,
    /// So many of those copied took the place of others ([`CopyObject::replaces`]).
    pub replaced: u64,
    /// Files that were deleted ([`CopyPlan::removes`]).
    pub removed: u64,
    /// The digest of the root.
    pub root: String,
}

impl CopyPlan {
    /// Files of JBOF that are deleted at the destination, in this order: those that the source does not have, with [`CopyOptions::delete`]; and in
    /// any case data files of arrays that have another file now, and what a killed deletion left.
    pub fn removes(&self) -> &[RelPath] {
        &self.surplus.removes
    }

    /// Bytes that are to be copied.
    pub fn bytes(&self) -> u64 {
        self.todo.iter().map(|object| object.bytes).sum()
    }
}

/// Finds out what is to be copied from one store's root to another's. Nothing is written, except that a commit which a killed writer
/// began at a Sedpack destination is brought to its end.
///
/// # Errors
/// `NotFound` where the source is no dataset; `AlreadyExists` where the destination is one and is not to be brought forward, holds other
/// files, or an object of another size or other bytes than the source (of JBOF, where it is not to be brought forward); `Conflict` where it is
/// another dataset or holds what the source has not (of JBOF likewise); `Limit` for a file of JBOF above 2 GiB that would be replaced; `Invalid` where both are the same place, or one is within the other; `ReadOnly` where nothing can be written.
///
/// ```
/// use sigbank::convert::copy::{CopyOptions, plan, run};
/// use sigbank::layout::sedpack::{Dataset, FillerOptions, Info};
/// use sigbank::store::{LocalStore, MemoryStore, Store};
/// use std::sync::Arc;
/// let structure = serde_json::json!({"saved_data_description": [{"name": "x", "dtype": "uint8", "shape": [1]}]});
/// let info = Info::new(Default::default(), structure.as_object().cloned().unwrap_or_default())?;
/// let from: Arc<dyn Store> = Arc::new(MemoryStore::new());
/// let dataset = Dataset::create_store(Arc::clone(&from), info)?;
/// let mut filler = dataset.filler(FillerOptions::default())?;
/// filler.append("train", &[&[7]], None)?;
/// filler.finish()?;
///
/// let dir = tempfile::tempdir()?;
/// let to: Arc<dyn Store> = Arc::new(LocalStore::create(dir.path().join("copy"))?);
/// let plan = plan(&from, &to, &CopyOptions::default())?;
/// assert_eq!(plan.todo.last().map(|object| object.path.as_str()), Some("dataset_info.json"));
/// let report = run(&plan, &mut |_, _| true)?;
/// assert_eq!((report.objects, report.skipped), (plan.todo.len() as u64, (0, 0)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn plan(from: &Arc<dyn Store>, to: &Arc<dyn Store>, options: &CopyOptions) -> Result<CopyPlan> {
    apart(&**from, &**to)?;
    if !to.capabilities().write {
        return Err(Error::read_only("nothing can be written here").at(to.location()));
    }
    let contents = contents(from)?;
    let (mut entrances, mut succession) = (contents.entrances.clone(), None);
    let update = match detect(&**to)? {
        None => false,
        Some(_) if !options.update => {
            return Err(Error::already_exists("a dataset is here already")
                .at(to.location())
                .remedy("choose another place, or bring it forward to what the source is: sigbank sync"));
        }
        Some(layout) if layout != contents.layout => {
            return Err(Error::conflict("it is another dataset: its layout is not the source's").at(to.location()));
        }
        Some(Layout::SignalDataset) => {
            entrances = signal_dataset::missing_entrances(&contents, to)?;
            true
        }
        Some(Layout::Jbof) => {
            entrances = jbof::missing_entrances(&contents, to)?;
            true
        }
        Some(Layout::Sedpack) => {
            entrances = Vec::new();
            succession = succeeds(&contents, to)?;
            true
        }
    };
    // Before it is looked at what is there.
    let guard = match contents.layout {
        Layout::SignalDataset => Some(CopyGuard::new(&**to, &contents, &entrances)?),
        _ => None,
    };
    // The lists of a dataset that is there have the same names as the new ones: they change with the root.
    let documents = if update && contents.layout == Layout::Sedpack { &[] } else { &*contents.documents };
    let all = contents.objects.iter().chain(documents).map(|object| object.path.clone()).collect();
    // What lies there without a root may be of a copy of something else, whose shards have the same names and sizes.
    let hash = options.checksum || !update || to.capabilities().round_trip == 0;
    // Nothing else tells whether a file that changes in place is still the same.
    let compare = options.checksum || contents.layout == Layout::Jbof;
    let replace = options.update && contents.layout == Layout::Jbof;
    let look = |objects: &[Object], hash| look(&**from, &**to, objects, Care { hash, compare, update, replace }, options.jobs());
    let (shards, mut documents) = (look(&contents.objects, hash)?, look(documents, true)?);
    let skipped = shards.there.iter().chain(&documents.there).fold((0, 0), |all, size| (all.0 + 1, all.1 + size));
    if !update && skipped.0 == 0 {
        refuse_other_files(&**to)?;
    }
    let mut surplus = surplus(&contents, &**to, options)?;
    if contents.layout == Layout::Jbof {
        documents.missing.sort_by_key(|one| std::cmp::Reverse(jbof::rank(&one.object.path)));
    }
    let mut plan = CopyPlan {
        layout: contents.layout,
        todo: Vec::new(),
        skipped,
        compared: shards.compared + documents.compared,
        update,
        kept: std::mem::take(&mut surplus.kept),
        elsewhere: contents.elsewhere,
        root: root_digest(&contents)?,
        from: Arc::clone(from),
        to: Arc::clone(to),
        options: options.clone(),
        shards: shards.missing,
        documents: documents.missing,
        entrances,
        succession,
        all,
        surplus,
        guard,
    };
    plan.todo = plan.steps();
    Ok(plan)
}

/// The store of a copy's destination. A folder is made where it is not there, and opened as writers of the layout do.
///
/// # Errors
/// Those of [`connect`]; `ReadOnly` or `Storage` where the folder cannot be made.
pub fn destination(address: &str, options: &StorageOptions, layout: Option<Layout>) -> Result<Arc<dyn Store>> {
    match (local_path(address), layout) {
        (None, _) => connect(address, options),
        (Some(path), Some(Layout::Sedpack)) => Ok(Arc::new(sedpack::local_store(path)?)),
        (Some(path), Some(Layout::Jbof)) => Ok(Arc::new(jbof::local_store(path)?)),
        (Some(path), _) => Ok(Arc::new(LocalStore::create(path)?)),
    }
}

impl CopyPlan {
    fn steps(&self) -> Vec<CopyObject> {
        let sized = |s: &Sized| CopyObject { path: s.object.path.clone(), bytes: s.size, replaces: s.old.is_some() };
        let mut todo: Vec<CopyObject> = self.shards.iter().chain(&self.documents).map(sized).collect();
        if let Some(next) = &self.succession {
            let new = |list: &Object| CopyObject { path: list.path.clone(), bytes: list.size.unwrap_or(0), replaces: true };
            todo.extend(next.lists.iter().map(new));
            let path = RelPath::parse(sedpack::ROOT).ok();
            todo.extend(path.map(|path| CopyObject { path, bytes: next.root.len() as u64, replaces: true }));
        }
        todo.extend(self.entrances.iter().map(|e| CopyObject {
            path: e.path.clone(),
            bytes: e.bytes.len() as u64,
            replaces: e.replaces.is_some(),
        }));
        todo
    }
}

/// Copies what is to be copied. `progress` hears (bytes done, bytes in all) and stops the run by `false`; what was copied until then is found
/// by the next run.
///
/// # Errors
/// `Corrupt` names an object of the source that is not as it is named; `Conflict` where source or destination changed since the
/// plan was made; `Storage` where reading or writing failed.
pub fn run(plan: &CopyPlan, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<CopyReport> {
    let CopyPlan { from, to, .. } = plan;
    let total = plan.bytes();
    let transfer = Transfer::new(&**from, &**to);
    let mut done =
        CopyReport { skipped: plan.skipped, verified: plan.compared, root: plan.root.clone(), ..CopyReport::default() };
    if !progress(0, total) {
        return Err(stopped());
    }
    // What a killed copy left half written.
    let _ = to.sweep(Duration::from_secs(60));
    // Of JBOF, documents of items come behind those of arrays, which name files.
    let items = plan.documents.partition_point(|one| plan.layout != Layout::Jbof || jbof::rank(&one.object.path) > 0);
    let (documents, items) = plan.documents.split_at_checked(items).unwrap_or_default();
    for group in [&*plan.shards, documents, items] {
        let copy = |one: &Sized| {
            let verified = match &one.old {
                None => transfer.copy(&one.object, one.size),
                Some(old) => transfer.put_over(&one.object, one.size, old),
            };
            Ok((verified?, one.size))
        };
        each(group, plan.options.jobs(), copy, &mut |(verified, size): (bool, u64)| {
            done.objects += 1;
            done.bytes += size;
            done.verified += u64::from(verified);
            progress(done.bytes, total)
        })?;
    }
    // What was there may not be flushed yet: its writer may have been killed.
    if to.capabilities().flush && !plan.all.is_empty() {
        to.flush(&plan.all)?;
    }
    let guard = match plan.guard.clone().filter(|_| !plan.entrances.is_empty()) {
        None => None,
        Some(mut guard) => {
            let copied: HashSet<&RelPath> = plan.documents.iter().map(|one| &one.object.path).collect();
            guard.before(&**to, &|path| copied.contains(path), &plan.all)?;
            Some(guard)
        }
    };
    // Of two datasets that are about to appear there, of whatever layout, one does.
    let _turn = if plan.update { None } else { appear::alone(&**to, plan.layout)? };
    if let Some(next) = &plan.succession {
        let lists = next.lists.iter().map(|list| Ok((list.path.clone(), transfer.read(list)?))).collect::<Result<Vec<_>>>()?;
        sedpack::succeed(&**to, &next.old_root, &next.root, lists)?;
    }
    for entrance in &plan.entrances {
        transfer.open_up(entrance)?;
        if to.capabilities().flush {
            to.flush(std::slice::from_ref(&entrance.path))?;
        }
    }
    if let Some(guard) = guard {
        guard.after(&**to, &plan.all)?;
    }
    plan.surplus.delete(&**to, plan.options.jobs(), &mut || progress(total, total))?;
    if !plan.surplus.removes.is_empty() && to.capabilities().flush {
        to.flush(&plan.all)?;
    }
    done.removed = plan.surplus.removes.len() as u64;
    done.replaced = plan.todo.iter().filter(|object| object.replaces).count() as u64;
    let rest = plan.todo.len().saturating_sub(plan.shards.len() + plan.documents.len());
    done.objects += rest as u64;
    done.bytes = total;
    progress(total, total);
    Ok(done)
}

fn succeeds(newer: &Contents, to: &Arc<dyn Store>) -> Result<Option<Succession>> {
    // What a killed writer left begun is brought to its end.
    let older = sedpack::recovered_contents(to)?;
    let located = |e: Error| {
        e.at(to.location())
            .remedy("copy to another place, or bring the source forward first: sigbank sync in the other direction")
    };
    let lists = sedpack::succession(&older, newer).map_err(located)?;
    let (old_root, root) = (older.root(), newer.root());
    Ok((old_root != root).then_some(Succession { old_root, root, lists }))
}

fn root_digest(contents: &Contents) -> Result<String> {
    let root = contents.root();
    let algorithm = match contents.layout {
        // Of JBOF, the document of the data set: its hash would take reading everything.
        Layout::SignalDataset | Layout::Jbof => Algorithm::Sha256,
        Layout::Sedpack => {
            let info = sedpack::Info::parse(&root, true)?;
            info.structure().algorithms.first().copied().unwrap_or(Algorithm::Sha256)
        }
    };
    Ok(format!("{}:{}", algorithm.as_str(), digest_all(&[algorithm], &[&root]).concat()))
}

/// What of some objects is at the destination, and what is missing there.
struct Looked {
    there: Vec<u64>,
    missing: Vec<Sized>,
    /// How many of those that are there were compared.
    compared: u64,
}

fn look(from: &dyn Store, to: &dyn Store, objects: &[Object], care: Care, jobs: usize) -> Result<Looked> {
    let mut found = Looked { there: Vec::new(), missing: Vec::new(), compared: 0 };
    let one = |object: &Object| {
        let size = match object.size {
            Some(size) => size,
            None => {
                from.head(&object.path)
                    .map_err(|e| match e.code() {
                        Code::NotFound => e.remedy("the source names this object, but it is gone: check the source first"),
                        _ => e,
                    })?
                    .size
            }
        };
        let found = match there(from, to, object, size, care) {
            // Deleted there while it was looked at.
            Err(e) if e.code() == Code::NotFound && !exists(to, &object.path)? => There::Nothing,
            found => found?,
        };
        let is_there = found == There::Same;
        let old = if let There::Other(old) = found { Some(old) } else { None };
        Ok((Sized { object: object.clone(), size, old }, is_there))
    };
    each(objects, jobs, one, &mut |(object, is_there): (Sized, bool)| {
        match is_there {
            true => {
                found.there.push(object.size);
                found.compared += u64::from(care.compares(&object.object));
            }
            false => found.missing.push(object),
        }
        true
    })?;
    Ok(found)
}

/// A folder that holds something, but nothing of the dataset, is not what is meant.
fn refuse_other_files(to: &dyn Store) -> Result<()> {
    // An object store has no folders, and is not listed.
    if to.capabilities().round_trip > 0 {
        return Ok(());
    }
    let other = |entry: &Result<Entry>| entry.as_ref().map_or(true, |entry| !signal_dataset::is_note(&entry.path));
    match to.list(None)?.find(other).transpose()? {
        None => Ok(()),
        Some(entry) => Err(Error::already_exists(format!(
            "the folder is not empty (it has '{}'), and holds no unfinished copy of the dataset",
            entry.path
        ))
        .at(to.location())
        .remedy("choose a new folder")),
    }
}

/// Refuses one folder, and one within the other. Of other stores only their options tell whether two of one name are one.
fn apart(from: &dyn Store, to: &dyn Store) -> Result<()> {
    let (a, b) = (from.location(), to.location());
    let one = match (from.identity(), to.identity()) {
        (Some(a), Some(b)) => {
            let within = |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            within(&a, &b) || within(&b, &a)
        }
        _ => {
            let (a, b) = (Path::new(&a), Path::new(&b));
            a.is_absolute() && b.is_absolute() && (a.starts_with(b) || b.starts_with(a))
        }
    };
    match one {
        true => Err(Error::invalid("source and destination are one place, or one is within the other")
            .at(b)
            .remedy("choose another destination")),
        false => Ok(()),
    }
}

fn stopped() -> Error {
    Error::conflict("the copy was stopped before its end").remedy("run it again: what is there is not copied again")
}
