//! `verify`, `verify-merges`, `compare` and `bench`: these commands check, compare and measure results.
//!
//! The only files that they leave are those that `compare` is asked for. `verify` and `verify-merges` end with exit code 4
//! if they find a difference. The difference is a result, so `--json` prints it as an object on standard output too.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokenmill::base::int::{ByteCount, to_f64, to_u64, to_usize, u64_to_usize};
use tokenmill::encode::{EncodeConfig, Encoder, TokenBatch, encode_batches};
use tokenmill::observer::Quiet;
use tokenmill::report::{
    ComparedText, Comparison, comparison_to_csv, comparison_to_html, comparison_to_json,
    comparison_to_markdown,
};
use tokenmill::run::recipe::Command;
use tokenmill::run::{
    self, CheckedMerges, Inputs, ParallelTexts, Plan, Verification, Verified, complete_from_training,
    peak_memory, verify_list, verify_output, with_threads,
};
use tokenmill::source::Batch;
use tokenmill::train::{Deviation, Score, TrainConfig};
use tokenmill::vocab::{Vocabulary, load};
use tokenmill::{Count, Error, ErrorKind, Observer, Result, TokenId};

use super::args::{BenchArgs, CompareArgs, VerifyArgs, VerifyMergesArgs};
use super::environment::processor_time;
use super::failure::Failure;
use super::flags;
use super::inspect::{check_local, incomplete, is_incomplete};
use super::progress::Progress;
use super::session::{self, Done, Session, open_context, tokenizer};
use super::terminal::{on_one_line, shortened, visible, with_unit};

/// Runs `verify`: reads an output folder completely and compares it with its manifest.
///
/// The tokenizer in the folder is loaded in each of its formats. A dataset card that was edited is only reported. The
/// number of threads changes the time and nothing else.
///
/// # Errors
/// The folder has no manifest, or a file differs from it ([`ErrorKind::Mismatch`]).
pub(super) fn verify(args: &VerifyArgs, session: &Session<'_>) -> Result<Done, Failure> {
    check_local(&args.dir)?;
    let folder = Path::new(&args.dir);
    if folder.is_file() {
        return Err(Error::usage(format!("{} is a file, not an output folder", args.dir))
            .with_help(
                "name the output folder of `run` or `encode`; a counts file is checked when it is used",
            )
            .into());
    }
    let verify = |progress: &Progress| with_threads(session.threads(), || verify_output(folder, progress));
    let verified = session.or_told(verify(&session.progress()), "verified")?;
    let Verified { manifest, edited, formats } = verified.ok_or_else(|| without_manifest(folder))?;
    let (files, rows, tokens) = (manifest.files.len(), manifest.rows(), manifest.tokens());
    let formats: Vec<&str> = formats.iter().map(|format| format.name()).collect();
    if session.json() {
        session.print_json(&json!({
            "verified": true,
            "files": files,
            "rows": rows,
            "tokens": tokens,
            "bytes": manifest.bytes(),
            "tokenizer": formats,
            "edited": edited,
            "skipped_inputs": manifest.skipped_inputs,
        }))?;
    }
    for name in &edited {
        session.say(&format!("{name} was edited after it was written, which is allowed"));
    }
    let data = (files > 0).then(|| {
        let files = with_unit(to_u64(files), "file");
        format!("{files} with {} and {}", with_unit(rows, "row"), with_unit(tokens, "token"))
    });
    let tokenizer = (!formats.is_empty()).then(|| format!("the tokenizer ({})", formats.join(", ")));
    let found: Vec<String> = data.into_iter().chain(tokenizer).collect();
    session.say(&format!("matches the manifest: {}", found.join(", and ")));
    if manifest.skipped_inputs > 0 {
        let skipped = manifest.skipped_inputs;
        session.say(&format!("left out when it was written: {skipped} of the input's rows or files"));
    }
    Ok(Done::Whole)
}

