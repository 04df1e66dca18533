//! The names of choices, for recipes and flags alike.

use crate::count::Boundary;
use crate::encode::{MissingBytes, SpecialPolicy};
use crate::run::plan::Documents;
use crate::sink::{Compression, OutputFormat, PackRule};
use crate::source::{self, DocumentRule, OnBadInput};
use crate::split::{Named, SplitPattern};
use crate::train::TieBreak;
use crate::vocab::{self, SpecialTokensAt};

/// A type whose values are chosen by name, in recipes and flags.
///
/// ```
/// use tokenmill::run::recipe::{named, names};
/// use tokenmill::train::TieBreak;
///
/// assert_eq!(named::<TieBreak>("hf"), Some(TieBreak::Hf));
/// assert!(names::<TieBreak>().any(|name| name == "bytes-greatest"));
/// ```
pub trait Choice: Clone + Sized + 'static {
    /// All names with their values. The default comes first, if there is one.
    const ALL: &'static [(&'static str, Self)];
}

/// The value of a name; `None` if it is unknown.
pub fn named<T: Choice>(name: &str) -> Option<T> {
    T::ALL.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
}

/// The known names, in the order in which they should be listed.
pub fn names<T: Choice>() -> impl Iterator<Item = &'static str> {
    T::ALL.iter().map(|(name, _)| *name)
}

/// The known word that was probably meant: few letters differ (Damerau-Levenshtein distance of at most 1, plus 1 per
/// 4 letters), or one word begins with the other. Case and the difference of `-` and `_` are ignored.
pub(super) fn nearest(word: &str, known: impl IntoIterator<Item = &'static str>) -> Option<&'static str> {
    let plain = |word: &str| word.to_lowercase().replace('-', "_");
    let word = plain(word);
    let distance = |known: &str| {
        let known = plain(known);
        let (short, long) = if word.len() < known.len() { (&word, &known) } else { (&known, &word) };
        if short.len() >= 3 && long.starts_with(short.as_str()) {
            return 1;
        }
        strsim::damerau_levenshtein(&word, &known)
    };
    let (distance, best) = known.into_iter().map(|known| (distance(known), known)).min()?;
    (distance <= 1 + best.len() / 4 && distance < best.len()).then_some(best)
}

macro_rules! choices {
    ($($kind:ty { $($name:literal => $value:expr),+ $(,)? })+) => {
        $(impl Choice for $kind {
            const ALL: &'static [(&'static str, Self)] = &[$(($name, $value)),+];
        })+
    };
}

choices! {
    source::Format {
        "parquet" => source::Format::Parquet, "arrow" => source::Format::Arrow, "jsonl" => source::Format::Jsonl,
        "json" => source::Format::Json, "csv" => source::Format::Csv, "tsv" => source::Format::Tsv, "text" => source::Format::Text,
    }
    DocumentRule {
        "file" => DocumentRule::File, "line" => DocumentRule::Line, "paragraph" => DocumentRule::Paragraph,
    }
    OnBadInput {
        "fail" => OnBadInput::Fail, "skip" => OnBadInput::Skip, "quarantine" => OnBadInput::Quarantine,
        "replace" => OnBadInput::Replace,
    }
    SplitPattern {
        "none" => SplitPattern::None,
        "gpt2" => SplitPattern::Named(Named::Gpt2),
        "gpt4" => SplitPattern::Named(Named::Gpt4),
        "cl100k" => SplitPattern::Named(Named::Cl100k),
        "o200k" => SplitPattern::Named(Named::O200k),
        "nanochat" => SplitPattern::Named(Named::Nanochat),
        "llama3" => SplitPattern::Named(Named::Gpt4),
        "qwen2" => SplitPattern::Named(Named::Qwen2),
        "deepseek-v3" => SplitPattern::Named(Named::DeepSeekV3),
    }
    Boundary { "document" => Boundary::Document, "join" => Boundary::Join }
    TieBreak {
        "ids" => TieBreak::Ids, "hf" => TieBreak::Hf, "first" => TieBreak::First,
        "bytes-greatest" => TieBreak::BytesGreatest, "bytes-smallest" => TieBreak::BytesSmallest,
    }
    OutputFormat {
        "parquet" => OutputFormat::Parquet, "bin" => OutputFormat::Bin, "megatron" => OutputFormat::Megatron,
    }
    Option<PackRule> {
        "none" => None, "concat" => Some(PackRule::Concat), "best-fit" => Some(PackRule::BestFit),
    }
    SpecialTokensAt { "end" => SpecialTokensAt::End, "start" => SpecialTokensAt::Start }
    vocab::Format {
        "hf" => vocab::Format::Hf, "tiktoken" => vocab::Format::Tiktoken,
        "minbpe" => vocab::Format::Minbpe, "gpt2" => vocab::Format::Gpt2,
    }
    Documents { "sample" => Documents::Sample, "all" => Documents::All }
    SpecialPolicy {
        "text" => SpecialPolicy::Text, "allow" => SpecialPolicy::Allow, "forbid" => SpecialPolicy::Forbid,
    }
    MissingBytes { "error" => MissingBytes::Error, "hf" => MissingBytes::Hf }
    Compression { "default" => Compression::Default, "fast" => Compression::Fast }
}
