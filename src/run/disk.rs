//! Estimates the disk space of an output before it is written.

use std::path::Path;
use std::sync::Arc;

use super::encode::{dataset_config, encoder, takes_all};
use super::excerpt::{Excerpt, file_bytes, scaled};
use super::fault::Fault;
use super::inputs::Inputs;
use super::learn::{LearnConfig, learn};
use super::plan::{EncodePlan, Plan, TrainPlan};
use crate::base::atomic_file::free_space;
use crate::base::int::{ByteCount, declared_sum, to_u64};
use crate::encode::encode_batches;
use crate::error::{Error, ErrorKind, Result};
use crate::observer::{Observer, Silent};
use crate::sink::{OutputFormat, RowGroupEncoders, ShardWriter};
use crate::source::{Batch, Documents, Range, Unit};
use crate::vocab::Vocabulary;

/// Bytes of text per token in the languages with the shortest tokens, about. Used for text that is not read.
const BYTES_PER_TOKEN: u64 = 3;

/// Bits per token in a Parquet file, for the same text.
const BITS_PER_TOKEN: u64 = 13;

/// Disk space for the data files of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskNeed {
    /// Bytes of the data files.
    pub bytes: ByteCount,
    /// Whether the figure was measured on excerpts spread over all of the text. Otherwise it is the most that text
    /// takes in most languages.
    pub measured: bool,
}

/// Estimates the disk space of a job's data files. For that, some megabytes of the text are read and encoded, with
/// the given tokenizer or with one that is trained on them. `None` if too little is known of the input.
///
/// # Errors
/// The observer asks to stop. Other errors are ignored: encoding reports them.
pub(super) fn disk_need(
    plan: &Plan,
    encode: &EncodePlan,
    inputs: &Inputs<'_>,
    given: Option<&Arc<Vocabulary>>,
    text_bytes: Option<u64>,
    observer: &dyn Observer,
) -> Result<Option<DiskNeed>> {
    let measured = measured(plan, encode, inputs, given, text_bytes, observer);
    match measured {
        Err(error) if error.kind() == ErrorKind::Interrupted => Err(error),
        // Encoding reports what is wrong with the input.
        Ok(Some(bytes)) => Ok(Some(DiskNeed { bytes: ByteCount(bytes), measured: true })),
        _ => {
            let ids = match (given, &plan.train) {
                (Some(vocabulary), _) => vocabulary.id_limit(),
                (None, train) => train.as_ref().map_or(0, TrainPlan::vocab_size),
            };
            let bytes = text_bytes.map(|bytes| by_rule(bytes, ids, encode.format));
            Ok(bytes.map(|bytes| DiskNeed { bytes, measured: false }))
        }
    }
}

/// About the bytes that the ids of this number of bytes of text take, in languages with many tokens. All ids are
/// below `ids`.
fn by_rule(text_bytes: u64, ids: usize, format: OutputFormat) -> ByteCount {
    let bits = format.id_bytes(to_u64(ids)).map_or(BITS_PER_TOKEN, |bytes| 8 * bytes);
    ByteCount((text_bytes / BYTES_PER_TOKEN).saturating_mul(bits) / 8)
}

/// The disk space measured on an [`Excerpt`], scaled to all of the text; `None` if the excerpt is empty, the size of
/// the text is unknown, or no tokenizer can be trained on it.
fn measured(
    plan: &Plan,
    encode: &EncodePlan,
    inputs: &Inputs<'_>,
    given: Option<&Arc<Vocabulary>>,
    text_bytes: Option<u64>,
    observer: &dyn Observer,
) -> Result<Option<u64>> {
    let Excerpt { parts, text_bytes: found, is_all } = Excerpt::read(inputs, observer)?;
    // Sources may declare more text than was found when all of it was read.
    let everything = match (text_bytes, found) {
        (Some(said), Some(found)) if is_all => Some(said.min(found)),
        (said, found) => said.or(found),
    };
    let (Some(everything), false) = (everything, parts.is_empty()) else { return Ok(None) };
    let bytes = |vocabulary: &Arc<Vocabulary>, parts: &[Batch]| -> Result<Option<u64>> {
        let text: u64 = parts.iter().map(Batch::text_bytes).sum();
        let written = written_bytes(plan, encode, inputs, vocabulary, parts)?;
        Ok(if text == everything { Some(written) } else { scaled(written, text, everything) })
    };
    if let Some(vocabulary) = given {
        return bytes(vocabulary, &parts);
    }
    let Some(train) = plan.train.as_ref().filter(|train| train.extend.is_none() && plan.counts.is_empty())
    else {
        return Ok(None);
    };
    let own = bytes(&learned(train, &parts, observer)?, &parts)?;
    if is_all || parts.len() < 2 {
        return Ok(own);
    }
    // A tokenizer encodes the text that it was trained on too well, and one that was trained on half of the parts
    // encodes the others too badly. So take the mean.
    let half = |odd: usize| parts.iter().skip(odd).step_by(2).cloned().collect::<Vec<_>>();
    let other = bytes(&learned(train, &half(0), observer)?, &half(1))?;
    Ok(own.zip(other).map(|(own, other)| own / 2 + other / 2))
}

