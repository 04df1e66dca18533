//! Reports how far a run is: bars on a terminal, a line every ten seconds elsewhere.

use std::io::{Write, stderr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokenmill::base::int::{ByteCount, ratio, to_f64};
use tokenmill::run::peak_memory;
use tokenmill::source::{Note, Stop};
use tokenmill::{Observer, Stage};

use super::environment::memory_held;
use super::terminal::{Input, Interrupt, Style, safe_line, with_unit};

/// Time between two updates of a bar (100 ms).
const BAR_PERIOD: Duration = Duration::from_millis(100);

/// Time between two lines (10 s) if standard error is not a terminal.
const LINE_PERIOD: Duration = Duration::from_secs(10);

/// Number of kinds of stages that can run at the same time: those of [`Stage`], and one for all that may be added
/// later. A new kind of stage shares the last counter until it gets one.
const KINDS: usize = 7;

/// The observer of a run. Working threads only add to counters; one separate thread prints.
///
/// Reporting costs a working thread one relaxed addition per call, so it does not slow encoding. Dropping the value
/// ends the report and removes the bars.
#[derive(Debug)]
pub(super) struct Progress {
    /// `None` if nothing should be reported.
    shared: Option<Arc<Shared>>,
    /// The thread that prints. `None` also if the system started none.
    teller: Option<JoinHandle<()>>,
    /// Answers whether the run should stop. It is asked also if nothing is reported.
    interrupt: Interrupt,
}

/// What the working threads and the printing thread share.
#[derive(Debug)]
struct Shared {
    /// `None` if standard error is not a terminal.
    bars: Option<MultiProgress>,
    /// The amount done by the running stage of each [kind], in the unit of the stage.
    done: [AtomicU64; KINDS],
    /// Locked only when a stage starts or ends, and by the printing thread.
    state: Mutex<State>,
    /// Wakes the printing thread at the end.
    over: Condvar,
}

/// What changes when stages start and end.
#[derive(Debug, Default)]
struct State {
    /// The running stages, in the order in which they started.
    running: Vec<Running>,
    /// Set once, when [`Progress`] is dropped.
    is_over: bool,
}

/// A stage between its start and its end. Only one stage of each kind runs at a time.
#[derive(Debug)]
struct Running {
    /// Decides the name, the unit and the counter.
    stage: Stage,
    /// The amount of the whole stage, if known, in its unit.
    total: Option<u64>,
    /// When the stage started, for rates and the time left.
    since: Instant,
    /// Hidden if standard error is not a terminal.
    bar: ProgressBar,
}

impl Progress {
    /// Starts to report, unless `quiet`. The style decides between bars and lines. With `quiet`, no thread is
    /// started, and only the wish to stop is passed on.
    pub(super) fn start(quiet: bool, style: Style, interrupt: Interrupt) -> Progress {
        if quiet {
            return Progress { shared: None, teller: None, interrupt };
        }
        let bars = style.drawn.then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr()));
        let shared = Arc::new(Shared {
            bars,
            done: std::array::from_fn(|_| AtomicU64::new(0)),
            state: Mutex::default(),
            over: Condvar::new(),
        });
        let teller = std::thread::Builder::new().spawn({
            let shared = Arc::clone(&shared);
            move || shared.report_until_over()
        });
        // If the system gives no thread, only notes and finished stages are printed.
        Progress { shared: Some(shared), teller: teller.ok(), interrupt }
    }

    /// Returns standard input that ends with an error once the run should stop.
    pub(super) fn input(&self) -> Input {
        Input::new(self.interrupt.clone())
    }

    /// Returns a function that prints a message, for code that has no observer. The function may outlive this value;
    /// its messages then appear without bars. With `quiet` it does nothing.
    pub(super) fn note(&self) -> Note {
        let shared = self.shared.clone();
        Arc::new(move |message| {
            if let Some(shared) = &shared {
                shared.line(&safe_line(message));
            }
        })
    }

    /// Returns a function that says whether the program was asked to stop. Waiting network requests ask it, since
    /// they have no observer.
    pub(super) fn stop(&self) -> Stop {
        let interrupt = self.interrupt.clone();
        Arc::new(move || interrupt.is_asked())
    }
}

impl Drop for Progress {
    /// Removes the bars, so that later output is not mixed with them. This waits for the printing thread, which wakes
    /// at once.
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.lock().is_over = true;
            shared.over.notify_all();
        }
        // A thread that panicked has printed its own message.
        let _ = self.teller.take().map(JoinHandle::join);
    }
}

impl Observer for Progress {
    fn started(&self, stage: Stage, total: Option<u64>) {
        if let Some(shared) = &self.shared {
            shared.started(stage, total);
        }
    }

    fn advanced(&self, stage: Stage, amount: u64) {
        if let Some(shared) = &self.shared {
            shared.done[kind(stage)].fetch_add(amount, Ordering::Relaxed);
        }
    }

    fn finished(&self, stage: Stage) {
        if let Some(shared) = &self.shared {
            shared.finished(stage);
        }
    }

    fn noted(&self, message: &str) {
        if let Some(shared) = &self.shared {
            shared.line(&safe_line(message));
        }
    }

    fn stopping(&self) -> bool {
        self.interrupt.is_asked()
    }
}

impl Shared {
    /// Locks the state, also after a thread has panicked with it: a panic leaves at worst a bar too many.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resets the counter of a stage and adds its bar. A stage of the same kind that has not ended is replaced.
    fn started(&self, stage: Stage, total: Option<u64>) {
        let mut state = self.lock();
        state.running.retain(|running| running.stage != stage);
        self.done[kind(stage)].store(0, Ordering::Relaxed);
        let bar = self.bars.as_ref().map_or_else(ProgressBar::hidden, |bars| {
            bars.add(
                ProgressBar::new(total.unwrap_or(0)).with_prefix(stage.name()).with_style(bar_style(total)),
            )
        });
        state.running.push(Running { stage, total, since: Instant::now(), bar });
    }

