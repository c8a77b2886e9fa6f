//! FLAC, decoded by claxon. Every frame's checksum and place is checked; what reaches the last frame finds further frames that follow it and
//! compares the MD5 of the whole stream. Other bytes behind the last frame that the header declares (tags, padding, another file) are no
//! part of the stream, as libsndfile has it.

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
    let mut blocks = FlacBlocks {
        src,
        decoder,
        bits,
        channels,
        declared,
        frames: 0,
        index: 0,
        buffer: Vec::new(),
        signature: stream.md5sum,
        md5: None,
        signed: Vec::new(),
    };
    let (frames, damage) = match declared {
        Some(frames) => (frames, None),
        None => match blocks.count(stream.samples)? {
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
    /// The MD5 of all samples by the header; zeros where it does not say it, or where it was compared already.
    signature: [u8; 16],
    /// Of the samples so far.
    md5: Option<Md5>,
    /// The samples of a block as the MD5 takes them.
    signed: Vec<u8>,
}

impl FlacBlocks {
    /// Decodes the whole stream: how many frames there are, and what is wrong. All that can tell a stream of undeclared length that
    /// was cut between two frames is its MD5, which is zero where its writer could not go back to fill it in.
    /// What follows as many frames as the header declares, and is no frame, is no damage.
    fn count(&mut self, header: Option<u64>) -> Result<(u64, Option<FormatError>)> {
        let (frames, damage) = count_frames(self, self.channels as usize)?;
        let damage = damage.filter(|_| header != Some(frames));
        let differs = self.differs();
        self.signature = [0; 16];
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

    /// After the last declared frame: refuses further frames of the stream, and samples that are not those of the MD5.
    fn check_end(&mut self) -> Result<()> {
        let Some(declared) = self.declared.filter(|&declared| self.frames >= declared) else { return Ok(()) };
        let goes_on = self.frames > declared
            || match self.decoder.blocks().read_next_or_eof(Vec::new()) {
                Ok(block) => block.is_some_and(|block| self.check(&block).is_ok()),
                Err(claxon::Error::IoError(e)) if e.kind() != std::io::ErrorKind::UnexpectedEof => return Err(e.into()),
                // What is no frame is no part of the stream.
                Err(_) => false,
            };
        if goes_on {
            return Err(FormatError::corrupt(format!(
                "the FLAC header declares {declared} frames, but the stream goes on after them: its writer did not finish it, or parts of \
                 files were put together"
            )));
        }
        if self.differs() {
            return Err(FormatError::corrupt(
                "the samples decoded are not those of the MD5 in the FLAC header: the file is damaged, or its encoder was at fault. \
                 Encode it anew from its source",
            ));
        }
        Ok(())
    }

    /// Whether the samples since the start have another MD5 than the header says.
    fn differs(&mut self) -> bool {
        self.md5.take().is_some_and(|found| found.finalize()[..] != self.signature)
    }
}

impl Blocks for FlacBlocks {
    type Sample = i32;

    fn rewind(&mut self) -> Result<()> {
        if self.index > 0 {
            self.decoder = decoder(&self.src)?;
        }
        (self.frames, self.index) = (0, 0);
        self.md5 = (self.signature != [0; 16]).then(Md5::new);
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
            self.signed.clear();
            out.iter().for_each(|v| self.signed.extend_from_slice(v.to_le_bytes().get(..width).unwrap_or_default()));
            md5.update(&self.signed);
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
