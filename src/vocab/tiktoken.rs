//! tiktoken's rank files: on each line a token in base64 and its rank, which is also its id.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, PAD, STANDARD};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use serde::{Deserialize, Serialize};

use super::affixes::{Affixes, Equal};
use super::crossing::Making;
use super::fault::{Fault, Limit};
use super::format::{Format, LoadOptions, Rendered, WriteOptions, read_json, read_text};
use super::hf::pretty;
use super::keyed::Entries;
use super::merging::Merging;
use super::parts::check_holes;
use super::{AddedToken, RankedMerge, SpecialToken, Vocabulary, VocabularyParts, check};
use crate::base::hash::Map;
use crate::base::int::TokenId;
use crate::error::Result;
use crate::split::{Named, SplitPattern};

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
    special_tokens: Entries,
}

/// The spelling of a token without bytes, such as one of Whisper's. An empty string is impossible, because tiktoken's
/// lines cannot begin with white space.
const NO_BYTES: &str = "=";

/// Returns the path of the sidecar: `.json` is appended to the whole name.
fn sidecar_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".json");
    PathBuf::from(name)
}

/// Reads a rank file with its sidecar.
///
/// # Errors
/// A file cannot be read or is damaged; nothing says how text is split, or the options contradict the files; or the
/// ranks break an invariant of [`Vocabulary`] or need too many merges.
pub(super) fn load(path: &Path, options: &LoadOptions) -> Result<Vocabulary> {
    let tokens = ranks(&read_text(path)?).map_err(|fault| fault.in_file(path))?;
    let sidecar = sidecar(path)?;
    let is_alone = sidecar.is_none();
    let (split, specials) = match sidecar {
        Some(Sidecar { pat_str, special_tokens, .. }) => {
            let split = options.same_split(SplitPattern::from_regex(&pat_str));
            (split.map_err(|fault| fault.in_file(path))?, special_tokens.0)
        }
        None => named(path, options).map_err(|fault| fault.in_file(path))?,
    };
    let mut added: Vec<AddedToken> =
        specials.into_iter().map(|(text, id)| AddedToken::special(id, text)).collect();
    if is_alone {
        let ids = tokens.iter().map(|(id, _)| *id).chain(added.iter().map(|token| token.id));
        let next = ids.max().map_or(0, |highest| highest.get().saturating_add(1));
        let is_new = |named: &&SpecialToken| !added.iter().any(|token| token.text == named.text);
        let named: Vec<SpecialToken> = options.special_tokens.iter().filter(is_new).cloned().collect();
        added.extend(SpecialToken::numbered(&named, next));
    }
    let parts = parts(tokens, added, split).and_then(|parts| parts.build());
    parts.map_err(|fault| fault.in_file(path))
}

/// A file that OpenAI publishes without a sidecar.
struct Published {
    /// The name without extension under which it is published.
    name: &'static str,
    /// Its name in the cache of `tiktoken`: the SHA-1 of its address.
    cached_as: &'static str,
    /// The split that `tiktoken` uses for it.
    split: Named,
    /// The special tokens that `tiktoken` adds to it, with their ids.
    specials: &'static [(&'static str, u32)],
}

const PUBLISHED: [Published; 4] = [
    Published {
        name: "r50k_base",
        cached_as: "0ea1e91bbb3a60f729a8dc8f777fd2fc07cd8df4",
        split: Named::Gpt2,
        specials: &[("<|endoftext|>", 50_256)],
    },
    Published {
        name: "p50k_base",
        cached_as: "ec7223a39ce59f226a68acc30dc1af2788490e15",
        split: Named::Gpt2,
        specials: &[("<|endoftext|>", 50_256)],
    },
    Published {
        name: "cl100k_base",
        cached_as: "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        split: Named::Cl100k,
        specials: &[
            ("<|endoftext|>", 100_257),
            ("<|fim_prefix|>", 100_258),
            ("<|fim_middle|>", 100_259),
            ("<|fim_suffix|>", 100_260),
            ("<|endofprompt|>", 100_276),
        ],
    },
    Published {
        name: "o200k_base",
        cached_as: "fb374d419588a4632f3f557e76b4b70aebbca790",
        split: Named::O200k,
        specials: &[("<|endoftext|>", 199_999), ("<|endofprompt|>", 200_018)],
    },
];

