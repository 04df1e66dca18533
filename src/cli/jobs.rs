//! The commands that carry out a job, given a recipe or flags: `run`, `plan`, `train`, `encode`, `count`,
//! `merge-counts`, `merge`.
//!
//! The work itself is in [`tokenmill::run`]. These functions make a plan, call the library, and print the outcome: as
//! one JSON object on standard output with `--json`, and as messages on standard error.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokenmill::Error;
use tokenmill::base::int::{ByteCount, to_u64};
use tokenmill::count::WrittenSum;
use tokenmill::encode::Dropout;
use tokenmill::report::{EncodingFacts, Ratios, RecipeFacts, RunReport};
use tokenmill::run::recipe::CountsKeys;
use tokenmill::run::{
    Cluster, DiskNeed, ExistingOutput, JobOptions, Outcome, Plan, Preview, Recipe, SmallerPlan,
    SourcePreview, complete_from_counts, complete_from_tokenizer, count_only, job, preview_counting,
    preview_training, recipe, train_only,
};
use tokenmill::sample::{SampleConfig, Weight};
use tokenmill::sink::{MergedShards, Packing, merge_shards};
use tokenmill::source::without_secrets;
use tokenmill::split::SplitPattern;

use super::args::{CountArgs, EncodeArgs, MergeArgs, MergeCountsArgs, PlanArgs, RunArgs, TrainArgs};
use super::cluster::{WantedCluster, estimated};
use super::failure::Failure;
use super::flags;
use super::push::push_planned;
use super::session::{Done, Session, in_shell, open_context, print_as_is, read_text, tokenizer};
use super::terminal::{on_one_line, safe_line, with_unit};

/// Runs `run`: does everything that a recipe says and is not done yet. The recipe is read from a file or a pipe.
///
/// The report shows the recipe's text with secrets hidden. If the result is complete, the job only checks it.
///
/// # Errors
/// Mistakes in the recipe, and those of [`job`].
pub(super) fn run(args: &RunArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let interrupt = session.interrupt();
    let text = read_text(&args.recipe, &|| interrupt.is_asked())?;
    let plan = session.plan(recipe::read(&args.recipe, &text)?)?;
    let recipe = RecipeFacts {
        name: args.recipe.clone(),
        text: without_secrets(&text),
        sha256: plan.recipe_hash.clone(),
    };
    let options = JobOptions { recipe, force: args.force, ..JobOptions::default() };
    let outcome = job(&plan, &options, &open_context(&plan, &session.progress()))?;
    print_outcome(&outcome, &plan, session)
}

/// Runs `train`: learns a tokenizer from the inputs or from counts files, and writes it. With `--extend`, the merges
/// of an existing tokenizer come first.
///
/// Settings that are recorded in the counts files or in the extended tokenizer are filled into the recipe. Flags that
/// contradict them are reported as mistakes. The training always runs, because there is no manifest to compare with.
///
/// # Errors
/// Mistakes in the flags, and those of [`train_only`].
pub(super) fn train(args: &TrainArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let mut recipe = flags::train(args);
    if args.instead.print_recipe {
        return print_recipe(recipe, session);
    }
    if !recipe.counts.is_empty() {
        complete_from_counts(&mut recipe, &session.progress())?;
    }
    if let Some(name) = &recipe.extend {
        recipe.extend_at = Some(tokenizer(name, &session.progress())?);
    }
    complete_from_tokenizer(&mut recipe, &session.progress())?;
    let plan = session.plan(recipe)?;
    if args.instead.dry_run {
        let preview = preview_training(&plan, &open_context(&plan, &session.progress()))?;
        return print_preview(&plan, &preview, session);
    }
    let options = JobOptions { recipe: recipe_of_flags(&plan, session), ..JobOptions::default() };
    let outcome = train_only(&plan, &options, &open_context(&plan, &session.progress()))?;
    print_outcome(&outcome, &plan, session)
}

/// Runs `encode`: encodes the inputs into an output folder. An interrupted job is resumed.
///
/// # Errors
/// Mistakes in the flags, and those of [`job`].
pub(super) fn encode(args: &EncodeArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let recipe = flags::encode(args);
    if args.instead.print_recipe {
        return print_recipe(recipe, session);
    }
    let plan = session.plan(recipe)?;
    if args.instead.dry_run {
        let preview = tokenmill::run::preview(&plan, &open_context(&plan, &session.progress()))?;
        let done = print_preview(&plan, &preview, session)?;
        preview.check_output(&plan, args.force)?;
        return Ok(done);
    }
    let recipe = recipe_of_flags(&plan, session);
    let options = JobOptions { recipe, force: args.force, ..JobOptions::default() };
    let outcome = job(&plan, &options, &open_context(&plan, &session.progress()))?;
    print_outcome(&outcome, &plan, session)
}

