//! Reads the text of recipes.
//!
//! Each section is a table that is asked for its known keys. Each value is parsed by a function of the type `Parse`.
//! A mistake does not end reading: it is collected with its place in bytes.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::nearest;
use super::{
    Choice, EncodeKeys, Field, Given, MAX_LISTED, Mistake, Mistakes, Origin, OutputKeys, ParityKeys, Recipe,
    RunKeys, SampleKeys, SourceKeys, StageKeys, TrainKeys, named, names,
};
use crate::base::int::{ByteCount, Count};
use crate::encode::Probability;
use crate::sample::Weight;
use crate::source::DocumentRule;
use crate::split::SplitPattern;
use crate::train::{Powers, Score};
use crate::vocab::SpecialToken;

/// Number of places to report in a text that is not TOML. A text that was never meant as TOML is wrong in every line.
const MAX_TOML_ERRORS: usize = 10;

/// Reads the text of a recipe; `path` is its name for messages. Unknown sections and keys, and values of the wrong
/// type, do not end reading: the returned recipe holds these mistakes until [`plan`](crate::run::plan()) checks it as
/// a whole.
///
/// ```
/// use tokenmill::run::recipe::{self, Mistakes};
///
/// let recipe = recipe::read("run.toml", "[train]\nvocab_size = 400\nsplit = \"gtp4\"\n")?;
/// let [mistake] = &recipe.mistakes[..] else { panic!("one mistake") };
/// assert!(mistake.help.as_deref().is_some_and(|help| help.contains("did you mean \"gpt4\"?")));
/// # Ok::<(), Mistakes>(())
/// ```
///
/// # Errors
/// The text is no valid TOML. The first ten places are returned, and the number of further ones. `?` turns the
/// mistakes into an [`Error`](crate::Error) of kind [`Usage`](crate::ErrorKind::Usage).
pub fn read(path: &str, text: &str) -> Result<Recipe, Mistakes> {
    let origin = Origin::File { path: path.to_owned(), text: text.to_owned() };
    let table = parsed(text, &origin)?;
    Ok(recipe_of(&table, origin))
}

/// Does the same as [`read`], with other values for some keys: `overrides` is the text of a recipe that has these keys
/// alone. A table `[source]` in it applies to each source, a list `[[source]]` replaces all sources.
///
/// ```
/// use tokenmill::run::recipe::{self, Mistakes};
///
/// let text = "[train]\nvocab_size = 400\nsplit = \"gpt2\"\n";
/// let recipe = recipe::read_with("run.toml", text, "[train]\nvocab_size = 500\n")?;
/// assert_eq!(recipe.to_toml().expect("keys alone"), "[train]\nsplit = \"gpt2\"\nvocab_size = 500\n");
/// # Ok::<(), Mistakes>(())
/// ```
///
/// # Errors
/// One of the texts is no valid TOML.
pub fn read_with(path: &str, text: &str, overrides: &str) -> Result<Recipe, Mistakes> {
    let origin = Origin::File { path: path.to_owned(), text: text.to_owned() };
    let mut table = parsed(text, &origin)?;
    // The places of these values lie behind the text, where no message looks for a line.
    let overrides = "\n".repeat(text.len() + 1) + overrides;
    override_sections(&mut table, parsed(&overrides, &origin)?);
    Ok(recipe_of(&table, origin))
}

/// The sections of a text. `origin` is for the mistakes.
///
/// # Errors
/// The text is no valid TOML.
fn parsed<'i>(text: &'i str, origin: &Origin) -> Result<DeTable<'i>, Mistakes> {
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Ok(table.into_inner());
    }
    let syntax =
        |error: &toml::de::Error| Mistake::new(None, error.span(), error.message().replace('\n', "; "));
    let more = errors.len().saturating_sub(MAX_TOML_ERRORS);
    let more = (more > 0).then(|| Mistake::new(None, None, format!("invalid TOML in {more} more places")));
    let first = errors.iter().take(MAX_TOML_ERRORS).map(syntax);
    Err(Mistakes::new(origin.clone(), first.chain(more).collect()))
}

