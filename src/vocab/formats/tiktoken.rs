//! Rank files, which list tokens without merges: tiktoken's, and Mistral's `tekken.json`.
//!
//! A line of tiktoken's has a token in base64 and its rank, which is also its id. `tekken.json` also has the pattern
//! and the special tokens, which get the lowest ids.

use std::ops::Range;
use std::path::Path;
use std::sync::LazyLock;

use base64::engine::general_purpose::{GeneralPurpose, PAD, STANDARD};
use base64::{Engine, alphabet};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use serde::{Deserialize, Serialize};

use super::transformers::WriteOptions;
use crate::base::hash::Map;
use crate::base::int::{TokenId, to_usize};
use crate::error::{Error, Result};
use crate::split::{NamedPattern, SplitPattern};
use crate::vocab::derivation::{BpeMerger, Decompositions, EqualTokens, TokenDerivation, check};
use crate::vocab::format::{
    Format, cannot_hold, expected, not_json, only_hf_holds, token_twice, unsupported,
};
use crate::vocab::io::{LoadOptions, Rendered, VocabularyEntries, pretty, read_bytes, read_json, read_text};
use crate::vocab::text_rules::{AddedToken, SpecialToken};
use crate::vocab::vocabulary::{RankedMerge, TokenList, Vocabulary, VocabularyParts, check_holes};

/// The settings that a rank file lacks, stored in a JSON file beside it. The names are the arguments of
/// `tiktoken.Encoding`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sidecar {
    /// The encoding's name, which has no effect here.
    name: String,
    /// The regular expression that splits text into pre-tokens.
    pat_str: String,
    /// The texts of special tokens with their ids.
    special_tokens: VocabularyEntries,
}

/// The spelling of a token without bytes; Whisper has one. The field cannot be empty, because tiktoken's lines cannot
/// begin with white space.
const NO_BYTES: &str = "=";

/// Reads a rank file with its sidecar.
///
/// # Errors
/// A file cannot be read or is damaged; nothing says how text is split, or the options contradict the files; or the
/// ranks break an invariant of [`Vocabulary`] or need too many merges.
pub(in crate::vocab) fn load(path: &Path, options: &LoadOptions) -> Result<Vocabulary> {
    let tokens = ranks(&read_text(path)?).map_err(|error| error.at(path.display()))?;
    // The sidecar's name is the whole name with `.json` appended.
    let mut sidecar_path = path.as_os_str().to_owned();
    sidecar_path.push(".json");
    let sidecar: Option<Sidecar> = read_json(Path::new(&sidecar_path))?;
    let is_alone = sidecar.is_none();
    let (split, specials) = match sidecar {
        Some(Sidecar { pat_str, special_tokens, .. }) => {
            let split = options.same_split(SplitPattern::from_regex(&pat_str));
            (split.map_err(|error| error.at(path.display()))?, special_tokens.0)
        }
        None => published_settings(path, options).map_err(|error| error.at(path.display()))?,
    };
    let mut added: Vec<AddedToken> =
        specials.into_iter().map(|(text, id)| AddedToken::special(id, text)).collect();
    if is_alone {
        let ids = tokens.iter().map(|(id, _)| *id);
        SpecialToken::add_new(&options.special_tokens, &mut added, ids, |_| false);
    }
    let parts = parts(tokens, added, split).and_then(|parts| parts.build());
    parts.map_err(|error| error.at(path.display()))
}

/// A file that OpenAI publishes without a sidecar.
///
/// `tiktoken` has its settings in code. They are repeated here, so that the files can be used without options.
struct PublishedRanks {
    /// The name without extension under which it is published.
    name: &'static str,
    /// Its name in the cache of `tiktoken`: the SHA-1 of its address.
    cached_as: &'static str,
    /// The split that `tiktoken` uses for it.
    split: NamedPattern,
    /// The special tokens that `tiktoken` adds to it, with their ids.
    specials: &'static [(&'static str, u32)],
}

