//! `convert`: writes a tokenizer in another format.
//!
//! By default, all ids and merges stay the same. The command can add special tokens, which get new ids, and it can turn
//! ordinary tokens into special ones. It can also remove tokens, with everything that is made of them, and close the
//! holes among the ids. For the format `hf` it also writes the settings that `transformers` reads. Every check comes
//! before the first file is written, because a folder that holds half of two tokenizers would load without an error.

use std::path::Path;

use serde_json::{Value, json};
use tokenmill::base::int::{to_u64, u64_to_usize, with_unit};
use tokenmill::observer::Silent;
use tokenmill::vocab::{
    AddedToken, Format, TransformersConfig, Vocabulary, WriteOptions, compatibility_notes, load,
    note_left_out_settings, read_chat_template, read_token_list, read_transformers_settings, render, save,
};
use tokenmill::{Error, Observer, TokenId};

use super::args::{ConvertArgs, RemainingIds, TransformersFlags};
use super::failure::Failure;
use super::session::{Done, Session, tokenizer};
use super::terminal::shortened;

/// Runs `convert`: writes the tokenizer in another format, possibly with additional special tokens and without some
/// others, and prints the paths of the files.
///
/// Nothing is written if the folder holds a different tokenizer in that format.
///
/// Messages name the tokens that are removed, the new ids, the settings that the new format cannot store, and what
/// programs of that format do differently.
///
/// # Errors
/// The tokenizer cannot be read, a token is wrong or cannot be removed, the format cannot express the vocabulary, or
/// the folder holds another tokenizer or another chat template.
pub(super) fn convert(args: &ConvertArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let progress = session.progress();
    let source = tokenizer(&args.tokenizer.tokenizer, &progress)?;
    let before = load(&source, &args.tokenizer.split.options(), &progress)?;
    let asked = asked_tokens(args)?;
    let all = before.with_special_tokens(&asked)?;
    let given = given_options(&args.transformers)?;
    let edited = Edited::new(&all, args)?;
    if args.to == Format::Hf && !edited.listed.is_empty() {
        let settings = completed(given.clone(), read_transformers_settings(&source, &all, &Silent)?);
        edited.check_roles(&all, &settings)?;
    }
    let vocabulary = &edited.vocabulary;
    let folder = Path::new(&args.output);
    let options = match args.to {
        Format::Hf => completed(given, read_transformers_settings(&source, vocabulary, &progress)?),
        // No other format has a place for these settings.
        _ => {
            note_left_out_settings(&source, vocabulary, &progress);
            if !given.config_keys().is_empty() {
                let (keys, format) = (given.config_keys().join(", "), args.to);
                progress.noted(&format!("{keys}: the format {format} cannot store this, only hf can"));
            }
            WriteOptions::default()
        }
    };
    check_holes(vocabulary, args.to, &options)?;
    let paths = save(vocabulary, args.to, folder, &options, &progress)?;
    edited.note(&before, &all, &progress);
    let vocabularies = [&before, &all, vocabulary];
    let added = note_added_tokens(vocabularies, &asked, &args.add_special_token, &progress);
    compatibility_notes(vocabulary, args.to).iter().for_each(|caution| progress.noted(caution));
    if session.json() {
        let mut result = json!({ "files": paths, "fingerprint": vocabulary.fingerprint() });
        if !asked.is_empty() {
            let token = |token: &AddedToken| json!({ "text": token.text, "id": token.id });
            result["added_special_tokens"] = added.iter().map(token).collect();
        }
        edited.add_to_json(&mut result);
        session.print_json(&result)?;
    }
    paths.iter().for_each(|path| session.say(&format!("wrote {}", path.display())));
    Ok(Done::Whole)
}

/// The vocabulary to write, and how it differs from the one that was read.
struct Edited {
    /// The vocabulary to write.
    vocabulary: Vocabulary,
    /// The removed tokens that `--drop-tokens` lists, ascending.
    listed: Vec<TokenId>,
    /// The removed tokens that were made of these, ascending.
    made_of_listed: Vec<TokenId>,
    /// The tokens that `--vocab-size` removes, ascending.
    last: Vec<TokenId>,
    /// For each new id, the id before; `None` if all ids are kept.
    old_ids: Option<Vec<TokenId>>,
}

