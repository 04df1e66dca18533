//! Memory in huge pages, and prefetching.
//!
//! Random access to hundreds of megabytes loses much time to page faults and address translation with pages of
//! 4 KiB. Linux gives pages of 2 MiB if it is asked before memory is first touched. On every system these
//! functions return the same as their plain counterparts; only the time differs.

#![expect(
    unsafe_code,
    reason = "advice to the kernel and to the processor takes pointers, and zeros are claimed to be numbers"
)]

use std::mem::MaybeUninit;
use std::sync::atomic::AtomicU64;

/// Bytes from which on huge pages are requested.
const LARGE: usize = 4 << 20;

/// An empty vector with capacity for `length` items, in huge pages if it is large.
pub(crate) fn with_capacity<T>(length: usize) -> Vec<T> {
    let mut vector = Vec::with_capacity(length);
    advise(&mut vector);
    vector
}

/// A vector of `length` copies of `value`, in huge pages if it is large.
pub(crate) fn filled<T: Clone>(value: T, length: usize) -> Vec<T> {
    let mut vector = with_capacity(length);
    vector.resize(length, value);
    vector
}

/// Like [`filled`], but the kernel provides all memory at once, which is faster than page by page.
pub(crate) fn populated<T: Clone>(value: T, length: usize) -> Vec<T> {
    let mut vector = with_capacity(length);
    populate(&mut vector, length);
    vector.resize(length, value);
    vector
}

/// `length` zeros that threads can share, in huge pages if the slice is large. Their memory is not touched yet.
pub(crate) fn atomics(length: usize) -> Box<[AtomicU64]> {
    let mut zeros = Box::new_zeroed_slice(length);
    if size_of_val(&*zeros) >= LARGE {
        advise_whole_pages(&mut zeros, Advice::Large);
    }
    // SAFETY: an atomic number may have all bits zero.
    unsafe { zeros.assume_init() }
}

/// Advice to the kernel about memory. Only Linux gets any.
#[derive(Clone, Copy)]
enum Advice {
    /// Use huge pages.
    Large,
    /// Provide all pages now, because all will be written.
    Populate,
}

/// Requests huge pages for the unused capacity of a vector, if it is large.
pub(crate) fn advise<T>(vector: &mut Vec<T>) {
    let spare = vector.spare_capacity_mut();
    if size_of_val(spare) >= LARGE {
        advise_whole_pages(spare, Advice::Large);
    }
}

/// Lets the kernel provide the memory for the next `items` items of a vector, if it has that capacity. All at
/// once takes less time than page by page on first access.
pub(crate) fn populate<T>(vector: &mut Vec<T>, items: usize) {
    if let Some(next) = vector.spare_capacity_mut().get_mut(..items) {
        advise_whole_pages(next, Advice::Populate);
    }
}

/// Gives the advice for the whole pages within unused capacity.
fn advise_whole_pages<T>(spare: &mut [MaybeUninit<T>], advice: Advice) {
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
        // SAFETY: the pages are within the caller's own capacity, and neither advice changes their contents or
        // whether they can be read and written. A refusal does no harm.
        let _ = unsafe { libc::madvise(start.add(skipped).cast(), length, advice) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (spare, advice);
}

/// Prefetches the item at index `at` into the processor's caches. The index may be out of bounds.
#[inline]
pub(crate) fn fetch<T>(items: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint. It reads no memory that the program sees, and does nothing at addresses
        // that are not mapped.
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
