//! An item and its arrays.

use super::dataset::Inner;
use super::documents::{self, FILENAME, KEPT};
use super::write::ArrayFile;
use super::{ROOT, names};
use crate::error::{Code, Error, Result};
use crate::store::{DirEntry, ReadAt, StoreFile};
use crate::uri::RelPath;
use bytes::Bytes;
use rustix::fs::{FileType, Mode, OFlags};
use serde_json::{Map, Value, json};
use sigbank_format::array::{self, ArrayReader, Encoded, Format, Options, mat};
use sigbank_format::model::json::Json;
use sigbank_format::model::{Array, ByteOrder, DType};
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

/// The ending of an array's document.
pub(super) const DOCUMENT: &str = ".json";

/// An item: metadata, and arrays by name. It is read anew on each call, so that it shows what others wrote.
#[derive(Debug, Clone)]
pub struct Item {
    inner: Arc<Inner>,
    name: String,
}

impl Item {
    pub(super) fn new(inner: Arc<Inner>, name: &str) -> Self {
        Self { inner, name: name.to_owned() }
    }

    fn dir(&self) -> Result<RelPath> {
        names::item(&self.name)
    }
    /// Its name, which is that of its directory.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Its directory, as people know it.
    pub fn location(&self) -> String {
        self.dir().map_or_else(|_| self.name.clone(), |dir| self.inner.store.locate(&dir))
    }
    /// The document of its metadata as it stands: Python's JSON has numbers (NaN, infinities) that JSON has not.
    ///
    /// # Errors
    /// `NotFound` where the item was deleted.
    pub fn document_text(&self) -> Result<Bytes> {
        documents::text(&*self.inner.store, &self.dir()?.join(ROOT)?).map_err(|e| match e.code() {
            Code::NotFound => self.gone(),
            _ => e,
        })
    }
    fn gone(&self) -> Error {
        Error::not_found(format!("there is no item {:?}", self.name)).at(self.inner.store.location())
    }
    /// Its metadata, an object; numbers that are none (NaN, infinities) are null.
    ///
    /// # Errors
    /// `NotFound` where the item was deleted; `Corrupt` where the document is no JSON object.
    pub fn metadata(&self) -> Result<Json> {
        let object = documents::object(&self.document_text()?).map_err(|e| e.at(self.location()))?;
        Ok(Json::from_value(&Value::Object(object))?)
    }

