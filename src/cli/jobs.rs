//! `run`, `train`, `encode`: the commands that write an output folder, given a recipe or flags.

use serde_json::{Value, json};
use tokenmill::base::int::{ByteCount, ratio};
use tokenmill::report::{EncodingFacts, Ratios, RecipeFacts, RunReport};
use tokenmill::run::recipe;
use tokenmill::run::{
    JobOptions, Outcome, Plan, SmallerPlan, complete_from_counts, complete_from_tokenizer, job, train_only,
};
use tokenmill::source::without_secrets;

use super::args::{EncodeArgs, RunArgs, TrainArgs};
use super::failure::Failure;
use super::flags;
use super::session::{Done, Session, command_line, read_text};
use super::shown::counted;
use super::surroundings::{open_context, tokenizer};

/// Runs `run`: does everything that a recipe says and is not done yet. The recipe is read from a file or a pipe.
pub(super) fn run(args: &RunArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let text = read_text(&args.recipe, &session.interrupt())?;
    let plan = session.plan(recipe::read(&args.recipe, &text)?)?;
    let recipe = RecipeFacts {
        name: args.recipe.clone(),
        text: without_secrets(&text),
        sha256: plan.recipe_hash.clone(),
    };
    let outcome =
        job(&plan, &JobOptions { recipe, force: args.force }, &open_context(&plan, &session.progress()))?;
    tell(&outcome, &plan, session)
}

/// Runs `train`: learns a tokenizer from the inputs or from counts files, and writes it. With `--extend`, the merges
/// of an existing tokenizer come first.
pub(super) fn train(args: &TrainArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let mut recipe = flags::train(args);
    if !recipe.counts.is_empty() {
        complete_from_counts(&mut recipe)?;
    }
    if let Some(name) = &recipe.extend {
        recipe.extend_at = Some(tokenizer(name, &session.progress())?);
    }
    complete_from_tokenizer(&mut recipe, &session.progress())?;
    let plan = session.plan(recipe)?;
    let options = JobOptions { recipe: recipe_of_flags(&plan), force: false };
    let outcome = train_only(&plan, &options, &open_context(&plan, &session.progress()))?;
    tell(&outcome, &plan, session)
}

/// Runs `encode`: encodes the inputs into an output folder. An interrupted job is resumed.
pub(super) fn encode(args: &EncodeArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let plan = session.plan(flags::encode(args))?;
    let options = JobOptions { recipe: recipe_of_flags(&plan), force: args.force };
    let outcome = job(&plan, &options, &open_context(&plan, &session.progress()))?;
    tell(&outcome, &plan, session)
}

/// Returns the command line for the report, which shows it in place of a recipe.
fn recipe_of_flags(plan: &Plan) -> RecipeFacts {
    RecipeFacts { name: String::new(), text: command_line(), sha256: plan.recipe_hash.clone() }
}

/// Prints the outcome of a job, as JSON or as messages.
fn tell(outcome: &Outcome, plan: &Plan, session: &Session<'_>) -> Result<Done, Failure> {
    if session.json() {
        session.print_json(&as_json(outcome, plan))?;
    }
    match &outcome.report {
        Some(report) => tell_report(report, plan, session),
        None => {
            let (folder, held) = (plan.output.display(), held(outcome, plan));
            session.say(&format!("nothing to do: {folder} already holds the result, {held}"));
        }
    }
    Ok(session.done(outcome.skipped))
}

/// Describes the result of a job that was done before.
fn held(outcome: &Outcome, plan: &Plan) -> String {
    let vocabulary = outcome.before.as_ref().and_then(|report| report.vocabulary.as_ref());
    match (&outcome.manifest, vocabulary) {
        (Some(manifest), _) if plan.encode.is_some() => {
            format!("{} and {}", counted(manifest.rows(), "row"), counted(manifest.tokens(), "token"))
        }
        (_, Some(vocabulary)) => format!("a tokenizer with {}", counted(vocabulary.tokens, "token")),
        _ => "a tokenizer".to_owned(),
    }
}

/// Prints the facts about training and encoding as messages.
fn tell_report(report: &RunReport, plan: &Plan, session: &Session<'_>) {
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
            counted(learned, "merge"),
            counted(vocabulary.tokens, "token"),
        ));
    }
    if let Some(encoding) = &report.encoding {
        session.say(&encoded(encoding));
        if let Some(packing) = &encoding.packing {
            let used = 100.0 * Ratios::of(report).packing_utilisation.unwrap_or(0.0);
            session.say(&format!(
                "packed by {} into {} of {}: {used:.2} % used, {} unused, {} cut",
                packing.rule,
                counted(packing.rows, "row"),
                counted(packing.length, "token"),
                counted(packing.padding, "token"),
                counted(packing.cut_documents, "document"),
            ));
        }
    }
    for smaller in smaller(plan) {
        session.say(&format!("wrote {}", smaller.output.display()));
    }
    session.say(&format!("wrote {}", plan.output.display()));
}

/// Describes an encoding in one line. The ratio is computed from this line's own numbers.
fn encoded(encoding: &EncodingFacts) -> String {
    let nulls = match encoding.null_documents {
        0 => String::new(),
        nulls => format!(" and {}", counted(nulls, "null row")),
    };
    let with = if encoding.added_tokens > 0 { ", BOS/EOS counted" } else { "" };
    let each = match encoding.tokens {
        0 => String::new(),
        tokens => format!(" ({:.2} bytes per token{with})", ratio(encoding.text_bytes, tokens)),
    };
    format!(
        "encoded {}{nulls}, {}, to {}{each}",
        counted(encoding.documents, "document"),
        ByteCount(encoding.text_bytes),
        counted(encoding.tokens, "token"),
    )
}

/// Returns the smaller vocabularies that the plan asks for besides the largest.
fn smaller(plan: &Plan) -> &[SmallerPlan] {
    plan.train.as_ref().map(|train| train.smaller.as_slice()).unwrap_or_default()
}

/// Returns the outcome as the object that `--json` prints.
fn as_json(outcome: &Outcome, plan: &Plan) -> Value {
    let report = outcome.report.as_ref().or(outcome.before.as_ref());
    let training = report.and_then(|report| report.training.as_ref());
    let encoding = report.and_then(|report| report.encoding.as_ref());
    let manifest = outcome.manifest.as_ref().filter(|_| plan.encode.is_some());
    json!({
        "output": plan.output,
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
