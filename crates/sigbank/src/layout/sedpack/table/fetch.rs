//! Reading all lists of a split, level by level, on several threads.

use super::columns::{Chunk, Columns, Known};
use super::walk::below;
use crate::error::{Error, Result};
use crate::layout::sedpack::lists::{ListRef, ShardsList, scan};
use crate::layout::sedpack::state::State;
use crate::store::Store;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Lists that a thread reads before it takes others: small ones cost less than handing them out.
const CHUNK: usize = 64;
/// Threads that read lists: more than there are processors, since a store may be far away.
const THREADS: usize = 8;

/// All shards below a list, in stored order.
pub(super) fn columns(state: &State, store: &dyn Store, top: &ListRef) -> Result<Columns> {
    let mut levels = Vec::new();
    let mut pointers = vec![top.clone()];
    while !pointers.is_empty() {
        let mut chunks = level(state, store, &pointers)?;
        pointers = chunks.iter_mut().flat_map(|chunk| std::mem::take(&mut chunk.children)).collect();
        levels.push(Stream { chunks: chunks.into_iter(), now: Chunk::default(), list: 0, shard: 0 });
    }
    // A list's own shards, then its children's: of each level the next list is always the one that is wanted.
    let (mut all, mut known) = (Columns::default(), Known::default());
    all.reserve(levels.iter().flat_map(|stream| stream.chunks.as_slice()).map(|chunk| &chunk.columns));
    let mut left = vec![1];
    while let Some(lists) = left.last_mut() {
        if *lists == 0 {
            left.pop();
            continue;
        }
        *lists -= 1;
        let depth = left.len() - 1;
        if let Some(stream) = levels.get_mut(depth) {
            left.push(stream.append(&mut all, &mut known)?);
        }
    }
    Ok(all)
}

/// The lists of one level that were not taken yet.
struct Stream {
    chunks: std::vec::IntoIter<Chunk>,
    now: Chunk,
    list: usize,
    shard: usize,
}

impl Stream {
    /// Adds the next list's shards; gives the number of its children.
    fn append(&mut self, all: &mut Columns, known: &mut Known) -> Result<u32> {
        if self.list >= self.now.lists.len() {
            self.now = self.chunks.next().unwrap_or_default();
            (self.list, self.shard) = (0, 0);
        }
        let Some(&(shards, children)) = self.now.lists.get(self.list) else { return Ok(0) };
        let end = self.shard + shards as usize;
        all.extend(&self.now.columns, self.shard, end, known)?;
        (self.list, self.shard) = (self.list + 1, end);
        Ok(children)
    }
}

/// The lists that these pointers name.
fn level(state: &State, store: &dyn Store, pointers: &[ListRef]) -> Result<Vec<Chunk>> {
    let size = pointers.len().div_ceil(THREADS * 4).clamp(1, CHUNK);
    let parts: Vec<&[ListRef]> = pointers.chunks(size).collect();
    if parts.len() == 1 {
        return Ok(vec![read(state, store, pointers)?]);
    }
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<Result<Chunk>>>> = Mutex::new(parts.iter().map(|_| None).collect());
    let run = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = parts.get(at) else { return };
            let found = read(state, store, part);
            if found.is_err() {
                // Those before it were all taken, so the first error is found.
                next.store(parts.len(), Ordering::Relaxed);
            }
            if let Some(slot) = done.lock().unwrap_or_else(PoisonError::into_inner).get_mut(at) {
                *slot = Some(found);
            }
        }
    };
    let panicked = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS.min(parts.len())).map(|_| scope.spawn(run)).collect();
        threads.into_iter().fold(false, |any, thread| thread.join().is_err() | any)
    });
    if panicked {
        return Err(Error::storage("reading the lists panicked; please report this").at(store.location()));
    }
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.into_iter().flatten().collect()
}

fn read(state: &State, store: &dyn Store, pointers: &[ListRef]) -> Result<Chunk> {
    let mut chunk = Chunk::default();
    for pointer in pointers {
        one(state, store, pointer, &mut chunk).map_err(|e| e.at(store.locate(&pointer.file.path)))?;
    }
    Ok(chunk)
}

fn one(state: &State, store: &dyn Store, pointer: &ListRef, chunk: &mut Chunk) -> Result<()> {
    let path = &pointer.file.path;
    let text = state.list_text(store, pointer, false)?;
    let (shards, mut children) = match scan::list(path, &text) {
        Some(list) => {
            pointer.agrees(list.examples, list.count_shards())?;
            list.shards.iter().try_for_each(|entry| chunk.columns.push_entry(entry))?;
            (list.shards.len(), list.children)
        }
        None => {
            let list = ShardsList::parse(path, &text)?;
            pointer.agrees(list.examples, list.count_shards())?;
            list.shards.iter().try_for_each(|shard| chunk.columns.push_info(shard))?;
            (list.shards.len(), list.children)
        }
    };
    below(path, &children)?;
    let count = |n: usize| u32::try_from(n).map_err(|_| Error::limit("a list of more than 4 billion entries"));
    chunk.lists.push((count(shards)?, count(children.len())?));
    chunk.children.append(&mut children);
    Ok(())
}
