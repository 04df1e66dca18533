//! Known answers from `tests/data/cases`, checked against the fast engine and the reference.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde::Deserialize;
use tokenmill::count::PretokenCounts;
use tokenmill::encode::{EncodeConfig, Encoder, reference as obvious};
use tokenmill::observer::Silent;
use tokenmill::split::SplitPattern;
use tokenmill::train::{Learned, TieBreak, TrainConfig, learn_merges, reference};
use tokenmill::vocab::{SpecialTokensAt, Vocabulary};
use tokenmill::{Count, TokenId};

#[derive(Deserialize)]
struct Cases {
    case: Vec<Case>,
}

/// One known answer: the merges learned from a text or from weighted words, and the tokens of the text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// Source of the known answer, for readers of the file.
    #[serde(rename = "origin")]
    _origin: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    words: Vec<(String, u64)>,
    tie_break: TieBreak,
    #[serde(default = "two")]
    min_frequency: u64,
    max_merges: Option<usize>,
    max_token_bytes: Option<usize>,
    merges: Vec<(u32, u32)>,
    counts: Option<Vec<u64>>,
    tokens: Option<Vec<u32>>,
    token_count: Option<usize>,
}

fn two() -> u64 {
    2
}

impl Case {
    fn pretokens(&self) -> PretokenCounts {
        if self.text.is_empty() {
            return self.words.iter().map(|(word, count)| (word.as_bytes(), Count::new(*count))).collect();
        }
        [(self.text.as_bytes(), Count::ONE)].into_iter().collect()
    }

    fn config(&self) -> TrainConfig {
        TrainConfig {
            min_frequency: Count::new(self.min_frequency),
            max_token_bytes: self.max_token_bytes,
            tie_break: self.tie_break,
            ..TrainConfig::new(self.max_merges.unwrap_or(self.merges.len() + 10))
        }
    }

    /// Compares learned merges and their counts with the known ones. `engine` names the implementation in the
    /// message.
    fn check(&self, engine: &str, learned: &Learned) {
        let merges: Vec<(u32, u32)> = learned.merges.iter().map(|merge| (merge.left, merge.right)).collect();
        assert_eq!(merges, self.merges, "{} by the {engine}", self.name);
        let counts: Vec<u64> = learned.merges.iter().map(|merge| merge.count.get()).collect();
        assert!(self.counts.as_ref().is_none_or(|expected| *expected == counts), "{}: {counts:?}", self.name);
    }

    /// Encodes the text with the learned merges and compares the ids with the reference and with the known
    /// tokens.
    fn check_tokens(&self, learned: &Learned) {
        let vocabulary =
            Vocabulary::from_merges(&learned.merges, &[], SpecialTokensAt::End, SplitPattern::None).unwrap();
        let encoder = Encoder::new(vocabulary.clone(), EncodeConfig::default()).unwrap().prepared();
        let mut worker = encoder.worker();
        let ids = worker.encode(self.text.as_bytes()).unwrap();
        assert_eq!(ids, obvious::encode_pretoken(&vocabulary, self.text.as_bytes()), "{}", self.name);
        let ids: Vec<u32> = ids.iter().copied().map(TokenId::get).collect();
        assert!(self.tokens.as_ref().is_none_or(|expected| *expected == ids), "{}: {ids:?}", self.name);
        assert!(
            self.token_count.is_none_or(|expected| expected == ids.len()),
            "{}: {}",
            self.name,
            ids.len()
        );
    }
}

/// The fast engine and the reference learn the known merges, counts and tokens.
#[test]
fn every_engine_gives_the_known_answers() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cases");
    let mut run = 0;
    for file in std::fs::read_dir(&folder).expect("the cases are in the repository") {
        let path = file.expect("a readable folder").path();
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let cases: Cases =
            toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for case in cases.case {
            let config = case.config();
            let learned = learn_merges(case.pretokens(), &config, &Silent).unwrap();
            case.check("loop", &learned);
            case.check("reference", &reference::learn_merges(&case.pretokens(), &config));
            case.check_tokens(&learned);
            run += 1;
        }
    }
    assert!(run > 10, "only {run} cases were found");
}