/// Returns the split and special tokens of a file without a sidecar: those of the published file with this name, or
/// else the split from the options and no special tokens.
fn named(path: &Path, options: &LoadOptions) -> Result<(SplitPattern, Vec<(String, TokenId)>), Fault> {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let published = PUBLISHED.iter().find(|file| file.name == stem || file.cached_as == stem);
    let Some(Published { split, specials, .. }) = published else {
        return Ok((options.split.clone().ok_or(Fault::NoSplit)?, Vec::new()));
    };
    let specials = specials.iter().map(|&(text, id)| (text.to_owned(), TokenId::new(id)));
    Ok((options.same_split(SplitPattern::Named(*split))?, specials.collect()))
}

fn sidecar(path: &Path) -> Result<Option<Sidecar>> {
    read_json(&sidecar_path(path))
}

pub(super) type Tokens = Vec<(TokenId, Box<[u8]>)>;

/// Base64 as tiktoken's reader accepts it: unused bits at the end may be set.
const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, PAD.with_decode_allow_trailing_bits(true));

/// Reads lines as tiktoken does. Any white space may separate and surround a token and its rank, and any line break
/// may end a line.
fn ranks(text: &str) -> Result<Tokens, Fault> {
    let mut tokens = Vec::new();
    let lines = text.split('\n').flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r'));
    for (line, number) in lines.zip(1..) {
        if line.is_empty() {
            continue;
        }
        let token = token_and_rank(line);
        tokens.push(token.ok_or_else(|| Fault::expected(number, "a token in base64 and its rank", line))?);
    }
    Ok(tokens)
}

fn token_and_rank(line: &str) -> Option<(TokenId, Box<[u8]>)> {
    let is_space = |character| matches!(character, ' ' | '\t' | '\x0b' | '\x0c');
    let mut words = line.split(is_space).filter(|word| !word.is_empty());
    let (token, rank) = (words.next()?, words.next()?);
    let bytes = if token == NO_BYTES { Vec::new() } else { LENIENT.decode(token).ok()? };
    let read = (TokenId::new(rank.parse().ok()?), bytes.into_boxed_slice());
    words.next().is_none().then_some(read)
}

/// Returns whether a file begins like a rank file.
pub(super) fn begins_with_a_rank(bytes: &[u8]) -> bool {
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
pub(super) fn parts(
    tokens: Tokens,
    added: Vec<AddedToken>,
    split: SplitPattern,
) -> Result<VocabularyParts, Fault> {
    let highest = tokens.iter().map(|(id, _)| *id).max().unwrap_or_default();
    check_holes(tokens.len() + added.len(), highest)?;
    let (mut tokens, empty): (Tokens, Tokens) = tokens.into_iter().partition(|(_, bytes)| !bytes.is_empty());
    if empty.len() > 1 {
        return Err(Fault::KeyTwice(String::new()));
    }
    let (merges, ignore_merges) = {
        let affixes = affixes(tokens.iter().map(|(_, bytes)| &**bytes)).map_err(|Equal(token, _)| {
            Fault::KeyTwice(String::from_utf8_lossy(&tokens[token].1).into_owned())
        })?;
        match last_steps(&tokens, &affixes, highest.index() + 1) {
            Some(merges) => (merges, false),
            None => (every_cut(&tokens, &affixes)?, true),
        }
    };
    tokens.extend(empty);
    Ok(VocabularyParts { tokens, added, merges, split, ignore_merges, ..VocabularyParts::default() })
}

fn affixes<'a>(tokens: impl Iterator<Item = &'a [u8]>) -> Result<Affixes, Equal> {
    Affixes::new(&Vec::from_iter(tokens))
}

type Ids<'a> = Map<&'a [u8], TokenId>;

/// Most bytes in all the ways to cut tokens together (2^31), which takes some seconds to go over.
const MOST_BYTES: usize = 1 << 31;

/// Most ways to cut tokens that become merges (2^23). Each takes about 100 bytes.
const MOST_CUTS: usize = if cfg!(test) { 1 << 16 } else { 1 << 23 };

/// Length in bytes up to which all cuts of a token are tried (128). Longer tokens are merged in O(n log n), so that
/// the time to load a file is nearly linear in its size, whatever the tokens.
const SHORT: usize = if cfg!(test) { 4 } else { 128 };

