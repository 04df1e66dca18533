use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, value_parser};
use tokenmill::base::int::ByteCount;
use tokenmill::count::Boundary;
use tokenmill::encode::{MissingBytes, SpecialPolicy};
use tokenmill::run::recipe::{Choice, named, names};
use tokenmill::sample::Weight;
use tokenmill::sink::{Compression, OutputFormat, PackRule};
use tokenmill::source::{self, DocumentRule, OnBadInput};
use tokenmill::split::SplitPattern;
use tokenmill::train::{Score, TieBreak};
use tokenmill::vocab::{self, LoadOptions, SpecialToken, SpecialTokensAt, TransformersConfig};

#[derive(Args, Debug)]
pub(in crate::cli) struct TokenizerFlags {
    /// The tokenizer: a file or its folder, hf://NAMESPACE/NAME, or gpt2, r50k_base, p50k_base, cl100k_base, o200k_base
    #[arg(long, short, value_name = "TOKENIZER")]
    pub(in crate::cli) tokenizer: String,
    #[command(flatten)]
    split: TokenizerSplit,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct TokenizerArgument {
    /// The tokenizer: a file or its folder, hf://NAMESPACE/NAME, or gpt2, r50k_base, p50k_base, cl100k_base, o200k_base
    #[arg(value_name = "TOKENIZER")]
    pub(in crate::cli) tokenizer: String,
    #[command(flatten)]
    split: TokenizerSplit,
}

impl TokenizerFlags {
    /// Returns the options for reading the tokenizer's files.
    pub(in crate::cli) fn options(&self) -> LoadOptions {
        self.split.options()
    }
}

impl TokenizerArgument {
    /// Returns the options for reading the tokenizer's files.
    pub(in crate::cli) fn options(&self) -> LoadOptions {
        self.split.options()
    }
}

#[derive(Args, Debug)]
pub(in crate::cli) struct TokenizerSplit {
    /// How the tokenizer splits text, if its files do not say it
    #[arg(long, value_name = "PATTERN", value_parser = choice::<SplitPattern>(), conflicts_with = "split_regex")]
    split: Option<SplitPattern>,
    /// The same as a regular expression
    #[arg(long, value_name = "REGEX")]
    split_regex: Option<String>,
    /// A special token of the tokenizer, if its files do not list it; without an id it gets the next one after the
    /// highest. May be given several times
    #[arg(long, value_name = "TEXT[=ID]")]
    special_token: Vec<SpecialToken>,
}

impl TokenizerSplit {
    /// Returns the options for reading a tokenizer's files.
    pub(in crate::cli) fn options(&self) -> LoadOptions {
        let regex = self.split_regex.as_deref().map(SplitPattern::from_regex);
        let special_tokens = self.special_token.clone();
        LoadOptions { format: None, split: regex.or(self.split.clone()), special_tokens }
    }
}

#[derive(Args, Debug)]
pub(in crate::cli) struct InputFlags {
    /// Files, folders, globs, pipes, hf://datasets/…, https://…, demo:verse?lines=1000, or - for
    /// standard input; s3://…, gs://… and az://… if built with the feature remote
    #[arg(required = true, value_name = "INPUT")]
    pub(in crate::cli) inputs: Vec<String>,
}

/// Flags about the text behind the counts, which conflict with `--from-counts`. They are listed one by one instead of
/// by group, so that an error names the flag that was given.
const NOT_OF_COUNTS: [&str; 16] = [
    "inputs",
    "column",
    "template",
    "join",
    "format",
    "documents",
    "separator",
    "weight",
    "stream",
    "on_bad_input",
    "every",
    "shuffle_buffer",
    "seed",
    "skip",
    "take",
    "max_bytes",
];

#[derive(Args, Debug)]
pub(in crate::cli) struct TrainInput {
    /// Files, folders, globs, pipes, hf://datasets/…, https://…, demo:verse?lines=1000, or - for
    /// standard input; s3://…, gs://… and az://… if built with the feature remote
    #[arg(required_unless_present = "from_counts", value_name = "INPUT")]
    pub(in crate::cli) inputs: Vec<String>,
    /// Learn from files that `count` wrote, instead of from an input; a weight may follow each
    #[arg(
        long,
        value_name = "COUNTS.parquet[=DECIMAL]",
        num_args = 1..,
        conflicts_with_all = NOT_OF_COUNTS
    )]
    pub(in crate::cli) from_counts: Vec<CountsArgument>,
}

