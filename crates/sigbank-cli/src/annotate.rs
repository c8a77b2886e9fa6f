//! `sigbank annotate`.

mod csv;
mod file;

use crate::version::Version;
use crate::{Failure, publish, text};
use file::{Lines, Spot};
use serde_json::{Map, Value, json};
use sigbank::Error;
use sigbank::layout::signal_dataset::{AnnotationOptions, AnnotationRow, AnnotationStatus, Dataset, publish_annotations};
use sigbank_format::model::json::Json;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

/// Annotate the records of a signal-dataset from a JSON-lines or CSV file
///
/// Each line is of one record, by its id or index. What else is on it are the annotation's values, unless its name is status (success,
/// skipped or failed), detail_status, provenance (an object) or, in JSON, values (an object, which then is all of them). Of CSV the first
/// line names the columns; a cell that is a number as JSON has it is one, an empty cell is none. Records without a line are skipped.
///
/// Annotations are of one version: those of version 0, which the reference package sees too, or with --version those of another.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The dataset: a folder, or an address such as s3://bucket/data
    dataset: String,
    /// What the annotations are called; a name is given once
    name: String,
    /// The file: .jsonl, .ndjson or .csv
    file: PathBuf,
    /// Names this publication, so that doing it again completes it [default: one that follows from the snapshot and the name]
    #[arg(long, value_name = "ID")]
    publication_id: Option<String>,
    /// Say something of the annotations; may be given several times
    #[arg(long, value_name = "KEY=TEXT")]
    metadata: Vec<String>,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    version: Version,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let dataset = args.version.dataset(&args.dataset)?;
    let at = |e: Error, line: u64| e.within(format!("line {line}")).at(args.file.display());
    let mut lines = Lines::open(&args.file)?;
    // Of each line no more is kept than where it stands.
    let (mut spots, mut ids): (Vec<(u64, Spot)>, Option<Ids>) = (Vec::new(), None);
    while let Some((spot, row)) = lines.next()? {
        if row.id.is_some() && ids.is_none() {
            ids = Some(ordinals(&dataset)?);
        }
        let ordinal = place(&row, ids.as_ref(), &dataset).map_err(|e| at(e, spot.line))?;
        // Before anything is written, unless several records have the id.
        if let Some(id) = &row.id
            && ids.as_ref().and_then(|ids| ids.get(id)) != Some(&None)
            && ids.as_ref().and_then(|ids| ids.get(id)) != Some(&Some(ordinal))
        {
            let found = dataset.record_metadata(ordinal)?.id;
            return Err(at(Error::invalid(format!("record {ordinal} is '{found}', not '{id}'")), spot.line).into());
        }
        spots.push((ordinal, spot));
    }
    drop(ids);
    spots.sort_unstable_by_key(|(ordinal, spot)| (*ordinal, spot.line));
    let twice = spots.windows(2).filter_map(|pair| match pair {
        [(a, before), (b, spot)] if a == b => Some((spot.line, *b, before.line)),
        _ => None,
    });
    if let Some((line, ordinal, before)) = twice.min() {
        let what = format!("it is of record {ordinal}, and so is line {before}");
        return Err(at(Error::invalid(what).remedy("annotate each record once"), line).into());
    }
    let count = spots.len() as u64;
    let mut spots = spots.into_iter().peekable();
    let options = AnnotationOptions {
        publication_id: args.publication_id.clone(),
        metadata: publish::metadata(&args.metadata)?,
        ..AnnotationOptions::default()
    };
    let mut statuses: BTreeMap<&str, u64> = BTreeMap::new();
    let mut ordinal = 0;
    let records = dataset.metadata_batches(0..dataset.len()).flat_map(|batch| match batch {
        Ok(records) => records.into_iter().map(Ok).collect::<Vec<_>>(),
        Err(e) => vec![Err(e)],
    });
    let rows = records.map(|record| {
        let id = record?.id;
        let spot = spots.next_if(|(of, _)| *of == ordinal);
        let row = match spot.map(|(_, spot)| lines.again(spot)).transpose()? {
            None => AnnotationRow::new(id, ordinal, AnnotationStatus::Skipped),
            Some(row) if row.id.as_ref().is_some_and(|given| *given != id) => {
                let what = format!("record {ordinal} is '{id}', not '{}'", row.id.unwrap_or_default());
                return Err(at(Error::invalid(what), row.line));
            }
            Some(row) => AnnotationRow {
                values: row.values,
                provenance: row.provenance,
                detail_status: row.detail_status,
                ..AnnotationRow::new(id, ordinal, row.status)
            },
        };
        *statuses.entry(row.status.as_str()).or_default() += 1;
        ordinal += 1;
        Ok(row)
    });
    let set = publish_annotations(&dataset, &args.name, rows, &options)?;
    if args.json {
        let object = json!({
            "dataset": args.dataset, "version": dataset.version_number(), "name": set.name(), "publication_id": set.publication_id(), "snapshot_id": set.source_snapshot_id(),
            "lines": count, "records": set.len(), "statuses": statuses,
        });
        writeln!(out, "{object}")?;
        return Ok(());
    }
    let told: Vec<_> = statuses.iter().map(|(status, n)| format!("{status} {}", text::count(*n))).collect();
    let (lines, records) = (text::some(count, "line"), text::some(set.len(), "record"));
    text::line(out, format_args!("annotated {} as {}: {lines} for {records} ({})", args.dataset, set.name(), told.join(", ")))?;
    Ok(())
}

