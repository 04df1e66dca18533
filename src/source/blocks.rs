//! Memory blocks for text that are reused: a batch of plain text is a view into the block that the file was read
//! into.
//!
//! The reader takes a block, fills it, and gives it away as an Arrow buffer. When the last batch that refers to the
//! buffer is dropped, perhaps by another thread, the block returns to the reader's pool. So reading a file of any
//! size needs about as many blocks as batches exist at the same time, and text is never copied.

use std::io::{self, Read};
use std::mem;
use std::sync::{Arc, Mutex, Weak};

use arrow_buffer::Buffer;
use bytes::Bytes;

use crate::base::pools::lock;

/// First size in bytes of a block, before it is known whether more follows: short files need no more.
const FIRST: usize = 64 << 10;

/// Factor by which a full block grows.
const GROWTH: usize = 4;

/// A pool of memory blocks for text. A block that is dropped by all its users returns to the pool, because fresh
/// memory costs more than reading does. Once the pool itself is dropped, blocks are freed instead.
pub(super) struct Blocks {
    /// Maximum size of a block in bytes.
    bytes: usize,
    /// The blocks that were returned and are free.
    free: Arc<Free>,
}

/// The memory of blocks that were returned.
type Free = Mutex<Vec<Vec<u8>>>;

/// A block of the pool that is being filled or has been filled.
pub(super) struct Block {
    /// The whole memory, including the part that has not been filled.
    memory: Vec<u8>,
    /// Number of bytes that have been filled, from the beginning.
    filled: usize,
    /// Maximum number of bytes.
    bytes: usize,
    /// The pool that the memory returns to, if it still exists.
    home: Weak<Free>,
}

impl Blocks {
    /// A pool of blocks of at most this number of bytes.
    pub(super) fn new(bytes: usize) -> Blocks {
        Blocks { bytes, free: Arc::default() }
    }

    /// An empty block.
    pub(super) fn take(&self) -> Block {
        let memory = lock(&self.free).pop();
        Block {
            memory: memory.unwrap_or_default(),
            filled: 0,
            bytes: self.bytes,
            home: Arc::downgrade(&self.free),
        }
    }

    /// A block that begins with a copy of this text.
    pub(super) fn take_with(&self, text: &[u8]) -> Block {
        let mut block = self.take();
        if block.memory.len() < text.len() {
            block.memory.resize(text.len(), 0);
        }
        block.memory[..text.len()].copy_from_slice(text);
        block.filled = text.len();
        block
    }
}

impl Block {
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

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        self.text()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(free) = self.home.upgrade() {
            let memory = mem::take(&mut self.memory);
            lock(&free).push(memory);
        }
    }
}

impl From<Block> for Buffer {
    fn from(block: Block) -> Buffer {
        Buffer::from(Bytes::from_owner(block))
    }
}
