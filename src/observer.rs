use crate::error::{Error, Result};

/// A part of a run that takes long enough to report its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Downloads remote files. Amounts are bytes.
    Download,
    /// Reads the corpus and counts pre-tokens, or collects documents. Amounts are bytes of text.
    Count,
    /// Prepares training: lays the text out, counts its pairs and lists where they occur. Amounts are positions of the
    /// text, counted again for each pass over it: one for each byte or token, and one for each end of a sequence. It can
    /// run again while [`Train`](Stage::Train) or [`Replay`](Stage::Replay) pauses.
    Prepare,
    /// Learns merges. Amounts are merges.
    Train,
    /// Replays merges. Amounts are merges.
    Replay,
    /// Encodes and writes. Amounts are bytes of text.
    Encode,
    /// Reads an output again to check it. Amounts are bytes of files.
    Verify,
    /// Uploads files of an output. Amounts are bytes of files.
    Upload,
}

impl Stage {
    /// Name of the stage, for people to read.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Download => "download",
            Stage::Count => "count",
            Stage::Prepare => "prepare",
            Stage::Train => "train",
            Stage::Replay => "replay",
            Stage::Encode => "encode",
            Stage::Verify => "verify",
            Stage::Upload => "upload",
        }
    }

    /// Unit of the amounts: `bytes`, `merges` or `positions`.
    pub fn unit(self) -> &'static str {
        match self {
            Stage::Download | Stage::Count | Stage::Encode | Stage::Verify | Stage::Upload => "bytes",
            Stage::Prepare => "positions",
            Stage::Train | Stage::Replay => "merges",
        }
    }
}

/// Receives the progress of a run, and can ask it to stop.
///
/// The methods are called from worker threads, some of them thousands of times per second, so they must not
/// block. For each stage the order of the calls is `started`, any number of `advanced`, `finished`; after an
/// error no further call may come. The jobs of [`run`](crate::run), and functions such as
/// [`learn_merges`](crate::train::learn_merges), report start and end. Other functions that a program calls
/// directly, such as [`count_pretokens`](crate::count::count_pretokens), call `advanced` alone.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use tokenmill::{ErrorKind, Observer};
///
/// /// Stops a run from another thread.
/// struct StopFlag(AtomicBool);
///
/// impl Observer for StopFlag {
///     fn stopping(&self) -> bool {
///         self.0.load(Ordering::Relaxed)
///     }
/// }
///
/// let flag = StopFlag(AtomicBool::new(true));
/// assert_eq!(flag.checkpoint().unwrap_err().kind(), ErrorKind::Interrupted);
/// ```
pub trait Observer: Sync {
    /// A stage begins. `total` is its expected amount, in the unit of the stage; `None` if that is unknown. It is an
    /// estimate: the sum of [`advanced`](Observer::advanced) may end below or above it, so take
    /// [`finished`](Observer::finished) as 100 %.
    fn started(&self, _stage: Stage, _total: Option<u64>) {}

    /// `amount` more of the stage is done: an increment, not a sum.
    fn advanced(&self, _stage: Stage, _amount: u64) {}

    /// The work of a stage that is done, and an estimate of the work that is left, in a unit that takes about the same
    /// time from the start to the end of the stage. Only stages whose amounts do not take equal time call it, after
    /// [`advanced`](Observer::advanced): merges take less and less time.
    ///
    /// `done / (done + left)` is the part of the time that has passed. `done` only grows, `left` can grow as the
    /// estimate changes.
    fn estimated(&self, _stage: Stage, _done: f64, _left: f64) {}

    /// A stage has ended without an error.
    fn finished(&self, _stage: Stage) {}

    /// A remark that is not an error: something was reused, skipped or assumed.
    fn noted(&self, _message: &str) {}

    /// Whether the run should stop as soon as possible.
    fn stopping(&self) -> bool {
        false
    }

    /// Fails with [`ErrorKind::Interrupted`](crate::ErrorKind::Interrupted) if the run should stop. Stages call
    /// this between batches of work.
    fn checkpoint(&self) -> Result<()> {
        if self.stopping() { Err(Error::interrupted()) } else { Ok(()) }
    }
}

/// An observer that ignores all reports and never stops a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}

/// Passes on the wish to stop, and nothing else: for work that is not to be shown.
#[expect(missing_debug_implementations, reason = "observers need not have one")]
pub struct Quiet<'a>(pub &'a dyn Observer);

impl Observer for Quiet<'_> {
    fn stopping(&self) -> bool {
        self.0.stopping()
    }
}