/// The error for a path without a manifest. It says whether nothing is there, an incomplete output, or something else.
fn without_manifest(folder: &Path) -> Error {
    const NAME: &str = "name the output folder of `run` or `encode`";
    if let Err(cause) = folder.metadata() {
        return Error::io("read", folder, cause).with_help(NAME);
    }
    if is_incomplete(folder).unwrap_or(false) {
        return incomplete(folder);
    }
    Error::failed(format!("{} has no manifest.json", folder.display())).with_help(NAME)
}

/// Runs `verify-merges`: applies the merges of a tokenizer to data one by one and checks that each was the best of
/// its step.
///
/// The rules of training come from the record beside the tokenizer, unless flags give them. Merges and stages count
/// from 1 in messages and in JSON, and from 0 inside.
///
/// # Errors
/// A merge was not the best ([`ErrorKind::Mismatch`]); the error names the first one and the better pair.
pub(super) fn verify_merges(args: &VerifyMergesArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let progress = session.progress();
    let path = tokenizer(&args.tokenizer.tokenizer, &progress)?;
    let vocabulary = load(&path, &args.tokenizer.split.options(), &progress)?;
    drop(progress);
    let mut recipe = flags::verify_merges(args);
    let checked = match (args.rules.skip_merges, args.rules.stage) {
        (Some(given), _) => CheckedMerges::Behind(u64_to_usize(given)),
        (None, Some(stage)) => CheckedMerges::Stage(u64_to_usize(stage)),
        (None, None) => CheckedMerges::LastStage,
    };
    let checked =
        complete_from_training(&mut recipe, &args.tokenizer.tokenizer, &path, &vocabulary, checked)?;
    let mut plan = session.plan(recipe)?;
    if let Some(train) = &mut plan.train {
        // Nothing is written to this folder except temporary data that does not fit into memory.
        train.output = std::env::temp_dir();
    }
    let found = verify_list(&plan, &vocabulary, checked, &open_context(&plan, &session.progress()))?;
    let config = plan.train.as_ref().map(|train| &train.config);
    let wrong = found.deviation.zip(config);
    let wrong = wrong.map(|(deviation, config)| not_best(&found, deviation, &vocabulary, config));
    if session.json() {
        session.print_json(&json!({
            "merges": found.merges,
            "checked": { "first": found.checked.start + 1, "last": found.checked.end },
            "verified": wrong.is_none(),
            "score": config.map(|config| config.score.to_string()),
            "deviation": wrong.as_ref().map(|(object, _)| object),
            "text_bytes": found.text_bytes,
            "skipped": found.skipped,
        }))?;
    }
    if let Some((_, problem)) = wrong {
        return Err(Error::message(ErrorKind::Mismatch, problem)
            .with_help("the merges were learned from other data, with other settings, or wrongly")
            .into());
    }
    session.say(&verified(&found));
    Ok(session.done(found.skipped))
}

/// Returns the message that the merges which were checked are the best.
///
/// `checked` is a range within the list. Merges before it belong to earlier stages or were excluded by
/// `--skip-merges`; merges after it belong to later stages.
fn verified(found: &Verification) -> String {
    let Verification { merges, checked, .. } = found;
    let best = "the best pairs of their steps";
    let given = match checked.start {
        0 => String::new(),
        given => format!(
            "; {} before, learned in earlier stages, were applied unchecked",
            with_unit(to_u64(given), "merge")
        ),
    };
    match checked.len() {
        all if all == *merges => format!("all {} are {best}", with_unit(to_u64(all), "merge")),
        0 => format!("no merge was checked{given}"),
        _ => {
            let after = match merges - checked.end {
                0 => String::new(),
                after => format!("; {} of later stages were not checked", with_unit(to_u64(after), "merge")),
            };
            format!("merges {} to {} of {merges} are {best}{given}{after}", checked.start + 1, checked.end)
        }
    }
}

