//! Estimates the disk space of an output before it is written, from excerpts spread over the text.

use std::path::Path;
use std::sync::Arc;

use arrow::array::BinaryViewArray;

use super::encoding::{dataset_config, encoder, encodes_all};
use super::inputs::Inputs;
use super::plan::{EncodePlan, Plan, TrainPlan};
use super::training::{LearnConfig, learn};
use crate::base::atomic_file::free_space;
use crate::base::int::{ByteCount, declared_sum, to_u64, u64_to_usize};
use crate::encode::encode_batches;
use crate::error::{Error, ErrorKind, Result};
use crate::observer::Observer;
use crate::sink::{OutputFormat, RowGroupEncoders, ShardWriter};
use crate::source::{Batch, Documents, RowRange, Unit};
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
/// `given` is the tokenizer that the plan names; `None` if the plan trains one. `text_bytes` is the size of the text
/// to encode, if it is known. It scales the measurement; without it, the size that the excerpt reveals is used.
///
/// **Memory:** an excerpt of about 8 MiB of text, and training or encoding on it.
///
/// # Errors
/// The observer asks to stop. Encoding will report all other errors, so they only lead to an estimate without a
/// measurement.
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
        // Encoding will report all other errors.
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
///
/// Formats of bare ids have a fixed width in bytes. Parquet files compress ids to about [`BITS_PER_TOKEN`] bits. The
/// result saturates at 2⁶⁴ − 1.
fn by_rule(text_bytes: u64, ids: usize, format: OutputFormat) -> ByteCount {
    let bits = format.id_bytes(to_u64(ids)).map_or(BITS_PER_TOKEN, |bytes| 8 * bytes);
    ByteCount((text_bytes / BYTES_PER_TOKEN).saturating_mul(bits) / 8)
}

/// The disk space measured on an [`Excerpt`], scaled to all of the text; `None` if the excerpt is empty, the size of
/// the text is unknown, or no tokenizer can be trained on it.
///
/// A trained tokenizer is not known yet. So one is trained on the excerpt, unless the plan extends a tokenizer, trains
/// in stages, or trains from counts files.
///
/// # Errors
/// - The text cannot be read, or the observer asks to stop.
/// - The excerpt cannot be encoded, or gives no vocabulary.
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
    let total = match (text_bytes, found) {
        (Some(declared), Some(found)) if is_all => Some(declared.min(found)),
        (declared, found) => declared.or(found),
    };
    let (Some(total), false) = (total, parts.is_empty()) else { return Ok(None) };
    let bytes = |vocabulary: &Arc<Vocabulary>, parts: &[Batch]| -> Result<Option<u64>> {
        let text: u64 = parts.iter().map(Batch::text_bytes).sum();
        let written = written_bytes(plan, encode, inputs, vocabulary, parts, observer)?;
        Ok(if text == total { Some(written) } else { scaled(written, text, total) })
    };
    if let Some(vocabulary) = given {
        return bytes(vocabulary, &parts);
    }
    let Some(train) = plan
        .train
        .as_ref()
        .filter(|train| train.extend.is_none() && train.stages.is_empty() && plan.counts.is_empty())
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

/// The parts as documents, in order. The texts are shared and not copied.
fn documents(parts: &[Batch]) -> Documents<'_> {
    Box::new(parts.iter().cloned().map(Ok))
}

/// Passes on that a run should stop, and none of the reports.
struct StopOnly<'a>(&'a dyn Observer);

impl Observer for StopOnly<'_> {
    fn stopping(&self) -> bool {
        self.0.stopping()
    }
}

/// A tokenizer that is trained on parts of the text with the rules of a plan.
///
/// Progress is not reported, since training on an excerpt takes little time.
///
/// # Errors
/// The observer asks to stop, or the settings give no vocabulary.
fn learned(train: &TrainPlan, parts: &[Batch], observer: &dyn Observer) -> Result<Arc<Vocabulary>> {
    let config = LearnConfig {
        split: train.split.clone(),
        specials: train.specials.clone(),
        specials_at: train.specials_at,
        boundary: train.boundary,
        train: train.config.clone(),
    };
    learn(documents(parts), &config, &StopOnly(observer)).map(|(vocabulary, _)| Arc::new(vocabulary))
}

