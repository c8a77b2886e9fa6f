//! A reader that walks through JSON text, for documents of a known shape.

use super::number::Number;
use super::{Json, Limits, MAX_DEPTH};
use crate::error::{FormatError, Result};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Reads JSON text value by value: the caller asks for what should come next.
///
/// Keys that come twice in one object, NaN and infinities, and what is over the limits are errors, also in what is passed over.
///
/// ```
/// use sigbank_format::model::json::{Limits, Parser};
/// let mut parser = Parser::new(br#"{"id": "a", "more": [1, 2], "n": 3}"#, &Limits::default())?;
/// let (mut id, mut n) = (String::new(), 0);
/// parser.object(|p, key| match &*key {
///     "id" => Ok(id = p.string()?.into_owned()),
///     "n" => Ok(n = p.unsigned()?),
///     _ => p.skip(),
/// })?;
/// parser.finish()?;
/// assert_eq!((id.as_str(), n), ("a", 3));
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
#[derive(Debug)]
pub struct Parser<'a> {
    text: &'a str,
    at: usize,
    /// Of the value that is being read; 0 outside.
    depth: usize,
    nodes: usize,
    max_depth: usize,
    max_nodes: usize,
    /// Whether what was read since this was set is in the form that [`Json`] has.
    canonical: bool,
    /// The keys of the objects that are being read, the innermost last.
    keys: Vec<Cow<'a, str>>,
}

impl<'a> Parser<'a> {
    /// A reader of a document.
    ///
    /// # Errors
    /// Limit where the text is too long, Corrupt where it is not UTF-8.
    pub fn new(text: &'a [u8], limits: &Limits) -> Result<Self> {
        if text.len() as u64 > limits.max_bytes {
            return Err(FormatError::limit(format!("{} bytes of JSON (at most {} are read)", text.len(), limits.max_bytes)));
        }
        let text = std::str::from_utf8(text)
            .map_err(|e| FormatError::corrupt(format!("not JSON: no UTF-8 at byte {}", e.valid_up_to())))?;
        let mut parser = Self::unlimited(text);
        (parser.max_depth, parser.max_nodes) = (limits.max_depth.min(MAX_DEPTH), limits.max_nodes);
        Ok(parser)
    }

    /// A reader of text that was read before.
    pub(super) fn unlimited(text: &'a str) -> Self {
        let (max_depth, max_nodes) = (MAX_DEPTH, usize::MAX);
        Self { text, at: 0, depth: 0, nodes: 0, max_depth, max_nodes, canonical: true, keys: Vec::with_capacity(16) }
    }

    fn wrong(&self, expected: &str) -> FormatError {
        let found = match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(c) => format!("{c:?}"),
            None => "the end".into(),
        };
        FormatError::corrupt(format!("not the JSON that belongs here: expected {expected} at byte {}, found {found}", self.at))
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The first byte of what comes next, behind any space.
    fn next(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.byte() {
            self.at += 1;
            self.canonical = false;
        }
        self.byte()
    }

    /// Begins a value: its first byte.
    fn begin(&mut self) -> Result<Option<u8>> {
        self.nodes += 1;
        if self.nodes > self.max_nodes {
            return Err(FormatError::limit(format!("JSON of more than {} values (max_json_nodes)", self.max_nodes)));
        }
        if self.depth >= self.max_depth {
            return Err(FormatError::limit(format!("JSON nested more than {} deep (max_json_depth)", self.max_depth)));
        }
        Ok(self.next())
    }

    /// The first byte of the value that comes next, which tells its kind; none at the end of the text.
    pub fn peek(&mut self) -> Option<u8> {
        self.next()
    }

    /// Reads `null` where it comes next, else nothing.
    ///
    /// # Errors
    /// Corrupt for another word with `n`.
    pub fn null(&mut self) -> Result<bool> {
        if self.next() != Some(b'n') {
            return Ok(false);
        }
        self.begin()?;
        self.word("null").map(|()| true)
    }

    /// Reads `true` or `false`.
    ///
    /// # Errors
    /// Corrupt for anything else.
    pub fn boolean(&mut self) -> Result<bool> {
        match self.begin()? {
            Some(b't') => self.word("true").map(|()| true),
            Some(b'f') => self.word("false").map(|()| false),
            _ => Err(self.wrong("true or false")),
        }
    }

