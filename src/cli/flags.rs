//! Turns flags into a [`Recipe`], as if it had been read from a file, and a recipe into the commands that do the same.
//!
//! These functions only move values. They check nothing that a recipe file could get wrong too: planning does that
//! for both, so that the same mistake has the same message. Every value is marked as [given by a flag](Given::flag),
//! so that messages say `--vocab-size` instead of a line of a file. A flag that is missing leaves its key unset.

use std::path::Path;

use tokenmill::Error;
use tokenmill::base::int::{Count, to_u64, with_unit};
use tokenmill::count::CountsInfo;
use tokenmill::run::recipe::{
    Command, CountsKeys, EncodeKeys, Field, Given, Mistake, Origin, OutputKeys, ParityKeys, SampleKeys,
    SourceKeys, TrainKeys, WrittenSection, WrittenValue,
};
use tokenmill::run::{EncodePlan, EncodedDocuments, Plan, Recipe, StagePlan, TrainPlan};
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
    recipe.keep_merges = field(&args.keep_merges);
    let keys = trained(&args.train, pretokens(&args.pretokens));
    recipe.train = Some(for_transformers(&args.transformers, keys));
    recipe.output.dir = Some(Given::flag(args.output.clone()));
    recipe.output.push = field(&args.push);
    recipe
}

/// Returns the recipe of `count`. It has no output folder: the counts file is named apart from the recipe.
pub(super) fn count(args: &CountArgs) -> Recipe {
    let mut recipe = reading(Command::Count, &args.input.inputs, &args.read);
    recipe.run.shard = field(&args.shard);
    recipe.train = Some(pretokens(&args.pretokens));
    recipe
}

/// Returns the recipe of `encode`. The flags about the tokenizer's split and special tokens go into `[encode]`.
pub(super) fn encode(args: &EncodeArgs) -> Recipe {
    let mut recipe = reading(Command::Encode, &args.input.inputs, &args.read);
    recipe.run.shard = field(&args.shard);
    recipe.encode = Some(encoded(&args.encode, &args.tokenizer, args.split.options()));
    recipe.output = OutputKeys {
        dir: Some(Given::flag(args.output.clone())),
        staging: field(&args.staging),
        format: field(&args.encode.output_format),
        split_name: field(&args.encode.split_name),
        file_text_bytes: field(&args.encode.file_text_bytes),
        one_file: args.encode.one_file.then(|| Given::flag(true)),
        push: field(&args.push),
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

/// Returns how the text behind counts of another program was split; `None` if no flag names the split.
///
/// # Errors
/// The split cannot be used, or the boundary or special tokens are given without it.
pub(super) fn counted_elsewhere(flags: &PretokenFlags) -> Result<Option<CountsInfo>, Error> {
    let regex = flags.split_regex.as_deref().map(SplitPattern::from_regex);
    let Some(pattern) = regex.or(flags.split.clone()) else {
        return match flags.boundary.is_some() || !flags.special_token.is_empty() {
            true => Err(Error::usage("`--boundary` and `--special-token` need `--split`").with_help(
                "name the split of the counts that another program wrote, or leave the flags out",
            )),
            false => Ok(None),
        };
    };
    CountsInfo::of_split(pattern, flags.boundary.unwrap_or_default(), &flags.special_token).map(Some)
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
        max_words: field(&flags.max_words),
        stages: (!flags.stage.is_empty()).then(|| Given::flag(list(&flags.stage))),
        tie_break: field(&flags.tie_break),
        score: field(&flags.score),
        parity: flags.parity.then(|| Given::flag(parity(flags))),
        special_tokens_at: field(&flags.special_tokens_at),
        history_every: field(&flags.history_every),
        formats: field(&flags.formats.as_ref().map(|formats| list(formats))),
        ..pretokens
    }
}

/// Returns the keys of `parity`.
fn parity(flags: &TrainFlags) -> ParityKeys {
    let given = |texts: &Vec<String>| (!texts.is_empty()).then(|| Given::flag(list(texts)));
    ParityKeys {
        development: given(&flags.development),
        ratio: field(&flags.ratio.as_ref().map(|ratios| list(ratios))),
        window: field(&flags.window),
        alpha: field(&flags.alpha),
        global_merges: field(&flags.global_merges),
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
        // `--columns "id, lang"` names the same columns as `--columns id,lang`.
        columns: flags.columns.iter().map(|name| Given::flag(name.trim().to_owned())).collect(),
        special: field(&flags.special),
        missing_bytes: field(&flags.missing_bytes),
        dropout: field(&flags.dropout),
        dropout_seed: field(&flags.dropout_seed),
        bos: field(&flags.bos.clone().map(Some)),
        eos: field(&flags.eos.clone().map(Some)),
        pack: field(&flags.pack),
        length: field(&flags.length),
        compression: field(&flags.compression),
        ..EncodeKeys::default()
    }
}

/// The commands that do what a recipe says, each as a list of words. `plan` is the plan of the recipe, which has its
/// paths.
///
/// A recipe that trains and encodes takes two commands: the second encodes with the tokenizer of the first. The
/// tokenizer and the files of ids are the same as those of the recipe. Other files need not be: each command writes a
/// report of its own.
///
/// # Errors
/// No flag sets some of the keys. They are returned, each with its section.
pub(super) fn commands(recipe: &Recipe, plan: &Plan) -> Result<Vec<Vec<String>>, Vec<String>> {
    let written = WrittenRecipe { recipe, plan, sections: recipe.sections() };
    let mut without_flag = keys_of_some(&written.sources());
    if plan.destination.is_some() && plan.train.is_some() {
        without_flag.push("`dir` in an object store for a tokenizer that is trained".to_owned());
    }
    let custom = |stage: &StagePlan| matches!(stage.split, SplitPattern::Custom(_));
    if plan.train.as_ref().is_some_and(|train| train.stages.iter().any(custom)) {
        without_flag.push("`stages` with a regular expression".to_owned());
    }
    if !without_flag.is_empty() {
        return Err(without_flag);
    }
    let train = plan.train.as_ref().map(|train| written.train(train));
    let encode = plan.encode.as_ref().map(|encode| written.encode(encode));
    Ok(train.into_iter().chain(encode).collect())
}

/// A recipe, with its keys as text, to be written as commands.
struct WrittenRecipe<'a> {
    /// The recipe.
    recipe: &'a Recipe,
    /// Its plan, for paths and defaults.
    plan: &'a Plan,
    /// Its keys.
    sections: Vec<WrittenSection>,
}

