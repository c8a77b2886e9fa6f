//! What a path says: patterns such as `{speaker}/{session}_{take:int}.wav`, and names made of what is known of a file.

use crate::error::{Error, Result};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Steps that matching one path may take, in all: patterns of many keys are ambiguous in many ways.
const STEPS: usize = 100_000;

/// A pattern of paths, relative to the folder, with `/` between the parts.
///
/// `{key}` stands for one or more characters other than `/`, as few as possible, and gives metadata of that name as text. `{key:int}` and
/// `{key:float}` stand for a number and give one, `{key:path}` for characters with `/` among them. `{}` stands for what is not wanted, `{{` and `}}`
/// for braces. A key that stands twice must be the same twice. A pattern that ends with the ending of an array file is compared with the whole path,
/// upper and lower case of the ending being the same; any other with the path without its ending.
///
/// ```
/// use sigbank::convert::import::Pattern;
/// let pattern: Pattern = "{speaker}/{session}_{take:int}.wav".parse()?;
/// let found = pattern.find("ann/s1_07.WAV").unwrap();
/// assert_eq!(serde_json::to_string(&found)?, r#"{"speaker":"ann","session":"s1","take":7}"#);
/// assert!(pattern.find("ann/s1.wav").is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Pattern {
    text: String,
    parts: Vec<Part>,
    with_ending: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Literal(String),
    /// A key (empty: not wanted), and what it may be.
    Key(String, Class),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Class {
    Text,
    Int,
    Float,
    Path,
}

impl std::str::FromStr for Pattern {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |what: String| Error::invalid(format!("the pattern '{text}': {what}"));
        let mut parts = Vec::new();
        for piece in pieces(text).map_err(&wrong)? {
            parts.push(match piece {
                Piece::Literal(literal) => Part::Literal(literal),
                Piece::Key(key) => {
                    let (name, class) = key.split_once(':').unwrap_or((&key, "text"));
                    let class = match class {
                        "text" => Class::Text,
                        "int" => Class::Int,
                        "float" => Class::Float,
                        "path" => Class::Path,
                        other => {
                            return Err(wrong(format!("{{{name}:{other}}} is of no known kind"))
                                .remedy("there are int, float, path and text"));
                        }
                    };
                    if parts.iter().any(|part| matches!(part, Part::Key(known, of) if known == name && *of != class)) {
                        return Err(wrong(format!("'{name}' is of two kinds")));
                    }
                    Part::Key(name.to_owned(), class)
                }
            });
        }
        let with_ending = match parts.last() {
            Some(Part::Literal(last)) => super::ending(last).is_some(),
            _ => false,
        };
        if with_ending && let Some(Part::Literal(last)) = parts.last_mut() {
            // Compared with a path whose ending is in lower case.
            *last = lower_ending(last);
        }
        Ok(Self { text: text.to_owned(), parts, with_ending })
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

fn lower_ending(path: &str) -> String {
    match path.rsplit_once('.') {
        Some((stem, ending)) => format!("{stem}.{}", ending.to_ascii_lowercase()),
        None => path.to_owned(),
    }
}

/// A part of a pattern or template.
enum Piece {
    Literal(String),
    Key(String),
}

/// The pieces of a text with keys in braces.
fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let (mut pieces, mut literal) = (Vec::new(), String::new());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
        match c {
            '{' | '}' if rest.starts_with(c) => {
                literal.push(c);
                rest = rest.get(1..).unwrap_or_default();
            }
            '{' => {
                let Some((key, after)) = rest.split_once('}') else { return Err("a '{' has no '}'".into()) };
                if key.contains('{') {
                    return Err(format!("'{{{key}' has a brace in its key"));
                }
                if !literal.is_empty() {
                    pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                }
                pieces.push(Piece::Key(key.to_owned()));
                rest = after;
            }
            '}' => return Err("a '}' has no '{'; a brace itself is written twice".into()),
            c => literal.push(c),
        }
    }
    if !literal.is_empty() {
        pieces.push(Piece::Literal(literal));
    }
    Ok(pieces)
}

