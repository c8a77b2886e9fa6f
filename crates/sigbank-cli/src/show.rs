//! `sigbank show`.

mod jbof;
mod look;
mod signal;

use crate::version::Version;
use crate::{Failure, text};
use look::{Look, hex};
use serde_json::{Value, json};
use sigbank::Error;
use sigbank::layout::{self, Layout, Stored, sedpack, signal_dataset};
use sigbank::store::{connect, local_path};
use sigbank_format::model::{Field, FieldType};
use std::io::Write;

/// Show one example: what is said of it, its values summed up, and its signals drawn
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The dataset: a folder, or an address such as s3://bucket/data
    dataset: String,
    #[command(flatten)]
    version: Version,
    /// Which example of the split, counted from 0 [default: 0]; of JBOF an item's name too, of a signal-dataset a record's id, which count before
    /// a number
    #[arg(value_name = "RECORD")]
    record: Option<String>,
    /// The record of this number, whatever names and ids there are: of a signal-dataset, one record is read and not all ids
    #[arg(long, value_name = "N", conflicts_with = "record")]
    index: Option<u64>,
    /// Of which split [default: the first that holds one]
    #[arg(long)]
    split: Option<String>,
    /// Show only these fields
    #[arg(long, value_name = "NAME")]
    field: Vec<String>,
    /// Characters on a line [default: as wide as the terminal, at most 100]
    #[arg(long, value_parser = clap::value_parser!(u16).range(20..))]
    width: Option<u16>,
    /// Print the values' summaries as JSON, without a drawing
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let width = args.width.map_or_else(|| usize::from(console::Term::stdout().size().1).min(100), usize::from);
    if is_signal_dataset(args)? {
        return signal::run(args, &args.version.dataset(&args.dataset)?, width, out);
    }
    if let Some(dataset) = args.version.jbof(&args.dataset)? {
        return jbof::run(args, &dataset, width, out);
    }
    let source = args.version.source(&args.dataset)?;
    let index = match (args.index, &args.record) {
        (Some(index), _) => index,
        (None, None) => 0,
        (None, Some(asked)) => asked.parse().map_err(|_| {
            Error::invalid(format!("'{asked}' is no number, and the examples of a Sedpack dataset have no names"))
                .at(&args.dataset)
                .remedy("give a number from 0 on")
        })?,
    };
    let splits = source.splits();
    let split = match &args.split {
        Some(name) => name.clone(),
        None => splits
            .iter()
            .find(|s| s.records > 0)
            .map(|s| s.name.clone())
            .ok_or_else(|| Error::not_found("the dataset holds no example").at(&args.dataset))?,
    };
    let Some(of) = splits.iter().find(|s| s.name == split).map(|s| s.records) else {
        let names: Vec<_> = splits.iter().map(|s| s.name.as_str()).collect();
        let names = if names.is_empty() { "it has none yet".into() } else { format!("there are {}", names.join(", ")) };
        return Err(Error::not_found(format!("there is no split '{split}'")).at(&args.dataset).remedy(names).into());
    };
    if index >= of {
        return Err(past_the_end(index, of, &format!("{} {split}", args.dataset)).into());
    }
    let known = &source.schema().fields;
    let fields: Vec<usize> = if args.field.is_empty() {
        (0..known.len()).collect()
    } else {
        let place = |name: &String| {
            let all: Vec<_> = known.iter().map(|f| f.name.as_str()).collect();
            source.schema().position(name).ok_or_else(|| {
                Error::not_found(format!("no field '{name}'")).at(&args.dataset).remedy(format!("there are {}", all.join(", ")))
            })
        };
        args.field.iter().map(place).collect::<Result<_, _>>()?
    };
    let record = layout::read_stored(&*source, &split, &[index], &fields)?.into_iter().next().unwrap_or_default();
    let shown = fields.iter().filter_map(|&f| known.get(f)).zip(&record);
    if args.json {
        let one = |(field, value): (&Field, &Stored)| {
            let mut told = match value.ty.as_ref().unwrap_or(&field.ty) {
                FieldType::Array { dtype, shape } => Look::whole(dtype, shape, &value.bytes, width).summary(),
                ty => summary(ty, &value.bytes),
            };
            if let (Some(ty), Some(told)) = (&value.ty, told.as_object_mut()) {
                told.insert("stored_as".into(), json!(ty.to_string()));
            }
            (field.name.clone(), told)
        };
        let values: serde_json::Map<String, Value> = shown.map(one).collect();
        writeln!(out, "{}", json!({"split": split, "index": index, "values": values}))?;
        return Ok(());
    }
    writeln!(out, "{} {split} {} of {}", args.dataset, index, text::count(of))?;
    for (field, Stored { ty, bytes }) in shown {
        let stored_as = ty.as_ref().map(|ty| format!(", stored as {}", ty)).unwrap_or_default();
        let ty = ty.as_ref().unwrap_or(&field.ty);
        let look = match ty {
            FieldType::Array { dtype, shape } => Some(Look::whole(dtype, shape, bytes, width)),
            _ => None,
        };
        let told = look.as_ref().map_or_else(|| summary(ty, bytes), Look::summary);
        writeln!(out, "{} {}{stored_as}: {}", field.name, field.ty, describe(&told))?;
        if let Some(look) = look {
            look.draw(|axis| format!("axis {axis}"), out)?;
        }
    }
    Ok(())
}

