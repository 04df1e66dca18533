use super::Matches;
use super::characters::Characters;
use super::path::{DeadEnds, Finder, Path};
use crate::error::Result;
use crate::observer::Observer;
use crate::units::TokenId;

/// The observer is asked whether to stop after so many bytes.
const WINDOW: usize = 1 << 18;

/// The scratch memory of one thread, for one vocabulary.
///
/// **Memory:** 0.5 MiB once there were pieces to be taken apart into characters; while hard text is encoded up to 40
/// bytes for each of 262 144 places.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    dead: DeadEnds,
    pub(super) characters: Characters,
}

impl Scratch {
    /// Appends the tokens of a text to `ids`.
    ///
    /// # Errors
    /// The observer wants to stop; `ids` may then have some of the tokens.
    pub(crate) fn encode(
        &mut self,
        matches: &Matches,
        text: &[u8],
        ids: &mut Vec<TokenId>,
        observer: &dyn Observer,
    ) -> Result<()> {
        if matches.by_characters(text) {
            self.encode_characters(matches, text, ids);
            return Ok(());
        }
        let mut path = Path::new(std::mem::take(ids), 0);
        let outcome = self.go_on(matches, text, &mut path, text.len(), observer);
        *ids = path.ids;
        outcome
    }

    /// Goes on with a path to `end` or past it.
    ///
    /// # Errors
    /// The observer wants to stop; the path may then be shorter.
    pub(crate) fn go_on(
        &mut self,
        matches: &Matches,
        text: &[u8],
        path: &mut Path,
        end: usize,
        observer: &dyn Observer,
    ) -> Result<()> {
        loop {
            self.dead.clear();
            let window = (path.at + WINDOW).min(end);
            Finder { matches, text, dead: &mut self.dead }.go_on(path, window);
            if path.at >= end {
                return Ok(());
            }
            observer.checkpoint()?;
        }
    }

    /// Goes on with a path to the end of a text that is not long.
    pub(super) fn go_on_in(&mut self, matches: &Matches, text: &[u8], path: &mut Path) {
        self.dead.clear();
        Finder { matches, text, dead: &mut self.dead }.go_on(path, text.len());
    }

    /// Goes on with a path until it is the same as another, which began at `start`, and takes over the rest
    /// of that one.
    pub(crate) fn join(
        &mut self,
        matches: &Matches,
        text: &[u8],
        path: &mut Path,
        other: &Path,
        start: usize,
    ) {
        self.dead.clear();
        Finder { matches, text, dead: &mut self.dead }.join(path, other, start);
    }
}
