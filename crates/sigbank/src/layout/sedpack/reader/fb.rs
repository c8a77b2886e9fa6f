//! FlatBuffers shards.

use super::{ALL, CHUNK, KeptOpen, Listed, Shared};
use crate::error::{Code, Error, Result};
use crate::layout::RowSink;
use crate::layout::sedpack::structure::Structure;
use crate::store::StoreFile;
use sigbank_format::compress::{Compression, decoder};
use sigbank_format::container::flatbuffer::{self, Attribute, Blocks, Prefix, Sliding, Span, Window, reversed, spans};
use sigbank_format::error::FormatErrorKind;
use sigbank_format::limits;
use sigbank_format::model::FieldType;
use std::collections::HashMap;
use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Values shorter than this are looked at through the window, longer ones go straight to their place.
const DIRECT: usize = 4096;
/// How far a compressed shard is decoded to look at its tables: those written here lie in front.
const HEAD: u64 = 64 << 10;
/// Bytes of values that are asked for with one call where each request costs time.
const TOGETHER: u64 = 32 << 20;
/// Decoding buffers that are kept for the next shard.
const KEPT_BUFFERS: usize = 2;

/// A shard up to this size is read whole: one read costs less than finding its parts.
const SMALL_SHARD: u64 = 512 << 10;
/// Reads shards of one structure.
#[derive(Debug)]
pub(super) struct Fb {
    attributes: Vec<Attribute>,
    texts: Vec<usize>,
    compression: Compression,
    /// Memory of past decodings: fresh pages cost more than the copy.
    buffers: Mutex<Vec<Vec<u8>>>,
    /// The most that was decoded before all tables of a shard were known.
    decoded: AtomicUsize,
    /// Uncompressed shards that were read from last.
    open: KeptOpen<OpenShard>,
}

/// An open uncompressed shard and what was seen of its tables. Shards never change, so it may be kept.
#[derive(Debug)]
struct OpenShard {
    file: Arc<dyn StoreFile>,
    window: Mutex<Blocks<Shared>>,
}

impl Fb {
    pub(super) fn new(structure: &Structure) -> Result<Self> {
        let lens = crate::layout::fixed_lens(&structure.schema)?;
        let attributes =
            structure.schema.fields.iter().zip(lens).map(|(f, len)| Attribute { name: f.name.clone(), len }).collect();
        let fields = structure.schema.fields.iter().enumerate();
        let texts = fields.filter(|(_, f)| f.ty == FieldType::Str).map(|(i, _)| i).collect();
        Ok(Self {
            attributes,
            texts,
            compression: structure.compression,
            buffers: Mutex::default(),
            decoded: AtomicUsize::new(0),
            open: KeptOpen::default(),
        })
    }

    pub(super) fn random_access(&self) -> bool {
        self.compression == Compression::None
    }

    /// Reads `records` (ascending places in the shard, which holds `count`) of `fields` into the places that `out` hands out.
    pub(super) fn read(&self, mut listed: Listed<'_>, records: &[u32], fields: &[usize], out: &mut dyn RowSink) -> Result<()> {
        let wanted = self.wanted(listed.count, records, fields);
        let far = listed.is_far();
        match self.compression {
            // Most of it: one request, and every value is placed as it arrives.
            Compression::None if far && wanted.most() => self.decode(&listed.open(ALL)?, &wanted, out),
            Compression::None => wanted.read_file(&*self.open_shard(listed, records.len())?, far, out),
            _ => self.decode(&listed.open(ALL)?, &wanted, out),
        }
    }

    /// How many of its first bytes to open a shard with; none where it is open.
    pub(super) fn first(&self, listed: &Listed<'_>, records: &[u32], fields: &[usize]) -> Option<u64> {
        if self.compression != Compression::None || self.wanted(listed.count, records, fields).most() {
            return Some(ALL);
        }
        (!self.open.knows(listed.path)).then(|| few(listed))
    }