/// The recipe of these sections.
fn recipe_of(table: &DeTable<'_>, origin: Origin) -> Recipe {
    let (mut recipe, mut mistakes) = (Recipe::empty(origin), Vec::new());
    sections(&mut recipe, RecipeTable { span: None, entries: table }, &mut mistakes);
    recipe.mistakes = mistakes;
    recipe
}

/// Replaces the values of keys, section by section. Sections and keys that are not there are added.
fn override_sections<'i>(sections: &mut DeTable<'i>, overrides: DeTable<'i>) {
    for (name, section) in overrides {
        match (sections.get_mut(&**name.get_ref()).map(Spanned::as_mut), section.get_ref()) {
            (Some(DeValue::Table(keys)), DeValue::Table(overrides)) => override_keys(keys, overrides),
            (Some(DeValue::Array(tables)), DeValue::Table(overrides)) => {
                for table in tables.iter_mut() {
                    if let DeValue::Table(keys) = table.as_mut() {
                        override_keys(keys, overrides);
                    }
                }
            }
            _ => {
                sections.remove(&**name.get_ref());
                sections.insert(name, section);
            }
        }
    }
}

/// Replaces the values of keys of one table.
fn override_keys<'i>(keys: &mut DeTable<'i>, overrides: &DeTable<'i>) {
    for (key, value) in overrides.iter() {
        keys.remove(&**key.get_ref());
        keys.insert(key.clone(), value.clone());
    }
}

/// Reads all sections. Sections with unknown names are reported.
fn sections(recipe: &mut Recipe, root: RecipeTable<'_, '_>, mistakes: &mut Vec<Mistake>) {
    let mut root = RecipeSection::open("", root, mistakes);
    let sources = root.tables("source");
    let [sample, train, encode, output, run] =
        ["sample", "train", "encode", "output", "run"].map(|name| root.tables(name).pop());
    root.finish();
    for table in sources {
        recipe.sources.push(RecipeSection::read("source", table, mistakes, read_source));
    }
    if let Some(table) = sample {
        recipe.sample = RecipeSection::read("sample", table, mistakes, read_sample);
    }
    recipe.train = train.map(|table| RecipeSection::read("train", table, mistakes, read_train));
    recipe.encode = encode.map(|table| RecipeSection::read("encode", table, mistakes, read_encode));
    if let Some(table) = output {
        recipe.output = RecipeSection::read("output", table, mistakes, read_output);
    }
    if let Some(table) = run {
        recipe.run = RecipeSection::read("run", table, mistakes, read_run);
    }
}

/// Reads one `[source]` or `[[source]]`.
fn read_source(section: &mut RecipeSection<'_, '_, '_>) -> SourceKeys {
    SourceKeys {
        span: section.table.span.clone(),
        uri: section.get("uri", text),
        column: section.get("column", text),
        template: section.get("template", text),
        join: section.get("join", text),
        format: section.get("format", choice),
        documents: section.get("documents", documents),
        weight: section.get("weight", weight),
        take: section.get("take", whole),
        max_bytes: section.get("max_bytes", bytes),
        stream: section.get("stream", truth),
        on_bad_input: section.get("on_bad_input", choice),
    }
}

/// Reads `[sample]`.
fn read_sample(section: &mut RecipeSection<'_, '_, '_>) -> SampleKeys {
    SampleKeys {
        every: section.get("every", whole),
        shuffle_buffer: section.get("shuffle_buffer", whole),
        seed: section.get("seed", whole),
        skip: section.get("skip", whole),
        take: section.get("take", whole),
        max_bytes: section.get("max_bytes", bytes),
    }
}

