//! Reports how far a run is: bars on a terminal, a line every ten seconds elsewhere.

use std::collections::VecDeque;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Map, Value, json};
use tokenmill::base::int::{ByteCount, ratio, to_f64, truncate_to_u64};
use tokenmill::run::peak_memory;
use tokenmill::source::{Note, Stop};
use tokenmill::{Observer, Stage};

use super::environment::memory_held;
use super::terminal::{
    Input, Interrupt, LogFormat, Style, log_object, on_one_line, safe_line, time_of_day, with_unit,
};

/// Time between two updates of a bar (100 ms).
const BAR_PERIOD: Duration = Duration::from_millis(100);

/// Time between two samples of the amounts (1 s) if there are no bars.
const SAMPLE_PERIOD: Duration = Duration::from_secs(1);

/// Number of samples from line to line, so that there is one every 10 s.
const SAMPLES_PER_LINE: u32 = 10;

/// Time (10 s) over which rates are averaged: long enough for a steady number, short enough for the present one.
const WINDOW: Duration = Duration::from_secs(10);

/// Time (1 s) over which a rate is measured at least before it says how long a stage will take.
const FIRST_ESTIMATE: Duration = Duration::from_secs(1);

/// Time (1 s) below which [`Stage::Prepare`] has no summary for people.
const SHORT_SECONDS: f64 = 1.0;

/// Number of kinds of stages that can run at the same time: those of [`Stage`].
const KINDS: usize = 8;

/// Length of a bar in units of progress. A bar has 24 columns, so more would not be seen.
const BAR_UNITS: u64 = 1000;

/// The observer of a run. Working threads only add to counters; one separate thread prints.
///
/// Reporting costs a working thread a few relaxed operations per call, so it does not slow encoding. Dropping the value
/// ends the report and removes the bars.
#[derive(Debug)]
pub(super) struct Progress {
    /// `None` if nothing should be reported.
    shared: Option<Arc<Shared>>,
    /// The thread that prints. `None` also if the system started none.
    teller: Option<JoinHandle<()>>,
    /// Answers whether the run should stop. It is asked also if nothing is reported.
    interrupt: Interrupt,
    /// Set when a download begins.
    downloaded: Arc<AtomicBool>,
}

/// What the working threads and the printing thread share.
#[derive(Debug)]
struct Shared {
    /// `None` if standard error is not a terminal, or messages are JSON.
    bars: Option<MultiProgress>,
    /// Whether lines begin with the time: in a file, but not at a terminal.
    with_time: bool,
    /// The form of the lines.
    format: LogFormat,
    /// The counters of each [kind] of stage.
    counters: [Counters; KINDS],
    /// Locked only when a stage starts or ends, and by the printing thread.
    state: Mutex<State>,
    /// Wakes the printing thread at the end.
    over: Condvar,
}

/// How far the running stage of a kind is. Threads that work write, the thread that prints reads.
#[derive(Debug, Default)]
struct Counters {
    /// The amount done, in the unit of the stage.
    done: AtomicU64,
    /// The bits of the work done and of the work left, as floats. Both are 0 if the stage does not estimate its work.
    work: [AtomicU64; 2],
}

impl Counters {
    /// Starts again from zero.
    fn reset(&self) {
        let work = self.work.iter();
        work.chain([&self.done]).for_each(|counter| counter.store(0, Ordering::Relaxed));
    }

    /// The amounts at this moment.
    fn sample(&self) -> Sample {
        let [done, left] = self.work.each_ref().map(|work| f64::from_bits(work.load(Ordering::Relaxed)));
        let work = (done + left > 0.0).then_some(Work { done, left });
        Sample { at: Instant::now(), done: self.done.load(Ordering::Relaxed), work }
    }
}

/// How far a stage was at a moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    /// The amount done, in the unit of the stage.
    done: u64,
    /// `None` if every part of the amount takes the same time.
    work: Option<Work>,
}