/// The files that are known by name. `p50k_edit` and similar encodings use the same files with further special
/// tokens.
const PUBLISHED_RANKS: [PublishedRanks; 4] = [
    PublishedRanks {
        name: "r50k_base",
        cached_as: "0ea1e91bbb3a60f729a8dc8f777fd2fc07cd8df4",
        split: NamedPattern::Gpt2,
        specials: &[("<|endoftext|>", 50_256)],
    },
    PublishedRanks {
        name: "p50k_base",
        cached_as: "ec7223a39ce59f226a68acc30dc1af2788490e15",
        split: NamedPattern::Gpt2,
        specials: &[("<|endoftext|>", 50_256)],
    },
    PublishedRanks {
        name: "cl100k_base",
        cached_as: "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        split: NamedPattern::Cl100k,
        specials: &[
            ("<|endoftext|>", 100_257),
            ("<|fim_prefix|>", 100_258),
            ("<|fim_middle|>", 100_259),
            ("<|fim_suffix|>", 100_260),
            ("<|endofprompt|>", 100_276),
        ],
    },
    PublishedRanks {
        name: "o200k_base",
        cached_as: "fb374d419588a4632f3f557e76b4b70aebbca790",
        split: NamedPattern::O200k,
        specials: &[("<|endoftext|>", 199_999), ("<|endofprompt|>", 200_018)],
    },
];

/// Returns the split and special tokens of a file without a sidecar: those of the published file with this name, or
/// else the split from the options and no special tokens.
///
/// # Errors
/// The file is unknown and the options name no split, or they name another split than its own.
fn published_settings(path: &Path, options: &LoadOptions) -> Result<(SplitPattern, Vec<(String, TokenId)>)> {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let published = PUBLISHED_RANKS.iter().find(|file| file.name == stem || file.cached_as == stem);
    let Some(PublishedRanks { split, specials, .. }) = published else {
        return Ok((options.split.clone().ok_or_else(no_split)?, Vec::new()));
    };
    let specials = specials.iter().map(|&(text, id)| (text.to_owned(), TokenId::new(id)));
    Ok((options.same_split(SplitPattern::Named(*split))?, specials.collect()))
}

/// Returns the error of a rank file on its own, which has only tokens.
fn no_split() -> Error {
    Error::usage("the file does not say how text is split").with_help(
        "name its split pattern with `--split NAME` (for instance llama3) or `--split-regex REGEX` (in a recipe: \
         `split` in [encode]), and its special tokens with `--special-token TEXT=ID`. Or convert it once with \
         `convert --split NAME --to tiktoken`: the converted tokenizer names both. OpenAI's files, such as \
         cl100k_base.tiktoken, are recognized by their names",
    )
}

/// Base64 as tiktoken's reader accepts it: unused bits at the end may be set.
const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, PAD.with_decode_allow_trailing_bits(true));

/// Reads lines as tiktoken does. Any white space may separate and surround a token and its rank, and any line break
/// may end a line. Empty lines are skipped but counted.
///
/// # Errors
/// A line is not a token in base64 and a rank.
fn ranks(text: &str) -> Result<TokenList> {
    let mut tokens = Vec::new();
    let lines = text.split('\n').flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r'));
    for (line, number) in lines.zip(1..) {
        if line.is_empty() {
            continue;
        }
        let token = token_and_rank(line);
        tokens.push(token.ok_or_else(|| expected(number, "a token in base64 and its rank", line))?);
    }
    Ok(tokens)
}

/// Reads one line. `None` if it does not have exactly two fields, a token in base64 or [`NO_BYTES`], and a rank below
/// 2^32.
fn token_and_rank(line: &str) -> Option<(TokenId, Box<[u8]>)> {
    let is_space = |character| matches!(character, ' ' | '\t' | '\x0b' | '\x0c');
    let mut words = line.split(is_space).filter(|word| !word.is_empty());
    let (token, rank) = (words.next()?, words.next()?);
    let bytes = if token == NO_BYTES { Vec::new() } else { LENIENT.decode(token).ok()? };
    let read = (TokenId::new(rank.parse().ok()?), bytes.into_boxed_slice());
    words.next().is_none().then_some(read)
}

