//! Trains a tokenizer from documents in one call.

use crate::count::{Boundary, CountConfig, count_pretokens, gather_documents};
use crate::error::Result;
use crate::observer::{Observer, Stage};
use crate::source::Documents;
use crate::split::{Named, SpecialFinder, SplitPattern, splitter};
use crate::train::{Learned, Merges, TrainConfig, learn_merges};
use crate::vocab::{SpecialTokensAt, Vocabulary};

/// Number of tokens for single bytes. Every vocabulary has all of them.
const BYTE_TOKENS: usize = 256;

/// How [`learn`](learn()) trains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnConfig {
    /// How texts are split into pre-tokens, by training and by the tokenizer.
    pub split: SplitPattern,
    /// The special tokens. They are cut out of the text that is learned from, and get ids of their own.
    pub specials: Vec<String>,
    /// The position of the special tokens among the ids.
    pub specials_at: SpecialTokensAt,
    /// The extent of a text that is split on its own: a document, or all documents of a source.
    pub boundary: Boundary,
    /// How many merges to learn, and which.
    pub train: TrainConfig,
}

impl LearnConfig {
    /// The program's defaults for a vocabulary of this size: the 256 bytes, the special tokens, and merges for the
    /// remaining tokens, which may be none.
    pub fn new(vocab_size: usize, specials: &[&str]) -> LearnConfig {
        LearnConfig {
            split: SplitPattern::Named(Named::Gpt4),
            specials: specials.iter().map(|&text| text.to_owned()).collect(),
            specials_at: SpecialTokensAt::default(),
            boundary: Boundary::default(),
            train: TrainConfig::new(vocab_size.saturating_sub(BYTE_TOKENS + specials.len())),
        }
    }
}

/// Trains a tokenizer on documents: counts pre-tokens, or gathers whole documents if there is no split, learns
/// merges, and builds a vocabulary. For whole jobs, with samples, mixtures and memory limits, use
/// [`job`](super::job()).
///
/// ```
/// use tokenmill::observer::Silent;
/// use tokenmill::run::{LearnConfig, learn};
/// use tokenmill::vocab::{self, Format, WriteOptions};
/// use tokenmill::{Tokenizer, source};
///
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let folder = folder.path();
/// let texts = source::texts(["how much wood would a woodchuck chuck", "if a woodchuck could chuck wood?"]);
/// let (vocabulary, learned) = learn(texts, &LearnConfig::new(280, &["<|endoftext|>"]), &Silent)?;
/// assert!(learned.merges.len() > 10);
///
/// vocab::write(&vocabulary, Format::Hf, folder, &WriteOptions::default())?;
/// let tokenizer = Tokenizer::from_file(folder)?;
/// assert!(tokenizer.count("would a woodchuck chuck?")? < 12);
/// assert!(tokenizer.special_token("<|endoftext|>").is_some());
/// # Ok::<(), tokenmill::Error>(())
/// ```
///
/// **Memory:** that of [`count_pretokens`] or [`gather_documents`], then that of [`learn_merges`].
///
/// # Errors
/// - The special tokens or the split cannot be used. This is found before anything is read.
/// - Errors from reading `documents`, and those of the three functions named above.
pub fn learn(
    documents: Documents<'_>,
    config: &LearnConfig,
    observer: &dyn Observer,
) -> Result<(Vocabulary, Learned)> {
    let vocabulary = |merges: &Merges| {
        Vocabulary::from_merges(merges, &config.specials, config.specials_at, config.split.clone())
    };
    vocabulary(&Merges::default())?;
    let (specials, boundary) = (SpecialFinder::new(&config.specials)?, config.boundary);
    let counting = CountConfig { specials, boundary, ..CountConfig::default() };
    observer.started(Stage::Count, None);
    let counted = match &config.split {
        SplitPattern::None => gather_documents(documents, &counting, observer)?,
        split => count_pretokens(documents, &*splitter(split)?, &counting, observer)?,
    };
    observer.finished(Stage::Count);
    let learned = learn_merges(counted.pretokens, &config.train, observer)?;
    Ok((vocabulary(&learned.merges)?, learned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::int::Count;
    use crate::observer::Silent;
    use crate::source::texts;

    #[test]
    fn with_and_without_a_split_special_tokens_are_cut_out() {
        let once = |split| {
            let mut config = LearnConfig::new(259, &["<s>"]);
            (config.split, config.train.min_frequency) = (split, Count::ONE);
            let (vocabulary, learned) = learn(texts(["ab<s>ab"]), &config, &Silent).expect("two texts");
            let merges: Vec<_> = learned.merges.iter().map(|merge| (merge.left, merge.right)).collect();
            assert_eq!(merges, [(97, 98)], "of two that are asked for: nothing else is left");
            assert_eq!(vocabulary.specials().next().map(|special| special.text.as_str()), Some("<s>"));
        };
        once(SplitPattern::None);
        once(SplitPattern::Named(Named::Gpt4));
        let unusable = LearnConfig::new(300, &["a"]);
        assert!(learn(texts(["ab"]), &unusable, &Silent).is_err(), "it is a byte's token");
    }
}
