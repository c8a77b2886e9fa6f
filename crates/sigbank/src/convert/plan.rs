//! What packing will do, decided before anything is written: which arrays, which split, which schema.

use super::cast::{Cast, Channels};
use super::import::Pattern;
use super::recording::{self, Recording};
use super::report::{PackReport, Skipped};
use super::scan::refuse_data_sets;
use super::shares::hash;
use super::split::assign as by_groups;
use super::{Candidate, Shares, Windows, scan};
use crate::error::{Error, Result};
use sigbank_format::array::{Samples, Subtype};
use sigbank_format::limits::MAX_FLATBUFFER;
use sigbank_format::model::{DType, Field, FieldType, Kind, Metadata, Schema, array::byte_len};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// How recordings become records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cut {
    /// One record each; all must have the same length.
    #[default]
    Whole,
    /// Windows along the first axis.
    Windows(Windows),
    /// One record for each place on the first axis, without that axis: a matrix of traces, a stack of images.
    Rows,
}

/// The choices of [`plan`].
#[derive(Debug, Clone, Default)]
pub struct PackOptions {
    /// How recordings become records.
    pub cut: Cut,
    /// The dtype of `signal`; where there is none, the files' own, and for audio float32 or, where a file has samples of more than
    /// 24 bits, float64.
    pub dtype: Option<DType>,
    /// Which channels are kept.
    pub channels: Channels,
    /// Which arrays of npz files are packed, by name; all where none is named.
    pub arrays: Vec<String>,
    /// Samples per second of the files that do not say it (npy, npz).
    pub sample_rate: Option<f64>,
    /// Whether files of different sample rates may go into one dataset.
    pub mixed_rates: bool,
    /// The share of the files for each split.
    pub shares: Shares,
    /// What of the files' names stays together in one split, such as `{subject}/{}.wav`: all files of the same subject. Their shards have it
    /// as custom metadata. Where there is none, a file goes its own way.
    pub by: Option<Pattern>,
    /// Decides which file goes to which split.
    pub seed: u64,
    /// Whether files that cannot be read are counted and listed instead of ending the run. They are then read twice:
    /// a file that fails in its middle must leave nothing behind.
    pub skip_bad: bool,
    /// Whether JBOF data sets are packed as folders of files, without the metadata of their items and arrays; else they are refused.
    pub as_files: bool,
}

/// One array of one file.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// Position in [`Plan::files`].
    pub file: usize,
    /// The member of an npz.
    pub member: Option<String>,
    /// What stands in the field `source`.
    pub source: String,
    /// What rows are read as.
    pub dtype: DType,
    /// What they are stored as where no dtype is chosen.
    pub natural: DType,
    /// How samples stand in an audio file.
    pub subtype: Option<Subtype>,
    pub shape: Vec<usize>,
    pub rate: Option<f64>,
    /// Bits of the full scale of integer audio samples that are taken as they stand.
    pub scale: Option<u32>,
    /// Position in the names of the shares.
    pub split: usize,
    /// What its shard says of it.
    pub group: Metadata,
}

impl Item {
    pub(super) fn rows(&self) -> u64 {
        self.shape.first().map_or(0, |r| *r as u64)
    }
    /// Elements of one row.
    pub(super) fn width(&self) -> usize {
        self.shape.iter().skip(1).product()
    }
}

/// What packing will do. Made by [`plan`], carried out by [`super::run`].
#[derive(Debug, Clone)]
pub struct Plan {
    pub(super) files: Vec<Candidate>,
    pub(super) items: Vec<Item>,
    pub(super) cut: Cut,
    pub(super) dtype: DType,
    pub(super) samples: Samples,
    pub(super) channels: Channels,
    pub(super) splits: Vec<String>,
    pub(super) schema: Schema,
    pub(super) report: PackReport,
}

