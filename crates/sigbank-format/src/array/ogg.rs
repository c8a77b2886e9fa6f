//! Vorbis in Ogg. The pages are read here, which tells the length, and damage, without decoding; the packets are decoded by lewton,
//! which is Rust without `unsafe`, after its tables were checked (see [`setup`]).

mod page;
mod setup;

use super::audio::{Blocks, Coding, Sequential, info, put_floats};
use super::source::read_up_to;
use super::{ArrayReader, Format, Options, Subtype};
use crate::error::{FormatError, Result};
use crate::model::DType;
use crate::read_at::ReadAt;
use lewton::audio::{PreviousWindowRight, read_audio_packet_generic};
use lewton::header::{IdentHeader, SetupHeader, read_header_ident, read_header_setup};
use page::{MAX_PAGE, Packets, Page};
use setup::Modes;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Places in a file's tail that look like a page and are none, after which the file is read from its start instead.
const MAX_FALSE_PAGES: usize = 16;

/// Opens an Ogg file that holds one Vorbis stream.
pub(super) fn open(src: Arc<dyn ReadAt>, options: Options) -> Result<Box<dyn ArrayReader>> {
    let serial = vorbis_serial(&*src)?;
    let mut packets = Packets::new(src.clone(), serial, 0);
    let ident = header(&mut packets, 1)?;
    let ident =
        guarded(|| read_header_ident(&ident))?.map_err(|e| FormatError::corrupt(format!("the Vorbis head is damaged: {e}")))?;
    header(&mut packets, 3)?;
    let setup = header(&mut packets, 5)?;
    let exponents = (ident.blocksize_0, ident.blocksize_1);
    let modes = Modes::read(&setup, ident.audio_channels, exponents)?;
    let setup = guarded(|| read_header_setup(&setup, ident.audio_channels, exponents))?
        .map_err(|e| FormatError::corrupt(format!("the Vorbis setup header is damaged: {e}")))?;

    let start = Start::read(&mut packets, &modes);
    let end = if options.keep_decodable { End::forward(&*src, serial) } else { End::read(&*src, serial) }?;
    let frames = match end.granule {
        Some(granule) => u64::try_from(granule.saturating_sub(start.origin)).map_err(|_| {
            FormatError::corrupt(format!("the Ogg stream ends at frame {granule}, before its start at {}", start.origin))
        })?,
        None => 0,
    };
    let damage = match (end.damage, end.complete) {
        (Some(e), _) => Some(format!("{frames} frames decode, then {e}")),
        (None, false) => Some(format!("{frames} frames decode, but the Ogg stream has no last page: the file was cut short")),
        (None, true) => None,
    };
    if end.chained {
        return Err(FormatError::unsupported(format!(
            "a chained Ogg file: after the {frames} frames of its first stream another starts. Split it"
        )));
    }
    match damage {
        Some(what) if !options.keep_decodable => return Err(FormatError::corrupt(what)),
        _ => {}
    }
    let channels = usize::from(ident.audio_channels);
    let coding = Coding { subtype: Subtype::Vorbis, bits_per_sample: None, full_scale_bits: None, big_endian: false };
    let mut info = info(Format::Ogg, &coding, ident.audio_sample_rate, channels, frames, options.samples)?;
    info.incomplete = damage;
    let blocks = VorbisBlocks {
        src,
        serial,
        ident,
        setup,
        skip: start.skip,
        packets: None,
        window: PreviousWindowRight::new(),
        left_to_skip: 0,
    };
    Ok(Box::new(Sequential::new(info, channels, blocks)))
}

