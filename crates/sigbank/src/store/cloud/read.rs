//! Reading: one object, or ranges of one, in as few requests as are worth it, and never bytes of two versions.

use super::answer::Attempt;
use super::client::{Inner, Tries};
use super::failure::{Failure, Purpose};
use super::runtime;
use super::settings::Service;
use crate::error::{Code, Error, Result};
use crate::store::{ObjectMeta, Version, over, range_len};
use crate::uri::RelPath;
use bytes::Bytes;
use futures_util::StreamExt;
use object_store::{GetOptions, GetRange, ObjectStore};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

/// A request costs about as much time as so many bytes.
pub(super) const ROUND_TRIP: u64 = 1 << 20;
/// Longer ranges are read in pieces side by side.
const LONG: u64 = 16 << 20;
pub(super) const PIECE: u64 = 8 << 20;
const SIDE_BY_SIDE: usize = 64;

/// What tells the versions of an object apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) e_tag: Option<String>,
    /// GCS's generation.
    pub(super) generation: Option<String>,
    modified: SystemTime,
    size: u64,
}

impl Tag {
    pub(super) fn new(inner: &Inner, meta: &object_store::ObjectMeta) -> Self {
        let generation = meta.version.clone().filter(|_| inner.settings.service == Service::Gcs);
        Self { e_tag: meta.e_tag.clone(), generation, modified: meta.last_modified.into(), size: meta.size }
    }
    fn same(&self, other: &Self) -> bool {
        match (&self.e_tag, &other.e_tag) {
            (Some(mine), Some(theirs)) => mine == theirs && self.size == other.size,
            _ => self == other,
        }
    }
    /// The condition under which another version is not sent: none where the service compares only exact tags and this is not one.
    fn condition(&self) -> Option<String> {
        self.e_tag.clone().filter(|tag| !tag.starts_with("W/"))
    }
    /// Whether a replaced object would show.
    fn tells(&self) -> bool {
        self.e_tag.is_some() || self.modified != SystemTime::UNIX_EPOCH
    }
    pub(super) fn version(&self) -> Version {
        let text = self.generation.clone().or_else(|| self.e_tag.clone()).unwrap_or_else(|| {
            let modified = self.modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
            format!("modified {} size {}", modified.as_micros(), self.size)
        });
        Version::new(text)
    }
    pub(super) fn size(&self) -> u64 {
        self.size
    }
}

fn replaced() -> Error {
    Error::conflict("the object was replaced while it was read").remedy("open it again")
}

/// Which bytes of an object.
#[derive(Debug, Clone)]
pub(super) enum Want {
    /// All, unless they are more than this.
    Whole {
        most: u64,
    },
    Range(Range<u64>),
    /// So many bytes from the start, or all where there are not so many.
    First(u64),
}

/// Reads into `sink`, piece by piece in order, what is wanted of the version `known`, or of the one that is there. A request
/// that breaks off is continued where it did. `check` is asked about the version before any of its bytes are handed on.
pub(super) async fn fetch(
    inner: &Inner,
    path: &RelPath,
    want: Want,
    known: Option<Tag>,
    check: impl Fn(&Tag) -> Result<()> + Send,
    mut sink: impl FnMut(Bytes) + Send,
) -> Result<Tag> {
    let key = inner.settings.key(path)?;
    let mut tries = Tries::new(inner);
    let (mut tag, mut done) = (known, 0u64);
    let mut rest = match &want {
        Want::Whole { .. } => None,
        Want::Range(range) => Some(range.clone()),
        Want::First(len) => Some(0..*len),
    };
    let _held = runtime::in_flight(rest.as_ref().map_or(0, |range| range.end - range.start)).await?;
    loop {
        let options = GetOptions {
            range: rest.clone().map(GetRange::Bounded),
            if_match: tag.as_ref().and_then(Tag::condition),
            ..GetOptions::default()
        };
        let client = inner.client()?;
        let attempt = Attempt::default();
        let got = attempt.scope(client.store.get_opts(&key, options)).await;
        let failed = match got {
            Err(error) => error,
            Ok(got) => {
                inner.bucket_seen.store(true, Ordering::Relaxed);
                let now = Tag::new(inner, &got.meta);
                if tag.as_ref().is_some_and(|tag| !tag.same(&now)) {
                    return Err(replaced());
                }
                check(&now)?;
                let end = match &want {
                    Want::Whole { most } if now.size > *most => return Err(over(now.size, *most)),
                    Want::Whole { .. } => now.size,
                    Want::First(len) => now.size.min(*len),
                    Want::Range(range) => {
                        range_len(range, now.size)?;
                        range.end
                    }
                };
                let start = rest.as_ref().map_or(0, |range| range.start);
                let mut at = start;
                let mut stream = got.into_stream();
                let broken = loop {
                    match stream.next().await {
                        None => break None,
                        Some(Err(error)) => break Some(error),
                        Some(Ok(bytes)) => {
                            at += bytes.len() as u64;
                            if at > end {
                                return Err(Error::storage("more bytes came than were asked for")
                                    .remedy("nothing of it was taken for data"));
                            }
                            sink(bytes);
                        }
                    }
                };
                done += at - start;
                let told = now.tells();
                let now = tag.get_or_insert(now);
                match broken {
                    None if at == end => return Ok(now.clone()),
                    None => {
                        return Err(Error::storage(format!("the answer ended {} bytes early", end - at))
                            .remedy("look at the network and what is on the way, and try again"));
                    }
                    // Without a version the rest may be another's.
                    Some(error) if done > 0 && !told => {
                        let failure = Failure { error, seen: attempt.seen() };
                        return Err(failure.into_error(Purpose::Read, &inner.settings.container));
                    }
                    Some(error) => {
                        if at - start >= ROUND_TRIP {
                            tries.progressed();
                        }
                        if done > 0 {
                            rest = Some(at..end);
                        }
                        error
                    }
                }
            }
        };
        let failure = Failure { error: failed, seen: attempt.seen() };
        if matches!(want, Want::First(_)) && failure.seen.status == Some(416) {
            // An empty object has no first byte.
            let (meta, tag) = head(inner, path).await?;
            if meta.size == 0 {
                check(&tag)?;
                return Ok(tag);
            }
        }
        tries.again(failure, Purpose::Read).await?;
    }
}

