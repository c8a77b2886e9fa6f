//! The metadata of all items at once: read by threads, kept, and brought up to date where the data set changed.

use super::dataset::Dataset;
use super::{ROOT, documents, names};
use crate::error::{Code, Error, Result};
use crate::store::DirEntry;
use crate::uri::RelPath;
use bytes::Bytes;
use sigbank_format::model::json::{Json, Limits};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Filesystems tell times in steps of up to so much: a directory that changed less long ago may change again without showing it.
const STEP: Duration = Duration::from_millis(100);
/// Items that a thread takes at once.
const BATCH: usize = 64;

/// An item as a [`Catalog`] has it.
#[derive(Debug, Clone)]
pub struct Described {
    name: String,
    document: Document,
    stamp: Option<Stamp>,
}

#[derive(Debug, Clone)]
enum Document {
    Object(Json),
    /// What is no JSON object, as it stands: with Python's NaN in it, another kind of value, damaged.
    Other(Bytes),
}

/// What tells whether a file is still the same.
type Stamp = (u64, u64, i64, i64, u64);

fn stamp(path: &Path) -> Option<Stamp> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino(), found.mtime(), found.mtime_nsec(), found.len()))
}

impl Described {
    /// The item's name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Its metadata; none where the document is no JSON object.
    pub fn metadata(&self) -> Option<&Json> {
        match &self.document {
            Document::Object(json) => Some(json),
            Document::Other(_) => None,
        }
    }
    /// The text of its document, compact where it is a JSON object, else as it stands.
    pub fn document_text(&self) -> &[u8] {
        match &self.document {
            Document::Object(json) => json.as_str().as_bytes(),
            Document::Other(text) => text,
        }
    }
    /// Whether for each key the metadata have one of the values given for it, as Python's `==` compares: 1, 1.0 and true are equal. None where
    /// the document is no JSON object.
    pub fn matches(&self, wanted: &[(String, Vec<Json>)]) -> Option<bool> {
        let Document::Object(json) = &self.document else { return None };
        let mut met = 0;
        let walked = json.walk().object(|parser, key| {
            match wanted.iter().find(|(name, _)| *name == key) {
                None => parser.skip()?,
                Some((_, values)) => {
                    let found = parser.json()?;
                    met += usize::from(values.iter().any(|value| equal(&found, value)));
                }
            }
            Ok(())
        });
        Some(walked.is_ok() && met == wanted.len())
    }
}

/// Strings are equal where their texts are, and equal to nothing else.
fn equal(a: &Json, b: &Json) -> bool {
    let text = |json: &Json| json.as_str().starts_with('"');
    a == b || (!text(a) && !text(b) && a.equals(b))
}

/// The metadata of all items of a data set, as of the last [`Catalog::refresh`].
///
/// What an item's metadata are read from is read again when items were added or deleted since, by whomever, and its file is another or changed.
/// An edit by hand of one item's file alone shows in no directory that is looked at, and is not noticed.
///
/// ```
/// use sigbank::format::model::json::Json;
/// use sigbank::layout::jbof::{Catalog, Creation, Dataset};
/// let dir = tempfile::tempdir()?;
/// let dataset = Dataset::create(&dir.path().join("a"), &Creation::default())?;
/// let json = |text: &str| Json::parse(text.as_bytes(), &Default::default());
/// dataset.add_item(Some("x"), &json(r#"{"snr": 3}"#)?)?;
/// let mut catalog = Catalog::default();
/// catalog.refresh(&dataset, 0)?;
/// let wanted = [("snr".to_owned(), vec![json("3.0")?])];
/// assert_eq!(catalog.items().iter().map(|item| item.matches(&wanted)).collect::<Vec<_>>(), [Some(true)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Catalog {
    items: Vec<Described>,
    /// The root when it was last listed, if nothing can have changed unseen since.
    seen: Option<Stamp>,
}

impl Catalog {
    /// The items, sorted by name.
    pub fn items(&self) -> &[Described] {
        &self.items
    }

    /// Looks what changed. Costs one look at the root where nothing did, and a look at each item where something did. Data sets
    /// that are on no local disk are read anew. Runs on `threads` threads; 0: one a core.
    ///
    /// # Errors
    /// Those of listing and reading. A damaged document is none: it is there as it stands.
    pub fn refresh(&mut self, dataset: &Dataset, threads: usize) -> Result<()> {
        let root = dataset.local_root().and_then(stamp);
        if root.is_some() && root == self.seen {
            return Ok(());
        }
        let names: Vec<String> = dataset
            .store()
            .list_dir(None)?
            .into_iter()
            .filter_map(|entry| match entry {
                DirEntry::Dir(path) if !names::is_hidden(path.as_str()) => Some(path.as_str().to_owned()),
                _ => None,
            })
            .collect();
        self.items = look(dataset, &names, &self.items, threads)?;
        self.seen = root.filter(|&(_, _, seconds, nanos, _)| {
            let changed = Duration::new(u64::try_from(seconds).unwrap_or(0), u32::try_from(nanos).unwrap_or(0));
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            now.saturating_sub(changed) > STEP
        });
        Ok(())
    }
}

