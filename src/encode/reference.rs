//! The definition of encoding in its simplest form, to be checked by reading. Every faster implementation must
//! return the same ids.

use rustc_hash::FxHashMap;

use crate::base::int::TokenId;
use crate::vocab::Vocabulary;

/// Encodes one pre-token: as one token if it is a token and the vocabulary has
/// [`ignore_merges`](Vocabulary::ignore_merges), else by merges. Bytes without a token give what Hugging Face's
/// tokenizers would produce.
pub fn encode_pretoken(vocabulary: &Vocabulary, pretoken: &[u8]) -> Vec<TokenId> {
    match whole_token(vocabulary, pretoken) {
        Some(whole) if vocabulary.ignore_merges() => vec![whole],
        _ => merge_pretoken(vocabulary, pretoken),
    }
}

/// Merges the pair of lowest rank, the leftmost if several have it, while any adjacent pair is in the merge list.
/// Takes quadratic time.
pub fn merge_pretoken(vocabulary: &Vocabulary, pretoken: &[u8]) -> Vec<TokenId> {
    let mut merges = FxHashMap::default();
    for merge in vocabulary.merges() {
        merges.entry((merge.left, merge.right)).or_insert(merge);
    }
    let mut ids = byte_tokens(vocabulary, pretoken);
    loop {
        let candidates = ids.array_windows().enumerate().filter_map(|(at, &[left, right])| {
            let merge = merges.get(&(left, right))?;
            Some((merge.rank, at, merge.result))
        });
        match candidates.min() {
            Some((_, at, result)) => ids.splice(at..at + 2, [result]),
            None => return ids,
        };
    }
}

/// The tokens of single bytes. A byte without a token gives `unk_token`, once per run of such bytes if that token
/// fuses, or nothing if the vocabulary has no `unk_token`.
fn byte_tokens(vocabulary: &Vocabulary, pretoken: &[u8]) -> Vec<TokenId> {
    let mut ids = Vec::new();
    let mut in_run = false;
    for &byte in pretoken {
        let id = vocabulary.byte_id(byte);
        let unknown = vocabulary.unknown().filter(|token| !(in_run && token.fuse));
        ids.extend(id.or_else(|| unknown?.id));
        in_run = id.is_none();
    }
    ids
}

/// Whether a pre-token contains a byte without a token. `false` with [`ignore_merges`](Vocabulary::ignore_merges)
/// if the pre-token is a token as a whole.
///
/// [`MissingBytes::Error`](super::MissingBytes::Error) refuses texts with such a pre-token.
pub fn lacks_token(vocabulary: &Vocabulary, pretoken: &[u8]) -> bool {
    let whole = vocabulary.ignore_merges() && whole_token(vocabulary, pretoken).is_some();
    !whole && pretoken.iter().any(|&byte| vocabulary.byte_id(byte).is_none())
}

/// The token with exactly these bytes; the lowest id if several have them. Added tokens are ignored.
///
/// Searches all tokens, since the reference is to be simple and not fast.
fn whole_token(vocabulary: &Vocabulary, pretoken: &[u8]) -> Option<TokenId> {
    vocabulary.ordinary().find(|(_, bytes)| *bytes == pretoken).map(|(id, _)| id)
}
