//! Whether shards are whole.

use crate::error::{Code, Error, Result};
use crate::layout::RowSink;
use crate::layout::sedpack::Dataset;
use crate::layout::sedpack::lists::{FileInfo, ShardInfo};
use crate::layout::sedpack::reader::{Listed, Reader};
use crate::store::Store;
use crate::uri::RelPath;
use sigbank_format::checksum::{Algorithm, MultiHasher};
use sigbank_format::model::Metadata;
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

const CHUNK: usize = 1 << 20;
/// Records that are read at a time.
const RECORDS: u64 = 1 << 16;

/// What a shard turned out to be.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    /// As its entry says.
    Whole,
    /// Whole, while its entry says something else or there is none: what it should say, and why.
    Other(ShardInfo, String),
    /// A file is not there.
    Gone,
    /// Its bytes are not those that were written.
    Damaged(String),
    /// As its entry says, or without one whole as it seems, but its values are not of the declared types: no damage.
    OtherType(String),
    /// It cannot be read, although nothing says that its bytes were changed.
    Unreadable(String),
}

/// A shard to look at: its entry, or its file alone.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Subject {
    Entry(ShardInfo),
    File(RelPath),
}

pub(super) struct Examiner<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) algorithms: &'a [Algorithm],
    pub(super) reader: &'a Reader,
}

/// A failure of the storage, a right that is missing: nothing that a repair may take for damage.
fn is_damage(e: &Error) -> bool {
    matches!(e.code(), Code::Corrupt | Code::Unsupported | Code::Invalid | Code::Limit)
}

/// What a shard is that gives this error, which is no failure of the storage.
fn unreadable(e: &Error) -> Verdict {
    match e.code() {
        Code::Unsupported => {
            let remedy = e.remedy_text().map(|remedy| format!(" ({remedy})")).unwrap_or_default();
            Verdict::OtherType(format!("{}{remedy}", e.message()))
        }
        _ => Verdict::Unreadable(e.message().to_owned()),
    }
}

/// Those of some shard files, which are all that is known of the shards, that are gone, damaged or cut.
///
/// # Errors
/// `Storage` where one cannot be read for other reasons than its bytes.
pub(in crate::layout::sedpack) fn useless(dataset: &Dataset, paths: Vec<RelPath>) -> Result<HashSet<RelPath>> {
    let info = dataset.info();
    let structure = info.structure();
    let reader = Reader::new(structure)?;
    let examiner = Examiner { store: dataset.store(), algorithms: &structure.algorithms, reader: &reader };
    let subjects: Vec<Subject> = paths.into_iter().map(Subject::File).collect();
    let verdicts = examiner.all(&subjects.iter().collect::<Vec<_>>(), &mut |_, _| true)?;
    let of_no_use = |verdict: &Verdict| matches!(verdict, Verdict::Gone | Verdict::Damaged(_) | Verdict::Unreadable(_));
    let found = subjects.into_iter().zip(verdicts).filter(|(_, verdict)| of_no_use(verdict));
    Ok(found.filter_map(|(subject, _)| if let Subject::File(path) = subject { Some(path) } else { None }).collect())
}

