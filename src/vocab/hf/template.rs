//! Chat templates that `transformers` keeps in files of their own.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::config::CHAT_TEMPLATE;
use crate::base::int::to_u64;
use crate::error::{Error, Result};
use crate::vocab::fault::Fault;
use crate::vocab::format::{TransformersConfig, WriteOptions};
use crate::vocab::sniff;

/// The file whose text `transformers` uses instead of `chat_template` in `tokenizer_config.json`.
const FILE: &str = "chat_template.jinja";

/// The folder of named templates, which also take precedence over that key.
const FOLDER: &str = "additional_chat_templates";

/// The name of the template that is used if none is named.
const DEFAULT: &str = "default";

/// The longest chat template, in bytes (16 MiB). Those in use have some tens of kilobytes.
const MAX_BYTES: u64 = 16 << 20;

/// Returns the chat templates from files of their own in the form of `tokenizer_config.json`: one text, or a list of
/// named ones. `None` if the folder has no such files.
///
/// # Errors
/// A file cannot be read or is no UTF-8, or the templates have more than [`MAX_BYTES`] together.
pub(super) fn beside(folder: &Path) -> Result<Option<Value>> {
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    let file = folder.join(FILE);
    if file.is_file() {
        files.push((DEFAULT.to_owned(), file));
    }
    let several = folder.join(FOLDER);
    if several.is_dir() {
        let cannot = |cause| Error::io("read", &several, cause);
        let mut named = Vec::new();
        for entry in fs::read_dir(&several).map_err(cannot)? {
            let path = entry.map_err(cannot)?.path();
            let name = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".jinja"));
            if let Some(name) = name.filter(|_| path.is_file()) {
                named.push((name.to_owned(), path));
            }
        }
        named.sort();
        files.extend(named);
    }
    if let [(name, file)] = &*files
        && name == DEFAULT
    {
        return Ok(Some(json!(read(file)?)));
    }
    let (mut templates, mut bytes) = (Vec::new(), 0);
    for (name, path) in &files {
        let template = read(path)?;
        bytes += to_u64(template.len());
        if bytes > MAX_BYTES {
            return Err(Fault::TemplateTooLong { limit: MAX_BYTES }.in_file(&several));
        }
        templates.push(json!({ "name": name, "template": template }));
    }
    Ok((!templates.is_empty()).then(|| json!(templates)))
}

/// Returns the file or folder from which `transformers` would take a chat template instead of the one in these
/// options, if it differs from it.
///
/// # Errors
/// A file of the folder cannot be read.
pub fn other_chat_template(folder: &Path, options: &WriteOptions) -> Result<Option<PathBuf>> {
    let TransformersConfig { chat_template, kept, .. } = &options.transformers;
    let own = chat_template.as_ref().map(|template| json!(template));
    let Some(own) = own.or_else(|| kept.get(CHAT_TEMPLATE).cloned()) else { return Ok(None) };
    let other = beside(folder)?.filter(|other| *other != own);
    let file = folder.join(FILE);
    Ok(other.map(|_| if file.is_file() { file } else { folder.join(FOLDER) }))
}

/// Reads a chat template from a file. Line breaks become `\n`, as in `transformers`, and a byte order mark is
/// removed.
///
/// # Errors
/// The file cannot be read, is longer than 16 MiB, is not UTF-8, or is empty.
pub fn read_chat_template(path: &Path) -> Result<String> {
    let text = read(path)?;
    if text.trim().is_empty() {
        return Err(Fault::TemplateEmpty.in_file(path));
    }
    Ok(text)
}

fn read(path: &Path) -> Result<String> {
    let cannot = |cause| Error::io("read", path, cause);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(cannot)?;
    // One byte more than allowed, to detect a longer file.
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if to_u64(bytes.len()) > MAX_BYTES {
        return Err(Fault::TemplateTooLong { limit: MAX_BYTES }.in_file(path));
    }
    if let Some(other) = sniff::by_first_bytes(&bytes) {
        return Err(Fault::OtherKind(other).in_file(path));
    }
    let text = String::from_utf8(bytes).map_err(|wrong| Fault::NotText(wrong.utf8_error()).in_file(path))?;
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(&text);
    Ok(text.replace("\r\n", "\n").replace('\r', "\n"))
}
