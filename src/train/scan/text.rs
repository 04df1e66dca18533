use super::rules::Rules;

/// A token's number in the text as it is scanned.
pub(super) type Code = u16;

/// The text as codes: their low bytes, and their high bytes once there are any.
///
/// It is cut into chunks of equal room, each filled from its start with as many codes as it has left: a
/// merge across two chunks takes the place of the last code of the first. Chunks never exchange codes
/// otherwise, so each thread has some of them for itself.
pub(super) struct Text {
    pub(super) low: Vec<u8>,
    /// Empty, or as long as `low`.
    pub(super) high: Vec<u8>,
    /// Codes in each chunk.
    pub(super) lengths: Vec<usize>,
    /// Room in each chunk but the last.
    pub(super) room: usize,
}

/// What merging does to the ends of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ends {
    /// The first code goes: the last of the chunk before is merged with it.
    pub(super) first_goes: bool,
    /// The rule by which the last code is merged with the first of the chunk after.
    pub(super) last_merges: Option<usize>,
}

/// A chunk to work on.
pub(super) struct Chunk<'a> {
    pub(super) low: &'a mut [u8],
    pub(super) high: &'a mut [u8],
    pub(super) length: &'a mut usize,
    pub(super) ends: Ends,
}

impl Text {
    pub(super) fn new(bytes: Vec<u8>, room: usize) -> Text {
        let lengths = bytes.chunks(room).map(<[u8]>::len).collect();
        Text { low: bytes, high: Vec::new(), lengths, room }
    }

    /// Makes room for codes of two bytes.
    pub(super) fn widen(&mut self) {
        // Zeroed memory takes none until it is written to, so what no chunk fills any more costs nothing.
        self.high = vec![0; self.low.len()];
    }

    /// The code at a place of a chunk.
    pub(super) fn code(&self, chunk: usize, at: usize) -> Code {
        let at = chunk * self.room + at;
        Code::from_le_bytes([self.low[at], self.high.get(at).copied().unwrap_or(0)])
    }

    /// The chunks that have codes.
    pub(super) fn filled(&self) -> impl Iterator<Item = usize> {
        (0..self.lengths.len()).filter(|&chunk| self.lengths[chunk] > 0)
    }

    /// The first code behind a chunk.
    pub(super) fn first_after(&self, chunk: usize) -> Option<Code> {
        let next = (chunk + 1..self.lengths.len()).find(|&next| self.lengths[next] > 0)?;
        Some(self.code(next, 0))
    }

    /// The last code of each chunk that has codes, with the first of the next such chunk.
    pub(super) fn edges(&self) -> impl Iterator<Item = (Code, Code)> {
        let next = self.filled().skip(1);
        self.filled()
            .zip(next)
            .map(|(chunk, next)| (self.code(chunk, self.lengths[chunk] - 1), self.code(next, 0)))
    }

    /// What merging by these rules does to the ends of each chunk.
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

    /// Whether the last code of a chunk is the first, third, fifth … of a run of the same code. A run that
    /// reaches back to the chunk's start goes on from the chunk before by an odd number exactly if the
    /// first code is merged with that chunk's last.
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
