//! An HDF5 file as a store, read-only, with the folder's layout.

use super::file::{Body, Content, HdfFile};
use super::{attrs, types};
use crate::error::{Code, Error, Result};
use crate::layout::jbof::{ROOT, documents, names};
use crate::store::{
    Capabilities, DirEntry, Entry, Expected, Listing, NewObject, ObjectMeta, Store, StoreFile, Version, missing, refuse_writing,
    zeroed,
};
use crate::uri::RelPath;
use bytes::Bytes;
use documents::{FILENAME, KEPT};
use hdf5_pure::{ChunkCacheConfig, Dataset, FileAccessProperties, Group, Layout, MetadataCacheConfig, VlenStringReadOptions};
use serde_json::{Map, Value};
use sigbank_format::array::npy;
use sigbank_format::model::array::byte_len;
use sigbank_format::model::{DType, Kind};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use types::Elements;

/// Most bytes of documents that are kept.
const KEPT_DOCUMENTS: usize = 32 << 20;
/// Items whose arrays are kept.
const KEPT_ITEMS: usize = 64;
/// Most bytes of whole chunks that are decoded at once, and kept for who reads on.
const WINDOW: u64 = 64 << 20;
/// Most bytes of elements that need not be in the file, and how many times smaller than they deflate makes them.
const MOST_UNSEEN: u64 = 1 << 30;
const MOST_SMALLER: u64 = 1100;
/// Most bytes that texts of any length may take when they are of one width.
const MOST_TEXT: usize = 1 << 30;

/// An HDF5 file of a data set: the objects are those that the folder would have, an array being `<item>/<array>.npy` whatever file it was
/// exported from ([`HdfStore::stored_name`] has that).
///
/// Opening lists the groups of the root. Elements that lie in one piece are read by ranges; of chunked ones, the chunks that a range touches are decoded,
/// up to 64 MiB at once, or a row where one is longer. Texts of any length are read whole, as are attributes. A list of lists in an attribute (which
/// sigbank never writes) arrives as one list.
pub struct HdfStore {
    file: Arc<dyn StoreFile>,
    items: BTreeMap<String, Group>,
    root: Group,
    version: Version,
    round_trip: u64,
    documents: Mutex<(usize, HashMap<String, Bytes>)>,
    arrays: Mutex<Vec<(String, Arrays)>>,
}

type Arrays = Arc<BTreeMap<String, Dataset>>;

struct Bytesource(Arc<dyn StoreFile>);

impl hdf5_pure::Source for Bytesource {
    fn len(&self) -> u64 {
        self.0.size()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::result::Result<(), hdf5_pure::FormatError> {
        self.0.read_at(offset, buf).map_err(|e| hdf5_pure::FormatError::Source(e.to_string()))
    }
}

/// Runs the HDF5 library, whose every failure (a panic at a damaged file too) becomes an error.
pub(super) fn guarded<T>(work: impl FnOnce() -> std::result::Result<T, hdf5_pure::Error>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(hdf5_pure::Error::Io(e))) => Err(e.into()),
        Ok(Err(e)) => {
            let text = e.to_string();
            // The address of what has none: that of a link's target.
            if text.contains(&u64::MAX.to_string()) {
                return Err(Error::unsupported(format!("a group has a symbolic link, which is not followed here ({text})"))
                    .remedy("copy the file with h5repack or h5py, links replaced by what they lead to"));
            }
            let unsupported = text.to_ascii_lowercase().contains("unsupported") || format!("{e:?}").contains("Unsupported");
            Err(if unsupported { Error::unsupported(text) } else { Error::corrupt(text) })
        }
        Err(_) => Err(Error::corrupt("the file's structure contradicts itself").remedy("look at it with h5dump, or restore it")),
    }
}

/// What stands at a path.
enum Found<'a> {
    Root,
    Item(&'a str, &'a Group),
    Document(&'a str, String, Dataset),
    Elements(Dataset),
}

impl HdfStore {
    /// Reads the names of the items of an HDF5 file.
    ///
    /// # Errors
    /// `Corrupt` for what is no HDF5 file; `Unsupported` for a variant that is not handled.
    pub fn open(file: Arc<dyn StoreFile>) -> Result<Self> {
        Self::open_far(file, 0)
    }

