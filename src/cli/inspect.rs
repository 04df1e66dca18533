//! `inspect`: shows what a tokenizer, an output folder or a counts file holds, on one screen.
//!
//! Of an output or a counts file only metadata is read, so the command is fast however large these are. For people,
//! long lists are cut and say how much is missing; `--json` has them whole. Names and texts from files are escaped.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tokenmill::base::int::{ByteCount, ratio, to_u64, u64_to_usize};
use tokenmill::count::{Boundary, CountsInfo, read_counts_info, read_counts_len};
use tokenmill::encode::{EncodeConfig, Encoder, Method};
use tokenmill::run::{counted_units, started_as};
use tokenmill::sink::{
    Declaration, DeclaredToken, Manifest, ManifestInput, OutputFolder, STATE_FOLDER, TOKENIZER_FOLDER,
    TokenReader,
};
use tokenmill::source::RowRange;
use tokenmill::vocab::{
    BosEosTemplate, Checks, LoadOptions, Residue, TextRules, TokenUse, TrainingRecord, UnreachableReason,
    UnreachableToken, Vocabulary, byte_ranges, check, formats_in, load, token_uses, token_uses_in,
    unreachable_tokens,
};
use tokenmill::{Error, Observer, Result, TokenId};

use super::args::InspectArgs;
use super::failure::Failure;
use super::progress::Progress;
use super::session::{Done, Session, tokenizer as tokenizer_at};
use super::terminal::{on_one_line, shortened, visible, with_unit};

/// Runs `inspect`. A folder with a manifest is an output, a Parquet file is a counts file, and anything else must be
/// a tokenizer.
///
/// A folder with a state folder but without a manifest is an unfinished output, unless it is a tokenizer's.
///
/// # Errors
/// The path is none of these, the output is unfinished, or a file cannot be read.
pub(super) fn inspect(args: &InspectArgs, session: &Session<'_>) -> Result<Done, Failure> {
    check_local(&args.path)?;
    let path = Path::new(&args.path);
    let manifest = if path.is_dir() { Manifest::read(path)? } else { None };
    match manifest {
        Some(manifest) => inspect_output(path, manifest, session),
        None if is_incomplete(path)? => Err(incomplete(path).into()),
        None if path.extension().is_some_and(|extension| extension == "parquet") => {
            inspect_counts(path, session)
        }
        None => {
            let progress = session.progress();
            let path = tokenizer_at(path, &progress)?;
            inspect_tokenizer(&path, args, session, &progress)
        }
    }
}

/// Checks that a path is not the address of an output in an object store, which must be copied to be read.
///
/// # Errors
/// It is one.
pub(super) fn check_local(path: &str) -> Result<()> {
    let copy = match path.split_once("://") {
        Some(("s3", _)) => "aws s3 cp --recursive",
        Some(("gs", _)) => "gcloud storage cp --recursive",
        Some(("az", _)) => "azcopy copy --recursive",
        _ => return Ok(()),
    };
    let problem = format!("{path} is in an object store, and outputs are read from local folders");
    Err(Error::usage(problem).with_help(format!("copy it, for example by {copy}, and name the copy")))
}

/// Whether a folder without a manifest is an output that is not complete. The folder of a tokenizer is none.
///
/// # Errors
/// The folder cannot be read.
pub(super) fn is_incomplete(folder: &Path) -> Result<bool> {
    Ok(folder.join(STATE_FOLDER).is_dir() && formats_in(folder)?.is_empty())
}

/// The error for an output that is not complete. It names the process that writes it, if one does.
pub(super) fn incomplete(folder: &Path) -> Error {
    if let Err(held) = OutputFolder::check_unheld(folder) {
        return held;
    }
    let command =
        started_as(folder).map_or_else(String::new, |command| format!("; it was started as: {command}"));
    let folder = folder.display();
    Error::failed(format!("the output in {folder} is not complete: it has no manifest.json yet")).with_help(
        format!("give the same `run` or `encode` command again: it continues from what is finished{command}"),
    )
}

/// Number of merges that are shown by default (20). With `--json`, all merges are shown by default.
const SHOWN: usize = 20;

