//! The flags and arguments of every command, as types that clap parses.
//!
//! In this file, documentation is also program text: clap prints the comment of each argument and of each variant of
//! [`Command`] as help, in completion scripts and in the manual page. Comments on the structs stay internal, because
//! the variant that holds a struct sets the command's description after it. Comments on flattened fields stay
//! internal too.
//!
//! A flag that is also a key of recipes has no default value here: it is `None`, empty or `false` if it is not given.
//! The defaults are in the stages, so that a recipe without a key and a command without a flag mean the same.

use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, Args, ColorChoice, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use tokenmill::base::int::{ByteCount, parse_count};
use tokenmill::count::Boundary;
use tokenmill::encode::{MissingBytes, Probability, SpecialPolicy};
use tokenmill::run::MAX_THREADS;
use tokenmill::run::recipe::{Choice, StageKeys, named, names};
use tokenmill::sample::Weight;
use tokenmill::sink::{Compression, OutputFormat, PackRule};
use tokenmill::source::{self, DocumentRule, OnBadInput};
use tokenmill::split::SplitPattern;
use tokenmill::train::{Score, TieBreak};
use tokenmill::vocab::{self, LoadOptions, SpecialToken, SpecialTokensAt, TransformersConfig};

use super::terminal::LogFormat;

/// How to go on, shown after the short help.
const NEXT: &str = "\
`tokenmill COMMAND -h` shows the usual flags of a command, and examples;
`--help` shows all flags, and here also how to write numbers, and exit codes.";

/// The long help of inputs. Its first sentence says what they are for.
macro_rules! inputs_help {
    ($purpose:literal) => {
        concat!(
            $purpose,
            "\n\nAn input is a file, a folder, a glob, a pipe, a dataset of the hub (hf://datasets/NAMESPACE/NAME), a file of ",
            "a web server (https://…), objects of a store (s3://…, gs://…, az://…), generated text ",
            "(demo:verse?lines=1000&seed=1), or - for standard input.",
        )
    };
}

/// The long help of tokenizers. Its first words say which they are.
macro_rules! tokenizer_help {
    ($which:literal) => {
        concat!(
            $which,
            " given by a file of any format that `convert` writes, or of some others; by the folder of such files; ",
            "by hf://NAMESPACE/NAME; or by one of the names gpt2, r50k_base, p50k_base, cl100k_base and o200k_base",
        )
    };
}

/// The list of exit codes, shown after the long help. In the manual page, too, lines that begin with spaces stay
/// separate lines.
const EXIT_CODES: &str = "\
Exit codes:
  0         done
  1         failed: missing, unreadable or damaged input, output not writable
  2         wrong usage or recipe
  3         done, but inputs were left out
  4         verification found a difference, or ids are of another tokenizer
  5, 6      network; authorisation
  7, 8      disk full; memory limit
  130, 143  interrupted";

/// Learns byte-level BPE tokenizers from large corpora, and encodes datasets into token-id Parquet
///
/// Numbers can be written as 32000, 32_000 or 32k (k = 1000, M = 1000000), and amounts of bytes as 800MB or 8GiB.
#[derive(Debug, Parser)]
#[command(name = "tokenmill", version, propagate_version = true, max_term_width = 100, after_help = NEXT, after_long_help = EXIT_CODES)]
pub(super) struct Cli {
    /// Flags that are valid before and after the name of the command.
    #[command(flatten)]
    pub(super) global: Global,
    /// The command with its own arguments. clap reports a missing or unknown one with exit code 2.
    #[command(subcommand)]
    pub(super) command: Command,
}

/// Flags of all commands. [`Session`](super::session::Session) applies them: `threads` and `memory` override what a
/// recipe says, and `None` leaves the recipe's value, or else that of the environment.
#[derive(Args, Debug)]
#[command(next_help_heading = "General")]
pub(super) struct Global {
    /// Print results as JSON
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// Print only results and errors
    #[arg(long, short, global = true)]
    pub(super) quiet: bool,
    /// Print more about what is done
    #[arg(long, short, global = true, conflicts_with = "quiet", hide_short_help = true)]
    pub(super) verbose: bool,
    /// The form of messages and progress on standard error
    #[arg(long, global = true, value_name = "FORMAT", default_value_t, value_enum, hide_short_help = true)]
    pub(super) log_format: LogFormat,
    /// Number of threads [default: one for each core]
    #[arg(long, global = true, value_name = "N", value_parser = |text: &str| number_up_to(text, MAX_THREADS), hide_short_help = true)]
    pub(super) threads: Option<u64>,
    /// Memory limit for counting and learning, such as 8GB [default: the memory of the machine or cgroup]
    #[arg(long, global = true, value_name = "BYTES", hide_short_help = true)]
    pub(super) memory: Option<ByteCount>,
    /// Whether to print colours: auto, always or never [default: auto, which heeds NO_COLOR and CLICOLOR_FORCE]
    #[arg(long, global = true, value_name = "WHEN", hide_possible_values = true, hide_short_help = true)]
    pub(super) color: Option<ColorChoice>,
}

/// The commands, in the order of [`GROUPS`] and so of the help. `run` in [`cli`](super) maps each to its function. Each
/// variant's comment is the one-line description that `tokenmill --help` shows.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Carry out a recipe; finished results are kept
    Run(RunArgs),
    /// Learn a tokenizer from data
    Train(Box<TrainArgs>),
    /// Turn data into token-id Parquet
    Encode(EncodeArgs),
    /// Turn token ids back into text
    Decode(DecodeArgs),
    /// Show the tokens of a text
    Tokens(TokensArgs),
    /// Show what a recipe would do, without doing it
    Plan(PlanArgs),
    /// Show what a tokenizer or an output folder holds
    Inspect(InspectArgs),
    /// Write a page to try tokenizers in a browser
    Explore(ExploreArgs),
    /// Compare tokenizers on the same text
    Compare(CompareArgs),
    /// Write a tokenizer in another format
    Convert(ConvertArgs),
    /// Check an output folder against its manifest
    Verify(VerifyArgs),
    /// Publish a tokenizer or token ids on the Hugging Face hub
    Push(PushArgs),
    /// Check on data that each merge of a tokenizer was the best
    VerifyMerges(VerifyMergesArgs),
    /// Time the encoding of documents held in memory
    Bench(BenchArgs),
    /// Count the distinct pre-tokens of data
    Count(CountArgs),
    /// Sum counts files into one
    MergeCounts(MergeCountsArgs),
    /// Join the outputs of `encode --shard` to one data set
    Merge(MergeArgs),
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  tokenmill completions bash > tokenmill.bash")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the JSON Schema of recipes, for editors
    #[command(after_help = "Example:\n  tokenmill schema > recipe.schema.json")]
    Schema,
    /// Print the manual page
    #[command(after_help = "Example:\n  tokenmill man > tokenmill.1")]
    Man,
}