/// Formats a pair of tokens. `ids` maps the numbers of training, which the pair has, to ids of the vocabulary. Long
/// tokens are shortened.
fn shown_pair(vocabulary: &Vocabulary, ids: &[TokenId], (left, right): (u32, u32)) -> String {
    let [left, right] =
        [left, right].map(|token| shortened(vocabulary.bytes(ids[to_usize(token)]).unwrap_or_default()));
    format!("'{left}' + '{right}'")
}

/// Describes the first merge of a list that was not the best, and the first rule that it breaks: length, frequency, or
/// score. Returns the object under the key `deviation` of `--json` and the message of the error. In the object,
/// `merge` counts from 1, `reason` is the name of the flag or recipe key that sets the rule, and `better` is null if no
/// pair was left.
fn not_best(
    found: &Verification,
    deviation: Deviation,
    vocabulary: &Vocabulary,
    config: &TrainConfig,
) -> (Value, String) {
    let Deviation { merge, chosen, count, better } = deviation;
    let times = |count: Count| with_unit(count.get(), "time");
    let length = |token: u32| vocabulary.bytes(found.ids[to_usize(token)]).map_or(0, <[u8]>::len);
    let (reason, broken) = match (config.max_token_bytes, config.score) {
        (Some(most), _) if length(chosen.0) + length(chosen.1) > most => {
            let most = with_unit(to_u64(most), "byte");
            ("max_token_bytes", format!("makes a token of more than {most}"))
        }
        _ if count < config.min_frequency => {
            let least = times(config.min_frequency);
            ("min_frequency", format!("merges a pair that occurs less often than {least}"))
        }
        (_, Score::Count) => ("score", "is not the best".to_owned()),
        (_, score) => ("score", format!("is not the best by {score}")),
    };
    let pair = |pair| shown_pair(vocabulary, &found.ids, pair);
    let (number, merges, chosen, occurred) = (merge + 1, found.merges, pair(chosen), times(count));
    let best = better.map_or("nothing was left to merge".to_owned(), |(better, count)| {
        format!("the best was {}, which occurred {}", pair(better), times(count))
    });
    let object = json!({
        "merge": number,
        "reason": reason,
        "chosen": { "pair": chosen, "count": count },
        "better": better.map(|(better, count)| json!({ "pair": pair(better), "count": count })),
    });
    (object, format!("merge {number} of {merges} {broken}: {chosen} occurred {occurred}; {best}"))
}

/// Runs `compare`: encodes the same text with each tokenizer and prints tokens, ratios, vocabulary use, and the words
/// that are cut most differently. `--html`, `--csv` and `--markdown` also write files with the same figures.
///
/// All tokenizers get the same documents. Before any text is read, these files are checked: each may replace a file of
/// its kind, but no other.
///
/// # Errors
/// A tokenizer or an input cannot be read, a byte has no token and `--missing-bytes` does not allow that, or a file
/// cannot be written.
pub(super) fn compare(args: &CompareArgs, session: &Session<'_>) -> Result<Done, Failure> {
    check_files(args)?;
    let plan = session.plan(flags::reading(Command::Read, &args.on, &args.read))?;
    let (tokenizers, baseline) = with_baseline(args);
    let progress = session.progress();
    let (missing_bytes, options) = (args.missing_bytes.unwrap_or_default(), args.split.options());
    let (parallel, context) = (parallel_texts(args)?, open_context(&plan, &progress));
    let mut compared =
        run::compare(&plan, &tokenizers, &options, missing_bytes, parallel.as_ref(), &context)?;
    drop(progress);
    compared.comparison.baseline = baseline;
    let comparison = &compared.comparison;
    session.print_result(|| comparison_to_json(comparison), |out| write(comparison, out))?;
    if let Some(path) = &args.html {
        session.write(path, &comparison_to_html(comparison))?;
    }
    if let Some(path) = &args.csv {
        session.write(path, &comparison_to_csv(comparison))?;
    }
    if let Some(path) = &args.markdown {
        session.write(path, &comparison_to_markdown(comparison))?;
    }
    Ok(session.done(compared.skipped))
}