/// The whole object.
pub(super) async fn whole(inner: &Inner, path: &RelPath, most: u64) -> Result<(Bytes, Tag)> {
    let mut again = 0;
    loop {
        let mut pieces = Vec::new();
        match fetch(inner, path, Want::Whole { most }, None, |_| Ok(()), |bytes| pieces.push(bytes)).await {
            Ok(tag) => return Ok((joined(pieces), tag)),
            // Replaced after a part of it had come: the new one is as good.
            Err(e) if e.code() == Code::Conflict && again < 3 => again += 1,
            Err(e) => return Err(e),
        }
    }
}

/// Size and version.
pub(super) async fn head(inner: &Inner, path: &RelPath) -> Result<(ObjectMeta, Tag)> {
    let key = inner.settings.key(path)?;
    let ask = |head, range| {
        let key = key.clone();
        let options = GetOptions { head, range, ..GetOptions::default() };
        move |client: super::client::Client| async move { client.store.get_opts(&key, options).await.map(|got| got.meta) }
    };
    let mut tries = Tries::new(inner);
    let meta = loop {
        match inner.once(ask(true, None)(inner.client()?)).await {
            Ok(meta) => break meta,
            // An answer to HEAD has no body, so nothing tells a missing object from a missing bucket: GET does.
            Err(failure)
                if failure.is_missing() && failure.seen.code.is_empty() && !inner.bucket_seen.load(Ordering::Relaxed) =>
            {
                match inner.once(ask(false, Some(GetRange::Bounded(0..1)))(inner.client()?)).await {
                    Ok(meta) => break meta,
                    Err(failure) => {
                        if failure.seen.code == "NoSuchKey" {
                            inner.bucket_seen.store(true, Ordering::Relaxed);
                        }
                        tries.again(failure, Purpose::Read).await?;
                    }
                }
            }
            Err(failure) => tries.again(failure, Purpose::Read).await?,
        }
    };
    let tag = Tag::new(inner, &meta);
    Ok((ObjectMeta { size: meta.size, version: Some(tag.version()) }, tag))
}

/// Ranges that are read as one: near to each other, and not too much together.
fn regions(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut sorted: Vec<&Range<u64>> = ranges.iter().filter(|range| !range.is_empty()).collect();
    sorted.sort_unstable_by_key(|range| (range.start, range.end));
    let mut regions: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match regions.last_mut() {
            Some(last) if range.end <= last.end => {}
            Some(last) if range.start <= last.end || (range.start - last.end <= ROUND_TRIP && range.end - last.start <= LONG) => {
                last.end = range.end;
            }
            _ => regions.push(range.clone()),
        }
    }
    regions
}

fn pieces(region: &Range<u64>) -> Vec<Range<u64>> {
    match region.end - region.start {
        0..=LONG => vec![region.clone()],
        _ => (region.start..region.end).step_by(PIECE as usize).map(|start| start..(start + PIECE).min(region.end)).collect(),
    }
}

