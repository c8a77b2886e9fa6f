//! What a search selects of a dataset, whatever its layout, as a dataset.

use super::jbof::{Catalog, Keep, Odd};
use super::{Expr, Records, index_folder, unknown};
use crate::error::{Code, Error, Result};
use crate::layout::signal_dataset::versions::dataset_at_version;
use crate::layout::{
    Annotations, Layout, OwnFields, RowSink, Source, Split, Units, Verified, detect, jbof, open_jbof, open_with, signal_dataset,
};
use crate::store::{LocalStore, Opening, StorageOptions, connect, local_path};
use sigbank_format::model::{Metadata, Schema};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// Records that lie so near to each other are read together with what is between them.
const NEAR: u64 = 64;

/// A dataset that is going to be searched.
#[derive(Debug)]
pub enum Searched {
    /// Its items are searched by a [`Catalog`].
    Jbof(jbof::Dataset),
    /// Its records are, by [`Records::of_signal`].
    Signal(signal_dataset::Dataset),
    /// Its shards are, by [`Records::of_units`].
    Sedpack(Arc<dyn Source>),
}

/// Finds out which layout is at an address, and opens it as cheaply as a search allows; `version` is that of a signal-dataset.
///
/// # Errors
/// Those of [`open_with`], and of [`dataset_at_version`] where a version is given.
pub fn open(address: &str, version: Option<&str>, options: &StorageOptions) -> Result<Searched> {
    if version.is_some() {
        return dataset_at_version(address, version, options).map(Searched::Signal);
    }
    if let Some(dataset) = open_jbof(address, options)? {
        return Ok(Searched::Jbof(dataset));
    }
    let layout = match local_path(address) {
        Some(root) => detect(&LocalStore::open(root)?)?,
        None => detect(&*connect(address, options)?)?,
    };
    match layout {
        Some(Layout::SignalDataset) => dataset_at_version(address, None, options).map(Searched::Signal),
        _ => open_with(address, options).map(Searched::Sedpack),
    }
}

/// Numbers of records, ascending, by split.
pub type Places = BTreeMap<String, Vec<u64>>;

/// The records of `source` for which an expression holds, ascending in each split, and what is to be warned of: names that no record has, records
/// that could not be searched. `searched` is the same dataset. Indices are used and kept as `SIGBANK_INDEX` says.
///
/// # Errors
/// Those of [`Catalog::refresh`], [`Records::of_signal`] and [`super::Table::select`]; `Conflict` where another signal-dataset is at the place.
pub fn places(searched: &Searched, source: &dyn Source, expr: &Expr) -> Result<(Places, Vec<String>)> {
    let mut found: Places = source.splits().into_iter().map(|split| (split.name, Vec::new())).collect();
    let only = source.splits().into_iter().next().map(|split| split.name).unwrap_or_default();
    let keep = Keep::chosen()?;
    let (records, mut warnings) = match searched {
        Searched::Jbof(dataset) => {
            // It was opened anew, and what was found in it would be taken for records of what was opened before.
            source.still_there()?;
            let mut catalog = Catalog::new(keep);
            catalog.refresh(dataset, expr, 0)?;
            for hit in catalog.find(expr, Odd::Expr, None)? {
                match source.by_id(catalog.table().id(hit.row)) {
                    Ok((split, ordinal)) => found.entry(split).or_default().push(ordinal),
                    // Added since the source was opened.
                    Err(e) if e.code() == Code::NotFound => {}
                    Err(e) => return Err(e),
                }
            }
            let mut warnings: Vec<String> = catalog.take_warning().into_iter().chain(catalog.unsearched()).collect();
            warnings.extend(catalog.unknown(expr)?.iter().map(ToString::to_string));
            (None, warnings)
        }
        Searched::Signal(dataset) => {
            if format!("sha256:{}", dataset.root_digest()) != source.root_digest()? {
                let what = "another dataset was put in the place of the one that was opened";
                return Err(Error::conflict(what).at(source.location()).remedy("open it again"));
            }
            let records = Records::of_signal(dataset, keep, index_folder().as_deref())?;
            (Some(records.annotated(dataset, expr)?), Vec::new())
        }
        // As it was opened: shards that came since have no numbers in it.
        Searched::Sedpack(_) => (Some(Records::of_units(source)?), Vec::new()),
    };
    if let Some(records) = records {
        for matched in records.find(expr)? {
            let split = Some(records.table().split(matched.row)?).filter(|split| !split.is_empty()).unwrap_or(&only);
            found.entry(split.to_owned()).or_default().extend(matched.first..matched.first + matched.records);
        }
        warnings.extend(records.unsearched());
        warnings.extend(unknown(records.table(), expr, searched)?.iter().map(ToString::to_string));
    }
    Ok((found, warnings))
}

