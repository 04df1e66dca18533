//! Regular-expression searches with bounds on the size of the compiled expression and on backtracking steps.

use std::sync::OnceLock;

use fancy_regex::{Error as RegexError, Match, Regex, RegexBuilder, RegexInput, RuntimeError};

use super::fault::Fault;
use crate::base::int::to_u64;
use crate::error::Result;
use crate::observer::Observer;

/// Limits of backtracking steps per search. A search that exceeds one limit is repeated with the next. The last limit
/// is reached in about two seconds; only then can a signal stop the run.
const LIMITS: [usize; 4] = [2_000, 50_000, 1_500_000, 50_000_000];

/// Backtracking steps that all searches in one text may take together, plus [`STEPS_A_BYTE`] for each byte of it. A
/// search within the first limit costs nothing; each repetition with a higher limit costs that limit.
const STEPS_A_TEXT: u64 = 200_000_000;
/// Further backtracking steps per byte of a text.
const STEPS_A_BYTE: u64 = 2_000;

/// Most instructions of a compiled expression. Published expressions have a few hundred. Subroutine calls are
/// inlined, so a short expression can otherwise grow without bound.
const MOST_INSTRUCTIONS: usize = 100_000;

/// Most bytes of one automaton, the default of the regex crate. The engine compiles each section between look-arounds
/// to an automaton of its own. With more than [`LOOK_AROUNDS`] look-arounds, the limit per automaton falls so that
/// all together keep within the same bound.
const AUTOMATON_BYTES: usize = 10 << 20;
/// Look-arounds up to which each automaton may have [`AUTOMATON_BYTES`].
const LOOK_AROUNDS: usize = 4;

/// A regular expression with a bound on the backtracking steps of each search.
#[derive(Debug)]
pub(super) struct BoundedRegex {
    pattern: String,
    /// The expression compiled for each of [`LIMITS`], on first use.
    regexes: [OnceLock<Regex>; LIMITS.len()],
}

impl BoundedRegex {
    /// Compiles an expression.
    ///
    /// # Errors
    /// It is not a valid regular expression, or it exceeds the bounds of size.
    pub(super) fn new(pattern: &str) -> Result<BoundedRegex, Box<RegexError>> {
        let regexes = [const { OnceLock::new() }; LIMITS.len()];
        let _ = regexes[0].set(compile(pattern, LIMITS[0])?);
        Ok(BoundedRegex { pattern: pattern.to_owned(), regexes })
    }

    /// Returns the expression as text.
    pub(super) fn pattern(&self) -> &str {
        &self.pattern
    }

    /// Returns the number of capture groups, including the whole match.
    pub(super) fn groups(&self) -> Result<usize, Box<RegexError>> {
        Ok(self.regex(0)?.captures_len())
    }

    /// Returns the expression compiled for the limit `LIMITS[level]`.
    fn regex(&self, level: usize) -> Result<&Regex, Box<RegexError>> {
        let slot = &self.regexes[level];
        if let Some(regex) = slot.get() {
            return Ok(regex);
        }
        let compiled = compile(&self.pattern, LIMITS[level])?;
        Ok(slot.get_or_init(|| compiled))
    }

    /// Runs `search`, again with a higher limit while it exceeds one. `at` is the offset where the search starts; it
    /// appears in the error message only.
    ///
    /// # Errors
    /// The search exceeds the last limit, the searches in the text exceed their common limit, or the observer stops
    /// the run.
    pub(super) fn search<T>(
        &self,
        steps: &mut Steps<'_>,
        at: usize,
        search: impl Fn(&Regex) -> Result<T, RegexError>,
    ) -> Result<T> {
        let failed =
            |cause| Fault::Backtracking { pattern: self.pattern.clone(), at: steps.base + at, cause };
        let mut level = 0;
        loop {
            steps.observer.checkpoint()?;
            let found = search(self.regex(level).map_err(failed)?);
            let exceeded =
                matches!(&found, Err(RegexError::RuntimeError(RuntimeError::BacktrackLimitExceeded)));
            if level > 0 {
                let left = steps.left.checked_sub(to_u64(LIMITS[level]));
                steps.left = left.ok_or_else(|| Fault::Steps { pattern: self.pattern.clone() })?;
            }
            if !exceeded || level + 1 == LIMITS.len() {
                return Ok(found.map_err(|cause| failed(Box::new(cause)))?);
            }
            level += 1;
        }
    }

    /// Returns the successive matches in a text.
    pub(super) fn matches<'r, 't>(&'r self, text: &'t str) -> Matches<'r, 't> {
        Matches { regex: self, text, at: 0, last_end: None, skipped: false }
    }
}

/// The backtracking steps left for the searches in one text, and the observer that may stop them.
pub(super) struct Steps<'o> {
    left: u64,
    observer: &'o dyn Observer,
    /// Offset of the searched text within the whole text, for error messages.
    pub(super) base: usize,
}

impl<'o> Steps<'o> {
    /// Returns the steps allowed for a text of `bytes` bytes.
    pub(super) fn new(bytes: usize, observer: &'o dyn Observer) -> Steps<'o> {
        Steps { left: STEPS_A_TEXT + STEPS_A_BYTE * to_u64(bytes), observer, base: 0 }
    }
}

/// Successive matches like those of [`Regex::find_iter`], with bounded searches.
pub(super) struct Matches<'r, 't> {
    regex: &'r BoundedRegex,
    text: &'t str,
    at: usize,
    last_end: Option<usize>,
    /// Whether the last search found an empty match at its own start.
    skipped: bool,
}

impl<'t> Matches<'_, 't> {
    /// Returns the next match. An empty match directly after another match is skipped.
    pub(super) fn next(&mut self, steps: &mut Steps<'_>) -> Result<Option<Match<'t>>> {
        while self.at <= self.text.len() {
            let (text, at, skipped) = (self.text, self.at, self.skipped);
            let input = || RegexInput::new(text).from_pos(at).continue_from_previous_match_end(!skipped);
            let Some(found) = self.regex.search(steps, at, |regex| regex.find_input(input()))? else { break };
            let end = found.end();
            let is_empty = found.start() == end;
            self.skipped = is_empty && end == at;
            let skipped_length = || self.text[end..].chars().next().map_or(1, char::len_utf8);
            self.at = end + if is_empty { skipped_length() } else { 0 };
            if !(is_empty && self.last_end == Some(end)) {
                self.last_end = Some(end);
                return Ok(Some(found));
            }
        }
        self.at = self.text.len() + 1;
        Ok(None)
    }
}

/// Compiles an expression. Its searches fail after `steps` backtracking steps.
fn compile(pattern: &str, steps: usize) -> Result<Regex, Box<RegexError>> {
    let look_arounds = ["(?=", "(?!", "(?<", "(?>"].map(|look| pattern.matches(look).count()).iter().sum();
    // The engine's optimizer can change the meaning of an expression: in fancy-regex 0.20.2 `(?:x+a??x*)+` also
    // matches an `a` at the end.
    Ok(RegexBuilder::new(pattern)
        .optimize(false)
        .backtrack_limit(steps)
        .max_prog_size(MOST_INSTRUCTIONS)
        .delegate_size_limit(LOOK_AROUNDS * AUTOMATON_BYTES / LOOK_AROUNDS.max(look_arounds))
        // Needed for `\G` after an empty match.
        .allow_input_assertion_overrides(true)
        .build()?)
}