/// Returns whether a file begins like a rank file. Only the first line that is not empty is read, so the beginning of
/// a file suffices if it has this line.
pub(in crate::vocab) fn begins_with_a_rank(bytes: &[u8]) -> bool {
    let mut lines = bytes.split(|byte| matches!(byte, b'\n' | b'\r')).filter(|line| !line.is_empty());
    let first = lines.next().and_then(|line| std::str::from_utf8(line).ok());
    first.is_some_and(|line| token_and_rank(line).is_some())
}

/// Returns the parts of a vocabulary with these ranks, which are also the ids.
///
/// Rank files have no merges. tiktoken first looks up the whole pre-token. Then it joins adjacent tokens if their
/// joined bytes are a token, the one of lowest rank first. If this makes every token of the token's own bytes, only
/// the last step of each derivation matters and the look-up changes nothing, so one merge per token encodes alike.
/// Otherwise every way to cut a token in two becomes a merge, and whole pre-tokens are looked up.
///
/// # Errors
/// A token occurs twice, too many ids would be unused, or a vocabulary that needs all cuts has too many.
pub(in crate::vocab) fn parts(
    tokens: TokenList,
    added: Vec<AddedToken>,
    split: SplitPattern,
) -> Result<VocabularyParts> {
    let highest = tokens.iter().map(|(id, _)| *id).max().unwrap_or_default();
    check_holes(tokens.len() + added.len(), highest)?;
    let (mut tokens, empty): (TokenList, TokenList) =
        tokens.into_iter().partition(|(_, bytes)| !bytes.is_empty());
    if empty.len() > 1 {
        return Err(token_twice(""));
    }
    let (merges, ignore_merges) = {
        let decompositions = decompositions(tokens.iter().map(|(_, bytes)| &**bytes))
            .map_err(|EqualTokens(token, _)| token_twice(&String::from_utf8_lossy(&tokens[token].1)))?;
        match last_merges(&tokens, &decompositions, highest.index() + 1) {
            Some(merges) => (merges, false),
            None => (all_decompositions(&tokens, &decompositions)?, true),
        }
    };
    tokens.extend(empty);
    Ok(VocabularyParts { tokens, added, merges, split, ignore_merges, ..VocabularyParts::default() })
}

/// Finds the ways to cut tokens, which are identified by their positions in the iterator.
fn decompositions<'a>(tokens: impl Iterator<Item = &'a [u8]>) -> Result<Decompositions, EqualTokens> {
    Decompositions::new(&Vec::from_iter(tokens))
}

/// The message for tokens with too many cuts: every cut of every token would become a merge.
const TOO_MANY_DECOMPOSITIONS: &str = "some tokens are made by no merge, and the others can be put together in too many ways to find their merges";

/// The id of each token by its bytes.
type IdsByBytes<'a> = Map<&'a [u8], TokenId>;

/// Maximum number of bytes in all the ways to cut tokens together (2^31), which takes some seconds to go over.
const MAX_DECOMPOSED_BYTES: usize = 1 << 31;

/// Maximum number of ways to cut tokens that become merges (2^23). Each takes about 100 bytes.
const MAX_DECOMPOSITIONS: usize = if cfg!(test) { 1 << 16 } else { 1 << 23 };

/// Length in bytes up to which all cuts of a token are tried (128). Longer tokens are merged in O(n log n), so that
/// the time to load a file is nearly linear in its size, whatever the tokens.
const MAX_DECOMPOSED_LENGTH: usize = if cfg!(test) { 4 } else { 128 };

