//! Texts that several benchmarks use.
//!
//! The real texts are read from the folder that `TOKENMILL_DATA` names. If it is not set, generated text of the
//! same size replaces them, and results that are known for the real ones are not checked.

#![allow(dead_code, reason = "each benchmark uses a part")]

use std::path::Path;

use tokenmill::base::int::u64_to_usize;

/// A text for a benchmark.
pub(crate) struct Text {
    /// Its bytes.
    pub(crate) bytes: Vec<u8>,
    /// Whether it is the real text, with known results.
    pub(crate) real: bool,
}

/// *Swann's Way*, 1.09 MB.
pub(crate) fn proust() -> Text {
    text("swanns-way.txt", 1_090_077)
}

/// The Wikipedia article that minbpe trains on, 186 kB.
pub(crate) fn taylorswift() -> Text {
    text("taylorswift.txt", 185_768)
}

fn text(file: &str, bytes: usize) -> Text {
    let real = std::env::var_os("TOKENMILL_DATA").map(|folder| Path::new(&folder).join(file));
    match real {
        Some(path) => {
            let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            Text { bytes, real: true }
        }
        None => Text { bytes: generated(bytes), real: false },
    }
}

/// Words of made-up syllables, frequent words short, the same in each run.
pub(crate) fn generated(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) % below
    };
    let mut text = String::with_capacity(bytes + 32);
    while text.len() < bytes {
        let rank = next(300) * next(300) / (1 + next(300));
        let mut word = rank + 1;
        while word > 0 {
            text.push_str(["ka", "to", "ri", "en", "sha", "lu", "mo"][u64_to_usize(word % 7)]);
            word /= 7;
        }
        text.push_str(["", ",", ".", "'s"][u64_to_usize(next(40) / 13)]);
        text.push(if next(12) == 0 { '\n' } else { ' ' });
    }
    text.truncate(bytes);
    text.into_bytes()
}

/// One of the large texts in full: the file itself, or the file decompressed.
pub(crate) fn corpus(file: &str) -> Vec<u8> {
    let compressed =
        std::env::var_os("TOKENMILL_DATA").map(|folder| Path::new(&folder).join(format!("{file}.zst")));
    match compressed.filter(|path| path.exists()).map(std::fs::File::open) {
        Some(file) => zstd::decode_all(file.expect("a readable file")).expect("a compressed text"),
        None => text(file, 8 << 20).bytes,
    }
}
