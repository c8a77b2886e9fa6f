//! An item of a JBOF data set: its metadata, its arrays summed up and drawn.

use super::look::Look;
use super::{Args, describe, instead, nearest};
use crate::{Failure, ls, text};
use serde_json::{Map, Value, json};
use sigbank::Error;
use sigbank::layout::jbof::{ArrayDescription, Dataset, Item};
use std::io::Write;

/// Rows are read in blocks of about this many bytes.
const BLOCK: usize = 1 << 18;
/// Metadata of one key take so many characters.
const WIDEST: usize = 200;

pub(super) fn run(args: &Args, dataset: &Dataset, width: usize, out: &mut dyn Write) -> Result<(), Failure> {
    if let Some(split) = args.split.as_deref().filter(|split| *split != "all") {
        return Err(Error::not_found(format!("there is no split '{split}'"))
            .at(&args.dataset)
            .remedy("a JBOF data set has one split, 'all'")
            .into());
    }
    let names = dataset.item_names()?;
    let (index, item) = find(args, dataset, &names)?;
    let arrays = item.describe()?;
    for name in &args.field {
        if !arrays.iter().any(|array| array.name == *name) {
            let all: Vec<_> = arrays.iter().map(|array| array.name.as_str()).collect();
            return Err(Error::not_found(format!("the item '{}' has no array '{name}'", item.name()))
                .at(&args.dataset)
                .remedy(format!("it has {}", all.join(", ")))
                .into());
        }
    }
    let metadata = item.metadata()?.to_value().map_err(Error::from)?;
    let shown = arrays.iter().filter(|array| args.field.is_empty() || args.field.contains(&array.name));
    if args.json {
        let mut values = Map::new();
        for array in shown {
            let mut told = look(&item, array, width)?.map_or_else(|| json!({}), |look| look.summary());
            if let (Some(told), Some(described)) =
                (told.as_object_mut(), ls::jbof::fields(std::slice::from_ref(array))?.remove(&array.name))
            {
                told.extend(described.as_object().cloned().unwrap_or_default());
            }
            values.insert(array.name.clone(), told);
        }
        let told = json!({"split": "all", "index": index, "id": item.name(), "metadata": metadata, "values": values});
        writeln!(out, "{told}")?;
        return Ok(());
    }
    text::line(out, format_args!("{} {index} of {}: {}", args.dataset, text::count(names.len() as u64), item.name()))?;
    if let Some(note) = instead(args.record.as_deref(), item.name(), index as u64) {
        text::line(out, format_args!("{note}"))?;
    }
    said(&metadata, "", out)?;
    for array in shown {
        let file = array.file.as_deref().unwrap_or("no file");
        let kind = ls::jbof::kind(array);
        let Some(look) = look(&item, array, width)? else {
            text::line(out, format_args!("{} ({file}): {kind}", array.name))?;
            continue;
        };
        text::line(out, format_args!("{} {kind} ({file}): {}", array.name, describe(&look.summary())))?;
        said(&array.metadata.to_value().map_err(Error::from)?, "  ", out)?;
        let frames = array.shape.as_ref().and_then(|shape| shape.first());
        if let (Some(rate), Some(frames)) = (array.sample_rate.filter(|rate| *rate > 0.0), frames) {
            text::line(out, format_args!("  {} s at {rate} Hz", super::short(*frames as f64 / rate)))?;
        }
        look.draw(|axis| format!("axis {axis}"), out)?;
    }
    Ok(())
}

/// Looks at an array block by block; none where its description says why it cannot be read.
fn look(item: &Item, array: &ArrayDescription, width: usize) -> Result<Option<Look>, Error> {
    let (None, Some(dtype), Some(shape)) = (&array.problem, &array.dtype, &array.shape) else { return Ok(None) };
    let within = |e: Error| e.within(format!("item '{}', array '{}'", item.name(), array.name));
    let entry = item.array(&array.name).map_err(within)?;
    let mut reader = entry.open(Default::default()).map_err(within)?;
    let info = reader.info();
    let elements = |shape: &[usize]| shape.iter().map(|&n| n as u128).product::<u128>();
    if info.dtype != *dtype || elements(&info.shape) != elements(shape) {
        // The document keeps what the file cannot hold.
        let elements = entry.elements().map_err(within)?;
        return Ok(Some(Look::whole(elements.dtype(), elements.shape(), elements.data(), width)));
    }
    let (rows, row) = (info.rows(), info.row_bytes());
    let (mut look, mut at, block) = (Look::new(dtype, shape, width), 0, (BLOCK / row.max(1)).max(1));
    let mut buffer = Vec::new();
    while at < rows {
        let n = block.min(rows - at);
        buffer.resize(n * row, 0);
        reader.read_rows(at, n, &mut buffer).map_err(|e| within(Error::from(e).at(entry.location())))?;
        look.add(&buffer);
        at += n;
    }
    Ok(Some(look))
}

/// Metadata, a key a line.
fn said(metadata: &Value, indent: &str, out: &mut dyn Write) -> Result<(), Failure> {
    for (key, value) in metadata.as_object().into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let more = if value.chars().count() > WIDEST { "…" } else { "" };
        text::line(out, format_args!("{indent}{key}: {}{more}", value.chars().take(WIDEST).collect::<String>()))?;
    }
    Ok(())
}

/// The item of a name or, where none has it, of a number.
fn find(args: &Args, dataset: &Dataset, names: &[String]) -> Result<(usize, Item), Error> {
    let asked = match (args.index, &args.record) {
        (Some(index), _) => &index.to_string(),
        (None, None) => "0",
        (None, Some(asked)) => asked.as_str(),
    };
    if args.index.is_none()
        && args.record.is_some()
        && let Ok(at) = names.binary_search_by(|name| name.as_str().cmp(asked))
    {
        return Ok((at, dataset.item(asked)?));
    }
    let Ok(index) = asked.parse::<u64>() else {
        return Err(Error::not_found(format!("there is no item '{asked}'")).at(&args.dataset).remedy(nearest(names, asked)));
    };
    match usize::try_from(index).ok().and_then(|at| Some((at, names.get(at)?))) {
        Some((at, name)) => Ok((at, dataset.item(name)?)),
        None => Err(super::past_the_end(index, names.len() as u64, &args.dataset)),
    }
}