/// Returns the command line for the report, which shows it in place of a recipe. An empty name tells the report that
/// the text is a command line.
fn recipe_of_flags(plan: &Plan, session: &Session<'_>) -> RecipeFacts {
    RecipeFacts { name: String::new(), text: session.command_line(), sha256: plan.recipe_hash.clone() }
}

/// Pushes the result of a job if the plan names a repository, and prints the outcome, as JSON or as messages. The outcome
/// is printed also if the push fails, since the job is done.
///
/// Skipped rows and files decide the exit code.
///
/// # Errors
/// Standard output cannot be written to, or those of [`push_planned`].
fn print_outcome(outcome: &Outcome, plan: &Plan, session: &Session<'_>) -> Result<Done, Failure> {
    match &outcome.report {
        Some(report) => print_report(report, plan, session),
        None => {
            let (folder, result) = (plan.place(), describe_existing(outcome, plan));
            session.say(&format!("nothing to do: {folder} already holds the result, {result}"));
        }
    }
    let pushed = push_planned(plan, session);
    if session.json() {
        let mut result = outcome_as_json(outcome, plan);
        if let Ok(Some(pushed)) = &pushed {
            result["pushed"] = pushed.clone();
        }
        session.print_json(&result)?;
    }
    pushed?;
    Ok(session.done(outcome.skipped))
}

/// Describes the result of a job that was done before. Numbers come from the manifest, or from the report of the
/// earlier run.
fn describe_existing(outcome: &Outcome, plan: &Plan) -> String {
    let vocabulary = outcome.before.as_ref().and_then(|report| report.vocabulary.as_ref());
    match (&outcome.manifest, vocabulary) {
        (Some(manifest), _) if plan.encode.is_some() => {
            format!("{} and {}", with_unit(manifest.rows(), "row"), with_unit(manifest.tokens(), "token"))
        }
        (_, Some(vocabulary)) => format!("a tokenizer with {}", with_unit(vocabulary.tokens, "token")),
        _ => "a tokenizer".to_owned(),
    }
}

/// Prints the facts about training and encoding as messages.
///
/// The number of merges learned does not include those of the extended tokenizer. If fewer merges were learned than
/// asked for, the message says why.
fn print_report(report: &RunReport, plan: &Plan, session: &Session<'_>) {
    if let (Some(training), Some(vocabulary)) = (&report.training, &report.vocabulary) {
        let given = training.merges_taken_over;
        let (learned, asked) = (training.merges_learned - given, training.merges_asked.saturating_sub(given));
        let limited = plan.train.as_ref().is_some_and(|train| train.config.max_token_bytes.is_some());
        let enough = if limited { "frequent and short enough" } else { "frequent enough" };
        let fewer = match learned < asked {
            true => format!(" of {asked}: no pair is left that is {enough}"),
            false => String::new(),
        };
        let together =
            if given > 0 { format!("with the {given} that it started from, ") } else { String::new() };
        session.say(&format!(
            "learned {}{fewer}; {together}the vocabulary has {}",
            with_unit(learned, "merge"),
            with_unit(vocabulary.tokens, "token"),
        ));
        if learned < asked && training.min_frequency > 1 {
            let by_flags = report.recipe.name.is_empty();
            let setting = if by_flags { "`--min-frequency 1`" } else { "`min_frequency = 1` in `[train]`" };
            let least = training.min_frequency;
            session.say(&format!("to merge also pairs that occur fewer than {least} times, use {setting}"));
        }
    }
    if let Some(encoding) = &report.encoding {
        session.say(&describe_encoding(encoding));
        if let Some(packing) = &encoding.packing {
            let used = 100.0 * Ratios::of(report).packing_utilisation.unwrap_or(0.0);
            session.say(&format!(
                "packed by {} into {} of {}: {used:.2} % used, {} unused, {} cut",
                packing.rule,
                with_unit(packing.rows, "row"),
                with_unit(packing.length, "token"),
                with_unit(packing.padding, "token"),
                with_unit(packing.cut_documents, "document"),
            ));
        }
    }
    for smaller in smaller(plan) {
        session.say(&format!("wrote {}", smaller.output.display()));
    }
    session.say(&format!("wrote {}", plan.place()));
}

