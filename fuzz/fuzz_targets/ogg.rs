//! Any bytes as an Ogg file, its pages' checksums mended.
#![no_main]

#[path = "windows.rs"]
mod windows;

use libfuzzer_sys::fuzz_target;
use sigbank_format::array::Format;

/// Gives each page in a row the checksum of what it holds.
fn mend(file: &mut [u8]) {
    let mut at = 0;
    while let Some(head) = file.get(at..at + 27).filter(|head| head.starts_with(b"OggS")) {
        let count = usize::from(head[26]);
        let Some(lacing) = file.get(at + 27..at + 27 + count) else { return };
        let end = at + 27 + count + lacing.iter().map(|&n| usize::from(n)).sum::<usize>();
        let Some(page) = file.get_mut(at..end) else { return };
        page[22..26].fill(0);
        let crc = page.iter().fold(0u32, |crc, &byte| {
            (0..8).fold(crc ^ u32::from(byte) << 24, |crc, _| crc << 1 ^ if crc >> 31 == 1 { 0x04c1_1db7 } else { 0 })
        });
        page[22..26].copy_from_slice(&crc.to_le_bytes());
        at = end;
    }
}

fuzz_target!(|input: &[u8]| {
    let mut file = input.to_vec();
    mend(&mut file);
    windows::check_format(&file, Format::Ogg);
});
