//! CSV: what separates its fields, and what its columns are.

use super::table::PATHS;
use crate::error::{Error, Result};
use serde_json::{Map, Value};

const SEPARATORS: [u8; 3] = [b',', b';', b'\t'];

/// How a CSV file is read.
///
/// ```
/// use sigbank::convert::import::{Csv, Table};
/// let dir = tempfile::tempdir()?;
/// let path = dir.path().join("takes.csv");
/// std::fs::write(&path, "path|snr\na.wav|3\nb.wav|NA\n")?;
/// let how = Csv { delimiter: Some(b'|'), na: vec!["NA".into()] };
/// let table = Table::read_with(&path, None, &how)?;
/// assert_eq!(table.row("a.wav", &Default::default()).unwrap()["snr"], 3);
/// assert!(table.row("b.wav", &Default::default()).unwrap().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Csv {
    /// The character between fields. None: `,`, `;` or a tab, whichever makes a column of paths (or the key that is joined by) in the first
    /// line, and of several the one that the line has most of.
    pub delimiter: Option<u8>,
    /// Words that stand for no value, such as `NA`.
    pub na: Vec<String>,
}

/// The rows, and what is to be warned of.
type Read = (Vec<Map<String, Value>>, Vec<String>);

pub(super) fn rows(text: &[u8], key: Option<&str>, how: &Csv) -> Result<Read> {
    let separator = how.delimiter.unwrap_or_else(|| separator(text, key));
    quotes(text, separator)?;
    let mut reader = csv::ReaderBuilder::new().delimiter(separator).from_reader(text);
    let told = match separator {
        b'\t' => "a tab".to_owned(),
        other => format!("'{}'", char::from(other)),
    };
    let wrong = |e: csv::Error| {
        Error::corrupt(format!("this is no CSV table with {told} between its fields: {e}"))
            .remedy("quote fields that hold it, or say what is between them: --delimiter")
    };
    let names: Vec<String> = reader.headers().map_err(wrong)?.iter().map(|name| name.trim().to_owned()).collect();
    if let Some(twice) = names.iter().enumerate().find(|(n, name)| names.iter().take(*n).any(|before| before == *name)) {
        return Err(Error::corrupt(format!("two columns are named '{}'", twice.1)).remedy("name them otherwise"));
    }
    let records = reader.records().collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    let (mut rows, mut warnings) = (vec![Map::new(); records.len()], Vec::new());
    for (at, name) in names.iter().enumerate() {
        let cell = |record: &'_ csv::StringRecord| -> String { record.get(at).unwrap_or_default().to_owned() };
        let cells: Vec<String> = records.iter().map(cell).collect();
        let is_value = |cell: &str| !cell.is_empty() && !how.na.iter().any(|word| word == cell.trim());
        let values: Vec<&str> = cells.iter().map(String::as_str).filter(|cell| is_value(cell)).collect();
        let kind = Column::of(&values);
        let line = |value: &str| {
            let record = cells.iter().position(|cell| cell == value).and_then(|row| records.get(row));
            record.and_then(csv::StringRecord::position).map_or(0, csv::Position::line)
        };
        if matches!(kind, Column::Text) && Some(name.as_str()) != key {
            warnings.extend(
                doubt(&values)
                    .map(|(value, why)| format!("the column '{name}' is text: '{value}' in line {} {why}", line(value))),
            );
        }
        for (row, cell) in rows.iter_mut().zip(&cells).filter(|(_, cell)| is_value(cell)) {
            row.insert(name.clone(), kind.value(cell));
        }
    }
    Ok((rows, warnings))
}

/// Refuses a quote that nobody closed: it takes what follows, up to the next quote or the end, for one value.
fn quotes(text: &[u8], separator: u8) -> Result<()> {
    let wrong = |line: usize, what: &str| {
        Error::corrupt(format!("the quote that a field in line {line} begins with {what}"))
            .remedy("close it; a quote that belongs to the value is written twice, in a field in quotes")
    };
    // The line where the field began that is in quotes, and whether its quote may have ended.
    let (mut open, mut closed, mut line, mut begins) = (None, false, 1, true);
    for &byte in text {
        match open {
            None if byte == b'"' && begins => (open, closed) = (Some(line), false),
            None => {}
            // Of two quotes the second one.
            Some(_) if byte == b'"' => closed = !closed,
            Some(began) if closed => {
                let ends = byte == separator || matches!(byte, b'\n' | b'\r');
                if !ends && began != line {
                    return Err(wrong(
                        began,
                        &format!("ends in the middle of line {line}, before '{}'", char::from(byte).escape_default()),
                    ));
                }
                open = None;
            }
            Some(_) => {}
        }
        begins = open.is_none() && (byte == separator || matches!(byte, b'\n' | b'\r'));
        line += usize::from(byte == b'\n');
    }
    match open.filter(|_| !closed) {
        Some(began) => Err(wrong(began, "is not closed before the end of the file")),
        None => Ok(()),
    }
}

