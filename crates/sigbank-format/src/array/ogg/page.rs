//! Ogg pages: framing, checksums, and the packets inside.

use crate::array::source::read_up_to;
use crate::error::{FormatError, Result};
use crate::read_at::ReadAt;
use std::sync::Arc;

/// Largest packet that is put together from pages: setup headers and comments with a cover picture fit.
const MAX_PACKET: usize = 1 << 25;
/// Bytes of a page's head before its lacing values.
const HEAD: usize = 27;
/// Largest page: its head, 255 lacing values, 255 bytes for each.
pub(super) const MAX_PAGE: usize = HEAD + 255 + 255 * 255;

/// One page.
pub(super) struct Page {
    /// Goes on with a packet of the page before.
    continued: bool,
    /// First page of a logical stream.
    pub first: bool,
    /// Last page of a logical stream.
    pub last: bool,
    /// Frames up to the end of the last packet that ends here; none where no packet does.
    pub granule: Option<i64>,
    pub serial: u32,
    sequence: u32,
    lacing: Vec<u8>,
    body: Vec<u8>,
    /// Bytes of the page in the file.
    pub len: u64,
}

/// A page by its head alone.
pub(super) struct Skimmed {
    pub first: bool,
    pub last: bool,
    pub serial: u32,
    /// Bytes of the page in the file.
    pub len: u64,
}

impl Page {
    /// The page at a position; none at the end of the file.
    pub(super) fn read(src: &dyn ReadAt, at: u64) -> Result<Option<Self>> {
        let head = read_up_to(src, at, HEAD + 255)?;
        if head.is_empty() {
            return Ok(None);
        }
        let cut = || {
            FormatError::corrupt(format!("the Ogg page at offset {at} is cut short at the file's end of {} bytes", src.size()))
        };
        if !head.starts_with(b"OggS".get(..head.len().min(4)).unwrap_or(b"OggS")) {
            return Err(FormatError::corrupt(format!("an Ogg page is expected at offset {at}, and other bytes are there")));
        }
        let &[
            _,
            _,
            _,
            _,
            version,
            flags,
            g0,
            g1,
            g2,
            g3,
            g4,
            g5,
            g6,
            g7,
            s0,
            s1,
            s2,
            s3,
            n0,
            n1,
            n2,
            n3,
            c0,
            c1,
            c2,
            c3,
            count,
            ref lacing @ ..,
        ] = head.as_slice()
        else {
            return Err(cut());
        };
        if version != 0 {
            return Err(FormatError::unsupported(format!("version {version} of Ogg pages, at offset {at}")));
        }
        let lacing = lacing.get(..usize::from(count)).ok_or_else(cut)?;
        let body_start = at + (HEAD + lacing.len()) as u64;
        let body_len: usize = lacing.iter().map(|&n| usize::from(n)).sum();
        let body = read_up_to(src, body_start, body_len)?;
        if body.len() < body_len {
            return Err(cut());
        }
        // The checksum is of the page with its own place zeroed.
        let mut crc = head.get(..22).unwrap_or_default().iter().fold(0, crc_step);
        crc = [0; 4].iter().fold(crc, crc_step);
        crc = [count].iter().chain(lacing).chain(&body).fold(crc, crc_step);
        if crc != u32::from_le_bytes([c0, c1, c2, c3]) {
            return Err(FormatError::corrupt(format!("the Ogg page at offset {at} does not have its checksum: it is damaged")));
        }
        let granule = i64::from_le_bytes([g0, g1, g2, g3, g4, g5, g6, g7]);
        Ok(Some(Self {
            continued: flags & 1 != 0,
            first: flags & 2 != 0,
            last: flags & 4 != 0,
            granule: (granule != -1).then_some(granule),
            serial: u32::from_le_bytes([s0, s1, s2, s3]),
            sequence: u32::from_le_bytes([n0, n1, n2, n3]),
            len: (HEAD + lacing.len() + body_len) as u64,
            lacing: lacing.to_vec(),
            body,
        }))
    }

