//! The keys of each section of a recipe, as the user wrote them, the names of their choices, and their text in TOML.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde_json::{Map, Value};

use super::{Field, Given, Recipe};
use crate::base::int::{ByteCount, Count, parse_count};
use crate::count::Boundary;
use crate::encode::{MissingBytes, Probability, SpecialPolicy};
use crate::error::{Error, Result};
use crate::run::plan::EncodedDocuments;
use crate::sample::Weight;
use crate::sink::{Compression, OutputFormat, PackRule};
use crate::source::{DocumentRule, OnBadInput};
use crate::split::{NamedPattern, SplitPattern};
use crate::train::{Score, TieBreak};
use crate::vocab::{SpecialToken, SpecialTokensAt};
use crate::{source, vocab};

/// The keys of `[source]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceKeys {
    /// The section's bytes in the recipe's text, to point to if a key is missing.
    pub span: Option<Range<usize>>,
    /// `uri`: a path, folder, pattern or address, or `-` for standard input. Required.
    pub uri: Field<String>,
    /// `column`: the column or field that holds the text, `text` by default. `a.b` is a nested one, and `a[]` all
    /// items of a list.
    pub column: Field<String>,
    /// `template`: builds the text from several columns and takes the place of `column`. Example: `{title}: {text}`.
    pub template: Field<String>,
    /// `join`: the text between the items of a list.
    pub join: Field<String>,
    /// `format`: the format of the files, by default according to their extension.
    pub format: Field<source::Format>,
    /// `documents`: how plain text is divided into documents. By default each file is one.
    pub documents: Field<DocumentRule>,
    /// `weight`: a factor for the counts of this source, 1 by default.
    pub weight: Field<Weight>,
    /// `take`: the number of documents to take, at most, from the beginning.
    pub take: Field<u64>,
    /// `max_bytes`: the bytes of text to take, at most. The first document beyond ends the source.
    pub max_bytes: Field<ByteCount>,
    /// `stream`: whether remote files are read by ranges and not kept. False by default.
    pub stream: Field<bool>,
    /// `on_bad_input`: what happens with a row or file that cannot be read. By default the run fails.
    pub on_bad_input: Field<OnBadInput>,
}

/// A counts file to train from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountsKeys {
    /// The path of the file.
    pub path: String,
    /// Its weight in a mixture.
    pub weight: Weight,
}

/// The keys of `[sample]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleKeys {
    /// `every`: keeps the first of each group of this number of documents. 1 by default.
    pub every: Field<u64>,
    /// `shuffle_buffer`: shuffles in a buffer of this number of documents. 0 (default) keeps the order.
    pub shuffle_buffer: Field<u64>,
    /// `seed`: determines the shuffled order. 0 by default.
    pub seed: Field<u64>,
    /// `skip`: the number of documents to skip. 0 by default.
    pub skip: Field<u64>,
    /// `take`: the number of documents to take after that, at most.
    pub take: Field<u64>,
    /// `max_bytes`: the bytes of text to take, at most. The first document beyond ends the sample.
    pub max_bytes: Field<ByteCount>,
}

