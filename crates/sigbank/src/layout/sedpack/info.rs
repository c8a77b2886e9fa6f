//! `dataset_info.json`, the root.

use super::lists::ListRef;
use super::structure::Structure;
use crate::error::{Error, Result};
use serde_json::{Value, json};
use sigbank_format::model::Metadata;

/// The root file of a dataset.
pub const ROOT: &str = "dataset_info.json";

/// The newest `sedpack_version` whose files are understood here.
pub const NEWEST_VERSION: &str = "0.2.0";
/// The version that our files carry: the oldest whose reader understands all that is written here.
pub const WRITTEN_VERSION: &str = "0.1.0";
/// The names a split can have.
pub const SPLITS: [&str; 3] = ["train", "test", "holdout"];

/// The keys of `metadata` and `dataset_structure` that the format knows.
const KNOWN_KEYS: [&str; 11] = [
    "description",
    "dataset_license",
    "dataset_version",
    "download_from",
    "custom_metadata",
    "sedpack_version",
    "saved_data_description",
    "compression",
    "examples_per_shard",
    "shard_file_type",
    "hash_checksum_algorithms",
];

const DEFAULT_LICENSE: &str = "https://creativecommons.org/licenses/by/4.0/";

/// What the root says. Keys that are not known here are kept.
#[derive(Debug, Clone)]
pub struct Info {
    document: Metadata,
    structure: Structure,
    splits: Vec<(String, ListRef)>,
}

fn object<'a>(document: &'a Metadata, key: &str) -> Result<Option<&'a Metadata>> {
    match document.get(key) {
        None => Ok(None),
        Some(Value::Object(o)) => Ok(Some(o)),
        Some(other) => Err(Error::invalid(format!("{key}: an object is expected, found {other}"))),
    }
}

/// The version as numbers, without a pre-release or build mark.
fn version(text: &str) -> Option<[u64; 3]> {
    let core = text.split(['-', '+']).next()?;
    let mut parts = core.split('.').map(|p| p.parse::<u64>().ok().filter(|_| p == "0" || !p.starts_with('0')));
    let found = [parts.next()??, parts.next()??, parts.next()??];
    if parts.next().is_none() { Some(found) } else { None }
}

/// Checks a split's name.
pub(super) fn known_split(name: &str) -> Result<()> {
    if SPLITS.contains(&name) {
        Ok(())
    } else {
        Err(Error::invalid(format!("split '{name}': one of {} is expected", SPLITS.join(", "))))
    }
}

impl Info {
    /// A new dataset's root from its metadata and structure, as `dataset_info.json` would hold them; defaults are filled in.
    ///
    /// # Errors
    /// As [`Structure::parse`]; `Invalid` too for values of the wrong kind in `metadata`.
    ///
    /// ```
    /// use sigbank::layout::sedpack::Info;
    /// let structure = serde_json::json!({"saved_data_description": [{"name": "trace", "dtype": "float16", "shape": [100]}]});
    /// let info = Info::new(Default::default(), structure.as_object().cloned().unwrap_or_default())?;
    /// assert_eq!(info.structure().examples_per_shard, 256);
    /// # Ok::<(), sigbank::Error>(())
    /// ```
    pub fn new(metadata: Metadata, structure: Metadata) -> Result<Self> {
        let mut document = Metadata::new();
        document.insert("metadata".into(), Value::Object(metadata));
        document.insert("dataset_structure".into(), Value::Object(structure));
        let mut info = Self::from_document(document, false)?;
        info.fill_defaults();
        info.not_too_deep()?;
        if let Some(m) = info.document.get_mut("metadata").and_then(Value::as_object_mut) {
            m.insert("sedpack_version".into(), WRITTEN_VERSION.into());
        }
        Ok(info)
    }

    /// Reads a root. `allow_newer` accepts a `sedpack_version` that is not known here.
    ///
    /// # Errors
    /// `Corrupt` where it is no JSON object, `Unsupported` for a newer version, `Invalid` for what does not fit the format.
    pub fn parse(bytes: &[u8], allow_newer: bool) -> Result<Self> {
        let document =
            serde_json::from_slice::<Metadata>(bytes).map_err(|e| Error::corrupt(format!("not a JSON object: {e}")))?;
        Self::from_document(document, allow_newer)
    }