    /// The names of its arrays, sorted.
    ///
    /// # Errors
    /// Those of the store.
    pub fn array_names(&self) -> Result<Vec<String>> {
        if let Some(mut found) = self.inner.dir.as_ref().and_then(|root| names_near(root, &self.name)) {
            found.sort_unstable();
            return Ok(found);
        }
        let entries = self.inner.store.list_dir(Some(&self.dir()?))?;
        let documents = entries.iter().filter_map(|entry| match entry {
            DirEntry::Object(object) => object.path.file_name().strip_suffix(DOCUMENT),
            DirEntry::Dir(_) => None,
        });
        let mut found: Vec<String> = documents.filter(|name| names::array(name).is_ok()).map(str::to_owned).collect();
        found.sort_unstable(); // The endings may have sorted otherwise.
        Ok(found)
    }
    /// Its arrays, sorted by name.
    ///
    /// # Errors
    /// Those of the store, and `Corrupt` for a damaged document.
    pub fn arrays(&self) -> Result<Vec<ArrayEntry>> {
        self.array_names()?.iter().map(|name| self.array(name)).collect()
    }
    /// Whether there is an array of this name.
    ///
    /// # Errors
    /// Those of the store.
    pub fn has_array(&self, name: &str) -> Result<bool> {
        match names::array(name) {
            Ok(()) => self.inner.has(&self.document_path(name)?),
            Err(_) => Ok(false),
        }
    }
    /// What changes when the array of this name is replaced: its document's inode, and when that was changed, in seconds and nanoseconds. None where it is
    /// not there, or the data set is on no local disk.
    ///
    /// ```
    /// use sigbank::layout::jbof::{ArrayFile, Creation, Dataset};
    /// use sigbank::format::model::json::Json;
    /// let dir = tempfile::tempdir()?;
    /// let item = Dataset::create(&dir.path().join("a"), &Creation::default())?.add_item(Some("i"), &Json::EMPTY)?;
    /// item.add_array("x", &ArrayFile::new("npy", &[b""]), &Json::EMPTY)?;
    /// assert!(item.array_stamp("x").is_some() && item.array_stamp("x") == item.array_stamp("x") && item.array_stamp("y").is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn array_stamp(&self, name: &str) -> Option<(u64, i64, i64)> {
        let path = format!("{}/{name}{DOCUMENT}", self.name);
        let found = rustix::fs::statat(self.inner.dir.as_ref()?, path, rustix::fs::AtFlags::empty()).ok()?;
        Some((found.st_ino, found.st_mtime, found.st_mtime_nsec.try_into().unwrap_or(0)))
    }
    /// The array of this name.
    ///
    /// # Errors
    /// `NotFound` where there is none; `Corrupt` for a document that is no object or names no file of the item.
    pub fn array(&self, name: &str) -> Result<ArrayEntry> {
        let missing = || match self.inner.store.list_dir(self.dir().ok().as_ref()) {
            Ok(files) if files.is_empty() => self.gone(),
            _ => Error::not_found(format!("there is no array {name:?} in the item {:?}", self.name)).at(self.location()),
        };
        names::array(name).map_err(|_| missing())?;
        let path = self.document_path(name)?;
        let text = documents::text(&*self.inner.store, &path).map_err(|e| match e.code() {
            Code::NotFound => missing(),
            _ => e,
        })?;
        let read = || -> Result<_> {
            let mut document = documents::object_of_any(&text)?;
            let file = file_of(document.remove(FILENAME).as_ref())?;
            let kept = document.remove(KEPT).map(|kept| Kept::read(&kept)).transpose()?;
            Ok((document, file, kept))
        };
        let (document, file, kept) = read().map_err(|e| e.at(self.inner.store.locate(&path)))?;
        Ok(ArrayEntry {
            text,
            kept,
            inner: Arc::clone(&self.inner),
            item: self.name.clone(),
            name: name.to_owned(),
            path: self.dir()?.join(&file)?,
            document,
            metadata: OnceLock::new(),
        })
    }

    /// Adds an array: its file and its metadata become visible together, and of any number of writers of one name exactly one succeeds.
    ///
    /// # Errors
    /// `ReadOnly` for a data set that was opened to read; `AlreadyExists` where the name is taken; `NotFound` where the item was deleted;
    /// `Invalid` for a name that is not one path component and for metadata that are no object or hold a key of the layout's own.
    pub fn add_array(&self, name: &str, file: &ArrayFile<'_>, metadata: &Json) -> Result<ArrayEntry> {
        self.add_array_keeping(name, file, metadata, None)
    }

    /// As [`Item::add_array`], with what the file's format cannot hold of the array.
    ///
    /// # Errors
    /// Those of [`Item::add_array`].
    pub fn add_array_keeping(
        &self,
        name: &str,
        file: &ArrayFile<'_>,
        metadata: &Json,
        kept: Option<&Kept>,
    ) -> Result<ArrayEntry> {
        self.put_array(name, file, metadata, kept)?;
        self.array(name)
    }

    /// As [`Item::add_array_keeping`], without looking at what was written; gives its document.
    ///
    /// # Errors
    /// Those of [`Item::add_array`].
    pub fn put_array(&self, name: &str, file: &ArrayFile<'_>, metadata: &Json, kept: Option<&Kept>) -> Result<Bytes> {
        let writer = self.inner.writer()?;
        names::array(name)?;
        let file_name = format!("{name}.{}", file.extension());
        let document = documents::write(
            metadata,
            [Some((FILENAME, file_name.as_str().into())), kept.map(|kept| (KEPT, kept.json()))].into_iter().flatten(),
        )?;
        writer.add_array(&self.dir()?, name, &file_name, file, &document)?;
        Ok(document.into())
    }

    /// Deletes an array, in one step for everyone.
    ///
    /// # Errors
    /// `ReadOnly` for a data set that was opened to read; `NotFound` where there is no such array.
    pub fn delete_array(&self, name: &str) -> Result<()> {
        let writer = self.inner.writer()?;
        let entry = self.array(name)?;
        writer.delete_array(&self.dir()?, name, &entry.path)
    }

    fn document_path(&self, name: &str) -> Result<RelPath> {
        self.dir()?.join(&format!("{name}{DOCUMENT}"))
    }
}