/// Returns a merge for each token of several bytes, by ascending rank: the two tokens that remain of its bytes when
/// only merges of lower rank are applied. `None` if for some token the number of remaining tokens is not two.
///
/// This is the only cut of the token that no merge of lower rank crosses while both parts are derived.
fn last_merges(
    tokens: &TokenList,
    decompositions: &Decompositions,
    id_limit: usize,
) -> Option<Vec<RankedMerge>> {
    let ids = LazyLock::new(|| tokens.iter().map(|(id, token)| (&**token, *id)).collect::<IdsByBytes<'_>>());
    let byte_ids = byte_ids(tokens);
    let longer: Vec<usize> = (0..tokens.len()).filter(|&token| tokens[token].1.len() > 1).collect();
    let steps = |merger: &mut BpeMerger, &token: &usize| match tokens[token].1.len() {
        0..=MAX_DECOMPOSED_LENGTH => {
            let is_earlier = |cut: &RankedMerge| cut.left.max(cut.right) < cut.result;
            decompositions_of(tokens, decompositions, token).filter(is_earlier).collect()
        }
        _ => Vec::from_iter(last_merge(merger, &tokens[token], &byte_ids, &ids)),
    };
    let mut steps: Vec<RankedMerge> =
        longer.par_iter().map_init(BpeMerger::default, steps).flatten_iter().collect();
    steps.sort_by_key(|step| step.rank);
    let mut derivation = TokenDerivation::new(id_limit, longer.len());
    let mut merges = Vec::with_capacity(longer.len());
    for steps in steps.chunk_by(|one, other| one.rank == other.rank) {
        let last = steps.iter().find(|step| derivation.is_derived(step))?;
        derivation.add(last);
        merges.push(*last);
    }
    (merges.len() == longer.len()).then_some(merges)
}

/// Returns the token of each byte, or [`MISSING`]. Only tokens of one byte are considered.
fn byte_ids(tokens: &TokenList) -> [u32; 256] {
    let mut ids = [MISSING; 256];
    for (id, token) in tokens {
        if let [byte] = **token {
            ids[usize::from(byte)] = id.get();
        }
    }
    ids
}

/// The id that marks a missing token. No token has it.
const MISSING: u32 = u32::MAX;

/// Returns the ways to cut a token into two others, as merges. `token` is an index in the list. All these merges have
/// the rank of the token.
fn decompositions_of<'a>(
    tokens: &'a TokenList,
    decompositions: &'a Decompositions,
    token: usize,
) -> impl Iterator<Item = RankedMerge> + 'a {
    let id = tokens[token].0;
    decompositions.of(token).map(move |(left, right)| RankedMerge {
        left: tokens[left].0,
        right: tokens[right].0,
        result: id,
        rank: id.get(),
    })
}

/// Returns the two tokens that remain of a long token when only lower ranks are merged. It merges the token's bytes.
/// `None` if the number of remaining tokens is not two.
fn last_merge(
    merger: &mut BpeMerger,
    (result, token): &(TokenId, Box<[u8]>),
    byte_ids: &[u32; 256],
    ids: &IdsByBytes<'_>,
) -> Option<RankedMerge> {
    let symbols = token.iter().map(|&byte| byte_ids[usize::from(byte)]);
    let lookup = |(left, right), range: Range<usize>| {
        if left == MISSING || right == MISSING {
            return None;
        }
        let id = *ids.get(&token[range])?;
        (id < *result).then_some((id.get(), id.get()))
    };
    let &[left, right] = merger.run(symbols, lookup, |_| {}) else { return None };
    if left == MISSING || right == MISSING {
        return None;
    }
    let (left, right) = (TokenId::new(left), TokenId::new(right));
    Some(RankedMerge { left, right, result: *result, rank: result.get() })
}

/// Returns all ways to cut each token in two, in the order of Hugging Face's converters: by token, then by the ids of
/// the parts. Each way is a merge with its own rank.
///
/// In tiktoken, all merges that make a token share its rank. The difference has no effect. Two adjacent tokens of a
/// text are derived there step by step as from their own bytes alone, since no merge crosses their borders before
/// they are joined. So a token is always made of the same two parts: those that are left of its own bytes before the
/// last step. No other way to cut it ever occurs.
///
/// # Errors
/// The ways number more than [`MAX_DECOMPOSITIONS`], or have more than [`MAX_DECOMPOSED_BYTES`] together.
fn all_decompositions(tokens: &TokenList, decompositions: &Decompositions) -> Result<Vec<RankedMerge>> {
    let (mut merges, mut bytes) = (Vec::new(), 0);
    for (token, (_, spelled)) in tokens.iter().enumerate() {
        let before = merges.len();
        merges.extend(decompositions_of(tokens, decompositions, token));
        bytes += (merges.len() - before) * spelled.len();
        if bytes > MAX_DECOMPOSED_BYTES || merges.len() > MAX_DECOMPOSITIONS {
            return Err(Error::failed(TOO_MANY_DECOMPOSITIONS));
        }
    }
    merges.sort_unstable_by_key(|merge| (merge.result, merge.left, merge.right));
    merges.iter_mut().zip(0..).for_each(|(merge, rank)| merge.rank = rank);
    Ok(merges)
}