/// Returns a merge for each token of several bytes, by ascending rank: the two tokens that are left of its bytes when
/// only merges of lower rank are applied. `None` if for some token two are not left.
///
/// These two are the only way to cut the token such that no merge of lower rank crosses the cut while both parts are
/// derived.
fn last_steps(tokens: &Tokens, affixes: &Affixes, id_limit: usize) -> Option<Vec<RankedMerge>> {
    let ids = LazyLock::new(|| tokens.iter().map(|(id, token)| (&**token, *id)).collect::<Ids<'_>>());
    let byte_ids = byte_ids(tokens);
    let longer: Vec<usize> = (0..tokens.len()).filter(|&token| tokens[token].1.len() > 1).collect();
    let steps = |merging: &mut Merging, &token: &usize| match tokens[token].1.len() {
        0..=SHORT => cuts(tokens, affixes, token).filter(is_earlier).collect(),
        _ => Vec::from_iter(last_step(merging, &tokens[token], &byte_ids, &ids)),
    };
    let mut steps: Vec<RankedMerge> =
        longer.par_iter().map_init(Merging::default, steps).flatten_iter().collect();
    steps.sort_by_key(|step| step.rank);
    let mut making = Making::new(id_limit, longer.len());
    let mut merges = Vec::with_capacity(longer.len());
    for steps in steps.chunk_by(|one, other| one.rank == other.rank) {
        let last = steps.iter().find(|step| making.comes_about(step))?;
        making.add(last);
        merges.push(*last);
    }
    (merges.len() == longer.len()).then_some(merges)
}

/// Returns the token of each byte, or [`MISSING`].
fn byte_ids(tokens: &Tokens) -> [u32; 256] {
    let mut ids = [MISSING; 256];
    for (id, token) in tokens {
        if let [byte] = **token {
            ids[usize::from(byte)] = id.get();
        }
    }
    ids
}

/// Stands for a missing token. No token has this id.
const MISSING: u32 = u32::MAX;

/// Returns the ways to cut a token into two others, as merges.
fn cuts<'a>(
    tokens: &'a Tokens,
    affixes: &'a Affixes,
    token: usize,
) -> impl Iterator<Item = RankedMerge> + 'a {
    let id = tokens[token].0;
    affixes.cuts(token).map(move |(left, right)| RankedMerge {
        left: tokens[left].0,
        right: tokens[right].0,
        result: id,
        rank: id.get(),
    })
}

/// Returns whether both parts have lower ranks than the token.
fn is_earlier(cut: &RankedMerge) -> bool {
    cut.left.max(cut.right) < cut.result
}

/// Returns the two tokens that are left of a long token when only lower ranks are merged, by merging them. `None` if
/// two are not left.
fn last_step(
    merging: &mut Merging,
    (result, token): &(TokenId, Box<[u8]>),
    byte_ids: &[u32; 256],
    ids: &Ids<'_>,
) -> Option<RankedMerge> {
    let symbols = token.iter().map(|&byte| byte_ids[usize::from(byte)]);
    let left = merging.run(symbols, |(left, right), range| {
        if left == MISSING || right == MISSING {
            return None;
        }
        let id = *ids.get(&token[range])?;
        (id < *result).then_some((id.get(), id.get()))
    });
    let &[left, right] = left else { return None };
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
/// The ways number more than [`MOST_CUTS`], or have more than [`MOST_BYTES`] together.
fn every_cut(tokens: &Tokens, affixes: &Affixes) -> Result<Vec<RankedMerge>, Fault> {
    let (mut merges, mut bytes) = (Vec::new(), 0);
    for (token, (_, spelled)) in tokens.iter().enumerate() {
        let before = merges.len();
        merges.extend(cuts(tokens, affixes, token));
        bytes += (merges.len() - before) * spelled.len();
        if bytes > MOST_BYTES || merges.len() > MOST_CUTS {
            return Err(Fault::TooManyCuts);
        }
    }
    merges.sort_unstable_by_key(|merge| (merge.result, merge.left, merge.right));
    merges.iter_mut().zip(0..).for_each(|(merge, rank)| merge.rank = rank);
    Ok(merges)
}

/// Writes the rank file and its sidecar.
pub(super) fn render(vocabulary: &Vocabulary, options: &WriteOptions) -> Result<Rendered> {
    limits(vocabulary).map_err(|limit| Fault::cannot_hold(Format::Tiktoken, limit))?;
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
        special_tokens: Entries(specials.collect()),
    };
    Ok([ranks.into_bytes(), pretty(&sidecar)])
}

