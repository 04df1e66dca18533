//! Encodes several texts at a time, so that waiting for memory overlaps: new pre-tokens
//! [in a batch](BatchedBacktrack), with prefetching, and texts or chunks of a long one
//! [interleaved](Interleaved), in lockstep.

use std::array;

use super::path::{Backtracker, DeadEnds, Path};
use super::stitch::meet;
use super::trie::{LongestPrefixTrie, TrieWalk};
use super::{BacktrackTables, NONE};
use crate::base::int::{TokenId, to_usize};

/// Encodes pre-tokens in a batch.
///
/// New pre-tokens are rare, so the parts of the tables that they need are usually not in the CPU caches. One by
/// one, each would wait for memory several times. In a batch, all of them advance by one token in turn, and what
/// each step reads is prefetched while the others take theirs.
///
/// **Memory:** about 200 bytes per pre-token, 2 for each of its bytes, and its tokens.
#[derive(Debug, Default)]
pub(crate) struct BatchedBacktrack {
    /// The pre-tokens, each followed by one padding byte.
    text: Vec<u8>,
    /// One entry per pre-token. Entries of larger batches stay, so that their memory is reused.
    progress: Vec<Progress>,
    /// Indices of the pre-tokens that are not finished.
    open: Vec<usize>,
    /// Indices of those that are still looking for their longest token.
    walking: Vec<usize>,
    /// Indices of those for which the longest token is not simply taken.
    hard: Vec<usize>,
}

/// The progress of one pre-token.
#[derive(Debug)]
struct Progress {
    /// Start of the pre-token in `text`.
    start: usize,
    /// The tokens so far. Positions are relative to the pre-token's start.
    path: Path,
    /// Dead ends of this pre-token.
    dead: DeadEnds,
    /// The search for the longest token at the current position.
    walk: TrieWalk,
}

impl BatchedBacktrack {
    /// Encodes pre-tokens, none of them empty.
    pub(crate) fn encode(&mut self, tables: &BacktrackTables, pretokens: &[&[u8]]) {
        self.begin(pretokens);
        while !self.open.is_empty() {
            self.walk(tables, pretokens);
            self.take_tokens(tables, pretokens);
        }
    }

    /// The tokens of one of the pre-tokens.
    pub(crate) fn ids(&self, pretoken: usize) -> &[TokenId] {
        &self.progress[pretoken].path.ids
    }

    /// Copies the pre-tokens and resets their progress.
    fn begin(&mut self, pretokens: &[&[u8]]) {
        self.text.clear();
        self.progress.resize_with(self.progress.len().max(pretokens.len()), Progress::new);
        for (pretoken, progress) in pretokens.iter().zip(&mut self.progress) {
            progress.begin(self.text.len());
            self.text.extend_from_slice(pretoken);
            self.text.push(0);
        }
        self.open.extend(0..pretokens.len());
    }

    /// Finds the longest token at the current position of each open pre-token, and prefetches what the next step
    /// reads.
    fn walk(&mut self, tables: &BacktrackTables, pretokens: &[&[u8]]) {
        let (text, progress) = (&self.text[..], &mut self.progress[..]);
        for &pretoken in &self.open {
            tables.longest.fetch(text, progress[pretoken].at());
        }
        for &pretoken in &self.open {
            let progress = &mut progress[pretoken];
            let end = progress.start + pretokens[pretoken].len();
            progress.walk = tables.longest.walk(text, progress.at(), end);
        }
        self.walking.clone_from(&self.open);
        let mut walking = &mut self.walking[..];
        while !walking.is_empty() {
            let mut kept = 0;
            for place in 0..walking.len() {
                let pretoken = walking[place];
                walking[kept] = pretoken;
                kept += usize::from(tables.longest.step(&mut progress[pretoken].walk, text));
            }
            walking = &mut walking[..kept];
        }
        for &pretoken in &self.open {
            tables.fetch(progress[pretoken].walk.found().0);
        }
        for fetch in [BacktrackTables::fetch_compatibility, BacktrackTables::fetch_compatibility_word] {
            for &pretoken in &self.open {
                let Progress { path, walk, .. } = &progress[pretoken];
                if path.last != NONE {
                    fetch(tables, path.last, walk.found().0);
                }
            }
        }
    }

