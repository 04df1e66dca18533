//! Bad Parquet files. Whatever command reads one, it ends in an error or a defined result, soon and within
//! little memory.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "bad_parquet/cases.rs"]
mod cases;
#[path = "bad_parquet/made.rs"]
mod made;
#[path = "bad_parquet/parts.rs"]
mod parts;
#[path = "bad_parquet/thrift.rs"]
mod thrift;

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokenmill::observer::Silent;
use tokenmill::sink::{Manifest, TokenReader};
use tokenmill::source::{OpenContext, SourceSpec, in_order, open};

use cases::Becomes;
use parts::Parts;

/// Limit on virtual memory in kB (`ulimit -v`): little more than the program reserves for any input.
const MEMORY_KB: u64 = 1_500_000;

/// A run that takes longer counts as a hang.
const DEADLINE: Duration = Duration::from_secs(20);

/// How a run of the program ended.
struct Ran {
    code: Option<i32>,
    said: String,
    took: Duration,
}

/// Runs the program in a folder, with [`MEMORY_KB`] of memory, until [`DEADLINE`].
fn run(folder: &Path, arguments: &str) -> Ran {
    let stderr = folder.join("stderr");
    let limited = format!("ulimit -v {MEMORY_KB} && exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &limited, env!("CARGO_BIN_EXE_tokenmill"), "--threads", "1", "--memory", "1GB"]);
    command.args(arguments.split(' ')).current_dir(folder).env_remove("RUST_BACKTRACE");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&stderr).unwrap());
    let started_at = Instant::now();
    let mut child = command.spawn().unwrap();
    let code = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if started_at.elapsed() > DEADLINE {
            child.kill().unwrap();
            break child.wait().unwrap().code();
        }
        thread::sleep(Duration::from_millis(2));
    };
    Ran {
        code,
        said: String::from_utf8_lossy(&fs::read(stderr).unwrap()).into_owned(),
        took: started_at.elapsed(),
    }
}

impl Ran {
    /// Says how the run violates the expectation, with its duration and the start of its messages; `None` if it
    /// does not.
    fn wrong(&self, expected: Becomes) -> Option<String> {
        let said: String = self.said.chars().take(600).collect();
        let wrong = match self.code {
            None => Some("ended by a signal, or at the deadline"),
            Some(_) if self.said.contains("panicked") => Some("panicked"),
            Some(0) if expected == Becomes::Error => Some("is no error"),
            Some(1 | 2 | 4 | 8) if expected == Becomes::Read => Some("is an error"),
            Some(0) => None,
            // Code 8 is for input that needs more than the memory limit.
            Some(1 | 2 | 4 | 8) => {
                let names = self.said.contains("bad") || self.said.contains("nothing to train on");
                (!names).then_some("does not name the file")
            }
            Some(_) => Some("ended with another code"),
        };
        wrong.map(|wrong| format!("{wrong} after {:?}: {said}", self.took))
    }
}

/// A folder with a tokenizer and a finished output that holds these ids.
fn folder(ids: &[u8]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("good.txt"), "some words and some other words").unwrap();
    for arguments in ["train good.txt --merges 5 -o tokenizer", "encode good.txt -t tokenizer -o out"] {
        assert_eq!(run(folder.path(), arguments).code, Some(0), "{arguments}");
    }
    put_ids(folder.path(), ids);
    folder
}

/// Replaces the data file of an output by `file`, with its size and hash in the manifest.
fn put_ids(folder: &Path, file: &[u8]) {
    let out = folder.join("out");
    let mut manifest = Manifest::read(&out).unwrap().unwrap();
    let entry = &mut manifest.files[0];
    fs::remove_file(out.join(&entry.name)).unwrap();
    "data/bad.parquet".clone_into(&mut entry.name);
    fs::write(out.join(&entry.name), file).unwrap();
    entry.bytes = u64::try_from(file.len()).unwrap();
    entry.rows = u64::try_from(cases::ROWS).unwrap();
    entry.sha256 = Sha256::digest(file).iter().map(|byte| format!("{byte:02x}")).collect();
    manifest.write(&out).unwrap();
}

/// A file with something wrong, and the required outcome of reading it.
struct Bad {
    name: String,
    becomes: Becomes,
    file: Vec<u8>,
    /// The command lines that read it.
    reads: &'static [&'static str],
}

const TEXT: &[&str] = &[
    "train bad.parquet --merges 5 -o learned",
    "encode bad.parquet -t tokenizer -o encoded --force",
    "plan r.toml",
];
const IDS: &[&str] = &["decode bad.parquet -t tokenizer", "verify out"];
const COUNTS: &[&str] = &["merge-counts bad.parquet -o merged.parquet"];

const RECIPE: &str =
    "[source]\nuri = \"bad.parquet\"\n[train]\nsplit = \"gpt2\"\nmerges = 5\n[output]\ndir = \"planned\"\n";

/// Reads each file with each of its commands and returns all violations.
fn all_wrong(bad: &[Bad]) -> Vec<String> {
    let folder = folder(&made::ids());
    let path = folder.path();
    fs::write(path.join("r.toml"), RECIPE).unwrap();
    let mut wrong = Vec::new();
    for Bad { name, becomes, file, reads } in bad {
        fs::write(path.join("bad.parquet"), file).unwrap();
        if reads.contains(&"verify out") {
            put_ids(path, file);
        }
        for arguments in *reads {
            // An input with an unchanged footer would count as encoded already, so that its pages would not be
            // read again.
            drop(fs::remove_dir_all(path.join("encoded")));
            // `plan` and `verify` read only the footer.
            let looks = arguments.starts_with("plan") || arguments.starts_with("verify");
            let becomes = if looks && *becomes == Becomes::Error { Becomes::Either } else { *becomes };
            wrong.extend(
                run(path, arguments).wrong(becomes).map(|wrong| format!("{name}: {arguments} {wrong}\n")),
            );
        }
    }
    wrong
}

