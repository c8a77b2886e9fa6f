//! What an import is going to make of which file.

use super::pattern::{Pattern, Template};
use super::table::Table;
use super::{ENDINGS, without_ending};
use crate::convert::Skipped;
use crate::convert::recording::open_file;
use crate::convert::scan::{Candidate, scan_for};
use crate::error::{Code, Error, Result};
use crate::layout::jbof;
use crate::store::{LocalStore, ReadAt};
use serde_json::{Map, Value};
use sigbank_format::array::{self, ArrayInfo, ArrayReader, Format, mat};
use sigbank_format::error::FormatError;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// The array's name where nothing says another.
const SIGNAL: &str = "signal";
/// Keys of a pattern that name item and array, and are no metadata.
const ITEM: &str = "item";
const ARRAY: &str = "array";
/// The key of the header's that is no whole number.
const DURATION: &str = "duration";
/// Bytes that are decoded at a time to see whether a file can be.
const DECODED: usize = 1 << 20;
/// Bad files that an error lists.
const NAMED: usize = 3;

/// What is made of which files.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// What paths say. Of several patterns the first that fits counts; a file that fits none is left out, where there are any. The keys `item` and `array`
    /// are no metadata, but the names of both.
    pub patterns: Vec<Pattern>,
    /// The item's name. Without it: what a pattern has for `item`; else the path without its ending, `-` for each `/`, or, where a pattern has
    /// `array`, the other keys joined by `-`. Files of one item's name are its arrays.
    pub item: Option<Template>,
    /// The array's name. Without it: what a pattern has for `array`, else `signal`.
    pub array: Option<Template>,
    /// Further metadata.
    pub table: Option<Table>,
    /// List files that cannot be read among those left out, instead of ending. Then each file is decoded to its end before anything is copied;
    /// without it, its header is read, and what is damaged behind that is copied as it is.
    pub skip_bad: bool,
}

/// A file that becomes an array.
#[derive(Debug, Clone)]
pub struct PlannedArray {
    /// The array's name.
    pub name: String,
    /// The file, relative to the folder.
    pub source: String,
    /// Its bytes.
    pub bytes: u64,
    /// The array's metadata: of audio `samplerate`, `channels`, `bits` and `duration`; what of the file's own is not the same for all arrays of the item.
    pub metadata: Map<String, Value>,
    pub(super) path: PathBuf,
    pub(super) format: Format,
    pub(super) modified: Option<SystemTime>,
}

/// An item that is going to be made.
#[derive(Debug, Clone)]
pub struct PlannedItem {
    /// Its name.
    pub name: String,
    /// Its metadata: what is said of all of its files; of what the table says otherwise of some of them, an object by the arrays' names.
    pub metadata: Map<String, Value>,
    /// Its arrays, sorted by name.
    pub arrays: Vec<PlannedArray>,
}

/// See [`plan`].
#[derive(Debug, Clone, Default)]
pub struct ImportPlan {
    /// The items, sorted by name.
    pub items: Vec<PlannedItem>,
    /// Files that are left out, and why, sorted.
    pub left_out: Vec<Skipped>,
    /// Files and folders that operating systems and editors leave behind.
    pub litter: u64,
    /// What rows of the table are joined by that fit no file.
    pub unused_rows: Vec<String>,
    /// Files that have no row, where there is a table.
    pub without_row: Vec<String>,
    /// What of the table may have been taken for something else than was meant.
    pub warnings: Vec<String>,
    pub(super) folder: PathBuf,
}

impl ImportPlan {
    /// Arrays of all items.
    pub fn arrays(&self) -> u64 {
        self.items.iter().map(|item| item.arrays.len() as u64).sum()
    }
    /// Bytes of their files.
    pub fn bytes(&self) -> u64 {
        self.items.iter().flat_map(|item| &item.arrays).map(|array| array.bytes).sum()
    }
}

/// A file on its way to an item.
struct One {
    item: String,
    said: Map<String, Value>,
    /// The keys that the table says.
    of_row: Vec<String>,
    header: Map<String, Value>,
    array: PlannedArray,
}