impl WrittenRecipe<'_> {
    /// The sections of the sources.
    fn sources(&self) -> Vec<&WrittenSection> {
        self.sections.iter().filter(|section| section.name == "source").collect()
    }

    /// The value of a key in the first section of this name.
    fn value(&self, section: &str, key: &str) -> Option<&WrittenValue> {
        self.sections.iter().find(|found| found.name == section)?.get(key)
    }

    /// The flags of the keys in the first section of this name.
    fn flags(&self, section: &str, left_out: &[&str]) -> Vec<String> {
        let section = self.sections.iter().find(|found| found.name == section);
        let keys = section.into_iter().flat_map(|section| &section.keys);
        let mut words = Vec::new();
        keys.filter(|(key, _)| !left_out.contains(key))
            .for_each(|(key, value)| add_flag(&mut words, key, value));
        words
    }

    /// The inputs, and the flags for reading them.
    fn inputs(&self) -> Vec<String> {
        let mut words: Vec<String> = self.plan.sources.iter().map(|source| source.uri.clone()).collect();
        words.extend(self.flags("source", &["uri", "weight"]));
        words
    }

    /// The command that trains.
    fn train(&self, train: &TrainPlan) -> Vec<String> {
        let mut words = [vec!["tokenmill".to_owned(), "train".to_owned()], self.inputs()].concat();
        let sources = self.sources();
        if sources.iter().any(|source| source.get("weight").is_some()) {
            let one = WrittenValue::Number("1".to_owned());
            let weights = sources.iter().map(|source| source.get("weight").unwrap_or(&one));
            weights.for_each(|weight| add_flag(&mut words, "weight", weight));
        }
        words.extend(self.flags("sample", &[]));
        words.extend(self.flags("train", &["chat_template"]));
        if let Some(path) = self.value("train", "chat_template") {
            add_flag(&mut words, "chat_template", &beside_recipe(self.recipe, path));
        }
        // A recipe tells `transformers` of the tokens that its encoding adds; this command does not encode.
        if let Some(encode) = &self.plan.encode {
            for (key, named, added) in [("bos", &train.bos, &encode.bos), ("eos", &train.eos, &encode.eos)] {
                if let (None, Some(token)) = (named, added) {
                    add_flag(&mut words, key, &WrittenValue::Text(token.clone()));
                }
            }
        }
        words.extend(["-o".to_owned(), train.output.to_string_lossy().into_owned()]);
        // A recipe that encodes pushes the whole output, which the other command does.
        if let Some(push) = self.value("output", "push").filter(|_| self.plan.encode.is_none()) {
            add_flag(&mut words, "push", push);
        }
        words.extend(self.flags("run", &[]));
        words
    }

    /// The command that encodes, with the tokenizer of the recipe or the one that the other command trains.
    fn encode(&self, encode: &EncodePlan) -> Vec<String> {
        let mut words = [vec!["tokenmill".to_owned(), "encode".to_owned()], self.inputs()].concat();
        if encode.documents == EncodedDocuments::Sample {
            words.extend(self.flags("sample", &[]));
        }
        let trained = self.plan.train.as_ref().map(|train| &train.output);
        if let Some(tokenizer) = encode.tokenizer.as_ref().or(trained) {
            words.extend(["-t".to_owned(), tokenizer.to_string_lossy().into_owned()]);
        }
        words.extend(self.flags("encode", &["tokenizer", "documents"]));
        words.extend(self.flags("output", &["dir", "format"]));
        if let Some(format) = self.value("output", "format") {
            add_flag(&mut words, "output_format", format);
        }
        words.extend(["-o".to_owned(), self.plan.place()]);
        words.extend(self.flags("run", &["shard"]));
        // A recipe may name its shard by variables.
        if let Some(shard) = self.plan.shard {
            add_flag(&mut words, "shard", &WrittenValue::Text(shard.to_string()));
        }
        words
    }
}

