//! An item of a JBOF data set: its metadata, its arrays summed up and drawn.

use super::{Args, describe, nearest, picture, summary};
use crate::{Failure, ls, text};
use serde_json::{Map, Value, json};
use sigbank::Error;
use sigbank::layout::jbof::{ArrayDescription, Dataset, Item};
use sigbank_format::model::{Array, FieldType};
use std::io::Write;

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
            let mut told = match elements(&item, array)? {
                Some(elements) => summary(&ty(&elements), elements.data()),
                None => json!({}),
            };
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
    said(&metadata, "", out)?;
    for array in shown {
        let file = array.file.as_deref().unwrap_or("no file");
        let kind = ls::jbof::kind(array);
        let Some(elements) = elements(&item, array)? else {
            text::line(out, format_args!("{} ({file}): {kind}", array.name))?;
            continue;
        };
        text::line(out, format_args!("{} {kind} ({file}): {}", array.name, describe(&summary(&ty(&elements), elements.data()))))?;
        said(&array.metadata.to_value().map_err(Error::from)?, "  ", out)?;
        if let (Some(rate), Some(frames)) = (array.sample_rate.filter(|rate| *rate > 0.0), elements.shape().first()) {
            text::line(out, format_args!("  {} s at {rate} Hz", super::short(*frames as f64 / rate)))?;
        }
        picture(elements.dtype(), elements.shape(), elements.data(), |axis| format!("axis {axis}"), width, out)?;
    }
    Ok(())
}

/// An array's elements; none where its description says why they cannot be read.
fn elements(item: &Item, array: &ArrayDescription) -> Result<Option<Array>, Error> {
    if array.problem.is_some() {
        return Ok(None);
    }
    let within = |e: Error| e.within(format!("item '{}', array '{}'", item.name(), array.name));
    item.array(&array.name).and_then(|entry| entry.elements()).map(Some).map_err(within)
}

fn ty(array: &Array) -> FieldType {
    FieldType::Array { dtype: array.dtype().clone(), shape: array.shape().to_vec() }
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
    let asked = args.record.as_str();
    if let Ok(at) = names.binary_search_by(|name| name.as_str().cmp(asked)) {
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