/// Reads `[train]`. The entries of an extended tokenizer (`kept`) cannot be written in a recipe, so they are empty.
fn read_train(section: &mut RecipeSection<'_, '_, '_>) -> TrainKeys {
    TrainKeys {
        span: section.table.span.clone(),
        split: section.get("split", split),
        boundary: section.get("boundary", choice),
        vocab_size: section.one_or_more("vocab_size", whole),
        merges: section.get("merges", whole),
        min_frequency: section.get("min_frequency", count),
        max_token_bytes: section.get("max_token_bytes", whole),
        max_words: section.get("max_words", whole),
        stages: section.list("stages", stage),
        tie_break: section.get("tie_break", choice),
        score: section.get("score", score),
        parity: section.table("parity", read_parity),
        special_tokens: section.list("special_tokens", text).map_or_else(Vec::new, |list| list.value),
        special_tokens_at: section.get("special_tokens_at", choice),
        bos: section.get("bos", token),
        eos: section.get("eos", token),
        pad: section.get("pad", token),
        unk: section.get("unk", token),
        mask: section.get("mask", token),
        model_max_length: section.get("model_max_length", whole),
        chat_template: section.get("chat_template", text),
        kept: serde_json::Map::new(),
        history_every: section.get("history_every", whole),
        formats: section.list("formats", choice),
    }
}

/// Reads `parity` in `[train]`.
fn read_parity(section: &mut RecipeSection<'_, '_, '_>) -> ParityKeys {
    ParityKeys {
        development: section.list("development", text),
        ratio: section.list("ratio", weight),
        window: section.get("window", whole),
        alpha: section.get("alpha", weight),
        global_merges: section.get("global_merges", whole),
    }
}

/// Reads `[encode]`.
fn read_encode(section: &mut RecipeSection<'_, '_, '_>) -> EncodeKeys {
    EncodeKeys {
        span: section.table.span.clone(),
        tokenizer: section.get("tokenizer", text),
        split: section.get("split", split),
        special_tokens: section
            .list("special_tokens", special_token)
            .map_or_else(Vec::new, |list| list.value),
        documents: section.get("documents", choice),
        columns: section.list("columns", text).map_or_else(Vec::new, |list| list.value),
        special: section.get("special", choice),
        missing_bytes: section.get("missing_bytes", choice),
        dropout: section.get("dropout", probability),
        dropout_seed: section.get("dropout_seed", whole),
        bos: section.get("bos", token),
        eos: section.get("eos", token),
        pack: section.get("pack", choice),
        length: section.get("length", whole),
        compression: section.get("compression", choice),
    }
}

/// Reads `[output]`.
fn read_output(section: &mut RecipeSection<'_, '_, '_>) -> OutputKeys {
    OutputKeys {
        dir: section.get("dir", text),
        staging: section.get("staging", text),
        split_name: section.get("split_name", text),
        file_text_bytes: section.get("file_text_bytes", bytes),
        one_file: section.get("one_file", truth),
        format: section.get("format", choice),
        push: section.get("push", text),
    }
}

/// Reads `[run]`.
fn read_run(section: &mut RecipeSection<'_, '_, '_>) -> RunKeys {
    RunKeys {
        threads: section.get("threads", whole),
        memory: section.get("memory", bytes),
        shard: section.get("shard", text),
    }
}

/// A table of the recipe and its place.
struct RecipeTable<'t, 'i> {
    /// The bytes of the table in the text. `None` for the table of sections.
    span: Option<Range<usize>>,
    /// The keys and values, with their spans.
    entries: &'t DeTable<'i>,
}

/// A table while it is read. It remembers the keys that were asked for, so that all other keys can be reported as
/// unknown.
struct RecipeSection<'m, 't, 'i> {
    /// The name of the section; empty for the table of sections.
    name: &'static str,
    /// The keys and values that were written.
    table: RecipeTable<'t, 'i>,
    /// The keys that were asked for, in that order. Messages list them.
    known: Vec<&'static str>,
    /// The mistakes of the whole recipe. At most [`MAX_LISTED`] are kept.
    mistakes: &'m mut Vec<Mistake>,
}

