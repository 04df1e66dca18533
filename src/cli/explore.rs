//! `explore`: writes a page on which people try tokenizers in a browser.

use std::path::PathBuf;

use serde_json::json;
use tokenmill::report::{ExploredTokenizer, explorer_to_html};
use tokenmill::run;
use tokenmill::source::HubSettings;

use super::args::ExploreArgs;
use super::failure::Failure;
use super::session::{self, Done, Session, hub};

/// Runs `explore`: writes a page with all tokens, merges and rules of the tokenizers.
///
/// A message names each tokenizer that the page cannot encode by. With `--json`, the same is printed as a result.
///
/// # Errors
/// There are more than four tokenizers, one cannot be read, or the page cannot be written or would replace another
/// file.
pub(super) fn explore(args: &ExploreArgs, session: &Session<'_>) -> Result<Done, Failure> {
    session::check(Some(&args.output))?;
    let names: Vec<PathBuf> = args.tokenizers.iter().map(PathBuf::from).collect();
    let progress = session.progress();
    let hub = HubSettings { noted: progress.note(), ..hub() };
    let explorer = run::explore(&names, &args.split.options(), &hub, &progress)?;
    drop(progress);
    session.write(&args.output, &explorer_to_html(&explorer))?;
    for ExploredTokenizer { facts, .. } in &explorer.tokenizers {
        if let (Some(name), Some(notice)) = (facts["name"].as_str(), facts["notice"].as_str()) {
            session.say(&format!("{name}: the page shows its vocabulary and encodes no text: {notice}"));
        }
    }
    if session.json() {
        let told = |tokenizer: &ExploredTokenizer| {
            let facts = &tokenizer.facts;
            json!({ "name": facts["name"], "encodes": !facts["rules"].is_null(), "notice": facts["notice"] })
        };
        let tokenizers: Vec<_> = explorer.tokenizers.iter().map(told).collect();
        session.print_json(&json!({ "file": args.output, "tokenizers": tokenizers }))?;
    }
    Ok(Done::Whole)
}
