//! Search by what is said of records, without reading their samples: [`Expr`] is one language for every layout, a [`Table`] holds what is
//! asked as columns, and is kept in one Parquet file that other programs read too.
//!
//! # Expressions
//!
//! | what | how |
//! |---|---|
//! | compare | `snr > 10`, `speaker == 'ann'` (or `=`), `!=`, `<`, `<=`, `>=`, `1 < snr <= 9`, `low < high` |
//! | one of several | `speaker in ['a', 'b']`, `take not in (1, 2)`; `'x' in tags` for a list in the metadata |
//! | text | `name contains 'mic'` (of a list: the element), `startswith`, `endswith`, `like 'a%_'`, `matches '^[ab]+$'` (found anywhere), each also with `not` before it |
//! | join | `and`, `or`, `not`, parentheses |
//! | there | `exists(gain)`: the key, be it null; `has(iq)`: the field |
//! | deeper | `a.b`, `a['odd key']`, `tags[0]`, `tags[-1]`; `metadata['odd key']` at the top, and for keys that are words of the language |
//! | the record | `id`, `split`; keys of these names are `metadata.id`, `metadata.split` |
//! | its fields | `iq@dtype == 'complex64'`, `iq@shape == [2, 1024]`, `iq@shape[-1] > 100`, `iq@ndim`, `iq@length` (of the first axis), `iq@axes contains 'time'` (names), `iq@sample_rate`; `field('odd name')@shape` |
//!
//! What records are, and what can be asked of them, is the layout's:
//!
//! | layout | a record | `id` | `split` | keys | fields |
//! |---|---|---|---|---|---|
//! | JBOF | an item | its name | `all` | its metadata | its arrays; no axes |
//! | signal-dataset | a record | its id | `all` | its metadata; `annotations.SET.values.KEY`, `annotations.SET.status`, as they are now | its fields; `@sample_rate` of a time axis in seconds |
//! | Sedpack | **a shard**, with all of its examples | its path | its split | its `custom_metadata` | the declared attributes; no axes, no rates |
//!
//! Values that examples hold (a key byte, a label) are samples, and are not asked for. [`Records`] searches the two latter, [`jbof::Catalog`] the first,
//! and [`open`] finds out which.
//!
//! Literals are numbers, texts in either quotes (escapes as in Python and JSON; `r'...'` keeps backslashes), `true`, `false`, `null` (also
//! `True`, `False`, `None`), and lists of them.
//!
//! - **What is missing makes a question false**, `!=` and `not in` too; `not` turns that round: `not snr == 3` holds where there is no snr,
//!   `snr != 3` does not. `null` is a value: it equals `null` alone.
//! - One side of each question is a key, a field, `id` or `split`: a comparison of two literals is refused.
//! - Values of different kinds are unequal, and neither is less than the other. The kinds are numbers, texts, null, lists, objects. True and
//!   false are the numbers 1 and 0, as in Python: `1 == 1.0 == true`.
//! - Numbers compare exactly, integers of any size. Texts compare by code points. Lists and objects are equal or not, and not ordered.
//! - NaN, which Python writes into JSON though it has none, counts as null; infinities are beyond all numbers.
//!
//! ```
//! use sigbank::format::model::json::Json;
//! use sigbank::query::{Expr, Record};
//! let expr: Expr = "snr > 10 and speaker in ['a', 'b']".parse()?;
//! let metadata = Json::parse(br#"{"snr": 12.5, "speaker": "b"}"#, &Default::default())?;
//! assert!(expr.matches(&Record::new("take 1", &metadata))?);
//! let error = "snr > and 3".parse::<Expr>().unwrap_err();
//! assert!(error.to_string().contains("column 7: expected a key, a number"));
//! # Ok::<(), sigbank::Error>(())
//! ```

mod columns;
mod expr;
mod index;
pub mod jbof;
mod lex;
mod parallel;
mod parse;
mod records;
mod row;
mod select;
mod selected;
mod source;
mod state;
mod table;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
mod unknown;
mod value;