    /// As [`HdfStore::open`], in a store where a request costs as much as so many bytes.
    ///
    /// # Errors
    /// Those of [`HdfStore::open`].
    pub fn open_far(file: Arc<dyn StoreFile>, round_trip: u64) -> Result<Self> {
        let located = |e: Error| e.at(file.location());
        let mut magic = [0; 8];
        let begins = |at: u64, magic: &mut [u8; 8]| file.read_at(at, magic).is_ok() && magic == b"\x89HDF\r\n\x1a\n";
        // Behind a block of the user's, which MATLAB has, too.
        if !(0..24).map(|n| if n == 0 { 0 } else { 256 << n }).any(|at| begins(at, &mut magic)) {
            return Err(located(Error::corrupt("this is no HDF5 file").remedy("check the path")));
        }
        let (root, items) = guarded(|| {
            let properties = FileAccessProperties::new()
                .with_metadata_cache(MetadataCacheConfig::new(8 << 20))
                .with_chunk_cache(ChunkCacheConfig::from_h5p_cache(521, 1 << 20));
            let opened = hdf5_pure::File::from_source_with_options(Bytesource(Arc::clone(&file)), properties)?;
            let items = opened.root().iter_groups()?.filter(|(name, _)| names::item(name).is_ok()).collect();
            Ok((opened.root(), items))
        })
        .map_err(located)?;
        let version = Version::new(format!("hdf5 of {} bytes", file.size()));
        let (documents, arrays) = Default::default();
        Ok(Self { file, items, root, version, round_trip, documents, arrays })
    }

    /// The name of the file that an array was exported from, and that it becomes again: `<array>.npy` where the file does not say.
    ///
    /// # Errors
    /// `NotFound` where there is no such array.
    pub fn stored_name(&self, item: &str, array: &str) -> Result<String> {
        let path = RelPath::parse(item)?.join(&format!("{array}.npy"))?;
        let Found::Elements(dataset) = self.find(&path)? else { return Err(missing().at(self.locate(&path))) };
        let mut members = self.members_of(&dataset).map_err(|e| e.at(self.locate(&path)))?;
        let named = members.remove(FILENAME).filter(Value::is_string);
        Ok(named.and_then(|name| crate::layout::jbof::item::file_of(Some(&name)).ok()).unwrap_or_else(|| format!("{array}.npy")))
    }

    fn members_of(&self, dataset: &Dataset) -> Result<Map<String, Value>> {
        let (attributes, datatypes) = guarded(|| Ok((dataset.attrs()?, dataset.attr_datatypes()?)))?;
        attrs::to_members(&attributes, &datatypes)
    }