/// Shows the tokenizer at `path`.
///
/// All checks of the vocabulary run, and the backtracking tables are built to see which method encoding would use.
///
/// # Errors
/// The tokenizer or the record beside it cannot be read.
fn inspect_tokenizer(
    path: &Path,
    args: &InspectArgs,
    session: &Session<'_>,
    progress: &Progress,
) -> Result<Done, Failure> {
    let vocabulary = Arc::new(load(path, &args.split.options(), progress)?);
    let (checks, record) = (check(&vocabulary), record(path, &vocabulary)?);
    let unreachable = unreachable_tokens(&vocabulary)?;
    // A vocabulary that no encoder accepts can still be inspected.
    let encoder = Encoder::new(Arc::clone(&vocabulary), EncodeConfig::default());
    let replaced = record.as_ref().map(|record| &record.replaced).filter(|replaced| !replaced.is_empty());
    let uses = match &args.text {
        Some(path) => Some(uses_in_file(Path::new(path), &vocabulary, progress)?),
        None => replaced.map(|replaced| token_uses(&vocabulary, replaced)),
    };
    let floor = args.residue.unwrap_or(Residue::DEFAULT_FLOOR);
    let residue = uses.map(|uses| Residue::new(uses, floor));
    let counts = record.map(|record| record.counts);
    let method = encoder.map_or_else(|_| Method::of(&checks), |encoder| encoder.prepared().method());
    let facts = Facts { vocabulary, checks, method, counts, unreachable, residue };
    session.print_result(
        || facts.as_json(args.merges.map_or(usize::MAX, u64_to_usize)),
        |out| facts.write(out, args.merges.map_or(SHOWN, u64_to_usize)),
    )?;
    Ok(Done::Whole)
}

/// Returns how a tokenizer uses its tokens in the content of a file.
///
/// # Errors
/// The file cannot be read or encoded.
fn uses_in_file(path: &Path, vocabulary: &Arc<Vocabulary>, observer: &dyn Observer) -> Result<Vec<TokenUse>> {
    let text = std::fs::read(path).map_err(|cause| Error::io("read", path, cause))?;
    let encoder = Encoder::new(Arc::clone(vocabulary), EncodeConfig::default())?.prepared();
    let mut worker = encoder.observed_worker(observer);
    let mut counts = vec![0; vocabulary.id_limit()];
    let ids = worker.encode(&text).map_err(|error| error.at(path.display()))?;
    ids.iter().for_each(|id| counts[id.index()] += 1);
    Ok(token_uses_in(vocabulary, &counts))
}

/// Returns a pattern in a form to copy: unchanged except for characters that a terminal would act on, and in quotes
/// if white space at its ends would not be visible. Most patterns need no quotes and get none.
fn copied(pattern: &str) -> String {
    let shown = on_one_line(pattern);
    let ends = [pattern.chars().next(), pattern.chars().next_back()];
    if ends.into_iter().flatten().any(char::is_whitespace) { format!("'{shown}'") } else { shown }
}

/// Returns the record of the training beside the tokenizer, if there is one.
///
/// The record must name the same fingerprint: a record that was left by another tokenizer says nothing about this
/// one.
///
/// # Errors
/// The record exists but cannot be read.
fn record(path: &Path, vocabulary: &Vocabulary) -> Result<Option<TrainingRecord>> {
    let folder = if path.is_dir() {
        path.to_path_buf()
    } else {
        path.parent().map_or_else(PathBuf::new, Path::to_path_buf)
    };
    let record = TrainingRecord::read(&folder)?;
    Ok(record.filter(|record| record.vocabulary == vocabulary.fingerprint()))
}

/// Facts about a tokenizer. `as_json` and `write` show the same facts in two forms.
struct Facts {
    /// Shared with the encoder that was built to find the method.
    vocabulary: Arc<Vocabulary>,
    /// What the checks of the vocabulary found. A failed check is a fact and not an error.
    checks: Checks,
    /// How an encoder with default settings encodes pre-tokens.
    method: Method,
    /// The count of each merge in training, by the index of the merge; `None` without a record.
    counts: Option<Vec<u64>>,
    /// The tokens that no text is encoded to.
    unreachable: Vec<UnreachableToken>,
    /// The tokens that the training text, or a given one, hardly uses as they are; `None` without a record and a text.
    residue: Option<Residue>,
}