/// Bytes of the data files that hold the ids of some documents.
///
/// Bare ids have a fixed width, so their number is enough. A Parquet file is written to memory with the settings of
/// the plan, because its compression depends on the ids.
///
/// # Errors
/// The documents cannot be encoded, the file cannot be written, or the observer asks to stop.
fn written_bytes(
    plan: &Plan,
    encode: &EncodePlan,
    inputs: &Inputs<'_>,
    vocabulary: &Arc<Vocabulary>,
    parts: &[Batch],
    observer: &dyn Observer,
) -> Result<u64> {
    let encoder = encoder(encode, vocabulary)?;
    let name = |_, _| String::new();
    if let Some(width) = encode.format.id_bytes(to_u64(vocabulary.id_limit())) {
        let facts = encode_batches(documents(parts), &encoder, name, &StopOnly(observer), |_| Ok(()))?;
        return Ok(facts.tokens * width + encode.format.index_bytes(facts.documents));
    }
    let shape = dataset_config(plan, encode, &encoder, inputs, String::new())?.file_spec()?;
    let encoders = RowGroupEncoders::start(1)?;
    let mut writer = ShardWriter::new(Vec::new(), Path::new("memory"), &shape, &encoders)?;
    encode_batches(documents(parts), &encoder, name, &StopOnly(observer), |batch| writer.write(batch))?;
    Ok(writer.finish()?.1.bytes)
}

/// Compares the disk space that a job's data files need with the free space at its output folder, before anything is
/// written. `occupied` is the number of bytes of existing files that will be kept or replaced, so they count as free.
/// The observer gets a note if space is short.
///
/// Nothing is read if an upper bound for the need fits, or if the system does not report its free space.
///
/// # Errors
/// - Half of a measured need exceeds the free space ([`ErrorKind::DiskFull`]): no estimate is that wrong.
/// - The observer asks to stop.
pub(super) fn check_free(
    plan: &Plan,
    encode: &EncodePlan,
    inputs: &Inputs<'_>,
    given: Option<&Arc<Vocabulary>>,
    occupied: u64,
    observer: &dyn Observer,
) -> Result<()> {
    let Some(free) = free_space(&plan.output) else { return Ok(()) };
    let room = free.saturating_add(occupied);
    let is_complete = encodes_all(encode, inputs);
    let text_bytes = inputs.text_bytes();
    if at_most(encode, inputs, text_bytes).is_some_and(|max_bytes| max_bytes <= room) {
        return Ok(());
    }
    let Some(mut need) = disk_need(plan, encode, inputs, given, text_bytes, observer)? else { return Ok(()) };
    // The estimate is for all of the text, and the share of a sample is not known.
    need.measured &= is_complete;
    if plan.destination.is_some() {
        need = held_at_once(encode, need, text_bytes);
    }
    let (folder, free) = (plan.output.display(), ByteCount(room));
    match compare(need, room) {
        FreeSpace::Enough => Ok(()),
        FreeSpace::Doubtful => {
            let about = if need.measured { "about" } else { "up to about" };
            let need = need.bytes;
            observer
                .noted(&format!("the token ids need {about} {need}, but only {free} are free in {folder}"));
            Ok(())
        }
        FreeSpace::TooLittle => refuse_too_little(&plan.output, need, free),
    }
}

/// The disk space of data files that move elsewhere when they are complete: that of two files, of the need of all.
/// Files are not equally large, so it counts as not measured.
fn held_at_once(encode: &EncodePlan, all: DiskNeed, text_bytes: Option<u64>) -> DiskNeed {
    let two_files = encode.file_text_bytes.0.saturating_mul(2);
    let held = text_bytes.filter(|_| !encode.one_file).and_then(|text| scaled(all.bytes.0, text, two_files));
    DiskNeed { bytes: ByteCount(held.unwrap_or(u64::MAX).min(all.bytes.0)), measured: false }
}

