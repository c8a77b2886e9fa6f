//! Which records of a table an expression selects: leaf by leaf over all rows that are still asked for.

use super::columns::{self, Cell, Column, Texts, Values};
use super::expr::{Leaf, Node, Op, Step, Term, Test};
use super::index::Part;
use super::row::{owned, property_of, value_at};
use super::value::Scalar;
use super::{Expr, Field, Table};
use crate::error::{Error, Result};
use std::borrow::Cow;

impl Table {
    /// The rows for which an expression holds, ascending.
    ///
    /// # Errors
    /// `Invalid` where the expression asks for fields and the table does not know them; `Corrupt` where the index is damaged.
    pub fn select(&self, expr: &Expr) -> Result<Vec<usize>> {
        if expr.needs_fields() && !self.is_described() {
            return Err(Error::invalid("the expression asks for fields, which this table does not know"));
        }
        let held = self.held(&expr.node, &vec![true; self.len()])?;
        Ok(held.iter().enumerate().filter(|(_, held)| **held).map(|(row, _)| row).collect())
    }

    /// Whether a node holds, for those rows that are asked for: the others are false.
    fn held(&self, node: &Node, asked: &[bool]) -> Result<Vec<bool>> {
        Ok(match node {
            Node::All(nodes) => {
                let mut held = asked.to_vec();
                for node in nodes {
                    held = self.held(node, &held)?;
                }
                held
            }
            Node::Any(nodes) => {
                let (mut held, mut left) = (vec![false; asked.len()], asked.to_vec());
                for node in nodes {
                    let found = self.held(node, &left)?;
                    for ((held, left), new) in held.iter_mut().zip(&mut left).zip(found) {
                        *held |= new;
                        *left &= !new;
                    }
                }
                held
            }
            Node::Not(node) => {
                let held = self.held(node, asked)?;
                held.into_iter().zip(asked).map(|(held, asked)| *asked && !held).collect()
            }
            Node::Exists(path) => {
                let access = self.access_path(path)?;
                rows(asked, |row| Ok(!self.value(&access, row)?.is_missing()))?
            }
            Node::Has(name) => self.by_fields(asked, |fields| fields.iter().any(|field| field.name == *name))?,
            Node::Leaf(leaf) => self.leaf(leaf, asked)?,
        })
    }

    fn leaf(&self, leaf: &Leaf, asked: &[bool]) -> Result<Vec<bool>> {
        let what = self.access(&leaf.what)?;
        let other = leaf.other().map(|term| self.access(term)).transpose()?;
        if let (Access::Column(column), Some(Access::Literal(other)), Test::Compare(op, _)) = (&what, &other, &leaf.test)
            && let Some(held) = compare(column, *op, other, asked)
        {
            return Ok(held);
        }
        match (&what, &other) {
            // One value a row against one that is the same for all.
            (_, None) => rows(asked, |row| Ok(leaf.holds(&self.value(&what, row)?, &Scalar::Missing))),
            (_, Some(Access::Literal(other))) => rows(asked, |row| Ok(leaf.holds(&self.value(&what, row)?, other))),
            (_, Some(other)) => rows(asked, |row| Ok(leaf.holds(&self.value(&what, row)?, &self.value(other, row)?))),
        }
    }

    fn by_fields(&self, asked: &[bool], test: impl Fn(&[Field]) -> bool) -> Result<Vec<bool>> {
        let mut known = (String::new(), false);
        rows(asked, |row| {
            let text = self.fields_text(row)?;
            if known.0 != text {
                known = (text.to_owned(), test(&Field::from_json(text)?));
            }
            Ok(known.1)
        })
    }

