//! Windows of fixed length of one array of each item: what unequal recordings become batches by.

use super::describe::{each, threads};
use super::item::Item;
use super::source::JbofSource;
use super::value::Value as Elements;
use crate::error::{Error, Result};
use crate::layout::{RowSink, Source, Split, Units, Verified};
use serde_json::json;
use sigbank_format::model::array::byte_len;
use sigbank_format::model::{DType, Field, FieldType, Metadata, Schema};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_128;

/// A unit is a run of items of at most so many windows, and so many bytes of them; an item is in one.
const UNIT: (u64, u64) = (256, 256 << 10);

/// A data set of the JBOF layout seen as windows along the first axis of one array: see [`JbofSource::windows_of`].
#[derive(Debug)]
pub(super) struct Windowed {
    inner: JbofSource,
    /// The array's name.
    name: String,
    len: usize,
    hop: u64,
    dtype: DType,
    /// Elements along the other axes.
    tail: Vec<usize>,
    /// The number of the first window of each item, and after the last one of all.
    firsts: Vec<u64>,
    schema: Schema,
    units: Arc<Units>,
    /// Whether files are decoded from their beginning on.
    in_sequence: bool,
    /// Whether they are of some items only.
    of_some: bool,
}

/// What is known of one item's array.
struct Found {
    rows: u64,
    dtype: DType,
    tail: Vec<usize>,
}

impl JbofSource {
    /// The windows of `len` rows (positions along the first axis: frames of audio) of the array `name` of each item, each `hop` rows after the one before;
    /// what does not fill a window at an item's end is left out. Records are windows, in the order of the items; the fields are the array,
    /// `item` (the item's name) and `start` (the window's first row). Items without the array have none.
    ///
    /// # Errors
    /// `NotFound` where no item has the array; `Invalid` for a length or hop of 0, for an array without an axis, named `item` or `start`, and where
    /// items differ in its dtype or in its other axes, naming two; those of reading an array's header.
    ///
    /// ```
    /// use sigbank::format::array::npy;
    /// use sigbank::format::model::json::Json;
    /// use sigbank::layout::jbof::{ArrayFile, Creation, Dataset, JbofSource};
    /// use sigbank::layout::read;
    /// let dir = tempfile::tempdir()?;
    /// let item = Dataset::create(&dir.path().join("a"), &Creation::default())?.add_item(Some("i"), &Json::EMPTY)?;
    /// item.add_array("x", &ArrayFile::new("npy", &[&npy::header(&"|u1".parse()?, &[5])?, &[1, 2, 3, 4, 5]]), &Json::EMPTY)?;
    /// let windows = JbofSource::new(Dataset::open(&dir.path().join("a"))?)?.windows_of("x", 2, 2)?;
    /// assert_eq!(read(&*windows, "all", &[0, 1], &[0, 2])?, [[vec![1, 2], vec![0; 8]], [vec![3, 4], vec![2, 0, 0, 0, 0, 0, 0, 0]]]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn windows_of(&self, name: &str, len: u64, hop: u64) -> Result<Arc<dyn Source>> {
        self.windows_in(None, name, len, hop)
    }

    /// As [`JbofSource::windows_of`], of all items or of those of these numbers (ascending): the others are not looked at.
    pub(super) fn windows_in(&self, among: Option<&[u64]>, name: &str, len: u64, hop: u64) -> Result<Arc<dyn Source>> {
        let invalid = |what: String| Error::invalid(what).at(self.location());
        let rows = usize::try_from(len).unwrap_or(usize::MAX);
        if rows == 0 || hop == 0 {
            return Err(invalid(format!("a window of {len} rows every {hop} rows")).remedy("both must be at least 1"));
        }
        if matches!(name, "item" | "start") {
            return Err(invalid(format!("windows have a field '{name}' of their own")).remedy("rename the array"));
        }
        let Some(field) = self.schema().position(name) else {
            let known: Vec<_> = self.schema().fields.iter().map(|field| field.name.as_str()).collect();
            return Err(Error::not_found(format!("no item has an array '{name}'"))
                .at(self.location())
                .remedy(format!("there are {}", known.join(", "))));
        };
        let count = usize::try_from(self.units("all")?.records()).unwrap_or(usize::MAX);
        let mut found: Vec<Option<Found>> = Vec::new();
        found.resize_with(count, || None);
        let asked = |at: u64| among.is_none_or(|among| among.binary_search(&at).is_ok());
        let one = |at: usize| match self.item(at as u64).filter(|_| asked(at as u64) && self.has(at as u64, field)) {
            Some(item) => look(item, name).map(Some),
            None => Ok(None),
        };
        each(count, threads(0, self.round_trip() > 0), one, &mut |at, one| {
            if let Some(slot) = found.get_mut(at) {
                *slot = one;
            }
            true
        })?;
        let mut first: Option<(usize, &Found)> = None;
        let mut firsts = vec![0u64];
        let mut all = 0u64;
        for (at, of) in found.iter().enumerate() {
            if let Some(of) = of {
                let (before, like) = *first.get_or_insert((at, of));
                if (&like.dtype, &like.tail) != (&of.dtype, &of.tail) {
                    let kind = |at: usize, of: &Found| {
                        let axes: String = of.tail.iter().map(|n| format!(", {n}")).collect();
                        format!("{}[..{axes}] in the item '{}'", of.dtype.name(), self.id(at as u64).unwrap_or_default())
                    };
                    return Err(invalid(format!("'{name}' is {} and {}", kind(before, like), kind(at, of)))
                        .remedy("windows need one dtype, and the same other axes, in all items"));
                }
                all += of.rows.checked_sub(len).map_or(0, |room| room / hop + 1);
            }
            firsts.push(all);
        }
        let mut like = first.map(|(_, of)| (of.dtype.clone(), of.tail.clone()));
        if like.is_none() && among.is_some() {
            // There are no windows, of what they would be.
            let other = (0..count as u64).find(|at| self.has(*at, field)).and_then(|at| self.item(at));
            like = other.map(|item| look(item, name)).transpose()?.map(|of| (of.dtype, of.tail));
        }
        let Some((dtype, tail)) = like else {
            return Err(Error::not_found(format!("no item has an array '{name}' any more")).at(self.location()));
        };
        let shape: Vec<usize> = [rows].into_iter().chain(tail.iter().copied()).collect();
        let bytes = byte_len(&dtype, &shape)? as u64;
        let mut metadata = self.schema().fields.get(field).map(|field| field.metadata.clone()).unwrap_or_default();
        ["ragged", "dtype", "records"].iter().for_each(|key| drop(metadata.shift_remove(*key)));
        metadata.insert("window".into(), json!({"length": len, "hop": hop}));
        let plain = |name: &str, ty| Field { name: name.into(), ty, metadata: Metadata::new() };
        let array = Field { name: name.into(), ty: FieldType::Array { dtype: dtype.clone(), shape }, metadata };
        let schema = Schema { fields: vec![array, plain("item", FieldType::Str), plain("start", FieldType::Int)] };
        let counts = firsts.windows(2).map(|pair| match pair {
            [from, to] => to - from,
            _ => 0,
        });
        let units = Arc::new(Units::from_counts(runs(counts, bytes)));
        let in_sequence = self.formats().any(|format| matches!(format, "flac" | "ogg"));
        let (inner, name) = (self.clone(), name.to_owned());
        let of_some = among.is_some();
        Ok(Arc::new(Windowed { inner, name, len: rows, hop, dtype, tail, firsts, schema, units, in_sequence, of_some }))
    }
}

