//! `StorageOptions` and `PublicationOptions` as the core takes them.

use super::codec::limits;
use super::errors::invalid_value;
use super::take::policy;
use pyo3::intern;
use pyo3::prelude::*;
use sigbank::format::container::arrayrecord::Compression;
use sigbank::layout::signal_dataset::Options;

/// The options of these; None is the default.
pub fn options(storage: Option<&Bound<'_, PyAny>>) -> PyResult<Options> {
    let Some(storage) = storage else { return Ok(Options::default()) };
    let py = storage.py();
    let known = |name| storage.getattr(name).map(|value: Bound<'_, PyAny>| (!value.is_none()).then_some(value));
    let default = Options::default();
    Ok(Options {
        resources: policy(known(intern!(py, "resources"))?.as_ref())?,
        control: limits(known(intern!(py, "control"))?.as_ref())?,
        compression: compression(&storage.getattr(intern!(py, "writer_options"))?.extract::<String>()?)?,
        max_records_per_shard: known(intern!(py, "max_records_per_shard"))?.map(|n| n.extract()).transpose()?,
        max_encoded_shard_bytes: known(intern!(py, "max_encoded_shard_bytes"))?.map(|n| n.extract()).transpose()?,
        manifest_cache_pages: storage.getattr(intern!(py, "manifest_cache_pages"))?.extract()?,
        max_open_shards: storage.getattr(intern!(py, "max_open_shards"))?.extract::<usize>()?.max(default.max_open_shards),
        ..default
    })
}

/// The compression of ArrayRecord's writer options, such as "group_size:1,zstd:3". Groups are always of one record, which every
/// reader reads; what else an ArrayRecord writer is told of its work leaves no trace in the records.
pub fn compression(text: &str) -> PyResult<Compression> {
    let Compression::Zstd { level: zstd, window_log: mut window } = Compression::default() else { return Ok(Compression::None) };
    let mut chosen = Compression::default();
    for option in text.split(',').map(str::trim).filter(|o| !o.is_empty()) {
        let (name, value) = option.split_once(':').map_or((option, None), |(name, value)| (name, Some(value)));
        let wrong = || invalid_value(format!("writer_options {text:?}: '{option}' is not understood"));
        let number = |default: i32| value.map_or(Ok(default), |v| v.parse::<i32>().map_err(|_| wrong()));
        match name {
            "uncompressed" => chosen = Compression::None,
            "snappy" => chosen = Compression::Snappy,
            "zstd" => chosen = Compression::Zstd { level: number(zstd)?, window_log: window },
            "brotli" => chosen = Compression::Brotli { level: u8::try_from(number(6)?).map_err(|_| wrong())? },
            "window_log" => window = u32::try_from(number(20)?).map_err(|_| wrong())?,
            "group_size" if value.is_none_or(|v| v.parse::<u64>().is_ok_and(|n| n > 0)) => {}
            "default"
            | "max_parallelism"
            | "saturation_delay_ms"
            | "transpose"
            | "transpose_bucket_size"
            | "pad_to_block_boundary" => {}
            _ => return Err(wrong()),
        }
    }
    if let Compression::Zstd { window_log, .. } = &mut chosen {
        *window_log = window;
    }
    Ok(chosen)
}
