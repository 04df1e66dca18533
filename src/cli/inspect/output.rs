use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};
use tokenmill::sink::{Declaration, DeclaredToken, Input, Manifest, TOKENIZER_FOLDER, TokenReader};
use tokenmill::source::Range;
use tokenmill::units::{ByteCount, amount, ratio};

use crate::cli::failure::Failure;
use crate::cli::session::{Done, Session, print};
use crate::cli::shown::{counted, visible};

/// So many inputs and files are listed.
const LISTED: usize = 10;

/// Tells what an output is, by its manifest and what the files say of their tokens.
pub(super) fn inspect(folder: &Path, manifest: Manifest, session: &Session<'_>) -> Result<Done, Failure> {
    // An output without files says nothing of its tokens.
    let reader = (!manifest.files.is_empty()).then(|| TokenReader::open(folder)).transpose()?;
    let declaration = reader.and_then(|reader| reader.declaration().cloned());
    let output = Output { folder, manifest, declaration };
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
}

impl Output<'_> {
    fn as_json(&self) -> Value {
        let manifest = &self.manifest;
        json!({
            "rows": manifest.rows(),
            "tokens": manifest.tokens(),
            "text_bytes": manifest.text_bytes(),
            "bytes": manifest.bytes(),
            "declaration": self.declaration,
            "manifest": manifest,
        })
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let Manifest { tool_version, files, inputs, .. } = &self.manifest;
        let (rows, tokens) = (self.manifest.rows(), self.manifest.tokens());
        let (text, bytes) = (self.manifest.text_bytes(), self.manifest.bytes());
        writeln!(out, "output        complete, written by tokenmill {tool_version}")?;
        writeln!(out, "rows          {rows}, {:.1} tokens each", ratio(tokens, rows))?;
        let added = self.declaration.as_ref().is_some_and(Declaration::adds_tokens);
        let with = if added { ", BOS and EOS counted" } else { "" };
        writeln!(out, "tokens        {tokens}, {:.2} bytes each{with}", ratio(text, tokens))?;
        writeln!(out, "text          {}", ByteCount(text))?;
        let size = ByteCount(bytes);
        writeln!(out, "on disk       {size}, {:.2} bytes a token", ratio(bytes, tokens))?;
        self.write_tokenizer(out)?;
        self.write_declared(out)?;
        writeln!(out, "inputs        {}", inputs.len())?;
        listed(out, inputs.iter().map(shown_input))?;
        writeln!(out, "files         {}", files.len())?;
        listed(
            out,
            files.iter().map(|file| {
                let (rows, tokens) = (counted(file.rows, "row"), counted(file.tokens, "token"));
                format!("{}  {rows}, {tokens}, {}", file.name, ByteCount(file.bytes))
            }),
        )
    }

    /// The tokenizer, and where it is if the folder has it.
    fn write_tokenizer(&self, out: &mut impl Write) -> io::Result<()> {
        let own = self.folder.join(TOKENIZER_FOLDER);
        write!(out, "tokenizer     {}", self.manifest.tokenizer)?;
        if own.is_dir() { writeln!(out, ", in {}", own.display()) } else { writeln!(out) }
    }

    fn write_declared(&self, out: &mut impl Write) -> io::Result<()> {
        let Some(Declaration { special, bos, eos, pack, .. }) = &self.declaration else { return Ok(()) };
        writeln!(out, "special       {special}")?;
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

fn shown_input(input: &Input) -> String {
    let range = match input.range {
        Range::Whole => return input.name.clone(),
        Range::Bytes(start, end) => format!("bytes {start} to {end}"),
        Range::RowGroups(start, end) => format!("row groups {start} to {end}"),
        Range::Rows(start, end) => format!("rows {start} to {end}"),
    };
    format!("{}  {range}", input.name)
}

fn listed(out: &mut impl Write, lines: impl ExactSizeIterator<Item = String>) -> io::Result<()> {
    let hidden = lines.len().saturating_sub(LISTED);
    for line in lines.take(LISTED) {
        writeln!(out, "  {line}")?;
    }
    if hidden > 0 { writeln!(out, "  and {} more (--json has all)", amount(hidden)) } else { Ok(()) }
}