/// What separates the fields of the first line.
fn separator(text: &[u8], key: Option<&str>) -> u8 {
    let first = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let known = |separator: u8| {
        let mut reader = csv::ReaderBuilder::new().delimiter(separator).has_headers(false).from_reader(first);
        let fields = reader.records().next().and_then(Result::ok).unwrap_or_default();
        let joins = fields
            .iter()
            .map(str::trim)
            .any(|field| key.map_or(PATHS.iter().any(|path| path.eq_ignore_ascii_case(field)), |key| key == field));
        (joins && fields.len() > 1, fields.len())
    };
    // Of equals the first.
    SEPARATORS.into_iter().rev().max_by_key(|separator| known(*separator)).unwrap_or(b',')
}

/// Words that stand for no value, or for a number that JSON does not have, in lower case.
const NOTHING: [&str; 22] = [
    "na",
    "n/a",
    "#n/a",
    "<na>",
    "nan",
    "-nan",
    "nat",
    "null",
    "none",
    "nil",
    "-",
    "--",
    "?",
    ".",
    "missing",
    "unknown",
    "inf",
    "+inf",
    "-inf",
    "infinity",
    "-infinity",
    "#value!",
];

/// A value that makes a column text that was likely meant for numbers, and why.
fn doubt<'a>(values: &[&'a str]) -> Option<(&'a str, String)> {
    let others: Vec<&str> = values.iter().copied().filter(|value| !is_number(value)).collect();
    let (of, numbers) = (values.len(), values.len() - others.len());
    let Some(first) = others.first().copied() else {
        let why = "has more digits than a number here keeps: so they stay as they are";
        return values.iter().copied().find(|value| !is_kept(value)).map(|value| (value, why.to_owned()));
    };
    let nothing = |value: &&str| NOTHING.contains(&value.trim().to_lowercase().as_str());
    if numbers > others.len() || (numbers > 0 && others.iter().all(nothing)) {
        let are = if numbers == 1 { "is" } else { "are" };
        let why = format!(
            "is no number as {numbers} of its {of} values {are}: correct it, or say that it stands for no value (--na '{first}')"
        );
        return Some((first, why));
    }
    let commas = |value: &&str| value.matches(',').count() == 1 && is_number(&value.replace(',', "."));
    let why = "has a comma where numbers here have a point: write it with one to have a number";
    values.iter().all(|value| commas(value) || is_number(value)).then(|| (first, why.to_owned()))
}