/// The commands under the headings of the program's help.
const GROUPS: [(&str, &[&str]); 3] = [
    ("Everyday commands", &["run", "train", "encode", "decode", "tokens"]),
    (
        "Commands that look, compare and check",
        &["plan", "inspect", "explore", "compare", "convert", "verify", "push", "verify-merges", "bench"],
    ),
    ("Other commands", &["count", "merge-counts", "merge", "completions", "schema", "man", "help"]),
];

/// The flags of [`Global`] that have no effect on a command. Its help leaves them out.
fn without_effect(command: &str) -> &'static [&'static str] {
    match command {
        "completions" | "schema" | "man" => &["json", "quiet", "verbose", "log_format", "threads", "memory"],
        "tokens" | "inspect" | "explore" | "convert" => &["verbose", "threads", "memory"],
        "verify" | "push" => &["verbose", "memory"],
        "merge-counts" => &["verbose", "threads"],
        "merge" => &["verbose", "threads", "memory"],
        _ => &[],
    }
}

/// Returns the parser of the command line.
///
/// It differs from the derived one in three points: the program's help has the commands in [`GROUPS`], a command's help
/// has only flags that have an effect, and a negative number is a value, so that `--seed -1` is reported as a wrong
/// seed and not as an unknown flag.
pub(super) fn parser() -> clap::Command {
    let program = Cli::command();
    let global: Vec<Arg> = program.get_arguments().filter(|flag| flag.is_global_set()).cloned().collect();
    let program = program.mut_subcommands(|command| {
        let hidden = without_effect(command.get_name());
        let hidden = global.iter().filter(|flag| hidden.contains(&flag.get_id().as_str()));
        let hidden: Vec<Arg> = hidden.map(|flag| flag.clone().hide(true)).collect();
        command.allow_negative_numbers(true).args(hidden)
    });
    let template = help_template(&program);
    program.help_template(template)
}

/// Returns the template of the program's help, with a list of commands for each of [`GROUPS`].
fn help_template(program: &clap::Command) -> String {
    let heading = program.get_styles().get_header();
    let about = |name: &str| {
        let about = program.find_subcommand(name).and_then(clap::Command::get_about);
        about.map_or_else(|| "Show the help of a command".to_owned(), ToString::to_string)
    };
    let list = |(title, names): &(&str, &[&str])| {
        let lines = names.iter().map(|name| format!("  {name:<14} {}\n", about(name)));
        format!("{heading}{title}:{heading:#}\n{}\n", lines.collect::<String>())
    };
    let lists: String = GROUPS.iter().map(list).collect();
    format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{lists}{heading}Options:{heading:#}\n{{options}}{{after-help}}"
    )
}

/// Arguments of `run`. Everything else comes from the recipe and the global flags.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tokenmill run recipe.toml
  tokenmill run recipe.toml --threads 2 --memory 8GB")]
pub(super) struct RunArgs {
    /// The recipe
    #[arg(value_name = "RECIPE.toml")]
    pub(super) recipe: String,
    /// Replace the result of another job in the output folder
    #[arg(long)]
    pub(super) force: bool,
}

/// Arguments of `plan`. There is no `--force`, because nothing is written.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tokenmill plan recipe.toml
  tokenmill plan recipe.toml --nodes 64 --cores 16 --text-bytes 10TB")]
pub(super) struct PlanArgs {
    /// The recipe
    #[arg(value_name = "RECIPE.toml")]
    pub(super) recipe: String,
    /// Where the job is to run.
    #[command(flatten)]
    pub(super) cluster: ClusterFlags,
}

/// For `plan`: machines for which the time of the job is estimated.
#[derive(Args, Debug)]
#[command(next_help_heading = "Several machines")]
pub(super) struct ClusterFlags {
    /// Estimate the time on this many machines, from measured rates
    #[arg(long, value_name = "NUMBER", value_parser = |text: &str| number_up_to(text, 1_000_000))]
    pub(super) nodes: Option<u64>,
    /// Cores of each machine [default: those of this one]
    #[arg(long, value_name = "NUMBER", requires = "nodes", value_parser = |text: &str| number_up_to(text, 10_000))]
    pub(super) cores: Option<u64>,
    /// Take this size for that of all text, which the files may not declare
    #[arg(long, value_name = "SIZE", requires = "nodes")]
    pub(super) text_bytes: Option<ByteCount>,
    /// Take the rates from the report.json in this output folder of an earlier run
    #[arg(long, value_name = "DIR", requires = "nodes")]
    pub(super) rates: Option<PathBuf>,
}