/// The serial number of the first Vorbis stream, from the pages that all streams of the file start with.
fn vorbis_serial(src: &dyn ReadAt) -> Result<u32> {
    let (mut at, mut codecs) = (0, Vec::new());
    while let Some(page) = Page::read(src, at)?.filter(|page| page.first) {
        let codec = match page.body() {
            [1, b'v', b'o', b'r', b'b', b'i', b's', ..] => return Ok(page.serial),
            [b'O', b'p', b'u', b's', ..] => "Opus",
            [0x7f, b'F', b'L', b'A', b'C', ..] => "FLAC",
            [b'S', b'p', b'e', b'e', b'x', ..] => "Speex",
            [0x80, b't', b'h', b'e', b'o', b'r', b'a', ..] => "Theora",
            _ => "an unknown codec",
        };
        codecs.push(codec);
        at += page.len;
    }
    match codecs.is_empty() {
        true => {
            Err(FormatError::corrupt(format!("this is no Ogg file, or has no start: {} bytes without a first page", src.size())))
        }
        false => Err(FormatError::unsupported(format!("an Ogg file of {}; Vorbis is read", codecs.join(", ")))),
    }
}

/// The next packet, which must be the header of a kind.
fn header(packets: &mut Packets, kind: u8) -> Result<Vec<u8>> {
    let what = || format!("Vorbis header {kind} of 1, 3, 5");
    let packet = packets
        .next()
        .map_err(|e| e.within(what()))?
        .ok_or_else(|| FormatError::corrupt(format!("{}: the stream ends before it", what())))?;
    match packet.bytes.as_slice() {
        [first, b'v', b'o', b'r', b'b', b'i', b's', ..] if *first == kind => Ok(packet.bytes),
        _ => Err(FormatError::corrupt(format!("{}: another packet is in its place", what()))),
    }
}

/// Runs the decoder. Its input was checked, so that it has no reason to panic; should it find one, that is an error all the same.
fn guarded<T>(decode: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(decode))
        .map_err(|_| FormatError::corrupt("the Vorbis stream makes the decoder fail: it is damaged"))
}

/// Where the stream's frames start.
#[derive(Default)]
struct Start {
    /// The position of the first frame delivered, as pages count.
    origin: i64,
    /// Decoded frames before it, which are not delivered.
    skip: u64,
}

impl Start {
    /// From the first page that has a position: what it counts, less what its packets hold. More held than counted means that
    /// the first frames are to be dropped, or the last ones where the page is also the stream's last. Damage is left for the end to tell.
    fn read(packets: &mut Packets, modes: &Modes) -> Self {
        let (mut held, mut before) = (0, None);
        while let Ok(Some(packet)) = packets.next() {
            if let Some(len) = modes.block_len(&packet.bytes) {
                held += before.map_or(0, |before: u32| i64::from((before + len) / 4));
                before = Some(len);
            }
            if let Some(granule) = packet.granule {
                let origin = granule.saturating_sub(held);
                let skip = if origin < 0 && !packet.last_page { origin.unsigned_abs() } else { 0 };
                return Self { origin: origin.max(0), skip };
            }
        }
        Self::default()
    }
}

/// Where the stream ends.
#[derive(Default)]
struct End {
    /// The position after the last frame that is there in whole.
    granule: Option<i64>,
    /// Whether the stream's last page is there.
    complete: bool,
    /// Whether another stream follows.
    chained: bool,
    /// What ended the walk early.
    damage: Option<FormatError>,
}

impl End {
    /// From the file's last page where all heads of pages agree with it, else from all pages.
    fn read(src: &dyn ReadAt, serial: u32) -> Result<Self> {
        let Extent { complete, mut chained, end } = Extent::walk(src, serial)?;
        if !complete {
            return Self::forward(src, serial);
        }
        let base = src.size().saturating_sub(2 * MAX_PAGE as u64);
        let tail = read_up_to(src, base, 2 * MAX_PAGE)?;
        let marks = tail.windows(4).enumerate().rev().filter(|(_, mark)| mark == b"OggS");
        for (i, _) in marks.take(MAX_FALSE_PAGES) {
            let at = base + i as u64;
            let Ok(Some(page)) = Page::read(src, at) else { continue };
            // Behind something that is no page another stream goes on.
            chained |= at >= end;
            if !chained && page.serial == serial && page.last && page.granule.is_some() {
                return Ok(Self { granule: page.granule, complete: true, ..Self::default() });
            }
            break;
        }
        let forward = Self::forward(src, serial)?;
        Ok(Self { chained: chained || forward.chained, ..forward })
    }