impl Plan {
    /// The fields of the records: `signal`, `start` (int64, the first sample), `source` (the file, relative to its folder, and
    /// after a `#` the member of an npz) and `sample_rate` (float64, hertz; NaN where no file says it).
    pub fn schema(&self) -> &Schema {
        &self.schema
    }
    /// The splits, in the order of the shares.
    pub fn splits(&self) -> &[String] {
        &self.splits
    }
    /// How many records there will be.
    pub fn records(&self) -> u64 {
        self.items.iter().map(|i| count(&self.cut, i.rows())).sum()
    }
    /// Bytes of the files that will be read.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|f| f.size).sum()
    }
    /// What is known before the run: what is skipped and why.
    pub fn report(&self) -> &PackReport {
        &self.report
    }
}

/// Records that an array of `rows` gives.
pub(super) fn count(cut: &Cut, rows: u64) -> u64 {
    match cut {
        Cut::Whole => 1,
        Cut::Windows(w) => w.count(rows),
        Cut::Rows => rows,
    }
}

/// Looks at every file and decides what packing it means.
///
/// # Errors
/// `Invalid` lists the files that differ in what all records must share (dtype, channels, sample rate, length) with the
/// choice that settles it, or says that nothing is there to pack; it names a JBOF data set, unless [`PackOptions::as_files`]; a file that cannot be read is named, unless
/// [`PackOptions::skip_bad`].
pub fn plan(folders: &[PathBuf], options: &PackOptions) -> Result<Plan> {
    if options.cut == Cut::Rows && options.channels != Channels::All {
        return Err(Error::invalid("the records are single rows, which have no channels")
            .remedy("leave --mono and --channel out, or cut windows instead"));
    }
    if !options.as_files {
        refuse_data_sets(folders)?;
    }
    let found = scan(folders)?;
    let mut report = PackReport { litter: found.litter, others: found.others, ..Default::default() };
    let mut skip = |source: String, reason: String, path: String| {
        if !options.skip_bad {
            return Err(Error::invalid(reason).at(path).remedy("repair or remove it, or leave such files out with --skip-bad"));
        }
        report.bad.push(Skipped { source, reason });
        Ok(())
    };
    for bad in found.bad {
        skip(bad.source, bad.reason, bad.path.display().to_string())?;
    }
    let mut files = Vec::new();
    let mut items = Vec::new();
    for candidate in found.candidates {
        match look(&candidate, options) {
            Ok((arrays, scalars)) => {
                let file = files.len();
                report.others.extend(scalars);
                items.extend(arrays.into_iter().map(|item| Item { file, ..item }));
                files.push(candidate);
            }
            Err(e) if options.skip_bad => skip(candidate.source, e.message().to_owned(), String::new())?,
            Err(e) => return Err(e),
        }
    }
    items.retain(|item| {
        let fits = count(&options.cut, item.rows()) > 0;
        if !fits {
            report.too_short.push(Skipped { source: item.source.clone(), reason: format!("{} samples", item.rows()) });
        }
        fits
    });
    drop_empty_files(&mut files, &mut items);
    report.wide = widen(&mut items).filter(|_| options.dtype.is_none());
    let Some(first) = items.first().cloned() else {
        return Err(nothing(folders, &report));
    };
    agree(&files, &items, options)?;
    assign(&files, &mut items, options, &mut report)?;
    report.no_rate = items.iter().filter(|i| i.rate.is_none()).count() as u64;
    let dtype = options.dtype.clone().unwrap_or_else(|| first.natural.clone());
    report.dtype = dtype.name();
    for item in &items {
        Cast::new(&item.dtype, &dtype, options.channels, item.width()).map_err(|e| e.at(place(&files, item)))?;
    }
    let schema = schema(&first, &dtype, options)?;
    let splits = options.shares.names().into_iter().map(str::to_owned).collect();
    let samples = recording::samples_for(options.dtype.as_ref());
    Ok(Plan { files, items, cut: options.cut, dtype, samples, channels: options.channels, splits, schema, report })
}

