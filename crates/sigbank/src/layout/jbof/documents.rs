//! The JSON documents: what the layout keeps in them beside the user's own keys.

use crate::error::{Error, Result};
use crate::store::Store;
use crate::uri::RelPath;
use serde_json::{Map, Value};
use sigbank_format::model::json::{Json, Limits};

/// The key of a data set's document that is not metadata.
pub(super) const ITEMFORMAT: &str = "_itemformat";
/// The key of an array's document that is not metadata.
pub(super) const FILENAME: &str = "_filename";

/// An object of a document.
pub(super) fn read(store: &dyn Store, path: &RelPath) -> Result<Map<String, Value>> {
    let parse = || {
        let limits = Limits::default();
        match Json::parse(&store.get_at_most(path, limits.max_bytes)?, &limits)?.to_value()? {
            Value::Object(object) => Ok(object),
            other => Err(Error::corrupt(format!("a JSON object is expected, found {}", kind(&other)))),
        }
    };
    parse().map_err(|e: Error| e.at(store.locate(path)))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A document of the user's metadata and one key of ours, as the reference writes it: keys sorted, an indent of two spaces, ASCII, no last
/// line feed.
///
/// # Errors
/// `Invalid` where the metadata are no object, or have the key themselves.
pub(super) fn write(metadata: &Json, ours: Option<(&str, Value)>) -> Result<Vec<u8>> {
    let Value::Object(mut object) = metadata.to_value()? else {
        return Err(Error::invalid("metadata are a JSON object (in Python: a dict)"));
    };
    for key in [ITEMFORMAT, FILENAME] {
        if object.contains_key(key) {
            return Err(Error::invalid(format!("the metadata have the key {key:?}, which the layout keeps for itself"))
                .remedy("name it otherwise"));
        }
    }
    if let Some((key, value)) = ours {
        object.insert(key.to_owned(), value);
    }
    let mut text = String::new();
    Json::from_value(&Value::Object(object))?.write_indented(&mut text);
    Ok(ascii(&text))
}

/// Every character outside of printable ASCII as its escape. Such ones stand in strings only.
fn ascii(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | ' '..='~' => out.push(c as u8),
            _ => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.extend_from_slice(format!("\\u{unit:04x}").as_bytes())),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_written_as_python_writes_them() {
        let json = Json::parse("{\"é\": [1, {}], \"b\": \"𝄞\u{7f}\\n\", \"a\": 1e-7}".as_bytes(), &Limits::default()).unwrap();
        let written = String::from_utf8(write(&json, Some((FILENAME, "x.npy".into()))).unwrap()).unwrap();
        let expected = "{\n  \"_filename\": \"x.npy\",\n  \"a\": 1e-07,\n  \"b\": \"\\ud834\\udd1e\\u007f\\n\",\n  \"\\u00e9\": [\n    1,\n    {}\n  ]\n}";
        assert_eq!(written, expected);
        let taken = Json::parse(br#"{"_filename": 1}"#, &Limits::default()).unwrap();
        assert!(write(&taken, None).unwrap_err().message().contains("_filename"));
        assert!(write(&Json::NULL, None).is_err());
    }
}
