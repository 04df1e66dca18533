//! `plan`: shows what `run` would do.

use std::io::{self, Write};

use serde_json::{Value, json};
use tokenmill::base::int::{ByteCount, to_u64};
use tokenmill::run::recipe;
use tokenmill::run::{DiskNeed, Held, Plan, Preview, SourcePreview};
use tokenmill::sample::SampleConfig;
use tokenmill::sink::Packing;
use tokenmill::split::SplitPattern;

use super::args::PlanArgs;
use super::failure::Failure;
use super::session::{Done, Session, print, read_text};
use super::shown::{counted, on_one_line, told};
use super::surroundings::open_context;

/// Runs `plan`: checks a recipe and prints its sources, steps, limits, memory and disk needs, and what the output
/// folder holds. Nothing is written.
pub(super) fn preview(args: &PlanArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let plan = session.plan(recipe::read(&args.recipe, &read_text(&args.recipe, &session.interrupt())?)?)?;
    let preview = tokenmill::run::preview(&plan, &open_context(&plan, &session.progress()))?;
    if session.json() {
        session.print_json(&as_json(&plan, &preview))?;
    } else {
        print(|out| write(out, &plan, &preview))?;
    }
    Ok(Done::Whole)
}

/// Returns the preview as the object that `--json` prints.
fn as_json(plan: &Plan, preview: &Preview) -> Value {
    let source = |source: &SourcePreview| json!({ "uri": source.uri, "units": source.units, "rows": source.rows, "text_bytes": source.text_bytes, "elsewhere_bytes": source.elsewhere });
    let (held, changed) = match preview.held {
        Held::Nothing => ("nothing", None),
        Held::Done => ("done", None),
        Held::Other(changed) => ("other", Some(changed)),
        Held::Begun(changed) => ("begun", changed),
    };
    json!({
        "sources": preview.sources.iter().map(source).collect::<Vec<_>>(),
        "text_bytes": preview.text_bytes,
        "training_memory_bytes": preview.training_memory,
        "files": preview.files,
        "disk_bytes": preview.disk.map(|need| need.bytes),
        "disk_measured": preview.disk.map(|need| need.measured),
        "disk_free_bytes": preview.disk_free,
        "output": plan.output,
        "held": held,
        "changed": changed,
        "threads": plan.threads,
        "memory_bytes": plan.memory,
        "recipe_sha256": plan.recipe_hash,
    })
}

/// Writes the preview for people.
fn write(out: &mut dyn Write, plan: &Plan, preview: &Preview) -> io::Result<()> {
    for (source, limits) in preview.sources.iter().zip(&plan.limits) {
        let rows = source.rows.map_or_else(|| "rows not known yet".to_owned(), |rows| counted(rows, "row"));
        let text =
            source.text_bytes.map_or_else(|| "text not known yet".to_owned(), |bytes| counted(bytes, "byte"));
        writeln!(out, "source   {}: {}, {rows}, {text}", told(&source.uri), counted(source.units, "part"))?;
        if source.elsewhere.0 > 0 {
            writeln!(out, "         {} of it are not on this machine", source.elsewhere)?;
        }
        if let Some(sample) = shown_sample(limits) {
            writeln!(out, "         of which {sample}")?;
        }
    }
    if let Some(sample) = shown_sample(&plan.sample) {
        writeln!(out, "sample   {sample}")?;
    }
    write_training(out, plan, preview)?;
    write_encoding(out, plan, preview)?;
    writeln!(out, "limits   {}, {} of memory", counted(to_u64(plan.threads), "thread"), plan.memory)?;
    let folder = on_one_line(&plan.output.to_string_lossy());
    match preview.held {
        Held::Nothing => writeln!(out, "output   {folder}: no complete result yet"),
        Held::Done => {
            writeln!(out, "output   {folder}: the result is complete; run only checks it")
        }
        Held::Other(changed) => {
            writeln!(
                out,
                "output   {folder}: holds the result of another run; {changed} changed. Replace it with --force"
            )
        }
        Held::Begun(None) => {
            writeln!(out, "output   {folder}: holds a part of the result; run continues with it")
        }
        Held::Begun(Some(changed)) => {
            writeln!(
                out,
                "output   {folder}: holds the unfinished result of another run; {changed} changed. Replace it with --force"
            )
        }
    }
}

/// Describes which documents are taken; `None` if all are.
fn shown_sample(sample: &SampleConfig) -> Option<String> {
    let SampleConfig { every, shuffle_buffer, skip, take, max_bytes, .. } = *sample;
    let parts = [
        (every > 1).then(|| format!("one of {every} documents")),
        (shuffle_buffer > 0).then(|| format!("shuffled through a buffer of {shuffle_buffer}")),
        (skip > 0).then(|| format!("without the first {skip}")),
        take.map(|take| format!("{} at most", counted(take, "document"))),
        max_bytes.map(|bytes| format!("{} of text at most", ByteCount(bytes))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Writes the line of training and those of smaller vocabularies.
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
        counted(to_u64(train.config.merges), "merge"),
        train.config.score,
        train.split,
        on_one_line(&train.output.to_string_lossy())
    )?;
    train.smaller.iter().try_for_each(|smaller| {
        writeln!(
            out,
            "         the first {} to {}",
            counted(to_u64(smaller.merges), "merge"),
            on_one_line(&smaller.output.to_string_lossy())
        )
    })
}

/// Writes the line of encoding.
fn write_encoding(out: &mut dyn Write, plan: &Plan, preview: &Preview) -> io::Result<()> {
    let Some(encode) = &plan.encode else { return Ok(()) };
    let tokenizer = encode
        .tokenizer
        .as_ref()
        .map_or_else(|| "the tokenizer just trained".to_owned(), |path| on_one_line(&path.to_string_lossy()));
    let files = preview.files.as_ref().map_or_else(
        || "as many files as the text needs".to_owned(),
        |files| counted(to_u64(files.len()), "file"),
    );
    let disk = preview.disk.map_or_else(String::new, |DiskNeed { bytes, measured }| {
        let about = if measured { "about" } else { "up to about" };
        let free = preview.disk_free.filter(|free| *free < bytes);
        let more = free.map_or_else(String::new, |free| format!(", more than the {free} that are free"));
        format!(", {about} {bytes} on disk{more}")
    });
    let packed = encode.pack.map_or_else(String::new, |Packing { rule, length, .. }| {
        format!(", packed by {rule} into rows of {length}")
    });
    writeln!(out, "encode   with {tokenizer}, {files}{disk}{packed}")
}
