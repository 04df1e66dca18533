//! `convert`: writes a tokenizer in another format.
//!
//! All ids and merges stay the same. The command can add special tokens, which get new ids, and it can turn ordinary
//! tokens into special ones. For the format `hf` it also writes the settings that `transformers` reads. Every check
//! comes before the first file is written, because a folder that holds half of two tokenizers would load without an
//! error.

use std::path::Path;

use serde_json::json;
use tokenmill::vocab::{
    AddedToken, Format, TransformersConfig, Vocabulary, WriteOptions, compatibility_notes, load,
    note_left_out_settings, read_chat_template, read_transformers_settings, save,
};
use tokenmill::{Error, Observer};

use super::args::{ConvertArgs, TransformersFlags};
use super::failure::Failure;
use super::session::{Done, Session, tokenizer};

/// Runs `convert`: writes the tokenizer in another format, possibly with additional special tokens, and prints the
/// paths of the files.
///
/// Nothing is written if the folder holds a different tokenizer in that format.
///
/// Messages name the new ids, the settings that the new format cannot store, and what programs of that format do
/// differently.
///
/// # Errors
/// The tokenizer cannot be read, a token is wrong, the format cannot express the vocabulary, or the folder holds
/// another tokenizer or another chat template.
pub(super) fn convert(args: &ConvertArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let progress = session.progress();
    let source = tokenizer(&args.tokenizer.tokenizer, &progress)?;
    let before = load(&source, &args.tokenizer.split.options(), &progress)?;
    let asked = asked_tokens(args)?;
    let vocabulary = before.with_special_tokens(&asked)?;
    let folder = Path::new(&args.output);
    let given = given_options(&args.transformers)?;
    let options = match args.to {
        Format::Hf => completed(given, read_transformers_settings(&source, &vocabulary, &progress)?),
        // No other format has a place for these settings.
        _ => {
            note_left_out_settings(&source, &vocabulary, &progress);
            if !given.config_keys().is_empty() {
                let (keys, format) = (given.config_keys().join(", "), args.to);
                progress.noted(&format!("{keys}: the format {format} cannot store this, only hf can"));
            }
            WriteOptions::default()
        }
    };
    let paths = save(&vocabulary, args.to, folder, &options, &progress)?;
    let added = note_added_tokens(&before, &vocabulary, &asked, &args.add_special_token, &progress);
    compatibility_notes(&vocabulary, args.to).iter().for_each(|caution| progress.noted(caution));
    if session.json() {
        let mut result = json!({ "files": paths, "fingerprint": vocabulary.fingerprint() });
        if !asked.is_empty() {
            let token = |token: &AddedToken| json!({ "text": token.text, "id": token.id });
            result["added_special_tokens"] = added.iter().map(token).collect();
        }
        session.print_json(&result)?;
    }
    paths.iter().for_each(|path| session.say(&format!("wrote {}", path.display())));
    Ok(Done::Whole)
}

/// Returns the special tokens that are asked for, in the order in which new ones get their ids.
///
/// Those of `--add-special-token` come first, in the order of the command line. Then follow the roles BOS, EOS,
/// padding, unknown and mask, each only if its token is not in the list yet. Whether the vocabulary already has a
/// token is not considered here.
///
/// # Errors
/// One is empty, or is named twice by `--add-special-token`.
fn asked_tokens(args: &ConvertArgs) -> Result<Vec<String>, Error> {
    let mut asked: Vec<String> = Vec::new();
    for token in &args.add_special_token {
        if asked.contains(token) {
            return Err(Error::usage(format!("`--add-special-token` names {token:?} twice"))
                .with_help("name it once"));
        }
        asked.push(token.clone());
    }
    let TransformersFlags { bos, eos, pad, unk, mask, .. } = &args.transformers;
    for token in [bos, eos, pad, unk, mask].into_iter().flatten() {
        if !asked.contains(token) {
            asked.push(token.clone());
        }
    }
    if asked.iter().any(String::is_empty) {
        return Err(Error::usage("`--add-special-token` or another flag names an empty token")
            .with_help("leave it out"));
    }
    Ok(asked)
}

/// Returns the settings for `transformers` that flags give. A role without a flag is `None`. `kept` is empty;
/// [`completed`] fills it.
///
/// # Errors
/// The file of the chat template cannot be read, is not UTF-8, is empty, or has more than 16 MiB.
fn given_options(flags: &TransformersFlags) -> Result<WriteOptions, Error> {
    let TransformersFlags { bos, eos, pad, unk, mask, model_max_length, chat_template } = flags.clone();
    let chat_template = chat_template.map(|path| read_chat_template(Path::new(&path))).transpose()?;
    let kept = serde_json::Map::new();
    let transformers = TransformersConfig { pad, unk, mask, model_max_length, chat_template, kept };
    Ok(WriteOptions { bos, eos, transformers, ..WriteOptions::default() })
}

/// Returns the given settings, completed by those from beside the tokenizer. A flag takes precedence. Keys that no
/// flag covers are passed on unchanged in `kept`, so that a conversion does not lose settings which this program does
/// not know.
fn completed(given: WriteOptions, found: WriteOptions) -> WriteOptions {
    let transformers = TransformersConfig { kept: found.transformers.kept, ..given.transformers };
    WriteOptions { bos: given.bos.or(found.bos), eos: given.eos.or(found.eos), transformers, ..given }
}

/// Reports the ids of the special tokens that were asked for, and returns the new ones.
///
/// `before` is the vocabulary without the new tokens, `vocabulary` with them. `to_add` are the tokens of
/// `--add-special-token` alone: a message names each of these that existed before. A role such as BOS usually names
/// an existing token and needs no message.
fn note_added_tokens(
    before: &Vocabulary,
    vocabulary: &Vocabulary,
    asked: &[String],
    to_add: &[String],
    observer: &dyn Observer,
) -> Vec<AddedToken> {
    let mut new = Vec::new();
    for token in vocabulary.specials().filter(|token| asked.contains(&token.text)) {
        let AddedToken { text, id, .. } = token;
        if before.special(*id).is_some() {
            if to_add.contains(text) {
                observer.noted(&format!("special token {text:?} already exists, with id {id}"));
            }
            continue;
        }
        new.push(token.clone());
        observer.noted(&match before.bytes(*id) {
            Some(_) => format!("token {text:?}, which has id {id}, is a special token now"),
            None => format!("special token {text:?} is added with id {id}"),
        });
    }
    new
}
