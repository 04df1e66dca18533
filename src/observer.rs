use crate::error::{Error, Result};

/// A part of a run that takes time worth telling about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Fetching remote files; amounts are bytes.
    Download,
    /// Reading and counting pieces, or gathering documents; amounts are bytes of text.
    Count,
    /// Learning merges; amounts are merges.
    Train,
    /// Replaying merges; amounts are merges.
    Replay,
    /// Encoding and writing; amounts are bytes of text.
    Encode,
    /// Reading an output again to check it; amounts are bytes of files.
    Verify,
}

impl Stage {
    /// The stage's name as people read it.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Download => "download",
            Stage::Count => "count",
            Stage::Train => "train",
            Stage::Replay => "replay",
            Stage::Encode => "encode",
            Stage::Verify => "verify",
        }
    }
}

/// Hears what a run does, and says when it should stop.
///
/// The methods are called from worker threads, some of them thousands of times a second: they must
/// not block. For one stage the calls come in the order `started`, any number of `advanced`,
/// `finished`; after an error there may be no further call. Jobs of [`run`](crate::run) and
/// [`learn_merges`](crate::train::learn_merges) and its like tell beginning and end; other functions that are called by
/// themselves, such as [`count_pieces`](crate::count::count_pieces), tell `advanced` alone.
pub trait Observer: Sync {
    /// A stage begins. `total` is in the stage's own amounts, `None` where it cannot be known.
    fn started(&self, _stage: Stage, _total: Option<u64>) {}

    /// `amount` more of the stage is done (an increment, not a sum).
    fn advanced(&self, _stage: Stage, _amount: u64) {}

    /// A stage has ended well.
    fn finished(&self, _stage: Stage) {}

    /// Something worth a line that is no error: what was reused, skipped, or assumed.
    fn noted(&self, _message: &str) {}

    /// Whether the run should stop as soon as it can.
    fn stopping(&self) -> bool {
        false
    }

    /// Fails with [`ErrorKind::Interrupted`](crate::ErrorKind::Interrupted) if the run should stop.
    /// Stages call this between batches of work.
    fn checkpoint(&self) -> Result<()> {
        if self.stopping() { Err(Error::interrupted()) } else { Ok(()) }
    }
}

/// An observer that hears nothing and never stops a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}
