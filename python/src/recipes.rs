//! Recipes from Python, and whole jobs by them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
use serde_json::Value;
use tokenmill::cli::{
    hub, outcome_as_json, plan_as_json, pushed_as_json, read_text, stores, system_environment,
};
use tokenmill::report::RecipeFacts;
use tokenmill::run::recipe::{self, Command, Given, Origin};
use tokenmill::run::{
    Environment, JobOptions, Outcome, Plan, Recipe, job, plan as planned, preview, push_result,
};
use tokenmill::sink::merge_shards;
use tokenmill::source::{OpenContext, ReadConfig, without_secrets};
use tokenmill::{Error, Result, Vocabulary};

use crate::job::{self as jobs, Watcher};
use crate::pool::pool;
use crate::text::Text;
use crate::tokenizer::Tokenizer;

/// The name of a recipe that is not from a file, in messages and reports.
const UNNAMED: &str = "recipe";

/// The number of threads of a call.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// The number of threads.
    pub(crate) threads: usize,
    /// Whether the call names it. Otherwise a recipe may have another one.
    is_given: bool,
}

impl Limits {
    /// The limits of a call.
    ///
    /// # Errors
    /// The number of threads is out of range, or the system does not start them.
    pub(crate) fn of(py: Python<'_>, threads: Option<usize>) -> PyResult<Limits> {
        let is_given = threads.is_some();
        Ok(Limits { threads: pool(py, threads)?.current_num_threads(), is_given })
    }

    /// A recipe with the number of threads of the call, if it names one.
    fn limited(&self, recipe: &Recipe) -> Recipe {
        let mut recipe = recipe.clone();
        if self.is_given {
            // More than 1 024 were refused before.
            recipe.run.threads = u64::try_from(self.threads).ok().map(Given::flag);
        }
        recipe
    }

    /// The plan of a recipe.
    ///
    /// # Errors
    /// All mistakes of the recipe.
    pub(crate) fn plan(&self, recipe: &Recipe) -> Result<Plan> {
        let environment = Environment { threads: self.threads, ..system_environment() };
        Ok(planned(&self.limited(recipe), &environment)?)
    }
}

/// A recipe with its name and text, which reports show.
struct ReadRecipe {
    name: String,
    text: String,
    recipe: Recipe,
}

impl ReadRecipe {
    /// Reads a recipe: from a file, or else from JSON. `overrides` has other values for some of its keys, as JSON.
    ///
    /// # Errors
    /// The file cannot be read, or a recipe has values that TOML lacks.
    fn read(path: Option<&Path>, json: &[u8], overrides: &[u8], watcher: &Watcher) -> Result<ReadRecipe> {
        let (name, text) = match path {
            Some(path) => {
                let name = path.display().to_string();
                let text = read_text(&name, &*watcher.stop_callback())?;
                (name, text)
            }
            None => (UNNAMED.to_owned(), toml_of(json)?),
        };
        let overrides = toml_of(overrides)?;
        if overrides.is_empty() {
            return Ok(ReadRecipe { recipe: recipe::read(&name, &text)?, name, text });
        }
        let recipe = recipe::read_with(&name, &text, &overrides)?;
        Ok(ReadRecipe { name, text: recipe.to_toml()?, recipe })
    }
}

/// The recipe that the arguments of a function amount to, which are given as JSON.
///
/// # Errors
/// An argument has a value that TOML lacks.
pub(crate) fn from_arguments(json: &[u8], command: Command) -> Result<Recipe> {
    let recipe = recipe::read(UNNAMED, &toml_of(json)?)?;
    Ok(Recipe { origin: Origin::Arguments(command), ..recipe })
}

/// JSON as TOML.
///
/// # Errors
/// It is no JSON, or has values that TOML lacks.
fn toml_of(json: &[u8]) -> Result<String> {
    let recipe: Value = serde_json::from_slice(json)
        .map_err(|cause| Error::usage(format!("the recipe is not JSON: {cause}")))?;
    toml::to_string(&recipe).map_err(|cause| {
        Error::usage(format!("the recipe has a value that recipes lack: {cause}")).with_help(
            "give tables, lists, texts, numbers and truth values; leave keys out instead of giving None",
        )
    })
}

/// How the sources of a plan are opened.
pub(crate) fn context<'a>(plan: &Plan, watcher: &'a Watcher) -> OpenContext<'a> {
    let context = OpenContext::new(watcher);
    // As for the command line: half of the memory is for reading.
    let config = ReadConfig { window_bytes: plan.memory.0 / 2, readers: plan.threads, ..context.config };
    OpenContext { config, hub: hub(), stores: stores(), stop: watcher.stop_callback(), ..context }
}

