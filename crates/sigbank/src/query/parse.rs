//! From text to expressions.

use super::Refusal;
use super::expr::{Leaf, Node, Op, Pattern, Property, Step, Term, Test, is_reserved};
use super::lex::{Kind, Token, tokens};
use sigbank_format::model::json::{Json, write_string};

/// Longest text of an expression, in bytes.
pub(super) const MAX_BYTES: usize = 1 << 20;
/// Deepest nesting of parentheses, `not` and lists.
const MAX_DEPTH: usize = 64;

pub(super) fn parse(text: &str) -> Result<Node, Refusal> {
    if text.len() > MAX_BYTES {
        return Err(Refusal::new(0, format!("an expression of {} bytes: at most {MAX_BYTES} are read", text.len())));
    }
    let mut parser = Parser { tokens: tokens(text)?, next: 0, depth: 0 };
    let node = parser.any()?;
    match parser.peek() {
        Kind::End => Ok(node),
        Kind::Sign(sign @ ("&&" | "||")) => Err(parser.wrong(&format!("'{}'", if *sign == "&&" { "and" } else { "or" }))),
        _ => Err(parser.wrong("'and', 'or' or the end")),
    }
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
}

const COMPARISON: &str = "a comparison (==, !=, <, <=, >, >=, in, contains, startswith, endswith, like or matches)";
const VALUE: &str = "a key, a number, a text in quotes, true, false or null";

