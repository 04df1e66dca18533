//! `bench`: measures how fast documents in memory are encoded.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use sha2::{Digest, Sha256};
use tokenmill::base::int::{ByteCount, to_f64, to_u64};
use tokenmill::encode::{EncodeConfig, Encoder, TokenBatch, encode_batches};
use tokenmill::run::{Inputs, Plan, peak_memory, with_threads};
use tokenmill::source::Batch;
use tokenmill::vocab::load;
use tokenmill::{Observer, Result};

use super::args::BenchArgs;
use super::environment::{open_context, processor_time, tokenizer};
use super::failure::Failure;
use super::flags;
use super::session::{Done, Session, print};
use super::shown::counted;

/// The results of a measurement. Times are in seconds.
#[derive(Debug, Serialize)]
struct Measured {
    /// Number of documents, null rows not counted.
    documents: u64,
    text_bytes: u64,
    tokens: u64,
    threads: usize,
    /// Time to read the documents into memory.
    read_s: f64,
    /// Time to load the tokenizer and to prepare the encoder.
    load_s: f64,
    /// Wall-clock time of encoding.
    encode_s: f64,
    /// Processor time of encoding, of all threads together, if the system reports it.
    encode_cpu_s: Option<f64>,
    /// Megabytes (10^6 bytes) of text per second of wall-clock time.
    mb_per_s: f64,
    /// Highest memory use of the process so far, if the system reports it.
    peak_memory_bytes: Option<ByteCount>,
    /// Hash of all ids in order; see [`digest`].
    ids_sha256: String,
}

/// Runs `bench`: reads the inputs into memory, encodes them, and prints times, the speed, and a hash of all ids.
///
/// The hash shows whether two programs, versions or machines give the same ids.
pub(super) fn bench(args: &BenchArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let plan = session.plan(flags::bench(args))?;
    let progress = session.progress();
    let path = tokenizer(&args.tokenizer.tokenizer, &progress)?;
    // One thread reads, so that the order of the text in memory does not depend on the number of threads that encode
    // it.
    let reading = Plan { threads: 1, ..plan.clone() };
    let input = Inputs::open(&reading, &open_context(&reading, &progress))?;
    let measured = with_threads(plan.threads, || measure(args, &path, &input, plan.threads, &progress))?;
    if session.json() {
        session.print_json(&measured)?;
    } else {
        print(|out| measured.write(out))?;
    }
    Ok(session.done(input.skipped(&progress)))
}

/// Reads the documents into memory, loads the tokenizer, and measures the encoding.
fn measure(
    args: &BenchArgs,
    path: &Path,
    input: &Inputs<'_>,
    threads: usize,
    observer: &dyn Observer,
) -> Result<Measured> {
    let start = Instant::now();
    let documents = input.documents().map(|batch| observer.checkpoint().and(batch));
    let documents: Vec<Batch> = documents.collect::<Result<_>>()?;
    input.check_stamps()?;
    let read_s = start.elapsed().as_secs_f64();
    let text_bytes: u64 = documents.iter().map(Batch::text_bytes).sum();

    let start = Instant::now();
    let vocabulary = load(path, &args.tokenizer.options(), observer)?;
    let missing_bytes = args.missing_bytes.unwrap_or_default();
    let config = EncodeConfig { missing_bytes, ..EncodeConfig::default() };
    let encoder = Encoder::new(vocabulary, config)?.prepared().expecting(ByteCount(text_bytes));
    let load_s = start.elapsed().as_secs_f64();

    let count = documents.iter().map(documents_with_text).sum();
    // Encoding frees each text when it is done. The last batch is kept until after the measurement, since no other
    // encoding would run while it is freed.
    let last = documents.last().cloned();
    let (start, used) = (Instant::now(), processor_time());
    let encoded = encode(documents, &encoder, input, observer)?;
    let (encode_s, encode_cpu_s) = (start.elapsed().as_secs_f64(), used.and_then(time_since));
    drop(last);
    Ok(Measured {
        documents: count,
        text_bytes,
        tokens: encoded.iter().map(|batch| to_u64(batch.ids.len())).sum(),
        threads,
        read_s,
        load_s,
        encode_s,
        encode_cpu_s,
        mb_per_s: to_f64(text_bytes) / 1e6 / encode_s.max(1e-9),
        peak_memory_bytes: peak_memory().map(ByteCount),
        ids_sha256: digest(&encoded),
    })
}

/// Returns the number of documents that end in a batch, without null rows.
fn documents_with_text(batch: &Batch) -> u64 {
    let nulls = batch.iter().filter(Option::is_none).count();
    to_u64(batch.len() - nulls) - u64::from(batch.open)
}

/// Passes on the wish to stop, but no progress, which would be measured, too.
struct Quiet<'a>(&'a dyn Observer);

impl Observer for Quiet<'_> {
    fn stopping(&self) -> bool {
        self.0.stopping()
    }
}

/// Encodes the documents and keeps the ids in memory.
fn encode(
    documents: Vec<Batch>,
    encoder: &Encoder,
    input: &Inputs<'_>,
    observer: &dyn Observer,
) -> Result<Vec<TokenBatch>> {
    let mut encoded = Vec::new();
    let documents = Box::new(documents.into_iter().map(Ok));
    let name = |source, unit| input.name(source, unit);
    encode_batches(documents, encoder, name, &Quiet(observer), |batch| {
        encoded.push(batch);
        Ok(())
    })?;
    Ok(encoded)
}

/// Returns the processor time since `before`, in seconds.
fn time_since(before: Duration) -> Option<f64> {
    Some(processor_time()?.saturating_sub(before).as_secs_f64())
}

/// Returns the SHA-256 of all ids as 32-bit little-endian numbers, in hexadecimal.
fn digest(encoded: &[TokenBatch]) -> String {
    let mut digest = Sha256::new();
    let mut bytes = Vec::new();
    for batch in encoded {
        bytes.clear();
        batch.ids.append_to(&mut bytes, |id| id.get().to_le_bytes());
        digest.update(&bytes);
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Measured {
    /// Writes the results for people.
    fn write(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        writeln!(
            out,
            "{}, {}, {}",
            counted(self.documents, "document"),
            ByteCount(self.text_bytes),
            counted(self.tokens, "token"),
        )?;
        writeln!(
            out,
            "encoded in {:.3} s with {}: {:.1} MB/s",
            self.encode_s,
            counted(to_u64(self.threads), "thread"),
            self.mb_per_s
        )?;
        if let Some(used) = self.encode_cpu_s {
            writeln!(out, "processor time {used:.3} s")?;
        }
        writeln!(out, "reading {:.3} s, loading the tokenizer {:.3} s", self.read_s, self.load_s)?;
        writeln!(out, "ids {}", self.ids_sha256)
    }
}
