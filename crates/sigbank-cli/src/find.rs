//! `sigbank find`.

use crate::version::Version;
use crate::{Failure, text};
use serde_json::{Map, Value, json};
use sigbank::Error;
use sigbank::layout::{jbof, signal_dataset};
use sigbank::query::jbof::{Catalog, Keep, Odd};
use sigbank::query::{Expr, Field, Named, Record, Records, Searched, Unknown, index_folder, near};
use sigbank_format::model::json::Json;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

/// Most keys that are remembered.
const MOST_KEYS: usize = 4096;

/// Find records by what is said of them: their ids, one a line; no samples are read
///
/// An expression compares metadata: snr > 10 and speaker in ['a', 'b']. Keys are a, a.b, metadata['odd key'], a[0]; there are == != < <= > >= in
/// contains startswith endswith like matches, and or not, exists(key), id and split; has(field), field@dtype, field@shape[0], field@ndim,
/// field@length, field@axes and field@sample_rate ask for fields. What is missing makes a comparison false. Of a Sedpack dataset shards are found, by
/// their custom_metadata, split and path (id): the values of examples are samples.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The dataset: a folder, or an address such as s3://bucket/data
    dataset: String,
    /// What is asked; without it, all records are found
    #[arg(value_name = "EXPRESSION", default_value = "")]
    expression: String,
    /// Print how many there are (of Sedpack examples), and nothing else
    #[arg(long, conflicts_with = "limit")]
    count: bool,
    /// Find no more than N
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Write the index of metadata and fields first, and say where it is (of a JBOF data set beside it, of a signal-dataset in a folder of yours:
    /// SIGBANK_INDEX_DIR); with an expression, search then
    #[arg(long)]
    index: bool,
    #[command(flatten)]
    version: Version,
    /// Print each record as a line of JSON, with its metadata, and its fields where the expression asks for some
    #[arg(long)]
    pub(crate) json: bool,
}

/// Prints what is found.
struct Printer<'a> {
    args: &'a Args,
    found: u64,
    out: &'a mut dyn Write,
}

impl Printer<'_> {
    /// Whether more are wanted.
    fn wants_more(&self) -> bool {
        self.args.limit.is_none_or(|limit| self.found < limit)
    }
    /// `examples`: of a shard the first, and how many.
    fn tell(
        &mut self,
        record: &Record<'_>,
        examples: Option<(u64, u64)>,
        metadata: impl FnOnce() -> Result<Value, Error>,
    ) -> Result<(), Failure> {
        self.found += if self.args.count { examples.map_or(1, |(_, count)| count) } else { 1 };
        if self.args.count {
            return Ok(());
        }
        if !self.args.json {
            return Ok(text::line(self.out, format_args!("{}", record.id))?);
        }
        let mut told = Map::new();
        told.insert("id".into(), record.id.into());
        if !record.split.is_empty() {
            told.insert("split".into(), record.split.into());
        }
        if let Some((first, count)) = examples {
            told.insert("first".into(), first.into());
            told.insert("examples".into(), count.into());
        }
        told.insert("metadata".into(), metadata()?);
        if !record.fields.is_empty() {
            let fields = record.fields.iter().map(|field| {
                let mut told = Map::new();
                let rate = field.sample_rate.map(Value::from);
                let known = [
                    ("dtype", field.dtype.as_deref().map(Value::from)),
                    ("shape", field.shape.as_deref().map(Value::from)),
                    ("axes", field.axes.as_deref().map(Value::from)),
                ];
                let known = known.into_iter().chain([("sample_rate", rate)]);
                told.extend(known.filter_map(|(key, value)| Some((key.to_owned(), value?))));
                (field.name.clone(), Value::Object(told))
            });
            told.insert("fields".into(), Value::Object(fields.collect()));
        }
        Ok(writeln!(self.out, "{}", Value::Object(told))?)
    }
    fn end(self) -> Result<(), Failure> {
        match (self.args.count, self.args.json) {
            (true, true) => writeln!(self.out, "{}", json!({"count": self.found}))?,
            (true, false) => writeln!(self.out, "{}", self.found)?,
            _ => {}
        }
        Ok(())
    }
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let expr = match args.expression.trim() {
        "" => None,
        _ => match args.expression.parse::<Expr>() {
            Ok(expr) => Some(expr),
            // Its message has lines, in which the place is drawn.
            Err(e) if !args.json => {
                let lines: Vec<_> = e.message().lines().map(text::shown).collect();
                crate::eprintln_quietly(&format!("error: {}", lines.join("\n")));
                return Err(Failure::Todo);
            }
            Err(e) => return Err(e.into()),
        },
    };
    let expr_or_all = expr.clone().unwrap_or_else(|| Expr::any_of(&[]));
    let searched = args.version.searched(&args.dataset)?;
    match &searched {
        Searched::Jbof(dataset) => in_jbof(args, dataset, expr.as_ref(), &expr_or_all, out),
        Searched::Signal(dataset) if args.index => {
            let (records, path) = Records::write_index(dataset, index_folder().as_deref())?;
            match expr {
                None => told_index(args, &path, records.table().len(), "record", out),
                Some(expr) => in_records(args, &searched, &records.annotated(dataset, &expr)?, &expr, out),
            }
        }
        // The first few are there before all are read.
        Searched::Signal(dataset) if args.limit.is_some() && !expr_or_all.keys().contains(&"annotations") => {
            in_signal(args, dataset, &expr_or_all, out)
        }
        Searched::Signal(dataset) => {
            let records =
                Records::of_signal(dataset, Keep::chosen()?, index_folder().as_deref())?.annotated(dataset, &expr_or_all)?;
            in_records(args, &searched, &records, &expr_or_all, out)
        }
        Searched::Sedpack(_) if args.index => Err(Error::unsupported("the lists of shards are the index of a Sedpack dataset")
            .at(&args.dataset)
            .remedy("leave --index out")
            .into()),
        Searched::Sedpack(source) => in_records(args, &searched, &Records::of_units(&**source)?, &expr_or_all, out),
    }
}

