//! An array, looked at block by block: summed up and drawn, in memory for a picture whatever its size.

use super::short;
use crate::{Failure, text, wave};
use serde_json::{Value, json};
use sigbank::convert::magnitudes;
use sigbank_format::model::{DType, Kind};
use std::io::Write;

/// Most channels of one signal that are drawn.
const CHANNELS: usize = 4;
/// Lines of an image.
const LINES: usize = 24;
/// First values that are told.
const FIRST: usize = 8;
/// Bytes of an array in memory that are looked at together.
const BLOCK: usize = 1 << 18;

/// What is drawn: of an array of more than two axes the first part along the first ones.
enum Picture {
    /// One axis, and few channels.
    Waves { turned: bool, channels: usize, bins: Vec<wave::Bins> },
    /// Two long axes.
    Image { columns: usize, places: [Vec<usize>; 2], pixels: Vec<f64> },
    /// Nothing.
    Nothing,
}

/// The elements of an array come in C order, with [`Look::add`].
pub(super) struct Look {
    dtype: DType,
    shape: Vec<usize>,
    picture: Picture,
    /// Elements of what is drawn.
    drawn: usize,
    /// Elements seen.
    seen: usize,
    /// The first bytes, and how many there were.
    head: (Vec<u8>, usize),
    tally: Tally,
    /// Least and greatest of integers of 64 bits, which a float64 may not hold.
    integers: Option<(i128, i128)>,
}

/// The moments of the finite values, put together block by block.
#[derive(Default)]
struct Tally {
    first: Vec<f64>,
    finite: u64,
    mean: f64,
    squares: f64,
    edges: Option<(f64, f64)>,
}

impl Tally {
    fn add(&mut self, values: &[f64]) {
        self.first.extend(values.iter().take(FIRST.saturating_sub(self.first.len())));
        let finite = || values.iter().copied().filter(|v| v.is_finite());
        let n = finite().count();
        if n == 0 {
            return;
        }
        let mean = finite().sum::<f64>() / n as f64;
        let squares = finite().map(|v| (v - mean).powi(2)).sum::<f64>();
        let (before, all) = (self.finite as f64, self.finite as f64 + n as f64);
        let apart = mean - self.mean;
        self.mean += apart * (n as f64 / all);
        self.squares += squares + apart * apart * before * (n as f64 / all);
        self.finite += n as u64;
        let edges = self.edges.unwrap_or((f64::INFINITY, f64::NEG_INFINITY));
        self.edges = Some(finite().fold(edges, |(low, high), v| (low.min(v), high.max(v))));
    }
}

impl Look {
    /// Looks at an array that is to be drawn on lines of so many characters.
    pub(super) fn new(dtype: &DType, shape: &[usize], width: usize) -> Self {
        let inner = shape.get(shape.len().saturating_sub(2)..).unwrap_or_default();
        let bins = |channels: usize, len| (0..channels.min(CHANNELS)).map(|_| wave::Bins::new(len, 2 * (width - 11))).collect();
        let picture = match *inner {
            [n] if n >= 8 => Picture::Waves { turned: false, channels: 1, bins: bins(1, n) },
            // Few long rows are channels, as few columns are.
            [rows, columns] if rows <= 8 && columns >= 8 && columns >= 4 * rows => {
                Picture::Waves { turned: true, channels: rows, bins: bins(rows, columns) }
            }
            [rows, columns] if rows >= 8 && columns <= 8 && rows >= 4 * columns => {
                Picture::Waves { turned: false, channels: columns, bins: bins(columns, rows) }
            }
            [rows, columns] if rows >= 8 && columns > 0 => {
                let places = |of: usize, most: usize| (0..of.min(most)).map(|i| i * of / of.min(most)).collect();
                Picture::Image { columns, places: [places(rows, LINES), places(columns, width / 2)], pixels: Vec::new() }
            }
            _ => Picture::Nothing,
        };
        let (dtype, shape, drawn) = (dtype.clone(), shape.to_vec(), inner.iter().product());
        Self { dtype, shape, picture, drawn, seen: 0, head: (Vec::new(), 0), tally: Tally::default(), integers: None }
    }

    /// Looks at a whole array.
    pub(super) fn whole(dtype: &DType, shape: &[usize], bytes: &[u8], width: usize) -> Self {
        let mut look = Self::new(dtype, shape, width);
        look.add(bytes);
        look
    }