/// Whether a signal-dataset is there, whose records have ids, axes and annotations; at a version nothing else can be.
fn is_signal_dataset(args: &Args) -> Result<bool, Error> {
    const FILES: [&str; 4] = [".zip", ".h5", ".hdf5", ".hdf"];
    let address = args.dataset.to_ascii_lowercase();
    match local_path(&args.dataset) {
        Some(root) => Ok(root.join(signal_dataset::ROOT).is_file() && !root.join(sedpack::ROOT).is_file()),
        None if FILES.iter().any(|ending| address.ends_with(ending)) => Ok(false),
        None => {
            let store = connect(&args.dataset, &args.version.storage())?;
            Ok(layout::detect(&*store)? == Some(Layout::SignalDataset))
        }
    }
}

/// What was asked for and what was found, where a number was given that is a name too.
fn instead(asked: Option<&str>, name: &str, index: u64) -> Option<String> {
    let number = asked?.parse::<u64>().ok().filter(|number| asked == Some(name) && *number != index)?;
    Some(format!("'{name}' is a name here, of number {index}; number {number} is shown by --index {number}"))
}

/// The error of an index behind the last record.
fn past_the_end(index: u64, of: u64, place: &str) -> Error {
    let last = of.checked_sub(1).map_or_else(|| "there is none".into(), |last| format!("give one of 0 to {last}"));
    Error::not_found(format!("there is no record {index}: it holds {} records", text::count(of))).at(place).remedy(last)
}

/// What is worth knowing of a value that is no array: itself where it is small.
fn summary(ty: &FieldType, bytes: &[u8]) -> Value {
    match ty {
        FieldType::Str => json!({"value": String::from_utf8_lossy(bytes)}),
        FieldType::Int => json!({"value": <[u8; 8]>::try_from(bytes).map_or(0, i64::from_le_bytes)}),
        _ => json!({"bytes": bytes.len(), "first": hex(bytes, bytes.len())}),
    }
}

/// A summary as words.
fn describe(summary: &Value) -> String {
    let number = |key: &str| summary.get(key).and_then(Value::as_f64).map_or("none".into(), short);
    if let Some(value) = summary.get("value") {
        return value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    }
    let Some(count) = summary.get("count") else {
        let first = summary.get("first").and_then(Value::as_str).unwrap_or_default();
        return summary.get("bytes").map_or_else(|| first.to_owned(), |n| format!("{n} bytes, {first}"));
    };
    // Integers have all their digits.
    let one = |v: &Value| match v.is_i64() || v.is_u64() {
        true => v.to_string(),
        false => v.as_f64().map_or("not finite".into(), short),
    };
    let first = summary.get("first").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if count.as_u64() == Some(first.len() as u64) {
        let all: Vec<_> = first.iter().map(one).collect();
        return format!("[{}]", all.join(", "));
    }
    let mut words = format!("min {}, max {}, mean {}, std {}", number("min"), number("max"), number("mean"), number("std"));
    if summary.get("of").and_then(Value::as_str) == Some("magnitudes") {
        words = format!("magnitudes: {words}");
    }
    match summary.get("not_finite").and_then(Value::as_u64) {
        Some(0) | None => {}
        Some(n) => words += &format!("; {n} of {count} are NaN or infinite"),
    }
    words
}

/// Four significant digits.
fn short(v: f64) -> String {
    let size = v.abs();
    if v == v.trunc() && size < 1e10 {
        format!("{}", v as i64)
    } else if (1e-3..1e6).contains(&size) {
        let digits = (3 - size.log10().floor() as i32).max(0) as usize;
        format!("{v:.digits$}")
    } else {
        format!("{v:.3e}")
    }
}

/// Names that are told where one is not known.
const NAMED: usize = 5;

/// The names that are nearest to one that is not known, as a remedy.
fn nearest(names: &[String], asked: &str) -> String {
    let mut near: Vec<(usize, &str)> = names.iter().map(|name| (distance(name, asked), name.as_str())).collect();
    near.sort_unstable();
    let near: Vec<_> = near.iter().take(NAMED).map(|(_, name)| *name).collect();
    if near.is_empty() { "it has none".into() } else { format!("near it are {}", near.join(", ")) }
}

/// How far two names are apart: what is left of them without their common beginning and end.
fn distance(a: &str, b: &str) -> usize {
    let (len_a, len_b) = (a.chars().count(), b.chars().count());
    let begin = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let end = a.chars().rev().zip(b.chars().rev()).take_while(|(a, b)| a == b).count();
    len_a.max(len_b) - begin - end.min(len_a.min(len_b) - begin)
}

#[cfg(test)]
mod tests {
    use super::{distance, nearest};

    #[test]
    fn near_names_are_near() {
        let pairs = [("take 12", "take 13"), ("a", "a"), ("ann-1", "an-1"), ("x", "yy"), ("aa", "aaa")];
        assert_eq!(pairs.map(|(a, b)| distance(a, b)), [1, 0, 1, 2, 1]);
        assert_eq!(nearest(&["b-1".into(), "a-1".into()], "a-2"), "near it are a-1, b-1");
        assert_eq!(nearest(&[], "a"), "it has none");
    }
}
