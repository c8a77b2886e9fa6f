//! Signals drawn with characters.

/// A waveform as `height` lines of `width` braille characters: in each column of dots, from the least to the greatest value
/// that falls there. Values that are not finite are left out. With it, the values of the upper and the lower edge.
pub(crate) fn braille(values: &[f64], width: usize, height: usize) -> Option<(Vec<String>, f64, f64)> {
    let finite = || values.iter().copied().filter(|v| v.is_finite());
    let (mut low, mut high) = (finite().reduce(f64::min)?, finite().reduce(f64::max)?);
    let edges = (high, low);
    if low == high {
        // A flat line runs through the middle.
        (low, high) = (low - 1.0, high + 1.0);
    }
    let (columns, rows) = (2 * width, 4 * height);
    // Halves keep the difference of two huge numbers finite.
    let row = |v: f64| (((high / 2.0 - v / 2.0) / (high / 2.0 - low / 2.0) * (rows - 1) as f64).round() as usize).min(rows - 1);
    let mut cells = vec![0u8; width * height];
    let mut last: Option<(usize, usize)> = None;
    for column in 0..columns {
        // Few values are spread over the columns, many share one; each value is in some column.
        let from = column * values.len() / columns;
        let to = ((column + 1) * values.len() / columns).max(from + 1);
        let part = values.get(from..to).unwrap_or_default().iter().copied().filter(|v| v.is_finite());
        let span = part.map(row).fold(None, |s: Option<(usize, usize)>, r| Some(s.map_or((r, r), |(a, b)| (a.min(r), b.max(r)))));
        let Some((mut top, mut bottom)) = span else {
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

/// The bit of one dot of a braille character.
fn dot(column: usize, row: usize) -> u8 {
    match (column, row) {
        (0, 3) => 0x40,
        (1, 3) => 0x80,
        (0, r) => 1 << r,
        (_, r) => 8 << r,
    }
}

/// An image as lines of shades, two characters for each place; larger ones are thinned out.
pub(crate) fn shades(values: &[f64], rows: usize, columns: usize, width: usize, height: usize) -> Vec<String> {
    const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];
    let finite = || values.iter().copied().filter(|v| v.is_finite());
    let (low, high) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    let (shown_rows, shown_columns) = (rows.min(height), columns.min(width / 2));
    let pixel = |r: usize, c: usize| {
        let value = values.get(r * rows / shown_rows * columns + c * columns / shown_columns).copied().unwrap_or(f64::NAN);
        let level = if high > low { (value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0) } else { 0.0 };
        if value.is_finite() { SHADES.get((level * 4.0).round() as usize).copied().unwrap_or(' ') } else { '?' }
    };
    (0..shown_rows).map(|r| (0..shown_columns).flat_map(|c| [pixel(r, c); 2]).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(shades(&[0.0, 1.0, 0.5, f64::NAN], 2, 2, 80, 20), ["  ██", "▒▒??"]);
        assert_eq!(shades(&[1.0; 10_000], 100, 100, 20, 5).len(), 5);
    }
}
