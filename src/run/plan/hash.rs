//! Hashes the settings of a plan.

use serde_json::{Value, json};

use super::{EncodePlan, Plan, TrainPlan};
use crate::base::digest::sha256;
use crate::encode::MissingBytes;
use crate::source::SourceSpec;
use crate::vocab::TransformersConfig;

/// The hash of every setting that determines the output. The addresses of sources are hashed as the user wrote them,
/// so that a corpus or recipe that was moved gives the same bytes. The content of inputs and of a given tokenizer is
/// identified elsewhere.
///
/// Rare keys are hashed only if they are set, so that the hashes of recipes without them do not depend on whether
/// this version knows the keys.
pub(super) fn recipe_hash(plan: &Plan, uris: &[&str]) -> String {
    let sources = plan.sources.iter().zip(uris).zip(&plan.weights);
    let mut canonical = json!({
        "sources": sources.map(|((spec, uri), &weight)| source(spec, uri, weight)).collect::<Vec<_>>(),
        "sample": plan.sample,
        "train": plan.train.as_ref().map(train),
        "encode": plan.encode.as_ref().map(encode),
    });
    if plan.limits.iter().any(|limit| !limit.is_everything()) {
        canonical["limits"] = json!(plan.limits);
    }
    if let Some(pack) = plan.encode.as_ref().and_then(|encode| encode.pack) {
        canonical["pack"] = json!(pack);
    }
    if let Some(encode) = plan.encode.as_ref().filter(|encode| encode.missing_bytes != MissingBytes::Error) {
        canonical["missing_bytes"] = json!(encode.missing_bytes);
    }
    if plan.encode.as_ref().is_some_and(|encode| encode.one_file) {
        canonical["one_file"] = json!(true);
    }
    if let Some(train) = plan.train.as_ref().filter(|train| train.bos.is_some() || train.eos.is_some()) {
        canonical["named"] = json!({ "bos": train.bos, "eos": train.eos });
    }
    if let Some(train) =
        plan.train.as_ref().filter(|train| train.transformers != TransformersConfig::default())
    {
        let TransformersConfig { pad, unk, mask, model_max_length, chat_template, kept } =
            &train.transformers;
        canonical["transformers"] = json!({
            "pad": pad,
            "unk": unk,
            "mask": mask,
            "model_max_length": model_max_length,
            "chat_template": chat_template,
            "kept": kept,
        });
    }
    if !plan.counts.is_empty() {
        canonical["counts"] = json!({ "files": plan.counts, "weights": plan.weights });
    }
    if let Some(path) = plan.train.as_ref().and_then(|train| train.extend.as_ref()) {
        canonical["extend"] = json!(path);
    }
    sha256(canonical.to_string())
}

fn source(spec: &SourceSpec, uri: &str, weight: u64) -> Value {
    let mut canonical = json!({
        "uri": uri,
        "column": spec.column,
        "format": spec.format,
        "documents": spec.documents,
        "on_bad_input": spec.on_bad_input,
        "weight": weight,
    });
    if spec.template.is_some() || spec.join.is_some() {
        canonical["text"] = json!({ "template": spec.template, "join": spec.join });
    }
    canonical
}

fn train(plan: &TrainPlan) -> Value {
    json!({
        "smaller": plan.smaller.iter().map(|smaller| smaller.merges).collect::<Vec<_>>(),
        "split": plan.split,
        "boundary": plan.boundary,
        "merges": plan.config.merges,
        "min_frequency": plan.config.min_frequency,
        "max_token_bytes": plan.config.max_token_bytes,
        "tie_break": plan.config.tie_break,
        "score": plan.config.score,
        "history_every": plan.config.history_every,
        "special_tokens": plan.specials,
        "special_tokens_at": plan.specials_at,
        "formats": plan.formats,
    })
}

fn encode(plan: &EncodePlan) -> Value {
    json!({
        "trained": plan.tokenizer.is_none(),
        "documents": plan.documents,
        "columns": plan.columns,
        "special": plan.special,
        "bos": plan.bos,
        "eos": plan.eos,
        "compression": plan.compression,
        "format": plan.format,
        "split_name": plan.split_name,
        "file_text_bytes": plan.file_text_bytes,
    })
}
