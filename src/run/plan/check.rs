//! Checks a recipe and completes it with defaults. Each check records its mistakes and continues, so that all are
//! reported together. Variables in paths are expanded, and relative paths resolved.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::{Environment, Plan};
use crate::base::int::{ByteCount, u64_to_usize};
use crate::base::integrity::sha256;
use crate::count::Boundary;
use crate::publish::{PushTarget, RepositoryKind};
use crate::run::recipe::{
    Command, Field, Given, Mistake, Mistakes, Origin, OutputKeys, Recipe, SampleKeys, SourceKeys,
};
use crate::sample::{SampleConfig, Weight, scale_weights};
use crate::source::{DocumentRule, InputShard, SourceSpec, check_template};

/// Number of threads, at most. More threads than any machine has cores slow each other down.
pub const MAX_THREADS: u64 = 1024;

/// Checks a recipe as a whole, and completes it with defaults. `environment` gives variables and defaults.
///
/// Nothing is written. The only file that is read is a chat template, and the path of a tokenizer is looked up.
///
/// ```
/// use tokenmill::run::recipe::{self, Mistakes};
/// use tokenmill::run::{Environment, plan};
/// use tokenmill::base::int::ByteCount;
///
/// let environment = Environment { variable: &|_| None, threads: 2, memory: ByteCount(1 << 30) };
/// let recipe = recipe::read("run.toml", "[source]\nuri = \"data/*.parquet\"\n[train]\nvocab_size = 100\n")?;
/// let mistakes = plan(&recipe, &environment).expect_err("two mistakes");
/// assert_eq!(mistakes.iter().len(), 2); // no [output], and too few tokens for the bytes
/// # Ok::<(), Mistakes>(())
/// ```
///
/// # Errors
/// All mistakes of the recipe, including those that were found when it was read. `?` turns them into an
/// [`Error`](crate::Error) of kind [`Usage`](crate::ErrorKind::Usage).
pub fn plan(recipe: &Recipe, environment: &Environment<'_>) -> Result<Plan, Mistakes> {
    let mut check = Check { origin: &recipe.origin, environment, mistakes: recipe.mistakes.clone() };
    let plan = check.recipe(recipe);
    if check.mistakes.is_empty() {
        Ok(plan)
    } else {
        Err(Mistakes::new(recipe.origin.clone(), check.mistakes))
    }
}

/// Bytes of the memory limit (1 MB), at least. The program itself takes more, so a lower value probably lacks a unit.
const MIN_MEMORY: ByteCount = ByteCount(1_000_000);

/// A recipe while it is checked. Each check returns a value to continue with, even if it finds a mistake.
pub(super) struct Check<'a> {
    /// Where the recipe was written. It decides how messages name keys, and how paths are resolved.
    pub(super) origin: &'a Origin,
    /// Variables and defaults from outside of the recipe.
    environment: &'a Environment<'a>,
    /// All mistakes so far, in the order in which they were found. They begin with those of reading.
    mistakes: Vec<Mistake>,
}