/// The arrays of one file, and the names of the single values beside them in an npz.
fn look(candidate: &Candidate, options: &PackOptions) -> Result<(Vec<Item>, Vec<String>)> {
    let at = |e: Error| e.at(candidate.path.display());
    let group = options.by.as_ref().map(|by| group(candidate, by)).transpose()?.unwrap_or_default();
    let (mut arrays, mut scalars, mut unwanted) = (Vec::new(), Vec::new(), Vec::new());
    for mut r in recording::open(candidate, recording::samples_for(options.dtype.as_ref()), options.skip_bad)? {
        let source = match &r.member {
            Some(member) => format!("{}#{member}", candidate.source),
            None => candidate.source.clone(),
        };
        if let Some(member) = r.member.as_ref().filter(|member| !options.arrays.is_empty() && !options.arrays.contains(member)) {
            unwanted.push(member.clone());
            scalars.push(source);
            continue;
        }
        if r.dtype.kind() == Kind::Void {
            let what = format!(
                "'{source}' holds raw bytes ({}) whose meaning the file does not say, as of bfloat16 or float8",
                r.dtype.name()
            );
            let remedy = "save it as float32, or view it as an unsigned integer of the same size (uint16, uint8)";
            return Err(at(Error::unsupported(what).remedy(remedy)));
        }
        if r.shape.is_empty() {
            scalars.push(source);
            continue;
        }
        if options.skip_bad {
            read_through(&mut r).map_err(at)?;
        }
        let rate = r.rate.or(options.sample_rate);
        arrays.push(Item {
            file: 0,
            member: r.member,
            source,
            natural: r.dtype.clone(),
            dtype: r.dtype,
            subtype: r.subtype,
            shape: r.shape,
            rate,
            scale: r.scale,
            split: 0,
            group: group.clone(),
        });
    }
    if arrays.is_empty() && !unwanted.is_empty() {
        let what = format!("it has no array called {}, but {}", options.arrays.join(" or "), unwanted.join(", "));
        return Err(at(
            Error::invalid(what).remedy("name one that each file has with --array, or leave such files out with --skip-bad")
        ));
    }
    if arrays.is_empty() {
        let found = if scalars.is_empty() { "no array in it" } else { "a single value, which has no axis to cut" };
        return Err(at(Error::invalid(found).remedy("leave it out with --skip-bad, or remove it")));
    }
    Ok((arrays, scalars))
}

/// Decodes everything once, to know that it can be decoded.
fn read_through(r: &mut Recording) -> Result<()> {
    let (rows, block) = (r.rows(), r.block_rows());
    let mut buffer = Vec::new();
    let mut at = 0;
    while at < rows {
        let n = block.min(rows - at);
        buffer.clear();
        r.read(at, n, &mut buffer)?;
        at += n;
    }
    Ok(())
}

/// Where audio is stored as floats, its files are stored as the widest of them needs. Gives the first that needs float64.
fn widen(items: &mut [Item]) -> Option<String> {
    let widest = items.iter().find(|i| i.subtype.is_some() && i.natural.kind() == Kind::Float && i.natural.itemsize() == 8)?;
    let (natural, source) = (widest.natural.clone(), widest.source.clone());
    items.iter_mut().filter(|i| i.subtype.is_some()).for_each(|i| i.natural = natural.clone());
    Some(source)
}

/// Where an array is: its file's path, and after a `#` the member of an npz.
fn place(files: &[Candidate], item: &Item) -> String {
    let path = files.get(item.file).map_or_else(|| item.source.clone(), |f| f.path.display().to_string());
    item.member.as_ref().map_or(path.clone(), |member| format!("{path}#{member}"))
}

fn drop_empty_files(files: &mut Vec<Candidate>, items: &mut [Item]) {
    let mut new_place = vec![None; files.len()];
    let mut kept = Vec::new();
    for item in items {
        let Some(slot) = new_place.get_mut(item.file) else { continue };
        item.file = *slot.get_or_insert_with(|| {
            kept.extend(files.get(item.file).cloned());
            kept.len() - 1
        });
    }
    *files = kept;
}

