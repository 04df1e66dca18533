use arrow_array::builder::{ArrayBuilder, BinaryViewBuilder};

use super::fault::Fault;
use super::open::DEFAULT_BATCH_BYTES;
use super::{Batch, Documents};
use crate::error::Result;
use crate::units::{amount, place64};

/// What a text takes in a batch beside its bytes.
const VIEW: usize = 16;

/// Texts that a program holds or makes, a document each, as one unit of a source. They are drawn as they are needed.
///
/// **Memory:** a batch: about 4 MB of text, or one text that is larger.
///
/// # Errors
/// A text has 4 GiB or more: that is an item of the iterator.
///
/// # Examples
/// ```
/// use tokenmill::count::{CountConfig, count_pieces};
/// use tokenmill::encode::EncodeConfig;
/// use tokenmill::observer::Silent;
/// use tokenmill::split::{Named, SplitPattern, splitter};
/// use tokenmill::train::{TrainConfig, learn_merges};
/// use tokenmill::vocab::SpecialTokensAt;
/// use tokenmill::{Tokenizer, Vocabulary, source};
///
/// let texts = ["how much wood", "would a woodchuck chuck"];
/// let pattern = SplitPattern::Named(Named::Gpt4);
/// let counted =
///     count_pieces(source::texts(texts), &*splitter(&pattern)?, &CountConfig::default(), &Silent)?;
/// let learned = learn_merges(counted.pieces, &TrainConfig::new(5), &Silent)?;
/// let vocabulary = Vocabulary::from_merges(&learned.merges, &[], SpecialTokensAt::End, pattern)?;
/// let tokenizer = Tokenizer::new(vocabulary, EncodeConfig::default())?;
/// assert_eq!(tokenizer.decode(&tokenizer.encode("a wooden chuck")?)?, b"a wooden chuck");
/// # Ok::<(), tokenmill::Error>(())
/// ```
pub fn texts<'a, T: AsRef<[u8]>>(texts: impl IntoIterator<Item = T, IntoIter: Send + 'a>) -> Documents<'a> {
    let mut texts = texts.into_iter().fuse();
    let mut row = 0;
    Box::new(std::iter::from_fn(move || {
        let batch = batch(&mut texts, row)?;
        row += batch.as_ref().map_or(0, |batch| amount(batch.len()));
        Some(batch)
    }))
}

/// The next texts, the first of them in this row; `None` if there are no more.
fn batch<T: AsRef<[u8]>>(texts: &mut impl Iterator<Item = T>, first_row: u64) -> Option<Result<Batch>> {
    let (mut documents, mut room) = (BinaryViewBuilder::new(), place64(DEFAULT_BATCH_BYTES));
    for text in texts {
        let text = text.as_ref();
        if let Err(cause) = documents.try_append_value(text) {
            let row = first_row + amount(documents.len());
            return Some(Err(Fault::damaged("texts in memory", format!("row {row}"), cause)));
        }
        room = room.saturating_sub(text.len() + VIEW);
        if room == 0 {
            break;
        }
    }
    let documents = documents.finish();
    let (source, unit, columns, continued, open) = (0, 0, None, false, false);
    let batch = Batch { source, unit, first_row, documents, columns, continued, open };
    (!batch.is_empty()).then_some(Ok(batch))
}
