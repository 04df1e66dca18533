use std::path::Path;

use super::facts::word;
use super::fault::Fault;
use super::inputs::Inputs;
use super::plan::{Documents, EncodePlan, Plan};
use super::state::State;
use crate::encode::{EncodeConfig, EncodeFacts, Encoder, TokenBatch, encode_batches};
use crate::error::{Error, ErrorKind, Result};
use crate::observer::{Observer, Stage};
use crate::report::{SampleDocument, ShownToken};
use crate::sink::{
    DatasetConfig, DatasetWriter, Declaration, DeclaredToken, FilePlan, Manifest, OutputFolder,
};
use crate::source::whole_documents;
use crate::units::{TokenId, amount};
use crate::vocab::Vocabulary;

/// So many documents are shown in the report,
const SAMPLES: usize = 6;

/// each with so many tokens from its start and, if it has more, a few from its end.
const SAMPLE_TOKENS: usize = 60;
const SAMPLE_END_TOKENS: usize = 4;

/// What encoding gives: data files are published, the manifest is still to be written.
pub(super) struct Encoded {
    pub(super) manifest: Manifest,
    pub(super) facts: EncodeFacts,
    pub(super) samples: Vec<SampleDocument>,
}

/// Encodes the documents that the plan names and writes them to the folder's data files.
pub(super) fn encode(
    plan: &Plan,
    encode: &EncodePlan,
    vocabulary: &Vocabulary,
    inputs: &Inputs,
    folder: &OutputFolder,
    state: &State,
    observer: &dyn Observer,
) -> Result<Encoded> {
    let tokens = added_tokens(encode, vocabulary)?;
    let encoder = Encoder::new(vocabulary, tokens.config(encode))?;
    let everything = encode.documents == Documents::All || inputs.sample_is_everything();
    let documents = if everything { inputs.all() } else { inputs.sampled() };
    let mut writer = DatasetWriter::create(
        folder,
        DatasetConfig {
            plan: file_plan(encode, inputs, everything)?,
            units: if everything { inputs.units() } else { vec![vec![inputs.as_one_unit()]] },
            columns: inputs.columns()?,
            compression: encode.compression,
            declaration: Declaration {
                tokenizer: vocabulary.fingerprint(),
                recipe: plan.recipe_hash.clone(),
                special: word(&encode.special),
                bos: tokens.bos.clone(),
                eos: tokens.eos.clone(),
                ..Declaration::default()
            },
        },
    )?;
    let mut samples = Vec::new();
    let mut position = 0;
    observer.started(Stage::Encode, inputs.text_bytes().filter(|_| everything));
    let name = |source, unit| inputs.unit_name(source, unit);
    let facts = encode_batches(whole_documents(documents), &encoder, name, observer, |mut batch| {
        show(&batch, vocabulary, &name, &mut samples);
        if !everything {
            (batch.source, batch.unit, batch.first_row) = (0, 0, position);
            position += amount(batch.len());
        }
        writer.write(batch)
    })?;
    let manifest = writer.finish(state.fingerprint(), |source, unit| {
        if everything { inputs.identity(source, unit) } else { Ok(inputs.as_one_identity(state)) }
    })?;
    observer.finished(Stage::Encode);
    Ok(Encoded { manifest, facts, samples })
}

/// The files are fixed beforehand where every unit's text is known and all of it is encoded.
fn file_plan(encode: &EncodePlan, inputs: &Inputs, everything: bool) -> Result<FilePlan> {
    if everything && inputs.text_bytes().is_some() {
        FilePlan::of_units(&inputs.units(), &encode.split_name, encode.file_text_bytes.0)
    } else {
        FilePlan::rolling(&encode.split_name, encode.file_text_bytes.0)
    }
}

/// The tokens put around every document.
pub(super) struct AddedTokens {
    pub(super) bos: Option<DeclaredToken>,
    pub(super) eos: Option<DeclaredToken>,
}

impl AddedTokens {
    fn config(&self, encode: &EncodePlan) -> EncodeConfig {
        let id = |token: &Option<DeclaredToken>| token.as_ref().map(|token| token.id);
        EncodeConfig { special: encode.special, bos: id(&self.bos), eos: id(&self.eos) }
    }
}

/// Looks up the tokens that a plan names.
///
/// # Errors
/// The vocabulary has no such special token.
pub(super) fn added_tokens(encode: &EncodePlan, vocabulary: &Vocabulary) -> Result<AddedTokens> {
    let find = |name: &Option<String>| -> Result<Option<DeclaredToken>> {
        let Some(text) = name else { return Ok(None) };
        let found = vocabulary.specials().iter().find(|special| special.text == *text);
        let found = found.ok_or_else(|| {
            let tokenizer = encode.tokenizer.as_deref().unwrap_or(Path::new("the tokenizer")).to_owned();
            let known: Vec<&str> =
                vocabulary.specials().iter().map(|special| special.text.as_str()).collect();
            let help = match known.as_slice() {
                [] => "it has none at all: name them when it is trained ([train] special_tokens)".to_owned(),
                known => format!("it has {}", known.join(", ")),
            };
            Error::new(ErrorKind::Usage, Fault::NoSuchToken { tokenizer, token: text.clone() })
                .with_help(help)
        })?;
        Ok(Some(DeclaredToken { id: found.id, text: text.clone() }))
    };
    Ok(AddedTokens { bos: find(&encode.bos)?, eos: find(&encode.eos)? })
}

/// Keeps the first documents that have tokens, as the report shows them.
fn show(
    batch: &TokenBatch,
    vocabulary: &Vocabulary,
    name: &impl Fn(usize, usize) -> String,
    samples: &mut Vec<SampleDocument>,
) {
    if samples.len() >= SAMPLES {
        return;
    }
    for (row, ids) in (batch.first_row..).zip(batch.iter()) {
        let Some(ids) = ids.filter(|ids| !ids.is_empty()) else { continue };
        let shown = |ids: &[TokenId]| ids.iter().map(|&id| shown(vocabulary, id)).collect();
        let first = ids.len().min(SAMPLE_TOKENS);
        let last = ids.len().saturating_sub(SAMPLE_END_TOKENS).max(first);
        samples.push(SampleDocument {
            unit: name(batch.source, batch.unit),
            row,
            tokens: amount(ids.len()),
            first: shown(&ids[..first]),
            last: shown(&ids[last..]),
        });
        if samples.len() >= SAMPLES {
            return;
        }
    }
}

/// A token as people read it.
pub(super) fn shown(vocabulary: &Vocabulary, id: TokenId) -> ShownToken {
    match vocabulary.special(id) {
        Some(special) => ShownToken::special(id, &special.text),
        None => ShownToken::new(id, vocabulary.bytes(id).unwrap_or_default()),
    }
}
