use serde::{Deserialize, Serialize};

use super::RunReport;
use crate::base::int::ratio;
use crate::train::HistoryPoint;

/// Ratios computed from a report. A ratio is `None` if the run did not do the work that it describes, or if its
/// denominator is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ratios {
    /// Bytes of text per character.
    pub bytes_per_character: Option<f64>,
    /// Tokens before the first merge, divided by tokens after the last.
    pub training_compression: Option<f64>,
    /// Bytes of text per token written, without BOS and EOS.
    pub bytes_per_token: Option<f64>,
    /// Tokens written per document, with BOS and EOS.
    pub tokens_per_document: Option<f64>,
    /// Tokens written, divided by the tokens that the packed rows have room for.
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

/// The ratio; `None` if `whole` is 0.
fn of(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| ratio(part, whole))
}

/// For each point of the history: merges learned, and tokens at the first point divided by tokens at this one.
pub(super) fn compression(history: &[HistoryPoint]) -> Vec<(u64, f64)> {
    let before = history.first().map_or(0, |point| point.tokens);
    history.iter().map(|point| (point.merges, ratio(before, point.tokens))).collect()
}
