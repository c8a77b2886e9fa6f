//! Numbers in Python's formats.

use super::spec::Spec;
use super::{Made, padded, wrong};

/// A number of JSON's in a format.
pub(super) fn formatted(text: &str, spec: &Spec) -> Made<String> {
    let whole = !text.contains(['.', 'e', 'E']);
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    match spec.kind {
        None | Some('d' | 'b' | 'o' | 'x' | 'X' | 'n') if whole => integer(negative, digits, spec),
        Some('c') if whole => character(text, spec),
        None | Some('e' | 'E' | 'f' | 'F' | 'g' | 'G' | 'n' | '%') => {
            let number: f64 = digits.parse().map_err(|_| super::Wrong::Other(format!("{text} is no number")))?;
            if !number.is_finite() {
                return wrong("a whole number is too large for a float");
            }
            float(negative, number, digits, spec)
        }
        Some(kind) => wrong(format!("the format code {kind:?} is none of {}", if whole { "a whole number" } else { "a float" })),
    }
}

fn character(text: &str, spec: &Spec) -> Made<String> {
    if spec.signed || spec.alternate || spec.grouping.is_some() || spec.precision.is_some() || spec.no_negative_zero {
        return wrong("a sign, grouping, precision, 'z' or '#' is not allowed with the format code 'c'");
    }
    match text.parse().ok().and_then(char::from_u32) {
        Some(c) => Ok(padded(&c.to_string(), "", spec, if spec.zero { '=' } else { '<' })),
        None => wrong(format!("{text} is no character's number")),
    }
}

fn integer(negative: bool, decimal: &str, spec: &Spec) -> Made<String> {
    if spec.precision.is_some() || spec.no_negative_zero {
        return wrong("a precision or 'z' is not allowed in the format of a whole number");
    }
    let (base, prefix, every) = match spec.kind {
        Some('b') => (2, "0b", 4),
        Some('o') => (8, "0o", 4),
        Some('x') => (16, "0x", 4),
        Some('X') => (16, "0X", 4),
        _ => (10, "", 3),
    };
    match (spec.grouping, spec.kind) {
        (Some(','), Some('b' | 'o' | 'x' | 'X')) | (Some(_), Some('n')) => {
            return wrong("this grouping does not go with this format code");
        }
        _ => {}
    }
    let mut digits = if base == 10 { decimal.to_owned() } else { in_base(decimal, base) };
    if spec.kind == Some('X') {
        digits.make_ascii_uppercase();
    }
    let sign = sign(negative, spec) + if spec.alternate { prefix } else { "" };
    Ok(assembled(&sign, &digits, "", every, spec))
}

/// A whole number of any size in another base than ten.
fn in_base(decimal: &str, base: u32) -> String {
    // Limbs of 32 bits, the least first.
    let mut limbs: Vec<u32> = Vec::new();
    for digit in decimal.bytes() {
        let mut carry = u64::from(digit - b'0');
        for limb in &mut limbs {
            let next = u64::from(*limb) * 10 + carry;
            *limb = next as u32;
            carry = next >> 32;
        }
        if carry > 0 {
            limbs.push(carry as u32);
        }
    }
    let mut out = Vec::new();
    while limbs.iter().any(|&limb| limb > 0) {
        let mut rest = 0;
        for limb in limbs.iter_mut().rev() {
            let value = rest << 32 | u64::from(*limb);
            *limb = (value / u64::from(base)) as u32;
            rest = value % u64::from(base);
        }
        out.push(char::from_digit(rest as u32, base).unwrap_or('0'));
    }
    if out.is_empty() { "0".to_owned() } else { out.into_iter().rev().collect() }
}

fn sign(negative: bool, spec: &Spec) -> String {
    match (negative, spec.sign) {
        (true, _) => "-".to_owned(),
        (false, '-') => String::new(),
        (false, sign) => sign.to_string(),
    }
}

