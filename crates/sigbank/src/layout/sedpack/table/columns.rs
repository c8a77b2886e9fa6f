//! Shards as columns.

use crate::error::{Error, Result};
use crate::layout::sedpack::lists::scan::Entry;
use crate::layout::sedpack::lists::{ListRef, ShardInfo};
use std::collections::HashMap;

/// Texts one after another in one memory.
#[derive(Debug, Default)]
pub(super) struct Texts {
    all: String,
    ends: Vec<u32>,
}

impl Texts {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }
    pub(super) fn get(&self, at: usize) -> Option<&str> {
        let start = at.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.all.get(start as usize..*self.ends.get(at)? as usize)
    }
    fn last(&self) -> Option<&str> {
        self.get(self.len().checked_sub(1)?)
    }
    pub(super) fn push(&mut self, text: &str) -> Result<()> {
        self.all.push_str(text);
        self.end()
    }
    /// Ends the text that was appended to the memory.
    fn end(&mut self) -> Result<()> {
        let end = u32::try_from(self.all.len()).map_err(|_| Error::limit("more than 4 GiB of shard names or metadata"))?;
        self.ends.push(end);
        Ok(())
    }
    /// Those of another one from the `from`-th to before the `to`-th.
    fn extend(&mut self, other: &Self, from: usize, to: usize) -> Result<()> {
        let begin = from.checked_sub(1).and_then(|before| other.ends.get(before).copied()).unwrap_or(0);
        let ends = other.ends.get(from..to).unwrap_or_default();
        let end = ends.last().copied().unwrap_or(begin);
        // Checked once, for the last.
        let before = self.all.len();
        self.all.push_str(other.all.get(begin as usize..end as usize).unwrap_or_default());
        u32::try_from(self.all.len()).map_err(|_| Error::limit("more than 4 GiB of shard names or metadata"))?;
        self.ends.extend(ends.iter().map(|e| e - begin + before as u32));
        Ok(())
    }
    fn shrink(&mut self) {
        self.all.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}

/// What reading needs to know of each shard: no object a shard.
#[derive(Debug, Default)]
pub(super) struct Columns {
    pub(super) counts: Vec<u32>,
    /// The last component of each path.
    names: Texts,
    /// The directories, each for the shards from its start to before the next one's.
    dirs: Texts,
    dir_starts: Vec<u32>,
    /// Distinct metadata as JSON; of each shard which one, from 1 on, or 0 where it has none. Empty as long as all are 0.
    metadata: Texts,
    metadata_of: Vec<u32>,
}

impl Columns {
    pub(super) fn len(&self) -> usize {
        self.counts.len()
    }

    /// Adds a shard; its metadata as JSON, which may be laid out in any way.
    pub(super) fn push(&mut self, path: &str, examples: u64, metadata: Option<&str>) -> Result<()> {
        let (dir, name) = path.rsplit_once('/').ok_or_else(|| Error::corrupt(format!("shard '{path}' lies in no directory")))?;
        self.counts.push(u32::try_from(examples).map_err(|_| Error::limit(format!("shard '{path}' of {examples} examples")))?);
        self.dir(dir, self.len() - 1)?;
        self.names.push(name)?;
        let Some(metadata) = metadata else { return self.metadata_id(0) };
        let before = self.metadata.all.len();
        compact(metadata, &mut self.metadata.all);
        let new = self.metadata.all.get(before..).unwrap_or_default();
        match new {
            "{}" => {
                self.metadata.all.truncate(before);
                self.metadata_id(0)
            }
            _ if self.metadata.last() == Some(new) => {
                self.metadata.all.truncate(before);
                self.metadata_id(self.metadata.len() as u32)
            }
            _ => {
                self.metadata.end()?;
                self.metadata_id(self.metadata.len() as u32)
            }
        }
    }

    pub(super) fn push_entry(&mut self, entry: &Entry<'_>) -> Result<()> {
        self.push(entry.path(), entry.examples, entry.metadata)
    }

    pub(super) fn push_info(&mut self, shard: &ShardInfo) -> Result<()> {
        let metadata = serde_json::to_string(&shard.metadata).map_err(|e| Error::corrupt(e.to_string()))?;
        self.push(shard.path()?.as_str(), shard.examples, Some(&metadata))
    }

    fn dir(&mut self, dir: &str, from: usize) -> Result<()> {
        if self.dirs.last() != Some(dir) {
            self.dirs.push(dir)?;
            self.dir_starts.push(u32::try_from(from).map_err(|_| Error::limit("more than 4 billion shards"))?);
        }
        Ok(())
    }

