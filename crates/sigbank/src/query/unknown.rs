//! What an expression asks for that may not be what is meant.

use super::columns::Kind;
use super::expr::{Step, Steps};
use super::records::ANNOTATIONS;
use super::row::value_at;
use super::value::Scalar;
use super::{Expr, Field, Searched, Table, near};
use crate::error::Result;
use crate::layout::signal_dataset::Dataset;
use std::collections::BTreeSet;

/// Records that are looked at, and objects that are enough, to tell that a key has no single values.
const LOOKED_AT: usize = 20_000;
const OBJECTS: usize = 100;
/// Annotation sets that are looked into for a key, and rows of each.
const SETS: usize = 32;
const ROWS: usize = 100;

/// What a name in an expression stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// A key of the metadata.
    Key,
    /// A field.
    Field,
    /// The record's own `id` or `split`.
    Own,
    /// A key whose value is an object, which is equal to no single value.
    Object,
    /// A key whose values are texts, compared with a number, or numbers, compared with a text.
    Kind,
}

/// A name in an expression that may not be what is meant: of a key or field that no record has, of a key that has an object, or the record's own where
/// there is a key of that name too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// The name.
    pub name: String,
    /// What it stands for.
    pub named: Named,
    /// What may be meant; of [`Named::Kind`] what it is compared with.
    pub near: Option<String>,
    /// What is to be said beside it.
    pub hint: Option<String>,
}

impl Unknown {
    /// One without a hint.
    pub fn new(name: &str, named: Named, near: Option<String>) -> Self {
        Self { name: name.to_owned(), named, near, hint: None }
    }
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match self.named {
            Named::Key => "key",
            Named::Field => "field",
            Named::Object => {
                let (name, near) = (&self.name, self.near.as_deref().unwrap_or("KEY"));
                return write!(
                    f,
                    "the key {name:?} has an object, which is equal to no single value: ask for what is in it, such as {near:?}, by metadata[{name:?}][{near:?}]"
                );
            }
            Named::Kind => {
                let (name, other, hint) =
                    (&self.name, self.near.as_deref().unwrap_or_default(), self.hint.as_deref().unwrap_or_default());
                return write!(f, "the key {name:?} is compared with {other}, {hint}");
            }
            Named::Own => {
                let name = &self.name;
                return write!(f, "{name} is the record's own, and the key {name:?} that records have is metadata[{name:?}]");
            }
        };
        write!(f, "no record has the {what} {:?}", self.name)?;
        match (&self.hint, &self.near) {
            (Some(hint), _) => write!(f, ": {hint}"),
            (None, Some(near)) => write!(f, ": did you mean {near:?}?"),
            (None, None) => Ok(()),
        }
    }
}

/// As [`Table::unknown`] of the table of a dataset, with where such a key is otherwise: in an annotation set, among the fields of a Sedpack dataset's
/// examples; and with keys below `annotations.SET` that no record has.
///
/// # Errors
/// Those of [`Table::unknown`], and of reading annotations.
pub fn unknown(table: &Table, expr: &Expr, of: &Searched) -> Result<Vec<Unknown>> {
    let mut found = table.unknown(expr)?;
    match of {
        Searched::Jbof(_) => {}
        Searched::Sedpack(source) => {
            for one in found.iter_mut().filter(|one| one.named == Named::Key && source.schema().position(&one.name).is_some()) {
                one.hint = Some("it is a field of the examples, and only the metadata of shards are searched".into());
            }
        }
        Searched::Signal(dataset) => {
            for one in found.iter_mut().filter(|one| one.named == Named::Key && one.name != ANNOTATIONS) {
                one.hint = annotated(dataset, &one.name)?.map(|path| format!("{path} is one"));
            }
            found.extend(table.unknown_annotations(expr)?);
        }
    }
    Ok(found)
}

/// How a key is asked for that the values of an annotation set have.
fn annotated(dataset: &Dataset, key: &str) -> Result<Option<String>> {
    let catalog = dataset.annotations()?;
    for set in catalog.names().take(SETS) {
        for row in catalog.open(set)?.rows().take(ROWS) {
            if !value_at(row?.values.as_str(), &[Step::Key(key.to_owned())])?.is_missing() {
                let steps = [ANNOTATIONS, set, "values", key].map(|name| Step::Key(name.to_owned()));
                return Ok(Some(Steps(&steps).to_string()));
            }
        }
    }
    Ok(None)
}