/// Arguments of `train`. They become a recipe without `[encode]`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tokenmill train \"demo:verse?lines=1000\" -o my-tokenizer --vocab-size 1k
  tokenmill train corpus/*.txt -o my-tokenizer --vocab-size 1k --eos \"<end>\"")]
pub(super) struct TrainArgs {
    /// Inputs or counts files; exactly one of the two is required.
    #[command(flatten)]
    pub(super) input: TrainInput,
    /// The folder for the tokenizer
    #[arg(long, short, value_name = "DIR", value_parser = writable)]
    pub(super) output: String,
    /// Push the finished result to this repository of the hub (hf://NAMESPACE/NAME)
    #[arg(long, value_name = "URI", hide_short_help = true)]
    pub(super) push: Option<String>,
    /// Continue from the merges of this tokenizer
    ///
    /// The tokenizer is given by a file, its folder, hf://NAMESPACE/NAME, or a name like gpt2. Training goes on by the
    /// rules that are recorded beside it.
    #[arg(long, value_name = "TOKENIZER")]
    pub(super) extend: Option<String>,
    /// Of the tokenizer that is extended, keep only the first N merges
    ///
    /// Later merges and their tokens are left out, and the ids of the others close up. Text may then be split in another
    /// way, with --split.
    #[arg(long, value_name = "N", value_parser = number, hide_short_help = true)]
    pub(super) keep_merges: Option<u64>,
    /// How the inputs are read, and which of their documents are used. All of these conflict with `--from-counts`.
    #[command(flatten)]
    pub(super) read: ReadFlags,
    /// How the text is divided before counting.
    #[command(flatten)]
    pub(super) pretokens: PretokenFlags,
    /// How merges are chosen and when training ends.
    #[command(flatten)]
    pub(super) train: TrainFlags,
    /// Settings that go only into `tokenizer_config.json`.
    #[command(flatten)]
    pub(super) transformers: TransformersFlags,
    /// What to do instead of the job.
    #[command(flatten)]
    pub(super) instead: InsteadFlags,
}

/// What a command does instead of its job.
#[derive(Args, Debug)]
#[command(next_help_heading = "In place of the job")]
pub(super) struct InsteadFlags {
    /// Check everything and show what would be read and written, without writing anything
    #[arg(long, hide_short_help = true)]
    pub(super) dry_run: bool,
    /// Print the recipe that these flags amount to, and do nothing else
    #[arg(long, conflicts_with = "dry_run", hide_short_help = true)]
    pub(super) print_recipe: bool,
}

/// Arguments of `count`. It needs no training flags: the counts file records the split, the boundary and the special
/// tokens, and a later `train --from-counts` reads them from there.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tokenmill count \"demo:verse?lines=1000\" -o new.parquet
  tokenmill count corpus/*.txt --split o200k -o new.parquet")]
pub(super) struct CountArgs {
    #[command(flatten)]
    pub(super) input: InputFlags,
    /// The file for the counts
    #[arg(long, short, value_name = "FILE.parquet", value_parser = writable)]
    pub(super) output: String,
    /// Keep the order of first appearance, which the tie rule `first` needs
    #[arg(long)]
    pub(super) order: bool,
    /// Count only part I of N about equal parts of the input, such as 3/7
    ///
    /// The parts follow from the list of input files alone, so machines can count one each. `merge-counts` sums them.
    #[arg(long, value_name = "I/N", hide_short_help = true)]
    pub(super) shard: Option<String>,
    /// Check everything and show what would be read and written, without writing anything
    #[arg(long, hide_short_help = true)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) read: ReadFlags,
    #[command(flatten)]
    pub(super) pretokens: PretokenFlags,
}

/// Arguments of `merge-counts`. `weight` is empty, or has one entry for each of `files`, in the same order;
/// `merge_counts` in [`jobs`](super::jobs) checks the lengths.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tokenmill merge-counts counts.parquet more.parquet -o sum.parquet
  tokenmill merge-counts counts.parquet more.parquet --weight 3 --weight 1 \\
      -o sum.parquet")]
pub(super) struct MergeCountsArgs {
    /// Counts files of the same split, boundary and special tokens
    ///
    /// They may be given as files, folders or globs. Another program may have
    /// written them: Parquet with the columns pretoken and count. Then --split
    /// names the split of their pre-tokens.
    #[arg(required = true, value_name = "COUNTS")]
    pub(super) files: Vec<String>,
    /// The file for the sum
    #[arg(long, short, value_name = "FILE.parquet", value_parser = writable)]
    pub(super) output: String,
    /// The factor for the counts of a file; give one for each COUNTS [default: 1]
    #[arg(long, value_name = "DECIMAL")]
    pub(super) weight: Vec<Weight>,
    /// How the text behind the files of another program was divided.
    #[command(flatten)]
    pub(super) pretokens: PretokenFlags,
}

/// Arguments of `merge`. The order of the folders has no meaning.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  tokenmill merge shards/1 shards/2 -o new")]
pub(super) struct MergeArgs {
    /// The folders that `encode --shard` has written, one for each shard
    #[arg(required = true, value_name = "FOLDER")]
    pub(super) folders: Vec<String>,
    /// The folder for the data set
    ///
    /// Its data files are hard links to those of the shards where the file system allows it, and otherwise copies.
    #[arg(long, short, value_name = "DIR", value_parser = writable)]
    pub(super) output: String,
}

// `--weight` is hidden here, because a weight only affects counting and is refused.
/// Arguments of `encode`. They become a recipe without `[train]`.
#[derive(Args, Debug)]
#[command(mut_arg("weight", |flag| flag.hide(true)))]
#[command(override_usage = "tokenmill encode [OPTIONS] -t <TOKENIZER> -o <DIR> <INPUT>...")]
#[command(after_help = "\
Examples:
  tokenmill encode \"demo:verse?lines=1000\" -t my-tokenizer -o new
  tokenmill encode texts.jsonl -t my-tokenizer -o new --eos \"<end>\"
  tokenmill encode corpus/*.txt -t my-tokenizer -o new --pack concat --length 99")]
pub(super) struct EncodeArgs {
    #[command(flatten)]
    pub(super) input: InputFlags,
    /// The tokenizer: a file, its folder, hf://NAMESPACE/NAME, or a name like gpt2
    #[arg(long, short, value_name = "TOKENIZER", long_help = tokenizer_help!("The tokenizer,"))]
    pub(super) tokenizer: String,
    /// What the files of the tokenizer leave open.
    #[command(flatten)]
    pub(super) split: TokenizerSplit,
    /// The folder for the output, or a place in an object store
    ///
    /// A place is s3://BUCKET/PATH, gs://BUCKET/PATH or az://CONTAINER/PATH. The output is written in a local staging
    /// folder, from which each complete file moves on.
    #[arg(long, short, value_name = "DIR", value_parser = writable)]
    pub(super) output: String,
    /// The local folder in which an output for an object store is written [default: one in the user's cache]
    #[arg(long, value_name = "DIR", value_parser = writable, hide_short_help = true)]
    pub(super) staging: Option<String>,
    /// Push the finished result to this repository of the hub (hf://datasets/NAMESPACE/NAME)
    #[arg(long, value_name = "URI", hide_short_help = true)]
    pub(super) push: Option<String>,
    /// Encode only part I of N about equal parts of the input, such as 3/7
    ///
    /// The parts follow from the list of input files alone, so machines can encode one each, into a folder of its own.
    /// `merge` joins the folders.
    #[arg(long, value_name = "I/N", hide_short_help = true)]
    pub(super) shard: Option<String>,
    /// How the inputs are read, and which of their documents are encoded.
    #[command(flatten)]
    pub(super) read: ReadFlags,
    /// How documents become rows of ids, and rows become files.
    #[command(flatten)]
    pub(super) encode: EncodeFlags,
    /// Replace the result of another job in the output folder
    #[arg(long)]
    pub(super) force: bool,
    /// What to do instead of the job.
    #[command(flatten)]
    pub(super) instead: InsteadFlags,
}

// The flags about reading apply only to the input of `--verify`. They require it, since they would have no effect
// without.
/// Arguments of `decode`. `files` are read one after another, in this order, as one sequence of rows.
#[derive(Args, Debug)]
#[command(
    mut_group("SourceFlags", |flags| flags.requires("verify")),
    mut_group("SampleFlags", |flags| flags.requires("verify")),
    mut_arg("weight", |flag| flag.hide(true))
)]
#[command(after_help = "\
Examples:
  tokenmill decode tokens -t my-tokenizer
  tokenmill decode tokens -t my-tokenizer --verify \"demo:verse?lines=1000\"")]
pub(super) struct DecodeArgs {
    /// Files of token ids, or an output folder
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<String>,
    #[command(flatten)]
    pub(super) tokenizer: TokenizerFlags,
    /// Which split of an output folder [default: the only one]
    #[arg(long, value_name = "NAME")]
    pub(super) split_name: Option<String>,
    /// Compare with the documents of this input instead of printing the texts; give it once for each input
    #[arg(long, value_name = "INPUT")]
    pub(super) verify: Vec<String>,
    /// How the input of `--verify` is read, and which of its documents were encoded. It must be the same as for
    /// encoding.
    #[command(flatten)]
    pub(super) read: ReadFlags,
}

/// Arguments of `tokens`. The forms of the result exclude each other; `--json` can be combined with all but `ids`,
/// which it also shows.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tokenmill tokens -t my-tokenizer \"How is this cut?\"
  tokenmill tokens -t my-tokenizer --file corpus/a.txt --with-ids
  tokenmill tokens -t my-tokenizer --steps \"the merges\"
  tokenmill tokens -t my-tokenizer --decode \"72 105\"
  tokenmill tokens -t hf://openai-community/gpt2 \"How is this cut?\"")]
pub(super) struct TokensArgs {
    #[command(flatten)]
    pub(super) tokenizer: TokenizerFlags,
    /// The text [default: that of standard input]
    #[arg(value_name = "TEXT", conflicts_with_all = ["file", "decode"])]
    pub(super) text: Option<String>,
    /// Read the text from a file, or from standard input with -
    #[arg(long, value_name = "FILE", conflicts_with = "decode")]
    pub(super) file: Option<String>,
    /// Show the ids of the tokens instead of their text
    #[arg(long, conflicts_with_all = ["with_ids", "steps", "decode", "separator"])]
    pub(super) ids: bool,
    /// Show the id of each token below it
    #[arg(long, conflicts_with_all = ["steps", "decode"])]
    pub(super) with_ids: bool,
    /// Show the bytes of a short text, and its tokens after each merge
    ///
    /// The pre-tokens are shown one after another. Their first line has the bytes, each further line one merge more, and
    /// the last line the tokens.
    #[arg(long, conflicts_with = "decode")]
    pub(super) steps: bool,
    /// Print the text of these ids, such as '12 7 99', or of those on standard input with -
    #[arg(long, value_name = "IDS", allow_hyphen_values = true)]
    pub(super) decode: Option<String>,
    /// The text between two tokens, such as 🍔 [default: | without colours]
    #[arg(long, value_name = "TEXT", conflicts_with = "decode")]
    pub(super) separator: Option<String>,
    /// Write a page that shows the tokens
    ///
    /// With --json, the tokens are also printed.
    #[arg(long, value_name = "FILE.html", value_parser = writable, conflicts_with_all = ["ids", "with_ids", "steps", "decode"])]
    pub(super) html: Option<String>,
    /// What to do with text that looks like a special token [default: text]
    ///
    /// `text` encodes it as other text, `allow` as the special token, and `forbid` is an error.
    #[arg(long, value_name = "POLICY", value_parser = choice::<SpecialPolicy>())]
    pub(super) special: Option<SpecialPolicy>,
    /// How to treat a byte that has no token [default: error]
    #[arg(long, value_name = "POLICY", value_parser = choice::<MissingBytes>(), hide_short_help = true)]
    pub(super) missing_bytes: Option<MissingBytes>,
}

/// Arguments of `inspect`. The command finds the kind of `path` by looking at it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tokenmill inspect my-tokenizer --merges 50
  tokenmill inspect tokens
  tokenmill inspect counts.parquet")]
pub(super) struct InspectArgs {
    /// A tokenizer, the output folder of `run` or `encode`, or a counts file
    ///
    /// A tokenizer is given by a file, its folder, hf://NAMESPACE/NAME, or a name like gpt2.
    #[arg(value_name = "PATH")]
    pub(super) path: String,
    #[command(flatten)]
    pub(super) split: TokenizerSplit,
    /// Number of merges to show [default: 20, or all with --json]
    #[arg(long, value_name = "N", value_parser = number)]
    pub(super) merges: Option<u64>,
    /// List the tokens that stay whole in less than this share of their uses [default: 0.01]
    ///
    /// The other uses are those as parts of longer tokens. The counts are those of the training, which training.json
    /// beside the tokenizer records, unless --text gives another text.
    #[arg(long, value_name = "SHARE", value_parser = share, hide_short_help = true)]
    pub(super) residue: Option<f64>,
    /// Count the uses of tokens in the content of this file, which is one document in memory
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(super) text: Option<String>,
}

/// Arguments of `convert`. `transformers` has an effect only if `to` is `hf`; other formats have no place for these
/// settings, and the command says so.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tokenmill convert my-tokenizer --to tiktoken -o new
  tokenmill convert my-tokenizer --to hf -o new --add-special-token \"<user>\"
  tokenmill convert my-tokenizer --to hf -o new --vocab-size 300 --ids dense")]
pub(super) struct ConvertArgs {
    #[command(flatten)]
    pub(super) tokenizer: TokenizerArgument,
    /// The format to write
    #[arg(long, value_name = "FORMAT", value_parser = choice::<vocab::Format>())]
    pub(super) to: vocab::Format,
    /// The folder for the files
    #[arg(long, short, value_name = "DIR", value_parser = writable)]
    pub(super) output: String,
    /// A special token to add, with the next id after the highest; may be given several times
    #[arg(long, value_name = "TOKEN", hide_short_help = true)]
    pub(super) add_special_token: Vec<String>,
    /// Shorten the vocabulary to this number of tokens, with special ones; those that merges make last go
    #[arg(long, value_name = "N", value_parser = number)]
    pub(super) vocab_size: Option<u64>,
    /// Remove the tokens that a file lists, and all that are made of them
    ///
    /// Each line has one token: its id, its text, or its text as a JSON string in quotation marks. A text of digits,
    /// or one that begins with a quotation mark, must be a JSON string. Every merge that makes or uses one of the
    /// tokens is removed, and so is every token that no merge makes then.
    #[arg(long, value_name = "FILE")]
    pub(super) drop_tokens: Option<String>,
    /// Whether the remaining tokens keep their ids, or get dense ids from 0 on, without holes
    #[arg(long, value_name = "IDS", default_value_t, value_enum)]
    pub(super) ids: RemainingIds,
    #[command(flatten)]
    pub(super) transformers: TransformersFlags,
}

/// The ids of the tokens that remain when `convert` removes others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum RemainingIds {
    /// As they were. The ids of removed tokens are holes.
    #[default]
    Keep,
    /// From 0 on without holes, in the same order.
    Dense,
}

/// Arguments of `verify`. Only complete outputs, which have a manifest, can be checked.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  tokenmill verify tokens")]
pub(super) struct VerifyArgs {
    /// The output folder
    #[arg(value_name = "DIR")]
    pub(super) dir: String,
}

/// Arguments of `push`. The token comes from the environment, as everywhere.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tokenmill push my-tokenizer hf://me/my-tokenizer
  tokenmill push tokens hf://datasets/me/tokens --private --dry-run")]
pub(super) struct PushArgs {
    /// The output folder of `run` or `encode`, or the folder of a tokenizer
    #[arg(value_name = "DIR")]
    pub(super) dir: String,
    /// The repository: hf://datasets/NAMESPACE/NAME, or hf://NAMESPACE/NAME for a model
    ///
    /// The repository is hf://datasets/NAMESPACE/NAME for a dataset, and hf://models/NAMESPACE/NAME or
    /// hf://NAMESPACE/NAME for a model. @BRANCH after it names another branch than main. The repository is created if
    /// it does not exist; a branch is not. HF_TOKEN must be set to a token that may write, or be stored by the hub's
    /// own program.
    #[arg(value_name = "URI")]
    pub(super) target: String,
    /// Make the repository private if it is created
    #[arg(long)]
    pub(super) private: bool,
    /// Show what would be sent, without sending anything
    #[arg(long)]
    pub(super) dry_run: bool,
    /// The message of the commit
    #[arg(long, short, value_name = "TEXT")]
    pub(super) message: Option<String>,
}

/// Arguments of `verify-merges`. The split and the special tokens come from the tokenizer and the flags for reading
/// it; `rules` replaces what the record of its training says.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  tokenmill verify-merges my-tokenizer --on \"demo:verse?lines=1000\"")]
pub(super) struct VerifyMergesArgs {
    #[command(flatten)]
    pub(super) tokenizer: TokenizerArgument,
    /// The data that the tokenizer was trained on: files, folders, globs, or addresses
    #[arg(long, required = true, value_name = "INPUT", num_args = 1.., long_help = inputs_help!("The data that the tokenizer was trained on"))]
    pub(super) on: Vec<String>,
    #[command(flatten)]
    pub(super) read: ReadFlags,
    #[command(flatten)]
    pub(super) rules: MergeFlags,
}

/// Arguments of `compare`. `split` applies to all `tokenizers` without a recorded split.
#[derive(Args, Debug)]
#[command(mut_arg("weight", |flag| flag.hide(true)))]
#[command(after_help = "\
Examples:
  tokenmill compare my-tokenizer other-tokenizer --on corpus/*.txt
  tokenmill compare my-tokenizer other-tokenizer --on \"demo:verse?lines=1000\" \\
      --html new.html")]
pub(super) struct CompareArgs {
    /// The tokenizers: files, their folders, hf://NAMESPACE/NAME, or names like gpt2
    #[arg(required = true, value_name = "TOKENIZER", long_help = tokenizer_help!("The tokenizers, each"))]
    pub(super) tokenizers: Vec<String>,
    #[command(flatten)]
    pub(super) split: TokenizerSplit,
    /// The text to compare them on: files, folders, globs, or addresses
    #[arg(long, required = true, value_name = "INPUT", num_args = 1.., long_help = inputs_help!("The text to compare the tokenizers on"))]
    pub(super) on: Vec<String>,
    /// Measure the number of tokens against this tokenizer; it is compared, too, if it is not among the others
    #[arg(long, value_name = "TOKENIZER")]
    pub(super) baseline: Option<String>,
    /// The inputs are the same texts in several languages; this column has the id of a text
    ///
    /// Each input must have each id once. The numbers of tokens are then
    /// measured against those of --base.
    #[arg(long, value_name = "COLUMN")]
    pub(super) parallel: Option<String>,
    /// The input that parallel texts are measured against [default: the first]
    #[arg(long, value_name = "INPUT", requires = "parallel")]
    pub(super) base: Option<String>,
    /// Also write the comparison as a page with charts
    #[arg(long, value_name = "FILE.html", value_parser = writable)]
    pub(super) html: Option<String>,
    /// Also write the figures as CSV, a line for each part of the text and each tokenizer
    #[arg(long, value_name = "FILE.csv", value_parser = writable)]
    pub(super) csv: Option<String>,
    /// Also write the comparison as Markdown, with tables
    #[arg(long, value_name = "FILE.md", value_parser = writable)]
    pub(super) markdown: Option<String>,
    /// How to treat a document with a byte that has no token [default: error]
    #[arg(long, value_name = "POLICY", value_parser = choice::<MissingBytes>(), hide_short_help = true)]
    pub(super) missing_bytes: Option<MissingBytes>,
    #[command(flatten)]
    pub(super) read: ReadFlags,
}

/// Arguments of `explore`. `split` applies to all `tokenizers` without a recorded split.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tokenmill explore my-tokenizer -o new.html
  tokenmill explore my-tokenizer other-tokenizer -o new.html")]
pub(super) struct ExploreArgs {
    /// One to four tokenizers: files, their folders, hf://NAMESPACE/NAME, or names like gpt2
    #[arg(required = true, value_name = "TOKENIZER", long_help = tokenizer_help!("One to four tokenizers, each"))]
    pub(super) tokenizers: Vec<String>,
    #[command(flatten)]
    pub(super) split: TokenizerSplit,
    /// The page
    #[arg(long, short, value_name = "FILE.html", value_parser = writable)]
    pub(super) output: String,
}

/// Arguments of `bench`. All the text that these flags select is held in memory at the same time.
#[derive(Args, Debug)]
#[command(mut_arg("weight", |flag| flag.hide(true)))]
#[command(after_help = "\
Example:
  tokenmill bench \"demo:verse?lines=1000\" -t my-tokenizer")]
pub(super) struct BenchArgs {
    #[command(flatten)]
    pub(super) input: InputFlags,
    #[command(flatten)]
    pub(super) tokenizer: TokenizerFlags,
    /// How to treat a document with a byte that has no token [default: error]
    #[arg(long, value_name = "POLICY", value_parser = choice::<MissingBytes>(), hide_short_help = true)]
    pub(super) missing_bytes: Option<MissingBytes>,
    #[command(flatten)]
    pub(super) read: ReadFlags,
}

/// The flag `--tokenizer`, for commands with inputs or files as positional arguments.
#[derive(Args, Debug)]
pub(super) struct TokenizerFlags {
    /// The tokenizer: a file, its folder, hf://NAMESPACE/NAME, or a name like gpt2
    #[arg(long, short, value_name = "TOKENIZER", long_help = tokenizer_help!("The tokenizer,"))]
    pub(super) tokenizer: String,
    /// What the files of the tokenizer leave open.
    #[command(flatten)]
    pub(super) split: TokenizerSplit,
}

/// A tokenizer that is a positional argument, for commands about the tokenizer itself.
#[derive(Args, Debug)]
pub(super) struct TokenizerArgument {
    /// The tokenizer: a file, its folder, hf://NAMESPACE/NAME, or a name like gpt2
    #[arg(value_name = "TOKENIZER", long_help = tokenizer_help!("The tokenizer,"))]
    pub(super) tokenizer: String,
    /// What the files of the tokenizer leave open.
    #[command(flatten)]
    pub(super) split: TokenizerSplit,
}

/// What the files of a tokenizer may lack: the split and the special tokens. GPT-2's `vocab.json` and `merges.txt`,
/// for example, say neither. clap refuses `--split` together with `--split-regex`.
#[derive(Args, Debug)]
pub(super) struct TokenizerSplit {
    /// How the tokenizer splits text, if its files do not say it
    #[arg(long, value_name = "PATTERN", value_parser = choice::<SplitPattern>(), conflicts_with = "split_regex", hide_short_help = true)]
    split: Option<SplitPattern>,
    /// A regular expression by which the tokenizer splits text, if its files do not say it
    #[arg(long, value_name = "REGEX", hide_short_help = true)]
    split_regex: Option<String>,
    /// A special token of the tokenizer, if its files do not list it; without an id it gets the next one after the
    /// highest. May be given several times
    #[arg(long, value_name = "TEXT[=ID]", hide_short_help = true)]
    special_token: Vec<SpecialToken>,
}

impl TokenizerSplit {
    /// Returns the options for reading a tokenizer's files. The format is `None`, so it is recognised from the files.
    /// A split that is `None` here is taken from the files.
    pub(super) fn options(&self) -> LoadOptions {
        let regex = self.split_regex.as_deref().map(SplitPattern::from_regex);
        let special_tokens = self.special_token.clone();
        LoadOptions { format: None, split: regex.or(self.split.clone()), special_tokens }
    }
}

/// Inputs as positional arguments. Their order is the order of the sources, and so that of documents and weights.
#[derive(Args, Debug)]
pub(super) struct InputFlags {
    /// Files, folders, globs, hf://…, https://…, demo:verse, or -
    #[arg(required = true, value_name = "INPUT", long_help = inputs_help!("The input"))]
    pub(super) inputs: Vec<String>,
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

/// What `train` learns from: inputs to count, or counts files. Exactly one of the two lists is not empty.
#[derive(Args, Debug)]
pub(super) struct TrainInput {
    /// Files, folders, globs, hf://…, https://…, demo:verse, or -
    #[arg(required_unless_present = "from_counts", value_name = "INPUT", long_help = inputs_help!("The input"))]
    pub(super) inputs: Vec<String>,
    /// Learn from counts, instead of from an input; a weight may follow each
    ///
    /// They are files that `count` wrote, or folders or globs of them. Another
    /// program may have written them: Parquet with the columns pretoken and
    /// count. Then --split names the split of their pre-tokens.
    #[arg(
        long,
        value_name = "COUNTS[=DECIMAL]",
        num_args = 1..,
        conflicts_with_all = NOT_OF_COUNTS, hide_short_help = true)]
    pub(super) from_counts: Vec<CountsArgument>,
}

/// A counts file with its weight in a mixture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CountsArgument {
    /// The path without the weight. It may contain `=` before something other than a number.
    pub(super) path: String,
    /// [`Weight::ONE`] if the argument has none.
    pub(super) weight: Weight,
}

impl FromStr for CountsArgument {
    type Err = <Weight as FromStr>::Err;

    /// Reads `PATH` or `PATH=WEIGHT`. The part after the last `=` is the weight if it looks like a number.
    ///
    /// # Errors
    /// The part after the last `=` has only digits and points, or is empty, but is not a [`Weight`].
    fn from_str(text: &str) -> Result<CountsArgument, Self::Err> {
        let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let (path, weight) = match text.rsplit_once('=') {
            Some((path, weight)) if number(weight) => (path, weight.parse()?),
            _ => (text, Weight::ONE),
        };
        Ok(CountsArgument { path: path.to_owned(), weight })
    }
}

/// The flags of all commands that read documents.
#[derive(Args, Debug)]
pub(super) struct ReadFlags {
    /// How inputs are read.
    #[command(flatten)]
    pub(super) source: SourceFlags,
    /// Which documents are used.
    #[command(flatten)]
    pub(super) sample: SampleFlags,
}

/// How inputs are read; the keys of `[source]`. One set of flags applies to all inputs of a command. Only `weight`
/// has an entry for each input, so sources that differ otherwise need a recipe.
#[derive(Args, Debug)]
#[command(next_help_heading = "Source")]
pub(super) struct SourceFlags {
    /// The column or field with the text [default: text]
    ///
    /// A field of a struct is named a.b, the items of a list a[] or a[].b.
    #[arg(long, value_name = "NAME")]
    pub(super) column: Option<String>,
    /// Build the text from several columns, such as "{title}: {text}"
    #[arg(long, value_name = "TEXT", conflicts_with = "column", hide_short_help = true)]
    pub(super) template: Option<String>,
    /// The text between the items of a list [default: the end of a line]
    #[arg(long, value_name = "TEXT", hide_short_help = true)]
    pub(super) join: Option<String>,
    /// The files' format [default: by extension]
    #[arg(long, value_name = "FORMAT", value_parser = choice::<source::Format>(), hide_short_help = true)]
    pub(super) format: Option<source::Format>,
    /// What a document of plain text is [default: file]
    #[arg(long, value_name = "RULE", value_parser = choice::<DocumentRule>(), conflicts_with = "separator")]
    pub(super) documents: Option<DocumentRule>,
    /// The text that separates the documents of plain text
    #[arg(long, value_name = "TEXT", hide_short_help = true)]
    pub(super) separator: Option<String>,
    /// The factor for the counts of an input; give one for each INPUT [default: 1]
    #[arg(long, value_name = "DECIMAL", hide_short_help = true)]
    pub(super) weight: Vec<Weight>,
    /// Read remote files without keeping them
    #[arg(long, hide_short_help = true)]
    pub(super) stream: bool,
    /// What to do with a row or file that cannot be read [default: fail]
    #[arg(long, value_name = "POLICY", value_parser = choice::<OnBadInput>(), hide_short_help = true)]
    pub(super) on_bad_input: Option<OnBadInput>,
}

/// Which documents are used; the keys of `[sample]`. They apply to all inputs together, in the order of the fields.
/// `seed` has an effect only with `shuffle_buffer`.
#[derive(Args, Debug)]
#[command(next_help_heading = "Sample")]
pub(super) struct SampleFlags {
    /// Keep the first of every N documents
    #[arg(long, value_name = "N", value_parser = number, hide_short_help = true)]
    pub(super) every: Option<u64>,
    /// Shuffle through a buffer of N documents
    #[arg(long, value_name = "N", value_parser = number, hide_short_help = true)]
    pub(super) shuffle_buffer: Option<u64>,
    /// Seed of the shuffle [default: 0]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub(super) seed: Option<u64>,
    /// Skip the first N documents
    #[arg(long, value_name = "N", value_parser = number, hide_short_help = true)]
    pub(super) skip: Option<u64>,
    /// Take at most N documents
    #[arg(long, value_name = "N", value_parser = number, hide_short_help = true)]
    pub(super) take: Option<u64>,
    /// Take at most this much text, such as 2GB
    #[arg(long, value_name = "BYTES", hide_short_help = true)]
    pub(super) max_bytes: Option<ByteCount>,
}

/// How text is divided into pre-tokens; the first keys of `[train]`. Counts files can be merged only if these agree.
#[derive(Args, Debug)]
#[command(next_help_heading = "Pre-tokens")]
pub(super) struct PretokenFlags {
    /// How text is split into pre-tokens [default: gpt4]
    ///
    /// The table shows the pre-tokens of four texts, with spaces between
    /// them; in a text, · is a space and ⏎ a line break. llama3 is another
    /// name of gpt4, and gpt4-digit of qwen2. cl100k, the present pattern of
    /// tiktoken, differs from gpt4 only in white space at the end of a text.
    ///
    ///   split             a·12345          It's·DON'T      a.⏎⏎b       a⏎·
    ///   none              a·12345          It's·DON'T      a.⏎⏎b       a⏎·
    ///   gpt2              a ·12345         It 's ·DON ' T  a . ⏎ ⏎ b   a ⏎·
    ///   gpt4              a · 123 45       It 's ·DON 'T   a .⏎⏎ b     a ⏎ ·
    ///   cl100k            a · 123 45       It 's ·DON 'T   a .⏎⏎ b     a ⏎·
    ///   o200k             a · 123 45       It's ·DON'T     a .⏎⏎ b     a ⏎ ·
    ///   nanochat          a · 12 34 5      It 's ·DON 'T   a .⏎⏎ b     a ⏎ ·
    ///   qwen2             a · 1 2 3 4 5    It 's ·DON 'T   a .⏎⏎ b     a ⏎ ·
    ///   deepseek-v3       a · 123 45       It 's ·DON 'T   a .⏎⏎ b     a ⏎ ·
    ///   gpt4-digits-rtl   a · 12 345       It 's ·DON 'T   a .⏎⏎ b     a ⏎ ·
    ///   o200k-digits-rtl  a · 12 345       It's ·DON'T     a .⏎⏎ b     a ⏎ ·
    ///   o200k-digit       a · 1 2 3 4 5    It's ·DON'T     a .⏎⏎ b     a ⏎ ·
    ///   superword         a· 123 45        It's·DON'T      a.⏎⏎b       a⏎ ·
    #[arg(
        long,
        value_name = "PATTERN",
        value_parser = choice::<SplitPattern>(),
        conflicts_with = "split_regex",
        verbatim_doc_comment
    )]
    pub(super) split: Option<SplitPattern>,
    /// A regular expression that matches the pre-tokens
    #[arg(long, value_name = "REGEX", hide_short_help = true)]
    pub(super) split_regex: Option<String>,
    /// Whether tokens end with each document, or may continue into the next (join) [default: document]
    #[arg(long, value_name = "BOUNDARY", value_parser = choice::<Boundary>(), hide_short_help = true)]
    pub(super) boundary: Option<Boundary>,
    /// A special token to cut out; may be repeated
    #[arg(long, value_name = "TOKEN")]
    pub(super) special_token: Vec<String>,
}

/// How merges are learned; the other keys of `[train]`. The plan checks how the flags fit together, for example that
/// only one of `vocab_size` and `merges` is given.
#[derive(Args, Debug)]
#[command(next_help_heading = "Training")]
pub(super) struct TrainFlags {
    /// Number of tokens, such as 32k; several as 8k,32k
    ///
    /// The tokens are 256 bytes, one for each merge, and the special tokens. Several numbers, separated by commas, give
    /// a tokenizer of each size from one training, the smaller ones in folders vocab-N.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = size)]
    pub(super) vocab_size: Option<Vec<u64>>,
    /// Number of merges to learn, instead of --vocab-size
    #[arg(long, value_name = "N", value_parser = number, hide_short_help = true)]
    pub(super) merges: Option<u64>,
    /// Least count of a pair that is merged [default: 2]
    #[arg(long, value_name = "N", value_parser = number)]
    pub(super) min_frequency: Option<u64>,
    /// Greatest length of a token that a merge makes, in bytes
    #[arg(long, value_name = "N", value_parser = number, hide_short_help = true)]
    pub(super) max_token_bytes: Option<u64>,
    /// Greatest number of words of a token [default: 4 for the split superword, else none]
    ///
    /// Words are the parts between spaces. With this limit, no token has a colon followed by a space either.
    #[arg(long, value_name = "N", value_parser = number, hide_short_help = true)]
    pub(super) max_words: Option<u64>,
    /// A stage of training, as SPLIT:VOCAB_SIZE or SPLIT:VOCAB_SIZE:MAX_WORDS; may be repeated
    ///
    /// Each stage continues from the merges of the one before it, with another split. Two stages like
    /// --stage gpt4:100000 --stage superword:200000:4 learn tokens of several words, as SuperBPE does. They take the
    /// place of --split and --vocab-size.
    #[arg(long, value_name = "STAGE", hide_short_help = true)]
    pub(super) stage: Vec<StageKeys>,
    /// Which of several pairs with equal scores is merged first [default: ids]
    #[arg(long, value_name = "RULE", value_parser = choice::<TieBreak>(), hide_short_help = true)]
    pub(super) tie_break: Option<TieBreak>,
    /// The score that ranks pairs: count, count-length, or conditional:p,q,r [default: count]
    #[arg(long, value_name = "SCORE", hide_short_help = true)]
    pub(super) score: Option<Score>,
    /// Balance the inputs: each merge is the best one of the input with the most tokens
    #[arg(long, hide_short_help = true)]
    pub(super) parity: bool,
    /// A text whose tokens are balanced, in place of an input; repeated for each input, in the same order
    #[arg(long, value_name = "FILE", requires = "parity", hide_short_help = true)]
    pub(super) development: Vec<String>,
    /// Compress inputs in these proportions instead, separated by commas
    #[arg(long, value_name = "RATIOS", requires = "parity", value_delimiter = ',', hide_short_help = true)]
    pub(super) ratio: Option<Vec<Weight>>,
    /// Limit how often an input is chosen within N merges
    #[arg(long, value_name = "N", requires = "parity", value_parser = number, hide_short_help = true)]
    pub(super) window: Option<u64>,
    /// How many times its even share of the window an input may have [default: 2]
    #[arg(long, value_name = "X", requires = "parity", hide_short_help = true)]
    pub(super) alpha: Option<Weight>,
    /// Number of merges that are first learned from all inputs together [default: 0]
    #[arg(long, value_name = "N", requires = "parity", value_parser = number, hide_short_help = true)]
    pub(super) global_merges: Option<u64>,
    /// Whether special tokens have the first or the last ids [default: end]
    #[arg(long, value_name = "PLACE", value_parser = choice::<SpecialTokensAt>(), hide_short_help = true)]
    pub(super) special_tokens_at: Option<SpecialTokensAt>,
    /// Record the number of tokens left every N merges [default: a 200th of the merges]
    #[arg(long, value_name = "N", value_parser = number, hide_short_help = true)]
    pub(super) history_every: Option<u64>,
    /// Formats to write, separated by commas [default: hf]
    #[arg(long, value_name = "FORMATS", value_delimiter = ',', value_parser = choice::<vocab::Format>())]
    pub(super) formats: Option<Vec<vocab::Format>>,
}

/// The contents of `tokenizer_config.json`. A token that the vocabulary lacks is added as a special token. Where a
/// flag is missing, `convert` keeps the setting that it finds beside the tokenizer.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "For transformers (tokenizer_config.json)")]
pub(super) struct TransformersFlags {
    /// The special token that begins a document, added if missing (bos_token)
    #[arg(long, value_name = "TOKEN", hide_short_help = true)]
    pub(super) bos: Option<String>,
    /// The special token that ends a document, added if missing (eos_token)
    #[arg(long, value_name = "TOKEN", hide_short_help = true)]
    pub(super) eos: Option<String>,
    /// The special token that fills the shorter texts of a batch (pad_token)
    #[arg(long, value_name = "TOKEN", hide_short_help = true)]
    pub(super) pad: Option<String>,
    /// The special token for text that has no token (unk_token)
    #[arg(long, value_name = "TOKEN", hide_short_help = true)]
    pub(super) unk: Option<String>,
    /// The special token that replaces a token to be predicted (mask_token)
    #[arg(long, value_name = "TOKEN", hide_short_help = true)]
    pub(super) mask: Option<String>,
    /// The maximum number of tokens that the model accepts (model_max_length)
    #[arg(long, value_name = "N", value_parser = |text: &str| number_up_to(text, TransformersConfig::MAX_LENGTH), hide_short_help = true)]
    pub(super) model_max_length: Option<u64>,
    /// A file with the Jinja template that turns a conversation into one text (chat_template)
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(super) chat_template: Option<String>,
}

/// The rules under which a list of merges was learned. For a flag that is missing, `training.json` beside the list
/// decides, and without this file the default that the help names.
#[derive(Args, Debug)]
#[command(next_help_heading = "Training")]
pub(super) struct MergeFlags {
    /// Whether tokens ended with each document [default: as recorded, or document]
    #[arg(long, value_name = "BOUNDARY", value_parser = choice::<Boundary>(), hide_short_help = true)]
    pub(super) boundary: Option<Boundary>,
    /// The score that ranked pairs [default: as recorded, or count]
    #[arg(long, value_name = "SCORE", hide_short_help = true)]
    pub(super) score: Option<Score>,
    /// Least count of a pair that was merged [default: as recorded, or 1]
    #[arg(long, value_name = "N", value_parser = number, hide_short_help = true)]
    pub(super) min_frequency: Option<u64>,
    /// Greatest length of a token, in bytes [default: as recorded, or none]
    #[arg(long, value_name = "N", value_parser = number, hide_short_help = true)]
    pub(super) max_token_bytes: Option<u64>,
    /// The stage to check, of a tokenizer extended by `train --extend`: each stage was learned from its own text
    /// [default: the last one recorded]
    #[arg(long, value_name = "N", conflicts_with = "skip_merges")]
    pub(super) stage: Option<u64>,
    /// Apply the first N merges without a check, and check the others
    #[arg(long, value_name = "N", value_parser = number)]
    pub(super) skip_merges: Option<u64>,
}

/// The rule that `--pack` names; `None` is the word `none`. The alias hides the inner `Option` from clap. For clap,
/// an `Option` of an `Option` is a flag with an optional value.
type ChosenRule = Option<PackRule>;

/// How documents are encoded and stored; the keys of `[encode]` and some of `[output]`. The plan checks combinations,
/// for example that packing has a length.
#[derive(Args, Debug)]
#[command(next_help_heading = "Encoding")]
pub(super) struct EncodeFlags {
    /// Columns to pass through, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(super) columns: Vec<String>,
    /// How to encode text that looks like a special token [default: text]
    #[arg(long, value_name = "POLICY", value_parser = choice::<SpecialPolicy>(), hide_short_help = true)]
    pub(super) special: Option<SpecialPolicy>,
    /// How to treat a document with a byte that has no token [default: error]
    #[arg(long, value_name = "POLICY", value_parser = choice::<MissingBytes>(), hide_short_help = true)]
    pub(super) missing_bytes: Option<MissingBytes>,
    /// Leave out each merge with this probability (BPE-dropout), for example 0.1 [default: 0]
    #[arg(long, value_name = "PROBABILITY", hide_short_help = true)]
    pub(super) dropout: Option<Probability>,
    /// Seed of the dropout; another one cuts the same documents differently [default: 0]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub(super) dropout_seed: Option<u64>,
    /// The special token put before every document
    #[arg(long, value_name = "TOKEN", hide_short_help = true)]
    pub(super) bos: Option<String>,
    /// The special token put after every document
    #[arg(long, value_name = "TOKEN")]
    pub(super) eos: Option<String>,
    /// How documents are packed into rows of --length ids [default: none]
    #[arg(long, value_name = "RULE", value_parser = choice::<Option<PackRule>>())]
    pub(super) pack: Option<ChosenRule>,
    /// Number of ids in a packed row
    #[arg(long, value_name = "N", value_parser = number)]
    pub(super) length: Option<u64>,
    /// How the ids are compressed [default: default]
    #[arg(long, value_name = "NAME", value_parser = choice::<Compression>(), hide_short_help = true)]
    pub(super) compression: Option<Compression>,
    /// The kind of files that ids are written to [default: parquet]
    #[arg(long, value_name = "FORMAT", value_parser = choice::<OutputFormat>(), hide_short_help = true)]
    pub(super) output_format: Option<OutputFormat>,
    /// The split's name, with which the names of its files begin [default: train]
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub(super) split_name: Option<String>,
    /// Approximate amount of text in a file [default: 1GB]
    #[arg(long, value_name = "BYTES", hide_short_help = true)]
    pub(super) file_text_bytes: Option<ByteCount>,
    /// Write one file named after the split alone, such as train.bin; for bin and megatron
    #[arg(long, hide_short_help = true)]
    pub(super) one_file: bool,
}

/// Returns a parser for one of a fixed set of names, which the help lists.
///
/// The names are those that recipes use, so a word is valid in both places or in neither. clap refuses any other word
/// before the parser runs, which is why the second step cannot fail.
fn choice<T: Choice + Send + Sync>() -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(names::<T>())
        .map(|name| named(&name).expect("only the names themselves get here"))
}

/// Checks a path to write to. `-` is refused, because output files are renamed when complete, which is impossible
/// with a pipe.
///
/// # Errors
/// The path is empty or `-`. The message goes into clap's own, which names the flag. Whether the path can really be
/// written is checked later, before work starts.
fn writable(path: &str) -> Result<String, &'static str> {
    match path {
        "" => Err("it is empty; write a path"),
        "-" => Err("the output is files, not text for standard output; write a path, such as `./-`"),
        path => Ok(path.to_owned()),
    }
}

/// Reads a count, such as `32k`.
///
/// # Errors
/// [`parse_count`] does not read the text.
fn number(text: &str) -> Result<u64, &'static str> {
    parse_count(text).ok_or("write a whole number like 32000, 32_000, 32k (k = 1000) or 2M (M = 1000000)")
}

/// Reads a share from 0 to 1.
///
/// # Errors
/// The text is not a number in this range.
fn share(text: &str) -> Result<f64, &'static str> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or("write a number from 0 to 1, for example 0.05")
}

/// Reads a count from 1 to `most`.
///
/// # Errors
/// Those of [`number`], or the number is not in the range.
fn number_up_to(text: &str, most: u64) -> Result<u64, String> {
    match number(text)? {
        number if (1..=most).contains(&number) => Ok(number),
        _ => Err(format!("it is not in the range from 1 to {most}")),
    }
}

/// Reads one of several counts that commas separate.
///
/// # Errors
/// Those of [`number`], or the number begins with 0, as the end of `32,000` does.
fn size(text: &str) -> Result<u64, &'static str> {
    if text.len() > 1 && text.starts_with('0') {
        return Err("a comma separates two sizes; write 32000, 32_000 or 32k for one");
    }
    number(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number must be in its range. A size does not begin with 0.
    #[test]
    fn numbers_out_of_range_are_refused() {
        assert_eq!(number_up_to("1k", 1_000), Ok(1_000));
        assert!(number_up_to("1001", 1_000).is_err() && number_up_to("0", 1_000).is_err());
        assert!(size("000").is_err() && size("0") == Ok(0) && size("32k") == Ok(32_000));
    }
}
