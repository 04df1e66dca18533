//! Made-up words: a number is spelled in syllables, so that different numbers are different words.

/// Onset and rhyme of every syllable. No rhyme ends in a letter that begins an onset, so a word can be
/// taken apart into its syllables in one way only.
const ONSETS: [&str; 16] = ["t", "s", "l", "m", "d", "b", "f", "h", "w", "p", "c", "g", "k", "v", "j", "z"];
const RHYMES: [&str; 16] =
    ["e", "a", "o", "i", "en", "er", "u", "an", "in", "ou", "on", "ar", "or", "ai", "un", "é"];

/// The most bytes of a syllable.
const SYLLABLE: usize = 3;

/// The most syllables of a word.
const MOST_SYLLABLES: usize = 5;

/// How many words can be spelled with [`MOST_SYLLABLES`].
pub(super) const WORDS: u64 = 1 << (8 * MOST_SYLLABLES);

/// Text of one line as it grows; longer than any line, so that a word can be copied without asking.
pub(super) struct Line {
    bytes: [u8; 128],
    length: usize,
}

impl Line {
    pub(super) fn new() -> Line {
        Line { bytes: [0; 128], length: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.length = 0;
    }

    /// Takes back all from `length` on.
    pub(super) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub(super) fn push(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    /// Makes the letter at `at`, which begins a word, a capital one.
    pub(super) fn capital(&mut self, at: usize) {
        self.bytes[at] = self.bytes[at].to_ascii_uppercase();
    }

    /// Appends a word, or does nothing and gives `false` if the line would then be longer than `limit`.
    ///
    /// The limit leaves room for a whole syllable more in the line's bytes.
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

/// All 256 syllables: their bytes and how many there are.
pub(super) struct Syllables([[u8; SYLLABLE + 1]; 256]);

impl Syllables {
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
