//! `sigbank info`.

use crate::version::Version;
use crate::{Failure, text};
use serde_json::{Value, json};
use sigbank::Error;
use sigbank::layout::{self, Summary, jbof};
use sigbank_format::model::Field;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// Types stand below one another up to names of so many characters.
const WIDEST: usize = 40;

/// Tell what a dataset holds: counts, sizes and root checksum on one line that can be quoted, then the details
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The dataset: a folder, or an address such as s3://bucket/data
    dataset: String,
    #[command(flatten)]
    version: Version,
    /// Look at what is said of every record of a signal-dataset in a bucket, which takes requests for each shard; else some records tell the fields
    #[arg(long)]
    all: bool,
    /// Also tell the hash of a JBOF data set, for which all files of its items are read
    #[arg(long)]
    hash: bool,
    /// Print everything as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let source = args.version.source(&args.dataset)?;
    let source = source.exact(!args.all)?.unwrap_or(source);
    let mut summary = layout::summary(&*source)?;
    if args.hash && summary.root.is_empty() {
        summary.root = source.root_digest()?;
    }
    let annotations = annotations(args, &summary)?;
    let further = match args.version.all_of(&args.dataset, summary.layout)? {
        Some(dataset) => dataset.versions()?.len().saturating_sub(1) as u64,
        None => 0,
    };
    if args.json {
        let splits: Vec<_> =
            summary.splits.iter().map(|s| json!({"name": s.name, "records": s.records, "units": s.units})).collect();
        let object = json!({
            "path": args.dataset, "layout": summary.layout, "storage": summary.storage, "records": summary.records(), "splits": splits,
            "schema": text::schema(source.schema()), "schema_of": source.schema_of(), "metadata": source.metadata(), "value_bytes": summary.value_bytes,
            "varying": summary.varying, "stored_bytes": summary.stored_bytes, "metadata_bytes": summary.metadata_bytes,
            "missing_units": summary.missing, "ratio": summary.ratio(), "annotations": annotations.iter().map(Value::from).collect::<Vec<_>>(),
            "further_versions": further, "root": summary.root,
        });
        writeln!(out, "{object}")?;
        return Ok(());
    }
    writeln!(out, "{}", line(&args.dataset, &summary))?;
    // Of JBOF the first line says it all.
    for split in summary.splits.iter().filter(|_| summary.layout != jbof::LAYOUT) {
        writeln!(
            out,
            "  {:<8} {:>12} in {}",
            split.name,
            text::some(split.records, "example"),
            text::some(split.units, "shard")
        )?;
    }
    if !summary.storage.is_empty() {
        writeln!(out, "  {}", summary.storage)?;
    }
    // A long name moves its own line alone.
    let width = source.schema().fields.iter().map(|f| f.name.chars().count()).max().unwrap_or(0).min(WIDEST);
    for field in &source.schema().fields {
        let kind = match summary.layout {
            SIGNAL => with_axes(field),
            jbof::LAYOUT => of_items(field),
            _ => field.ty.to_string(),
        };
        text::line(out, format_args!("  {:<width$} {kind}", field.name))?;
    }
    if let Some(n) = source.schema_of() {
        let all = text::some(summary.records(), "record");
        writeln!(
            out,
            "  these fields are those of {} of {all}; to look at all: sigbank info --all {}",
            text::count(n),
            args.dataset
        )?;
    }
    if let Some((requests, how)) = source.opening_cost() {
        writeln!(out, "  opening it took about {}; {how}", text::some(requests, "request"))?;
    }
    if !summary.varying.is_empty() {
        writeln!(out, "  the ratio leaves out what varies in size: {}", summary.varying.join(", "))?;
    }
    if summary.missing > 0 {
        writeln!(
            out,
            "  MISSING: {} listed and not there; see: sigbank check {}",
            text::some(summary.missing, if summary.layout == jbof::LAYOUT { "array file" } else { "shard" }),
            args.dataset
        )?;
    }
    if further > 0 {
        writeln!(out, "  {}; see: sigbank snapshots {}", text::some(further, "further version"), args.dataset)?;
    }
    for set in &annotations {
        let statuses = set.statuses.iter().map(|(status, n)| format!("{status} {}", text::count(*n)));
        let statuses: Vec<_> = statuses.collect();
        text::line(
            out,
            format_args!("  annotations {}: {} (publication {})", set.name, statuses.join(", "), set.publication_id),
        )?;
    }
    for (key, value) in source.metadata() {
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if !shown.is_empty() && shown != "{}" {
            writeln!(out, "  {key}: {shown}")?;
        }
    }
    Ok(())
}

