//! Reads plain text: cuts blocks of it into documents by a [`DocumentRule`], without copying the text.
//!
//! A block of memory is filled from the file and given away as an Arrow buffer; a batch of documents is a set of views
//! into it. When the last batch that refers to a block is dropped, perhaps by another thread, the block returns to the
//! reader's pool. So reading a file of any size needs about as many blocks as batches exist at the same time.
//!
//! [`starts`] finds the offsets at which a large file can be cut into units. Reading it unit by unit gives the same
//! documents as reading it from the beginning:
//!
//! - A line may begin after any `\n`.
//! - A paragraph may begin only after a run of line breaks that has been seen from its start, because pairs are counted
//!   from there.
//! - A separator that can overlap itself gives no safe position at all.
//!
//! Searches work on blocks, so that a document of any length takes constant memory: a search that finds no end says how
//! many bytes at the end of the block may belong to one ([`BoundaryFinder::pending`]).

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::{io, mem};

use arrow::array::{BinaryViewArray, make_view};
use arrow::buffer::{Buffer, ScalarBuffer};
use bytes::Bytes;
use memchr::memmem::Finder;
use memchr::{memchr, memchr_iter};

use super::error::damaged;
use super::skipped_rows::ReadContext;
use super::{Batch, DocumentRule};
use crate::base::int::{to_u64, truncate_to_u32, u64_to_usize};
use crate::base::pools::lock;
use crate::error::Result;

/// Maximum bytes of a block (1 MiB), so that it fits the private cache of a core.
const MAX_BLOCK: u64 = 1 << 20;

/// The documents of plain text.
///
/// A batch is a block of the text and views into it, so text is not copied. A document that is longer than a block is
/// split over several batches, between two characters if it is UTF-8.
///
/// **Memory:** one or two blocks, whatever the lengths of documents. Blocks of batches that have been dropped are
/// reused.
pub(super) struct TextDocuments {
    /// The rest of the text; `None` once it has been read.
    from: Option<Box<dyn Read + Send>>,
    /// Finds the ends of documents.
    boundaries: BoundaryFinder,
    /// Whether the whole text is one document, which exists even if it is empty.
    is_one_document: bool,
    /// The pool of blocks.
    blocks: BlockPool,
    /// Text that has been read and not given out. It begins with a document or a part of one.
    block: TextBlock,
    /// Bytes of text that have been given out or passed over.
    passed: u64,
    /// Index of the next document.
    row: u64,
    /// Whether the next document continues one that has been given out in part.
    continued: bool,
    /// Whether reading failed and the run continues without the rest.
    damaged: bool,
    /// Whether all documents have been given out, or an error was.
    ended: bool,
    /// The unit and its source.
    reading: ReadContext,
}

impl TextDocuments {
    /// Cuts the text that `from` gives by a rule.
    pub(super) fn new(
        from: Box<dyn Read + Send>,
        rule: &DocumentRule,
        reading: ReadContext,
    ) -> TextDocuments {
        let boundaries = BoundaryFinder::new(rule);
        let block_bytes = u64_to_usize(reading.batch_bytes.min(MAX_BLOCK)).max(boundaries.min_block());
        let is_one_document = *rule == DocumentRule::File;
        let blocks = BlockPool::new(block_bytes);
        TextDocuments {
            from: Some(from),
            boundaries,
            is_one_document,
            block: blocks.take(),
            blocks,
            passed: 0,
            row: 0,
            continued: false,
            damaged: false,
            ended: false,
            reading,
        }
    }

    /// Reads until the block is full or the text ends.
    ///
    /// # Errors
    /// The text cannot be read, and bad input is not to be skipped.
    fn fill(&mut self) -> Result<()> {
        let Some(from) = self.from.as_mut() else { return Ok(()) };
        match self.block.fill(from) {
            Ok(true) => {}
            Ok(false) => self.from = None,
            Err(cause) => {
                let place =
                    format!("its text from byte {} on", self.passed + to_u64(self.block.text().len()));
                self.reading.bad.skip(damaged(&self.reading.name, place, cause))?;
                self.from = None;
                self.damaged = true;
            }
        }
        Ok(())
    }