impl Check<'_> {
    /// Checks all sections. The plan is only of use if no mistakes are found.
    ///
    /// Weights are scaled here to whole numbers. The hash is computed last, from the complete plan.
    fn recipe(&mut self, recipe: &Recipe) -> Plan {
        self.sections(recipe);
        let weights: Vec<Weight> =
            recipe.sources.iter().map(|source| value_of(&source.weight).unwrap_or_default()).collect();
        let of_counts = recipe.counts.iter().map(|file| file.weight);
        let weights: Vec<Weight> = weights.into_iter().chain(of_counts).collect();
        let (output, destination) = self.output(recipe);
        let trained = recipe.train.as_ref().map(|train| self.train(train, recipe, &output));
        let mut plan = Plan {
            sources: recipe.sources.iter().map(|source| self.source(source)).collect(),
            counts: recipe.counts.iter().map(|file| PathBuf::from(&file.path)).collect(),
            weights: scale_weights(&weights),
            source_samples: recipe.sources.iter().map(source_sample).collect(),
            sample: self.sample(&recipe.sample),
            shard: self.shard(recipe),
            encode: recipe.encode.as_ref().map(|encode| self.encode(encode, recipe, trained.as_ref())),
            train: trained,
            push: self.push(recipe, destination.is_some()),
            output,
            destination,
            unused_keys: unused_keys(recipe),
            threads: self.threads(&recipe.run.threads),
            memory: self.memory(&recipe.run.memory),
            recipe_hash: String::new(),
            setting_hashes: BTreeMap::new(),
        };
        let development = self.development(recipe, &plan.sources);
        if let Some(parity) = plan.train.as_mut().and_then(|train| train.parity.as_mut()) {
            parity.development = development;
        }
        self.standard_input_once(recipe);
        self.weights_count(recipe);
        self.destination_apart(recipe, &plan);
        let uris: Vec<&str> =
            recipe.sources.iter().filter_map(|source| Some(source.uri.as_ref()?.value.as_str())).collect();
        super::hash_settings(&mut plan, &uris);
        plan
    }

    /// Reports missing sections.
    ///
    /// Commands may neither train nor encode, since some of them only count or read.
    fn sections(&mut self, recipe: &Recipe) {
        if recipe.sources.is_empty() && recipe.counts.is_empty() {
            self.missing("source", None, "no source of documents is given", "add [source] with a `uri`");
        }
        let nothing_to_do = recipe.train.is_none() && recipe.encode.is_none();
        if nothing_to_do && self.origin.command().is_none() && !self.is_wrong("encode") {
            self.missing(
                "train",
                None,
                "there is nothing to do",
                "add [train], or [encode] with a `tokenizer`",
            );
        }
    }

    /// Checks a source.
    ///
    /// Pass-through columns and the longest read stay empty. They are set when the source is opened.
    fn source(&mut self, keys: &SourceKeys) -> SourceSpec {
        if keys.uri.is_none() {
            self.missing(
                "uri",
                keys.span.clone(),
                "[source] has no `uri`",
                "it is a path, a folder, a glob, or demo:verse?lines=1000",
            );
        }
        if let Some(given @ Given { value: DocumentRule::Separator(separator), .. }) = &keys.documents
            && separator.is_empty()
        {
            self.wrong(
                "documents",
                given,
                "has an empty separator",
                "write the text that separates documents",
            );
        }
        if let Some(template) = &keys.template {
            if let Err(problem) = check_template(&template.value) {
                self.wrong("template", template, &problem, "write it as \"{title}: {text}\"");
            }
            if keys.column.is_some() {
                self.wrong("template", template, "cannot be combined with `column`", "leave one of them out");
            }
        }
        SourceSpec {
            longest_read: None,
            uri: keys.uri.as_ref().map_or_else(String::new, |uri| self.path("uri", uri)),
            column: value_of(&keys.column),
            template: value_of(&keys.template),
            join: value_of(&keys.join),
            format: value_of(&keys.format),
            documents: value_of(&keys.documents).unwrap_or_default(),
            stream: value_of(&keys.stream).unwrap_or_default(),
            on_bad_input: value_of(&keys.on_bad_input).unwrap_or_default(),
            columns: Vec::new(),
        }
    }

    /// Reports weights if nothing is counted: they multiply counts.
    fn weights_count(&mut self, recipe: &Recipe) {
        let counted = recipe.train.is_some();
        for weight in recipe.sources.iter().filter_map(|source| source.weight.as_ref()).filter(|_| !counted) {
            let help = "leave it out: each document is taken once";
            self.wrong("weight", weight, "multiplies counts, but nothing is counted", help);
        }
    }

    /// Reports a second source that reads standard input.
    fn standard_input_once(&mut self, recipe: &Recipe) {
        let inputs = recipe.sources.iter().filter_map(|source| source.uri.as_ref());
        if let Some(second) = inputs.filter(|uri| uri.value == "-").nth(1) {
            self.wrong(
                "uri",
                second,
                "names standard input twice, which can be read only once",
                "save it to a file first",
            );
        }
    }

    /// Checks the sample. `every` must be at least 1.
    fn sample(&mut self, keys: &SampleKeys) -> SampleConfig {
        SampleConfig {
            every: self.at_least_one("every", &keys.every).unwrap_or(1),
            shuffle_buffer: value_of(&keys.shuffle_buffer).unwrap_or(0),
            seed: value_of(&keys.seed).unwrap_or(0),
            skip: value_of(&keys.skip).unwrap_or(0),
            take: value_of(&keys.take),
            max_bytes: value_of(&keys.max_bytes).map(|ByteCount(bytes)| bytes),
        }
    }

    /// The shard. Reports a recipe whose result is not that of its shards together.
    fn shard(&mut self, recipe: &Recipe) -> Option<InputShard> {
        let given = recipe.run.shard.as_ref()?;
        let expanded = self.expanded("shard", given);
        let shard = match expanded.parse::<InputShard>() {
            _ if self.is_wrong("shard") => return None,
            Ok(shard) => shard,
            Err(error) => {
                let help = error.help().unwrap_or_default().to_owned();
                self.wrong("shard", given, &format!("is wrong: {error}"), &help);
                return None;
            }
        };
        if recipe.train.is_some() && self.origin.command() != Some(Command::Count) {
            let help =
                "count the shards with `count`, sum the counts with `merge-counts`, and train from the sum";
            self.wrong("shard", given, "divides counting and encoding, and this recipe trains", help);
        }
        let Recipe { sources, sample, train, output, .. } = recipe;
        let order =
            "a shard has all documents of its part of the input: leave it out, or write the sample to files";
        self.not_of_shard("every", sample.every.as_ref().filter(|given| given.value > 1), order);
        self.not_of_shard(
            "shuffle_buffer",
            sample.shuffle_buffer.as_ref().filter(|given| given.value > 0),
            order,
        );
        self.not_of_shard("skip", sample.skip.as_ref().filter(|given| given.value > 0), order);
        self.not_of_shard("take", sample.take.as_ref(), order);
        self.not_of_shard("max_bytes", sample.max_bytes.as_ref(), order);
        for source in sources {
            self.not_of_shard("take", source.take.as_ref(), order);
            self.not_of_shard("max_bytes", source.max_bytes.as_ref(), order);
            let stream = source.uri.as_ref().filter(|uri| uri.value == "-");
            self.not_of_shard("uri", stream, "standard input cannot be divided: write it to a file first");
        }
        let boundary = train.as_ref().and_then(|train| train.boundary.as_ref());
        let joined = boundary.filter(|given| given.value == Boundary::Join);
        self.not_of_shard("boundary", joined, "pre-tokens that go on into the next document would be cut");
        let one_file = output.one_file.as_ref().filter(|given| given.value);
        self.not_of_shard("one_file", one_file, "`merge` joins folders of several files");
        let in_store = output.dir.as_ref().filter(|dir| is_in_store(&dir.value));
        self.not_of_shard("dir", in_store, "`merge` joins folders: name a folder");
        self.not_of_shard("push", output.push.as_ref(), "push the folder that `merge` writes");
        Some(shard)
    }

    /// Reports a key that a shard cannot have, if it is given.
    fn not_of_shard<T>(&mut self, key: &'static str, given: Option<&Given<T>>, help: &str) {
        if let Some(given) = given {
            let problem = format!("cannot be combined with {}", self.origin.name("shard"));
            self.wrong(key, given, &problem, help);
        }
    }

    /// The output folder, and its destination if the output is for an object store. The folder is relative to the
    /// working directory, wherever the recipe file is. It is empty for commands that write no folder.
    fn output(&mut self, recipe: &Recipe) -> (PathBuf, Option<String>) {
        if matches!(self.origin.command(), Some(Command::Count | Command::Verify | Command::Read)) {
            return (PathBuf::new(), None);
        }
        let OutputKeys { dir, staging, .. } = &recipe.output;
        match dir {
            Some(dir) if dir.value.is_empty() => {
                self.wrong("dir", dir, "is empty", "write the folder for the results");
                (PathBuf::new(), None)
            }
            Some(dir) => {
                let place = self.expanded("dir", dir);
                if is_in_store(&place) {
                    let destination = self.destination(dir, &place);
                    return (self.staging(staging.as_ref(), &destination), Some(destination));
                }
                if let Some(staging) = staging {
                    let problem = "is only for an output in an object store";
                    self.wrong("staging", staging, problem, "leave it out");
                }
                (PathBuf::from(place), None)
            }
            None => {
                self.missing("dir", None, "no output folder is given", "add [output] with a `dir`");
                (PathBuf::new(), None)
            }
        }
    }

    /// The address of an output in an object store, without a slash at its end. Reports an address without a
    /// bucket, a path that no object can have, and commands that write only to folders.
    fn destination(&mut self, dir: &Given<String>, place: &str) -> String {
        let place = place.trim_end_matches('/');
        if self.origin.command() == Some(Command::Train) {
            let help =
                "write to a folder and copy it, or give a recipe to `run`, which writes to object stores";
            self.wrong("dir", dir, "must be a folder for `train`", help);
        }
        let (_, path) = place.split_once("://").unwrap_or_default();
        let is_plain = |part: &str| {
            !matches!(part, "" | "." | "..")
                && !part.contains(|letter: char| letter.is_control() || "*?[]\\{}^%`\"<>~#|".contains(letter))
        };
        if !path.split('/').all(is_plain) {
            let help =
                "write it like s3://BUCKET/PATH, gs://BUCKET/PATH or az://CONTAINER/PATH, without wildcards";
            self.wrong("dir", dir, "does not name a place in an object store", help);
        }
        place.to_owned()
    }

    /// The folder in which an output for an object store is written: the given one, or one in the user's cache that
    /// belongs to the destination. Reports that neither is known.
    fn staging(&mut self, given: Option<&Given<String>>, destination: &str) -> PathBuf {
        /// Hex digits of the hash in the folder's name.
        const DIGITS: usize = 16;
        match given {
            Some(folder) => {
                let path = self.expanded("staging", folder);
                if path.is_empty() || path.contains("://") {
                    self.wrong("staging", folder, "must be a local folder", "write the path of a folder");
                }
                PathBuf::from(path)
            }
            None => match user_cache(self.environment.variable) {
                Some(cache) => cache.join("tokenmill").join("staging").join(&sha256(destination)[..DIGITS]),
                None => {
                    let problem =
                        "no local folder is known in which the output can be written before it moves";
                    let help = "add `staging` to [output] (--staging), or set HOME";
                    self.missing("staging", None, problem, help);
                    PathBuf::new()
                }
            },
        }
    }

    /// Reports a destination inside a source, or the other way round: the job would read its own results.
    fn destination_apart(&mut self, recipe: &Recipe, plan: &Plan) {
        let (Some(destination), Some(dir)) = (&plan.destination, &recipe.output.dir) else { return };
        let inside = |one: &str, other: &str| {
            one.strip_prefix(other.trim_end_matches('/'))
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let mut uris = plan.sources.iter().map(|source| &source.uri);
        if let Some(uri) = uris.find(|uri| inside(destination, uri) || inside(uri, destination)) {
            let problem = format!("would have the results and the input {uri} in one place");
            self.wrong("dir", dir, &problem, "choose a place outside of the input");
        }
    }

    /// The repository to push to. Token ids go to a dataset; a tokenizer alone may go to a model or a dataset. The
    /// files of an output in an object store are no longer here, so they cannot be pushed.
    fn push(&mut self, recipe: &Recipe, has_destination: bool) -> Option<PushTarget> {
        let given = recipe.output.push.as_ref()?;
        if has_destination {
            let help = "write the output to a folder, from which it is pushed, or leave `push` out";
            self.wrong("push", given, "has no effect on an output in an object store", help);
            return None;
        }
        let expanded = self.expanded("push", given);
        match expanded.parse::<PushTarget>() {
            _ if self.is_wrong("push") => None,
            Ok(target) if recipe.encode.is_some() && target.kind != RepositoryKind::Dataset => {
                let help = format!("write hf://datasets/{}/{}", target.namespace, target.name);
                self.wrong(
                    "push",
                    given,
                    "names a repository for a model, and the result is a dataset",
                    &help,
                );
                None
            }
            Ok(target) => Some(target),
            Err(error) => {
                let help = error.help().unwrap_or_default().to_owned();
                self.wrong("push", given, "does not name a repository of the hub", &help);
                None
            }
        }
    }

    /// A path or URI with its variables expanded, relative to the working directory.
    ///
    /// Addresses, standard input and generated text are returned as they are, apart from variables.
    pub(super) fn path(&mut self, key: &'static str, given: &Given<String>) -> String {
        if given.value.is_empty() {
            self.wrong(key, given, "is empty", "write a path");
        }
        let expanded = self.expanded(key, given);
        match self.origin {
            Origin::File { path: recipe, .. } if !is_elsewhere(&expanded) => {
                from_recipe(recipe, &given.value, &expanded, key == "uri")
            }
            _ => expanded,
        }
    }

    /// Expands the variables of a recipe's value. Values of flags and arguments are taken literally,
    /// since a shell or a program expands variables in them. After a mistake the value is returned unchanged.
    fn expanded(&mut self, key: &'static str, given: &Given<String>) -> String {
        if self.origin.command().is_some() {
            return given.value.clone();
        }
        expand(&given.value, self.environment.variable).unwrap_or_else(|problem| {
            match problem {
                Unexpanded::Unset(name) => {
                    let problem = format!("needs the variable {name}, which is not set");
                    self.wrong(
                        key,
                        given,
                        &problem,
                        &format!("set it in the environment: {name}=… tokenmill run …"),
                    );
                }
                Unexpanded::Malformed => {
                    self.wrong(key, given, "has a `${` without a name and `}`", "write ${NAME}")
                }
            }
            given.value.clone()
        })
    }

    /// The value of a key for which 0 makes no sense. Reports 0. `None` means that the key was left out.
    pub(super) fn at_least_one(&mut self, key: &'static str, field: &Field<u64>) -> Option<u64> {
        let given = field.as_ref()?;
        if given.value == 0 {
            self.wrong(key, given, "cannot be 0", "it is 1 or more");
        }
        Some(given.value)
    }

    /// Number of threads: by default the number in the environment. Reports 0 and more than [`MAX_THREADS`].
    fn threads(&mut self, field: &Field<u64>) -> usize {
        let threads = self.at_least_one("threads", field);
        if let Some(given) = field.as_ref().filter(|given| given.value > MAX_THREADS) {
            let problem = format!("{} is more than {MAX_THREADS}", given.value);
            self.wrong("threads", given, &problem, "one for each core is enough");
        }
        threads.map_or(self.environment.threads, u64_to_usize)
    }

    /// Memory limit in bytes: by default the limit in the environment. Reports less than [`MIN_MEMORY`].
    fn memory(&mut self, field: &Field<ByteCount>) -> ByteCount {
        if let Some(given) = field.as_ref().filter(|given| given.value < MIN_MEMORY) {
            let problem = format!("is {}, but the program itself needs more", given.value);
            self.wrong("memory", given, &problem, "is a unit missing? Write it like 800MB or 8GB");
        }
        value_of(field).unwrap_or(self.environment.memory)
    }

    /// Reports a wrong value. The message is the name of the key followed by `problem`.
    pub(super) fn wrong<T>(&mut self, key: &'static str, given: &Given<T>, problem: &str, help: &str) {
        let message = format!("{} {problem}", self.origin.name(key));
        let help = Some(help.to_owned());
        self.mistakes.push(Mistake { help, ..Mistake::new(Some(key), given.span.clone(), message) });
    }

    /// Reports a missing key, unless a wrong value of it has been reported.
    pub(super) fn missing(
        &mut self,
        key: &'static str,
        place: Option<Range<usize>>,
        problem: &str,
        help: &str,
    ) {
        if !self.is_wrong(key) {
            let help = Some(help.to_owned());
            self.mistakes.push(Mistake { help, ..Mistake::new(Some(key), place, problem.to_owned()) });
        }
    }

    /// Whether a mistake about this key has been reported.
    pub(super) fn is_wrong(&self, key: &str) -> bool {
        self.mistakes.iter().any(|mistake| mistake.key == Some(key))
    }
}

