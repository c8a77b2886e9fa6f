//! Names of items from their metadata, by a template in the words of Python's `str.format`, without attribute access: a template is data, and what
//! it names must be metadata.

mod number;
mod spec;
#[cfg(test)]
mod tests;

use crate::error::{Error, Result};
use serde_json::Value;
use sigbank_format::model::json::Json;
use spec::{Spec, padded};
use std::borrow::Cow;

/// Deepest nesting of fields: one in the format of another.
const DEEPEST: usize = 2;
/// Longest text that is made.
const LONGEST: usize = 1 << 16;

/// The name that a template gives an item of these metadata, as Python's `template.format(**metadata)` does: fields by key with indexes
/// (`{speaker[name]}`, `{takes[0]}`), the conversions `!r`, `!s` and `!a`, and formats of text, whole numbers and floats.
///
/// # Errors
/// `Invalid` where the metadata lack what a field names, for a template that is damaged or asks for an attribute, and for a format that does not fit.
///
/// ```
/// use sigbank::layout::jbof::item_name;
/// let metadata = sigbank::format::model::json::Json::parse(br#"{"speaker": "ann", "take": 7, "snr": 1.25}"#, &Default::default())?;
/// assert_eq!(item_name("{speaker}-{take:03}", &metadata)?, "ann-007");
/// assert_eq!(item_name("{snr:+.1f} {{dB}}", &metadata)?, "+1.2 {dB}");
/// assert!(item_name("{speaker.upper}", &metadata).is_err());
/// # Ok::<(), sigbank::Error>(())
/// ```
pub fn item_name(template: &str, metadata: &Json) -> Result<String> {
    let metadata = metadata.to_value()?;
    render(template, &metadata, DEEPEST).map_err(|e| match e {
        Wrong::Key(key) => Error::invalid(format!("the itemformat {template:?} names {key:?}, which the metadata lack"))
            .remedy("give the item a name, or metadata with that key"),
        Wrong::Other(why) => Error::invalid(format!("the itemformat {template:?} does not fit the metadata: {why}")),
    })
}

/// Why there is no name.
#[derive(Debug)]
enum Wrong {
    /// A key is not there.
    Key(String),
    Other(String),
}

fn wrong<T>(why: impl Into<String>) -> std::result::Result<T, Wrong> {
    Err(Wrong::Other(why.into()))
}

type Made<T> = std::result::Result<T, Wrong>;

fn render(template: &str, metadata: &Value, depth: usize) -> Made<String> {
    let mut out = String::new();
    walk(template, depth, &mut |piece| {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Field(text) => out.push_str(&field(text, metadata, depth)?),
        }
        match out.len() {
            ..=LONGEST => Ok(()),
            _ => wrong(format!("the name would have more than {LONGEST} bytes")),
        }
    })?;
    Ok(out)
}

/// Refuses a template that gives no item a name, whatever its metadata are: one that is damaged, has a field without a key's name, or makes what is no
/// name of an item.
///
/// # Errors
/// `Invalid`, saying why.
pub(super) fn check(template: &str) -> Result<()> {
    fn checked(template: &str, depth: usize) -> Made<()> {
        walk(template, depth, &mut |piece| match piece {
            Piece::Text(_) => Ok(()),
            Piece::Field(text) => {
                let Field { name, conversion, spec } = parts(text)?;
                let (_, rest) = key_of(name)?;
                indexes(name, rest, &mut |_| Ok(()))?;
                known(conversion)?;
                checked(spec, depth - 1)
            }
        })
    }
    fn names(template: &str) -> Made<()> {
        let mut start = true;
        walk(template, DEEPEST, &mut |piece| {
            if let Piece::Text(text) = piece {
                if text.contains(['/', '\\']) {
                    return wrong("a name is one part of a path, without / and \\");
                }
                if start && text.starts_with('.') {
                    return wrong("a name does not begin with a dot: readers would skip the item");
                }
                if text.contains(char::is_control) {
                    return wrong("a name has no control characters");
                }
                start &= text.is_empty();
            } else {
                start = false;
            }
            Ok(())
        })
    }
    checked(template, DEEPEST).and_then(|()| names(template)).map_err(|e| match e {
        Wrong::Key(why) | Wrong::Other(why) => {
            Error::invalid(format!("the itemformat {template:?} makes no names: {why}")).remedy("correct it, or give none")
        }
    })
}

