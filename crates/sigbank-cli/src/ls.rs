//! `sigbank ls`.

pub(crate) mod jbof;

use crate::place::Storage;
use crate::version::Version;
use crate::{Failure, text};
use serde_json::{Map, Value, json};
use sigbank::Error;
use sigbank::layout::signal_dataset::versions::dataset_at_version;
use sigbank::layout::signal_dataset::{AnnotationRow, Dataset, RecordMetadata};
use sigbank::layout::{sedpack, signal_dataset};
use sigbank::store::local_path;
use sigbank_format::record::signal::FieldMetadata;
use std::io::Write;

/// Metadata of a record take so many characters of its line.
const WIDEST: usize = 120;

/// List the records of a signal-dataset (number, id, fields and metadata, or their annotations), or the items of a JBOF data set; no samples are
/// read
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The dataset: a folder, or an address such as s3://bucket/data
    dataset: String,
    #[command(flatten)]
    version: Version,
    /// List no more than N records
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Begin with this record, counted from 0
    #[arg(long, value_name = "INDEX", default_value_t = 0)]
    from: u64,
    /// Show each record's annotation of this set
    #[arg(long, value_name = "NAME")]
    annotations: Option<String>,
    /// Print each record as a line of JSON, with all metadata and axes
    #[arg(long)]
    pub(crate) json: bool,
}

/// Opens what must be a signal-dataset.
pub(crate) fn open(path: &str, storage: &Storage) -> Result<Dataset, Error> {
    refuse_sedpack(path)?;
    dataset_at_version(path, None, &storage.options())
}

fn refuse_sedpack(path: &str) -> Result<(), Error> {
    if local_path(path).is_some_and(|root| root.join(sedpack::ROOT).is_file()) {
        return Err(Error::unsupported("this is a Sedpack dataset, whose examples have neither ids nor metadata")
            .at(path)
            .remedy("see: sigbank info, sigbank show"));
    }
    Ok(())
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    refuse_sedpack(&args.dataset)?;
    if !local_path(&args.dataset).is_some_and(|root| root.join(signal_dataset::ROOT).is_file())
        && let Some(dataset) = args.version.jbof(&args.dataset)?
    {
        return jbof::run(args, &dataset, out);
    }
    let dataset = args.version.dataset(&args.dataset)?;
    let end = args.limit.map_or(dataset.len(), |limit| args.from.saturating_add(limit).min(dataset.len()));
    let set = args.annotations.as_ref().map(|name| dataset.annotations()?.open(name)).transpose()?;
    let mut index = args.from;
    for batch in dataset.metadata_batches(args.from.min(end)..end) {
        for record in batch? {
            let row = set.as_ref().map(|set| set.row(index)).transpose()?;
            if args.json {
                let mut told = object(index, &record)?;
                if let (Some(row), Some(members)) = (&row, told.as_object_mut()) {
                    members.insert("annotation".into(), annotation(row)?);
                }
                writeln!(out, "{told}")?;
            } else if let Some(row) = row {
                text::line(out, format_args!("{index:>6}  {}  {}", record.id, annotation_words(&row)?))?;
            } else {
                let fields: Vec<_> = record.fields.iter().map(|f| format!("{} {}", f.name, kind(f))).collect();
                let said = brief(&record)?;
                text::line(out, format_args!("{index:>6}  {}  {}{said}", record.id, fields.join(", ")))?;
            }
            index += 1;
        }
    }
    if !args.json && (args.from > 0 || end < dataset.len()) {
        let shown = end.saturating_sub(args.from);
        writeln!(out, "{} of {}", text::count(shown), text::some(dataset.len(), "record"))?;
    }
    Ok(())
}

/// Dtype, axes and lengths, such as `float32[channel 2, time 16384]`.
pub(crate) fn kind(field: &FieldMetadata) -> String {
    let axes: Vec<_> = field.axes.iter().map(|axis| format!("{} {}", axis.name, axis.length)).collect();
    format!("{}[{}]", field.dtype.name(), axes.join(", "))
}

/// What metadata say on one line: single values only, for lists and objects are long.
fn brief(record: &RecordMetadata) -> Result<String, Error> {
    let mut said: Vec<String> = record.scene_id.iter().map(|scene| format!("scene={scene}")).collect();
    said.extend(words(record.metadata.to_value()?));
    Ok(cut(&said.join(" ")))
}

/// Single values of an object; lists and objects are long.
fn words(object: Value) -> Vec<String> {
    let Value::Object(members) = object else { return Vec::new() };
    let word = |(key, value): (String, Value)| match value {
        Value::Object(_) | Value::Array(_) => format!("{key}=…"),
        Value::String(text) => format!("{key}={text}"),
        other => format!("{key}={other}"),
    };
    members.into_iter().map(word).collect()
}

/// Words behind others on a line, as far as they have room.
fn cut(line: &str) -> String {
    match line.chars().count() {
        0 => String::new(),
        n if n <= WIDEST => format!("  {line}"),
        _ => format!("  {}…", line.chars().take(WIDEST - 1).collect::<String>()),
    }
}

/// An annotation on a part of a line: its status, and its values.
pub(crate) fn annotation_words(row: &AnnotationRow) -> Result<String, Error> {
    let detail = row.detail_status.as_ref().map(|detail| format!(" ({detail})")).unwrap_or_default();
    let mut said = words(row.values.to_value()?);
    said.extend(row.fields.iter().map(|field| format!("{} {}", field.name, kind(field))));
    Ok(format!("{}{detail}{}", row.status, cut(&said.join(" "))))
}

/// All of an annotation but its samples.
pub(crate) fn annotation(row: &AnnotationRow) -> Result<Value, Error> {
    let fields: Map<String, Value> =
        row.fields.iter().map(|f| (f.name.clone(), json!({"dtype": f.dtype.name(), "shape": f.shape}))).collect();
    Ok(json!({
        "status": row.status.as_str(), "detail_status": row.detail_status, "values": row.values.to_value()?,
        "provenance": row.provenance.to_value()?, "fields": fields,
    }))
}

/// All that is said of a record.
fn object(index: u64, record: &RecordMetadata) -> Result<Value, Error> {
    let mut fields = Map::new();
    for field in &record.fields {
        let told = json!({
            "dtype": field.dtype.name(), "shape": field.shape, "axes": axes(field)?, "metadata": field.metadata.to_value()?,
        });
        fields.insert(field.name.clone(), told);
    }
    Ok(json!({
        "index": index, "id": record.id, "scene_id": record.scene_id, "fields": fields, "metadata": record.metadata.to_value()?,
    }))
}

/// The axes as JSON; of the coordinates what is not a list.
pub(crate) fn axes(field: &FieldMetadata) -> Result<Vec<Value>, Error> {
    let axis = |axis: &sigbank_format::record::signal::Axis| {
        let mut told = json!({"name": axis.name, "length": axis.length});
        let Some(members) = told.as_object_mut() else { return Ok(told) };
        if let Some(c) = &axis.coordinate {
            for (key, value) in [("start", &c.start), ("step", &c.step)] {
                if let Some(value) = value {
                    members.insert(key.into(), value.to_value()?);
                }
            }
            if let Some(unit) = &c.unit {
                members.insert("unit".into(), json!(unit));
            }
        }
        Ok(told)
    };
    field.axes.iter().map(axis).collect()
}