/// A counts file with its weight in a mixture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct CountsArgument {
    pub(in crate::cli) path: String,
    pub(in crate::cli) weight: Weight,
}

impl FromStr for CountsArgument {
    type Err = <Weight as FromStr>::Err;

    /// Reads `PATH` or `PATH=WEIGHT`. The part after the last `=` is the weight if it looks like a number.
    fn from_str(text: &str) -> Result<CountsArgument, Self::Err> {
        let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let (path, weight) = match text.rsplit_once('=') {
            Some((path, weight)) if number(weight) => (path, weight.parse()?),
            _ => (text, Weight::ONE),
        };
        Ok(CountsArgument { path: path.to_owned(), weight })
    }
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Source")]
pub(in crate::cli) struct SourceFlags {
    /// The column or field that holds the text; a nested one as a.b, all items of a list as a[] or a[].b [default: text]
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) column: Option<String>,
    /// Build the text from several columns, such as "{title}: {text}"
    #[arg(long, value_name = "TEXT", conflicts_with = "column")]
    pub(in crate::cli) template: Option<String>,
    /// The text between the items of a list [default: the end of a line]
    #[arg(long, value_name = "TEXT")]
    pub(in crate::cli) join: Option<String>,
    /// The files' format [default: by extension]
    #[arg(long, value_name = "FORMAT", value_parser = choice::<source::Format>())]
    pub(in crate::cli) format: Option<source::Format>,
    /// How plain text is divided into documents [default: file]
    #[arg(long, value_name = "RULE", value_parser = choice::<DocumentRule>(), conflicts_with = "separator")]
    pub(in crate::cli) documents: Option<DocumentRule>,
    /// The text that separates the documents of plain text
    #[arg(long, value_name = "TEXT")]
    pub(in crate::cli) separator: Option<String>,
    /// The weight of an input, by which its counts are multiplied; give one for each INPUT [default: 1]
    #[arg(long, value_name = "DECIMAL")]
    pub(in crate::cli) weight: Vec<Weight>,
    /// Read remote files without keeping them
    #[arg(long)]
    pub(in crate::cli) stream: bool,
    /// What to do with a row or file that cannot be read [default: fail]
    #[arg(long, value_name = "POLICY", value_parser = choice::<OnBadInput>())]
    pub(in crate::cli) on_bad_input: Option<OnBadInput>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Sample")]
pub(in crate::cli) struct SampleFlags {
    /// Keep the first of every N documents
    #[arg(long, value_name = "N")]
    pub(in crate::cli) every: Option<u64>,
    /// Shuffle through a buffer of N documents
    #[arg(long, value_name = "N")]
    pub(in crate::cli) shuffle_buffer: Option<u64>,
    /// Seed of the shuffle [default: 0]
    #[arg(long, value_name = "N")]
    pub(in crate::cli) seed: Option<u64>,
    /// Skip the first N documents
    #[arg(long, value_name = "N")]
    pub(in crate::cli) skip: Option<u64>,
    /// Take at most N documents
    #[arg(long, value_name = "N")]
    pub(in crate::cli) take: Option<u64>,
    /// Take at most this much text, such as 2GB
    #[arg(long, value_name = "BYTES")]
    pub(in crate::cli) max_bytes: Option<ByteCount>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Pre-tokens")]
pub(in crate::cli) struct PretokenFlags {
    /// How text is split into pre-tokens [default: gpt4]
    #[arg(long, value_name = "PATTERN", value_parser = choice::<SplitPattern>(), conflicts_with = "split_regex")]
    pub(in crate::cli) split: Option<SplitPattern>,
    /// A regular expression that matches the pre-tokens
    #[arg(long, value_name = "REGEX")]
    pub(in crate::cli) split_regex: Option<String>,
    /// Whether tokens end with each document, or may continue into the next (join) [default: document]
    #[arg(long, value_name = "BOUNDARY", value_parser = choice::<Boundary>())]
    pub(in crate::cli) boundary: Option<Boundary>,
    /// A special token, which is removed from the text; may be given several times
    #[arg(long, value_name = "TOKEN")]
    pub(in crate::cli) special_token: Vec<String>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Training")]
pub(in crate::cli) struct TrainFlags {
    /// Number of tokens: 256 bytes, merges, and special tokens; several numbers, separated by commas,
    /// give a tokenizer of each size from one training, the smaller ones in folders vocab-N
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub(in crate::cli) vocab_size: Option<Vec<u64>>,
    /// Number of merges to learn, instead of --vocab-size
    #[arg(long, value_name = "N")]
    pub(in crate::cli) merges: Option<u64>,
    /// Least count of a pair that is merged [default: 2]
    #[arg(long, value_name = "N")]
    pub(in crate::cli) min_frequency: Option<u64>,
    /// Greatest length of a token that a merge makes, in bytes
    #[arg(long, value_name = "N")]
    pub(in crate::cli) max_token_bytes: Option<u64>,
    /// Which of several pairs with equal scores is merged first [default: ids]
    #[arg(long, value_name = "RULE", value_parser = choice::<TieBreak>())]
    pub(in crate::cli) tie_break: Option<TieBreak>,
    /// The score that ranks pairs: count, count-length, or conditional:p,q,r [default: count]
    #[arg(long, value_name = "SCORE")]
    pub(in crate::cli) score: Option<Score>,
    /// Whether special tokens have the first or the last ids [default: end]
    #[arg(long, value_name = "PLACE", value_parser = choice::<SpecialTokensAt>())]
    pub(in crate::cli) special_tokens_at: Option<SpecialTokensAt>,
    /// Record the number of tokens left every N merges [default: a 200th of the merges]
    #[arg(long, value_name = "N")]
    pub(in crate::cli) history_every: Option<u64>,
    /// Formats to write, separated by commas [default: hf]
    #[arg(long, value_name = "FORMATS", value_delimiter = ',', value_parser = choice::<vocab::Format>())]
    pub(in crate::cli) formats: Option<Vec<vocab::Format>>,
}

/// What `tokenizer_config.json` says. A token that is not there yet is added as a special token.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "For transformers (tokenizer_config.json)")]
pub(in crate::cli) struct TransformersFlags {
    /// The special token that begins a document (bos_token); like those below, it is added if it is missing
    #[arg(long, value_name = "TOKEN")]
    pub(in crate::cli) bos: Option<String>,
    /// The special token that ends a document (eos_token)
    #[arg(long, value_name = "TOKEN")]
    pub(in crate::cli) eos: Option<String>,
    /// The special token that fills the shorter texts of a batch (pad_token)
    #[arg(long, value_name = "TOKEN")]
    pub(in crate::cli) pad: Option<String>,
    /// The special token for text that has no token (unk_token)
    #[arg(long, value_name = "TOKEN")]
    pub(in crate::cli) unk: Option<String>,
    /// The special token that replaces a token to be predicted (mask_token)
    #[arg(long, value_name = "TOKEN")]
    pub(in crate::cli) mask: Option<String>,
    /// The maximum number of tokens that the model accepts (model_max_length)
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=TransformersConfig::MOST_LENGTH))]
    pub(in crate::cli) model_max_length: Option<u64>,
    /// A file with the Jinja template that turns a conversation into one text (chat_template)
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) chat_template: Option<String>,
}