/// Checks, before any work is done, that the files of a comparison have different names, and that each would replace
/// nothing but a file of its kind.
///
/// # Errors
/// Two files have the same name, or one exists and is of another kind.
fn check_files(args: &CompareArgs) -> Result<()> {
    let names: Vec<&String> = [&args.html, &args.csv, &args.markdown].into_iter().flatten().collect();
    if let Some(twice) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        return Err(Error::usage(format!("{} is to be written twice", twice.1))
            .with_help("name a file of its own for each of `--html`, `--csv` and `--markdown`"));
    }
    session::check(args.html.as_deref())?;
    session::check_kind(args.csv.as_deref(), "comparison as CSV", b"part,name,documents,")?;
    session::check_kind(args.markdown.as_deref(), "comparison as Markdown", b"# Tokenizers compared\n")
}

/// Returns the tokenizers to compare and the index of the baseline. A baseline that is not among the others is
/// the first.
fn with_baseline(args: &CompareArgs) -> (Vec<PathBuf>, Option<usize>) {
    let mut tokenizers: Vec<PathBuf> = args.tokenizers.iter().map(PathBuf::from).collect();
    let Some(baseline) = args.baseline.as_ref().map(PathBuf::from) else { return (tokenizers, None) };
    let found = tokenizers.iter().position(|tokenizer| *tokenizer == baseline);
    if found.is_none() {
        tokenizers.insert(0, baseline);
    }
    (tokenizers, Some(found.unwrap_or(0)))
}

/// Returns how the inputs are parallel; `None` if they are not said to be.
///
/// # Errors
/// There is a single input, or the base is none of the inputs.
fn parallel_texts(args: &CompareArgs) -> Result<Option<ParallelTexts>> {
    let Some(column) = args.parallel.clone() else { return Ok(None) };
    if args.on.len() < 2 {
        return Err(Error::usage("`--parallel` needs at least two inputs, one for each language")
            .with_help("name them with --on, each a file or a folder"));
    }
    let base = match &args.base {
        None => 0,
        Some(base) => args.on.iter().position(|input| input == base).ok_or_else(|| {
            let help = format!("the inputs are {}", args.on.join(", "));
            Error::usage(format!("`--base` is {base}, which is none of the inputs")).with_help(help)
        })?,
    };
    Ok(Some(ParallelTexts { column, base }))
}

/// Writes the intervals of all text and of each source, and for parallel texts the tokens against the base.
fn write_intervals(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let paths = paths(comparison);
    let width = paths.iter().map(|path| path.chars().count()).max().unwrap_or(0);
    writeln!(out, "\n95 % confidence intervals of bytes and characters per token, from 10 documents on")?;
    for (part, intervals) in comparison.with_intervals() {
        writeln!(out, "  {}", on_one_line(&part.name))?;
        for (number, path) in paths.iter().enumerate() {
            let [bytes, characters] = intervals.shown(number);
            writeln!(out, "    {path:width$}  {bytes}  {characters}")?;
        }
    }
    let Some(base) = comparison.base.and_then(|base| comparison.sources.get(base)) else { return Ok(()) };
    writeln!(out, "\ntokens of the same texts against {}: {}", on_one_line(&base.name), paths.join(", "))?;
    for (source, part) in comparison.sources.iter().enumerate() {
        let premiums = (0..paths.len()).map(|number| comparison.shown_premium(source, number));
        writeln!(out, "  {}  {}", on_one_line(&part.name), premiums.collect::<Vec<_>>().join("  "))?;
    }
    for (number, path) in paths.iter().enumerate() {
        let figure = |value: Option<f64>| value.map_or("none".to_owned(), |value| format!("{value:.3}"));
        let (gini, ratio) = (figure(comparison.gini(number)), figure(comparison.worst_to_best(number)));
        writeln!(out, "  {path:width$}  Gini coefficient {gini}, worst to best {ratio}")?;
    }
    Ok(())
}