/// The keys of sources that no flag sets: flags apply to all inputs, except weights, and they limit only all inputs
/// together.
fn keys_of_some(sources: &[&WrittenSection]) -> Vec<String> {
    let mut keys = Vec::new();
    for section in sources {
        for (key, value) in &section.keys {
            let is_alone = matches!(*key, "take" | "max_bytes");
            let is_own = !matches!(*key, "uri" | "weight")
                && sources.iter().any(|other| other.get(key) != Some(value));
            let shown = match is_alone {
                true => format!("`{key}` of a source"),
                false => format!("`{key}`, which sources have differently"),
            };
            if (is_alone || is_own) && !keys.contains(&shown) {
                keys.push(shown);
            }
        }
    }
    keys
}

/// Appends the flag of a key. `false` is the default of every such key, so it has no flag.
fn add_flag(words: &mut Vec<String>, key: &str, value: &WrittenValue) {
    let mut add = |key: &str, word: Option<&str>| {
        let flag = format!("--{}", key.replace('_', "-"));
        match word {
            // clap takes a word with a hyphen for a flag.
            Some(word) if word.starts_with('-') => words.push(format!("{flag}={word}")),
            Some(word) => words.extend([flag, word.to_owned()]),
            None => words.push(flag),
        }
    };
    let word = |value: &WrittenValue| match value {
        WrittenValue::Text(word) | WrittenValue::Number(word) => word.clone(),
        other => other.to_string(),
    };
    match (key, value) {
        (_, WrittenValue::Truth(true)) => add(key, None),
        (_, WrittenValue::Table(keys)) => {
            add(key, None);
            keys.iter().for_each(|(key, value)| add_flag(words, key, value));
        }
        ("development", WrittenValue::List(texts)) => {
            texts.iter().for_each(|text| add(key, Some(&word(text))));
        }
        (_, WrittenValue::Truth(false)) => {}
        ("stages", WrittenValue::List(stages)) => stages.iter().for_each(|stage| {
            let WrittenValue::Table(keys) = stage else { return };
            let parts: Vec<String> = keys.iter().map(|(_, value)| word(value)).collect();
            add("stage", Some(&parts.join(":")));
        }),
        ("special_tokens", WrittenValue::List(tokens)) => {
            tokens.iter().for_each(|token| add("special_token", Some(&word(token))));
        }
        (_, WrittenValue::List(values)) => {
            add(key, Some(&values.iter().map(word).collect::<Vec<_>>().join(",")));
        }
        (_, WrittenValue::Keyed("regex", regex)) => add("split_regex", Some(regex)),
        (_, WrittenValue::Keyed(key, text)) => add(key, Some(text)),
        (_, value) => add(key, Some(&word(value))),
    }
}

/// The path of a file that a recipe names, for a command in the working directory.
fn beside_recipe(recipe: &Recipe, path: &WrittenValue) -> WrittenValue {
    match (&recipe.origin, path) {
        (Origin::File { path: recipe, .. }, WrittenValue::Text(path)) if !path.starts_with("${") => {
            let folder = Path::new(recipe).parent().unwrap_or(Path::new(""));
            WrittenValue::Text(folder.join(path).to_string_lossy().into_owned())
        }
        _ => path.clone(),
    }
}