/// Each item anew, or as it was known.
fn look(dataset: &Dataset, names: &[String], known: &[Described], threads: usize) -> Result<Vec<Described>> {
    let threads = match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<(usize, Vec<Described>)>> = Mutex::new(Vec::new());
    let work = || -> Result<()> {
        loop {
            let batch = next.fetch_add(1, Ordering::Relaxed);
            let Some(names) = names.chunks(BATCH).nth(batch) else { return Ok(()) };
            let mut items = Vec::with_capacity(names.len());
            for name in names {
                items.extend(one(dataset, name, known)?);
            }
            found.lock().unwrap_or_else(PoisonError::into_inner).push((batch, items));
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(names.len().div_ceil(BATCH))).map(|_| scope.spawn(work)).collect();
        let mine = work();
        others.into_iter().map(|other| other.join().unwrap_or_else(|_| Err(ended()))).fold(mine, Result::and)
    })?;
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_unstable_by_key(|(batch, _)| *batch);
    Ok(found.into_iter().flat_map(|(_, items)| items).collect())
}

fn ended() -> Error {
    Error::storage("a thread that reads metadata ended unexpectedly: this is a defect of sigbank, please report it")
}

/// None for a directory that is no item (any more).
fn one(dataset: &Dataset, name: &str, known: &[Described]) -> Result<Option<Described>> {
    let path = RelPath::parse(name)?.join(ROOT)?;
    // Before reading, so that a change meanwhile is seen the next time.
    let stamp = dataset.local_root().and_then(|root| stamp(&root.join(path.as_str())));
    if stamp.is_some()
        && let Ok(at) = known.binary_search_by(|item| item.name.as_str().cmp(name))
        && let Some(item) = known.get(at).filter(|item| item.stamp == stamp)
    {
        return Ok(Some(item.clone()));
    }
    let text = match documents::text(&**dataset.store(), &path) {
        Ok(text) => text,
        Err(e) if e.code() == Code::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let document = match Json::parse(&text, &Limits::default()) {
        Ok(json) if json.is_object() => Document::Object(json),
        _ => Document::Other(text),
    };
    Ok(Some(Described { name: name.to_owned(), document, stamp }))
}

#[cfg(test)]
mod tests {
    use super::super::{Creation, Dataset};
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes(), &Limits::default()).unwrap()
    }

    fn found(catalog: &Catalog, key: &str, values: &[&str]) -> Vec<String> {
        let wanted = [(key.to_owned(), values.iter().map(|value| json(value)).collect())];
        catalog.items().iter().filter(|item| item.matches(&wanted) == Some(true)).map(|item| item.name().to_owned()).collect()
    }

    #[test]
    fn what_is_added_deleted_and_replaced_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("set");
        let dataset = Dataset::create(&root, &Creation::default()).unwrap();
        for n in 0..200 {
            dataset.add_item(Some(&format!("i{n:03}")), &json(&format!("{{\"n\": {n}, \"odd\": {}}}", n % 2))).unwrap();
        }
        let mut catalog = Catalog::default();
        catalog.refresh(&dataset, 3).unwrap();
        assert!(catalog.items().is_sorted_by_key(Described::name) && catalog.items().len() == 200);
        assert_eq!(found(&catalog, "n", &["7", "8.0", "\"9\""]), ["i007", "i008"]);
        assert_eq!(found(&catalog, "odd", &["true"]).len(), 100);
        std::thread::sleep(STEP + Duration::from_millis(20));
        catalog.refresh(&dataset, 1).unwrap();
        assert!(catalog.seen.is_some());
        dataset.delete_item("i007").unwrap();
        dataset.add_item(Some("i007"), &json(r#"{"n": 1000}"#)).unwrap();
        dataset.delete_item("i008").unwrap();
        std::fs::write(root.join("i009/_metadata.json"), b"{\"n\": NaN}").unwrap();
        catalog.refresh(&dataset, 0).unwrap();
        assert_eq!((found(&catalog, "n", &["7", "8"]), found(&catalog, "n", &["1000"])), (vec![], vec!["i007".to_owned()]));
        let odd: Vec<_> = catalog.items().iter().filter(|item| item.metadata().is_none()).collect();
        assert_eq!((odd.len(), odd[0].name(), odd[0].document_text()), (1, "i009", &b"{\"n\": NaN}"[..]));
    }
}
