use std::io::{self, Read};
use std::mem;
use std::sync::{Arc, Mutex, Weak};

use arrow_buffer::Buffer;
use bytes::Bytes;

use crate::parallel::lock;

/// How long a block is before it is known that there is more to read.
const FIRST: usize = 64 << 10;

/// By what a block that is full grows.
const GROWTH: usize = 4;

/// Blocks of memory for text, which are used again when nobody has them any more: memory that is new
/// costs more than reading does. Once there is nobody to take a block, each is freed when it is dropped.
pub(super) struct Blocks {
    /// The most that a block has.
    bytes: usize,
    free: Arc<Free>,
}

/// The memory of blocks that were dropped.
type Free = Mutex<Vec<Vec<u8>>>;

/// A block that is being filled, or has been.
pub(super) struct Block {
    /// All of it, also what has not been filled.
    memory: Vec<u8>,
    filled: usize,
    /// The most that it has.
    bytes: usize,
    home: Weak<Free>,
}

impl Blocks {
    /// Blocks of so many bytes at most.
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

    /// A block that begins with this text.
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
    /// What has been filled.
    pub(super) fn text(&self) -> &[u8] {
        &self.memory[..self.filled]
    }

    /// Reads until it is full, or the end: then it gives `false`.
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