impl<'m, 't, 'i> RecipeSection<'m, 't, 'i> {
    /// Reads a table by asking for its keys, and reports the keys that `keys` did not ask for.
    fn read<K>(
        name: &'static str,
        table: RecipeTable<'t, 'i>,
        mistakes: &'m mut Vec<Mistake>,
        keys: fn(&mut RecipeSection<'m, 't, 'i>) -> K,
    ) -> K {
        let mut section = RecipeSection::open(name, table, mistakes);
        let keys = keys(&mut section);
        section.finish();
        keys
    }

    /// Begins to read a table. `finish` must follow once all keys have been asked for.
    fn open(
        name: &'static str,
        table: RecipeTable<'t, 'i>,
        mistakes: &'m mut Vec<Mistake>,
    ) -> RecipeSection<'m, 't, 'i> {
        RecipeSection { name, table, known: Vec::new(), mistakes }
    }

    /// The value of a key and its place. Marks the key as known.
    fn find(&mut self, key: &'static str) -> Option<(Range<usize>, &'t DeValue<'i>)> {
        self.known.push(key);
        let (_, found) = self.table.entries.iter().find(|(name, _)| name.get_ref() == key)?;
        Some((found.span(), found.get_ref()))
    }

    /// Records the mistake of a value, unless there are [`MAX_LISTED`] already.
    fn wrong(&mut self, key: &'static str, span: Range<usize>, wrong: WrongValue) {
        let message = format!("`{key}` {}", wrong.problem);
        if self.mistakes.len() < MAX_LISTED {
            self.mistakes.push(Mistake { help: wrong.help, ..Mistake::new(Some(key), Some(span), message) });
        }
    }

    /// The value of a key. A value of the wrong type is reported, and the key counts as left out.
    fn get<T>(&mut self, key: &'static str, parse: Parse<T>) -> Field<T> {
        let (span, found) = self.find(key)?;
        match parse(found) {
            Ok(value) => Some(Given { value, span: Some(span) }),
            Err(error) => {
                self.wrong(key, span, error);
                None
            }
        }
    }

    /// The values of a key that takes a list. Values of the wrong type are reported one by one, and left out.
    fn list<T>(&mut self, key: &'static str, parse: Parse<T>) -> Field<Vec<Given<T>>> {
        let (span, found) = self.find(key)?;
        let Some(items) = found.as_array() else {
            let problem = format!("must be a list in square brackets, not a {}", found.type_str());
            self.wrong(key, span, WrongValue { problem, help: None });
            return None;
        };
        let mut list = Vec::with_capacity(items.len());
        for item in items.iter() {
            match parse(item.get_ref()) {
                Ok(value) => list.push(Given { value, span: Some(item.span()) }),
                Err(wrong) => self.wrong(key, item.span(), wrong),
            }
        }
        Some(Given { value: list, span: Some(span) })
    }

    /// The values of a key that takes one value or a list.
    fn one_or_more<T>(&mut self, key: &'static str, parse: Parse<T>) -> Field<Vec<Given<T>>> {
        if self.table.entries.get(key).is_some_and(|found| found.get_ref().is_array()) {
            return self.list(key, parse);
        }
        let Given { value, span } = self.get(key, parse)?;
        Some(Given { value: vec![Given { value, span: span.clone() }], span })
    }

