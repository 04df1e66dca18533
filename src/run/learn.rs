use crate::count::{Boundary, CountConfig, count_pieces, gather_documents};
use crate::error::Result;
use crate::observer::{Observer, Stage};
use crate::source::Documents;
use crate::split::{Named, SpecialFinder, SplitPattern, splitter};
use crate::train::{Learned, Merges, TrainConfig, learn_merges};
use crate::vocab::{SpecialTokensAt, Vocabulary};

/// Tokens that every vocabulary has: one for each byte.
const BYTE_TOKENS: usize = 256;

/// What [`learn`] makes of texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnConfig {
    /// How texts are cut into pieces, by training and by the tokenizer.
    pub split: SplitPattern,
    /// Texts that are tokens of their own: cut out of what is learned from, and given ids.
    pub specials: Vec<String>,
    /// Where the ids of these are.
    pub specials_at: SpecialTokensAt,
    /// What ends a text.
    pub boundary: Boundary,
    /// How many merges to learn, and which.
    pub train: TrainConfig,
}

impl LearnConfig {
    /// The defaults of the program, for a vocabulary of so many tokens: the 256 bytes, special tokens, and as many merges
    /// as there is room for, none if there is no room.
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

/// Learns a tokenizer from documents: counts pieces, or gathers the documents where there is no split, learns merges, and
/// makes a vocabulary of them. Whole jobs, with samples, mixtures and limits of memory, go through [`job`](super::job).
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
/// **Memory:** that of [`count_pieces`] or [`gather_documents`], then that of [`learn_merges`].
///
/// # Errors
/// What these three give and reading `documents` does; the special tokens or the split cannot be used, which is told before
/// anything is read.
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
        split => count_pieces(documents, &*splitter(split)?, &counting, observer)?,
    };
    observer.finished(Stage::Count);
    let learned = learn_merges(counted.pieces, &config.train, observer)?;
    Ok((vocabulary(&learned.merges)?, learned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Silent;
    use crate::source::texts;
    use crate::units::Count;

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
