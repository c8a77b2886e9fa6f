//! The words of an expression.

use super::Refusal;
use sigbank_format::model::json::Json;

/// A word and the byte where it begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub kind: Kind,
    pub at: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// A name or a word of the language.
    Word(String),
    Text(String),
    Number(Json),
    /// A sign, such as `<=`.
    Sign(&'static str),
    End,
}

impl Kind {
    /// What it is called in messages.
    pub(super) fn told(&self) -> String {
        match self {
            Self::Word(word) => format!("'{word}'"),
            Self::Text(text) => format!("the text {:?}", text.chars().take(40).collect::<String>()),
            Self::Number(json) => format!("the number {}", json.as_str().chars().take(40).collect::<String>()),
            Self::Sign(sign) => format!("'{sign}'"),
            Self::End => "the end".into(),
        }
    }
}

/// Longer ones first.
const SIGNS: [&str; 18] = ["==", "!=", "<=", ">=", "<>", "&&", "||", "=", "<", ">", "(", ")", "[", "]", ",", ".", "@", "!"];

/// All words, the last one the end.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Refusal> {
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let trimmed = rest.trim_start();
        at += rest.len() - trimmed.len();
        let Some(first) = trimmed.chars().next() else {
            found.push(Token { kind: Kind::End, at: text.len() });
            return Ok(found);
        };
        let (kind, len) = match first {
            '"' | '\'' => quoted(trimmed, at)?,
            'r' if trimmed.starts_with("r'") || trimmed.starts_with("r\"") => raw(trimmed, at)?,
            c if c.is_alphabetic() || c == '_' => {
                let word: String = trimmed.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                let len = word.len();
                (Kind::Word(word), len)
            }
            c if c.is_ascii_digit() || c == '-' || c == '+' => number(trimmed, at)?,
            _ => match SIGNS.into_iter().find(|sign| trimmed.starts_with(sign)) {
                Some(sign) => (Kind::Sign(sign), sign.len()),
                None => return Err(Refusal::new(at, format!("the character {first:?} has no meaning here"))),
            },
        };
        found.push(Token { kind, at });
        at += len;
    }
}

fn number(text: &str, at: usize) -> Result<(Kind, usize), Refusal> {
    let plus = usize::from(text.starts_with('+'));
    let mut before = '+';
    let part = |c: &char| {
        let sign = matches!(c, '-' | '+') && matches!(before, 'e' | 'E');
        let more = c.is_ascii_digit() || *c == '.' || c.is_alphabetic() || *c == '_' || sign;
        before = *c;
        more
    };
    let first = text.get(plus..).is_some_and(|rest| rest.starts_with('-'));
    let len = usize::from(first)
        + text.get(plus + usize::from(first)..).unwrap_or_default().chars().take_while(part).map(char::len_utf8).sum::<usize>();
    let word = text.get(plus..plus + len).unwrap_or_default();
    match Json::parse(word.as_bytes(), &Default::default()) {
        Ok(json) => Ok((Kind::Number(json), plus + len)),
        Err(_) => Err(Refusal::new(
            at,
            format!("{:?} is no number: write one such as 12, -0.5 or 1e6", word.chars().take(40).collect::<String>()),
        )),
    }
}

/// A text in which a backslash is itself.
fn raw(text: &str, at: usize) -> Result<(Kind, usize), Refusal> {
    let quote = text.chars().nth(1).unwrap_or('"');
    let inside = text.get(2..).unwrap_or_default();
    match inside.find(quote) {
        Some(len) => Ok((Kind::Text(inside.get(..len).unwrap_or_default().to_owned()), len + 3)),
        None => Err(unended(at, quote)),
    }
}

fn unended(at: usize, quote: char) -> Refusal {
    Refusal::new(at, format!("the text that begins here has no end: put {quote} behind it"))
}

fn quoted(text: &str, at: usize) -> Result<(Kind, usize), Refusal> {
    let mut chars = text.char_indices();
    let quote = chars.next().map_or('"', |(_, c)| c);
    let mut out = String::new();
    while let Some((here, c)) = chars.next() {
        match c {
            c if c == quote => return Ok((Kind::Text(out), here + 1)),
            '\\' => {
                let wrong = |why: &str| {
                    Refusal::new(at + here, format!("{why}: write \\\\ for a backslash, or r'...' for a text of them"))
                };
                let Some((_, escape)) = chars.next() else { return Err(unended(at, quote)) };
                out.push(match escape {
                    '\\' | '/' | '"' | '\'' => escape,
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'u' | 'x' => {
                        let mut hex = |count: usize| {
                            let digits: String = chars.by_ref().take(count).map(|(_, c)| c).collect();
                            let plain = digits.len() == count && digits.bytes().all(|b| b.is_ascii_hexdigit());
                            u32::from_str_radix(&digits, 16)
                                .ok()
                                .filter(|_| plain)
                                .ok_or_else(|| wrong("hexadecimal digits are expected"))
                        };
                        let mut code = hex(if escape == 'u' { 4 } else { 2 })?;
                        if (0xd800..0xdc00).contains(&code) && text.get(here + 6..).is_some_and(|rest| rest.starts_with("\\u")) {
                            hex(2).ok(); // The two characters before the digits.
                            match hex(4)? {
                                low @ 0xdc00..=0xdfff => code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00),
                                _ => return Err(wrong("half of a surrogate pair is no character")),
                            }
                        }
                        char::from_u32(code).ok_or_else(|| wrong("half of a surrogate pair is no character"))?
                    }
                    other => return Err(wrong(&format!("the escape \\{other} is not known"))),
                });
            }
            c => out.push(c),
        }
    }
    Err(unended(at, quote))
}
