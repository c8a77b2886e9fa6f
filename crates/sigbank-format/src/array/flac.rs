//! FLAC, decoded by claxon. Every frame's checksum and place is checked; the MD5 of the whole stream is where no length is declared.

use super::audio::{Blocks, Coding, Sequential, count_frames, info, put_ints};
use super::source::{Stream, read_up_to};
use super::{ArrayReader, Format, Options, Subtype};
use crate::error::{FormatError, Result};
use crate::model::DType;
use crate::read_at::ReadAt;
use claxon::{FlacReader, FlacReaderOptions};
use md5::{Digest, Md5};
use std::io::BufReader;
use std::sync::Arc;

type Decoder = FlacReader<BufReader<Stream>>;

/// Opens a FLAC file. One whose header gives no length is decoded once to find it.
pub(super) fn open(src: Arc<dyn ReadAt>, options: Options) -> Result<Box<dyn ArrayReader>> {
    let decoder = decoder(&src)?;
    let stream = decoder.streaminfo();
    let (bits, channels) = (stream.bits_per_sample, stream.channels);
    let subtype = match bits {
        ..=8 => Subtype::PcmS8,
        9..=16 => Subtype::Pcm16,
        17..=24 => Subtype::Pcm24,
        _ => Subtype::Pcm32,
    };
    // Where what decodes is wanted, what is declared is no reason to stop.
    let declared = stream.samples.filter(|_| !options.keep_decodable);
    let mut blocks = FlacBlocks { src, decoder, bits, channels, declared, frames: 0, index: 0, buffer: Vec::new(), md5: None };
    let (frames, damage) = match declared {
        Some(frames) => (frames, None),
        None => match blocks.count(stream.md5sum)? {
            (found, Some(e)) if !options.keep_decodable => {
                return Err(e.within(format!("after {found} frames of a FLAC file that gives no length")));
            }
            (found, None) => {
                let other = stream.samples.filter(|&n| n != found);
                (found, other.map(|n| FormatError::corrupt(format!("the header declares {n} frames"))))
            }
            counted => counted,
        },
    };
    let coding = Coding { subtype, bits_per_sample: Some(bits), full_scale_bits: Some(bits), big_endian: false };
    let mut info = info(Format::Flac, &coding, stream.sample_rate, channels as usize, frames, options.samples)?;
    info.incomplete = damage.map(|e| format!("{frames} frames decode: {e}"));
    Ok(Box::new(Sequential::new(info, channels as usize, blocks)))
}

fn decoder(src: &Arc<dyn ReadAt>) -> Result<Decoder> {
    let stream = BufReader::with_capacity(1 << 16, Stream::new(src.clone(), after_id3(&**src)?));
    FlacReader::new_ext(stream, FlacReaderOptions { metadata_only: false, read_vorbis_comment: false }).map_err(failure)
}

/// Where the stream starts: some files have an ID3v2 tag before it.
fn after_id3(src: &dyn ReadAt) -> Result<u64> {
    match read_up_to(src, 0, 10)?.as_slice() {
        &[b'I', b'D', b'3', _, _, flags, a, b, c, d] => {
            let size = [a, b, c, d].iter().fold(0, |size, &byte| size << 7 | u64::from(byte & 0x7f));
            let footer = if flags & 0x10 != 0 { 10 } else { 0 };
            Ok(10 + size + footer)
        }
        _ => Ok(0),
    }
}

fn failure(e: claxon::Error) -> FormatError {
    match e {
        claxon::Error::IoError(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
            FormatError::corrupt("the FLAC stream ends in the middle of a frame or of its head: it was cut short")
        }
        claxon::Error::IoError(e) => e.into(),
        claxon::Error::FormatError(what) => FormatError::corrupt(format!("the FLAC stream is damaged: {what}")),
        claxon::Error::Unsupported(what) => FormatError::unsupported(format!("a FLAC stream with a rare feature: {what}")),
    }
}