pub use records::{INDEX_FOLDER, Matched, Records, index_folder};
pub use row::{Field, Record};
pub use selected::{Places, Searched, Selected, open, places};
pub use source::open_source;
pub use state::State;
pub use table::{Table, TableBuilder};
pub use unknown::{Named, Unknown, unknown};

use crate::error::{Error, Result};
use expr::{Leaf, Node, Step, Term, Test, Visited};
use sigbank_format::model::json::Json;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The split of layouts that have but one.
const ONLY_SPLIT: &str = "all";

/// What is asked of each record: see the [module](self) for the language. Its `Display` is a text that parses to the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    node: Node,
}

impl Expr {
    /// Whether metadata have, for each key, one of the values given for it: what `find_items` of JBOF asks.
    ///
    /// ```
    /// use sigbank::query::Expr;
    /// let expr = Expr::any_of(&[("speaker".to_owned(), vec!["a".into(), "b".into()])]);
    /// assert_eq!(expr.to_string(), r#"speaker in ["a", "b"]"#);
    /// ```
    pub fn any_of(wanted: &[(String, Vec<Json>)]) -> Self {
        let one = |(key, values): &(String, Vec<Json>)| {
            let what = Term::Path(vec![Step::Key(key.clone())]);
            Node::Leaf(Leaf { what, test: Test::In(values.clone()), negated: false })
        };
        let mut nodes: Vec<_> = wanted.iter().map(one).collect();
        let node = match nodes.len() {
            1 => nodes.pop().unwrap_or(Node::All(nodes)),
            _ => Node::All(nodes),
        };
        Self { node }
    }

    /// The same for records that are all of one split, whose name stands for `split` then: of JBOF and signal-datasets, `all`.
    ///
    /// ```
    /// use sigbank::format::model::json::Json;
    /// use sigbank::query::{Expr, Record};
    /// let expr: Expr = "split == 'all' and not split in ['test']".parse()?;
    /// let record = Record::new("a", &Json::EMPTY);
    /// assert!(expr.in_split("all").matches(&record)? && !expr.in_split("train").matches(&record)?);
    /// # Ok::<(), sigbank::Error>(())
    /// ```
    #[must_use]
    pub fn in_split(&self, name: &str) -> Self {
        if !self.own().contains(&"split") {
            return self.clone();
        }
        let mut node = self.node.clone();
        node.each_term(&mut |term| {
            if matches!(term, Term::Split) {
                *term = Term::Literal(Json::from(name));
            }
        });
        Self { node }
    }

    /// Whether it holds for a record.
    ///
    /// # Errors
    /// `Corrupt` for metadata that are no JSON.
    pub fn matches(&self, record: &Record<'_>) -> Result<bool> {
        record.holds(&self.node)
    }

    /// Whether it asks for fields (`iq@shape`, `has(iq)`), which cost more to know than metadata.
    ///
    /// ```
    /// use sigbank::query::Expr;
    /// assert!("has(iq)".parse::<Expr>()?.needs_fields() && !"iq == 3".parse::<Expr>()?.needs_fields());
    /// # Ok::<(), sigbank::Error>(())
    /// ```
    pub fn needs_fields(&self) -> bool {
        let mut needed = false;
        self.node.visit(&mut |visited| needed |= matches!(visited, Visited::Field(_)));
        needed
    }

    /// The keys at the top of the metadata that it asks for, sorted.
    pub fn keys(&self) -> Vec<&str> {
        let mut keys = BTreeSet::new();
        self.node.visit(&mut |visited| {
            if let Visited::Path([Step::Key(key), ..]) = visited {
                keys.insert(key.as_str());
            }
        });
        keys.into_iter().collect()
    }