fn told_index(args: &Args, path: &Path, count: usize, what: &str, out: &mut dyn Write) -> Result<(), Failure> {
    match args.json {
        true => writeln!(out, "{}", json!({"index": path, format!("{what}s"): count}))?,
        false => text::line(out, format_args!("{}: {}", path.display(), text::some(count as u64, what)))?,
    }
    Ok(())
}

/// Prints what is found of records of a signal-dataset or shards of a Sedpack dataset.
fn in_records(args: &Args, of: &Searched, records: &Records, expr: &Expr, out: &mut dyn Write) -> Result<(), Failure> {
    let table = records.table();
    for unknown in sigbank::query::unknown(table, expr, of)? {
        warn(args, &unknown.to_string());
    }
    let mut printer = Printer { args, found: 0, out };
    for matched in records.find(expr)? {
        if !printer.wants_more() {
            break;
        }
        let fields = if expr.needs_fields() { table.fields(matched.row)? } else { Vec::new() };
        let record = Record::new(table.id(matched.row), &Json::EMPTY).with_fields(&fields).in_split(table.split(matched.row)?);
        let examples = records.is_of_units().then_some((matched.first, matched.records));
        printer.tell(&record, examples, || {
            Ok(Json::parse(table.metadata(matched.row)?.as_bytes(), &Default::default())?.to_value()?)
        })?;
    }
    printer.end()?;
    records.unsearched().map_or(Ok(()), |message| Err(Error::corrupt(message).at(&args.dataset).into()))
}

fn in_jbof(
    args: &Args,
    dataset: &jbof::Dataset,
    expr: Option<&Expr>,
    everything: &Expr,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut catalog = Catalog::new(Keep::chosen()?);
    if args.index {
        let path = catalog.write_index(dataset, true, 0)?;
        if expr.is_none() {
            return told_index(args, &path, catalog.table().len(), "item", out);
        }
    }
    let expr = expr.unwrap_or(everything);
    catalog.refresh(dataset, expr, 0)?;
    let unknown = catalog.unknown(expr)?.into_iter().map(|unknown| unknown.to_string());
    for warning in catalog.take_warning().into_iter().chain(unknown) {
        warn(args, &warning);
    }
    let mut printer = Printer { args, found: 0, out };
    for hit in catalog.find(expr, Odd::Expr, None)? {
        if !printer.wants_more() {
            break;
        }
        let table = catalog.table();
        let fields = if expr.needs_fields() { table.fields(hit.row)? } else { Vec::new() };
        let record = Record::new(table.id(hit.row), &Json::EMPTY).with_fields(&fields);
        printer.tell(&record, None, || Ok(Json::parse(table.metadata(hit.row)?.as_bytes(), &Default::default())?.to_value()?))?;
    }
    printer.end()?;
    catalog.unsearched().map_or(Ok(()), |message| Err(Error::corrupt(message).at(&args.dataset).into()))
}

/// Prints the first few records that are found, and reads no further.
fn in_signal(args: &Args, dataset: &signal_dataset::Dataset, expr: &Expr, out: &mut dyn Write) -> Result<(), Failure> {
    let mut printer = Printer { args, found: 0, out };
    // What no record has had so far, and what the records have, to tell of a name that was mistyped.
    let (mut keys, mut names): (BTreeSet<_>, BTreeSet<_>) =
        (expr.keys().into_iter().collect(), expr.fields().into_iter().collect());
    let (mut known_keys, mut known_names) = (BTreeSet::new(), BTreeSet::new());
    let (mut all, asked) = (true, expr.in_split("all"));
    'all: for batch in dataset.metadata_batches(0..dataset.len()) {
        for record in batch? {
            if !printer.wants_more() {
                all = false;
                break 'all;
            }
            let fields: Vec<Field> =
                if expr.needs_fields() { record.fields.iter().map(Field::from).collect() } else { Vec::new() };
            if !keys.is_empty() && known_keys.len() < MOST_KEYS {
                record
                    .metadata
                    .walk()
                    .object(|parser, key| {
                        keys.remove(&*key);
                        known_keys.insert(key.into_owned());
                        parser.skip()
                    })
                    .map_err(Error::from)?;
            }
            for field in &fields {
                names.remove(field.name.as_str());
                if known_names.len() < MOST_KEYS {
                    known_names.insert(field.name.clone());
                }
            }
            let told = Record::new(&record.id, &record.metadata).with_fields(&fields);
            if asked.matches(&told)? {
                printer.tell(&told, None, || Ok(record.metadata.to_value()?))?;
            }
        }
    }
    printer.end()?;
    if all && !dataset.is_empty() && known_keys.len() < MOST_KEYS {
        let keys = keys.iter().map(|key| (key, Named::Key, &known_keys));
        for (name, named, known) in keys.chain(names.iter().map(|name| (name, Named::Field, &known_names))) {
            let near = near(name, known.iter().map(String::as_str)).map(str::to_owned);
            warn(args, &Unknown::new(name, named, near).to_string());
        }
    }
    for name in expr.own().into_iter().filter(|name| known_keys.contains(*name)) {
        warn(args, &Unknown::new(name, Named::Own, None).to_string());
    }
    Ok(())
}

fn warn(args: &Args, message: &str) {
    crate::eprintln_quietly(&text::shown(&format!("warning: {}: {message}", args.dataset)));
}
