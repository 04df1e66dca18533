use std::time::Instant;

use crate::error::Result;
use crate::report::StageCost;

/// Notes what each stage of a run costs.
#[derive(Default)]
pub(super) struct Costs {
    pub(super) stages: Vec<StageCost>,
}

impl Costs {
    /// Runs a stage, which gives its result and the bytes of text it worked on.
    pub(super) fn stage<T>(&mut self, name: &str, work: impl FnOnce() -> Result<(T, u64)>) -> Result<T> {
        let start = Instant::now();
        let (result, text_bytes) = work()?;
        self.stages.push(StageCost::new(name, start.elapsed().as_secs_f64(), text_bytes, peak_memory()));
        Ok(result)
    }

    /// Seconds that a stage took.
    pub(super) fn seconds(&self, name: &str) -> f64 {
        self.stages.iter().filter(|stage| stage.name == name).map(|stage| stage.seconds).sum()
    }
}

/// The most memory this process has had so far, in bytes, where the system tells.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}
