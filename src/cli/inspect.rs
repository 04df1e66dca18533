//! `inspect`: what a tokenizer holds.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokenmill::Result;
use tokenmill::vocab::{Checks, TrainingRecord, Vocabulary, check, load};

use super::args::InspectArgs;
use super::failure::Failure;
use super::session::{Done, Session, print};
use super::shown::visible;

pub(super) fn inspect(args: &InspectArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let path = Path::new(&args.tokenizer.tokenizer);
    let vocabulary = load(path, &args.tokenizer.options(), &session.progress())?;
    let facts = Facts { checks: check(&vocabulary), counts: counts(path, &vocabulary)?, vocabulary };
    if session.json() {
        session.print_json(&facts.as_json())?;
    } else {
        print(|out| facts.write(out, args.merges))?;
    }
    Ok(Done::Whole)
}

/// How often each merge's pair occurred in training, if that is recorded beside the tokenizer.
fn counts(path: &Path, vocabulary: &Vocabulary) -> Result<Option<Vec<u64>>> {
    let folder = if path.is_dir() {
        path.to_path_buf()
    } else {
        path.parent().map_or_else(PathBuf::new, Path::to_path_buf)
    };
    let record = TrainingRecord::read(&folder)?;
    Ok(record.filter(|record| record.vocabulary == vocabulary.fingerprint()).map(|record| record.counts))
}

struct Facts {
    vocabulary: Vocabulary,
    checks: Checks,
    counts: Option<Vec<u64>>,
}

impl Facts {
    fn as_json(&self) -> Value {
        let vocabulary = &self.vocabulary;
        let specials: Vec<Value> = vocabulary
            .specials()
            .iter()
            .map(|special| json!({ "id": special.id, "text": special.text }))
            .collect();
        let merges: Vec<Value> = vocabulary
            .merges()
            .iter()
            .enumerate()
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
            "ignore_merges": vocabulary.ignore_merges(),
            "longest_token_bytes": self.longest(),
            "special_tokens": specials,
            "checks": self.checks,
            "shortcuts_hold": self.checks.shortcuts_hold(),
            "merges": merges,
        })
    }

    fn count(&self, merge: usize) -> Option<u64> {
        self.counts.as_ref()?.get(merge).copied()
    }

    fn longest(&self) -> usize {
        self.vocabulary.ordinary().map(|(_, bytes)| bytes.len()).max().unwrap_or(0)
    }

    fn write(&self, out: &mut impl Write, merges: usize) -> io::Result<()> {
        let vocabulary = &self.vocabulary;
        writeln!(out, "tokens        {}", vocabulary.tokens().count())?;
        writeln!(out, "ids below     {}", vocabulary.id_limit())?;
        writeln!(out, "merges        {}", vocabulary.merges().len())?;
        writeln!(out, "longest token {} bytes", self.longest())?;
        writeln!(out, "split         {}", visible(vocabulary.split().to_string().as_bytes()))?;
        writeln!(out, "fingerprint   {}", vocabulary.fingerprint())?;
        self.write_specials(out)?;
        self.write_checks(out)?;
        self.write_merges(out, merges)
    }

    fn write_specials(&self, out: &mut impl Write) -> io::Result<()> {
        let specials = self.vocabulary.specials();
        writeln!(out, "special tokens{}", if specials.is_empty() { " none" } else { "" })?;
        specials.iter().try_for_each(|special| {
            writeln!(out, "  {:>8}  {}", special.id, visible(special.text.as_bytes()))
        })
    }

    fn write_checks(&self, out: &mut impl Write) -> io::Result<()> {
        let checks = &self.checks;
        let said = |good: bool| if good { "yes" } else { "no" };
        writeln!(out, "checks")?;
        writeln!(out, "  ids without a token                     {}", checks.holes)?;
        writeln!(out, "  tokens that no merge makes              {}", checks.unmade)?;
        writeln!(out, "  tokens that do not encode to themselves {}", checks.not_self_encoding)?;
        writeln!(out, "  no two tokens have equal bytes          {}", said(checks.unique_bytes))?;
        writeln!(out, "  each token is made by one merge         {}", said(checks.one_merge_each))?;
        writeln!(out, "  merges build on earlier ones only       {}", said(checks.rank_order))?;
        writeln!(out, "  ids follow the order of the merges      {}", said(checks.ids_in_rank_order))?;
        writeln!(out, "  exact shortcuts for encoding hold       {}", said(checks.shortcuts_hold()))
    }

    fn write_merges(&self, out: &mut impl Write, most: usize) -> io::Result<()> {
        let merges = self.vocabulary.merges();
        let shown = |id| visible(self.vocabulary.bytes(id).unwrap_or_default());
        for (number, merge) in merges.iter().enumerate().take(most) {
            if number == 0 {
                writeln!(out, "merges")?;
            }
            let (left, right, result) = (shown(merge.left), shown(merge.right), shown(merge.result));
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
