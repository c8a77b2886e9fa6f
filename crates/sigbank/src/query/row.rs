//! One record as an expression sees it.

use super::expr::{Node, Property, Step, Term};
use super::value::Scalar;
use crate::error::{Error, Result};
use sigbank_format::error::FormatError;
use sigbank_format::model::json::{Json, Limits, Parser, write_float, write_string};
use std::borrow::Cow;

/// A field of a record: what is known without reading its samples.
///
/// ```
/// use sigbank::query::Field;
/// let field = Field::new("iq", "complex64", &[2, 1024]);
/// assert_eq!(Field::from_json(&Field::to_json(&[field.clone()]))?, [field]);
/// # Ok::<(), sigbank::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// The NumPy name of its dtype, such as `complex64`; none where the field is damaged.
    pub dtype: Option<String>,
    /// Elements along each axis; none where the field is damaged.
    pub shape: Option<Vec<u64>>,
    /// The names of its axes, where it has such.
    pub axes: Option<Vec<String>>,
    /// Samples a second, where that is known.
    pub sample_rate: Option<f64>,
    /// The file that holds it, in layouts with a file a field.
    pub file: Option<String>,
    /// Bytes of that file.
    pub bytes: Option<u64>,
    /// What is said of the field, an object, where that is known; expressions do not ask for it.
    pub metadata: Option<Json>,
}

impl Field {
    /// A field of this dtype and shape.
    pub fn new(name: &str, dtype: &str, shape: &[u64]) -> Self {
        Self { name: name.into(), dtype: Some(dtype.into()), shape: Some(shape.to_vec()), ..Self::default() }
    }
    /// Fields as the JSON text that the index holds: a list of objects.
    pub fn to_json(fields: &[Self]) -> String {
        let mut out = String::from("[");
        for (i, field) in fields.iter().enumerate() {
            let mut member = |key: &str, write: &dyn Fn(&mut String)| {
                out.push_str(if key != "name" {
                    ","
                } else if i > 0 {
                    ",{"
                } else {
                    "{"
                });
                write_string(key, &mut out);
                out.push(':');
                write(&mut out);
            };
            member("name", &|out| write_string(&field.name, out));
            if let Some(dtype) = &field.dtype {
                member("dtype", &|out| write_string(dtype, out));
            }
            if let Some(shape) = &field.shape {
                member("shape", &|out| out.push_str(&listed(shape)));
            }
            if let Some(axes) = &field.axes {
                member("axes", &|out| out.push_str(&named(axes)));
            }
            if let Some(rate) = field.sample_rate.filter(|rate| rate.is_finite()) {
                member("sample_rate", &|out| write_float(rate, out));
            }
            if let Some(file) = &field.file {
                member("file", &|out| write_string(file, out));
            }
            if let Some(bytes) = field.bytes {
                member("bytes", &|out| out.push_str(&bytes.to_string()));
            }
            if let Some(metadata) = &field.metadata {
                member("metadata", &|out| out.push_str(metadata.as_str()));
            }
            out.push('}');
        }
        out.push(']');
        out
    }
    /// Reads what [`Field::to_json`] wrote.
    ///
    /// # Errors
    /// `Corrupt` for anything else.
    pub fn from_json(text: &str) -> Result<Vec<Self>> {
        let mut fields = Vec::new();
        let mut parser = Parser::new(text.as_bytes(), &Limits::default())?;
        parser.array(|parser| {
            let mut field = Self::default();
            parser.object(|parser, key| match &*key {
                "name" => parser.string().map(|name| field.name = name.into_owned()),
                "dtype" => parser.string().map(|dtype| field.dtype = Some(dtype.into_owned())),
                "shape" => {
                    let mut shape = Vec::new();
                    parser.array(|parser| parser.unsigned().map(|n| shape.push(n)))?;
                    field.shape = Some(shape);
                    Ok(())
                }
                "axes" => {
                    let mut axes = Vec::new();
                    parser.array(|parser| parser.string().map(|name| axes.push(name.into_owned())))?;
                    field.axes = Some(axes);
                    Ok(())
                }
                "file" => parser.string().map(|file| field.file = Some(file.into_owned())),
                "bytes" => parser.unsigned().map(|bytes| field.bytes = Some(bytes)),
                "metadata" => parser.json().map(|metadata| field.metadata = Some(metadata)),
                "sample_rate" => parser.json().map(|rate| field.sample_rate = rate.as_f64()),
                _ => parser.skip(),
            })?;
            fields.push(field);
            Ok(())
        })?;
        parser.finish()?;
        Ok(fields)
    }
    fn property(&self, property: Property) -> Scalar<'_> {
        let whole = |n: u64| i64::try_from(n).map_or_else(|_| Scalar::Big(Cow::Owned(n.to_string())), Scalar::Int);
        let known = match (property, &self.shape) {
            (Property::DType, _) => self.dtype.as_deref().map(|dtype| Scalar::Text(Cow::Borrowed(dtype))),
            (Property::SampleRate, _) => self.sample_rate.filter(|rate| rate.is_finite()).map(Scalar::Float),
            (Property::Axes, _) => self.axes.as_deref().map(|axes| Scalar::Nested(Cow::Owned(named(axes)))),
            (_, None) => None,
            (Property::Rank, Some(shape)) => Some(whole(shape.len() as u64)),
            (Property::Length, Some(shape)) => shape.first().map(|&n| whole(n)),
            (Property::Dimension(axis), Some(shape)) => place(axis, shape.len()).and_then(|at| shape.get(at)).map(|&n| whole(n)),
            (Property::Shape, Some(shape)) => Some(Scalar::Nested(Cow::Owned(listed(shape)))),
        };
        known.unwrap_or(Scalar::Missing)
    }
}

