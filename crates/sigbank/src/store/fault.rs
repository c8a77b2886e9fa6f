//! A store that fails on command, for tests of what stands on stores.

use super::*;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// The kinds of calls that a [`FaultStore`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// `get` and `get_versioned`.
    Get,
    /// `get_ranges`.
    GetRanges,
    /// `head`.
    Head,
    /// `open_read`.
    OpenRead,
    /// One `read_at` of an object that was opened with `open_read`.
    ReadAt,
    /// `list` and `list_dir`.
    List,
    /// `create`.
    Create,
    /// `write_new`.
    WriteNew,
    /// One `write` to what `write_new` gave.
    Write,
    /// The `commit` of what `write_new` gave.
    Commit,
    /// `replace`.
    Replace,
    /// `delete`.
    Delete,
    /// `flush`, once for all its paths.
    Flush,
    /// `try_lock`; the path is the lock's name.
    Lock,
}

impl Op {
    /// Whether the call changes what others read.
    pub fn publishes(self) -> bool {
        matches!(self, Self::Create | Self::Commit | Self::Replace | Self::Delete)
    }
}

/// What [`Fault::Run`] calls, with the path.
pub type Hook = Arc<dyn Fn(&str) -> Result<()> + Send + Sync>;

/// What happens to a call that a [`Rule`] picks.
#[derive(Clone)]
pub enum Fault {
    /// It fails with this error and does nothing.
    Fail(Error),
    /// It does its work, then fails with this error: the answer was lost.
    FailAfter(Error),
    /// A broken store: a read hands out only so many bytes (of each range), a write stores only so many; both report success. A `read_at` leaves
    /// the rest of its buffer as it was. Calls without bytes are not changed.
    Cut(usize),
    /// It waits first.
    Delay(Duration),
    /// This is called first (with the path) and may fail, stop the process, or wait for another thread.
    Run(Hook),
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fail(e) => f.debug_tuple("Fail").field(e).finish(),
            Self::FailAfter(e) => f.debug_tuple("FailAfter").field(e).finish(),
            Self::Cut(n) => f.debug_tuple("Cut").field(n).finish(),
            Self::Delay(d) => f.debug_tuple("Delay").field(d).finish(),
            Self::Run(_) => f.write_str("Run"),
        }
    }
}

/// Which calls a [`Fault`] befalls: of those that match, the `first`-th (from 1) and the `count - 1` after it.
#[derive(Debug, Clone)]
pub struct Rule {
    op: Option<Op>,
    path: String,
    first: u64,
    count: u64,
    fault: Fault,
    seen: u64,
}

impl Rule {
    /// The first call of any kind on any path.
    pub fn new(fault: Fault) -> Self {
        Self { op: None, path: String::new(), first: 1, count: 1, fault, seen: 0 }
    }
    /// Only calls of this kind.
    #[must_use]
    pub fn on(self, op: Op) -> Self {
        Self { op: Some(op), ..self }
    }
    /// Only paths that contain this text.
    #[must_use]
    pub fn at(self, path: impl Into<String>) -> Self {
        Self { path: path.into(), ..self }
    }
    /// The n-th matching call instead of the first.
    #[must_use]
    pub fn nth(self, n: u64) -> Self {
        Self { first: n, ..self }
    }
    /// So many matching calls in a row instead of one.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Self { count, ..self }
    }
    /// Every matching call from the first or [`nth`](Self::nth) on.
    #[must_use]
    pub fn always(self) -> Self {
        self.times(u64::MAX)
    }
    fn picks(&mut self, op: Op, path: &str) -> bool {
        if self.op.is_some_and(|wanted| wanted != op) || !path.contains(&self.path) {
            return false;
        }
        self.seen += 1;
        self.seen >= self.first && self.seen - self.first < self.count
    }
}

