//! Pushes the result of a plan to the repository that it names.

use std::path::Path;

use super::plan::Plan;
use crate::error::Result;
use crate::observer::Observer;
use crate::publish::{self, Publication, PushOptions, Pushed};
use crate::source::HubSettings;

/// Pushes the finished result of a plan: the output folder, or the tokenizer alone if the plan encodes nothing.
/// Returns `None` if the plan names no repository.
///
/// # Errors
/// Those of [`Publication::of`] and [`push`](publish::push).
pub fn push_result(plan: &Plan, hub: &HubSettings, observer: &dyn Observer) -> Result<Option<Pushed>> {
    let Some(target) = &plan.push else { return Ok(None) };
    let publication = super::with_threads(plan.threads, || Publication::of(pushed_folder(plan), observer))?;
    publish::push(&publication, target, &PushOptions::default(), hub, observer).map(Some)
}

/// The folder that is pushed.
fn pushed_folder(plan: &Plan) -> &Path {
    match (&plan.train, &plan.encode) {
        (Some(train), None) => &train.output,
        _ => &plan.output,
    }
}