    fn access<'t>(&'t self, term: &'t Term) -> Result<Access<'t>> {
        Ok(match term {
            Term::Literal(json) => Access::Literal(Scalar::of(json)),
            Term::Path(steps) => self.access_path(steps)?,
            Term::Id => Access::Texts(self.ids()?),
            Term::Split => Access::Texts(self.texts(&self.splits, Part::Split)?),
            Term::Field(..) => Access::Fields(term, self.texts(&self.fields, Part::Fields)?),
        })
    }
    fn access_path<'t>(&'t self, steps: &'t [Step]) -> Result<Access<'t>> {
        if let [Step::Key(key)] = steps {
            if let Some(column) = self.column(key)? {
                return Ok(if column.exact {
                    Access::Column(column)
                } else {
                    Access::Partly(column, steps, self.texts(&self.metadata, Part::Metadata)?)
                });
            }
            if !self.counted_keys().more && !self.counted_keys().counts.contains_key(key) {
                return Ok(Access::Literal(Scalar::Missing));
            }
        }
        Ok(Access::Metadata(steps, self.texts(&self.metadata, Part::Metadata)?))
    }
    fn value<'t>(&'t self, access: &Access<'t>, row: usize) -> Result<Scalar<'t>> {
        Ok(match access {
            Access::Literal(value) => value.clone(),
            Access::Column(column) => match column.cell(row) {
                Cell::Value(value) => value,
                Cell::Elsewhere => Scalar::Missing,
            },
            Access::Partly(column, steps, metadata) => match column.cell(row) {
                Cell::Value(value) => value,
                Cell::Elsewhere => value_at(metadata.get(row), steps)?,
            },
            Access::Metadata(steps, metadata) => value_at(metadata.get(row), steps)?,
            Access::Texts(texts) => Scalar::Text(Cow::Borrowed(texts.get(row))),
            Access::Fields(Term::Field(name, property), texts) => {
                owned(property_of(&Field::from_json(texts.get(row))?, name, *property))
            }
            Access::Fields(..) => Scalar::Missing,
        })
    }
}

/// Where the values of a term are.
enum Access<'a> {
    Literal(Scalar<'a>),
    Column(&'a Column),
    /// What the column lacks is in the metadata.
    Partly(&'a Column, &'a [Step], &'a Texts),
    Metadata(&'a [Step], &'a Texts),
    Texts(&'a Texts),
    Fields(&'a Term, &'a Texts),
}

/// A column against one value, without a look at the kind of each; none where only that will do.
fn compare(column: &Column, op: Op, other: &Scalar<'_>, asked: &[bool]) -> Option<Vec<bool>> {
    fn each<T: PartialOrd + Copy>(column: &Column, values: &[T], op: Op, other: T, asked: &[bool]) -> Vec<bool> {
        fn zip<T: Copy>(column: &Column, values: &[T], asked: &[bool], holds: impl Fn(T) -> bool) -> Vec<bool> {
            values.iter().zip(&column.present).zip(asked).map(|((value, there), asked)| *asked & *there & holds(*value)).collect()
        }
        match op {
            Op::Equal => zip(column, values, asked, |value| value == other),
            Op::Unequal => zip(column, values, asked, |value| value != other),
            Op::Less => zip(column, values, asked, |value| value < other),
            Op::AtMost => zip(column, values, asked, |value| value <= other),
            Op::Greater => zip(column, values, asked, |value| value > other),
            Op::AtLeast => zip(column, values, asked, |value| value >= other),
        }
    }
    match (&column.values, other) {
        (Values::Int(values), Scalar::Int(other)) => Some(each(column, values, op, *other, asked)),
        (Values::Float(values), Scalar::Float(other)) => Some(each(column, values, op, *other, asked)),
        (Values::Float(values), Scalar::Int(other)) if columns::is_double(*other) => {
            Some(each(column, values, op, *other as f64, asked))
        }
        (Values::Text(texts), Scalar::Text(other)) if matches!(op, Op::Equal | Op::Unequal) => {
            let holds = |(row, (there, asked)): (usize, (&bool, &bool))| {
                *asked && *there && (texts.get(row) == other.as_ref()) == (op == Op::Equal)
            };
            Some(column.present.iter().zip(asked).enumerate().map(holds).collect())
        }
        _ => None,
    }
}

fn rows(asked: &[bool], mut holds: impl FnMut(usize) -> Result<bool>) -> Result<Vec<bool>> {
    asked.iter().enumerate().map(|(row, asked)| if *asked { holds(row) } else { Ok(false) }).collect()
}