/// A store over another one that counts calls, writes them down and makes those fail that its rules pick.
///
/// ```
/// use sigbank::store::fault::{Fault, FaultStore, Op, Rule};
/// use sigbank::store::{MemoryStore, Store};
/// use sigbank::{Code, Error, uri::RelPath};
/// let store = FaultStore::new(std::sync::Arc::new(MemoryStore::new()));
/// store.add(Rule::new(Fault::Fail(Error::storage("pulled the plug"))).on(Op::Create).nth(2));
/// let name = |n: u8| RelPath::parse(&format!("x{n}"));
/// store.create(&name(1)?, &[b"1"])?;
/// assert_eq!(store.create(&name(2)?, &[b"2"]).unwrap_err().code(), Code::Storage);
/// store.create(&name(3)?, &[b"3"])?;
/// assert_eq!(store.log()[1], (Op::Create, "x2".to_string()));
/// # Ok::<(), sigbank::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct FaultStore {
    inner: Arc<dyn Store>,
    script: Arc<Mutex<Script>>,
}

#[derive(Debug, Default)]
struct Script {
    rules: Vec<Rule>,
    log: Vec<(Op, String)>,
}

/// What is to happen after a call or to its bytes.
#[derive(Default)]
struct Verdict {
    cut: Option<usize>,
    after: Option<Error>,
}

impl Verdict {
    fn bytes(&self, bytes: Bytes) -> Bytes {
        self.cut.map_or_else(|| bytes.clone(), |n| bytes.slice(..n.min(bytes.len())))
    }
    /// The parts up to the cut.
    fn parts<'a>(&self, parts: &[&'a [u8]]) -> Vec<&'a [u8]> {
        let mut left = self.cut.unwrap_or(usize::MAX);
        let cut = |part: &&'a [u8]| {
            let kept = part.get(..left).unwrap_or(part);
            left -= kept.len();
            kept
        };
        parts.iter().map(cut).collect()
    }
    fn end<T>(self, value: T) -> Result<T> {
        self.after.map_or(Ok(value), Err)
    }
}

impl FaultStore {
    /// A store that passes everything on, until it has rules.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, script: Arc::default() }
    }
    /// Adds a rule; it counts calls from now on. Several rules may befall one call.
    pub fn add(&self, rule: Rule) {
        self.script().rules.push(rule);
    }
    /// Forgets all rules.
    pub fn heal(&self) {
        self.script().rules.clear();
    }
    /// The calls so far, in order, also those that failed.
    pub fn log(&self) -> Vec<(Op, String)> {
        self.script().log.clone()
    }
    fn script(&self) -> std::sync::MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, op: Op, path: &str) -> Result<Verdict> {
        let faults: Vec<Fault> = {
            let mut script = self.script();
            script.log.push((op, path.to_owned()));
            script.rules.iter_mut().filter_map(|rule| rule.picks(op, path).then(|| rule.fault.clone())).collect()
        }; // Unlocked here: what runs below may call this store.
        let mut verdict = Verdict::default();
        for fault in faults {
            match fault {
                Fault::Fail(e) => return Err(e.at(path)),
                Fault::FailAfter(e) => verdict.after = Some(e.at(path)),
                Fault::Cut(n) => verdict.cut = Some(n),
                Fault::Delay(time) => std::thread::sleep(time),
                Fault::Run(f) => f(path).map_err(|e| e.at(path))?,
            }
        }
        Ok(verdict)
    }
}

fn dir_text(dir: Option<&RelPath>) -> &str {
    dir.map_or("", RelPath::as_str)
}

