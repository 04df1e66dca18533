//! `push`: publishes a tokenizer or the output of a run on the Hugging Face hub. Jobs with `push` in their recipe call
//! it, too.

use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};
use tokenmill::base::int::{ByteCount, to_u64};
use tokenmill::publish::{self, FileState, Publication, PushOptions, PushTarget, Pushed};
use tokenmill::run::{Plan, push_result, with_threads};
use tokenmill::source::HubSettings;

use super::args::PushArgs;
use super::failure::Failure;
use super::progress::Progress;
use super::session::{Done, Session, hub};
use super::terminal::{on_one_line, with_unit};

/// Runs `push`: checks the files of a folder, and sends those that the repository does not have as one commit. With
/// `--dry-run` it prints what would be sent.
///
/// # Errors
/// The folder holds nothing that can be pushed or has changed, the repository is named wrongly, or the hub refuses or
/// cannot be reached.
pub(super) fn push(args: &PushArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let target: PushTarget = args.target.parse()?;
    let options = PushOptions { private: args.private, dry_run: args.dry_run, message: args.message.clone() };
    let pushed = {
        let progress = session.progress();
        let folder = Path::new(&args.dir);
        let publication = with_threads(session.threads(), || Publication::of(folder, &progress))?;
        publish::push(&publication, &target, &options, &settings(&progress), &progress)?
    };
    if args.dry_run {
        session.print_result(|| pushed_as_json(&pushed), |out| write_files(out, &target, &pushed))?;
        return Ok(Done::Whole);
    }
    if session.json() {
        session.print_json(&pushed_as_json(&pushed))?;
    }
    session.say(&summary(&target, &pushed));
    Ok(Done::Whole)
}

/// Pushes the result of a job to the repository that its plan names, and says so. Returns the result in JSON; `None` if
/// the plan names no repository.
///
/// # Errors
/// Those of [`push`].
pub(super) fn push_planned(plan: &Plan, session: &Session<'_>) -> Result<Option<Value>, Failure> {
    let pushed = {
        let progress = session.progress();
        push_result(plan, &settings(&progress), &progress)?
    };
    let (Some(target), Some(pushed)) = (&plan.push, pushed) else { return Ok(None) };
    session.say(&summary(target, &pushed));
    Ok(Some(pushed_as_json(&pushed)))
}

/// The settings of the hub, with waits reported to the user.
fn settings(progress: &Progress) -> HubSettings {
    HubSettings { noted: progress.note(), ..hub() }
}

/// Describes a push in one line.
fn summary(target: &PushTarget, pushed: &Pushed) -> String {
    let Pushed { files, commit, url, bytes_sent, created } = pushed;
    let commit = commit.as_deref().unwrap_or("unknown");
    if pushed.is_unchanged() {
        return format!("nothing to push: {target} has all files already, with commit {commit}");
    }
    let sent = files.iter().filter(|file| matches!(file.state, FileState::New | FileState::Changed)).count();
    let removed = files.iter().filter(|file| file.state == FileState::Removed).count();
    let removed = match removed {
        0 => String::new(),
        removed => format!(", removed {}", with_unit(to_u64(removed), "outdated file")),
    };
    let created = if *created { " a new repository" } else { "" };
    let (files, bytes) = (with_unit(to_u64(sent), "file"), ByteCount(*bytes_sent));
    format!("pushed {files}{removed} ({bytes} sent) to{created} {url}, commit {commit}")
}

/// Returns the result as the object that `--json` prints. `commit` is null if a dry run found something to send.
pub fn pushed_as_json(pushed: &Pushed) -> Value {
    json!({
        "commit": pushed.commit,
        "url": pushed.url,
        "created": pushed.created,
        "unchanged": pushed.is_unchanged(),
        "files": pushed.files,
        "bytes_sent": pushed.bytes_sent,
    })
}

/// Writes what a push would do: a line for each file, and one for the repository.
fn write_files(out: &mut dyn Write, target: &PushTarget, pushed: &Pushed) -> io::Result<()> {
    for file in &pushed.files {
        let (state, bytes) = match file.state {
            FileState::New => ("new", ByteCount(file.bytes).to_string()),
            FileState::Changed => ("changed", ByteCount(file.bytes).to_string()),
            FileState::Unchanged => ("unchanged", ByteCount(file.bytes).to_string()),
            FileState::Removed => ("removed", String::new()),
        };
        writeln!(out, "{state:<10} {bytes:>10}  {}", on_one_line(&file.path))?;
    }
    match (pushed.created, pushed.is_unchanged()) {
        (true, _) => writeln!(out, "{target} does not exist and would be created"),
        (false, true) => writeln!(out, "{target} has all files already"),
        (false, false) => writeln!(out, "{target} exists"),
    }
}