/// Keys for data files that the recipe sets although it writes none.
///
/// Notes name them when the inputs are opened. They are no mistakes.
fn unused_keys(recipe: &Recipe) -> Vec<&'static str> {
    let OutputKeys { format, split_name, file_text_bytes, one_file, .. } = &recipe.output;
    let given = [
        ("format", format.is_some()),
        ("split_name", split_name.is_some()),
        ("file_text_bytes", file_text_bytes.is_some()),
        ("one_file", one_file.is_some()),
    ];
    given.into_iter().filter(|(_, given)| *given && recipe.encode.is_none()).map(|(key, _)| key).collect()
}

/// Returns the sample of one source. Only `take` and `max_bytes` apply to it. Without them, everything is taken.
fn source_sample(keys: &SourceKeys) -> SampleConfig {
    SampleConfig {
        take: value_of(&keys.take),
        max_bytes: value_of(&keys.max_bytes).map(|ByteCount(bytes)| bytes),
        ..SampleConfig::default()
    }
}

/// The value of a key; `None` if it was left out.
pub(super) fn value_of<T: Clone>(field: &Field<T>) -> Option<T> {
    field.as_ref().map(|given| given.value.clone())
}

/// Why the variables of a path cannot be expanded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unexpanded {
    /// A variable has no value.
    Unset(String),
    /// A `${` has no closing brace, or the braces are empty.
    Malformed,
}