/// The keys of `[train]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrainKeys {
    /// The section's bytes in the recipe's text, to point to if a key is missing.
    pub span: Option<Range<usize>>,
    /// `split`: the pattern that splits text into pre-tokens, `gpt4` by default.
    pub split: Field<SplitPattern>,
    /// `boundary`: the extent of a text that is split on its own, by default a document.
    pub boundary: Field<Boundary>,
    /// `vocab_size`: the number of tokens: bytes, merges and special tokens. Several sizes give a tokenizer of each.
    pub vocab_size: Field<Vec<Given<u64>>>,
    /// `merges`: the number of merges, instead of `vocab_size`.
    pub merges: Field<u64>,
    /// `min_frequency`: the lowest count at which a pair is merged, 2 by default.
    pub min_frequency: Field<Count>,
    /// `max_token_bytes`: the length of tokens in bytes, at most. Merges to longer tokens are refused.
    pub max_token_bytes: Field<u64>,
    /// `max_words`: the number of words of a token, at most. Merges to tokens with more words, or with a colon followed
    /// by a space, are refused. 4 by default for the split `superword`; other splits have no limit.
    pub max_words: Field<u64>,
    /// `stages`: training in several stages, each with a split of its own, in place of `split` and `vocab_size`.
    pub stages: Field<Vec<Given<StageKeys>>>,
    /// `tie_break`: which of several equally good pairs is merged first. `ids` by default.
    pub tie_break: Field<TieBreak>,
    /// `score`: how pairs are ranked, by default according to their counts.
    pub score: Field<Score>,
    /// `parity`: balances the sources. By default merges are learned from all of them together.
    pub parity: Field<ParityKeys>,
    /// `special_tokens`: texts that are cut out of the training text and get ids of their own.
    pub special_tokens: Vec<Given<String>>,
    /// `special_tokens_at`: the position of their ids, by default at the end.
    pub special_tokens_at: Field<SpecialTokensAt>,
    /// `bos`: the special token before documents, for `tokenizer_config.json`. The value is `None` if `false` is
    /// written.
    pub bos: Field<Option<String>>,
    /// `eos`: the special token after documents, for `tokenizer_config.json`. The value is `None` if `false` is
    /// written.
    pub eos: Field<Option<String>>,
    /// `pad`: the special token that pads the shorter texts of a batch. The value is `None` if `false` is written.
    pub pad: Field<Option<String>>,
    /// `unk`: the special token for unknown input. The value is `None` if `false` is written.
    pub unk: Field<Option<String>>,
    /// `mask`: the special token in place of a token to predict. The value is `None` if `false` is written.
    pub mask: Field<Option<String>>,
    /// `model_max_length`: the number of tokens that the model takes, at most, for `tokenizer_config.json`.
    pub model_max_length: Field<u64>,
    /// `chat_template`: the path of a file with a Jinja template, for `tokenizer_config.json`.
    pub chat_template: Field<String>,
    /// The entries of `tokenizer_config.json` that are kept from the tokenizer that training extends.
    pub kept: Map<String, Value>,
    /// `history_every`: the number of merges between two points of the training history.
    pub history_every: Field<u64>,
    /// `formats`: the formats in which the tokenizer is written, by default `hf`.
    pub formats: Field<Vec<Given<vocab::Format>>>,
}

/// The keys of `parity` in `[train]`: parity-aware training.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParityKeys {
    /// `development`: a text for each source, in their order. Their tokens are balanced, by default those of the
    /// training texts.
    pub development: Field<Vec<Given<String>>>,
    /// `ratio`: the compression that each source should have in proportion to the others. None by default.
    pub ratio: Field<Vec<Given<Weight>>>,
    /// `window`: the number of merges within which no source is chosen too often. No limit by default.
    pub window: Field<u64>,
    /// `alpha`: how many times its even share of the window a source may have, 2 by default.
    pub alpha: Field<Weight>,
    /// `global_merges`: the number of merges at the beginning that are learned from all sources together. 0 by default.
    pub global_merges: Field<u64>,
}

impl ParityKeys {
    /// The keys that are set, as a table.
    fn written(&self) -> WrittenValue {
        let texts =
            |texts: &Vec<Given<String>>| WrittenValue::texts(texts.iter().map(|given| given.value.clone()));
        let numbers = |numbers: &Vec<Given<Weight>>| {
            WrittenValue::List(numbers.iter().map(|given| WrittenValue::number(&given.value)).collect())
        };
        let section = WrittenSection::new("parity")
            .with("development", &self.development, texts)
            .with("ratio", &self.ratio, numbers)
            .with("window", &self.window, WrittenValue::number)
            .with("alpha", &self.alpha, WrittenValue::number)
            .with("global_merges", &self.global_merges, WrittenValue::number);
        WrittenValue::Table(section.keys)
    }
}