enum Looked {
    File(Box<One>, Option<String>, bool),
    LeftOut(&'static str),
    Bad(Error),
}

/// Looks at every file of a folder and those below it: headers, and elements where bad files are left out. Nothing is written. Hidden files, and those
/// in hidden folders, whose names begin with a dot, are left out.
///
/// # Errors
/// `NotFound` where the folder is not there; `AlreadyExists` where two files would be one array, naming both; `Invalid` for a name that no item or array can
/// have, for a key of a template that a file has not, where path, table and header
/// contradict each other, where no row of the table fits any file, and where no file is left; `Unsupported` for a
/// folder that is a data set; and the first file that cannot be read, unless such are to be left out.
pub fn plan(folder: &Path, options: &ImportOptions) -> Result<ImportPlan> {
    let mut found = scan_for(&ENDINGS, &[folder.to_owned()]).map_err(|e| match e.code() {
        Code::NotFound => e.remedy("check the path of the folder to import"),
        _ => e,
    })?;
    if folder.is_dir() && jbof::is_data_set(&LocalStore::open(folder)?)? {
        return Err(Error::unsupported("this is a JBOF data set already").at(folder.display()).remedy("copy it: sigbank cp"));
    }
    let mut plan = ImportPlan { litter: found.litter, folder: folder.to_owned(), ..ImportPlan::default() };
    let leave = |source: &str, reason: &str| Skipped { source: source.to_owned(), reason: reason.to_owned() };
    plan.left_out.extend(found.others.iter().map(|source| leave(source, "no array file")));
    // Why a name that is not UTF-8 is in the way is another reason here.
    let reason = |reason: &str| reason.split(" and cannot be stored").next().unwrap_or_default().to_owned();
    plan.left_out.extend(found.bad.iter().map(|bad| leave(&bad.source, &reason(&bad.reason))));
    let hidden = |source: &str| source.split('/').any(|part| part.starts_with('.'));
    found.candidates.retain(|file| {
        let kept = !hidden(&file.source);
        plan.left_out.extend((!kept).then(|| leave(&file.source, "it is hidden: its name, or a folder's, begins with a dot")));
        kept
    });
    let mut looked: Vec<Option<Looked>> = Vec::new();
    looked.resize_with(found.candidates.len(), || None);
    let one = |at: usize| found.candidates.get(at).map(|file| look(file, options)).transpose();
    jbof::each(found.candidates.len(), 0, one, &mut |at, one| {
        if let Some(slot) = looked.get_mut(at) {
            *slot = one;
        }
        true
    })?;
    let (mut items, mut used): (BTreeMap<String, Vec<One>>, HashSet<String>) = Default::default();
    let mut bad = Vec::new();
    for (file, looked) in found.candidates.iter().zip(looked) {
        match looked {
            Some(Looked::File(one, row, sought)) => {
                used.extend(row.clone());
                if sought && row.is_none() {
                    plan.without_row.push(file.source.clone());
                }
                items.entry(one.item.clone()).or_default().push(*one);
            }
            Some(Looked::LeftOut(reason)) => plan.left_out.push(leave(&file.source, reason)),
            Some(Looked::Bad(e)) => bad.push((file, e)),
            None => {}
        }
    }
    if let Some((_, first)) = bad.first().filter(|_| !options.skip_bad) {
        let names: Vec<_> = bad.iter().take(NAMED).map(|(file, _)| file.source.as_str()).collect();
        let more = if bad.len() > 1 {
            format!(" ({} files cannot be read: {} …)", bad.len(), names.join(", "))
        } else {
            String::new()
        };
        // What the file is blamed for wrongly has a remedy of its own.
        let remedy = match first.remedy_text().filter(|_| first.code() == Code::Invalid) {
            Some(own) => format!("{own}, or leave such files out: --skip-bad"),
            None => "repair it or move it away, or leave such files out: --skip-bad".to_owned(),
        };
        let path = first.path().map_or_else(|| folder.display().to_string(), str::to_owned);
        return Err(Error::new(first.code(), format!("{}{more}", first.message())).at(path).remedy(remedy));
    }
    plan.left_out.extend(bad.iter().map(|(file, e)| leave(&file.source, e.message())));
    plan.left_out.sort_by(|a, b| a.source.cmp(&b.source));
    if let Some(table) = &options.table {
        plan.warnings = table.warnings().to_vec();
        plan.unused_rows = table.keys().filter(|key| !used.contains(*key)).map(str::to_owned).collect();
        if used.is_empty()
            && let (Some(file), Some(row)) = (items.values().flatten().next(), plan.unused_rows.first())
        {
            return Err(no_row(table, row, file).at(folder.display()));
        }
    }
    let mut parted = Parted::new();
    plan.items = items.into_iter().map(|(name, files)| item(name, files, &mut parted)).collect::<Result<_>>()?;
    plan.warnings.extend(parted.iter().map(|(key, (count, item, array))| {
        let items = if *count == 1 { "the item".to_owned() } else { format!("{count} items, such as") };
        let how = match is_word(key) && is_word(array) {
            true => format!("{key}.{array}"),
            false => format!("metadata[{key:?}][{array:?}]"),
        };
        format!("'{key}' is not the same for all files of {items} '{item}': the item has it by the arrays' names, to be found by {how}")
    }));
    if plan.items.is_empty() {
        let what = match plan.left_out.first() {
            None => "no file of an array is in the folder".to_owned(),
            Some(first) => format!(
                "no file is left to import: {} are left out, such as {}: {}",
                plan.left_out.len(),
                first.source,
                first.reason
            ),
        };
        return Err(Error::invalid(what).at(folder.display()).remedy(format!("files of {} are imported", ENDINGS.join(", "))));
    }
    Ok(plan)
}

/// Nothing of a table fits.
fn no_row(table: &Table, row: &str, file: &One) -> Error {
    let (of, name) = match table.key() {
        None => ("file", file.array.source.clone()),
        Some(key) => (
            "key of a file",
            file.said.get(key).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).unwrap_or_default(),
        ),
    };
    let remedy = match table.key() {
        None => {
            "name files by their paths relative to the folder, with or without their ending; --join KEY joins by a key of the pattern"
        }
        Some(_) => "correct the table, the pattern or the key",
    };
    Error::invalid(format!("no row of the table fits any file: there is a row of {row:?}, and a {of} {name:?}")).remedy(remedy)
}