    /// Takes the token that was found for each open pre-token, or another one that is compatible.
    fn take_tokens(&mut self, tables: &BacktrackTables, pretokens: &[&[u8]]) {
        let BatchedBacktrack { progress, open, hard, .. } = self;
        let progress = &mut progress[..];
        let mut kept = 0;
        for place in 0..open.len() {
            let pretoken = open[place];
            let Progress { path, dead, walk, .. } = &mut progress[pretoken];
            let (longest, length) = tables.sized(walk.found());
            let backtracker = Backtracker { tables, text: pretokens[pretoken], dead };
            if backtracker.try_longest(path, longest, length) {
                open[kept] = pretoken;
                kept += usize::from(path.at < pretokens[pretoken].len());
                continue;
            }
            hard.push(pretoken);
            let shorter = tables.shorter(longest);
            tables.fetch(shorter);
            if path.last != NONE && shorter != NONE {
                tables.fetch_compatibility(path.last, shorter);
            }
        }
        open.truncate(kept);
        for pretoken in hard.drain(..) {
            let Progress { path, dead, walk, .. } = &mut progress[pretoken];
            Backtracker { tables, text: pretokens[pretoken], dead }.step(path, walk.found().0);
            open.extend((path.at < pretokens[pretoken].len()).then_some(pretoken));
        }
    }
}

impl Progress {
    /// Progress without a pre-token; [`begin`](Progress::begin) gives it one.
    fn new() -> Progress {
        let (dead, walk) = Default::default();
        Progress { start: 0, path: Path::new(Vec::new(), 0), dead, walk }
    }

    /// Starts over with another pre-token.
    fn begin(&mut self, start: usize) {
        self.start = start;
        self.path.restart();
        self.dead.clear();
    }

    /// Current position in the batch's text.
    fn at(&self) -> usize {
        self.start + self.path.at
    }
}

/// Texts, or chunks of one text, that are encoded at the same time.
const LANES: usize = 6;

/// Longest chunk of a long text, in bytes.
const LONGEST_CHUNK: usize = if cfg!(test) { 64 } else { 4 << 10 };
/// Shortest chunk of a long text, in bytes.
const SHORTEST_CHUNK: usize = if cfg!(test) { 8 } else { 512 };

/// Maximum number of candidate tokens that a text may try beyond four per token. A text that needs more is encoded
/// alone: it may be a run, which [`Backtracker`] tries in another order, and the other texts need not wait.
const BUDGET: u32 = if cfg!(test) { 16 } else { 1 << 8 };

/// Encodes several texts, or chunks of a long one, interleaved.
///
/// Searching for the longest token is a chain of dependent loads, and the CPU cannot predict where it ends. Here
/// the searches in several texts advance in lockstep, so that their loads overlap, and one branch misprediction
/// is shared by all.
///
/// **Memory:** 5 bytes for each byte of the texts that are encoded together.
#[derive(Debug, Default)]
pub(super) struct Interleaved {
    /// The texts, followed by padding for the longest token.
    text: Vec<u8>,
    /// The tokens of each text, from the index of its first byte on.
    ids: Vec<TokenId>,
    /// The progress of each text or chunk, by index.
    lanes: Vec<Lane>,
}

/// The progress of a text, or of a chunk of one.
#[derive(Clone, Copy, Debug)]
struct Lane {
    /// Index of the text.
    nth: usize,
    /// Position in `text` at which its tokens so far end.
    at: usize,
    /// The chunk is finished once it has reached this position.
    stop: usize,
    /// End of the text.
    end: usize,
    /// Index of its first token in `ids`.
    first: usize,
    /// Index of its next token in `ids`.
    next: usize,
    /// Row of its last token.
    row: u32,
    /// Candidates that it may still try. Each token adds four, up to [`BUDGET`].
    budget: u32,
}

