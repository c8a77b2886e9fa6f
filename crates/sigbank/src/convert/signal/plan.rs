//! Which records a signal-dataset will have, decided before anything is written.

use super::sigmf::{ARCHIVE, DATA, META, SigMf};
use crate::convert::cast::{Cast, Channels};
use crate::convert::recording;
use crate::convert::report::Skipped;
use crate::convert::scan::{ENDINGS, refuse_data_sets, scan_for};
use crate::convert::to_signal::PublishReport;
use crate::convert::{Candidate, Windows};
use crate::error::{Error, Result};
use serde_json::{Map, Value, json};
use sigbank_format::model::array::byte_len;
use sigbank_format::model::json::Json;
use sigbank_format::model::{DType, Kind};
use sigbank_format::record::signal::{Axis, Coordinate, FieldMetadata, RecordMetadata, ResourcePolicy, validate};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The one field.
const FIELD: &str = "signal";

/// The choices of [`plan_signal`].
#[derive(Debug, Clone, Default)]
pub struct SignalOptions {
    /// One record for each window of a recording; without, one for each recording.
    pub window: Option<Windows>,
    /// The dtype of `signal`; where there is none, the files' own, and for audio float32 or, for samples of more than 24 bits, float64.
    /// complex64 makes complex samples of SigMF's pairs of integers.
    pub dtype: Option<DType>,
    /// The names of the axes of arrays (npy, npz); where there are none, `time`, `channel`, `axis_2` … as they come.
    pub axes: Vec<String>,
    /// Samples per second of the files that do not say it.
    pub sample_rate: Option<f64>,
    /// Whether files that cannot be read are counted and listed instead of ending the run. They are then read twice.
    pub skip_bad: bool,
    /// Whether JBOF data sets are published as folders of files, without the metadata of their items and arrays; else they are refused.
    pub as_files: bool,
    /// Whether the folder's name and a slash come before the ids (of a file that is given itself: the name of the folder that it is
    /// in). Of several folders they have that anyway.
    pub prefix_ids: bool,
}

/// Where samples come from.
#[derive(Debug, Clone)]
pub(in crate::convert) enum Origin {
    /// An array or audio file; of an npz the member.
    Array(Option<String>),
    /// A SigMF recording.
    SigMf(Arc<SigMf>),
}

/// One recording.
#[derive(Debug, Clone)]
pub(in crate::convert) struct Item {
    /// Position in [`SignalPlan::files`].
    pub file: usize,
    /// Its share of the files' bytes.
    pub bytes: u64,
    pub origin: Origin,
    /// The file relative to its folder, and after a `#` the member of an npz.
    pub source: String,
    /// The record's id, less what tells a window.
    pub id: String,
    /// What rows are read as, and their shape.
    pub read: DType,
    pub shape: Vec<usize>,
    /// What is stored.
    pub dtype: DType,
    /// Axes as they are read; `channel` behind `time` changes places with it where `turn` says so.
    pub axes: Vec<String>,
    pub turn: bool,
    pub rate: Option<f64>,
    /// What else the file says.
    said: Map<String, Value>,
}

impl Item {
    pub(in crate::convert) fn rows(&self) -> u64 {
        self.shape.first().map_or(0, |rows| *rows as u64)
    }
    /// Elements of one row as read.
    pub(in crate::convert) fn width(&self) -> usize {
        self.shape.iter().skip(1).product()
    }
    /// The file of samples that is no recording of its own.
    fn beside(&self) -> Option<&str> {
        match &self.origin {
            Origin::SigMf(sigmf) => Some(&sigmf.data.source),
            Origin::Array(_) => None,
        }
    }
    /// What the elements are turned into: of complex samples made of pairs, each part.
    pub(in crate::convert) fn part(&self) -> Result<DType> {
        if self.paired() { Ok(DType::new(Kind::Float, self.dtype.itemsize() / 2)?) } else { Ok(self.dtype.clone()) }
    }
    /// Whether pairs of integers become complex.
    fn paired(&self) -> bool {
        self.dtype.kind() == Kind::Complex && self.axes.last().is_some_and(|axis| axis == "iq")
    }
    /// Bytes of a stored row.
    pub(in crate::convert) fn row_bytes(&self) -> Result<usize> {
        Ok(byte_len(&self.part()?, self.shape.get(1..).unwrap_or_default())?)
    }
    /// Bytes of one channel of one row: what stays together when the axes change places.
    pub(in crate::convert) fn together(&self) -> Result<usize> {
        Ok(byte_len(&self.part()?, self.shape.get(2..).unwrap_or_default())?)
    }
    /// The rows of the record that begins at `start`.
    pub(in crate::convert) fn len(&self, window: Option<Windows>) -> u64 {
        window.map_or(self.rows(), |w| w.window())
    }