/// Writes the rank file and its sidecar.
///
/// # Errors
/// The format cannot hold the vocabulary.
pub(in crate::vocab) fn render(vocabulary: &Vocabulary, options: &WriteOptions) -> Result<Rendered> {
    limits(vocabulary)?;
    let mut ranks = String::new();
    for (id, bytes) in vocabulary.ordinary() {
        match bytes {
            [] => ranks.push_str(NO_BYTES),
            bytes => STANDARD.encode_string(bytes, &mut ranks),
        }
        ranks.extend([" ", &id.to_string(), "\n"]);
    }
    let specials = vocabulary.added.iter().map(|special| (special.text.clone(), special.id));
    let sidecar = Sidecar {
        name: options.name.clone(),
        pat_str: vocabulary.split.regex().unwrap_or_default().to_owned(),
        special_tokens: VocabularyEntries(specials.collect()),
    };
    Ok([ranks.into_bytes(), pretty(&sidecar)])
}

/// Refuses a vocabulary that would encode some text differently after being read back from its ranks. Either the
/// shortcuts hold for it and its ids are in the order of its ranks, or its merges are all cuts of all tokens, as a
/// reader would derive them.
///
/// # Errors
/// Two tokens have equal bytes, the vocabulary has a property that only `tokenizer.json` can hold, or its merges do
/// not follow from its ids.
fn limits(vocabulary: &Vocabulary) -> Result<()> {
    vocabulary.check_not_hf_only(Format::Tiktoken)?;
    let tokens: Vec<(TokenId, &[u8])> =
        vocabulary.ordinary().filter(|(_, bytes)| !bytes.is_empty()).collect();
    let equal = |EqualTokens(one, other)| {
        let (first, second) = (tokens[one].0, tokens[other].0);
        cannot_hold(Format::Tiktoken, format!("tokens {first} and {second} have equal bytes"))
    };
    let not_by_ids =
        || only_hf_holds(Format::Tiktoken, "its merges do not follow from the order of its token ids");
    let decompositions = decompositions(tokens.iter().map(|(_, bytes)| *bytes)).map_err(equal)?;
    let checks = check(vocabulary);
    if checks.shortcuts_hold() && checks.ids_in_rank_order {
        return Ok(());
    }
    let tokens: TokenList = tokens.into_iter().map(|(id, bytes)| (id, Box::from(bytes))).collect();
    let ranked = VocabularyParts {
        merges: all_decompositions(&tokens, &decompositions).map_err(|_| not_by_ids())?,
        tokens,
        added: vocabulary.added.clone(),
        split: vocabulary.split.clone(),
        ignore_merges: true,
        ..VocabularyParts::default()
    };
    let looked_up = vocabulary.ignore_merges || checks.not_self_encoding == 0;
    match ranked.build() {
        Ok(ranked) if ranked.merges == vocabulary.merges && looked_up => Ok(()),
        _ => Err(not_by_ids()),
    }
}

/// The file's name in Mistral's repositories.
pub(in crate::vocab) const TEKKEN: &str = "tekken.json";

/// Maximum number of special tokens that a file may declare without listing them. Mistral's files declare 1 000.
const MAX_TEKKEN_SPECIALS: u32 = 1 << 16;

