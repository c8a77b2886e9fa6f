//! Reading everything through what its formats check, and finding what nobody reads: arrays and items that have lost their documents.

use super::dataset::Dataset;
use super::describe::{SAMPLERATE, each, threads};
use super::documents::{self, FILENAME};
use super::hash::{Hashed, Sum};
use super::item::{ArrayEntry, DOCUMENT, Item};
use super::value::Value;
use super::{ROOT, hash, names};
use crate::error::{Code, Error, Result};
use crate::layout::{Units, Verified};
use crate::store::{DirEntry, ReadAt, Store, exists};
use crate::uri::RelPath;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Elements are read in blocks of about so many bytes.
const BLOCK: usize = 1 << 20;
/// Files that are on no local disk are fetched as a whole up to this size, which compares the CRC of a zip archive's members too.
const WHOLE: u64 = 1 << 30;
/// Most documents that are looked into to tell whether a folder was an item, and most names that a message lists.
const LOOKED: usize = 100;
const NAMED: usize = 3;

/// See [`crate::layout::Source::verify`] of [`super::JbofSource`].
pub(super) fn verify(
    dataset: &Dataset,
    items: &[Item],
    units: &Units,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Verified> {
    let total = units.len() as u64;
    let stopped = || Error::conflict("the check was stopped before its end");
    if !progress(0, total) {
        return Err(stopped());
    }
    dataset.metadata().and_then(|_| dataset.itemformat()).map_err(|e| e.at(dataset.location()))?;
    let mut done = Verified { records: units.records(), ..Verified::default() };
    lost_items(dataset, items)?;
    let one = |unit: usize| -> Result<(u64, Vec<Sum>)> {
        let start = units.start(unit).unwrap_or(0) as usize;
        let run = items.get(start..start + units.count(unit) as usize).unwrap_or_default();
        let mut read = (0, Vec::with_capacity(run.len()));
        for item in run {
            let (bytes, sum) = verify_item(dataset, item)?;
            read.0 += bytes;
            read.1.push(sum);
        }
        Ok(read)
    };
    let mut sums = Vec::with_capacity(items.len());
    let afar = dataset.store().capabilities().round_trip > 0;
    let mut go_on = true;
    let run = each(units.len(), threads(0, afar), one, &mut |_, (bytes, of_items)| {
        done.units += 1;
        done.bytes += bytes;
        sums.extend(of_items);
        go_on = progress(done.units, total);
        go_on
    });
    match run {
        _ if !go_on => Err(stopped()),
        run => run.map(|()| Verified { root: Some(format!("md5:{}", hash::of_sorted(sums))), ..done }),
    }
}

/// Bytes of what is the item's, and its digest as [`Dataset::hash`] takes it, of the bytes that were read here.
fn verify_item(dataset: &Dataset, item: &Item) -> Result<(u64, Sum)> {
    let within = |e: Error| e.within(format!("item {:?}", item.name())).at(item.location());
    item.metadata().map_err(within)?;
    let document = item.document_text().map_err(within)?;
    let mut bytes = document.len() as u64;
    let dir = RelPath::parse(item.name())?;
    let store = &**dataset.store();
    let (files, alone) = hash::files(store, &dir).map_err(within)?;
    // What was read by the name of each file.
    let mut sums = HashMap::from([(ROOT.to_owned(), hash::of_bytes(&document))]);
    let documents = files.iter().filter_map(|path| path.file_name().strip_suffix(DOCUMENT));
    let mut named = HashSet::new();
    for name in documents.filter(|name| names::array(name).is_ok()) {
        let within = |e: Error| e.within(format!("item {:?}, array {name:?}", item.name())).at(item.location());
        let entry = match item.array(name) {
            // Deleted just now, by another process.
            Err(e) if e.code() == Code::NotFound && !item.has_array(name)? => continue,
            entry => entry.map_err(within)?,
        };
        bytes += entry.document_text().len() as u64;
        let (size, sum) = verify_array(dataset, &entry).map_err(within)?;
        bytes += size;
        let file = entry.path().file_name().to_owned();
        sums.insert(format!("{name}{DOCUMENT}"), hash::of_bytes(entry.document_text()));
        sums.insert(file.clone(), sum);
        named.insert(file);
    }
    let alone: Vec<_> = alone.iter().filter(|file| !named.contains(*file)).take(NAMED).map(String::as_str).collect();
    if let Some((stem, _)) = alone.first().and_then(|file| file.rsplit_once('.')) {
        return Err(within(
            Error::corrupt(format!("no array has the file {}: there is no {stem}.json that makes it one", alone.join(", ")))
                .remedy("restore the document, or add the file anew (in Python: add_array_from_file) or move it away"),
        ));
    }
    second(store, &files, &named).map_err(within)?;
    let mut block = Vec::new();
    let each = files.iter().map(|path| match sums.remove(path.file_name()) {
        Some(sum) => Ok(sum),
        None => {
            block.resize(1 << 18, 0);
            hash::file(store, path, &mut block)
        }
    });
    let sum = hash::of_sorted(each.collect::<Result<_>>().map_err(within)?);
    Ok((bytes, sum))
}

/// Refuses a file that could be an array and lies beside a document of its name, which names another file: nobody reads it.
fn second(store: &dyn Store, files: &[RelPath], named: &HashSet<String>) -> Result<()> {
    for path in files.iter().filter(|path| !named.contains(path.file_name())) {
        let (stem, extension) = path.file_name().rsplit_once('.').unwrap_or_default();
        // One that is gone by now gave way to another of the array's name.
        if names::is_array_extension(extension) && exists(store, path)? {
            return Err(Error::corrupt(format!(
                "no array has the file {}: {stem}.json, which would make it one, names another file",
                path.file_name()
            ))
            .remedy("keep one of the two: name the right file in the document as \"_filename\", and move the other one away"));
        }
    }
    Ok(())
}

/// Refuses a folder that was an item: it has an array's document, but none of its own, so that every reader skips it.
fn lost_items(dataset: &Dataset, items: &[Item]) -> Result<()> {
    let store = &**dataset.store();
    let known: HashSet<&str> = items.iter().map(Item::name).collect();
    for entry in store.list_dir(None)? {
        let DirEntry::Dir(dir) = entry else { continue };
        if names::is_hidden(dir.as_str()) || names::is_litter(dir.as_str()) || known.contains(dir.as_str()) {
            continue;
        }
        let files = match store.list_dir(Some(&dir)) {
            // A folder of somebody else, who keeps it closed.
            Err(_) if dataset.local_root().is_some() => continue,
            files => files?,
        };
        let paths = files.iter().filter_map(|entry| match entry {
            DirEntry::Object(object) if object.path.file_name().ends_with(".json") => Some(&object.path),
            _ => None,
        });
        let array = paths.take(LOOKED).find(|path| documents::read(store, path).is_ok_and(|text| text.contains_key(FILENAME)));
        let Some(array) = array else { continue };
        // One that was added since the data set was opened is whole.
        if !dataset.has_item(dir.as_str())? && store.list_dir(Some(&dir))?.len() >= files.len() {
            let what = format!(
                "the folder has the array document {:?}, but no {ROOT}: it is no item, and nobody reads it",
                array.file_name()
            );
            let remedy = format!("restore {ROOT}, or write {{}} to it for an item without metadata; or move the folder away");
            return Err(Error::corrupt(what).within(format!("item {:?}", dir.as_str())).at(store.locate(&dir)).remedy(remedy));
        }
    }
    Ok(())
}

/// Reads an array's file: its size and digest.
fn verify_array(dataset: &Dataset, entry: &ArrayEntry) -> Result<(u64, Sum)> {
    let file = entry.file()?;
    let size = file.size();
    let src: Arc<dyn ReadAt> = match dataset.local_root() {
        None if size <= WHOLE => Arc::new(dataset.store().get(entry.path())?),
        _ => file,
    };
    let located = |e: sigbank_format::FormatError| Error::from(e).at(entry.location());
    let src = Arc::new(Hashed::new(src));
    let mut value = Value::of(entry, src.clone(), size)?;
    let reader = value.reader();
    let (rows, row, trailing) = (reader.info().rows(), reader.info().row_bytes(), reader.info().trailing_bytes);
    if trailing > 0 {
        return Err(Error::corrupt(format!("{trailing} bytes follow the array's last element, which are no part of it"))
            .at(entry.location())
            .remedy("it was written to otherwise, or is two files in one: restore it from a copy, or add the array anew"));
    }
    if let Some(rate) = reader.info().sample_rate() {
        same_rate(entry, rate)?;
    }
    let step = (BLOCK / row.max(1)).clamp(1, rows.max(1));
    let mut block = Vec::new();
    let mut at = 0;
    while at < rows && row > 0 {
        let count = step.min(rows - at);
        // A row may be a whole matrix: memory is taken as a file of that size needs it.
        let len = count.saturating_mul(row);
        block.try_reserve(len.saturating_sub(block.len())).map_err(|_| {
            Error::limit(format!("{len} bytes of memory for one row of the array are not to be had")).at(entry.location())
        })?;
        block.resize(len, 0);
        reader.read_rows(at, count, &mut block).map_err(located)?;
        at += count;
    }
    Ok((size, src.finish().map_err(located)?))
}

/// Refuses a document that says another sample rate than the file, which holds whole numbers; a text of a number is one.
fn same_rate(entry: &ArrayEntry, rate: u32) -> Result<()> {
    let document = entry.metadata().to_value()?;
    let said = match document.get(SAMPLERATE) {
        None | Some(serde_json::Value::Null) => return Ok(()),
        Some(said) => said,
    };
    let number = said.as_f64().or_else(|| said.as_str()?.trim().parse().ok());
    if number.is_some_and(|number| number.trunc() == f64::from(rate)) {
        return Ok(());
    }
    Err(Error::corrupt(format!("its document says that the samplerate is {said}, but the file says {rate} Hz"))
        .at(entry.location())
        .remedy("write the right one into the document, or add the array anew: programs go by either of the two"))
}