fn look(file: &Candidate, options: &ImportOptions) -> Result<Looked> {
    let path = file.source.as_str();
    let mut said = Map::new();
    if !options.patterns.is_empty() {
        match options.patterns.iter().find_map(|pattern| pattern.find(path)) {
            Some(found) => said = found,
            None => return Ok(Looked::LeftOut("its path is of no pattern")),
        }
    }
    let [own_item, own_array] =
        [ITEM, ARRAY].map(|key| said.shift_remove(key).map(|name| name.as_str().map_or_else(|| name.to_string(), str::to_owned)));
    let keys: Vec<String> = said.values().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).collect();
    let (mut row, mut of_row) = (None, Vec::new());
    if let Some((key, found)) = options.table.as_ref().and_then(|table| table.find(path, &said)) {
        row = Some(key.to_owned());
        of_row = found.keys().cloned().collect();
        join(&mut said, found, path)?;
    }
    // What the names may be made of.
    let mut known = said.clone();
    for (key, name) in [(ITEM, &own_item), (ARRAY, &own_array)] {
        if let Some(name) = name {
            known.insert(key.to_owned(), name.as_str().into());
        }
    }
    let item = match (&options.item, own_item) {
        (Some(template), _) => template.name(&known, path)?,
        (None, Some(name)) => name,
        (None, None) if own_array.is_some() && !keys.is_empty() => keys.join("-"),
        (None, None) => without_ending(path).to_owned(),
    };
    let item = item.replace('/', "-");
    let array = match (&options.array, own_array) {
        (Some(template), _) => template.name(&known, path)?,
        (None, name) => name.unwrap_or_else(|| SIGNAL.to_owned()),
    };
    let array = array.replace('/', "-");
    let named = |e: Error| e.at(file.path.display());
    let otherwise = "rename the file, or name items and arrays otherwise: --item, --array";
    jbof::check_names(&item, &array).map_err(|e| named(e.remedy(otherwise)))?;
    if let Some(key) = said.keys().find(|key| jbof::is_own_key(key)) {
        return Err(named(
            Error::invalid(format!("the metadata have the key '{key}', which the layout keeps for itself"))
                .remedy("name it otherwise"),
        ));
    }
    let sought = options.table.is_some();
    let header = header(file, &array, options.skip_bad).and_then(|(format, header)| {
        agree(&mut said, &header).map_err(named)?;
        Ok((format, header))
    });
    Ok(match header {
        Ok((format, header)) => {
            let modified = std::fs::metadata(&file.path).and_then(|found| found.modified()).ok();
            let array = PlannedArray {
                name: array,
                source: file.source.clone(),
                bytes: file.size,
                metadata: Map::new(),
                path: file.path.clone(),
                format,
                modified,
            };
            Looked::File(Box::new(One { item, said, of_row, header, array }), row, sought)
        }
        Err(e) => Looked::Bad(e),
    })
}

