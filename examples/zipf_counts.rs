//! Writes counts like those of a large corpus, as another program would: Parquet with the columns `pretoken` and
//! `count`, in no order, in a stream.
//!
//! The frequency of the pre-token of rank r is proportional to 1 / (r + 2.7) (Zipf, Mandelbrot) for the first 10 000
//! ranks. Beyond them it falls with a power that agrees with Heaps' law: a text of n tokens has about n^0.615 distinct
//! pre-tokens, so frequencies fall with r^(1 / 0.615), to 1 at the last rank.
//!
//! A pre-token is a word, half of them after a space. It has a syllable of three letters, which is drawn by Zipf's law,
//! too, and an ending, so that merges have something to learn. No two words are equal: all words of a syllable have
//! other endings.
//!
//! ```sh
//! cargo run --release --example zipf_counts -- 50000000 counts.parquet
//! tokenmill train --from-counts counts.parquet --split gpt2 --vocab-size 32768 -o tokenizer
//! ```

#![expect(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;
use std::fs::File;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringBuilder};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use tokenmill::base::int::truncate_to_u64;

/// Ranks whose frequency follows Zipf's law.
const FREQUENT: f64 = 10_000.0;

/// The exponent of Heaps' law.
const HEAPS: f64 = 0.615;

/// Syllables of a consonant, a vowel and a consonant.
const SYLLABLES: u32 = 20 * 5 * 20;

/// Rows that are written at a time.
const BATCH_ROWS: usize = 1 << 16;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [distinct, path] = &arguments[..] else {
        return Err("usage: zipf_counts DISTINCT FILE".into());
    };
    let distinct: u32 = distinct.parse()?;
    let settings = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_enabled(false);
    let mut writer = None;
    let (mut words, mut counts) = (StringBuilder::new(), Vec::new());
    let (mut word, mut bytes, mut total) = (String::new(), 0, 0_i64);
    let mut endings = Endings::new(distinct);
    for rank in 0..distinct {
        endings.next_word(rank, &mut word);
        words.append_value(&word);
        counts.push(count(rank, distinct));
        bytes += word.len();
        total += counts[counts.len() - 1];
        if counts.len() == BATCH_ROWS || rank + 1 == distinct {
            let columns: [(&str, ArrayRef); 2] = [
                ("pretoken", Arc::new(words.finish())),
                ("count", Arc::new(Int64Array::from(std::mem::take(&mut counts)))),
            ];
            let batch = RecordBatch::try_from_iter(columns)?;
            let writer = match &mut writer {
                Some(writer) => writer,
                none => none.insert(ArrowWriter::try_new(
                    File::create(path)?,
                    batch.schema(),
                    Some(settings.clone().build()),
                )?),
            };
            writer.write(&batch)?;
        }
    }
    writer.ok_or("there are no pre-tokens")?.close()?;
    println!("{distinct} distinct pre-tokens with {bytes} bytes, {total} in all");
    Ok(())
}

/// The count of the pre-token of a rank.
fn count(rank: u32, distinct: u32) -> i64 {
    let (rank, last) = (f64::from(rank) + 2.7, f64::from(distinct) + 2.7);
    let rare = |rank: f64| (last / rank).powf(1.0 / HEAPS);
    let count =
        if rank < FREQUENT { rare(FREQUENT.min(last)) * FREQUENT.min(last) / rank } else { rare(rank) };
    i64::try_from(truncate_to_u64(count.max(1.0))).unwrap_or(i64::MAX)
}

/// Gives each syllable its next ending.
struct Endings {
    /// The number of endings that each syllable has had.
    used: Vec<u32>,
    /// The sums of the syllables' shares, by which they are drawn.
    shares: Vec<f64>,
    /// The state of the generator of random numbers.
    state: u64,
}

impl Endings {
    /// Starts with a seed that follows from the number of words.
    fn new(distinct: u32) -> Endings {
        let shares = (1..=SYLLABLES).scan(0.0, |sum, rank| {
            *sum += 1.0 / f64::from(rank);
            Some(*sum)
        });
        Endings { used: vec![0; 20 * 5 * 20], shares: shares.collect(), state: u64::from(distinct) }
    }

    /// Returns 32 random bits (SplitMix64).
    fn random(&mut self) -> u32 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        u32::try_from(mixed >> 32).expect("32 bits")
    }

    /// Writes the next word. Words of a syllable get the endings "", "a", …, "z", "aa", …
    fn next_word(&mut self, rank: u32, word: &mut String) {
        const CONSONANTS: &[u8; 20] = b"tnsrhdlcmfpgbvkwyjxz";
        const VOWELS: &[u8; 5] = b"eaoiu";
        let drawn = f64::from(self.random()) / f64::from(u32::MAX) * self.shares[self.shares.len() - 1];
        let syllable = self.shares.partition_point(|&share| share < drawn).min(self.shares.len() - 1);
        word.clear();
        if rank.is_multiple_of(2) {
            word.push(' ');
        }
        // Syllables of near ranks have the same vowel or consonants.
        for letter in [CONSONANTS[syllable % 20], VOWELS[syllable / 20 % 5], CONSONANTS[syllable / 100]] {
            word.push(char::from(letter));
        }
        let mut ending = self.used[syllable];
        self.used[syllable] += 1;
        while ending > 0 {
            word.push(char::from(
                b"eainostrldhcumpgfybwvkxjqz"[usize::try_from((ending - 1) % 26).expect("a letter")],
            ));
            ending = (ending - 1) / 26;
        }
    }
}