impl TrainKeys {
    /// The keys that name special tokens for `transformers`.
    ///
    /// The order is that in which named tokens get their ids.
    pub(in crate::run) fn roles(&self) -> [(&'static str, &Field<Option<String>>); 5] {
        [("bos", &self.bos), ("eos", &self.eos), ("pad", &self.pad), ("unk", &self.unk), ("mask", &self.mask)]
    }

    /// The tokens that these keys name and `specials` lacks, without repetition.
    pub(in crate::run) fn named_beyond(&self, specials: &[String]) -> Vec<String> {
        let mut named: Vec<String> = Vec::new();
        for (_, field) in self.roles() {
            let token = field.as_ref().and_then(|given| given.value.as_ref());
            named.extend(token.filter(|token| !specials.contains(token) && !named.contains(token)).cloned());
        }
        named
    }
}

/// One of the `stages` of `[train]`. A flag writes it as `SPLIT:VOCAB_SIZE` or `SPLIT:VOCAB_SIZE:MAX_WORDS`.
///
/// ```
/// use tokenmill::run::recipe::StageKeys;
///
/// let stage: StageKeys = "superword:200k:4".parse()?;
/// assert_eq!((stage.vocab_size, stage.max_words), (200_000, Some(4)));
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageKeys {
    /// `split`: the pattern that splits text in this stage.
    pub split: SplitPattern,
    /// `vocab_size`: the number of tokens after this stage.
    pub vocab_size: u64,
    /// `max_words`: the number of words of a token of this stage, at most, as [`max_words`](TrainKeys::max_words).
    pub max_words: Option<u64>,
}

impl FromStr for StageKeys {
    type Err = Error;

    /// # Errors
    /// The text has another form, or names no known split.
    fn from_str(text: &str) -> Result<StageKeys> {
        let parts: Vec<&str> = text.split(':').collect();
        let (split, sizes) = match &parts[..] {
            [split, sizes @ ..] if (1..=2).contains(&sizes.len()) => (split, sizes),
            _ => return Err(stage_form(text)),
        };
        let sizes: Vec<u64> = sizes
            .iter()
            .map(|size| parse_count(size).ok_or_else(|| stage_form(text)))
            .collect::<Result<_>>()?;
        Ok(StageKeys { split: split.parse()?, vocab_size: sizes[0], max_words: sizes.get(1).copied() })
    }
}

/// The error for the text of a stage that has another form.
fn stage_form(text: &str) -> Error {
    Error::usage(format!(
        "{text:?} is not a stage: write SPLIT:VOCAB_SIZE or SPLIT:VOCAB_SIZE:MAX_WORDS, for example superword:200k:4"
    ))
}

/// The keys of `[encode]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodeKeys {
    /// The section's bytes in the recipe's text, to point to if a key is missing.
    pub span: Option<Range<usize>>,
    /// `tokenizer`: its file, folder, hub address or known name. If left out, the tokenizer that is trained.
    pub tokenizer: Field<String>,
    /// `split`: the pattern to use if the files of the tokenizer name none.
    pub split: Field<SplitPattern>,
    /// `special_tokens`: the special tokens to add if the files of the tokenizer do not list them.
    pub special_tokens: Vec<Given<SpecialToken>>,
    /// `documents`: which documents are encoded, by default those of the sample.
    pub documents: Field<EncodedDocuments>,
    /// `columns`: the columns to pass through to the output.
    pub columns: Vec<Given<String>>,
    /// `special`: how text that looks like a special token is encoded, by default as text.
    pub special: Field<SpecialPolicy>,
    /// `missing_bytes`: how text with a byte that has no token is encoded. By default it is an error.
    pub missing_bytes: Field<MissingBytes>,
    /// `dropout`: the probability that a possible merge is left out, 0 by default.
    pub dropout: Field<Probability>,
    /// `dropout_seed`: determines which merges are left out. 0 by default.
    pub dropout_seed: Field<u64>,
    /// `bos`: the special token to put before every document. The value is `None` if `false` is written.
    pub bos: Field<Option<String>>,
    /// `eos`: the special token to put after every document. The value is `None` if `false` is written.
    pub eos: Field<Option<String>>,
    /// `pack`: how documents are packed into rows. The value is `None` if `none` is written.
    pub pack: Field<Option<PackRule>>,
    /// `length`: the number of token ids in a packed row. Required with `pack`.
    pub length: Field<u64>,
    /// `compression`: how ids are compressed in Parquet files.
    pub compression: Field<Compression>,
}