/// Takes over what a row says; path and table must not contradict each other.
fn join(said: &mut Map<String, Value>, row: &Map<String, Value>, path: &str) -> Result<()> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    for (key, value) in row {
        if let Some(known) = said.get(key).filter(|known| text(known) != text(value)) {
            return Err(Error::invalid(format!("'{key}' is {known} by the path, and {value} in the table"))
                .at(path)
                .remedy("correct the table, or name the key of the pattern otherwise"));
        }
        said.insert(key.clone(), value.clone());
    }
    Ok(())
}

/// What the header says, path and table must not contradict: who reads the item would take one for the other. Where they agree it is as the header
/// says it, and no more theirs.
fn agree(said: &mut Map<String, Value>, header: &Map<String, Value>) -> Result<()> {
    let number = |value: &Value| value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    for (key, found) in header {
        let Some(told) = said.get(key) else { continue };
        // A duration may be rounded, or cut, to the digits that it is written with.
        let digits = if key == DURATION {
            number(told).map_or(0, |n| n.to_string().split_once('.').map_or(0, |(_, after)| after.len()))
        } else {
            0
        };
        let step = if key == DURATION { 10f64.powi(-(digits.min(300) as i32)) } else { 0.0 };
        let near = number(told).zip(number(found)).is_some_and(|(told, found)| told == found || (told - found).abs() < step);
        if !near {
            return Err(Error::invalid(format!("'{key}' is {told} by its path or the table, and {found} in its header"))
                .remedy(format!("correct the table, or name its column otherwise (such as original_{key})")));
        }
        said.shift_remove(key);
    }
    Ok(())
}

/// Decodes a file to its end.
fn decode(reader: &mut dyn ArrayReader) -> sigbank_format::error::Result<()> {
    let (rows, row) = (reader.info().rows(), reader.info().row_bytes());
    let step = (DECODED / row.max(1)).clamp(1, rows.max(1));
    let mut out = Vec::new();
    let mut done = 0;
    while done < rows {
        let count = step.min(rows - done);
        // A row may be declared to be larger than any file.
        let size = row.saturating_mul(count);
        out.try_reserve_exact(size.saturating_sub(out.len()))
            .map_err(|_| FormatError::limit(format!("a row of {row} bytes, for which there is no memory")))?;
        out.resize(size, 0);
        reader.read_rows(done, count, &mut out)?;
        done += count;
    }
    Ok(())
}

/// What a file is by its content, and what its header says of audio; `whole`: it is decoded to its end.
fn header(file: &Candidate, array: &str, whole: bool) -> Result<(Format, Map<String, Value>)> {
    let src: Arc<dyn ReadAt> = open_file(file)?;
    let located = |e: sigbank_format::FormatError| Error::from(e).at(file.path.display());
    let mut head = [0; 12];
    let head = head.get_mut(..src.size().min(12) as usize).unwrap_or_default();
    src.read_at(0, head).map_err(located)?;
    let by_name = match super::ending(&file.source).as_deref() {
        Some("wave") => Some(Format::Wav),
        Some("oga") => Some(Format::Ogg),
        Some(ending) => Format::from_extension(ending),
        None => None,
    };
    let format = Format::sniff(head).or(by_name).unwrap_or(Format::Npy);
    let reader = match format {
        Format::Mat => mat::open(src, array),
        _ => array::open(src, format),
    };
    let mut reader = reader.map_err(located)?;
    if whole {
        decode(&mut *reader).map_err(located)?;
    }
    Ok((format, audio(reader.info())))
}