fn nothing(folders: &[PathBuf], report: &PackReport) -> Error {
    let shown: Vec<_> = folders.iter().map(|f| f.display().to_string()).collect();
    let mut found = Vec::new();
    for (n, what) in [
        (report.others.len(), "of other kinds"),
        (report.too_short.len(), "too short for one window"),
        (report.bad.len(), "not readable"),
    ] {
        if n > 0 {
            found.push(format!("{n} {what}"));
        }
    }
    let found = if found.is_empty() { "no file at all".into() } else { format!("files there: {}", found.join(", ")) };
    Error::invalid(format!("nothing to pack ({found})"))
        .at(shown.join(", "))
        .remedy("pack reads wav, flac, ogg, npy and npz files; a smaller --window or --pad takes shorter ones")
}

/// All records must have one dtype and shape, and one sample rate unless told otherwise.
fn agree(files: &[Candidate], items: &[Item], options: &PackOptions) -> Result<()> {
    let same = |what: &str, value: &dyn Fn(&Item) -> String, remedy: &str| same(files, items, what, value, remedy);
    if options.dtype.is_none() {
        same("dtype", &|i| i.natural.name(), "choose one for all with --dtype")?;
    }
    let bits = |i: &Item| i.scale.map_or("no integer scale".into(), |b| format!("{b} bits"));
    if items.iter().any(|i| i.scale.is_some()) {
        same("full scale", &bits, "store them on one scale with --dtype float32")?;
    }
    let choose = "pick one channel with --channel N or mix them with --mono";
    match options.channels {
        Channels::All => same("channels", &|i| shape_text(i.shape.get(1..).unwrap_or_default()), choose)?,
        // One channel of each is as good as a mono file; deeper arrays have no channels.
        Channels::Mono | Channels::One(_) => {
            if let Some(deep) = items.iter().find(|i| i.shape.len() > 2) {
                let what = format!("an array of shape {:?} has no channels", deep.shape);
                return Err(Error::invalid(what).at(place(files, deep)).remedy("leave --mono and --channel out"));
            }
        }
    }
    if options.cut == Cut::Whole {
        same("length", &|i| format!("{} samples", i.rows()), "cut them into windows with --window N")?;
    }
    if !options.mixed_rates {
        let rate = |i: &Item| i.rate.map_or("not known".into(), |r| format!("{r} Hz"));
        same(
            "sample rate",
            &rate,
            "keep them side by side with --mixed-rates, or give the one that is not known with --sample-rate",
        )?;
    }
    Ok(())
}

fn shape_text(rest: &[usize]) -> String {
    match rest {
        [] => "one".into(),
        [n] => format!("{n}"),
        more => format!("shape {more:?}"),
    }
}

/// Refuses items that differ, naming those that are in the minority.
fn same(files: &[Candidate], items: &[Item], what: &str, value: &dyn Fn(&Item) -> String, remedy: &str) -> Result<()> {
    let mut groups: BTreeMap<String, Vec<&Item>> = BTreeMap::new();
    for item in items {
        groups.entry(value(item)).or_default().push(item);
    }
    if groups.len() < 2 {
        return Ok(());
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, files)| std::cmp::Reverse(files.len()));
    let listed: Vec<String> = groups
        .iter()
        .enumerate()
        .take(8)
        .map(|(rank, (value, of))| {
            let names: Vec<_> = of.iter().take(if rank == 0 { 1 } else { 10 }).map(|item| place(files, item)).collect();
            let more = if of.len() > names.len() { ", …" } else { "" };
            format!("{value} in {} ({}{more})", of.len(), names.join(", "))
        })
        .collect();
    let more = if groups.len() > 8 { format!("; {} more values", groups.len() - 8) } else { String::new() };
    // Arrays side by side in one file are seldom of one kind.
    let members = items.windows(2).any(|pair| matches!(pair, [a, b] if a.file == b.file && a.member != b.member));
    let one = if members {
        format!("choose the arrays of npz files that are to be packed with --array NAME; or {remedy}")
    } else {
        remedy.into()
    };
    Err(Error::invalid(format!("the files differ in {what}: {}{more}", listed.join("; "))).remedy(one))
}