/// Describes an encoding in one line. The number of tokens includes BOS and EOS; the bytes per token do not, and the
/// line says so.
fn describe_encoding(encoding: &EncodingFacts) -> String {
    let nulls = match encoding.null_documents {
        0 => String::new(),
        nulls => format!(" and {}", with_unit(nulls, "null row")),
    };
    let without = if encoding.added_tokens > 0 { " without BOS/EOS" } else { "" };
    let each = match encoding.bytes_per_token() {
        None => String::new(),
        Some(each) => format!(" ({each:.2} bytes per token{without})"),
    };
    format!(
        "encoded {}{nulls}, {}, to {}{each}",
        with_unit(encoding.documents, "document"),
        ByteCount(encoding.text_bytes),
        with_unit(encoding.tokens, "token"),
    )
}

/// Returns the smaller vocabularies that the plan asks for besides the largest. Empty if the plan does not train.
fn smaller(plan: &Plan) -> &[SmallerPlan] {
    plan.train.as_ref().map(|train| train.smaller.as_slice()).unwrap_or_default()
}

/// Returns the outcome as the object that `--json` prints.
///
/// A job that was done before has the numbers of its earlier report. Keys of stages that did not run are null.
pub fn outcome_as_json(outcome: &Outcome, plan: &Plan) -> Value {
    let report = outcome.report.as_ref().or(outcome.before.as_ref());
    let training = report.and_then(|report| report.training.as_ref());
    let encoding = report.and_then(|report| report.encoding.as_ref());
    let manifest = outcome.manifest.as_ref().filter(|_| plan.encode.is_some());
    json!({
        "output": plan.place(),
        "smaller": smaller(plan).iter().map(|smaller| &smaller.output).collect::<Vec<_>>(),
        "done_before": outcome.report.is_none(),
        "skipped": outcome.skipped,
        "text_bytes": report.map(|report| report.corpus.text_bytes),
        "distinct_pretokens": training.map(|training| training.distinct_pretokens),
        "vocab_size": report.and_then(|report| report.vocabulary.as_ref()).map(|vocabulary| vocabulary.tokens),
        "merges": training.map(|training| training.merges_learned),
        "merges_taken_over": training.map(|training| training.merges_taken_over),
        "count_s": report.and_then(|report| report.seconds("count")),
        "train_s": training.map(|training| training.train_s),
        "documents": encoding.map(|encoding| encoding.documents),
        "rows": manifest.map(|manifest| manifest.rows()),
        "tokens": manifest.map(|manifest| manifest.tokens()),
        "packing": encoding.and_then(|encoding| encoding.packing.as_ref()),
        "tokenizer": report.and_then(|report| report.tokenizer.as_ref()).map(|tokenizer| &tokenizer.fingerprint),
    })
}

/// Runs `count`: counts the distinct pre-tokens of the inputs into a counts file, and prints the totals.
///
/// # Errors
/// Mistakes in the flags, and those of [`count_only`].
pub(super) fn count(args: &CountArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let plan = session.plan(flags::count(args))?;
    if args.dry_run {
        let path = Path::new(&args.output);
        let preview = preview_counting(&plan, path, &open_context(&plan, &session.progress()))?;
        let json = || json!({ "sources": preview_sources(&preview), "text_bytes": preview.text_bytes, "shard": shard_in_words(&plan), "output": args.output });
        session.print_result(json, |out| {
            write_sources(out, &plan, &preview)?;
            write_limits(out, &plan)?;
            let held = if path.exists() { "holds counts, which are replaced" } else { "no counts yet" };
            writeln!(out, "output   {}: {held}", on_one_line(&args.output))
        })?;
        return Ok(Done::Whole);
    }
    let summary =
        count_only(&plan, Path::new(&args.output), args.order, &open_context(&plan, &session.progress()))?;
    let (pretokens, pretoken_bytes, text_bytes) =
        (summary.pretokens, summary.pretoken_bytes, summary.corpus.text_bytes);
    if session.json() {
        session.print_json(&json!({
            "output": args.output,
            "pretokens": pretokens,
            "pretoken_bytes": pretoken_bytes,
            "documents": summary.corpus.documents,
            "text_bytes": text_bytes,
            "spills": summary.spills,
            "skipped": summary.skipped,
        }))?;
    }
    let distinct = with_unit(pretokens, "distinct pre-token");
    session.say(&format!("{distinct} in {}; wrote {}", ByteCount(text_bytes), args.output));
    Ok(session.done(summary.skipped))
}

