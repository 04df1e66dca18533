//! Cost of reading a large Parquet file of a hub by byte ranges, compared with reading it from disk: time,
//! memory, and bytes sent.
//!
//! The hub is the one of the tests, on the loopback interface. The file has two columns of about the same size,
//! and only one of them is needed. `TOKENMILL_STREAM_MB` is its size in MB (default 1000).

#![expect(clippy::print_stdout, reason = "a benchmark says what it measured")]

#[path = "../tests/support/hub.rs"]
mod fake;

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use fake::{COMMIT, FakeHub, Part};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const NAME: &str = "somebody/words";
/// Rows that are written at a time. Eight such portions make a row group.
const ROWS: usize = 50_000;
const ROUNDS: usize = 3;

fn main() -> Result<()> {
    let megabytes: usize = std::env::var("TOKENMILL_STREAM_MB").map_or(Ok(1_000), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("words.parquet");
    write(&file, megabytes * 1_000_000)?;
    let (total, needed) = sizes(&file)?;
    println!("file {} MB, needed columns {} MB", total / 1_000_000, needed / 1_000_000);
    let hub = FakeHub::start(NAME);
    hub.put(COMMIT, "words.parquet", fs::read(&file)?, true);
    let uri = format!("hf://datasets/{NAME}/words.parquet");
    let mut local = Vec::new();
    let mut streamed = Vec::new();
    for _ in 0..ROUNDS {
        local.push(train(&file.to_string_lossy(), false, &hub, folder.path())?);
        hub.asked();
        streamed.push(train(&uri, true, &hub, folder.path())?);
        let asked = hub.asked();
        println!("{} requests", asked.len());
        let sent: usize =
            asked.iter().filter(|asked| asked.part == Part::Files).map(|asked| asked.sent).sum();
        println!("sent {:.4} of the needed bytes", as_f64(sent) / as_f64(needed));
        assert_eq!(local[0].tokenizer, streamed[streamed.len() - 1].tokenizer, "the same from both");
    }
    let least = |runs: &[Run]| runs.iter().map(|run| run.wall).min().unwrap_or_default().as_secs_f64();
    let peak = |runs: &[Run]| runs.iter().map(|run| run.peak_kb).max().unwrap_or_default() / 1024;
    println!("from disk   {:.2} s, {} MiB at most", least(&local), peak(&local));
    println!("by ranges   {:.2} s, {} MiB at most", least(&streamed), peak(&streamed));
    println!("ratio       {:.2}", least(&streamed) / least(&local));
    Ok(())
}

/// Writes two columns with about `bytes` bytes together.
fn write(path: &Path, bytes: usize) -> Result<()> {
    let properties = WriterProperties::builder()
        .set_compression(parquet::basic::Compression::SNAPPY)
        .set_dictionary_enabled(false)
        .set_max_row_group_row_count(Some(8 * ROWS))
        .build();
    let mut writer = None;
    let mut number: u64 = 1;
    let mut random = || {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        number
    };
    loop {
        let mut column = || -> ArrayRef {
            let line = |_| {
                let words = (0..12).map(|_| format!("{:x}", random() % (1 << (random() % 20))));
                words.collect::<Vec<_>>().join(" ")
            };
            Arc::new((0..ROWS).map(line).map(Some).collect::<StringArray>())
        };
        let rows = RecordBatch::try_from_iter([("text", column()), ("other", column())])?;
        if writer.is_none() {
            let file = fs::File::create(path)?;
            writer = Some(ArrowWriter::try_new(file, rows.schema(), Some(properties.clone()))?);
        }
        let Some(open) = &mut writer else { continue };
        open.write(&rows)?;
        if open.bytes_written() + open.in_progress_size() >= bytes {
            break;
        }
    }
    if let Some(writer) = writer {
        writer.close()?;
    }
    Ok(())
}

/// Size in bytes of the file, and of the column chunks of its first column.
fn sizes(path: &Path) -> Result<(usize, usize)> {
    let file = fs::File::open(path)?;
    let total = usize::try_from(file.metadata()?.len())?;
    let reader = SerializedFileReader::new(file)?;
    let groups = reader.metadata().row_groups();
    let needed: i64 = groups.iter().map(|group| group.column(0).compressed_size()).sum();
    Ok((total, usize::try_from(needed)?))
}

struct Run {
    wall: Duration,
    peak_kb: u64,
    tokenizer: Vec<u8>,
}

fn train(input: &str, stream: bool, hub: &FakeHub, home: &Path) -> Result<Run> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tokenmill"));
    command.current_dir(home).env("HF_ENDPOINT", &hub.endpoint).env("HF_HOME", home.join("hf"));
    command.args(["train", input, "--split", "gpt2", "--merges", "1000", "-o", "out", "-q"]);
    command.args(stream.then_some("--stream"));
    let started_at = Instant::now();
    let mut child = command.spawn()?;
    let status = format!("/proc/{}/status", child.id());
    let mut peak_kb = 0;
    let outcome = loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let peak = text
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        peak_kb = peak.unwrap_or(peak_kb).max(peak_kb);
        if let Some(outcome) = child.try_wait()? {
            break outcome;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let wall = started_at.elapsed();
    assert!(outcome.success(), "{input}");
    Ok(Run { wall, peak_kb, tokenizer: fs::read(home.join("out/tokenizer.json"))? })
}

#[expect(clippy::as_conversions, reason = "sizes of files, to be shown")]
fn as_f64(number: usize) -> f64 {
    number as f64
}
