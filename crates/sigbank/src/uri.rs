//! Names of objects inside a store.

use crate::error::{Error, Result};
use std::borrow::Borrow;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// A path of an object relative to the root of its store: one or more components with `/` between them.
///
/// It cannot hold `..`, `.`, an empty component, a leading `/`, a backslash or a NUL, so that whatever a stored document
/// says, the name stays below the root and means the same on every store and platform. Everything else is allowed (spaces,
/// dots, any Unicode, kept as given and never normalised). Paths are ordered by their bytes.
///
/// ```
/// use sigbank::uri::RelPath;
/// let p = RelPath::parse("train/ab c/0.fb")?;
/// assert_eq!((p.file_name(), p.parent().unwrap().as_str()), ("0.fb", "train/ab c"));
/// assert_eq!(RelPath::parse("train")?.join("x/y")?.as_str(), "train/x/y");
/// let e = RelPath::parse("train/../../etc/passwd").unwrap_err();
/// assert!(e.to_string().contains("\"train/../../etc/passwd\"") && e.to_string().contains(".."));
/// # Ok::<(), sigbank::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(Arc<str>);

impl RelPath {
    /// The path of this text, or an [`Invalid`](crate::Code::Invalid) error that quotes it and says why not.
    pub fn parse(text: &str) -> Result<Self> {
        match objection(text) {
            None => Ok(Self(text.into())),
            Some(why) => Err(Error::invalid(format!("the path {} {why}", Quoted(text)))
                .remedy("give a path relative to the dataset, with / between its parts and without . or ..")),
        }
    }
    /// This path with `tail` (one or more components) after it; the tail must be a relative path itself.
    pub fn join(&self, tail: &str) -> Result<Self> {
        let tail = Self::parse(tail)?;
        Ok(Self(format!("{self}/{tail}").into()))
    }
    /// The path without its last component; none for a path of one component, which lies in the root.
    pub fn parent(&self) -> Option<Self> {
        self.0.rsplit_once('/').map(|(parent, _)| Self(parent.into()))
    }
    /// The last component.
    pub fn file_name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, name)| name)
    }
    /// The components in order, at least one.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }
    /// What is left of this path below the directory `dir`: `None` when it lies elsewhere or is `dir` itself.
    ///
    /// ```
    /// # use sigbank::uri::RelPath;
    /// let dir = RelPath::parse("a")?;
    /// assert_eq!(RelPath::parse("a/b/c")?.strip_prefix(&dir).unwrap().as_str(), "b/c");
    /// assert_eq!(RelPath::parse("a-prod/b")?.strip_prefix(&dir), None);
    /// # Ok::<(), sigbank::Error>(())
    /// ```
    pub fn strip_prefix(&self, dir: &RelPath) -> Option<Self> {
        self.0.strip_prefix(&*dir.0)?.strip_prefix('/').map(|rest| Self(rest.into()))
    }
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether [`RelPath::parse`] takes this text.
pub(crate) fn is_path(text: &str) -> bool {
    objection(text).is_none()
}

fn objection(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        return Some("is empty");
    }
    if text.starts_with('/') {
        return Some("is absolute");
    }
    if text.contains('\\') {
        return Some("has a backslash, which some systems take for a separator");
    }
    if text.contains('\0') {
        return Some("has a NUL character");
    }
    text.split('/').find_map(|component| match component {
        "" => Some("has an empty component (two slashes in a row, or one at the end)"),
        "." => Some("has the component \".\""),
        ".." => Some("has the component \"..\", which leads out of its directory"),
        _ => None,
    })
}

/// A text in quotes with its control characters escaped, cut where it is too long for a message.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 300;
        match self.0.char_indices().nth(LONGEST).and_then(|(at, _)| self.0.get(..at)) {
            Some(start) => write!(f, "{start:?}... ({} bytes)", self.0.len()),
            None => write!(f, "{:?}", self.0),
        }
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl FromStr for RelPath {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl TryFrom<&str> for RelPath {
    type Error = Error;
    fn try_from(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl AsRef<str> for RelPath {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl AsRef<Path> for RelPath {
    fn as_ref(&self) -> &Path {
        Path::new(&*self.0)
    }
}

impl Borrow<str> for RelPath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn what_leads_elsewhere_is_refused_with_its_reason() {
        for (text, reason) in [
            ("", "empty"),
            ("/", "absolute"),
            ("/etc/passwd", "absolute"),
            ("..", "\"..\""),
            ("a/..", "\"..\""),
            ("../a", "\"..\""),
            (".", "\".\""),
            ("./a", "\".\""),
            ("a//b", "empty component"),
            ("a/", "empty component"),
            ("a\\..\\b", "backslash"),
            ("a\0b", "NUL"),
        ] {
            let e = RelPath::parse(text).unwrap_err();
            assert_eq!(e.code(), Code::Invalid, "{text:?}");
            assert!(e.message().contains(reason), "{text:?}: {e}");
            assert!(e.message().contains(&format!("{text:?}")), "{text:?}: {e}");
            assert!(RelPath::parse("ok").unwrap().join(text).is_err(), "{text:?}");
        }
        assert!(RelPath::parse(&"x/../".repeat(100_000)).unwrap_err().to_string().len() < 600);
    }

    #[test]
    fn odd_names_are_kept_as_they_are() {
        for text in
            ["a b", "..a", "a..", "...", "e\u{301}", "\u{e9}", "22.05", "a:b", "CON", "a.", "line\nbreak", "-", "~", "%2e%2e"]
        {
            assert_eq!(RelPath::parse(text).unwrap().as_str(), text);
        }
        assert_ne!(RelPath::parse("e\u{301}").unwrap(), RelPath::parse("\u{e9}").unwrap());
    }

    #[test]
    fn parts() {
        let p: RelPath = "a/b/c".parse().unwrap();
        assert_eq!(p.components().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(p.parent().unwrap().parent().unwrap().parent(), None);
        assert_eq!(p.strip_prefix(&p), None);
        assert_eq!(RelPath::parse("solo").unwrap().file_name(), "solo");
        assert!(RelPath::parse("a").unwrap() < RelPath::parse("a/b").unwrap());
    }
}
