//! The scanned text: codes in chunks.

use super::rules::Rules;

/// Code of a token in the scanned text.
pub(super) type Code = u16;

/// The text as codes: a plane with their low bytes, and a plane with their high bytes once these are needed.
///
/// It is divided into chunks of equal capacity. Each chunk is filled from its start with the codes that it has
/// left. A merge across two chunks replaces the last code of the first one; otherwise no code moves to another
/// chunk, so each thread can work on some chunks independently.
pub(super) struct Text {
    /// Low byte of each code.
    pub(super) low: Vec<u8>,
    /// High byte of each code. Empty as long as all codes fit one byte, otherwise as long as `low`.
    pub(super) high: Vec<u8>,
    /// Number of codes in each chunk.
    pub(super) lengths: Vec<usize>,
    /// Capacity of each chunk except the last, in codes.
    pub(super) room: usize,
}

/// What merging does at the ends of a chunk.
///
/// It is decided before the pass for all chunks in order, so that threads can then merge them independently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ends {
    /// The first code is removed, because it is merged with the last code of the chunk before.
    pub(super) first_goes: bool,
    /// The rule that merges the last code with the first code of the chunk after.
    pub(super) last_merges: Option<usize>,
}

/// A chunk for a thread to work on.
pub(super) struct Chunk<'a> {
    pub(super) low: &'a mut [u8],
    pub(super) high: &'a mut [u8],
    /// Number of codes in the chunk, which merging lowers.
    pub(super) length: &'a mut usize,
    /// What happens at its two ends.
    pub(super) ends: Ends,
}

impl Text {
    /// The text with one code per byte, in chunks of `room` codes.
    pub(super) fn new(bytes: Vec<u8>, room: usize) -> Text {
        let lengths = bytes.chunks(room).map(<[u8]>::len).collect();
        Text { low: bytes, high: Vec::new(), lengths, room }
    }

    /// Adds the plane of high bytes.
    pub(super) fn widen(&mut self) {
        // Zeroed memory is not allocated until it is written, so the end of chunks that will never be filled
        // again costs nothing.
        self.high = vec![0; self.low.len()];
    }

    /// The code at index `at` of a chunk.
    pub(super) fn code(&self, chunk: usize, at: usize) -> Code {
        let at = chunk * self.room + at;
        Code::from_le_bytes([self.low[at], self.high.get(at).copied().unwrap_or(0)])
    }

    /// The chunks that are not empty.
    pub(super) fn filled(&self) -> impl Iterator<Item = usize> {
        (0..self.lengths.len()).filter(|&chunk| self.lengths[chunk] > 0)
    }

    /// The first code after a chunk.
    pub(super) fn first_after(&self, chunk: usize) -> Option<Code> {
        let next = (chunk + 1..self.lengths.len()).find(|&next| self.lengths[next] > 0)?;
        Some(self.code(next, 0))
    }

    /// Pairs across chunks: the last code of each chunk, with the first of the next chunk that is not empty.
    pub(super) fn edges(&self) -> impl Iterator<Item = (Code, Code)> {
        let next = self.filled().skip(1);
        self.filled()
            .zip(next)
            .map(|(chunk, next)| (self.code(chunk, self.lengths[chunk] - 1), self.code(next, 0)))
    }

    /// What merging by these rules does at the ends of each chunk.
    pub(super) fn ends(&self, rules: &Rules) -> Vec<Ends> {
        let mut ends = vec![Ends::default(); self.lengths.len()];
        let filled: Vec<usize> = self.filled().collect();
        for pair in filled.windows(2) {
            let (chunk, next) = (pair[0], pair[1]);
            let last = self.code(chunk, self.lengths[chunk] - 1);
            let Some(rule) = rules.find(last, self.code(next, 0)) else { continue };
            let twice = rules.list[rule].left == rules.list[rule].right;
            if !twice || self.ends_unpaired(chunk, ends[chunk].first_goes) {
                ends[chunk].last_merges = Some(rule);
                ends[next].first_goes = true;
            }
        }
        ends
    }

    /// Whether the last code of a chunk is at an odd place (first, third, fifth …) in its run of equal codes,
    /// so that it is not the right code of a pair. A run that reaches back to the start of the chunk continues
    /// one of the chunk before; the number of its codes there is odd exactly if the first code is merged with
    /// that chunk's last.
    fn ends_unpaired(&self, chunk: usize, first_goes: bool) -> bool {
        let length = self.lengths[chunk];
        let last = self.code(chunk, length - 1);
        let run = (0..length).rev().take_while(|&at| self.code(chunk, at) == last).count();
        (run - usize::from(first_goes && run == length)) % 2 == 1
    }

    /// All chunks, with what happens at their ends.
    pub(super) fn chunks<'a>(&'a mut self, ends: &'a [Ends]) -> Vec<Chunk<'a>> {
        let mut high = self.high.chunks_mut(self.room);
        let low = self.low.chunks_mut(self.room).zip(&mut self.lengths).zip(ends);
        low.map(|((low, length), &ends)| Chunk {
            low: &mut low[..*length],
            high: high.next().map_or(&mut [], |high| &mut high[..*length]),
            length,
            ends,
        })
        .collect()
    }
}
