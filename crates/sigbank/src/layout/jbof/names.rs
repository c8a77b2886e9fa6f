//! What may be the name of an item or an array.

use crate::error::{Error, Result};
use crate::uri::RelPath;

/// The directory that every reader skips, and in which what is being added and deleted lies.
pub(super) const SKIPPED: &str = "__pycache__";
/// Longest name of a file that filesystems take, in bytes.
const LONGEST: usize = 255;
/// The longest ending that is put behind an array's name.
const ENDING: usize = ".flac".len();

/// The endings of array files, in the order in which messages list them.
const EXTENSIONS: [&str; 5] = ["npy", "wav", "flac", "ogg", "mat"];

/// Whether files of this extension (without the dot, in any case) can be an array.
///
/// ```
/// use sigbank::layout::jbof::is_array_extension;
/// assert!(is_array_extension("WAV") && !is_array_extension("json"));
/// ```
pub fn is_array_extension(extension: &str) -> bool {
    EXTENSIONS.iter().any(|known| known.eq_ignore_ascii_case(extension))
}

/// Whether a directory's name is one that no item has: hidden, or made by Python.
pub(super) fn is_hidden(name: &str) -> bool {
    name.starts_with('.') || name == SKIPPED
}

/// Whether a file is left behind by an operating system or an editor, and no part of anyone's data.
///
/// ```
/// use sigbank::layout::jbof::is_litter;
/// assert!([".DS_Store", "._a.wav", "Thumbs.db", "desktop.ini", "a.wav~", ".nfs0001"].iter().all(|name| is_litter(name)));
/// assert!(!is_litter("a.wav"));
/// ```
pub fn is_litter(name: &str) -> bool {
    name.starts_with('.')
        || name.ends_with('~')
        || ["thumbs.db", "desktop.ini", "__macosx"].contains(&name.to_ascii_lowercase().as_str())
}

/// The path of an item. `Invalid` for a name that is not one component, or that readers would skip.
pub(super) fn item(name: &str) -> Result<RelPath> {
    if is_hidden(name) && !matches!(name, "." | "..") {
        return Err(bad("item", name, "is one that readers skip").remedy("choose a name that does not begin with a dot"));
    }
    component("item", name, LONGEST)
}

/// Refuses a name that no array can have.
pub(super) fn array(name: &str) -> Result<()> {
    component("array", name, LONGEST - ENDING)?;
    if name == "_metadata" {
        return Err(bad("array", name, "is that of the item's own metadata").remedy("choose another name"));
    }
    if name.starts_with('.') {
        return Err(bad("array", name, "begins with a dot, so that it would be hidden").remedy("choose another name"));
    }
    Ok(())
}

fn component(what: &str, name: &str, longest: usize) -> Result<RelPath> {
    let remedy = "choose a name without / and \\, other than . and ..";
    match RelPath::parse(name) {
        _ if name.len() > longest => {
            Err(bad(what, name, &format!("has {} bytes, where files' names have at most {longest}", name.len()))
                .remedy("choose a shorter name, and keep the long one in the metadata"))
        }
        _ if name.chars().any(char::is_control) => {
            Err(bad(what, name, "has a control character").remedy("choose a name of printable characters"))
        }
        Ok(path) if path.parent().is_none() => Ok(path),
        _ => Err(bad(what, name, "is not one path component").remedy(remedy)),
    }
}

fn bad(what: &str, name: &str, why: &str) -> Error {
    let shown: String = name.chars().take(80).collect();
    Error::invalid(format!("the {what} name {shown:?} {why}"))
}
