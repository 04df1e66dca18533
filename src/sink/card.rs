//! Writes the dataset card: the `README.md` of an output folder, with a YAML head for `load_dataset` and the hub.

use std::path::Path;

use arrow::datatypes::Schema;

use super::hf_features::HfFeatures;
use super::layout::{CARD_FILE, DATA_FOLDER, FilePlan, split_of};
use super::manifest::{HashedFile, OutputFile};
use super::packing::Packing;
use super::schema::{Declaration, DeclaredToken, OWN_COLUMNS, OutputFormat};
use crate::base::atomic_file;
use crate::base::int::{ByteCount, bytes_per_token, with_unit};
use crate::encode::{Dropout, MissingBytes};
use crate::error::Result;

/// The description of the column `seq_lengths`.
const LENGTHS: &str = "lengths of the documents in the row, or of the parts of documents";

/// Writes the dataset card: a head that `load_dataset` and the hub read, and a short text for people.
///
/// `schema` has the columns of the files, `data` are the files of all splits, and `skipped` is the number of rows or files of their inputs that were left
/// out. An existing card is replaced.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write(
    folder: &Path,
    plan: &FilePlan,
    schema: &Schema,
    declaration: &Declaration,
    data: &[OutputFile],
    skipped: u64,
) -> Result<HashedFile> {
    let text = match plan.format() {
        OutputFormat::Parquet => card(plan.split_name(), schema, declaration, data, skipped),
        format => flat_card(format, declaration, data, skipped),
    };
    let path = folder.join(CARD_FILE);
    atomic_file::publish_bytes_within(&path, text.as_bytes())?;
    Ok(HashedFile::of_content(CARD_FILE, text.as_bytes()))
}

/// A row of the card's table for a column. Line breaks and bars in its name are escaped. `what` is Markdown.
fn row(column: &str, what: &str) -> String {
    format!("| `{}` | {what} |\n", column.escape_debug().to_string().replace('|', "\\|"))
}

/// A paragraph about the rows or files of the input that were left out; empty if none were.
fn left_out(skipped: u64) -> String {
    if skipped == 0 {
        return String::new();
    }
    format!("\nLeft out, because unreadable: {skipped} of the input's rows or files. See `report.html`.\n")
}

/// The card of files that `datasets` cannot load, which is only a text for people.
fn flat_card(format: OutputFormat, declaration: &Declaration, data: &[OutputFile], skipped: u64) -> String {
    let sum = |of: fn(&OutputFile) -> u64| data.iter().map(of).sum::<u64>();
    let (rows, tokens) = (sum(|file| file.rows), sum(|file| file.tokens));
    let (index, code) = match format {
        OutputFormat::Megatron => (
            "Megatron-LM's index (`MMIDIDX`, version 1)",
            "from megatron.core.datasets.indexed_dataset import IndexedDataset\n\n\
             tokens = IndexedDataset(\"data/NAME\")",
        ),
        _ => (
            "the position of each document's first id, then the number of all ids, as little-endian 64-bit numbers",
            "import os\n\nimport numpy as np\n\n\
             starts = np.fromfile(\"data/NAME.idx\", dtype=\"<u8\")\n\
             width = max(2, os.path.getsize(\"data/NAME.bin\") // max(1, starts[-1]))\n\
             tokens = np.memmap(\"data/NAME.bin\", dtype=f\"<u{width}\", mode=\"r\")",
        ),
    };
    format!(
        "# Token ids\n\
         \n\
         {rows} with {text} of text, encoded as {tokens} tokens.\n\
         \n\
         Each `.bin` in `data` has only ids, little-endian; the `.idx` beside it has {index}.\n\
         Null documents are empty here.\n\
         {left_out}\n\
         {ending}",
        rows = with_unit(rows, "row"),
        text = ByteCount(sum(|file| file.text_bytes)),
        left_out = left_out(skipped),
        ending = ending(declaration, code),
    )
}

/// The end of a card: the origin of the tokens, and code that reads them.
fn ending(declaration: &Declaration, code: &str) -> String {
    let Declaration { special, tokenizer, tool_version, .. } = declaration;
    let (bos, eos) = (added(declaration.bos.as_ref()), added(declaration.eos.as_ref()));
    // Bytes without a token are mentioned unless they are an error.
    let missing = match declaration.missing_bytes {
        MissingBytes::Hf => "; bytes without a token: `hf`",
        _ => "",
    };
    let dropout = declaration.dropout.map_or(String::new(), |Dropout { probability, seed }| {
        format!(" Merges were left out with probability {probability} (BPE-dropout, seed {seed}).")
    });
    format!(
        "Token before each document: {bos}; after it: {eos}. Special tokens within the text: \
         `{special}`{missing}.{dropout}\n\
         The tokenizer's fingerprint is `{tokenizer}`; `manifest.json` lists the files with their hashes \
         and the\n\
         input that each holds.\n\
         \n\
         ```python\n\
         {code}\n\
         ```\n\
         \n\
         Written by tokenmill {tool_version}.\n"
    )
}