/// Runs `merge-counts`: sums counts files into one, each multiplied by its weight, and prints the totals.
///
/// # Errors
/// Weights are given, but not one for each file; or those of [`run::merge_counts`](tokenmill::run::merge_counts).
pub(super) fn merge_counts(args: &MergeCountsArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let file = |(path, weight): (&String, Weight)| CountsKeys { path: path.clone(), weight };
    let files: Vec<CountsKeys> = match args.weight.len() {
        0 => args.files.iter().map(|path| file((path, Weight::ONE))).collect(),
        given if given == args.files.len() => {
            args.files.iter().zip(args.weight.iter().copied()).map(file).collect()
        }
        given => {
            return Err(Error::usage(flags::weights_given(given, args.files.len(), "file"))
                .with_help("give one for each file, in the same order, or none")
                .into());
        }
    };
    let (out, foreign) = (Path::new(&args.output), flags::counted_elsewhere(&args.pretokens)?);
    let sum = tokenmill::run::merge_counts(&files, out, foreign, session.memory(), &session.progress())?;
    if session.json() {
        session.print_json(&sum_as_json(&args.output, &sum))?;
    }
    let order = if sum.info.ordered { ", in order of first appearance" } else { "" };
    let distinct = with_unit(sum.pretokens, "distinct pre-token");
    let files = with_unit(sum.files, "file");
    session.say(&format!("{distinct} of {files}{order}; wrote {}", args.output));
    Ok(Done::Whole)
}

/// Returns a sum of counts files as the object that `merge-counts` prints with `--json`.
pub fn sum_as_json(output: &str, sum: &WrittenSum) -> Value {
    json!({
        "output": output,
        "pretokens": sum.pretokens,
        "pretoken_bytes": sum.pretoken_bytes,
        "ordered": sum.info.ordered,
    })
}

/// Runs `merge`: joins the outputs of all shards of a job to one data set.
///
/// # Errors
/// Those of [`merge_shards`].
pub(super) fn merge(args: &MergeArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let folders: Vec<PathBuf> = args.folders.iter().map(PathBuf::from).collect();
    let merged = merge_shards(&folders, Path::new(&args.output), &session.progress())?;
    let MergedShards { manifest, done_before } = merged;
    if session.json() {
        session.print_json(&json!({
            "output": args.output,
            "shards": folders.len(),
            "done_before": done_before,
            "files": manifest.files.len(),
            "rows": manifest.rows(),
            "tokens": manifest.tokens(),
            "skipped_inputs": manifest.skipped_inputs,
        }))?;
    }
    let data = format!(
        "{} with {} and {}",
        with_unit(to_u64(manifest.files.len()), "file"),
        with_unit(manifest.rows(), "row"),
        with_unit(manifest.tokens(), "token")
    );
    session.say(&match done_before {
        true => format!("nothing to do: {} already holds the data set, {data}", args.output),
        false => format!("{} of {data}; wrote {}", with_unit(to_u64(folders.len()), "shard"), args.output),
    });
    Ok(Done::Whole)
}

/// Runs `plan`: checks a recipe and prints its sources, steps, limits, memory and disk needs, and what the output
/// folder holds. Nothing is written.
///
/// Sizes come from metadata where files declare them. The disk space is estimated from excerpts of the text.
///
/// # Errors
/// Mistakes in the recipe, or a source that cannot be opened.
pub(super) fn preview(args: &PlanArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let interrupt = session.interrupt();
    let recipe = recipe::read(&args.recipe, &read_text(&args.recipe, &|| interrupt.is_asked())?)?;
    let recipe = session.limited(recipe);
    let plan = session.plan(recipe.clone())?;
    let preview = tokenmill::run::preview(&plan, &open_context(&plan, &session.progress()))?;
    let cluster = args.cluster.nodes.map(|nodes| {
        let cores = args.cluster.cores.unwrap_or(to_u64(plan.threads));
        let wanted = WantedCluster {
            cluster: Cluster { nodes, cores },
            text_bytes: args.cluster.text_bytes,
            rates: args.cluster.rates.clone(),
        };
        estimated(&plan, &preview, &wanted)
    });
    let cluster = cluster.transpose()?;
    session.print_result(
        || {
            let mut json = plan_as_json(&recipe, &plan, &preview);
            if let Some(estimate) = &cluster {
                json["cluster"] = json!(estimate);
            }
            json
        },
        |out| {
            write_preview(out, &plan, &preview)?;
            write_commands(out, &flags::commands(&recipe, &plan))?;
            cluster.iter().try_for_each(|estimate| estimate.write(out))
        },
    )?;
    Ok(Done::Whole)
}

