mod groups;

pub(super) use groups::{
    CountsArgument, EncodeFlags, InputFlags, MergeFlags, PretokenFlags, SampleFlags, SourceFlags,
    TokenizerArgument, TokenizerFlags, TokenizerSplit, TrainFlags, TrainInput, TransformersFlags,
};

use clap::{Args, Parser, Subcommand, value_parser};
use clap_complete::Shell;
use tokenmill::base::int::ByteCount;
use tokenmill::encode::{MissingBytes, SpecialPolicy};
use tokenmill::run::MOST_THREADS;
use tokenmill::sample::Weight;
use tokenmill::vocab;

use groups::{choice, writable};

/// The list of exit codes, shown after the help. In the manual page, too, lines that begin with spaces stay separate
/// lines.
const EXIT_CODES: &str = "\
Exit codes:
  0         done
  1         failed: missing, unreadable or damaged input, output not writable
  2         wrong usage or recipe
  3         done, but inputs were left out
  4         verification found a difference
  5, 6      network; authorisation
  7, 8      disk full; memory limit
  130, 143  interrupted";

/// Learns byte-level BPE tokenizers from large corpora, and encodes datasets into token-id Parquet.
#[derive(Debug, Parser)]
#[command(name = "tokenmill", version, propagate_version = true, max_term_width = 100, after_help = EXIT_CODES)]
pub(in crate::cli) struct Cli {
    #[command(flatten)]
    pub(in crate::cli) global: Global,
    #[command(subcommand)]
    pub(in crate::cli) command: Command,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "General")]
