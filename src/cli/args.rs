use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use tokenmill::count::Boundary;
use tokenmill::encode::SpecialPolicy;
use tokenmill::run::recipe::{Choice, named, names};
use tokenmill::sample::Weight;
use tokenmill::sink::Compression;
use tokenmill::source::{self, DocumentRule, OnBadInput};
use tokenmill::split::SplitPattern;
use tokenmill::train::{Score, TieBreak};
use tokenmill::units::ByteCount;
use tokenmill::vocab::{self, LoadOptions, SpecialTokensAt};

/// Learns byte-level BPE tokenizers from large corpora, and encodes datasets into token-id Parquet.
#[derive(Debug, Parser)]
#[command(name = "tokenmill", version, propagate_version = true, max_term_width = 100)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "General")]
pub(super) struct Global {
    /// Print results as JSON
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// Tell nothing but results and errors
    #[arg(long, short, global = true)]
    pub(super) quiet: bool,
    /// Tell more of what is done
    #[arg(long, short, global = true, conflicts_with = "quiet")]
    pub(super) verbose: bool,
    /// How many threads work [default: one for each core]
    #[arg(long, global = true, value_name = "N")]
    pub(super) threads: Option<u64>,
    /// Limit of memory, such as 8GB [default: what the machine or the cgroup has]
    #[arg(long, global = true, value_name = "BYTES")]
    pub(super) memory: Option<ByteCount>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Do all that a recipe says; what is done already is kept
    Run(RunArgs),
    /// Tell what `run` would do, without doing it
    Plan(PlanArgs),
    /// Learn a tokenizer from data
    Train(TrainArgs),
    /// Count the distinct pieces of data
    Count(CountArgs),
    /// Turn data into token-id Parquet
    Encode(EncodeArgs),
    /// Turn token ids back into text
    Decode(DecodeArgs),
    /// Show the tokens of a text
    Tokens(TokensArgs),
    /// Tell what a tokenizer holds
    Inspect(InspectArgs),
    /// Write a tokenizer in another format
    Convert(ConvertArgs),
    /// Check an output folder against its manifest
    Verify(VerifyArgs),
    /// Time the encoding of documents held in memory
    Bench(BenchArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page
    Man,
}

#[derive(Args, Debug)]
pub(super) struct RunArgs {
    /// The recipe
    #[arg(value_name = "RECIPE.toml")]
    pub(super) recipe: String,
    /// Replace the result of another job in the output folder
    #[arg(long)]
    pub(super) force: bool,
}

#[derive(Args, Debug)]
pub(super) struct PlanArgs {
    /// The recipe
    #[arg(value_name = "RECIPE.toml")]
    pub(super) recipe: String,
}

#[derive(Args, Debug)]
pub(super) struct TrainArgs {
    #[command(flatten)]
    pub(super) input: InputFlags,
    /// The folder for the tokenizer
    #[arg(long, short, value_name = "DIR")]
    pub(super) output: String,
    #[command(flatten)]
    pub(super) source: SourceFlags,
    #[command(flatten)]
    pub(super) sample: SampleFlags,
    #[command(flatten)]
    pub(super) pieces: PieceFlags,
    #[command(flatten)]
    pub(super) train: TrainFlags,
}

#[derive(Args, Debug)]
pub(super) struct CountArgs {
    #[command(flatten)]
    pub(super) input: InputFlags,
    /// The file for the counts
    #[arg(long, short, value_name = "FILE.parquet")]
    pub(super) output: String,
    /// Keep the pieces in order of first appearance, which the tie rule `first` needs
    #[arg(long)]
    pub(super) order: bool,
    #[command(flatten)]
    pub(super) source: SourceFlags,
    #[command(flatten)]
    pub(super) sample: SampleFlags,
    #[command(flatten)]
    pub(super) pieces: PieceFlags,
}

#[derive(Args, Debug)]
pub(super) struct EncodeArgs {
    #[command(flatten)]
    pub(super) input: InputFlags,
    /// The tokenizer: a file or its folder
    #[arg(long, short, value_name = "TOKENIZER")]
    pub(super) tokenizer: String,
    /// The folder for the output
    #[arg(long, short, value_name = "DIR")]
    pub(super) output: String,
    #[command(flatten)]
    pub(super) source: SourceFlags,
    #[command(flatten)]
    pub(super) sample: SampleFlags,
    #[command(flatten)]
    pub(super) encode: EncodeFlags,
    /// Replace the result of another job in the output folder
    #[arg(long)]
    pub(super) force: bool,
}

#[derive(Args, Debug)]
pub(super) struct DecodeArgs {
    /// Files of token ids, or an output folder
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<String>,
    #[command(flatten)]
    pub(super) tokenizer: TokenizerFlags,
    /// Compare with the documents of this input instead of printing
    #[arg(long, value_name = "INPUT")]
    pub(super) verify: Option<String>,
    #[command(flatten)]
    pub(super) source: SourceFlags,
    #[command(flatten)]
    pub(super) sample: SampleFlags,
}

#[derive(Args, Debug)]
pub(super) struct TokensArgs {
    #[command(flatten)]
    pub(super) tokenizer: TokenizerFlags,
    /// The text; without it, or with -, standard input
    #[arg(value_name = "TEXT")]
    pub(super) text: Option<String>,
    /// Show ids instead of pieces
    #[arg(long)]
    pub(super) ids: bool,
    /// What text that looks like a special token becomes
    #[arg(long, value_name = "POLICY", value_parser = choice::<SpecialPolicy>())]
    pub(super) special: Option<SpecialPolicy>,
}

#[derive(Args, Debug)]
pub(super) struct InspectArgs {
    #[command(flatten)]
    pub(super) tokenizer: TokenizerArgument,
    /// How many merges are shown
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(super) merges: usize,
}

#[derive(Args, Debug)]
pub(super) struct ConvertArgs {
    #[command(flatten)]
    pub(super) tokenizer: TokenizerArgument,
    /// The format to write
    #[arg(long, value_name = "FORMAT", value_parser = choice::<vocab::Format>())]
    pub(super) to: vocab::Format,
    /// The folder for the files
    #[arg(long, short, value_name = "DIR")]
    pub(super) output: String,
}

#[derive(Args, Debug)]
pub(super) struct VerifyArgs {
    /// The output folder
    #[arg(value_name = "DIR")]
    pub(super) dir: String,
}

#[derive(Args, Debug)]
pub(super) struct BenchArgs {
    #[command(flatten)]
    pub(super) input: InputFlags,
    #[command(flatten)]
    pub(super) tokenizer: TokenizerFlags,
    #[command(flatten)]
    pub(super) source: SourceFlags,
    #[command(flatten)]
    pub(super) sample: SampleFlags,
}

#[derive(Args, Debug)]
pub(super) struct TokenizerFlags {
    /// The tokenizer: a file or its folder
    #[arg(long, short, value_name = "TOKENIZER")]
    pub(super) tokenizer: String,
    #[command(flatten)]
    split: TokenizerSplit,
}

#[derive(Args, Debug)]
pub(super) struct TokenizerArgument {
    /// The tokenizer: a file or its folder
    #[arg(value_name = "TOKENIZER")]
    pub(super) tokenizer: String,
    #[command(flatten)]
    split: TokenizerSplit,
}

impl TokenizerFlags {
    /// How to read the tokenizer's files.
    pub(super) fn options(&self) -> LoadOptions {
        self.split.options()
    }
}

impl TokenizerArgument {
    /// How to read the tokenizer's files.
    pub(super) fn options(&self) -> LoadOptions {
        self.split.options()
    }
}

#[derive(Args, Debug)]
struct TokenizerSplit {
    /// How the tokenizer cuts text, where its files do not say it
    #[arg(long, value_name = "PATTERN", value_parser = choice::<SplitPattern>(), conflicts_with = "split_regex")]
    split: Option<SplitPattern>,
    /// The same as a regular expression
    #[arg(long, value_name = "REGEX")]
    split_regex: Option<String>,
}

impl TokenizerSplit {
    fn options(&self) -> LoadOptions {
        let regex = self.split_regex.as_deref().map(SplitPattern::from_regex);
        LoadOptions { format: None, split: regex.or(self.split.clone()) }
    }
}

#[derive(Args, Debug)]
pub(super) struct InputFlags {
    /// Files, folders, globs, hf://datasets/…, demo:verse?lines=1000, or - for standard input
    #[arg(required = true, value_name = "INPUT")]
    pub(super) inputs: Vec<String>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Source")]
pub(super) struct SourceFlags {
    /// The column or field that holds the text; a nested one as a.b [default: text]
    #[arg(long, value_name = "NAME")]
    pub(super) column: Option<String>,
    /// The files' format [default: by extension]
    #[arg(long, value_name = "FORMAT", value_parser = choice::<source::Format>())]
    pub(super) format: Option<source::Format>,
    /// What a document is in plain text [default: file]
    #[arg(long, value_name = "RULE", value_parser = choice::<DocumentRule>(), conflicts_with = "separator")]
    pub(super) documents: Option<DocumentRule>,
    /// The text between the documents of a plain text
    #[arg(long, value_name = "TEXT")]
    pub(super) separator: Option<String>,
    /// By what the counts of an input are multiplied, once for each INPUT [default: 1]
    #[arg(long, value_name = "DECIMAL")]
    pub(super) weight: Vec<Weight>,
    /// Read remote files without keeping them
    #[arg(long)]
    pub(super) stream: bool,
    /// What to do with what cannot be read [default: fail]
    #[arg(long, value_name = "POLICY", value_parser = choice::<OnBadInput>())]
    pub(super) on_bad_input: Option<OnBadInput>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Sample")]
pub(super) struct SampleFlags {
    /// Take every N-th document
    #[arg(long, value_name = "N")]
    pub(super) every: Option<u64>,
    /// Shuffle through a buffer of N documents
    #[arg(long, value_name = "N")]
    pub(super) shuffle_buffer: Option<u64>,
    /// Seed of the shuffle [default: 0]
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Leave out the first N documents
    #[arg(long, value_name = "N")]
    pub(super) skip: Option<u64>,
    /// Take at most N documents
    #[arg(long, value_name = "N")]
    pub(super) take: Option<u64>,
    /// Take at most so much text, such as 2GB
    #[arg(long, value_name = "BYTES")]
    pub(super) max_bytes: Option<ByteCount>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Pieces")]
pub(super) struct PieceFlags {
    /// How text is cut into pieces [default: gpt4]
    #[arg(long, value_name = "PATTERN", value_parser = choice::<SplitPattern>(), conflicts_with = "split_regex")]
    pub(super) split: Option<SplitPattern>,
    /// A regular expression that cuts text into pieces
    #[arg(long, value_name = "REGEX")]
    pub(super) split_regex: Option<String>,
    /// A special token, cut out of the text; may be given several times
    #[arg(long, value_name = "TOKEN")]
    pub(super) special_token: Vec<String>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Training")]
pub(super) struct TrainFlags {
    /// Tokens of the vocabulary: 256 bytes, merges, and special tokens
    #[arg(long, value_name = "N")]
    pub(super) vocab_size: Option<u64>,
    /// Merges to learn, instead of --vocab-size
    #[arg(long, value_name = "N")]
    pub(super) merges: Option<u64>,
    /// Where sequences end [default: document]
    #[arg(long, value_name = "BOUNDARY", value_parser = choice::<Boundary>())]
    pub(super) boundary: Option<Boundary>,
    /// Merge no pair that occurs less often [default: 2]
    #[arg(long, value_name = "N")]
    pub(super) min_frequency: Option<u64>,
    /// Make no longer token
    #[arg(long, value_name = "N")]
    pub(super) max_token_bytes: Option<u64>,
    /// Which of equally frequent pairs is merged first [default: ids]
    #[arg(long, value_name = "RULE", value_parser = choice::<TieBreak>())]
    pub(super) tie_break: Option<TieBreak>,
    /// What the greatest of is merged [default: count]
    #[arg(long, value_name = "SCORE", value_parser = choice::<Score>())]
    pub(super) score: Option<Score>,
    /// Where the ids of special tokens stand [default: end]
    #[arg(long, value_name = "PLACE", value_parser = choice::<SpecialTokensAt>())]
    pub(super) special_tokens_at: Option<SpecialTokensAt>,
    /// Record a point of history every N merges [default: a 200th of the merges]
    #[arg(long, value_name = "N")]
    pub(super) history_every: Option<u64>,
    /// Formats to write, with commas between them [default: hf]
    #[arg(long, value_name = "FORMATS", value_delimiter = ',', value_parser = choice::<vocab::Format>())]
    pub(super) formats: Option<Vec<vocab::Format>>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Encoding")]
pub(super) struct EncodeFlags {
    /// Columns to pass through, with commas between them
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(super) columns: Vec<String>,
    /// What text that looks like a special token becomes [default: text]
    #[arg(long, value_name = "POLICY", value_parser = choice::<SpecialPolicy>())]
    pub(super) special: Option<SpecialPolicy>,
    /// The special token put before every document
    #[arg(long, value_name = "TOKEN")]
    pub(super) bos: Option<String>,
    /// The special token put after every document
    #[arg(long, value_name = "TOKEN")]
    pub(super) eos: Option<String>,
    /// How the ids are compressed [default: default]
    #[arg(long, value_name = "NAME", value_parser = choice::<Compression>())]
    pub(super) compression: Option<Compression>,
    /// The split's name, which begins the files' names [default: train]
    #[arg(long, value_name = "NAME")]
    pub(super) split_name: Option<String>,
    /// About how much text goes into a file [default: 1GB]
    #[arg(long, value_name = "BYTES")]
    pub(super) file_text_bytes: Option<ByteCount>,
}

fn choice<T: Choice + Send + Sync>() -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(names::<T>())
        .map(|name| named(&name).expect("only the names themselves get here"))
}
