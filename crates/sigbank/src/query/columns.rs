//! Values of one key of many records.

use super::value::Scalar;
use sigbank_format::model::json::{Limits, Parser};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Most keys of which values are kept as columns.
const MOST_COLUMNS: usize = 64;
/// A key has a column where at least one record in so many has it.
const SPARSEST: usize = 50;
/// Most different keys that are counted.
const MOST_KEYS: usize = 4096;
/// Integers up to this size are doubles exactly.
const EXACT: i64 = 1 << 53;

/// Texts one behind the other: 8 bytes a text, beside its own.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Texts {
    text: String,
    ends: Vec<u64>,
}

impl Texts {
    pub(super) fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(self.text.len() as u64);
    }
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }
    /// Takes all texts of another behind its own.
    pub(super) fn append(&mut self, other: &mut Self) {
        let base = self.text.len() as u64;
        self.text.push_str(&std::mem::take(&mut other.text));
        self.ends.extend(other.ends.drain(..).map(|end| base + end));
    }
    /// Empty past the end.
    pub(super) fn get(&self, row: usize) -> &str {
        let Some(&end) = self.ends.get(row) else { return "" };
        let start = row.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.text.get(start as usize..end as usize).unwrap_or_default()
    }
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|row| self.get(row))
    }
    /// The row of a text, where they are sorted.
    pub(super) fn find_sorted(&self, wanted: &str) -> Option<usize> {
        let (mut from, mut to) = (0, self.len());
        while from < to {
            let middle = from + (to - from) / 2;
            match self.get(middle).cmp(wanted) {
                std::cmp::Ordering::Less => from = middle + 1,
                std::cmp::Ordering::Greater => to = middle,
                std::cmp::Ordering::Equal => return Some(middle),
            }
        }
        None
    }
    pub(super) fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
    pub(super) fn bytes(&self) -> usize {
        self.text.capacity() + 8 * self.ends.capacity()
    }
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Int,
    Float,
    Text,
}

impl Kind {
    pub(super) const ALL: [(Kind, &'static str); 4] =
        [(Kind::Bool, "bool"), (Kind::Int, "int"), (Kind::Float, "float"), (Kind::Text, "text")];
    pub(super) fn word(self) -> &'static str {
        Self::ALL.into_iter().find(|(kind, _)| *kind == self).map_or("", |(_, word)| word)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Values {
    Bool(Vec<bool>),
    Int(Vec<i64>),
    Float(Vec<f64>),
    Text(Texts),
}

/// The values of a key, as far as they are of one kind.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Column {
    pub values: Values,
    /// Which rows have a value here.
    pub present: Vec<bool>,
    /// Whether a row without a value here has none in its metadata either; else those tell.
    pub exact: bool,
    /// Whether there are integers that are no doubles.
    pub large: bool,
}

/// What a column has for a row.
pub(super) enum Cell<'a> {
    Value(Scalar<'a>),
    /// The record's metadata tell.
    Elsewhere,
}

impl Column {
    pub(super) fn new(kind: Kind) -> Self {
        let values = match kind {
            Kind::Bool => Values::Bool(Vec::new()),
            Kind::Int => Values::Int(Vec::new()),
            Kind::Float => Values::Float(Vec::new()),
            Kind::Text => Values::Text(Texts::default()),
        };
        Self { values, present: Vec::new(), exact: true, large: false }
    }
    /// Takes all values of another of the same kind behind its own.
    pub(super) fn append(&mut self, other: &mut Self) {
        match (&mut self.values, &mut other.values) {
            (Values::Bool(values), Values::Bool(others)) => values.append(others),
            (Values::Int(values), Values::Int(others)) => values.append(others),
            (Values::Float(values), Values::Float(others)) => values.append(others),
            (Values::Text(texts), Values::Text(others)) => texts.append(others),
            _ => return,
        }
        self.present.append(&mut other.present);
    }
    pub(super) fn kind(&self) -> Kind {
        match self.values {
            Values::Bool(_) => Kind::Bool,
            Values::Int(_) => Kind::Int,
            Values::Float(_) => Kind::Float,
            Values::Text(_) => Kind::Text,
        }
    }
    pub(super) fn cell(&self, row: usize) -> Cell<'_> {
        let value = match (self.present.get(row), &self.values) {
            (Some(true), Values::Bool(values)) => values.get(row).map(|v| Scalar::Bool(*v)),
            (Some(true), Values::Int(values)) => values.get(row).map(|v| Scalar::Int(*v)),
            (Some(true), Values::Float(values)) => values.get(row).map(|v| Scalar::Float(*v)),
            (Some(true), Values::Text(texts)) => Some(Scalar::Text(Cow::Borrowed(texts.get(row)))),
            _ if self.exact => Some(Scalar::Missing),
            _ => None,
        };
        value.map_or(Cell::Elsewhere, Cell::Value)
    }
    fn skip_to(&mut self, row: usize) {
        self.present.resize(row, false);
        match &mut self.values {
            Values::Bool(values) => values.resize(row, false),
            Values::Int(values) => values.resize(row, 0),
            Values::Float(values) => values.resize(row, 0.0),
            Values::Text(texts) => (texts.len()..row).for_each(|_| texts.push("")),
        }
    }
    /// The value of the next row; of another kind, it is left to the metadata.
    fn push(&mut self, value: &Scalar<'_>) {
        if let (Values::Int(values), Scalar::Float(_), false) = (&self.values, value, self.large) {
            self.values = Values::Float(values.iter().map(|n| *n as f64).collect());
        }
        self.large |= matches!(value, Scalar::Int(n) if !is_double(*n));
        match (&mut self.values, value) {
            (Values::Bool(values), Scalar::Bool(v)) => values.push(*v),
            (Values::Int(values), Scalar::Int(v)) => values.push(*v),
            (Values::Float(values), Scalar::Float(v)) => values.push(*v),
            (Values::Float(values), Scalar::Int(v)) if is_double(*v) => values.push(*v as f64),
            (Values::Text(texts), Scalar::Text(v)) => texts.push(v),
            _ => {
                self.exact = false;
                return;
            }
        }
        self.present.push(true);
    }
    pub(super) fn bytes(&self) -> usize {
        self.present.capacity()
            + match &self.values {
                Values::Bool(values) => values.capacity(),
                Values::Int(values) => 8 * values.capacity(),
                Values::Float(values) => 8 * values.capacity(),
                Values::Text(texts) => texts.bytes(),
            }
    }
}

/// Whether an integer is a double exactly, as all between it and zero are.
pub(super) fn is_double(n: i64) -> bool {
    (-EXACT..=EXACT).contains(&n)
}

/// How many records have each key at the top of their metadata.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Keys {
    pub counts: BTreeMap<String, u64>,
    /// Whether there are more than are counted.
    pub more: bool,
}