    fn arrays(&self, item: &str) -> Result<Arrays> {
        let group = self.items.get(item).ok_or_else(missing)?;
        let mut kept = self.arrays.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, arrays)) = kept.iter().find(|(name, _)| name == item) {
            return Ok(Arc::clone(arrays));
        }
        let arrays: BTreeMap<_, _> =
            guarded(|| Ok(group.iter_datasets()?.filter(|(name, _)| names::array(name).is_ok()).collect()))?;
        let arrays = Arc::new(arrays);
        if kept.len() >= KEPT_ITEMS {
            kept.remove(0);
        }
        kept.push((item.to_owned(), Arc::clone(&arrays)));
        Ok(arrays)
    }

    fn find(&self, path: &RelPath) -> Result<Found<'_>> {
        self.look(path).map_err(|e| e.at(self.locate(path)))
    }
    fn look(&self, path: &RelPath) -> Result<Found<'_>> {
        let Some((item, file)) = path.as_str().split_once('/') else {
            return if path.as_str() == ROOT { Ok(Found::Root) } else { Err(missing()) };
        };
        let (item, group) = self.items.get_key_value(item).ok_or_else(missing)?;
        if file == ROOT {
            return Ok(Found::Item(item, group));
        }
        let (array, extension) = file.rsplit_once('.').ok_or_else(missing)?;
        let dataset = self.arrays(item)?.get(array).cloned().ok_or_else(missing)?;
        match extension {
            "json" => Ok(Found::Document(item, array.to_owned(), dataset)),
            "npy" => Ok(Found::Elements(dataset)),
            _ => Err(missing()),
        }
    }

    /// A document, or none for elements.
    fn document(&self, found: &Found<'_>) -> Result<Option<Bytes>> {
        let (key, dataset) = match found {
            Found::Elements(_) => return Ok(None),
            Found::Root => (String::new(), None),
            Found::Item(item, _) => ((*item).to_owned(), None),
            Found::Document(item, array, dataset) => (format!("{item}/{array}"), Some((array, dataset))),
        };
        if let Some(text) = self.documents.lock().unwrap_or_else(PoisonError::into_inner).1.get(&key) {
            return Ok(Some(text.clone()));
        }
        let of_group = |group: &Group| {
            let (attributes, datatypes) = guarded(|| Ok((group.attrs()?, group.attr_datatypes()?)))?;
            attrs::to_members(&attributes, &datatypes)
        };
        let members = match (found, dataset) {
            (_, Some((array, dataset))) => {
                let mut members = self.members_of(dataset)?;
                members.insert(FILENAME.to_owned(), format!("{array}.npy").into());
                members.remove(KEPT);
                members
            }
            (Found::Item(_, group), _) => of_group(group)?,
            _ => {
                let mut members = of_group(&self.root)?;
                members.entry(documents::ITEMFORMAT).or_insert(Value::Null);
                members
            }
        };
        let text = Bytes::from(documents::rendered(members)?);
        let mut kept = self.documents.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.0 + text.len() > KEPT_DOCUMENTS {
            *kept = Default::default();
        }
        kept.0 += text.len();
        kept.1.insert(key, text.clone());
        Ok(Some(text))
    }

    fn file_of(&self, path: &RelPath) -> Result<Arc<dyn StoreFile>> {
        let open = || -> Result<HdfFile> {
            let found = self.look(path)?;
            let content = match (self.document(&found)?, found) {
                (Some(text), _) => Content { head: text, body: Body::None, len: 0 },
                (None, Found::Elements(dataset)) => self.content(dataset)?,
                _ => return Err(missing()),
            };
            let size = content.head.len() as u64 + content.len;
            Ok(HdfFile { location: self.locate(path), size, content })
        };
        Ok(Arc::new(open().map_err(|e| e.at(self.locate(path)))?))
    }

    /// An npy file of a data set's elements.
    fn content(&self, dataset: Dataset) -> Result<Content> {
        let (datatype, shape, layout) = guarded(|| Ok((dataset.datatype()?, dataset.shape()?, dataset.layout()?)))?;
        let shape = shape.into_iter().map(|n| usize::try_from(n).map_err(|_| too_large())).collect::<Result<Vec<_>>>()?;
        let dtype = match types::to_dtype(&datatype) {
            Some(Elements::Plain(dtype)) => dtype,
            Some(Elements::Texts) => return texts(&dataset, &shape),
            None => {
                return Err(Error::unsupported("the elements are of an HDF5 type that arrays have nothing for")
                    .remedy("read the array with h5py, or store it as numbers"));
            }
        };
        let head = Bytes::from(npy::header(&dtype, &shape)?);
        let len = byte_len(&dtype, &shape)? as u64;
        let body = match layout {
            _ if len == 0 => Body::None,
            Layout::Contiguous { address: Some(at), size } if size >= len => {
                if at.checked_add(len).is_none_or(|end| end > self.file.size()) {
                    return Err(Error::corrupt(format!(
                        "{len} bytes of elements are expected at offset {at}, but the file has {} in all: it was cut short or is damaged",
                        self.file.size()
                    )));
                }
                Body::Direct(Arc::clone(&self.file), at)
            }
            // Whoever reads takes so much memory, for what chunks that are hardly there may hold.
            _ if len > MOST_UNSEEN.max(self.file.size().saturating_mul(MOST_SMALLER)) => {
                return Err(Error::limit(format!("a shape of {len} bytes is declared, in a file of {}", self.file.size()))
                    .remedy("it is damaged, or most of it was never written: read the part that was with h5py"));
            }
            Layout::Virtual => {
                return Err(Error::unsupported("a virtual data set, whose elements are in other files")
                    .remedy("write it as one with elements of its own"));
            }
            other => {
                let rows = shape.first().copied().unwrap_or(1).max(1) as u64;
                let row = len / rows;
                let chunk = match other {
                    Layout::Chunked { chunk_shape, .. } => chunk_shape.first().copied().unwrap_or(1).max(1),
                    _ => rows,
                };
                // Whole chunks, as many as fit.
                let step = if chunk.saturating_mul(row) <= WINDOW { (WINDOW / row.max(1) / chunk).max(1) * chunk } else { 1 };
                let step = if step > 1 { step.min(chunk * (MORE / (chunk * row).max(1)).max(1)) } else { step };
                Body::Rows { dataset, row, step, window: Mutex::default() }
            }
        };
        Ok(Content { head, body, len })
    }
}

/// Bytes of chunks that are read together where chunks are small.
const MORE: u64 = 1 << 20;

fn too_large() -> Error {
    Error::limit("an array that is larger than memory can be")
}

