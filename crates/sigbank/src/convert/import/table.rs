//! Metadata from a file: CSV, a JSON list or object, or a JSON object a line.

use super::csv::{self, Csv};
use crate::error::{Error, Result};
use serde_json::{Map, Value};
use sigbank_format::model::json::{Json, Limits};
use std::collections::BTreeMap;
use std::path::Path;

/// Largest file of metadata, in bytes.
const MOST: u64 = 1 << 30;
/// Columns that hold paths, by name, where none is named.
pub(super) const PATHS: [&str; 4] = ["path", "file", "filename", "file_name"];

/// Rows of metadata by what they are joined with.
///
/// A CSV file has a line of names first; its fields are separated by `,`, `;` or tabs ([`Csv::delimiter`]). A column of whole
/// numbers without leading zeros gives integers, one of other numbers floats, one of `true` and `false` these, any other text; an empty field, and
/// one with a word that stands for nothing ([`Csv::na`]), gives nothing. A column that is text because of few of its values is warned of. JSON is a list of objects, an object of objects (whose keys are what is joined with), or, in a `.jsonl` file, an object a line.
#[derive(Debug, Clone)]
pub struct Table {
    /// The column that is compared: with a file's path or, where a key is named, with its metadata of that name.
    pub(super) column: Option<String>,
    by_path: bool,
    rows: BTreeMap<String, (usize, Map<String, Value>)>,
    warnings: Vec<String>,
}

/// A table before its rows are sorted by their key.
struct Rows {
    /// Of an object of objects.
    keys: Option<Vec<String>>,
    rows: Vec<Map<String, Value>>,
    warnings: Vec<String>,
}

impl Rows {
    fn new(keys: Option<Vec<String>>, rows: Vec<Map<String, Value>>) -> Self {
        Self { keys, rows, warnings: Vec::new() }
    }
}

impl Table {
    /// Reads a file of metadata, to be joined by path or by a key.
    ///
    /// # Errors
    /// `NotFound` where there is none; `Corrupt` for what is no table, naming the line; `Invalid` where no column holds paths, a row lacks the key, or two
    /// rows have the same.
    ///
    /// ```
    /// use sigbank::convert::import::Table;
    /// let dir = tempfile::tempdir()?;
    /// let path = dir.path().join("takes.csv");
    /// std::fs::write(&path, "path,snr,room\nann/1.wav,3,hall\nbob/2.wav,4.5,\n")?;
    /// let table = Table::read(&path, None)?;
    /// let row = table.row("bob/2.wav", &Default::default()).unwrap();
    /// assert_eq!(serde_json::to_string(row)?, r#"{"snr":4.5}"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read(path: &Path, key: Option<&str>) -> Result<Self> {
        Self::read_with(path, key, &Csv::default())
    }

    /// As [`Table::read`], saying how CSV is to be read.
    ///
    /// # Errors
    /// Those of [`Table::read`].
    pub fn read_with(path: &Path, key: Option<&str>, how: &Csv) -> Result<Self> {
        let located = |e: Error| e.at(path.display());
        let size = std::fs::metadata(path).map_err(|e| located(e.into()).remedy("check the path of the metadata"))?.len();
        if size > MOST {
            return Err(located(Error::limit(format!("the file has {size} bytes, where at most {MOST} are taken"))));
        }
        let bytes = std::fs::read(path).map_err(|e| located(e.into()))?;
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        let ending = path.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default();
        if matches!(ending.as_str(), "json" | "jsonl" | "ndjson" | "csv" | "tsv" | "txt") {
            readable(text).map_err(located)?;
        }
        let rows = match ending.as_str() {
            "json" => json(text),
            "jsonl" | "ndjson" => json_lines(text),
            "csv" | "tsv" | "txt" => csv::rows(text, key, how).map(|(rows, warnings)| Rows { warnings, ..Rows::new(None, rows) }),
            other => {
                Err(Error::unsupported(format!("metadata are read from csv, tsv, json and jsonl files, not from '{other}'")))
            }
        };
        Self::of(rows.map_err(located)?, key).map_err(located)
    }

    fn of(rows: Rows, key: Option<&str>) -> Result<Self> {
        if rows.rows.is_empty() {
            return Err(Error::corrupt("the table has no row").remedy("give one with a row for each file, or leave it out"));
        }
        let column = match (key, &rows.keys) {
            (Some(key), _) => Some(key.to_owned()),
            (None, Some(_)) => None,
            (None, None) => {
                let first = rows.rows.first();
                // Of names that differ in upper and lower case only, the usual one.
                let named = |path: &str| {
                    let names = || rows.rows.iter().flat_map(Map::keys);
                    names().find(|name| *name == path).or_else(|| names().find(|name| name.eq_ignore_ascii_case(path)))
                };
                let column = PATHS.iter().find_map(|path| named(path));
                Some(column.cloned().ok_or_else(|| {
                    let known: Vec<_> = first.into_iter().flat_map(Map::keys).map(String::as_str).collect();
                    Error::invalid(format!("no column holds the files' paths: none is named {}", PATHS.join(" or ")))
                        .remedy(format!("name the key to join by (--join): there are {}", known.join(", ")))
                })?)
            }
        };
        let mut table = Self { column: column.clone(), by_path: key.is_none(), rows: BTreeMap::new(), warnings: rows.warnings };
        for (number, mut row) in rows.rows.into_iter().enumerate() {
            let own = rows.keys.as_ref().and_then(|keys| keys.get(number)).cloned();
            let joined = match &column {
                // Of an object of objects, the key stands outside.
                Some(column) => row.get(column).and_then(text).or(own),
                None => own,
            };
            let Some(joined) = joined.filter(|text| !text.is_empty()) else {
                let column = column.unwrap_or_default();
                return Err(Error::invalid(format!("row {} has no '{column}', by which it would be joined", number + 1)));
            };
            let joined = if table.by_path { path_of(&joined) } else { joined };
            if table.by_path
                && let Some(column) = &column
            {
                row.shift_remove(column);
            }
            if let Some((first, _)) = table.rows.insert(joined.clone(), (number + 1, row)) {
                return Err(Error::invalid(format!("rows {first} and {} are both of '{joined}'", number + 1))
                    .remedy("leave one of them out"));
            }
        }
        Ok(table)
    }

    /// The row of a file at a path, relative to the folder, with what is known of it.
    pub fn row(&self, path: &str, metadata: &Map<String, Value>) -> Option<&Map<String, Value>> {
        self.find(path, metadata).map(|(_, row)| row)
    }

    /// The row and what it is joined by.
    pub(super) fn find(&self, path: &str, metadata: &Map<String, Value>) -> Option<(&str, &Map<String, Value>)> {
        let known = |key: &str| self.rows.get_key_value(key).map(|(key, (_, row))| (key.as_str(), row));
        match self.by_path {
            true => known(path).or_else(|| known(super::without_ending(path))),
            false => known(&text(metadata.get(self.column.as_deref()?)?)?),
        }
    }

    /// What may have been taken for something else than was meant: columns and values.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
    /// The key of the metadata by which rows are joined; none where it is the path.
    pub(super) fn key(&self) -> Option<&str> {
        self.column.as_deref().filter(|_| !self.by_path)
    }
    /// What rows are joined by, sorted.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.rows.keys().map(String::as_str)
    }
}

