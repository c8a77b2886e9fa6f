//! What an expression is made of, and its text.

use super::value::{Scalar, equal, order};
use regex::{Regex, RegexBuilder};
use sigbank_format::model::json::{Json, write_string};
use std::cmp::Ordering;
use std::fmt;

/// Most bytes of a compiled pattern.
const PATTERN_SIZE: usize = 4 << 20;

/// What is asked of a record.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    /// About one or two values.
    Leaf(Leaf),
    /// There is a value, be it null.
    Exists(Vec<Step>),
    /// There is a field of this name.
    Has(String),
}

/// A question about the value of a term.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Leaf {
    pub what: Term,
    pub test: Test,
    /// Whether the answer is turned round, which what is missing is not.
    pub negated: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Test {
    Compare(Op, Term),
    In(Vec<Json>),
    /// It is an element of the list that the term is.
    Within(Term),
    /// A text that holds the text, or a list of which it is an element.
    Contains(Json),
    Starts(String),
    Ends(String),
    Like(Pattern),
    Matches(Pattern),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Equal,
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Term {
    Literal(Json),
    /// Into the metadata; the first step is a key.
    Path(Vec<Step>),
    Id,
    Split,
    Field(String, Property),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Key(String),
    /// An element of a list; negative ones count from its end.
    Index(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Property {
    DType,
    Shape,
    Dimension(i64),
    Rank,
    Length,
    Axes,
    SampleRate,
}

/// A text pattern that takes time in proportion to the text.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    pub text: String,
    regex: Regex,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Pattern {
    /// A regular expression, found anywhere in a text.
    pub(super) fn regex(text: &str) -> Result<Self, String> {
        Ok(Self { text: text.to_owned(), regex: compiled(text)? })
    }
    /// `%` stands for any characters, `_` for one, a backslash makes the next one ordinary; the pattern is of the whole text.
    pub(super) fn like(text: &str) -> Result<Self, String> {
        let mut regex = String::from("(?s)\\A");
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '%' => regex.push_str(".*"),
                '_' => regex.push('.'),
                '\\' => {
                    regex.push_str(&regex::escape(chars.next().ok_or("a backslash ends the pattern")?.encode_utf8(&mut [0; 4])))
                }
                c => regex.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
            }
        }
        regex.push_str("\\z");
        Ok(Self { text: text.to_owned(), regex: compiled(&regex)? })
    }
}

fn compiled(text: &str) -> Result<Regex, String> {
    RegexBuilder::new(text).size_limit(PATTERN_SIZE).build().map_err(|e| match e {
        regex::Error::CompiledTooBig(_) => "the pattern is too large: make its repetitions fewer".to_owned(),
        // Its last line says what is wrong; the others draw where.
        e => e.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned(),
    })
}

impl Leaf {
    /// The answer for a value; `other` is that of the test's own term, where it has one.
    pub(super) fn holds(&self, value: &Scalar<'_>, other: &Scalar<'_>) -> bool {
        if value.is_missing() {
            return false;
        }
        let held = match &self.test {
            Test::Compare(op, _) => return !other.is_missing() && op.holds(value, other),
            Test::In(among) => among.iter().any(|json| equal(value, &Scalar::of(json))),
            Test::Within(_) => match other.elements() {
                Some(list) => list.iter().any(|json| equal(value, &Scalar::of(json))),
                None => return false,
            },
            Test::Contains(part) => {
                let part = Scalar::of(part);
                match (value.text(), part.text()) {
                    (Some(text), Some(part)) => text.contains(part),
                    _ => value.elements().is_some_and(|list| list.iter().any(|json| equal(&Scalar::of(json), &part))),
                }
            }
            Test::Starts(part) => value.text().is_some_and(|text| text.starts_with(part)),
            Test::Ends(part) => value.text().is_some_and(|text| text.ends_with(part)),
            Test::Like(pattern) | Test::Matches(pattern) => value.text().is_some_and(|text| pattern.regex.is_match(text)),
        };
        held != self.negated
    }
    /// The second value that is asked for.
    pub(super) fn other(&self) -> Option<&Term> {
        match &self.test {
            Test::Compare(_, term) | Test::Within(term) => Some(term),
            _ => None,
        }
    }
}

impl Op {
    fn holds(self, a: &Scalar<'_>, b: &Scalar<'_>) -> bool {
        match self {
            Self::Equal => equal(a, b),
            Self::Unequal => !equal(a, b),
            Self::Less => order(a, b) == Some(Ordering::Less),
            Self::Greater => order(a, b) == Some(Ordering::Greater),
            Self::AtMost => order(a, b).is_some_and(Ordering::is_le),
            Self::AtLeast => order(a, b).is_some_and(Ordering::is_ge),
        }
    }
    /// What stands for it when the sides change places.
    fn word(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::Unequal => "!=",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
        }
    }
}

