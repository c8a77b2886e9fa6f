//! The JSON documents: what the layout keeps in them beside the user's own keys.

use crate::error::{Error, Result};
use crate::store::{Store, over, zeroed};
use crate::uri::RelPath;
use bytes::Bytes;
use serde_json::{Map, Value};
use sigbank_format::model::json::{Json, Limits};
use std::borrow::Cow;

/// The key of a data set's document that is not metadata.
pub(super) const ITEMFORMAT: &str = "_itemformat";
/// The key of an array's document that is not metadata.
pub(super) const FILENAME: &str = "_filename";

/// The key of an array's document that says what the file's format could not hold: see [`Kept`](super::Kept).
pub(super) const KEPT: &str = "_sigbank";

/// A document's bytes.
pub(super) fn text(store: &dyn Store, path: &RelPath) -> Result<Bytes> {
    let most = Limits::default().max_bytes;
    let read = || -> Result<Bytes> {
        if store.capabilities().round_trip > 0 {
            return store.get_at_most(path, most);
        }
        // Opened once.
        let file = store.open_read(path)?;
        if file.size() > most {
            return Err(over(file.size(), most));
        }
        let mut bytes = zeroed(file.size())?;
        file.read_at(0, &mut bytes)?;
        Ok(bytes.into())
    };
    read().map_err(|e| e.at(store.locate(path)))
}

/// An object of a document.
pub(super) fn read(store: &dyn Store, path: &RelPath) -> Result<Map<String, Value>> {
    object(&text(store, path)?).map_err(|e| e.at(store.locate(path)))
}

/// The object that a document's bytes are.
pub(super) fn object(text: &[u8]) -> Result<Map<String, Value>> {
    match parse(text)?.to_value()? {
        Value::Object(object) => Ok(object),
        other => Err(Error::corrupt(format!("a JSON object is expected, found {}", kind(&other)))),
    }
}

/// A document's value. The words NaN, Infinity and -Infinity, which Python writes although JSON has no such numbers, are null.
fn parse(text: &[u8]) -> Result<Json> {
    let limits = Limits::default();
    let strict = Json::parse(text, &limits);
    let words = strict.is_err() && text.iter().any(|&byte| matches!(byte, b'N' | b'I'));
    Ok(if words { Json::parse(&without_words(text, |_| "null".into()), &limits).or(strict)? } else { strict? })
}

/// A document's object for comparing: infinities are whole numbers that no float reaches. None where the document has none, or is no object.
pub(super) fn with_infinities(text: &[u8]) -> Option<Json> {
    let far = format!("1{}", "0".repeat(309));
    let plain = without_words(text, |word| match word {
        Word::Nan => "null".into(),
        Word::Infinity => far.clone().into(),
        Word::MinusInfinity => format!("-{far}").into(),
    });
    let json = Json::parse(&plain, &Limits::default()).ok().filter(|json| json.as_str().contains(&far))?;
    json.as_str().starts_with('{').then_some(json)
}

/// The object of an array's document, also where programs read it differently: of a key that comes twice the last one counts, as in Python, and half of a
/// surrogate pair, which is no character, becomes the character that stands for such. Whoever wants the text as it is has the document itself.
pub(super) fn object_of_any(text: &[u8]) -> Result<Map<String, Value>> {
    object(text).or_else(|e| {
        let plain = whole_pairs(&without_words(text, |_| "null".into()));
        match serde_json::from_slice(&plain) {
            // Within the limits of other documents.
            Ok(value @ Value::Object(_)) => object(Json::from_value(&value)?.as_str().as_bytes()),
            _ => Err(e),
        }
    })
}

/// A JSON text with an escape that stands for a character in place of each half of a surrogate pair that has no other half.
fn whole_pairs(text: &[u8]) -> Vec<u8> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(&byte) = text.get(at) {
        let len = match (byte, unit(at), unit(at + 6)) {
            (b'\\', Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (b'\\', Some(0xd800..=0xdfff), _) => {
                out.extend_from_slice(b"\\ufffd");
                at += 6;
                continue;
            }
            (b'\\', ..) => 2,
            _ => 1,
        };
        out.extend(text.get(at..text.len().min(at + len)).unwrap_or_default());
        at += len;
    }
    out
}

/// A number that Python's JSON has and JSON has not. In a [`Value`] it is a text that no one has: its [`marker`](Word::marker).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Word {
    Nan,
    Infinity,
    MinusInfinity,
}

impl Word {
    const ALL: [Self; 3] = [Self::Nan, Self::Infinity, Self::MinusInfinity];
    pub(super) fn marker(self) -> &'static str {
        match self {
            Self::Nan => "\0NaN",
            Self::Infinity => "\0Infinity",
            Self::MinusInfinity => "\0-Infinity",
        }
    }
    fn text(self) -> &'static str {
        self.marker().trim_start_matches('\0')
    }
    pub(super) fn of(marker: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|word| word.marker() == marker)
    }
    pub(super) fn number(self) -> f64 {
        match self {
            Self::Nan => f64::NAN,
            Self::Infinity => f64::INFINITY,
            Self::MinusInfinity => f64::NEG_INFINITY,
        }
    }
    /// That of a number that is not finite.
    pub(super) fn of_number(number: f64) -> Self {
        match number {
            _ if number.is_nan() => Self::Nan,
            _ if number > 0.0 => Self::Infinity,
            _ => Self::MinusInfinity,
        }
    }
}