    fn from_document(document: Metadata, allow_newer: bool) -> Result<Self> {
        if let Some(found) = object(&document, "metadata")?.and_then(|m| m.get("sedpack_version")) {
            let parsed = found.as_str().and_then(version).ok_or_else(|| {
                Error::invalid(format!("sedpack_version: a version such as \"{NEWEST_VERSION}\" is expected, found {found}"))
            })?;
            if Some(parsed) > version(NEWEST_VERSION) && !allow_newer {
                return Err(Error::unsupported(format!(
                    "the dataset was written for sedpack_version {found}; the newest known here is {NEWEST_VERSION}"
                ))
                .remedy("update sigbank, or open it with allow_newer if you know that it uses nothing new"));
            }
        }
        let structure = Structure::parse(object(&document, "dataset_structure")?.unwrap_or(&Metadata::new()))
            .map_err(|e| e.within("dataset_structure"))?;
        if let Some(m) = object(&document, "metadata")? {
            for key in ["description", "dataset_license", "dataset_version", "download_from"] {
                if let Some(v) = m.get(key).filter(|v| !v.is_string()) {
                    return Err(Error::invalid(format!("metadata: {key}: text is expected, found {v}")));
                }
            }
            object(m, "custom_metadata").map_err(|e| e.within("metadata"))?;
        }
        let mut splits = Vec::new();
        for (name, value) in object(&document, "splits")?.into_iter().flatten() {
            known_split(name).map_err(|e| e.within("splits"))?;
            let list = ListRef::parse(value).map_err(|e| e.within(format!("splits: {name}")))?;
            if list.file.path.components().next() != Some(name) {
                return Err(Error::corrupt(format!(
                    "splits: {name}: its list '{}' lies outside the split's directory",
                    list.file.path
                )));
            }
            splits.push((name.clone(), list));
        }
        Ok(Self { document, structure, splits })
    }

    fn not_too_deep(&self) -> Result<()> {
        for key in ["metadata", "dataset_structure"] {
            object(&self.document, key)?.map_or(Ok(()), |o| super::lists::not_too_deep(o, key))?;
        }
        Ok(())
    }

    fn fill_defaults(&mut self) {
        let defaults = json!({
            "metadata": {
                "description": "", "dataset_license": DEFAULT_LICENSE, "dataset_version": "1.0.0", "download_from": "",
                "custom_metadata": {}, "sedpack_version": WRITTEN_VERSION
            },
            "dataset_structure": {
                "saved_data_description": [], "compression": "GZIP", "examples_per_shard": 256, "shard_file_type": "fb",
                "hash_checksum_algorithms": ["sha256"]
            },
            "splits": {}
        });
        self.document = with_defaults(&self.document, &defaults);
        let attributes = self.document.get_mut("dataset_structure").and_then(|s| s.get_mut("saved_data_description"));
        for a in attributes.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut) {
            a.entry("custom_metadata").or_insert_with(|| json!({}));
        }
    }

    /// The object `metadata`.
    pub fn metadata(&self) -> Metadata {
        self.document.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default()
    }
    /// The object `dataset_structure`.
    pub fn structure_object(&self) -> Metadata {
        self.document.get("dataset_structure").and_then(Value::as_object).cloned().unwrap_or_default()
    }
    /// The parsed structure.
    pub fn structure(&self) -> &Structure {
        &self.structure
    }
    /// The splits and the lists they begin with, in stored order.
    pub fn splits(&self) -> &[(String, ListRef)] {
        &self.splits
    }
    /// One split's list.
    pub fn split(&self, name: &str) -> Option<&ListRef> {
        self.splits.iter().find(|(n, _)| n == name).map(|(_, list)| list)
    }
    /// Sets one split's list.
    pub(super) fn set_split(&mut self, name: &str, list: ListRef) {
        match self.splits.iter_mut().find(|(n, _)| n == name) {
            Some((_, old)) => *old = list.keeping(old),
            None => self.splits.push((name.to_owned(), list)),
        }
    }
    /// Makes it a root that never was there before, for stores where a change is told by the root's bytes.
    pub(super) fn mark(&mut self) {
        let mark = uuid::Uuid::new_v4().simple().to_string();
        self.document.insert("sigbank_commit".into(), mark.into());
    }
    /// The same root with another `metadata` or `dataset_structure`; the version it carries and the splits stay.
    pub fn with(&self, metadata: Option<Metadata>, structure: Option<Metadata>) -> Result<Self> {
        let mut document = self.document.clone();
        for (key, value) in [("metadata", metadata), ("dataset_structure", structure)] {
            if let Some(mut value) = value {
                // What is not known here stays, as when a list is rewritten.
                for (k, v) in
                    object(&self.document, key)?.into_iter().flatten().filter(|(k, _)| !KNOWN_KEYS.contains(&k.as_str()))
                {
                    value.entry(k.clone()).or_insert_with(|| v.clone());
                }
                document.insert(key.into(), Value::Object(value));
            }
        }
        let mut info = Self::from_document(document, true)?;
        info.fill_defaults();
        info.not_too_deep()?;
        Ok(Self { splits: self.splits.clone(), ..info })
    }
    /// The root's bytes as they lie on disk.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut document = self.document.clone();
        let splits = self.splits.iter().map(|(name, list)| (name.clone(), list.to_value())).collect();
        document.insert("splits".into(), Value::Object(splits));
        super::lists::pretty(&document)
    }
}

/// `found` with what it lacks of `defaults`, the keys in the order of `defaults`, then what only `found` has.
fn with_defaults(found: &Metadata, defaults: &Value) -> Metadata {
    let mut all = Metadata::new();
    for (key, default) in defaults.as_object().into_iter().flatten() {
        let value = match (found.get(key), default) {
            (Some(Value::Object(inner)), Value::Object(d)) if !d.is_empty() => Value::Object(with_defaults(inner, default)),
            (Some(value), _) => value.clone(),
            (None, _) => default.clone(),
        };
        all.insert(key.clone(), value);
    }
    for (key, value) in found {
        all.entry(key.clone()).or_insert_with(|| value.clone());
    }
    all
}
