//! Values of metadata, and how they compare.

use sigbank_format::error::FormatError;
use sigbank_format::model::json::{Json, Number, Parser};
use std::borrow::Cow;
use std::cmp::Ordering;

/// A value as expressions see it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar<'a> {
    /// The record does not have it.
    Missing,
    Null,
    Bool(bool),
    Int(i64),
    /// The digits of an integer that no i64 holds.
    Big(Cow<'a, str>),
    /// Finite.
    Float(f64),
    Text(Cow<'a, str>),
    /// The text of a list or an object.
    Nested(Cow<'a, str>),
}

impl<'a> Scalar<'a> {
    /// Reads the value that comes next.
    pub(super) fn read(parser: &mut Parser<'a>) -> Result<Self, FormatError> {
        Ok(match parser.peek() {
            Some(b'"') => Self::Text(parser.string()?),
            Some(b't' | b'f') => Self::Bool(parser.boolean()?),
            Some(b'n') => parser.null().map(|_| Self::Null)?,
            Some(b'{' | b'[') => Self::Nested(Cow::Owned(parser.json()?.as_str().to_owned())),
            _ => Self::number(parser.number()?),
        })
    }
    fn number(number: Number<'a>) -> Self {
        match number {
            Number::Float(x) => Self::Float(x),
            Number::Integer(digits) => match digits.parse() {
                Ok(small) => Self::Int(small),
                Err(_) => Self::Big(digits),
            },
        }
    }
    /// The value of a JSON text.
    pub(super) fn of(json: &'a Json) -> Self {
        Self::read(&mut json.walk()).unwrap_or(Self::Missing)
    }
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Missing)
    }
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
    /// The elements of a list.
    pub(super) fn elements(&self) -> Option<Vec<Json>> {
        let Self::Nested(text) = self else { return None };
        let mut found = Vec::new();
        let json = Json::parse(text.as_bytes(), &Default::default()).ok()?;
        json.walk().array(|parser| parser.json().map(|json| found.push(json))).ok()?;
        Some(found)
    }
}

/// Whether two values are equal, as Python's `==` has it: 1, 1.0 and true are. What is missing is equal to nothing.
pub(super) fn equal(a: &Scalar<'_>, b: &Scalar<'_>) -> bool {
    match (a, b) {
        (Scalar::Missing, _) | (_, Scalar::Missing) => false,
        (Scalar::Null, Scalar::Null) => true,
        (Scalar::Nested(a), Scalar::Nested(b)) => {
            let parse = |text: &str| Json::parse(text.as_bytes(), &Default::default());
            a == b || matches!((parse(a), parse(b)), (Ok(a), Ok(b)) if a.equals(&b))
        }
        _ => order(a, b) == Some(Ordering::Equal),
    }
}

/// Which of two numbers (true is 1, false is 0) or of two texts comes first; none for values of different kinds.
pub(super) fn order(a: &Scalar<'_>, b: &Scalar<'_>) -> Option<Ordering> {
    use Scalar::{Big, Bool, Float, Int, Text};
    let whole = |b: bool| Int(i64::from(b));
    match (a, b) {
        (Text(a), Text(b)) => Some(a.cmp(b)),
        (Int(a), Int(b)) => Some(a.cmp(b)),
        (Float(a), Float(b)) => a.partial_cmp(b),
        (Int(a), Float(b)) => exact(*a, *b),
        (Float(a), Int(b)) => exact(*b, *a).map(Ordering::reverse),
        (Bool(a), b) => order(&whole(*a), b),
        (a, Bool(b)) => order(a, &whole(*b)),
        (Big(a), Big(b)) => Some(digits(a, b)),
        (Big(a), Int(_)) => Some(sign(a)),
        (Int(_), Big(b)) => Some(sign(b).reverse()),
        (Big(a), Float(b)) => big(a, *b),
        (Float(a), Big(b)) => big(b, *a).map(Ordering::reverse),
        _ => None,
    }
}

/// 2**63 as a double.
const BEYOND: f64 = 9_223_372_036_854_775_808.0;

/// An integer against a double, without rounding either.
fn exact(a: i64, b: f64) -> Option<Ordering> {
    match b {
        b if b.is_nan() => None,
        b if b >= BEYOND => Some(Ordering::Less),
        b if b < -BEYOND => Some(Ordering::Greater),
        b => {
            let whole = b.trunc();
            // Within the range of i64, so that nothing is cut off.
            Some(a.cmp(&(whole as i64)).then_with(|| 0.0f64.partial_cmp(&(b - whole)).unwrap_or(Ordering::Equal)))
        }
    }
}

fn sign(big: &str) -> Ordering {
    if big.starts_with('-') { Ordering::Less } else { Ordering::Greater }
}

fn digits(a: &str, b: &str) -> Ordering {
    let size = |a: &str, b: &str| a.len().cmp(&b.len()).then_with(|| a.cmp(b));
    match (a.strip_prefix('-'), b.strip_prefix('-')) {
        (None, None) => size(a, b),
        (Some(a), Some(b)) => size(b, a),
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
    }
}

/// An integer beyond those of i64 against a double.
fn big(a: &str, b: f64) -> Option<Ordering> {
    match b {
        b if b.is_nan() => None,
        b if b == f64::INFINITY => Some(Ordering::Less),
        b if b == f64::NEG_INFINITY => Some(Ordering::Greater),
        b if b.abs() < BEYOND => Some(sign(a)),
        // So large a double is whole, and prints all its digits.
        b => Some(digits(a, &format!("{b:.0}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes(), &Default::default()).unwrap()
    }

    #[test]
    fn numbers_are_compared_exactly() {
        let ascending = [
            "-1e300",
            "-18446744073709551617",
            "-18446744073709551616.0",
            "-9223372036854775809",
            "-9223372036854775808",
            "-2",
            "-1.5",
            "-0.0",
            "0.5",
            "true",
            "1.5",
            "9007199254740992.0",
            "9007199254740993",
            "9223372036854775807",
            "9223372036854775808.0",
            "9223372036854775809",
            "18446744073709551616.0",
            "18446744073709551617",
            "1e300",
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(order(&Scalar::of(&json(a)), &Scalar::of(&json(b))), Some(i.cmp(&j)), "{a} and {b}");
            }
        }
        assert!(
            equal(&Scalar::of(&json("1")), &Scalar::of(&json("true")))
                && !equal(&Scalar::of(&json("\"1\"")), &Scalar::of(&json("1")))
        );
        assert_eq!(order(&Scalar::of(&json("null")), &Scalar::of(&json("null"))), None);
    }

    proptest! {
        #[test]
        fn equality_is_that_of_json(a in crate::query::tests::any_json(), b in crate::query::tests::any_json()) {
            prop_assert_eq!(equal(&Scalar::of(&a), &Scalar::of(&b)), a.equals(&b));
            prop_assert!(equal(&Scalar::of(&a), &Scalar::of(&a.clone())));
        }
    }
}