    fn wanted<'a>(&'a self, count: u64, records: &'a [u32], fields: &'a [usize]) -> Wanted<'a> {
        Wanted { attributes: &self.attributes, records, fields, texts: &self.texts, count }
    }

    /// The shard, open, from those that were read from last or anew.
    fn open_shard(&self, mut listed: Listed<'_>, records: usize) -> Result<Arc<OpenShard>> {
        self.open.get(listed.path, || {
            let file = listed.open(few(&listed))?;
            // A small shard is read whole. Else many records want what lies in front, a few only some of it.
            let first = match (file.size(), records) {
                (0..=SMALL_SHARD, _) => file.size() as usize,
                (_, 0..=4) => 0,
                _ => 64 << 10,
            };
            Ok(OpenShard { window: Mutex::new(Blocks::new(Shared(file.clone()), first)), file })
        })
    }

    /// Records in a shard.
    pub(super) fn count(&self, file: Arc<dyn StoreFile>) -> Result<u64> {
        Ok(match self.compression {
            Compression::None => flatbuffer::count(&mut Blocks::new(Shared(file), 0))?,
            _ => flatbuffer::count(&mut Prefix::new(self.source(file)?, limits::MAX_FLATBUFFER, Vec::new()))?,
        })
    }

    fn source(&self, file: Arc<dyn StoreFile>) -> Result<Box<dyn Read + Send>> {
        // The decoder has a buffer, and what may be read into it is zeroed first: no more than the file has.
        let size = file.size();
        Ok(decoder(self.compression, Box::new(file.stream().take(size)))?)
    }

    fn decode(&self, file: &Arc<dyn StoreFile>, wanted: &Wanted<'_>, out: &mut dyn RowSink) -> Result<()> {
        let mut prefix = Prefix::new(self.source(file.clone())?, limits::MAX_FLATBUFFER, Vec::new());
        let mut given = HashMap::new();
        if let Some(tables) = reversed(&mut prefix, wanted.count) {
            match wanted.read_reversed(Sliding::new(prefix), &tables, &mut given, out) {
                Err(e) if e.code() == Code::Unsupported => {}
                done => return done,
            }
            prefix = Prefix::new(self.source(file.clone())?, limits::MAX_FLATBUFFER, self.room());
        }
        let found = wanted.spans(&mut prefix);
        let (mut source, room, filled) = prefix.into_parts();
        let head = room.get(..filled).unwrap_or_default();
        let done = found.and_then(|spans| wanted.read_stream(head, &mut source, &spans, &given, out));
        if filled > HEAD as usize {
            self.decoded.fetch_max(filled, Ordering::Relaxed);
            let mut kept = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() < KEPT_BUFFERS {
                kept.push(room);
            }
        }
        done
    }

    /// Memory to decode into: used before, or as much as the largest shard so far took.
    fn room(&self) -> Vec<u8> {
        let used = self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        used.or_else(|| crate::pages::take(self.decoded.load(Ordering::Relaxed))).unwrap_or_default()
    }

    /// Compares the number of records in a shard with `count`, and the values of its first and last record with what is declared:
    /// as far as that can be seen without decoding all of a compressed shard.
    pub(super) fn probe(&self, file: Arc<dyn StoreFile>, count: u64) -> Result<()> {
        let fields: Vec<usize> = (0..self.attributes.len()).collect();
        let last = count.saturating_sub(1) as u32;
        let records: &[u32] = match last {
            0 if count == 0 => &[],
            0 => &[0],
            _ => &[0, last],
        };
        let wanted = self.wanted(count, records, &fields);
        if self.compression == Compression::None {
            let spans = wanted.spans(&mut Blocks::new(Shared(file.clone()), 0))?;
            for (i, span) in spans.iter().enumerate().filter(|(_, span)| !span.checked) {
                let mut word = [0; 4];
                file.read_at(span.offset - 4, &mut word).and_then(|()| span.check_word(word)).map_err(|e| wanted.at(i, e))?;
            }
            return Ok(());
        }
        let mut prefix = Prefix::new(self.source(file)?, HEAD, Vec::new());
        if let Some(tables) = reversed(&mut prefix, count) {
            return match self.probe_reversed(Sliding::new(prefix), tables.last().copied().unwrap_or_default()) {
                Err(e) if e.kind() == FormatErrorKind::Unsupported => Ok(()),
                done => done.map_err(|e| Error::from(e).within(format!("example {last}"))),
            };
        }
        let found = match spans(&mut prefix, count, records, &fields, &self.attributes) {
            Err(e) if e.kind() == FormatErrorKind::Limit => return Ok(()),
            found => found?,
        };
        for (i, span) in found.iter().enumerate().filter(|(_, span)| !span.checked) {
            match prefix.get(span.offset - 4, 4).map(|word| word.try_into().unwrap_or_default()) {
                Err(e) if e.kind() == FormatErrorKind::Limit => {}
                word => word.and_then(|word| span.check_word(word)).map_err(|e| wanted.at(i, e))?,
            }
        }
        Ok(())
    }

    fn probe_reversed<R: Read>(&self, mut shard: Sliding<R>, table: u64) -> sigbank_format::Result<()> {
        let fields: Vec<usize> = (0..self.attributes.len()).collect();
        for (table, field) in shard.example(table, &fields, &self.attributes)? {
            if let Some(attribute) = self.attributes.get(field) {
                shard.value(table, attribute).map_err(|e| e.within(format!("attribute '{}'", attribute.name)))?;
            }
        }
        Ok(())
    }
}