/// The row with which all tokens are compatible: that of the start of a text.
const START: u32 = 0;

impl Lane {
    /// A lane without tokens at `start`. Its tokens go to `ids` from that index on: a text has no more tokens than
    /// bytes.
    fn new(nth: usize, start: usize, stop: usize, end: usize) -> Lane {
        Lane { nth, at: start, stop, end, first: start, next: start, row: START, budget: BUDGET }
    }

    /// Whether it has reached its `stop`. Its last token may end after it.
    fn is_done(&self) -> bool {
        self.at >= self.stop
    }

    /// Whether it must be encoded alone.
    fn is_exhausted(&self) -> bool {
        self.budget == 0
    }
}

impl Interleaved {
    /// Encodes whole texts, none of them empty.
    pub(super) fn encode(&mut self, tables: &BacktrackTables, texts: &[&[u8]]) {
        if texts.is_empty() {
            return;
        }
        self.lanes.clear();
        self.text.clear();
        for (nth, text) in texts.iter().enumerate() {
            let start = self.text.len();
            self.text.extend_from_slice(text);
            let end = self.text.len();
            self.lanes.push(Lane::new(nth, start, end, end));
        }
        self.advance_all(tables);
    }

    /// The tokens of one of the texts; `None` if it must be encoded alone.
    pub(super) fn ids(&self, text: usize) -> Option<&[TokenId]> {
        let lane = &self.lanes[text];
        (!lane.is_exhausted()).then(|| &self.ids[lane.first..lane.next])
    }

    /// Extends a path to `end` or slightly past it, chunk by chunk as long as chunks are not too short.
    pub(super) fn extend_to(&mut self, backtracker: &mut Backtracker<'_>, path: &mut Path, end: usize) {
        let mut alone = 1;
        loop {
            let length = (end.saturating_sub(path.at) / LANES).min(LONGEST_CHUNK);
            if length < SHORTEST_CHUNK {
                return backtracker.extend_to(path, end);
            }
            if self.extend_by_chunks(backtracker, path, length) {
                alone = 1;
            } else {
                // Hard text is mostly followed by more of it.
                backtracker.extend_to(path, end.min(path.at + alone * length * LANES));
                alone *= 2;
            }
        }
    }

    /// Extends a path by [`LANES`] chunks of this length, each encoded as if the text began there and then
    /// stitched. Returns `false` without a change if one of them is too hard.
    pub(super) fn extend_by_chunks(
        &mut self,
        backtracker: &mut Backtracker<'_>,
        path: &mut Path,
        length: usize,
    ) -> bool {
        let (tables, start) = (backtracker.tables, path.at);
        // The last token within the chunks may need as many bytes after them as the longest token has, and one
        // more.
        let seen = start + length * LANES + tables.longest.max_token_bytes() + 1;
        let text = &backtracker.text[start..backtracker.text.len().min(seen)];
        self.text.clear();
        self.text.extend_from_slice(text);
        self.lanes.clear();
        self.lanes.extend((0..LANES).map(|nth| Lane::new(nth, nth * length, (nth + 1) * length, text.len())));
        self.advance_all(tables);
        if self.lanes.iter().any(Lane::is_exhausted) {
            return false;
        }
        for lane in &self.lanes {
            let ids = &self.ids[lane.first..lane.next];
            let met = match path.last {
                NONE => Some(0),
                _ => meet(backtracker, path, ids.iter().copied(), start + lane.nth * length, start + lane.at),
            };
            if let Some(met) = met {
                path.extend(&ids[met..], start + lane.at);
            }
        }
        true
    }

