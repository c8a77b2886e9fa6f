//! Signals drawn with characters.

/// The least and the greatest value that falls into each column of dots.
pub(crate) struct Bins {
    len: usize,
    columns: Vec<Option<(f64, f64)>>,
}

impl Bins {
    /// Of a signal of so many values, for so many columns of dots.
    pub(crate) fn new(len: usize, columns: usize) -> Self {
        Self { len: len.max(1), columns: vec![None; columns] }
    }

    /// The value of a place. Values that are not finite are left out. Few values are spread over the columns, many share one.
    pub(crate) fn add(&mut self, at: usize, value: f64) {
        if !value.is_finite() {
            return;
        }
        let columns = self.columns.len();
        let last = ((at + 1) * columns - 1) / self.len;
        let first = (at * columns).div_ceil(self.len).min(last);
        for column in self.columns.get_mut(first..=last).unwrap_or_default() {
            *column = Some(column.map_or((value, value), |(low, high)| (low.min(value), high.max(value))));
        }
    }

    /// The waveform as `height` lines of braille characters: in each column of dots, from the least to the greatest value that falls
    /// there. With it, the values of the upper and the lower edge.
    pub(crate) fn braille(&self, height: usize) -> Option<(Vec<String>, f64, f64)> {
        let spans = || self.columns.iter().flatten();
        let (mut low, mut high) = (spans().map(|s| s.0).reduce(f64::min)?, spans().map(|s| s.1).reduce(f64::max)?);
        let edges = (high, low);
        if low == high {
            // A flat line runs through the middle.
            (low, high) = (low - 1.0, high + 1.0);
        }
        let (width, rows) = (self.columns.len() / 2, 4 * height);
        // Halves keep the difference of two huge numbers finite.
        let row =
            |v: f64| (((high / 2.0 - v / 2.0) / (high / 2.0 - low / 2.0) * (rows - 1) as f64).round() as usize).min(rows - 1);
        let mut cells = vec![0u8; width * height];
        let mut last: Option<(usize, usize)> = None;
        for (column, span) in self.columns.iter().enumerate() {
            let Some((mut top, mut bottom)) = span.map(|(low, high)| (row(high), row(low))) else {
                last = None;
                continue;
            };
            let own = (top, bottom);
            if let Some((t, b)) = last {
                // Joins the neighbours, so that a steep edge is a line.
                if b < top {
                    top = b + 1;
                } else if t > bottom {
                    bottom = t - 1;
                }
            }
            last = Some(own);
            for r in top..=bottom {
                if let Some(cell) = cells.get_mut(r / 4 * width + column / 2) {
                    *cell |= dot(column % 2, r % 4);
                }
            }
        }
        let line = |cells: &[u8]| cells.iter().map(|c| char::from_u32(0x2800 + u32::from(*c)).unwrap_or(' ')).collect();
        Some((cells.chunks(width).map(line).collect(), edges.0, edges.1))
    }
}

/// The bit of one dot of a braille character.
fn dot(column: usize, row: usize) -> u8 {
    match (column, row) {
        (0, 3) => 0x40,
        (1, 3) => 0x80,
        (0, r) => 1 << r,
        (_, r) => 8 << r,
    }
}

/// A line of an image as shades between two values, two characters for each.
pub(crate) fn shades(values: &[f64], low: f64, high: f64) -> String {
    const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];
    let pixel = |value: &f64| {
        let level = if high > low { (value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0) } else { 0.0 };
        if value.is_finite() { SHADES.get((level * 4.0).round() as usize).copied().unwrap_or(' ') } else { '?' }
    };
    values.iter().flat_map(|value| [pixel(value); 2]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn braille(values: &[f64], width: usize, height: usize) -> Option<(Vec<String>, f64, f64)> {
        let mut bins = Bins::new(values.len(), 2 * width);
        values.iter().enumerate().for_each(|(at, value)| bins.add(at, *value));
        bins.braille(height)
    }

    #[test]
    fn every_value_is_in_its_column_and_no_column_is_empty() {
        for columns in 1..20 {
            for len in 1..50 {
                let mut bins = Bins::new(len, columns);
                (0..len).for_each(|at| bins.add(at, at as f64));
                let spans: Vec<_> =
                    (0..columns).map(|c| (c * len / columns, ((c + 1) * len / columns).max(c * len / columns + 1) - 1)).collect();
                let found: Vec<_> =
                    bins.columns.iter().map(|span| span.map(|(a, b)| (a as usize, b as usize)).unwrap()).collect();
                assert_eq!(found, spans, "{len} in {columns}");
            }
        }
    }

    #[test]
    fn a_ramp_rises() {
        let ramp: Vec<f64> = (0..8).map(f64::from).collect();
        let (lines, high, low) = braille(&ramp, 4, 2).unwrap();
        assert_eq!((high, low), (7.0, 0.0));
        // The left half is drawn on the lower line, the right half on the upper.
        assert_eq!(lines, ["\u{2800}\u{2800}⡠⠊", "⡠⠊\u{2800}\u{2800}"]);
    }

    #[test]
    fn every_extreme_is_seen() {
        let mut values = vec![0.0; 100_000];
        values[54_321] = 1.0;
        let (lines, ..) = braille(&values, 10, 1).unwrap();
        let spike: Vec<usize> =
            lines[0].chars().enumerate().filter(|(_, c)| (*c as u32 - 0x2800) & 0b1001 != 0).map(|(i, _)| i).collect();
        assert_eq!(spike, [5]);
    }

    #[test]
    fn odd_values_are_no_trouble() {
        assert!(braille(&[], 4, 2).is_none());
        assert!(braille(&[f64::NAN, f64::INFINITY], 4, 2).is_none());
        assert_eq!(braille(&[f64::MAX, f64::MIN, f64::NAN], 4, 1).map(|(_, h, l)| (h, l)), Some((f64::MAX, f64::MIN)));
        let (lines, ..) = braille(&[3.0], 3, 1).unwrap();
        assert_eq!(lines, ["⠤⠤⠤"]);
    }

    #[test]
    fn an_image_has_shades() {
        assert_eq!(shades(&[0.0, 1.0, 0.5, f64::NAN], 0.0, 1.0), "  ██▒▒??");
        assert_eq!(shades(&[1.0, 1.0], 1.0, 1.0), "    ");
    }
}