/// Refuses a vocabulary that would encode some text differently after being read back from its ranks. It must equal
/// what is read if the shortcuts hold for it; otherwise its merges must be every cut of every token.
fn limits(vocabulary: &Vocabulary) -> Result<(), Limit> {
    if let Some(foreign) = vocabulary.foreign() {
        return Err(Limit::Foreign(foreign));
    }
    let tokens: Vec<(TokenId, &[u8])> =
        vocabulary.ordinary().filter(|(_, bytes)| !bytes.is_empty()).collect();
    let equal = |Equal(one, other)| Limit::EqualBytes { first: tokens[one].0, second: tokens[other].0 };
    let affixes = affixes(tokens.iter().map(|(_, bytes)| *bytes)).map_err(equal)?;
    let checks = check(vocabulary);
    if checks.shortcuts_hold() && checks.ids_in_rank_order {
        return Ok(());
    }
    let tokens: Tokens = tokens.into_iter().map(|(id, bytes)| (id, Box::from(bytes))).collect();
    let ranked = VocabularyParts {
        merges: every_cut(&tokens, &affixes).map_err(|_| Limit::NotByIds)?,
        tokens,
        added: vocabulary.added.clone(),
        split: vocabulary.split.clone(),
        ignore_merges: true,
        ..VocabularyParts::default()
    };
    let looked_up = vocabulary.ignore_merges || checks.not_self_encoding == 0;
    match ranked.build() {
        Ok(ranked) if ranked.merges == vocabulary.merges && looked_up => Ok(()),
        _ => Err(Limit::NotByIds),
    }
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
    fn tokens() -> impl Strategy<Value = Tokens> {
        vec(vec(select(b"aabc".to_vec()), 2..9), 0..14).prop_map(|longer| {
            let mut longer: Vec<Vec<u8>> = BTreeSet::from_iter(longer).into_iter().collect();
            longer.sort_by_key(Vec::len);
            let bytes = (0..=u8::MAX).map(|byte| vec![byte]);
            bytes.chain(longer).zip(0..).map(|(token, id)| (TokenId::new(id), token.into())).collect()
        })
    }

    /// Tokens with too many cuts are refused. They are all strings over two letters up to a length, plus one string
    /// that no two tokens make, so that all cuts are needed.
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
            let tokens: Tokens = (0..).map(TokenId::new).zip(all.map(Vec::into_boxed_slice)).collect();
            let parts = parts(tokens, Vec::new(), SplitPattern::None);
            assert_eq!(matches!(parts, Err(Fault::TooManyCuts)), refused, "up to {longest} letters");
        }
    }

    /// Published files are recognized by their names and by their names in tiktoken's cache.
    #[test]
    fn published_files_are_known_in_the_cache_of_tiktoken() {
        for Published { name, cached_as, specials, .. } in PUBLISHED {
            #[cfg(feature = "hub")]
            let address = format!("https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken");
            #[cfg(feature = "hub")]
            assert_eq!(
                cached_as,
                crate::base::integrity::hex(&<sha1::Sha1 as sha1::Digest>::digest(address))
            );
            let known = |path: &str| named(Path::new(path), &LoadOptions::default()).expect("a known name").1;
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
            let ids: Ids<'_> = tokens.iter().map(|(id, bytes)| (&**bytes, *id)).collect();
            let byte_ids = byte_ids(&tokens);
            let mut longer: Vec<_> = tokens.iter().filter(|(_, token)| token.len() > 1).collect();
            longer.sort();
            let merged = longer.iter().map(|token| last_step(&mut Merging::default(), token, &byte_ids, &ids));
            let affixes = affixes(tokens.iter().map(|(_, bytes)| &**bytes)).expect("a set");
            prop_assert_eq!(last_steps(&tokens, &affixes, tokens.len()), merged.collect());
        }
    }
}