    /// What is said of the record that begins with the row `start`.
    pub(in crate::convert) fn metadata(&self, window: Option<Windows>, start: u64) -> Result<RecordMetadata> {
        let len = self.len(window);
        let mut said = self.said.clone();
        said.insert("source".into(), json!(self.source));
        if let Some(rate) = self.rate {
            said.insert("sample_rate".into(), json!(rate));
        }
        if window.is_some() {
            said.insert("start".into(), json!(start));
            let there = self.rows().saturating_sub(start);
            if there < len {
                // The others are the zeros that fill the window up.
                said.insert("samples".into(), json!(there));
            }
        }
        if let Origin::SigMf(sigmf) = &self.origin {
            let (document, frequency) = sigmf.said(start, start.saturating_add(len));
            said.insert("sigmf".into(), document);
            if let Some(frequency) = frequency {
                said.insert("center_frequency".into(), json!(frequency));
            }
        }
        let mut shape = self.shape.clone();
        if let Some(rows) = shape.first_mut() {
            *rows = usize::try_from(len).map_err(|_| Error::limit("a window larger than the memory"))?;
        }
        let mut names = self.axes.clone();
        if self.paired() {
            shape.pop();
            names.pop();
        }
        if self.turn {
            shape.swap(0, 1);
            names.swap(0, 1);
        }
        let seconds = |rate: f64| -> Result<Coordinate> {
            Ok(Coordinate {
                // Since the recording began.
                start: Some(if start == 0 { 0i64.into() } else { Json::try_from(start as f64 / rate)? }),
                step: Some(Json::try_from(1.0 / rate)?),
                unit: Some("s".into()),
                ..Coordinate::default()
            })
        };
        let axis = |(name, length): (&String, &usize)| {
            let coordinate = self.rate.filter(|_| name == "time").map(seconds).transpose()?;
            Ok(Axis { coordinate, ..Axis::new(name.as_str(), *length as u64) })
        };
        let axes = names.iter().zip(&shape).map(axis).collect::<Result<_>>()?;
        let field = FieldMetadata { axes, ..FieldMetadata::new(FIELD, self.dtype.clone(), shape) };
        let id = if window.is_some() { format!("{}@{start}", self.id) } else { self.id.clone() };
        Ok(RecordMetadata { metadata: Json::from_value(&Value::Object(said))?, ..RecordMetadata::new(id, vec![field]) })
    }
}

/// Which records a signal-dataset will have. Made by [`plan_signal`], carried out by [`crate::convert::publish`].
#[derive(Debug, Clone)]
pub struct SignalPlan {
    pub(in crate::convert) files: Vec<Candidate>,
    pub(in crate::convert) items: Vec<Item>,
    pub(in crate::convert) window: Option<Windows>,
    pub(in crate::convert) dtype: Option<DType>,
    pub(in crate::convert) report: PublishReport,
}

impl SignalPlan {
    /// Records that there will be.
    pub fn records(&self) -> u64 {
        self.items.iter().map(|item| self.count(item)).sum()
    }
    /// Bytes of the files that will be read.
    pub fn bytes(&self) -> u64 {
        self.items.iter().map(|item| item.bytes).sum()
    }
    pub(in crate::convert) fn count(&self, item: &Item) -> u64 {
        self.window.map_or(1, |w| w.count(item.rows()))
    }
}

