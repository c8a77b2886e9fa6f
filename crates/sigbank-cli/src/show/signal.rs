//! A record of a signal-dataset: what is said of it, its axes with their units, its signals drawn.

use super::look::Look;
use super::{Args, describe, instead, nearest, short};
use crate::{Failure, ls, text};
use serde_json::{Map, Value, json};
use sigbank::Error;
use sigbank::layout::signal_dataset::Dataset;
use sigbank_format::record::signal::{Axis, FieldMetadata};
use std::io::Write;

/// Metadata of one key take so many characters.
const WIDEST: usize = 200;

pub(super) fn run(args: &Args, dataset: &Dataset, width: usize, out: &mut dyn Write) -> Result<(), Failure> {
    if let Some(split) = args.split.as_deref().filter(|split| *split != "all") {
        return Err(Error::not_found(format!("there is no split '{split}'"))
            .at(&args.dataset)
            .remedy("a signal-dataset has one split, 'all'")
            .into());
    }
    let index = find(args, dataset)?;
    let record = dataset.record(index)?;
    let catalog = dataset.annotations()?;
    let annotations = catalog.names().map(|name| Ok((name, catalog.open(name)?.row(index)?)));
    let annotations = annotations.collect::<Result<Vec<_>, Error>>()?;
    let said = record.metadata();
    for name in &args.field {
        if !said.fields.iter().any(|field| field.name == *name) {
            let all: Vec<_> = said.fields.iter().map(|field| field.name.as_str()).collect();
            return Err(Error::not_found(format!("record '{}' has no field '{name}'", said.id))
                .at(&args.dataset)
                .remedy(format!("it has {}", all.join(", ")))
                .into());
        }
    }
    let shown = said.fields.iter().enumerate().filter(|(_, field)| args.field.is_empty() || args.field.contains(&field.name));
    let look = |at: usize, field: &FieldMetadata| Look::whole(&field.dtype, &field.shape, &record.field(at), width);
    if args.json {
        let mut values = Map::new();
        for (at, field) in shown {
            let mut told = look(at, field).summary();
            if let Some(told) = told.as_object_mut() {
                told.insert("dtype".into(), json!(field.dtype.name()));
                told.insert("shape".into(), json!(field.shape));
                told.insert("axes".into(), Value::Array(axes(field)?));
            }
            values.insert(field.name.clone(), told);
        }
        let mut told = Map::new();
        for (name, row) in &annotations {
            told.insert((*name).into(), ls::annotation(row)?);
        }
        let metadata = said.metadata.to_value().map_err(Error::from)?;
        let object = json!({"split": "all", "index": index, "id": said.id, "scene_id": said.scene_id, "metadata": metadata, "values": values,
            "annotations": told});
        writeln!(out, "{object}")?;
        return Ok(());
    }
    text::line(out, format_args!("{} {} of {}: {}", args.dataset, index, text::count(dataset.len()), said.id))?;
    if let Some(note) = instead(args.record.as_deref(), &said.id, index) {
        text::line(out, format_args!("{note}"))?;
    }
    if let Some(scene) = &said.scene_id {
        text::line(out, format_args!("scene: {scene}"))?;
    }
    if let Value::Object(members) = said.metadata.to_value().map_err(Error::from)? {
        for (key, value) in members {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let more = if value.chars().count() > WIDEST { "…" } else { "" };
            text::line(out, format_args!("{key}: {}{more}", value.chars().take(WIDEST).collect::<String>()))?;
        }
    }
    for (at, field) in shown {
        let look = look(at, field);
        text::line(out, format_args!("{} {}: {}", field.name, ls::kind(field), describe(&look.summary())))?;
        for axis in &field.axes {
            if let Some(where_it_lies) = place(axis) {
                text::line(out, format_args!("  {}: {where_it_lies}", axis.name))?;
            }
        }
        let axis = |at: usize| field.axes.get(at).map_or_else(|| format!("axis {at}"), |axis| axis.name.clone());
        look.draw(axis, out)?;
    }
    for (name, row) in &annotations {
        text::line(out, format_args!("annotation {name}: {}", ls::annotation_words(row)?))?;
    }
    Ok(())
}

/// As `ls` has them, with all that their coordinates say.
fn axes(field: &FieldMetadata) -> Result<Vec<Value>, Error> {
    let mut told = ls::axes(field)?;
    for (told, axis) in told.iter_mut().filter_map(Value::as_object_mut).zip(&field.axes) {
        let Some(c) = &axis.coordinate else { continue };
        if let Some(values) = &c.values {
            told.insert("values".into(), values.to_value()?);
        }
        if let Some(reference) = &c.reference {
            told.insert("reference".into(), json!(reference));
        }
    }
    Ok(told)
}

/// Where the elements along an axis lie, in words; none where nothing is said.
fn place(axis: &Axis) -> Option<String> {
    let c = axis.coordinate.as_ref()?;
    let unit = c.unit.as_ref().map(|unit| format!(" {unit}")).unwrap_or_default();
    let number = |json: &Option<_>| json.as_ref().and_then(sigbank_format::model::json::Json::as_f64);
    if let (Some(start), Some(step)) = (number(&c.start), number(&c.step)) {
        let last = start + step * axis.length.saturating_sub(1) as f64;
        return Some(format!("{} to {}{unit}, step {}{unit}", short(start), short(last), short(step)));
    }
    if let Some(values) = &c.values {
        let values = values.to_value().ok()?;
        let word = |value: Option<&Value>| {
            value
                .map(|v| v.as_str().map(str::to_owned).or(v.as_f64().map(short)).unwrap_or_else(|| v.to_string()))
                .unwrap_or_default()
        };
        let list = values.as_array()?;
        return Some(match list.as_slice() {
            [] => format!("no values{unit}"),
            short if short.len() <= 8 => format!("{}{unit}", short.iter().map(|v| word(Some(v))).collect::<Vec<_>>().join(", ")),
            long => format!("{} to {}{unit}, {} values", word(long.first()), word(long.last()), long.len()),
        });
    }
    c.reference.as_ref().map(|name| format!("as '{name}' says{unit}")).or(c.unit.as_ref().map(|unit| format!("in {unit}")))
}

/// The record of an id or, where none has it, of a number.
fn find(args: &Args, dataset: &Dataset) -> Result<u64, Error> {
    let numbered = |index: u64| match index < dataset.len() {
        true => Ok(index),
        false => Err(super::past_the_end(index, dataset.len(), &args.dataset)),
    };
    let asked = match (args.index, &args.record) {
        (Some(index), _) => return numbered(index),
        (None, None) => return numbered(0),
        (None, Some(asked)) => asked.as_str(),
    };
    let (mut at, mut known) = (0, Vec::new());
    for batch in dataset.metadata_batches(0..dataset.len()) {
        for record in batch? {
            if record.id == asked {
                return Ok(at);
            }
            known.push(record.id);
            at += 1;
        }
    }
    if let Ok(index) = asked.parse() {
        return numbered(index);
    }
    Err(Error::not_found(format!("there is no record '{asked}'")).at(&args.dataset).remedy(nearest(&known, asked)))
}
