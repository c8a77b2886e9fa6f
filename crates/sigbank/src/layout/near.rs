//! Ids that are like one that no record has.

use crate::error::Error;

/// Most ids that an error proposes.
const MOST: usize = 3;
/// Ids longer than this are proposed only where they begin alike.
const LONGEST: usize = 64;

/// The ids that are nearest to one, of those that were added.
pub(crate) struct Near<'a> {
    id: &'a str,
    found: Vec<(usize, String)>,
}

impl<'a> Near<'a> {
    pub(crate) fn new(id: &'a str) -> Self {
        Self { id, found: Vec::new() }
    }

    pub(crate) fn add(&mut self, other: &str) {
        let Some(far) = distance(self.id, other) else { return };
        let at = self.found.partition_point(|(known, _)| *known <= far);
        if at < MOST {
            self.found.insert(at, (far, other.to_owned()));
            self.found.truncate(MOST);
        }
    }

    /// That no record has the id, and what is near it.
    pub(crate) fn error(self) -> Error {
        let e = Error::not_found(format!("there is no record '{}'", self.id));
        let names: Vec<String> = self.found.into_iter().map(|(_, id)| format!("'{id}'")).collect();
        match names.as_slice() {
            [] => e.remedy("no id is like it; see which there are: sigbank ls"),
            names => e.remedy(format!("near it: {}; see which there are: sigbank ls", names.join(", "))),
        }
    }
}

/// The error of an id that is none of these.
pub(crate) fn no_such_id<'a>(id: &str, all: impl Iterator<Item = &'a str>) -> Error {
    let mut near = Near::new(id);
    all.for_each(|other| near.add(other));
    near.error()
}

/// By how many characters two ids differ, where that is few of them: put in, left out or another one. Case counts for nothing here.
fn distance(a: &str, b: &str) -> Option<usize> {
    let chars = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<Vec<_>>();
    let (a, b) = (chars(a), chars(b));
    let most = (a.len().max(b.len()) / 3).clamp(1, 8);
    if a.len().abs_diff(b.len()) > most {
        // One that begins with the other is near, if far behind the rest.
        return (a.len() > 2 && b.starts_with(&a)).then_some(most + 1);
    }
    if a.len().max(b.len()) > LONGEST {
        let alike = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
        return (alike * 2 > a.len()).then(|| a.len().max(b.len()) - alike);
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (cell, to) in row.iter_mut().skip(1).zip(&b) {
            let best = (diagonal + usize::from(from != to)).min(left + 1).min(*cell + 1);
            diagonal = std::mem::replace(cell, best);
            left = best;
        }
    }
    row.last().copied().filter(|far| *far <= most)
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn near_ids_are_near() {
        for (a, b, far) in [
            ("r7", "r7", Some(0)),
            ("r7", "r8", Some(1)),
            ("r7", "x9", None),
            ("run-0001", "run-1000", Some(2)),
            ("Run-1", "run-1", Some(0)),
            ("capture", "capture/0001", Some(5)),
            ("kitten", "sitting", None),
            ("kittens", "sitting", None),
            ("mitten", "kitten", Some(1)),
            ("", "abc", None),
        ] {
            assert_eq!(distance(a, b), far, "{a} {b}");
        }
    }
}