impl Pattern {
    /// The keys in their order, without those that are not wanted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Key(key, _) if !key.is_empty() => Some(key.as_str()),
            _ => None,
        })
    }

    /// What a path says, in the order of the pattern; none where it is not of the pattern.
    pub fn find(&self, path: &str) -> Option<Map<String, Value>> {
        let path = match self.with_ending {
            true => lower_ending(path),
            false => super::without_ending(path).to_owned(),
        };
        let mut steps = STEPS;
        let mut found = BTreeMap::new();
        if !matches(&self.parts, &path, &mut found, &mut steps) {
            return None;
        }
        let mut said = Map::new();
        for part in &self.parts {
            let Part::Key(key, class) = part else { continue };
            if let Some(text) = found.get(key.as_str()).filter(|_| !key.is_empty()) {
                said.insert(key.clone(), value(text, *class)?);
            }
        }
        Some(said)
    }
}

fn value(text: &str, class: Class) -> Option<Value> {
    Some(match class {
        Class::Text | Class::Path => text.into(),
        Class::Int => text.parse::<i64>().ok()?.into(),
        Class::Float => text.parse::<f64>().ok().filter(|n| n.is_finite())?.into(),
    })
}

/// Whether a text is one that a key may stand for.
fn fits(text: &str, class: Class) -> bool {
    match class {
        Class::Text => !text.contains('/'),
        Class::Path => true,
        Class::Int => text.parse::<i64>().is_ok(),
        Class::Float => {
            text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.')) && value(text, class).is_some()
        }
    }
}

/// The shortest texts for the first keys that leave something for the others.
fn matches<'a>(parts: &'a [Part], text: &'a str, found: &mut BTreeMap<&'a str, &'a str>, steps: &mut usize) -> bool {
    *steps = steps.saturating_sub(1);
    if *steps == 0 {
        return false;
    }
    match parts.split_first() {
        None => text.is_empty(),
        Some((Part::Literal(literal), rest)) => {
            text.strip_prefix(literal.as_str()).is_some_and(|text| matches(rest, text, found, steps))
        }
        Some((Part::Key(key, class), rest)) => {
            if let Some(&known) = found.get(key.as_str()).filter(|_| !key.is_empty()) {
                return text.strip_prefix(known).is_some_and(|text| matches(rest, text, found, steps));
            }
            let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
            for end in ends {
                let (taken, left) = text.split_at(end);
                if !fits(taken, *class) {
                    match class {
                        // A longer one has the same '/' in it.
                        Class::Text => return false,
                        _ => continue,
                    }
                }
                let before = found.insert(key, taken);
                if matches(rest, left, found, steps) {
                    return true;
                }
                match before {
                    Some(before) => found.insert(key, before),
                    None => found.remove(key.as_str()),
                };
            }
            false
        }
    }
}

/// The name of an item or array, made of what is known of a file: `{speaker}-{take}`. Beside the metadata, a file has `{stem}` (its name without the
/// ending), `{ext}`, `{folder}` (the folders that it is in, joined by `-`) and `{parent}` (the innermost of them).
///
/// ```
/// use sigbank::convert::import::Template;
/// let template: Template = "{speaker}-{stem}".parse()?;
/// let metadata = serde_json::json!({"speaker": 7});
/// assert_eq!(template.name(metadata.as_object().unwrap(), "a/b/take 1.wav")?, "7-take 1");
/// assert!(template.name(&Default::default(), "x.wav").unwrap_err().to_string().contains("'speaker'"));
/// # Ok::<(), sigbank::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Template {
    text: String,
    pieces: std::sync::Arc<[Piece]>,
}

impl std::fmt::Debug for Piece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Literal(text) => write!(f, "{text:?}"),
            Self::Key(key) => write!(f, "{{{key}}}"),
        }
    }
}

impl std::str::FromStr for Template {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let pieces = pieces(text).map_err(|what| Error::invalid(format!("the template '{text}': {what}")))?;
        Ok(Self { text: text.to_owned(), pieces: pieces.into() })
    }
}

