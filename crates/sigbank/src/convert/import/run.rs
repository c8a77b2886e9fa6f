//! Copying what was planned.

use super::plan::{ImportPlan, PlannedArray, PlannedItem};
use crate::error::{Code, Error, Result};
use crate::layout::jbof::{self, ArrayFile, Creation, Dataset, Item};
use crate::store::{Expected, LocalStore, Store, local_path};
use crate::uri::RelPath;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use sigbank_format::model::json::Json;
use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What an unfinished import is of, where readers do not look.
const RECORD: &str = "__pycache__/sigbank/import";

/// Bytes that are compared at a time.
const COMPARED: usize = 1 << 18;

/// What an import did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Items of the data set.
    pub items: u64,
    /// Arrays of the data set.
    pub arrays: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Arrays that an earlier run, which was killed, had copied.
    pub resumed: u64,
}

/// Copies the files of a plan into a new data set, byte for byte, and gives it its name when it is complete. Until then it lies beside the destination in
/// `.<name>.importing`, where another run of the same plan finds what is done. `progress` hears (bytes done, bytes in all). `durable`: each item
/// is flushed; else all are together, before the data set has its name.
///
/// # Errors
/// `AlreadyExists` where something is at the destination; `NotFound` where the folder that it would lie in is not there; `Invalid` where it lies in the
/// folder that is imported; `Conflict` while another import to it runs, and where a file changed since the plan was made.
pub fn run(plan: &ImportPlan, dest: &Path, durable: bool, progress: &mut dyn FnMut(u64, u64)) -> Result<ImportReport> {
    let place = Place::new(plan, dest)?;
    let _lock = place.lock()?;
    place.refuse_existing()?;
    let record = record(plan)?;
    let dataset = place.begin(&record, durable)?;
    let there: HashSet<String> = dataset.item_names()?.into_iter().collect();
    let mut report = ImportReport { items: plan.items.len() as u64, arrays: plan.arrays(), bytes: plan.bytes(), resumed: 0 };
    let mut done = 0;
    progress(0, report.bytes);
    let one = |at: usize| match plan.items.get(at) {
        Some(item) => put(&dataset, item, there.contains(&item.name)).map_err(|e| placed(e, &place, item)),
        None => Ok((0, 0)),
    };
    jbof::each(plan.items.len(), 0, one, &mut |_, (bytes, resumed)| {
        report.resumed += resumed;
        done += bytes;
        progress(done, report.bytes);
        true
    })?;
    drop(dataset);
    place.finish(durable)?;
    Ok(report)
}

/// Refuses a destination that [`run`] would refuse before it copies anything; nothing is written.
///
/// # Errors
/// As [`run`]: `AlreadyExists`, `NotFound`, `Invalid`.
///
/// ```
/// use sigbank::convert::import::{ImportPlan, check_dest};
/// let dir = tempfile::tempdir()?;
/// assert!(check_dest(&ImportPlan::default(), &dir.path().join("new")).is_ok());
/// assert_eq!(check_dest(&ImportPlan::default(), dir.path()).unwrap_err().code(), sigbank::Code::AlreadyExists);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn check_dest(plan: &ImportPlan, dest: &Path) -> Result<()> {
    Place::new(plan, dest)?.refuse_existing()
}

/// An error of the storage names the place where it was to write, though the names that it takes meanwhile say nothing to anyone.
fn placed(e: Error, place: &Place, item: &PlannedItem) -> Error {
    match (e.path(), e.code()) {
        (None, _) | (_, Code::Storage) => e.within(format!("the item '{}'", item.name)).at(place.dest.display()),
        _ => e,
    }
}

