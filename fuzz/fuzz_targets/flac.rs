//! Any bytes as a FLAC file.
#![no_main]

#[path = "windows.rs"]
mod windows;

use libfuzzer_sys::fuzz_target;
use sigbank_format::array::Format;

fuzz_target!(|input: &[u8]| windows::check_format(input, Format::Flac));