/// Work that is done, and an estimate of the work that is left, in a unit of the stage's own.
#[derive(Clone, Copy, Debug)]
struct Work {
    done: f64,
    left: f64,
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
    /// When the stage started.
    since: Instant,
    /// When the amount was last seen to change.
    moved: Instant,
    /// Samples of the last [`WINDOW`], and the one before them.
    samples: VecDeque<Sample>,
    /// Hidden if there are no bars.
    bar: ProgressBar,
}

impl Progress {
    /// Starts to report, unless `format` is `None`. The style decides between bars and lines. If nothing is reported, no
    /// thread is started, and only the wish to stop is passed on. `downloaded` is set once a download begins.
    pub(super) fn start(
        format: Option<LogFormat>,
        style: Style,
        interrupt: Interrupt,
        downloaded: Arc<AtomicBool>,
    ) -> Progress {
        let Some(format) = format else {
            return Progress { shared: None, teller: None, interrupt, downloaded };
        };
        let has_bars = style.drawn && format == LogFormat::Text;
        let shared = Arc::new(Shared {
            bars: has_bars.then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr())),
            with_time: !style.drawn,
            format,
            counters: std::array::from_fn(|_| Counters::default()),
            state: Mutex::default(),
            over: Condvar::new(),
        });
        let teller = std::thread::Builder::new().spawn({
            let shared = Arc::clone(&shared);
            move || shared.report_until_over()
        });
        // If the system gives no thread, only notes and finished stages are printed.
        Progress { shared: Some(shared), teller: teller.ok(), interrupt, downloaded }
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
                shared.note(message);
            }
        })
    }

    /// Returns a function that says whether the program was asked to stop. Waiting network requests ask it, since
    /// they have no observer.
    pub(super) fn stop(&self) -> Stop {
        let interrupt = self.interrupt.clone();
        Arc::new(move || interrupt.is_asked())
    }

    /// Removes the bars for good if standard output is a terminal, because results are about to be printed there, and
    /// bars would be drawn over them. Lines are still printed.
    pub(super) fn make_way(&self) {
        let bars = self.shared.as_ref().and_then(|shared| shared.bars.as_ref());
        if let Some(bars) = bars.filter(|_| stdout().is_terminal()) {
            // An error is ignored, since standard error is the only place to report it.
            let _ = bars.clear();
            bars.set_draw_target(ProgressDrawTarget::hidden());
        }
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
        if stage == Stage::Download {
            self.downloaded.store(true, Ordering::Relaxed);
        }
        if let Some(shared) = &self.shared {
            shared.started(stage, total);
        }
    }

    fn advanced(&self, stage: Stage, amount: u64) {
        if let Some(shared) = &self.shared {
            shared.counters[kind(stage)].done.fetch_add(amount, Ordering::Relaxed);
        }
    }

    fn estimated(&self, stage: Stage, done: f64, left: f64) {
        if let Some(shared) = &self.shared {
            let work = shared.counters[kind(stage)].work.iter().zip([done, left]);
            work.for_each(|(counter, work)| counter.store(work.to_bits(), Ordering::Relaxed));
        }
    }

    fn finished(&self, stage: Stage) {
        if let Some(shared) = &self.shared {
            shared.finished(stage);
        }
    }

    fn noted(&self, message: &str) {
        if let Some(shared) = &self.shared {
            shared.note(message);
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

    /// Resets the counters of a stage and adds its bar. A stage of the same kind that has not ended is replaced.
    fn started(&self, stage: Stage, total: Option<u64>) {
        let mut state = self.lock();
        state.running.retain(|running| running.stage != stage);
        let counters = &self.counters[kind(stage)];
        counters.reset();
        let bar = self.bars.as_ref().map_or_else(ProgressBar::hidden, |bars| {
            bars.add(ProgressBar::new(BAR_UNITS).with_prefix(stage.name()).with_style(bar_style(total)))
        });
        state.running.push(Running::new(stage, total, counters.sample(), bar));
    }

    /// Removes a stage and prints its summary. The state is unlocked before printing, so that working threads do not
    /// wait for the terminal. A stage that never started prints nothing.
    fn finished(&self, stage: Stage) {
        let ended = {
            let mut state = self.lock();
            let place = state.running.iter().position(|running| running.stage == stage);
            let ended = place.map(|place| state.running.remove(place));
            if stage == Stage::Prepare {
                let paused = state.running.iter_mut().filter(|running| is_paused_by_preparing(running.stage));
                paused.for_each(|running| running.restart(self.counters[kind(running.stage)].sample()));
            }
            ended
        };
        if let Some(ended) = ended {
            ended.bar.finish_and_clear();
            let summary = ended.summary(self.counters[kind(stage)].sample());
            // Preparing a small text is part of training, and not worth a line.
            let is_short = stage == Stage::Prepare && summary.seconds < SHORT_SECONDS;
            if self.format == LogFormat::Json || !is_short {
                self.report(&summary);
            }
        }
    }

    /// Prints a remark above the bars.
    fn note(&self, message: &str) {
        self.line("info", &Map::new(), &safe_line(message));
    }

    /// Prints how far a stage is, above the bars.
    fn report(&self, report: &Report) {
        let message = format!("{}: {}", report.stage.name(), report.text());
        self.line("progress", &report.fields(), &message);
    }

    /// Prints a line above the bars. An error is ignored, since standard error is the only place to report it.
    fn line(&self, level: &str, fields: &Map<String, Value>, message: &str) {
        let line = match self.format {
            LogFormat::Json => log_object(level, fields, message),
            LogFormat::Text if self.with_time => format!("{} {}", time_of_day(), on_one_line(message)),
            LogFormat::Text => on_one_line(message),
        };
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
        let period = if self.bars.is_some() { BAR_PERIOD } else { SAMPLE_PERIOD };
        let mut state = self.lock();
        for number in (1..=SAMPLES_PER_LINE).cycle() {
            let waited = self.over.wait_timeout_while(state, period, |state| !state.is_over);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if state.is_over {
                state.running.drain(..).for_each(|running| running.bar.finish_and_clear());
                return;
            }
            let is_preparing = state.running.iter().any(|running| running.stage == Stage::Prepare);
            for running in &mut state.running {
                if is_preparing && is_paused_by_preparing(running.stage) {
                    continue;
                }
                running.take(self.counters[kind(running.stage)].sample());
                if self.bars.is_some() {
                    let report = running.report();
                    running.bar.set_position(report.bar_position());
                    running.bar.set_message(report.text());
                } else if number == SAMPLES_PER_LINE {
                    self.report(&running.report());
                }
            }
        }
    }
}

impl Running {
    /// A stage that starts with its first sample.
    fn new(stage: Stage, total: Option<u64>, start: Sample, bar: ProgressBar) -> Running {
        let samples = VecDeque::from([start]);
        Running {
            stage,
            total: total.filter(|&total| total > 0),
            since: start.at,
            moved: start.at,
            samples,
            bar,
        }
    }

    /// Adds a sample, and removes those that are too old for the rate.
    fn take(&mut self, sample: Sample) {
        if self.samples.back().is_none_or(|last| last.done != sample.done) {
            self.moved = sample.at;
        }
        self.samples.push_back(sample);
        while self.samples.get(1).is_some_and(|second| sample.at.duration_since(second.at) >= WINDOW) {
            self.samples.pop_front();
        }
    }

    /// Forgets the samples so far after a pause, which would lower the rate.
    fn restart(&mut self, sample: Sample) {
        self.samples = VecDeque::from([sample]);
        self.moved = sample.at;
    }

    /// Describes how far the stage is at its last sample. Rates, and the time left that follows from them, are those of
    /// the last [`WINDOW`].
    fn report(&self) -> Report {
        let (first, last) = (self.samples[0], self.samples[self.samples.len() - 1]);
        let seconds = last.at.duration_since(first.at).as_secs_f64();
        let share = match (last.work, self.total) {
            (Some(work), _) => Some(work.done / (work.done + work.left)),
            (None, total) => total.map(|total| ratio(last.done, total).min(1.0)),
        };
        let is_complete = self.total.is_some_and(|total| last.done >= total);
        // The work left was overestimated, or the stage is writing its results.
        let stands =
            share.is_some_and(|share| share >= 0.99) && last.at.duration_since(self.moved) > FIRST_ESTIMATE;
        let (advanced, left) = match (last.work, self.total) {
            (Some(work), _) => (work.done - first.work.map_or(0.0, |first| first.done), Some(work.left)),
            (None, total) => {
                (to_f64(last.done - first.done), total.map(|total| to_f64(total.saturating_sub(last.done))))
            }
        };
        let is_known = advanced > 0.0 && last.at.duration_since(first.at) >= FIRST_ESTIMATE;
        Report {
            stage: self.stage,
            state: if is_complete || stands { StageState::Finishing } else { StageState::Running },
            done: last.done,
            total: self.total,
            share,
            seconds: last.at.duration_since(self.since).as_secs_f64(),
            per_second: to_f64(last.done - first.done) / seconds.max(MIN_SECONDS),
            seconds_left: left.filter(|_| is_known).map(|left| left * seconds / advanced),
            is_by_work: last.work.is_some(),
            memory: memory_held(),
        }
    }

    /// Describes a finished stage. The rate is that of the whole stage, and the memory the peak of the whole process
    /// since its start.
    fn summary(&self, end: Sample) -> Report {
        let seconds = end.at.duration_since(self.since).as_secs_f64();
        Report {
            stage: self.stage,
            state: StageState::Finished,
            done: end.done,
            total: self.total,
            share: Some(1.0),
            seconds,
            per_second: to_f64(end.done) / seconds.max(MIN_SECONDS),
            seconds_left: Some(0.0),
            is_by_work: end.work.is_some(),
            memory: peak_memory().map(ByteCount),
        }
    }
}

/// Shortest time (1 µs) for which a rate is given.
const MIN_SECONDS: f64 = 1e-6;

/// How far a stage is, to be printed.
#[derive(Debug)]
struct Report {
    stage: Stage,
    state: StageState,
    /// The amount done, in the unit of the stage.
    done: u64,
    /// The amount of the whole stage, if known.
    total: Option<u64>,
    /// The part of the time or of the amount that is done, from 0 to 1, if known.
    share: Option<f64>,
    /// Time since the start of the stage.
    seconds: f64,
    /// Amount per second.
    per_second: f64,
    /// Time until the end of the stage; `None` if it cannot be said.
    seconds_left: Option<f64>,
    /// Whether the share is that of the work, which differs from that of the amount.
    is_by_work: bool,
    /// Memory that the process holds, or held at most, if known.
    memory: Option<ByteCount>,
}

/// Whether a stage is at work, has nothing more to count, or has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StageState {
    Running,
    Finishing,
    Finished,
}

