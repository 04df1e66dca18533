//! The definition of encoding in its simplest form, to be checked by reading. Every faster implementation must
//! return the same ids.

use rustc_hash::FxHashMap;

use super::encoder::Encoder;
use super::preprocess::TextOrToken;
use crate::base::int::{TokenId, to_usize, truncate_to_u32};
use crate::error::{Error, Result};
use crate::vocab::{RankedMerge, Vocabulary};

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
    let merges = merges_by_pair(vocabulary);
    let mut ids = byte_tokens(vocabulary, pretoken);
    while merge_next(&merges, &mut ids) {}
    ids
}

/// Merges as [`merge_pretoken`] does, but at each step leaves each possible merge out if `leaves_out` says so: the
/// definition of [`Dropout`](super::Dropout). It is asked in the order of the merges, until one stays.
pub fn merge_with_dropout(
    vocabulary: &Vocabulary,
    pretoken: &[u8],
    mut leaves_out: impl FnMut() -> bool,
) -> Vec<TokenId> {
    let merges = merges_by_pair(vocabulary);
    let mut ids = byte_tokens(vocabulary, pretoken);
    loop {
        let mut possible = possible_merges(&merges, &ids);
        possible.sort_unstable();
        let Some((_, at, result)) = possible.into_iter().find(|_| !leaves_out()) else { return ids };
        ids.splice(at..at + 2, [result]);
    }
}

/// The possible merges of a list of tokens: the rank of each, the index of its first token, and its result.
fn possible_merges(merges: &MergesByPair<'_>, ids: &[TokenId]) -> Vec<(u32, usize, TokenId)> {
    let candidates = ids.array_windows().enumerate().filter_map(|(at, &[left, right])| {
        let merge = merges.get(&(left, right))?;
        Some((merge.rank, at, merge.result))
    });
    candidates.collect()
}

/// The merge of each pair of tokens.
type MergesByPair<'v> = FxHashMap<(TokenId, TokenId), &'v RankedMerge>;

/// The merges of a vocabulary; the first in the list if a pair has several.
fn merges_by_pair(vocabulary: &Vocabulary) -> MergesByPair<'_> {
    let mut merges = FxHashMap::default();
    for merge in vocabulary.merges() {
        merges.entry((merge.left, merge.right)).or_insert(merge);
    }
    merges
}

/// Carries out one merge: that of the pair of lowest rank, the leftmost if several have it. Returns `false` if no
/// adjacent pair is in the merge list.
fn merge_next(merges: &MergesByPair<'_>, ids: &mut Vec<TokenId>) -> bool {
    let Some((_, at, result)) = possible_merges(merges, ids).into_iter().min() else { return false };
    ids.splice(at..at + 2, [result]);
    true
}

/// The tokens of a pre-token before the first merge and after each one. With
/// [`ignore_merges`](Vocabulary::ignore_merges), a pre-token that is a token as a whole becomes it at once.
fn pretoken_steps(vocabulary: &Vocabulary, merges: &MergesByPair<'_>, pretoken: &[u8]) -> Vec<Vec<TokenId>> {
    let mut ids = byte_tokens(vocabulary, pretoken);
    let mut steps = vec![ids.clone()];
    if let Some(whole) = whole_token(vocabulary, pretoken).filter(|_| vocabulary.ignore_merges()) {
        steps.extend((ids != [whole]).then(|| vec![whole]));
        return steps;
    }
    while merge_next(merges, &mut ids) {
        steps.push(ids.clone());
    }
    steps
}

impl Encoder {
    /// Maximum number of bytes of a text whose [steps](Encoder::steps) are listed (1 000).
    pub const MAX_STEPS_BYTES: usize = 1_000;

