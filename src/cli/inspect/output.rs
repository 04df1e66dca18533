//! What an output folder of `run` or `encode` holds.

use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};
use tokenmill::Result;
use tokenmill::base::int::{ByteCount, ratio, to_u64};
use tokenmill::sink::{Declaration, DeclaredToken, Manifest, ManifestInput, TOKENIZER_FOLDER, TokenReader};
use tokenmill::source::RowRange;
use tokenmill::vocab::{LoadOptions, Vocabulary, load};

use crate::cli::failure::Failure;
use crate::cli::session::{Done, Session, print};
use crate::cli::shown::{counted, on_one_line, visible};

/// Most inputs, and most files, that are listed (10).
const LISTED: usize = 10;

/// Shows an output folder by its manifest and the declarations in its files.
pub(super) fn inspect(folder: &Path, manifest: Manifest, session: &Session<'_>) -> Result<Done, Failure> {
    // An output without files declares nothing about tokens.
    let reader = (!manifest.files.is_empty()).then(|| TokenReader::open(folder)).transpose()?;
    let declaration = reader.and_then(|reader| reader.declaration().cloned());
    let trained = if manifest.files.is_empty() { trained(folder, session)? } else { None };
    let output = Output { folder, manifest, declaration, trained };
    if session.json() {
        session.print_json(&output.as_json())?;
    } else {
        print(|out| output.write(out))?;
    }
    Ok(Done::Whole)
}

struct Output<'a> {
    folder: &'a Path,
    manifest: Manifest,
    declaration: Option<Declaration>,
    /// The tokenizer, if the folder holds nothing else.
    trained: Option<Vocabulary>,
}

/// Loads the tokenizer in a folder, if it has one.
fn trained(folder: &Path, session: &Session<'_>) -> Result<Option<Vocabulary>> {
    let folder = folder.join(TOKENIZER_FOLDER);
    folder.is_dir().then(|| load(&folder, &LoadOptions::default(), &session.progress())).transpose()
}

impl Output<'_> {
    /// Returns the facts as the object that `--json` prints.
    fn as_json(&self) -> Value {
        let manifest = &self.manifest;
        json!({
            "rows": manifest.rows(),
            "tokens": manifest.tokens(),
            "text_bytes": manifest.text_bytes(),
            "bytes": manifest.bytes(),
            "vocab_size": self.trained.as_ref().map(|trained| trained.tokens().count()),
            "declaration": self.declaration,
            "manifest": manifest,
        })
    }

    /// Writes the facts for people.
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let Manifest { tool_version, inputs, .. } = &self.manifest;
        writeln!(out, "output        complete, written by tokenmill {}", visible(tool_version.as_bytes()))?;
        match &self.trained {
            Some(trained) => {
                let merges = counted(to_u64(trained.merges().len()), "merge");
                writeln!(out, "vocabulary    {} tokens, {merges}", trained.tokens().count())?;
                self.write_tokenizer(out)?;
            }
            None => self.write_data(out)?,
        }
        writeln!(out, "inputs        {}", inputs.len())?;
        listed(out, inputs.iter().map(shown_input))?;
        if self.trained.is_some() { Ok(()) } else { self.write_files(out) }
    }

    fn write_data(&self, out: &mut dyn Write) -> io::Result<()> {
        let (rows, tokens) = (self.manifest.rows(), self.manifest.tokens());
        let (text, bytes) = (self.manifest.text_bytes(), self.manifest.bytes());
        writeln!(out, "rows          {rows}, {:.1} tokens each", ratio(tokens, rows))?;
        let added = self.declaration.as_ref().is_some_and(Declaration::adds_tokens);
        let with = if added { ", BOS/EOS counted" } else { "" };
        writeln!(out, "tokens        {tokens}, {:.2} bytes each{with}", ratio(text, tokens))?;
        writeln!(out, "text          {}", ByteCount(text))?;
        let size = ByteCount(bytes);
        writeln!(out, "on disk       {size}, {:.2} bytes per token", ratio(bytes, tokens))?;
        self.write_tokenizer(out)?;
        self.write_declared(out)
    }

    fn write_files(&self, out: &mut dyn Write) -> io::Result<()> {
        let files = &self.manifest.files;
        writeln!(out, "files         {}", files.len())?;
        listed(
            out,
            files.iter().map(|file| {
                let (rows, tokens) = (counted(file.rows, "row"), counted(file.tokens, "token"));
                format!("{}  {rows}, {tokens}, {}", visible(file.name.as_bytes()), ByteCount(file.bytes))
            }),
        )
    }

    /// Writes the tokenizer's fingerprint, and its folder if it is in the output.
    fn write_tokenizer(&self, out: &mut dyn Write) -> io::Result<()> {
        let own = self.folder.join(TOKENIZER_FOLDER);
        write!(out, "tokenizer     {}", visible(self.manifest.tokenizer.as_bytes()))?;
        if own.is_dir() {
            writeln!(out, ", in {}", on_one_line(&own.to_string_lossy()))
        } else {
            writeln!(out)
        }
    }

    /// Writes the declarations in the files: special tokens, BOS, EOS and packing.
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

/// Writes the first [`LISTED`] lines and the number of the others.
fn listed(out: &mut dyn Write, lines: impl ExactSizeIterator<Item = String>) -> io::Result<()> {
    let hidden = lines.len().saturating_sub(LISTED);
    for line in lines.take(LISTED) {
        writeln!(out, "  {line}")?;
    }
    if hidden > 0 { writeln!(out, "  and {} more (--json has all)", to_u64(hidden)) } else { Ok(()) }
}