impl Report {
    /// The text for people. Percentages are rounded down, so that 100 % means all. An estimate of the work can be too low,
    /// so it is at most 99 % while the stage runs.
    fn text(&self) -> String {
        let mut parts = Vec::new();
        let amount = shown(self.stage, self.done);
        let most = if self.is_by_work && self.state == StageState::Running { 99.0 } else { 100.0 };
        let percent = self.share.map(|share| format!("{:.0} %", (100.0 * share).floor().min(most)));
        match (self.state, amount, self.total, percent) {
            (StageState::Finished, None, ..) => parts.push(format!("done in {}", duration(self.seconds))),
            (StageState::Finished, Some(amount), ..) => {
                parts.push(format!("{amount} in {}", duration(self.seconds)));
            }
            (_, None, _, Some(percent)) => parts.push(percent),
            (_, Some(amount), Some(total), Some(percent)) => {
                let total = shown(self.stage, total).unwrap_or_default();
                let of_what = if self.is_by_work { " of the work" } else { "" };
                parts.push(format!("{amount} of {total} ({percent}{of_what})"));
            }
            (_, amount, ..) => parts.extend(amount),
        }
        parts.extend(rate(self.stage, self.per_second));
        parts.extend(self.memory.map(|memory| format!("memory {memory}")));
        match (self.state, self.seconds_left) {
            (StageState::Finishing, _) => parts.push("finishing".to_owned()),
            (StageState::Running, Some(left)) if left < 1.0 => parts.push("less than 1 s left".to_owned()),
            (StageState::Running, Some(left)) => parts.push(format!("{} left", duration(left))),
            _ => {}
        }
        parts.join(", ")
    }