/// Some records of a source as a source: the same splits, fields and metadata, and of each split the records of these numbers. Nothing is read
/// or copied; the units are those of the source that have such records.
///
/// ```
/// use sigbank::format::array::npy;
/// use sigbank::format::model::json::Json;
/// use sigbank::layout::jbof::{ArrayFile, Creation, Dataset, JbofSource};
/// use sigbank::layout::{Source, read};
/// use sigbank::query::Selected;
/// let dir = tempfile::tempdir()?;
/// let dataset = Dataset::create(&dir.path().join("a"), &Creation::default())?;
/// for n in 0..4u8 {
///     let file = [npy::header(&"|u1".parse()?, &[1])?, vec![n]].concat();
///     dataset.add_item(Some(&format!("i{n}")), &Json::EMPTY)?.add_array("x", &ArrayFile::new("npy", &[&file]), &Json::EMPTY)?;
/// }
/// let selected = Selected::new(std::sync::Arc::new(JbofSource::new(dataset)?), [("all".to_owned(), vec![3, 1])].into())?;
/// assert_eq!(selected.ids("all", 0..2)?, ["i1", "i3"]);
/// assert_eq!(read(&selected, "all", &[1], &[0])?, [[[3]]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Selected {
    inner: Arc<dyn Source>,
    splits: Vec<(String, Part)>,
}

/// The records of one split.
#[derive(Debug)]
struct Part {
    /// Ascending.
    ordinals: Vec<u64>,
    units: Arc<Units>,
    inner: Arc<Units>,
    /// The source's number of each unit.
    unit_of: Vec<usize>,
}

impl Selected {
    /// These records of each split of a source; none of a split that is not named.
    ///
    /// # Errors
    /// `NotFound` for a split that the source does not have, and for a record past its last.
    pub fn new(inner: Arc<dyn Source>, mut records: Places) -> Result<Self> {
        let mut splits = Vec::new();
        for Split { name, .. } in inner.splits() {
            let mut ordinals = records.remove(&name).unwrap_or_default();
            ordinals.sort_unstable();
            ordinals.dedup();
            let units = inner.units(&name)?;
            let (mut counts, mut unit_of) = (Vec::new(), Vec::new());
            for &ordinal in &ordinals {
                let Some((unit, _)) = units.locate(ordinal) else {
                    let what = format!("record {ordinal} of split '{name}': it has {} records", units.records());
                    return Err(Error::not_found(what).at(inner.location()));
                };
                if unit_of.last() != Some(&unit) {
                    unit_of.push(unit);
                    counts.push(0);
                }
                if let Some(count) = counts.last_mut() {
                    *count += 1;
                }
            }
            splits.push((name, Part { ordinals, units: Arc::new(Units::from_counts(counts)), inner: units, unit_of }));
        }
        match records.keys().next() {
            None => Ok(Self { inner, splits }),
            Some(name) => Err(Error::not_found(format!("there is no split '{name}'")).at(inner.location())),
        }
    }

    /// Without the splits that are not named.
    pub(super) fn only(mut self, splits: &[&str]) -> Self {
        self.splits.retain(|(name, _)| splits.contains(&name.as_str()));
        self
    }

    /// The numbers of the records of a split in the source, ascending.
    ///
    /// # Errors
    /// `NotFound` for a split that is not there.
    pub fn ordinals(&self, split: &str) -> Result<&[u64]> {
        self.part(split).map(|part| part.ordinals.as_slice())
    }