/// Looks at the headers of wav, flac, ogg, npy, npz files and SigMF recordings (a `sigmf-meta` with its `sigmf-data`), and decides which
/// records they become.
///
/// A record has the field `signal`. Its axes are `time`, with `channel` before it where audio or SigMF has several, and behind it `iq`
/// (real part, imaginary part) for SigMF's complex integers; those of an array are as they stand in it. The coordinate of `time` is
/// start 0, step 1/sample rate, unit s. The id is the file's path relative to its folder, without the ending where that tells it from
/// the others, `#member` behind it for an array of an npz, and `@start` for a window. The metadata has `source`, `sample_rate`, `start`
/// (of a window), `subtype` (of audio), and of SigMF `datatype`, `center_frequency` and `sigmf`, the document with the captures and
/// annotations of these samples.
///
/// # Errors
/// `Invalid` where nothing is there to publish or `axes` do not fit, and for a JBOF data set, unless [`SignalOptions::as_files`]; what is no record of a signal-dataset and a file that cannot be read
/// are named, unless [`SignalOptions::skip_bad`].
pub fn plan_signal(folders: &[PathBuf], options: &SignalOptions) -> Result<SignalPlan> {
    let endings: Vec<&str> = ENDINGS.into_iter().chain([META, DATA, ARCHIVE]).collect();
    if let Some(missing) = folders.iter().find(|folder| !folder.exists()) {
        return Err(Error::not_found("there is nothing here")
            .at(missing.display())
            .remedy("check the path of what is to be published"));
    }
    if !options.as_files {
        refuse_data_sets(folders)?;
    }
    let found = scan_for(&endings, folders)?;
    let mut report = PublishReport { litter: found.litter, others: found.others, ..Default::default() };
    let mut bad = Vec::new();
    let mut skip = |source: String, e: Error| {
        if !options.skip_bad {
            let helped = e.remedy_text().is_some();
            return Err(if helped { e } else { e.remedy("repair or remove it, or leave such files out with --skip-bad") });
        }
        bad.push(Skipped { source, reason: e.message().to_owned() });
        Ok(())
    };
    for one in found.bad {
        skip(one.source, Error::invalid(one.reason).at(one.path.display()))?;
    }
    let (mut files, mut items, mut samples) = (Vec::new(), Vec::new(), BTreeSet::new());
    for candidate in found.candidates.iter().filter(|c| ending(c) != DATA) {
        match look(candidate, options) {
            Ok((arrays, scalars)) => {
                report.others.extend(scalars);
                let file = files.len();
                for item in arrays {
                    if let Origin::SigMf(sigmf) = &item.origin {
                        samples.insert(sigmf.data.path.clone());
                    }
                    items.push(Item { file, ..item });
                }
                files.push(candidate.clone());
            }
            Err(e) => {
                if ending(candidate) == META {
                    samples.insert(candidate.path.with_extension(DATA));
                }
                skip(candidate.source.clone(), e)?;
            }
        }
    }
    for left in found.candidates.iter().filter(|c| ending(c) == DATA && !samples.contains(&c.path)) {
        let what = format!("samples without the document that tells what they are, a .{META} of the same name");
        skip(left.source.clone(), Error::invalid(what).at(left.path.display()))?;
    }
    report.bad = bad;
    // Samples that have another ending than usual are no recording of their own.
    let named = |file: usize| files.get(file).is_some_and(|f: &Candidate| samples.contains(&f.path));
    items.retain(|item| !named(item.file));
    let beside: BTreeSet<&str> = items.iter().filter_map(Item::beside).collect();
    report.others.retain(|other| !beside.contains(other.as_str()));
    if let Some(window) = options.window {
        items.retain(|item| {
            let fits = window.count(item.rows()) > 0;
            if !fits {
                report.too_short.push(Skipped { source: item.source.clone(), reason: format!("{} samples", item.rows()) });
            }
            fits
        });
    }
    if items.is_empty() {
        return Err(nothing(folders, &report));
    }
    name(&mut items);
    if options.prefix_ids {
        prefix(&mut items, &files, folders)?;
    }
    report.no_rate = items.iter().filter(|item| item.rate.is_none()).count() as u64;
    let used: BTreeSet<usize> = items.iter().map(|item| item.file).collect();
    report.files = used.len() as u64;
    Ok(SignalPlan { files, items, window: options.window, dtype: options.dtype.clone(), report })
}

fn ending(candidate: &Candidate) -> String {
    candidate.path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase()).unwrap_or_default()
}