/// A part of a template.
enum Piece<'a> {
    Text(&'a str),
    /// What stands between two braces.
    Field(&'a str),
}

fn walk(template: &str, depth: usize, put: &mut dyn FnMut(Piece<'_>) -> Made<()>) -> Made<()> {
    let mut rest = template;
    if depth == 0 && rest.contains(['{', '}']) {
        return wrong("fields are nested too deeply");
    }
    while let Some(at) = rest.find(['{', '}']) {
        let (text, from) = rest.split_at(at);
        put(Piece::Text(text))?;
        let brace = from.get(..1).unwrap_or_default();
        let after = from.get(1..).unwrap_or_default();
        rest = match after.strip_prefix(brace) {
            Some(after) => {
                put(Piece::Text(brace))?;
                after
            }
            None if brace == "}" => return wrong("a single '}' stands outside of a field"),
            None => {
                let Some(end) = end_of_field(after) else { return wrong("'}' is expected before the end") };
                put(Piece::Field(after.get(..end).unwrap_or_default()))?;
                after.get(end + 1..).unwrap_or_default()
            }
        };
    }
    put(Piece::Text(rest))
}

/// Where the brace is that closes the field.
fn end_of_field(text: &str) -> Option<usize> {
    let (mut open, mut bracket, mut named) = (1, false, true);
    for (at, c) in text.char_indices() {
        match c {
            // In an index, braces are text.
            ']' if bracket => bracket = false,
            _ if bracket => {}
            '[' if named => bracket = true,
            ':' | '!' => named = false,
            '{' => open += 1,
            '}' => {
                open -= 1;
                if open == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// A field: what it names, its conversion and its format.
struct Field<'a> {
    name: &'a str,
    conversion: Option<char>,
    spec: &'a str,
}

fn parts(text: &str) -> Made<Field<'_>> {
    let mut bracket = false;
    let end = text.char_indices().find(|&(_, c)| {
        bracket = (bracket || c == '[') && c != ']';
        !bracket && matches!(c, ':' | '!' | '{' | '}')
    });
    let (name, rest) = text.split_at(end.map_or(text.len(), |(at, _)| at));
    let (conversion, spec) = match rest.chars().next() {
        None => (None, ""),
        Some(':') => (None, rest.get(1..).unwrap_or_default()),
        Some('!') => {
            let mut after = rest.chars().skip(1);
            let conversion = after.next();
            match (conversion, after.next()) {
                (Some(_), None) => (conversion, ""),
                (Some(c), Some(':')) => (conversion, rest.get(2 + c.len_utf8()..).unwrap_or_default()),
                _ => return wrong(format!("after the conversion of {{{text}}} there is neither ':' nor '}}'")),
            }
        }
        _ => return wrong(format!("a brace stands in the name of the field {{{text}}}")),
    };
    Ok(Field { name, conversion, spec })
}

fn known(conversion: Option<char>) -> Made<()> {
    match conversion {
        None | Some('s' | 'r' | 'a') => Ok(()),
        Some(other) => wrong(format!("the conversion !{other} is not known: give !r, !s or !a")),
    }
}

fn field(text: &str, metadata: &Value, depth: usize) -> Made<String> {
    let Field { name, conversion, spec } = parts(text)?;
    let value = &*found(name, metadata)?;
    let spec = render(spec, metadata, depth - 1)?;
    known(conversion)?;
    match conversion {
        None => formatted(value, &spec),
        Some('r') => Spec::parse(&spec)?.text(&repr(value, false)),
        Some('a') => Spec::parse(&spec)?.text(&repr(value, true)),
        Some(_) => Spec::parse(&spec)?.text(&text_of(value)),
    }
}

/// The key of the metadata that a field begins with, and what follows it.
fn key_of(name: &str) -> Made<(&str, &str)> {
    let (first, rest) = name.split_at(name.find(['.', '[']).unwrap_or(name.len()));
    if first.is_empty() || first.bytes().all(|byte| byte.is_ascii_digit()) {
        return wrong(format!("the field {{{name}}} has no name: name a key of the metadata, as in {{speaker}}"));
    }
    Ok((first, rest))
}

/// Goes through the indexes after a field's key.
fn indexes(name: &str, mut rest: &str, each: &mut dyn FnMut(&str) -> Made<()>) -> Made<()> {
    while let Some(after) = rest.strip_prefix('[') {
        let Some((index, after)) = after.split_once(']') else { return wrong(format!("']' is missing in the field {{{name}}}")) };
        if index.is_empty() {
            return wrong(format!("an index of the field {{{name}}} is empty"));
        }
        each(index)?;
        rest = after;
    }
    match rest.chars().next() {
        None => Ok(()),
        Some('.') => wrong(format!("the field {{{name}}} asks for an attribute: use keys, as in {{speaker[age]}}")),
        Some(_) => wrong(format!("only '[' may follow ']' in the field {{{name}}}")),
    }
}

/// What a field names.
fn found<'a>(name: &str, metadata: &'a Value) -> Made<Cow<'a, Value>> {
    let (first, rest) = key_of(name)?;
    let mut value = Cow::Borrowed(metadata.get(first).ok_or_else(|| Wrong::Key(first.to_owned()))?);
    indexes(name, rest, &mut |index| {
        let number = index.bytes().all(|byte| byte.is_ascii_digit()).then(|| index.parse::<usize>().unwrap_or(usize::MAX));
        let inner = match (&*value, number) {
            // Python takes digits for a number, which is no key of JSON's.
            (Value::Object(object), None) => object.get(index).ok_or_else(|| Wrong::Key(index.to_owned()))?.clone(),
            (Value::Object(_), Some(_)) => return Err(Wrong::Key(index.to_owned())),
            (Value::Array(items), Some(at)) => match items.get(at) {
                Some(item) => item.clone(),
                None => return wrong(format!("the field {{{name}}} asks for item {at} of {}", items.len())),
            },
            (Value::String(text), Some(at)) => match text.chars().nth(at) {
                Some(c) => Value::String(c.into()),
                None => return wrong(format!("the field {{{name}}} asks for character {at} of {text:?}")),
            },
            _ => return wrong(format!("the field {{{name}}} asks for an item of what has none of this kind")),
        };
        value = Cow::Owned(inner);
        Ok(())
    })?;
    Ok(value)
}

/// As Python's `format` does.
fn formatted(value: &Value, spec: &str) -> Made<String> {
    match value {
        Value::String(text) => Spec::parse(spec)?.text(text),
        _ if spec.is_empty() => Ok(text_of(value)),
        Value::Number(number) => number::formatted(&number.to_string(), &Spec::parse(spec)?),
        Value::Bool(truth) => number::formatted(if *truth { "1" } else { "0" }, &Spec::parse(spec)?),
        Value::Null => wrong("None takes no format"),
        Value::Array(_) => wrong("a list takes no format"),
        Value::Object(_) => wrong("a dict takes no format"),
    }
}

/// As Python's `str` does.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => repr(other, false),
    }
}

/// As Python's `repr` does, or `ascii`.
fn repr(value: &Value, ascii: bool) -> String {
    let listed = |items: Vec<String>, open: char, close: char| format!("{open}{}{close}", items.join(", "));
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => quoted(text, ascii),
        Value::Array(items) => listed(items.iter().map(|item| repr(item, ascii)).collect(), '[', ']'),
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| format!("{}: {}", quoted(key, ascii), repr(value, ascii)));
            listed(members.collect(), '{', '}')
        }
    }
}

fn quoted(text: &str, ascii: bool) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if c == quote => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            _ if !ascii && is_printable(c) => out.push(c),
            _ => out.push_str(&match u32::from(c) {
                n @ ..=0xff => format!("\\x{n:02x}"),
                n @ ..=0xffff => format!("\\u{n:04x}"),
                n => format!("\\U{n:08x}"),
            }),
        }
    }
    out.push(quote);
    out
}

fn is_printable(c: char) -> bool {
    // Not as a text's first character, where combining ones are escaped too.
    format!("a{c}").escape_debug().count() == 2
}
