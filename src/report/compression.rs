use serde::{Deserialize, Serialize};

use super::RunReport;
use crate::train::HistoryPoint;
use crate::units::ratio;

/// The ratios of a run. A ratio without a whole is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ratios {
    /// Bytes of text a character.
    pub bytes_per_character: f64,
    /// How many times fewer tokens there are after the last merge than before the first.
    pub training_compression: f64,
    /// Bytes of text a token written, BOS and EOS not counted.
    pub bytes_per_token: f64,
    /// Tokens written for a document, BOS and EOS counted.
    pub tokens_per_document: f64,
    /// Tokens for each that packed rows can have.
    pub packing_utilisation: f64,
}

impl Ratios {
    /// Computes the ratios of a report.
    pub fn of(report: &RunReport) -> Ratios {
        let corpus = &report.corpus;
        let training = report.training.as_ref();
        let encoding = report.encoding.as_ref();
        let packing = encoding.and_then(|encoding| Some((encoding.tokens, encoding.packing.as_ref()?)));
        Ratios {
            bytes_per_character: corpus
                .characters
                .map_or(0.0, |characters| ratio(corpus.text_bytes, characters)),
            training_compression: training.map_or(0.0, |t| ratio(t.tokens_before, t.tokens_after)),
            bytes_per_token: encoding
                .map_or(0.0, |e| ratio(e.text_bytes, e.tokens.saturating_sub(e.added_tokens))),
            packing_utilisation: packing
                .map_or(0.0, |(tokens, packing)| ratio(tokens, packing.rows.saturating_mul(packing.length))),
            tokens_per_document: encoding.map_or(0.0, |e| ratio(e.tokens, e.documents)),
        }
    }
}

/// How many times fewer tokens there are at each point than at the first.
pub(super) fn compression(history: &[HistoryPoint]) -> Vec<(u64, f64)> {
    let before = history.first().map_or(0, |point| point.tokens);
    history.iter().map(|point| (point.merges, ratio(before, point.tokens))).collect()
}
