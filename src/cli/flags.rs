//! Turns flags into a [`Recipe`], as if it had been read from a file.
//!
//! These functions only move values. They check nothing that a recipe file could get wrong too: planning does that
//! for both, so that the same mistake has the same message. Every value is marked as [given by a flag](Given::flag),
//! so that messages say `--vocab-size` instead of a line of a file. A flag that is missing leaves its key unset.

use tokenmill::base::int::{Count, to_u64, with_unit};
use tokenmill::run::Recipe;
use tokenmill::run::recipe::{
    Command, CountsKeys, EncodeKeys, Field, Given, Mistake, Origin, OutputKeys, SampleKeys, SourceKeys,
    TrainKeys,
};
use tokenmill::source::DocumentRule;
use tokenmill::split::SplitPattern;
use tokenmill::vocab::LoadOptions;

use super::args::{
    CountArgs, CountsArgument, EncodeArgs, EncodeFlags, PretokenFlags, ReadFlags, SampleFlags, TrainArgs,
    TrainFlags, TransformersFlags, VerifyMergesArgs,
};

/// Returns the recipe of `train`. `counts` is filled in place of sources if `--from-counts` is given. `extend` is
/// still a name; the caller finds its path.
pub(super) fn train(args: &TrainArgs) -> Recipe {
    let mut recipe = reading(Command::Train, &args.input.inputs, &args.read);
    let counts = |file: &CountsArgument| CountsKeys { path: file.path.clone(), weight: file.weight };
    recipe.counts = args.input.from_counts.iter().map(counts).collect();
    recipe.extend = args.extend.clone();
    let keys = trained(&args.train, pretokens(&args.pretokens));
    recipe.train = Some(for_transformers(&args.transformers, keys));
    recipe.output.dir = Some(Given::flag(args.output.clone()));
    recipe
}

/// Returns the recipe of `count`. It has no output folder: the counts file is named apart from the recipe.
pub(super) fn count(args: &CountArgs) -> Recipe {
    let mut recipe = reading(Command::Count, &args.input.inputs, &args.read);
    recipe.train = Some(pretokens(&args.pretokens));
    recipe
}

/// Returns the recipe of `encode`. The flags about the tokenizer's split and special tokens go into `[encode]`.
pub(super) fn encode(args: &EncodeArgs) -> Recipe {
    let mut recipe = reading(Command::Encode, &args.input.inputs, &args.read);
    recipe.encode = Some(encoded(&args.encode, &args.tokenizer, args.split.options()));
    recipe.output = OutputKeys {
        dir: Some(Given::flag(args.output.clone())),
        format: field(&args.encode.output_format),
        split_name: field(&args.encode.split_name),
        file_text_bytes: field(&args.encode.file_text_bytes),
        one_file: args.encode.one_file.then(|| Given::flag(true)),
    };
    recipe
}

/// Returns the recipe for the data on which `verify-merges` replays merges.
///
/// `[train]` has only what the flags say; the tokenizer and the record of its training complete it later.
pub(super) fn verify_merges(args: &VerifyMergesArgs) -> Recipe {
    let mut recipe = reading(Command::Verify, &args.on, &args.read);
    recipe.train = Some(TrainKeys {
        boundary: field(&args.rules.boundary),
        score: field(&args.rules.score),
        min_frequency: field(&args.rules.min_frequency.map(Count::new)),
        max_token_bytes: field(&args.rules.max_token_bytes),
        ..TrainKeys::default()
    });
    recipe
}

/// Marks a value as given by a flag. `None` stays `None`, which is an unset key.
fn field<T: Clone>(flag: &Option<T>) -> Field<T> {
    flag.clone().map(Given::flag)
}

/// Marks each value as given by a flag.
fn list<T: Clone>(flags: &[T]) -> Vec<Given<T>> {
    flags.iter().cloned().map(Given::flag).collect()
}

