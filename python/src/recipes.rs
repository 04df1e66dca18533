//! Whole jobs by recipes.

use std::fs;
use std::path::PathBuf;

use pyo3::prelude::*;
use serde_json::Value;
use tokenmill::base::int::ByteCount;
use tokenmill::cli::{hub, outcome_as_json, pushed_as_json, stores, system_environment};
use tokenmill::report::RecipeFacts;
use tokenmill::run::recipe::{self, Given};
use tokenmill::run::{JobOptions, Recipe, job, plan, push_result};
use tokenmill::source::{OpenContext, ReadConfig, without_secrets};
use tokenmill::{Error, Result};

use crate::errors::OrRaise;
use crate::job::{self as jobs, Watcher};
use crate::pool::pool;

/// The name of a recipe that is not from a file, in messages and reports.
const UNNAMED: &str = "recipe";

/// Runs a recipe, as the command `run` does, and returns a JSON object: what the command prints with `--json`.
///
/// `path` is the file of the recipe, and `json` the recipe itself, as JSON, if there is no file.
#[pyfunction]
#[pyo3(signature = (path, json, *, threads=None, memory=None, force=false, progress=None))]
pub(crate) fn run(
    py: Python<'_>,
    path: Option<PathBuf>,
    json: Option<String>,
    threads: Option<usize>,
    memory: Option<String>,
    force: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let memory = memory.map(|memory| memory.parse::<ByteCount>()).transpose().or_raise(py)?;
    let own_threads = threads.is_none();
    let threads = pool(py, threads)?.current_num_threads();
    let work = |watcher: &Watcher| {
        let (name, text) = text_of(path, json)?;
        let recipe = limited(recipe::read(&name, &text)?, threads, own_threads, memory)?;
        run_recipe(&name, &text, &recipe, force, watcher)
    };
    jobs::run(py, Some(threads), progress, |_, _| Ok(()), work)
}

/// The name and the text of a recipe, in TOML.
///
/// # Errors
/// The file cannot be read, or the recipe has values that TOML lacks.
fn text_of(path: Option<PathBuf>, json: Option<String>) -> Result<(String, String)> {
    if let Some(path) = path {
        let text = fs::read_to_string(&path).map_err(|cause| Error::io("read", &path, cause))?;
        return Ok((path.display().to_string(), text));
    }
    let recipe: Value = serde_json::from_str(&json.unwrap_or_default())
        .map_err(|cause| Error::usage(format!("the recipe is not JSON: {cause}")))?;
    let text = toml::to_string(&recipe).map_err(|cause| {
        Error::usage(format!("the recipe has a value that recipes lack: {cause}")).with_help(
            "give tables, lists, texts, numbers and truth values; leave keys out instead of giving None",
        )
    })?;
    Ok((UNNAMED.to_owned(), text))
}

/// A recipe with these limits in place of its own. It keeps a number of threads of its own if it has one and `keep` is
/// set.
///
/// # Errors
/// None is known.
fn limited(mut recipe: Recipe, threads: usize, keep: bool, memory: Option<ByteCount>) -> Result<Recipe> {
    let threads = u64::try_from(threads).map_err(|_| Error::usage("too many threads"))?;
    if !keep || recipe.run.threads.is_none() {
        recipe.run.threads = Some(Given::flag(threads));
    }
    if let Some(memory) = memory {
        recipe.run.memory = Some(Given::flag(memory));
    }
    Ok(recipe)
}

/// Runs a recipe, pushes the result if the recipe says so, and returns the outcome as JSON.
fn run_recipe(name: &str, text: &str, recipe: &Recipe, force: bool, watcher: &Watcher) -> Result<String> {
    let plan = plan(recipe, &system_environment())?;
    let facts =
        RecipeFacts { name: name.to_owned(), text: without_secrets(text), sha256: plan.recipe_hash.clone() };
    let context = OpenContext::new(watcher);
    // As for the command line: half of the memory is for reading.
    let config = ReadConfig { window_bytes: plan.memory.0 / 2, readers: plan.threads, ..context.config };
    let context =
        OpenContext { config, hub: hub(), stores: stores(), stop: watcher.stop_callback(), ..context };
    let outcome = job(&plan, &JobOptions { recipe: facts, force }, &context)?;
    let mut result = outcome_as_json(&outcome, &plan);
    if let Some(pushed) = push_result(&plan, &hub(), watcher)? {
        result["pushed"] = pushed_as_json(&pushed);
    }
    Ok(result.to_string())
}
