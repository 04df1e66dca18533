//! Serves the files of a folder as a dataset and as a model on a local imitation of the Hugging Face hub, to
//! try programs without the network. Commits that programs push are kept until it ends.
//!
//!     cargo run --example fake_hub -- FOLDER [--name NAMESPACE/NAME] [--rate BYTES_A_SECOND]
//!
//! Prints the value for `HF_ENDPOINT` on one line and serves until standard input ends. The tests use the same
//! server.

#![expect(clippy::print_stdout, reason = "the address is the result")]

#[path = "../tests/support/hub.rs"]
mod fake;

use std::error::Error;
use std::fs;
use std::io::{Write, copy, sink, stdin, stdout};
use std::path::{Path, PathBuf};

use fake::{COMMIT, FakeHub};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Bytes from which a file counts as large and is served by the other host, as the real hub does.
const LARGE: usize = 100_000;

fn main() -> Result<()> {
    let Given { folder, name, rate } = Given::read(std::env::args().skip(1))?;
    let hub = FakeHub::start(&name);
    hub.slow_down(rate);
    put(&hub, &folder, "")?;
    println!("{}", hub.endpoint);
    stdout().flush()?;
    copy(&mut stdin().lock(), &mut sink())?;
    Ok(())
}

/// The arguments of the command line.
struct Given {
    folder: PathBuf,
    name: String,
    rate: Option<usize>,
}

impl Given {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Given> {
        let mut folder = None;
        let mut given = Given { folder: PathBuf::new(), name: "somebody/something".to_owned(), rate: None };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} wants a value"));
            match word.as_str() {
                "--name" => given.name = value()?,
                "--rate" => given.rate = Some(value()?.parse()?),
                _ => folder = Some(word.into()),
            }
        }
        given.folder = folder.ok_or("which folder?")?;
        Ok(given)
    }
}

/// Adds all files below a folder to the hub, under their paths relative to it.
fn put(hub: &FakeHub, folder: &Path, prefix: &str) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            put(hub, &entry.path(), &format!("{path}/"))?;
        } else {
            let bytes = fs::read(entry.path())?;
            let large = bytes.len() >= LARGE;
            hub.put(COMMIT, &path, bytes, large);
        }
    }
    Ok(())
}