/// Returns a recipe that reads these inputs.
///
/// All sources get the same keys except the address and the weight. If there is not one weight for each input, the
/// recipe carries a mistake that planning reports with all others; the weights that exist are assigned from the first
/// input on. `--separator` takes the place of `--documents`, with which clap refuses it.
pub(super) fn reading(command: Command, inputs: &[String], flags: &ReadFlags) -> Recipe {
    let mut recipe = Recipe::empty(Origin::Flags(command));
    recipe.sample = sample(&flags.sample);
    let flags = &flags.source;
    if !flags.weight.is_empty() && flags.weight.len() != inputs.len() {
        recipe.mistakes.push(Mistake {
            key: Some("weight"),
            span: None,
            message: weights_given(flags.weight.len(), inputs.len(), "input"),
            help: Some("give one for each input, in the same order, or none".to_owned()),
        });
    }
    let separator = flags.separator.clone().map(DocumentRule::Separator);
    let source = |(number, input): (usize, &String)| SourceKeys {
        span: None,
        uri: Some(Given::flag(input.clone())),
        column: field(&flags.column),
        template: field(&flags.template),
        join: field(&flags.join),
        format: field(&flags.format),
        documents: field(&separator.clone().or(flags.documents.clone())),
        weight: field(&flags.weight.get(number).copied()),
        take: None,
        max_bytes: None,
        stream: flags.stream.then(|| Given::flag(true)),
        on_bad_input: field(&flags.on_bad_input),
    };
    recipe.sources = inputs.iter().enumerate().map(source).collect();
    recipe
}

/// Returns the message that the number of weights is not the number of inputs. `input` is the noun for one input, in
/// the singular.
pub(super) fn weights_given(given: usize, inputs: usize, input: &str) -> String {
    let (times, inputs) = (with_unit(to_u64(given), "time"), with_unit(to_u64(inputs), input));
    format!("`--weight` is given {times} for {inputs}")
}

/// Returns the keys of `[sample]`. These limits apply to all inputs together. A recipe can also limit a single
/// source; flags cannot.
fn sample(flags: &SampleFlags) -> SampleKeys {
    SampleKeys {
        every: field(&flags.every),
        shuffle_buffer: field(&flags.shuffle_buffer),
        seed: field(&flags.seed),
        skip: field(&flags.skip),
        take: field(&flags.take),
        max_bytes: field(&flags.max_bytes),
    }
}

/// Returns the keys of `[train]` that decide how text is divided into pre-tokens.
///
/// The other keys stay unset. `--split-regex` takes the place of `--split`, with which clap refuses it.
fn pretokens(flags: &PretokenFlags) -> TrainKeys {
    let regex = flags.split_regex.as_deref().map(SplitPattern::from_regex);
    TrainKeys {
        split: field(&regex.or(flags.split.clone())),
        boundary: field(&flags.boundary),
        special_tokens: list(&flags.special_token),
        ..TrainKeys::default()
    }
}

/// Returns all keys of `[train]` except those for `transformers`. `pretokens` has the keys from [`pretokens`], which
/// stay.
fn trained(flags: &TrainFlags, pretokens: TrainKeys) -> TrainKeys {
    TrainKeys {
        vocab_size: field(&flags.vocab_size.as_ref().map(|sizes| list(sizes))),
        merges: field(&flags.merges),
        min_frequency: field(&flags.min_frequency.map(Count::new)),
        max_token_bytes: field(&flags.max_token_bytes),
        tie_break: field(&flags.tie_break),
        score: field(&flags.score),
        special_tokens_at: field(&flags.special_tokens_at),
        history_every: field(&flags.history_every),
        formats: field(&flags.formats.as_ref().map(|formats| list(formats))),
        ..pretokens
    }
}

/// Adds the keys of `[train]` that go into `tokenizer_config.json`.
///
/// The keys of special tokens have two levels of `Option`: in a recipe, a role can be unset or explicitly none. A
/// flag can only name a token.
fn for_transformers(flags: &TransformersFlags, keys: TrainKeys) -> TrainKeys {
    TrainKeys {
        bos: field(&flags.bos.clone().map(Some)),
        eos: field(&flags.eos.clone().map(Some)),
        pad: field(&flags.pad.clone().map(Some)),
        unk: field(&flags.unk.clone().map(Some)),
        mask: field(&flags.mask.clone().map(Some)),
        model_max_length: field(&flags.model_max_length),
        chat_template: field(&flags.chat_template),
        ..keys
    }
}

/// Returns the keys of `[encode]`. `options` are those for reading the tokenizer. Its format stays open.
fn encoded(flags: &EncodeFlags, tokenizer: &str, options: LoadOptions) -> EncodeKeys {
    EncodeKeys {
        tokenizer: Some(Given::flag(tokenizer.to_owned())),
        split: field(&options.split),
        special_tokens: list(&options.special_tokens),
        columns: list(&flags.columns),
        special: field(&flags.special),
        missing_bytes: field(&flags.missing_bytes),
        bos: field(&flags.bos.clone().map(Some)),
        eos: field(&flags.eos.clone().map(Some)),
        pack: field(&flags.pack),
        length: field(&flags.length),
        compression: field(&flags.compression),
        ..EncodeKeys::default()
    }
}
