//! The members of a zip archive as objects, read-only.

use super::*;
use sigbank_format::container::zip::{Archive, Member};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Mutex;
use std::time::Duration;

/// The methods of a [`Store`] that write, for one that is read only.
macro_rules! refuse_writing {
    ($what:literal, $remedy:literal) => {
        fn create(&self, path: &RelPath, _: &[&[u8]]) -> Result<()> {
            Err(Error::read_only($what).at(self.locate(path)).remedy($remedy))
        }
        fn write_new(&self, path: &RelPath) -> Result<Box<dyn NewObject>> {
            Err(Error::read_only($what).at(self.locate(path)).remedy($remedy))
        }
        fn replace(&self, path: &RelPath, _: &[&[u8]], _: Expected<'_>) -> Result<Version> {
            Err(Error::read_only($what).at(self.locate(path)).remedy($remedy))
        }
        fn delete(&self, path: &RelPath) -> Result<()> {
            Err(Error::read_only($what).at(self.locate(path)).remedy($remedy))
        }
        fn flush(&self, paths: &[RelPath]) -> Result<()> {
            paths.iter().try_for_each(|path| self.head(path).map(drop))
        }
    };
}
pub(crate) use refuse_writing;

/// What is left by operating systems in archives, beside the folder that was meant.
const LITTER: [&str; 3] = ["__MACOSX", ".DS_Store", "Thumbs.db"];

/// A zip archive that lies in another store (or on a disk), whose members are the objects. Where everything lies in one folder, or in
/// folders in one another, that folder is the root.
///
/// Stored members are read by ranges, deflated ones are inflated into memory where they are asked for at any position, and the last few are kept. The
/// archive is not unpacked.
///
/// ```no_run
/// use sigbank::store::{LocalStore, Store, ZipStore};
/// use sigbank::uri::RelPath;
/// let disk = LocalStore::open("/data")?;
/// let archive = ZipStore::open(disk.open_read(&RelPath::parse("speech.zip")?)?)?;
/// for entry in archive.list(None)? {
///     println!("{}", entry?.path);
/// }
/// # Ok::<(), sigbank::Error>(())
/// ```
pub struct ZipStore {
    location: String,
    archive: Archive,
    members: BTreeMap<RelPath, usize>,
    version: Version,
    round_trip: u64,
    kept: Mutex<Vec<(usize, Arc<dyn ReadAt>)>>,
}

/// Most bytes of inflated members that are kept, and how many members.
const KEPT: u64 = 64 << 20;
const KEPT_MEMBERS: usize = 64;

impl ZipStore {
    /// Reads an archive's directory.
    ///
    /// # Errors
    /// `Corrupt` for what is no zip archive; `Invalid` for a member whose name leads out of the archive or is absolute.
    pub fn open(file: Arc<dyn StoreFile>) -> Result<Self> {
        Self::open_far(file, 0)
    }

    /// As [`ZipStore::open`], in a store where a request costs as much as so many bytes.
    ///
    /// # Errors
    /// Those of [`ZipStore::open`].
    pub fn open_far(file: Arc<dyn StoreFile>, round_trip: u64) -> Result<Self> {
        let location = file.location().to_owned();
        let size = file.size();
        let located = |e: Error| e.at(&location);
        let archive = Archive::open(file as Arc<dyn ReadAt>).map_err(|e| located(e.into()))?;
        let mut members = BTreeMap::new();
        for (number, member) in archive.members().iter().enumerate() {
            let path = RelPath::parse(&member.name).map_err(|e| located(e.within("a member of the archive")))?;
            members.insert(path, number);
        }
        while let Some(folder) = only_folder(&members)? {
            members = members.iter().filter_map(|(path, &n)| Some((path.strip_prefix(&folder)?, n))).collect();
        }
        let version = Version::new(format!("zip of {size} bytes"));
        Ok(Self { location, archive, members, version, round_trip, kept: Mutex::default() })
    }

    fn find(&self, path: &RelPath) -> Result<(usize, &Member)> {
        let found = self.members.get(path).and_then(|&n| Some((n, self.archive.members().get(n)?)));
        match found {
            None => Err(missing().at(self.locate(path))),
            Some((_, member)) if member.is_link => {
                Err(Error::unsupported("this member is a symbolic link, and those are not followed in archives")
                    .at(self.locate(path)))
            }
            Some(found) => Ok(found),
        }
    }