/// Whether a value is a number, and not digits with zeros before them, which are a name of something.
fn is_number(cell: &str) -> bool {
    let digits = cell.trim_start_matches('-');
    let padded = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.");
    digits.starts_with(|c: char| c.is_ascii_digit()) && !padded && cell.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Whether a number keeps all digits as a float, which whole ones beyond 2^53 may not.
fn is_kept(number: &str) -> bool {
    let whole = number.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
    !whole || number.parse::<i64>().is_ok_and(|value| value.unsigned_abs() <= 1 << 53)
}

/// What the values of a column are.
#[derive(Clone, Copy)]
enum Column {
    Int,
    Float,
    Bool,
    Text,
}

impl Column {
    fn of(values: &[&str]) -> Self {
        let all = |is: fn(&str) -> bool| values.iter().all(|value| is(value));
        let is_int = |cell: &str| match cell.parse::<i64>() {
            Ok(n) => n.to_string() == cell,
            Err(_) => cell.parse::<u64>().is_ok_and(|n| n.to_string() == cell),
        };
        match () {
            () if all(is_int) => Self::Int,
            () if all(is_number) && all(is_kept) => Self::Float,
            () if all(|cell| matches!(cell, "true" | "false" | "True" | "False")) => Self::Bool,
            () => Self::Text,
        }
    }
    fn value(self, cell: &str) -> Value {
        let value = match self {
            Self::Int => cell.parse::<i64>().map(Value::from).or_else(|_| cell.parse::<u64>().map(Value::from)).ok(),
            Self::Float => cell.parse::<f64>().ok().map(Value::from),
            Self::Bool => Some(cell.eq_ignore_ascii_case("true").into()),
            Self::Text => None,
        };
        value.unwrap_or_else(|| cell.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, how: &Csv) -> (String, Vec<String>) {
        let (rows, warnings) = rows(text.as_bytes(), None, how).unwrap();
        (serde_json::to_string(&rows).unwrap(), warnings)
    }

    #[test]
    fn a_column_that_few_values_make_text_is_told_with_value_and_line() {
        let text = "path,snr,take\na,3,01\nb,\"4\n\",02\nc,NA,03\nd,5,04\ne,6,05\nf,7,06\n";
        let (_, warnings) = read(text, &Csv::default());
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        // Leading zeros are meant; of two values that are none the first is told, by its line in the file.
        assert!(
            warnings[0].starts_with("the column 'snr' is text: '4\n' in line 3 is no number as 4 of its 6 values are"),
            "{warnings:?}"
        );
        let clean = "path,snr\na,3\nc,NA\nd, n/a \ne,6.5\n";
        let na = Csv { na: vec!["NA".into(), "n/a".into()], ..Csv::default() };
        let expected = r#"[{"path":"a","snr":3.0},{"path":"c"},{"path":"d"},{"path":"e","snr":6.5}]"#;
        assert_eq!(read(clean, &na), (expected.to_owned(), vec![]));
        let (_, warnings) = read("path;snr\na;3,5\nb;4\n", &Csv::default());
        assert!(warnings[0].starts_with("the column 'snr' is text: '3,5' in line 2 has a comma"), "{warnings:?}");
        assert_eq!(read("path,room\na,hall\nb,2\n", &Csv::default()).1, Vec::<String>::new());
    }

    #[test]
    fn whole_numbers_keep_every_digit() {
        let value = |cell: &str, others: &str| read(&format!("path,v\na,{cell}\nb,{others}\n"), &Csv::default());
        let (rows, none) = value("18446744073709551615", "9223372036854775808");
        assert_eq!((rows.contains(r#""v":18446744073709551615}"#), none.len()), (true, 0), "{rows}");
        for (cell, other) in [("89445001021983048261", "1"), ("9007199254740993", "2.5"), ("-9223372036854775809", "1")] {
            let (rows, warnings) = value(cell, other);
            assert!(rows.contains(&format!(r#""v":"{cell}"}}"#)), "{rows}");
            let expected = format!("the column 'v' is text: '{cell}' in line 2 has more digits than a number here keeps");
            assert!(warnings[0].starts_with(&expected), "{warnings:?}");
        }
        assert!(value("9007199254740992", "2.5").0.contains(r#""v":9007199254740992.0}"#));
    }

    #[test]
    fn words_for_nothing_are_told_where_there_is_a_number() {
        for word in ["NA", "nan", "N/A", "null", "-", "inf"] {
            let (_, warnings) = read(&format!("path,snr\na,3\nb,{word}\nc,{word}\n"), &Csv::default());
            assert!(
                warnings[0].starts_with(&format!("the column 'snr' is text: '{word}' in line 3 is no number")),
                "{warnings:?}"
            );
        }
        // North America, say.
        assert_eq!(read("path,region\na,NA\nb,EU\n", &Csv::default()).1, Vec::<String>::new());
    }

    #[test]
    fn quotes_that_nobody_closed_are_refused_by_their_line() {
        let wrong = |text: &str| rows(text.as_bytes(), None, &Csv::default()).unwrap_err().to_string();
        assert!(wrong("path,n\na.wav,\"1\nb.wav,2\n").contains("a field in line 2 begins with is not closed"));
        let told = wrong("path,n\na,1\nb,\"2\nc,3\nd,\"4\n");
        assert!(told.contains("in line 3 begins with ends in the middle of line 5, before '4'"), "{told}");
        let kept = r#"[{"path":"a","n":"say \"x\""},{"path":"b","n":"5\" disk"},{"path":"c","n":"x\r\ny"}]"#;
        assert_eq!(read("path,n\na,\"say \"\"x\"\"\"\nb,5\" disk\nc,\"x\r\ny\"", &Csv::default()).0, kept);
    }

    #[test]
    fn what_is_between_fields_is_found_out_or_said() {
        let expected = r#"[{"path":"a,b","n":1}]"#;
        for text in ["path;n\na,b;1\n", "path\tn\na,b\t1\n", "path,n\n\"a,b\",1\n"] {
            assert_eq!(read(text, &Csv::default()).0, expected, "{text}");
        }
        // More commas than semicolons, but a column of paths between these.
        let (found, _) = read("path;\"note, long, longer\";n, m, o\na;b;1\n", &Csv::default());
        assert_eq!(found, r#"[{"path":"a","note, long, longer":"b","n, m, o":1}]"#);
        let bar = Csv { delimiter: Some(b'|'), ..Csv::default() };
        assert_eq!(read("path|n\na,b|1\n", &bar).0, expected);
        let e = rows(b"path,n\na,1,2\n", None, &Csv::default()).unwrap_err();
        assert!(e.to_string().contains("',' between its fields") && e.to_string().contains("--delimiter"), "{e}");
    }
}