/// The keys of `[output]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputKeys {
    /// `dir`: the output folder, relative to the working directory, or a place in an object store. Required in recipes.
    pub dir: Field<String>,
    /// `staging`: the local folder in which an output for an object store is written. By default one in the user's
    /// cache.
    pub staging: Field<String>,
    /// `split_name`: the name of the split, with which file names begin. `train` by default.
    pub split_name: Field<String>,
    /// `file_text_bytes`: bytes of text per data file, about. 1 GB by default.
    pub file_text_bytes: Field<ByteCount>,
    /// `one_file`: whether all data goes into one file, for the formats `bin` and `megatron`.
    pub one_file: Field<bool>,
    /// `format`: the format of the data files, by default Parquet.
    pub format: Field<OutputFormat>,
    /// `push`: the repository of the hub to which the finished result is pushed. Nothing is pushed by default.
    pub push: Field<String>,
}

/// The keys of `[run]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunKeys {
    /// `threads`: the number of threads, by default one per core.
    pub threads: Field<u64>,
    /// `memory`: the memory limit, by default that of the machine or the cgroup.
    pub memory: Field<ByteCount>,
    /// `shard`: the part of the input that is read, such as `3/7`. By default all of it is.
    pub shard: Field<String>,
}

/// A type with a fixed set of named values, for recipes and flags.
///
/// ```
/// use tokenmill::run::recipe::{named, names};
/// use tokenmill::train::TieBreak;
///
/// assert_eq!(named::<TieBreak>("hf"), Some(TieBreak::Hf));
/// assert!(names::<TieBreak>().any(|name| name == "bytes-greatest"));
/// ```
pub trait Choice: Clone + Sized + 'static {
    /// All names with their values. The default comes first, if there is one.
    const ALL: &'static [(&'static str, Self)];
}

/// The value of a name; `None` if it is unknown.
pub fn named<T: Choice>(name: &str) -> Option<T> {
    T::ALL.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
}

/// The known names, in the order in which they should be listed.
pub fn names<T: Choice>() -> impl Iterator<Item = &'static str> {
    T::ALL.iter().map(|(name, _)| *name)
}

/// The known word that was probably meant: few letters differ (Damerau-Levenshtein distance of at most 1, plus 1 per
/// 4 letters), or one word begins with the other. Case and the difference of `-` and `_` are ignored.
///
/// `None` means that no known word is near enough. Of equally near words, the first in alphabetical order is taken.
pub(super) fn nearest(word: &str, known: impl IntoIterator<Item = &'static str>) -> Option<&'static str> {
    let plain = |word: &str| word.to_lowercase().replace('-', "_");
    let word = plain(word);
    let distance = |known: &str| {
        let known = plain(known);
        let (short, long) = if word.len() < known.len() { (&word, &known) } else { (&known, &word) };
        if short.len() >= 3 && long.starts_with(short.as_str()) {
            return 1;
        }
        strsim::damerau_levenshtein(&word, &known)
    };
    let (distance, best) = known.into_iter().map(|known| (distance(known), known)).min()?;
    (distance <= 1 + best.len() / 4 && distance < best.len()).then_some(best)
}

/// Implements [`Choice`]. A value without a name does not compile, unless it is listed after `unnamed`.
macro_rules! choices {
    ($($kind:ty {
        $($name:literal => $($value:ident)::+ $(($($field:ident)::+))?),+ $(,)?
        $(; unnamed $unnamed:pat)?
    })+) => {
        $(
            impl Choice for $kind {
                const ALL: &'static [(&'static str, Self)] = &[$(($name, $($value)::+ $(($($field)::+))?)),+];
            }

            #[allow(unreachable_patterns, reason = "a value can have several names")]
            const _: fn(&$kind) = |value| match value {
                $($($value)::+ $(($($field)::+))?)|+ => {}
                $($unnamed => {})?
            };
        )+
    };
}