impl Edited {
    /// Removes the tokens that the flags say from a vocabulary, and then renumbers its ids.
    ///
    /// # Errors
    /// The list cannot be read or names a token that must stay, or the vocabulary cannot have the size that was asked
    /// for.
    fn new(all: &Vocabulary, args: &ConvertArgs) -> Result<Edited, Error> {
        let list = args.drop_tokens.as_ref();
        let listed = list.map(|path| read_token_list(Path::new(path), all)).transpose()?.unwrap_or_default();
        let without = all.without_tokens(&listed)?;
        let mut made_of_listed = difference(all, &without);
        made_of_listed.retain(|id| listed.binary_search(id).is_err());
        let size = args.vocab_size.map(u64_to_usize);
        let kept = size.map(|size| without.shortened(size)).transpose()?;
        let last = kept.as_ref().map_or_else(Vec::new, |kept| difference(&without, kept));
        let kept = kept.unwrap_or(without);
        let (vocabulary, old_ids) = match args.ids {
            RemainingIds::Keep => (kept, None),
            RemainingIds::Dense => (kept.with_dense_ids(), Some(kept.tokens().map(|(id, _)| id).collect())),
        };
        Ok(Edited { vocabulary, listed, made_of_listed, last, old_ids })
    }

    /// Checks that the settings for `transformers` name none of the listed tokens.
    ///
    /// # Errors
    /// They name one.
    fn check_roles(&self, all: &Vocabulary, settings: &WriteOptions) -> Result<(), Error> {
        for special in self.listed.iter().filter_map(|&id| all.special(id)) {
            let is_named = |key: &String| names_token(settings.config_value(key), &special.text);
            if let Some(role) = settings.config_keys().into_iter().find(is_named) {
                let (text, id) = (&special.text, special.id);
                let problem =
                    format!("token {id} ({text:?}) cannot be removed: it is {role} in tokenizer_config.json");
                return Err(Error::usage(problem).with_help(
                    "name another token for it, for example by --eos, or take it out of the file",
                ));
            }
        }
        Ok(())
    }

    /// Reports the tokens that were removed, and the ids of the others. `all` is the vocabulary from which they were
    /// removed, and `before` the same without the special tokens that the command adds.
    fn note(&self, before: &Vocabulary, all: &Vocabulary, observer: &dyn Observer) {
        let Edited { vocabulary, listed, made_of_listed, last, old_ids } = self;
        if !listed.is_empty() {
            observer.noted(&format!("{} removed", with_unit(to_u64(listed.len()), "listed token")));
        }
        let others = [(made_of_listed, "were made of listed ones"), (last, "merges make last")];
        for (removed, why) in others.into_iter().filter(|(removed, _)| !removed.is_empty()) {
            let tokens = with_unit(to_u64(removed.len()), "token");
            let shown = |id: &TokenId| format!("{id} '{}'", shortened(all.bytes(*id).unwrap_or_default()));
            observer
                .noted(&format!("{tokens} removed that {why}: {}", first_ones(removed.iter().map(shown))));
        }
        match old_ids {
            Some(old_ids) => note_new_ids(before, old_ids, observer),
            None if vocabulary.tokens().count() < all.tokens().count() => note_holes(vocabulary, observer),
            None => {}
        }
    }

    /// Adds the removed tokens and the changed ids to the result for programs.
    fn add_to_json(&self, result: &mut Value) {
        if !self.listed.is_empty() {
            result["removed_tokens"] =
                json!({ "listed": self.listed, "made_of_listed": self.made_of_listed });
        }
        if !self.last.is_empty() {
            result["removed_tokens"]["last"] = json!(self.last);
        }
        if let Some(old_ids) = &self.old_ids {
            result["old_ids"] = json!(old_ids);
        }
    }
}

/// Returns the tokens that a smaller vocabulary with the same ids lacks.
fn difference(larger: &Vocabulary, smaller: &Vocabulary) -> Vec<TokenId> {
    larger.tokens().map(|(id, _)| id).filter(|id| smaller.bytes(*id).is_none()).collect()
}

