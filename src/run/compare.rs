//! Encodes the same documents with several tokenizers and compares the results, by source, script and word.

use std::path::{Path, PathBuf};

use arrow::array::{Array, ArrayRef};
use arrow::util::display::array_value_to_string;

use super::encoding::shown_token;
use super::extend::load_as_needed;
use super::inputs::{Inputs, ReadBy};
use super::plan::Plan;
use super::resample::{Replicates, key_of_id, key_of_place};
use crate::base::hash::{Map, Set};
use crate::base::int::{to_u64, to_usize};
use crate::base::lazy::Lazy;
use crate::base::pools;
use crate::count::count_characters;
use crate::encode::{EncodeConfig, Encoder, MissingBytes, Worker};
use crate::error::{Error, Result};
use crate::observer::Stage;
use crate::report::{ComparedIntervals, ComparedText, ComparedTokenizer, ComparedWord, Comparison};
use crate::source::{Batch, OpenContext, shown_uri, tokenizer_path};
use crate::split::class_ranges;
use crate::vocab::{LoadOptions, unreachable_tokens};

/// Number of words and tokens to list.
const SHOWN: usize = 20;
/// Number of distinct words to count: the first that are found. Further ones are ignored, which bounds memory.
const WORDS: usize = 100_000;
/// Bytes of the longest word to count. Longer ones are mostly addresses.
const WORD_BYTES: usize = 64;

/// Sources that are the same texts in several languages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParallelTexts {
    /// The column with the id of a document. The versions of a text have the same id.
    pub column: String,
    /// The index of the source that the others are measured against.
    pub base: usize,
}

/// The result of comparing tokenizers.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The comparison.
    pub comparison: Comparison,
    /// Number of rows or files that were skipped.
    pub skipped: u64,
}

/// Encodes a plan's documents with several tokenizers and compares the results. Each tokenizer is named by a path, or
/// as [`tokenizer_path`] describes. `options` give settings that the files of some tokenizers lack, and
/// `missing_bytes` says how bytes without a token are encoded. The comparison has no baseline; the caller may set one.
///
/// With `parallel`, the sources must be the same texts in several languages. Then the comparison also has the tokens of
/// each source against the base.
///
/// **Memory:** the tokenizers, the ids of parallel texts, and two batches per thread. Words take about 10 MB, and up to
/// 10 MB more per thread if there are many distinct ones.
///
/// # Errors
/// - A tokenizer or a document cannot be read or encoded.
/// - A file changed while it was read.
/// - Sources that should be parallel do not have the same ids, each once.
/// - The observer asks to stop.
pub fn compare(
    plan: &Plan,
    tokenizers: &[PathBuf],
    options: &LoadOptions,
    missing_bytes: MissingBytes,
    parallel: Option<&ParallelTexts>,
    context: &OpenContext<'_>,
) -> Result<Compared> {
    super::with_threads(plan.threads, || {
        let columns = parallel.map(|parallel| parallel.column.clone());
        let inputs = Inputs::open_with_columns(plan, columns.as_slice(), context)?;
        let config = EncodeConfig { missing_bytes, ..EncodeConfig::default() };
        let known = tokenizers.iter().map(|path| LoadedTokenizer::load(path, options, config, context));
        let known = known.collect::<Result<Vec<_>>>()?;
        let mut sums = ComparisonSums::new(&known, plan.sources.len());
        context.observer.started(Stage::Encode, inputs.sampled_bytes());
        pools::ordered(
            inputs.join_parts(inputs.sampled(ReadBy::Readers)),
            2 * plan.threads,
            || known.iter().map(|known| known.encoder.observed_worker(context.observer)).collect::<Vec<_>>(),
            |workers, batch| ComparedBatch::of(&batch, workers, &known, &inputs),
            |part| {
                context.observer.advanced(Stage::Encode, part.text_bytes());
                context.observer.checkpoint()?;
                sums.add(part, parallel.map(|_| plan))
            },
        )?;
        context.observer.finished(Stage::Encode);
        inputs.check_stamps()?;
        if parallel.is_some() {
            sums.check_ids(plan)?;
        }
        let comparison = sums.finish(plan, parallel.map(|parallel| parallel.base), &known)?;
        Ok(Compared { comparison, skipped: inputs.skipped(context.observer) })
    })
}

/// A tokenizer with the path by which the user named it.
struct LoadedTokenizer {
    /// The path, address or name that the user gave, for the report.
    path: PathBuf,
    /// The encoder. It adds no BOS or EOS tokens.
    encoder: Encoder,
}

