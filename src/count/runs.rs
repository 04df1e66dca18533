//! Sorted runs of counts on disk, if the distinct pre-tokens of a corpus do not fit the limit of memory.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::fault::Fault;
use super::merge::PretokenReader;
use crate::base::int::{Count, to_u64, u64_to_usize};
use crate::error::{Error, Result};

/// Bytes (256 KiB) of the write buffer of a run.
const WRITTEN: usize = 1 << 18;

/// Most bytes of an encoded number. Numbers are written with seven bits per byte, the lowest bits first (LEB128).
const LONGEST_NUMBER: usize = 10;

/// Sorted runs of pre-tokens in one unnamed temporary file. The system removes the file however the program ends.
///
/// Each record has the length of the pre-token, its count, its first position in the corpus, and its bytes.
pub(super) struct Runs {
    file: File,
    folder: PathBuf,
    /// The byte range of each run in the file.
    runs: Vec<Range<u64>>,
}

impl Runs {
    /// Creates an empty file for runs in this folder. The folder is created if it does not exist.
    pub(super) fn create(folder: &Path) -> Result<Runs> {
        let failed = |cause| Error::io("create", folder, cause);
        fs::create_dir_all(folder).map_err(failed)?;
        let file = tempfile::tempfile_in(folder).map_err(failed)?;
        Ok(Runs { file, folder: folder.to_path_buf(), runs: Vec::new() })
    }

    /// Returns the number of runs.
    pub(super) fn len(&self) -> usize {
        self.runs.len()
    }

    /// Returns the bytes of all runs.
    pub(super) fn bytes(&self) -> u64 {
        self.runs.last().map_or(0, |last| last.end)
    }

    /// Writes pre-tokens, with their counts and first positions, as a run. The caller has sorted them.
    pub(super) fn write<P: AsRef<[u8]>>(
        &mut self,
        mut pretokens: impl Iterator<Item = (P, Count, u64)>,
    ) -> Result<()> {
        self.write_with(|run| {
            pretokens.try_for_each(|(pretoken, count, first)| run.push(pretoken.as_ref(), count, first))
        })
    }

    /// Writes a run with the pre-tokens that `write` pushes, in sorted order.
    pub(super) fn write_with(&mut self, write: impl FnOnce(&mut RunWriter<'_>) -> Result<()>) -> Result<()> {
        let start = self.bytes();
        let out = BufWriter::with_capacity(WRITTEN, &self.file);
        let mut run = RunWriter { out, folder: &self.folder, length: 0 };
        write(&mut run)?;
        let length = run.end()?;
        self.runs.push(start..start + length);
        Ok(())
    }

    /// Returns readers of all runs. Each has a buffer of `memory` bytes, or more for a longer record.
    pub(super) fn readers(&self, memory: usize) -> impl Iterator<Item = RunReader<'_>> {
        self.runs.iter().map(move |run| RunReader {
            runs: self,
            rest: run.clone(),
            memory,
            buffer: Vec::new(),
            at: 0,
            pretoken: 0..0,
            count: Count::ZERO,
            first: 0,
        })
    }
}

/// Writes the pre-tokens of a run one after another.
pub(super) struct RunWriter<'a> {
    out: BufWriter<&'a File>,
    folder: &'a Path,
    /// Bytes written so far.
    length: u64,
}

impl RunWriter<'_> {
    /// Writes a record.
    pub(super) fn push(&mut self, pretoken: &[u8], count: Count, first: u64) -> Result<()> {
        let mut push = || {
            for number in [to_u64(pretoken.len()), count.get(), first] {
                self.length += write_number(&mut self.out, number)?;
            }
            self.length += to_u64(pretoken.len());
            self.out.write_all(pretoken)
        };
        push().map_err(|cause| write_error(self.folder, cause))
    }

    /// Writes the buffered bytes, and returns the length of the run in bytes.
    fn end(mut self) -> Result<u64> {
        self.out.flush().map_err(|cause| write_error(self.folder, cause))?;
        Ok(self.length)
    }
}

/// Returns an I/O error that names the folder, because the file has no name.
fn write_error(folder: &Path, cause: io::Error) -> Error {
    Error::io("write sorted runs in", folder, cause)
}

/// Writes a number in LEB128, and returns the number of bytes.
fn write_number(out: &mut impl Write, mut number: u64) -> io::Result<u64> {
    let (mut bytes, mut length) = ([0; LONGEST_NUMBER], 0);
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        bytes[length] = if number > 0 { low | 0x80 } else { low };
        length += 1;
        if number == 0 {
            out.write_all(&bytes[..length])?;
            return Ok(to_u64(length));
        }
    }
}