impl Facts {
    /// Returns the facts, with the first `max_merges` merges, as the object that `--json` prints.
    ///
    /// Ranks and counts of merges are null where they are unknown. Special tokens have ids and texts; `added_tokens`
    /// lists all added tokens with their flags.
    fn as_json(&self, max_merges: usize) -> Value {
        let vocabulary = &self.vocabulary;
        let specials: Vec<Value> =
            vocabulary.specials().map(|special| json!({ "id": special.id, "text": special.text })).collect();
        let merges: Vec<Value> = vocabulary
            .merges()
            .iter()
            .enumerate()
            .take(max_merges)
            .map(|(number, merge)| {
                json!({
                    "left": merge.left,
                    "right": merge.right,
                    "result": merge.result,
                    "rank": merge.rank,
                    "count": self.count(number),
                })
            })
            .collect();
        json!({
            "tokens": vocabulary.tokens().count(),
            "id_limit": vocabulary.id_limit(),
            "fingerprint": vocabulary.fingerprint(),
            "split": vocabulary.split(),
            "text": vocabulary.rules(),
            "bos_eos_template": vocabulary.bos_eos_template(),
            "ignore_merges": vocabulary.ignore_merges(),
            "missing_bytes": vocabulary.missing_bytes(),
            "unknown_token": vocabulary.unknown(),
            "longest_token_bytes": self.longest(),
            "superwords": vocabulary.superwords().count(),
            "special_tokens": specials,
            "added_tokens": vocabulary.added(),
            "checks": self.checks,
            "shortcuts_hold": self.checks.shortcuts_hold(),
            "encoding": self.method,
            "unreachable": self.unreachable,
            "residue": self.residue,
            "merges": merges,
        })
    }

    /// Returns the count of the merge with this index; `None` without a record.
    fn count(&self, merge: usize) -> Option<u64> {
        self.counts.as_ref()?.get(merge).copied()
    }

    /// Returns the length of the longest ordinary token, in bytes. 0 for a vocabulary without ordinary tokens.
    fn longest(&self) -> usize {
        self.vocabulary.ordinary().map(|(_, bytes)| bytes.len()).max().unwrap_or(0)
    }

    /// Returns the number of ordinary tokens of each length in bytes, grouped by powers of two from 3 on.
    ///
    /// For example `1: 256, 2: 1200, 3–4: 2500`. Lengths that no token has are left out.
    fn lengths(&self) -> String {
        let mut counts = BTreeMap::new();
        for (_, bytes) in self.vocabulary.ordinary() {
            *counts.entry(bytes.len().next_power_of_two()).or_insert(0_u64) += 1;
        }
        let shown = |(&most, count): (&usize, &u64)| match most {
            1 | 2 => format!("{most}: {count}"),
            _ => format!("{}–{most}: {count}", most / 2 + 1),
        };
        counts.iter().map(shown).collect::<Vec<String>>().join(", ")
    }

    /// Writes the facts, with the first `merges` merges, for people.
    ///
    /// Each line begins with a name in a column of 14 characters, so that values stand below each other.
    fn write(&self, out: &mut dyn Write, merges: usize) -> io::Result<()> {
        let vocabulary = &self.vocabulary;
        writeln!(out, "tokens        {}", vocabulary.tokens().count())?;
        writeln!(out, "ids below     {}", vocabulary.id_limit())?;
        writeln!(out, "merges        {}", vocabulary.merges().len())?;
        writeln!(out, "longest token {}", with_unit(to_u64(self.longest()), "byte"))?;
        writeln!(out, "token bytes   {}", self.lengths())?;
        self.write_superwords(out)?;
        writeln!(out, "split         {}", copied(&vocabulary.split().to_string()))?;
        writeln!(out, "fingerprint   {}", vocabulary.fingerprint())?;
        self.write_rules(out)?;
        self.write_added(out)?;
        self.write_checks(out)?;
        self.write_waste(out)?;
        self.write_merges(out, merges)
    }

    /// Writes the number of superwords and the first of them, if there are any.
    fn write_superwords(&self, out: &mut dyn Write) -> io::Result<()> {
        const EXAMPLES: usize = 6;
        let number = self.vocabulary.superwords().count();
        if number == 0 {
            return Ok(());
        }
        let first =
            self.vocabulary.superwords().take(EXAMPLES).map(|(_, bytes)| format!("'{}'", shortened(bytes)));
        writeln!(out, "superwords    {number}, the first: {}", first.collect::<Vec<_>>().join("  "))
    }

