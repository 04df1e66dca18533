//! Generates text that resembles verse. Words follow Zipf's distribution, and new words keep appearing, as in natural
//! text. A row depends only on its index and the seed, so rows can be generated in any order by any thread.
//!
//! Makes up words: each number is spelled in syllables, so that different numbers give different words.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryViewArray, Int64Array, RecordBatch, make_view};
use arrow::buffer::{Buffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};

use super::cast::cast;
use super::error::{damaged, holds_no_text, no_column};
use super::{Batch, Documents, Identity, ReadConfig, RowRange, Source, SourceSpec, Unit};
use crate::base::int::{parse_count, to_f64, to_u64, truncate_to_u32, truncate_to_u64, u64_to_usize};
use crate::base::random::{SeededRandom, mix};
use crate::error::{Error, Result};

/// Rows per unit.
const UNIT_ROWS: u64 = 1 << 18;

/// Words in a line of `demo:words`.
const WORDS_IN_LINE: u64 = 6;

/// Lines of verse in a row of `demo:pages`.
const LINES_IN_PAGE: usize = 64;

/// The generators that a URI can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DemoKind {
    /// Words with Zipf's distribution.
    Verse,
    /// A number of distinct words, each used in turn.
    Words { distinct: u64 },
    /// Pages of verse, at several gigabytes per second.
    Pages,
}

impl DemoKind {
    /// Average bytes of a row, for estimates of sizes.
    const fn row_bytes(self) -> u64 {
        match self {
            DemoKind::Verse => 43,
            DemoKind::Words { .. } => 86,
            DemoKind::Pages => 2_800,
        }
    }
}

/// A generated source.
pub(super) struct Demo {
    /// What determines the rows.
    rows: Generator,
    /// Ranges of [`UNIT_ROWS`] rows.
    units: Vec<Unit>,
}

/// Everything that determines the rows.
#[derive(Clone)]
struct Generator {
    /// The URI, which messages show.
    uri: String,
    /// The generator.
    kind: DemoKind,
    /// Number of rows of the whole source.
    lines: u64,
    /// The first row of the first unit.
    first: u64,
    /// The seed, which selects one of many texts.
    seed: u64,
    /// Rows per batch.
    batch_rows: u64,
    /// The number of the source, for batches.
    source: usize,
    /// The pass-through columns, if any.
    columns: Option<SchemaRef>,
}

impl Demo {
    /// Opens a generator and divides its rows into units. The URI is `demo:NAME?KEY=VALUE&…`; numbers may contain
    /// underscores.
    ///
    /// | name | keys and defaults | text |
    /// | --- | --- | --- |
    /// | `verse` | `lines=100000`, `seed=1` | lines of 20 to 60 bytes with Zipf-distributed words |
    /// | `words` | `distinct=100000`, `lines` (enough to use each word once), `seed=1` | lines of 6 words |
    /// | `pages` | `pages=1000`, `seed=1` | pages of 64 lines of verse, 2.8 kB each, generated much faster than `verse` |
    ///
    /// The columns are `line`, which is the text, and `gutenberg_id`, the number of a book.
    ///
    /// # Errors
    /// The URI names no generator or has an invalid parameter, or a column is unknown.
    pub(super) fn open(spec: &SourceSpec, source: usize, config: ReadConfig) -> Result<Demo> {
        let (kind, lines, seed) = parse(&spec.uri)?;
        check_column(spec)?;
        let fields =
            spec.columns.iter().map(|column| field(&spec.uri, column)).collect::<Result<Vec<_>>>()?;
        let starts = (0..lines).step_by(u64_to_usize(UNIT_ROWS));
        let unit = |from: u64| {
            let to = lines.min(from + UNIT_ROWS);
            let (rows, text_bytes) = (Some(to - from), Some((to - from) * kind.row_bytes()));
            Unit { name: spec.uri.clone(), range: RowRange::Rows(from, to), rows, text_bytes }
        };
        let units = starts.map(unit).collect();
        let rows = Generator {
            uri: spec.uri.clone(),
            kind,
            lines,
            first: 0,
            seed,
            batch_rows: (config.batch_bytes / kind.row_bytes()).clamp(1, 1 << 16),
            source,
            columns: (!fields.is_empty()).then(|| Arc::new(Schema::new(fields))),
        };
        Ok(Demo { rows, units })
    }
}