    /// The keys of a table within this section. `true` stands for a table without keys, and `false` for none.
    fn table<K: Default>(
        &mut self,
        key: &'static str,
        keys: for<'n> fn(&mut RecipeSection<'n, 't, 'i>) -> K,
    ) -> Field<K> {
        let (span, found) = self.find(key)?;
        match found {
            DeValue::Table(entries) => {
                let table = RecipeTable { span: Some(span.clone()), entries };
                let mut section = RecipeSection::open(key, table, self.mistakes);
                let value = keys(&mut section);
                section.finish();
                Some(Given { value, span: Some(span) })
            }
            DeValue::Boolean(true) => Some(Given { value: K::default(), span: Some(span) }),
            DeValue::Boolean(false) => None,
            other => {
                self.wrong(key, span, wants("true or a table", other));
                None
            }
        }
    }

    /// The tables of a section: one, or any number for `source`.
    fn tables(&mut self, key: &'static str) -> Vec<RecipeTable<'t, 'i>> {
        let Some((span, found)) = self.find(key) else { return Vec::new() };
        let one =
            |span, found: &'t DeValue<'i>| Some(RecipeTable { span: Some(span), entries: found.as_table()? });
        let tables: Option<Vec<_>> = match found {
            DeValue::Array(items) if key == "source" => {
                items.iter().map(|item| one(item.span(), item.get_ref())).collect()
            }
            _ => one(span.clone(), found).map(|table| vec![table]),
        };
        tables.unwrap_or_else(|| {
            let problem = format!("must be a section: write [{key}] on a line of its own");
            self.wrong(key, span, WrongValue { problem, help: None });
            Vec::new()
        })
    }

    /// Reports keys that nobody asked for.
    ///
    /// The nearest known key is suggested. Without a near one, all known keys are listed.
    fn finish(self) {
        for key in self.table.entries.keys() {
            let name: &str = key.get_ref();
            if self.known.contains(&name) {
                continue;
            }
            if self.mistakes.len() == MAX_LISTED {
                break;
            }
            let (message, all) = match self.name {
                "" => (format!("unknown section or key `{name}`"), "the sections are"),
                section => (format!("unknown key `{name}` in [{section}]"), "the keys there are"),
            };
            let near = nearest(name, self.known.iter().copied());
            let help = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("{all} {}", self.known.join(", ")),
            };
            self.mistakes.push(Mistake { help: Some(help), ..Mistake::new(near, Some(key.span()), message) });
        }
    }
}

/// Why a value does not suit its key.
#[derive(Debug)]
pub(super) struct WrongValue {
    /// The end of a sentence that begins with the key.
    pub(super) problem: String,
    /// The advice for a correct value, if the problem does not imply it.
    pub(super) help: Option<String>,
}