    /// What a page's head says, its body neither read nor checked; none where there is no page, or only a part of a head.
    pub(super) fn skim(src: &dyn ReadAt, at: u64) -> Result<Option<Skimmed>> {
        let head = read_up_to(src, at, HEAD + 255)?;
        let &[
            b'O',
            b'g',
            b'g',
            b'S',
            0,
            flags,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            s0,
            s1,
            s2,
            s3,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            count,
            ref rest @ ..,
        ] = head.as_slice()
        else {
            return Ok(None);
        };
        Ok(rest.get(..usize::from(count)).map(|lacing| Skimmed {
            first: flags & 2 != 0,
            last: flags & 4 != 0,
            serial: u32::from_le_bytes([s0, s1, s2, s3]),
            len: (HEAD + lacing.len()) as u64 + lacing.iter().map(|&n| u64::from(n)).sum::<u64>(),
        }))
    }

    /// The body's first bytes.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }
}

const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = (i as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000_0000 != 0 { crc << 1 ^ 0x04c1_1db7 } else { crc << 1 };
            bit += 1;
        }
        // The index is below the length by the loop's own bound; `const` code has no checked way to store.
        #[allow(clippy::indexing_slicing)]
        {
            table[i] = crc;
        }
        i += 1;
    }
    table
};

fn crc_step(crc: u32, byte: &u8) -> u32 {
    crc << 8 ^ CRC_TABLE.get((crc >> 24 ^ u32::from(*byte)) as usize).copied().unwrap_or(0)
}

/// The packets of one logical stream, in order.
pub(super) struct Packets {
    src: Arc<dyn ReadAt>,
    serial: u32,
    /// Where the next page is.
    at: u64,
    page: Option<Page>,
    /// Lacing values and body bytes of the page that are used.
    laced: usize,
    used: usize,
    /// The number that the next page must have; none at the start.
    sequence: Option<u32>,
}

/// One packet.
pub(super) struct Packet {
    pub bytes: Vec<u8>,
    /// The granule of its page, where it is the last packet that ends there.
    pub granule: Option<i64>,
    /// Whether it ends on the stream's last page.
    pub last_page: bool,
}

impl Packets {
    pub(super) fn new(src: Arc<dyn ReadAt>, serial: u32, at: u64) -> Self {
        Self { src, serial, at, page: None, laced: 0, used: 0, sequence: None }
    }

    /// The next packet; none after the stream's last page, or at the end of a file without one.
    pub(super) fn next(&mut self) -> Result<Option<Packet>> {
        let mut bytes = Vec::new();
        let mut begun = false;
        loop {
            let Some(page) = &self.page else {
                if !self.turn(begun)? {
                    return if begun {
                        Err(FormatError::corrupt("the Ogg stream ends in the middle of a packet: it was cut short"))
                    } else {
                        Ok(None)
                    };
                }
                continue;
            };
            let Some(&lace) = page.lacing.get(self.laced) else {
                if page.last {
                    return if begun {
                        Err(FormatError::corrupt("the Ogg stream ends in the middle of a packet"))
                    } else {
                        Ok(None)
                    };
                }
                self.page = None;
                continue;
            };
            let segment = page.body.get(self.used..self.used + usize::from(lace)).unwrap_or_default();
            if bytes.len() + segment.len() > MAX_PACKET {
                return Err(FormatError::limit(format!("an Ogg packet of more than {MAX_PACKET} bytes")));
            }
            bytes.extend_from_slice(segment);
            begun = true;
            self.laced += 1;
            self.used += usize::from(lace);
            if lace < 255 {
                // The granule is that of the last packet that ends on the page.
                let more = page.lacing.get(self.laced..).unwrap_or_default().iter().any(|&l| l < 255);
                return Ok(Some(Packet { bytes, granule: page.granule.filter(|_| !more), last_page: page.last }));
            }
        }
    }

    /// Takes the stream's next page; false at the end of the file.
    fn turn(&mut self, in_packet: bool) -> Result<bool> {
        loop {
            let Some(page) = Page::read(&*self.src, self.at)? else { return Ok(false) };
            let at = self.at;
            self.at += page.len;
            if page.serial != self.serial {
                continue;
            }
            if let Some(wanted) = self.sequence.filter(|&wanted| wanted != page.sequence) {
                return Err(FormatError::corrupt(format!(
                    "the Ogg page at offset {at} is number {} where {wanted} belongs: pages are missing",
                    page.sequence
                )));
            }
            if page.continued != in_packet || (page.first && self.sequence.is_some()) {
                return Err(FormatError::corrupt(format!(
                    "the Ogg page at offset {at} does not go on where the one before ended"
                )));
            }
            self.sequence = Some(page.sequence.wrapping_add(1));
            (self.laced, self.used, self.page) = (0, 0, Some(page));
            return Ok(true);
        }
    }
}