    /// Writes the changes to text other than splitting, if any.
    ///
    /// These are normalizers, a space before the text, bytes without a token, and tokens around a text. Encoding
    /// applies the first two; the others are shown because the tokenizer's own library would act on them.
    fn write_rules(&self, out: &mut dyn Write) -> io::Result<()> {
        let TextRules { normalizers, prefix_space } = self.vocabulary.rules();
        for normalizer in normalizers {
            writeln!(out, "normalizer    {normalizer}")?;
        }
        if *prefix_space {
            writeln!(out, "prefix        a space before text that does not begin with one")?;
        }
        let missing = self.vocabulary.missing_bytes();
        if !missing.is_empty() {
            let own = match self.vocabulary.unknown() {
                Some(token) => format!("replaces them by {}", visible(token.text.as_bytes())),
                None => "drops them".to_owned(),
            };
            writeln!(out, "missing bytes {} have no token; its own library {own}", byte_ranges(missing))?;
        }
        let BosEosTemplate { before, after } = self.vocabulary.bos_eos_template();
        for (ids, role, side) in [(before, "bos", "before"), (after, "eos", "after")] {
            if !ids.is_empty() {
                let texts: Vec<String> = ids.iter().map(|&id| self.shown(id)).collect();
                let texts = texts.join(" ");
                writeln!(
                    out,
                    "post-processor {texts} {side} a text; here only the option `{role}` adds this"
                )?;
            }
        }
        Ok(())
    }

    /// Writes the special tokens, then the other added tokens, with their flags. Vocabularies without special tokens
    /// get a line that says so. Other added tokens are rare and only listed if they exist.
    fn write_added(&self, out: &mut dyn Write) -> io::Result<()> {
        for (special, title) in [(true, "special tokens"), (false, "added tokens")] {
            let tokens = || self.vocabulary.added().iter().filter(move |added| added.special == special);
            if tokens().next().is_some() {
                writeln!(out, "{title}")?;
            } else if special {
                writeln!(out, "{title} none")?;
            }
            for added in tokens() {
                let flags = [
                    (added.single_word, "  single_word"),
                    (added.lstrip, "  lstrip"),
                    (added.rstrip, "  rstrip"),
                    (added.normalized, "  normalized"),
                ];
                let flags: String = flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
                writeln!(out, "  {:>8}  {}{flags}", added.id, visible(added.text.as_bytes()))?;
            }
        }
        Ok(())
    }

    /// Formats a token. Long tokens are shortened, and an id without a token is shown as an empty text.
    fn shown(&self, id: TokenId) -> String {
        shortened(self.vocabulary.bytes(id).unwrap_or_default())
    }

    /// Writes the results of the checks.
    ///
    /// The first three are numbers of faulty tokens or ids; 0 is good. The exact shortcuts hold if all conditions of
    /// backtracking are met.
    fn write_checks(&self, out: &mut dyn Write) -> io::Result<()> {
        let checks = &self.checks;
        let yes_or_no = |good: bool| if good { "yes" } else { "no" };
        writeln!(out, "checks")?;
        writeln!(out, "  ids without a token                     {}", checks.holes)?;
        writeln!(out, "  tokens that no merge makes              {}", checks.without_merge)?;
        writeln!(out, "  tokens that do not encode to themselves {}", checks.not_self_encoding)?;
        writeln!(out, "  no two tokens have equal bytes          {}", yes_or_no(checks.unique_bytes))?;
        writeln!(out, "  each token is made by one merge         {}", yes_or_no(checks.one_merge_each))?;
        writeln!(out, "  merges build on earlier ones only       {}", yes_or_no(checks.rank_order))?;
        writeln!(out, "  ids follow the order of the merges      {}", yes_or_no(checks.ids_in_rank_order))?;
        writeln!(out, "  exact shortcuts for encoding hold       {}", yes_or_no(checks.shortcuts_hold()))?;
        writeln!(out, "  pre-tokens are encoded by               {}", self.method)
    }

