//! What a counts file says about its counts.

use std::io::{self, Write};
use std::path::Path;

use serde_json::json;
use tokenmill::count::{Boundary, CountsInfo, read_counts_info};

use super::super::failure::Failure;
use super::super::session::{Done, Session, print};
use super::super::shown::visible;

/// Shows the counts file at `path`.
pub(super) fn inspect(path: &Path, session: &Session<'_>) -> Result<Done, Failure> {
    let info = read_counts_info(path)?;
    if session.json() {
        session.print_json(&json!({ "counts": info }))?;
    } else {
        print(|out| write(&info, out))?;
    }
    Ok(Done::Whole)
}

/// Writes the facts for people.
fn write(info: &CountsInfo, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "counts        of pre-tokens, written by tokenmill {}",
        visible(info.tool_version.as_bytes())
    )?;
    writeln!(out, "split         {}", visible(info.pattern.to_string().as_bytes()))?;
    let boundary = match info.boundary {
        Boundary::Document => "tokens end with each document",
        Boundary::Join => "tokens may span documents",
    };
    writeln!(out, "boundary      {boundary}")?;
    let order = if info.ordered { "of first appearance" } else { "of bytes" };
    writeln!(out, "order         {order}")?;
    for special in &info.special_tokens {
        writeln!(out, "special       {}", visible(special.as_bytes()))?;
    }
    Ok(())
}
