//! `sigbank show`.

mod jbof;
mod signal;

use crate::version::Version;
use crate::{Failure, text, wave};
use serde_json::{Value, json};
use sigbank::Error;
use sigbank::convert::magnitudes;
use sigbank::layout::{self, Stored, sedpack, signal_dataset};
use sigbank_format::model::{DType, Field, FieldType, Kind};
use std::io::Write;
use std::path::Path;

/// Most channels of one signal that are drawn.
const CHANNELS: usize = 4;

/// Show one example: what is said of it, its values summed up, and its signals drawn
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The dataset: a folder, or an address such as s3://bucket/data
    dataset: String,
    #[command(flatten)]
    version: Version,
    /// Which example of the split, counted from 0; of JBOF an item's name too, of a signal-dataset a record's id
    #[arg(value_name = "RECORD", default_value = "0")]
    record: String,
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
    let root = Path::new(&args.dataset);
    if root.join(signal_dataset::ROOT).is_file() && !root.join(sedpack::ROOT).is_file() {
        return signal::run(args, &args.version.dataset(&args.dataset)?, width, out);
    }
    if let Some(dataset) = args.version.jbof(&args.dataset)? {
        return jbof::run(args, &dataset, width, out);
    }
    let source = args.version.source(&args.dataset)?;
    let index: u64 = args.record.parse().map_err(|_| {
        Error::invalid(format!("'{}' is no number, and the examples of a Sedpack dataset have no names", args.record))
            .at(&args.dataset)
            .remedy("give a number from 0 on")
    })?;
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
            let mut told = summary(value.ty.as_ref().unwrap_or(&field.ty), &value.bytes);
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
        writeln!(out, "{} {}{stored_as}: {}", field.name, field.ty, describe(&summary(ty, bytes)))?;
        if let FieldType::Array { dtype, shape } = ty {
            draw(dtype, shape, bytes, width, out)?;
        }
    }
    Ok(())
}

/// The error of an index behind the last record.
fn past_the_end(index: u64, of: u64, place: &str) -> Error {
    let last = of.checked_sub(1).map_or_else(|| "there is none".into(), |last| format!("give one of 0 to {last}"));
    Error::not_found(format!("there is no record {index}: it holds {} records", text::count(of))).at(place).remedy(last)
}

/// What is worth knowing of a value: itself where it is small, its range and moments where it is many numbers.
fn summary(ty: &FieldType, bytes: &[u8]) -> Value {
    match ty {
        FieldType::Str => json!({"value": String::from_utf8_lossy(bytes)}),
        FieldType::Int => json!({"value": <[u8; 8]>::try_from(bytes).map_or(0, i64::from_le_bytes)}),
        FieldType::Bytes { .. } => json!({"bytes": bytes.len(), "first": hex(bytes)}),
        FieldType::Array { dtype, .. } => array_summary(dtype, bytes),
    }
}

