//! bzip2 streams.

use std::io::Write;

use ::bzip2::{Compression, Decompress, Status, write::BzEncoder};

use super::members::{Codec, Step};
use crate::error::{FormatError, Result};

pub(super) fn encode(level: u32, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
    let mut encoder = BzEncoder::new(out, Compression::new(level));
    for part in parts {
        encoder.write_all(part)?;
    }
    encoder.finish()?;
    Ok(())
}

pub(super) struct Decoder(Decompress);

impl Decoder {
    pub(super) fn new() -> Self {
        Self(Decompress::new(false))
    }
}

impl Codec for Decoder {
    const HEAD: usize = 3;
    const PADDING: usize = 0;

    fn starts(head: &[u8]) -> bool {
        head == b"BZh"
    }

    fn restart(&mut self) -> Result<()> {
        *self = Self::new();
        Ok(())
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step> {
        let (read, written) = (self.0.total_in(), self.0.total_out());
        let status = self.0.decompress(input, output).map_err(|e| FormatError::corrupt(e.to_string()))?;
        Ok(Step {
            consumed: (self.0.total_in() - read) as usize,
            written: (self.0.total_out() - written) as usize,
            ended: status == Status::StreamEnd,
        })
    }
}