/// How many first bytes of a shard to fetch where a few of its records are wanted: the tables lie there, or all of it.
fn few(listed: &Listed<'_>) -> u64 {
    SMALL_SHARD.min(listed.store.capabilities().round_trip)
}

/// What is asked of one shard.
struct Wanted<'a> {
    attributes: &'a [Attribute],
    records: &'a [u32],
    fields: &'a [usize],
    /// The fields that hold text.
    texts: &'a [usize],
    count: u64,
}

impl Wanted<'_> {
    fn spans(&self, window: &mut dyn Window) -> Result<Vec<Span>> {
        Ok(spans(window, self.count, self.records, self.fields, self.attributes)?)
    }

    /// Whether about half of the shard or more is asked for.
    fn most(&self) -> bool {
        let part = |n: usize, of: u64| n as u64 * 4 >= of * 3;
        part(self.records.len(), self.count) && part(self.fields.len(), self.attributes.len() as u64)
    }

    /// The row and the field that the `i`-th span is for.
    fn target(&self, i: usize) -> (usize, usize) {
        (i / self.fields.len().max(1), i % self.fields.len().max(1))
    }

    /// An error at the `i`-th span, with the record and the attribute.
    fn at(&self, i: usize, e: impl Into<Error>) -> Error {
        let (row, field) = self.target(i);
        let name = self.fields.get(field).and_then(|&f| self.attributes.get(f)).map_or("?", |a| &a.name);
        e.into().within(format!("example {}: attribute '{name}'", self.records.get(row).copied().unwrap_or(0)))
    }

    /// Text must be text.
    fn valid(&self, field: usize, value: &[u8]) -> Result<()> {
        if self.fields.get(field).is_some_and(|f| self.texts.contains(f)) {
            std::str::from_utf8(value).map_err(|e| Error::corrupt(format!("text in UTF-8 is expected: {e}")))?;
        }
        Ok(())
    }

    /// Copies small values from what the window sees, and reads large ones straight to their place.
    fn read_file(&self, shard: &OpenShard, far: bool, out: &mut dyn RowSink) -> Result<()> {
        let spans = {
            let window = &mut *shard.window.lock().unwrap_or_else(PoisonError::into_inner);
            let spans = self.spans(window)?;
            match window.whole() {
                Some(mut all) => self.copy_small(&mut all, &spans, out)?,
                None => self.copy_small(window, &spans, out)?,
            }
            spans
        };
        if far {
            return self.read_together(&*shard.file, &spans, out);
        }
        for (i, span) in spans.iter().enumerate().filter(|(_, span)| span.len >= DIRECT) {
            let (row, field) = self.target(i);
            let large = |out: &mut dyn RowSink| -> Result<()> {
                let file = &shard.file;
                if !span.checked {
                    let mut word = [0; 4];
                    file.read_at(span.offset - 4, &mut word)?;
                    span.check_word(word)?;
                }
                // Before memory is taken: a forged length must lie within the file.
                if span.len as u64 > file.size() {
                    return Err(sigbank_format::read_at::past_end(span.offset, span.len, file.size()).into());
                }
                let place = out.place(row, field, span.len)?;
                file.read_at(span.offset, place)?;
                self.valid(field, place)
            };
            large(out).map_err(|e| self.at(i, e))?;
        }
        Ok(())
    }

    /// Large values, as many with one call as fit into a bound.
    fn read_together(&self, file: &dyn StoreFile, spans: &[Span], out: &mut dyn RowSink) -> Result<()> {
        let mut left: Vec<(usize, &Span)> = spans.iter().enumerate().filter(|(_, span)| span.len >= DIRECT).collect();
        while !left.is_empty() {
            let (mut bytes, mut n) = (0u64, 0);
            while let Some((_, span)) = left.get(n)
                && (n == 0 || bytes + span.len as u64 <= TOGETHER)
            {
                (bytes, n) = (bytes + span.len as u64, n + 1);
            }
            let rest = left.split_off(n);
            // The word before a value says its length.
            let begin = |span: &Span| if span.checked { span.offset } else { span.offset.saturating_sub(4) };
            let ranges: Vec<_> = left.iter().map(|(_, s)| begin(s)..s.offset.saturating_add(s.len as u64)).collect();
            for ((i, span), got) in left.into_iter().zip(file.read_ranges(&ranges)?) {
                let mut one = || -> Result<()> {
                    let mut value = &got[..];
                    if !span.checked {
                        let (word, after) =
                            value.split_first_chunk::<4>().ok_or_else(|| Error::corrupt("a value without a length"))?;
                        span.check_word(*word)?;
                        value = after;
                    }
                    let (row, field) = self.target(i);
                    out.place(row, field, span.len)?.copy_from_slice(value);
                    self.valid(field, value)
                };
                one().map_err(|e| self.at(i, e))?;
            }
            left = rest;
        }
        Ok(())
    }

    fn copy_small<W: Window>(&self, window: &mut W, spans: &[Span], out: &mut dyn RowSink) -> Result<()> {
        for (i, span) in spans.iter().enumerate().filter(|(_, span)| span.len < DIRECT) {
            let (row, field) = self.target(i);
            let mut one = || -> Result<()> {
                let value = window.get(span.offset, span.len)?;
                out.place(row, field, span.len)?.copy_from_slice(value);
                self.valid(field, value)
            };
            one().map_err(|e| self.at(i, e))?;
        }
        Ok(())
    }

    /// Reads a shard of the reference's layout as it is decoded; `given` says what was placed.
    fn read_reversed<R: Read>(
        &self,
        mut shard: Sliding<R>,
        tables: &[u64],
        given: &mut HashMap<usize, Span>,
        out: &mut dyn RowSink,
    ) -> Result<()> {
        for (row, &record) in self.records.iter().enumerate().rev() {
            let table = tables
                .get(record as usize)
                .ok_or_else(|| Error::invalid(format!("example {record} of a shard with {}", self.count)))?;
            let place = |e: Error| e.within(format!("example {record}"));
            for (table, field) in shard.example(*table, self.fields, self.attributes).map_err(|e| place(e.into()))? {
                let i = row * self.fields.len() + field;
                let mut one = || -> Result<()> {
                    let attribute = self.fields.get(field).and_then(|&f| self.attributes.get(f));
                    let span = shard.value(table, attribute.ok_or_else(|| Error::invalid("there is no such attribute"))?)?;
                    let place = out.place(row, field, span.len)?;
                    shard.read(place)?;
                    given.insert(i, span);
                    self.valid(field, place)
                };
                one().map_err(|e| self.at(i, e))?;
            }
        }
        Ok(shard.finish()?)
    }

    /// Takes the values from what was decoded so far (`head`) and from the stream that follows it, in the order they lie. Those
    /// that were `given` already must lie where they were taken from.
    fn read_stream(
        &self,
        head: &[u8],
        rest: &mut dyn Read,
        spans: &[Span],
        given: &HashMap<usize, Span>,
        out: &mut dyn RowSink,
    ) -> Result<()> {
        let mut order: Vec<u32> = (0..spans.len() as u32).collect();
        order.sort_unstable_by_key(|&i| spans.get(i as usize).map(|s| s.offset));
        let mut cursor = Cursor { head, rest, at: head.len() as u64, scratch: Vec::new() };
        for i in order.into_iter().map(|i| i as usize) {
            let Some(span) = spans.get(i) else { continue };
            let (row, field) = self.target(i);
            let one = |cursor: &mut Cursor<'_>, out: &mut dyn RowSink| -> Result<()> {
                match given.get(&i) {
                    Some(known) if (known.offset, known.len) == (span.offset, span.len) => return Ok(()),
                    Some(_) => return Err(Error::corrupt("the shard's tables contradict each other")),
                    None => {}
                }
                if !span.checked {
                    let mut word = [0; 4];
                    cursor.read(span.offset - 4, &mut word)?;
                    span.check_word(word)?;
                }
                if span.len as u64 > limits::MAX_FLATBUFFER {
                    return Err(Error::limit(format!("{} bytes are over FlatBuffers' 2 GiB", span.len)));
                }
                let place = out.place(row, field, span.len)?;
                cursor.read(span.offset, place)?;
                self.valid(field, place)
            };
            one(&mut cursor, out).map_err(|e| self.at(i, e))?;
        }
        // To the end, so that what a compression checks there is checked.
        std::io::copy(&mut *cursor.rest, &mut std::io::sink()).map_err(decoding)?;
        Ok(())
    }
}

