//! What a tokenizer holds.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tokenmill::base::int::to_u64;
use tokenmill::encode::{EncodeConfig, Encoder, Method};
use tokenmill::vocab::{
    BosEosTemplate, Checks, TextRules, TrainingRecord, Vocabulary, byte_ranges, check, load,
};
use tokenmill::{Result, TokenId};

use crate::cli::args::InspectArgs;
use crate::cli::failure::Failure;
use crate::cli::progress::Progress;
use crate::cli::session::{Done, Session, print};
use crate::cli::shown::{counted, on_one_line, shortened, visible};

/// Number of merges that are shown by default (20).
const SHOWN: usize = 20;

/// Shows the tokenizer at `path`.
pub(super) fn inspect(
    path: &Path,
    args: &InspectArgs,
    session: &Session<'_>,
    progress: &Progress,
) -> Result<Done, Failure> {
    let vocabulary = Arc::new(load(path, &args.split.options(), progress)?);
    let (checks, counts) = (check(&vocabulary), counts(path, &vocabulary)?);
    // A vocabulary that no encoder accepts can still be inspected.
    let encoder = Encoder::new(Arc::clone(&vocabulary), EncodeConfig::default());
    let method = encoder.map_or_else(|_| Method::of(&checks), |encoder| encoder.prepared().method());
    let facts = Facts { vocabulary, checks, method, counts };
    if session.json() {
        session.print_json(&facts.as_json(args.merges.unwrap_or(usize::MAX)))?;
    } else {
        print(|out| facts.write(out, args.merges.unwrap_or(SHOWN)))?;
    }
    Ok(Done::Whole)
}

/// Returns a pattern in a form to copy: unchanged except for characters that a terminal would act on, and in quotes
/// if white space at its ends would not be visible.
fn copied(pattern: &str) -> String {
    let shown = on_one_line(pattern);
    let ends = [pattern.chars().next(), pattern.chars().next_back()];
    if ends.into_iter().flatten().any(char::is_whitespace) { format!("'{shown}'") } else { shown }
}

/// Returns how often the pair of each merge occurred in training, if a record beside the tokenizer says so.
fn counts(path: &Path, vocabulary: &Vocabulary) -> Result<Option<Vec<u64>>> {
    let folder = if path.is_dir() {
        path.to_path_buf()
    } else {
        path.parent().map_or_else(PathBuf::new, Path::to_path_buf)
    };
    let record = TrainingRecord::read(&folder)?;
    Ok(record.filter(|record| record.vocabulary == vocabulary.fingerprint()).map(|record| record.counts))
}

/// Facts about a tokenizer.
struct Facts {
    vocabulary: Arc<Vocabulary>,
    checks: Checks,
    method: Method,
    counts: Option<Vec<u64>>,
}

impl Facts {
    /// Returns the facts, with the first `most` merges, as the object that `--json` prints.
    fn as_json(&self, most: usize) -> Value {
        let vocabulary = &self.vocabulary;
        let specials: Vec<Value> =
            vocabulary.specials().map(|special| json!({ "id": special.id, "text": special.text })).collect();
        let merges: Vec<Value> = vocabulary
            .merges()
            .iter()
            .enumerate()
            .take(most)
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
            "special_tokens": specials,
            "added_tokens": vocabulary.added(),
            "checks": self.checks,
            "shortcuts_hold": self.checks.shortcuts_hold(),
            "encoding": self.method,
            "merges": merges,
        })
    }

    fn count(&self, merge: usize) -> Option<u64> {
        self.counts.as_ref()?.get(merge).copied()
    }

    /// Returns the length of the longest ordinary token, in bytes.
    fn longest(&self) -> usize {
        self.vocabulary.ordinary().map(|(_, bytes)| bytes.len()).max().unwrap_or(0)
    }

    /// Returns the number of ordinary tokens of each length in bytes, grouped by powers of two from 3 on.
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
    fn write(&self, out: &mut dyn Write, merges: usize) -> io::Result<()> {
        let vocabulary = &self.vocabulary;
        writeln!(out, "tokens        {}", vocabulary.tokens().count())?;
        writeln!(out, "ids below     {}", vocabulary.id_limit())?;
        writeln!(out, "merges        {}", vocabulary.merges().len())?;
        writeln!(out, "longest token {}", counted(to_u64(self.longest()), "byte"))?;
        writeln!(out, "token bytes   {}", self.lengths())?;
        writeln!(out, "split         {}", copied(&vocabulary.split().to_string()))?;
        writeln!(out, "fingerprint   {}", vocabulary.fingerprint())?;
        self.write_rules(out)?;
        self.write_added(out)?;
        self.write_checks(out)?;
        self.write_merges(out, merges)
    }

    /// Writes the changes to text other than splitting, if any.
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

    /// Writes the special tokens, then the other added tokens, with their flags.
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

    /// Formats a token.
    fn shown(&self, id: TokenId) -> String {
        shortened(self.vocabulary.bytes(id).unwrap_or_default())
    }

    /// Writes the results of the checks.
    fn write_checks(&self, out: &mut dyn Write) -> io::Result<()> {
        let checks = &self.checks;
        let said = |good: bool| if good { "yes" } else { "no" };
        writeln!(out, "checks")?;
        writeln!(out, "  ids without a token                     {}", checks.holes)?;
        writeln!(out, "  tokens that no merge makes              {}", checks.without_merge)?;
        writeln!(out, "  tokens that do not encode to themselves {}", checks.not_self_encoding)?;
        writeln!(out, "  no two tokens have equal bytes          {}", said(checks.unique_bytes))?;
        writeln!(out, "  each token is made by one merge         {}", said(checks.one_merge_each))?;
        writeln!(out, "  merges build on earlier ones only       {}", said(checks.rank_order))?;
        writeln!(out, "  ids follow the order of the merges      {}", said(checks.ids_in_rank_order))?;
        writeln!(out, "  exact shortcuts for encoding hold       {}", said(checks.shortcuts_hold()))?;
        writeln!(out, "  pre-tokens are encoded by               {}", self.method)
    }

    /// Writes the first `most` merges and the number of the others.
    fn write_merges(&self, out: &mut dyn Write, most: usize) -> io::Result<()> {
        let merges = self.vocabulary.merges();
        for (number, merge) in merges.iter().enumerate().take(most) {
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
        let hidden = merges.len().saturating_sub(most);
        if hidden > 0 { writeln!(out, "  and {hidden} more (--merges N shows more)") } else { Ok(()) }
    }
}
