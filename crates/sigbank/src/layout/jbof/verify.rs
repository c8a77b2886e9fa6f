//! Reading everything through what its formats check.

use super::dataset::Dataset;
use super::describe::{each, threads};
use super::item::{ArrayEntry, Item};
use super::value::Value;
use crate::error::{Code, Error, Result};
use crate::layout::{Units, Verified};
use crate::store::ReadAt;
use std::sync::Arc;

/// Elements are read in blocks of about so many bytes.
const BLOCK: usize = 1 << 20;
/// Files that are on no local disk are fetched as a whole up to this size, which compares the CRC of a zip archive's members too.
const WHOLE: u64 = 1 << 30;

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
    let one = |unit: usize| -> Result<u64> {
        let start = units.start(unit).unwrap_or(0) as usize;
        let run = items.get(start..start + units.count(unit) as usize).unwrap_or_default();
        run.iter().map(|item| verify_item(dataset, item)).sum()
    };
    let afar = dataset.store().capabilities().round_trip > 0;
    let mut go_on = true;
    let run = each(units.len(), threads(0, afar), one, &mut |_, bytes| {
        done.units += 1;
        done.bytes += bytes;
        go_on = progress(done.units, total);
        go_on
    });
    match run {
        _ if !go_on => Err(stopped()),
        run => run.map(|()| done),
    }
}

/// Bytes that were read.
fn verify_item(dataset: &Dataset, item: &Item) -> Result<u64> {
    let within = |e: Error| e.within(format!("item {:?}", item.name())).at(item.location());
    item.metadata().map_err(within)?;
    let mut bytes = item.document_text().map_err(within)?.len() as u64;
    for name in item.array_names().map_err(within)? {
        let within = |e: Error| e.within(format!("item {:?}, array {name:?}", item.name())).at(item.location());
        let entry = match item.array(&name) {
            // Deleted just now, by another process.
            Err(e) if e.code() == Code::NotFound && !item.has_array(&name)? => continue,
            entry => entry.map_err(within)?,
        };
        bytes += entry.document_text().len() as u64;
        bytes += verify_array(dataset, &entry).map_err(within)?;
    }
    Ok(bytes)
}

fn verify_array(dataset: &Dataset, entry: &ArrayEntry) -> Result<u64> {
    let file = entry.file()?;
    let size = file.size();
    let src: Arc<dyn ReadAt> = match dataset.local_root() {
        None if size <= WHOLE => Arc::new(dataset.store().get(entry.path())?),
        _ => file,
    };
    let located = |e: sigbank_format::FormatError| Error::from(e).at(entry.location());
    let mut value = Value::of(entry, src, size)?;
    let reader = value.reader();
    let (rows, row, trailing) = (reader.info().rows(), reader.info().row_bytes(), reader.info().trailing_bytes);
    if trailing > 0 {
        return Err(Error::corrupt(format!("{trailing} bytes follow the array's last element, which are no part of it"))
            .at(entry.location())
            .remedy("it was written to otherwise, or is two files in one: restore it from a copy, or add the array anew"));
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
    Ok(size)
}
