//! `sigbank ls`.

use crate::version::Version;
use crate::{Failure, text};
use serde_json::{Map, Value, json};
use sigbank::Error;
use sigbank::layout::sedpack;
use sigbank::layout::signal_dataset::{Dataset, RecordMetadata};
use sigbank_format::record::signal::FieldMetadata;
use std::io::Write;
use std::path::Path;

/// Metadata of a record take so many characters of its line.
const WIDEST: usize = 120;

/// List the records of a signal-dataset: number, id, fields and metadata; no samples are read
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The dataset's folder
    dataset: String,
    #[command(flatten)]
    version: Version,
    /// List no more than N records
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Begin with this record, counted from 0
    #[arg(long, value_name = "INDEX", default_value_t = 0)]
    from: u64,
    /// Print each record as a line of JSON, with all metadata and axes
    #[arg(long)]
    pub(crate) json: bool,
}

/// Opens what must be a signal-dataset.
pub(crate) fn open(path: &str) -> Result<Dataset, Error> {
    open_at(path, &Version::default())
}

fn open_at(path: &str, version: &Version) -> Result<Dataset, Error> {
    let root = Path::new(path);
    if root.join(sedpack::ROOT).is_file() {
        return Err(Error::unsupported("this is a Sedpack dataset, whose examples have neither ids nor metadata")
            .at(path)
            .remedy("see: sigbank info, sigbank show"));
    }
    version.dataset(path)
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let dataset = open_at(&args.dataset, &args.version)?;
    let end = args.limit.map_or(dataset.len(), |limit| args.from.saturating_add(limit).min(dataset.len()));
    let mut index = args.from;
    for batch in dataset.metadata_batches(args.from.min(end)..end) {
        for record in batch? {
            if args.json {
                writeln!(out, "{}", object(index, &record)?)?;
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
    let mut said = Vec::new();
    if let Some(scene) = &record.scene_id {
        said.push(format!("scene={scene}"));
    }
    if let Value::Object(members) = record.metadata.to_value()? {
        for (key, value) in members {
            match value {
                Value::Object(_) | Value::Array(_) => said.push(format!("{key}=…")),
                Value::String(text) => said.push(format!("{key}={text}")),
                other => said.push(format!("{key}={other}")),
            }
        }
    }
    let line: String = said.join(" ");
    Ok(match line.chars().count() {
        0 => String::new(),
        n if n <= WIDEST => format!("  {line}"),
        _ => format!("  {}…", line.chars().take(WIDEST - 1).collect::<String>()),
    })
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