const SIGNAL: &str = "signal-dataset";

/// An annotation set, and how many records have which status.
struct Set {
    name: String,
    publication_id: String,
    statuses: BTreeMap<&'static str, u64>,
}

impl From<&Set> for Value {
    fn from(set: &Set) -> Self {
        json!({"name": set.name, "publication_id": set.publication_id, "statuses": set.statuses})
    }
}

fn annotations(args: &Args, summary: &Summary) -> Result<Vec<Set>, Error> {
    if summary.layout != SIGNAL {
        return Ok(Vec::new());
    }
    let catalog = args.version.dataset(&args.dataset)?.annotations()?;
    let sets = catalog.names().map(|name| {
        let set = catalog.open(name)?;
        let statuses = set.statuses()?.into_iter().map(|(status, n)| (status.as_str(), n)).collect();
        Ok(Set { name: name.into(), publication_id: set.publication_id().into(), statuses })
    });
    sets.collect()
}

/// A signal-dataset's field with the names of its axes; of one that is not the same in all records what all have in common.
fn with_axes(field: &Field) -> String {
    let axes = field.metadata.get("axes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let axes: Vec<_> = axes.iter().filter_map(|axis| axis.get("name")?.as_str()).collect();
    let dtype = field.metadata.get("dtype").and_then(Value::as_str).unwrap_or("various dtypes");
    match (field.metadata.contains_key("ragged"), axes.is_empty()) {
        (true, true) => format!("{dtype}, ragged"),
        (true, false) => format!("{dtype}[{}], ragged", axes.join(", ")),
        (false, true) => field.ty.to_string(),
        (false, false) => format!("{} ({})", field.ty, axes.join(", ")),
    }
}

/// A field of a JBOF data set with its sample rate; of one that is not the same in all items what all have in common.
fn of_items(field: &Field) -> String {
    let said = |key: &str| field.metadata.get(key);
    let dtype = said("dtype").and_then(Value::as_str).unwrap_or("various dtypes");
    let mut kind = if said("ragged").is_some() { format!("{dtype}, ragged") } else { field.ty.to_string() };
    if let Some(rate) = said("samplerate") {
        kind += &format!(", {} Hz", rate.as_f64().unwrap_or_default());
    }
    if let Some(n) = said("records").and_then(Value::as_u64) {
        kind += &format!(", in {}", text::some(n, "item"));
    }
    if let Some(n) = said("unreadable") {
        kind += &format!(", NOT READABLE: {n}");
    }
    kind
}

/// Everything that tells one dataset from another, on one line.
pub(crate) fn line(name: &str, s: &Summary) -> String {
    let splits: Vec<_> = s.splits.iter().map(|x| format!("{} {}", x.name, text::count(x.records))).collect();
    let ratio = s.ratio().map(|r| format!(", ratio {r:.2}")).unwrap_or_default();
    let splits = if splits.is_empty() { String::new() } else { format!(" ({})", splits.join(", ")) };
    let of_items = s.layout == jbof::LAYOUT;
    let splits = if of_items { String::new() } else { splits };
    let records = text::some(s.records(), if of_items { "item" } else { "example" });
    let stored = match s.metadata_bytes {
        // A folder of items without arrays has none.
        None if s.stored_bytes == 0 && s.missing < s.units() && !Path::new(&s.location).is_dir() => {
            "sizes not looked up far away".into()
        }
        None => format!("{} stored", text::bytes(s.stored_bytes)),
        Some(more) => format!("{} of data and {} of metadata stored", text::bytes(s.stored_bytes), text::bytes(more)),
    };
    let root = if s.root.is_empty() { String::new() } else { format!(", root {}", s.root) };
    format!("{name}: {}, {records}{splits}, {stored}{ratio}{root}", s.layout)
}
