//! Building a shard.

use crate::error::{FormatError, Result};
use crate::limits;

/// A value of at least this many bytes goes behind all small ones and starts at a multiple of 64.
pub(super) const LARGE: usize = 4096;
const LARGE_ALIGN: usize = 64;
/// Bytes left free before the large values, for what comes before them in [`ShardBuilder::finish_whole`].
const GAP: usize = 256 << 10;

/// Collects records and lays them out as one FlatBuffers shard: all tables first, then the small values, then the large
/// ones in the order they came. Each value is copied once, when it is pushed.
///
/// ```
/// use sigbank_format::container::flatbuffer::{Attribute, ShardBuilder, spans};
/// let attributes = [("trace", 4), ("key", 1)].map(|(name, len)| Attribute { name: name.into(), len: Some(len) });
/// let mut shard = ShardBuilder::new(vec![2, 1]);
/// shard.push(&[&[1, 0, 2, 0], b"k"])?;
/// let bytes = shard.finish()?.concat();
/// let found = spans(&mut &bytes[..], 1, &[0], &[0, 1], &attributes)?;
/// assert_eq!(&bytes[found[0].offset as usize..][..4], &[1, 0, 2, 0]);
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
#[derive(Debug, Default)]
pub struct ShardBuilder {
    aligns: Vec<usize>,
    head: Vec<u8>,
    small: Vec<u8>,
    large: Vec<u8>,
    places: Vec<Place>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    /// Where the vector (its length, then its bytes) begins in `small` or `large`.
    at: usize,
    large: bool,
}

fn padded(at: usize, align: usize) -> usize {
    at.next_multiple_of(align.max(1))
}

impl ShardBuilder {
    /// A shard whose records have as many attributes as there are alignments; each alignment is a power of two up to 64.
    pub fn new(aligns: Vec<usize>) -> Self {
        let aligns = aligns
            .into_iter()
            .map(|a| if a.is_power_of_two() { a.min(LARGE_ALIGN) } else { 1 << a.trailing_zeros().min(6) })
            .collect();
        Self { aligns, ..Self::default() }
    }

    /// Records pushed so far.
    pub fn len(&self) -> usize {
        self.places.len().checked_div(self.aligns.len()).unwrap_or(0)
    }
    /// Whether nothing was pushed.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
    /// Bytes of room that the large values of `records` records take, where the attributes' values have these lengths: what
    /// [`ShardBuilder::with_room`] wants, so that nothing need be moved. Zero where no value is large.
    pub fn room_for(records: usize, lens: &[Option<usize>]) -> usize {
        let large = lens.iter().flatten().filter(|&&len| len >= LARGE).map(|len| padded(len.saturating_add(4), LARGE_ALIGN));
        match large.fold(0usize, usize::saturating_add) {
            0 => 0,
            record => record.saturating_mul(records).saturating_add(GAP + LARGE_ALIGN),
        }
    }
    /// A shard that keeps the values of `LARGE` bytes or more in `room`, whose contents are dropped and whose capacity is
    /// used, so that pushing need not move what is there.
    #[must_use]
    pub fn with_room(mut self, mut room: Vec<u8>) -> Self {
        room.clear();
        self.large = room;
        self
    }
    /// Bytes held in memory.
    pub fn memory(&self) -> usize {
        self.small.capacity() + self.large.capacity() + self.head.capacity()
    }
    /// Bytes of the shard with one more record whose values have `bytes` in all.
    fn size_with(&self, bytes: usize) -> usize {
        let m = self.aligns.len();
        let tables = (self.len() + 1).saturating_mul(16 + 12 * m).saturating_add(24 + 3 * LARGE_ALIGN);
        tables
            .saturating_add(self.small.len())
            .saturating_add(self.large.len())
            .saturating_add(bytes)
            .saturating_add(m * (LARGE_ALIGN + 4))
    }
    /// Whether one more record whose values have `bytes` in all still fits below FlatBuffers' 2 GiB.
    pub fn fits(&self, bytes: usize) -> bool {
        self.size_with(bytes) as u64 <= limits::MAX_FLATBUFFER
    }

