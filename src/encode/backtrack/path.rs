//! The encoding of a text from left to right, and backtracking where no token is compatible.

use rustc_hash::FxHashSet;

use super::{BacktrackTables, NONE};
use crate::base::int::TokenId;

/// Length in bytes from which a token may be part of a run of a shorter one. [`step`](Backtracker::step) handles it,
/// as it tries the shorter one first.
const LONG: usize = 16;

/// Positions from which no tokens lead on, each with the token that ends there.
#[derive(Debug, Default)]
pub(super) struct DeadEnds {
    places: FxHashSet<(usize, u32)>,
    /// No dead end is after this position.
    furthest: usize,
}

impl DeadEnds {
    /// Forgets all dead ends.
    #[inline]
    pub(super) fn clear(&mut self) {
        if self.furthest > 0 {
            self.places.clear();
            self.furthest = 0;
        }
    }

    /// Records a dead end.
    fn add(&mut self, place: usize, last: u32) {
        self.places.insert((place, last));
        self.furthest = self.furthest.max(place);
    }

    /// Whether `last`, ending at this position, is a known dead end.
    fn has(&self, place: usize, last: u32) -> bool {
        place <= self.furthest && self.places.contains(&(place, last))
    }
}

/// What encoding a text needs: tables, text, and known dead ends.
pub(super) struct Backtracker<'a> {
    /// The vocabulary's tables.
    pub(super) tables: &'a BacktrackTables,
    /// The text that positions of a path refer to. It may continue after the end that a path is extended to.
    pub(super) text: &'a [u8],
    /// Valid for this text only: a position is a dead end because of the text after it.
    pub(super) dead: &'a mut DeadEnds,
}

/// The encoding of a chunk of a text, as it grows.
#[derive(Debug)]
pub(crate) struct Path {
    /// The tokens, after those that were there before.
    pub(crate) ids: Vec<TokenId>,
    /// Ids before this index do not belong to the path.
    pub(super) base: usize,
    /// Position in the text at which the path ends.
    pub(super) at: usize,
    /// The last token; [`NONE`] at the start.
    pub(super) last: u32,
    /// The lowest number of ids that backtracking has gone back to, for stitching.
    pub(super) least: usize,
}

impl Path {
    /// A path that begins at `at`. Its tokens are appended to `ids`.
    pub(crate) fn new(ids: Vec<TokenId>, at: usize) -> Path {
        Path { base: ids.len(), least: ids.len(), ids, at, last: NONE }
    }

    /// Starts over at the beginning of a text.
    ///
    /// Removes the path's own ids only. The memory is kept.
    pub(super) fn restart(&mut self) {
        self.ids.truncate(self.base);
        (self.at, self.last) = (0, NONE);
    }

    /// Appends a token.
    #[inline]
    pub(super) fn push(&mut self, token: u32, length: usize) {
        self.ids.push(TokenId::new(token));
        self.last = token;
        self.at += length;
    }

    /// Appends tokens. The last one must end at `end`.
    pub(super) fn extend(&mut self, ids: &[TokenId], end: usize) {
        self.ids.extend_from_slice(ids);
        self.last = self.ids[self.base..].last().map_or(NONE, |id| id.get());
        self.at = end;
    }

    /// The last token, if the one before it is the same.
    fn repeated(&self) -> Option<u32> {
        match self.ids[self.base..] {
            [.., before, last] if before == last => Some(self.last),
            _ => None,
        }
    }

    /// Removes the last token, which has this length.
    fn pop(&mut self, length: usize) {
        self.ids.pop();
        self.least = self.least.min(self.ids.len());
        self.last = self.ids[self.base..].last().map_or(NONE, |id| id.get());
        self.at -= length;
    }
}

impl<'a> Backtracker<'a> {
    /// Forgets the dead ends of other texts.
    #[inline]
    pub(super) fn new(
        tables: &'a BacktrackTables,
        text: &'a [u8],
        dead: &'a mut DeadEnds,
    ) -> Backtracker<'a> {
        dead.clear();
        Backtracker { tables, text, dead }
    }

    /// Extends a path to `end` or past it.
    ///
    /// A position from which it had to backtrack is never reached by the same token again. So all steps together
    /// try at most as many candidates as there are tokens that begin at each position of the text.
    pub(super) fn extend_to(&mut self, path: &mut Path, end: usize) {
        while path.at < end {
            let (longest, length) = self.tables.longest(&self.text[path.at..]);
            if !self.try_longest(path, longest, length) {
                self.step(path, longest);
            }
        }
    }

    /// Appends the longest token if a quick test shows that it is compatible and that others can follow. Returns
    /// whether it did.
    #[inline(always)]
    pub(super) fn try_longest(&self, path: &mut Path, longest: u32, length: usize) -> bool {
        let can_continue =
            self.text.get(path.at + length).is_none_or(|&next| self.tables.can_follow(longest, next));
        let is_compatible = path.last == NONE || self.tables.are_compatible(path.last, longest);
        let plain = can_continue & is_compatible & (length < LONG) & (path.at >= self.dead.furthest);
        if plain {
            path.push(longest, length);
        }
        plain
    }

    /// Appends one token, and backtracks first if none is compatible.
    ///
    /// In a run of one token, that token is tried before longer ones. Every order of trying gives the same
    /// result, since a text has only one encoding. But at each position of a long run of spaces, all longer
    /// tokens would be tried in vain.
    pub(super) fn step(&mut self, path: &mut Path, longest: u32) {
        let mut candidate = longest;
        loop {
            if let Some(again) = self.run(path).filter(|&again| self.can_continue(path, again)) {
                return path.push(again, self.tables.length(again));
            }
            while candidate != NONE && !self.can_continue(path, candidate) {
                candidate = self.tables.shorter(candidate);
            }
            if candidate != NONE {
                return path.push(candidate, self.tables.length(candidate));
            }
            // The path is not at its start here: every text has an encoding. At the start of a path that does not
            // begin with the text, however, a longer token may have been skipped because it is incompatible with
            // the token before, which is not part of this path. So try the longest token there again.
            let last = path.last;
            self.dead.add(path.at, last);
            path.pop(self.tables.length(last));
            candidate = match path.last == NONE || self.may_be_run(path.at, last) {
                true => self.tables.longest(&self.text[path.at..]).0,
                false => self.tables.shorter(last),
            };
        }
    }

    /// The token that the path ends with twice, if its bytes occur again at the end of the path.
    fn run(&self, path: &Path) -> Option<u32> {
        let token = path.repeated()?;
        let (before, after) = self.text.split_at(path.at);
        let bytes = &before[before.len() - self.tables.length(token)..];
        after.starts_with(bytes).then_some(token)
    }

    /// Whether `token` at position `at` may have been tried before longer tokens, because it repeats. That is
    /// possible if its bytes occur twice directly before `at`. The path itself does not show it: its end may come
    /// from a stitched path that began later and had other tokens before this one.
    fn may_be_run(&self, at: usize, token: u32) -> bool {
        let length = self.tables.length(token);
        let start = at.checked_sub(2 * length);
        start.is_some_and(|start| self.text[start..at] == self.text[start + length..at + length])
    }

    /// Whether a token is compatible, can be followed by the next byte, and does not end in a known dead end.
    fn can_continue(&self, path: &Path, token: u32) -> bool {
        let end = path.at + self.tables.length(token);
        let is_compatible = || path.last == NONE || self.tables.are_compatible(path.last, token);
        self.text.get(end).is_none_or(|&byte| self.tables.can_follow(token, byte))
            && is_compatible()
            && !self.dead.has(end, token)
    }
}