impl Generator {
    /// The batches of a unit.
    fn batches(self, unit: usize) -> impl Iterator<Item = Result<Batch>> {
        let start = self.unit_start(unit);
        let rows = self.lines.min(start + UNIT_ROWS) - start;
        let mut writer = Writer::new(self.kind, self.seed);
        let starts = (0..rows).step_by(u64_to_usize(self.batch_rows));
        starts.map(move |first| self.batch(&mut writer, unit, first, self.batch_rows.min(rows - first)))
    }

    /// Generates `rows` rows of a unit from its row `first` on.
    fn batch(&self, writer: &mut Writer, unit: usize, first: u64, rows: u64) -> Result<Batch> {
        let from = self.unit_start(unit) + first;
        let mut bytes = Vec::with_capacity(u64_to_usize(rows * self.kind.row_bytes() * 3 / 2));
        let mut views = Vec::with_capacity(u64_to_usize(rows));
        for row in from..from + rows {
            let start = bytes.len();
            writer.write_row(self.kind, self.seed, row, &mut bytes);
            views.push(make_view(&bytes[start..], 0, truncate_to_u32(start)));
        }
        let failed = |cause| damaged(&self.uri, "a generated batch", cause);
        let documents =
            BinaryViewArray::try_new(ScalarBuffer::from(views), vec![Buffer::from_vec(bytes)], None);
        let documents = documents.map_err(failed)?;
        let columns = match &self.columns {
            Some(schema) => {
                let columns = schema.fields().iter().map(|field| self.column(field, &documents, from));
                let columns = columns.collect::<Result<_, _>>().map_err(failed)?;
                Some(RecordBatch::try_new(schema.clone(), columns).map_err(failed)?)
            }
            None => None,
        };
        let source = self.source;
        Ok(Batch { source, unit, first_row: first, documents, columns, continued: false, open: false })
    }

    /// Index of a unit's first row.
    fn unit_start(&self, unit: usize) -> u64 {
        self.first + to_u64(unit) * UNIT_ROWS
    }

    /// A pass-through column beside these documents, which begin at row `from`.
    fn column(
        &self,
        field: &FieldRef,
        documents: &BinaryViewArray,
        from: u64,
    ) -> Result<ArrayRef, arrow::error::ArrowError> {
        if *field.data_type() == DataType::Int64 {
            let books = (from..from + to_u64(documents.len())).map(|row| book(self.seed, row));
            return Ok(Arc::new(Int64Array::from_iter_values(books)));
        }
        let text: ArrayRef = Arc::new(documents.clone().to_string_view()?);
        cast(&text, field.data_type())
    }
}

impl Source for Demo {
    fn units(&self) -> &[Unit] {
        &self.units
    }

    fn columns(&self) -> Option<SchemaRef> {
        self.rows.columns.clone()
    }

    fn keep_units(&mut self, range: Range<usize>) -> bool {
        self.rows.first = self.rows.unit_start(range.start);
        self.units.truncate(range.end);
        self.units.drain(..range.start);
        true
    }

    fn identity(&self, _unit: usize) -> Result<Identity> {
        Ok(Identity::Generated)
    }

    fn read(&self, unit: usize) -> Result<Documents<'static>> {
        Ok(Box::new(self.rows.clone().batches(unit)))
    }
}

/// The error for a wrong URI.
fn demo_error(uri: &str, problem: impl fmt::Display) -> Error {
    Error::usage(format!("{uri}: {problem}")).with_help(
        "generated sources are demo:verse?lines=100000&seed=1, demo:words?distinct=100000&lines=…&seed=1 and demo:pages?pages=1000&seed=1",
    )
}