    /// Divides the block into documents, keeps the rest for the next batch, and returns the documents.
    ///
    /// # Errors
    /// The documents do not form an array, which does not happen.
    fn cut(&mut self) -> Result<Batch> {
        let block = self.block.text();
        let last = self.from.is_none();
        let mut documents = Vec::new();
        let mut at = 0;
        while let Some(cut) = self.boundaries.first(&block[at..]) {
            // The last part of a document may be empty, but must be given to mark the end.
            if cut.end > 0 || (self.continued && at == 0) {
                documents.push((at, cut.end));
            }
            at += cut.next;
        }
        let mut open = false;
        if self.damaged {
            // The document at the damage is skipped. If parts of it have been given out, an empty part ends it.
            if at == 0 && self.continued {
                documents.push((0, 0));
            }
            at = block.len();
        } else if last {
            if at < block.len() || (at == 0 && (self.continued || self.is_one_document)) {
                documents.push((at, block.len() - at));
            }
            at = block.len();
        } else if at == 0 {
            let known = block.len() - self.boundaries.pending(block);
            at = between_characters(&block[..known]);
            documents.push((0, at));
            open = true;
        }
        let next = self.blocks.take_with(&block[at..]);
        let block = std::mem::replace(&mut self.block, next);
        self.passed += to_u64(at);
        let first_row = self.row;
        self.row += to_u64(documents.len()) - u64::from(open);
        let mut batch = self.reading.batch(first_row, views(block, &documents, &self.reading.name)?, None);
        batch.continued = std::mem::replace(&mut self.continued, open);
        batch.open = open;
        Ok(batch)
    }
}

impl Iterator for TextDocuments {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        while !self.ended {
            let batch = self.fill().and_then(|()| self.cut());
            self.ended = self.from.is_none() || batch.is_err();
            if !batch.as_ref().is_ok_and(Batch::is_empty) {
                return Some(batch);
            }
        }
        None
    }
}

/// The documents as views into a block, given as offsets and lengths.
fn views(block: TextBlock, documents: &[(usize, usize)], name: &str) -> Result<BinaryViewArray> {
    let text = block.text();
    let view = |&(at, length): &(usize, usize)| make_view(&text[at..at + length], 0, truncate_to_u32(at));
    let views: Vec<u128> = documents.iter().map(view).collect();
    BinaryViewArray::try_new(ScalarBuffer::from(views), vec![block.into()], None)
        .map_err(|cause| damaged(name, "its text", cause))
}

/// The length of the text without an incomplete character at its end; the whole length if the end is not UTF-8.
fn between_characters(text: &[u8]) -> usize {
    for back in 1..=text.len().min(3) {
        let byte = text[text.len() - back];
        let length = match byte {
            0x80..=0xBF => continue,
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            _ => 1,
        };
        return if length > back && back < text.len() { text.len() - back } else { text.len() };
    }
    text.len()
}

/// A [`DocumentRule`], prepared for searching.
#[derive(Clone, Debug)]
pub(super) enum BoundaryFinder {
    /// The whole text is one document.
    Never,
    /// A document ends at a line break, `\n` or `\r\n`.
    Line,
    /// A document ends at two line breaks, each `\n` or `\r\n`.
    Paragraph,
    /// A document ends at this text.
    At(Box<Finder<'static>>),
}

/// The end of a document and the beginning of the next one, as offsets. The bytes between belong to neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Boundary {
    /// Offset at which the document ends, exclusive.
    pub(super) end: usize,
    /// Offset at which the next document begins.
    pub(super) next: usize,
}

impl BoundaryFinder {
    /// Prepares a rule for searching.
    pub(super) fn new(rule: &DocumentRule) -> BoundaryFinder {
        match rule {
            DocumentRule::File => BoundaryFinder::Never,
            DocumentRule::Line => BoundaryFinder::Line,
            DocumentRule::Paragraph => BoundaryFinder::Paragraph,
            DocumentRule::Separator(separator) => {
                BoundaryFinder::At(Box::new(Finder::new(separator.as_bytes()).into_owned()))
            }
        }
    }