/// The JSON text of a shape.
fn listed(shape: &[u64]) -> String {
    let shape: Vec<_> = shape.iter().map(u64::to_string).collect();
    format!("[{}]", shape.join(","))
}

/// The JSON text of a list of names.
fn named(names: &[String]) -> String {
    let mut out = String::from("[");
    for (i, name) in names.iter().enumerate() {
        out.push_str(if i > 0 { "," } else { "" });
        write_string(name, &mut out);
    }
    out.push(']');
    out
}

/// Which of `len` elements `at` is, where negative ones count from the end.
fn place(at: i64, len: usize) -> Option<usize> {
    if at >= 0 {
        usize::try_from(at).ok()
    } else {
        usize::try_from(at.unsigned_abs()).ok().and_then(|back| len.checked_sub(back))
    }
}

/// What is known of a record without reading its samples.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Its id; in JBOF the item's name.
    pub id: &'a str,
    /// The split it is in; empty in layouts without splits.
    pub split: &'a str,
    pub(super) metadata: &'a str,
    /// Its fields; in JBOF the item's arrays.
    pub fields: &'a [Field],
}

impl<'a> Record<'a> {
    /// A record of these metadata, an object, without split and fields.
    pub fn new(id: &'a str, metadata: &'a Json) -> Self {
        Self { id, split: "", metadata: metadata.as_str(), fields: &[] }
    }
    /// The same record with these fields.
    #[must_use]
    pub fn with_fields(self, fields: &'a [Field]) -> Self {
        Self { fields, ..self }
    }
    /// The same record in this split.
    #[must_use]
    pub fn in_split(self, split: &'a str) -> Self {
        Self { split, ..self }
    }

    pub(super) fn term<'t: 'a>(&self, term: &'t Term) -> Result<Scalar<'a>> {
        Ok(match term {
            Term::Literal(json) => Scalar::of(json),
            Term::Path(steps) => value_at(self.metadata, steps)?,
            Term::Id => Scalar::Text(Cow::Borrowed(self.id)),
            Term::Split => Scalar::Text(Cow::Borrowed(self.split)),
            Term::Field(name, property) => property_of(self.fields, name, *property),
        })
    }

    pub(super) fn holds(&self, node: &Node) -> Result<bool> {
        Ok(match node {
            Node::All(nodes) => {
                for node in nodes {
                    if !self.holds(node)? {
                        return Ok(false);
                    }
                }
                true
            }
            Node::Any(nodes) => {
                for node in nodes {
                    if self.holds(node)? {
                        return Ok(true);
                    }
                }
                false
            }
            Node::Not(node) => !self.holds(node)?,
            Node::Exists(path) => !value_at(self.metadata, path)?.is_missing(),
            Node::Has(name) => self.fields.iter().any(|field| field.name == *name),
            Node::Leaf(leaf) => {
                let other = leaf.other().map_or(Ok(Scalar::Missing), |term| self.term(term))?;
                leaf.holds(&self.term(&leaf.what)?, &other)
            }
        })
    }
}

pub(super) fn property_of<'a>(fields: &'a [Field], name: &str, property: Property) -> Scalar<'a> {
    fields.iter().find(|field| field.name == name).map_or(Scalar::Missing, |field| field.property(property))
}

/// The value at a path into metadata.
pub(super) fn value_at<'a>(metadata: &'a str, steps: &[Step]) -> Result<Scalar<'a>> {
    let limits = Limits { max_bytes: u64::MAX, max_depth: usize::MAX, max_nodes: usize::MAX };
    let mut parser = Parser::new(metadata.as_bytes(), &limits)?;
    descend(&mut parser, steps).map_err(Error::from)
}

fn descend<'a>(parser: &mut Parser<'a>, steps: &[Step]) -> Result<Scalar<'a>, FormatError> {
    let Some((step, rest)) = steps.split_first() else { return Scalar::read(parser) };
    let mut found = Scalar::Missing;
    match (step, parser.peek()) {
        (Step::Key(wanted), Some(b'{')) => {
            parser.object(
                |parser, key| {
                    if key == *wanted { descend(parser, rest).map(|value| found = value) } else { parser.skip() }
                },
            )?
        }
        (Step::Index(at), Some(b'[')) => {
            // From the end, only the whole list tells where that is.
            if *at < 0 {
                let json = parser.json()?;
                let Some(at) = json.list_len().and_then(|len| place(*at, len)).and_then(|at| i64::try_from(at).ok()) else {
                    return Ok(Scalar::Missing);
                };
                let steps: Vec<Step> = std::iter::once(Step::Index(at)).chain(rest.iter().cloned()).collect();
                return Ok(owned(descend(&mut json.walk(), &steps)?));
            }
            let mut here = 0;
            parser.array(|parser| {
                here += 1;
                if here - 1 == *at { descend(parser, rest).map(|value| found = value) } else { parser.skip() }
            })?;
        }
        _ => parser.skip()?,
    }
    Ok(found)
}

pub(super) fn owned(value: Scalar<'_>) -> Scalar<'static> {
    match value {
        Scalar::Missing => Scalar::Missing,
        Scalar::Null => Scalar::Null,
        Scalar::Bool(b) => Scalar::Bool(b),
        Scalar::Int(n) => Scalar::Int(n),
        Scalar::Float(x) => Scalar::Float(x),
        Scalar::Big(digits) => Scalar::Big(Cow::Owned(digits.into_owned())),
        Scalar::Text(text) => Scalar::Text(Cow::Owned(text.into_owned())),
        Scalar::Nested(text) => Scalar::Nested(Cow::Owned(text.into_owned())),
    }
}
