//! Reads named pipes without blocking the program: opening a pipe waits for a writer, and reading waits for data.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use super::Stop;
use crate::error::Error;

/// Bytes that are read from a pipe at once.
const BLOCK_BYTES: usize = 64 << 10;

/// Number of blocks that may wait to be taken.
const BLOCKS_AHEAD: usize = 16;

/// Time to wait for data before checking whether to stop.
const WHILE: Duration = Duration::from_millis(200);

/// A named pipe. It is opened when it is first read, so that listing it consumes nothing; and only once, because data
/// that is written to a pipe without a reader is lost. Opening waits for a writer, and reading waits for data, so a
/// separate thread does both. Nobody waits for this thread if the run is to stop.
pub(super) struct Pipe {
    path: PathBuf,
    /// The blocks that the reading thread sends, if it has been started.
    blocks: Option<Receiver<io::Result<Vec<u8>>>>,
    /// The block that is being given out.
    block: io::Cursor<Vec<u8>>,
    /// Returns whether to stop waiting.
    stop: Stop,
}

impl Pipe {
    /// A pipe that is not opened yet. `stop` is asked while nothing arrives.
    pub(super) fn new(path: PathBuf, stop: Stop) -> Pipe {
        Pipe { path, blocks: None, block: io::Cursor::default(), stop }
    }
}

/// Starts the reading thread.
///
/// # Errors
/// The thread cannot be started.
fn begin(path: PathBuf) -> io::Result<Receiver<io::Result<Vec<u8>>>> {
    let (send, blocks) = sync_channel(BLOCKS_AHEAD);
    thread::Builder::new().spawn(move || {
        if let Err(cause) = read(path, &send) {
            // If the run has ended, nobody receives this.
            let _ = send.send(Err(cause));
        }
    })?;
    Ok(blocks)
}

/// Sends the data of the pipe block by block until it ends or nobody receives.
fn read(path: PathBuf, send: &SyncSender<io::Result<Vec<u8>>>) -> io::Result<()> {
    let mut pipe = File::open(path)?;
    loop {
        let mut block = vec![0; BLOCK_BYTES];
        let length = pipe.read(&mut block)?;
        block.truncate(length);
        if length == 0 || send.send(Ok(block)).is_err() {
            return Ok(());
        }
    }
}

impl Read for Pipe {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let blocks = match self.blocks.take() {
            Some(blocks) => blocks,
            None => begin(self.path.clone())?,
        };
        let blocks = self.blocks.insert(blocks);
        loop {
            let length = self.block.read(into)?;
            if length > 0 || into.is_empty() {
                return Ok(length);
            }
            match blocks.recv_timeout(WHILE) {
                Ok(block) => self.block = io::Cursor::new(block?),
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
                Err(RecvTimeoutError::Timeout) if (self.stop)() => {
                    return Err(io::Error::other(Error::interrupted()));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}
