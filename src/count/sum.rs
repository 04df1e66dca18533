use std::path::{Path, PathBuf};

use serde_json::json;

use super::counts_file::{CountsFile, CountsInfo, read_counts};
use super::fault::Fault;
use super::{Boundary, PieceCounts};
use super::{entry::hash_of_bytes, index::HashIndex};
use crate::error::Result;
use crate::observer::Observer;
use crate::units::Count;

/// A counts file, and what its counts are multiplied by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightedFile {
    /// The file.
    pub path: PathBuf,
    /// The factor, above zero.
    pub weight: u64,
}

/// Sums counts files of the same pattern, boundary and special tokens, each multiplied by its weight.
///
/// If all of them are ordered so is the sum: each file's pieces come after those of the files before.
/// Else it is in order of the pieces' bytes.
///
/// **Memory:** the sum, twice, and one of the files.
///
/// # Errors
/// A file cannot be read or was counted otherwise than the first; a count passes 2⁶⁴; the observer
/// stops the run.
pub fn sum_counts(files: &[WeightedFile], observer: &dyn Observer) -> Result<CountsFile> {
    let mut sum: Option<CountsFile> = None;
    let mut sources = Vec::new();
    for file in files {
        observer.checkpoint()?;
        let mut read = read_counts(&file.path)?;
        sources.push(json!({ "weight": file.weight, "counted": read.info.sources.take() }));
        let CountsFile { pieces, info } = read;
        let pieces = multiplied(pieces, file.weight)?;
        sum = Some(match sum {
            None => CountsFile { pieces, info },
            Some(sum) => {
                check_same(&sum.info, &files[0].path, &info, &file.path)?;
                added(sum, &CountsFile { pieces, info })?
            }
        });
    }
    let mut sum = sum.unwrap_or_default();
    sum.info.sources = json!({ "summed": sources });
    sum.info.tool_version = env!("CARGO_PKG_VERSION").to_owned();
    Ok(sum)
}

/// Checks that two files count the same pieces: those of the same pattern, boundary and special tokens.
///
/// # Errors
/// They do not; the error names the second file and what differs.
pub fn check_same(first: &CountsInfo, first_path: &Path, other: &CountsInfo, path: &Path) -> Result<()> {
    let specials = |info: &CountsInfo| {
        let mut specials = info.special_tokens.clone();
        specials.sort();
        specials
    };
    let boundary = |info: &CountsInfo| match info.boundary {
        Boundary::Document => "document".to_owned(),
        Boundary::Join => "join".to_owned(),
    };
    let (what, one, two) = if first.pattern != other.pattern {
        ("split", first.pattern.to_string(), other.pattern.to_string())
    } else if first.boundary != other.boundary {
        ("boundary", boundary(first), boundary(other))
    } else if specials(first) != specials(other) {
        ("special tokens", format!("{:?}", specials(first)), format!("{:?}", specials(other)))
    } else {
        return Ok(());
    };
    let (first, path) = (first_path.to_path_buf(), path.to_path_buf());
    Err(Fault::OtherCounts { first, path, what, one, two }.into())
}

fn multiplied(mut pieces: PieceCounts, weight: u64) -> Result<PieceCounts> {
    for number in 0..pieces.len() {
        let overflow = || Fault::Overflow { piece: pieces.piece(number).to_vec() };
        pieces.counts[number] = pieces.counts[number].checked_mul(weight).ok_or_else(overflow)?;
    }
    Ok(pieces)
}

fn added(sum: CountsFile, other: &CountsFile) -> Result<CountsFile> {
    let ordered = sum.info.ordered && other.info.ordered;
    let pieces = if ordered {
        appended(sum.pieces, &other.pieces)?
    } else {
        merged(&by_bytes(&sum), &by_bytes(other))?
    };
    Ok(CountsFile { pieces, info: CountsInfo { ordered, ..sum.info } })
}

/// Adds the counts of pieces that are there, and puts the others behind them.
fn appended(mut sum: PieceCounts, other: &PieceCounts) -> Result<PieceCounts> {
    let mut index = HashIndex::default();
    for number in 0..sum.len() {
        index.insert(hash_of_bytes(sum.piece(number)), number);
    }
    for (piece, count) in other.iter() {
        match index.find(hash_of_bytes(piece), |number| sum.piece(number) == piece) {
            Some(number) => sum.counts[number] = total(piece, sum.counts[number], count)?,
            // A piece stands only once in a file: those of this one need not be found again.
            None => sum.push(piece, count),
        }
    }
    Ok(sum)
}

/// Merges two lists in order of the pieces' bytes.
fn merged(one: &[(&[u8], Count)], two: &[(&[u8], Count)]) -> Result<PieceCounts> {
    let mut merged = PieceCounts::new();
    let mut two = two.iter().peekable();
    for (piece, count) in one {
        while let Some((other, count)) = two.next_if(|(other, _)| other < piece) {
            merged.push(other, *count);
        }
        match two.next_if(|(same, _)| same == piece) {
            Some((_, more)) => merged.push(piece, total(piece, *count, *more)?),
            None => merged.push(piece, *count),
        }
    }
    two.for_each(|(piece, count)| merged.push(piece, *count));
    Ok(merged)
}

fn by_bytes(file: &CountsFile) -> Vec<(&[u8], Count)> {
    let mut pieces: Vec<_> = file.pieces.iter().collect();
    if file.info.ordered {
        pieces.sort_unstable();
    }
    pieces
}

fn total(piece: &[u8], one: Count, two: Count) -> Result<Count> {
    Ok(one.checked_add(two).ok_or_else(|| Fault::Overflow { piece: piece.to_vec() })?)
}