    /// Encodes a short text by the definition, and returns every step: for each pre-token, in order, its tokens
    /// before the first merge and after each merge.
    ///
    /// Before the first merge, each byte is a token. The last steps of all pre-tokens, one after the other, are the
    /// ids of [`Worker::encode`](super::Worker::encode). BOS, EOS and added tokens that are found in the text have a
    /// single step.
    ///
    /// ```
    /// use tokenmill::encode::{EncodeConfig, Encoder};
    /// # use tokenmill::{Count, count::PretokenCounts, observer::Silent, split::SplitPattern};
    /// # use tokenmill::{train::{TrainConfig, learn_merges}, vocab::{SpecialTokensAt, Vocabulary}};
    ///
    /// # fn main() -> tokenmill::Result<()> {
    /// # let counts: PretokenCounts = [(&b"hello"[..], Count::new(2))].into_iter().collect();
    /// # let merges = learn_merges(counts, &TrainConfig::new(3), &Silent)?.merges;
    /// # let vocabulary = Vocabulary::from_merges(&merges, &[], SpecialTokensAt::End, "gpt4".parse::<SplitPattern>()?)?;
    /// let encoder = Encoder::new(vocabulary, EncodeConfig::default())?;
    /// let steps = encoder.steps(b"hello, hello")?;
    /// assert_eq!(steps.len(), 3); // the pre-tokens "hello", "," and " hello"
    /// let shown: Vec<String> = steps[0]
    ///     .iter()
    ///     .map(|ids| ids.iter().map(|&id| encoder.vocabulary().bytes(id).unwrap_or_default()))
    ///     .map(|tokens| tokens.map(String::from_utf8_lossy).collect::<Vec<_>>().join(" "))
    ///     .collect();
    /// assert_eq!(shown, ["h e l l o", "h el l o", "hel l o", "hel lo"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Takes time and memory quadratic in the length of a pre-token.
    ///
    /// # Errors
    /// - The text, or what the tokenizer's rules make of it before it is split, has more than
    ///   [`MAX_STEPS_BYTES`](Encoder::MAX_STEPS_BYTES) bytes ([`ErrorKind::Usage`](crate::ErrorKind::Usage)).
    /// - Those of [`Worker::encode`](super::Worker::encode).
    pub fn steps(&self, text: &[u8]) -> Result<Vec<Vec<Vec<TokenId>>>> {
        check_short(text.len())?;
        // Refuses what cannot be encoded. The steps themselves cannot fail then.
        self.worker().encode(text)?;
        let mut steps = Vec::new();
        steps.extend(self.config.bos.map(|bos| vec![vec![bos]]));
        let merges = merges_by_pair(self.vocabulary());
        let mut bytes = 0;
        let mut take = |part: TextOrToken<'_>| {
            match part {
                TextOrToken::Token(token) => steps.push(vec![vec![token.id]]),
                TextOrToken::Text(text) => {
                    bytes += text.len();
                    check_short(bytes)?;
                    let pretokens = self.pretokens(text)?;
                    steps.extend(
                        pretokens.map(|pretoken| pretoken_steps(self.vocabulary(), &merges, pretoken)),
                    );
                }
            }
            Ok(())
        };
        match &self.preparation {
            Some(preparation) => preparation.each(text, &mut take)?,
            None => take(TextOrToken::Text(text))?,
        }
        steps.extend(self.config.eos.map(|eos| vec![vec![eos]]));
        Ok(steps)
    }

    /// The pre-tokens of a text that is prepared. Without a split pattern, a text that is not empty is one.
    fn pretokens<'t>(&self, text: &'t [u8]) -> Result<impl Iterator<Item = &'t [u8]> + use<'t>> {
        let mut ends = Vec::new();
        match &self.splitter {
            Some(splitter) => splitter.pretoken_ends(text, &mut ends)?,
            None => ends.extend((!text.is_empty()).then(|| truncate_to_u32(text.len()))),
        }
        let mut start = 0;
        Ok(ends.into_iter().map(to_usize).map(move |end| &text[std::mem::replace(&mut start, end)..end]))
    }
}

/// Refuses a text of more than [`Encoder::MAX_STEPS_BYTES`].
fn check_short(bytes: usize) -> Result<()> {
    let max = Encoder::MAX_STEPS_BYTES;
    if bytes <= max {
        return Ok(());
    }
    Err(Error::usage(format!(
        "the text has {bytes} bytes; steps are listed for texts of at most {max} bytes"
    ))
    .with_help("give a shorter text"))
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