/// A decoded shard that is read forward.
struct Cursor<'a> {
    head: &'a [u8],
    rest: &'a mut dyn Read,
    /// Where `rest` stands.
    at: u64,
    scratch: Vec<u8>,
}

impl Cursor<'_> {
    fn read(&mut self, offset: u64, place: &mut [u8]) -> Result<()> {
        let from_head = self.head.get(offset as usize..).unwrap_or_default();
        let n = from_head.len().min(place.len());
        let (first, second) = place.split_at_mut(n);
        first.copy_from_slice(from_head.get(..n).unwrap_or_default());
        if second.is_empty() {
            return Ok(());
        }
        let start = offset + n as u64;
        let Some(mut gap) = start.checked_sub(self.at) else {
            return Err(Error::unsupported("values of this shard overlap")
                .remedy("write the shard again with sigbank or the reference package"));
        };
        while gap > 0 {
            self.scratch.resize(CHUNK, 0);
            let part = self.scratch.get_mut(..gap.min(CHUNK as u64) as usize).unwrap_or_default();
            self.rest.read_exact(part).map_err(decoding)?;
            gap -= part.len() as u64;
        }
        self.rest.read_exact(second).map_err(decoding)?;
        self.at = start + second.len() as u64;
        Ok(())
    }
}

fn decoding(e: std::io::Error) -> Error {
    Error::from(sigbank_format::FormatError::from(e))
}