impl Examiner<'_> {
    /// Looks at all of them on several threads.
    ///
    /// # Errors
    /// What storage says, which is no damage; `Conflict` where `progress` (done, all) ends the run by `false`.
    pub(super) fn all(&self, subjects: &[&Subject], progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Vec<Verdict>> {
        let total = subjects.len();
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(16).min(total.max(1));
        let next = &AtomicUsize::new(0);
        let mut verdicts = vec![None; total];
        let (tell, hear) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let tell = tell.clone();
                scope.spawn(move || {
                    let mut buffer = vec![0; CHUNK];
                    loop {
                        let i = next.fetch_add(1, Ordering::Relaxed);
                        let Some(subject) = subjects.get(i) else { return };
                        if tell.send((i, self.one(subject, &mut buffer))).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(tell);
            let stop = |e: Error| {
                next.store(total, Ordering::Relaxed);
                Err(e)
            };
            for (done, (i, verdict)) in hear.iter().enumerate() {
                match verdict {
                    Ok(verdict) => drop(verdicts.get_mut(i).map(|slot| slot.replace(verdict))),
                    Err(e) => return stop(e),
                }
                if !progress(done as u64 + 1, total as u64) {
                    return stop(Error::conflict("the repair was stopped before its end; nothing was changed"));
                }
            }
            Ok(())
        })?;
        verdicts.into_iter().map(|v| v.ok_or_else(|| Error::storage("a thread ended before its shard was looked at"))).collect()
    }

    /// Looks at one; `buffer` is to read through.
    pub(super) fn one(&self, subject: &Subject, buffer: &mut [u8]) -> Result<Verdict> {
        let failed = |e: Error| if is_damage(&e) { Ok(unreadable(&e)) } else { Err(e) };
        match subject {
            Subject::Entry(shard) => self.entry(shard, buffer),
            Subject::File(path) => match self.digests(path, buffer)? {
                None => Ok(Verdict::Gone),
                Some(checksums) => match self.count(path) {
                    Ok(0) => Ok(Verdict::Unreadable("it holds no examples".into())),
                    Ok(count) => {
                        let file = FileInfo { path: path.clone(), checksums };
                        Ok(Verdict::Other(ShardInfo::new(file, count, Metadata::new()), "no list names it".into()))
                    }
                    Err(e) => failed(e),
                },
            },
        }
    }

    fn entry(&self, shard: &ShardInfo, buffer: &mut [u8]) -> Result<Verdict> {
        let mut right = shard.clone();
        for file in &mut right.files {
            let Some(found) = self.digests(&file.path, buffer)? else { return Ok(Verdict::Gone) };
            if let Some((is, (told, algorithm))) =
                found.iter().zip(file.checksums.iter().zip(self.algorithms)).find(|(is, (told, _))| is != told)
            {
                return Ok(Verdict::Damaged(format!("{} {told} is expected, found {is}", algorithm.as_str())));
            }
            if file.checksums.len() < found.len() {
                file.checksums = found;
            }
        }
        let path = shard.path()?;
        let incomplete = right.files != shard.files;
        let probed = match self.store.open_read(path).and_then(|file| self.reader.probe(file, shard.examples)) {
            Ok(()) if !incomplete => return Ok(Verdict::Whole),
            Err(e) if !is_damage(&e) => return Err(e.at(self.store.locate(path))),
            probed => probed,
        };
        match (self.count(path), probed) {
            (Err(e), _) if !is_damage(&e) => Err(e),
            (Ok(count), Err(e)) if count == shard.examples => Ok(unreadable(&e)),
            (Err(e), _) => Ok(unreadable(&e)),
            (Ok(0), _) if shard.examples > 0 => Ok(Verdict::Unreadable("it holds no examples".into())),
            (Ok(count), _) => {
                let mut raw = shard.to_value();
                let files = right.files.iter().map(FileInfo::to_value).collect::<Vec<_>>();
                let object = raw.as_object_mut().ok_or_else(|| Error::corrupt("a shard without an entry"))?;
                let why = match incomplete {
                    true => "its entry lacks checksums".to_owned(),
                    false => format!("its entry says {} examples, it holds {count}", shard.examples),
                };
                if incomplete {
                    object.insert("file_infos".into(), files.into());
                }
                object.insert("number_of_examples".into(), count.into());
                Ok(Verdict::Other(ShardInfo::parse(&raw)?, why))
            }
        }
    }

    /// The checksums of a file; none where it is gone.
    fn digests(&self, path: &RelPath, buffer: &mut [u8]) -> Result<Option<Vec<String>>> {
        let file = match self.store.open_read(path) {
            Ok(file) => file,
            Err(e) if e.code() == Code::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        let mut hasher = MultiHasher::new(self.algorithms);
        let mut at = 0;
        while at < file.size() {
            let n = (file.size() - at).min(buffer.len() as u64);
            let part = buffer.get_mut(..n as usize).unwrap_or_default();
            file.read_at(at, part).map_err(|e| {
                Error::from(e).at(self.store.locate(path)).remedy(
                    "the storage could not read it, which is no proof of damage; where the disk is at fault, move the file away",
                )
            })?;
            hasher.update(part);
            at += n;
        }
        Ok(Some(hasher.finish()))
    }

    /// How many records a shard holds, all of which can be read.
    fn count(&self, path: &RelPath) -> Result<u64> {
        let count =
            self.store.open_read(path).and_then(|file| self.reader.count(file)).map_err(|e| e.at(self.store.locate(path)))?;
        let last = u32::try_from(count).map_err(|_| Error::limit(format!("{count} examples in one shard")))?;
        let fields: Vec<usize> = (0..self.reader.schema().fields.len()).collect();
        let mut sink = Scratch(Vec::new());
        for first in (0..last).step_by(RECORDS as usize) {
            let records: Vec<u32> = (first..last.min(first.saturating_add(RECORDS as u32))).collect();
            self.reader.read(Listed { store: self.store, path, count, begun: None }, &records, &fields, &mut sink)?;
        }
        Ok(count)
    }
}

/// Takes values and forgets them.
struct Scratch(Vec<u8>);

impl RowSink for Scratch {
    fn place(&mut self, _row: usize, _field: usize, len: usize) -> Result<&mut [u8]> {
        if self.0.len() < len {
            self.0.resize(len, 0);
        }
        self.0.get_mut(..len).ok_or_else(|| Error::limit("a value larger than the memory"))
    }
    fn goes_through_units(&self) -> bool {
        true
    }
}
