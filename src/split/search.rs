//! Searches by a regular expression, bounded by its size and by the steps that a text takes.

use std::sync::OnceLock;

use fancy_regex::{Error as RegexError, Match, Regex, RegexBuilder, RegexInput, RuntimeError};

use super::fault::Fault;
use crate::error::Result;
use crate::observer::Observer;
use crate::units::amount;

/// Backtracking steps of one search. A search is tried with the first limit, then with the next; the last takes two
/// seconds, after which a signal is heard.
const LIMITS: [usize; 4] = [2_000, 50_000, 1_500_000, 50_000_000];

/// Steps of all searches in a text together: so many, and so many more for each byte. Searches within the first limit
/// are not counted; of the others each counts as much as its limit.
const STEPS_A_TEXT: u64 = 200_000_000;
const STEPS_A_BYTE: u64 = 2_000;

/// Instructions of a compiled expression. Published ones have some hundred; calls of groups, which are compiled in
/// place, can make a short expression grow without end.
const MOST_INSTRUCTIONS: usize = 100_000;

/// Bytes of the automata of an expression: what look-around stands between is compiled by itself, as large as this at
/// most, which is the regex crate's own limit; where there is more look-around, all together are bounded.
const AUTOMATON_BYTES: usize = 10 << 20;
const LOOK_AROUNDS: usize = 4;

/// A regular expression whose searches end.
#[derive(Debug)]
pub(super) struct BoundedRegex {
    pattern: String,
    /// By the limits of steps, compiled when one is needed.
    regexes: [OnceLock<Regex>; LIMITS.len()],
}

impl BoundedRegex {
    pub(super) fn new(pattern: &str) -> Result<BoundedRegex, Box<RegexError>> {
        let regexes = [const { OnceLock::new() }; LIMITS.len()];
        let _ = regexes[0].set(compile(pattern, LIMITS[0])?);
        Ok(BoundedRegex { pattern: pattern.to_owned(), regexes })
    }

    pub(super) fn pattern(&self) -> &str {
        &self.pattern
    }

    /// How many groups are remembered, the whole match among them.
    pub(super) fn groups(&self) -> Result<usize, Box<RegexError>> {
        Ok(self.regex(0)?.captures_len())
    }

    fn regex(&self, level: usize) -> Result<&Regex, Box<RegexError>> {
        let slot = &self.regexes[level];
        if let Some(regex) = slot.get() {
            return Ok(regex);
        }
        let compiled = compile(&self.pattern, LIMITS[level])?;
        Ok(slot.get_or_init(|| compiled))
    }

    /// Searches, with higher limits while one is exceeded. `at` is where the search begins, for the message.
    ///
    /// # Errors
    /// The search exceeds the last limit, or the text its steps, or the observer stops the run.
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
                let left = steps.left.checked_sub(amount(LIMITS[level]));
                steps.left = left.ok_or_else(|| Fault::Steps { pattern: self.pattern.clone() })?;
            }
            if !exceeded || level + 1 == LIMITS.len() {
                return Ok(found.map_err(|cause| failed(Box::new(cause)))?);
            }
            level += 1;
        }
    }

    /// The matches in a text, one after the other.
    pub(super) fn matches<'r, 't>(&'r self, text: &'t str) -> Matches<'r, 't> {
        Matches { regex: self, text, at: 0, last_end: None, skipped: false }
    }
}

/// The steps that the searches in a text may still take, and who may stop them.
pub(super) struct Steps<'o> {
    left: u64,
    observer: &'o dyn Observer,
    /// Where the text that is searched begins in the whole.
    pub(super) base: usize,
}

impl<'o> Steps<'o> {
    pub(super) fn new(bytes: usize, observer: &'o dyn Observer) -> Steps<'o> {
        Steps { left: STEPS_A_TEXT + STEPS_A_BYTE * amount(bytes), observer, base: 0 }
    }
}

/// As [`Regex::find_iter`], with bounded searches.
pub(super) struct Matches<'r, 't> {
    regex: &'r BoundedRegex,
    text: &'t str,
    at: usize,
    last_end: Option<usize>,
    /// Whether a match of no text stood where the last search began.
    skipped: bool,
}

impl<'t> Matches<'_, 't> {
    /// The next match. One of no text that follows a match at once is passed over.
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

/// Compiles an expression whose searches are errors after this many steps back.
fn compile(pattern: &str, steps: usize) -> Result<Regex, Box<RegexError>> {
    let look_arounds = ["(?=", "(?!", "(?<", "(?>"].map(|look| pattern.matches(look).count()).iter().sum();
    // What the engine makes of an expression before it compiles it is not always the same: in 0.20.2 `(?:x+a??x*)+`
    // takes an `a` at the end too.
    Ok(RegexBuilder::new(pattern)
        .optimize(false)
        .backtrack_limit(steps)
        .max_prog_size(MOST_INSTRUCTIONS)
        .delegate_size_limit(LOOK_AROUNDS * AUTOMATON_BYTES / LOOK_AROUNDS.max(look_arounds))
        // For `\G` after a match of no text.
        .allow_input_assertion_overrides(true)
        .build()?)
}