/// The generator, the number of lines, and the seed that a URI asks for.
///
/// # Errors
/// The URI has an unknown name or parameter, a repeated one, or a value out of range.
fn parse(uri: &str) -> Result<(DemoKind, u64, u64)> {
    let rest = uri.strip_prefix("demo:").unwrap_or(uri);
    let (name, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut given = BTreeMap::new();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let number = parse_count(value)
            .ok_or_else(|| demo_error(uri, format!("{key:?} needs a whole number, not {value:?}")))?;
        if given.insert(key, number).is_some() {
            return Err(demo_error(uri, format!("{key:?} is given twice")));
        }
    }
    let mut take = |key: &str| given.remove(key);
    let seed = take("seed").unwrap_or(1);
    let (kind, lines) = match name {
        "verse" => (DemoKind::Verse, take("lines").unwrap_or(100_000)),
        "words" => {
            let distinct = take("distinct").unwrap_or(100_000);
            if distinct == 0 || distinct > WORDS {
                return Err(demo_error(uri, format!("\"distinct\" is from 1 to {WORDS}")));
            }
            (DemoKind::Words { distinct }, take("lines").unwrap_or(distinct.div_ceil(WORDS_IN_LINE)))
        }
        "pages" => (DemoKind::Pages, take("pages").unwrap_or(1_000)),
        _ => return Err(demo_error(uri, format!("there is no generator {name:?}"))),
    };
    match given.keys().next() {
        Some(key) => Err(demo_error(uri, format!("{name} has no parameter {key:?}"))),
        None if lines > 1 << 34 => Err(demo_error(uri, "there are 2^34 lines or pages at most")),
        None => Ok((kind, lines, seed)),
    }
}

/// Checks that the text's column is the generated line.
///
/// # Errors
/// The column is unknown or holds no text, or a template is given.
fn check_column(spec: &SourceSpec) -> Result<()> {
    if spec.template.is_some() {
        return Err(demo_error(&spec.uri, "its text cannot be built from columns: leave `template` out"));
    }
    let column = spec.column.as_deref().unwrap_or("line");
    let found = field(&spec.uri, column)?;
    if *found.data_type() == DataType::Utf8View {
        return Ok(());
    }
    Err(holds_no_text(&spec.uri, column, found.data_type()).with_help("the text is in \"line\""))
}

/// The field of a pass-through column.
///
/// # Errors
/// The column is unknown.
fn field(uri: &str, column: &str) -> Result<FieldRef> {
    let data_type = match column {
        "line" => DataType::Utf8View,
        "gutenberg_id" => DataType::Int64,
        _ => {
            let columns = ["line", "gutenberg_id"].map(str::to_owned);
            return Err(no_column(uri, column, &columns).with_help("the text is in \"line\""));
        }
    };
    Ok(Arc::new(Field::new(column, data_type, false)))
}

/// The book that a row belongs to. 4096 consecutive rows belong to one book.
fn book(seed: u64, row: u64) -> i64 {
    let drawn = mix(mix(seed ^ 0xB00C) ^ (row >> 12)) % 60_000;
    i64::try_from(drawn).unwrap_or(0) + 1
}

/// Writes rows. Its memory is reused from row to row.
struct Writer {
    /// The spelling of numbers.
    syllables: Syllables,
    /// The line that is being written.
    line: LineBuffer,
    /// The common words of all pages; empty for other generators.
    pages: PagePool,
}

impl Writer {
    /// A writer with an empty line.
    fn new(kind: DemoKind, seed: u64) -> Writer {
        let mut writer =
            Writer { syllables: Syllables::new(), line: LineBuffer::new(), pages: PagePool::default() };
        if kind == DemoKind::Pages {
            writer.pages = PagePool::new(&mut writer, seed);
        }
        writer
    }

    /// Appends a row to `out`.
    fn write_row(&mut self, kind: DemoKind, seed: u64, row: u64, out: &mut Vec<u8>) {
        let random = SeededRandom::of(mix(mix(seed).wrapping_add(row)));
        self.line.clear();
        match kind {
            DemoKind::Verse => self.verse(random),
            DemoKind::Words { distinct } => self.words(distinct, seed, row),
            DemoKind::Pages => return self.page(random, out),
        }
        out.extend_from_slice(self.line.text());
    }