    /// Walks over all pages.
    fn forward(src: &dyn ReadAt, serial: u32) -> Result<Self> {
        let (mut end, mut at) = (Self::default(), 0);
        loop {
            let page = match Page::read(src, at) {
                Ok(Some(page)) => page,
                // What follows the last page is no concern.
                Err(_) if end.complete => return Ok(end),
                Err(e) => return Ok(Self { damage: Some(e), ..end }),
                Ok(None) => return Ok(end),
            };
            if end.complete && (page.first || page.serial == serial) {
                return Ok(Self { chained: true, ..end });
            }
            if page.serial == serial && !end.complete {
                end.granule = page.granule.or(end.granule);
                end.complete = page.last;
            }
            at += page.len;
        }
    }
}

/// What the heads of the pages say, which is cheap to read.
struct Extent {
    /// Whether a stream's last page is there.
    complete: bool,
    /// Whether another stream starts after it, be it under the same serial number.
    chained: bool,
    /// Where the pages that follow one another from the file's start end.
    end: u64,
}

impl Extent {
    fn walk(src: &dyn ReadAt, serial: u32) -> Result<Self> {
        let mut extent = Self { complete: false, chained: false, end: 0 };
        while let Some(page) = Page::skim(src, extent.end)? {
            extent.chained |= extent.complete && (page.first || page.serial == serial);
            extent.complete |= page.last && page.serial == serial;
            extent.end += page.len;
        }
        Ok(extent)
    }
}

struct VorbisBlocks {
    src: Arc<dyn ReadAt>,
    serial: u32,
    ident: IdentHeader,
    setup: SetupHeader,
    skip: u64,
    packets: Option<Packets>,
    window: PreviousWindowRight,
    left_to_skip: u64,
}

impl Blocks for VorbisBlocks {
    type Sample = f32;

    fn rewind(&mut self) -> Result<()> {
        let mut packets = Packets::new(self.src.clone(), self.serial, 0);
        for kind in [1, 3, 5] {
            header(&mut packets, kind)?;
        }
        (self.packets, self.window, self.left_to_skip) = (Some(packets), PreviousWindowRight::new(), self.skip);
        Ok(())
    }

    fn next_block(&mut self, out: &mut Vec<f32>) -> Result<()> {
        out.clear();
        let Self { packets: Some(packets), ident, setup, window, left_to_skip, .. } = self else { return Ok(()) };
        while out.is_empty() {
            let Some(packet) = packets.next()? else { return Ok(()) };
            // Encoders put empty packets where nothing is to be said.
            if packet.bytes.is_empty() {
                continue;
            }
            let channels: Vec<Vec<f32>> = guarded(|| read_audio_packet_generic(ident, setup, &packet.bytes, window))?
                .map_err(|e| FormatError::corrupt(format!("a Vorbis packet is damaged: {e}")))?;
            let len = channels.first().map_or(0, Vec::len);
            let skipped = usize::try_from(*left_to_skip).unwrap_or(usize::MAX).min(len);
            *left_to_skip -= skipped as u64;
            out.resize((len - skipped) * channels.len(), 0.0);
            for (i, values) in channels.iter().enumerate() {
                let places = out.iter_mut().skip(i).step_by(channels.len());
                places.zip(values.iter().skip(skipped)).for_each(|(place, &value)| *place = value);
            }
        }
        Ok(())
    }

    fn put(&self, samples: &[f32], dtype: &DType, out: &mut [u8]) {
        put_floats(samples.iter().map(|&v| f64::from(v)), dtype, out);
    }
}