choices! {
    source::Format {
        "parquet" => source::Format::Parquet, "arrow" => source::Format::Arrow, "jsonl" => source::Format::Jsonl,
        "json" => source::Format::Json, "csv" => source::Format::Csv, "tsv" => source::Format::Tsv, "text" => source::Format::Text,
    }
    DocumentRule {
        "file" => DocumentRule::File, "line" => DocumentRule::Line, "paragraph" => DocumentRule::Paragraph;
        unnamed DocumentRule::Separator(_)
    }
    OnBadInput {
        "fail" => OnBadInput::Fail, "skip" => OnBadInput::Skip, "quarantine" => OnBadInput::Quarantine,
        "replace" => OnBadInput::Replace,
    }
    SplitPattern {
        "none" => SplitPattern::None,
        "gpt2" => SplitPattern::Named(NamedPattern::Gpt2),
        "gpt4" => SplitPattern::Named(NamedPattern::Gpt4),
        "cl100k" => SplitPattern::Named(NamedPattern::Cl100k),
        "o200k" => SplitPattern::Named(NamedPattern::O200k),
        "nanochat" => SplitPattern::Named(NamedPattern::Nanochat),
        "llama3" => SplitPattern::Named(NamedPattern::Gpt4),
        "qwen2" => SplitPattern::Named(NamedPattern::Qwen2),
        "deepseek-v3" => SplitPattern::Named(NamedPattern::DeepSeekV3),
        "gpt4-digit" => SplitPattern::Named(NamedPattern::Qwen2),
        "gpt4-digits-rtl" => SplitPattern::Named(NamedPattern::Gpt4DigitsRtl),
        "o200k-digit" => SplitPattern::Named(NamedPattern::O200kDigit),
        "o200k-digits-rtl" => SplitPattern::Named(NamedPattern::O200kDigitsRtl),
        "superword" => SplitPattern::Named(NamedPattern::Superword);
        unnamed SplitPattern::Custom(_) | SplitPattern::Steps(_)
    }
    Boundary { "document" => Boundary::Document, "join" => Boundary::Join }
    TieBreak {
        "ids" => TieBreak::Ids, "hf" => TieBreak::Hf, "first" => TieBreak::First,
        "bytes-greatest" => TieBreak::BytesGreatest, "bytes-smallest" => TieBreak::BytesSmallest,
        "alphabet-greatest" => TieBreak::AlphabetGreatest,
    }
    OutputFormat {
        "parquet" => OutputFormat::Parquet, "bin" => OutputFormat::Bin, "megatron" => OutputFormat::Megatron,
    }
    Option<PackRule> {
        "none" => None, "concat" => Some(PackRule::Concat), "best-fit" => Some(PackRule::BestFit),
    }
    SpecialTokensAt { "end" => SpecialTokensAt::End, "start" => SpecialTokensAt::Start }
    vocab::Format {
        "hf" => vocab::Format::Hf, "tiktoken" => vocab::Format::Tiktoken,
        "minbpe" => vocab::Format::Minbpe, "gpt2" => vocab::Format::Gpt2,
    }
    EncodedDocuments { "sample" => EncodedDocuments::Sample, "all" => EncodedDocuments::All }
    SpecialPolicy {
        "text" => SpecialPolicy::Text, "allow" => SpecialPolicy::Allow, "forbid" => SpecialPolicy::Forbid,
    }
    MissingBytes { "error" => MissingBytes::Error, "hf" => MissingBytes::Hf }
    Compression { "default" => Compression::Default, "fast" => Compression::Fast }
}