/// Replaces each `${NAME}` by the value of the variable.
///
/// Values are inserted as they are: a `${` within a value is not expanded again.
///
/// # Errors
/// A variable is not set, or a `${` is malformed.
pub(super) fn expand(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, Unexpanded> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').ok_or(Unexpanded::Malformed)?;
        if name.is_empty() {
            return Err(Unexpanded::Malformed);
        }
        expanded.push_str(before);
        expanded.push_str(&variable(name).ok_or_else(|| Unexpanded::Unset(name.to_owned()))?);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Whether an output is for an object store, by its address.
fn is_in_store(place: &str) -> bool {
    ["s3://", "gs://", "az://"].iter().any(|scheme| place.starts_with(scheme))
}

/// The folder for files that programs can make again, by the variables of the system. `None` if they are not set.
fn user_cache(variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let path = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let given = path("XDG_CACHE_HOME").or_else(|| path("LOCALAPPDATA"));
    given.filter(|path| path.is_absolute()).or_else(|| Some(path("HOME")?.join(".cache")))
}

/// Whether a URI is not a path: standard input, generated text, or an address on a network.
pub(super) fn is_elsewhere(uri: &str) -> bool {
    uri == "-" || uri.starts_with("demo:") || uri.contains("://")
}

/// A path of a recipe, relative to the working directory. A relative path is relative to the folder of the recipe,
/// unless it begins with a variable. If the path is a pattern (`glob`), wildcard characters in the name of that
/// folder are escaped.
pub(super) fn from_recipe(recipe: &str, written: &str, expanded: &str, glob: bool) -> String {
    let folder = Path::new(recipe).parent().unwrap_or(Path::new(""));
    if written.starts_with("${") || folder.as_os_str().is_empty() {
        return expanded.to_owned();
    }
    let folder = folder.to_string_lossy();
    let has_wildcards = glob && expanded.contains(['*', '?', '[']);
    let folder = if has_wildcards { glob::Pattern::escape(&folder) } else { folder.into_owned() };
    Path::new(&folder).join(expanded).to_string_lossy().into_owned()
}