/// Refuses a job if half of its estimated need exceeds the free space of the disk. No measured estimate was that wrong.
///
/// # Errors
/// It does ([`ErrorKind::DiskFull`]).
pub(super) fn refuse_too_little(folder: &Path, need: DiskNeed, free: ByteCount) -> Result<()> {
    if compare(need, free.0) != FreeSpace::TooLittle {
        return Ok(());
    }
    let (folder, need) = (folder.display(), need.bytes);
    let problem = format!("{folder}: the token ids need about {need}, but only {free} are free");
    Err(Error::message(ErrorKind::DiskFull, problem)
        .with_help("free some space, choose a folder on another disk, or encode a part of the input"))
}

/// An upper bound in bytes for the data files, from figures that need no reading; `None` if too little is known.
/// Columns that pass through may be of any size: they are assumed to be as large as ten texts (`COLUMNS`).
///
/// The bound spares most jobs the excerpt. It is far above the usual need: a job with less free space is measured.
fn at_most(encode: &EncodePlan, inputs: &Inputs<'_>, text_bytes: Option<u64>) -> Option<u64> {
    /// Bytes written per byte of text: a byte of text gives at most one token, and an id has 4 bytes.
    const BYTES_PER_BYTE: u64 = 4;
    /// Columns that pass through take at most as much as this number of texts.
    const COLUMNS: u64 = 10;
    /// Bytes for footers, and for the rows of units that declare no number of rows.
    const REST: u64 = 64 << 20;
    /// Bytes per row for lengths, indexes, and BOS and EOS tokens.
    const BYTES_PER_ROW: u64 = 40;
    /// Bytes of text per byte of a whole file, which may be compressed.
    const UNPACKED: u64 = 20;
    let bytes = if encode.columns.is_empty() { BYTES_PER_BYTE } else { BYTES_PER_BYTE * COLUMNS };
    let units = inputs.units();
    let rows = declared_sum(units.iter().flatten().map(|unit| unit.rows)).unwrap_or(0);
    let unpacked = |unit: &Unit| {
        let packed = if unit.range == RowRange::Whole { UNPACKED } else { 1 };
        Some(file_bytes(unit)?.saturating_mul(packed))
    };
    let text = text_bytes.or_else(|| declared_sum(units.iter().flatten().map(unpacked)))?;
    let rows = rows.saturating_mul(BYTES_PER_ROW);
    Some(text.saturating_mul(bytes).saturating_add(rows).saturating_add(REST))
}