impl Keys {
    fn count(&mut self, key: &str) {
        if let Some(count) = self.counts.get_mut(key) {
            *count += 1;
        } else if self.counts.len() < MOST_KEYS {
            self.counts.insert(key.to_owned(), 1);
        } else {
            self.more = true;
        }
    }
    /// Those that get columns.
    fn common(&self, rows: usize) -> Vec<&str> {
        let mut common: Vec<_> = self.counts.iter().filter(|(_, count)| **count >= rows.div_ceil(SPARSEST) as u64).collect();
        common.sort_by_key(|(key, count)| (std::cmp::Reverse(**count), key.as_str()));
        common.into_iter().take(MOST_COLUMNS).map(|(key, _)| key.as_str()).collect()
    }
}

/// Metadata that were read before: no limits.
pub(super) fn parser(metadata: &str) -> Option<Parser<'_>> {
    let limits = Limits { max_bytes: u64::MAX, max_depth: usize::MAX, max_nodes: usize::MAX };
    Parser::new(metadata.as_bytes(), &limits).ok()
}

/// The columns of metadata, each an object's text.
pub(super) fn build(metadata: &Texts) -> (Keys, BTreeMap<String, Column>) {
    let mut keys = Keys::default();
    for text in metadata.iter() {
        let walked = parser(text).map(|mut parser| {
            parser.object(|parser, key| {
                keys.count(&key);
                parser.skip()
            })
        });
        debug_assert!(matches!(walked, Some(Ok(()))));
    }
    let mut columns: BTreeMap<String, Option<Column>> =
        keys.common(metadata.len()).into_iter().map(|key| (key.to_owned(), None)).collect();
    for (row, text) in metadata.iter().enumerate() {
        let Some(mut parser) = parser(text) else { continue };
        let _ = parser.object(|parser, key| {
            let Some(column) = columns.get_mut(&*key) else { return parser.skip() };
            let value = Scalar::read(parser)?;
            let kind = match value {
                Scalar::Bool(_) => Kind::Bool,
                Scalar::Int(_) => Kind::Int,
                Scalar::Float(_) => Kind::Float,
                Scalar::Text(_) => Kind::Text,
                // Its kind shows later, if ever.
                _ => {
                    column.get_or_insert_with(|| Column::new(Kind::Text)).exact = false;
                    return Ok(());
                }
            };
            let column = column.get_or_insert_with(|| Column::new(kind));
            if column.present.is_empty() && column.kind() != kind {
                *column = Column { exact: column.exact, ..Column::new(kind) };
            }
            column.skip_to(row);
            column.push(&value);
            Ok(())
        });
    }
    let held = columns.into_iter().filter_map(|(key, column)| Some((key, column?)).filter(|(_, c)| c.present.contains(&true)));
    let columns = held.map(|(key, mut column)| {
        column.skip_to(metadata.len());
        (key, column)
    });
    (keys, columns.collect())
}
