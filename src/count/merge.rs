//! Merges sorted lists of counts, from runs on disk or from counts files.

use std::cmp::Ordering;
use std::path::Path;

use super::fault::Fault;
use super::runs::Runs;
use crate::base::int::Count;
use crate::error::Result;
use crate::observer::Observer;

/// Most bytes (1 MiB) of the buffer of one reader.
const MOST_READ: usize = 1 << 20;
/// Fewest bytes (16 KiB) of the buffer of one reader.
const LEAST_READ: usize = 16 << 10;

/// Sorted runs that are merged at a time however little memory is allowed.
const LEAST_AT_ONCE: usize = if cfg!(test) { 3 } else { 16 };

/// Distinct pre-tokens between two checks whether to stop.
const PIECES_UNCHECKED: usize = 1 << 16;

/// The order of sorted runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// By the bytes of the pre-tokens.
    Bytes,
    /// By the first positions. No pre-token may then be in two runs.
    First,
}

/// Reads pre-tokens one after another. The other methods are valid after [`advance`](PretokenReader::advance) has
/// returned `true`.
pub(super) trait PretokenReader {
    /// Reads the next pre-token. Returns `false` at the end.
    fn advance(&mut self) -> Result<bool>;

    /// Returns the current pre-token.
    fn pretoken(&self) -> &[u8];

    /// Returns the count of the current pre-token.
    fn count(&self) -> Count;

    /// Returns the position at which the current pre-token first appears.
    fn first(&self) -> u64;
}

/// Merges sorted runs like [`merge`]. If the runs are too many for the memory, it merges groups of them to files in
/// `scratch` first.
///
/// **Memory:** `memory`, but at least 256 kB.
///
/// # Errors
/// Those of [`merge`], or a merged group cannot be written.
pub(super) fn merge_runs(
    mut runs: Vec<Runs>,
    order: Order,
    (memory, scratch): (usize, &Path),
    observer: &dyn Observer,
    take: impl FnMut(&[u8], Count, u64) -> Result<()>,
) -> Result<()> {
    let at_once = (memory / LEAST_READ).max(LEAST_AT_ONCE);
    loop {
        let number: usize = runs.iter().map(Runs::len).sum();
        let each = (memory / number.clamp(1, at_once)).clamp(LEAST_READ, MOST_READ);
        let mut readers = runs.iter().flat_map(|runs| runs.readers(each)).peekable();
        if number <= at_once {
            return merge(readers, order, observer, take);
        }
        let mut sums = Runs::create(scratch)?;
        while readers.peek().is_some() {
            sums.write_with(|run| {
                let group = readers.by_ref().take(at_once);
                merge(group, order, observer, |pretoken, count, first| run.push(pretoken, count, first))
            })?;
        }
        drop(readers);
        runs = vec![sums];
    }
}

/// Merges sorted readers. Calls `take` once for each distinct pre-token, in order, with the sum of its counts and its
/// earliest first position.
///
/// # Errors
/// `take` fails, a pre-token cannot be read, a count exceeds 2⁶⁴ − 1, or the observer stops the run.
pub(super) fn merge<R: PretokenReader>(
    readers: impl Iterator<Item = R>,
    order: Order,
    observer: &dyn Observer,
    mut take: impl FnMut(&[u8], Count, u64) -> Result<()>,
) -> Result<()> {
    let mut merge = Merge::begin(readers, order)?;
    let (mut pretoken, mut pretokens) = (Vec::new(), 0_usize);
    while let Some(least) = merge.readers.first() {
        if pretokens.is_multiple_of(PIECES_UNCHECKED) {
            observer.checkpoint()?;
        }
        pretokens += 1;
        pretoken.clear();
        pretoken.extend_from_slice(least.pretoken());
        let (mut count, mut first) = (least.count(), least.first());
        merge.advance()?;
        while let Some(same) = merge.readers.first().filter(|same| same.pretoken() == pretoken) {
            let sum = count.checked_add(same.count());
            count = sum.ok_or_else(|| Fault::Overflow { pretoken: pretoken.clone() })?;
            first = first.min(same.first());
            merge.advance()?;
        }
        take(&pretoken, count, first)?;
    }
    Ok(())
}

/// The readers that are not at their end, as a binary heap with the smallest pre-token first. The children of index
/// `i` are at `2 * i + 1` and `2 * i + 2`.
struct Merge<R> {
    readers: Vec<R>,
    order: Order,
}

impl<R: PretokenReader> Merge<R> {
    /// Reads the first pre-token of each reader, and builds the heap.
    fn begin(readers: impl Iterator<Item = R>, order: Order) -> Result<Merge<R>> {
        let mut merge = Merge { readers: Vec::new(), order };
        for mut reader in readers {
            if reader.advance()? {
                merge.readers.push(reader);
            }
        }
        (0..merge.readers.len() / 2).rev().for_each(|place| merge.sink(place));
        Ok(merge)
    }

    /// Advances to the next pre-token in order.
    fn advance(&mut self) -> Result<()> {
        if !self.readers[0].advance()? {
            self.readers.swap_remove(0);
        }
        self.sink(0);
        Ok(())
    }

    /// Moves a reader down the heap until it is not greater than its children.
    fn sink(&mut self, mut place: usize) {
        loop {
            let below =
                [2 * place + 1, 2 * place + 2].into_iter().filter(|&below| below < self.readers.len());
            let Some(least) = below.min_by(|one, other| self.compare(*one, *other)) else { return };
            if self.compare(place, least) != Ordering::Greater {
                return;
            }
            self.readers.swap(place, least);
            place = least;
        }
    }

    /// Compares the current pre-tokens of two readers.
    fn compare(&self, one: usize, other: usize) -> Ordering {
        let (one, other) = (&self.readers[one], &self.readers[other]);
        match self.order {
            Order::Bytes => one.pretoken().cmp(other.pretoken()),
            Order::First => one.first().cmp(&other.first()),
        }
    }
}