/// What could be merged when a list was learned; without them what `training.json` beside it says.
#[derive(Args, Debug)]
#[command(next_help_heading = "Training")]
pub(in crate::cli) struct MergeFlags {
    /// Whether tokens ended with each document [default: as recorded, or document]
    #[arg(long, value_name = "BOUNDARY", value_parser = choice::<Boundary>())]
    pub(in crate::cli) boundary: Option<Boundary>,
    /// The score that ranked pairs [default: as recorded, or count]
    #[arg(long, value_name = "SCORE")]
    pub(in crate::cli) score: Option<Score>,
    /// Least count of a pair that was merged [default: as recorded, or 1]
    #[arg(long, value_name = "N")]
    pub(in crate::cli) min_frequency: Option<u64>,
    /// Greatest length of a token, in bytes [default: as recorded, or none]
    #[arg(long, value_name = "N")]
    pub(in crate::cli) max_token_bytes: Option<u64>,
    /// The stage to check, of a tokenizer extended by `train --extend`: each stage was learned from its own text
    /// [default: the last one recorded]
    #[arg(long, value_name = "N", conflicts_with = "skip_merges")]
    pub(in crate::cli) stage: Option<u64>,
    /// Apply the first N merges without a check, and check the others
    #[arg(long, value_name = "N")]
    pub(in crate::cli) skip_merges: Option<u64>,
}