/// A token that is put around documents, in readable form. Backticks and control characters are replaced, since
/// either would break the code span.
fn added(token: Option<&DeclaredToken>) -> String {
    match token {
        Some(token) => {
            let escaped = |c: char| if c.is_control() { c.escape_debug().to_string() } else { c.to_string() };
            let text: String = token.text.replace('`', "'").chars().map(escaped).collect();
            format!("`{text}` (id {})", token.id)
        }
        None => "none".to_owned(),
    }
}

/// The text of the card for Parquet files. `data` are the files of all splits.
///
/// Equal arguments give an equal text. The figures of the head are left out if the size in memory is not known,
/// because `datasets` refuses incomplete ones.
pub(super) fn card(
    split_name: &str,
    schema: &Schema,
    declaration: &Declaration,
    data: &[OutputFile],
    skipped: u64,
) -> String {
    let sum = |of: fn(&OutputFile) -> u64| data.iter().map(of).sum::<u64>();
    let (rows, tokens) = (sum(|file| file.rows), sum(|file| file.tokens));
    let (text_bytes, bytes) = (sum(|file| file.text_bytes), sum(|file| file.bytes));
    // The size in memory as `datasets` computes it: ids, list offsets and lengths of 4 bytes each. It is not known
    // for other columns.
    let in_memory = (schema.fields().len() == OWN_COLUMNS).then_some(4 * (tokens + 2 * rows));
    // `datasets` requires either all three figures of a split or none.
    let mut names: Vec<&str> = data.iter().map(|file| split_of(&file.name)).collect();
    names.dedup();
    let one = [split_name];
    let names = if names.len() > 1 { &names[..] } else { &one };
    let splits = in_memory.map_or_else(String::new, |in_memory| {
        let split = |name: &&str| {
            let own = |of: fn(&OutputFile) -> u64| {
                data.iter().filter(|file| split_of(&file.name) == *name).map(of).sum::<u64>()
            };
            let (rows, tokens) = (own(|file| file.rows), own(|file| file.tokens));
            format!(
                "  - name: \"{name}\"\n    num_bytes: {}\n    num_examples: {rows}\n",
                4 * (tokens + 2 * rows)
            )
        };
        let splits: String = names.iter().map(split).collect();
        format!("  splits:\n{splits}  download_size: {bytes}\n  dataset_size: {in_memory}\n")
    });
    let paths: String = names
        .iter()
        .map(|name| format!("  - split: \"{name}\"\n    path: \"{DATA_FOLDER}/{name}-*.parquet\"\n"))
        .collect();
    let of_splits = match names {
        [_] => String::new(),
        names => {
            let rows = |name: &str| {
                data.iter().filter(|file| split_of(&file.name) == name).map(|file| file.rows).sum::<u64>()
            };
            let each: Vec<String> = names.iter().map(|name| format!("`{name}` {}", rows(name))).collect();
            format!("\nRows of the splits: {}.\n", each.join(", "))
        }
    };
    let features = match HfFeatures::of(schema) {
        Some(features) => {
            let lines: String = features.yaml_lines().map(|line| format!("  {line}\n")).collect();
            format!("  features:\n{lines}")
        }
        None => String::new(),
    };
    let info = match features + &splits {
        none if none.is_empty() => none,
        lines => format!("dataset_info:\n{lines}"),
    };
    let (content, null, what) = match &declaration.pack {
        None => (
            format!("{} with", with_unit(rows, "row")),
            "; null where the document is null",
            "passed through",
        ),
        Some(Packing { length, .. }) => {
            let documents: u64 = data.iter().flat_map(|file| &file.units).map(|unit| unit.rows).sum();
            (
                format!(
                    "{rows} rows of up to {length} tokens, packed from {documents} rows of the input with"
                ),
                "",
                LENGTHS,
            )
        }
    };
    let code = format!(
        "from datasets import load_dataset\n\n\
         tokens = load_dataset(\"path/to/this/folder\", split=\"{split_name}\")"
    );
    let others: String = schema.fields()[OWN_COLUMNS..].iter().map(|field| row(field.name(), what)).collect();
    format!(
        r#"---
configs:
- config_name: default
  data_files:
{paths}{info}---

# Token ids

{content} {text} of text, encoded as {tokens} tokens ({per_token:.2} bytes per token{without}).
{of_splits}{left_out}
| column | |
| --- | --- |
| `input_ids` | token ids{null} |
| `length` | how many token ids the row has |
{others}
{ending}"#,
        text = ByteCount(text_bytes),
        per_token = bytes_per_token(text_bytes, tokens, sum(|file| file.added_tokens)),
        without = if declaration.added_per_document() > 0 { " without BOS/EOS" } else { "" },
        left_out = left_out(skipped),
        ending = ending(declaration, &code),
    )
}