    /// Writes the tokens that waste rows of an embedding: those that no text is encoded to, and those that the training
    /// text hardly uses as they are. Of each kind, the number and the first [`LISTED`].
    fn write_waste(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "waste")?;
        writeln!(out, "  tokens that no text is encoded to       {}", self.unreachable.len())?;
        listed(out, self.unreachable.iter().map(|token| self.shown_unreachable(token)))?;
        let title = "  tokens hardly used but as parts         ";
        let Some(residue) = &self.residue else {
            return writeln!(
                out,
                "{title}unknown without a record of the training (--text FILE counts in a file)"
            );
        };
        let (tokens, percent) = (residue.tokens.len(), 100.0 * residue.floor);
        writeln!(out, "{title}{tokens} of {}, whole in less than {percent} % of their uses", residue.of)?;
        listed(out, residue.tokens.iter().map(|one| self.shown_use(one)))
    }

    /// Formats a token that no text is encoded to, with the reason.
    fn shown_unreachable(&self, UnreachableToken { id, reason }: &UnreachableToken) -> String {
        let token = self.shown(*id);
        match reason {
            UnreachableReason::Empty => format!("{id:>8}  has no bytes"),
            UnreachableReason::Merges(becomes) => {
                let becomes: Vec<String> =
                    becomes.iter().map(|&id| format!("'{}'", self.shown(id))).collect();
                format!("{id:>8}  '{token}' becomes {}", becomes.join(" + "))
            }
            UnreachableReason::Split => format!("{id:>8}  '{token}' is cut by the split"),
        }
    }

    /// Formats the use of a token.
    fn shown_use(&self, TokenUse { id, whole, part, made_for }: &TokenUse) -> String {
        let made_for =
            made_for.map_or_else(String::new, |id| format!(", most often of '{}'", self.shown(id)));
        format!("{id:>8}  '{}'  whole {whole}, part {part}{made_for}", self.shown(*id))
    }

    /// Writes the first `max_merges` merges and the number of the others.
    ///
    /// A merge is shown as its two tokens and the new one, with the id of the new one before it and its count behind
    /// it, if known.
    fn write_merges(&self, out: &mut dyn Write, max_merges: usize) -> io::Result<()> {
        let merges = self.vocabulary.merges();
        for (number, merge) in merges.iter().enumerate().take(max_merges) {
            if number == 0 {
                writeln!(out, "merges")?;
            }
            let (left, right, result) =
                (self.shown(merge.left), self.shown(merge.right), self.shown(merge.result));
            write!(out, "  {:>8}  '{left}' + '{right}' → '{result}'", merge.result)?;
            match self.count(number) {
                Some(count) => writeln!(out, "  {count}")?,
                None => writeln!(out)?,
            }
        }
        let hidden = merges.len().saturating_sub(max_merges);
        if hidden > 0 { writeln!(out, "  and {hidden} more (--merges N shows more)") } else { Ok(()) }
    }
}

/// Most inputs, and most files, that are listed (10). The number keeps the text on one screen.
const LISTED: usize = 10;

/// Shows an output folder by its manifest and the declarations in its files.
///
/// The declaration comes from the metadata of the files of ids; the manifest has everything else. For an output that
/// has only a tokenizer, the vocabulary is loaded instead.
///
/// # Errors
/// A file of the output is missing or cannot be read.
fn inspect_output(folder: &Path, manifest: Manifest, session: &Session<'_>) -> Result<Done, Failure> {
    // An output without files declares nothing about tokens.
    let reader = (!manifest.files.is_empty()).then(|| TokenReader::open(folder)).transpose()?;
    let declaration = reader.and_then(|reader| reader.declaration().cloned());
    let trained = if manifest.files.is_empty() { trained(folder, session)? } else { None };
    let output = Output { folder, manifest, declaration, trained };
    session.print_result(|| output.as_json(), |out| output.write(out))?;
    Ok(Done::Whole)
}

/// Facts about an output folder, which has a manifest and so is complete.
struct Output<'a> {
    /// The folder as the user named it.
    folder: &'a Path,
    /// Inputs, files, and totals of the output.
    manifest: Manifest,
    /// What the files say about their ids: special tokens, BOS, EOS and packing. `None` if there are no files, or
    /// none declares it.
    declaration: Option<Declaration>,
    /// The tokenizer, if the folder holds nothing else.
    trained: Option<Vocabulary>,
}

