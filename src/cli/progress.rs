//! Tells how far a run is: bars on a terminal, a line now and then elsewhere.

use std::io::{Write, stderr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokenmill::run::peak_memory;
use tokenmill::source::{Note, Stop};
use tokenmill::units::{ByteCount, float, ratio};
use tokenmill::{Observer, Stage};

use super::interrupt::{Input, Interrupt};
use super::shown::{counted, told};
use super::surroundings::{Style, memory_held};

/// How often a bar moves.
const BAR_PERIOD: Duration = Duration::from_millis(100);

/// How often a line is written where there is no terminal.
const LINE_PERIOD: Duration = Duration::from_secs(10);

/// Kinds of stages that can run at the same time: those of [`Stage`], and one for all later ones.
const KINDS: usize = 7;

/// Hears what a run does. Threads that work only add to numbers; one thread of its own tells.
#[derive(Debug)]
pub(super) struct Progress {
    shared: Option<Arc<Shared>>,
    teller: Option<JoinHandle<()>>,
    interrupt: Interrupt,
}

#[derive(Debug)]
struct Shared {
    bars: Option<MultiProgress>,
    done: [AtomicU64; KINDS],
    state: Mutex<State>,
    over: Condvar,
}

#[derive(Debug, Default)]
struct State {
    running: Vec<Running>,
    is_over: bool,
}

#[derive(Debug)]
struct Running {
    stage: Stage,
    total: Option<u64>,
    since: Instant,
    bar: ProgressBar,
}

impl Progress {
    /// Begins to tell, unless it should be quiet.
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
            move || shared.tell()
        });
        // Where the system gives no thread for it, less is told.
        Progress { shared: Some(shared), teller: teller.ok(), interrupt }
    }

    /// Standard input, until the run should stop.
    pub(super) fn input(&self) -> Input {
        Input::new(self.interrupt.clone())
    }

    /// Tells what those hear of who have no observer.
    pub(super) fn note(&self) -> Note {
        let shared = self.shared.clone();
        Arc::new(move |message| {
            if let Some(shared) = &shared {
                shared.line(&told(message));
            }
        })
    }

    /// Says whether the program was asked to stop.
    pub(super) fn stop(&self) -> Stop {
        let interrupt = self.interrupt.clone();
        Arc::new(move || interrupt.is_asked())
    }
}

impl Drop for Progress {
    /// Takes the bars away, so that what comes after them stands alone.
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.lock().is_over = true;
            shared.over.notify_all();
        }
        // A teller that panicked has said so, and there is nothing to wait for.
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
            shared.line(&told(message));
        }
    }

    fn stopping(&self) -> bool {
        self.interrupt.is_asked()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

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

    /// Writes a line above the bars. Where standard error is gone nobody can be told.
    fn line(&self, line: &str) {
        let write = || {
            let _ = writeln!(stderr(), "{line}");
        };
        match &self.bars {
            Some(bars) => bars.suspend(write),
            None => write(),
        }
    }

    fn tell(&self) {
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
    /// How far the stage is: done of total, rate, memory, time left.
    fn state(&self, done: u64) -> String {
        let seconds = self.since.elapsed().as_secs_f64();
        let mut said = shown(self.stage, done);
        if let Some(total) = self.total.filter(|&total| total > 0) {
            said = format!(
                "{said} of {} ({:.0} %)",
                shown(self.stage, total),
                100.0 * ratio(done, total).min(1.0)
            );
        }
        said.push_str(&format!(", {}{}", rate(self.stage, done, seconds), memory(memory_held())));
        match self.total {
            Some(total) if done >= total && total > 0 => said.push_str(", finishing"),
            Some(total) if 0 < done && done < total => {
                let left = seconds * float(total - done) / float(done);
                said.push_str(&format!(", {} left", duration(left)));
            }
            _ => {}
        }
        said
    }

    fn summary(&self, done: u64) -> String {
        let seconds = self.since.elapsed().as_secs_f64();
        let (stage, amount) = (self.stage.name(), shown(self.stage, done));
        let (rate, memory) = (rate(self.stage, done, seconds), memory(peak_memory().map(ByteCount)));
        format!("{stage}: {amount} in {}, {rate}{memory}", duration(seconds))
    }
}

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

fn bar_style(total: Option<u64>) -> ProgressStyle {
    let template = match total {
        Some(_) => "{prefix:>8} {bar:24} {msg}",
        None => "{prefix:>8} {spinner} {msg}",
    };
    ProgressStyle::with_template(template).expect("a template that is right").progress_chars("━━ ")
}

fn shown(stage: Stage, amount: u64) -> String {
    match stage {
        Stage::Train | Stage::Replay => counted(amount, "merge"),
        _ => ByteCount(amount).to_string(),
    }
}

fn rate(stage: Stage, done: u64, seconds: f64) -> String {
    let per_second = float(done) / seconds.max(1e-6);
    match stage {
        Stage::Train | Stage::Replay => format!("{per_second:.0}/s"),
        _ => format!("{:.1} MB/s", per_second / 1e6),
    }
}

fn memory(held: Option<ByteCount>) -> String {
    held.map_or_else(String::new, |held| format!(", memory {held}"))
}

/// Seconds as people read them.
pub(super) fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 0.0995 => format!("{:.0} ms", s * 1e3),
        s if s < 9.95 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}