    /// The keys that it asks for in the object of a key at the top; none of it where it does not ask for that, and no names where for all of it.
    pub(crate) fn below(&self, top: &str) -> Option<BTreeSet<&str>> {
        let (mut asked, mut whole, mut keys) = (false, false, BTreeSet::new());
        self.node.visit(&mut |visited| {
            if let Visited::Path([Step::Key(key), rest @ ..]) = visited
                && key == top
            {
                asked = true;
                match rest.first() {
                    Some(Step::Key(key)) => drop(keys.insert(key.as_str())),
                    _ => whole = true,
                }
            }
        });
        if whole {
            keys.clear();
        }
        asked.then_some(keys)
    }

    /// The paths that it asks for in the object of a key at the top.
    fn paths_below(&self, top: &str) -> Vec<&[Step]> {
        let mut paths: Vec<&[Step]> = Vec::new();
        self.node.visit(&mut |visited| {
            if let Visited::Path(path @ [Step::Key(key), _, ..]) = visited
                && key == top
                && !paths.contains(&path)
            {
                paths.push(path);
            }
        });
        paths
    }

    /// Which of `id` and `split`, the record's own, it asks for, sorted.
    pub fn own(&self) -> Vec<&str> {
        let mut own = BTreeSet::new();
        self.node.visit(&mut |visited| {
            if let Visited::Own(name) = visited {
                own.insert(name);
            }
        });
        own.into_iter().collect()
    }

    /// The names of the fields that it asks for, sorted.
    pub fn fields(&self) -> Vec<&str> {
        let mut fields = BTreeSet::new();
        self.node.visit(&mut |visited| {
            if let Visited::Field(field) = visited {
                fields.insert(field);
            }
        });
        fields.into_iter().collect()
    }
}

impl FromStr for Expr {
    type Err = Error;

    /// `Invalid` points at the column of what cannot be read, and says what is expected there.
    fn from_str(text: &str) -> Result<Self> {
        parse::parse(text).map(|node| Self { node }).map_err(|refusal| refusal.error(text))
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.fmt(f)
    }
}

/// Why an expression cannot be read, and the byte where.
#[derive(Debug)]
struct Refusal {
    at: usize,
    what: String,
}

/// Characters of an expression that are shown before and behind what is wrong.
const SHOWN: usize = 50;

impl Refusal {
    fn new(at: usize, what: String) -> Self {
        Self { at, what }
    }
    /// The error, with the place drawn below the text.
    fn error(self, text: &str) -> Error {
        let column = text.get(..self.at).unwrap_or(text).chars().count();
        let skipped = column.saturating_sub(SHOWN);
        let dots = if skipped > 0 { "..." } else { "" };
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let shown: String = text.chars().skip(skipped).take(2 * SHOWN).map(plain).collect();
        let more = if text.chars().count() > skipped + 2 * SHOWN { "..." } else { "" };
        let space = " ".repeat(column - skipped + dots.len());
        Error::invalid(format!("the expression, column {}: {}\n  {dots}{shown}{more}\n  {space}^", column + 1, self.what))
    }
}

/// The known name that was likely meant: the nearest one, where few letters differ.
///
/// ```
/// use sigbank::query::near;
/// assert_eq!(near("snrr", ["speaker", "snr"]), Some("snr"));
/// assert_eq!(near("gain", ["speaker", "snr"]), None);
/// ```
pub fn near<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower: Vec<char> = name.to_lowercase().chars().take(100).collect();
    let allowed = 1 + lower.len() / 5;
    let distance = |other: &str| {
        let other: Vec<char> = other.to_lowercase().chars().take(100).collect();
        edits(&lower, &other)
    };
    known
        .into_iter()
        .map(|other| (distance(other), other))
        .filter(|&(d, other)| d <= allowed && d < other.len())
        .min()
        .map(|(_, o)| o)
}

/// Letters that are put in, taken out, replaced, or (neighbours) exchanged.
fn edits(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX / 2);
            let mut best = (at(&above, j) + usize::from(x != y)).min(at(&above, j + 1) + 1).min(at(&row, j) + 1);
            let crossed = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if crossed {
                best = best.min(at(&before, j - 1) + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or(0)
}