impl Table {
    /// What is asked for below the key `annotations`, and no record has.
    fn unknown_annotations(&self, expr: &Expr) -> Result<Vec<Unknown>> {
        let mut found = Vec::new();
        if !self.counted_keys().counts.contains_key(ANNOTATIONS) {
            return Ok(found);
        }
        for path in expr.paths_below(ANNOTATIONS) {
            let mut there = false;
            for row in 0..self.len() {
                there = !value_at(self.metadata(row)?, path)?.is_missing();
                if there {
                    break;
                }
            }
            if let (false, Some((Step::Key(last), above))) = (there, path.split_last()) {
                let mut known = BTreeSet::new();
                for row in 0..self.len().min(ROWS) {
                    if let Scalar::Nested(text) = value_at(self.metadata(row)?, above)?
                        && let Ok(object) = serde_json::from_str::<serde_json::Map<_, serde_json::Value>>(&text)
                    {
                        known.extend(object.into_iter().map(|(key, _)| key));
                    }
                }
                let meant = near(last, known.iter().map(String::as_str)).map(|key| {
                    let steps: Vec<Step> = above.iter().cloned().chain([Step::Key(key.to_owned())]).collect();
                    Steps(&steps).to_string()
                });
                found.push(Unknown::new(&Steps(path).to_string(), Named::Key, meant));
            }
        }
        Ok(found)
    }

    /// What an expression asks for that no record has, for warnings; nothing where there is no record.
    pub fn unknown(&self, expr: &Expr) -> Result<Vec<Unknown>> {
        let mut found = Vec::new();
        if self.is_empty() {
            return Ok(found);
        }
        for key in expr.keys() {
            if !self.counted_keys().more && !self.counted_keys().counts.contains_key(key) {
                let near = near(key, self.counted_keys().counts.keys().map(String::as_str)).map(str::to_owned);
                found.push(Unknown::new(key, Named::Key, near));
            }
        }
        let mut compared = BTreeSet::new();
        expr.node.visit_compared(&mut |key| {
            compared.insert(key);
        });
        for key in compared {
            if let Some(near) = self.object_of(key)? {
                found.push(Unknown::new(key, Named::Object, Some(near)));
            }
        }
        found.extend(self.of_another_kind(expr)?);
        let own = expr.own().into_iter().filter(|name| self.counted_keys().counts.contains_key(*name));
        found.extend(own.map(|name| Unknown::new(name, Named::Own, None)));
        let mut wanted = expr.fields();
        if self.is_described() && !wanted.is_empty() {
            let mut names = BTreeSet::new();
            let mut before = "";
            for row in 0..self.len() {
                let text = self.fields_text(row)?;
                if text != before {
                    names.extend(Field::from_json(text)?.into_iter().map(|field| field.name));
                    before = text;
                }
            }
            wanted.retain(|name| !names.contains(*name));
            let near = |name: &str| near(name, names.iter().map(String::as_str)).map(str::to_owned);
            found.extend(wanted.into_iter().map(|name| Unknown::new(name, Named::Field, near(name))));
        }
        Ok(found)
    }

    /// The first key of the object that all values of a key are, as far as a look at some tells; none where one is not.
    fn object_of(&self, key: &str) -> Result<Option<String>> {
        if !self.counted_keys().counts.contains_key(key) || self.columns.contains_key(key) {
            return Ok(None);
        }
        let (step, mut seen, mut first) = ([Step::Key(key.to_owned())], 0, None);
        for row in 0..self.len().min(LOOKED_AT) {
            match value_at(self.metadata(row)?, &step)? {
                Scalar::Missing => {}
                Scalar::Nested(text) if text.starts_with('{') => {
                    seen += 1;
                    if first.is_none() {
                        first = serde_json::from_str::<serde_json::Map<_, serde_json::Value>>(&text)
                            .ok()
                            .and_then(|object| object.into_iter().next().map(|(key, _)| key));
                    }
                }
                _ => return Ok(None),
            }
            if seen == OBJECTS {
                break;
            }
        }
        Ok(first)
    }
    /// Keys whose values are all texts or all numbers, and that are compared with one of the other kind only.
    fn of_another_kind(&self, expr: &Expr) -> Result<Vec<Unknown>> {
        let mut asked = Vec::new();
        expr.node.visit_literals(&mut |key, literal| asked.push((key, literal)));
        let mut found = Vec::new();
        for (key, literal) in asked {
            let literal_is_text = match Scalar::of(literal) {
                Scalar::Text(_) => true,
                Scalar::Int(_) | Scalar::Float(_) | Scalar::Big(_) => false,
                _ => continue,
            };
            let Some(column) = self.column(key)?.filter(|column| column.exact) else { continue };
            let hint = match (column.kind() == Kind::Text, literal_is_text) {
                (true, false) => "which is a number, and all of its values are texts: write the number in quotes",
                (false, true) => "which is a text, and all of its values are numbers: write the number without quotes",
                _ => continue,
            };
            found.push(Unknown { hint: Some(hint.to_owned()), ..Unknown::new(key, Named::Kind, Some(literal.to_string())) });
        }
        Ok(found)
    }
}