    /// The next elements.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let size = self.dtype.itemsize().max(1);
        bytes.chunks((BLOCK / size).max(1) * size).for_each(|block| self.add_block(block));
    }

    fn add_block(&mut self, bytes: &[u8]) {
        let wanted = self.dtype.itemsize().max(17.max(8 * FIRST)).saturating_sub(self.head.0.len());
        self.head.0.extend(bytes.iter().take(wanted));
        self.head.1 += bytes.len();
        let Some(values) = magnitudes(&self.dtype, bytes) else { return };
        self.tally.add(&values);
        for value in integers(&self.dtype, bytes).into_iter().flatten() {
            let (low, high) = self.integers.unwrap_or((value, value));
            self.integers = Some((low.min(value), high.max(value)));
        }
        let start = self.seen;
        self.seen += values.len();
        let values = values.get(..self.drawn.saturating_sub(start).min(values.len())).unwrap_or_default();
        match &mut self.picture {
            Picture::Waves { turned, channels, bins } => {
                let len = self.drawn / (*channels).max(1);
                for (at, value) in (start..).zip(values) {
                    let (channel, at) =
                        if *turned { (at / len.max(1), at % len.max(1)) } else { (at % *channels, at / *channels) };
                    if let Some(bins) = bins.get_mut(channel) {
                        bins.add(at, *value);
                    }
                }
            }
            Picture::Image { columns, places: [rows, across], pixels } => {
                // The pixels are in the order of the elements.
                while let Some(row) = rows.get(pixels.len() / across.len()) {
                    let Some(at) = across.get(pixels.len() % across.len()).map(|column| row * *columns + column) else { break };
                    let Some(value) = at.checked_sub(start).and_then(|at| values.get(at)) else { break };
                    pixels.push(*value);
                }
            }
            Picture::Nothing => {}
        }
    }

    /// What is worth knowing: a single value, or range and moments of many.
    pub(super) fn summary(&self) -> Value {
        let (dtype, (head, bytes)) = (&self.dtype, &self.head);
        let one = head.get(..dtype.itemsize()).unwrap_or_default();
        match dtype.kind() {
            Kind::Unicode => {
                let characters = one.chunks_exact(4).map(|c| <[u8; 4]>::try_from(c).map_or(0, u32::from_le_bytes));
                return json!({"first": characters.take_while(|&c| c != 0).filter_map(char::from_u32).collect::<String>()});
            }
            Kind::Bytes => return json!({"first": String::from_utf8_lossy(one).trim_end_matches('\0')}),
            _ if magnitudes(dtype, &[]).is_none() => return json!({"first": hex(head, *bytes)}),
            _ => {}
        }
        let Tally { first, finite, mean, squares, edges } = &self.tally;
        if let (1, [only]) = (self.seen, first.as_slice()) {
            return json!({"value": exact(dtype, one, *only)});
        }
        let std = (squares / (*finite).max(1) as f64).sqrt();
        let of = if dtype.kind() == Kind::Complex { "magnitudes" } else { "values" };
        let (min, max) = (edges.map(|e| e.0), edges.map(|e| e.1));
        let not_finite = self.seen as u64 - finite;
        let mut told = json!({"of": of, "count": self.seen, "min": min, "max": max, "mean": mean, "std": std, "not_finite": not_finite, "first": first});
        if let (Some(told), Some((low, high)), Some(all)) = (told.as_object_mut(), self.integers, integers(dtype, head)) {
            let first = all.take(first.len()).map(integer).collect();
            told.extend([("min".into(), integer(low)), ("max".into(), integer(high)), ("first".into(), first)]);
        }
        told
    }

    /// Draws what was seen; an axis is called as `axis` says.
    pub(super) fn draw(&self, axis: impl Fn(usize) -> String, out: &mut dyn Write) -> Result<(), Failure> {
        if matches!(self.picture, Picture::Nothing) || self.seen == 0 {
            return Ok(());
        }
        let outer = self.shape.len().saturating_sub(2);
        let left: Vec<_> = self
            .shape
            .iter()
            .take(outer)
            .enumerate()
            .filter(|(_, len)| **len > 1)
            .map(|(at, _)| format!("{} 0", axis(at)))
            .collect();
        if !left.is_empty() {
            text::line(out, format_args!("  drawn: {}", left.join(", ")))?;
        }
        match &self.picture {
            Picture::Waves { channels, bins, .. } => {
                let height = if *channels == 1 { 8 } else { 4 };
                for bins in bins {
                    let Some((lines, high, low)) = bins.braille(height) else { continue };
                    let last = lines.len().saturating_sub(1);
                    for (i, line) in lines.iter().enumerate() {
                        let edge = match i {
                            0 => short(high),
                            i if i == last => short(low),
                            _ => String::new(),
                        };
                        writeln!(out, "{edge:>10} {}", line.trim_end_matches('\u{2800}'))?;
                    }
                }
                if *channels > CHANNELS {
                    writeln!(out, "{:>10} and {} more channels", "", channels - CHANNELS)?;
                }
            }
            Picture::Image { places: [_, across], pixels, .. } => {
                let (low, high) = self.tally.edges.unwrap_or_default();
                for line in pixels.chunks(across.len().max(1)) {
                    writeln!(out, "{}", wave::shades(line, low, high))?;
                }
            }
            Picture::Nothing => {}
        }
        Ok(())
    }
}