/// Gives the observer a note if the files of a tokenizer may need more space than is free at its folder.
///
/// Counting needs further space there if the counts exceed the memory. That need is not known in advance, so it is
/// left out. Without a figure from the system there is no note.
pub(super) fn note_free_space(train: &TrainPlan, observer: &dyn Observer) {
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
enum FreeSpace {
    /// The free space covers the need.
    Enough,
    /// The need exceeds the free space.
    Doubtful,
    /// The need was measured, and half of it exceeds the free space.
    TooLittle,
}

/// Compares a need with `free` bytes.
///
/// A need that was not measured is never [`TooLittle`](FreeSpace::TooLittle).
fn compare(need: DiskNeed, free: u64) -> FreeSpace {
    match need.bytes.0 {
        bytes if bytes <= free => FreeSpace::Enough,
        bytes if need.measured && bytes / 2 > free => FreeSpace::TooLittle,
        _ => FreeSpace::Doubtful,
    }
}

/// Number of parts in an excerpt, at most.
const PARTS: usize = 32;

/// Bytes of one part, about.
const PART_BYTES: u64 = 256 << 10;

/// Bytes of text that are read for an excerpt, at most.
const READ_BYTES: u64 = 256 << 20;

/// Parts that are spread over all of a text.
///
/// All parts together have about [`PARTS`] × [`PART_BYTES`] bytes (8 MiB) at most. The order and the number of
/// threads do not matter: the same input gives the same excerpt.
#[derive(Debug, Default)]
pub(super) struct Excerpt {
    /// The parts in the order of the text. A part of a document counts as one document.
    pub(super) parts: Vec<Batch>,
    /// Bytes of all the text, if that is known by now.
    pub(super) text_bytes: Option<u64>,
    /// Whether the parts are all of the text.
    pub(super) is_all: bool,
}

impl Excerpt {
    /// Reads parts of the text, from some of the units, at most [`READ_BYTES`] together. Nothing is read if any
    /// source is on another machine or can be read only once.
    ///
    /// # Errors
    /// A unit cannot be read, or the observer asks to stop.
    pub(super) fn read(inputs: &Inputs<'_>, observer: &dyn Observer) -> Result<Excerpt> {
        let sources = inputs.units();
        let all: Vec<(usize, usize, &Unit)> = sources
            .iter()
            .enumerate()
            .flat_map(|(source, units)| units.iter().enumerate().map(move |(at, unit)| (source, at, unit)))
            .collect();
        if all.is_empty() || inputs.read_once() || inputs.bytes_elsewhere().iter().any(|&bytes| bytes > 0) {
            return Ok(Excerpt { text_bytes: inputs.text_bytes(), ..Excerpt::default() });
        }
        let chosen: Vec<_> = match inputs.text_bytes() {
            Some(total) => by_text(&all, total),
            None => evenly(all.len()).map(|at| (all[at], Vec::new())).collect(),
        };
        let max_bytes = READ_BYTES / to_u64(chosen.len()).max(1);
        let mut parts = ExcerptParts::new();
        let (mut ended, mut read) = (true, Vec::new());
        for ((source, unit, what), mut places) in chosen {
            places.iter_mut().for_each(|place| *place = max_bytes.min(*place));
            places.dedup();
            let text = parts.read_unit(inputs, (source, unit), &places, max_bytes, observer)?;
            ended &= text.is_some();
            read.push((what, text));
        }
        let is_all = ended && read.len() == all.len() && parts.is_all;
        let found = || ended.then(|| total_of(&all, &read)).flatten();
        let text_bytes = if is_all { Some(parts.at) } else { inputs.text_bytes().or_else(found) };
        Ok(Excerpt { parts: parts.kept.into_iter().map(|(_, batch)| batch).collect(), text_bytes, is_all })
    }
}

/// Up to [`PARTS`] evenly spaced numbers below `count`.
///
/// The numbers ascend and begin with 0. There are none if `count` is 0.
fn evenly(count: usize) -> impl Iterator<Item = usize> {
    let chosen = count.min(PARTS);
    (0..chosen).map(move |at| at * count / chosen)
}

/// A unit, by source and number, and the offsets in its text at which parts are kept. Without offsets, parts of all
/// of it are kept.
type ChosenUnit<'a> = ((usize, usize, &'a Unit), Vec<u64>);

/// Evenly spaced parts of the text, by the sizes that the units declare. If the whole text fits an excerpt, all units
/// are taken completely.
///
/// `total` is the sum of the declared sizes. The offsets of each unit ascend, and units without an offset are left
/// out.
fn by_text<'a>(all: &[(usize, usize, &'a Unit)], total: u64) -> Vec<ChosenUnit<'a>> {
    if total <= to_u64(PARTS) * PART_BYTES {
        return all.iter().map(|unit| (*unit, Vec::new())).collect();
    }
    let (mut chosen, mut next, mut before) = (Vec::new(), 0, 0_u64);
    let step = total / to_u64(PARTS);
    for unit in all {
        let end = before.saturating_add(unit.2.text_bytes.unwrap_or(0));
        let mut places = Vec::new();
        while next < to_u64(PARTS) && next * step < end {
            places.push((next * step).saturating_sub(before));
            next += 1;
        }
        if !places.is_empty() {
            chosen.push((*unit, places));
        }
        before = end;
    }
    chosen
}

