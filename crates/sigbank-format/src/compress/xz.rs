//! Streams in the .xz container.

use std::io::Write;

use liblzma::stream::{Action, Check, Error, Status, Stream};
use liblzma::write::XzEncoder;

use super::members::{Codec, Step};
use crate::error::{FormatError, Result};

/// Memory that decoding may take. The largest preset's dictionary of 64 MiB needs a quarter.
const MEMORY: u64 = 256 << 20;

pub(super) fn encode(preset: u32, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
    let stream = Stream::new_easy_encoder(preset, Check::Crc64).map_err(words)?;
    let mut encoder = XzEncoder::new_stream(out, stream);
    for part in parts {
        encoder.write_all(part)?;
    }
    encoder.finish()?;
    Ok(())
}

pub(super) struct Decoder(Stream);

impl Decoder {
    pub(super) fn new() -> Result<Self> {
        Stream::new_stream_decoder(MEMORY, 0).map(Self).map_err(words)
    }
}

impl Codec for Decoder {
    const HEAD: usize = 4;
    const PADDING: usize = 4;

    fn starts(head: &[u8]) -> bool {
        head == [0xfd, b'7', b'z', b'X']
    }

    fn restart(&mut self) -> Result<()> {
        *self = Self::new()?;
        Ok(())
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step> {
        let (read, written) = (self.0.total_in(), self.0.total_out());
        let status = self.0.process(input, output, Action::Run).map_err(words)?;
        Ok(Step {
            consumed: (self.0.total_in() - read) as usize,
            written: (self.0.total_out() - written) as usize,
            ended: status == Status::StreamEnd,
        })
    }
}

fn words(e: Error) -> FormatError {
    match e {
        Error::MemLimit | Error::Mem => {
            FormatError::limit(format!("decoding needs more than {} MiB: compress with a smaller dictionary", MEMORY >> 20))
        }
        Error::Options | Error::UnsupportedCheck => FormatError::unsupported("an option of .xz that is not supported"),
        Error::Format => FormatError::corrupt("this is no .xz stream"),
        e => FormatError::corrupt(e.to_string()),
    }
}
