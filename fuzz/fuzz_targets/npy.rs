//! Any bytes as an npy file; what is read must survive being written.
#![no_main]

#[path = "windows.rs"]
mod windows;

use libfuzzer_sys::fuzz_target;
use sigbank_format::array::{self, Format, npy};
use std::sync::Arc;

fuzz_target!(|input: &[u8]| {
    let Ok(mut reader) = array::open(Arc::new(bytes::Bytes::copy_from_slice(input)), Format::Npy) else { return };
    let Some(array) = windows::check_reader(&mut *reader) else { return };
    if reader.info().format == Format::Npy {
        let written = npy::to_bytes(&array).expect("was read");
        let again = array::open(Arc::new(bytes::Bytes::from(written)), Format::Npy).and_then(|mut r| r.read_all());
        assert!(again.expect("was written") == array);
    }
});