    /// The end of the document that begins at the start of `text`; `None` if it does not end in `text`.
    pub(super) fn first(&self, text: &[u8]) -> Option<Boundary> {
        match self {
            BoundaryFinder::Never => None,
            BoundaryFinder::Line => {
                let newline = memchr(b'\n', text)?;
                let carriage_return = usize::from(text[..newline].ends_with(b"\r"));
                Some(Boundary { end: newline - carriage_return, next: newline + 1 })
            }
            BoundaryFinder::Paragraph => memchr_iter(b'\n', text).find_map(|newline| {
                let second = match &text[newline + 1..] {
                    [b'\n', ..] => 1,
                    [b'\r', b'\n', ..] => 2,
                    _ => return None,
                };
                let carriage_return = usize::from(text[..newline].ends_with(b"\r"));
                Some(Boundary { end: newline - carriage_return, next: newline + 1 + second })
            }),
            BoundaryFinder::At(finder) => {
                let end = finder.find(text)?;
                Some(Boundary { end, next: end + finder.needle().len() })
            }
        }
    }

    /// The number of bytes at the end of `text` that may belong to a document end that continues after it. `text`
    /// itself has no document end.
    pub(super) fn pending(&self, text: &[u8]) -> usize {
        match self {
            BoundaryFinder::Never => 0,
            BoundaryFinder::Line => usize::from(text.ends_with(b"\r")),
            // The longest beginning of `\r\n\r\n`.
            BoundaryFinder::Paragraph => text.len().min(3),
            BoundaryFinder::At(finder) => text.len().min(finder.needle().len().saturating_sub(1)),
        }
    }

