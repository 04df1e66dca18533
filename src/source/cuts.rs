//! Where documents of plain text end, and where a file can be cut into ranges of whole documents.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use memchr::memchr;
use memchr::memmem::Finder;

use super::DocumentRule;
use crate::units::amount;

/// A [`DocumentRule`] made ready for searching.
#[derive(Clone, Debug)]
pub(super) enum Cutter {
    Never,
    Line,
    At(Box<Finder<'static>>),
}

/// The end of a document, and where the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) end: usize,
    pub(super) next: usize,
}

impl Cutter {
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

    /// Where the document ends that begins at the start of `text`; `None` if not in `text`.
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

    /// How many bytes at the end of a text without an end may belong to one that goes on after it.
    pub(super) fn pending(&self, text: &[u8]) -> usize {
        match self {
            Cutter::Never => 0,
            Cutter::Line => usize::from(text.ends_with(b"\r")),
            Cutter::At(finder) => text.len().min(finder.needle().len().saturating_sub(1)),
        }
    }

    /// The least block in which a search makes progress.
    pub(super) fn least_block(&self) -> usize {
        match self {
            Cutter::Never | Cutter::Line => 8,
            Cutter::At(finder) => 8 + 2 * finder.needle().len(),
        }
    }
}

/// Where the ranges of a file begin: at 0, and then at the first document after each `range_bytes` more.
///
/// Every place but the first is one where a reader from the left begins a document, so reading range
/// by range gives the same documents. Reads little more than a document at each place.
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

/// The first place after `from` where a document certainly begins.
fn next_start(file: &mut File, rule: &DocumentRule, from: u64) -> io::Result<Option<u64>> {
    // The byte before tells whether a line begins at `from`, or a run of newlines.
    let before = from - 1;
    let mut search = match rule {
        DocumentRule::File => return Ok(None),
        DocumentRule::Line => Search::Line,
        DocumentRule::Paragraph => Search::Paragraph { run: None },
        // Where a separator can overlap itself, which occurrences count depends on all text before.
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
        place += amount(read);
    }
}

enum Search {
    Line,
    /// The length so far of a run of newlines whose begin has been seen; `None` before any other byte
    /// has been: a run that is entered midway does not tell which of its newlines are pairs.
    Paragraph {
        run: Option<u64>,
    },
    /// The last bytes of the blocks before, one fewer than the separator has.
    Separator {
        finder: Box<Finder<'static>>,
        kept: Vec<u8>,
    },
}

impl Search {
    /// The first begin of a document in the file that `block`, which stands at `place`, lets be known.
    fn feed(&mut self, place: u64, block: &[u8]) -> Option<u64> {
        match self {
            Search::Line => memchr(b'\n', block).map(|at| place + amount(at) + 1),
            Search::Paragraph { run } => block.iter().zip(place..).find_map(|(&byte, at)| {
                if byte == b'\n' {
                    *run = run.map(|length| length + 1);
                    return None;
                }
                let length = run.replace(0).unwrap_or(0);
                // An odd newline is left over from the pairs and begins the next paragraph.
                (length >= 2).then_some(at - length % 2)
            }),
            Search::Separator { finder, kept } => {
                let first = place - amount(kept.len());
                kept.extend_from_slice(block);
                let length = finder.needle().len();
                if let Some(at) = finder.find(kept) {
                    return Some(first + amount(at + length));
                }
                kept.drain(..kept.len().saturating_sub(length - 1));
                None
            }
        }
    }
}

/// Whether a proper begin of the text is also its end, so that two occurrences can overlap.
fn overlaps_itself(text: &[u8]) -> bool {
    (1..text.len()).any(|length| text[..length] == text[text.len() - length..])
}
