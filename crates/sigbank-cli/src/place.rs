//! How a command reaches a dataset that is not in a folder.

use sigbank::store::StorageOptions;
use std::path::PathBuf;

/// The shared arguments.
#[derive(clap::Args, Default)]
pub(crate) struct Storage {
    /// A setting of the storage of an address such as s3://bucket/data, such as aws_region=eu-west-1; may be given several times. Without it,
    /// the usual environment variables say it
    #[arg(long, value_name = "KEY=VALUE", value_parser = option)]
    storage_option: Vec<(String, String)>,
    /// Keep what is read from far away in this folder
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Most bytes in it, such as 50GB
    #[arg(long, value_name = "SIZE", requires = "cache")]
    cache_size: Option<String>,
}

impl Storage {
    pub(crate) fn options(&self) -> StorageOptions {
        let mut options: StorageOptions = self.storage_option.iter().cloned().collect();
        let cache = self.cache.as_ref().map(|dir| ("cache_dir", dir.to_string_lossy().into_owned()));
        let size = self.cache_size.as_ref().map(|size| ("cache_size", size.clone()));
        options.extend(cache.into_iter().chain(size).map(|(key, value)| (key.to_owned(), value)));
        options
    }
}

/// KEY=VALUE.
pub(crate) fn option(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("KEY=VALUE is expected".into()),
    }
}