    /// Removes a stage and prints its summary. The state is unlocked before printing, so that working threads do not
    /// wait for the terminal. A stage that never started prints nothing.
    fn finished(&self, stage: Stage) {
        let ended = {
            let mut state = self.lock();
            let place = state.running.iter().position(|running| running.stage == stage);
            place.map(|place| state.running.remove(place))
        };
        if let Some(ended) = ended {
            ended.bar.finish_and_clear();
            self.line(&ended.summary(self.done[kind(stage)].load(Ordering::Relaxed)));
        }
    }

    /// Prints a line above the bars. An error is ignored, since standard error is the only place to report it. The
    /// line must already be escaped.
    fn line(&self, line: &str) {
        let write = || {
            let _ = writeln!(stderr(), "{line}");
        };
        match &self.bars {
            Some(bars) => bars.suspend(write),
            None => write(),
        }
    }

    /// Updates the bars, or prints a line for each running stage, until the run is over. It holds the lock while it
    /// prints, which only delays the start and end of stages.
    fn report_until_over(&self) {
        let period = if self.bars.is_some() { BAR_PERIOD } else { LINE_PERIOD };
        let mut state = self.lock();
        loop {
            let waited = self.over.wait_timeout_while(state, period, |state| !state.is_over);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if state.is_over {
                state.running.drain(..).for_each(|running| running.bar.finish_and_clear());
                return;
            }
            for running in &state.running {
                let done = self.done[kind(running.stage)].load(Ordering::Relaxed);
                if self.bars.is_some() {
                    running.bar.set_position(done);
                    running.bar.set_message(running.state(done));
                } else {
                    self.line(&format!("{}: {}", running.stage.name(), running.state(done)));
                }
            }
        }
    }
}

impl Running {
    /// Describes how far the stage is: amount done and total, rate, memory, time left. The time left assumes the mean
    /// rate since the start. It is left out if the total or the rate is unknown. A stage that has done its total but
    /// has not ended is finishing.
    fn state(&self, done: u64) -> String {
        let seconds = self.since.elapsed().as_secs_f64();
        let mut description = shown(self.stage, done);
        if let Some(total) = self.total.filter(|&total| total > 0) {
            description = format!(
                "{description} of {} ({:.0} %)",
                shown(self.stage, total),
                100.0 * ratio(done, total).min(1.0)
            );
        }
        description.push_str(&format!(", {}{}", rate(self.stage, done, seconds), memory(memory_held())));
        match self.total {
            Some(total) if done >= total && total > 0 => description.push_str(", finishing"),
            Some(total) if 0 < done && done < total => {
                let left = seconds * to_f64(total - done) / to_f64(done);
                description.push_str(&format!(", {} left", duration(left)));
            }
            _ => {}
        }
        description
    }

    /// Describes a finished stage: amount, time, rate, and the peak of memory. The peak is that of the whole process
    /// since its start, not only of this stage.
    fn summary(&self, done: u64) -> String {
        let seconds = self.since.elapsed().as_secs_f64();
        let (stage, amount) = (self.stage.name(), shown(self.stage, done));
        let (rate, memory) = (rate(self.stage, done, seconds), memory(peak_memory().map(ByteCount)));
        format!("{stage}: {amount} in {}, {rate}{memory}", duration(seconds))
    }
}

/// Returns the index of a stage's counter. Below [`KINDS`]. Stages that this program does not know share the last
/// index.
fn kind(stage: Stage) -> usize {
    match stage {
        Stage::Download => 0,
        Stage::Count => 1,
        Stage::Train => 2,
        Stage::Replay => 3,
        Stage::Encode => 4,
        Stage::Verify => 5,
        _ => KINDS - 1,
    }
}

/// Returns a bar if the total is known, and a spinner otherwise. The name has eight columns, so that the bars of
/// several stages begin below each other.
fn bar_style(total: Option<u64>) -> ProgressStyle {
    let template = match total {
        Some(_) => "{prefix:>8} {bar:24} {msg}",
        None => "{prefix:>8} {spinner} {msg}",
    };
    ProgressStyle::with_template(template).expect("a template that is right").progress_chars("━━ ")
}

/// Formats an amount in the unit of the stage: merges or bytes.
fn shown(stage: Stage, amount: u64) -> String {
    match stage {
        Stage::Train | Stage::Replay => with_unit(amount, "merge"),
        _ => ByteCount(amount).to_string(),
    }
}

/// Formats the speed of a stage: merges or megabytes per second. A stage that took no measurable time counts as
/// having taken a microsecond.
fn rate(stage: Stage, done: u64, seconds: f64) -> String {
    let per_second = to_f64(done) / seconds.max(1e-6);
    match stage {
        Stage::Train | Stage::Replay => format!("{per_second:.0}/s"),
        _ => format!("{:.1} MB/s", per_second / 1e6),
    }
}

/// Formats the use of memory; empty if it is unknown.
fn memory(held: Option<ByteCount>) -> String {
    held.map_or_else(String::new, |held| format!(", memory {held}"))
}

/// Formats seconds with a unit and two or three significant digits. The first two bounds are where the rounded number
/// would get another digit, so `10 s` follows `9.9 s`.
pub(super) fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 0.0995 => format!("{:.0} ms", s * 1e3),
        s if s < 9.95 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}