/// Reports the ids that dense ids changed, and the special tokens among them. `old_ids` has the id before of each new
/// id.
fn note_new_ids(before: &Vocabulary, old_ids: &[TokenId], observer: &dyn Observer) {
    let renumbered = || old_ids.iter().enumerate().filter(|(new, old)| *new != old.index());
    let special = |(new, old): (usize, &TokenId)| {
        let text = &before.special(*old)?.text;
        Some(format!("{text:?} {new} (before {old})"))
    };
    let specials: Vec<String> = renumbered().filter_map(special).collect();
    if !specials.is_empty() {
        observer.noted(&format!("special tokens with new ids: {}", first_ones(specials.into_iter())));
    }
    let (left, changed) = (old_ids.len(), renumbered().count());
    observer.noted(&format!("{left} tokens are left, {changed} of them with new ids"));
}

/// Reports how many tokens are left, and the holes among their ids.
fn note_holes(vocabulary: &Vocabulary, observer: &dyn Observer) {
    let (left, limit) = (vocabulary.tokens().count(), vocabulary.id_limit());
    let holes = match limit - left {
        0 => format!("no id below {limit} is unused"),
        1 => format!("1 id below {limit} is unused (--ids dense closes this hole)"),
        holes => format!("{holes} ids below {limit} are unused (--ids dense closes these holes)"),
    };
    observer.noted(&format!("{left} tokens are left with their ids, and {holes}"));
}

/// Most tokens that a message lists (10).
const LISTED: usize = 10;

/// Joins the first items for a message, and says how many there are beyond [`LISTED`].
fn first_ones(mut items: impl ExactSizeIterator<Item = String>) -> String {
    let first: Vec<String> = items.by_ref().take(LISTED).collect();
    match items.len() {
        0 => first.join(", "),
        more => format!("{}, and {more} more (--json has all)", first.join(", ")),
    }
}

/// Returns whether a setting is the name of a token, or a list or an object with it.
fn names_token(setting: Option<Value>, text: &str) -> bool {
    match setting {
        Some(Value::String(name)) => name == text,
        Some(Value::Array(names)) => names.into_iter().any(|name| names_token(Some(name), text)),
        Some(Value::Object(names)) => names.into_iter().any(|(_, name)| names_token(Some(name), text)),
        _ => false,
    }
}

/// Checks that a format can hold a vocabulary with holes among its ids, if it can hold the same without holes.
///
/// # Errors
/// It cannot. The remedy is `--ids dense`.
fn check_holes(vocabulary: &Vocabulary, format: Format, options: &WriteOptions) -> Result<(), Error> {
    let has_holes = vocabulary.tokens().count() < vocabulary.id_limit();
    match render(vocabulary, format, options) {
        Err(error) if has_holes && render(&vocabulary.with_dense_ids(), format, options).is_ok() => {
            Err(error.with_help("close the holes among the ids by --ids dense, or write the format hf"))
        }
        // Any other problem is found when the files are written.
        _ => Ok(()),
    }
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
/// `before` is the vocabulary without the new tokens, `all` the same with them, and `written` the one that is written,
/// which may have other ids. `to_add` are the tokens of `--add-special-token` alone: a message names each of these that
/// existed before. A role such as BOS usually names an existing token and needs no message.
fn note_added_tokens(
    [before, all, written]: [&Vocabulary; 3],
    asked: &[String],
    to_add: &[String],
    observer: &dyn Observer,
) -> Vec<AddedToken> {
    let mut new = Vec::new();
    for token in written.specials().filter(|token| asked.contains(&token.text)) {
        let AddedToken { text, id, .. } = token;
        let first_id = all.specials().find(|special| special.text == *text).map_or(*id, |special| special.id);
        if before.special(first_id).is_some() {
            if to_add.contains(text) {
                observer.noted(&format!("special token {text:?} already exists, with id {id}"));
            }
            continue;
        }
        new.push(token.clone());
        observer.noted(&match before.bytes(first_id) {
            Some(_) => format!("token {text:?}, which has id {id}, is a special token now"),
            None => format!("special token {text:?} is added with id {id}"),
        });
    }
    new
}