impl LoadedTokenizer {
    /// Loads a tokenizer and prepares it for encoding.
    ///
    /// # Errors
    /// It cannot be found or read, or cannot be used for encoding.
    fn load(
        path: &Path,
        options: &LoadOptions,
        config: EncodeConfig,
        context: &OpenContext<'_>,
    ) -> Result<LoadedTokenizer> {
        let place = tokenizer_path(path, &context.hub, context.observer)?;
        let vocabulary = load_as_needed(&place, options, context.observer)?;
        let encoder = Encoder::new(vocabulary, config)?;
        Ok(LoadedTokenizer { path: path.to_path_buf(), encoder })
    }

    /// The figures of a tokenizer. `used` says which of its tokens occurred.
    ///
    /// # Errors
    /// The split's regular expression is invalid.
    fn compared(&self, used: &[bool]) -> Result<ComparedTokenizer> {
        let mut tokens: Vec<_> =
            self.encoder.vocabulary().ordinary().filter(|(id, _)| used[id.index()]).collect();
        tokens.sort_by_key(|&(id, bytes)| (std::cmp::Reverse(bytes.len()), id));
        Ok(ComparedTokenizer {
            path: self.path.display().to_string(),
            vocabulary: to_u64(self.encoder.vocabulary().ordinary().count()),
            used: to_u64(tokens.len()),
            unreachable: to_u64(unreachable_tokens(self.encoder.vocabulary())?.len()),
            longest: tokens
                .iter()
                .take(SHOWN)
                .map(|&(id, _)| shown_token(self.encoder.vocabulary(), id))
                .collect(),
        })
    }
}

/// The figures of one batch.
struct ComparedBatch {
    /// The number of the source from which all documents of the batch come.
    source: usize,
    /// Figures by main script, in the order of [`script_names`].
    scripts: Vec<ComparedText>,
    /// Bytes, characters, and tokens by each tokenizer, of resampled documents.
    replicates: Replicates,
    /// The ids of the documents, if the sources are parallel.
    ids: Vec<Box<str>>,
    /// Whether a token occurs, by tokenizer and id.
    used: Vec<Vec<bool>>,
    /// Words with their counts, at most [`WORDS`].
    words: Map<Box<[u8]>, u64>,
}