struct FlacBlocks {
    src: Arc<dyn ReadAt>,
    decoder: Decoder,
    bits: u32,
    channels: u32,
    /// Frames declared by the header.
    declared: Option<u64>,
    /// Frames and blocks decoded so far.
    frames: u64,
    index: u64,
    buffer: Vec<i32>,
    /// Of the samples so far, while they are counted.
    md5: Option<Md5>,
}

impl FlacBlocks {
    /// Decodes the whole stream: how many frames there are, and what is wrong. All that can tell a stream of undeclared length that
    /// was cut between two frames is its MD5, which is zero where its writer could not go back to fill it in.
    fn count(&mut self, md5: [u8; 16]) -> Result<(u64, Option<FormatError>)> {
        self.md5 = (md5 != [0; 16]).then(Md5::new);
        let (frames, damage) = count_frames(self, self.channels as usize)?;
        let differs = self.md5.take().is_some_and(|found| found.finalize()[..] != md5);
        let missing = || FormatError::corrupt("the samples do not have the stream's MD5: the file was cut short or is damaged");
        Ok((frames, damage.or_else(|| differs.then(missing))))
    }

    /// Refuses a block that contradicts the stream's header or its own place, which claxon leaves to its caller.
    fn check(&self, block: &claxon::Block) -> Result<()> {
        let (len, time) = (u64::from(block.duration()), block.time());
        if block.channels() != self.channels {
            return Err(FormatError::corrupt(format!(
                "a FLAC frame of {} channels in a stream of {}",
                block.channels(),
                self.channels
            )));
        }
        // The place is a frame count or, where all blocks but the last are of one length, a block count, which claxon multiplies
        // by this block's length.
        if time != self.frames && time != len * self.index {
            return Err(FormatError::corrupt(format!("a FLAC frame says it starts at {time}: something is missing or doubled")));
        }
        Ok(())
    }

    /// Refuses frames past the declared end. What is no frame there, such as a tag, is none of ours.
    fn check_end(&mut self) -> Result<()> {
        let goes_on = match self.declared {
            Some(declared) if self.frames == declared => {
                matches!(self.decoder.blocks().read_next_or_eof(Vec::new()), Ok(Some(_)))
            }
            Some(declared) => self.frames > declared,
            None => false,
        };
        match (goes_on, self.declared) {
            (true, Some(declared)) => Err(FormatError::corrupt(format!(
                "the FLAC header declares {declared} frames, but the stream goes on after them"
            ))),
            _ => Ok(()),
        }
    }
}

impl Blocks for FlacBlocks {
    type Sample = i32;

    fn rewind(&mut self) -> Result<()> {
        if self.index > 0 {
            self.decoder = decoder(&self.src)?;
        }
        (self.frames, self.index) = (0, 0);
        Ok(())
    }

    fn next_block(&mut self, out: &mut Vec<i32>) -> Result<()> {
        out.clear();
        // So that an attempt that fails is followed by a new start as well.
        self.index += 1;
        let Some(block) = self.decoder.blocks().read_next_or_eof(std::mem::take(&mut self.buffer)).map_err(failure)? else {
            return Ok(());
        };
        self.index -= 1;
        self.check(&block)?;
        let len = block.duration() as usize;
        out.resize(len * self.channels as usize, 0);
        let limit = 1i64 << (self.bits - 1);
        for channel in 0..self.channels {
            let values = block.channel(channel);
            if values.iter().any(|&v| i64::from(v) < -limit || i64::from(v) >= limit) {
                return Err(FormatError::corrupt(format!("a FLAC sample is out of the range of {} bits", self.bits)));
            }
            let places = out.iter_mut().skip(channel as usize).step_by(self.channels as usize);
            places.zip(values).for_each(|(place, &value)| *place = value);
        }
        if let Some(md5) = &mut self.md5 {
            let width = self.bits.div_ceil(8) as usize;
            out.iter().for_each(|v| md5.update(v.to_le_bytes().get(..width).unwrap_or_default()));
        }
        self.frames += len as u64;
        self.index += 1;
        self.buffer = block.into_buffer();
        self.check_end()
    }

    fn put(&self, samples: &[i32], dtype: &DType, out: &mut [u8]) {
        put_ints(samples.iter().copied(), self.bits, dtype, out);
    }
}