/// Returns the plan of a recipe as the object that `plan` prints with `--json`: the preview, and the commands that do
/// the same.
pub fn plan_as_json(recipe: &Recipe, plan: &Plan, preview: &Preview) -> Value {
    let commands = flags::commands(recipe, plan);
    let lines = commands.iter().flatten().map(|words| in_shell(words.clone()));
    let mut json = preview_as_json(plan, preview);
    json["commands"] = commands.is_ok().then(|| lines.collect::<Vec<_>>()).into();
    json["without_flag"] = json!(commands.as_ref().err());
    json
}

/// Prints a preview. It is the result of `--dry-run`.
///
/// # Errors
/// Standard output cannot be written to.
fn print_preview(plan: &Plan, preview: &Preview, session: &Session<'_>) -> Result<Done, Failure> {
    session.print_result(|| preview_as_json(plan, preview), |out| write_preview(out, plan, preview))?;
    Ok(Done::Whole)
}

/// Writes the commands that do the same as a recipe, or the keys that no flag sets.
fn write_commands(out: &mut dyn Write, commands: &Result<Vec<Vec<String>>, Vec<String>>) -> io::Result<()> {
    let commands = match commands {
        Ok(commands) => commands,
        Err(keys) => return writeln!(out, "flags    none do the same: no flag sets {}", keys.join(", nor ")),
    };
    commands.iter().enumerate().try_for_each(|(number, words)| {
        let label = if number == 0 { "flags" } else { "" };
        writeln!(out, "{label:<9}{}", on_one_line(&in_shell(words.clone())))
    })
}

/// Prints the recipe that flags amount to, once they have been checked. It is the result of `--print-recipe`.
///
/// # Errors
/// Mistakes in the flags, flags that have no key in recipes, or standard output cannot be written to.
fn print_recipe(recipe: Recipe, session: &Session<'_>) -> Result<Done, Failure> {
    let recipe = session.limited(recipe);
    let text = recipe.to_toml()?;
    let trains = session.plan(recipe)?.train.is_some();
    if session.json() {
        session.print_json(&json!({ "recipe": text }))?;
        return Ok(Done::Whole);
    }
    let place = match trains {
        true => "# The tokenizer goes into the folder `tokenizer` of `dir`. ",
        false => "# ",
    };
    print_as_is(|out| {
        writeln!(
            out,
            "{place}Relative inputs are looked for in the folder of this file.\n\n{}",
            text.trim_end()
        )
    })?;
    Ok(Done::Whole)
}

/// Returns the preview as the object that `--json` prints.
///
/// `held` is one of `nothing`, `tokenizer`, `done`, `damaged`, `other` and `begun`. `changed` names what differs from
/// the result in the folder; it is null if nothing does. Unknown sizes are null.
fn preview_as_json(plan: &Plan, preview: &Preview) -> Value {
    let (held, changed) = match preview.existing_output {
        ExistingOutput::Nothing => ("nothing", None),
        ExistingOutput::Tokenizer => ("tokenizer", None),
        ExistingOutput::Done => ("done", None),
        ExistingOutput::Damaged(_) => ("damaged", None),
        ExistingOutput::Other(changed) => ("other", Some(changed)),
        ExistingOutput::Incomplete(changed) => ("begun", changed),
    };
    json!({
        "sources": preview_sources(preview),
        "text_bytes": preview.text_bytes,
        "shard": shard_in_words(plan),
        "training_memory_bytes": preview.training_memory,
        "files": preview.files,
        "disk_bytes": preview.disk.map(|need| need.bytes),
        "disk_measured": preview.disk.map(|need| need.measured),
        "disk_free_bytes": preview.disk_free,
        "output": plan.place(),
        "staging": plan.destination.as_ref().map(|_| &plan.output),
        "push": plan.push.as_ref().map(ToString::to_string),
        "held": held,
        "changed": changed,
        "threads": plan.threads,
        "memory_bytes": plan.memory,
        "recipe_sha256": plan.recipe_hash,
    })
}

