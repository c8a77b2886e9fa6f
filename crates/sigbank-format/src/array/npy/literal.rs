//! A strict parser of the Python literals in npy headers: strings, integers, booleans, None, tuples, lists and dicts.

use crate::error::{FormatError, Result};
use std::fmt;
use std::iter::Peekable;
use std::str::Chars;

/// Deepest nesting that is read.
const MAX_DEPTH: usize = 32;

/// A Python literal.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    Str(String),
    Int(i128),
    Bool(bool),
    None,
    Tuple(Vec<Literal>),
    List(Vec<Literal>),
    Dict(Vec<(Literal, Literal)>),
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, items: &[Literal]| {
            items.iter().enumerate().try_for_each(|(i, item)| write!(f, "{}{item}", if i > 0 { ", " } else { "" }))
        };
        match self {
            Literal::Str(s) => write!(f, "'{s}'"),
            Literal::Int(n) => write!(f, "{n}"),
            Literal::Bool(b) => f.write_str(if *b { "True" } else { "False" }),
            Literal::None => f.write_str("None"),
            Literal::Tuple(items) => {
                f.write_str("(")?;
                list(f, items)?;
                f.write_str(if items.len() == 1 { ",)" } else { ")" })
            }
            Literal::List(items) => {
                f.write_str("[")?;
                list(f, items)?;
                f.write_str("]")
            }
            Literal::Dict(items) => {
                f.write_str("{")?;
                items.iter().try_for_each(|(k, v)| write!(f, "{k}: {v}, "))?;
                f.write_str("}")
            }
        }
    }
}

/// Reads a text that is one literal and nothing else but white space around it.
pub(super) fn parse(text: &str) -> Result<Literal> {
    let mut parser = Parser { rest: text.chars().peekable() };
    let value = parser.value(0)?;
    match parser.next_token() {
        None => Ok(value),
        Some(c) => Err(wrong(format!("'{c}' after its end"))),
    }
}

fn wrong(what: impl fmt::Display) -> FormatError {
    FormatError::corrupt(format!("the npy header is no Python literal: {what}"))
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
}

impl Parser<'_> {
    /// The next character that is no white space, not taken.
    fn next_token(&mut self) -> Option<char> {
        while self.rest.next_if(|c| matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0c')).is_some() {}
        self.rest.peek().copied()
    }
    fn take(&mut self, wanted: char) -> bool {
        self.next_token() == Some(wanted) && self.rest.next().is_some()
    }
    fn value(&mut self, depth: usize) -> Result<Literal> {
        if depth > MAX_DEPTH {
            return Err(wrong(format!("nested deeper than {MAX_DEPTH}")));
        }
        match self.next_token() {
            Some(quote @ ('\'' | '"')) => self.string(quote),
            Some(c) if c.is_ascii_digit() || c == '-' => self.integer(),
            Some(c) if c.is_ascii_alphabetic() => self.word(),
            Some('(') => self.tuple(depth),
            Some('[') => {
                self.rest.next();
                Ok(Literal::List(self.items(']', depth)?.0))
            }
            Some('{') => self.dict(depth),
            Some(c) => Err(wrong(format!("'{c}' where a value belongs"))),
            None => Err(wrong("it ends where a value belongs")),
        }
    }
    fn string(&mut self, quote: char) -> Result<Literal> {
        self.rest.next();
        let mut text = String::new();
        loop {
            match self.rest.next() {
                Some(c) if c == quote => return Ok(Literal::Str(text)),
                Some('\\') => text.push(self.escaped()?),
                Some('\n') | None => return Err(wrong("a string without its end")),
                Some(c) => text.push(c),
            }
        }
    }
    fn escaped(&mut self) -> Result<char> {
        let digits = match self.rest.next() {
            Some(c @ ('\\' | '\'' | '"')) => return Ok(c),
            Some('n') => return Ok('\n'),
            Some('r') => return Ok('\r'),
            Some('t') => return Ok('\t'),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            _ => return Err(wrong("an unknown escape in a string")),
        };
        let code: String = self.rest.by_ref().take(digits).collect();
        let known = code.len() == digits && code.bytes().all(|b| b.is_ascii_hexdigit());
        let value = known.then(|| u32::from_str_radix(&code, 16).ok()).flatten();
        value.and_then(char::from_u32).ok_or_else(|| wrong("an impossible escape in a string"))
    }
    fn integer(&mut self) -> Result<Literal> {
        let mut digits = String::new();
        while let Some(c) = self.rest.next_if(|c| c.is_ascii_digit() || (*c == '-' && digits.is_empty())) {
            digits.push(c);
        }
        // Python 2 wrote long integers with an L.
        self.rest.next_if_eq(&'L');
        if self.rest.peek().is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '_')) {
            return Err(wrong(format!("'{digits}' is followed by what belongs to no integer")));
        }
        let padded = digits.trim_start_matches('-');
        if padded.len() > 1 && padded.starts_with('0') {
            return Err(wrong(format!("the integer {digits} has leading zeros")));
        }
        digits.parse().map(Literal::Int).map_err(|_| wrong(format!("'{digits}' is no integer that can be meant")))
    }
    fn word(&mut self) -> Result<Literal> {
        let mut word = String::new();
        while let Some(c) = self.rest.next_if(|c| c.is_alphanumeric() || *c == '_') {
            word.push(c);
        }
        match word.as_str() {
            "True" => Ok(Literal::Bool(true)),
            "False" => Ok(Literal::Bool(false)),
            "None" => Ok(Literal::None),
            _ => Err(wrong(format!("'{word}' where a value belongs"))),
        }
    }
    /// A tuple, or one value in parentheses.
    fn tuple(&mut self, depth: usize) -> Result<Literal> {
        self.rest.next();
        let (mut items, trailing_comma) = self.items(')', depth)?;
        match items.len() {
            1 if !trailing_comma => Ok(items.pop().unwrap_or(Literal::None)),
            _ => Ok(Literal::Tuple(items)),
        }
    }
    /// Values up to a closing bracket, and whether a comma stood before it.
    fn items(&mut self, close: char, depth: usize) -> Result<(Vec<Literal>, bool)> {
        let mut items = Vec::new();
        let mut comma = true;
        loop {
            if self.take(close) {
                return Ok((items, comma));
            }
            if !comma {
                return Err(wrong(format!("a comma or '{close}' is missing")));
            }
            items.push(self.value(depth + 1)?);
            comma = self.take(',');
        }
    }
    fn dict(&mut self, depth: usize) -> Result<Literal> {
        self.rest.next();
        let mut entries = Vec::new();
        let mut comma = true;
        loop {
            if self.take('}') {
                return Ok(Literal::Dict(entries));
            }
            if !comma {
                return Err(wrong("a comma or '}' is missing"));
            }
            let key = self.value(depth + 1)?;
            if !self.take(':') {
                return Err(wrong("a ':' is missing after a key"));
            }
            entries.push((key, self.value(depth + 1)?));
            comma = self.take(',');
        }
    }
}
