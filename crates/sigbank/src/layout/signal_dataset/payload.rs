//! The memory of payloads. Pages that the system hands out anew cost a fifth of what decoding a large record does, so that memory
//! which was let go of serves the next record.

use bytes::Bytes;
use std::sync::Mutex;

/// Smaller ones are cheap to allocate; larger ones are rare, and too much to hold.
const KEPT_SIZES: std::ops::RangeInclusive<usize> = (32 << 10)..=(4 << 20);
/// Bytes that are held at most.
const KEPT: usize = 32 << 20;

#[derive(Debug)]
struct Reserve {
    free: Vec<Vec<u8>>,
    bytes: usize,
}

static RESERVE: Mutex<Reserve> = Mutex::new(Reserve { free: Vec::new(), bytes: 0 });

/// An empty buffer to decode into, with the room of an earlier one where there is one.
pub(super) fn buffer() -> Vec<u8> {
    // Never waits: in a forked child the lock may have been held by a thread that is not there.
    let Ok(mut reserve) = RESERVE.try_lock() else { return Vec::new() };
    let free = reserve.free.pop().unwrap_or_default();
    reserve.bytes = reserve.bytes.saturating_sub(free.capacity());
    free
}

/// A decoded payload, whose memory is kept when the last who holds it lets go.
pub(super) fn shared(payload: Vec<u8>) -> Bytes {
    if !KEPT_SIZES.contains(&payload.capacity()) {
        return payload.into();
    }
    let kept = Kept(payload);
    match kept.0.len() < kept.0.capacity() / 2 {
        true => Bytes::copy_from_slice(&kept.0),
        false => Bytes::from_owner(kept),
    }
}

#[derive(Debug)]
struct Kept(Vec<u8>);

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let size = self.0.capacity();
        if let Ok(mut reserve) = RESERVE.try_lock()
            && reserve.bytes + size <= KEPT
        {
            let mut free = std::mem::take(&mut self.0);
            free.clear();
            reserve.free.push(free);
            reserve.bytes += size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_out_stays_as_it_was() {
        let payload = |byte: u8, len: usize| {
            let mut bytes = buffer();
            bytes.resize(len, byte);
            shared(bytes)
        };
        let (large, small) = (payload(1, 100_000), payload(2, 10));
        let part = large.slice(99_000..);
        drop(large);
        let others: Vec<_> = (3..40).map(|byte| payload(byte, 100_000)).collect();
        assert!(part.iter().all(|&byte| byte == 1) && small[..] == [2; 10]);
        assert!(others.iter().zip(3..).all(|(bytes, byte)| bytes.len() == 100_000 && bytes.iter().all(|&b| b == byte)));
        drop(others);
        assert!(RESERVE.lock().unwrap().bytes <= KEPT);
        // What is far larger than its content is not held for it.
        let mut roomy = Vec::with_capacity(1 << 20);
        roomy.push(7);
        assert_eq!(shared(roomy)[..], [7]);
    }
}