/// The names of the arrays of an item in a local directory, without a look at each file; none where that is not so simple: links, an error to be told.
fn names_near(root: &OwnedFd, item: &str) -> Option<Vec<String>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let dir = rustix::fs::openat(root, item, flags, Mode::empty()).ok()?;
    let mut found = Vec::new();
    for entry in rustix::fs::Dir::new(dir).ok()? {
        let entry = entry.ok()?;
        let Some(name) = entry.file_name().to_str().ok()?.strip_suffix(DOCUMENT) else { continue };
        match entry.file_type() {
            FileType::RegularFile if names::array(name).is_ok() => found.push(name.to_owned()),
            FileType::RegularFile | FileType::Directory => {}
            _ => return None,
        }
    }
    Some(found)
}

/// The file that an array's document names. Old data hold a longer path there, of which only the last component counts.
pub(super) fn file_of(value: Option<&Value>) -> Result<String> {
    let Some(Value::String(text)) = value else {
        return Err(Error::corrupt(format!("the document of an array names its file as {FILENAME:?}, and this one does not")));
    };
    let name = text.rsplit(['/', '\\']).next().unwrap_or_default();
    match RelPath::parse(name) {
        Ok(_) => Ok(name.to_owned()),
        Err(_) => Err(Error::corrupt(format!("{FILENAME} is {text:?}, which names no file of the item"))),
    }
}

/// What a file's format cannot hold of an array, and its document therefore says (under `_sigbank`, which is no metadata; the reference
/// package takes it for some): wav has (n,) for (n, 1), mat at least two axes, and neither bool nor float16.
///
/// ```
/// use sigbank::layout::jbof::Kept;
/// let kept = Kept { shape: vec![3], dtype: Some("float16".parse()?) };
/// assert_eq!(kept.shape, [3]);
/// # Ok::<(), sigbank::format::FormatError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// The array's shape, of as many elements as the file has.
    pub shape: Vec<usize>,
    /// Its dtype, where it is another than the file's.
    pub dtype: Option<DType>,
}

impl Kept {
    /// What the file that was made of an array does not hold of it.
    ///
    /// # Errors
    /// `Corrupt` where the file is none of the format.
    ///
    /// ```
    /// use sigbank::format::array::{self, EncodeOptions, Format};
    /// use sigbank::format::model::Array;
    /// use sigbank::layout::jbof::Kept;
    /// let flags = Array::new("bool".parse()?, vec![3], vec![1, 0, 1].into())?;
    /// let file = array::encode(Format::Mat, &flags, &EncodeOptions { name: "flags", ..Default::default() })?;
    /// assert_eq!(Kept::of(Format::Mat, &flags, &file, "flags")?.unwrap().shape, [3]);
    /// # Ok::<(), sigbank::Error>(())
    /// ```
    pub fn of(format: Format, array: &Array, file: &Encoded, name: &str) -> Result<Option<Self>> {
        let shape = array.shape().to_vec();
        match (format, file.parts.first()) {
            (Format::Npy, _) => Ok(None),
            (Format::Mat, Some(bytes)) => {
                let reader = mat::open(Arc::new(bytes.clone()), name)?;
                let native = array.dtype().clone().with_order(ByteOrder::Little);
                let dtype = (reader.info().dtype != native).then_some(native);
                Ok((dtype.is_some() || reader.info().shape != shape).then_some(Self { shape, dtype }))
            }
            // One channel is read as (frames,).
            _ => Ok(matches!(shape[..], [_, 1]).then_some(Self { shape, dtype: None })),
        }
    }
    pub(super) fn json(&self) -> Value {
        match &self.dtype {
            Some(dtype) => json!({"shape": self.shape, "dtype": dtype.to_string()}),
            None => json!({"shape": self.shape}),
        }
    }
    fn read(value: &Value) -> Result<Self> {
        let shape = value.get("shape").and_then(Value::as_array).and_then(|lengths| {
            lengths.iter().map(|n| n.as_u64().and_then(|n| usize::try_from(n).ok())).collect::<Option<Vec<_>>>()
        });
        let dtype = match value.get("dtype") {
            Some(Value::String(name)) => Some(name.parse::<DType>()?),
            _ => None,
        };
        let shape = shape.ok_or_else(|| Error::corrupt(format!("{KEPT} is {value}, which gives no shape")))?;
        Ok(Self { shape, dtype })
    }
}