    fn part(&self, split: &str) -> Result<&Part> {
        let part = self.splits.iter().find(|(name, _)| name == split).map(|(_, part)| part);
        part.ok_or_else(|| Error::not_found(format!("there is no split '{split}'")).at(self.location()))
    }
    /// The source's numbers of some records.
    fn originals(&self, split: &str, ordinals: &[u64]) -> Result<Vec<u64>> {
        let part = self.part(split)?;
        let one = |&at: &u64| {
            usize::try_from(at).ok().and_then(|at| part.ordinals.get(at)).copied().ok_or_else(|| self.past(split, at))
        };
        ordinals.iter().map(one).collect()
    }
    fn range(&self, split: &str, ordinals: &Range<u64>) -> Result<&[u64]> {
        let part = self.part(split)?;
        let range = usize::try_from(ordinals.start).ok().zip(usize::try_from(ordinals.end).ok());
        range.and_then(|(from, to)| part.ordinals.get(from..to)).ok_or_else(|| self.past(split, ordinals.end.saturating_sub(1)))
    }
    fn past(&self, split: &str, ordinal: u64) -> Error {
        let selected = self.part(split).map_or(0, |part| part.ordinals.len());
        Error::not_found(format!("record {ordinal} of split '{split}': {selected} are selected")).at(self.location())
    }
    fn unit(&self, split: &str, unit: usize) -> Result<(&Part, usize)> {
        let part = self.part(split)?;
        let inner = part.unit_of.get(unit).copied();
        inner.map(|inner| (part, inner)).ok_or_else(|| {
            Error::not_found(format!("there is no unit {unit}: {} have selected records", part.unit_of.len())).at(self.location())
        })
    }
    /// A unit of the source, and the places in it of records of the unit of this one.
    fn within(&self, split: &str, unit: usize, records: &[u32]) -> Result<(usize, Vec<u32>)> {
        let (part, inner) = self.unit(split, unit)?;
        let (start, base) = (part.units.start(unit).unwrap_or(0), part.inner.start(inner).unwrap_or(0));
        let place = |&record: &u32| {
            let at = usize::try_from(start + u64::from(record)).ok().filter(|_| u64::from(record) < part.units.count(unit));
            let place = at.and_then(|at| part.ordinals.get(at)).and_then(|ordinal| u32::try_from(ordinal - base).ok());
            place.ok_or_else(|| Error::not_found(format!("there is no record {record} in unit {unit}")).at(self.location()))
        };
        Ok((inner, records.iter().map(place).collect::<Result<_>>()?))
    }
}

