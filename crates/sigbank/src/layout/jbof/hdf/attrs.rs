//! Metadata as attributes. What attributes cannot hold stands in one text attribute of JSON.

use crate::error::{Error, Result};
use crate::layout::jbof::documents::{self, KEPT, Word};
use hdf5_pure::{AttrValue, Datatype};
use serde_json::{Map, Number, Value};
use std::collections::{BTreeSet, HashMap};

use super::types::is_bool;

/// The text attribute: an object of the keys that no other attribute holds, or not exactly. Its name is a key that metadata never have.
pub(super) const REST: &str = KEPT;
/// Longest attribute that is written as such: behind its message's header, it fits into 64 KiB.
const MOST: usize = 60_000;

/// Attributes that belong to HDF5's dimension scales, and hold no one's metadata.
const BOOKKEEPING: [&str; 4] = ["CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST"];

/// The attributes that hold the members of a document, and those of `rest` in the text.
pub(super) fn of_members(members: Map<String, Value>, mut rest: Map<String, Value>) -> Result<Vec<(String, AttrValue)>> {
    let mut attributes = Vec::new();
    for (key, value) in members {
        let nameable = !key.is_empty() && !key.contains('\0') && key.len() < MOST;
        match attribute(&value).filter(|_| nameable) {
            Some(held) => {
                if matches!(value, Value::Bool(_)) {
                    rest.insert(key.clone(), value);
                }
                attributes.push((key, held));
            }
            None => {
                rest.insert(key, value);
            }
        }
    }
    if !rest.is_empty() {
        attributes.push((REST.to_owned(), AttrValue::VarLenString(documents::compact(Value::Object(rest))?)));
    }
    Ok(attributes)
}

/// The attribute of a value; none where HDF5 has none for it. That of a bool is a number.
fn attribute(value: &Value) -> Option<AttrValue> {
    match value {
        Value::Bool(truth) => Some(AttrValue::I8(i8::from(*truth))),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(small), _) => Some(AttrValue::I64(small)),
            (_, Some(large)) => Some(AttrValue::U64(large)),
            _ => float(value).map(AttrValue::F64),
        },
        Value::String(text) => match Word::of(text) {
            Some(word) => Some(AttrValue::F64(word.number())),
            None => (!text.contains('\0')).then(|| AttrValue::VarLenString(text.clone())),
        },
        Value::Array(values) if !values.is_empty() && values.len() <= MOST / 16 => {
            let all_ints = values.iter().map(Value::as_i64).collect::<Option<Vec<_>>>();
            let all_floats = || values.iter().map(float).collect::<Option<Vec<_>>>();
            let text = |value: &Value| match value {
                Value::String(text) if Word::of(text).is_none() && !text.contains('\0') => Some(text.clone()),
                _ => None,
            };
            let all_texts = || values.iter().map(text).collect::<Option<Vec<_>>>();
            all_ints
                .map(AttrValue::I64Array)
                .or_else(|| all_floats().map(AttrValue::F64Array))
                .or_else(|| all_texts().map(AttrValue::VarLenStringArray))
        }
        _ => None,
    }
}

/// The number that is written with a point or an exponent, or as a word.
fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) if number.as_i64().is_none() && number.to_string().contains(['.', 'e', 'E']) => {
            number.as_f64().filter(|number| number.is_finite())
        }
        Value::String(text) => Word::of(text).map(Word::number),
        _ => None,
    }
}