impl ComparedBatch {
    /// Encodes a batch with all tokenizers; `workers` has one for each, in the same order.
    ///
    /// # Errors
    /// A document cannot be encoded.
    fn of(
        batch: &Batch,
        workers: &mut [Worker<'_>],
        known: &[LoadedTokenizer],
        inputs: &Inputs<'_>,
    ) -> Result<ComparedBatch> {
        let mut part = ComparedBatch {
            source: batch.source,
            scripts: vec![ComparedText::default(); script_names().count()],
            replicates: Replicates::new(FIRST_TOKENS + known.len()),
            ids: Vec::new(),
            used: known.iter().map(|known| vec![false; known.encoder.vocabulary().id_limit()]).collect(),
            words: Map::default(),
        };
        for (row, text) in batch.iter().enumerate() {
            let Some(text) = text else { continue };
            let in_row = |error: Error| error.at(inputs.place(batch, row));
            let key = match &batch.columns {
                Some(columns) if columns.num_columns() > 0 => {
                    let id = id_of(columns.column(0), row).map_err(in_row)?;
                    let key = key_of_id(&id);
                    part.ids.push(id);
                    key
                }
                _ => key_of_place(batch.source, batch.unit, batch.first_row + to_u64(row)),
            };
            part.add(text, key, workers).map_err(in_row)?;
        }
        Ok(part)
    }

    /// Adds a document. `key` determines how often each replicate has it.
    ///
    /// # Errors
    /// A tokenizer cannot encode the text, for example if a byte has no token.
    fn add(&mut self, text: &[u8], key: u64, workers: &mut [Worker<'_>]) -> Result<()> {
        let characters = count_characters(text);
        let mut figures = vec![to_u64(text.len()), characters];
        for (worker, used) in workers.iter_mut().zip(&mut self.used) {
            let ids = worker.encode(text)?;
            ids.iter().for_each(|id| used[id.index()] = true);
            figures.push(to_u64(ids.len()));
        }
        self.replicates.add(key, &figures);
        let words = self.count_words(text);
        self.scripts[main_script(text)].add(&ComparedText {
            name: String::new(),
            documents: 1,
            text_bytes: to_u64(text.len()),
            characters,
            words,
            tokens: figures.split_off(FIRST_TOKENS),
        });
        Ok(())
    }

    /// Counts the words of a text, separated by white space. Returns how many it has, including those that are too
    /// long for the table.
    fn count_words(&mut self, text: &[u8]) -> u64 {
        let mut words = 0;
        for word in String::from_utf8_lossy(text).split_whitespace() {
            words += 1;
            if word.len() <= WORD_BYTES {
                count_word(&mut self.words, word.as_bytes(), 1);
            }
        }
        words
    }

    /// Bytes of text of the batch.
    fn text_bytes(&self) -> u64 {
        self.scripts.iter().map(|part| part.text_bytes).sum()
    }
}

/// The index of the first tokenizer among the figures of [`Replicates`]: bytes and characters come before.
const FIRST_TOKENS: usize = 2;

/// The id of a document, as text.
///
/// # Errors
/// It is null.
fn id_of(column: &ArrayRef, row: usize) -> Result<Box<str>> {
    if column.is_null(row) {
        return Err(
            Error::failed("the document has no id").with_help("give each version of a text the same id")
        );
    }
    let id = array_value_to_string(column, row);
    id.map(String::into_boxed_str).map_err(|cause| Error::failed(format!("the id cannot be read: {cause}")))
}

/// Counts a word that is in the table, or that the table has room for.
fn count_word(words: &mut Map<Box<[u8]>, u64>, word: &[u8], count: u64) {
    if let Some(sum) = words.get_mut(word) {
        *sum += count;
    } else if words.len() < WORDS {
        words.insert(word.into(), count);
    }
}

/// The figures of all batches.
struct ComparisonSums {
    /// Figures by source, in the order of the plan.
    sources: Vec<ComparedText>,
    /// Figures by main script, in the order of [`script_names`].
    scripts: Vec<ComparedText>,
    /// Resampled figures by source.
    replicates: Vec<Replicates>,
    /// The ids of the documents by source; empty if the sources are not parallel.
    ids: Vec<Set<Box<str>>>,
    /// Whether a token occurs, by tokenizer and id.
    used: Vec<Vec<bool>>,
    /// Words with their counts, at most [`WORDS`].
    words: Map<Box<[u8]>, u64>,
}

impl ComparisonSums {
    /// Sums without any text. `sources` is the number of sources of the plan.
    fn new(known: &[LoadedTokenizer], sources: usize) -> ComparisonSums {
        let none = ComparedText { tokens: vec![0; known.len()], ..ComparedText::default() };
        ComparisonSums {
            sources: vec![none.clone(); sources],
            scripts: vec![none; script_names().count()],
            replicates: vec![Replicates::new(FIRST_TOKENS + known.len()); sources],
            ids: vec![Set::default(); sources],
            used: known.iter().map(|known| vec![false; known.encoder.vocabulary().id_limit()]).collect(),
            words: Map::default(),
        }
    }

    /// Adds the figures of a batch.
    ///
    /// Batches must be added in the order of the input: it decides which words find room in the table. `parallel` is
    /// the plan if the sources are parallel.
    ///
    /// # Errors
    /// A source has an id twice.
    fn add(&mut self, part: ComparedBatch, parallel: Option<&Plan>) -> Result<()> {
        self.replicates[part.source].add_all(&part.replicates);
        for id in part.ids {
            if let Some(plan) = parallel.filter(|_| self.ids[part.source].contains(&id)) {
                let name = shown_uri(&plan.sources[part.source].uri);
                let problem = format!("{name} has the id {id:?} twice, so its documents cannot be matched");
                return Err(Error::usage(problem).with_help("name a column with an id for each text"));
            }
            self.ids[part.source].insert(id);
        }
        for (sum, script) in
            self.scripts.iter_mut().zip(&part.scripts).filter(|(_, script)| script.documents > 0)
        {
            sum.add(script);
            self.sources[part.source].add(script);
        }
        for (used, seen) in self.used.iter_mut().zip(&part.used) {
            used.iter_mut().zip(seen).for_each(|(used, seen)| *used |= seen);
        }
        // Sorted, so that the words that fit do not depend on the order of the hash table.
        let mut words: Vec<_> = part.words.into_iter().collect();
        words.sort_unstable_by(|one, other| (other.1, &one.0).cmp(&(one.1, &other.0)));
        words.into_iter().for_each(|(word, count)| count_word(&mut self.words, &word, count));
        Ok(())
    }

    /// Checks that all sources have the same ids.
    ///
    /// # Errors
    /// They have not: the first two sources that differ are named, with the smallest id that one of them lacks.
    fn check_ids(&self, plan: &Plan) -> Result<()> {
        let name = |source: usize| shown_uri(&plan.sources[source].uri);
        for other in 1..self.ids.len() {
            for (has, lacks) in [(0, other), (other, 0)] {
                let missing = self.ids[has].difference(&self.ids[lacks]);
                let (count, smallest) = (missing.clone().count(), missing.min());
                if let Some(id) = smallest {
                    let problem = format!(
                        "{} lacks {count} of the {} ids of {}, such as {id:?}",
                        name(lacks),
                        self.ids[has].len(),
                        name(has)
                    );
                    return Err(Error::usage(problem).with_help(
                        "numbers of tokens can be compared for the same texts only: leave the others out",
                    ));
                }
            }
        }
        Ok(())
    }

    /// The intervals of the figures in `replicates`. `base` has those of the base, if the sources are parallel.
    fn intervals(replicates: &Replicates, base: Option<&Replicates>, tokenizers: usize) -> ComparedIntervals {
        let tokens = FIRST_TOKENS..FIRST_TOKENS + tokenizers;
        let per_token =
            |figure| tokens.clone().map(|tokens| replicates.interval(figure, replicates, tokens)).collect();
        let premium = |base| tokens.clone().map(|tokens| replicates.interval(tokens, base, tokens)).collect();
        ComparedIntervals {
            bytes_per_token: per_token(0),
            characters_per_token: per_token(1),
            premium: base.map_or_else(Vec::new, premium),
        }
    }

    /// Builds the comparison. Scripts are in descending order of their bytes of text, and those without documents are
    /// left out.
    ///
    /// # Errors
    /// A word cannot be encoded.
    fn finish(self, plan: &Plan, base: Option<usize>, known: &[LoadedTokenizer]) -> Result<Comparison> {
        let ComparisonSums { mut sources, mut scripts, replicates, used, words, .. } = self;
        let base_replicates = base.map(|base| &replicates[base]);
        let intervals = |part, base| ComparisonSums::intervals(part, base, known.len());
        let source_intervals = replicates.iter().map(|part| intervals(part, base_replicates)).collect();
        let mut all = Replicates::new(FIRST_TOKENS + known.len());
        replicates.iter().for_each(|part| all.add_all(part));
        let text_intervals = intervals(&all, None);
        let mut text = ComparedText { tokens: vec![0; known.len()], ..ComparedText::default() };
        for (source, spec) in sources.iter_mut().zip(&plan.sources) {
            source.name = shown_uri(&spec.uri);
            text.add(source);
        }
        for (script, name) in scripts.iter_mut().zip(script_names()) {
            name.clone_into(&mut script.name);
        }
        scripts.retain(|script| script.documents > 0);
        scripts.sort_by_key(|script| std::cmp::Reverse(script.text_bytes));
        "all".clone_into(&mut text.name);
        let tokenizers = known.iter().zip(&used).map(|(known, used)| known.compared(used));
        Ok(Comparison {
            tokenizers: tokenizers.collect::<Result<_>>()?,
            baseline: None,
            base,
            text,
            text_intervals,
            sources,
            source_intervals,
            scripts,
            words: different(words, known)?,
        })
    }
}

/// The words for which the numbers of tokens differ most between two tokenizers, multiplied by how often the word
/// occurs. Each is encoded after a space. At most [`SHOWN`], largest difference first.
///
/// Words with equal products are in the order of their bytes. Words with the same number of tokens everywhere are
/// left out.
///
/// # Errors
/// A word cannot be encoded.
fn different(words: Map<Box<[u8]>, u64>, known: &[LoadedTokenizer]) -> Result<Vec<ComparedWord>> {
    let mut workers: Vec<Worker<'_>> = known.iter().map(|known| known.encoder.worker()).collect();
    let mut found = Vec::new();
    for (word, count) in words {
        let spaced = [b" ", &word[..]].concat();
        let tokens = workers.iter_mut().map(|worker| Ok(worker.encode(&spaced)?.to_vec()));
        let tokens = tokens.collect::<Result<Vec<_>>>()?;
        let numbers = || tokens.iter().map(Vec::len);
        let apart = numbers().max().unwrap_or(0) - numbers().min().unwrap_or(0);
        if apart > 0 {
            found.push((to_u64(apart).saturating_mul(count), word, count, tokens));
        }
    }
    found.sort_by(|one, other| (other.0, &one.1).cmp(&(one.0, &other.1)));
    found.truncate(SHOWN);
    let compared = |(_, word, count, tokens): (u64, Box<[u8]>, u64, Vec<Vec<_>>)| ComparedWord {
        word: String::from_utf8_lossy(&word).into_owned(),
        count,
        tokens: tokens
            .iter()
            .zip(known)
            .map(|(ids, known)| ids.iter().map(|&id| shown_token(known.encoder.vocabulary(), id)).collect())
            .collect(),
    };
    Ok(found.into_iter().map(compared).collect())
}

/// The scripts that are distinguished, and the character classes of their letters.
const SCRIPTS: [(&str, &str); 14] = [
    ("Latin", r"\p{Latin}"),
    ("Cyrillic", r"\p{Cyrillic}"),
    ("Greek", r"\p{Greek}"),
    ("Han", r"\p{Han}"),
    ("Japanese kana", r"[\p{Hiragana}\p{Katakana}]"),
    ("Hangul", r"\p{Hangul}"),
    ("Arabic", r"\p{Arabic}"),
    ("Hebrew", r"\p{Hebrew}"),
    ("Devanagari", r"\p{Devanagari}"),
    ("Bengali", r"\p{Bengali}"),
    ("Tamil", r"\p{Tamil}"),
    ("Thai", r"\p{Thai}"),
    ("Georgian", r"\p{Georgian}"),
    ("Armenian", r"\p{Armenian}"),
];

/// The name for letters of scripts that are not listed.
const OTHER: &str = "other scripts";
/// The name for texts without letters.
const NO_LETTERS: &str = "no letters";

/// The names of the results of [`main_script`], in order.
pub(super) fn script_names() -> impl Iterator<Item = &'static str> {
    SCRIPTS.iter().map(|(name, _)| *name).chain([OTHER, NO_LETTERS])
}

/// The index in [`script_names`] of the script to which most letters of a text belong. Of equals, the first in the
/// list wins. Invalid UTF-8 is skipped.
///
/// Japanese is recognized by its kana: if there are more than a quarter as many kana as Han characters, the Han
/// characters count as kana.
pub(super) fn main_script(text: &[u8]) -> usize {
    let mut letters = [0_u64; SCRIPTS.len() + 1];
    for chunk in text.utf8_chunks() {
        for letter in chunk.valid().chars().filter(|letter| letter.is_alphabetic()) {
            letters[script_of(letter)] += 1;
        }
    }
    let (han, kana) = (3, 4);
    if letters[kana] > letters[han] / 4 {
        letters[kana] += std::mem::take(&mut letters[han]);
    }
    let highest = letters.iter().copied().max().unwrap_or(0);
    if highest == 0 { letters.len() } else { letters.iter().position(|&count| count == highest).unwrap_or(0) }
}

/// The index of the script of a letter.
///
/// ASCII letters are Latin. A letter of another script gets the index after the last one.
fn script_of(letter: char) -> usize {
    /// First code point, last code point, and script, in ascending order.
    static RANGES: Lazy<Vec<(usize, usize, usize)>> = Lazy::new(|| {
        let of_script = |(script, (_, class)): (usize, &(&str, &str))| {
            class_ranges(class).into_iter().map(move |range| (*range.start(), *range.end(), script))
        };
        let mut ranges: Vec<_> = SCRIPTS.iter().enumerate().flat_map(of_script).collect();
        ranges.sort_unstable();
        ranges
    });
    if letter.is_ascii() {
        return 0;
    }
    let code = to_usize(u32::from(letter));
    let next = RANGES.partition_point(|&(_, last, _)| last < code);
    RANGES.get(next).filter(|&&(first, _, _)| first <= code).map_or(SCRIPTS.len(), |&(_, _, script)| script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_the_script_of_most_of_their_letters() {
        let name = |text: &str| script_names().nth(main_script(text.as_bytes())).unwrap();
        for (text, script) in [
            ("plain English, with a Я", "Latin"),
            ("пишем по-русски, with a word", "Cyrillic"),
            ("日本語の文章です。漢字も", "Japanese kana"),
            ("中文没有假名", "Han"),
            ("ᚠᚢᚦ", OTHER),
            ("12 + 3 = 15 🙂", NO_LETTERS),
            ("", NO_LETTERS),
        ] {
            assert_eq!(name(text), script, "{text}");
        }
        assert_eq!(main_script(b"\xFF\xFEabc\xE2\x82"), 0);
    }
}