/// A value as a recipe has it. [`Display`](fmt::Display) writes it in TOML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrittenValue {
    /// A text, which has quotes in TOML.
    Text(String),
    /// A number.
    Number(String),
    /// `true` or `false`.
    Truth(bool),
    /// Several values.
    List(Vec<WrittenValue>),
    /// Keys with values, for example `{ window = 100 }`.
    Table(Vec<(&'static str, WrittenValue)>),
    /// A text under a key of its own, such as `{ regex = "…" }`.
    Keyed(&'static str, String),
}

impl WrittenValue {
    /// A list of texts.
    fn texts(values: impl IntoIterator<Item = String>) -> WrittenValue {
        WrittenValue::List(values.into_iter().map(WrittenValue::Text).collect())
    }

    /// A number.
    fn number(value: &impl ToString) -> WrittenValue {
        WrittenValue::Number(value.to_string())
    }

    /// An amount of bytes: with a unit if it is a multiple of one, otherwise as a number.
    fn bytes(&ByteCount(bytes): &ByteCount) -> WrittenValue {
        for (unit, size) in [("GB", 1_000_000_000), ("MB", 1_000_000)] {
            if bytes > 0 && bytes.is_multiple_of(size) {
                return WrittenValue::Text(format!("{}{unit}", bytes / size));
            }
        }
        WrittenValue::number(&bytes)
    }

    /// The name of a choice that has one.
    fn name<T: Choice + PartialEq>(choice: &T) -> WrittenValue {
        let named = T::ALL.iter().find(|(_, value)| value == choice);
        WrittenValue::Text(named.map(|(name, _)| (*name).to_owned()).unwrap_or_default())
    }

    /// A split pattern: a name, or a regular expression.
    fn split(split: &SplitPattern) -> WrittenValue {
        match split {
            SplitPattern::Custom(regex) => WrittenValue::Keyed("regex", regex.clone()),
            // Several steps come from files of tokenizers alone, which neither flags nor recipes spell.
            named => WrittenValue::Text(named.to_string()),
        }
    }

    /// A stage of training.
    fn stage(stage: &StageKeys) -> WrittenValue {
        let StageKeys { split, vocab_size, max_words } = stage;
        let mut keys =
            vec![("split", WrittenValue::split(split)), ("vocab_size", WrittenValue::number(vocab_size))];
        keys.extend(max_words.map(|words| ("max_words", WrittenValue::number(&words))));
        WrittenValue::Table(keys)
    }

    /// How plain text is divided: a name, or a separator.
    fn documents(rule: &DocumentRule) -> WrittenValue {
        match rule {
            DocumentRule::Separator(separator) => WrittenValue::Keyed("separator", separator.clone()),
            named => WrittenValue::name(named),
        }
    }

    /// The text of a token, or `false`.
    fn token(token: &Option<String>) -> WrittenValue {
        token.clone().map_or(WrittenValue::Truth(false), WrittenValue::Text)
    }

    /// A special token with its id, if it has one.
    fn special_token(SpecialToken { text, id }: &SpecialToken) -> String {
        id.map_or_else(|| text.clone(), |id| format!("{text}={id}"))
    }
}

impl fmt::Display for WrittenValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |text: &String| toml::Value::String(text.clone()).to_string();
        match self {
            WrittenValue::Text(text) => f.write_str(&quoted(text)),
            WrittenValue::Number(number) => f.write_str(number),
            WrittenValue::Truth(truth) => write!(f, "{truth}"),
            WrittenValue::List(values) => {
                let values: Vec<String> = values.iter().map(WrittenValue::to_string).collect();
                write!(f, "[{}]", values.join(", "))
            }
            WrittenValue::Table(keys) if keys.is_empty() => f.write_str("{}"),
            WrittenValue::Table(keys) => {
                let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key} = {value}")).collect();
                write!(f, "{{ {} }}", keys.join(", "))
            }
            WrittenValue::Keyed(key, text) => write!(f, "{{ {key} = {} }}", quoted(text)),
        }
    }
}

/// A section of a recipe, with the keys that are set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenSection {
    /// Its name, without brackets.
    pub name: &'static str,
    /// The keys with their values, in the order of the documentation.
    pub keys: Vec<(&'static str, WrittenValue)>,
}

impl WrittenSection {
    /// A section without keys.
    fn new(name: &'static str) -> WrittenSection {
        WrittenSection { name, keys: Vec::new() }
    }

    /// Adds a key, if it is set.
    fn with<T>(
        mut self,
        key: &'static str,
        field: &Field<T>,
        value: impl FnOnce(&T) -> WrittenValue,
    ) -> WrittenSection {
        self.keys.extend(field.as_ref().map(|given| (key, value(&given.value))));
        self
    }