fn documents(parts: &[Batch]) -> Documents<'_> {
    Box::new(parts.iter().cloned().map(Ok))
}

/// A tokenizer that is trained on parts of the text with the rules of a plan.
fn learned(train: &TrainPlan, parts: &[Batch], observer: &dyn Observer) -> Result<Arc<Vocabulary>> {
    let config = LearnConfig {
        split: train.split.clone(),
        specials: train.specials.clone(),
        specials_at: train.specials_at,
        boundary: train.boundary,
        train: train.config.clone(),
    };
    observer.checkpoint()?;
    learn(documents(parts), &config, &Silent).map(|(vocabulary, _)| Arc::new(vocabulary))
}

/// Bytes of the files that hold the ids of some documents. They are written to memory.
fn written_bytes(
    plan: &Plan,
    encode: &EncodePlan,
    inputs: &Inputs<'_>,
    vocabulary: &Arc<Vocabulary>,
    parts: &[Batch],
) -> Result<u64> {
    let encoder = encoder(encode, vocabulary)?;
    let name = |_, _| String::new();
    if let Some(width) = encode.format.id_bytes(to_u64(vocabulary.id_limit())) {
        let facts = encode_batches(documents(parts), &encoder, name, &Silent, |_| Ok(()))?;
        return Ok(facts.tokens * width + encode.format.index_bytes(facts.documents));
    }
    let shape = dataset_config(plan, encode, &encoder, inputs, String::new())?.shape()?;
    let encoders = RowGroupEncoders::start(1)?;
    let mut writer = ShardWriter::new(Vec::new(), Path::new("memory"), &shape, &encoders)?;
    encode_batches(documents(parts), &encoder, name, &Silent, |batch| writer.write(batch))?;
    Ok(writer.finish()?.1.bytes)
}

/// Compares the disk space that a job's data files need with the free space at its output folder, before anything is
/// written. `held` bytes of existing files will be kept or replaced, so they count as free. The observer is told if space is
/// short.
///
/// # Errors
/// - Half of a measured need exceeds the free space ([`ErrorKind::DiskFull`]): no estimate is that wrong.
/// - The observer asks to stop.
pub(super) fn check_free(
    plan: &Plan,
    encode: &EncodePlan,
    inputs: &Inputs<'_>,
    given: Option<&Arc<Vocabulary>>,
    held: u64,
    observer: &dyn Observer,
) -> Result<()> {
    let Some(free) = free_space(&plan.output) else { return Ok(()) };
    let room = free.saturating_add(held);
    let everything = takes_all(encode, inputs);
    let text_bytes = inputs.text_bytes();
    if at_most(encode, inputs, text_bytes).is_some_and(|most| most <= room) {
        return Ok(());
    }
    let Some(mut need) = disk_need(plan, encode, inputs, given, text_bytes, observer)? else { return Ok(()) };
    // The estimate is for all of the text, and the share of a sample is not known.
    need.measured &= everything;
    let folder = || plan.output.clone();
    match compare(need, room) {
        Room::Enough => Ok(()),
        Room::Doubtful => {
            let about = if need.measured { "about" } else { "up to about" };
            observer.noted(&format!(
                "the token ids need {about} {}, but only {} are free in {}",
                need.bytes,
                ByteCount(room),
                folder().display()
            ));
            Ok(())
        }
        Room::TooLittle => {
            let fault = Fault::NoRoom { folder: folder(), need: need.bytes, free: ByteCount(room) };
            Err(Error::new(ErrorKind::DiskFull, fault)
                .with_help("free some space, choose a folder on another disk, or encode a part of the input"))
        }
    }
}

