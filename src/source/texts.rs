//! Documents from texts that a program holds in memory, without a source.
//!
//! This is how a program counts, trains on, or encodes its own strings with the same functions as files.

use arrow_array::Array;
use arrow_array::builder::{ArrayBuilder, BinaryViewBuilder};

use super::fault::Fault;
use super::open::DEFAULT_BATCH_BYTES;
use super::{Batch, Documents, LONGEST_DOCUMENT};
use crate::base::int::{to_u64, u64_to_usize};
use crate::error::Result;

/// Bytes that a text takes in a batch besides its own.
const VIEW: usize = 16;

/// The documents of texts that a program holds or produces, one document per text, as a single unit of source 0. The
/// iterator is advanced as batches are needed.
///
/// **Memory:** one batch: about 4 MiB of text, or one text that is larger.
///
/// # Errors
/// A text has more than [`LONGEST_DOCUMENT`] bytes. The error is the last item of the iterator.
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
/// let learned = learn_merges(counted.pretokens, &TrainConfig::new(5), &Silent)?;
/// let vocabulary = Vocabulary::from_merges(&learned.merges, &[], SpecialTokensAt::End, pattern)?;
/// let tokenizer = Tokenizer::new(vocabulary, EncodeConfig::default())?;
/// assert_eq!(tokenizer.decode(&tokenizer.encode("a wooden chuck")?)?, b"a wooden chuck");
/// # Ok::<(), tokenmill::Error>(())
/// ```
pub fn texts<'a, T: AsRef<[u8]>>(texts: impl IntoIterator<Item = T, IntoIter: Send + 'a>) -> Documents<'a> {
    let mut texts = texts.into_iter().fuse();
    let (mut row, mut failed, mut ended) = (0, None, false);
    Box::new(std::iter::from_fn(move || {
        if ended {
            return None;
        }
        let mut documents = BinaryViewBuilder::new();
        failed = failed.take().or_else(|| fill(&mut documents, &mut texts, row).err());
        let documents = documents.finish();
        if documents.is_empty() {
            ended = true;
            return failed.take().map(Err);
        }
        let (source, unit, first_row, columns, continued, open) = (0, 0, row, None, false, false);
        row += to_u64(documents.len());
        Some(Ok(Batch { source, unit, first_row, documents, columns, continued, open }))
    }))
}

/// Appends texts until the batch is full or none is left. `first_row` is the index of the first one, for the error.
///
/// # Errors
/// A text has more than [`LONGEST_DOCUMENT`] bytes.
fn fill<T: AsRef<[u8]>>(
    documents: &mut BinaryViewBuilder,
    texts: &mut impl Iterator<Item = T>,
    first_row: u64,
) -> Result<()> {
    let mut room = u64_to_usize(DEFAULT_BATCH_BYTES);
    for text in texts {
        let text = text.as_ref();
        if to_u64(text.len()) > LONGEST_DOCUMENT {
            let row = first_row + to_u64(documents.len());
            let error = Fault::TooLong { file: "a text".to_owned(), row, limit: LONGEST_DOCUMENT }.failed();
            return Err(error.with_help("cut it into several"));
        }
        documents.append_value(text);
        room = room.saturating_sub(text.len() + VIEW);
        if room == 0 {
            break;
        }
    }
    Ok(())
}
