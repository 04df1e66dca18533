use serde::{Deserialize, Serialize};

use super::RunReport;
use crate::train::HistoryPoint;
use crate::units::ratio;

/// The ratios of a run. One of something that the run did not do, or did with nothing, is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ratios {
    /// Bytes of text a character.
    pub bytes_per_character: Option<f64>,
    /// How many times fewer tokens there are after the last merge than before the first.
    pub training_compression: Option<f64>,
    /// Bytes of text a token written, BOS and EOS not counted.
    pub bytes_per_token: Option<f64>,
    /// Tokens written for a document, BOS and EOS counted.
    pub tokens_per_document: Option<f64>,
    /// Tokens for each that packed rows can have.
    pub packing_utilisation: Option<f64>,
}

impl Ratios {
    /// Computes the ratios of a report.
    pub fn of(report: &RunReport) -> Ratios {
        let corpus = &report.corpus;
        let training = report.training.as_ref();
        let encoding = report.encoding.as_ref();
        let packing = encoding.and_then(|encoding| Some((encoding.tokens, encoding.packing.as_ref()?)));
        Ratios {
            bytes_per_character: corpus.characters.and_then(|characters| of(corpus.text_bytes, characters)),
            training_compression: training.and_then(|t| of(t.tokens_before, t.tokens_after)),
            bytes_per_token: encoding.and_then(|e| of(e.text_bytes, e.tokens.saturating_sub(e.added_tokens))),
            tokens_per_document: encoding.and_then(|e| of(e.tokens, e.documents)),
            packing_utilisation: packing
                .and_then(|(tokens, packing)| of(tokens, packing.rows.saturating_mul(packing.length))),
        }
    }
}

fn of(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| ratio(part, whole))
}

/// How many times fewer tokens there are at each point than at the first.
pub(super) fn compression(history: &[HistoryPoint]) -> Vec<(u64, f64)> {
    let before = history.first().map_or(0, |point| point.tokens);
    history.iter().map(|point| (point.merges, ratio(before, point.tokens))).collect()
}