/// Bytes of text in all units, when it is known for those that were read: exactly if these are all units, otherwise
/// scaled by the sizes of the files. `None` if it is not known for one of them.
fn total_of(all: &[(usize, usize, &Unit)], read: &[(&Unit, Option<u64>)]) -> Option<u64> {
    let text = read.iter().try_fold(0_u64, |sum, (_, text)| sum.checked_add((*text)?))?;
    if read.len() == all.len() {
        return Some(text);
    }
    let whole = declared_sum(all.iter().map(|(_, _, unit)| file_bytes(unit)))?;
    let seen = declared_sum(read.iter().map(|(unit, _)| file_bytes(unit)))?;
    scaled(text, seen, whole)
}

/// Bytes that a unit takes in its local file. `None` if the file is missing, or if the unit is a range of rows, which
/// has no known place in the file.
pub(super) fn file_bytes(unit: &Unit) -> Option<u64> {
    match unit.range {
        RowRange::Whole => std::fs::metadata(&unit.name).ok().map(|file| file.len()),
        RowRange::Bytes(from, to) => Some(to.saturating_sub(from)),
        RowRange::RowGroups(..) | RowRange::Rows(..) => None,
    }
}

/// Scales `amount`, measured on a part of size `part`, to the size of the `whole`; `None` if it exceeds 64 bits.
///
/// The product has 128 bits, so only the quotient can overflow. A part of size 0 counts as 1.
pub(super) fn scaled(amount: u64, part: u64, whole: u64) -> Option<u64> {
    u64::try_from(u128::from(amount) * u128::from(whole) / u128::from(part.max(1))).ok()
}

/// Keeps parts of the text while it is read.
///
/// Units with declared sizes give parts at offsets that are chosen beforehand. Other units are read from the
/// beginning, and the distance between parts doubles whenever too much is held. Memory is bounded in both cases.
struct ExcerptParts {
    /// Parts, each with a number that gives the order: its offset in the text, or its index.
    kept: Vec<(u64, Batch)>,
    /// Distance between the beginnings of parts, in bytes: a part begins at each multiple.
    step: u64,
    /// Bytes read so far.
    at: u64,
    /// Whether everything that was read was kept.
    is_all: bool,
}

impl ExcerptParts {
    /// No parts yet. The distance begins at the length of a part, so at first everything is kept.
    fn new() -> ExcerptParts {
        ExcerptParts { kept: Vec::new(), step: PART_BYTES, at: 0, is_all: true }
    }

    /// Reads a unit, and keeps a part at each of `places`, or without places all that fits. Stops at the end of the
    /// unit, at the last place, or without places after `max_bytes` bytes. Returns the bytes of its text if the end was
    /// reached.
    ///
    /// # Errors
    /// The unit cannot be read, or the observer asks to stop.
    fn read_unit(
        &mut self,
        inputs: &Inputs<'_>,
        (source, unit): (usize, usize),
        places: &[u64],
        max_bytes: u64,
        observer: &dyn Observer,
    ) -> Result<Option<u64>> {
        let (mut text, mut places, all) = (0, places.iter().copied().peekable(), places.is_empty());
        for batch in inputs.read_unit(source, unit)? {
            observer.checkpoint()?;
            let batch = batch?;
            let end = text + batch.text_bytes();
            if all {
                self.offer(&batch);
            }
            while let Some(place) = places.next_if(|&place| place < end) {
                self.keep_one(&batch, place.saturating_sub(text));
            }
            text = end;
            let is_done = if all { text > max_bytes } else { places.peek().is_none() };
            if is_done {
                return Ok(None);
            }
        }
        self.is_all &= all;
        Ok(Some(text))
    }

    /// Keeps the part that begins at an offset of a batch.
    fn keep_one(&mut self, batch: &Batch, from: u64) {
        self.is_all = false;
        let number = to_u64(self.kept.len());
        self.kept.push((number, cut(batch, from, from + PART_BYTES)));
    }