    fn word(&mut self, word: &str) -> Result<()> {
        if !self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            return Err(self.wrong(word));
        }
        self.at += word.len();
        Ok(())
    }

    /// Reads a string, borrowed where it has no escapes.
    ///
    /// # Errors
    /// Corrupt for anything else, unknown escapes, control characters, and halves of surrogate pairs.
    pub fn string(&mut self) -> Result<Cow<'a, str>> {
        match self.begin()? {
            Some(b'"') => self.quoted(),
            _ => Err(self.wrong("a string")),
        }
    }

    /// A string, at its first quote.
    fn quoted(&mut self) -> Result<Cow<'a, str>> {
        self.at += 1;
        let mut owned = String::new();
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let plain = rest.bytes().position(|b| b < 0x20 || matches!(b, b'"' | b'\\'));
            let run = rest.get(..plain.unwrap_or(rest.len())).unwrap_or_default();
            self.at += run.len();
            match self.byte() {
                Some(b'"') => {
                    self.at += 1;
                    if owned.is_empty() {
                        return Ok(Cow::Borrowed(run));
                    }
                    owned.push_str(run);
                    return Ok(Cow::Owned(owned));
                }
                Some(b'\\') => {
                    owned.push_str(run);
                    let start = self.at;
                    let c = self.escape()?;
                    owned.push(c);
                    self.canonical &= c < '\u{20}' || matches!(c, '"' | '\\');
                    if self.canonical {
                        let mut written = String::new();
                        super::write_string(c.encode_utf8(&mut [0; 4]), &mut written);
                        self.canonical = self.text.get(start..self.at) == written.get(1..written.len() - 1);
                    }
                }
                Some(_) => return Err(self.wrong("no control character in a string")),
                None => return Err(self.wrong("the string's last quote")),
            }
        }
    }

    /// A character behind a backslash, at the backslash.
    fn escape(&mut self) -> Result<char> {
        self.at += 1;
        let c = match self.byte() {
            Some(b @ (b'"' | b'\\' | b'/')) => char::from(b),
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'u') => return self.unicode(),
            _ => return Err(self.wrong("a known escape")),
        };
        self.at += 1;
        Ok(c)
    }

    /// The character of `uXXXX`, or of a pair of those, at the `u`.
    fn unicode(&mut self) -> Result<char> {
        let high = self.hex4()?;
        let code = match high {
            0xd800..=0xdbff if self.text.get(self.at..).is_some_and(|rest| rest.starts_with("\\u")) => {
                self.at += 1;
                match self.hex4()? {
                    low @ 0xdc00..=0xdfff => 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00),
                    _ => high,
                }
            }
            _ => high,
        };
        char::from_u32(code).ok_or_else(|| self.wrong("both halves of a surrogate pair, which only together are a character,"))
    }

    fn hex4(&mut self) -> Result<u32> {
        let digits = self.text.get(self.at + 1..self.at + 5).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = digits.and_then(|d| u32::from_str_radix(d, 16).ok());
        self.at += 5;
        code.ok_or_else(|| {
            self.at -= 4;
            self.wrong("four hexadecimal digits")
        })
    }

    /// Reads a number.
    ///
    /// # Errors
    /// Corrupt for anything else, also for numbers that are not finite; Limit for an integer of too many digits.
    pub fn number(&mut self) -> Result<Number<'a>> {
        self.begin()?;
        let start = self.at;
        self.at += usize::from(self.byte() == Some(b'-'));
        let zero = self.byte() == Some(b'0');
        match self.digits() {
            0 => return Err(self.wrong("a number")),
            1 => {}
            _ if zero => return Err(FormatError::corrupt(format!("not JSON: a number at byte {start} begins with 0"))),
            _ => {}
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            if self.digits() == 0 {
                return Err(self.wrong("a digit behind the point"));
            }
        }
        if let Some(b'e' | b'E') = self.byte() {
            self.at += 1;
            self.at += usize::from(matches!(self.byte(), Some(b'+' | b'-')));
            if self.digits() == 0 {
                return Err(self.wrong("a digit of the exponent"));
            }
        }
        let text = self.text.get(start..self.at).unwrap_or_default();
        let number = Number::from_text(text)?;
        self.canonical = self.canonical && number.is_written_as(text);
        Ok(number)
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.byte().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    /// Reads an integer from 0 to 2**64 - 1.
    ///
    /// # Errors
    /// Corrupt for anything else, also for 1.0.
    pub fn unsigned(&mut self) -> Result<u64> {
        let at = self.at;
        let wrong = |found: String| FormatError::corrupt(format!("expected a nonnegative integer at byte {at}, found {found}"));
        match self.number()? {
            Number::Integer(digits) => digits.parse().map_err(|_| wrong(digits.into_owned())),
            Number::Float(x) => Err(wrong(format!("{x:?}"))),
        }
    }

    /// Reads a list: `item` is called at each element and must read it.
    ///
    /// # Errors
    /// Corrupt for anything else; those of `item`.
    pub fn array(&mut self, mut item: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        if self.begin()? != Some(b'[') {
            return Err(self.wrong("a list"));
        }
        self.at += 1;
        self.depth += 1;
        if self.next() == Some(b']') {
            self.at += 1;
        } else {
            loop {
                item(self)?;
                match self.next() {
                    Some(b',') => self.at += 1,
                    Some(b']') => break self.at += 1,
                    _ => return Err(self.wrong("',' or ']'")),
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Reads an object: `member` is called with each key and must read its value.
    ///
    /// # Errors
    /// Corrupt for anything else, and for a key that comes twice; those of `member`.
    pub fn object(&mut self, mut member: impl FnMut(&mut Self, Cow<'a, str>) -> Result<()>) -> Result<()> {
        if self.begin()? != Some(b'{') {
            return Err(self.wrong("an object"));
        }
        self.at += 1;
        self.depth += 1;
        let base = self.keys.len();
        let mut sorted = true;
        if self.next() == Some(b'}') {
            self.at += 1;
        } else {
            loop {
                if self.next() != Some(b'"') {
                    return Err(self.wrong("a key in double quotes"));
                }
                let key = self.quoted()?;
                if self.next() != Some(b':') {
                    return Err(self.wrong("':'"));
                }
                self.at += 1;
                sorted &= self.keys.get(base..).and_then(<[_]>::last).is_none_or(|last| *last < key);
                self.keys.push(key.clone());
                member(self, key)?;
                match self.next() {
                    Some(b',') => self.at += 1,
                    Some(b'}') => break self.at += 1,
                    _ => return Err(self.wrong("',' or '}'")),
                }
            }
        }
        self.depth -= 1;
        if !sorted {
            self.canonical = false;
            let keys = self.keys.get_mut(base..).unwrap_or_default();
            keys.sort_unstable();
            if let Some((key, _)) = keys.iter().zip(keys.iter().skip(1)).find(|(a, b)| a == b) {
                return Err(FormatError::corrupt(format!("the key {key:?} comes twice in one JSON object")));
            }
        }
        self.keys.truncate(base);
        Ok(())
    }

    /// Passes over a value, which is checked.
    ///
    /// # Errors
    /// Those of reading it.
    pub fn skip(&mut self) -> Result<()> {
        match self.next() {
            Some(b'{') => self.object(|p, _| p.skip()),
            Some(b'[') => self.array(Self::skip),
            Some(b'"') => self.string().map(drop),
            Some(b't' | b'f') => self.boolean().map(drop),
            Some(b'n') => self.null().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number().map(drop),
            _ => Err(self.wrong("a value")),
        }
    }

    /// Reads a value of any kind as its text.
    ///
    /// # Errors
    /// Those of reading it.
    pub fn json(&mut self) -> Result<Json> {
        self.next();
        let outside = std::mem::replace(&mut self.canonical, true);
        let start = self.at;
        self.skip()?;
        let text = self.text.get(start..self.at).unwrap_or_default();
        let canonical = self.canonical;
        self.canonical &= outside;
        if canonical { Ok(Json::canonical(text)) } else { Json::from_value(&Parser::unlimited(text).value()?) }
    }

    /// Reads a value of any kind as a tree.
    ///
    /// # Errors
    /// Those of reading it.
    pub fn value(&mut self) -> Result<Value> {
        Ok(match self.next() {
            Some(b'{') => {
                let mut members = Map::new();
                self.object(|p, key| {
                    let value = p.value()?;
                    members.insert(key.into_owned(), value);
                    Ok(())
                })?;
                Value::Object(members)
            }
            Some(b'[') => {
                let mut items = Vec::new();
                self.array(|p| {
                    items.push(p.value()?);
                    Ok(())
                })?;
                Value::Array(items)
            }
            Some(b'"') => Value::String(self.string()?.into_owned()),
            Some(b't' | b'f') => Value::Bool(self.boolean()?),
            Some(b'n') => self.null().map(|_| Value::Null)?,
            _ => {
                let mut text = String::new();
                self.number()?.write(&mut text);
                let number = text.parse().map_err(|e| FormatError::corrupt(format!("the number {text}: {e}")))?;
                Value::Number(number)
            }
        })
    }

    /// Ends the reading: nothing but space may follow.
    ///
    /// # Errors
    /// Corrupt where something does.
    pub fn finish(mut self) -> Result<()> {
        match self.next() {
            None => Ok(()),
            Some(_) => Err(self.wrong("the end")),
        }
    }
}