    /// The keys of a JSON line. The guide describes them.
    fn fields(&self) -> Map<String, Value> {
        let state = match self.state {
            StageState::Running => "running",
            StageState::Finishing => "finishing",
            StageState::Finished => "finished",
        };
        let rounded = |value: f64| (value * 1e3).round() / 1e3;
        let fields = json!({
            "stage": self.stage.name(),
            "state": state,
            "done": self.done,
            "total": self.total,
            "unit": self.stage.unit(),
            "share": self.share.map(rounded),
            "per_second": rounded(self.per_second),
            "seconds": rounded(self.seconds),
            "seconds_left": self.seconds_left.map(rounded),
            "memory_bytes": self.memory,
        });
        fields.as_object().cloned().unwrap_or_default()
    }

    /// Where the bar ends, in [`BAR_UNITS`].
    fn bar_position(&self) -> u64 {
        truncate_to_u64(self.share.unwrap_or_default() * to_f64(BAR_UNITS))
    }
}

/// Returns whether a stage pauses while [`Stage::Prepare`] runs.
fn is_paused_by_preparing(stage: Stage) -> bool {
    matches!(stage, Stage::Train | Stage::Replay)
}

/// Returns the index of a stage's counters. Below [`KINDS`].
fn kind(stage: Stage) -> usize {
    match stage {
        Stage::Download => 0,
        Stage::Count => 1,
        Stage::Prepare => 2,
        Stage::Train => 3,
        Stage::Replay => 4,
        Stage::Encode => 5,
        Stage::Verify => 6,
        Stage::Upload => 7,
    }
}