impl Parser {
    fn peek(&self) -> &Kind {
        self.tokens.get(self.next).map_or(&Kind::End, |token| &token.kind)
    }
    fn at(&self) -> usize {
        self.tokens.get(self.next).or(self.tokens.last()).map_or(0, |token| token.at)
    }
    fn take(&mut self) -> Kind {
        let kind = self.peek().clone();
        self.next += 1;
        kind
    }
    fn wrong(&self, expected: &str) -> Refusal {
        Refusal::new(self.at(), format!("expected {expected}, found {}", self.peek().told()))
    }
    fn sign(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Kind::Sign(s) if *s == sign);
        self.next += usize::from(found);
        found
    }
    fn expect(&mut self, sign: &str) -> Result<(), Refusal> {
        if self.sign(sign) { Ok(()) } else { Err(self.wrong(&format!("'{sign}'"))) }
    }
    /// A word of the language, in lower or upper case.
    fn is(&self, word: &str) -> bool {
        matches!(self.peek(), Kind::Word(w) if w == word || (w.eq_ignore_ascii_case(word) && *w == word.to_ascii_uppercase()))
    }
    fn word(&mut self, word: &str) -> bool {
        let found = self.is(word);
        self.next += usize::from(found);
        found
    }
    fn deeper<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T, Refusal>) -> Result<T, Refusal> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Refusal::new(self.at(), format!("nested more than {MAX_DEPTH} deep")));
        }
        let done = run(self)?;
        self.depth -= 1;
        Ok(done)
    }

    fn any(&mut self) -> Result<Node, Refusal> {
        self.joined("or", Self::all, Node::Any)
    }
    fn all(&mut self) -> Result<Node, Refusal> {
        self.joined("and", Self::not, Node::All)
    }
    fn joined(
        &mut self,
        word: &str,
        part: impl Fn(&mut Self) -> Result<Node, Refusal>,
        join: impl FnOnce(Vec<Node>) -> Node,
    ) -> Result<Node, Refusal> {
        let first = part(self)?;
        if !self.is(word) {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.word(word) {
            parts.push(part(self)?);
        }
        Ok(join(parts))
    }
    fn not(&mut self) -> Result<Node, Refusal> {
        if matches!(self.peek(), Kind::Sign("!")) {
            return Err(self.wrong("'not'"));
        }
        if self.word("not") { Ok(Node::Not(Box::new(self.deeper(Self::not)?))) } else { self.primary() }
    }
    fn primary(&mut self) -> Result<Node, Refusal> {
        if self.sign("(") {
            let inside = self.deeper(Self::any)?;
            self.expect(")")?;
            return Ok(inside);
        }
        if self.word("exists") {
            self.expect("(")?;
            let at = self.at();
            let term = self.term()?;
            self.expect(")")?;
            return match term {
                Term::Path(path) => Ok(Node::Exists(path)),
                _ => Err(Refusal::new(at, "expected a key in exists(...); has(...) is for fields".into())),
            };
        }
        if self.word("has") {
            return Ok(Node::Has(self.name_in_parentheses()?));
        }
        self.comparison()
    }

    fn name_in_parentheses(&mut self) -> Result<String, Refusal> {
        self.expect("(")?;
        let name = match self.peek() {
            Kind::Word(name) | Kind::Text(name) => name.clone(),
            _ => return Err(self.wrong("the name of a field")),
        };
        self.next += 1;
        self.expect(")")?;
        Ok(name)
    }

    fn comparison(&mut self) -> Result<Node, Refusal> {
        let start = self.at();
        let mut left = self.term()?;
        let mut found = Vec::new();
        while let Some(op) = self.operator()? {
            let right = self.term()?;
            if let (Term::Literal(_), Term::Literal(_)) = (&left, &right) {
                return Err(values_alone(start));
            }
            found.push(Node::Leaf(Leaf { what: left, test: Test::Compare(op, right.clone()), negated: false }));
            left = right;
        }
        match found.len() {
            0 => self.test(left, start),
            1 => found.pop().ok_or_else(|| self.wrong(COMPARISON)),
            // 1 < a < 3 is 1 < a and a < 3.
            _ => Ok(Node::All(found)),
        }
    }
    fn operator(&mut self) -> Result<Option<Op>, Refusal> {
        let op = match self.peek() {
            Kind::Sign("==" | "=") => Op::Equal,
            Kind::Sign("!=" | "<>") => Op::Unequal,
            Kind::Sign("<") => Op::Less,
            Kind::Sign("<=") => Op::AtMost,
            Kind::Sign(">") => Op::Greater,
            Kind::Sign(">=") => Op::AtLeast,
            _ if self.is("is") => return Err(self.wrong("'==' or '!=' ('is' is no word here)")),
            _ => return Ok(None),
        };
        self.next += 1;
        Ok(Some(op))
    }

    /// What stands behind a value and is no comparison of two.
    fn test(&mut self, what: Term, start: usize) -> Result<Node, Refusal> {
        let negated = self.word("not");
        let at = self.at();
        let named = what.to_string();
        let test = match self.take() {
            Kind::Word(word) => match word.to_ascii_lowercase().as_str() {
                "in" => self.among()?,
                "contains" => Test::Contains(self.literal()?),
                "startswith" => Test::Starts(self.text()?),
                "endswith" => Test::Ends(self.text()?),
                "like" => Test::Like(self.pattern(Pattern::like)?),
                "matches" => Test::Matches(self.pattern(Pattern::regex)?),
                _ => return Err(self.no_comparison(at, negated, &named)),
            },
            _ => return Err(self.no_comparison(at, negated, &named)),
        };
        match (&what, &test) {
            (Term::Literal(_), Test::Within(_)) => {}
            (Term::Literal(_), _) => return Err(values_alone(start)),
            _ => {}
        }
        Ok(Node::Leaf(Leaf { what, test, negated }))
    }
    fn no_comparison(&mut self, at: usize, negated: bool, named: &str) -> Refusal {
        self.next -= 1;
        let found = self.peek().told();
        let named: String = named.chars().take(60).collect();
        Refusal::new(
            at,
            match negated {
                true => format!("expected in, contains, startswith, endswith, like or matches behind 'not', found {found}"),
                false => format!(
                    "expected {COMPARISON} behind {named}, found {found}; what is true or false is asked for by {named} == true"
                ),
            },
        )
    }

    fn among(&mut self) -> Result<Test, Refusal> {
        if self.sign("(") {
            return Ok(Test::In(self.list(")")?));
        }
        if self.sign("[") {
            return Ok(Test::In(self.list("]")?));
        }
        match self.peek() {
            Kind::Word(_) => match self.term()? {
                term @ (Term::Path(_) | Term::Field(_, Property::Shape | Property::Axes)) => Ok(Test::Within(term)),
                other => Err(Refusal::new(self.at(), format!("expected a list such as ['a', 'b'] behind 'in', found {other}"))),
            },
            _ => Err(self.wrong("a list such as ['a', 'b'], or a key whose value is one")),
        }
    }
    fn list(&mut self, end: &str) -> Result<Vec<Json>, Refusal> {
        let mut found = Vec::new();
        while !self.sign(end) {
            found.push(self.deeper(Self::literal)?);
            if !self.sign(",") && !matches!(self.peek(), Kind::Sign(s) if *s == end) {
                return Err(self.wrong(&format!("',' or '{end}'")));
            }
        }
        Ok(found)
    }
    fn text(&mut self) -> Result<String, Refusal> {
        match self.peek() {
            Kind::Text(text) => {
                let text = text.clone();
                self.next += 1;
                Ok(text)
            }
            _ => Err(self.wrong("a text in quotes")),
        }
    }
    fn pattern(&mut self, make: impl Fn(&str) -> Result<Pattern, String>) -> Result<Pattern, Refusal> {
        let at = self.at();
        make(&self.text()?).map_err(|why| Refusal::new(at, format!("this pattern cannot be used: {why}")))
    }

    fn literal(&mut self) -> Result<Json, Refusal> {
        match self.maybe_literal()? {
            Some(json) => Ok(json),
            None => Err(self.wrong("a number, a text in quotes, true, false, null or a list of these")),
        }
    }
    fn maybe_literal(&mut self) -> Result<Option<Json>, Refusal> {
        let json = match self.peek() {
            Kind::Text(text) => Json::from(text.as_str()),
            Kind::Number(json) => json.clone(),
            Kind::Word(word) => match word.as_str() {
                "true" | "True" | "TRUE" => Json::from(true),
                "false" | "False" | "FALSE" => Json::from(false),
                "null" | "None" | "NULL" => Json::NULL,
                _ => return Ok(None),
            },
            Kind::Sign("[") => {
                self.next += 1;
                let mut text = String::from("[");
                for (i, json) in self.list("]")?.iter().enumerate() {
                    text.push_str(if i > 0 { "," } else { "" });
                    text.push_str(json.as_str());
                }
                text.push(']');
                let at = self.at();
                return Json::parse(text.as_bytes(), &Default::default()).map(Some).map_err(|e| Refusal::new(at, e.to_string()));
            }
            _ => return Ok(None),
        };
        self.next += 1;
        Ok(Some(json))
    }

    fn term(&mut self) -> Result<Term, Refusal> {
        if let Some(json) = self.maybe_literal()? {
            return Ok(Term::Literal(json));
        }
        let Kind::Word(word) = self.peek().clone() else { return Err(self.wrong(VALUE)) };
        let at = self.at();
        match word.as_str() {
            "field" => {
                self.next += 1;
                let name = self.name_in_parentheses()?;
                self.property(name)
            }
            "id" | "split" => {
                self.next += 1;
                if let Kind::Sign("." | "[" | "@") = self.peek() {
                    let mut key = String::new();
                    write_string(&word, &mut key);
                    return Err(Refusal::new(at, format!("'{word}' is the record's own: a key of that name is metadata[{key}]")));
                }
                Ok(if word == "id" { Term::Id } else { Term::Split })
            }
            "metadata" => {
                self.next += 1;
                let steps = self.steps(Vec::new())?;
                match steps.first() {
                    Some(Step::Key(_)) => Ok(Term::Path(steps)),
                    _ => Err(self.wrong("'.' or '[' and a key behind metadata")),
                }
            }
            word if is_reserved(word) => Err(self.wrong(VALUE)),
            _ => {
                self.next += 1;
                if matches!(self.peek(), Kind::Sign("@")) {
                    return self.property(word);
                }
                if matches!(self.peek(), Kind::Sign("(")) {
                    return Err(Refusal::new(
                        at,
                        format!("there is no function {word}: exists(key), has(field) and field('name')@shape are"),
                    ));
                }
                self.steps(vec![Step::Key(word)]).map(Term::Path)
            }
        }
    }
    fn steps(&mut self, mut steps: Vec<Step>) -> Result<Vec<Step>, Refusal> {
        loop {
            if steps.len() > MAX_DEPTH {
                return Err(Refusal::new(self.at(), format!("a path of more than {MAX_DEPTH} steps")));
            }
            if self.sign(".") {
                match self.peek().clone() {
                    Kind::Word(key) => steps.push(Step::Key(key)),
                    _ => return Err(self.wrong("a key behind '.' (['...'] for one that is no word)")),
                }
                self.next += 1;
            } else if self.sign("[") {
                match self.peek().clone() {
                    Kind::Text(key) => steps.push(Step::Key(key)),
                    Kind::Number(json) if !steps.is_empty() => match json.as_str().parse() {
                        Ok(at) => steps.push(Step::Index(at)),
                        Err(_) => return Err(self.wrong("a key in quotes or a whole number")),
                    },
                    _ => return Err(self.wrong("a key in quotes or a whole number")),
                }
                self.next += 1;
                self.expect("]")?;
            } else {
                return Ok(steps);
            }
        }
    }
    fn property(&mut self, field: String) -> Result<Term, Refusal> {
        self.expect("@")?;
        const KNOWN: &str = "dtype, shape, ndim, length, axes or sample_rate behind '@'";
        let property = match self.peek() {
            Kind::Word(word) => match word.as_str() {
                "dtype" => Property::DType,
                "shape" => Property::Shape,
                "ndim" => Property::Rank,
                "length" => Property::Length,
                "axes" => Property::Axes,
                "sample_rate" | "samplerate" => Property::SampleRate,
                _ => return Err(self.wrong(KNOWN)),
            },
            _ => return Err(self.wrong(KNOWN)),
        };
        self.next += 1;
        if property != Property::Shape || !self.sign("[") {
            return Ok(Term::Field(field, property));
        }
        let axis = match self.peek() {
            Kind::Number(json) => json.as_str().parse().ok(),
            _ => None,
        };
        let Some(axis) = axis else { return Err(self.wrong("the number of an axis")) };
        self.next += 1;
        self.expect("]")?;
        Ok(Term::Field(field, Property::Dimension(axis)))
    }
}

fn values_alone(at: usize) -> Refusal {
    Refusal::new(at, "expected a key or a field on one side; a key with an odd name is metadata['odd key']".into())
}
