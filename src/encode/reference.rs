//! The definition of encoding, to be checked by eye: what every faster way must equal.

use rustc_hash::FxHashMap;

use crate::units::TokenId;
use crate::vocab::Vocabulary;

/// Encodes one piece: the token that it is as a whole, if the vocabulary prefers that, or by merges. Of bytes without a
/// token it makes what Hugging Face's tokenizers does.
pub fn encode_piece(vocabulary: &Vocabulary, piece: &[u8]) -> Vec<TokenId> {
    match whole_token(vocabulary, piece) {
        Some(whole) if vocabulary.ignore_merges() => vec![whole],
        _ => merge_piece(vocabulary, piece),
    }
}

/// While any adjacent pair is in the merge list, merges the pair of lowest rank, the leftmost among
/// equals. Quadratic.
pub fn merge_piece(vocabulary: &Vocabulary, piece: &[u8]) -> Vec<TokenId> {
    let mut merges = FxHashMap::default();
    for merge in vocabulary.merges() {
        merges.entry((merge.left, merge.right)).or_insert(merge);
    }
    let mut ids = byte_tokens(vocabulary, piece);
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

/// The tokens of bytes. One without a token is `unk_token`, which runs of them can be together, or nothing.
fn byte_tokens(vocabulary: &Vocabulary, piece: &[u8]) -> Vec<TokenId> {
    let mut ids = Vec::new();
    let mut in_run = false;
    for &byte in piece {
        let id = vocabulary.byte_id(byte);
        let unknown = vocabulary.unknown().filter(|token| !(in_run && token.fuse));
        ids.extend(id.or_else(|| unknown?.id));
        in_run = id.is_none();
    }
    ids
}

/// Whether a piece has a byte without a token, and is none as a whole.
pub fn lacks_token(vocabulary: &Vocabulary, piece: &[u8]) -> bool {
    let whole = vocabulary.ignore_merges() && whole_token(vocabulary, piece).is_some();
    !whole && piece.iter().any(|&byte| vocabulary.byte_id(byte).is_none())
}

/// The lowest token, added ones apart, that has exactly these bytes.
fn whole_token(vocabulary: &Vocabulary, piece: &[u8]) -> Option<TokenId> {
    vocabulary.ordinary().find(|(_, bytes)| *bytes == piece).map(|(id, _)| id)
}
