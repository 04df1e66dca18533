//! The keys of each section of a recipe, as the user wrote them.

use std::ops::Range;

use serde_json::{Map, Value};

use super::{Field, Given};
use crate::count::Boundary;
use crate::encode::{MissingBytes, SpecialPolicy};
use crate::run::plan::Documents;
use crate::sample::Weight;
use crate::sink::{Compression, OutputFormat, PackRule};
use crate::source::{self, DocumentRule, OnBadInput};
use crate::split::SplitPattern;
use crate::train::{Score, TieBreak};
use crate::units::{ByteCount, Count};
use crate::vocab::{self, SpecialToken, SpecialTokensAt};

/// The keys of `[source]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceKeys {
    /// The section's bytes in the recipe's text, to point to if a key is missing.
    pub span: Option<Range<usize>>,
    /// `uri`
    pub uri: Field<String>,
    /// `column`
    pub column: Field<String>,
    /// `template`
    pub template: Field<String>,
    /// `join`
    pub join: Field<String>,
    /// `format`
    pub format: Field<source::Format>,
    /// `documents`
    pub documents: Field<DocumentRule>,
    /// `weight`
    pub weight: Field<Weight>,
    /// `take`
    pub take: Field<u64>,
    /// `max_bytes`
    pub max_bytes: Field<ByteCount>,
    /// `stream`
    pub stream: Field<bool>,
    /// `on_bad_input`
    pub on_bad_input: Field<OnBadInput>,
}

/// A counts file to train from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountsKeys {
    /// The path of the file.
    pub path: String,
    /// Its weight in a mixture.
    pub weight: Weight,
}

/// The keys of `[sample]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleKeys {
    /// `every`
    pub every: Field<u64>,
    /// `shuffle_buffer`
    pub shuffle_buffer: Field<u64>,
    /// `seed`
    pub seed: Field<u64>,
    /// `skip`
    pub skip: Field<u64>,
    /// `take`
    pub take: Field<u64>,
    /// `max_bytes`
    pub max_bytes: Field<ByteCount>,
}

/// The keys of `[train]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrainKeys {
    /// The section's bytes in the recipe's text, to point to if a key is missing.
    pub span: Option<Range<usize>>,
    /// `split`
    pub split: Field<SplitPattern>,
    /// `boundary`
    pub boundary: Field<Boundary>,
    /// `vocab_size`, one or several
    pub vocab_size: Field<Vec<Given<u64>>>,
    /// `merges`
    pub merges: Field<u64>,
    /// `min_frequency`
    pub min_frequency: Field<Count>,
    /// `max_token_bytes`
    pub max_token_bytes: Field<u64>,
    /// `tie_break`
    pub tie_break: Field<TieBreak>,
    /// `score`
    pub score: Field<Score>,
    /// `special_tokens`
    pub special_tokens: Vec<Given<String>>,
    /// `special_tokens_at`
    pub special_tokens_at: Field<SpecialTokensAt>,
    /// `bos`. The value is `None` if `false` is written.
    pub bos: Field<Option<String>>,
    /// `eos`. The value is `None` if `false` is written.
    pub eos: Field<Option<String>>,
    /// `pad`. The value is `None` if `false` is written.
    pub pad: Field<Option<String>>,
    /// `unk`. The value is `None` if `false` is written.
    pub unk: Field<Option<String>>,
    /// `mask`. The value is `None` if `false` is written.
    pub mask: Field<Option<String>>,
    /// `model_max_length`
    pub model_max_length: Field<u64>,
    /// `chat_template`, the path of a file.
    pub chat_template: Field<String>,
    /// The entries of `tokenizer_config.json` that are kept from the tokenizer that training extends.
    pub kept: Map<String, Value>,
    /// `history_every`
    pub history_every: Field<u64>,
    /// `formats`
    pub formats: Field<Vec<Given<vocab::Format>>>,
}

impl TrainKeys {
    /// The keys that name special tokens for `transformers`.
    pub(in crate::run) fn roles(&self) -> [(&'static str, &Field<Option<String>>); 5] {
        [("bos", &self.bos), ("eos", &self.eos), ("pad", &self.pad), ("unk", &self.unk), ("mask", &self.mask)]
    }

    /// The tokens that these keys name and `specials` lacks, without repetition.
    pub(in crate::run) fn named_beyond(&self, specials: &[String]) -> Vec<String> {
        let mut named: Vec<String> = Vec::new();
        for (_, field) in self.roles() {
            let token = field.as_ref().and_then(|given| given.value.as_ref());
            named.extend(token.filter(|token| !specials.contains(token) && !named.contains(token)).cloned());
        }
        named
    }
}

/// The keys of `[encode]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodeKeys {
    /// The section's bytes in the recipe's text, to point to if a key is missing.
    pub span: Option<Range<usize>>,
    /// `tokenizer`
    pub tokenizer: Field<String>,
    /// `split`
    pub split: Field<SplitPattern>,
    /// `special_tokens`
    pub special_tokens: Vec<Given<SpecialToken>>,
    /// `documents`
    pub documents: Field<Documents>,
    /// `columns`
    pub columns: Vec<Given<String>>,
    /// `special`
    pub special: Field<SpecialPolicy>,
    /// `missing_bytes`
    pub missing_bytes: Field<MissingBytes>,
    /// `bos`. The value is `None` if `false` is written.
    pub bos: Field<Option<String>>,
    /// `eos`. The value is `None` if `false` is written.
    pub eos: Field<Option<String>>,
    /// `pack`. The value is `None` if `none` is written.
    pub pack: Field<Option<PackRule>>,
    /// `length`
    pub length: Field<u64>,
    /// `compression`
    pub compression: Field<Compression>,
}

/// The keys of `[output]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputKeys {
    /// `dir`
    pub dir: Field<String>,
    /// `split_name`
    pub split_name: Field<String>,
    /// `file_text_bytes`
    pub file_text_bytes: Field<ByteCount>,
    /// `one_file`
    pub one_file: Field<bool>,
    /// `format`
    pub format: Field<OutputFormat>,
}

/// The keys of `[run]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunKeys {
    /// `threads`
    pub threads: Field<u64>,
    /// `memory`
    pub memory: Field<ByteCount>,
}
