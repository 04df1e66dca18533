use super::longest::Walk;
use super::path::{DeadEnds, Finder, Path};
use super::{Matches, NONE};
use crate::base::int::TokenId;

/// Encodes pre-tokens in a batch.
///
/// New pre-tokens are rare, so the parts of the tables that they need are usually not in the CPU caches. One by
/// one, each would wait for memory several times. In a batch, all of them advance by one token in turn, and what
/// each step reads is prefetched while the others take theirs.
///
/// **Memory:** about 200 bytes per pre-token, 2 for each of its bytes, and its tokens.
#[derive(Debug, Default)]
pub(crate) struct Together {
    /// The pre-tokens, each followed by one padding byte.
    text: Vec<u8>,
    progress: Vec<Progress>,
    /// Indices of the pre-tokens that are not finished.
    open: Vec<usize>,
    walking: Vec<usize>,
    /// Indices of those for which the longest token is not simply taken.
    hard: Vec<usize>,
}

/// The progress of one pre-token.
#[derive(Debug)]
struct Progress {
    /// Start of the pre-token in `text`.
    start: usize,
    path: Path,
    dead: DeadEnds,
    walk: Walk,
}

impl Together {
    /// Encodes pre-tokens, none of them empty.
    pub(crate) fn encode(&mut self, matches: &Matches, pretokens: &[&[u8]]) {
        self.begin(pretokens);
        while !self.open.is_empty() {
            self.walk(matches, pretokens);
            self.go_on(matches, pretokens);
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
    fn walk(&mut self, matches: &Matches, pretokens: &[&[u8]]) {
        let (text, progress) = (&self.text[..], &mut self.progress[..]);
        for &pretoken in &self.open {
            matches.longest.fetch(text, progress[pretoken].at());
        }
        for &pretoken in &self.open {
            let progress = &mut progress[pretoken];
            let end = progress.start + pretokens[pretoken].len();
            progress.walk = matches.longest.walk(text, progress.at(), end);
        }
        self.walking.clone_from(&self.open);
        let mut walking = &mut self.walking[..];
        while !walking.is_empty() {
            let mut kept = 0;
            for place in 0..walking.len() {
                let pretoken = walking[place];
                walking[kept] = pretoken;
                kept += usize::from(matches.longest.step(&mut progress[pretoken].walk, text));
            }
            walking = &mut walking[..kept];
        }
        for &pretoken in &self.open {
            matches.fetch(progress[pretoken].walk.found().0);
        }
        for fetch in [Matches::fetch_fit, Matches::fetch_fit_word] {
            for &pretoken in &self.open {
                let Progress { path, walk, .. } = &progress[pretoken];
                if path.last != NONE {
                    fetch(matches, path.last, walk.found().0);
                }
            }
        }
    }

    /// Takes the token that was found for each open pre-token, or another one that is compatible.
    fn go_on(&mut self, matches: &Matches, pretokens: &[&[u8]]) {
        let Together { progress, open, hard, .. } = self;
        let progress = &mut progress[..];
        let mut kept = 0;
        for place in 0..open.len() {
            let pretoken = open[place];
            let Progress { path, dead, walk, .. } = &mut progress[pretoken];
            let (longest, length) = matches.sized(walk.found());
            let finder = Finder { matches, text: pretokens[pretoken], dead };
            if finder.plain_step(path, longest, length) {
                open[kept] = pretoken;
                kept += usize::from(path.at < pretokens[pretoken].len());
                continue;
            }
            hard.push(pretoken);
            let shorter = matches.shorter(longest);
            matches.fetch(shorter);
            if path.last != NONE && shorter != NONE {
                matches.fetch_fit(path.last, shorter);
            }
        }
        open.truncate(kept);
        for pretoken in hard.drain(..) {
            let Progress { path, dead, walk, .. } = &mut progress[pretoken];
            Finder { matches, text: pretokens[pretoken], dead }.step(path, walk.found().0);
            open.extend((path.at < pretokens[pretoken].len()).then_some(pretoken));
        }
    }
}

impl Progress {
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
