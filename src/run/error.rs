//! The errors that arise between stages. Errors within a stage belong to the stage.

use std::path::PathBuf;

use crate::base::int::ByteCount;
use crate::vocab::Format;

/// An error of a run as a whole, such as a folder that holds other results or a limit that is exceeded.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunError {
    #[error("{}: the token ids need about {need}, but only {free} are free", folder.display())]
    NoRoom { folder: PathBuf, need: ByteCount, free: ByteCount },
    #[error("{} holds other splits ({names}), which were encoded with its tokenizer", folder.display())]
    HoldsSplits { folder: PathBuf, names: String },
    #[error("there is nothing to train on: the {whole} has no text")]
    NothingToTrainOn { whole: &'static str },
    #[error("there is nothing to replay merges on: the {whole} has no text")]
    NothingToReplayOn { whole: &'static str },
    #[error("training needs {} of memory, and the limit is {limit}", about(*need, *limit))]
    TooLarge { need: ByteCount, limit: ByteCount },
    #[error(
        "the learned tokens have {bytes} in total and need {} of memory, and the limit is {limit}",
        about(*need, *limit)
    )]
    LongTokens { bytes: ByteCount, need: ByteCount, limit: ByteCount },
    #[error("the learned tokens have {bytes} in total, and the limit of a tokenizer file is {limit}")]
    NoFileHolds { bytes: ByteCount, limit: ByteCount },
    #[error("the sum would replace {}, which is one of its inputs", path.display())]
    SumAmongCounts { path: PathBuf },
    #[error("{} was counted with other settings than the plan has", path.display())]
    OtherCounts { path: PathBuf },
    #[error("column {column:?} holds {one} in {first}, and {two} in {other}")]
    ColumnsDiffer { column: String, one: String, first: String, two: String, other: String },
    #[error("{} is missing", path.display())]
    Missing { path: PathBuf },
    #[error("{} holds another tokenizer", folder.display())]
    OtherTokenizer { folder: PathBuf },
    #[error("the {format} files in {} are of another tokenizer than training.json", folder.display())]
    OtherFile { folder: PathBuf, format: Format },
    #[error("the {format} files in {} are of another tokenizer than the manifest names", folder.display())]
    NotOfManifest { folder: PathBuf, format: Format },
    #[error("the number of bytes in the corpus exceeds 64 bits")]
    TooMuchText,
    #[error("{} has no stage {stage}: {}", path.display(), recorded(*stages))]
    NoSuchStage { path: PathBuf, stage: usize, stages: usize },
    #[error("the run reads its input twice, and standard input or a pipe can be read only once")]
    ReadTwice,
    #[error("{} holds the result of another run: {changed} changed since", folder.display())]
    OtherJob { folder: PathBuf, changed: &'static str },
    #[error("{} holds the unfinished result of another run: {changed} changed since", folder.display())]
    OtherBegun { folder: PathBuf, changed: &'static str },
    #[error("{} has no special token {token:?}", tokenizer.display())]
    NoSuchToken { tokenizer: PathBuf, token: String },
    #[error("{} holds the result of a run, whose report or tokenizer would be replaced", folder.display())]
    HoldsResult { folder: PathBuf },
    #[error("{} holds a tokenizer, and the report of its training would be replaced", folder.display())]
    HoldsTokenizer { folder: PathBuf },
    #[error("{} would be replaced, but no training has written it", path.display())]
    NotLearnedThere { path: PathBuf },
    #[error("the results in {} would be inside the input folder {uri}", folder.display())]
    InputHoldsResults { uri: String, folder: PathBuf },
    #[error("{} is a file", path.display())]
    NoFolder { path: PathBuf },
    #[error("{name} is input, but is among the results in {}", folder.display())]
    AmongResults { name: String, folder: PathBuf },
}

/// An estimate in words. It never prints as the same number as the limit that it exceeds.
fn about(need: ByteCount, limit: ByteCount) -> String {
    let word = if need.to_string() == limit.to_string() { "a little more than" } else { "about" };
    format!("{word} {need}")
}

fn recorded(stages: usize) -> String {
    format!(
        "{} of training recorded",
        if stages == 1 { "one stage is".to_owned() } else { format!("{stages} stages are") }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_never_reads_like_the_limit_that_it_is_above() {
        for (need, said) in [
            (1_000_400, "training needs a little more than 1.0 MB of memory, and the limit is 1.0 MB"),
            (2_500_000, "training needs about 2.5 MB of memory, and the limit is 1.0 MB"),
        ] {
            let (need, limit) = (ByteCount(need), ByteCount(1_000_000));
            assert_eq!(RunError::TooLarge { need, limit }.to_string(), said);
        }
    }
}
