//! Interleaved encoding of several texts, or of several chunks of a long one.

use std::array;

use super::longest::Longest;
use super::path::{Finder, Path};
use super::{Matches, NONE};
use crate::base::int::{TokenId, to_usize};

/// Texts, or chunks of one text, that are encoded at the same time.
const LANES: usize = 6;

/// Longest and shortest chunk of a long text, in bytes.
const PART: usize = if cfg!(test) { 64 } else { 4 << 10 };
const SHORTEST: usize = if cfg!(test) { 8 } else { 512 };

/// Most candidate tokens that a text may try beyond four per token. A text that needs more is encoded alone: it
/// may be a run, which [`Finder`] tries in another order, and the other texts need not wait.
const PATIENCE: u32 = if cfg!(test) { 16 } else { 1 << 8 };

/// Encodes several texts, or chunks of a long one, interleaved.
///
/// Searching for the longest token is a chain of dependent loads, and the CPU cannot predict where it ends. Here
/// the searches in several texts advance in lockstep, so that their loads overlap, and one branch misprediction
/// is shared by all.
///
/// **Memory:** 5 bytes for each byte of the texts that are encoded together.
#[derive(Debug, Default)]
pub(super) struct Abreast {
    /// The texts, followed by padding for the longest token.
    text: Vec<u8>,
    /// The tokens of each text, from the index of its first byte on.
    ids: Vec<TokenId>,
    runs: Vec<Run>,
}

/// The progress of a text, or of a chunk of one.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Index of the text.
    nth: usize,
    at: usize,
    /// The chunk is finished once it has reached this position.
    stop: usize,
    /// End of the text.
    end: usize,
    /// Index of its first token in `ids`, and of its next one.
    first: usize,
    next: usize,
    /// Row of its last token.
    row: u32,
    patience: u32,
}

/// The row with which all tokens are compatible: that of the start of a text.
const START: u32 = 0;

impl Run {
    fn new(nth: usize, start: usize, stop: usize, end: usize) -> Run {
        Run { nth, at: start, stop, end, first: start, next: start, row: START, patience: PATIENCE }
    }

    fn is_done(&self) -> bool {
        self.at >= self.stop
    }

    /// Whether it must be encoded alone.
    fn has_given_up(&self) -> bool {
        self.patience == 0
    }
}

impl Abreast {
    /// Encodes whole texts, none of them empty.
    pub(super) fn encode(&mut self, matches: &Matches, texts: &[&[u8]]) {
        if texts.is_empty() {
            return;
        }
        self.runs.clear();
        self.text.clear();
        for (nth, text) in texts.iter().enumerate() {
            let start = self.text.len();
            self.text.extend_from_slice(text);
            let end = self.text.len();
            self.runs.push(Run::new(nth, start, end, end));
        }
        self.go_through(matches);
    }

    /// The tokens of one of the texts; `None` if it must be encoded alone.
    pub(super) fn ids(&self, text: usize) -> Option<&[TokenId]> {
        let run = &self.runs[text];
        (!run.has_given_up()).then(|| &self.ids[run.first..run.next])
    }

    /// Extends a path to `end` or slightly past it, chunk by chunk as long as chunks are not too short.
    pub(super) fn go_on(&mut self, finder: &mut Finder<'_>, path: &mut Path, end: usize) {
        let mut alone = 1;
        loop {
            let length = (end.saturating_sub(path.at) / LANES).min(PART);
            if length < SHORTEST {
                return finder.go_on(path, end);
            }
            if self.parts(finder, path, length) {
                alone = 1;
            } else {
                // Hard text is mostly followed by more of it.
                finder.go_on(path, end.min(path.at + alone * length * LANES));
                alone *= 2;
            }
        }
    }