/// Loads the tokenizer in a folder, if it has one. `None` if the output used a tokenizer from elsewhere.
fn trained(folder: &Path, session: &Session<'_>) -> Result<Option<Vocabulary>> {
    let folder = folder.join(TOKENIZER_FOLDER);
    folder.is_dir().then(|| load(&folder, &LoadOptions::default(), &session.progress())).transpose()
}

impl Output<'_> {
    /// Returns the facts as the object that `--json` prints. The manifest is included as it is in its file.
    /// `vocab_size` is the highest id plus one. It is null if the output is of a version that did not record it.
    fn as_json(&self) -> Value {
        let manifest = &self.manifest;
        let trained = self.trained.as_ref().map(|trained| to_u64(trained.id_limit()));
        let declared = self.declaration.as_ref().and_then(|declaration| declaration.vocab_size);
        json!({
            "rows": manifest.rows(),
            "tokens": manifest.tokens(),
            "text_bytes": manifest.text_bytes(),
            "bytes": manifest.bytes(),
            "vocab_size": trained.or(declared),
            "declaration": self.declaration,
            "manifest": manifest,
        })
    }

    /// Writes the facts for people. An output of only a tokenizer shows its vocabulary, any other its data and files.
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let Manifest { tool_version, shard, inputs, skipped_inputs, .. } = &self.manifest;
        writeln!(out, "output        complete, written by tokenmill {}", visible(tool_version.as_bytes()))?;
        if let Some(shard) = shard {
            writeln!(out, "shard         {shard} of a job; `merge` joins all of them")?;
        }
        match &self.trained {
            Some(trained) => {
                let merges = with_unit(to_u64(trained.merges().len()), "merge");
                writeln!(out, "vocabulary    {} tokens, {merges}", trained.tokens().count())?;
                self.write_tokenizer(out)?;
            }
            None => self.write_data(out)?,
        }
        // Several splits may have the same inputs.
        let mut seen = HashSet::new();
        let mut inputs: Vec<String> = inputs.iter().map(shown_input).collect();
        inputs.retain(|input| seen.insert(input.clone()));
        writeln!(out, "inputs        {}", inputs.len())?;
        listed(out, inputs.into_iter())?;
        if *skipped_inputs > 0 {
            writeln!(out, "left out      {skipped_inputs} of the input's rows or files, see report.html")?;
        }
        if self.trained.is_some() { Ok(()) } else { self.write_files(out) }
    }

    /// Writes totals: rows, tokens, bytes of text, and bytes on disk, with the ratios that people compare. If the
    /// files declare BOS or EOS tokens, the number of tokens includes them, and the bytes of each are those of the others.
    fn write_data(&self, out: &mut dyn Write) -> io::Result<()> {
        let (rows, tokens) = (self.manifest.rows(), self.manifest.tokens());
        let (text, bytes) = (self.manifest.text_bytes(), self.manifest.bytes());
        writeln!(out, "rows          {rows}, {:.1} tokens each", ratio(tokens, rows))?;
        let added = self.declaration.as_ref().map_or(0, Declaration::added_per_document);
        let without = if added > 0 { " without BOS/EOS" } else { "" };
        let each = self.manifest.bytes_per_token();
        writeln!(out, "tokens        {tokens}, {each:.2} bytes of text each{without}")?;
        writeln!(out, "text          {}", ByteCount(text))?;
        let size = ByteCount(bytes);
        writeln!(out, "on disk       {size}, {:.2} bytes per id", ratio(bytes, tokens))?;
        self.write_splits(out)?;
        self.write_tokenizer(out)?;
        self.write_declared(out)
    }

    /// Writes the totals of each split, if there are several.
    fn write_splits(&self, out: &mut dyn Write) -> io::Result<()> {
        let names = self.manifest.split_names();
        if names.len() < 2 {
            return Ok(());
        }
        writeln!(out, "splits        {}", names.len())?;
        for name in names {
            let Some(split) = self.manifest.of_split(Some(name)) else { continue };
            let (rows, tokens) = (with_unit(split.rows(), "row"), with_unit(split.tokens(), "token"));
            let text = ByteCount(split.text_bytes());
            writeln!(out, "  {}  {rows}, {tokens}, {text} of text", visible(name.as_bytes()))?;
        }
        Ok(())
    }

    /// Writes the data files, at most [`LISTED`], each with its rows, tokens and size.
    fn write_files(&self, out: &mut dyn Write) -> io::Result<()> {
        let files = &self.manifest.files;
        writeln!(out, "files         {}", files.len())?;
        listed(
            out,
            files.iter().map(|file| {
                let (rows, tokens) = (with_unit(file.rows, "row"), with_unit(file.tokens, "token"));
                format!("{}  {rows}, {tokens}, {}", visible(file.name.as_bytes()), ByteCount(file.bytes))
            }),
        )
    }

    /// Writes the tokenizer's fingerprint, and its folder if it is in the output.
    ///
    /// The fingerprint identifies the tokenizer wherever it is stored.
    fn write_tokenizer(&self, out: &mut dyn Write) -> io::Result<()> {
        let own = self.folder.join(TOKENIZER_FOLDER);
        write!(out, "tokenizer     {}", visible(self.manifest.tokenizer.as_bytes()))?;
        if own.is_dir() {
            writeln!(out, ", in {}", on_one_line(&own.to_string_lossy()))
        } else {
            writeln!(out)
        }
    }

    /// Writes the declarations in the files: special tokens, BOS, EOS and packing. A file without a declaration adds
    /// nothing.
    fn write_declared(&self, out: &mut dyn Write) -> io::Result<()> {
        let Some(Declaration { special, bos, eos, pack, .. }) = &self.declaration else { return Ok(()) };
        writeln!(out, "special       {}", visible(special.as_bytes()))?;
        for (token, role) in [(bos, "bos"), (eos, "eos")] {
            if let Some(DeclaredToken { id, text }) = token {
                writeln!(out, "{role}           {} ({id})", visible(text.as_bytes()))?;
            }
        }
        if let Some(packing) = pack {
            writeln!(out, "packed        {}, rows of {} tokens", packing.rule, packing.length)?;
        }
        Ok(())
    }
}

