//! Numbers: their texts, and when two are equal.

use crate::error::{FormatError, Result};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt::{self, Write};

/// Most digits of an integer: what Python turns from and into text.
pub const MAX_INTEGER_DIGITS: usize = 4300;

/// A JSON number: with a fraction or an exponent it is a double, else an integer of any size.
#[derive(Debug, Clone, PartialEq)]
pub enum Number<'a> {
    /// The digits, with a `-` where it is negative, and no zeros in front.
    Integer(Cow<'a, str>),
    /// A finite double.
    Float(f64),
}

impl<'a> Number<'a> {
    /// The number that a text of JSON's grammar stands for.
    pub(super) fn from_text(text: &'a str) -> Result<Self> {
        if text.bytes().any(|b| matches!(b, b'.' | b'e' | b'E')) {
            return match text.parse::<f64>() {
                Ok(x) if x.is_finite() => Ok(Number::Float(x)),
                _ => Err(FormatError::corrupt(format!("the number {text} is not finite as a double"))),
            };
        }
        let digits = text.trim_start_matches('-').len();
        if digits > MAX_INTEGER_DIGITS {
            return Err(FormatError::limit(format!(
                "an integer of {digits} digits (at most {MAX_INTEGER_DIGITS} are read): write it as a string"
            )));
        }
        Ok(Number::Integer(Cow::Borrowed(if text == "-0" { "0" } else { text })))
    }

    /// Whether `text`, of which this was read, is as it would be written.
    pub(super) fn is_written_as(&self, text: &str) -> bool {
        match self {
            Number::Integer(digits) => digits.len() == text.len(),
            Number::Float(_) if is_short_and_plain(text) => true,
            Number::Float(x) => {
                let mut written = String::with_capacity(32);
                write_float(*x, &mut written);
                written == text
            }
        }
    }

    pub(super) fn write(&self, out: &mut String) {
        match self {
            Number::Integer(digits) => out.push_str(digits),
            Number::Float(x) => write_float(*x, out),
        }
    }
}

/// Whether a number with a point is surely as `repr` writes it: no two decimals of up to 15 digits are one double, so the shortest digits
/// for its double are its own. Doubts are for [`write_float`].
fn is_short_and_plain(text: &str) -> bool {
    let Some((whole, fraction)) = text.trim_start_matches('-').split_once('.') else { return false };
    let large_enough = whole != "0" || (!fraction.starts_with("000") && !fraction.is_empty());
    let plain = fraction.bytes().all(|b| b.is_ascii_digit()) && (fraction == "0" || !fraction.ends_with('0'));
    whole.len() + fraction.len() <= 15 && large_enough && plain
}

/// Fewer digits than these stand for one double each, and no double lies in the middle of two.
const TIES: usize = 16;

/// Digits and sign of a double in scientific notation: at most `-d.dddddddddddddddde-xxx`.
struct Scientific {
    bytes: [u8; 32],
    len: usize,
}

impl Scientific {
    fn text(&self) -> &str {
        self.bytes.get(..self.len).and_then(|b| std::str::from_utf8(b).ok()).unwrap_or_default()
    }
}

impl Write for Scientific {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let end = self.len + s.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(s.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// Appends a finite double as Python's `repr` does: the shortest digits that stand for it, with an exponent below 1e-4 and
/// from 1e16 on.
///
/// ```
/// use sigbank_format::model::json::write_float;
/// let text = |x| {
///     let mut out = String::new();
///     write_float(x, &mut out);
///     out
/// };
/// assert_eq!([1.0, 1e-7, 1e16, 0.0001, -0.0, 2.5e-5].map(text), ["1.0", "1e-07", "1e+16", "0.0001", "-0.0", "2.5e-05"]);
/// ```
pub fn write_float(x: f64, out: &mut String) {
    let mut buffer = Scientific { bytes: [0; 32], len: 0 };
    let mut fits = write!(buffer, "{:e}", x.abs());
    let digits = buffer.bytes.iter().take_while(|&&b| b != b'e').filter(|b| b.is_ascii_digit()).count();
    // Where the double lies in the middle of two texts that stand for it, Python takes the even digit.
    if digits >= TIES {
        let mut even = Scientific { bytes: [0; 32], len: 0 };
        let written = write!(even, "{:.*e}", digits - 1, x.abs());
        if written.is_ok() && even.text().parse() == Ok(x.abs()) {
            (buffer, fits) = (even, written);
        }
    }
    let Some((mantissa, exponent)) = buffer.text().split_once('e').filter(|_| fits.is_ok()) else { return };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if x.is_sign_negative() {
        out.push('-');
    }
    if !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        // Writing to a String cannot fail.
        let _ = write!(out, "{mantissa}e{sign}{:02}", exponent.unsigned_abs());
        return;
    }
    let digits = mantissa.bytes().filter(|&b| b != b'.').map(char::from);
    if exponent < 0 {
        out.push_str("0.");
        out.extend((1..-exponent).map(|_| '0'));
        out.extend(digits);
        return;
    }
    let (whole, count) = (exponent as usize + 1, mantissa.len() - usize::from(mantissa.len() > 1));
    for (i, digit) in digits.enumerate() {
        if i == whole {
            out.push('.');
        }
        out.push(digit);
    }
    if count <= whole {
        out.extend((count..whole).map(|_| '0'));
        out.push_str(".0");
    }
}

/// Whether Python's `==` takes two values for equal.
pub(super) fn equal_values(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal_values(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal_values(a, b)))
        }
        (Value::Number(_) | Value::Bool(_), Value::Number(_) | Value::Bool(_)) => {
            let (a, b) = (exact(a), exact(b));
            a.is_some() && a == b
        }
        _ => a == b,
    }
}

/// A number or bool as an exact integer where it is one, else as its double.
fn exact(value: &Value) -> Option<(String, f64)> {
    let text = match value {
        Value::Bool(b) => return Some((u8::from(*b).to_string(), 0.0)),
        number => number.to_string(),
    };
    match Number::from_text(&text).ok()? {
        Number::Integer(digits) => Some((digits.into_owned(), 0.0)),
        // A double prints all its digits; -0.0 is 0.
        Number::Float(x) if x.fract() == 0.0 => Some((format!("{:.0}", x + 0.0), 0.0)),
        Number::Float(x) => Some((String::new(), x)),
    }
}