impl Store for FaultStore {
    fn location(&self) -> String {
        self.inner.location()
    }
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
    fn get(&self, path: &RelPath) -> Result<Bytes> {
        let verdict = self.enter(Op::Get, path.as_str())?;
        let bytes = verdict.bytes(self.inner.get(path)?);
        verdict.end(bytes)
    }
    fn get_versioned(&self, path: &RelPath) -> Result<(Bytes, Version)> {
        let verdict = self.enter(Op::Get, path.as_str())?;
        let (bytes, version) = self.inner.get_versioned(path)?;
        let bytes = verdict.bytes(bytes);
        verdict.end((bytes, version))
    }
    fn get_ranges(&self, path: &RelPath, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let verdict = self.enter(Op::GetRanges, path.as_str())?;
        let got = self.inner.get_ranges(path, ranges)?.into_iter().map(|bytes| verdict.bytes(bytes)).collect();
        verdict.end(got)
    }
    fn head(&self, path: &RelPath) -> Result<ObjectMeta> {
        let verdict = self.enter(Op::Head, path.as_str())?;
        verdict.end(self.inner.head(path)?)
    }
    fn open_read(&self, path: &RelPath) -> Result<Arc<dyn StoreFile>> {
        let verdict = self.enter(Op::OpenRead, path.as_str())?;
        let file = self.inner.open_read(path)?;
        verdict.end(Arc::new(FaultFile { file, store: self.clone(), path: path.clone() }))
    }
    fn list(&self, prefix: Option<&RelPath>) -> Result<Listing<'_>> {
        let verdict = self.enter(Op::List, dir_text(prefix))?;
        verdict.end(self.inner.list(prefix)?)
    }
    fn create(&self, path: &RelPath, parts: &[&[u8]]) -> Result<()> {
        let verdict = self.enter(Op::Create, path.as_str())?;
        self.inner.create(path, &verdict.parts(parts))?;
        verdict.end(())
    }
    fn write_new(&self, path: &RelPath) -> Result<Box<dyn NewObject>> {
        let verdict = self.enter(Op::WriteNew, path.as_str())?;
        let new = self.inner.write_new(path)?;
        verdict.end(Box::new(FaultNew { new, store: self.clone(), path: path.clone() }))
    }
    fn replace(&self, path: &RelPath, parts: &[&[u8]], expected: Expected<'_>) -> Result<Version> {
        let verdict = self.enter(Op::Replace, path.as_str())?;
        let version = self.inner.replace(path, &verdict.parts(parts), expected)?;
        verdict.end(version)
    }
    fn delete(&self, path: &RelPath) -> Result<()> {
        let verdict = self.enter(Op::Delete, path.as_str())?;
        self.inner.delete(path)?;
        verdict.end(())
    }
    fn flush(&self, paths: &[RelPath]) -> Result<()> {
        let names: Vec<&str> = paths.iter().map(RelPath::as_str).collect();
        let verdict = self.enter(Op::Flush, &names.join("\n"))?;
        self.inner.flush(paths)?;
        verdict.end(())
    }
    fn try_lock(&self, name: &str) -> Result<Option<LockGuard>> {
        let verdict = self.enter(Op::Lock, name)?;
        verdict.end(self.inner.try_lock(name)?)
    }
    fn list_dir(&self, dir: Option<&RelPath>) -> Result<Vec<DirEntry>> {
        let verdict = self.enter(Op::List, dir_text(dir))?;
        verdict.end(self.inner.list_dir(dir)?)
    }
    fn locate(&self, path: &RelPath) -> String {
        self.inner.locate(path)
    }
    fn locate_lock(&self, name: &str) -> String {
        self.inner.locate_lock(name)
    }
}

#[derive(Debug)]
struct FaultFile {
    file: Arc<dyn StoreFile>,
    store: FaultStore,
    path: RelPath,
}

impl ReadAt for FaultFile {
    fn size(&self) -> u64 {
        self.file.size()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> sigbank_format::Result<()> {
        let verdict = self.store.enter(Op::ReadAt, self.path.as_str())?;
        let n = verdict.cut.unwrap_or(usize::MAX).min(buf.len());
        self.file.read_at(offset, buf.get_mut(..n).unwrap_or_default())?;
        Ok(verdict.end(())?)
    }
}

impl StoreFile for FaultFile {
    fn location(&self) -> &str {
        self.file.location()
    }
    fn stream(self: Arc<Self>) -> Box<dyn io::Read + Send> {
        Box::new(super::Sequential::new(self))
    }
}

#[derive(Debug)]
struct FaultNew {
    new: Box<dyn NewObject>,
    store: FaultStore,
    path: RelPath,
}

impl Write for FaultNew {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let verdict = self.store.enter(Op::Write, self.path.as_str())?;
        match verdict.cut {
            Some(n) => self.new.write_all(buf.get(..n).unwrap_or(buf))?,
            None => self.new.write_all(buf)?,
        }
        Ok(verdict.end(buf.len())?)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.new.flush()
    }
}