/// Writes the comparison for people.
///
/// The text consists of a line of totals, a table with a row per tokenizer, tables by source and by main script if
/// there are several, at most ten words, and three of the longest tokens of each tokenizer. JSON and the page have
/// more.
fn write(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let Comparison { tokenizers, text, words, .. } = comparison;
    let width = tokenizers.iter().map(|tokenizer| tokenizer.path.chars().count()).max().unwrap_or(0).max(9);
    writeln!(
        out,
        "{}, {}, {}",
        with_unit(text.documents, "document"),
        ByteCount(text.text_bytes),
        with_unit(text.words, "word")
    )?;
    let against =
        |cell: &str| if comparison.baseline.is_some() { format!("  {cell:>10}") } else { String::new() };
    writeln!(
        out,
        "\n{:width$}  {:>12}{}  {:>11}  {:>11}  {:>11}  {:>18}  {:>11}",
        "tokenizer",
        "tokens",
        against("against"),
        "bytes/token",
        "chars/token",
        "tokens/word",
        "vocabulary used",
        "unreachable"
    )?;
    for (number, tokenizer) in tokenizers.iter().enumerate() {
        writeln!(
            out,
            "{:width$}  {:>12}{}  {:>11.3}  {:>11.3}  {:>11.3}  {:>9} ({:>4.1} %)  {:>11}",
            on_one_line(&tokenizer.path),
            text.tokens[number],
            against(&comparison.shown_against_baseline(text, number)),
            text.bytes_per_token(number),
            text.characters_per_token(number),
            text.tokens_per_word(number),
            tokenizer.used,
            100.0 * tokenizer.share_used(),
            tokenizer.unreachable,
        )?;
    }
    write_intervals(comparison, out)?;
    for (title, parts) in comparison.groups() {
        let bytes_per_token = |part: &ComparedText, number| format!("{:>8.3}", part.bytes_per_token(number));
        write_parts(&format!("bytes per token by {title}"), parts, comparison, bytes_per_token, out)?;
        if let Some(baseline) = comparison.baseline {
            let against = on_one_line(&tokenizers[baseline].path);
            let change = |part: &ComparedText, number| {
                format!("{:>9}", comparison.shown_against_baseline(part, number))
            };
            write_parts(&format!("tokens against {against} by {title}"), parts, comparison, change, out)?;
        }
    }
    if !words.is_empty() {
        writeln!(out, "\nwords cut most differently, each after a space")?;
    }
    for word in words.iter().take(10) {
        writeln!(out, "  {} × {}", word.count, visible(word.word.as_bytes()))?;
        for (tokenizer, tokens) in tokenizers.iter().zip(&word.tokens) {
            let tokens: Vec<String> = tokens.iter().map(|token| token.visible()).collect();
            writeln!(out, "    {:width$}  {}", on_one_line(&tokenizer.path), tokens.join("|"))?;
        }
    }
    writeln!(out, "\nlongest tokens that occur")?;
    for tokenizer in tokenizers {
        let tokens: Vec<String> = tokenizer.longest.iter().take(3).map(|token| token.visible()).collect();
        writeln!(out, "  {:width$}  {}", on_one_line(&tokenizer.path), tokens.join("  "))?;
    }
    Ok(())
}

/// Writes a figure of each tokenizer, one line for each part of the text.
///
/// `title` names the figure and the kind of part: source or main script. The columns have the order of the tokenizers
/// in the heading.
fn write_parts(
    title: &str,
    parts: &[ComparedText],
    comparison: &Comparison,
    figure: impl Fn(&ComparedText, usize) -> String,
    out: &mut dyn Write,
) -> io::Result<()> {
    let width = parts.iter().map(|part| part.name.chars().count()).max().unwrap_or(0);
    writeln!(out, "\n{title}: {}", paths(comparison).join(", "))?;
    for part in parts {
        let figures: Vec<String> = (0..part.tokens.len()).map(|number| figure(part, number)).collect();
        let text = format!("{}, {}", with_unit(part.documents, "document"), ByteCount(part.text_bytes));
        writeln!(out, "  {:width$}  {}  {text}", on_one_line(&part.name), figures.join(" "))?;
    }
    Ok(())
}

