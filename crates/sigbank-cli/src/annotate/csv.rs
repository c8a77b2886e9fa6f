//! Tables as text: comma-separated, quoted with `"` where a cell holds a comma, a quote (twice) or a line feed.

use serde_json::{Map, Value};
use sigbank::Error;
use sigbank_format::model::json::{Json, Limits};

/// A row, and the line that it begins on.
type Line<T> = (u64, T);

/// Each row as an object. Empty cells are left out.
pub(super) fn records(text: &str) -> Result<Vec<Line<Map<String, Value>>>, Error> {
    let mut rows = rows(text)?.into_iter();
    let expected = "the first line names the columns: id or index, and any others once each, such as id,label";
    let (_, names) = rows.next().ok_or_else(|| Error::invalid("the file is empty").remedy(expected))?;
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
    let mut found = Vec::new();
    for (line, cells) in rows {
        if cells.len() != names.len() {
            let what = format!("{} cells, where {} columns are named", cells.len(), names.len());
            return Err(Error::invalid(what).within(format!("line {line}")));
        }
        let filled = names.iter().cloned().zip(cells).filter(|(_, cell)| !cell.is_empty());
        found.push((line, filled.map(|(name, cell)| (name, value(cell))).collect()));
    }
    Ok(found)
}

/// A number where the text is one as JSON has it, else the text.
fn value(cell: String) -> Value {
    let numeric = cell.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    let parsed = Json::parse(cell.as_bytes(), &Limits::default()).ok().filter(|_| numeric && cell.trim() == cell);
    parsed.and_then(|json| json.to_value().ok()).filter(Value::is_number).unwrap_or(Value::String(cell))
}

/// The cells of each row that is not empty.
fn rows(text: &str) -> Result<Vec<Line<Vec<String>>>, Error> {
    let mut rows = Vec::new();
    let (mut cells, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    let (mut line, mut begins, mut opened) = (1u64, 1u64, false);
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        line += u64::from(c == '\n');
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
            '\r' if characters.peek() == Some(&'\n') => {}
            '\n' => {
                if !(cells.is_empty() && cell.is_empty()) {
                    cells.push(std::mem::take(&mut cell));
                    rows.push((begins, std::mem::take(&mut cells)));
                }
                (begins, opened) = (line, false);
            }
            c if opened => return Err(Error::invalid(format!("line {line}: '{c}' behind a quoted cell"))),
            c => cell.push(c),
        }
    }
    if quoted {
        return Err(Error::invalid(format!("line {begins}: a quoted cell does not end")));
    }
    if !(cells.is_empty() && cell.is_empty()) {
        cells.push(cell);
        rows.push((begins, cells));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cells_are_what_was_meant() {
        let text = "id,a,b\r\nx,1,\"say \"\"so\"\", then\nmore\"\r\n\r\ny,,007\nz,-1.5e3,\"\"";
        let found: Vec<_> = records(text).unwrap().into_iter().map(|(line, row)| (line, Value::Object(row))).collect();
        let expected = [
            (2, json!({"id": "x", "a": 1, "b": "say \"so\", then\nmore"})),
            (5, json!({"id": "y", "b": "007"})),
            (6, json!({"id": "z", "a": -1500.0})),
        ];
        assert_eq!(found, expected);
        for wrong in ["", "a,b\n1,2", "id,a,a\n1,2,3", "id,\n1,2", "id,b\n1", "id\n\"1", "id\n\"1\"2"] {
            assert!(records(wrong).is_err(), "{wrong}");
        }
    }
}
