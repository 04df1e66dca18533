//! Makes up words: each number is spelled in syllables, so that different numbers give different words.

/// The onsets and rhymes of syllables. No rhyme ends with a letter that begins an onset, so every word has only one
/// division into syllables.
const ONSETS: [&str; 16] = ["t", "s", "l", "m", "d", "b", "f", "h", "w", "p", "c", "g", "k", "v", "j", "z"];
const RHYMES: [&str; 16] =
    ["e", "a", "o", "i", "en", "er", "u", "an", "in", "ou", "on", "ar", "or", "ai", "un", "é"];

/// Maximum bytes of a syllable.
const SYLLABLE: usize = 3;

/// Maximum number of syllables of a word.
const MOST_SYLLABLES: usize = 5;

/// Number of words of [`MOST_SYLLABLES`] syllables.
pub(super) const WORDS: u64 = 1 << (8 * MOST_SYLLABLES);

/// The text of a line. The buffer is longer than any line, so a word can be copied without a check.
pub(super) struct Line {
    bytes: [u8; 128],
    length: usize,
}

impl Line {
    /// An empty line.
    pub(super) fn new() -> Line {
        Line { bytes: [0; 128], length: 0 }
    }

    /// Removes everything, keeping the memory.
    pub(super) fn clear(&mut self) {
        self.length = 0;
    }

    /// Removes everything from `length` on.
    pub(super) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Number of bytes so far.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// The bytes so far, which are UTF-8.
    pub(super) fn text(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Appends a byte.
    ///
    /// # Panics
    /// If the buffer is full.
    pub(super) fn push(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    /// Capitalizes the letter at `at`, which begins a word.
    pub(super) fn capital(&mut self, at: usize) {
        self.bytes[at] = self.bytes[at].to_ascii_uppercase();
    }

    /// Appends a word of `count` syllables and returns `true`, or returns `false` and changes nothing if the line
    /// would become longer than `limit`.
    ///
    /// The buffer must have room for one more syllable beyond the limit.
    pub(super) fn word(
        &mut self,
        syllables: &Syllables,
        mut number: u64,
        count: usize,
        limit: usize,
    ) -> bool {
        let start = self.length;
        for _ in 0..count {
            let [letters @ .., length] = syllables.0[usize::from(number.to_le_bytes()[0])];
            number >>= 8;
            let end = self.length;
            if end > limit {
                break;
            }
            self.bytes[end..end + SYLLABLE].copy_from_slice(&letters);
            self.length = end + usize::from(length);
        }
        let fits = self.length <= limit;
        if !fits {
            self.length = start;
        }
        fits
    }
}

/// All 256 syllables: the bytes and the length of each.
pub(super) struct Syllables([[u8; SYLLABLE + 1]; 256]);

impl Syllables {
    /// Spells all combinations of an onset and a rhyme.
    pub(super) fn new() -> Syllables {
        let mut all = [[0; SYLLABLE + 1]; 256];
        let pairs = RHYMES.iter().flat_map(|rhyme| ONSETS.iter().map(move |onset| (onset, rhyme)));
        for (syllable, (onset, rhyme)) in all.iter_mut().zip(pairs) {
            let letters = onset.bytes().chain(rhyme.bytes());
            let mut length = 0;
            for (place, letter) in syllable.iter_mut().zip(letters) {
                *place = letter;
                length += 1;
            }
            syllable[SYLLABLE] = length;
        }
        Syllables(all)
    }
}