    /// Appends a page: consecutive lines of the pool, with new rare words.
    fn page(&mut self, mut random: SeededRandom, out: &mut Vec<u8>) {
        let first = random.below(self.pages.lines.len() - LINES_IN_PAGE);
        let (from, to) = (self.pages.lines[first], self.pages.lines[first + LINES_IN_PAGE]);
        let mut copied = from.text;
        for &gap in &self.pages.gaps[from.gap..to.gap] {
            out.extend_from_slice(&self.pages.text[copied..gap]);
            copied = gap;
            let rank = rank(random.next() / RARE);
            let (number, count) = spelling(rank);
            self.line.clear();
            self.line.word(&self.syllables, number, count, usize::from(u8::MAX / 2) - SYLLABLE);
            if gap == from.text || self.pages.text[gap - 1] == b'\n' || rank.is_multiple_of(8) {
                self.line.capital(0);
            }
            out.extend_from_slice(self.line.text());
        }
        // Without the line feed at the end.
        out.extend_from_slice(&self.pages.text[copied..to.text - 1]);
    }

    /// Writes a line of 20 to 60 bytes.
    fn verse(&mut self, mut random: SeededRandom) {
        /// Minimum bytes of a line. A shorter line gets another word.
        const SHORTEST: usize = 20;
        // The first number is not used, so that lines remain the same as in earlier versions.
        random.next();
        let shape = random.next();
        // The limit reserves one byte for the punctuation mark at the end.
        let limit = 28 + u64_to_usize(shape % 32);
        loop {
            let start = self.line.len();
            let draw = random.next();
            if start > 0 {
                if draw.is_multiple_of(16) {
                    self.line.push(b',');
                }
                self.line.push(b' ');
            }
            let at = self.line.len();
            let rank = rank(draw);
            let (number, count) = spelling(rank);
            if !self.line.word(&self.syllables, number, count, limit) {
                self.line.truncate(start);
                if start >= SHORTEST {
                    break;
                }
                // The line is too short to end here, so a short word is added, which always fits.
                self.line.push(b' ');
                self.line.word(&self.syllables, rank % 64, 1, limit);
                continue;
            }
            if start == 0 || (rank > 1_000 && rank.is_multiple_of(8)) {
                self.line.capital(at);
            }
            if draw < u64::MAX / RARE {
                self.line.rare.push(at..self.line.len());
            }
        }
        match (shape >> 32) % 8 {
            0 => self.line.push(b'.'),
            1 | 2 => self.line.push(b','),
            3 => self.line.push(b';'),
            4 if shape >> 40 & 1 == 0 => self.line.push(b'!'),
            4 => self.line.push(b'?'),
            _ => {}
        }
    }

    /// Writes a line of consecutive numbers spelled as words.
    fn words(&mut self, distinct: u64, seed: u64, row: u64) {
        for word in row * WORDS_IN_LINE..(row + 1) * WORDS_IN_LINE {
            if self.line.len() > 0 {
                self.line.push(b' ');
            }
            // Multiplying by an odd number permutes the numbers below a power of two, so words stay distinct.
            let number =
                (word % distinct).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(mix(seed)) % WORDS;
            self.line.word(&self.syllables, number, 5, usize::from(u8::MAX / 2));
        }
    }
}

/// One word in so many (35) is rare: its rank is above 4 000. In pages, the rare words alone are drawn for each page.
const RARE: u64 = 35;

/// Bytes (1 MiB) of the common words of all pages.
const POOL_BYTES: usize = 1 << 20;

/// Lines of verse without their rare words.
#[derive(Default)]
struct PagePool {
    /// The lines, each with a line feed.
    text: Vec<u8>,
    /// The positions in `text` at which rare words are left out.
    gaps: Vec<usize>,
    /// Where each line begins, and where the last one ends.
    lines: Vec<PoolPosition>,
}

/// A position in a [`PagePool`]: in its text, and in its list of gaps.
#[derive(Clone, Copy)]
struct PoolPosition {
    text: usize,
    gap: usize,
}