/// Returns a bar if the total is known, and a spinner otherwise. The name has eight columns, so that the bars of
/// several stages are aligned. A thin line is the part that is not done.
fn bar_style(total: Option<u64>) -> ProgressStyle {
    let template = match total {
        Some(_) => "{prefix:>8} {bar:24} {msg}",
        None => "{prefix:>8} {spinner} {msg}",
    };
    ProgressStyle::with_template(template).expect("a template that is right").progress_chars("━╸─")
}

/// Formats an amount in the unit of the stage: merges or bytes. Positions mean nothing to people.
fn shown(stage: Stage, amount: u64) -> Option<String> {
    match stage.unit() {
        "merges" => Some(with_unit(amount, "merge")),
        "bytes" => Some(ByteCount(amount).to_string()),
        _ => None,
    }
}

/// Formats the speed of a stage: merges or megabytes per second.
fn rate(stage: Stage, per_second: f64) -> Option<String> {
    match stage.unit() {
        "merges" => Some(format!("{per_second:.0}/s")),
        "bytes" => Some(format!("{:.1} MB/s", per_second / 1e6)),
        _ => None,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// An amount, and the work done and left, if it is estimated.
    type Amounts = (u64, Option<(f64, f64)>);

    /// A stage with these amounts, a second between each two.
    fn running(stage: Stage, total: Option<u64>, amounts: &[Amounts]) -> Running {
        let start = Instant::now();
        let sample = |number: u32, (done, work): Amounts| {
            let work = work.map(|(done, left)| Work { done, left });
            Sample { at: start + SAMPLE_PERIOD * number, done, work }
        };
        let mut samples = (0..).zip(amounts).map(|(number, &amounts)| sample(number, amounts));
        let mut running = Running::new(stage, total, samples.next().expect("a start"), ProgressBar::hidden());
        samples.for_each(|sample| running.take(sample));
        running
    }

    /// The same without an estimate of work.
    fn plain(total: Option<u64>, amounts: impl IntoIterator<Item = u64>) -> Report {
        let amounts: Vec<_> = amounts.into_iter().map(|done| (done, None)).collect();
        Report { memory: None, ..running(Stage::Encode, total, &amounts).report() }
    }

    /// Rates forget what happened more than ten seconds ago.
    #[test]
    fn rates_are_those_of_the_last_seconds() {
        let slow_then_fast =
            (0..=20).map(|n| n * 1_000_000).chain((1..=10).map(|n| (20 + 5 * n) * 1_000_000));
        let report = plain(Some(100_000_000), slow_then_fast);
        assert_eq!(report.text(), "70 MB of 100 MB (70 %), 5.0 MB/s, 6.0 s left");
        assert_eq!(report.seconds, 30.0);
    }

    /// A stage that does not advance has no time left that could be said.
    #[test]
    fn a_stage_that_stands_says_no_time() {
        let stands = plain(Some(100_000_000), (0..30).map(|n: u64| n.min(10) * 1_000_000));
        assert_eq!(stands.text(), "10 MB of 100 MB (10 %), 0.0 MB/s");
        assert_eq!(plain(None, [0, 3_000_000, 6_000_000]).text(), "6.0 MB, 3.0 MB/s");
    }

    /// The percentage is rounded down, and a stage never stands at 99 %.
    #[test]
    fn a_stage_never_stands_at_99_percent() {
        let nearly = |n: u64| (n * 60_000_000).min(119_900_000);
        assert!(plain(Some(120_000_000), (0..3).map(nearly)).text().contains("(99 %), 60.0 MB/s, "));
        assert!(plain(Some(120_000_000), (0..6).map(nearly)).text().ends_with(", finishing"));
        assert!(
            plain(Some(120_000_000), [0, 120_000_000]).text().ends_with("(100 %), 120.0 MB/s, finishing")
        );
    }

    /// Of a stage that estimates its work, share and time left are those of the work, not of the amount.
    #[test]
    fn the_time_left_follows_from_the_work() {
        let training = running(
            Stage::Train,
            Some(32_000),
            &[(0, None), (10, Some((400.0, 800.0))), (40, Some((800.0, 400.0)))],
        );
        let report = Report { memory: None, ..training.report() };
        assert_eq!(report.text(), "40 merges of 32000 merges (66 % of the work), 20/s, 1.0 s left");
        assert_eq!(report.bar_position(), 666);
        let fields = report.fields();
        assert_eq!((&fields["seconds_left"], &fields["share"]), (&json!(1.0), &json!(0.667)));
        assert_eq!((&fields["unit"], &fields["total"]), (&json!("merges"), &json!(32_000)));
    }

    /// A pause does not count as slowness.
    #[test]
    fn rates_start_again_after_a_pause() {
        let mut training = running(Stage::Train, Some(900), &[(0, None), (300, None)]);
        let last = *training.samples.back().expect("a sample");
        let later = |seconds| Sample { at: last.at + SAMPLE_PERIOD * seconds, ..last };
        training.restart(later(9));
        training.take(Sample { done: 500, ..later(11) });
        let report = Report { memory: None, ..training.report() };
        assert_eq!(report.text(), "500 merges of 900 merges (55 %), 100/s, 4.0 s left");
    }

    /// Positions of the text are not shown, but they are in JSON.
    #[test]
    fn preparing_is_shown_in_percent() {
        let preparing = running(Stage::Prepare, Some(900), &[(0, None), (300, None), (450, None)]);
        let report = Report { memory: Some(ByteCount(5_000_000)), ..preparing.report() };
        assert_eq!(report.text(), "50 %, memory 5.0 MB, 2.0 s left");
        let fields = report.fields();
        assert_eq!((&fields["done"], &fields["unit"]), (&json!(450), &json!("positions")));
        let end = *preparing.samples.back().expect("a sample");
        let summary = Report { memory: None, ..preparing.summary(end) };
        assert_eq!(summary.text(), "done in 2.0 s");
        assert_eq!(summary.fields()["state"], "finished");
    }
}
