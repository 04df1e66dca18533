use rustc_hash::FxHashSet;

use super::{Matches, NONE};
use crate::units::TokenId;

/// A token of so many bytes may stand in a run of a shorter one, which [`step`](Finder::step) tries first.
const LONG: usize = 16;

/// Places from which no tokens lead on, each with the token that ends there.
#[derive(Debug, Default)]
pub(super) struct DeadEnds {
    places: FxHashSet<(usize, u32)>,
    /// None of them is past this one.
    furthest: usize,
}

impl DeadEnds {
    #[inline]
    pub(super) fn clear(&mut self) {
        if self.furthest > 0 {
            self.places.clear();
            self.furthest = 0;
        }
    }

    fn add(&mut self, place: usize, last: u32) {
        self.places.insert((place, last));
        self.furthest = self.furthest.max(place);
    }

    fn has(&self, place: usize, last: u32) -> bool {
        place <= self.furthest && self.places.contains(&(place, last))
    }
}

/// What encoding a text needs, and what it remembers.
pub(super) struct Finder<'a> {
    pub(super) matches: &'a Matches,
    pub(super) text: &'a [u8],
    /// Only of this text: a place is dead because of what follows.
    pub(super) dead: &'a mut DeadEnds,
}

/// The encoding of a part of a text.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) ids: Vec<TokenId>,
    /// Ids before this one are none of the path's.
    pub(super) base: usize,
    /// Where the part ends.
    pub(super) at: usize,
    /// The last token, [`NONE`] at the start.
    pub(super) last: u32,
    /// The fewest ids that it has been gone back to, where it is to be joined.
    pub(super) least: usize,
}

impl Path {
    /// A path that begins here; its tokens come after those that are there.
    pub(crate) fn new(ids: Vec<TokenId>, at: usize) -> Path {
        Path { base: ids.len(), least: ids.len(), ids, at, last: NONE }
    }

    /// Begins anew, at the start of a text.
    pub(super) fn restart(&mut self) {
        self.ids.truncate(self.base);
        (self.at, self.last) = (0, NONE);
    }

    #[inline]
    pub(super) fn push(&mut self, token: u32, length: usize) {
        self.ids.push(TokenId::new(token));
        self.last = token;
        self.at += length;
    }

    /// Goes on by some tokens, the last of which ends here.
    pub(super) fn extend(&mut self, ids: &[TokenId], end: usize) {
        self.ids.extend_from_slice(ids);
        self.last = self.ids[self.base..].last().map_or(NONE, |id| id.get());
        self.at = end;
    }

    /// The last token if it stands twice in a row.
    fn repeated(&self) -> Option<u32> {
        match self.ids[self.base..] {
            [.., before, last] if before == last => Some(self.last),
            _ => None,
        }
    }

    fn pop(&mut self, length: usize) {
        self.ids.pop();
        self.least = self.least.min(self.ids.len());
        self.last = self.ids[self.base..].last().map_or(NONE, |id| id.get());
        self.at -= length;
    }
}

impl Finder<'_> {
    /// Goes on to `end` or past it.
    ///
    /// A place from which it had to go back is not come by again, so that all steps together look at no
    /// more candidates than there are tokens that begin at each place of the text.
    pub(super) fn go_on(&mut self, path: &mut Path, end: usize) {
        while path.at < end {
            let (longest, length) = self.matches.longest(&self.text[path.at..]);
            if !self.plain_step(path, longest, length) {
                self.step(path, longest);
            }
        }
    }

    /// Goes on by the longest token if it is plain to see that it fits, and that others may follow.
    #[inline(always)]
    pub(super) fn plain_step(&self, path: &mut Path, longest: u32, length: usize) -> bool {
        let leads_on =
            self.text.get(path.at + length).is_none_or(|&next| self.matches.can_follow(longest, next));
        let fits = path.last == NONE || self.matches.fit(path.last, longest);
        let plain = leads_on & fits & (length < LONG) & (path.at >= self.dead.furthest);
        if plain {
            path.push(longest, length);
        }
        plain
    }

    /// Goes on by one token; where none fits, back first.
    ///
    /// In a run of one token that one is tried before longer ones. Any order of trying finds the same, as there
    /// is one encoding, but longer tokens at each place of a long run of spaces would all be tried in vain.
    pub(super) fn step(&mut self, path: &mut Path, longest: u32) {
        let mut candidate = longest;
        loop {
            if let Some(again) = self.run(path).filter(|&again| self.leads_on(path, again)) {
                return path.push(again, self.matches.length(again));
            }
            while candidate != NONE && !self.leads_on(path, candidate) {
                candidate = self.matches.shorter(candidate);
            }
            if candidate != NONE {
                return path.push(candidate, self.matches.length(candidate));
            }
            // The start is none: every text has an encoding. If it is none of the text but only of what there is of a
            // path, longer ones that did not fit what is missing before may fit nothing as well as this one did.
            let last = path.last;
            self.dead.add(path.at, last);
            path.pop(self.matches.length(last));
            candidate = match path.last == NONE || self.may_be_run(path.at, last) {
                true => self.matches.longest(&self.text[path.at..]).0,
                false => self.matches.shorter(last),
            };
        }
    }

    /// The token that stands twice before this place, if its bytes come again.
    fn run(&self, path: &Path) -> Option<u32> {
        let token = path.repeated()?;
        let (before, after) = self.text.split_at(path.at);
        let bytes = &before[before.len() - self.matches.length(token)..];
        after.starts_with(bytes).then_some(token)
    }

    /// Whether a token that begins here may have been tried before longer ones, as one of a run: whether its
    /// bytes stand here twice before. What the path holds does not tell. Its end may come from a path that
    /// began later and had other tokens before this one.
    fn may_be_run(&self, at: usize, token: u32) -> bool {
        let length = self.matches.length(token);
        let start = at.checked_sub(2 * length);
        start.is_some_and(|start| self.text[start..at] == self.text[start + length..at + length])
    }

    /// Whether a token fits, and nothing is known that it ends in a dead end.
    fn leads_on(&self, path: &Path, token: u32) -> bool {
        let end = path.at + self.matches.length(token);
        let fits = || path.last == NONE || self.matches.fit(path.last, token);
        self.text.get(end).is_none_or(|&byte| self.matches.can_follow(token, byte))
            && fits()
            && !self.dead.has(end, token)
    }

    /// Goes on until one of the tokens of a part, which stands from `start` to `end`, ends where it ends itself, and gives the
    /// number of the part's tokens up to there; or else goes on to where the part ends.
    pub(super) fn join(
        &mut self,
        path: &mut Path,
        mut ids: impl Iterator<Item = TokenId>,
        start: usize,
        end: usize,
    ) -> Option<usize> {
        let (mut passed, mut at, mut last) = (0, start, NONE);
        while path.at < end {
            while at < path.at {
                last = ids.next().map_or(NONE, TokenId::get);
                at += self.matches.length(last);
                passed += 1;
            }
            if at == path.at && passed > 0 && last == path.last {
                return Some(passed);
            }
            self.go_on(path, path.at + 1);
        }
        None
    }
}