    /// Keeps the parts of a batch. If there are too many parts, the distance is doubled and every other part is
    /// dropped.
    ///
    /// Batches must come in the order of the text: `at` is the offset of the next one.
    fn offer(&mut self, batch: &Batch) {
        let (begin, end) = (self.at, self.at + batch.text_bytes());
        if self.step == PART_BYTES {
            // Nothing has been dropped yet.
            self.kept.push((begin, cut(batch, 0, u64::MAX)));
        } else {
            self.kept.extend(parts_at_multiples(self.step, batch, begin, end));
        }
        self.at = end;
        let kept_bytes =
            |kept: &[(u64, Batch)]| kept.iter().map(|(_, batch)| batch.text_bytes()).sum::<u64>();
        while kept_bytes(&self.kept) > to_u64(PARTS) * PART_BYTES {
            self.thin_out();
        }
    }

    /// Doubles the distance between parts, and keeps only those at multiples of it.
    ///
    /// A part that spans several multiples, as undivided batches do at first, is cut into one part for each.
    fn thin_out(&mut self) {
        self.is_all = false;
        self.step *= 2;
        for (begin, batch) in std::mem::take(&mut self.kept) {
            let end = begin + batch.text_bytes().max(1);
            self.kept.extend(parts_at_multiples(self.step, &batch, begin, end));
        }
    }
}

/// The parts of a batch that begin at multiples of `step`, with their offsets. The batch is at the offsets from `begin`
/// up to `end`.
fn parts_at_multiples(step: u64, batch: &Batch, begin: u64, end: u64) -> impl Iterator<Item = (u64, Batch)> {
    let starts = (begin.next_multiple_of(step)..end).step_by(u64_to_usize(step));
    starts.map(move |at| (at, cut(batch, at - begin, at - begin + PART_BYTES)))
}

/// The documents of a batch that begin in a byte range of its text. If none begins in it, the bytes in the range of
/// the document that spans it. No document is longer than the range.
fn cut(batch: &Batch, from: u64, to: u64) -> Batch {
    let max_bytes = to - from;
    let mut begin = 0;
    let begins: Vec<u64> = batch
        .documents
        .lengths()
        .map(|length| {
            begin += u64::from(length);
            begin - u64::from(length)
        })
        .collect();
    let first = begins.partition_point(|&begin| begin < from);
    let last = begins.partition_point(|&begin| begin < to);
    let whole = Batch { continued: false, open: false, ..batch.clone() };
    if first < last {
        let found = whole.slice(first, last - first);
        let documents = found.iter().map(|text| text.map(|text| excerpt_of(text, 0, max_bytes)));
        return Batch { documents: BinaryViewArray::from_iter(documents), ..found };
    }
    let Some(row) = first.checked_sub(1) else { return whole.slice(0, 0) };
    let found = whole.slice(row, 1);
    let text = found.iter().next().flatten().map(|text| excerpt_of(text, from - begins[row], max_bytes));
    Batch { documents: BinaryViewArray::from_iter([text]), ..found }
}