/// Does the job of a plan, and pushes the result if the plan says so. Returns the outcome, and as JSON what was pushed.
///
/// # Errors
/// Those of [`job`] and [`push_result`].
fn done(plan: &Plan, options: &JobOptions, watcher: &Watcher) -> Result<(Outcome, Option<Value>)> {
    let outcome = job(plan, options, &context(plan, watcher))?;
    let pushed = push_result(plan, &hub(), watcher)?;
    Ok((outcome, pushed.as_ref().map(pushed_as_json)))
}

/// Runs a recipe, as the command `run` does, and returns a JSON object: what the command prints with `--json`.
///
/// `path` is the file of the recipe; if there is none, `json` is the recipe itself, as JSON. `overrides` has other values
/// for some of its keys.
#[pyfunction]
#[pyo3(signature = (path, json, overrides, *, threads=None, force=false, progress=None))]
pub(crate) fn run(
    py: Python<'_>,
    path: Option<PathBuf>,
    json: Text,
    overrides: Text,
    threads: Option<usize>,
    force: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let limits = Limits::of(py, threads)?;
    let work = move |watcher: &Watcher| {
        let ReadRecipe { name, text, recipe } =
            ReadRecipe::read(path.as_deref(), json.as_ref(), overrides.as_ref(), watcher)?;
        let plan = limits.plan(&recipe)?;
        let facts = RecipeFacts { name, text: without_secrets(&text), sha256: plan.recipe_hash.clone() };
        let options = JobOptions { recipe: facts, force, ..JobOptions::default() };
        let (outcome, pushed) = done(&plan, &options, watcher)?;
        let mut result = outcome_as_json(&outcome, &plan);
        if let Some(pushed) = pushed {
            result["pushed"] = pushed;
        }
        Ok(result.to_string())
    };
    jobs::run(py, Some(limits.threads), progress, |_, _| Ok(()), work)
}

/// Says what running a recipe would do, as the command `plan` does, and returns a JSON object: what the command prints
/// with `--json`. The arguments are those of `run`.
#[pyfunction]
#[pyo3(signature = (path, json, overrides, *, threads=None, progress=None))]
pub(crate) fn plan(
    py: Python<'_>,
    path: Option<PathBuf>,
    json: Text,
    overrides: Text,
    threads: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let limits = Limits::of(py, threads)?;
    let work = move |watcher: &Watcher| {
        let read = ReadRecipe::read(path.as_deref(), json.as_ref(), overrides.as_ref(), watcher)?;
        let (recipe, plan) = (limits.limited(&read.recipe), limits.plan(&read.recipe)?);
        let preview = preview(&plan, &context(&plan, watcher))?;
        Ok(plan_as_json(&recipe, &plan, &preview).to_string())
    };
    jobs::run(py, Some(limits.threads), progress, |_, _| Ok(()), work)
}

/// Encodes by a recipe, which is given as JSON, as the command `encode` does, and returns the manifest as JSON.
///
/// `call` is the call in Python, which the report shows. `tokenizer` takes the place of the recipe's.
#[pyfunction]
#[pyo3(signature = (json, call, *, tokenizer=None, threads=None, force=false, progress=None))]
pub(crate) fn encode(
    py: Python<'_>,
    json: Text,
    call: String,
    tokenizer: Option<&Bound<'_, Tokenizer>>,
    threads: Option<usize>,
    force: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let limits = Limits::of(py, threads)?;
    let vocabulary = |tokenizer: &Bound<'_, Tokenizer>| -> Arc<Vocabulary> {
        Arc::clone(tokenizer.get().shared.to_read().encoder().vocabulary())
    };
    let tokenizer = tokenizer.map(vocabulary);
    let work = move |watcher: &Watcher| {
        let plan = limits.plan(&from_arguments(json.as_ref(), Command::Encode)?)?;
        // Without a name, the text is taken for a command line.
        let (name, text, sha256) = (String::new(), without_secrets(&call), plan.recipe_hash.clone());
        let options = JobOptions { recipe: RecipeFacts { name, text, sha256 }, force, tokenizer };
        let (outcome, _) = done(&plan, &options, watcher)?;
        let manifest = serde_json::to_string(&outcome.manifest);
        manifest.map_err(|cause| Error::failed(format!("the manifest is no JSON: {cause}")))
    };
    jobs::run(py, Some(limits.threads), progress, |_, _| Ok(()), work)
}

/// Joins the outputs of all shards of a job to one data set, as the command `merge` does, and returns its manifest as
/// JSON.
#[pyfunction]
#[pyo3(signature = (folders, out))]
pub(crate) fn merge(py: Python<'_>, folders: Vec<PathBuf>, out: PathBuf) -> PyResult<String> {
    let work = move |watcher: &Watcher| {
        let merged = merge_shards(&folders, &out, watcher)?;
        let manifest = serde_json::to_string(&merged.manifest);
        manifest.map_err(|cause| Error::failed(format!("the manifest is no JSON: {cause}")))
    };
    jobs::run(py, None, None, |_, _| Ok(()), work)
}