    fn bytes_of(&self, path: &RelPath) -> Result<Arc<dyn ReadAt>> {
        let (number, member) = self.find(path)?;
        let mut kept = self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(at) = kept.iter().position(|(n, _)| *n == number) {
            let found = kept.remove(at);
            let bytes = Arc::clone(&found.1);
            kept.push(found); // Used last, dropped last.
            return Ok(bytes);
        }
        drop(kept);
        let bytes = self.archive.read_at(member).map_err(|e| Error::from(e).at(self.locate(path)))?;
        let mut kept = self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        kept.push((number, Arc::clone(&bytes)));
        while kept.len() > KEPT_MEMBERS || (kept.len() > 1 && kept.iter().map(|(_, b)| b.size()).sum::<u64>() > KEPT) {
            kept.remove(0);
        }
        Ok(bytes)
    }
}

/// The folder in which everything lies, but for litter.
fn only_folder(members: &BTreeMap<RelPath, usize>) -> Result<Option<RelPath>> {
    let mut folder: Option<&str> = None;
    for path in members.keys() {
        match path.as_str().split_once('/') {
            Some((first, _)) if LITTER.contains(&first) => {}
            None if LITTER.contains(&path.as_str()) => {}
            Some((first, _)) if folder.is_none_or(|known| known == first) => folder = Some(first),
            _ => return Ok(None),
        }
    }
    folder.map(RelPath::parse).transpose()
}

impl fmt::Debug for ZipStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ZipStore({:?}, {} members)", self.location, self.members.len())
    }
}

impl Store for ZipStore {
    fn location(&self) -> String {
        self.location.clone()
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
        let (_, member) = self.find(path)?;
        let mut bytes = Vec::new();
        let read = |out: &mut Vec<u8>| -> Result<()> {
            let mut stream = self.archive.stream(member)?;
            io::Read::read_to_end(&mut stream, out)?;
            Ok(())
        };
        read(&mut bytes).map_err(|e| e.at(self.locate(path)))?;
        Ok((bytes.into(), self.version.clone()))
    }
    fn get_ranges(&self, path: &RelPath, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.open_read(path)?.read_ranges(ranges)
    }
    fn head(&self, path: &RelPath) -> Result<ObjectMeta> {
        Ok(ObjectMeta { size: self.find(path)?.1.size, version: Some(self.version.clone()) })
    }
    fn open_read(&self, path: &RelPath) -> Result<Arc<dyn StoreFile>> {
        Ok(Arc::new(ZipFile { bytes: self.bytes_of(path)?, location: self.locate(path) }))
    }
    fn list(&self, prefix: Option<&RelPath>) -> Result<Listing<'_>> {
        let prefix = prefix.map_or(String::new(), |dir| format!("{dir}/"));
        let from = self.members.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded));
        let below = from.take_while(move |(path, _)| path.as_str().starts_with(&prefix));
        Ok(Box::new(below.filter_map(|(path, &n)| {
            let member = self.archive.members().get(n)?;
            Some(Ok(Entry { path: path.clone(), size: member.size, modified: None }))
        })))
    }
    refuse_writing!("a zip archive is not written to", "unpack it, and write to the folder");
    fn sweep(&self, _: Duration) -> Result<usize> {
        Ok(0)
    }
}

struct ZipFile {
    bytes: Arc<dyn ReadAt>,
    location: String,
}

impl fmt::Debug for ZipFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ZipFile({:?})", self.location)
    }
}