/// The recordings of one file, and the names of the single values beside them in an npz.
fn look(candidate: &Candidate, options: &SignalOptions) -> Result<(Vec<Item>, Vec<String>)> {
    if ending(candidate) == ARCHIVE {
        return Err(Error::unsupported("an archive of SigMF recordings is not read")
            .at(candidate.path.display())
            .remedy("unpack it with tar, or leave such files out with --skip-bad"));
    }
    let located = |e: Error| if e.path().is_some() { e } else { e.at(candidate.path.display()) };
    let (mut items, mut scalars) = (Vec::new(), Vec::new());
    if ending(candidate) == META {
        let sigmf = Arc::new(SigMf::open(candidate)?);
        let mut shape = vec![sigmf.frames];
        let mut axes = vec!["time".to_owned()];
        for (name, length, there) in [("channel", sigmf.channels, sigmf.channels > 1), ("iq", 2, sigmf.pairs)] {
            if there {
                shape.push(length);
                axes.push(name.into());
            }
        }
        let datatype = sigmf.said(0, 0).0.pointer("/global/core:datatype").cloned().unwrap_or_default();
        items.push(Item {
            file: 0,
            bytes: candidate.size.saturating_add(sigmf.data.size),
            source: candidate.source.clone(),
            id: String::new(),
            read: sigmf.dtype.clone(),
            dtype: sigmf.dtype.clone(),
            shape,
            axes,
            turn: sigmf.channels > 1,
            rate: sigmf.rate,
            said: Map::from_iter([("datatype".to_owned(), datatype)]),
            origin: Origin::SigMf(sigmf),
        });
    } else {
        let samples = recording::samples_for(options.dtype.as_ref());
        for r in recording::open(candidate, samples, options.skip_bad)? {
            let source = r.member.as_ref().map_or(candidate.source.clone(), |member| format!("{}#{member}", candidate.source));
            if r.shape.is_empty() {
                scalars.push(source);
                continue;
            }
            let audio = r.subtype.is_some();
            let axes = axes(&r.shape, audio, &options.axes).map_err(|e| located(e.within(&source)))?;
            let mut said = Map::new();
            if let Some(subtype) = r.subtype {
                said.insert("subtype".into(), json!(subtype.to_string()));
            }
            if let Some(bits) = r.scale {
                said.insert("full_scale_bits".into(), json!(bits));
            }
            items.push(Item {
                file: 0,
                bytes: 0,
                source,
                id: String::new(),
                turn: audio && r.shape.len() == 2,
                origin: Origin::Array(r.member),
                read: r.dtype.clone(),
                dtype: r.dtype,
                shape: r.shape,
                axes,
                rate: r.rate,
                said,
            });
        }
        if items.is_empty() {
            let found = if scalars.is_empty() { "no array in it" } else { "a single value, which has no axis" };
            return Err(located(Error::invalid(found)));
        }
    }
    let arrays = items.len() as u64;
    for item in &mut items {
        if matches!(item.origin, Origin::Array(_)) {
            item.bytes = candidate.size / arrays;
        }
        item.rate = item.rate.or(options.sample_rate);
        item.dtype = options.dtype.clone().unwrap_or_else(|| item.read.clone());
        item.id.clone_from(&item.source);
        check(item, options).map_err(located)?;
        if options.skip_bad {
            super::cut::read_through(candidate, item, options.dtype.as_ref()).map_err(located)?;
        }
    }
    Ok((items, scalars))
}

/// The names of an array's axes, in its own order.
fn axes(shape: &[usize], audio: bool, chosen: &[String]) -> Result<Vec<String>> {
    if !audio && !chosen.is_empty() {
        if chosen.len() != shape.len() {
            let what = format!("{} axes are named ({}), but the array is {shape:?}", chosen.len(), chosen.join(", "));
            return Err(Error::invalid(what).remedy("name each axis of the arrays, or publish those of one kind at a time"));
        }
        if let Some(twice) = chosen.iter().enumerate().find_map(|(at, name)| chosen.iter().take(at).find(|n| *n == name)) {
            return Err(Error::invalid(format!("two axes are to be called '{twice}'"))
                .remedy("give each axis a name of its own: --axes time,channel, for example"));
        }
        return Ok(chosen.to_vec());
    }
    let name = |axis| match axis {
        0 => "time".into(),
        1 => "channel".into(),
        n => format!("axis_{n}"),
    };
    Ok((0..shape.len()).map(name).collect())
}