fn look(item: &Item, name: &str) -> Result<Found> {
    let within = |e: Error| e.within(format!("item {:?}, array {name:?}", item.name()));
    let value = item.array(name).and_then(|entry| Elements::open(&entry)).map_err(within)?;
    let Some((rows, tail)) = value.shape().split_first() else {
        return Err(within(Error::invalid("it is a single value, which has no windows").at(item.location())));
    };
    Ok(Found { rows: *rows as u64, dtype: value.dtype().clone(), tail: tail.to_vec() })
}

/// Windows of each unit.
fn runs(counts: impl Iterator<Item = u64>, bytes: u64) -> Vec<u64> {
    let (mut runs, mut held) = (Vec::new(), 0u64);
    for count in counts.filter(|count| *count > 0) {
        let all = held + count;
        if held > 0 && (all > UNIT.0 || all.saturating_mul(bytes) > UNIT.1) {
            runs.push(std::mem::take(&mut held));
        }
        held += count;
    }
    runs.extend((held > 0).then_some(held));
    runs
}

impl Windowed {
    /// The item of a window, and the window's first row there.
    fn locate(&self, window: u64) -> Option<(u64, u64)> {
        let item = self.firsts.partition_point(|first| *first <= window).checked_sub(1)?;
        let first = self.firsts.get(item)?;
        Some((item as u64, (window - first).saturating_mul(self.hop)))
    }

    fn open(&self, item: &Item) -> Result<Elements> {
        let value = Elements::open(&item.array(&self.name)?)?;
        if *value.dtype() != self.dtype || value.shape().get(1..) != Some(&self.tail[..]) {
            return Err(Error::conflict("it is of another dtype or shape than when the data set was opened")
                .at(item.location())
                .remedy("the array was replaced: open the data set again"));
        }
        Ok(value)
    }
}