/// An array: where it is, and its metadata. Its elements are read by [`ArrayEntry::open`].
#[derive(Debug, Clone)]
pub struct ArrayEntry {
    inner: Arc<Inner>,
    item: String,
    name: String,
    path: RelPath,
    /// The document without the layout's own keys, and what [`ArrayEntry::metadata`] makes of it, once.
    document: Map<String, Value>,
    metadata: OnceLock<Json>,
    text: Bytes,
    kept: Option<Kept>,
}

impl ArrayEntry {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Its metadata, an object.
    pub fn metadata(&self) -> &Json {
        // What was read from JSON is JSON.
        self.metadata.get_or_init(|| Json::from_value(&Value::Object(self.document.clone())).unwrap_or(Json::EMPTY))
    }
    /// Its document as it stands, with the layout's own keys: Python's JSON has numbers (NaN, infinities) that JSON has not.
    pub fn document_text(&self) -> &Bytes {
        &self.text
    }
    /// What its file does not hold of it.
    pub fn kept(&self) -> Option<&Kept> {
        self.kept.as_ref()
    }
    /// Its file, relative to the data set.
    pub fn path(&self) -> &RelPath {
        &self.path
    }
    /// Its file, as people know it.
    pub fn location(&self) -> String {
        self.inner.store.locate(&self.path)
    }
    /// The name of its file; in an HDF5 file, that of the file that it was exported from.
    ///
    /// # Errors
    /// Those of the store.
    pub fn stored_name(&self) -> Result<String> {
        match &self.inner.hdf {
            Some(hdf) => hdf.stored_name(&self.item, &self.name),
            None => Ok(self.path.file_name().to_owned()),
        }
    }
    /// Whether it is in an HDF5 file.
    pub(super) fn is_of_hdf(&self) -> bool {
        self.inner.hdf.is_some()
    }
    /// The file's format, by its extension; the content decides where it says another.
    ///
    /// # Errors
    /// `Unsupported` for an extension that is none of an array.
    pub fn format(&self) -> Result<Format> {
        let name = self.path.file_name();
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        Format::from_extension(extension)
            .ok_or_else(|| Error::unsupported(format!("files of the kind {extension:?} are no arrays")).at(self.location()))
    }
    /// The file for reading.
    ///
    /// # Errors
    /// `NotFound` where the data file is gone.
    pub fn file(&self) -> Result<Arc<dyn StoreFile>> {
        self.inner.store.open_read(&self.path).map_err(|e| match e.code() {
            Code::NotFound => Error::not_found(format!("the file of the array {:?} is gone", self.name))
                .at(self.location())
                .remedy("restore it, or delete the array"),
            _ => e,
        })
    }
    /// Opens the array: dtype and shape are known, its elements are read by windows.
    ///
    /// # Errors
    /// `NotFound` where the file is gone; those of [`array::open_with`].
    pub fn open(&self, options: Options) -> Result<Box<dyn ArrayReader>> {
        self.open_source(self.file()?, options)
    }
    /// As [`ArrayEntry::open`], from the file's bytes wherever they are.
    ///
    /// # Errors
    /// Those of [`array::open_with`].
    pub fn open_source(&self, src: Arc<dyn ReadAt>, options: Options) -> Result<Box<dyn ArrayReader>> {
        let opened = match self.format()? {
            Format::Mat => mat::open(src, &self.name),
            format => array::open_with(src, format, options),
        };
        opened.map_err(|e| Error::from(e).at(self.location()))
    }
}