/// Returns the shard of a plan as it is written; `None` if all of the input is read.
fn shard_in_words(plan: &Plan) -> Option<String> {
    plan.shard.map(|shard| shard.to_string())
}

/// Returns the sources of a preview as the objects that `--json` prints.
fn preview_sources(preview: &Preview) -> Vec<Value> {
    let source = |source: &SourcePreview| json!({ "uri": source.uri, "units": source.units, "rows": source.rows, "text_bytes": source.text_bytes, "elsewhere_bytes": source.elsewhere });
    preview.sources.iter().map(source).collect()
}

/// Writes the lines of the sources and of the sample. Each begins with a label of nine characters. Sizes that only
/// reading can find are shown as "not known yet".
fn write_sources(out: &mut dyn Write, plan: &Plan, preview: &Preview) -> io::Result<()> {
    for (source, source_sample) in preview.sources.iter().zip(&plan.source_samples) {
        let rows = source.rows.map_or_else(|| "rows not known yet".to_owned(), |rows| with_unit(rows, "row"));
        let text = source
            .text_bytes
            .map_or_else(|| "text not known yet".to_owned(), |bytes| with_unit(bytes, "byte"));
        writeln!(
            out,
            "source   {}: {}, {rows}, {text}",
            safe_line(&source.uri),
            with_unit(source.units, "part")
        )?;
        if source.elsewhere.0 > 0 {
            writeln!(out, "         {} of it are not on this machine", source.elsewhere)?;
        }
        if let Some(sample) = shown_sample(source_sample) {
            writeln!(out, "         of which {sample}")?;
        }
    }
    if let Some(shard) = plan.shard {
        writeln!(out, "shard    {shard} of the input; the sources above are its part")?;
    }
    match shown_sample(&plan.sample) {
        Some(sample) => writeln!(out, "sample   {sample}"),
        None => Ok(()),
    }
}

/// Writes the line of threads and memory.
fn write_limits(out: &mut dyn Write, plan: &Plan) -> io::Result<()> {
    writeln!(out, "limits   {}, {} of memory", with_unit(to_u64(plan.threads), "thread"), plan.memory)
}

/// Writes the preview for people.
fn write_preview(out: &mut dyn Write, plan: &Plan, preview: &Preview) -> io::Result<()> {
    write_sources(out, plan, preview)?;
    write_training(out, plan, preview)?;
    write_encoding(out, plan, preview)?;
    write_limits(out, plan)?;
    if plan.destination.is_some() {
        let staging = on_one_line(&plan.output.to_string_lossy());
        writeln!(out, "staging  {staging}: at most about two data files at a time")?;
    }
    if let Some(target) = &plan.push {
        writeln!(out, "push     to {target}, once the result is complete")?;
    }
    let folder = on_one_line(&plan.place());
    match preview.existing_output {
        ExistingOutput::Nothing => writeln!(out, "output   {folder}: no complete result yet"),
        ExistingOutput::Tokenizer => writeln!(out, "output   {folder}: holds a tokenizer, which is replaced"),
        ExistingOutput::Done => {
            writeln!(out, "output   {folder}: the result is complete; run only checks it")
        }
        ExistingOutput::Damaged(files) => {
            let files = with_unit(files, "file");
            writeln!(
                out,
                "output   {folder}: complete but for {files}, missing or of another size; run writes such files again"
            )
        }
        ExistingOutput::Other(changed) => {
            writeln!(
                out,
                "output   {folder}: holds the result of another run; {changed} changed. Replace it with --force"
            )
        }
        ExistingOutput::Incomplete(None) => {
            writeln!(out, "output   {folder}: holds a part of the result; run continues with it")
        }
        ExistingOutput::Incomplete(Some(changed)) => {
            writeln!(
                out,
                "output   {folder}: holds the unfinished result of another run; {changed} changed. Replace it with --force"
            )
        }
    }
}

