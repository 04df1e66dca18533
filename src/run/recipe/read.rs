//! Reads the text of recipes.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::choice::nearest;
use super::value::{self, Parse, Wrong};
use super::{
    EncodeKeys, Field, Given, MOST_TOLD, Mistake, Mistakes, Origin, OutputKeys, Recipe, RunKeys, SampleKeys,
    SourceKeys, TrainKeys,
};

/// Number of places to report in a text that is not TOML. A text that was never meant as TOML is wrong in every line.
const MOST_NO_TOML: usize = 10;

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
/// The text is not TOML: the first places where it is not.
pub fn read(path: &str, text: &str) -> Result<Recipe, Mistakes> {
    let mut recipe = Recipe::empty(Origin::File { path: path.to_owned(), text: text.to_owned() });
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let syntax =
            |error: &toml::de::Error| Mistake::new(None, error.span(), error.message().replace('\n', "; "));
        let more = errors.len().saturating_sub(MOST_NO_TOML);
        let more =
            (more > 0).then(|| Mistake::new(None, None, format!("invalid TOML in {more} more places")));
        let first = errors.iter().take(MOST_NO_TOML).map(syntax);
        return Err(Mistakes::new(recipe.origin, first.chain(more).collect()));
    }
    let mut mistakes = Vec::new();
    sections(&mut recipe, Table { span: None, entries: table.get_ref() }, &mut mistakes);
    recipe.mistakes = mistakes;
    Ok(recipe)
}

/// Reads all sections. Sections with unknown names are reported.
fn sections(recipe: &mut Recipe, root: Table<'_, '_>, mistakes: &mut Vec<Mistake>) {
    let mut root = Section::open("", root, mistakes);
    let sources = root.tables("source");
    let [sample, train, encode, output, run] =
        ["sample", "train", "encode", "output", "run"].map(|name| root.tables(name).pop());
    root.finish();
    for table in sources {
        recipe.sources.push(read_source(Section::open("source", table, mistakes)));
    }
    if let Some(table) = sample {
        recipe.sample = read_sample(Section::open("sample", table, mistakes));
    }
    recipe.train = train.map(|table| read_train(Section::open("train", table, mistakes)));
    recipe.encode = encode.map(|table| read_encode(Section::open("encode", table, mistakes)));
    if let Some(table) = output {
        recipe.output = read_output(Section::open("output", table, mistakes));
    }
    if let Some(table) = run {
        recipe.run = read_run(Section::open("run", table, mistakes));
    }
}

fn read_source(mut section: Section<'_, '_, '_>) -> SourceKeys {
    let keys = SourceKeys {
        span: section.table.span.clone(),
        uri: section.get("uri", value::text),
        column: section.get("column", value::text),
        template: section.get("template", value::text),
        join: section.get("join", value::text),
        format: section.get("format", value::choice),
        documents: section.get("documents", value::documents),
        weight: section.get("weight", value::weight),
        take: section.get("take", value::whole),
        max_bytes: section.get("max_bytes", value::bytes),
        stream: section.get("stream", value::truth),
        on_bad_input: section.get("on_bad_input", value::choice),
    };
    section.finish();
    keys
}

fn read_sample(mut section: Section<'_, '_, '_>) -> SampleKeys {
    let keys = SampleKeys {
        every: section.get("every", value::whole),
        shuffle_buffer: section.get("shuffle_buffer", value::whole),
        seed: section.get("seed", value::whole),
        skip: section.get("skip", value::whole),
        take: section.get("take", value::whole),
        max_bytes: section.get("max_bytes", value::bytes),
    };
    section.finish();
    keys
}

fn read_train(mut section: Section<'_, '_, '_>) -> TrainKeys {
    let keys = TrainKeys {
        span: section.table.span.clone(),
        split: section.get("split", value::split),
        boundary: section.get("boundary", value::choice),
        vocab_size: section.one_or_more("vocab_size", value::whole),
        merges: section.get("merges", value::whole),
        min_frequency: section.get("min_frequency", value::count),
        max_token_bytes: section.get("max_token_bytes", value::whole),
        tie_break: section.get("tie_break", value::choice),
        score: section.get("score", value::score),
        special_tokens: section.list("special_tokens", value::text).map_or_else(Vec::new, |list| list.value),
        special_tokens_at: section.get("special_tokens_at", value::choice),
        bos: section.get("bos", value::token),
        eos: section.get("eos", value::token),
        pad: section.get("pad", value::token),
        unk: section.get("unk", value::token),
        mask: section.get("mask", value::token),
        model_max_length: section.get("model_max_length", value::whole),
        chat_template: section.get("chat_template", value::text),
        kept: serde_json::Map::new(),
        history_every: section.get("history_every", value::whole),
        formats: section.list("formats", value::choice),
    };
    section.finish();
    keys
}