/// Integers of 64 bits; none of other types.
fn integers<'a>(dtype: &DType, bytes: &'a [u8]) -> Option<impl Iterator<Item = i128> + use<'a>> {
    let signed = match (dtype.kind(), dtype.itemsize()) {
        (Kind::Int, 8) => true,
        (Kind::UInt, 8) => false,
        _ => return None,
    };
    let (words, _) = bytes.as_chunks::<8>();
    let one = move |word: [u8; 8]| if signed { i64::from_le_bytes(word).into() } else { u64::from_le_bytes(word).into() };
    Some(words.iter().copied().map(one))
}

/// An integer of 64 bits as JSON.
fn integer(value: i128) -> Value {
    i64::try_from(value).map(Value::from).or_else(|_| u64::try_from(value).map(Value::from)).unwrap_or_default()
}

/// A single number, integers exactly.
fn exact(dtype: &DType, bytes: &[u8], value: f64) -> Value {
    match (dtype.kind(), <[u8; 8]>::try_from(bytes)) {
        (Kind::Int, Ok(b)) => json!(i64::from_le_bytes(b)),
        (Kind::UInt, Ok(b)) => json!(u64::from_le_bytes(b)),
        (Kind::Int | Kind::UInt, _) => json!(value as i64),
        (Kind::Bool, _) => json!(value != 0.0),
        _ if value.is_finite() => json!(value),
        _ => json!(value.to_string()),
    }
}

/// The first of so many bytes.
pub(super) fn hex(head: &[u8], bytes: usize) -> String {
    let shown: String = head.iter().take(16).map(|b| format!("{b:02x}")).collect();
    if bytes > 16 { shown + "…" } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(look: &Look) -> String {
        let mut out = Vec::new();
        assert!(look.draw(|at| format!("axis {at}"), &mut out).is_ok());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn blocks_are_looked_at_as_the_whole() {
        for (shape, count) in
            [(vec![300], 300), (vec![3, 100], 300), (vec![100, 3], 300), (vec![30, 40], 1200), (vec![2, 1, 3, 50], 300)]
        {
            let values: Vec<f64> = (0..count).map(|i| f64::from((i * 7919) % 1000) - 300.0).collect();
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            let dtype: DType = "float64".parse().unwrap();
            let whole = Look::whole(&dtype, &shape, &bytes, 40);
            for block in [1, 7, 50, 299] {
                let mut parts = Look::new(&dtype, &shape, 40);
                bytes.chunks(8 * block).for_each(|part| parts.add(part));
                assert_eq!(drawn(&parts), drawn(&whole), "{shape:?} {block}");
                let (told, of_whole) = (parts.summary(), whole.summary());
                for key in ["count", "min", "max", "first", "not_finite"] {
                    assert_eq!(told[key], of_whole[key]);
                }
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                let std = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt();
                for (key, expected) in [("mean", mean), ("std", std)] {
                    assert!((told[key].as_f64().unwrap() - expected).abs() < 1e-9, "{key}: {told}");
                }
            }
        }
    }

    #[test]
    fn channels_are_told_apart_whichever_axis_they_are() {
        let dtype: DType = "int8".parse().unwrap();
        let (mut rows, mut columns) = (vec![0u8; 80], vec![0u8; 80]);
        (0..40).for_each(|i| (rows[40 + i], columns[2 * i + 1]) = (5, 5));
        let of = |shape: &[usize], bytes: &[u8]| drawn(&Look::whole(&dtype, shape, bytes, 30));
        let picture = of(&[2, 40], &rows);
        assert_eq!(picture, of(&[40, 2], &columns));
        let edges: Vec<_> = picture.lines().map(|line| line.chars().take(10).collect::<String>().trim().to_owned()).collect();
        assert_eq!(edges, ["0", "", "", "0", "5", "", "", "5"]);
        assert_eq!(of(&[2, 2, 20], &rows).lines().next(), Some("  drawn: axis 0 0"));
    }

    #[test]
    fn large_integers_are_told_exactly() {
        let values = [u64::MAX, (1 << 53) + 1, u64::MAX - 1];
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let told = Look::whole(&"uint64".parse().unwrap(), &[3], &bytes, 40).summary();
        assert_eq!((&told["min"], &told["max"], &told["first"]), (&json!(values[1]), &json!(values[0]), &json!(values)));
        let values = [i64::MIN, -1, i64::MIN + 1];
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let told = Look::whole(&"int64".parse().unwrap(), &[3], &bytes, 40).summary();
        assert_eq!((&told["min"], &told["max"], &told["first"]), (&json!(values[0]), &json!(-1), &json!(values)));
    }

    #[test]
    fn what_is_no_signal_is_told_without_a_drawing() {
        for (dtype, shape, bytes, told) in [
            ("S3", vec![2], b"ab\0xyz".to_vec(), json!({"first": "ab"})),
            ("M8[s]", vec![3], vec![1; 24], json!({"first": format!("{}…", "01".repeat(16))})),
            ("int64", vec![], i64::MIN.to_le_bytes().to_vec(), json!({"value": i64::MIN})),
        ] {
            let look = Look::whole(&dtype.parse().unwrap(), &shape, &bytes, 40);
            assert_eq!((look.summary(), drawn(&look)), (told, String::new()));
        }
    }
}