/// The bytes of each range, all of the version `known`, or of one.
pub(super) async fn ranges(
    inner: &Arc<Inner>,
    path: &RelPath,
    ranges: &[Range<u64>],
    known: Option<Tag>,
) -> Result<(Vec<Bytes>, Option<Tag>)> {
    if let Some(range) = ranges.iter().find(|range| range.start > range.end) {
        range_len(range, u64::MAX)?;
    }
    let regions = regions(ranges);
    let long = regions.iter().any(|region| region.end - region.start > LONG);
    let mut known = known;
    if known.is_none() && (regions.is_empty() || long) {
        known = Some(head(inner, path).await?.1);
    }
    if let Some(tag) = &known {
        for range in ranges {
            range_len(range, tag.size)?;
        }
    }
    for _ in 0..4 {
        let (got, tag) = match together(inner, path, &regions, known.clone()).await? {
            Some((got, tag)) => (got, tag.or(known)),
            None => continue,
        };
        if let Some(tag) = &tag {
            for range in ranges {
                range_len(range, tag.size)?;
            }
        }
        let slice = |range: &Range<u64>| {
            if range.is_empty() {
                return Some(Bytes::new());
            }
            let at = regions.partition_point(|region| region.start <= range.start).checked_sub(1)?;
            let (region, bytes) = (regions.get(at)?, got.get(at)?);
            let start = usize::try_from(range.start - region.start).ok()?;
            let end = usize::try_from(range.end - region.start).ok()?;
            (end <= bytes.len()).then(|| bytes.slice(start..end))
        };
        let slices = ranges.iter().map(slice).collect::<Option<Vec<_>>>();
        return Ok((slices.ok_or_else(|| Error::storage("fewer bytes came than were asked for").remedy("try again"))?, tag));
    }
    Err(replaced().within("four times in a row"))
}

type Region = (Vec<Bytes>, Option<Tag>);

/// All regions, or `None` where they came out as of several versions.
async fn together(inner: &Arc<Inner>, path: &RelPath, regions: &[Range<u64>], known: Option<Tag>) -> Result<Option<Region>> {
    let work = regions.iter().enumerate().flat_map(|(region, range)| pieces(range).into_iter().map(move |piece| (region, piece)));
    let work: Vec<_> = work.collect();
    let mut first: Option<Tag> = known.clone();
    let fetches = work.into_iter().map(move |(region, piece)| {
        let (inner, path, known) = (Arc::clone(inner), path.clone(), known.clone());
        async move {
            let mut bytes = Vec::new();
            let tag = fetch(&inner, &path, Want::Range(piece), known, |_| Ok(()), |piece| bytes.push(piece)).await?;
            Ok::<_, Error>((region, bytes, tag))
        }
    });
    let mut fetches = futures_util::stream::iter(fetches).buffered(SIDE_BY_SIDE);
    let mut parts: Vec<Vec<Bytes>> = vec![Vec::new(); regions.len()];
    while let Some(got) = fetches.next().await {
        let (region, bytes, tag) = got?;
        if first.as_ref().is_some_and(|first| !first.same(&tag)) {
            return Ok(None);
        }
        first = Some(tag);
        if let Some(part) = parts.get_mut(region) {
            part.extend(bytes);
        }
    }
    Ok(Some((parts.into_iter().map(joined).collect(), first)))
}

/// Pieces as one, copied only where there are several.
pub(super) fn joined(mut pieces: Vec<Bytes>) -> Bytes {
    match pieces.len() {
        0 => Bytes::new(),
        1 => pieces.pop().unwrap_or_default(),
        _ => {
            let mut all = Vec::with_capacity(pieces.iter().map(Bytes::len).sum());
            pieces.iter().for_each(|piece| all.extend_from_slice(piece));
            all.into()
        }
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;

    #[test]
    fn near_ranges_are_one_request_and_long_ones_several() {
        const MB: u64 = 1 << 20;
        assert_eq!(regions(&[5..7, 0..2, 3..3, 1..4]), [0..7]);
        assert_eq!(regions(&[0..10, 10 + MB..11 + MB, 13 + 2 * MB..14 + 2 * MB]), [0..11 + MB, 13 + 2 * MB..14 + 2 * MB]);
        assert_eq!(regions(&[0..10 * MB, 10 * MB + 1..20 * MB]), [0..10 * MB, 10 * MB + 1..20 * MB], "together too long");
        assert_eq!(regions(&[0..10 * MB, 9 * MB..20 * MB]), [0..20 * MB], "overlapping");
        assert_eq!(pieces(&(3..3 + LONG)), [3..3 + LONG]);
        assert_eq!(pieces(&(0..2 * PIECE + 1 + PIECE)).len(), 4);
        assert_eq!(pieces(&(1..2 + 2 * PIECE)).last(), Some(&(1 + 2 * PIECE..2 + 2 * PIECE)));
    }
}