impl NewObject for FaultNew {
    fn commit(self: Box<Self>) -> Result<()> {
        let verdict = self.store.enter(Op::Commit, self.path.as_str())?;
        self.new.commit()?;
        verdict.end(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    fn p(text: &str) -> RelPath {
        RelPath::parse(text).unwrap()
    }
    fn broken() -> Error {
        Error::storage("pulled the plug")
    }

    #[test]
    fn without_rules_it_conforms() {
        conformance::run(&|| Arc::new(FaultStore::new(Arc::new(MemoryStore::new()))));
    }

    #[test]
    fn rules_pick_their_calls() {
        let store = FaultStore::new(Arc::new(MemoryStore::new()));
        for n in 0..6 {
            store.create(&p(&format!("a/{n}")), &[b"0123", b"456789"]).unwrap();
        }
        store.create(&p("b/0"), &[b"0123456789"]).unwrap();
        store.add(Rule::new(Fault::Fail(broken())).on(Op::Get).at("a/").nth(2).times(2));
        let failed = |path: &str| store.get(&p(path)).is_err();
        assert!(!failed("b/0") && !failed("a/0") && !failed("b/0"));
        assert!(failed("a/0") && !failed("b/0") && failed("a/1"));
        assert!(!failed("a/0"));

        store.heal();
        store.add(Rule::new(Fault::Cut(6)).always());
        assert_eq!(&store.get(&p("a/0")).unwrap()[..], b"012345");
        assert_eq!(store.get_ranges(&p("a/0"), &[0..2, 2..10]).unwrap(), [&b"01"[..], b"234567"]);
        store.create(&p("cut"), &[b"0123", b"456789"]).unwrap();
        let mut buf = [b'.'; 8];
        store.open_read(&p("a/0")).unwrap().read_at(1, &mut buf).unwrap();
        assert_eq!(&buf, b"123456..");
        store.heal();
        assert_eq!(&store.get(&p("cut")).unwrap()[..], b"012345");
    }

    #[test]
    fn a_lost_answer_and_a_broken_stream() {
        let store = FaultStore::new(Arc::new(MemoryStore::new()));
        store.add(Rule::new(Fault::FailAfter(broken())).on(Op::Create));
        assert_eq!(store.create(&p("x"), &[b"1"]).unwrap_err().code(), Code::Storage);
        assert_eq!(&store.get(&p("x")).unwrap()[..], b"1");

        store.add(Rule::new(Fault::Fail(broken())).on(Op::Write).nth(2));
        let mut new = store.write_new(&p("y")).unwrap();
        new.write_all(b"1").unwrap();
        let e = Error::from(new.write_all(b"2").unwrap_err());
        assert_eq!((e.code(), e.path()), (Code::Storage, Some("y")));
        drop(new);
        assert!(!exists(&store, &p("y")).unwrap());

        let told = Arc::new(Mutex::new(String::new()));
        let hear = Arc::clone(&told);
        store.add(
            Rule::new(Fault::Run(Arc::new(move |path| {
                hear.lock().unwrap().push_str(path);
                Err(Error::read_only("no more writing"))
            })))
            .on(Op::Replace),
        );
        assert_eq!(store.replace(&p("x"), &[b"2"], Expected::Any).unwrap_err().code(), Code::ReadOnly);
        assert_eq!(*told.lock().unwrap(), "x");
        let published: Vec<Op> = store.log().into_iter().map(|(op, _)| op).filter(|op| op.publishes()).collect();
        assert_eq!(published, [Op::Create, Op::Replace]);
    }
}
