//! Large buffers in large pages: filling fresh memory costs more in page faults than in copying, and 2 MiB pages have one
//! fault where small ones have 512.
#![allow(unsafe_code)]

use std::sync::Mutex;

/// What a large page is, and the size from which a buffer is worth it.
const LARGE_PAGE: usize = 2 << 20;
const WORTH: usize = 2 * LARGE_PAGE;

/// What is kept for the next loader when one ends: a process that reads epoch after epoch through loaders of their own would
/// else get each buffer's pages from the system anew.
const KEPT: usize = 128 << 20;
static RESERVE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// Bytes, zero or whatever an earlier user left in them, at least `len` and less than twice as many; none where there is no memory.
pub(crate) fn take(len: usize) -> Option<Vec<u8>> {
    if len >= WORTH {
        // Never waits: in a forked child the lock may have been held by a thread that is not there.
        if let Ok(mut kept) = RESERVE.try_lock()
            && let Some(at) = kept.iter().rposition(|m| (len..len.saturating_mul(2)).contains(&m.len()))
        {
            return Some(kept.remove(at));
        }
    }
    // Bytes, not a type of some alignment: only for those does the system hand out zeros without writing them.
    let memory = bytemuck::allocation::try_zeroed_vec::<u8>(len).ok()?;
    advise(memory.as_ptr() as usize, len);
    Some(memory)
}

/// Keeps memory that [`take`] gave, or frees it.
pub(crate) fn give_back(memory: Vec<u8>) {
    if memory.len() >= WORTH
        && let Ok(mut kept) = RESERVE.try_lock()
        && kept.iter().map(Vec::len).sum::<usize>() + memory.len() <= KEPT
    {
        kept.push(memory);
    }
}

/// An empty vector with room for `len` bytes.
pub(crate) fn with_capacity(len: usize) -> Vec<u8> {
    let memory = Vec::with_capacity(len);
    advise(memory.as_ptr() as usize, len);
    memory
}

/// Asks for large pages in an allocation. A refusal changes nothing but speed.
fn advise(start: usize, len: usize) {
    let first = start.next_multiple_of(LARGE_PAGE);
    let whole = (start + len).saturating_sub(first) / LARGE_PAGE * LARGE_PAGE;
    if len >= WORTH && whole > 0 {
        // SAFETY: the range lies inside an allocation of ours, and this advice never changes what memory holds.
        let _ = unsafe { rustix::mm::madvise(first as *mut std::ffi::c_void, whole, rustix::mm::Advice::LinuxHugepage) };
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn buffers_of_all_sizes() {
        for len in [0, 1, 4095, super::LARGE_PAGE, super::WORTH, super::WORTH + 12_345] {
            assert!(super::take(len).unwrap().len() >= len);
            let room = super::with_capacity(len);
            assert!(room.is_empty() && room.capacity() >= len);
        }
        assert!(super::take(usize::MAX / 2).is_none());
    }

    #[test]
    fn what_is_given_back_is_taken_again() {
        let odd = 3 * super::WORTH + 77;
        let memory = super::take(odd).unwrap();
        let at = memory.as_ptr();
        super::give_back(memory);
        let again = super::take(odd - 5).unwrap();
        assert_eq!((again.as_ptr(), again.len()), (at, odd));
    }
}