/// The object of a document, its words as markers.
pub(super) fn with_words(text: &[u8]) -> Result<Map<String, Value>> {
    match Json::parse(text, &Limits::default()) {
        Ok(json) => object(json.as_str().as_bytes()),
        Err(_) => object(&without_words(text, |word| format!("\"\\u0000{}\"", word.text()).into())),
    }
}

/// A value's compact text, its markers as words.
pub(super) fn compact(value: Value) -> Result<String> {
    Ok(unmarked(Json::from_value(&value)?.as_str()))
}

/// An object as a document of the reference's form (see [`write`]), its markers as words.
pub(super) fn rendered(object: Map<String, Value>) -> Result<Vec<u8>> {
    let mut text = String::new();
    Json::from_value(&Value::Object(object))?.write_indented(&mut text);
    Ok(ascii(&unmarked(&text)))
}

fn unmarked(text: &str) -> String {
    let mut text = text.to_owned();
    if text.contains("\"\\u0000") {
        for word in Word::ALL {
            let marker = format!("\"\\u0000{}\"", word.text());
            let parts: Vec<&str> = text.split(&marker).collect();
            let mut replaced = String::new();
            for (i, part) in parts.iter().enumerate() {
                if i > 0 {
                    // A key is no number.
                    replaced.push_str(if part.starts_with(':') { &marker } else { word.text() });
                }
                replaced.push_str(part);
            }
            text = replaced;
        }
    }
    text
}

fn without_words(text: &[u8], instead: impl Fn(Word) -> Cow<'static, str>) -> Vec<u8> {
    let (mut out, mut rest, mut quoted) = (Vec::with_capacity(text.len()), text, false);
    while let Some((&byte, after)) = rest.split_first() {
        let word = Word::ALL.into_iter().find(|word| !quoted && rest.starts_with(word.text().as_bytes()));
        let other;
        let (kept, next) = match (word, byte) {
            (Some(word), _) => {
                other = instead(word);
                (other.as_bytes(), rest.get(word.text().len()..))
            }
            (_, b'\\') if quoted => (rest.get(..2).unwrap_or(rest), rest.get(2..)),
            _ => {
                quoted ^= byte == b'"';
                (rest.get(..1).unwrap_or_default(), Some(after))
            }
        };
        out.extend_from_slice(kept);
        rest = next.unwrap_or_default();
    }
    out
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

/// A document of the user's metadata and keys of ours, as the reference writes it: keys sorted, an indent of two spaces, ASCII, no last
/// line feed.
///
/// # Errors
/// `Invalid` where the metadata are no object, or have the key themselves.
pub(super) fn write<'a>(metadata: &Json, ours: impl IntoIterator<Item = (&'a str, Value)>) -> Result<Vec<u8>> {
    let Value::Object(mut object) = metadata.to_value()? else {
        return Err(Error::invalid("metadata are a JSON object (in Python: a dict)"));
    };
    for key in [ITEMFORMAT, FILENAME, KEPT] {
        if object.contains_key(key) {
            return Err(Error::invalid(format!("the metadata have the key {key:?}, which the layout keeps for itself"))
                .remedy("name it otherwise"));
        }
    }
    object.extend(ours.into_iter().map(|(key, value)| (key.to_owned(), value)));
    rendered(object)
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
    fn what_programs_read_differently_is_read_as_python_reads_it() {
        let text = br#"{"a": 1, "a": "x\ud800y\ud834\udd1e\udd1e", "\\ud800": NaN, "b": "\\\ud800"}"#;
        let found = object_of_any(text).unwrap();
        let expected = serde_json::json!({"a": "x\u{fffd}y\u{1d11e}\u{fffd}", "\\ud800": null, "b": "\\\u{fffd}"});
        assert_eq!(Value::Object(found), expected);
        assert!(object(text).is_err());
        for bad in [&b"{\"a\": \"\\ud8"[..], b"{\"a\": 1, }", b"[1]", b"\\", b""] {
            assert!(object_of_any(bad).is_err());
        }
    }

    #[test]
    fn documents_are_written_as_python_writes_them() {
        let json = Json::parse("{\"é\": [1, {}], \"b\": \"𝄞\u{7f}\\n\", \"a\": 1e-7}".as_bytes(), &Limits::default()).unwrap();
        let written = String::from_utf8(write(&json, [(FILENAME, "x.npy".into())]).unwrap()).unwrap();
        let expected = "{\n  \"_filename\": \"x.npy\",\n  \"a\": 1e-07,\n  \"b\": \"\\ud834\\udd1e\\u007f\\n\",\n  \"\\u00e9\": [\n    1,\n    {}\n  ]\n}";
        assert_eq!(written, expected);
        let odd = br#"{"a": NaN, "b": [Infinity, -Infinity], "NaN": "NaN \" -Infinity"}"#;
        assert_eq!(parse(odd).unwrap().as_str(), r#"{"NaN":"NaN \" -Infinity","a":null,"b":[null,null]}"#);
        assert!(parse(b"{\"a\": NaN, }").is_err() && parse(b"[N").is_err());
        let taken = Json::parse(br#"{"_filename": 1}"#, &Limits::default()).unwrap();
        assert!(write(&taken, []).unwrap_err().message().contains("_filename"));
        assert!(write(&Json::NULL, []).is_err());
    }
}