    fn metadata_id(&mut self, id: u32) -> Result<()> {
        if id != 0 && self.metadata_of.is_empty() {
            self.metadata_of.resize(self.len() - 1, 0);
        }
        if id != 0 || !self.metadata_of.is_empty() {
            self.metadata_of.push(id);
        }
        Ok(())
    }

    /// Adds shards of other columns, from the `from`-th to before the `to`-th. `known` says which of theirs and of these
    /// metadata are the same.
    pub(super) fn extend(&mut self, other: &Self, from: usize, to: usize, known: &mut Known) -> Result<()> {
        let begin = self.len();
        let mut run = other.dir_starts.partition_point(|&start| start as usize <= from).saturating_sub(1);
        while let (Some(&start), Some(dir)) = (other.dir_starts.get(run), other.dirs.get(run)) {
            if start as usize >= to || from >= to {
                break;
            }
            self.dir(dir, begin + (start as usize).max(from) - from)?;
            run += 1;
        }
        self.counts.extend_from_slice(other.counts.get(from..to).unwrap_or_default());
        self.names.extend(&other.names, from, to)?;
        if other.metadata_of.is_empty() {
            if !self.metadata_of.is_empty() {
                self.metadata_of.resize(self.len(), 0);
            }
            return Ok(());
        }
        self.metadata_of.resize(begin, 0);
        for &id in other.metadata_of.get(from..to).unwrap_or_default() {
            let id = match id.checked_sub(1).and_then(|at| other.metadata.get(at as usize)) {
                Some(text) => known.id(text, &mut self.metadata)?,
                None => 0,
            };
            self.metadata_of.push(id);
        }
        Ok(())
    }

    /// Takes memory for all of these at once.
    pub(super) fn reserve<'a>(&mut self, others: impl Iterator<Item = &'a Self> + Clone) {
        let sum = |of: fn(&Self) -> usize| others.clone().map(of).sum::<usize>();
        self.counts.reserve_exact(sum(Self::len));
        self.names.ends.reserve_exact(sum(Self::len));
        self.names.all.reserve_exact(sum(|c| c.names.all.len()));
        if others.clone().any(|c| !c.metadata_of.is_empty()) {
            self.metadata_of.reserve_exact(sum(Self::len));
        }
    }

    /// Gives back memory that is not needed any more; the counts are kept elsewhere.
    pub(super) fn finish(&mut self) {
        self.counts = Vec::new();
        [&mut self.names, &mut self.dirs, &mut self.metadata].into_iter().for_each(Texts::shrink);
        self.dir_starts.shrink_to_fit();
        self.metadata_of.shrink_to_fit();
    }

    /// The directory and the name of a shard.
    pub(super) fn path(&self, at: usize) -> Option<(&str, &str)> {
        let run = self.dir_starts.partition_point(|&start| start as usize <= at).checked_sub(1)?;
        Some((self.dirs.get(run)?, self.names.get(at)?))
    }

    /// The number of a shard's metadata, 0 for none; shards of the same number have the same.
    pub(super) fn metadata_number(&self, at: usize) -> u32 {
        self.metadata_of.get(at).copied().unwrap_or(0)
    }

    /// How many numbers of metadata there are, that of none too.
    pub(super) fn metadata_numbers(&self) -> usize {
        self.metadata.len() + 1
    }

    /// The metadata of a number.
    pub(super) fn metadata_text(&self, number: u32) -> &str {
        number.checked_sub(1).and_then(|at| self.metadata.get(at as usize)).unwrap_or("{}")
    }
}

/// Metadata that were seen lately, so that the same ones are kept once.
#[derive(Debug, Default)]
pub(super) struct Known(HashMap<Box<str>, u32>);

impl Known {
    /// Where each shard has its own, remembering all of them would cost more than it saves.
    const MOST: usize = 4096;

    fn id(&mut self, text: &str, all: &mut Texts) -> Result<u32> {
        if let Some(&id) = self.0.get(text) {
            return Ok(id);
        }
        all.push(text)?;
        let id = all.len() as u32;
        if self.0.len() >= Self::MOST {
            self.0.clear();
        }
        self.0.insert(text.into(), id);
        Ok(id)
    }
}

/// Appends JSON without the spaces between its parts.
fn compact(json: &str, out: &mut String) {
    let (mut quoted, mut escaped, mut start) = (false, false, 0);
    for (at, b) in json.bytes().enumerate() {
        match b {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b' ' | b'\n' | b'\r' | b'\t' if !quoted => {
                out.push_str(json.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    out.push_str(json.get(start..).unwrap_or_default());
}

/// Lists that follow each other, and what stands in them.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub(super) columns: Columns,
    /// Of each list how many shards and how many children it has.
    pub(super) lists: Vec<(u32, u32)>,
    /// The children of all of them.
    pub(super) children: Vec<ListRef>,
}