    /// Adds a key with several texts, if there are any.
    fn with_texts<T>(
        mut self,
        key: &'static str,
        given: &[Given<T>],
        text: impl Fn(&T) -> String,
    ) -> WrittenSection {
        let texts: Vec<String> = given.iter().map(|given| text(&given.value)).collect();
        self.keys.extend((!texts.is_empty()).then(|| (key, WrittenValue::texts(texts))));
        self
    }

    /// The value of a key, if it is set.
    pub fn get(&self, key: &str) -> Option<&WrittenValue> {
        self.keys.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }
}

impl Recipe {
    /// The sections with the keys that are set. Each source is a section `source`. Counts files and a tokenizer to
    /// extend, which no key names, are not among them.
    pub fn sections(&self) -> Vec<WrittenSection> {
        let text = |text: &String| WrittenValue::Text(text.clone());
        let truth = |truth: &bool| WrittenValue::Truth(*truth);
        let source = |keys: &SourceKeys| {
            WrittenSection::new("source")
                .with("uri", &keys.uri, text)
                .with("column", &keys.column, text)
                .with("template", &keys.template, text)
                .with("join", &keys.join, text)
                .with("format", &keys.format, WrittenValue::name)
                .with("documents", &keys.documents, WrittenValue::documents)
                .with("weight", &keys.weight, WrittenValue::number)
                .with("take", &keys.take, WrittenValue::number)
                .with("max_bytes", &keys.max_bytes, WrittenValue::bytes)
                .with("stream", &keys.stream, truth)
                .with("on_bad_input", &keys.on_bad_input, WrittenValue::name)
        };
        let mut sections: Vec<WrittenSection> = self.sources.iter().map(source).collect();
        let SampleKeys { every, shuffle_buffer, seed, skip, take, max_bytes } = &self.sample;
        let sample = WrittenSection::new("sample")
            .with("every", every, WrittenValue::number)
            .with("shuffle_buffer", shuffle_buffer, WrittenValue::number)
            .with("seed", seed, WrittenValue::number)
            .with("skip", skip, WrittenValue::number)
            .with("take", take, WrittenValue::number)
            .with("max_bytes", max_bytes, WrittenValue::bytes);
        let OutputKeys { dir, staging, split_name, file_text_bytes, one_file, format, push } = &self.output;
        let output = WrittenSection::new("output")
            .with("dir", dir, text)
            .with("staging", staging, text)
            .with("split_name", split_name, text)
            .with("file_text_bytes", file_text_bytes, WrittenValue::bytes)
            .with("one_file", one_file, truth)
            .with("format", format, WrittenValue::name)
            .with("push", push, text);
        let run = WrittenSection::new("run")
            .with("threads", &self.run.threads, WrittenValue::number)
            .with("memory", &self.run.memory, WrittenValue::bytes)
            .with("shard", &self.run.shard, text);
        let is_set = |section: &WrittenSection| !section.keys.is_empty();
        sections.extend(Some(sample).filter(is_set));
        sections.extend(self.train.as_ref().map(TrainKeys::section));
        sections.extend(self.encode.as_ref().map(EncodeKeys::section));
        sections.extend([output, run].into_iter().filter(is_set));
        sections
    }