/// One line.
struct Row {
    line: u64,
    id: Option<String>,
    index: Option<u64>,
    status: AnnotationStatus,
    detail_status: Option<String>,
    values: Json,
    provenance: Json,
}

/// Which records have an id.
type Ids = BTreeMap<String, Option<u64>>;

/// The ordinals of ids; none where an id is not one record's alone.
fn ordinals(dataset: &Dataset) -> Result<Ids, Error> {
    let mut found = BTreeMap::new();
    let mut next = 0;
    for batch in dataset.metadata_batches(0..dataset.len()) {
        for record in batch? {
            found.entry(record.id).and_modify(|ordinal| *ordinal = None).or_insert(Some(next));
            next += 1;
        }
    }
    Ok(found)
}

/// Which record a line is of.
fn place(row: &Row, ids: Option<&Ids>, dataset: &Dataset) -> Result<u64, Error> {
    match (row.index, &row.id) {
        (Some(index), _) if index < dataset.len() => Ok(index),
        (Some(index), _) => Err(Error::not_found(format!("there is no record {index}: the dataset has {}", dataset.len()))),
        (None, Some(id)) => match ids.and_then(|ids| ids.get(id)) {
            Some(Some(ordinal)) => Ok(*ordinal),
            Some(None) => Err(Error::invalid(format!("several records have the id '{id}'")).remedy("name them by index")),
            None => Err(Error::not_found(format!("there is no record '{id}'")).remedy("see: sigbank ls")),
        },
        (None, None) => Err(Error::invalid("neither 'id' nor 'index' tells which record it is of")),
    }
}

/// What a line says.
fn row(line: u64, mut members: Map<String, Value>, csv: bool) -> Result<Row, Error> {
    let mut text = |key: &str| match members.remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        // Ids and words of a table may look like numbers.
        Some(Value::Number(number)) if csv => Ok(Some(number.to_string())),
        Some(other) => Err(Error::invalid(format!("'{key}' is {other}, where text is expected"))),
    };
    let (id, status, detail_status) = (text("id")?, text("status")?, text("detail_status")?);
    let status = status.as_deref().unwrap_or("success");
    let status = AnnotationStatus::from_word(status)
        .ok_or_else(|| Error::invalid(format!("the status is '{status}', which is none of success, skipped and failed")))?;
    let index = match members.remove("index") {
        None | Some(Value::Null) => None,
        Some(index) => Some(index.as_u64().ok_or_else(|| Error::invalid(format!("'index' is {index}, no record's number")))?),
    };
    // A table holds no objects: these are columns like others.
    let mut inner = |key: &str| match if csv { None } else { members.remove(key) } {
        None | Some(Value::Null) => Ok(None),
        Some(object @ Value::Object(_)) => Ok(Some(Json::from_value(&object)?)),
        Some(other) => Err(Error::invalid(format!("'{key}' is {other}, where an object is expected"))),
    };
    let (provenance, values) = (inner("provenance")?, inner("values")?);
    let values = match values {
        Some(_) if !members.is_empty() => {
            let more: Vec<_> = members.keys().map(String::as_str).collect();
            return Err(Error::invalid(format!("values beside 'values': {}", more.join(", "))).remedy("put all of them into it"));
        }
        Some(values) => values,
        None => Json::from_value(&Value::Object(members))?,
    };
    Ok(Row { line, id, index, status, detail_status, values, provenance: provenance.unwrap_or(Json::EMPTY) })
}
