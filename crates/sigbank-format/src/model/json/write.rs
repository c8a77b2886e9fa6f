//! From values to text.

use super::number::Number;
use super::{Json, MAX_DEPTH};
use crate::error::{FormatError, Result};
use serde_json::Value;
use std::fmt::Write;

/// Appends a string with its quotes, as Python's json does where it need not be ASCII.
///
/// ```
/// use sigbank_format::model::json::write_string;
/// let mut out = String::new();
/// write_string("é\"\n\u{1}", &mut out);
/// assert_eq!(out, r#""é\"\n\u0001""#);
/// ```
pub fn write_string(text: &str, out: &mut String) {
    out.push('"');
    let mut plain = 0;
    let special = |b: &u8| *b < 0x20 || matches!(b, b'"' | b'\\');
    while let Some(at) = text.as_bytes().get(plain..).and_then(|rest| rest.iter().position(special)) {
        let at = plain + at;
        out.push_str(text.get(plain..at).unwrap_or_default());
        match text.as_bytes().get(at).copied().unwrap_or_default() {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            control => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{control:04x}");
            }
        }
        plain = at + 1;
    }
    out.push_str(text.get(plain..).unwrap_or_default());
    out.push('"');
}

/// Appends the one text of a value that stands at `depth`.
pub(super) fn value(value: &Value, depth: usize, out: &mut String) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(FormatError::limit(format!("a JSON value nested more than {MAX_DEPTH} deep: flatten it")));
    }
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => {
            let text = n.to_string();
            let number = Number::from_text(&text);
            number.map_err(|e| FormatError::invalid(format!("{e}; JSON has none such: use null or a string")))?.write(out);
        }
        Value::String(s) => write_string(s, out),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                self::value(item, depth + 1, out)?;
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_unstable_by_key(|(key, _)| key.as_str());
            out.push('{');
            for (i, (key, member)) in sorted.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_string(key, out);
                out.push(':');
                self::value(member, depth + 1, out)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

/// Calls `each` with the bytes of a compact text that stand outside of strings, and `text` with the strings.
fn tokens<'a>(json: &'a str, mut each: impl FnMut(u8, Option<u8>), mut text: impl FnMut(&'a str)) {
    let bytes = json.as_bytes();
    let mut at = 0;
    while let Some(&b) = bytes.get(at) {
        if b != b'"' {
            at += 1;
            each(b, bytes.get(at).copied());
            continue;
        }
        let mut end = at + 1;
        while let Some(&b) = bytes.get(end).filter(|&&b| b != b'"') {
            end += if b == b'\\' { 2 } else { 1 };
        }
        text(json.get(at..=end).unwrap_or_default());
        at = end + 1;
    }
}

pub(super) fn spaced_len(json: &str) -> usize {
    let mut spaces = 0;
    tokens(json, |b, _| spaces += usize::from(matches!(b, b',' | b':')), |_| ());
    json.len() + spaces
}

pub(super) fn indented(json: &str, out: &mut String) {
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend((0..depth).map(|_| "  "));
    };
    let (mut depth, mut empty) = (0usize, false);
    // Both closures write to `out`, so what they say is collected as pieces.
    let out = std::cell::RefCell::new(out);
    tokens(
        json,
        |b, next| {
            let mut out = out.borrow_mut();
            match (b, next) {
                (b'{' | b'[', next) => {
                    out.push(char::from(b));
                    empty = matches!(next, Some(b'}' | b']'));
                    if !empty {
                        depth += 1;
                        line(&mut out, depth);
                    }
                }
                (b'}' | b']', _) => {
                    if !std::mem::take(&mut empty) {
                        depth = depth.saturating_sub(1);
                        line(&mut out, depth);
                    }
                    out.push(char::from(b));
                }
                (b',', _) => {
                    out.push(',');
                    line(&mut out, depth);
                }
                (b':', _) => out.push_str(": "),
                _ => out.push(char::from(b)),
            }
        },
        |text| out.borrow_mut().push_str(text),
    );
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::canonical(if value { "true" } else { "false" })
    }
}

impl From<i64> for Json {
    fn from(value: i64) -> Self {
        Self::canonical(&value.to_string())
    }
}

impl From<u64> for Json {
    fn from(value: u64) -> Self {
        Self::canonical(&value.to_string())
    }
}

impl From<&str> for Json {
    fn from(value: &str) -> Self {
        let mut text = String::with_capacity(value.len() + 2);
        write_string(value, &mut text);
        Self::canonical(&text)
    }
}

impl TryFrom<f64> for Json {
    type Error = FormatError;

    /// Invalid where the number is not finite.
    fn try_from(value: f64) -> Result<Self> {
        if !value.is_finite() {
            return Err(FormatError::invalid(format!("{value} is no JSON number: use null or a string")));
        }
        let mut text = String::new();
        super::write_float(value, &mut text);
        Ok(Self::canonical(&text))
    }
}