impl std::fmt::Display for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Template {
    /// The name for a file of such metadata at such a path.
    ///
    /// # Errors
    /// `Invalid` for a key that the file has not, or that is no single value.
    pub fn name(&self, metadata: &Map<String, Value>, path: &str) -> Result<String> {
        let mut name = String::new();
        for piece in &*self.pieces {
            match piece {
                Piece::Literal(text) => name.push_str(text),
                Piece::Key(key) => name.push_str(&word(key, metadata, path).ok_or_else(|| {
                    let known = metadata.keys().map(String::as_str).chain(BUILT_IN).collect::<Vec<_>>().join(", ");
                    Error::invalid(format!("the template '{self}' asks for '{key}', which the file has not"))
                        .at(path)
                        .remedy(format!("it has {known}"))
                })?),
            }
        }
        Ok(name)
    }
}

const BUILT_IN: [&str; 4] = ["stem", "ext", "folder", "parent"];

fn word(key: &str, metadata: &Map<String, Value>, path: &str) -> Option<String> {
    match metadata.get(key) {
        Some(Value::String(text)) => return Some(text.clone()),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => return Some(value.to_string()),
        Some(_) => return None,
        None => {}
    }
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    Some(match key {
        "stem" => super::without_ending(file).to_owned(),
        "ext" => super::ending(file).unwrap_or_default(),
        "folder" => folder.replace('/', "-"),
        "parent" => folder.rsplit('/').next().unwrap_or_default().to_owned(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, path: &str) -> Option<String> {
        pattern.parse::<Pattern>().unwrap().find(path).map(|found| serde_json::to_string(&found).unwrap())
    }

    #[test]
    fn patterns_find_what_they_say_and_nothing_else() {
        for (pattern, path, expected) in [
            ("{a}_{b}.wav", "x_y_z.wav", Some(r#"{"a":"x","b":"y_z"}"#)),
            ("{a}_{b}", "x_y.npy", Some(r#"{"a":"x","b":"y"}"#)),
            ("{a}/{b}", "x/y/z.wav", None),
            ("{a:path}/{b}.wav", "x/y/z.wav", Some(r#"{"a":"x/y","b":"z"}"#)),
            ("{a}{n:int}.wav", "take12.wav", Some(r#"{"a":"take","n":12}"#)),
            ("{a}_{n:int}.wav", "take_x.wav", None),
            ("{n:int}.wav", "-3.wav", Some(r#"{"n":-3}"#)),
            ("{f:float}dB.wav", "-2.5dB.WAV", Some(r#"{"f":-2.5}"#)),
            ("{f:float}.wav", "nan.wav", None),
            ("{s}/{s}_{t}.wav", "ann/ann_1.wav", Some(r#"{"s":"ann","t":"1"}"#)),
            ("{s}/{s}_{t}.wav", "ann/bob_1.wav", None),
            ("{}/{t}.wav", "ann/1.wav", Some(r#"{"t":"1"}"#)),
            ("{{{t}}}.wav", "{1}.wav", Some(r#"{"t":"1"}"#)),
            ("x.wav", "x.WAV", Some("{}")),
            ("X.wav", "x.wav", None),
            ("{é}_ü.flac", "日本_ü.flac", Some(r#"{"é":"日本"}"#)),
            ("{a}.v2", "x.v2.wav", Some(r#"{"a":"x"}"#)),
            ("{a}", ".wav", None),
        ] {
            assert_eq!(found(pattern, path).as_deref(), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn wrong_patterns_are_refused_and_ambiguous_ones_end() {
        for wrong in ["{a", "a}", "{a{b}}", "{a:number}", "{a}_{a:int}"] {
            assert!(wrong.parse::<Pattern>().is_err(), "{wrong}");
        }
        let many: String = (0..40).map(|n| format!("{{k{n}}}")).collect();
        assert_eq!(found(&format!("{many}!"), &"a".repeat(200)), None);
        assert!("{a".parse::<Template>().is_err());
    }
}
