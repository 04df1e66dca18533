//! Fuzzing: feeds damaged input to everything that reads files or answers of servers. Checks that it never
//! panics, hangs, allocates the memory that input merely claims to need, or accepts wrong data where that would
//! be trusted.
//!
//! `TOKENMILL_FUZZ_S` is the number of seconds per target (default 5). `TOKENMILL_FUZZ_SEED` is the seed of the
//! random numbers. `TOKENMILL_FUZZ_ONLY` selects the targets with this text in their names. The seed files are
//! written by the program itself, or are answers of the test servers. They are then cut, flipped, repeated,
//! spliced and given other numbers; JSON also gets other trees. An input is a finding if it ends in a panic,
//! takes longer than two seconds, or needs more than a gigabyte. Findings are kept in `target/fuzz`, and the
//! run fails. Run it with `ulimit -v 8000000`, so that a huge allocation is a finding too.

#![expect(clippy::print_stdout, reason = "a benchmark says what it measured")]

#[path = "fuzz/damage.rs"]
mod damage;
#[cfg(feature = "hub")]
#[path = "fuzz/network.rs"]
mod network;
#[path = "fuzz/readers.rs"]
mod readers;
#[path = "fuzz/state.rs"]
mod state;

use std::error::Error;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokenmill::error::is_catching_panics;

use damage::Random;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Time from which on reading an input counts as a hang.
const SLOW: Duration = Duration::from_secs(2);

/// kB of memory, more than any of the inputs needs.
const MUCH_KB: u64 = 1 << 20;

/// The last panic of any thread that was not turned into an error.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// A reader to fuzz, the name that its file must have, and valid files for it.
struct Target {
    name: String,
    file: &'static str,
    seeds: Vec<Vec<u8>>,
    /// Reads a file. Returns whether it was accepted as valid.
    read: Box<dyn Fn(&Path) -> bool>,
}

impl Target {
    fn new(
        name: impl Into<String>,
        file: &'static str,
        seeds: Vec<Vec<u8>>,
        read: impl Fn(&Path) -> bool + 'static,
    ) -> Target {
        Target { name: name.into(), file, seeds, read: Box::new(read) }
    }

    /// Reads a file and returns the fault, if any: a panic, a long time in two attempts, or much memory.
    fn fault(&self, path: &Path, accepted: &mut u64) -> Option<String> {
        let read = || {
            let start = Instant::now();
            let outcome = catch_unwind(AssertUnwindSafe(|| (self.read)(path)));
            (outcome.unwrap_or(false), start.elapsed() > SLOW)
        };
        let (accepts, slow) = read();
        *accepted += u64::from(accepts);
        let memory = peak_kb();
        if memory > MUCH_KB {
            // Resets the peak memory of the process.
            drop(fs::write("/proc/self/clear_refs", "5"));
            return Some(format!("{} MB", memory >> 10));
        }
        let panic = PANIC.lock().unwrap_or_else(PoisonError::into_inner).take();
        panic.or_else(|| (slow && read().1).then(|| "slow".to_owned()))
    }
}

fn main() -> Result<()> {
    let seconds = number("TOKENMILL_FUZZ_S")?.unwrap_or(5);
    let only = std::env::var("TOKENMILL_FUZZ_ONLY").unwrap_or_default();
    let mut random = Random(number("TOKENMILL_FUZZ_SEED")?.unwrap_or(1).max(1));
    let scratch = tempfile::tempdir()?;
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/fuzz");
    std::panic::set_hook(Box::new(|panic| {
        if !is_catching_panics() {
            *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic.to_string());
        }
    }));
    let (mut all, mut findings, mut peak) = (0, 0, 0);
    for target in targets(scratch.path())?.iter().filter(|target| target.name.contains(&only)) {
        let folder = scratch.path().join("damaged");
        fs::create_dir_all(&folder)?;
        let path = folder.join(target.file);
        let reads = |seed| fs::write(&path, seed).is_ok() && (target.read)(&path);
        if !target.seeds.iter().any(reads) {
            return Err(format!("{}: valid input is refused", target.name).into());
        }
        let (started_at, mut executions, mut accepted, mut found) = (Instant::now(), 0_u64, 0, 0);
        while started_at.elapsed() < Duration::from_secs(seconds) {
            let input = random.damaged(&target.seeds);
            fs::write(&path, &input)?;
            executions += 1;
            if let Some(fault) = target.fault(&path, &mut accepted) {
                found += 1;
                let name = format!("{}-{executions}-{}", target.name, target.file);
                println!("{name}: {fault}");
                fs::create_dir_all(&kept)?;
                fs::write(kept.join(name), &input)?;
            }
            peak = peak.max(peak_kb());
        }
        println!("{:18} {executions:9} executions, {accepted:9} accepted, {found} findings", target.name);
        fs::remove_dir_all(&folder)?;
        (all, findings) = (all + executions, findings + found);
    }
    println!("{:18} {all:9} executions, {findings} findings, {} MB of memory at most", "all", peak >> 10);
    if findings > 0 {
        return Err(format!("see {}", kept.display()).into());
    }
    Ok(())
}

fn number(variable: &str) -> Result<Option<u64>> {
    Ok(std::env::var(variable).ok().map(|text| text.parse()).transpose()?)
}

/// The peak memory of this process in kB, or 0 if the system does not report it.
fn peak_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

fn targets(scratch: &Path) -> Result<Vec<Target>> {
    let mut targets = readers::targets(&scratch.join("made"))?;
    targets.extend(state::targets(&scratch.join("state"))?);
    #[cfg(feature = "hub")]
    targets.extend(network::targets(&scratch.join("network"))?);
    Ok(targets)
}
