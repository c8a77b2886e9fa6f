//! Formats: `[[fill]align][sign]["z"]["#"]["0"][width][grouping]["." precision][type]`.

use super::{Made, wrong};

/// Widest field, and most digits behind the point.
const WIDEST: usize = 10_000;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Spec {
    pub(super) fill: char,
    pub(super) align: Option<char>,
    pub(super) sign: char,
    pub(super) signed: bool,
    pub(super) no_negative_zero: bool,
    pub(super) alternate: bool,
    pub(super) zero: bool,
    pub(super) width: usize,
    pub(super) grouping: Option<char>,
    pub(super) precision: Option<usize>,
    pub(super) kind: Option<char>,
}

impl Spec {
    pub(super) fn parse(text: &str) -> Made<Self> {
        let mut rest: &[char] = &text.chars().collect::<Vec<_>>();
        let is_align = |c: &char| matches!(c, '<' | '>' | '=' | '^');
        let (mut fill, mut filled, mut align) = (' ', false, None);
        match rest {
            [c, a, after @ ..] if is_align(a) => (fill, filled, align, rest) = (*c, true, Some(*a), after),
            [a, after @ ..] if is_align(a) => (align, rest) = (Some(*a), after),
            _ => {}
        }
        let mut sign = None;
        if let [c @ ('+' | '-' | ' '), after @ ..] = rest {
            (sign, rest) = (Some(*c), after);
        }
        let mut flag = |wanted: char| match rest {
            [c, after @ ..] if *c == wanted => {
                rest = after;
                true
            }
            _ => false,
        };
        let (no_negative_zero, alternate) = (flag('z'), flag('#'));
        let zero = !filled && flag('0');
        if zero {
            fill = '0';
        }
        let width = digits(&mut rest)?.unwrap_or(0);
        let mut grouping = None;
        if let [c @ (',' | '_'), after @ ..] = rest {
            (grouping, rest) = (Some(*c), after);
        }
        if let [',' | '_', ..] = rest {
            return wrong("a format has two groupings");
        }
        let mut precision = None;
        if let ['.', after @ ..] = rest {
            rest = after;
            precision = digits(&mut rest)?;
            if precision.is_none() {
                return wrong("a format has a point without a precision");
            }
        }
        let kind = match rest {
            [] => None,
            [kind] => Some(*kind),
            _ => return wrong(format!("the format {text:?} is not known")),
        };
        let (signed, sign) = (sign.is_some(), sign.unwrap_or('-'));
        Ok(Self { fill, align, sign, signed, no_negative_zero, alternate, zero, width, grouping, precision, kind })
    }

    /// A text in this format.
    pub(super) fn text(&self, text: &str) -> Made<String> {
        let refused = |what: &str| wrong(format!("{what} is not allowed in the format of a text"));
        match self {
            Self { kind: Some(kind), .. } if *kind != 's' => wrong(format!("the format code {kind:?} is none of a text")),
            Self { signed: true, .. } => refused("a sign"),
            Self { no_negative_zero: true, .. } => refused("'z'"),
            Self { alternate: true, .. } => refused("'#'"),
            Self { grouping: Some(_), .. } => refused("grouping"),
            Self { align: Some('='), .. } => refused("the alignment '='"),
            _ => {
                let cut: String = text.chars().take(self.precision.unwrap_or(usize::MAX)).collect();
                Ok(padded(&cut, "", self, '<'))
            }
        }
    }
}

fn digits(rest: &mut &[char]) -> Made<Option<usize>> {
    let len = rest.iter().take_while(|c| c.is_ascii_digit()).count();
    let (number, after) = rest.split_at(len);
    *rest = after;
    if number.is_empty() {
        return Ok(None);
    }
    match number.iter().collect::<String>().parse() {
        Ok(number) if number <= WIDEST => Ok(Some(number)),
        _ => wrong(format!("a format has a width or precision over {WIDEST}")),
    }
}

/// A text of a width at least; `sign` stands before it, and before what fills it where that comes in between.
pub(super) fn padded(text: &str, sign: &str, spec: &Spec, align: char) -> String {
    let missing = spec.width.saturating_sub(text.chars().count() + sign.chars().count());
    let fill = |n: usize| spec.fill.to_string().repeat(n);
    match spec.align.unwrap_or(align) {
        '<' => format!("{sign}{text}{}", fill(missing)),
        '^' => format!("{}{sign}{text}{}", fill(missing / 2), fill(missing - missing / 2)),
        '=' => format!("{sign}{}{text}", fill(missing)),
        _ => format!("{}{sign}{text}", fill(missing)),
    }
}