/// The fields that concern text. Other fields configure images, sound and models.
#[derive(Deserialize)]
struct TekkenFile {
    /// The pattern, and the numbers of tokens.
    config: TekkenConfig,
    /// The tokens by ascending rank. The id of a token is its rank plus the number of special tokens.
    vocab: Vec<TekkenToken>,
    /// The special tokens; `None` in files that do not list them, which use [`TEKKEN_SPECIALS`].
    special_tokens: Option<Vec<TekkenSpecial>>,
}

/// The settings of text in a `tekken.json`. Their figures are checked against the lists.
#[derive(Deserialize)]
struct TekkenConfig {
    /// The regular expression that splits text.
    pattern: String,
    /// The number of tokens that are used, special ones included.
    default_vocab_size: u32,
    /// The number of ids reserved for special tokens, from 0 on.
    default_num_special_tokens: u32,
}

/// An ordinary token. The list is in the order of ranks, without gaps.
#[derive(Deserialize)]
struct TekkenToken {
    /// The token's position in the list.
    rank: u32,
    /// The token's bytes in base64.
    token_bytes: String,
}

/// A special token. Its rank is already its id.
#[derive(Deserialize)]
struct TekkenSpecial {
    /// The token's id, below the number of special tokens.
    rank: TokenId,
    /// The token's text.
    token_str: String,
}

