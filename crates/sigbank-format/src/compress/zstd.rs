//! Zstandard frames.

use std::io::Write;

use ::zstd::stream::raw::{self, Operation};
use ::zstd::stream::write::Encoder;
use ::zstd::zstd_safe::{self, DParameter};

use super::members::{Codec, Step};
use crate::error::{FormatError, Result};

/// 2 to this many bytes may a frame's window be: 128 MiB.
const WINDOW_LOG: u32 = 27;

pub(super) fn encode(level: i32, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
    let range = zstd_safe::min_c_level()..=zstd_safe::max_c_level();
    if !range.contains(&level) {
        return Err(FormatError::invalid(format!("ZSTD: level {level} does not exist: choose one of {range:?}")));
    }
    let mut encoder = Encoder::new(out, level)?;
    encoder.include_checksum(true)?;
    // Without the size in the header the reference cannot read the frame.
    encoder.include_contentsize(true)?;
    encoder.set_pledged_src_size(Some(parts.iter().map(|p| p.len() as u64).sum()))?;
    for part in parts {
        encoder.write_all(part)?;
    }
    encoder.finish()?;
    Ok(())
}

/// The size in the first frame's header.
pub(super) fn declared_size(data: &[u8]) -> Option<u64> {
    zstd_safe::get_frame_content_size(data).ok().flatten()
}

pub(super) struct Decoder(raw::Decoder<'static>);

impl Decoder {
    pub(super) fn new() -> Result<Self> {
        let mut decoder = raw::Decoder::new()?;
        decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG))?;
        Ok(Self(decoder))
    }
}

impl Codec for Decoder {
    const HEAD: usize = 4;
    const PADDING: usize = 0;

    fn starts(head: &[u8]) -> bool {
        // A frame, or one of sixteen kinds of skippable frame.
        matches!(head, [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18])
    }

    fn restart(&mut self) -> Result<()> {
        Ok(self.0.reinit()?)
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step> {
        let status = self.0.run_on_buffers(input, output).map_err(|e| match e.to_string() {
            text if text.contains("too much memory") => FormatError::limit(format!(
                "a frame whose window is over {} MiB: compress it without --ultra --long",
                1 << (WINDOW_LOG - 20)
            )),
            text => FormatError::corrupt(text),
        })?;
        Ok(Step { consumed: status.bytes_read, written: status.bytes_written, ended: status.remaining == 0 })
    }
}