/// Returns the paths of the tokenizers in the order of the figures, escaped for a terminal.
fn paths(comparison: &Comparison) -> Vec<String> {
    comparison.tokenizers.iter().map(|tokenizer| on_one_line(&tokenizer.path)).collect()
}

/// The results of a measurement. Times are in seconds.
///
/// The names of the fields are the keys of `--json`. Fields that the system cannot fill are null.
#[derive(Debug, Serialize)]
struct Measurement {
    /// Number of documents, null rows not counted.
    documents: u64,
    /// Bytes of text in these documents.
    text_bytes: u64,
    /// Number of ids that encoding gave. No BOS or EOS is added.
    tokens: u64,
    /// Number of threads that encoded.
    threads: usize,
    /// Time to read the documents into memory.
    read_s: f64,
    /// Time to load the tokenizer and to prepare the encoder.
    load_s: f64,
    /// Wall-clock time of encoding.
    encode_s: f64,
    /// Processor time of encoding, of all threads together, if the system reports it.
    encode_cpu_s: Option<f64>,
    /// Megabytes (10^6 bytes) of text per second of wall-clock time.
    mb_per_s: f64,
    /// Highest memory use of the process so far, if the system reports it.
    peak_memory_bytes: Option<ByteCount>,
    /// Hash of all ids in order; see [`digest`].
    ids_sha256: String,
}

/// Runs `bench`: reads the inputs into memory, encodes them, and prints times, the speed, and a hash of all ids.
///
/// The hash shows whether two programs, versions or machines give the same ids.
///
/// Each of the three phases is timed on its own: reading, loading the tokenizer, and encoding. Nothing is written, so
/// the speed is that of encoding without the disk.
///
/// **Memory:** all documents and all their ids.
///
/// # Errors
/// The input or the tokenizer cannot be read, a byte has no token, or memory does not suffice.
pub(super) fn bench(args: &BenchArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let plan = session.plan(flags::reading(Command::Read, &args.input.inputs, &args.read))?;
    let progress = session.progress();
    let path = tokenizer(&args.tokenizer.tokenizer, &progress)?;
    // One thread reads, so that the order of the text in memory does not depend on the number of threads that encode
    // it.
    let reading = Plan { threads: 1, ..plan.clone() };
    let input = Inputs::open(&reading, &open_context(&reading, &progress))?;
    let measured = with_threads(plan.threads, || measure(args, &path, &input, plan.threads, &progress))?;
    progress.make_way();
    session.print_result(|| &measured, |out| measured.write(out))?;
    Ok(session.done(input.skipped(&progress)))
}

