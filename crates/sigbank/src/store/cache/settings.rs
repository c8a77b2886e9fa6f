//! What a caller says of the cache.

use crate::error::{Error, Result};
use crate::store::StorageOptions;
use std::path::PathBuf;

/// The storage options that are the cache's: whoever hands options on to a service leaves them out.
pub const OPTIONS: [&str; 2] = ["cache_dir", "cache_size"];
const SIZE: u64 = 10_000_000_000;

pub(super) struct Settings {
    pub(super) dir: PathBuf,
    pub(super) bound: u64,
    pub(super) scope: String,
}

impl Settings {
    /// `None` where no cache is asked for.
    pub(super) fn read(options: &StorageOptions) -> Result<Option<Self>> {
        let [dir, size] = OPTIONS.map(|name| options.get(name).filter(|value| !value.is_empty()));
        let bound = size.map_or(Ok(SIZE), |text| parse_size(text).map_err(|e| e.within("cache_size")))?;
        let Some(dir) = dir else {
            return match size {
                Some(_) => Err(Error::invalid("a cache_size is given, but no cache_dir").remedy("say where the cache is to be")),
                None => Ok(None),
            };
        };
        let dir = match dir.strip_prefix("~/") {
            None => PathBuf::from(dir),
            Some(rest) => match std::env::var_os("HOME").filter(|home| !home.is_empty()) {
                Some(home) => PathBuf::from(home).join(rest),
                None => {
                    return Err(Error::invalid(format!("the cache_dir {dir:?} begins with ~, but HOME is not set"))
                        .remedy("give a path without ~"));
                }
            },
        };
        let dir =
            std::path::absolute(&dir).map_err(|e| Error::invalid(format!("cache_dir: {dir:?} is no directory's name: {e}")))?;
        Ok(Some(Self { dir, bound, scope: scope(options) }))
    }
}

/// The same bucket name is another bucket at another endpoint or account.
fn scope(options: &StorageOptions) -> String {
    let telling = |name: &str| {
        let name = name.to_ascii_lowercase();
        name.contains("endpoint") || name.contains("account_name")
    };
    let given = options.iter().filter(|(name, _)| telling(name)).map(|(name, value)| format!("{name}={value}\n"));
    let cloud = |name: &str| ["AWS_", "AZURE_", "GOOGLE_"].iter().any(|prefix| name.starts_with(prefix));
    let mut set: Vec<String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| cloud(name) && telling(name))
        .map(|(name, value)| format!("{name}={value}\n"))
        .collect();
    set.sort();
    given.chain(set).collect()
}

/// A number of bytes as people write it: a number, and perhaps a unit of powers of 1000 (`kB`, `MB`, `GB`, `TB`) or of
/// 1024 (`KiB`, `MiB`, `GiB`, `TiB`), in any case.
///
/// # Errors
/// `Invalid` quotes what is no such number.
///
/// ```
/// use sigbank::store::cache::parse_size;
/// assert_eq!(parse_size("50GB")?, 50_000_000_000);
/// assert_eq!(parse_size("1.5 GiB")?, 1_610_612_736);
/// assert_eq!(parse_size("4096")?, 4096);
/// assert!(parse_size("50 parsecs").is_err() && parse_size("-1").is_err());
/// # Ok::<(), sigbank::Error>(())
/// ```
pub fn parse_size(text: &str) -> Result<u64> {
    let wrong = || {
        Error::invalid(format!("a number of bytes is expected, found {text:?}"))
            .remedy("write it as 4096, 512MiB or 50GB, for example")
    };
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at_checked(end).ok_or_else(wrong)?;
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "t" | "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return Err(wrong()),
    };
    match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(factor).ok_or_else(wrong),
        Err(_) => {
            let bytes = number.parse::<f64>().map_err(|_| wrong())? * factor as f64;
            // Up to here each whole number is exact.
            if bytes.is_finite() && bytes < 9e15 { Ok(bytes as u64) } else { Err(wrong()) }
        }
    }
}