    /// The minimum number of bytes in a block with which a search makes progress.
    pub(super) fn min_block(&self) -> usize {
        match self {
            BoundaryFinder::Never | BoundaryFinder::Line => 8,
            BoundaryFinder::Paragraph => 16,
            BoundaryFinder::At(finder) => 8 + 2 * finder.needle().len(),
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
///
/// # Errors
/// The file cannot be read.
fn next_start(file: &mut File, rule: &DocumentRule, from: u64) -> io::Result<Option<u64>> {
    // The byte before `from` shows whether a line, or a run of line breaks, begins at `from`.
    let before = from - 1;
    let mut search = match rule {
        DocumentRule::File => return Ok(None),
        DocumentRule::Line => SafeStartSearch::Line,
        DocumentRule::Paragraph => SafeStartSearch::Paragraph(BreakRun::default()),
        // If a separator can overlap itself, which of its occurrences count depends on all text before: the file is
        // not cut.
        DocumentRule::Separator(separator) if overlaps_itself(separator.as_bytes()) => return Ok(None),
        DocumentRule::Separator(separator) => SafeStartSearch::Separator {
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
        let found = search.find_in_block(place, &block[..read]);
        if found.is_some() {
            return Ok(found);
        }
        place += to_u64(read);
    }
}

/// The state of a search for the first safe position, for each rule.
enum SafeStartSearch {
    /// Any line break ends the search.
    Line,
    /// A run of at least two line breaks that has been seen from its beginning ends the search.
    Paragraph(BreakRun),
    /// The last bytes of the previous blocks, one byte fewer than the separator has.
    Separator { finder: Box<Finder<'static>>, kept: Vec<u8> },
}

impl SafeStartSearch {
    /// The first offset in the file at which a document begins, if it can be concluded from `block`, which is at
    /// offset `place`.
    fn find_in_block(&mut self, place: u64, block: &[u8]) -> Option<u64> {
        match self {
            SafeStartSearch::Line => memchr(b'\n', block).map(|at| place + to_u64(at) + 1),
            SafeStartSearch::Paragraph(run) => {
                block.iter().zip(place..).find_map(|(&byte, at)| run.paragraph_before(byte, at))
            }
            SafeStartSearch::Separator { finder, kept } => {
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

/// A run of line breaks, each `\n` or `\r\n`.
#[derive(Default)]
struct BreakRun {
    /// The number of line breaks so far; `None` until another byte has been seen. In a run that is entered in the
    /// middle, it is unknown which line breaks form pairs.
    breaks: Option<u64>,
    /// The length of the last line break.
    last: u64,
    /// Whether the last byte was `\r`, which belongs to the run if `\n` follows.
    carriage_return: bool,
}

impl BreakRun {
    /// Adds the byte at offset `at`. If it shows that a run of at least two line breaks has ended, returns the offset of
    /// the paragraph after the run.
    fn paragraph_before(&mut self, byte: u8, at: u64) -> Option<u64> {
        let carriage_return = std::mem::replace(&mut self.carriage_return, byte == b'\r');
        if byte == b'\n' {
            self.breaks = self.breaks.map(|breaks| breaks + 1);
            self.last = 1 + u64::from(carriage_return);
            return None;
        }
        if byte == b'\r' && !carriage_return {
            return None;
        }
        let end = at - u64::from(carriage_return);
        let breaks = self.breaks.replace(0).unwrap_or(0);
        // After an odd number of line breaks, the last one is not part of a pair and begins the next paragraph.
        (breaks >= 2).then_some(if breaks % 2 == 1 { end - self.last } else { end })
    }
}

/// Whether a proper prefix of the text is also its suffix, so that two occurrences can overlap.
fn overlaps_itself(text: &[u8]) -> bool {
    (1..text.len()).any(|length| text[..length] == text[text.len() - length..])
}

/// First size in bytes of a block, before it is known whether more follows: short files need no more.
const FIRST: usize = 64 << 10;

/// Factor by which a full block grows.
const GROWTH: usize = 4;

/// A pool of memory blocks for text. A block that is dropped by all its users returns to the pool, because fresh
/// memory costs more than reading does. Once the pool itself is dropped, blocks are freed instead.
pub(super) struct BlockPool {
    /// Maximum size of a block in bytes.
    bytes: usize,
    /// The blocks that were returned and are free.
    free: Arc<Free>,
}

/// The memory of blocks that were returned.
type Free = Mutex<Vec<Vec<u8>>>;

/// A block of the pool that is being filled or has been filled.
pub(super) struct TextBlock {
    /// The whole memory, including the part that has not been filled.
    memory: Vec<u8>,
    /// Number of bytes that have been filled, from the beginning.
    filled: usize,
    /// Maximum number of bytes.
    bytes: usize,
    /// The pool that the memory returns to, if it still exists.
    home: Weak<Free>,
}

impl BlockPool {
    /// A pool of blocks of at most this number of bytes.
    pub(super) fn new(bytes: usize) -> BlockPool {
        BlockPool { bytes, free: Arc::default() }
    }

    /// An empty block.
    pub(super) fn take(&self) -> TextBlock {
        let memory = lock(&self.free).pop();
        TextBlock {
            memory: memory.unwrap_or_default(),
            filled: 0,
            bytes: self.bytes,
            home: Arc::downgrade(&self.free),
        }
    }

    /// A block that begins with a copy of this text.
    pub(super) fn take_with(&self, text: &[u8]) -> TextBlock {
        let mut block = self.take();
        if block.memory.len() < text.len() {
            block.memory.resize(text.len(), 0);
        }
        block.memory[..text.len()].copy_from_slice(text);
        block.filled = text.len();
        block
    }
}

impl TextBlock {
    /// The filled part.
    pub(super) fn text(&self) -> &[u8] {
        &self.memory[..self.filled]
    }

    /// Reads until the block is full, and returns `true`; or until the data ends, and returns `false`.
    ///
    /// # Errors
    /// The data cannot be read. Bytes before the error remain in the block.
    pub(super) fn fill(&mut self, from: &mut dyn Read) -> io::Result<bool> {
        while self.filled < self.bytes {
            if self.filled == self.memory.len() {
                let length = (self.filled * GROWTH).clamp(FIRST, self.bytes.max(FIRST));
                self.memory.resize(length, 0);
            }
            let end = self.memory.len().min(self.bytes);
            match from.read(&mut self.memory[self.filled..end]) {
                Ok(0) => return Ok(false),
                Ok(read) => self.filled += read,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
            }
        }
        Ok(true)
    }
}

impl AsRef<[u8]> for TextBlock {
    fn as_ref(&self) -> &[u8] {
        self.text()
    }
}

impl Drop for TextBlock {
    fn drop(&mut self) {
        if let Some(free) = self.home.upgrade() {
            let memory = mem::take(&mut self.memory);
            lock(&free).push(memory);
        }
    }
}

impl From<TextBlock> for Buffer {
    fn from(block: TextBlock) -> Buffer {
        Buffer::from(Bytes::from_owner(block))
    }
}