fn read_encode(mut section: Section<'_, '_, '_>) -> EncodeKeys {
    let keys = EncodeKeys {
        span: section.table.span.clone(),
        tokenizer: section.get("tokenizer", value::text),
        split: section.get("split", value::split),
        special_tokens: section
            .list("special_tokens", value::special_token)
            .map_or_else(Vec::new, |list| list.value),
        documents: section.get("documents", value::choice),
        columns: section.list("columns", value::text).map_or_else(Vec::new, |list| list.value),
        special: section.get("special", value::choice),
        missing_bytes: section.get("missing_bytes", value::choice),
        bos: section.get("bos", value::token),
        eos: section.get("eos", value::token),
        pack: section.get("pack", value::choice),
        length: section.get("length", value::whole),
        compression: section.get("compression", value::choice),
    };
    section.finish();
    keys
}

fn read_output(mut section: Section<'_, '_, '_>) -> OutputKeys {
    let keys = OutputKeys {
        dir: section.get("dir", value::text),
        split_name: section.get("split_name", value::text),
        file_text_bytes: section.get("file_text_bytes", value::bytes),
        one_file: section.get("one_file", value::truth),
        format: section.get("format", value::choice),
    };
    section.finish();
    keys
}

fn read_run(mut section: Section<'_, '_, '_>) -> RunKeys {
    let keys = RunKeys {
        threads: section.get("threads", value::whole),
        memory: section.get("memory", value::bytes),
    };
    section.finish();
    keys
}

/// A table of the recipe and its place.
struct Table<'t, 'i> {
    span: Option<Range<usize>>,
    entries: &'t DeTable<'i>,
}

/// A table while it is read. It remembers the keys that were asked for, so that all other keys can be reported as
/// unknown.
struct Section<'m, 't, 'i> {
    /// The name of the section; empty for the table of sections.
    name: &'static str,
    table: Table<'t, 'i>,
    known: Vec<&'static str>,
    mistakes: &'m mut Vec<Mistake>,
}

impl<'m, 't, 'i> Section<'m, 't, 'i> {
    fn open(name: &'static str, table: Table<'t, 'i>, mistakes: &'m mut Vec<Mistake>) -> Section<'m, 't, 'i> {
        Section { name, table, known: Vec::new(), mistakes }
    }

    /// The value of a key and its place. Marks the key as known.
    fn find(&mut self, key: &'static str) -> Option<(Range<usize>, &'t DeValue<'i>)> {
        self.known.push(key);
        let (_, found) = self.table.entries.iter().find(|(name, _)| name.get_ref() == key)?;
        Some((found.span(), found.get_ref()))
    }

    /// Records the mistake of a value, unless there are [`MOST_TOLD`] already.
    fn wrong(&mut self, key: &'static str, span: Range<usize>, wrong: Wrong) {
        let message = format!("`{key}` {}", wrong.problem);
        if self.mistakes.len() < MOST_TOLD {
            self.mistakes.push(Mistake { help: wrong.help, ..Mistake::new(Some(key), Some(span), message) });
        }
    }

    /// The value of a key. A value of the wrong type is reported, and the key counts as left out.
    fn get<T>(&mut self, key: &'static str, parse: Parse<T>) -> Field<T> {
        let (span, found) = self.find(key)?;
        match parse(found) {
            Ok(value) => Some(Given { value, span: Some(span) }),
            Err(wrong) => {
                self.wrong(key, span, wrong);
                None
            }
        }
    }

    /// The values of a key that takes a list. Values of the wrong type are reported one by one, and left out.
    fn list<T>(&mut self, key: &'static str, parse: Parse<T>) -> Field<Vec<Given<T>>> {
        let (span, found) = self.find(key)?;
        let Some(items) = found.as_array() else {
            let problem = format!("must be a list in square brackets, not a {}", found.type_str());
            self.wrong(key, span, Wrong { problem, help: None });
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

    /// The tables of a section: one, or any number for `source`.
    fn tables(&mut self, key: &'static str) -> Vec<Table<'t, 'i>> {
        let Some((span, found)) = self.find(key) else { return Vec::new() };
        let one = |span, found: &'t DeValue<'i>| Some(Table { span: Some(span), entries: found.as_table()? });
        let tables: Option<Vec<_>> = match found {
            DeValue::Array(items) if key == "source" => {
                items.iter().map(|item| one(item.span(), item.get_ref())).collect()
            }
            _ => one(span.clone(), found).map(|table| vec![table]),
        };
        tables.unwrap_or_else(|| {
            let problem = format!("must be a section: write [{key}] on a line of its own");
            self.wrong(key, span, Wrong { problem, help: None });
            Vec::new()
        })
    }

    /// Reports keys that nobody asked for.
    fn finish(self) {
        for key in self.table.entries.keys() {
            let name: &str = key.get_ref();
            if self.known.contains(&name) {
                continue;
            }
            if self.mistakes.len() == MOST_TOLD {
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