/// Reads the documents into memory, loads the tokenizer, and measures the encoding.
///
/// It must run in the pool that is to encode. After reading, the input files are checked for changes: a measurement
/// on a file that changes cannot be repeated. The encoder gets the amount of text in advance, so that it builds its
/// tables before the clock starts.
fn measure(
    args: &BenchArgs,
    path: &Path,
    input: &Inputs<'_>,
    threads: usize,
    observer: &dyn Observer,
) -> Result<Measurement> {
    let start = Instant::now();
    let documents = input.documents().map(|batch| observer.checkpoint().and(batch));
    let documents: Vec<Batch> = documents.collect::<Result<_>>()?;
    input.check_stamps()?;
    let read_s = start.elapsed().as_secs_f64();
    let text_bytes: u64 = documents.iter().map(Batch::text_bytes).sum();

    let start = Instant::now();
    let vocabulary = load(path, &args.tokenizer.split.options(), observer)?;
    let missing_bytes = args.missing_bytes.unwrap_or_default();
    let config = EncodeConfig { missing_bytes, ..EncodeConfig::default() };
    let encoder = Encoder::new(vocabulary, config)?.prepared().expecting(ByteCount(text_bytes));
    let load_s = start.elapsed().as_secs_f64();

    let count = documents.iter().map(documents_with_text).sum();
    // Encoding frees each text when it is done. The last batch is kept until after the measurement, since no other
    // encoding would run while it is freed.
    let last = documents.last().cloned();
    let (start, used) = (Instant::now(), processor_time());
    let encoded = encode(documents, &encoder, input, observer)?;
    let (encode_s, encode_cpu_s) = (start.elapsed().as_secs_f64(), used.and_then(time_since));
    drop(last);
    Ok(Measurement {
        documents: count,
        text_bytes,
        tokens: encoded.iter().map(|batch| to_u64(batch.ids.len())).sum(),
        threads,
        read_s,
        load_s,
        encode_s,
        encode_cpu_s,
        mb_per_s: to_f64(text_bytes) / 1e6 / encode_s.max(1e-9),
        peak_memory_bytes: peak_memory().map(ByteCount),
        ids_sha256: digest(&encoded),
    })
}

/// Returns the number of documents that end in a batch, without null rows. A document that continues in the next
/// batch is counted there, so that each document counts once.
fn documents_with_text(batch: &Batch) -> u64 {
    let nulls = batch.iter().filter(Option::is_none).count();
    to_u64(batch.len() - nulls) - u64::from(batch.open)
}

/// Encodes the documents and keeps the ids in memory. The ids keep the order of the documents. `input` gives the
/// names of units for error messages.
///
/// # Errors
/// A document cannot be encoded, or the observer asks to stop.
fn encode(
    documents: Vec<Batch>,
    encoder: &Encoder,
    input: &Inputs<'_>,
    observer: &dyn Observer,
) -> Result<Vec<TokenBatch>> {
    let mut encoded = Vec::new();
    let documents = Box::new(documents.into_iter().map(Ok));
    let name = |source, unit| input.name(source, unit);
    // Progress would be measured, too.
    encode_batches(documents, encoder, name, &Quiet(observer), |batch| {
        encoded.push(batch);
        Ok(())
    })?;
    Ok(encoded)
}

/// Returns the processor time since `before`, in seconds. `None` if the system does not report processor time.
fn time_since(before: Duration) -> Option<f64> {
    Some(processor_time()?.saturating_sub(before).as_secs_f64())
}

/// Returns the SHA-256 of all ids as 32-bit little-endian numbers, in hexadecimal.
///
/// The division into batches does not matter, since the bytes of all batches are hashed as one sequence.
fn digest(encoded: &[TokenBatch]) -> String {
    let mut digest = Sha256::new();
    let mut bytes = Vec::new();
    for batch in encoded {
        bytes.clear();
        batch.ids.append_to(&mut bytes, |id| id.get().to_le_bytes());
        digest.update(&bytes);
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Measurement {
    /// Writes the results for people. Seconds have three decimal places. Without processor time, its line is left
    /// out.
    fn write(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        writeln!(
            out,
            "{}, {}, {}",
            with_unit(self.documents, "document"),
            ByteCount(self.text_bytes),
            with_unit(self.tokens, "token"),
        )?;
        writeln!(
            out,
            "encoded in {:.3} s with {}: {:.1} MB/s",
            self.encode_s,
            with_unit(to_u64(self.threads), "thread"),
            self.mb_per_s
        )?;
        if let Some(used) = self.encode_cpu_s {
            writeln!(out, "processor time {used:.3} s")?;
        }
        writeln!(out, "reading {:.3} s, loading the tokenizer {:.3} s", self.read_s, self.load_s)?;
        writeln!(out, "ids {}", self.ids_sha256)
    }
}