impl Source for Selected {
    fn layout(&self) -> &'static str {
        self.inner.layout()
    }
    fn location(&self) -> String {
        self.inner.location()
    }
    fn storage(&self) -> String {
        self.inner.storage()
    }
    fn metadata(&self) -> &Metadata {
        self.inner.metadata()
    }
    fn schema(&self) -> &Schema {
        self.inner.schema()
    }
    fn splits(&self) -> Vec<Split> {
        let split = |(name, part): &(String, Part)| Split {
            name: name.clone(),
            records: part.units.records(),
            units: part.units.len() as u64,
        };
        self.splits.iter().map(split).collect()
    }
    fn units(&self, split: &str) -> Result<Arc<Units>> {
        self.part(split).map(|part| Arc::clone(&part.units))
    }
    fn unit_name(&self, split: &str, unit: usize) -> Result<String> {
        self.unit(split, unit).and_then(|(_, inner)| self.inner.unit_name(split, inner))
    }
    fn unit_metadata(&self, split: &str, unit: usize) -> Result<Metadata> {
        self.unit(split, unit).and_then(|(_, inner)| self.inner.unit_metadata(split, inner))
    }
    fn random_access(&self) -> bool {
        self.inner.random_access()
    }
    fn round_trip(&self) -> u64 {
        self.inner.round_trip()
    }
    fn read_unit(&self, split: &str, unit: usize, records: &[u32], fields: &[usize], out: &mut dyn RowSink) -> Result<()> {
        let (unit, records) = self.within(split, unit, records)?;
        self.inner.read_unit(split, unit, &records, fields, out)
    }
    fn begin_unit(&self, split: &str, unit: usize, records: &[u32], fields: &[usize]) -> Option<Box<dyn Opening>> {
        let (unit, records) = self.within(split, unit, records).ok()?;
        self.inner.begin_unit(split, unit, &records, fields)
    }
    fn read_begun(
        &self,
        begun: Box<dyn Opening>,
        split: &str,
        unit: usize,
        records: &[u32],
        fields: &[usize],
        out: &mut dyn RowSink,
    ) -> Result<()> {
        let (unit, records) = self.within(split, unit, records)?;
        self.inner.read_begun(begun, split, unit, &records, fields, out)
    }
    fn ids(&self, split: &str, ordinals: Range<u64>) -> Result<Vec<String>> {
        let wanted = self.range(split, &ordinals)?;
        let mut ids = Vec::with_capacity(wanted.len());
        for run in wanted.chunk_by(|a, b| a + 1 == *b) {
            if let (Some(first), Some(last)) = (run.first(), run.last()) {
                ids.extend(self.inner.ids(split, *first..last + 1)?);
            }
        }
        Ok(ids)
    }
    fn by_id(&self, id: &str) -> Result<(String, u64)> {
        let (split, ordinal) = self.inner.by_id(id)?;
        match self.part(&split)?.ordinals.binary_search(&ordinal) {
            Ok(at) => Ok((split, at as u64)),
            Err(_) => Err(Error::not_found(format!("the record '{id}' is not among those selected")).at(self.location())),
        }
    }
    fn parts_far_away(&self) -> bool {
        self.inner.parts_far_away()
    }
    fn value_size(&self, field: usize) -> Option<u64> {
        self.inner.value_size(field)
    }
    fn schema_of(&self) -> Option<u64> {
        self.inner.schema_of()
    }
    fn exact(&self, cheaply: bool) -> Result<Option<Arc<dyn Source>>> {
        let Some(inner) = self.inner.exact(cheaply)? else { return Ok(None) };
        let records = self.splits.iter().map(|(name, part)| (name.clone(), part.ordinals.clone())).collect();
        Ok(Some(Arc::new(Self::new(inner, records)?)))
    }
    fn read_own(&self, split: &str, ordinals: &[u64]) -> Result<Option<Vec<OwnFields>>> {
        self.inner.read_own(split, &self.originals(split, ordinals)?)
    }
    fn annotation_sets(&self) -> Result<Vec<String>> {
        self.inner.annotation_sets()
    }
    fn annotations(&self, set: &str, split: &str, ordinals: Range<u64>) -> Result<Annotations> {
        let wanted = self.range(split, &ordinals)?.to_vec();
        // Whether there is such a set is told at once.
        drop(self.inner.annotations(set, split, 0..0)?);
        let runs: Vec<Vec<u64>> = wanted.chunk_by(|a, b| b - a <= NEAR).map(<[u64]>::to_vec).collect();
        let (inner, set, split) = (Arc::clone(&self.inner), set.to_owned(), split.to_owned());
        Ok(Box::new(runs.into_iter().flat_map(move |run| -> Annotations {
            let (Some(&first), Some(&last)) = (run.first(), run.last()) else { return Box::new(std::iter::empty()) };
            match inner.annotations(&set, &split, first..last + 1) {
                Ok(all) => Box::new(
                    all.zip(first..)
                        .filter(move |(said, at)| said.is_err() || run.binary_search(at).is_ok())
                        .map(|(said, _)| said),
                ),
                Err(e) => Box::new(std::iter::once(Err(e))),
            }
        })))
    }
    /// Those of the records selected.
    fn windows(&self, field: &str, len: u64, hop: u64) -> Result<Arc<dyn Source>> {
        let records = self.splits.iter().map(|(name, part)| (name.clone(), part.ordinals.clone())).collect();
        self.inner.windows_among(&records, field, len, hop)
    }
    fn windows_among(&self, records: &Places, field: &str, len: u64, hop: u64) -> Result<Arc<dyn Source>> {
        let original = |(split, ordinals): (&String, &Vec<u64>)| Ok((split.clone(), self.originals(split, ordinals)?));
        self.inner.windows_among(&records.iter().map(original).collect::<Result<_>>()?, field, len, hop)
    }
    fn still_there(&self) -> Result<()> {
        self.inner.still_there()
    }
    /// Compares the whole dataset, of which this is a part.
    fn verify(&self, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Verified> {
        self.inner.verify(progress)
    }
    /// The dataset's, with a digest of which records are selected.
    fn root_digest(&self) -> Result<String> {
        let mut hash = Xxh3::new();
        for (name, part) in &self.splits {
            hash.update(format!("{name}\0{}\n", part.ordinals.len()).as_bytes());
            part.ordinals.iter().for_each(|ordinal| hash.update(&ordinal.to_le_bytes()));
        }
        Ok(format!("{}+xxh3:{:032x}", self.inner.root_digest()?, hash.digest128()))
    }
}
