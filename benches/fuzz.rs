//! Throws damaged input at everything that reads files and answers of servers: no panic, no hang, no memory that input
//! only claims to need, and nothing wrong where it would be trusted.
//!
//! `TOKENMILL_FUZZ_S` is the seconds for each target, 5 unless set; `TOKENMILL_FUZZ_SEED` begins elsewhere;
//! `TOKENMILL_FUZZ_ONLY` takes the targets whose names have this in them. Seeds are made by the program's own writers, or
//! are what the tests' servers answer, and then cut, flipped, repeated, spliced, and given other numbers; JSON gets other
//! trees, too. What ends in a panic, takes longer than two seconds, or more than a gigabyte, is a finding: it is kept in
//! `target/fuzz`, and the run fails. Run it with `ulimit -v 8000000`, so that a huge allocation is one too.

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

use tokenmill::panics::is_catching;

use damage::Random;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Longer is a hang.
const SLOW: Duration = Duration::from_secs(2);

/// More memory than any of the inputs needs.
const MUCH_KB: u64 = 1 << 20;

/// The last panic of any thread that nobody makes an error of.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// A reader, the name that its file must have, and files that it reads.
struct Target {
    name: String,
    file: &'static str,
    seeds: Vec<Vec<u8>>,
    /// Reads a file, and says whether there was nothing wrong with it.
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

    /// What is wrong with reading a file: a panic, long waiting each time, or much memory.
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
            // Begins to measure anew.
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
        if !is_catching() {
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
            return Err(format!("{}: what is whole is refused", target.name).into());
        }
        let (begun, mut executions, mut accepted, mut found) = (Instant::now(), 0_u64, 0, 0);
        while begun.elapsed() < Duration::from_secs(seconds) {
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

/// The most memory that this process has had, where the system tells.
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