/// Checks the files on two threads and reports all violations in one failure.
fn check(bad: &[Bad]) {
    let wrong: Vec<String> = thread::scope(|scope| {
        let halves = bad.chunks(bad.len().div_ceil(2)).map(|half| scope.spawn(|| all_wrong(half)));
        halves.collect::<Vec<_>>().into_iter().flat_map(|half| half.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Each case of `cases` and `made::foreign` has its required outcome with every command.
#[test]
fn what_is_wrong_is_an_error_or_read_as_it_stands() {
    let (text, ids, counts) = (made::text(), made::ids(), made::counts());
    let (text, ids, counts) = (Parts::of(&text), Parts::of(&ids), Parts::of(&counts));
    let case = |base: &Parts, of: &str, reads, (name, becomes, change): &cases::Case| Bad {
        name: format!("{name} ({of})"),
        becomes: *becomes,
        file: change.made(base.clone()),
        reads,
    };
    let both = [cases::FILE, cases::INDEX, cases::PAGES].concat();
    let mut bad: Vec<Bad> = both.iter().map(|one| case(&text, "text", TEXT, one)).collect();
    bad.extend(both.iter().map(|one| case(&ids, "ids", IDS, one)));
    let whole = [cases::FILE, cases::INDEX].concat();
    bad.extend(whole.iter().map(|one| case(&counts, "counts", COUNTS, one)));
    bad.extend(cases::TEXT.iter().map(|one| case(&text, "text", TEXT, one)));
    bad.extend(made::foreign().into_iter().map(|(name, becomes, file)| Bad {
        name: name.to_owned(),
        becomes,
        file,
        reads: TEXT,
    }));
    // A document of 100 MB needs that much memory however well it compresses. Encoding is left out because it
    // takes too long.
    bad.push(Bad {
        name: "100 MB of zeros".to_owned(),
        becomes: Becomes::Read,
        file: made::zeros(100_000_000),
        reads: &["train bad.parquet --merges 5 -o learned", "plan r.toml"],
    });
    check(&bad);
}

/// A file with other columns than the first one is named, unless the missing column becomes null or is not
/// needed.
#[test]
fn files_of_one_source_have_the_same_columns() {
    let folder = folder(&made::ids());
    let bad = folder.path().join("bad");
    fs::create_dir(&bad).unwrap();
    fs::write(bad.join("a.parquet"), made::text()).unwrap();
    for other in [made::ids(), made::counts(), made::zeros(9)] {
        fs::write(bad.join("b.parquet"), other).unwrap();
        for arguments in ["train bad --merges 5 -o learned", "encode bad -t tokenizer -o encoded --columns n"]
        {
            let ran = run(folder.path(), arguments);
            let same = ran.code == Some(0) && arguments.starts_with("train");
            let lacking = ran.code == Some(0) && ran.said.contains("column \"n\" is null in 1 file");
            assert!(
                same || (lacking || ran.code == Some(2)) && ran.said.contains("b.parquet"),
                "{arguments}: {}",
                ran.said
            );
        }
    }
}

/// The sizes that the files declare add up to more than 64 bits can hold.
#[test]
fn files_of_one_source_can_say_to_have_more_than_can_be_told() {
    let folder = folder(&made::ids());
    let bad = folder.path().join("bad");
    fs::create_dir(&bad).unwrap();
    let file = Parts::of(&made::text()).file(|file| {
        (0..2).for_each(|column| file.column(column).set(parts::UNCOMPRESSED, thrift::Value::int(i64::MAX)));
        file.index.at(&[parts::ROW_GROUPS, 0]).set(parts::GROUP_ROWS, thrift::Value::int(i64::MAX));
    });
    (0..3).for_each(|number| fs::write(bad.join(format!("{number}.parquet")), &file).unwrap());
    fs::write(folder.path().join("r.toml"), RECIPE.replace("bad.parquet", "bad")).unwrap();
    for (arguments, code) in [
        ("plan r.toml", 0),
        ("train bad --merges 5 -o learned", 1),
        ("encode bad -t tokenizer -o encoded --columns n", 1),
    ] {
        let ran = run(folder.path(), arguments);
        assert_eq!(ran.code, Some(code), "{arguments}: {}", ran.said);
    }
}

/// Reads a file in this process, as text and as token ids, until an error.
fn read_here(path: &Path) {
    let spec = SourceSpec { uri: path.display().to_string(), ..SourceSpec::default() };
    if let Ok(source) = open(&spec, 0, &OpenContext::new(&Silent)) {
        in_order(vec![source], 1).take_while(Result::is_ok).for_each(drop);
    }
    if let Ok(reader) = TokenReader::open(path) {
        reader.take_while(Result::is_ok).for_each(drop);
    }
}

/// A file that is cut, or changed at one byte, causes no panic, wherever that is.
#[test]
fn cut_or_changed_at_any_byte_it_is_read_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.parquet");
    for whole in [made::text(), made::ids()] {
        for at in 0..whole.len() {
            fs::write(&path, &whole[..at]).unwrap();
            read_here(&path);
            let mut changed = whole.clone();
            for byte in [0, 0x7F, 0xFF] {
                changed[at] = byte;
                fs::write(&path, &changed).unwrap();
                read_here(&path);
            }
        }
    }
}