impl PagePool {
    /// Writes the lines of a seed.
    fn new(writer: &mut Writer, seed: u64) -> PagePool {
        let mut pool = PagePool::default();
        for row in 0.. {
            pool.lines.push(PoolPosition { text: pool.text.len(), gap: pool.gaps.len() });
            if pool.text.len() >= POOL_BYTES {
                break;
            }
            writer.line.clear();
            writer.verse(SeededRandom::of(mix(mix(seed).wrapping_add(row))));
            let mut copied = 0;
            for rare in &writer.line.rare {
                pool.text.extend_from_slice(&writer.line.text()[copied..rare.start]);
                pool.gaps.push(pool.text.len());
                copied = rare.end;
            }
            pool.text.extend_from_slice(&writer.line.text()[copied..]);
            pool.text.push(b'\n');
        }
        pool
    }
}

/// The rank of a word by the Zipf–Mandelbrot law: the probability of a rank above r is (1 + r / 20)^(-2/3). Then the
/// number of distinct words grows with the power 0.6 of the number of words.
fn rank(draw: u64) -> u64 {
    /// Mandelbrot's shift: the most frequent words are less dominant than by Zipf's law alone.
    const SHIFT: f64 = 20.0;
    // The probability is never 0. Its minimum 2^-40 bounds the rank to about 2^64.
    let chance = (to_f64(draw >> 24) + 1.0) / to_f64(1 << 40);
    truncate_to_u64(SHIFT * (1.0 / (chance * chance.sqrt()) - 1.0))
}

/// The number and the number of syllables that spell the word of a rank. Frequent words are short.
fn spelling(rank: u64) -> (u64, usize) {
    let scattered = rank.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    match rank {
        0..64 => (rank, 1),
        64..16_384 => (scattered, 2),
        16_384..4_194_304 => (scattered, 3),
        _ => (scattered, 4),
    }
}

/// The onsets and rhymes of syllables. No rhyme ends with a letter that begins an onset, so every word has only one
/// division into syllables.
const ONSETS: [&str; 16] = ["t", "s", "l", "m", "d", "b", "f", "h", "w", "p", "c", "g", "k", "v", "j", "z"];
const RHYMES: [&str; 16] =
    ["e", "a", "o", "i", "en", "er", "u", "an", "in", "ou", "on", "ar", "or", "ai", "un", "é"];

/// Maximum bytes of a syllable.
const SYLLABLE: usize = 3;

/// Maximum number of syllables of a word.
const MAX_SYLLABLES: usize = 5;

/// Number of words of [`MAX_SYLLABLES`] syllables.
const WORDS: u64 = 1 << (8 * MAX_SYLLABLES);

/// The text of a line. The buffer is longer than any line, so a word can be copied without a check.
struct LineBuffer {
    /// The memory, of which only the beginning is filled.
    bytes: [u8; 128],
    /// Number of bytes that are filled.
    length: usize,
    /// The places of rare words.
    rare: Vec<Range<usize>>,
}

impl LineBuffer {
    /// An empty line.
    fn new() -> LineBuffer {
        LineBuffer { bytes: [0; 128], length: 0, rare: Vec::new() }
    }

    /// Removes everything, keeping the memory.
    fn clear(&mut self) {
        self.length = 0;
        self.rare.clear();
    }

    /// Removes everything from `length` on.
    fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Number of bytes so far.
    fn len(&self) -> usize {
        self.length
    }

    /// The bytes so far, which are UTF-8.
    fn text(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Appends a byte.
    ///
    /// # Panics
    /// If the buffer is full.
    fn push(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    /// Capitalizes the letter at `at`, which begins a word.
    fn capital(&mut self, at: usize) {
        self.bytes[at] = self.bytes[at].to_ascii_uppercase();
    }

    /// Appends a word of `count` syllables and returns `true`, or returns `false` and changes nothing if the line
    /// would become longer than `limit`.
    ///
    /// The buffer must have room for one more syllable beyond the limit.
    fn word(&mut self, syllables: &Syllables, mut number: u64, count: usize, limit: usize) -> bool {
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
struct Syllables([[u8; SYLLABLE + 1]; 256]);

impl Syllables {
    /// Spells all combinations of an onset and a rhyme.
    fn new() -> Syllables {
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
