//! Mistral's `tekken.json`: ranks, the pattern, and special tokens, which have the lowest ids.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::fault::Fault;
use super::format::{LoadOptions, read_bytes};
use super::tiktoken::{Tokens, parts};
use super::{AddedToken, Vocabulary};
use crate::base::int::{TokenId, to_usize};
use crate::error::Result;
use crate::split::SplitPattern;

/// The file's name in Mistral's repositories.
pub(super) const FILE: &str = "tekken.json";

/// Most special tokens that a file may declare without listing them. Mistral's files declare 1 000.
const MOST_SPECIALS: u32 = 1 << 16;

/// The fields that concern text. Other fields configure images, sound and models.
#[derive(Deserialize)]
struct File {
    /// The pattern, and the numbers of tokens.
    config: Config,
    /// The tokens by ascending rank. The id of a token is its rank plus the number of special tokens.
    vocab: Vec<Token>,
    /// The special tokens; `None` in files that do not list them, which use [`SPECIALS`].
    special_tokens: Option<Vec<Special>>,
}

#[derive(Deserialize)]
struct Config {
    /// The regular expression that splits text.
    pattern: String,
    /// The number of tokens that are used, special ones included.
    default_vocab_size: u32,
    /// The number of ids reserved for special tokens, from 0 on.
    default_num_special_tokens: u32,
}

#[derive(Deserialize)]
struct Token {
    /// The token's position in the list.
    rank: u32,
    /// The token's bytes in base64.
    token_bytes: String,
}

#[derive(Deserialize)]
struct Special {
    /// The token's id, below the number of special tokens.
    rank: TokenId,
    /// The token's text.
    token_str: String,
}

/// The special tokens of files that list none, in the order of their ids.
const SPECIALS: [&str; 20] = [
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
];

/// Returns whether a file is one by its name, by the rule of Mistral's program.
pub(super) fn is_named(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.contains("tekken") && name.ends_with(".json")
}

/// Reads a `tekken.json`.
///
/// # Errors
/// The file cannot be read, is damaged, contradicts the options, or declares numbers of tokens that do not match its
/// lists.
pub(super) fn load(path: &Path, options: &LoadOptions) -> Result<Vocabulary> {
    let file = serde_json::from_slice(&read_bytes(path)?).map_err(Fault::Json);
    let vocabulary = file.and_then(|file| vocabulary(file, options));
    vocabulary.map_err(|fault| fault.in_file(path))
}

fn vocabulary(
    File { config, vocab, special_tokens }: File,
    options: &LoadOptions,
) -> Result<Vocabulary, Fault> {
    let split = options.same_split(SplitPattern::from_regex(&config.pattern))?;
    let Config { default_vocab_size: size, default_num_special_tokens: specials, .. } = config;
    let used = size.checked_sub(specials).map(to_usize).filter(|&used| used <= vocab.len());
    let Some(used) = used.filter(|_| specials <= MOST_SPECIALS) else {
        return Err(Fault::unsupported(format!(
            "a vocabulary of {size} tokens, {specials} of them special, where {} others are listed,",
            vocab.len()
        )));
    };
    let mut tokens = Tokens::with_capacity(used);
    // Tokens beyond the declared vocabulary size are ignored, as in Mistral's program.
    for (Token { rank, token_bytes }, expected) in vocab.into_iter().take(used).zip(0..) {
        let bytes = STANDARD.decode(&token_bytes).ok().filter(|_| rank == expected);
        let bytes = bytes.ok_or_else(|| {
            Fault::unsupported(format!(
                "rank {rank} where {expected} is expected, or a token that is not base64,"
            ))
        })?;
        tokens.push((TokenId::new(specials + rank), bytes.into_boxed_slice()));
    }
    let listed = special_tokens.unwrap_or_else(|| {
        let listed = (0..specials).zip(SPECIALS);
        listed.map(|(rank, text)| Special { rank: TokenId::new(rank), token_str: text.to_owned() }).collect()
    });
    let filled =
        (0..specials).skip(listed.len()).map(|rank| (TokenId::new(rank), format!("<SPECIAL_{rank}>")));
    let listed = listed.into_iter().map(|Special { rank, token_str }| (rank, token_str));
    let added: Vec<AddedToken> =
        listed.chain(filled).map(|(id, text)| AddedToken::special(id, text)).collect();
    if let Some(token) = added.iter().find(|token| token.id.get() >= specials) {
        return Err(Fault::unsupported(format!("special token {:?} with rank {}", token.text, token.id)));
    }
    parts(tokens, added, split)?.build()
}