impl Node {
    /// Calls `each` with every leaf, path that is asked for, and field name.
    pub(super) fn visit<'a>(&'a self, each: &mut dyn FnMut(Visited<'a>)) {
        match self {
            Self::All(nodes) | Self::Any(nodes) => nodes.iter().for_each(|node| node.visit(each)),
            Self::Not(node) => node.visit(each),
            Self::Exists(path) => each(Visited::Path(path)),
            Self::Has(field) => each(Visited::Field(field)),
            Self::Leaf(leaf) => {
                for term in std::iter::once(&leaf.what).chain(leaf.other()) {
                    match term {
                        Term::Path(path) => each(Visited::Path(path)),
                        Term::Field(field, _) => each(Visited::Field(field)),
                        Term::Id => each(Visited::Own("id")),
                        Term::Split => each(Visited::Own("split")),
                        Term::Literal(_) => {}
                    }
                }
            }
        }
    }
}

impl Node {
    /// Calls `each` with every key at the top whose value is compared with single ones.
    pub(super) fn visit_compared<'a>(&'a self, each: &mut dyn FnMut(&'a str)) {
        match self {
            Self::All(nodes) | Self::Any(nodes) => nodes.iter().for_each(|node| node.visit_compared(each)),
            Self::Not(node) => node.visit_compared(each),
            Self::Leaf(Leaf { what: Term::Path(path), .. }) => {
                if let [Step::Key(key)] = path.as_slice() {
                    each(key);
                }
            }
            _ => {}
        }
    }
    /// Calls `each` with every key at the top that is compared with a value, and the value.
    pub(super) fn visit_literals<'a>(&'a self, each: &mut dyn FnMut(&'a str, &'a Json)) {
        match self {
            Self::All(nodes) | Self::Any(nodes) => nodes.iter().for_each(|node| node.visit_literals(each)),
            Self::Not(node) => node.visit_literals(each),
            Self::Leaf(Leaf { what, test: Test::Compare(_, other), .. }) => {
                if let (Term::Path(path), Term::Literal(json)) | (Term::Literal(json), Term::Path(path)) = (what, other)
                    && let [Step::Key(key)] = path.as_slice()
                {
                    each(key, json);
                }
            }
            _ => {}
        }
    }
    /// Calls `each` with every term, to be replaced.
    pub(super) fn each_term(&mut self, each: &mut dyn FnMut(&mut Term)) {
        match self {
            Self::All(nodes) | Self::Any(nodes) => nodes.iter_mut().for_each(|node| node.each_term(each)),
            Self::Not(node) => node.each_term(each),
            Self::Leaf(leaf) => {
                each(&mut leaf.what);
                if let Test::Compare(_, term) | Test::Within(term) = &mut leaf.test {
                    each(term);
                }
            }
            Self::Exists(_) | Self::Has(_) => {}
        }
    }
}

