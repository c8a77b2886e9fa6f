//! A file of annotations, read line by line: what it says is held for one line at a time.

use super::{Row, csv, row};
use serde_json::{Map, Value};
use sigbank::Error;
use sigbank_format::model::json::{Json, Limits};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

/// Most bytes of a line.
const LONGEST: u64 = 64 << 20;

/// Where a line stands: its number, the first byte, and the length in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) line: u64,
    at: u64,
    len: u32,
}

/// A file of annotations.
pub(super) struct Lines {
    path: PathBuf,
    reader: BufReader<File>,
    /// Of a table, its columns.
    columns: Option<Vec<String>>,
    next: Spot,
}

impl Lines {
    /// Opens a file, and reads the header of a table.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let located = |e: Error| e.at(path.display());
        let ending = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        let is_csv = match ending.as_str() {
            "csv" => true,
            "jsonl" | "ndjson" | "json" => false,
            _ => {
                return Err(located(Error::invalid("what the file holds is not told by its ending: .jsonl or .csv is expected")));
            }
        };
        let reader = BufReader::new(File::open(path).map_err(|e| located(e.into()))?);
        let next = Spot { line: 1, at: 0, len: 0 };
        let mut lines = Self { path: path.to_owned(), reader, columns: is_csv.then(Vec::new), next };
        if is_csv {
            let mut header = Vec::new();
            while header.is_empty() {
                let Some((_, text)) = lines.text()? else { break };
                header = csv::cells(&text).map_err(located)?.unwrap_or_default();
            }
            lines.columns = Some(csv::columns(header).map_err(located)?);
        }
        Ok(lines)
    }

    /// The next line that says something, and where it stands.
    pub(super) fn next(&mut self) -> Result<Option<(Spot, Row)>, Error> {
        while let Some((spot, text)) = self.text()? {
            if let Some(row) = self.row(spot, &text)? {
                return Ok(Some((spot, row)));
            }
        }
        Ok(None)
    }

    /// A line that was read before.
    pub(super) fn again(&mut self, spot: Spot) -> Result<Row, Error> {
        let read = |reader: &mut BufReader<File>| -> std::io::Result<Vec<u8>> {
            // What is read already is not read again where lines are taken in order.
            let here = reader.stream_position()?;
            reader.seek_relative(spot.at as i64 - here as i64)?;
            let mut bytes = vec![0; spot.len as usize];
            reader.read_exact(&mut bytes)?;
            Ok(bytes)
        };
        let bytes = read(&mut self.reader).map_err(|e| Error::from(e).at(self.path.display()))?;
        let text = self.utf8(bytes, spot)?;
        let changed = || Error::invalid("the file was changed while it was read").at(self.path.display());
        self.row(spot, &text)?.ok_or_else(changed)
    }

    fn row(&self, spot: Spot, text: &str) -> Result<Option<Row>, Error> {
        let members = || -> Result<Option<Map<String, Value>>, Error> {
            match &self.columns {
                Some(names) => csv::cells(text)?.map(|cells| csv::members(names, cells)).transpose(),
                None if text.trim().is_empty() => Ok(None),
                None => object(text).map(Some),
            }
        };
        let row =
            members().and_then(|members| members.map(|members| row(spot.line, members, self.columns.is_some())).transpose());
        row.map_err(|e| e.within(format!("line {}", spot.line)).at(self.path.display()))
    }

    /// The next line; of a table, the lines of a row.
    fn text(&mut self) -> Result<Option<(Spot, String)>, Error> {
        let (mut bytes, mut spot, mut quotes) = (Vec::new(), self.next, csv::Quotes::default());
        loop {
            let before = bytes.len();
            let left = (LONGEST + 1).saturating_sub(before as u64);
            let read = self.reader.by_ref().take(left).read_until(b'\n', &mut bytes);
            let read = read.map_err(|e| Error::from(e).at(self.path.display()))?;
            if bytes.len() as u64 > LONGEST {
                return Err(Error::limit(format!("more than {LONGEST} bytes"))
                    .within(format!("line {}", spot.line))
                    .at(self.path.display())
                    .remedy("a quote that is not closed goes on to the end of the file"));
            }
            self.next.line += 1;
            let line = String::from_utf8_lossy(bytes.get(before..).unwrap_or_default());
            if read == 0 || self.columns.is_none() || quotes.end_with(&line) {
                break;
            }
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        if spot.at == 0 && bytes.starts_with(b"\xef\xbb\xbf") {
            bytes.drain(..3);
            spot.at = 3;
        }
        spot.len = bytes.len() as u32;
        self.next.at = spot.at + bytes.len() as u64;
        Ok(Some((spot, self.utf8(bytes, spot)?)))
    }

    fn utf8(&self, bytes: Vec<u8>, spot: Spot) -> Result<String, Error> {
        String::from_utf8(bytes).map_err(|e| {
            let place = spot.at + e.utf8_error().valid_up_to() as u64;
            Error::invalid(format!("the text is not UTF-8: the byte at {place} cannot be"))
                .at(self.path.display())
                .remedy("save it as UTF-8")
        })
    }
}

fn object(line: &str) -> Result<Map<String, Value>, Error> {
    match Json::parse(line.trim().as_bytes(), &Limits::default())?.to_value()? {
        Value::Object(members) => Ok(members),
        other => Err(Error::invalid(format!("{other} is no object, which each line is"))),
    }
}