/// What a file's name says that stays together.
fn group(candidate: &Candidate, by: &Pattern) -> Result<Metadata> {
    by.find(&candidate.source).map(|found| found.into_iter().collect()).ok_or_else(|| {
        Error::invalid(format!("'{}' is not named as the pattern of --by says", candidate.source))
            .at(candidate.path.display())
            .remedy(
                "give a pattern that fits every file, such as '{subject}/{}.wav' (of several folders that are packed, names begin with that of the \
                 folder), or leave such files out with --skip-bad",
            )
    })
}

/// Every array of a file goes where the file goes, and a file where those go that stay together with it.
fn assign(files: &[Candidate], items: &mut [Item], options: &PackOptions, report: &mut PackReport) -> Result<()> {
    if let Some(by) = &options.by {
        let text = |item: &Item| serde_json::Value::Object(item.group.clone()).to_string();
        // A shard holds those of one group, which therefore follow one another.
        items.sort_by_cached_key(text);
        let mut groups: BTreeMap<String, u64> = BTreeMap::new();
        items.iter().for_each(|item| *groups.entry(text(item)).or_default() += count(&options.cut, item.rows()));
        let mut order: Vec<(String, u64)> = groups.into_iter().collect();
        order.sort_by_cached_key(|(name, _)| (hash(options.seed, name), name.clone()));
        let sizes: Vec<u64> = order.iter().map(|(_, size)| *size).collect();
        let names = options.shares.names();
        let chosen = by_groups(&sizes, &options.shares.fractions()).ok_or_else(|| {
            let keys: Vec<_> = by.keys().collect();
            Error::invalid(format!(
                "the files have {} different {}, which cannot fill {} splits",
                sizes.len(),
                keys.join(" and "),
                names.len()
            ))
            .remedy("name fewer splits, or choose another pattern for --by")
        })?;
        for (name, at) in names.iter().enumerate().map(|(at, name)| (*name, at)) {
            report.groups.insert(name.to_owned(), chosen.iter().filter(|&&c| c == at).count() as u64);
        }
        let split_of: BTreeMap<String, usize> = order.into_iter().map(|(name, _)| name).zip(chosen).collect();
        items.iter_mut().for_each(|item| item.split = split_of.get(&text(item)).copied().unwrap_or(0));
        return Ok(());
    }
    let names: Vec<&str> = files.iter().map(|f| f.source.as_str()).collect();
    let splits = options.shares.assign(&names, options.seed);
    for item in items {
        item.split = splits.get(item.file).copied().unwrap_or(0);
    }
    Ok(())
}

fn schema(first: &Item, dtype: &DType, options: &PackOptions) -> Result<Schema> {
    let rest = match options.channels {
        Channels::All => first.shape.get(1..).unwrap_or_default(),
        Channels::Mono | Channels::One(_) => &[],
    };
    let along = match options.cut {
        Cut::Whole => first.shape.first().copied(),
        Cut::Windows(w) => Some(usize::try_from(w.window()).unwrap_or(usize::MAX)),
        Cut::Rows => None,
    };
    let shape: Vec<usize> = along.into_iter().chain(rest.iter().copied()).collect();
    if shape.contains(&0) {
        return Err(Error::invalid(format!("'{}' has the shape {:?}: it is empty", first.source, first.shape))
            .remedy("remove such files"));
    }
    // A record is in memory as a whole, and no container holds a larger one.
    let smaller = "choose a smaller --window";
    let bytes = byte_len(dtype, &shape).map_err(|e| Error::from(e).remedy(smaller))?;
    if bytes as u64 > MAX_FLATBUFFER {
        return Err(Error::limit(format!("a record of {bytes} bytes, where {MAX_FLATBUFFER} are the limit")).remedy(smaller));
    }
    let field = |name: &str, ty| Field { name: name.into(), ty, metadata: Default::default() };
    let number = |kind| Ok::<_, Error>(FieldType::Array { dtype: DType::new(kind, 8)?, shape: vec![] });
    Ok(Schema {
        fields: vec![
            field("signal", FieldType::Array { dtype: dtype.clone(), shape }),
            field("start", number(Kind::Int)?),
            field("source", FieldType::Str),
            field("sample_rate", number(Kind::Float)?),
        ],
    })
}
