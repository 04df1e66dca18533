use crate::run::plan::{
    Boundary, Compression, DocumentRule, Documents, Format, SpecialPolicy, SpecialsAt, TokenizerFormat,
};
use crate::source::OnBadInput;
use crate::split::{Named, SplitPattern};
use crate::train::{Score, TieBreak};

/// A value that is chosen by name, in recipes and flags alike.
pub trait Choice: Clone + Sized + 'static {
    /// Every name with what it stands for, the default first where there is one.
    const ALL: &'static [(&'static str, Self)];
}

/// What a name stands for.
pub fn named<T: Choice>(name: &str) -> Option<T> {
    T::ALL.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
}

/// The names there are, in the order in which people should read them.
pub fn names<T: Choice>() -> impl Iterator<Item = &'static str> {
    T::ALL.iter().map(|(name, _)| *name)
}

/// The known word that was probably meant: few letters differ, or one begins with the other.
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
    Format {
        "parquet" => Format::Parquet, "arrow" => Format::Arrow, "jsonl" => Format::Jsonl, "text" => Format::Text,
    }
    DocumentRule {
        "file" => DocumentRule::File, "line" => DocumentRule::Line, "paragraph" => DocumentRule::Paragraph,
    }
    OnBadInput {
        "fail" => OnBadInput::Fail, "skip" => OnBadInput::Skip, "quarantine" => OnBadInput::Quarantine,
    }
    SplitPattern {
        "none" => SplitPattern::None,
        "gpt2" => SplitPattern::Named(Named::Gpt2),
        "gpt4" => SplitPattern::Named(Named::Gpt4),
        "cl100k" => SplitPattern::Named(Named::Cl100k),
        "o200k" => SplitPattern::Named(Named::O200k),
        "nanochat" => SplitPattern::Named(Named::Nanochat),
    }
    Boundary { "document" => Boundary::Document, "join" => Boundary::Join }
    TieBreak {
        "ids" => TieBreak::Ids, "hf" => TieBreak::Hf, "first" => TieBreak::First,
        "bytes-greatest" => TieBreak::BytesGreatest, "bytes-smallest" => TieBreak::BytesSmallest,
    }
    Score { "count" => Score::Count }
    SpecialsAt { "end" => SpecialsAt::End, "start" => SpecialsAt::Start }
    TokenizerFormat {
        "hf" => TokenizerFormat::Hf, "tiktoken" => TokenizerFormat::Tiktoken,
        "minbpe" => TokenizerFormat::Minbpe, "gpt2" => TokenizerFormat::Gpt2,
    }
    Documents { "sample" => Documents::Sample, "all" => Documents::All }
    SpecialPolicy {
        "text" => SpecialPolicy::Text, "allow" => SpecialPolicy::Allow, "forbid" => SpecialPolicy::Forbid,
    }
    Compression { "default" => Compression::Default, "fast" => Compression::Fast }
}