/// Makes an item, or what of it is missing. Gives the bytes of its arrays, and how many were there.
fn put(dataset: &Dataset, planned: &PlannedItem, there: bool) -> Result<(u64, u64)> {
    let item = match there {
        true => dataset.item(&planned.name)?,
        false => dataset.add_item(Some(&planned.name), &json(&planned.metadata)?)?,
    };
    let (mut bytes, mut resumed) = (0, 0);
    for array in &planned.arrays {
        // An array has its document last; but what a machine that lost its power had not flushed may be zeros.
        match there && item.has_array(&array.name)? {
            true if is_copied(&item, array)? => resumed += 1,
            true => {
                item.delete_array(&array.name)?;
                copy(&item, array)?;
            }
            false => copy(&item, array)?,
        }
        bytes += array.bytes;
    }
    Ok((bytes, resumed))
}

/// Whether the file of an array is the planned one, byte for byte.
fn is_copied(item: &Item, planned: &PlannedArray) -> Result<bool> {
    let located = |e: std::io::Error| Error::from(e).at(planned.path.display());
    let copied = item.array(&planned.name)?.file()?;
    let mut source = File::open(&planned.path).map_err(located)?;
    if copied.size() != planned.bytes {
        return Ok(false);
    }
    let (mut ours, mut theirs) = (vec![0; COMPARED], vec![0; COMPARED]);
    let mut at = 0;
    while at < planned.bytes {
        let len = usize::try_from(planned.bytes - at).unwrap_or(COMPARED).min(COMPARED);
        let (Some(ours), Some(theirs)) = (ours.get_mut(..len), theirs.get_mut(..len)) else { return Ok(false) };
        match source.read_exact(theirs) {
            // It became shorter, which copying tells.
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(false),
            other => other.map_err(located)?,
        }
        copied.read_at(at, ours)?;
        if ours != theirs {
            return Ok(false);
        }
        at += len as u64;
    }
    Ok(true)
}

fn copy(item: &Item, planned: &PlannedArray) -> Result<()> {
    let changed = |path: &Path| {
        Error::conflict("the file changed while it was imported")
            .at(path.display())
            .remedy("wait until nobody writes to it, and run the import again")
    };
    let file = ArrayFile::copy_of(planned.format.extension(), &planned.path);
    let entry = item.add_array(&planned.name, &file, &json(&planned.metadata)?)?;
    let copied = entry.file()?.size();
    let now = fs::metadata(&planned.path).map_err(|e| Error::from(e).at(planned.path.display()))?;
    if copied != planned.bytes || now.len() != planned.bytes || now.modified().ok() != planned.modified {
        // Else it would count as done.
        item.delete_array(&planned.name)?;
        return Err(changed(&planned.path));
    }
    Ok(())
}

fn json(object: &Map<String, Value>) -> Result<Json> {
    Ok(Json::from_value(&Value::Object(object.clone()))?)
}

