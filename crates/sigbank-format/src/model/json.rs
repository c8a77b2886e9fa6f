//! JSON that stays exact: integers of any size, floats as Python's `repr` writes them, one text for one value.
//!
//! `serde_json` is not used for reading here. It lets duplicate keys pass, has no bound on the number of values, and with
//! `arbitrary_precision` takes an object whose only key is its own marker for a number.

mod number;
mod parser;
#[cfg(test)]
mod tests;
mod write;

pub use number::{MAX_INTEGER_DIGITS, Number, write_float};
pub use parser::Parser;
pub use write::write_string;

use crate::error::Result;
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;

/// Deepest nesting that is read whatever the limits say: the reader calls itself for each level.
pub const MAX_DEPTH: usize = 512;

/// How large a JSON document may be.
///
/// ```
/// use sigbank_format::model::json::{Json, Limits};
/// let limits = Limits { max_depth: 2, ..Limits::default() };
/// assert!(Json::parse(b"[1]", &limits).is_ok());
/// assert!(Json::parse(b"[[1]]", &limits).is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of the text.
    pub max_bytes: u64,
    /// Deepest nesting; a number or an empty list alone has depth 1. Not more than [`MAX_DEPTH`] is read in any case.
    pub max_depth: usize,
    /// Most values, counting each list, object and scalar but not the keys.
    pub max_nodes: usize,
}

impl Default for Limits {
    /// 64 MiB, depth 128, a million values.
    fn default() -> Self {
        Self { max_bytes: 64 << 20, max_depth: 128, max_nodes: 1_000_000 }
    }
}

/// A JSON value as its one compact text: keys sorted by code point, no spaces, non-ASCII direct, numbers as Python writes them.
///
/// So two values are equal exactly if their texts are, and writing a value is copying its text.
///
/// ```
/// use sigbank_format::model::json::{Json, Limits};
/// let json = Json::parse(r#"{"rate": 1E6, "id": 123456789012345678901234567890, "gain": 0.0000001}"#.as_bytes(), &Limits::default())?;
/// assert_eq!(json.as_str(), r#"{"gain":1e-07,"id":123456789012345678901234567890,"rate":1000000.0}"#);
/// assert_eq!(Json::from_value(&json.to_value()?)?, json);
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Cow<'static, str>);

impl Json {
    /// `{}`.
    pub const EMPTY: Json = Json(Cow::Borrowed("{}"));
    /// `null`.
    pub const NULL: Json = Json(Cow::Borrowed("null"));

    /// Reads one value from UTF-8 text.
    ///
    /// # Errors
    /// Corrupt: text that is not JSON, duplicate keys, NaN or infinite numbers (as words, or by an exponent too large), half of a
    /// surrogate pair, anything behind the value. Limit: over `limits`, or an integer of more than [`MAX_INTEGER_DIGITS`] digits.
    pub fn parse(text: &[u8], limits: &Limits) -> Result<Self> {
        let mut parser = Parser::new(text, limits)?;
        let json = parser.json()?;
        parser.finish()?;
        Ok(json)
    }

    /// The text of a value.
    ///
    /// # Errors
    /// Invalid for a number that is not finite; Limit for nesting over [`MAX_DEPTH`] or an integer of too many digits.
    pub fn from_value(value: &Value) -> Result<Self> {
        let mut text = String::new();
        write::value(value, 1, &mut text)?;
        Ok(Self(Cow::Owned(text)))
    }

    /// The value as a tree, keys in order of code points.
    ///
    /// # Errors
    /// None for what [`Json::parse`] or [`Json::from_value`] made.
    pub fn to_value(&self) -> Result<Value> {
        Parser::unlimited(self.as_str()).value()
    }

    /// A reader at the value's start, for walking through it without a tree.
    ///
    /// ```
    /// use sigbank_format::model::json::{Json, Limits};
    /// let json = Json::parse(b"[3,4,5]", &Limits::default())?;
    /// let (mut parser, mut sum) = (json.walk(), 0);
    /// parser.array(|p| Ok(sum += p.unsigned()?))?;
    /// assert_eq!(sum, 12);
    /// # Ok::<(), sigbank_format::FormatError>(())
    /// ```
    pub fn walk(&self) -> Parser<'_> {
        Parser::unlimited(self.as_str())
    }

    /// The compact text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is an object.
    pub fn is_object(&self) -> bool {
        self.0.starts_with('{')
    }

    /// The value of a number, rounded to the nearest double; none for anything else and for integers beyond all doubles.
    ///
    /// ```
    /// use sigbank_format::model::json::{Json, Limits};
    /// assert_eq!(Json::parse(b"1e-07", &Limits::default())?.as_f64(), Some(1e-7));
    /// assert_eq!(Json::parse(b"true", &Limits::default())?.as_f64(), None);
    /// # Ok::<(), sigbank_format::FormatError>(())
    /// ```
    pub fn as_f64(&self) -> Option<f64> {
        let number = self.0.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        if number { self.0.parse().ok().filter(|x: &f64| x.is_finite()) } else { None }
    }

    /// How many elements a list has; none for anything else.
    pub fn list_len(&self) -> Option<usize> {
        let mut len = 0;
        let counted = self.walk().array(|p| {
            len += 1;
            p.skip()
        });
        counted.ok().map(|()| len)
    }

    /// Appends the text with an indent of two spaces, as Python's `json.dumps(value, indent=2)` lays it out, without a last line
    /// feed.
    ///
    /// ```
    /// use sigbank_format::model::json::{Json, Limits};
    /// let mut out = String::new();
    /// Json::parse(br#"{"b":[1,{}],"a":"x,y"}"#, &Limits::default())?.write_indented(&mut out);
    /// assert_eq!(out, "{\n  \"a\": \"x,y\",\n  \"b\": [\n    1,\n    {}\n  ]\n}");
    /// # Ok::<(), sigbank_format::FormatError>(())
    /// ```
    pub fn write_indented(&self, out: &mut String) {
        write::indented(self.as_str(), out);
    }

    /// How many bytes the text has with a space after each comma and colon, which is how the reference package measures metadata.
    ///
    /// ```
    /// use sigbank_format::model::json::{Json, Limits};
    /// assert_eq!(Json::parse(br#"{"a":[1,2]}"#, &Limits::default())?.spaced_len(), r#"{"a": [1, 2]}"#.len());
    /// # Ok::<(), sigbank_format::FormatError>(())
    /// ```
    pub fn spaced_len(&self) -> usize {
        write::spaced_len(self.as_str())
    }

    /// Whether Python's `==` takes the two for equal: as numbers, 1, 1.0 and true are.
    ///
    /// ```
    /// use sigbank_format::model::json::{Json, Limits};
    /// let parse = |text: &str| Json::parse(text.as_bytes(), &Limits::default());
    /// assert!(parse("[1,true]")?.equals(&parse("[1.0,1]")?));
    /// assert!(!parse("9007199254740993")?.equals(&parse("9007199254740992.0")?));
    /// # Ok::<(), sigbank_format::FormatError>(())
    /// ```
    pub fn equals(&self, other: &Json) -> bool {
        self == other || matches!((self.to_value(), other.to_value()), (Ok(a), Ok(b)) if number::equal_values(&a, &b))
    }

    /// Text that is known to be in the one form.
    fn canonical(text: &str) -> Self {
        match text {
            "{}" => Self::EMPTY,
            "null" => Self::NULL,
            _ => Self(Cow::Owned(text.to_owned())),
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