/// What [`Node::visit`] meets.
pub(super) enum Visited<'a> {
    Path(&'a [Step]),
    Field(&'a str),
    /// The record's `id` or `split`.
    Own(&'static str),
}

/// Words that are no keys where they stand alone.
pub(super) const RESERVED: [&str; 20] = [
    "and",
    "or",
    "not",
    "in",
    "contains",
    "startswith",
    "endswith",
    "like",
    "matches",
    "exists",
    "has",
    "field",
    "id",
    "split",
    "metadata",
    "true",
    "false",
    "null",
    "None",
    "is",
];

/// Whether a name can stand without quotes.
pub(super) fn is_word(name: &str) -> bool {
    name.starts_with(|c: char| c.is_alphabetic() || c == '_') && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Whether a word has a meaning of its own, in whatever case Python or SQL write it.
pub(super) fn is_reserved(word: &str) -> bool {
    let upper = ["True", "False", "AND", "OR", "NOT", "IN", "LIKE", "NULL", "TRUE", "FALSE", "IS"];
    RESERVED.contains(&word) || upper.contains(&word)
}

struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        write_string(self.0, &mut text);
        f.write_str(&text)
    }
}

struct Among<'a>(&'a [Json]);

impl fmt::Display for Among<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, json) in self.0.iter().enumerate() {
            write!(f, "{}{json}", if i > 0 { ", " } else { "" })?;
        }
        f.write_str("]")
    }
}

pub(super) struct Steps<'a>(pub &'a [Step]);

impl fmt::Display for Steps<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for step in self.0 {
            match step {
                Step::Key(key) if first && is_word(key) && !is_reserved(key) => f.write_str(key)?,
                Step::Key(key) if first => write!(f, "metadata[{}]", Quoted(key))?,
                Step::Key(key) if is_word(key) => write!(f, ".{key}")?,
                Step::Key(key) => write!(f, "[{}]", Quoted(key))?,
                Step::Index(at) => write!(f, "[{at}]")?,
            }
            first = false;
        }
        Ok(())
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(json) => write!(f, "{json}"),
            Self::Path(path) => write!(f, "{}", Steps(path)),
            Self::Id => f.write_str("id"),
            Self::Split => f.write_str("split"),
            Self::Field(name, property) => {
                match is_word(name) && !is_reserved(name) {
                    true => f.write_str(name)?,
                    false => write!(f, "field({})", Quoted(name))?,
                }
                match property {
                    Property::DType => f.write_str("@dtype"),
                    Property::Shape => f.write_str("@shape"),
                    Property::Dimension(at) => write!(f, "@shape[{at}]"),
                    Property::Rank => f.write_str("@ndim"),
                    Property::Length => f.write_str("@length"),
                    Property::Axes => f.write_str("@axes"),
                    Property::SampleRate => f.write_str("@sample_rate"),
                }
            }
        }
    }
}

impl fmt::Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not = if self.negated { "not " } else { "" };
        write!(f, "{} ", self.what)?;
        match &self.test {
            Test::Compare(op, term) => write!(f, "{} {term}", op.word()),
            Test::In(among) => write!(f, "{not}in {}", Among(among)),
            Test::Within(term) => write!(f, "{not}in {term}"),
            Test::Contains(json) => write!(f, "{not}contains {json}"),
            Test::Starts(part) => write!(f, "{not}startswith {}", Quoted(part)),
            Test::Ends(part) => write!(f, "{not}endswith {}", Quoted(part)),
            Test::Like(pattern) => write!(f, "{not}like {}", Quoted(&pattern.text)),
            Test::Matches(pattern) => write!(f, "{not}matches {}", Quoted(&pattern.text)),
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (nodes, between) = match self {
            Self::All(nodes) => (nodes, " and "),
            Self::Any(nodes) => (nodes, " or "),
            Self::Not(node) => return write!(f, "not {}", Inner(node)),
            Self::Leaf(leaf) => return write!(f, "{leaf}"),
            Self::Exists(path) => return write!(f, "exists({})", Steps(path)),
            Self::Has(field) if is_word(field) && !is_reserved(field) => return write!(f, "has({field})"),
            Self::Has(field) => return write!(f, "has({})", Quoted(field)),
        };
        for (i, node) in nodes.iter().enumerate() {
            write!(f, "{}{}", if i > 0 { between } else { "" }, Inner(node))?;
        }
        Ok(())
    }
}

/// A part, in parentheses where it has parts itself.
struct Inner<'a>(&'a Node);

impl fmt::Display for Inner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Node::All(_) | Node::Any(_) => write!(f, "({})", self.0),
            node => write!(f, "{node}"),
        }
    }
}