/// At most `max_bytes` bytes of a text from an offset. Both ends are moved forward to the beginning of a character.
fn excerpt_of(text: &[u8], from: u64, max_bytes: u64) -> &[u8] {
    let begins = |at: u64| {
        let mut at = u64_to_usize(at.min(to_u64(text.len())));
        while text.get(at).is_some_and(|byte| byte & 0xC0 == 0x80) {
            at += 1;
        }
        at
    };
    &text[begins(from)..begins(from.saturating_add(max_bytes))]
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

    /// Asks to stop at the second time that it is asked, and from then on.
    #[derive(Default)]
    struct StopsLater(std::sync::atomic::AtomicBool);

    impl Observer for StopsLater {
        fn stopping(&self) -> bool {
            self.0.swap(true, std::sync::atomic::Ordering::Relaxed)
        }
    }

    #[test]
    fn training_on_an_excerpt_can_be_stopped() {
        let text = "source = { uri = \"-\" }\ntrain = { vocab_size = 300 }\noutput = { dir = \"out\" }\n";
        let recipe = crate::run::recipe::read("run.toml", text).expect("a recipe");
        let environment =
            crate::run::Environment { variable: &|_| None, threads: 1, memory: ByteCount(1 << 30) };
        let plan = crate::run::plan(&recipe, &environment).expect("a plan");
        let train = plan.train.expect("it trains");
        let parts = [batch(&[Some("how much wood would a woodchuck chuck")], false)];
        assert!(learned(&train, &parts, &crate::observer::Silent).is_ok());
        let error = learned(&train, &parts, &StopsLater::default()).expect_err("stopped");
        assert_eq!(error.kind(), ErrorKind::Interrupted);
    }

    #[test]
    fn only_what_cannot_fit_is_refused() {
        for (bytes, measured, free, expected) in [
            (1_000, true, 1_000, FreeSpace::Enough),
            (1_000, true, 999, FreeSpace::Doubtful),
            (1_000, true, 500, FreeSpace::Doubtful),
            (1_000, true, 499, FreeSpace::TooLittle),
            (1_000, false, 0, FreeSpace::Doubtful),
            (0, true, 0, FreeSpace::Enough),
        ] {
            let need = DiskNeed { bytes: ByteCount(bytes), measured };
            assert_eq!(compare(need, free), expected, "{bytes} {measured} {free}");
        }
    }

    fn batch(texts: &[Option<&str>], open: bool) -> Batch {
        let documents = BinaryViewArray::from_iter(texts.iter().map(|text| text.map(str::as_bytes)));
        Batch { source: 0, unit: 0, first_row: 0, documents, columns: None, continued: false, open }
    }

    #[test]
    fn parts_have_documents_that_begin_in_them() {
        let batch = batch(&[Some("abc"), None, Some("defgh"), Some("")], true);
        for (from, to, expected) in [
            (0, u64::MAX, vec![Some("abc"), None, Some("defgh"), Some("")]),
            (0, 3, vec![Some("abc")]),
            (1, 4, vec![None, Some("def")]),
            (4, 6, vec![Some("ef")]),
            (6, 99, vec![Some("")]),
        ] {
            let found = cut(&batch, from, to);
            let texts: Vec<_> =
                found.iter().map(|text| text.map(|text| str::from_utf8(text).unwrap())).collect();
            assert_eq!(texts, expected, "{from} {to}");
            assert!(!found.open);
        }
        assert_eq!(excerpt_of("aé".as_bytes(), 2, 1), b"", "no half of a character");
    }

    #[test]
    fn many_parts_are_thinned_out_evenly() {
        let text = "x".repeat(1 << 20);
        let mut parts = ExcerptParts::new();
        for _ in 0..4 {
            parts.offer(&batch(&[Some(&text)], false));
        }
        assert!(parts.is_all && parts.kept.len() == 4);
        for _ in 0..96 {
            parts.offer(&batch(&[Some(&text)], false));
        }
        assert!(!parts.is_all);
        assert_eq!(parts.at, 100 << 20);
        assert!((PARTS / 2..=PARTS).contains(&parts.kept.len()), "{}", parts.kept.len());
        let steps: Vec<u64> = parts.kept.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        assert!(steps.iter().all(|step| *step == parts.step), "{steps:?}");
    }

    #[test]
    fn text_that_was_not_read_is_judged_by_the_sizes_of_files() {
        let unit = |from, to| Unit {
            name: String::new(),
            range: RowRange::Bytes(from, to),
            rows: None,
            text_bytes: None,
        };
        let units = [unit(0, 100), unit(100, 300)];
        let all: Vec<_> = units.iter().enumerate().map(|(at, unit)| (0, at, unit)).collect();
        assert_eq!(total_of(&all, &[(&units[0], Some(50))]), Some(150));
        assert_eq!(total_of(&all, &[(&units[0], Some(50)), (&units[1], Some(20))]), Some(70));
        assert_eq!(total_of(&all, &[(&units[0], None)]), None);
    }
}