/// What `--pack` chooses; by this name, since clap takes an `Option` of an `Option` for a flag without a value.
type ChosenRule = Option<PackRule>;

#[derive(Args, Debug)]
#[command(next_help_heading = "Encoding")]
pub(in crate::cli) struct EncodeFlags {
    /// Columns to pass through, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(in crate::cli) columns: Vec<String>,
    /// How to encode text that looks like a special token [default: text]
    #[arg(long, value_name = "POLICY", value_parser = choice::<SpecialPolicy>())]
    pub(in crate::cli) special: Option<SpecialPolicy>,
    /// How to treat a document with a byte that has no token [default: error]
    #[arg(long, value_name = "POLICY", value_parser = choice::<MissingBytes>())]
    pub(in crate::cli) missing_bytes: Option<MissingBytes>,
    /// The special token put before every document
    #[arg(long, value_name = "TOKEN")]
    pub(in crate::cli) bos: Option<String>,
    /// The special token put after every document
    #[arg(long, value_name = "TOKEN")]
    pub(in crate::cli) eos: Option<String>,
    /// How documents are packed into rows of --length ids [default: none]
    #[arg(long, value_name = "RULE", value_parser = choice::<Option<PackRule>>())]
    pub(in crate::cli) pack: Option<ChosenRule>,
    /// Number of ids in a packed row
    #[arg(long, value_name = "N")]
    pub(in crate::cli) length: Option<u64>,
    /// How the ids are compressed [default: default]
    #[arg(long, value_name = "NAME", value_parser = choice::<Compression>())]
    pub(in crate::cli) compression: Option<Compression>,
    /// The kind of files that ids are written to [default: parquet]
    #[arg(long, value_name = "FORMAT", value_parser = choice::<OutputFormat>())]
    pub(in crate::cli) output_format: Option<OutputFormat>,
    /// The split's name, with which the names of its files begin [default: train]
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) split_name: Option<String>,
    /// Approximate amount of text in a file [default: 1GB]
    #[arg(long, value_name = "BYTES")]
    pub(in crate::cli) file_text_bytes: Option<ByteCount>,
    /// Write one file named after the split alone, such as train.bin; for bin and megatron
    #[arg(long)]
    pub(in crate::cli) one_file: bool,
}

/// Returns a parser for one of a fixed set of names, which the help lists.
pub(super) fn choice<T: Choice + Send + Sync>() -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(names::<T>())
        .map(|name| named(&name).expect("only the names themselves get here"))
}

/// Checks a path to write to. `-` is refused, because output files are renamed when complete, which is impossible
/// with a pipe.
pub(super) fn writable(path: &str) -> Result<String, &'static str> {
    match path {
        "" => Err("it is empty; write a path"),
        "-" => Err("the output is files, not text for standard output; write a path, such as `./-`"),
        path => Ok(path.to_owned()),
    }
}