impl ReadAt for ZipFile {
    fn size(&self) -> u64 {
        self.bytes.size()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> sigbank_format::Result<()> {
        self.bytes.read_at(offset, buf)
    }
}

impl StoreFile for ZipFile {
    fn location(&self) -> &str {
        &self.location
    }
    fn stream(self: Arc<Self>) -> Box<dyn io::Read + Send> {
        Box::new(Sequential::new(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;
    use crate::store::LocalStore;

    fn open(name: &str) -> Result<ZipStore> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/zip");
        ZipStore::open(LocalStore::open(folder)?.open_read(&path(name))?)
    }
    fn path(text: &str) -> RelPath {
        RelPath::parse(text).unwrap()
    }

    #[test]
    fn members_are_objects_stored_or_deflated_and_in_folders() {
        let bytes: Vec<u8> = (0..=255).cycle().take(256 * 40).collect();
        for name in ["stored.zip", "deflated.zip", "nested.zip"] {
            let store = open(name).unwrap();
            let mut names: Vec<String> = store.list(None).unwrap().map(|e| e.unwrap().path.to_string()).collect();
            names.retain(|name| !name.contains("MACOSX") && !name.contains(".DS"));
            assert_eq!(names, ["_metadata.json", "a-b/x.bin", "a/empty", "a/x.bin", "é/ö"], "{name}");
            let below: Vec<_> = store.list_dir(Some(&path("a"))).unwrap().iter().map(|e| e.path().to_string()).collect();
            assert_eq!(below, ["a/empty", "a/x.bin"]);
            assert_eq!((&store.get(&path("a/x.bin")).unwrap()[..], store.get(&path("a/empty")).unwrap().len()), (&bytes[..], 0));
            let file = store.open_read(&path("a/x.bin")).unwrap();
            assert_eq!(
                file.read_ranges(&[300..303, 0..1]).unwrap(),
                [Bytes::from_static(&[44, 45, 46]), Bytes::from_static(&[0])]
            );
            assert_eq!(store.head(&path("a/x.bin")).unwrap().size, 256 * 40);
            assert_eq!(store.get(&path("a")).unwrap_err().code(), Code::NotFound);
            assert_eq!(store.create(&path("new"), &[]).unwrap_err().code(), Code::ReadOnly);
        }
    }

    #[test]
    fn members_have_one_name() {
        let memory = MemoryStore::new();
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/zip/");
        for name in ["stored.zip", "deflated.zip"] {
            let whole = std::fs::read(format!("{folder}{name}")).unwrap();
            let head = whole.windows(7).position(|w| w == b"a/x.bin").unwrap();
            for (case, at, bytes) in [("b", head, &b"b"[..]), ("short", head - 4, &[6]), ("gone", head - 30, b"Q")] {
                let mut bad = whole.clone();
                bad[at..at + bytes.len()].copy_from_slice(bytes);
                let name = path(&format!("{case}-{name}"));
                memory.create(&name, &[&bad]).unwrap();
                let store = ZipStore::open(memory.open_read(&name).unwrap()).unwrap();
                let words = ["where its bytes are it is called 'b/x.bin'", "it is called 'a/x.bi'", "where no member does"];
                for e in [store.get(&path("a/x.bin")).unwrap_err(), store.open_read(&path("a/x.bin")).unwrap_err()] {
                    assert!(e.code() == Code::Corrupt && e.path().unwrap().ends_with("a/x.bin"), "{e}");
                    assert!(words.iter().any(|words| e.to_string().contains(words)), "{e}");
                }
                assert_eq!(store.get(&path("a-b/x.bin")).unwrap(), "other");
            }
            // A program that unpacks itself stands before its archive.
            let name = path(&format!("program-{name}"));
            memory.create(&name, &[&[7; 1000], &whole]).unwrap();
            assert_eq!(ZipStore::open(memory.open_read(&name).unwrap()).unwrap().get(&path("a-b/x.bin")).unwrap(), "other");
        }
    }

    #[test]
    fn members_that_lead_elsewhere_or_are_damaged_are_refused() {
        let e = open("escaping.zip").unwrap_err();
        assert!(e.code() == Code::Invalid && e.to_string().contains("../x"), "{e}");
        let e = open("link.zip").unwrap().get(&path("link")).unwrap_err();
        assert!(e.code() == Code::Unsupported && e.to_string().contains("symbolic link"), "{e}");
        let e = open("bzip2.zip").unwrap().get(&path("a")).unwrap_err();
        assert!(e.code() == Code::Unsupported && e.to_string().contains("member 'a'"), "{e}");
        let memory = MemoryStore::new();
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/zip/");
        for name in ["stored.zip", "deflated.zip"] {
            let mut bytes = std::fs::read(format!("{folder}{name}")).unwrap();
            bytes[150] ^= 4; // Inside a/x.bin.
            memory.create(&path(name), &[&bytes]).unwrap();
            let store = ZipStore::open(memory.open_read(&path(name)).unwrap()).unwrap();
            let e = store.get(&path("a/x.bin")).unwrap_err();
            assert!(e.code() == Code::Corrupt && e.path().unwrap().ends_with(&format!("{name}/a/x.bin")), "{e}");
            memory.create(&path(&format!("cut-{name}")), &[&bytes[..bytes.len() - 30]]).unwrap();
            let e = ZipStore::open(memory.open_read(&path(&format!("cut-{name}"))).unwrap()).unwrap_err();
            assert_eq!(e.code(), Code::Corrupt, "{e}");
        }
    }
}