    /// The recipe as the text of a file. [`read`](super::read) gives the same keys again.
    ///
    /// ```
    /// use tokenmill::run::recipe::{self, Mistakes};
    ///
    /// let text = "[source]\nuri = \"corpus.txt\"\n\n[train]\nvocab_size = 400\n\n[output]\ndir = \"out\"\n";
    /// let recipe = recipe::read("run.toml", text)?;
    /// assert_eq!(recipe.to_toml().expect("keys alone"), text);
    /// # Ok::<(), Mistakes>(())
    /// ```
    ///
    /// # Errors
    /// Flags named counts files, a tokenizer to extend, or a path with `${`, which a recipe cannot
    /// ([`Usage`](crate::ErrorKind::Usage)).
    pub fn to_toml(&self) -> Result<String> {
        let flag = match (&self.extend, self.counts.is_empty()) {
            (Some(_), _) => Some("--extend"),
            (None, false) => Some("--from-counts"),
            (None, true) => None,
        };
        if let Some(flag) = flag {
            let problem = format!("`{flag}` has no key in recipes");
            return Err(Error::usage(problem).with_help("keep the command line, for example in a script"));
        }
        let mut text = String::new();
        for WrittenSection { name, keys } in self.sections() {
            if !text.is_empty() {
                text.push('\n');
            }
            let is_list = name == "source" && self.sources.len() > 1;
            text.push_str(&if is_list { format!("[[{name}]]\n") } else { format!("[{name}]\n") });
            for (key, value) in keys {
                let is_path = matches!(key, "uri" | "dir" | "staging" | "tokenizer" | "chat_template");
                if self.origin.command().is_some() && is_path && value.to_string().contains("${") {
                    let problem = format!("{value} contains ${{, which a recipe takes for a variable");
                    return Err(Error::usage(problem).with_help("give the file or folder another name"));
                }
                text.push_str(&format!("{key} = {value}\n"));
            }
        }
        Ok(text)
    }
}

impl TrainKeys {
    /// The section `[train]`.
    fn section(&self) -> WrittenSection {
        let sizes = |sizes: &Vec<Given<u64>>| match &sizes[..] {
            [size] => WrittenValue::number(&size.value),
            sizes => WrittenValue::List(sizes.iter().map(|size| WrittenValue::number(&size.value)).collect()),
        };
        let formats = |formats: &Vec<Given<vocab::Format>>| {
            WrittenValue::texts(formats.iter().map(|format| format.value.to_string()))
        };
        let mut section = WrittenSection::new("train")
            .with("split", &self.split, WrittenValue::split)
            .with("boundary", &self.boundary, WrittenValue::name)
            .with("vocab_size", &self.vocab_size, sizes)
            .with("merges", &self.merges, WrittenValue::number)
            .with("min_frequency", &self.min_frequency, |count| WrittenValue::number(&count.get()))
            .with("max_token_bytes", &self.max_token_bytes, WrittenValue::number)
            .with("max_words", &self.max_words, WrittenValue::number)
            .with("stages", &self.stages, |stages| {
                WrittenValue::List(stages.iter().map(|stage| WrittenValue::stage(&stage.value)).collect())
            })
            .with("tie_break", &self.tie_break, WrittenValue::name)
            .with("score", &self.score, |score| WrittenValue::Text(score.to_string()))
            .with("parity", &self.parity, ParityKeys::written)
            .with_texts("special_tokens", &self.special_tokens, String::clone)
            .with("special_tokens_at", &self.special_tokens_at, WrittenValue::name);
        for (key, field) in self.roles() {
            section = section.with(key, field, WrittenValue::token);
        }
        section
            .with("model_max_length", &self.model_max_length, WrittenValue::number)
            .with("chat_template", &self.chat_template, |path| WrittenValue::Text(path.clone()))
            .with("history_every", &self.history_every, WrittenValue::number)
            .with("formats", &self.formats, formats)
    }
}

impl EncodeKeys {
    /// The section `[encode]`.
    fn section(&self) -> WrittenSection {
        WrittenSection::new("encode")
            .with("tokenizer", &self.tokenizer, |name| WrittenValue::Text(name.clone()))
            .with("split", &self.split, WrittenValue::split)
            .with_texts("special_tokens", &self.special_tokens, WrittenValue::special_token)
            .with("documents", &self.documents, WrittenValue::name)
            .with_texts("columns", &self.columns, String::clone)
            .with("special", &self.special, WrittenValue::name)
            .with("missing_bytes", &self.missing_bytes, WrittenValue::name)
            .with("dropout", &self.dropout, WrittenValue::number)
            .with("dropout_seed", &self.dropout_seed, WrittenValue::number)
            .with("bos", &self.bos, WrittenValue::token)
            .with("eos", &self.eos, WrittenValue::token)
            .with("pack", &self.pack, WrittenValue::name)
            .with("length", &self.length, WrittenValue::number)
            .with("compression", &self.compression, WrittenValue::name)
    }
}