    /// Adds one record: each attribute's bytes, in the declared order.
    ///
    /// # Errors
    /// Invalid where their number is not the declared one, Limit where the shard would pass 2 GiB; the shard is as before.
    pub fn push(&mut self, values: &[&[u8]]) -> Result<()> {
        if values.len() != self.aligns.len() {
            return Err(FormatError::invalid(format!("{} values for {} attributes", values.len(), self.aligns.len())));
        }
        let bytes = values.iter().fold(0usize, |all, v| all.saturating_add(v.len()));
        if !self.fits(bytes) {
            return Err(FormatError::limit(format!(
                "an example of {bytes} bytes does not fit into a FlatBuffers shard that holds {} examples (2 GiB at most)",
                self.len()
            )));
        }
        for (value, &align) in values.iter().zip(&self.aligns) {
            let large = value.len() >= LARGE;
            if large && self.large.is_empty() {
                self.large.resize(GAP, 0);
            }
            let (to, align) = if large { (&mut self.large, LARGE_ALIGN) } else { (&mut self.small, align.max(4)) };
            let at = padded(to.len() + 4, align) - 4;
            to.resize(at, 0);
            to.extend_from_slice(&(value.len() as u32).to_le_bytes());
            to.extend_from_slice(value);
            self.places.push(Place { at, large });
        }
        Ok(())
    }

    /// The finished shard in pieces that follow one another. More must not be pushed before [`ShardBuilder::clear`].
    pub fn finish(&mut self) -> Result<[&[u8]; 3]> {
        let (n, m) = (self.len(), self.aligns.len());
        let record = 12 + 12 * m;
        let tables = 24 + 4 * n + n * record;
        let small_base = padded(tables, LARGE_ALIGN);
        let large_base = padded(small_base + self.small.len(), LARGE_ALIGN);
        self.small.resize(large_base - small_base, 0);
        let place = |p: &Place| if p.large { large_base + p.at - GAP } else { small_base + p.at };
        self.head.clear();
        self.head.reserve(small_base);
        let mut out = Words(&mut self.head);
        // One vtable serves all three kinds of table: 6 bytes long, its table 8, the one field at 4.
        out.word(12);
        out.0.extend_from_slice(&[6, 0, 8, 0, 4, 0, 0, 0]);
        out.table(20);
        out.word(n);
        for i in 0..n {
            out.offset(24 + 4 * n + i * record);
        }
        for places in self.places.chunks(m.max(1)) {
            let vector = out.0.len() + 8;
            out.table(vector);
            out.word(m);
            for j in 0..m {
                out.offset(vector + 4 + 4 * m + 8 * j);
            }
            for p in places {
                out.table(place(p));
            }
        }
        self.head.resize(small_base, 0);
        Ok([&self.head, &self.small, self.large.get(GAP..).unwrap_or_default()])
    }

    /// The finished shard in one piece without copying its large values; none where it has no large values or too many small
    /// ones, and its pieces must be joined.
    pub fn finish_whole(&mut self) -> Result<Option<&[u8]>> {
        self.finish()?;
        let before = self.head.len() + self.small.len();
        let Some(start) = GAP.checked_sub(before).filter(|_| !self.large.is_empty()) else { return Ok(None) };
        if let Some((head, small)) = self.large.get_mut(start..GAP).map(|gap| gap.split_at_mut(self.head.len())) {
            head.copy_from_slice(&self.head);
            small.copy_from_slice(&self.small);
        }
        Ok(self.large.get(start..))
    }

    /// Empties the shard and keeps its memory.
    pub fn clear(&mut self) {
        self.small.clear();
        self.large.clear();
        self.places.clear();
    }
}

struct Words<'a>(&'a mut Vec<u8>);

impl Words<'_> {
    fn word(&mut self, n: usize) {
        self.0.extend_from_slice(&(n as u32).to_le_bytes());
    }
    /// An offset from here to `target`.
    fn offset(&mut self, target: usize) {
        self.word(target - self.0.len());
    }
    /// A table here: the way back to the vtable at 4, then its one field, which leads to `target`.
    fn table(&mut self, target: usize) {
        self.word(self.0.len() - 4);
        self.offset(target);
    }
}
