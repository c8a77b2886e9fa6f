//! Where the windows of a recording begin: arithmetic only.

use crate::error::{Error, Result};

/// Windows of fixed length at a fixed distance.
///
/// ```
/// use sigbank::convert::Windows;
/// let w = Windows::new(4, 3, false)?;
/// assert_eq!(w.count(12), 3); // 0..4, 3..7, 6..10
/// assert_eq!(w.left_over(12), 2);
/// assert_eq!(Windows::new(4, 3, true)?.count(12), 4); // and 9..13, one zero at its end
/// # Ok::<(), sigbank::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    len: u64,
    hop: u64,
    pad: bool,
}

impl Windows {
    /// Windows of `len` samples, each beginning `hop` samples after the one before. With `pad`, a last window is filled up
    /// with zeros; without, what does not fill one is left over.
    ///
    /// # Errors
    /// `Invalid` where a number is 0.
    pub fn new(len: u64, hop: u64, pad: bool) -> Result<Self> {
        if len == 0 || hop == 0 {
            return Err(
                Error::invalid(format!("a window of {len} samples every {hop} samples")).remedy("both must be at least 1")
            );
        }
        Ok(Self { len, hop, pad })
    }
    /// Samples in a window.
    pub fn window(&self) -> u64 {
        self.len
    }
    /// How many windows a recording of `rows` samples gives.
    pub fn count(&self, rows: u64) -> u64 {
        if self.pad {
            // Until the end is covered, but never a window of zeros only (which a hop above the length would make).
            rows.div_ceil(self.hop).min(rows.saturating_sub(self.len).div_ceil(self.hop) + 1)
        } else {
            rows.checked_sub(self.len).map_or(0, |room| room / self.hop + 1)
        }
    }
    /// The first sample of a window.
    pub fn start(&self, index: u64) -> u64 {
        index.saturating_mul(self.hop)
    }
    /// Samples at the end of a recording that are in no window.
    pub fn left_over(&self, rows: u64) -> u64 {
        match self.count(rows) {
            0 => rows,
            n => rows.saturating_sub(self.start(n - 1).saturating_add(self.len)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the words say, sample by sample.
    fn by_hand(rows: u64, len: u64, hop: u64, pad: bool) -> (u64, u64) {
        let (mut n, mut end) = (0, 0);
        let mut start = 0;
        while if pad { start < rows && (n == 0 || end < rows) } else { start + len <= rows } {
            n += 1;
            end = start + len;
            start += hop;
        }
        (n, rows.saturating_sub(end))
    }

    #[test]
    fn agrees_with_counting() {
        for rows in 0..40 {
            for len in 1..10 {
                for hop in 1..14 {
                    for pad in [false, true] {
                        let w = Windows::new(len, hop, pad).unwrap();
                        let left = w.left_over(rows);
                        assert_eq!((w.count(rows), left), by_hand(rows, len, hop, pad), "{rows} {len} {hop} {pad}");
                    }
                }
            }
        }
    }

    #[test]
    fn zero_is_refused_and_the_largest_do_not_overflow() {
        assert!(Windows::new(0, 1, false).is_err());
        assert!(Windows::new(1, 0, true).is_err());
        let w = Windows::new(u64::MAX, u64::MAX, true).unwrap();
        assert_eq!((w.count(u64::MAX), w.count(1), w.left_over(u64::MAX)), (1, 1, 0));
    }
}