/// Whether the recording can become records.
fn check(item: &Item, options: &SignalOptions) -> Result<()> {
    if options.window.is_some() && item.axes.first().is_none_or(|axis| axis != "time") {
        let what = format!("windows are cut along the first axis, which is '{}' here", item.axes.first().map_or("", |a| a));
        return Err(Error::invalid(what).remedy("name the axis time, or save the array with it first"));
    }
    if item.paired() && item.part()?.kind() != Kind::Float {
        return Err(Error::invalid("pairs of integers become complex64 only"));
    }
    Cast::new(&item.read, &item.part()?, Channels::All, item.width())?;
    let mut said = item.metadata(options.window, 0)?;
    // As it is going to be called, more or less.
    said.id = std::path::Path::new(&said.id).with_extension("").to_string_lossy().into_owned();
    validate(&said, &ResourcePolicy::default()).map_err(|e| {
        let e = Error::from(e);
        match item.part().map(|part| part.kind()) {
            _ if e.remedy_text().is_some() => e,
            Ok(Kind::Bytes | Kind::Unicode | Kind::Void) => {
                e.remedy("there are no samples in it: leave it out, as --skip-bad does")
            }
            _ => e.remedy("choose another dtype with --dtype, such as complex64 or float32"),
        }
    })
}

/// Ids: the source without the file's ending, where no other has the same.
fn name(items: &mut [Item]) {
    let short = |source: &str| {
        let (file, member) = source.split_once('#').map_or((source, None), |(file, member)| (file, Some(member)));
        let (folder, name) = file.rsplit_once('/').map_or(("", file), |(folder, name)| (folder, name));
        // A hidden file's name has no ending.
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| if stem.is_empty() { name } else { stem });
        let slash = if folder.is_empty() { "" } else { "/" };
        format!("{folder}{slash}{stem}{}", member.map(|m| format!("#{m}")).unwrap_or_default())
    };
    let mut count: BTreeMap<String, u64> = BTreeMap::new();
    items.iter().for_each(|item| *count.entry(short(&item.source)).or_default() += 1);
    let ids: Vec<String> = items
        .iter()
        .map(|item| Some(short(&item.source)).filter(|id| count.get(id) == Some(&1)).unwrap_or(item.source.clone()))
        .collect();
    // Only where one file is called as another without its ending, and a third as that one with it.
    let clash = ids.iter().collect::<BTreeSet<_>>().len() < ids.len();
    for (item, id) in items.iter_mut().zip(ids) {
        item.id = if clash { item.source.clone() } else { id };
    }
}

/// Puts the folder's name before ids that do not have it yet.
fn prefix(items: &mut [Item], files: &[Candidate], folders: &[PathBuf]) -> Result<()> {
    let mut seen = BTreeSet::new();
    for item in items {
        let Some(file) = files.get(item.file) else { continue };
        // What lies in one of several folders has the folder's name already.
        let own = folders.contains(&file.path) && !file.source.contains('/');
        let folder = match folders {
            _ if own => Some(file.path.canonicalize().map_err(|e| Error::from(e).at(file.path.display()))?),
            [folder] => Some(folder.join("x")),
            _ => None,
        };
        if let Some(folder) = folder.as_deref().and_then(Path::parent) {
            item.id = format!("{}/{}", super::datasets::name(folder)?, item.id);
        }
        if !seen.insert(item.id.clone()) {
            return Err(Error::invalid(format!("two recordings would have the id '{}'", item.id))
                .at(file.path.display())
                .remedy("give the folder that holds both, or rename one"));
        }
    }
    Ok(())
}

fn nothing(folders: &[PathBuf], report: &PublishReport) -> Error {
    let shown: Vec<_> = folders.iter().map(|f| f.display().to_string()).collect();
    let kinds = [
        (report.others.len(), "of other kinds"),
        (report.too_short.len(), "too short for one window"),
        (report.bad.len(), "not readable"),
    ];
    let found: Vec<_> = kinds.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    let found = if found.is_empty() { "no file at all".into() } else { format!("files there: {}", found.join(", ")) };
    Error::invalid(format!("nothing to publish ({found})"))
        .at(shown.join(", "))
        .remedy("wav, flac, ogg, npy, npz files and SigMF recordings are read; a smaller --window or --pad takes shorter ones")
}