/// An upper bound in bytes for the data files, from figures that need no reading; `None` if too little is known.
/// Columns that pass through may be of any size: they are assumed to be as large as ten texts (`COLUMNS`).
fn at_most(encode: &EncodePlan, inputs: &Inputs<'_>, text_bytes: Option<u64>) -> Option<u64> {
    /// Bytes written per byte of text: a byte of text gives at most one token, and an id has 4 bytes.
    const BYTES_PER_BYTE: u64 = 4;
    /// Columns that pass through take at most as much as this number of texts.
    const COLUMNS: u64 = 10;
    /// Bytes for footers, and for rows whose number is not known.
    const REST: u64 = 64 << 20;
    /// Bytes per row for lengths, indexes, and BOS and EOS tokens.
    const BYTES_PER_ROW: u64 = 40;
    /// Bytes of text per byte of a whole file, which may be compressed.
    const UNPACKED: u64 = 20;
    let bytes = if encode.columns.is_empty() { BYTES_PER_BYTE } else { BYTES_PER_BYTE * COLUMNS };
    let units = inputs.units();
    let rows = declared_sum(units.iter().flatten().map(|unit| unit.rows)).unwrap_or(0);
    let unpacked = |unit: &Unit| {
        let packed = if unit.range == Range::Whole { UNPACKED } else { 1 };
        Some(file_bytes(unit)?.saturating_mul(packed))
    };
    let text = text_bytes.or_else(|| declared_sum(units.iter().flatten().map(unpacked)))?;
    let rows = rows.saturating_mul(BYTES_PER_ROW);
    Some(text.saturating_mul(bytes).saturating_add(rows).saturating_add(REST))
}

/// Tells the observer if the files of a tokenizer may need more space than is free at its folder. The space that
/// counting needs there, if the counts exceed the memory, cannot be known in advance.
pub(super) fn tell_free(train: &TrainPlan, observer: &dyn Observer) {
    /// Bytes per token in all formats and the training record.
    const BYTES_PER_TOKEN: u64 = 64;
    let need = to_u64(train.vocab_size()).saturating_mul(BYTES_PER_TOKEN);
    if let Some(free) = free_space(&train.output).filter(|free| *free < need) {
        let (need, free) = (ByteCount(need), ByteCount(free));
        observer.noted(&format!(
            "the tokenizer's files may need {need}, but only {free} are free in {}",
            train.output.display()
        ));
    }
}

/// How a need compares with the free space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Enough,
    /// The need exceeds the free space.
    Doubtful,
    /// Half of the need, which was measured, exceeds the free space.
    TooLittle,
}

/// Compares a need with `free` bytes.
fn compare(need: DiskNeed, free: u64) -> Room {
    match need.bytes.0 {
        bytes if bytes <= free => Room::Enough,
        bytes if need.measured && bytes / 2 > free => Room::TooLittle,
        _ => Room::Doubtful,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_are_not_looked_at_have_two_or_four_bytes() {
        for (ids, format, bytes) in [
            (300, OutputFormat::Parquet, 1_625),
            (300, OutputFormat::Bin, 2_000),
            (65_536, OutputFormat::Megatron, 4_000),
            (65_537, OutputFormat::Bin, 4_000),
        ] {
            assert_eq!(by_rule(3_000, ids, format), ByteCount(bytes), "{ids} {format:?}");
        }
    }

    #[test]
    fn only_what_cannot_fit_is_refused() {
        for (bytes, measured, free, expected) in [
            (1_000, true, 1_000, Room::Enough),
            (1_000, true, 999, Room::Doubtful),
            (1_000, true, 500, Room::Doubtful),
            (1_000, true, 499, Room::TooLittle),
            (1_000, false, 0, Room::Doubtful),
            (0, true, 0, Room::Enough),
        ] {
            let need = DiskNeed { bytes: ByteCount(bytes), measured };
            assert_eq!(compare(need, free), expected, "{bytes} {measured} {free}");
        }
    }
}
