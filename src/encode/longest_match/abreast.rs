use std::array;

use super::longest::Longest;
use super::path::{Finder, Path};
use super::{Matches, NONE};
use crate::units::{TokenId, place};

/// So many texts, or parts of one, are gone through at once.
const LANES: usize = 6;

/// A part of a long text has at most so many bytes, and at least that many.
const PART: usize = if cfg!(test) { 64 } else { 4 << 10 };
const SHORTEST: usize = if cfg!(test) { 8 } else { 512 };

/// A text that needs more candidates for its tokens than this, and four more a token, is better off alone: it may be a run,
/// in which [`Finder`] tries another order, and the others need not wait.
const PATIENCE: u32 = if cfg!(test) { 16 } else { 1 << 8 };

/// Encodes several texts at once, or parts of a long one.
///
/// Looking for the longest token is a chain of loads, whose end no processor foresees. Here it is looked for in several
/// texts side by side, so that they wait for memory together, and there is one wrong guess for all of them.
///
/// **Memory:** 5 bytes for each byte of the texts that are gone through together.
#[derive(Debug, Default)]
pub(super) struct Abreast {
    /// The texts, and room behind them for the longest token.
    text: Vec<u8>,
    /// Each text's tokens, from where its bytes begin.
    ids: Vec<TokenId>,
    runs: Vec<Run>,
}

/// How far a text, or a part of one, is.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Which of the texts it is.
    nth: usize,
    at: usize,
    /// It is done once it is here or further.
    stop: usize,
    /// Where the text ends.
    end: usize,
    /// Where its first token stands among those of all, and where the next will.
    first: usize,
    next: usize,
    /// The row of its last token.
    row: u32,
    patience: u32,
}

/// The row in which all tokens fit: that of a text's start.
const START: u32 = 0;

impl Run {
    fn new(nth: usize, start: usize, stop: usize, end: usize) -> Run {
        Run { nth, at: start, stop, end, first: start, next: start, row: START, patience: PATIENCE }
    }

    fn is_done(&self) -> bool {
        self.at >= self.stop
    }

    /// Whether it has to be encoded alone.
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

    /// The tokens of one of the texts, unless it has to be encoded on its own.
    pub(super) fn ids(&self, text: usize) -> Option<&[TokenId]> {
        let run = &self.runs[text];
        (!run.has_given_up()).then(|| &self.ids[run.first..run.next])
    }

    /// Goes on with a path to `end` or not far past it, by parts as long as these are not too short.
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
                // What is hard is mostly followed by more of its kind.
                finder.go_on(path, end.min(path.at + alone * length * LANES));
                alone *= 2;
            }
        }
    }

    /// Goes on with a path through as many parts of this length as are gone through at once, each as if the text began
    /// there; unless one is too hard.
    pub(super) fn parts(&mut self, finder: &mut Finder<'_>, path: &mut Path, length: usize) -> bool {
        let (matches, start) = (finder.matches, path.at);
        // Of what is behind the parts the last token in them may need as much as the longest has, and a byte more.
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

    /// Goes through all texts, as many at once as there are lanes.
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
    /// The longest tokens that a text has at some places, as [`find`](Longest::find) finds them in what is a text with as
    /// much behind as the longest token has.
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
    /// Goes on by a token in each text.
    fn advance<const N: usize>(&self, runs: &mut [Run; N], text: &[u8], ids: &mut [TokenId]) {
        let found = self.longest.find_all(text, runs.each_ref().map(|run| run.at));
        found.iter().for_each(|found| self.fetch(found.0));
        for (run, (token, _)) in runs.iter().zip(found) {
            self.fitting.fetch(run.row, self.tokens[place(token)].column);
        }
        for (run, (token, length)) in runs.iter_mut().zip(found) {
            let ends_before = length > 0 && run.at + place(length) <= run.end;
            let token = if ends_before { token } else { self.longest.find(&text[run.at..run.end]).0 };
            self.go_on(run, token, text, ids);
        }
    }

    /// Goes on by one token, the longest that fits; where none does, back first.
    ///
    /// Tokens that fit pairwise are the encoding of their bytes, so that each place is come by in one way only. From where it
    /// had to go back it never comes again: candidates are tried from the longest on, each once.
    #[inline(always)]
    fn go_on(&self, run: &mut Run, longest: u32, text: &[u8], ids: &mut [TokenId]) {
        let mut candidate = longest;
        loop {
            while candidate != NONE {
                let token = &self.tokens[place(candidate)];
                let end = run.at + place(token.length);
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
            // There is one before: every text has an encoding, so that some token leads on from its start.
            run.next -= 1;
            let last = &self.tokens[ids[run.next].index()];
            run.at -= place(last.length);
            let before = ids[run.first..run.next].last();
            run.row = before.map_or(START, |before| self.tokens[before.index()].row);
            candidate = last.shorter;
        }
    }
}
