//! Memory in large pages, and fetched ahead of its use.
//!
//! What is walked at random over hundreds of megabytes loses a good part of its time to page faults and
//! address translation with pages of 4 KiB. Linux gives pages of 2 MiB where it is asked to before memory
//! is first touched. Everywhere, these functions do what their plain counterparts do: only the time differs.

#![expect(
    unsafe_code,
    reason = "advice to the kernel and to the processor takes pointers, and zeros are claimed to be numbers"
)]

use std::mem::MaybeUninit;
use std::sync::atomic::AtomicU64;

/// From this size on, memory is asked for in large pages.
const LARGE: usize = 4 << 20;

/// An empty vector with room for `length` items, in large pages if that is much memory.
pub(crate) fn with_capacity<T>(length: usize) -> Vec<T> {
    let mut vector = Vec::with_capacity(length);
    advise(&mut vector);
    vector
}

/// `length` zeros, or whatever the default is, in large pages if that is much memory.
pub(crate) fn filled<T: Clone>(value: T, length: usize) -> Vec<T> {
    let mut vector = with_capacity(length);
    vector.resize(length, value);
    vector
}

/// `length` equal items, whose memory is asked for at once, in large pages if it is much.
pub(crate) fn populated<T: Clone>(value: T, length: usize) -> Vec<T> {
    let mut vector = with_capacity(length);
    populate(&mut vector, length);
    vector.resize(length, value);
    vector
}

/// `length` zeros that threads share, in large pages if that is much memory, which is not touched yet.
pub(crate) fn atomics(length: usize) -> Box<[AtomicU64]> {
    let mut zeros = Box::new_zeroed_slice(length);
    if size_of_val(&*zeros) >= LARGE {
        tell(&mut zeros, Advice::Large);
    }
    // SAFETY: all bits zero is an atomic number.
    unsafe { zeros.assume_init() }
}

/// What the kernel is told of memory. Other systems than Linux are told nothing.
#[derive(Clone, Copy)]
enum Advice {
    /// Large pages are wanted.
    Large,
    /// All of it will be written.
    Populate,
}

/// Asks for large pages where the vector has room that was not touched yet.
pub(crate) fn advise<T>(vector: &mut Vec<T>) {
    let spare = vector.spare_capacity_mut();
    if size_of_val(spare) >= LARGE {
        tell(spare, Advice::Large);
    }
}

/// Asks for the memory of the next items of a vector, if it has room for so many: all at once, which takes less
/// time than page by page as they are touched.
pub(crate) fn populate<T>(vector: &mut Vec<T>, items: usize) {
    if let Some(next) = vector.spare_capacity_mut().get_mut(..items) {
        tell(next, Advice::Populate);
    }
}

/// Gives advice about the whole pages of room that was not touched yet.
fn tell<T>(spare: &mut [MaybeUninit<T>], advice: Advice) {
    #[cfg(target_os = "linux")]
    {
        const PAGE: usize = 4096;
        let bytes = size_of_val(spare);
        let start = spare.as_mut_ptr().cast::<u8>();
        let skipped = start.align_offset(PAGE).min(bytes);
        let length = (bytes - skipped) / PAGE * PAGE;
        let advice = match advice {
            Advice::Large => libc::MADV_HUGEPAGE,
            Advice::Populate => libc::MADV_POPULATE_WRITE,
        };
        // SAFETY: the pages lie within the caller's own room, and neither advice changes what they hold
        // or whether they can be read and written. Refusal does no harm.
        let _ = unsafe { libc::madvise(start.add(skipped).cast(), length, advice) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (spare, advice);
}

/// Tells the processor that the item at this place will be needed soon. There need not be one.
#[inline]
pub(crate) fn fetch<T>(items: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, which reads nothing, and does nothing where there is no memory.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(items.as_ptr().wrapping_add(at).cast()) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::{LARGE, advise, atomics, fetch, filled, populate, populated, with_capacity};

    #[test]
    fn vectors_hold_what_plain_ones_hold() {
        let length = LARGE / 4 + 3;
        let mut vector: Vec<u64> = with_capacity(length);
        assert!(vector.is_empty() && vector.capacity() >= length);
        vector.extend(0..10);
        advise(&mut vector);
        populate(&mut vector, length / 2);
        populate(&mut vector, usize::MAX);
        assert!(vector.iter().copied().eq(0..10));
        assert_eq!(filled(7_u8, 2 * LARGE), vec![7; 2 * LARGE]);
        assert_eq!(populated(7_u8, 10_000), vec![7; 10_000]);
        assert!(atomics(length).iter().all(|zero| zero.load(Ordering::Relaxed) == 0));
        fetch(&vector, 9);
        fetch(&vector, 10);
    }
}