fn float(negative: bool, number: f64, text: &str, spec: &Spec) -> Made<String> {
    if spec.kind == Some('n') && spec.grouping.is_some() {
        return wrong("grouping does not go with the format code 'n'");
    }
    let upper = matches!(spec.kind, Some('E' | 'F' | 'G'));
    let alternate = spec.alternate;
    let mut made = match (spec.kind.map(|kind| kind.to_ascii_lowercase()), spec.precision) {
        (Some('f'), precision) => fixed(number, precision.unwrap_or(6), alternate),
        (Some('%'), precision) => {
            let number = number * 100.0;
            if !number.is_finite() { "inf%".to_owned() } else { fixed(number, precision.unwrap_or(6), alternate) + "%" }
        }
        (Some('e'), precision) => exponential(number, precision.unwrap_or(6), alternate),
        (Some(_), precision) => general(number, precision.unwrap_or(6).max(1), alternate, false),
        (None, Some(precision)) => general(number, precision.max(1), alternate, true),
        // As it is written, which is its shortest text.
        (None, None) if alternate && !text.contains('.') => text.replacen('e', ".e", 1),
        (None, None) => text.to_owned(),
    };
    if upper {
        made.make_ascii_uppercase();
    }
    let nonzero = made.split(['e', 'E']).next().unwrap_or_default().contains(|c: char| matches!(c, '1'..='9'));
    let negative = negative && (nonzero || !spec.no_negative_zero);
    let (digits, rest) = made.split_at(made.find(|c: char| !c.is_ascii_digit()).unwrap_or(made.len()));
    Ok(assembled(&sign(negative, spec), digits, rest, 3, spec))
}

fn fixed(number: f64, precision: usize, alternate: bool) -> String {
    let made = format!("{number:.precision$}");
    if alternate && precision == 0 { made + "." } else { made }
}

fn exponential(number: f64, precision: usize, alternate: bool) -> String {
    let made = format!("{number:.precision$e}");
    let (mantissa, exponent) = made.split_once('e').unwrap_or((&made, "0"));
    let point = if alternate && precision == 0 { "." } else { "" };
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}{point}e{sign}{digits:0>2}")
}

/// Of so many digits, with an exponent where the number is very large or small; `dotted` for no code, where a digit stands behind the point.
fn general(number: f64, precision: usize, alternate: bool, dotted: bool) -> String {
    let scientific = exponential(number, precision - 1, false);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = exponent.parse().unwrap_or(0);
    let most = i32::try_from(precision).unwrap_or(i32::MAX) - i32::from(dotted);
    let trimmed = |text: &str| match text.contains('.') {
        true if !alternate => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false if alternate => format!("{text}."),
        _ => text.to_owned(),
    };
    if power < -4 || power >= most {
        return format!("{}e{exponent}", trimmed(mantissa));
    }
    let behind = usize::try_from(i32::try_from(precision).unwrap_or(i32::MAX) - 1 - power).unwrap_or(0);
    let made = trimmed(&format!("{number:.behind$}"));
    if dotted && !made.contains('.') { made + ".0" } else { made }
}

/// Sign, digits in groups and what follows them, of a width at least.
fn assembled(sign: &str, digits: &str, rest: &str, every: usize, spec: &Spec) -> String {
    let align = if spec.zero { '=' } else { '>' };
    let Some(separator) = spec.grouping else { return padded(&format!("{digits}{rest}"), sign, spec, align) };
    // Zeros that fill are grouped too.
    let filled = spec.fill == '0' && spec.align.unwrap_or(align) == '=';
    let least = if filled { spec.width.saturating_sub(sign.len() + rest.len()) } else { 0 };
    let mut digits = digits.to_owned();
    let grouped = |n: usize| n + n.saturating_sub(1) / every;
    while grouped(digits.len()) < least {
        digits.insert(0, '0');
    }
    let mut out = String::new();
    for (at, c) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(every) {
            out.push(separator);
        }
        out.push(c);
    }
    padded(&format!("{out}{rest}"), sign, spec, align)
}