    /// Encodes all texts, [`LANES`] at a time.
    fn advance_all(&mut self, tables: &BacktrackTables) {
        self.text.resize(self.text.len() + tables.longest.max_token_bytes() + 2, 0);
        self.ids.resize(self.text.len().max(self.ids.len()), TokenId::default());
        let Interleaved { text, ids, lanes } = self;
        let mut waiting = 0..lanes.len();
        let mut running: Vec<Lane> = waiting.by_ref().take(LANES).map(|nth| lanes[nth]).collect();
        while !running.is_empty() {
            match running.first_chunk_mut::<LANES>() {
                Some(lanes) => tables.advance(lanes, text, ids),
                None => running.iter_mut().for_each(|lane| tables.advance(array::from_mut(lane), text, ids)),
            }
            running.retain_mut(|lane| {
                if !lane.is_done() && !lane.is_exhausted() {
                    return true;
                }
                lanes[lane.nth] = *lane;
                waiting.next().map(|next| *lane = lanes[next]).is_some()
            });
        }
    }
}

impl LongestPrefixTrie {
    /// The longest token at each of these positions, as [`find`](LongestPrefixTrie::find) gives it. The text must have
    /// as many bytes after each position as the longest token has.
    #[inline(never)]
    fn find_all<const N: usize>(&self, text: &[u8], at: [usize; N]) -> [(u32, u32); N] {
        let mut nodes = at.map(|at| self.second(text[at], text[at + 1]));
        for step in 2.. {
            let mut some = 0;
            for (node, at) in nodes.iter_mut().zip(at) {
                let byte = text[at + step];
                let child = self.child(*node, byte);
                *node = node.or(child, child.is_by(byte));
                some |= node.children();
            }
            if some == 0 {
                break;
            }
        }
        nodes.map(|node| node.found())
    }
}

impl BacktrackTables {
    /// Extends each text by one token.
    fn advance<const N: usize>(&self, lanes: &mut [Lane; N], text: &[u8], ids: &mut [TokenId]) {
        let found = self.longest.find_all(text, lanes.each_ref().map(|lane| lane.at));
        found.iter().for_each(|found| self.fetch(found.0));
        for (lane, (token, _)) in lanes.iter().zip(found) {
            self.compatibility.fetch(lane.row, self.tokens[to_usize(token)].column);
        }
        for (lane, (token, length)) in lanes.iter_mut().zip(found) {
            let ends_before = length > 0 && lane.at + to_usize(length) <= lane.end;
            let token = if ends_before { token } else { self.longest.find(&text[lane.at..lane.end]).0 };
            self.append_token(lane, token, text, ids);
        }
    }

    /// Appends one token, the longest that is compatible; backtracks first if none is.
    ///
    /// A sequence of compatible tokens is the encoding of its bytes, so each position is reached in one way only.
    /// A position from which it had to backtrack is never reached again, because candidates are tried from the
    /// longest on, each once.
    #[inline(always)]
    fn append_token(&self, lane: &mut Lane, longest: u32, text: &[u8], ids: &mut [TokenId]) {
        let mut candidate = longest;
        loop {
            while candidate != NONE {
                let token = &self.tokens[to_usize(candidate)];
                let end = lane.at + to_usize(token.length);
                let can_continue = end == lane.end || token.can_precede(self.classes[usize::from(text[end])]);
                if can_continue && self.compatibility.is_compatible(lane.row, token.column) {
                    ids[lane.next] = TokenId::new(candidate);
                    lane.next += 1;
                    lane.at = end;
                    lane.row = token.row;
                    lane.budget = (lane.budget + 4).min(BUDGET);
                    return;
                }
                candidate = token.shorter;
                lane.budget -= 1;
                if lane.is_exhausted() {
                    return;
                }
            }
            // A token precedes: every text has an encoding, so some token leads on from its start.
            lane.next -= 1;
            let last = &self.tokens[ids[lane.next].index()];
            lane.at -= to_usize(last.length);
            let before = ids[lane.first..lane.next].last();
            lane.row = before.map_or(START, |before| self.tokens[before.index()].row);
            candidate = last.shorter;
        }
    }
}