/// What tells one plan from another: all names, metadata, and the files as they are.
fn record(plan: &ImportPlan) -> Result<String> {
    let mut hasher = Sha256::new();
    let mut add = |text: &str| {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    };
    for item in &plan.items {
        add(&item.name);
        add(json(&item.metadata)?.as_str());
        for array in &item.arrays {
            let modified =
                array.modified.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok()).map(|time| time.as_nanos());
            let path = fs::canonicalize(&array.path).unwrap_or_else(|_| array.path.clone());
            add(&format!("{}\n{}\n{}\n{modified:?}", array.name, path.display(), array.bytes));
            add(json(&array.metadata)?.as_str());
        }
        add("");
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Where the data set grows, and where it goes.
struct Place {
    above: LocalStore,
    root: PathBuf,
    name: RelPath,
    hidden: RelPath,
    dest: PathBuf,
}

impl Place {
    fn new(plan: &ImportPlan, dest: &Path) -> Result<Self> {
        let Some(local) = dest.to_str().and_then(local_path) else {
            return Err(Error::unsupported("a data set is made in a folder, not at an address")
                .at(dest.display())
                .remedy("import into a folder, and copy that: sigbank cp"));
        };
        let absolute = std::path::absolute(local).map_err(|e| Error::from(e).at(dest.display()))?;
        let name = absolute.file_name().and_then(|name| name.to_str()).map(RelPath::parse);
        let (Some(parent), Some(Ok(name))) = (absolute.parent(), name) else {
            return Err(Error::invalid("this is no name for a new folder").at(dest.display()));
        };
        let root = fs::canonicalize(parent).map_err(|_| {
            Error::not_found("the folder that the destination would lie in is not there")
                .at(parent.display())
                .remedy("make it first, or check the path")
        })?;
        if fs::canonicalize(&plan.folder).is_ok_and(|folder| root.starts_with(folder)) {
            return Err(Error::invalid("the data set would lie in the folder that is imported")
                .at(dest.display())
                .remedy("choose another destination"));
        }
        let hidden = RelPath::parse(&format!(".{name}.importing"))?;
        Ok(Self { above: LocalStore::open(&root)?, root, name, hidden, dest: dest.to_owned() })
    }

    /// Keeps other imports to the same destination out.
    fn lock(&self) -> Result<Held> {
        let path = self.root.join(format!("{}.lock", self.hidden));
        let located = |e: std::io::Error| Error::from(e).at(path.display());
        let file = File::create(&path).map_err(located)?;
        match file.try_lock() {
            // On a system without such locks two imports at once meet in their items, of whose names each has one winner.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Held { path, _file: file }),
            Err(TryLockError::WouldBlock) => Err(Error::conflict("another import to this destination is running")
                .at(self.dest.display())
                .remedy("wait for it, or end it")),
        }
    }

    fn refuse_existing(&self) -> Result<()> {
        match fs::symlink_metadata(self.root.join(self.name.as_str())) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(Error::from(e).at(self.dest.display())),
            Ok(_) => Err(taken().at(self.dest.display())),
        }
    }

    fn staged(&self) -> PathBuf {
        self.root.join(self.hidden.as_str())
    }

    /// The data set of an earlier run of the same plan, or a new one.
    fn begin(&self, record: &str, durable: bool) -> Result<Dataset> {
        let staged = self.staged();
        let path = self.hidden.join(RECORD)?;
        match self.above.get_at_most(&path, 1 << 10) {
            Ok(found) if found == record.as_bytes() => return Dataset::open_to_write(&staged, durable),
            Err(e) if !matches!(e.code(), Code::NotFound | Code::Limit) => return Err(e),
            // Of another plan, or begun a moment before the kill.
            _ => {}
        }
        match fs::remove_dir_all(&staged) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(Error::from(e).at(staged.display())),
            _ => {}
        }
        let dataset = Dataset::create(&staged, &Creation { durable, ..Creation::default() })?;
        self.store()?.replace(&RelPath::parse(RECORD)?, &[record.as_bytes()], Expected::Any)?;
        Ok(dataset)
    }

    fn store(&self) -> Result<LocalStore> {
        jbof::local_store(&self.staged())
    }

    fn finish(&self, durable: bool) -> Result<()> {
        self.store()?.delete(&RelPath::parse(RECORD)?)?;
        if !durable {
            flush_all(&self.root)?;
        }
        self.above.publish_dir(&self.hidden, &self.name).map_err(|e| match e.code() {
            Code::AlreadyExists => taken().at(self.dest.display()),
            _ => e,
        })?;
        File::open(&self.root).and_then(|dir| dir.sync_all()).map_err(|e| Error::from(e).at(self.root.display()))
    }
}

fn taken() -> Error {
    Error::already_exists("the destination exists, and nothing is replaced").remedy("choose another name, or remove it first")
}

/// One flush for all files of the disk that a folder is on.
fn flush_all(folder: &Path) -> Result<()> {
    #[cfg(target_os = "linux")]
    {
        let dir = File::open(folder).map_err(|e| Error::from(e).at(folder.display()))?;
        rustix::fs::syncfs(dir).map_err(|e| Error::from(std::io::Error::from(e)).at(folder.display()))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = folder;
        rustix::fs::sync();
        Ok(())
    }
}

/// The lock's file, which goes with it.
struct Held {
    path: PathBuf,
    _file: File,
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
