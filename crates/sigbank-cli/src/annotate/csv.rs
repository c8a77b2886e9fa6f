//! Tables as text: comma-separated, quoted with `"` where a cell holds a comma, a quote (twice) or a line feed.

use serde_json::{Map, Value};
use sigbank::Error;
use sigbank_format::model::json::{Json, Limits};

/// What the header calls the columns.
///
/// # Errors
/// For a column without a name, two of one name, and where none tells which record a line is of.
pub(super) fn columns(names: Vec<String>) -> Result<Vec<String>, Error> {
    let expected = "the first line names the columns: id or index, and any others once each, such as id,label";
    if names.is_empty() {
        return Err(Error::invalid("the file is empty").remedy(expected));
    }
    let wrong = |what: String| Error::invalid(format!("the header is '{}': {what}", names.join(","))).remedy(expected);
    for (at, name) in names.iter().enumerate() {
        if name.is_empty() {
            return Err(wrong(format!("column {} has no name", at + 1)));
        }
        if let Some(before) = names.iter().take(at).position(|before| before == name) {
            return Err(wrong(format!("columns {} and {} are both '{name}'", before + 1, at + 1)));
        }
    }
    if !names.iter().any(|name| name == "id" || name == "index") {
        return Err(wrong("neither column id nor index tells which record a line is of".into()));
    }
    Ok(names)
}

/// A row as an object. Empty cells are left out.
pub(super) fn members(names: &[String], cells: Vec<String>) -> Result<Map<String, Value>, Error> {
    if cells.len() != names.len() {
        return Err(Error::invalid(format!("{} cells, where {} columns are named", cells.len(), names.len())));
    }
    let filled = names.iter().cloned().zip(cells).filter(|(_, cell)| !cell.is_empty());
    Ok(filled.map(|(name, cell)| (name, value(cell))).collect())
}

/// A number where the text is one as JSON has it, else the text.
fn value(cell: String) -> Value {
    let numeric = cell.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    let parsed = Json::parse(cell.as_bytes(), &Limits::default()).ok().filter(|_| numeric && cell.trim() == cell);
    parsed.and_then(|json| json.to_value().ok()).filter(Value::is_number).unwrap_or(Value::String(cell))
}

/// How far a row is, which may have line feeds in its cells.
#[derive(Default)]
pub(super) struct Quotes {
    quoted: bool,
    inside: bool,
}

impl Quotes {
    /// Whether the row ends with this line of it.
    pub(super) fn end_with(&mut self, line: &str) -> bool {
        let mut characters = line.chars().peekable();
        while let Some(c) = characters.next() {
            match c {
                '"' if self.quoted && characters.peek() == Some(&'"') => drop(characters.next()),
                '"' if self.quoted => self.quoted = false,
                _ if self.quoted => {}
                '"' if !self.inside => (self.quoted, self.inside) = (true, true),
                ',' => self.inside = false,
                _ => self.inside = true,
            }
        }
        !self.quoted
    }
}

/// The cells of one row; none where it is empty.
pub(super) fn cells(row: &str) -> Result<Option<Vec<String>>, Error> {
    let row = row.strip_suffix('\n').unwrap_or(row);
    let row = row.strip_suffix('\r').unwrap_or(row);
    let (mut cells, mut cell, mut quoted, mut opened) = (Vec::new(), String::new(), false, false);
    let mut characters = row.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                cell.push('"');
            }
            '"' if quoted => quoted = false,
            _ if quoted => cell.push(c),
            '"' if cell.is_empty() && !opened => (quoted, opened) = (true, true),
            ',' => {
                cells.push(std::mem::take(&mut cell));
                opened = false;
            }
            c if opened => return Err(Error::invalid(format!("'{c}' behind a quoted cell"))),
            c => cell.push(c),
        }
    }
    if quoted {
        return Err(Error::invalid("a quoted cell does not end"));
    }
    if cells.is_empty() && cell.is_empty() {
        return Ok(None);
    }
    cells.push(cell);
    Ok(Some(cells))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Every row of a table.
    fn table(text: &str) -> Result<Vec<Value>, Error> {
        let (mut rows, mut row, mut quotes) = (Vec::new(), String::new(), Quotes::default());
        for line in text.split_inclusive('\n') {
            row.push_str(line);
            if quotes.end_with(line) {
                rows.extend(cells(&std::mem::take(&mut row))?);
                quotes = Quotes::default();
            }
        }
        rows.extend(cells(&row)?);
        let mut rows = rows.into_iter();
        let names = columns(rows.next().unwrap_or_default())?;
        rows.map(|row| members(&names, row).map(Value::Object)).collect()
    }

    #[test]
    fn cells_are_what_was_meant() {
        let text = "id,a,b\r\nx,1,\"say \"\"so\"\", then\nmore\"\r\n\r\ny,,007\nz,-1.5e3,\"\"";
        let expected = [
            json!({"id": "x", "a": 1, "b": "say \"so\", then\nmore"}),
            json!({"id": "y", "b": "007"}),
            json!({"id": "z", "a": -1500.0}),
        ];
        assert_eq!(table(text).unwrap(), expected);
        for wrong in ["", "a,b\n1,2", "id,a,a\n1,2,3", "id,\n1,2", "id,b\n1", "id\n\"1", "id\n\"1\"2"] {
            assert!(table(wrong).is_err(), "{wrong}");
        }
    }
}