pub(in crate::cli) struct Global {
    /// Print results as JSON
    #[arg(long, global = true)]
    pub(in crate::cli) json: bool,
    /// Print only results and errors
    #[arg(long, short, global = true)]
    pub(in crate::cli) quiet: bool,
    /// Print more about what is done
    #[arg(long, short, global = true, conflicts_with = "quiet")]
    pub(in crate::cli) verbose: bool,
    /// Number of threads [default: one for each core]
    #[arg(long, global = true, value_name = "N", value_parser = value_parser!(u64).range(1..=MOST_THREADS))]
    pub(in crate::cli) threads: Option<u64>,
    /// Memory limit for counting and learning, such as 8GB [default: the memory of the machine or cgroup]
    #[arg(long, global = true, value_name = "BYTES")]
    pub(in crate::cli) memory: Option<ByteCount>,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Carry out a recipe; finished results are kept
    Run(RunArgs),
    /// Show what `run` would do, without doing it
    Plan(PlanArgs),
    /// Learn a tokenizer from data
    Train(TrainArgs),
    /// Count the distinct pre-tokens of data
    Count(CountArgs),
    /// Sum counts files into one
    MergeCounts(MergeCountsArgs),
    /// Turn data into token-id Parquet
    Encode(EncodeArgs),
    /// Turn token ids back into text
    Decode(DecodeArgs),
    /// Show the tokens of a text
    Tokens(TokensArgs),
    /// Show what a tokenizer or an output folder holds
    Inspect(InspectArgs),
    /// Compare tokenizers on the same text
    Compare(CompareArgs),
    /// Write a tokenizer in another format
    Convert(ConvertArgs),
    /// Check an output folder against its manifest
    Verify(VerifyArgs),
    /// Replay a tokenizer's merges on data, and report the first that was not the best
    VerifyMerges(VerifyMergesArgs),
    /// Time the encoding of documents held in memory
    Bench(BenchArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the JSON Schema of recipes, for editors
    Schema,
    /// Print the manual page
    Man,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct RunArgs {
    /// The recipe
    #[arg(value_name = "RECIPE.toml")]
    pub(in crate::cli) recipe: String,
    /// Replace the result of another job in the output folder
    #[arg(long)]
    pub(in crate::cli) force: bool,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct PlanArgs {
    /// The recipe
    #[arg(value_name = "RECIPE.toml")]
    pub(in crate::cli) recipe: String,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct TrainArgs {
    #[command(flatten)]
    pub(in crate::cli) input: TrainInput,
    /// The folder for the tokenizer
    #[arg(long, short, value_name = "DIR", value_parser = writable)]
    pub(in crate::cli) output: String,
    #[command(flatten)]
    pub(in crate::cli) source: SourceFlags,
    #[command(flatten)]
    pub(in crate::cli) sample: SampleFlags,
    #[command(flatten)]
    pub(in crate::cli) pretokens: PretokenFlags,
    #[command(flatten)]
    pub(in crate::cli) train: TrainFlags,
    #[command(flatten)]
    pub(in crate::cli) transformers: TransformersFlags,
    /// Continue from the merges of this tokenizer, a file or its folder, hf://NAMESPACE/NAME or a name such as gpt2, by the rules recorded beside it
    #[arg(long, value_name = "TOKENIZER")]
    pub(in crate::cli) extend: Option<String>,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct CountArgs {
    #[command(flatten)]
    pub(in crate::cli) input: InputFlags,
    /// The file for the counts
    #[arg(long, short, value_name = "FILE.parquet", value_parser = writable)]
    pub(in crate::cli) output: String,
    /// Keep the pre-tokens in order of first appearance, which the tie rule `first` needs
    #[arg(long)]
    pub(in crate::cli) order: bool,
    #[command(flatten)]
    pub(in crate::cli) source: SourceFlags,
    #[command(flatten)]
    pub(in crate::cli) sample: SampleFlags,
    #[command(flatten)]
    pub(in crate::cli) pretokens: PretokenFlags,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct MergeCountsArgs {
    /// Counts files of the same split, boundary and special tokens
    #[arg(required = true, value_name = "COUNTS.parquet")]
    pub(in crate::cli) files: Vec<String>,
    /// The file for the sum
    #[arg(long, short, value_name = "FILE.parquet", value_parser = writable)]
    pub(in crate::cli) output: String,
    /// The weight of a file, by which its counts are multiplied; give one for each file [default: 1]
    #[arg(long, value_name = "DECIMAL")]
    pub(in crate::cli) weight: Vec<Weight>,
}

// `--weight` is hidden here, because a weight only affects counting and is refused.
#[derive(Args, Debug)]
#[command(mut_arg("weight", |flag| flag.hide(true)))]
pub(in crate::cli) struct EncodeArgs {
    #[command(flatten)]
    pub(in crate::cli) input: InputFlags,
    /// The tokenizer: a file or its folder, hf://NAMESPACE/NAME, or gpt2, r50k_base, p50k_base, cl100k_base, o200k_base
    #[arg(long, short, value_name = "TOKENIZER")]
    pub(in crate::cli) tokenizer: String,
    #[command(flatten)]
    pub(in crate::cli) split: TokenizerSplit,
    /// The folder for the output
    #[arg(long, short, value_name = "DIR", value_parser = writable)]
    pub(in crate::cli) output: String,
    #[command(flatten)]
    pub(in crate::cli) source: SourceFlags,
    #[command(flatten)]
    pub(in crate::cli) sample: SampleFlags,
    #[command(flatten)]
    pub(in crate::cli) encode: EncodeFlags,
    /// Replace the result of another job in the output folder
    #[arg(long)]
    pub(in crate::cli) force: bool,
}

// The flags about reading apply only to the input of `--verify`. They require it, since they would have no effect
// without.
#[derive(Args, Debug)]
#[command(
    mut_group("SourceFlags", |flags| flags.requires("verify")),
    mut_group("SampleFlags", |flags| flags.requires("verify")),
    mut_arg("weight", |flag| flag.hide(true))
)]
pub(in crate::cli) struct DecodeArgs {
    /// Files of token ids, or an output folder
    #[arg(required = true, value_name = "FILE")]
    pub(in crate::cli) files: Vec<String>,
    #[command(flatten)]
    pub(in crate::cli) tokenizer: TokenizerFlags,
    /// Which split of an output folder [default: the only one]
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) split_name: Option<String>,
    /// Compare with the documents of this input instead of printing
    #[arg(long, value_name = "INPUT")]
    pub(in crate::cli) verify: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) source: SourceFlags,
    #[command(flatten)]
    pub(in crate::cli) sample: SampleFlags,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct TokensArgs {
    #[command(flatten)]
    pub(in crate::cli) tokenizer: TokenizerFlags,
    /// The text; without it, or with -, standard input
    #[arg(value_name = "TEXT")]
    pub(in crate::cli) text: Option<String>,
    /// Show the ids of the tokens instead of their text
    #[arg(long)]
    pub(in crate::cli) ids: bool,
    /// Write a page that shows the tokens, and print only what --json prints
    #[arg(long, value_name = "FILE.html", value_parser = writable, conflicts_with = "ids")]
    pub(in crate::cli) html: Option<String>,
    /// How to encode text that looks like a special token
    #[arg(long, value_name = "POLICY", value_parser = choice::<SpecialPolicy>())]
    pub(in crate::cli) special: Option<SpecialPolicy>,
    /// How to treat a byte that has no token [default: error]
    #[arg(long, value_name = "POLICY", value_parser = choice::<MissingBytes>())]
    pub(in crate::cli) missing_bytes: Option<MissingBytes>,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct InspectArgs {
    /// The tokenizer, a file or its folder, hf://NAMESPACE/NAME or a name such as gpt2, the output folder of `run` or `encode`, or a counts file
    #[arg(value_name = "PATH")]
    pub(in crate::cli) path: String,
    #[command(flatten)]
    pub(in crate::cli) split: TokenizerSplit,
    /// Number of merges to show [default: 20, with --json all]
    #[arg(long, value_name = "N")]
    pub(in crate::cli) merges: Option<usize>,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct ConvertArgs {
    #[command(flatten)]
    pub(in crate::cli) tokenizer: TokenizerArgument,
    /// The format to write
    #[arg(long, value_name = "FORMAT", value_parser = choice::<vocab::Format>())]
    pub(in crate::cli) to: vocab::Format,
    /// The folder for the files
    #[arg(long, short, value_name = "DIR", value_parser = writable)]
    pub(in crate::cli) output: String,
    /// A special token to add, with the next id after the highest; may be given several times
    #[arg(long, value_name = "TOKEN")]
    pub(in crate::cli) add_special_token: Vec<String>,
    #[command(flatten)]
    pub(in crate::cli) transformers: TransformersFlags,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct VerifyArgs {
    /// The output folder
    #[arg(value_name = "DIR")]
    pub(in crate::cli) dir: String,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct VerifyMergesArgs {
    #[command(flatten)]
    pub(in crate::cli) tokenizer: TokenizerArgument,
    /// The data: files, folders, globs, pipes, hf://datasets/…, https://…, demo:verse?lines=1000, or - for
    /// standard input; s3://…, gs://… and az://… if built with the feature remote
    #[arg(long, required = true, value_name = "INPUT", num_args = 1..)]
    pub(in crate::cli) on: Vec<String>,
    #[command(flatten)]
    pub(in crate::cli) source: SourceFlags,
    #[command(flatten)]
    pub(in crate::cli) sample: SampleFlags,
    #[command(flatten)]
    pub(in crate::cli) rules: MergeFlags,
}

#[derive(Args, Debug)]
#[command(mut_arg("weight", |flag| flag.hide(true)))]
pub(in crate::cli) struct CompareArgs {
    /// The tokenizers: files or their folders, hf://NAMESPACE/NAME, or gpt2, cl100k_base and other names
    #[arg(required = true, value_name = "TOKENIZER")]
    pub(in crate::cli) tokenizers: Vec<String>,
    #[command(flatten)]
    pub(in crate::cli) split: TokenizerSplit,
    /// The text: files, folders, globs, pipes, hf://datasets/…, https://…, demo:verse?lines=1000, or - for
    /// standard input; s3://…, gs://… and az://… if built with the feature remote
    #[arg(long, required = true, value_name = "INPUT", num_args = 1..)]
    pub(in crate::cli) on: Vec<String>,
    /// Also write the comparison as a page with charts
    #[arg(long, value_name = "FILE.html", value_parser = writable)]
    pub(in crate::cli) html: Option<String>,
    /// How to treat a document with a byte that has no token [default: error]
    #[arg(long, value_name = "POLICY", value_parser = choice::<MissingBytes>())]
    pub(in crate::cli) missing_bytes: Option<MissingBytes>,
    #[command(flatten)]
    pub(in crate::cli) source: SourceFlags,
    #[command(flatten)]
    pub(in crate::cli) sample: SampleFlags,
}

#[derive(Args, Debug)]
#[command(mut_arg("weight", |flag| flag.hide(true)))]
pub(in crate::cli) struct BenchArgs {
    #[command(flatten)]
    pub(in crate::cli) input: InputFlags,
    #[command(flatten)]
    pub(in crate::cli) tokenizer: TokenizerFlags,
    /// How to treat a document with a byte that has no token [default: error]
    #[arg(long, value_name = "POLICY", value_parser = choice::<MissingBytes>())]
    pub(in crate::cli) missing_bytes: Option<MissingBytes>,
    #[command(flatten)]
    pub(in crate::cli) source: SourceFlags,
    #[command(flatten)]
    pub(in crate::cli) sample: SampleFlags,
}
