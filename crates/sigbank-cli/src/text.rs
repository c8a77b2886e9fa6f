//! Numbers and lists as people read them.

use serde_json::{Value, json};
use sigbank::convert::Skipped;
use sigbank_format::model::{FieldType, Schema};
use std::fmt;
use std::io::{self, Write};

/// Text with what would end its line, or drive a terminal, written as an escape: names of files may hold anything.
pub(crate) fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            _ if c.is_control() => out.extend(c.escape_default()),
            '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.extend(c.escape_unicode()),
            _ => out.push(c),
        }
    }
    out
}

/// One line of output, whatever the names in it.
pub(crate) fn line(out: &mut dyn io::Write, text: fmt::Arguments<'_>) -> io::Result<()> {
    let mut whole = String::new();
    let _ = fmt::Write::write_fmt(&mut whole, text);
    writeln!(out, "{}", shown(&whole))
}

/// 1234567 as `1,234,567`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, d) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(d);
    }
    out
}

/// A count and its noun, with an s where it is not one.
pub(crate) fn some(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(n), if n == 1 { "" } else { "s" })
}

/// Bytes with a decimal unit, three digits.
pub(crate) fn bytes(n: u64) -> String {
    let (mut value, mut unit) = (n as f64, "B");
    for next in ["kB", "MB", "GB", "TB", "PB"] {
        if value < 999.5 {
            break;
        }
        (value, unit) = (value / 1000.0, next);
    }
    match value {
        _ if unit == "B" => format!("{n} B"),
        v if v < 9.995 => format!("{v:.2} {unit}"),
        v if v < 99.95 => format!("{v:.1} {unit}"),
        v => format!("{v:.0} {unit}"),
    }
}

/// The first few names of a list, and how many more there are.
pub(crate) fn names<'a>(all: impl ExactSizeIterator<Item = &'a str>, most: usize) -> String {
    let more = all.len().saturating_sub(most);
    let mut out = all.take(most).collect::<Vec<_>>().join(", ");
    if more > 0 {
        out += &format!(" and {} more", count(more as u64));
    }
    out
}

/// A schema for `--json`.
pub(crate) fn schema(schema: &Schema) -> Value {
    let field = |f: &sigbank_format::model::Field| {
        let (dtype, shape) = match &f.ty {
            FieldType::Array { dtype, shape } => (dtype.name(), shape.clone()),
            FieldType::Int => ("int".into(), vec![]),
            FieldType::Str => ("str".into(), vec![]),
            FieldType::Bytes { len } => ("bytes".into(), len.iter().copied().collect()),
        };
        json!({"name": f.name, "dtype": dtype, "shape": shape, "metadata": f.metadata})
    };
    schema.fields.iter().map(field).collect()
}

/// What a report of recordings says of what is not in the new dataset, or not as it came.
pub(crate) struct LeftOut<'a> {
    /// Ends that fill no window, and the samples in them.
    pub(crate) tails: (u64, u64),
    pub(crate) padded: u64,
    /// How many have no sample rate, and what one of them is called.
    pub(crate) no_rate: (u64, &'a str),
    pub(crate) too_short: &'a [Skipped],
    pub(crate) bad: &'a [Skipped],
    pub(crate) others: &'a [String],
    pub(crate) litter: u64,
}

impl LeftOut<'_> {
    /// A line for each kind that there is.
    pub(crate) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.tails.0 > 0 {
            let (ends, samples) = (some(self.tails.0, "end"), some(self.tails.1, "sample"));
            writeln!(out, "left out: {ends} of recordings that fill no window, {samples} (--pad keeps them)")?;
        }
        if self.padded > 0 {
            writeln!(out, "padded with zeros: {}", some(self.padded, "window"))?;
        }
        if self.no_rate.0 > 0 {
            writeln!(out, "sample rate not known: {} (--sample-rate tells it)", some(self.no_rate.0, self.no_rate.1))?;
        }
        for (what, list) in [("too short", self.too_short), ("not readable", self.bad)] {
            if !list.is_empty() {
                writeln!(out, "left out: {} {what}:", some(list.len() as u64, "recording"))?;
                for s in list {
                    line(out, format_args!("  {}: {}", s.source, s.reason))?;
                }
            }
        }
        if !self.others.is_empty() {
            let listed = names(self.others.iter().map(String::as_str), 20);
            line(out, format_args!("skipped: {} of other kinds: {listed}", some(self.others.len() as u64, "file")))?;
        }
        if self.litter > 0 {
            writeln!(out, "skipped: {} left by operating systems and editors", some(self.litter, "file"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one_whatever_the_names() {
        assert_eq!(shown("a\nb\u{1b}[2J\té \u{9b}\u{202e}"), "a\\nb\\u{1b}[2J\\té \\u{9b}\\u{202e}");
        let mut out = Vec::new();
        line(&mut out, format_args!("{} x", "a\rb")).unwrap();
        assert_eq!(out, b"a\\rb x\n");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            (count(0), count(999), count(1000), count(1234567)),
            ("0".into(), "999".into(), "1,000".into(), "1,234,567".into())
        );
        assert_eq!(
            (bytes(0), bytes(999), bytes(1000), bytes(12_345_678)),
            ("0 B".into(), "999 B".into(), "1.00 kB".into(), "12.3 MB".into())
        );
        assert_eq!((bytes(999_600), bytes(u64::MAX)), ("1.00 MB".into(), "18447 PB".into()));
        assert_eq!((some(1, "file"), some(2, "file")), ("1 file".into(), "2 files".into()));
        assert_eq!(names(["a", "b", "c"].into_iter(), 2), "a, b and 1 more");
    }
}
