//! Reads plain text: cuts blocks of it into documents by a [`DocumentRule`], without copying the text.

use std::io::Read;

use arrow_array::BinaryViewArray;
use arrow_array::builder::make_view;
use arrow_buffer::ScalarBuffer;

use super::blocks::{Block, Blocks};
use super::cuts::Cutter;
use super::fault::Fault;
use super::files::Reading;
use super::{Batch, DocumentRule};
use crate::base::int::{to_u64, truncate_to_u32, u64_to_usize};
use crate::error::{Error, Result};

/// Maximum bytes of a block (1 MiB), so that it fits the private cache of a core.
const MOST_BLOCK: u64 = 1 << 20;

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
    cutter: Cutter,
    /// Whether the whole text is one document, which exists even if it is empty.
    whole: bool,
    /// The pool of blocks.
    blocks: Blocks,
    /// Text that has been read and not given out. It begins with a document or a part of one.
    block: Block,
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
    reading: Reading,
}

impl TextDocuments {
    /// Cuts the text that `from` gives by a rule.
    pub(super) fn new(from: Box<dyn Read + Send>, rule: &DocumentRule, reading: Reading) -> TextDocuments {
        let cutter = Cutter::new(rule);
        let block_bytes = u64_to_usize(reading.batch_bytes.min(MOST_BLOCK)).max(cutter.least_block());
        let whole = *rule == DocumentRule::File;
        let blocks = Blocks::new(block_bytes);
        TextDocuments {
            from: Some(from),
            cutter,
            whole,
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
                self.reading.bad(Fault::damaged(&self.reading.name, place, cause))?;
                self.from = None;
                self.damaged = true;
            }
        }
        Ok(())
    }

    /// Divides the block into documents, keeps the rest for the next batch, and returns the documents.
    fn cut(&mut self) -> Result<Batch> {
        let block = self.block.text();
        let last = self.from.is_none();
        let mut documents = Vec::new();
        let mut at = 0;
        while let Some(cut) = self.cutter.first(&block[at..]) {
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
            if at < block.len() || (at == 0 && (self.continued || self.whole)) {
                documents.push((at, block.len() - at));
            }
            at = block.len();
        } else if at == 0 {
            let known = block.len() - self.cutter.pending(block);
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
fn views(block: Block, documents: &[(usize, usize)], name: &str) -> Result<BinaryViewArray> {
    let text = block.text();
    let view = |&(at, length): &(usize, usize)| make_view(&text[at..at + length], 0, truncate_to_u32(at));
    let views: Vec<u128> = documents.iter().map(view).collect();
    BinaryViewArray::try_new(ScalarBuffer::from(views), vec![block.into()], None)
        .map_err(|cause| -> Error { Fault::damaged(name, "its text", cause) })
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