/// Describes an input and the range of it that was used.
///
/// Without a range, the whole unit was used. Ranges count from 0 and include their start but not their end.
fn shown_input(input: &ManifestInput) -> String {
    let name = visible(input.name.as_bytes());
    let range = match input.range {
        RowRange::Whole => return name,
        RowRange::Bytes(start, end) => format!("bytes {start} to {end}"),
        RowRange::RowGroups(start, end) => format!("row groups {start} to {end}"),
        RowRange::Rows(start, end) => format!("rows {start} to {end}"),
    };
    format!("{name}  {range}")
}

/// Writes the first [`LISTED`] lines and the number of the others. An iterator of known length, so that the number of
/// hidden lines needs no second pass.
fn listed(out: &mut dyn Write, lines: impl ExactSizeIterator<Item = String>) -> io::Result<()> {
    let hidden = lines.len().saturating_sub(LISTED);
    for line in lines.take(LISTED) {
        writeln!(out, "  {line}")?;
    }
    if hidden > 0 { writeln!(out, "  and {} more (--json has all)", to_u64(hidden)) } else { Ok(()) }
}

/// Shows the counts file at `path`.
///
/// Only the metadata of the Parquet file is read.
///
/// # Errors
/// The file cannot be read, or is not a counts file.
fn inspect_counts(path: &Path, session: &Session<'_>) -> Result<Done, Failure> {
    let (info, pretokens) = (read_counts_info(path)?, read_counts_len(path)?);
    session.print_result(
        || json!({ "counts": info, "pretokens": pretokens }),
        |out| {
            write(&info, pretokens, out)?;
            write_counted(&info, out)
        },
    )?;
    Ok(Done::Whole)
}

/// Writes the facts for people. The text names all settings that two counts files must share to be summed.
fn write(info: &CountsInfo, pretokens: u64, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "counts        of pre-tokens, written by tokenmill {}",
        visible(info.tool_version.as_bytes())
    )?;
    writeln!(out, "distinct      {}", with_unit(pretokens, "pre-token"))?;
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

/// Writes the inputs that were counted, at most [`LISTED`] by name. A file that was read in several units is one input.
fn write_counted(info: &CountsInfo, out: &mut dyn Write) -> io::Result<()> {
    let mut inputs: Vec<String> = counted_units(info).into_iter().map(|unit| unit.name).collect();
    inputs.dedup();
    writeln!(out, "inputs        {}", inputs.len())?;
    listed(out, inputs.iter().map(|name| visible(name.as_bytes())))
}