impl Source for Windowed {
    fn layout(&self) -> &'static str {
        self.inner.layout()
    }
    fn location(&self) -> String {
        self.inner.location()
    }
    fn storage(&self) -> String {
        format!("windows of {} rows of '{}', every {}", self.len, self.name, self.hop)
    }
    fn metadata(&self) -> &Metadata {
        self.inner.metadata()
    }
    fn schema(&self) -> &Schema {
        &self.schema
    }
    fn splits(&self) -> Vec<Split> {
        let (records, units) = (self.units.records(), self.units.len() as u64);
        self.inner.splits().into_iter().map(|split| Split { records, units, ..split }).collect()
    }
    fn units(&self, split: &str) -> Result<Arc<Units>> {
        self.inner.units(split).map(|_| Arc::clone(&self.units))
    }
    fn unit_name(&self, split: &str, unit: usize) -> Result<String> {
        self.inner.units(split)?;
        let item = self.units.start(unit).and_then(|window| self.locate(window));
        let name = item.and_then(|(item, _)| self.inner.id(item)).map(str::to_owned);
        name.ok_or_else(|| {
            Error::not_found(format!("there is no unit {unit}: there are {}", self.units.len())).at(self.location())
        })
    }
    fn unit_metadata(&self, split: &str, _unit: usize) -> Result<Metadata> {
        self.inner.units(split).map(|_| Metadata::new())
    }
    /// Compressed audio is decoded from its beginning on.
    fn random_access(&self) -> bool {
        !self.in_sequence
    }
    fn round_trip(&self) -> u64 {
        self.inner.round_trip()
    }
    fn read_unit(&self, split: &str, unit: usize, records: &[u32], fields: &[usize], out: &mut dyn RowSink) -> Result<()> {
        self.inner.units(split)?;
        let mut opened: Option<(u64, Elements)> = None;
        for (row, &record) in records.iter().enumerate() {
            let window = self
                .units
                .start(unit)
                .filter(|_| u64::from(record) < self.units.count(unit))
                .map(|first| first + u64::from(record));
            let place = window.and_then(|window| self.locate(window));
            let Some((number, start, item)) = place.and_then(|(number, start)| Some((number, start, self.inner.item(number)?)))
            else {
                return Err(Error::not_found(format!("there is no record {record} in unit {unit}")).at(self.location()));
            };
            let within = |e: Error| e.within(format!("item {:?}, array {:?}, rows {start} on", item.name(), self.name));
            for (at, &field) in fields.iter().enumerate() {
                let own = |out: &mut dyn RowSink, bytes: &[u8]| {
                    out.place(row, at, bytes.len()).map(|place| place.copy_from_slice(bytes))
                };
                match field {
                    0 => {
                        let value = match opened.take() {
                            Some((of, value)) if of == number => value,
                            _ => self.open(item).map_err(within)?,
                        };
                        let (_, value) = opened.insert((number, value));
                        value.put_rows(start, self.len, |len| out.place(row, at, len)).map_err(within)?;
                    }
                    1 => own(out, item.name().as_bytes())?,
                    2 => own(out, &start.to_le_bytes())?,
                    other => return Err(Error::invalid(format!("there is no field {other}: the schema has 3"))),
                }
            }
        }
        Ok(())
    }
    fn verify(&self, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Verified> {
        self.inner.verify(progress)
    }
    fn still_there(&self) -> Result<()> {
        self.inner.still_there()
    }
    /// The data set's, with a digest of which windows each item has where they are of some items only.
    fn root_digest(&self) -> Result<String> {
        let whole = self.inner.root_digest()?;
        let bytes: Vec<u8> = self.firsts.iter().flat_map(|first| first.to_le_bytes()).collect();
        Ok(if self.of_some { format!("{whole}+xxh3:{:032x}", xxh3_128(&bytes)) } else { whole })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ArrayFile, Creation, Dataset, Kept};
    use super::*;
    use crate::Code;
    use crate::layout::read;
    use crate::loader::{Column, Loader, Options, Shuffle};
    use sigbank_format::array::{EncodeOptions, Format, encode};
    use sigbank_format::model::Array;
    use sigbank_format::model::json::Json;

    fn fill(format: Format, lens: &[usize]) -> (tempfile::TempDir, Dataset) {
        let dir = tempfile::tempdir().unwrap();
        let dataset = Dataset::create(&dir.path().join("set"), &Creation::default()).unwrap();
        for (n, &len) in lens.iter().enumerate() {
            let item = dataset.add_item(Some(&format!("i{n}")), &Json::EMPTY).unwrap();
            let values: Vec<u8> = (0..len).flat_map(|at| ((n * 1000 + at) as i16).to_le_bytes()).collect();
            let array = Array::new("<i2".parse().unwrap(), vec![len], values.into()).unwrap();
            let options = EncodeOptions { name: "x", sample_rate: Some(8000), subtype: None, lossy: false };
            let file = encode(format, &array, &options).unwrap();
            let parts: Vec<&[u8]> = file.parts.iter().map(|part| &part[..]).collect();
            let kept = (format == Format::Mat).then(|| Kept { shape: vec![len], dtype: None });
            item.add_array_keeping("x", &ArrayFile::new(format.extension(), &parts), &Json::EMPTY, kept.as_ref()).unwrap();
        }
        dataset.add_item(Some("none"), &Json::EMPTY).unwrap();
        (dir, dataset)
    }

    /// The first and the last sample of each window, its item and start, in order of the records.
    fn told(source: &Arc<dyn Source>, options: Options) -> Vec<(i16, i16, String, i64)> {
        let audio = source.schema().fields[0].ty.to_string().starts_with("float64");
        let sample = |bytes: &[u8]| match audio {
            true => (f64::from_le_bytes(bytes.try_into().unwrap()) * 32768.0) as i16,
            false => i16::from_le_bytes(bytes.try_into().unwrap()),
        };
        let mut all = Vec::new();
        for batch in Loader::new(source.clone(), options).unwrap() {
            let batch = batch.unwrap();
            let [Column::Fixed(x), Column::Var(items), Column::Fixed(starts)] = &batch.columns[..] else { panic!("{batch:?}") };
            let (row, one) = (x.len() / batch.rows, if audio { 8 } else { 2 });
            for ((x, item), start) in x.chunks(row).zip(items).zip(starts.chunks(8)) {
                let start = i64::from_le_bytes(start.try_into().unwrap());
                all.push((sample(&x[..one]), sample(&x[row - one..]), String::from_utf8(item.clone()).unwrap(), start));
            }
        }
        all
    }

    #[test]
    fn windows_of_every_format_are_the_samples_that_they_say() {
        for format in [Format::Npy, Format::Wav, Format::Flac, Format::Mat] {
            let (_dir, dataset) = fill(format, &[10, 3, 4, 900]);
            let source = JbofSource::new(dataset).unwrap().windows_of("x", 4, 3).unwrap();
            let mut expected = Vec::new();
            for (n, len) in [(0, 10), (2, 4), (3, 900)] {
                for start in (0..=len - 4).step_by(3) {
                    let first = (n * 1000 + start) as i16;
                    expected.push((first, first + 3, format!("i{n}"), start as i64));
                }
            }
            assert_eq!(told(&source, Options::new("all", 7)), expected, "{format}");
            let mut shuffled =
                told(&source, Options { shuffle: Shuffle::Buffer(100), seed: 1, threads: 3, ..Options::new("all", 16) });
            assert_ne!(shuffled, expected);
            shuffled.sort();
            expected.sort();
            assert_eq!((shuffled, source.random_access()), (expected, format != Format::Flac), "{format}");
            let units = source.units("all").unwrap();
            assert_eq!((units.len(), units.records(), source.unit_name("all", 1).unwrap().as_str()), (2, 3 + 1 + 299, "i3"));
        }
    }

    #[test]
    fn what_has_no_windows_is_refused() {
        let (_dir, dataset) = fill(Format::Npy, &[10]);
        let item = dataset.item("i0").unwrap();
        let add = |item: &Item, name: &str, dtype: &str, shape: &[usize], len: usize| {
            let file = [sigbank_format::array::npy::header(&dtype.parse().unwrap(), shape).unwrap(), vec![0; len]].concat();
            item.add_array(name, &ArrayFile::new("npy", &[&file]), &Json::EMPTY).unwrap();
        };
        add(&item, "one", "<i2", &[], 2);
        add(&item, "start", "<i2", &[1], 2);
        add(&dataset.add_item(Some("z"), &Json::EMPTY).unwrap(), "x", "<i2", &[3, 2], 12);
        let source = JbofSource::new(dataset.clone()).unwrap();
        let says = |name: &str, len: u64, hop: u64, words: &str| {
            let e = source.windows_of(name, len, hop).unwrap_err();
            assert!(e.to_string().contains(words), "{e}");
        };
        says("x", 2, 2, "'x' is int16[..] in the item 'i0' and int16[.., 2] in the item 'z'");
        says("y", 2, 2, "there are one, start, x");
        says("one", 2, 2, "a single value");
        says("start", 2, 2, "rename the array");
        says("x", 0, 2, "at least 1");
        dataset.delete_item("z").unwrap();
        let windows = JbofSource::new(dataset).unwrap().windows_of("x", 4, 4).unwrap();
        item.delete_array("x").unwrap();
        assert_eq!(read(&*windows, "all", &[0], &[0]).unwrap_err().code(), Code::NotFound);
        add(&item, "x", "<i2", &[6], 12);
        let e = read(&*windows, "all", &[1], &[0]).unwrap_err();
        assert!(e.to_string().contains("item \"i0\", array \"x\", rows 4 on"), "{e}");
    }
}