/// Decodes the number at the start of `bytes`. Returns it and the number of its bytes; `None` if it is incomplete.
fn read_number(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut number = 0;
    for (at, byte) in bytes.iter().take(LONGEST_NUMBER).enumerate() {
        number |= u64::from(byte & 0x7F) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((number, at + 1));
        }
    }
    None
}

/// Reads the pre-tokens of a run one after another.
pub(super) struct RunReader<'a> {
    runs: &'a Runs,
    /// The byte range of the file that has not been read yet.
    rest: Range<u64>,
    /// Usual size of the buffer in bytes.
    memory: usize,
    buffer: Vec<u8>,
    /// The start of the next record in the buffer.
    at: usize,
    /// The bytes of the current pre-token in the buffer.
    pretoken: Range<usize>,
    count: Count,
    first: u64,
}

impl PretokenReader for RunReader<'_> {
    fn advance(&mut self) -> Result<bool> {
        loop {
            if self.decode() {
                return Ok(true);
            }
            if self.rest.is_empty() {
                return if self.at == self.buffer.len() {
                    Ok(false)
                } else {
                    Err(Fault::DamagedRun { folder: self.runs.folder.clone() }.into())
                };
            }
            self.refill().map_err(|cause| Error::io("read sorted runs in", &self.runs.folder, cause))?;
        }
    }

    fn pretoken(&self) -> &[u8] {
        &self.buffer[self.pretoken.clone()]
    }

    fn count(&self) -> Count {
        self.count
    }

    fn first(&self) -> u64 {
        self.first
    }
}

impl RunReader<'_> {
    /// Decodes the next record. Returns `false` if the buffer does not contain all of it.
    fn decode(&mut self) -> bool {
        let mut at = self.at;
        let mut numbers = [0; 3];
        for number in &mut numbers {
            let Some((value, length)) = read_number(&self.buffer[at..]) else { return false };
            (*number, at) = (value, at + length);
        }
        let [length, count, first] = numbers;
        let end = at.saturating_add(u64_to_usize(length));
        if end > self.buffer.len() {
            return false;
        }
        (self.pretoken, self.at) = (at..end, end);
        (self.count, self.first) = (Count::new(count), first);
        true
    }

    /// Drops the decoded records from the buffer and reads more bytes: [`memory`](RunReader::memory), or as many as
    /// the buffer has left if that is more, so that the buffer doubles for a long record.
    fn refill(&mut self) -> io::Result<()> {
        self.buffer.drain(..self.at);
        self.at = 0;
        let wanted = to_u64(self.memory.max(self.buffer.len())).min(self.rest.end - self.rest.start);
        let mut file = &self.runs.file;
        file.seek(SeekFrom::Start(self.rest.start))?;
        let read = file.take(wanted).read_to_end(&mut self.buffer)?;
        if to_u64(read) < wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.rest.start += wanted;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_length_are_read_back() {
        for number in [0, 1, 127, 128, 300, u64::MAX / 3, u64::MAX] {
            let mut bytes = Vec::new();
            write_number(&mut bytes, number).expect("memory takes everything");
            assert_eq!(read_number(&bytes), Some((number, bytes.len())));
            assert_eq!(read_number(&bytes[..bytes.len() - 1]), None);
        }
    }

    #[test]
    fn a_run_is_read_back_and_a_cut_one_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut runs = Runs::create(folder.path()).expect("a writable folder");
        let pretokens = ["a".to_owned(), "b".repeat(15), "c".repeat(300), "d".repeat(70_000)];
        let records = pretokens.iter().map(|pretoken| {
            let pretoken = pretoken.as_bytes();
            (pretoken, Count::new(to_u64(pretoken.len()) * 9), 1 << 40)
        });
        runs.write(records).expect("room on the disk");
        for memory in [1, 7, 4096, 1 << 20] {
            let mut reader = runs.readers(memory).next().expect("a run");
            for pretoken in &pretokens {
                assert!(reader.advance().expect("a whole run"));
                assert_eq!(reader.pretoken(), pretoken.as_bytes());
                assert_eq!((reader.count.get(), reader.first), (to_u64(pretoken.len()) * 9, 1 << 40));
            }
            assert!(!reader.advance().expect("a whole run"));
        }
        runs.runs[0].end -= 1;
        let mut reader = runs.readers(4096).next().expect("a run");
        assert!((0..3).all(|_| reader.advance().expect("whole pre-tokens")));
        assert!(reader.advance().is_err());
        runs.runs[0].end += 9;
        let mut reader = runs.readers(1 << 20).next().expect("a run");
        assert!(reader.advance().is_err());
    }
}
