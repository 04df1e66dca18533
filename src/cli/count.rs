//! `count`: how often each distinct piece occurs.

use std::path::Path;

use serde_json::json;
use tokenmill::run::count_only;
use tokenmill::units::ByteCount;

use super::args::CountArgs;
use super::failure::Failure;
use super::flags;
use super::session::{Done, Session};
use super::surroundings::open_context;

pub(super) fn count(args: &CountArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let plan = session.plan(flags::count(args))?;
    let tally = count_only(&plan, Path::new(&args.output), args.order, &open_context(&session.progress()))?;
    let (pieces, piece_bytes, text_bytes) = (tally.pieces, tally.piece_bytes, tally.corpus.text_bytes);
    if session.json() {
        session.print_json(&json!({
            "output": args.output,
            "pieces": pieces,
            "piece_bytes": piece_bytes,
            "documents": tally.corpus.documents,
            "text_bytes": text_bytes,
            "skipped": tally.skipped,
        }))?;
    }
    session.say(&format!("{pieces} distinct pieces in {}; wrote {}", ByteCount(text_bytes), args.output));
    Ok(session.done(tally.skipped))
}