fn array_summary(dtype: &DType, bytes: &[u8]) -> Value {
    if dtype.kind() == Kind::Unicode {
        let characters = bytes
            .get(..dtype.itemsize())
            .unwrap_or_default()
            .chunks_exact(4)
            .map(|c| <[u8; 4]>::try_from(c).map_or(0, u32::from_le_bytes));
        return json!({"first": characters.take_while(|&c| c != 0).filter_map(char::from_u32).collect::<String>()});
    }
    if dtype.kind() == Kind::Bytes {
        let first = bytes.get(..dtype.itemsize()).unwrap_or_default();
        return json!({"first": String::from_utf8_lossy(first).trim_end_matches('\0')});
    }
    let Some(values) = magnitudes(dtype, bytes) else { return json!({"first": hex(bytes)}) };
    if let [one] = values.as_slice() {
        return json!({"value": exact(dtype, bytes, *one)});
    }
    let finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    let n = finite.len().max(1) as f64;
    let mean = finite.iter().sum::<f64>() / n;
    let std = (finite.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
    let (min, max) = (finite.iter().copied().reduce(f64::min), finite.iter().copied().reduce(f64::max));
    let first: Vec<f64> = values.iter().copied().take(8).collect();
    let of = if dtype.kind() == Kind::Complex { "magnitudes" } else { "values" };
    json!({"of": of, "count": values.len(), "min": min, "max": max, "mean": mean, "std": std, "not_finite": values.len() - finite.len(), "first": first})
}

/// A single number, integers exactly.
fn exact(dtype: &DType, bytes: &[u8], value: f64) -> Value {
    match (dtype.kind(), <[u8; 8]>::try_from(bytes)) {
        (Kind::Int, Ok(b)) => json!(i64::from_le_bytes(b)),
        (Kind::UInt, Ok(b)) => json!(u64::from_le_bytes(b)),
        (Kind::Int | Kind::UInt, _) => json!(value as i64),
        (Kind::Bool, _) => json!(value != 0.0),
        _ if value.is_finite() => json!(value),
        _ => json!(value.to_string()),
    }
}

fn hex(bytes: &[u8]) -> String {
    let shown: String = bytes.iter().take(16).map(|b| format!("{b:02x}")).collect();
    if bytes.len() > 16 { shown + "…" } else { shown }
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
    let first = summary.get("first").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if count.as_u64() == Some(first.len() as u64) {
        let all: Vec<_> = first.iter().map(|v| v.as_f64().map_or("not finite".into(), short)).collect();
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

/// Draws one axis as a waveform, a second short one as channels, two long ones as an image.
fn draw(dtype: &DType, shape: &[usize], bytes: &[u8], width: usize, out: &mut dyn Write) -> Result<(), Failure> {
    let Some(values) = magnitudes(dtype, bytes) else { return Ok(()) };
    let (rows, columns) = match shape {
        [n] => (*n, 1),
        [n, c] => (*n, *c),
        _ => return Ok(()),
    };
    if rows < 8 {
        return Ok(());
    }
    // As wide as it is high, or nearly so: no signal of a few channels.
    if columns > 8 || rows < 4 * columns {
        for line in wave::shades(&values, rows, columns, width, 24) {
            writeln!(out, "{line}")?;
        }
        return Ok(());
    }
    let height = if columns == 1 { 8 } else { 4 };
    for channel in 0..columns.min(CHANNELS) {
        let of_channel: Vec<f64> = values.iter().copied().skip(channel).step_by(columns).collect();
        let Some((lines, high, low)) = wave::braille(&of_channel, width - 11, height) else { continue };
        let last = lines.len().saturating_sub(1);
        for (i, line) in lines.iter().enumerate() {
            let edge = match i {
                0 => short(high),
                i if i == last => short(low),
                _ => String::new(),
            };
            writeln!(out, "{edge:>10} {}", line.trim_end_matches('\u{2800}'))?;
        }
    }
    if columns > CHANNELS {
        writeln!(out, "{:>10} and {} more channels", "", columns - CHANNELS)?;
    }
    Ok(())
}

/// Draws a signal: of more than two axes the first part along the first ones, few long rows as channels.
fn picture(
    dtype: &DType,
    whole: &[usize],
    bytes: &[u8],
    axis: impl Fn(usize) -> String,
    width: usize,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let (mut shape, mut bytes, mut left) = (whole, bytes, Vec::new());
    while let [outer, rest @ ..] = shape
        && rest.len() >= 2
    {
        if *outer > 1 {
            left.push(format!("{} 0", axis(whole.len() - shape.len())));
        }
        bytes = bytes.get(..bytes.len().checked_div(*outer).unwrap_or(0)).unwrap_or_default();
        shape = rest;
    }
    if !left.is_empty() {
        text::line(out, format_args!("  drawn: {}", left.join(", ")))?;
    }
    match *shape {
        [rows, columns] if rows <= 8 && columns >= 4 * rows => {
            // The other way round, as what draws takes channels.
            let size = dtype.itemsize();
            let mut turned = Vec::with_capacity(bytes.len());
            for column in 0..columns {
                for row in 0..rows {
                    let at = (row * columns + column) * size;
                    turned.extend_from_slice(bytes.get(at..at + size).unwrap_or_default());
                }
            }
            draw(dtype, &[columns, rows], &turned, width, out)
        }
        _ => draw(dtype, shape, bytes, width, out),
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