/// The members that attributes hold.
///
/// # Errors
/// `Unsupported` for an attribute that JSON has nothing for; `Corrupt` for a damaged text attribute.
pub(super) fn to_members(
    attributes: &HashMap<String, AttrValue>,
    datatypes: &HashMap<String, Datatype>,
) -> Result<Map<String, Value>> {
    let names: BTreeSet<&String> = datatypes.keys().chain(attributes.keys()).collect();
    let mut members = Map::new();
    let mut rest = None;
    for name in names {
        let held = attributes.get(name);
        if name == REST {
            rest = held.and_then(AttrValue::as_str);
            continue;
        }
        let truth = datatypes.get(name).is_some_and(is_bool);
        match held.and_then(|held| value(held, truth)) {
            Some(value) => {
                members.insert(name.clone(), value);
            }
            None if BOOKKEEPING.contains(&name.as_str()) => {}
            None => {
                let what = match datatypes.get(name) {
                    Some(Datatype::Compound { .. }) => "a compound",
                    Some(Datatype::Reference { .. }) => "a reference",
                    _ => "of a type that JSON has nothing for",
                };
                return Err(Error::unsupported(format!("the attribute {name:?} is {what}, which metadata cannot hold"))
                    .remedy("store it as a number, a text or a list of such, or as an array"));
            }
        }
    }
    if let Some(rest) = rest {
        members.extend(documents::with_words(rest.as_bytes()).map_err(|e| e.within(format!("the attribute {REST:?}")))?);
    }
    Ok(members)
}

fn value(held: &AttrValue, truth: bool) -> Option<Value> {
    let several = held.type_name().ends_with("[]");
    if let Some(text) = held.as_str().filter(|_| !several) {
        return Some(Value::String(text.to_owned()));
    }
    if let Some(texts) = held.as_strings() {
        return Some(texts.iter().map(|text| Value::String(text.clone())).collect());
    }
    let values: Vec<Value> = match held {
        AttrValue::F32(_) | AttrValue::F32Array(_) | AttrValue::F64(_) | AttrValue::F64Array(_) => {
            floats(held)?.into_iter().map(of_float).collect()
        }
        _ => match held.to_i64s().or_else(|| held.as_i64().map(|one| vec![one])) {
            Some(ints) if truth => ints.into_iter().map(|n| Value::Bool(n != 0)).collect(),
            Some(ints) => ints.into_iter().map(Value::from).collect(),
            None => held.to_u64s().or_else(|| held.as_u64().map(|one| vec![one]))?.into_iter().map(Value::from).collect(),
        },
    };
    if several { Some(Value::Array(values)) } else { values.into_iter().next() }
}

fn floats(held: &AttrValue) -> Option<Vec<f64>> {
    held.to_f64s().or_else(|| held.as_f64().map(|one| vec![one]))
}

fn of_float(number: f64) -> Value {
    match Number::from_f64(number) {
        Some(number) => Value::Number(number),
        None => Value::String(Word::of_number(number).marker().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_back() {
        let text = r#"{"":1,"a/b":[1,2],"b":true,"bs":[true],"d":{"x":[NaN]},"e":[],"f":1.5,"fs":[1.5,-Infinity],"i":-3,
            "l":[1,2.5],"big":123456789012345678901234567890,"u":18446744073709551615,"n":null,"nan":NaN,"s":"é","z":"a\u0000b","t":["x",""],"one":[7]}"#;
        let members = documents::with_words(text.as_bytes()).unwrap();
        let attributes = of_members(members.clone(), Map::new()).unwrap();
        let rest = attributes.iter().find(|(name, _)| name == REST).and_then(|(_, value)| value.as_str()).unwrap();
        assert_eq!(
            rest,
            r#"{"":1,"b":true,"big":123456789012345678901234567890,"bs":[true],"d":{"x":[NaN]},"e":[],"l":[1,2.5],"n":null,"z":"a\u0000b"}"#
        );
        let back = to_members(&attributes.into_iter().collect(), &HashMap::new()).unwrap();
        assert_eq!(documents::compact(Value::Object(back)).unwrap(), documents::compact(Value::Object(members)).unwrap());
    }

    #[test]
    fn what_is_too_long_for_an_attribute_is_in_the_text() {
        let members = documents::with_words(format!("{{\"l\":[{}1]}}", "1,".repeat(20_000)).as_bytes()).unwrap();
        let attributes = of_members(members, Map::new()).unwrap();
        assert_eq!(attributes.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), [REST]);
    }
}
