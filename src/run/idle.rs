//! Warns about settings that have no effect on the input or output at hand.

use super::plan::{Plan, TrainPlan};
use crate::observer::Observer;
use crate::source::{DocumentRule, Format, Source, SourceSpec};
use crate::vocab::{self, TransformersConfig};

/// Tells the observer which settings have no effect. A setting is reported only if it has no effect on any source for
/// which it is set: a flag is set for all inputs, and may concern only some of them.
pub(super) fn tell_idle<'a>(
    plan: &Plan,
    sources: impl Iterator<Item = &'a dyn Source>,
    observer: &dyn Observer,
) {
    let formats: Vec<Option<Format>> = sources.map(Source::format).collect();
    let idle = |stands: fn(&SourceSpec) -> bool, does_nothing: fn(&SourceSpec, Option<Format>) -> bool| {
        let mut standing = plan.sources.iter().zip(&formats).filter(|(spec, _)| stands(spec)).peekable();
        standing.peek().is_some() && standing.all(|(spec, &format)| does_nothing(spec, format))
    };
    let documents = idle(
        |spec| spec.documents != DocumentRule::default(),
        |_, format| format.is_some_and(|format| format != Format::Text),
    );
    let column = idle(|spec| spec.column.is_some(), |_, format| format == Some(Format::Text));
    let template = idle(|spec| spec.template.is_some(), |_, format| format == Some(Format::Text));
    let join = idle(
        |spec| spec.join.is_some(),
        |spec, _| !spec.template.as_ref().or(spec.column.as_ref()).is_some_and(|text| text.contains("[]")),
    );
    let stream = idle(|spec| spec.stream, |spec, _| !spec.uri.contains("://"));
    let seed = plan.sample.seed != 0 && plan.sample.shuffle_buffer == 0;
    for (idle, what) in [
        (documents, "`documents` has no effect: only plain text is cut into documents"),
        (column, "`column` has no effect: plain text has no columns"),
        (template, "`template` has no effect: plain text has no columns"),
        (join, "`join` has no effect: it joins the items of a list column such as `column = \"a[]\"`"),
        (stream, "`stream` has no effect: it is for remote files only"),
        (seed, "`seed` has no effect: without `shuffle_buffer` nothing is shuffled"),
    ] {
        if idle {
            observer.noted(what);
        }
    }
    if let Some(train) = plan.train.as_ref().filter(|train| !train.formats.contains(&vocab::Format::Hf)) {
        tell_unnamed(train, observer);
    }
    for key in &plan.idle {
        observer.noted(&format!("`{key}` has no effect: nothing is encoded"));
    }
}

/// Tells the observer which settings for `transformers` are lost because the tokenizer is not written in the format
/// `hf`.
fn tell_unnamed(train: &TrainPlan, observer: &dyn Observer) {
    let TransformersConfig { pad, unk, mask, model_max_length, chat_template, kept: _ } = &train.transformers;
    let said = [
        ("`bos`", train.bos.is_some()),
        ("`eos`", train.eos.is_some()),
        ("`pad`", pad.is_some()),
        ("`unk`", unk.is_some()),
        ("`mask`", mask.is_some()),
        ("`model_max_length`", model_max_length.is_some()),
        ("`chat_template`", chat_template.is_some()),
    ];
    let said: Vec<&str> = said.into_iter().filter(|(_, said)| *said).map(|(key, _)| key).collect();
    if !said.is_empty() {
        let keys = said.join(", ");
        observer.noted(&format!("{keys} of training: no effect, since only the format `hf` can store this"));
    }
}