/// Describes which documents are taken; `None` if all are. The parts have the order in which the rules apply.
fn shown_sample(sample: &SampleConfig) -> Option<String> {
    let SampleConfig { every, shuffle_buffer, skip, take, max_bytes, .. } = *sample;
    let parts = [
        (every > 1).then(|| format!("one of {every} documents")),
        (shuffle_buffer > 0).then(|| format!("shuffled through a buffer of {shuffle_buffer}")),
        (skip > 0).then(|| format!("without the first {skip}")),
        take.map(|take| format!("{} at most", with_unit(take, "document"))),
        max_bytes.map(|bytes| format!("{} of text at most", ByteCount(bytes))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Writes the line of training and those of smaller vocabularies.
///
/// The memory of training is estimated only if text is not split: only then does it depend on the size of the text
/// alone. Nothing is written if the plan does not train.
fn write_training(out: &mut dyn Write, plan: &Plan, preview: &Preview) -> io::Result<()> {
    let Some(train) = &plan.train else { return Ok(()) };
    let unknown = match train.split {
        SplitPattern::None => "memory grows with the text, whose size is not known yet",
        _ => "memory grows with the distinct pre-tokens",
    };
    let memory = preview.training_memory.map_or_else(
        || unknown.to_owned(),
        |bytes| {
            let more = if bytes > plan.memory { ", more than the limit" } else { "" };
            format!("about {bytes} of memory at most{more}")
        },
    );
    writeln!(
        out,
        "train    {} by {}, split {}, {memory}, to {}",
        with_unit(to_u64(train.config.merges), "merge"),
        train.config.score,
        train.split,
        on_one_line(&train.output.to_string_lossy())
    )?;
    if let Some(path) = &train.extend {
        let kept = train.keep_merges.map_or_else(
            || "all merges".to_owned(),
            |merges| format!("the first {}", with_unit(to_u64(merges), "merge")),
        );
        writeln!(out, "         after {kept} of {}", on_one_line(&path.to_string_lossy()))?;
    }
    if let Some(parity) = &train.parity {
        let measured = match parity.development.len() {
            0 => "by their own text".to_owned(),
            texts => format!("by {}", with_unit(to_u64(texts), "development text")),
        };
        writeln!(out, "         balances {} sources {measured}", parity.sources)?;
    }
    for (number, stage) in (1..).zip(&train.stages) {
        let limit = stage
            .max_words
            .map_or_else(String::new, |words| format!(", {} at most", with_unit(to_u64(words), "word")));
        let merges = with_unit(to_u64(stage.merges), "merge");
        let reads = if number == 1 { "" } else { "; reads the text twice more" };
        writeln!(out, "         stage {number}: up to {merges}, split {}{limit}{reads}", stage.split)?;
    }
    train.smaller.iter().try_for_each(|smaller| {
        writeln!(
            out,
            "         the first {} to {}",
            with_unit(to_u64(smaller.merges), "merge"),
            on_one_line(&smaller.output.to_string_lossy())
        )
    })
}

/// Writes the line of encoding.
///
/// The disk space is `about` a number if it was measured on excerpts, and `up to about` a number if it is a bound.
/// Nothing is written if the plan does not encode.
fn write_encoding(out: &mut dyn Write, plan: &Plan, preview: &Preview) -> io::Result<()> {
    let Some(encode) = &plan.encode else { return Ok(()) };
    let tokenizer = encode
        .tokenizer
        .as_ref()
        .map_or_else(|| "the tokenizer just trained".to_owned(), |path| on_one_line(&path.to_string_lossy()));
    let files = preview.files.as_ref().map_or_else(
        || "as many files as the text needs".to_owned(),
        |files| with_unit(to_u64(files.len()), "file"),
    );
    let disk = preview.disk.map_or_else(String::new, |DiskNeed { bytes, measured }| {
        let about = if measured { "about" } else { "up to about" };
        if plan.destination.is_some() {
            return format!(", {about} {bytes} at the destination");
        }
        let free = preview.disk_free.filter(|free| *free < bytes);
        let more = free.map_or_else(String::new, |free| format!(", more than the {free} that are free"));
        format!(", {about} {bytes} on disk{more}")
    });
    let packed = encode.pack.map_or_else(String::new, |Packing { rule, length, .. }| {
        format!(", packed by {rule} into rows of {length}")
    });
    let dropout = encode.dropout.map_or_else(String::new, |Dropout { probability, seed }| {
        format!(", dropout {probability} (seed {seed})")
    });
    writeln!(out, "encode   with {tokenizer}, {files}{disk}{packed}{dropout}")
}
