use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::{SplitPattern, Splitter, by_regex, splitter};
use crate::error::Result;
use crate::observer::{Observer, Silent};
use crate::units::place;

/// One of several cuts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitStep {
    /// The cut.
    pub pattern: SplitPattern,
    /// Whether the pattern is to match every part of a text: one that it does not is an error, since
    /// the tokenizer's own program would drop it. Patterns that have a name match everything.
    pub covers: bool,
}

/// Cuts in several steps, each of which sees the pieces of the one before as texts of their own.
pub(super) struct Chain {
    steps: Vec<Box<dyn Splitter>>,
}

impl Chain {
    pub(super) fn new(steps: &[SplitStep]) -> Result<Chain> {
        let step = |step: &SplitStep| match &step.pattern {
            SplitPattern::Custom(text) => by_regex(text, step.covers),
            pattern => splitter(pattern),
        };
        Ok(Chain { steps: steps.iter().map(step).collect::<Result<_>>()? })
    }
}

impl Splitter for Chain {
    fn piece_ends(&self, text: &[u8], ends: &mut Vec<u32>) -> Result<()> {
        self.piece_ends_until_stopped(text, ends, &Silent)
    }

    fn piece_ends_until_stopped(
        &self,
        text: &[u8],
        ends: &mut Vec<u32>,
        observer: &dyn Observer,
    ) -> Result<()> {
        let first_end = ends.len();
        let mut before: Vec<u32> = Vec::new();
        for (number, step) in self.steps.iter().enumerate() {
            if number == 0 {
                step.piece_ends_until_stopped(text, ends, observer)?;
                continue;
            }
            before.clear();
            before.extend(ends.drain(first_end..));
            let mut start = 0;
            for &end in &before {
                let inner = ends.len();
                step.piece_ends_until_stopped(&text[place(start)..place(end)], ends, observer)?;
                ends[inner..].iter_mut().for_each(|end| *end += start);
                start = end;
            }
        }
        Ok(())
    }

    /// Where the first step certainly cuts the others see both sides apart, whatever they do.
    fn certain_cut(&self, text: &[u8], places: RangeInclusive<usize>) -> Option<usize> {
        self.steps.first()?.certain_cut(text, places)
    }
}
