//! Measures the time and memory of each stage of a run.

use std::time::Instant;

use crate::error::Result;
use crate::report::StageCost;

/// Records the cost of each stage of a run.
#[derive(Default)]
pub(super) struct Costs {
    pub(super) stages: Vec<StageCost>,
}

impl Costs {
    /// Runs and records a stage. `work` returns its result and the number of bytes of text that it processed.
    pub(super) fn stage<T>(&mut self, name: &str, work: impl FnOnce() -> Result<(T, u64)>) -> Result<T> {
        let start = Instant::now();
        let (result, text_bytes) = work()?;
        self.stages.push(StageCost::new(name, start.elapsed().as_secs_f64(), text_bytes, peak_memory()));
        Ok(result)
    }

    /// Seconds that all stages of this name took.
    pub(super) fn seconds(&self, name: &str) -> f64 {
        self.stages.iter().filter(|stage| stage.name == name).map(|stage| stage.seconds).sum()
    }
}

/// Peak resident memory of this process so far, in bytes; `None` where the system does not report it (other than
/// Linux).
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}