/// Reads one value.
///
/// The error is completed with key and place by the caller.
pub(super) type Parse<T> = fn(&DeValue<'_>) -> Result<T, WrongValue>;

/// The error for a value of the wrong type.
fn wants(expected: &str, value: &DeValue<'_>) -> WrongValue {
    let article = if value.is_integer() || value.is_array() { "an" } else { "a" };
    let problem = format!("must be {expected}, not {article} {}", value.type_str());
    WrongValue { problem, help: None }
}

/// A string.
///
/// # Errors
/// The value is no string.
pub(super) fn text(value: &DeValue<'_>) -> Result<String, WrongValue> {
    value.as_str().map(str::to_owned).ok_or_else(|| wants("a string", value))
}

/// `true` or `false`.
pub(super) fn truth(value: &DeValue<'_>) -> Result<bool, WrongValue> {
    value.as_bool().ok_or_else(|| wants("true or false", value))
}

/// A whole number from 0 to 2⁶⁴ − 1, in any notation of TOML.
///
/// # Errors
/// The value is no integer, or is out of range.
pub(super) fn whole(value: &DeValue<'_>) -> Result<u64, WrongValue> {
    let integer = value.as_integer().ok_or_else(|| wants("a whole number", value))?;
    u64::from_str_radix(integer.as_str(), integer.radix()).map_err(|_| {
        let problem = format!("must be a whole number from 0 to {}, not {integer}", u64::MAX);
        WrongValue { problem, help: None }
    })
}

/// A whole number as a count.
pub(super) fn count(value: &DeValue<'_>) -> Result<Count, WrongValue> {
    whole(value).map(Count::new)
}

/// A number of bytes: a whole number, or a string with a unit (`"8GB"`).
///
/// # Errors
/// The value is neither, or the unit is unknown.
pub(super) fn bytes(value: &DeValue<'_>) -> Result<ByteCount, WrongValue> {
    match value {
        DeValue::Integer(_) => whole(value).map(ByteCount),
        DeValue::String(text) => text.parse().map_err(|_| WrongValue {
            problem: format!("is {text:?}, which is not an amount of bytes"),
            help: Some("write it like \"800MB\", \"8GB\" or \"8GiB\"".to_owned()),
        }),
        _ => Err(wants("an amount of bytes such as \"8GB\"", value)),
    }
}

/// The weight of a source. It is read from the text of the number, since a float would not hold the decimal exactly.
///
/// # Errors
/// The value is no number, is not above 0, or has too many digits.
pub(super) fn weight(value: &DeValue<'_>) -> Result<Weight, WrongValue> {
    let text = match value {
        DeValue::Integer(integer) => integer.to_string(),
        DeValue::Float(float) => float.to_string(),
        _ => return Err(wants("a number", value)),
    };
    text.parse().map_err(|_| WrongValue {
        problem: format!("cannot be {text}"),
        help: Some(
            "it is a number above 0, of 12 digits and 6 decimal places at most, such as 0.25".to_owned(),
        ),
    })
}

/// A probability.
///
/// # Errors
/// The value is no number from 0 to 1.
pub(super) fn probability(value: &DeValue<'_>) -> Result<Probability, WrongValue> {
    let text = match value {
        DeValue::Integer(integer) => integer.to_string(),
        DeValue::Float(float) => float.to_string(),
        _ => return Err(wants("a number from 0 to 1", value)),
    };
    text.parse().map_err(|_| WrongValue {
        problem: format!("cannot be {text}"),
        help: Some("it is a probability: a number from 0 to 1, for example 0.1".to_owned()),
    })
}

/// A special token of a tokenizer from a file, with or without its id.
pub(super) fn special_token(value: &DeValue<'_>) -> Result<SpecialToken, WrongValue> {
    Ok(SpecialToken::from(&*text(value)?))
}

/// A value chosen by name.
///
/// # Errors
/// The value is no string, or no known name.
pub(super) fn choice<T: Choice>(value: &DeValue<'_>) -> Result<T, WrongValue> {
    let name = value.as_str().ok_or_else(|| wants(&format!("one of {}", listed::<T>()), value))?;
    named(name).ok_or_else(|| not_among::<T>(name, ""))
}

/// A split pattern by name, or as `{ regex = "…" }`.
pub(super) fn split(value: &DeValue<'_>) -> Result<SplitPattern, WrongValue> {
    named_or_table(value, "regex", SplitPattern::from_regex)
}

/// A stage of training.
///
/// # Errors
/// The value is no table of the form, or one of its keys has a wrong value.
pub(super) fn stage(value: &DeValue<'_>) -> Result<StageKeys, WrongValue> {
    /// The form of a stage, for messages.
    const FORM: &str = "{ split = \"gpt4\", vocab_size = 100000 }, perhaps with max_words";
    let form = || WrongValue { problem: format!("takes tables of the form {FORM}"), help: None };
    let table = value.as_table().ok_or_else(form)?;
    if table.keys().any(|key| !["split", "vocab_size", "max_words"].contains(&&**key.get_ref())) {
        return Err(form());
    }
    let of_key = |key: &str, wrong: WrongValue| WrongValue {
        problem: format!("has a stage whose `{key}` {}", wrong.problem),
        help: wrong.help,
    };
    let key = |key: &str| table.get(key).map(|value| value.get_ref());
    let number = |name: &str| key(name).map(|value| whole(value).map_err(|wrong| of_key(name, wrong)));
    Ok(StageKeys {
        split: split(key("split").ok_or_else(form)?).map_err(|wrong| of_key("split", wrong))?,
        vocab_size: number("vocab_size").ok_or_else(form)??,
        max_words: number("max_words").transpose()?,
    })
}

/// A score by name, or as `{ conditional = { p = …, q = …, r = … } }`.
///
/// # Errors
/// The value has none of the forms, or a power is not from 0 to 3.
pub(super) fn score(value: &DeValue<'_>) -> Result<Score, WrongValue> {
    /// The form of a score with powers, for messages.
    const FORM: &str = "{ conditional = { p = 1, q = 1, r = 1 } } with numbers from 0 to 3";
    match value {
        DeValue::String(name) => name.parse().map_err(|_| WrongValue {
            problem: format!("cannot be {name:?}"),
            help: Some(format!("it can be \"count\", \"count-length\" or {FORM}")),
        }),
        DeValue::Table(table) => conditional(table)
            .ok_or_else(|| WrongValue { problem: format!("takes a table of the form {FORM}"), help: None }),
        _ => Err(wants(&format!("\"count\", \"count-length\" or {FORM}"), value)),
    }
}

/// The powers of a conditional score; `None` if the table has another form, or a power is out of range.
fn conditional(table: &DeTable<'_>) -> Option<Score> {
    let powers = table.get("conditional").filter(|_| table.len() == 1)?.get_ref().as_table()?;
    let power = |name| u8::try_from(whole(powers.get(name)?.get_ref()).ok()?).ok();
    let (p, q, r) = (power("p")?, power("q")?, power("r")?);
    (powers.len() == 3).then_some(())?;
    Powers::new(p, q, r).map(Score::Conditional)
}

/// A rule that divides a text into documents: by name, or as `{ separator = "…" }`.
pub(super) fn documents(value: &DeValue<'_>) -> Result<DocumentRule, WrongValue> {
    named_or_table(value, "separator", |text| DocumentRule::Separator(text.to_owned()))
}

/// `false`, or the text of a token.
///
/// # Errors
/// The value is `true`, or neither `false` nor a string.
pub(super) fn token(value: &DeValue<'_>) -> Result<Option<String>, WrongValue> {
    match value {
        DeValue::Boolean(false) => Ok(None),
        DeValue::String(token) => Ok(Some(token.clone().into_owned())),
        DeValue::Boolean(true) => Err(WrongValue {
            problem: "does not say which token".to_owned(),
            help: Some("write the special token itself, such as \"<|endoftext|>\"".to_owned()),
        }),
        _ => Err(wants("false or a special token", value)),
    }
}

/// A value chosen by name, or made by `of_text` of the string in a table with this single key.
///
/// # Errors
/// The name is unknown, or the table has another form.
fn named_or_table<T: Choice>(
    value: &DeValue<'_>,
    key: &str,
    of_text: fn(&str) -> T,
) -> Result<T, WrongValue> {
    let or = format!(" or {{ {key} = \"…\" }}");
    match value {
        DeValue::String(name) => named(name).ok_or_else(|| not_among::<T>(name, &or)),
        DeValue::Table(table) => {
            let only = table.get(key).filter(|_| table.len() == 1);
            only.and_then(|text| text.get_ref().as_str()).map(of_text).ok_or_else(|| WrongValue {
                problem: format!("takes a table of the form {{ {key} = \"…\" }}"),
                help: None,
            })
        }
        _ => Err(wants(&format!("one of {}{or}", listed::<T>()), value)),
    }
}

/// The error for an unknown name. It suggests the nearest known name, and lists all; `or` is another form that may be
/// used.
fn not_among<T: Choice>(name: &str, or: &str) -> WrongValue {
    let mut help =
        nearest(name, names::<T>()).map_or_else(String::new, |near| format!("did you mean {near:?}? "));
    help.push_str(&format!("it can be {}{or}", listed::<T>()));
    WrongValue { problem: format!("cannot be {name:?}"), help: Some(help) }
}

/// All names of a type of choices, quoted and separated by commas.
fn listed<T: Choice>() -> String {
    names::<T>().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}
