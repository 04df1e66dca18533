//! Finds where documents of plain text end, and where a file can be cut into ranges of whole documents.
//!
//! Cutting must not change the documents: reading a file range by range gives the same documents as reading it from
//! the beginning. A line may begin after any `\n`. A paragraph may begin only after a run of newlines that has been
//! seen from its start, because pairs are counted from there. A separator that can overlap itself gives no safe
//! position at all.
//!
//! Searches work on blocks, so that a document of any length takes constant memory: a search that finds no end says
//! how many bytes at the end of the block may belong to one ([`Cutter::pending`]).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use memchr::memchr;
use memchr::memmem::Finder;

use super::DocumentRule;
use crate::base::int::to_u64;

/// A [`DocumentRule`], prepared for searching.
#[derive(Clone, Debug)]
pub(super) enum Cutter {
    /// The whole text is one document.
    Never,
    /// A document ends at a line break, `\n` or `\r\n`.
    Line,
    /// A document ends at this text.
    At(Box<Finder<'static>>),
}

/// The end of a document and the beginning of the next one, as offsets. The bytes between belong to neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Offset at which the document ends, exclusive.
    pub(super) end: usize,
    /// Offset at which the next document begins.
    pub(super) next: usize,
}

impl Cutter {
    /// Prepares a rule for searching.
    pub(super) fn new(rule: &DocumentRule) -> Cutter {
        match rule {
            DocumentRule::File => Cutter::Never,
            DocumentRule::Line => Cutter::Line,
            DocumentRule::Paragraph => Cutter::At(Box::new(Finder::new(b"\n\n").into_owned())),
            DocumentRule::Separator(separator) => {
                Cutter::At(Box::new(Finder::new(separator.as_bytes()).into_owned()))
            }
        }
    }

    /// The end of the document that begins at the start of `text`; `None` if it does not end in `text`.
    pub(super) fn first(&self, text: &[u8]) -> Option<Cut> {
        match self {
            Cutter::Never => None,
            Cutter::Line => {
                let newline = memchr(b'\n', text)?;
                let carriage_return = usize::from(text[..newline].ends_with(b"\r"));
                Some(Cut { end: newline - carriage_return, next: newline + 1 })
            }
            Cutter::At(finder) => {
                let end = finder.find(text)?;
                Some(Cut { end, next: end + finder.needle().len() })
            }
        }
    }

    /// The number of bytes at the end of `text` that may belong to a document end that continues after it. `text`
    /// itself has no document end.
    pub(super) fn pending(&self, text: &[u8]) -> usize {
        match self {
            Cutter::Never => 0,
            Cutter::Line => usize::from(text.ends_with(b"\r")),
            Cutter::At(finder) => text.len().min(finder.needle().len().saturating_sub(1)),
        }
    }

    /// The least number of bytes in a block with which a search makes progress.
    pub(super) fn least_block(&self) -> usize {
        match self {
            Cutter::Never | Cutter::Line => 8,
            Cutter::At(finder) => 8 + 2 * finder.needle().len(),
        }
    }
}

/// The offsets at which the ranges of a file begin: 0, and then the first document after each further `range_bytes`.
///
/// Every offset is one at which a reader from the left begins a document, so reading range by range gives the same
/// documents. The function reads little more than one document at each offset.
///
/// # Errors
/// The file cannot be read.
pub(super) fn starts(path: &Path, bytes: u64, rule: &DocumentRule, range_bytes: u64) -> io::Result<Vec<u64>> {
    let mut starts = vec![0];
    if bytes <= range_bytes {
        return Ok(starts);
    }
    let mut file = File::open(path)?;
    let mut wanted = range_bytes.max(1);
    while wanted < bytes {
        match next_start(&mut file, rule, wanted)? {
            Some(start) if start < bytes => {
                starts.push(start);
                wanted = start + range_bytes.max(1);
            }
            _ => break,
        }
    }
    Ok(starts)
}

/// The first offset after `from` at which a document certainly begins, whatever precedes it.
fn next_start(file: &mut File, rule: &DocumentRule, from: u64) -> io::Result<Option<u64>> {
    // The byte before `from` shows whether a line, or a run of newlines, begins at `from`.
    let before = from - 1;
    let mut search = match rule {
        DocumentRule::File => return Ok(None),
        DocumentRule::Line => Search::Line,
        DocumentRule::Paragraph => Search::Paragraph { run: None },
        // If a separator can overlap itself, which of its occurrences count depends on all text before: the file is
        // not cut.
        DocumentRule::Separator(separator) if overlaps_itself(separator.as_bytes()) => return Ok(None),
        DocumentRule::Separator(separator) => Search::Separator {
            finder: Box::new(Finder::new(separator.as_bytes()).into_owned()),
            kept: Vec::new(),
        },
    };
    file.seek(SeekFrom::Start(before))?;
    let mut place = before;
    let mut block = vec![0; 1 << 16];
    loop {
        let read = file.read(&mut block)?;
        if read == 0 {
            return Ok(None);
        }
        let found = search.feed(place, &block[..read]);
        if found.is_some() {
            return Ok(found);
        }
        place += to_u64(read);
    }
}

/// The state of a search for the first safe position, for each rule.
enum Search {
    /// Any line break ends the search.
    Line,
    /// The length so far of a run of newlines that has been seen from its beginning; `None` until another byte has
    /// been seen. In a run that is entered in the middle, it is unknown which newlines form pairs.
    Paragraph { run: Option<u64> },
    /// The last bytes of the previous blocks, one byte fewer than the separator has.
    Separator { finder: Box<Finder<'static>>, kept: Vec<u8> },
}

impl Search {
    /// The first offset in the file at which a document begins, if it can be concluded from `block`, which is at
    /// offset `place`.
    fn feed(&mut self, place: u64, block: &[u8]) -> Option<u64> {
        match self {
            Search::Line => memchr(b'\n', block).map(|at| place + to_u64(at) + 1),
            Search::Paragraph { run } => block.iter().zip(place..).find_map(|(&byte, at)| {
                if byte == b'\n' {
                    *run = run.map(|length| length + 1);
                    return None;
                }
                let length = run.replace(0).unwrap_or(0);
                // After an odd number of newlines, the last one is not part of a pair and begins the next paragraph.
                (length >= 2).then_some(at - length % 2)
            }),
            Search::Separator { finder, kept } => {
                let first = place - to_u64(kept.len());
                kept.extend_from_slice(block);
                let length = finder.needle().len();
                if let Some(at) = finder.find(kept) {
                    return Some(first + to_u64(at + length));
                }
                kept.drain(..kept.len().saturating_sub(length - 1));
                None
            }
        }
    }
}

/// Whether a proper prefix of the text is also its suffix, so that two occurrences can overlap.
fn overlaps_itself(text: &[u8]) -> bool {
    (1..text.len()).any(|length| text[..length] == text[text.len() - length..])
}