/// The special tokens of files that list none, in the order of their ids.
const TEKKEN_SPECIALS: [&str; 20] = [
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
pub(in crate::vocab) fn is_tekken(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.contains("tekken") && name.ends_with(".json")
}

/// Reads a `tekken.json`.
///
/// # Errors
/// The file cannot be read, is damaged, contradicts the options, or declares numbers of tokens that do not match its
/// lists.
pub(in crate::vocab) fn load_tekken(path: &Path, options: &LoadOptions) -> Result<Vocabulary> {
    let file = serde_json::from_slice(&read_bytes(path)?).map_err(not_json);
    let from_tekken = file.and_then(|file| from_tekken(file, options));
    from_tekken.map_err(|error| error.at(path.display()))
}

/// Builds the vocabulary from the parsed file. Special tokens have the lowest ids; those that are neither listed nor
/// known are named by number, as Mistral's program names them.
///
/// # Errors
/// The options name another split, a list contradicts the declared numbers, or the parts break an invariant of
/// [`Vocabulary`].
fn from_tekken(
    TekkenFile { config, vocab, special_tokens }: TekkenFile,
    options: &LoadOptions,
) -> Result<Vocabulary> {
    let split = options.same_split(SplitPattern::from_regex(&config.pattern))?;
    let TekkenConfig { default_vocab_size: size, default_num_special_tokens: specials, .. } = config;
    let used = size.checked_sub(specials).map(to_usize).filter(|&used| used <= vocab.len());
    let Some(used) = used.filter(|_| specials <= MAX_TEKKEN_SPECIALS) else {
        return Err(unsupported(format!(
            "a vocabulary of {size} tokens, {specials} of them special, where {} others are listed,",
            vocab.len()
        )));
    };
    let mut tokens = TokenList::with_capacity(used);
    // Tokens beyond the declared vocabulary size are ignored, as in Mistral's program.
    for (TekkenToken { rank, token_bytes }, expected) in vocab.into_iter().take(used).zip(0..) {
        let bytes = STANDARD.decode(&token_bytes).ok().filter(|_| rank == expected);
        let bytes = bytes.ok_or_else(|| {
            unsupported(format!("rank {rank} where {expected} is expected, or a token that is not base64,"))
        })?;
        tokens.push((TokenId::new(specials + rank), bytes.into_boxed_slice()));
    }
    let listed = special_tokens.unwrap_or_else(|| {
        let listed = (0..specials).zip(TEKKEN_SPECIALS);
        listed
            .map(|(rank, text)| TekkenSpecial { rank: TokenId::new(rank), token_str: text.to_owned() })
            .collect()
    });
    let filled =
        (0..specials).skip(listed.len()).map(|rank| (TokenId::new(rank), format!("<SPECIAL_{rank}>")));
    let listed = listed.into_iter().map(|TekkenSpecial { rank, token_str }| (rank, token_str));
    let added: Vec<AddedToken> =
        listed.chain(filled).map(|(id, text)| AddedToken::special(id, text)).collect();
    if let Some(token) = added.iter().find(|token| token.id.get() >= specials) {
        return Err(unsupported(format!("special token {:?} with rank {}", token.text, token.id)));
    }
    parts(tokens, added, split)?.build()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    /// Generates tokens of few letters. They are in ascending order of length, so that some are made of two others
    /// and some are not. Within a length the order is arbitrary, except that ranks ascend.
    fn tokens() -> impl Strategy<Value = TokenList> {
        vec(vec(select(b"aabc".to_vec()), 2..9), 0..14).prop_map(|longer| {
            let mut longer: Vec<Vec<u8>> = BTreeSet::from_iter(longer).into_iter().collect();
            longer.sort_by_key(Vec::len);
            let bytes = (0..=u8::MAX).map(|byte| vec![byte]);
            bytes.chain(longer).zip(0..).map(|(token, id)| (TokenId::new(id), token.into())).collect()
        })
    }

    /// Tokens with too many decompositions are refused. They are all strings over two letters up to a length, plus
    /// one string that no two tokens make, so that all cuts are needed.
    #[test]
    fn more_ways_to_cut_tokens_than_there_is_room_for_are_refused() {
        let longer = |tokens: &Vec<Vec<u8>>| {
            let one = |token: &Vec<u8>| [b'a', b'b'].map(|letter| [&**token, &[letter]].concat());
            Some(tokens.iter().flat_map(one).collect())
        };
        let of_length = std::iter::successors(Some(vec![b"a".to_vec(), b"b".to_vec()]), longer);
        for (longest, refused) in [(10, false), (13, true)] {
            let bytes = (0..=u8::MAX).map(|byte| vec![byte]);
            let all = bytes.chain(of_length.clone().take(longest).skip(1).flatten()).chain([b"xyz".to_vec()]);
            let tokens: TokenList = (0..).map(TokenId::new).zip(all.map(Vec::into_boxed_slice)).collect();
            let parts = parts(tokens, Vec::new(), SplitPattern::None);
            assert_eq!(
                parts.is_err_and(|error| error.to_string() == TOO_MANY_DECOMPOSITIONS),
                refused,
                "up to {longest} letters"
            );
        }
    }

    /// Published files are recognized by their names and by their names in tiktoken's cache.
    #[test]
    fn published_files_are_known_in_the_cache_of_tiktoken() {
        for PublishedRanks { name, cached_as, specials, .. } in PUBLISHED_RANKS {
            #[cfg(feature = "hub")]
            let address = format!("https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken");
            #[cfg(feature = "hub")]
            assert_eq!(
                cached_as,
                crate::base::integrity::hex(&<sha1::Sha1 as sha1::Digest>::digest(address))
            );
            let known = |path: &str| {
                published_settings(Path::new(path), &LoadOptions::default()).expect("a known name").1
            };
            assert_eq!(
                known(&format!("/tmp/data-gym-cache/{cached_as}")),
                known(&format!("{name}.tiktoken"))
            );
            assert_eq!(known(cached_as).len(), specials.len());
        }
    }

    proptest! {
        /// Trying all cuts finds the same last steps as merging.
        #[test]
        fn the_last_step_is_found_as_by_merging(mut tokens in tokens(), backwards in any::<bool>()) {
            if backwards {
                tokens.reverse();
            }
            let ids: IdsByBytes<'_> = tokens.iter().map(|(id, bytes)| (&**bytes, *id)).collect();
            let byte_ids = byte_ids(&tokens);
            let mut longer: Vec<_> = tokens.iter().filter(|(_, token)| token.len() > 1).collect();
            longer.sort();
            let merged = longer.iter().map(|token| last_merge(&mut BpeMerger::default(), token, &byte_ids, &ids));
            let decompositions = decompositions(tokens.iter().map(|(_, bytes)| &**bytes)).expect("a set");
            prop_assert_eq!(last_merges(&tokens, &decompositions, tokens.len()), merged.collect());
        }
    }
}
