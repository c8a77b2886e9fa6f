//! Any bytes as a MAT-file; what is read must survive being written.
#![no_main]

#[path = "windows.rs"]
mod windows;

use libfuzzer_sys::fuzz_target;
use sigbank_format::array::mat;
use std::sync::Arc;

fuzz_target!(|input: &[u8]| {
    let Ok(mut reader) = mat::open(Arc::new(bytes::Bytes::copy_from_slice(input)), "x") else { return };
    let Some(array) = windows::check_reader(&mut *reader) else { return };
    // Texts are not written, and have an axis less.
    if let Ok(written) = mat::to_bytes("x", &array) {
        assert!(array.shape().len() >= 2, "MATLAB has no vectors");
        assert!(mat::read(Arc::new(bytes::Bytes::from(written)), "x").expect("was written") == array);
    }
});