/// Texts of any length as texts of the longest one's width.
fn texts(dataset: &Dataset, shape: &[usize]) -> Result<Content> {
    let most = VlenStringReadOptions::new().with_max_elements(MOST_TEXT / 16).with_max_payload_bytes(MOST_TEXT);
    let texts = guarded(|| dataset.read_vlen_strings(most))?;
    let width = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(1);
    let dtype = DType::new(Kind::Unicode, width.saturating_mul(4))?;
    let len = byte_len(&dtype, shape)?;
    if len > MOST_TEXT || texts.len().saturating_mul(width.saturating_mul(4)) != len {
        return Err(Error::limit(format!("texts of up to {width} characters would take {len} bytes"))
            .remedy("store long texts in the metadata"));
    }
    let mut bytes = npy::header(&dtype, shape)?;
    bytes.reserve(len);
    for text in &texts {
        let end = bytes.len() + 4 * width;
        text.chars().for_each(|c| bytes.extend_from_slice(&u32::from(c).to_le_bytes()));
        bytes.resize(end, 0);
    }
    Ok(Content { head: bytes.into(), body: Body::None, len: 0 })
}

impl fmt::Debug for HdfStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HdfStore({:?}, {} items)", self.file.location(), self.items.len())
    }
}

impl Store for HdfStore {
    fn location(&self) -> String {
        self.file.location().to_owned()
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            write: false,
            compare_and_swap: false,
            locks: false,
            turns: false,
            flush: false,
            round_trip: self.round_trip,
        }
    }
    fn get_versioned(&self, path: &RelPath) -> Result<(Bytes, Version)> {
        let file = self.file_of(path)?;
        let mut bytes = zeroed(file.size()).map_err(|e| e.at(self.locate(path)))?;
        file.read_at(0, &mut bytes).map_err(|e| Error::from(e).at(self.locate(path)))?;
        Ok((bytes.into(), self.version.clone()))
    }
    fn get_ranges(&self, path: &RelPath, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.file_of(path)?.read_ranges(ranges)
    }
    fn head(&self, path: &RelPath) -> Result<ObjectMeta> {
        Ok(ObjectMeta { size: self.file_of(path)?.size(), version: Some(self.version.clone()) })
    }
    fn open_read(&self, path: &RelPath) -> Result<Arc<dyn StoreFile>> {
        self.file_of(path)
    }
    fn list(&self, prefix: Option<&RelPath>) -> Result<Listing<'_>> {
        let below = |item: &str| prefix.is_none_or(|prefix| prefix.as_str() == item);
        let root = prefix.is_none().then(|| RelPath::parse(ROOT).and_then(|path| self.entry(path)));
        let items = self.items.keys().filter(move |item| below(item)).flat_map(move |item| match self.files(item) {
            Ok(files) => files.into_iter().map(Ok).collect(),
            Err(e) => vec![Err(e)],
        });
        Ok(Box::new(root.into_iter().chain(items.collect::<Vec<_>>())))
    }
    fn list_dir(&self, dir: Option<&RelPath>) -> Result<Vec<DirEntry>> {
        let Some(dir) = dir else {
            let mut found = self.items.keys().map(|item| Ok(DirEntry::Dir(RelPath::parse(item)?))).collect::<Result<Vec<_>>>()?;
            found.push(DirEntry::Object(self.entry(RelPath::parse(ROOT)?)?));
            return Ok(found);
        };
        match self.items.contains_key(dir.as_str()) {
            true => Ok(self.files(dir.as_str())?.into_iter().map(DirEntry::Object).collect()),
            false => Ok(Vec::new()),
        }
    }
    refuse_writing!("an HDF5 file is not written to", "make a folder of it (in Python: hdf_to_dataset), and write to that");
}

impl HdfStore {
    fn entry(&self, path: RelPath) -> Result<Entry> {
        // What cannot be read is listed all the same: reading it tells why.
        let size = match self.head(&path) {
            Err(e) if e.code() == Code::Unsupported => 0,
            other => other?.size,
        };
        Ok(Entry { path, size, modified: None })
    }
    /// The files of an item, sorted.
    fn files(&self, item: &str) -> Result<Vec<Entry>> {
        let dir = RelPath::parse(item)?;
        let arrays = self.arrays(item).map_err(|e| e.at(self.locate(&dir)))?;
        let names = arrays.keys().flat_map(|name| [format!("{name}.json"), format!("{name}.npy")]);
        let mut paths = names.chain([ROOT.to_owned()]).map(|name| dir.join(&name)).collect::<std::result::Result<Vec<_>, _>>()?;
        paths.sort();
        paths.into_iter().map(|path| self.entry(path)).collect()
    }
}