/// Refuses what is no UTF-8, which all tables are read as.
fn readable(text: &[u8]) -> Result<()> {
    let save = "save it as UTF-8 (in a spreadsheet: as \"CSV UTF-8\")";
    if text.iter().all(u8::is_ascii_whitespace) {
        return Err(Error::corrupt("the file is empty").remedy("give a table with a row for each file, or leave it out"));
    }
    if text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff") || text.iter().take(1 << 10).any(|byte| *byte == 0) {
        return Err(Error::corrupt("the file is no text in UTF-8, but in UTF-16, or no text at all").remedy(save));
    }
    let Err(e) = std::str::from_utf8(text) else { return Ok(()) };
    let before = text.get(..e.valid_up_to()).unwrap_or_default();
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let byte = text.get(e.valid_up_to()).copied().unwrap_or_default();
    Err(Error::corrupt(format!(
        "line {line} is no text in UTF-8: it has the byte {byte:#04x}, as other encodings such as Latin-1 do"
    ))
    .remedy(save))
}

/// A path as it is compared.
fn path_of(text: &str) -> String {
    text.replace('\\', "/").trim_start_matches("./").to_owned()
}

/// A single value as the text that it is compared by.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

fn object(value: Value, place: impl FnOnce() -> String) -> Result<Map<String, Value>> {
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(Error::corrupt(format!("{} is no JSON object", place()))),
    }
}

fn json(text: &[u8]) -> Result<Rows> {
    let limits = Limits { max_bytes: MOST, ..Limits::default() };
    match Json::parse(text, &limits)?.to_value()? {
        Value::Array(list) => {
            let rows = list.into_iter().enumerate().map(|(n, value)| object(value, || format!("element {n} of the list")));
            Ok(Rows::new(None, rows.collect::<Result<_>>()?))
        }
        Value::Object(members) => {
            let (keys, values): (Vec<String>, Vec<Value>) = members.into_iter().unzip();
            let rows = keys.iter().zip(values).map(|(key, value)| object(value, || format!("what is said of '{key}'")));
            let rows = rows.collect::<Result<_>>()?;
            Ok(Rows::new(Some(keys), rows))
        }
        _ => Err(Error::corrupt("a JSON list of objects or an object of objects is expected")),
    }
}

