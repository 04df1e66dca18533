//! The keys of each section of a recipe, as the user wrote them, and the names of their choices.

use std::ops::Range;

use serde_json::{Map, Value};

use super::{Field, Given};
use crate::base::int::{ByteCount, Count};
use crate::count::Boundary;
use crate::encode::{MissingBytes, SpecialPolicy};
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
    /// `tie_break`: which of several equally good pairs is merged first. `ids` by default.
    pub tie_break: Field<TieBreak>,
    /// `score`: how pairs are ranked, by default according to their counts.
    pub score: Field<Score>,
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
    /// `dir`: the output folder, relative to the working directory. Required in recipes.
    pub dir: Field<String>,
    /// `split_name`: the name of the split, with which file names begin. `train` by default.
    pub split_name: Field<String>,
    /// `file_text_bytes`: bytes of text per data file, about. 1 GB by default.
    pub file_text_bytes: Field<ByteCount>,
    /// `one_file`: whether all data goes into one file, for the formats `bin` and `megatron`.
    pub one_file: Field<bool>,
    /// `format`: the format of the data files, by default Parquet.
    pub format: Field<OutputFormat>,
}

/// The keys of `[run]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunKeys {
    /// `threads`: the number of threads, by default one per core.
    pub threads: Field<u64>,
    /// `memory`: the memory limit, by default that of the machine or the cgroup.
    pub memory: Field<ByteCount>,
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
        "deepseek-v3" => SplitPattern::Named(NamedPattern::DeepSeekV3);
        unnamed SplitPattern::Custom(_) | SplitPattern::Steps(_)
    }
    Boundary { "document" => Boundary::Document, "join" => Boundary::Join }
    TieBreak {
        "ids" => TieBreak::Ids, "hf" => TieBreak::Hf, "first" => TieBreak::First,
        "bytes-greatest" => TieBreak::BytesGreatest, "bytes-smallest" => TieBreak::BytesSmallest,
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