    /// Extends a path by [`LANES`] chunks of this length, each encoded as if the text began there and then
    /// stitched. Returns `false` without a change if one of them is too hard.
    pub(super) fn parts(&mut self, finder: &mut Finder<'_>, path: &mut Path, length: usize) -> bool {
        let (matches, start) = (finder.matches, path.at);
        // The last token within the chunks may need as many bytes after them as the longest token has, and one
        // more.
        let seen = start + length * LANES + matches.longest.most_bytes() + 1;
        let text = &finder.text[start..finder.text.len().min(seen)];
        self.text.clear();
        self.text.extend_from_slice(text);
        self.runs.clear();
        self.runs.extend((0..LANES).map(|nth| Run::new(nth, nth * length, (nth + 1) * length, text.len())));
        self.go_through(matches);
        if self.runs.iter().any(Run::has_given_up) {
            return false;
        }
        for run in &self.runs {
            let ids = &self.ids[run.first..run.next];
            let met = match path.last {
                NONE => Some(0),
                _ => finder.join(path, ids.iter().copied(), start + run.nth * length, start + run.at),
            };
            if let Some(met) = met {
                path.extend(&ids[met..], start + run.at);
            }
        }
        true
    }

    /// Encodes all texts, [`LANES`] at a time.
    fn go_through(&mut self, matches: &Matches) {
        self.text.resize(self.text.len() + matches.longest.most_bytes() + 2, 0);
        self.ids.resize(self.text.len().max(self.ids.len()), TokenId::default());
        let Abreast { text, ids, runs } = self;
        let mut waiting = 0..runs.len();
        let mut running: Vec<Run> = waiting.by_ref().take(LANES).map(|nth| runs[nth]).collect();
        while !running.is_empty() {
            match running.first_chunk_mut::<LANES>() {
                Some(lanes) => matches.advance(lanes, text, ids),
                None => running.iter_mut().for_each(|run| matches.advance(array::from_mut(run), text, ids)),
            }
            running.retain_mut(|run| {
                if !run.is_done() && !run.has_given_up() {
                    return true;
                }
                runs[run.nth] = *run;
                waiting.next().map(|next| *run = runs[next]).is_some()
            });
        }
    }
}

impl Longest {
    /// The longest token at each of these positions, as [`find`](Longest::find) gives it. The text must have as
    /// many bytes after each position as the longest token has.
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

impl Matches {
    /// Extends each text by one token.
    fn advance<const N: usize>(&self, runs: &mut [Run; N], text: &[u8], ids: &mut [TokenId]) {
        let found = self.longest.find_all(text, runs.each_ref().map(|run| run.at));
        found.iter().for_each(|found| self.fetch(found.0));
        for (run, (token, _)) in runs.iter().zip(found) {
            self.fitting.fetch(run.row, self.tokens[to_usize(token)].column);
        }
        for (run, (token, length)) in runs.iter_mut().zip(found) {
            let ends_before = length > 0 && run.at + to_usize(length) <= run.end;
            let token = if ends_before { token } else { self.longest.find(&text[run.at..run.end]).0 };
            self.go_on(run, token, text, ids);
        }
    }

    /// Appends one token, the longest that is compatible; backtracks first if none is.
    ///
    /// A sequence of compatible tokens is the encoding of its bytes, so each position is reached in one way only.
    /// A position from which it had to backtrack is never reached again, because candidates are tried from the
    /// longest on, each once.
    #[inline(always)]
    fn go_on(&self, run: &mut Run, longest: u32, text: &[u8], ids: &mut [TokenId]) {
        let mut candidate = longest;
        loop {
            while candidate != NONE {
                let token = &self.tokens[to_usize(candidate)];
                let end = run.at + to_usize(token.length);
                let leads_on = end == run.end || token.can_precede(self.classes[usize::from(text[end])]);
                if leads_on && self.fitting.fits(run.row, token.column) {
                    ids[run.next] = TokenId::new(candidate);
                    run.next += 1;
                    run.at = end;
                    run.row = token.row;
                    run.patience = (run.patience + 4).min(PATIENCE);
                    return;
                }
                candidate = token.shorter;
                run.patience -= 1;
                if run.has_given_up() {
                    return;
                }
            }
            // A token precedes: every text has an encoding, so some token leads on from its start.
            run.next -= 1;
            let last = &self.tokens[ids[run.next].index()];
            run.at -= to_usize(last.length);
            let before = ids[run.first..run.next].last();
            run.row = before.map_or(START, |before| self.tokens[before.index()].row);
            candidate = last.shorter;
        }
    }
}