fn json_lines(text: &[u8]) -> Result<Rows> {
    let lines = text.split(|&byte| byte == b'\n').enumerate();
    let lines = lines.filter(|(_, line)| !line.iter().all(u8::is_ascii_whitespace));
    let rows = lines.map(|(n, line)| {
        let within = |e: sigbank_format::FormatError| Error::from(e).within(format!("line {}", n + 1));
        object(Json::parse(line, &Limits::default()).and_then(|json| json.to_value()).map_err(within)?, || {
            format!("line {}", n + 1)
        })
    });
    Ok(Rows::new(None, rows.collect::<Result<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str, text: &str, key: Option<&str>) -> Result<Table> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        Table::read(&path, key)
    }

    fn rows(table: &Table) -> String {
        let rows: Vec<_> =
            table.rows.iter().map(|(key, (_, row))| format!("{key}={}", serde_json::to_string(row).unwrap())).collect();
        rows.join(" ")
    }

    #[test]
    fn columns_have_one_type_each() {
        let csv =
            "\u{feff}file;n;id;x;ok;note\r\na.wav;1;01;1;true;\"say \"\"hi\"\";\r\nthere\"\r\n./b/c.wav;-20;10;2.5;False;\r\n";
        assert_eq!(
            rows(&table("t.csv", csv, None).unwrap()),
            r#"a.wav={"n":1,"id":"01","x":1.0,"ok":true,"note":"say \"hi\";\r\nthere"} b/c.wav={"n":-20,"id":"10","x":2.5,"ok":false}"#
        );
        assert_eq!(rows(&table("t.tsv", "path\tv\na,b\t9007199254740993\n", None).unwrap()), r#"a,b={"v":9007199254740993}"#);
        assert_eq!(rows(&table("t.csv", "speaker,age\nann,30\n", Some("speaker")).unwrap()), r#"ann={"speaker":"ann","age":30}"#);
    }

    #[test]
    fn the_column_of_paths_may_be_in_upper_case_and_other_encodings_are_told() {
        assert_eq!(rows(&table("t.csv", "PATH;n\na,b;1\n", None).unwrap()), r#"a,b={"n":1}"#);
        assert_eq!(rows(&table("t.csv", "Path,path\nx,a\n", None).unwrap()), r#"a={"Path":"x"}"#);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv");
        std::fs::write(&path, b"path,room\na,hall\nb,caf\xe9\n").unwrap();
        let e = Table::read(&path, None).unwrap_err().to_string();
        assert!(e.contains("line 3 is no text in UTF-8: it has the byte 0xe9") && e.contains("save it as UTF-8"), "{e}");
        std::fs::write(&path, b"\xff\xfep\0a\0t\0h\0").unwrap();
        assert!(Table::read(&path, None).unwrap_err().to_string().contains("UTF-16"));
    }

    #[test]
    fn json_comes_as_list_object_or_lines() {
        let expected = r#"a.wav={"n":1} b.wav={"n":{"x":[2]}}"#;
        for (name, text) in [
            ("t.json", r#"[{"path": "b.wav", "n": {"x": [2]}}, {"n": 1, "path": "a.wav"}]"#),
            ("t.json", r#"{"b.wav": {"n": {"x": [2]}}, "a.wav": {"n": 1}}"#),
            ("t.jsonl", "{\"path\": \"a.wav\", \"n\": 1}\n\n{\"path\": \"b.wav\", \"n\": {\"x\": [2]}}"),
        ] {
            assert_eq!(rows(&table(name, text, None).unwrap()), expected);
        }
    }

    #[test]
    fn what_is_no_table_is_refused() {
        for (name, text, words) in [
            ("t.csv", "path,n\na,1\na,2\n", "rows 1 and 2 are both of 'a'"),
            ("t.csv", "speaker,n\na,1\n", "there are speaker, n"),
            ("t.csv", "", "the file is empty"),
            ("t.jsonl", " \n\n", "the file is empty"),
            ("t.csv", "path,n\n", "the table has no row"),
            ("t.json", "[]", "the table has no row"),
            ("t.csv", "p\0a\0t\0h\0", "UTF-16, or no text at all (save it as UTF-8"),
            ("t.csv", "path,n\na,1,3\n", "no CSV table"),
            ("t.csv", "path,n,n\na,1,3\n", "two columns are named 'n'"),
            ("t.csv", "path,n\n,1\na,2\n", "row 1 has no 'path'"),
            ("t.json", "[1]", "element 0 of the list is no JSON object"),
            ("t.json", "{", ""),
            ("t.jsonl", "{\"path\": \"a\"}\n{", "line 2"),
            ("t.xml", "<", "csv, tsv, json and jsonl"),
        ] {
            let e = table(name, text, None).unwrap_err();
            assert!(e.to_string().contains(words) && e.path().unwrap().ends_with(name), "{e}");
        }
    }
}
