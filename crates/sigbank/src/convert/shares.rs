//! Which file goes to which split: a pure function of the names, the shares and the seed.

use crate::error::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// The share of the files that each split gets, such as `train=0.8,test=0.1,holdout=0.1`.
///
/// ```
/// use sigbank::convert::Shares;
/// let shares: Shares = "train=0.75,test=0.25".parse()?;
/// let names = ["a", "b", "c", "d"];
/// let by_file = shares.assign(&names, 7);
/// assert_eq!(by_file.iter().filter(|&&s| s == 0).count(), 3); // positions in `shares.names()`
/// assert_eq!(by_file, shares.assign(&names, 7));
/// assert!("train=0.8,test=0.1".parse::<Shares>().is_err());
/// # Ok::<(), sigbank::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Shares(Vec<(String, f64)>);

impl Default for Shares {
    /// Everything in `train`.
    fn default() -> Self {
        Self(vec![("train".into(), 1.0)])
    }
}

impl FromStr for Shares {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |what: String| {
            Error::invalid(format!("splits '{text}': {what}")).remedy("write, for example, train=0.8,test=0.1,holdout=0.1")
        };
        let mut shares: Vec<(String, f64)> = Vec::new();
        for part in text.split(',') {
            let (name, share) = match part.split_once('=') {
                Some((name, share)) => (name.trim(), share.trim()),
                None => (part.trim(), if text.contains(',') { "" } else { "1" }),
            };
            let share: f64 = share.parse().map_err(|_| wrong(format!("'{part}' has no number after '='")))?;
            if !(share > 0.0 && share <= 1.0) {
                return Err(wrong(format!("the share {share} of '{name}' is not in 0..1")));
            }
            if name.is_empty() || shares.iter().any(|(n, _)| n == name) {
                return Err(wrong(format!("'{name}' is no name or stands there twice")));
            }
            shares.push((name.to_owned(), share));
        }
        let sum: f64 = shares.iter().map(|s| s.1).sum();
        if (sum - 1.0).abs() > 1e-6 {
            return Err(wrong(format!("the shares sum to {sum}, not 1")));
        }
        Ok(Self(shares))
    }
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<_> = self.0.iter().map(|(n, s)| format!("{n}={s}")).collect();
        f.write_str(&parts.join(","))
    }
}

impl Shares {
    /// The names of the splits, in the order given.
    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(|s| s.0.as_str()).collect()
    }

    /// The split of each file, as a position in [`Shares::names`]. The files are ordered by a hash of seed and name and then
    /// cut, so the counts are as near to the shares as whole files allow, and every split has a file where there are enough.
    pub fn assign(&self, names: &[&str], seed: u64) -> Vec<usize> {
        let counts = self.counts(names.len());
        let mut order: Vec<(u64, &str, usize)> = names.iter().enumerate().map(|(i, n)| (hash(seed, n), *n, i)).collect();
        order.sort_unstable();
        let mut split_of = vec![0; names.len()];
        let splits = counts.iter().enumerate().flat_map(|(split, &n)| std::iter::repeat_n(split, n));
        for ((.., file), split) in order.into_iter().zip(splits) {
            if let Some(slot) = split_of.get_mut(file) {
                *slot = split;
            }
        }
        split_of
    }

    /// The share of each, in the same order.
    pub(super) fn fractions(&self) -> Vec<f64> {
        self.0.iter().map(|s| s.1).collect()
    }

    /// Whole files for each split: by largest remainder, then one for each empty split from the largest.
    pub(super) fn counts(&self, files: usize) -> Vec<usize> {
        let exact: Vec<f64> = self.0.iter().map(|s| s.1 * files as f64).collect();
        let mut counts: Vec<usize> = exact.iter().map(|e| (e + 1e-6).floor() as usize).collect();
        let mut by_remainder: Vec<usize> = (0..counts.len()).collect();
        let rest = |i: &usize| exact.get(*i).map_or(0.0, |e| e - (e + 1e-6).floor());
        by_remainder.sort_by(|a, b| rest(b).total_cmp(&rest(a)));
        let missing = files.saturating_sub(counts.iter().sum());
        for i in by_remainder.into_iter().cycle().take(missing) {
            counts.get_mut(i).into_iter().for_each(|c| *c += 1);
        }
        while let Some(empty) = counts.iter().position(|&c| c == 0) {
            match counts.iter_mut().max() {
                Some(largest) if *largest > 1 => *largest -= 1,
                _ => break,
            }
            counts.get_mut(empty).into_iter().for_each(|c| *c += 1);
        }
        counts
    }
}

/// FNV-1a of the name, mixed with the seed (the finaliser of SplitMix64). Part of what makes a split reproducible: it
/// must never change.
pub(super) fn hash(seed: u64, name: &str) -> u64 {
    let fnv = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    let mut x = fnv ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(shares: &str, files: usize) -> Vec<usize> {
        shares.parse::<Shares>().unwrap().counts(files)
    }

    #[test]
    fn counts_follow_the_shares() {
        assert_eq!(counts("train=0.8,test=0.1,holdout=0.1", 10), [8, 1, 1]);
        assert_eq!(counts("train=0.8,test=0.1,holdout=0.1", 1000), [800, 100, 100]);
        assert_eq!(counts("train=0.8,test=0.1,holdout=0.1", 5), [3, 1, 1]);
        assert_eq!(counts("train=0.8,test=0.1,holdout=0.1", 3), [1, 1, 1]);
        assert_eq!(counts("train=0.8,test=0.1,holdout=0.1", 2), [1, 1, 0]);
        assert_eq!(counts("train=0.3,test=0.7", 10), [3, 7]);
        assert_eq!(counts("train", 4), [4]);
        assert_eq!(counts("test=1", 0), [0]);
    }

    #[test]
    fn every_file_has_a_split_and_the_seed_matters() {
        let shares: Shares = "train=0.6,test=0.3,holdout=0.1".parse().unwrap();
        let names: Vec<String> = (0..100).map(|i| format!("f{i}.wav")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let a = shares.assign(&names, 0);
        for (split, n) in [60, 30, 10].into_iter().enumerate() {
            assert_eq!(a.iter().filter(|&&s| s == split).count(), n);
        }
        assert_ne!(a, shares.assign(&names, 1));
        // The order in which the files are named does not matter.
        let backwards: Vec<&str> = names.iter().rev().copied().collect();
        let mut b = shares.assign(&backwards, 0);
        b.reverse();
        assert_eq!(a, b);
    }

    #[test]
    fn the_assignment_of_today_is_that_of_tomorrow() {
        let shares: Shares = "train=0.5,test=0.5".parse().unwrap();
        assert_eq!(shares.assign(&["a.wav", "b.wav", "c/d.flac", "e.npy", "f.ogg", "g.npz"], 42), [1, 0, 1, 0, 0, 1]);
        assert_eq!(hash(0, ""), 0xf52a_15e9_a9b5_e89b);
    }

    #[test]
    fn nonsense_is_refused_with_the_reason() {
        for (text, reason) in [
            ("train=0.8,test=0.1", "sum to"),
            ("train=0.5,train=0.5", "twice"),
            ("train=x", "no number"),
            ("train=-1,test=2", "not in 0..1"),
            ("train=NaN", "not in 0..1"),
            ("train,test", "no number"),
            ("", "no name"),
            ("=1", "no name"),
        ] {
            let e = text.parse::<Shares>().unwrap_err();
            assert!(e.message().contains(reason), "{text}: {e}");
        }
    }
}
