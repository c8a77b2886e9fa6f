//! Comparing everything with what names it.

use super::dataset::Dataset;
use super::digest::Digest;
use super::documents::{Page, Reference, Shard};
use super::objects::{Objects, same_digest};
use super::read::{Stored, StoredRecord, gone};
use super::shards::{OpenShard, open_shard};
use super::{Options, RecordMetadata, uncommitted};
use crate::error::{Error, Result};
use crate::layout::Verified;
use crate::store::StoreFile;
use sha2::{Digest as _, Sha256};
use sigbank_format::container::arrayrecord::Decoder;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

const CHUNK: usize = 1 << 20;

/// The SHA-256 of an object.
pub(super) fn digest(file: &dyn StoreFile) -> Result<Digest> {
    let (mut hasher, mut at, mut buffer) = (Sha256::new(), 0, vec![0; CHUNK]);
    while at < file.size() {
        let n = (file.size() - at).min(CHUNK as u64);
        let part = buffer.get_mut(..n as usize).unwrap_or_default();
        file.read_at(at, part).map_err(|e| Error::from(e).at(file.location()))?;
        hasher.update(part);
        at += n;
    }
    Ok(Digest::finish(hasher))
}

/// See [`Dataset::verify`].
pub(super) fn verify(dataset: &Dataset, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Verified> {
    let total = dataset.snapshot().shard_count;
    let mut done = Verified::default();
    if !progress(0, total) {
        return Err(stopped());
    }
    for number in 0..dataset.snapshot().manifests.len() {
        // Read anew: what is kept was compared when it was read.
        let page = dataset.page(number)?;
        verify_page(dataset, &page, &mut |found| {
            done.units += found.units;
            done.records += found.records;
            done.bytes += found.bytes;
            progress(done.units, total)
        })?;
    }
    done.bytes += uncommitted::same_copy(dataset)?;
    let catalog = dataset.annotations()?;
    for name in catalog.names() {
        done.bytes += catalog.open(name)?.verify()?;
        if !progress(done.units, total) {
            return Err(stopped());
        }
    }
    Ok(done)
}

/// The shards of a page on several threads; `tell` hears of each and stops the run by `false`.
fn verify_page(dataset: &Dataset, page: &Page, tell: &mut dyn FnMut(Verified) -> bool) -> Result<()> {
    let inner = dataset.inner();
    // A view may name an object often; it is hashed with the first entry that does.
    let mut seen = HashSet::new();
    let first: Vec<bool> = page.shards.iter().map(|shard| seen.insert(&shard.data.path)).collect();
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (send, hear) = mpsc::channel();
    let work = |send: mpsc::Sender<Result<Verified>>| {
        while !stop.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some((shard, &first)) = page.shards.get(number).zip(first.get(number)) else { return };
            let found = verify_shard(&inner.objects, shard, first, &inner.options);
            let failed = found.is_err();
            if send.send(found).is_err() || failed {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = inner.options.threads().min(page.shards.len());
        let threads: Vec<_> = (0..threads)
            .map(|_| {
                let send = send.clone();
                let work = &work;
                scope.spawn(move || work(send))
            })
            .collect();
        drop(send);
        let heard = hear.iter().try_for_each(|found| if tell(found?) { Ok(()) } else { Err(stopped()) });
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().map_err(|_| gone())).fold(heard, Result::and)
    })
}

fn verify_shard(objects: &Objects, shard: &Shard, whole: bool, options: &Options) -> Result<Verified> {
    let mut bytes = 0;
    let mut open = |reference: &Reference| -> Result<Option<OpenShard>> {
        let records = shard.record_indices.is_none().then_some(shard.record_count);
        if whole {
            let file = objects.open_anew(reference)?;
            let found = digest(&*file)?;
            same_digest(reference, found).map_err(|e| e.at(objects.locate(&reference.path)))?;
            bytes += file.size();
        }
        match (&options.container, records) {
            (Some(container), Some(records)) => container.right_count(&objects.locate(&reference.path), records).map(|()| None),
            (Some(_), None) => Ok(None),
            (None, _) => open_shard(objects, reference, records).map(Some),
        }
    };
    let (data, words) = (open(&shard.data)?, open(&shard.metadata)?);
    let mut decoders = [Decoder::default(), Decoder::default()];
    for n in 0..shard.record_count {
        let Some(physical) = shard.physical(n) else { break };
        let [samples, documents] = &mut decoders;
        let record: StoredRecord = one(objects, &data, &shard.data, physical, samples, options)?;
        let said: RecordMetadata = one(objects, &words, &shard.metadata, physical, documents, options)?;
        if *record.metadata() != said {
            return Err(Error::corrupt(format!(
                "record {physical}: it says of itself ('{}') something else than the metadata shard ('{}')",
                record.metadata().id,
                said.id
            ))
            .at(objects.locate(&shard.metadata.path))
            .remedy("the two objects are not of one shard: restore them from a copy"));
        }
    }
    Ok(Verified { units: 1, records: shard.record_count, bytes, root: None })
}

fn one<T: Stored>(
    objects: &Objects,
    open: &Option<OpenShard>,
    reference: &Reference,
    physical: u64,
    decoder: &mut Decoder,
    options: &Options,
) -> Result<T> {
    let read = || {
        let open = match (open, &options.container) {
            (Some(open), _) => open,
            (None, Some(container)) => return container.one(objects, reference, physical, options),
            (None, None) => return Err(gone()),
        };
        if physical >= open.reader.len() {
            return Err(Error::corrupt(format!("the shard is said to hold it, but has {}", open.reader.len())));
        }
        let mut bytes = Vec::new();
        decoder.read(&open.reader, physical, &mut bytes)?;
        T::from_bytes(bytes, options)
    };
    let mut read = read;
    read().map_err(|e| e.within(format!("record {physical}")).at(objects.locate(&reference.path)))
}

fn stopped() -> Error {
    Error::conflict("the check was stopped before its end")
}