fn audio(info: &ArrayInfo) -> Map<String, Value> {
    let mut said = Map::new();
    if let Some(audio) = &info.audio {
        said.insert("channels".into(), audio.channels.into());
        said.extend(audio.bits_per_sample.map(|bits| ("bits".to_owned(), bits.into())));
        if let Some(rate) = audio.sample_rate {
            said.insert("samplerate".into(), rate.into());
            said.insert(DURATION.into(), (info.rows() as f64 / f64::from(rate)).into());
        }
    }
    said
}

/// Keys that the table gives files of one item other values of: of how many items, the first, and an array of it.
type Parted = BTreeMap<String, (u64, String, String)>;

fn is_word(name: &str) -> bool {
    name.starts_with(|c: char| c.is_alphabetic() || c == '_') && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// An item of its files: what all say is said of it, what they say each for itself of their arrays; of what the table says each for itself, the item has
/// an object by the arrays' names.
fn item(name: String, mut files: Vec<One>, parted: &mut Parted) -> Result<PlannedItem> {
    files.sort_by(|a, b| (&a.array.name, &a.array.source).cmp(&(&b.array.name, &b.array.source)));
    for pair in files.windows(2) {
        if let [a, b] = pair
            && a.array.name == b.array.name
        {
            let what = format!(
                "'{}' and '{}' would both be the array '{}' of the item '{name}'",
                a.array.source, b.array.source, a.array.name
            );
            let remedy = "make the names differ: --item and --array, or keys of the pattern such as {array}; {stem}, {ext} and {folder} help";
            return Err(Error::already_exists(what).remedy(remedy));
        }
    }
    let of_all = |of: fn(&One) -> &Map<String, Value>, files: &[&One]| {
        let keys: BTreeSet<&String> = files.iter().flat_map(|file| of(file).keys()).collect();
        let common = keys.into_iter().filter_map(|key| {
            let first = of(files.first()?).get(key)?;
            files.iter().all(|file| of(file).get(key) == Some(first)).then(|| (key.clone(), first.clone()))
        });
        common.collect::<Map<_, _>>()
    };
    let all: Vec<&One> = files.iter().collect();
    let mut metadata = of_all(|file| &file.said, &all);
    let keys: BTreeSet<&String> = files.iter().flat_map(|file| &file.of_row).collect();
    // What headers say stands for itself.
    for key in keys.into_iter().filter(|key| !files.iter().any(|file| file.header.contains_key(*key))) {
        let having = files.iter().filter_map(|file| Some((file.array.name.clone(), file.said.get(key)?.clone())));
        let by_array: Map<String, Value> = having.collect();
        if let Some(array) = by_array.keys().next().filter(|_| !metadata.contains_key(key)) {
            parted.entry(key.clone()).or_insert_with(|| (0, name.clone(), array.clone())).0 += 1;
            metadata.insert(key.clone(), Value::Object(by_array));
        }
    }
    let audio: Vec<&One> = files.iter().filter(|file| !file.header.is_empty()).collect();
    for (key, value) in of_all(|file| &file.header, &audio) {
        // Of a file that is no audio, something else may be said.
        if !files.iter().any(|file| file.said.get(&key).is_some_and(|said| *said != value)) {
            metadata.entry(key).or_insert(value);
        }
    }
    let arrays = files.into_iter().map(|file| {
        let own = file.said.into_iter().filter(|(key, value)| metadata.get(key) != Some(value));
        // What the header says is so.
        PlannedArray { metadata: own.chain(file.header).collect(), ..file.array }
    });
    let arrays = arrays.collect();
    Ok(PlannedItem { name, metadata, arrays })
}
