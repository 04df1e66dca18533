use std::cmp::Ordering;
use std::path::Path;

use super::fault::Fault;
use super::runs::Runs;
use crate::error::Result;
use crate::observer::Observer;
use crate::units::Count;

/// Memory of one run's reader.
const MOST_READ: usize = 1 << 20;
const LEAST_READ: usize = 16 << 10;

/// So many runs are read at once, however little memory there is.
const LEAST_AT_ONCE: usize = if cfg!(test) { 3 } else { 16 };

/// The run may be stopped after so many pieces.
const PIECES_UNCHECKED: usize = 1 << 16;

/// What runs are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The pieces' bytes.
    Bytes,
    /// Where they first appear; then no piece is in two runs.
    First,
}

/// Pieces that are read one after the other.
pub(super) trait PieceReader {
    /// Reads the next piece; `false` if there is none.
    fn advance(&mut self) -> Result<bool>;

    /// The piece that has been read last.
    fn piece(&self) -> &[u8];

    /// How often it occurs.
    fn count(&self) -> Count;

    /// Where it first appeared.
    fn first(&self) -> u64;
}

/// Merges sorted runs, as [`merge`] does; first in groups, whose sums go to `scratch`, where they are more than can be read
/// at once.
///
/// **Memory:** `memory`, but at least 256 kB.
///
/// # Errors
/// Those of [`merge`]; a sum cannot be written.
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
                merge(group, order, observer, |piece, count, first| run.push(piece, count, first))
            })?;
        }
        drop(readers);
        runs = vec![sums];
    }
}

/// Merges what is sorted, and calls `take` with each piece, once, in order, with the sum of its counts and
/// its first place.
///
/// # Errors
/// Those of `take`; a piece cannot be read, a count passes 2⁶⁴, or the observer stops the run.
pub(super) fn merge<R: PieceReader>(
    readers: impl Iterator<Item = R>,
    order: Order,
    observer: &dyn Observer,
    mut take: impl FnMut(&[u8], Count, u64) -> Result<()>,
) -> Result<()> {
    let mut merge = Merge::begin(readers, order)?;
    let (mut piece, mut pieces) = (Vec::new(), 0_usize);
    while let Some(least) = merge.readers.first() {
        if pieces.is_multiple_of(PIECES_UNCHECKED) {
            observer.checkpoint()?;
        }
        pieces += 1;
        piece.clear();
        piece.extend_from_slice(least.piece());
        let (mut count, mut first) = (least.count(), least.first());
        merge.advance()?;
        while let Some(same) = merge.readers.first().filter(|same| same.piece() == piece) {
            let sum = count.checked_add(same.count());
            count = sum.ok_or_else(|| Fault::Overflow { piece: piece.clone() })?;
            first = first.min(same.first());
            merge.advance()?;
        }
        take(&piece, count, first)?;
    }
    Ok(())
}

/// Readers that have a piece, as a heap: each comes before those at twice its place and one and two more.
struct Merge<R> {
    readers: Vec<R>,
    order: Order,
}

impl<R: PieceReader> Merge<R> {
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

    /// Goes on to the next piece in order.
    fn advance(&mut self) -> Result<()> {
        if !self.readers[0].advance()? {
            self.readers.swap_remove(0);
        }
        self.sink(0);
        Ok(())
    }

    /// Moves a reader down until it comes before those below it.
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

    fn compare(&self, one: usize, other: usize) -> Ordering {
        let (one, other) = (&self.readers[one], &self.readers[other]);
        match self.order {
            Order::Bytes => one.piece().cmp(other.piece()),
            Order::First => one.first().cmp(&other.first()),
        }
    }
}
