//! `run`, `train`, `encode`: what makes an output folder, told by a recipe or by flags.

use serde_json::{Value, json};
use tokenmill::report::{Ratios, RecipeFacts, RunReport};
use tokenmill::run::recipe;
use tokenmill::run::{JobOptions, Outcome, Plan, SmallerPlan, heed_counts, heed_tokenizer, job, train_only};
use tokenmill::source::without_secrets;
use tokenmill::units::ByteCount;

use super::args::{EncodeArgs, RunArgs, TrainArgs};
use super::failure::Failure;
use super::flags;
use super::session::{Done, Session, read_text, shown_command_line};
use super::shown::counted;
use super::surroundings::open_context;

pub(super) fn run(args: &RunArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let text = read_text(&args.recipe)?;
    let plan = session.plan(recipe::read(&args.recipe, &text)?)?;
    let recipe = RecipeFacts {
        name: args.recipe.clone(),
        text: without_secrets(&text),
        sha256: plan.recipe_hash.clone(),
    };
    let outcome = job(&plan, &JobOptions { recipe, force: args.force }, &open_context(&session.progress()))?;
    tell(&outcome, &plan, session)
}

pub(super) fn train(args: &TrainArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let mut recipe = flags::train(args);
    if !recipe.counts.is_empty() {
        heed_counts(&mut recipe)?;
    }
    heed_tokenizer(&mut recipe, &session.progress())?;
    let plan = session.plan(recipe)?;
    let options = JobOptions { recipe: recipe_of_flags(&plan), force: false };
    let outcome = train_only(&plan, &options, &open_context(&session.progress()))?;
    tell(&outcome, &plan, session)
}

pub(super) fn encode(args: &EncodeArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let plan = session.plan(flags::encode(args))?;
    let options = JobOptions { recipe: recipe_of_flags(&plan), force: args.force };
    let outcome = job(&plan, &options, &open_context(&session.progress()))?;
    tell(&outcome, &plan, session)
}

/// A report of a command shows the command in the recipe's place.
fn recipe_of_flags(plan: &Plan) -> RecipeFacts {
    RecipeFacts { name: String::new(), text: shown_command_line(), sha256: plan.recipe_hash.clone() }
}

fn tell(outcome: &Outcome, plan: &Plan, session: &Session<'_>) -> Result<Done, Failure> {
    if session.json() {
        session.print_json(&as_json(outcome, plan))?;
    }
    match &outcome.report {
        Some(report) => tell_report(report, plan, session),
        None => {
            let (rows, tokens) =
                outcome.manifest.as_ref().map_or((0, 0), |found| (found.rows(), found.tokens()));
            session.say(&format!(
                "all is done: {} holds the result already, {} and {}; nothing to do",
                plan.output.display(),
                counted(rows, "row"),
                counted(tokens, "token"),
            ));
        }
    }
    Ok(session.done(outcome.skipped))
}

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
        let together = if given > 0 { format!("with the {given} that were given ") } else { String::new() };
        session.say(&format!(
            "learned {}{fewer}; {together}the vocabulary has {}",
            counted(learned, "merge"),
            counted(vocabulary.tokens, "token"),
        ));
    }
    if let Some(encoding) = &report.encoding {
        let (documents, tokens) = (encoding.documents + encoding.null_documents, encoding.tokens);
        let bytes_a_token = Ratios::of(report).bytes_per_token;
        let text = ByteCount(encoding.text_bytes);
        session.say(&format!(
            "encoded {}, {text}, to {} ({bytes_a_token:.2} bytes a token)",
            counted(documents, "document"),
            counted(tokens, "token"),
        ));
        if let Some(packing) = &encoding.packing {
            let used = 100.0 * Ratios::of(report).packing_utilisation;
            session.say(&format!(
                "packed by {} into {} of {}: {used:.2} % used, {} short of full, {} cut",
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

fn smaller(plan: &Plan) -> &[SmallerPlan] {
    plan.train.as_ref().map(|train| train.smaller.as_slice()).unwrap_or_default()
}

fn as_json(outcome: &Outcome, plan: &Plan) -> Value {
    let report = outcome.report.as_ref();
    let training = report.and_then(|report| report.training.as_ref());
    let encoding = report.and_then(|report| report.encoding.as_ref());
    let manifest = outcome.manifest.as_ref();
    json!({
        "output": plan.output,
        "smaller": smaller(plan).iter().map(|smaller| &smaller.output).collect::<Vec<_>>(),
        "done_before": report.is_none(),
        "skipped": outcome.skipped,
        "text_bytes": report.map(|report| report.corpus.text_bytes),
        "distinct_pieces": training.map(|training| training.distinct_pieces),
        "vocab_size": report.and_then(|report| report.vocabulary.as_ref()).map(|vocabulary| vocabulary.tokens),
        "merges": training.map(|training| training.merges_learned),
        "count_s": report.and_then(|report| report.seconds("count")),
        "train_s": training.map(|training| training.train_s),
        "documents": encoding.map(|encoding| encoding.documents),
        "rows": manifest.map(|manifest| manifest.rows()),
        "tokens": manifest.map(|manifest| manifest.tokens()),
        "packing": encoding.and_then(|encoding| encoding.packing.as_ref()),
        "tokenizer": report.and_then(|report| report.tokenizer.as_ref()).map(|tokenizer| &tokenizer.fingerprint),
    })
}
