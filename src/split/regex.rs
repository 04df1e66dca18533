//! Splits by regular expressions: the splitters of custom patterns, and the oracle in the tests of the scanner.
//!
//! Every search has a limit of backtracking steps, and the compiled expression a limit of size, so that no pattern
//! from a file can take unbounded time or memory.

use std::ops::Range;
use std::str::from_utf8;
use std::sync::OnceLock;

use fancy_regex::{Error as RegexError, Match, Regex, RegexBuilder, RegexInput, RuntimeError};

use super::classes::Classes;
use super::dialect::translated;
use super::pattern::SplitBehavior;
use super::{Splitter, length32};
use crate::base::int::{to_u64, truncate_to_u32};
use crate::error::{Error, ErrorKind, Result, excerpt};
use crate::observer::{Observer, Silent};

/// A splitter of UTF-8 only; [`Lossy`] makes a [`Splitter`] of it.
pub(super) trait Utf8Splitter: Send + Sync {
    /// Passes the end of each pre-token to `take`, in order.
    ///
    /// # Errors
    /// As for [`Splitter::pretoken_ends_observed`].
    fn pretokens(&self, text: &str, budget: &mut StepBudget<'_>, take: &mut dyn FnMut(usize)) -> Result<()>;
}

/// Splits any bytes by a splitter of UTF-8.
///
/// A text that is not UTF-8 is split with one replacement character for each invalid chunk, as
/// [`String::from_utf8_lossy`] writes it, and the ends are mapped back to the original bytes.
pub(super) struct Lossy<S>(pub(super) S);

impl<S: Utf8Splitter> Splitter for Lossy<S> {
    fn pretoken_ends_observed(
        &self,
        text: &[u8],
        ends: &mut Vec<u32>,
        observer: &dyn Observer,
    ) -> Result<()> {
        length32(text)?;
        let mut budget = StepBudget::new(text.len(), observer);
        if let Ok(text) = from_utf8(text) {
            return self.0.pretokens(text, &mut budget, &mut |end| ends.push(truncate_to_u32(end)));
        }
        let (lossy, shifts) = lossy(text);
        let mut shift = 0;
        let mut next = shifts.iter().peekable();
        self.0.pretokens(&lossy, &mut budget, &mut |end| {
            while let Some(&(_, at_shift)) = next.next_if(|(after, _)| *after <= end) {
                shift = at_shift;
            }
            ends.push(truncate_to_u32(end.wrapping_add(shift)));
        })
    }
}

/// Returns the text with one replacement character for each invalid chunk, and the shifts back to the original.
///
/// Each shift is the end of a replacement character and the number to add (wrapping) to an offset from there on to
/// get the offset in the original.
fn lossy(text: &[u8]) -> (String, Vec<(usize, usize)>) {
    let (mut lossy, mut shifts, mut offset) = (String::new(), Vec::new(), 0_usize);
    for chunk in text.utf8_chunks() {
        lossy.push_str(chunk.valid());
        offset += chunk.valid().len() + chunk.invalid().len();
        if !chunk.invalid().is_empty() {
            lossy.push(char::REPLACEMENT_CHARACTER);
            shifts.push((lossy.len(), offset.wrapping_sub(lossy.len())));
        }
    }
    (lossy, shifts)
}

/// Splits by any regular expression that fancy-regex supports, and a [`SplitBehavior`].
///
/// A search takes linear time if the expression has no look-around. Other expressions backtrack. A search fails if it
/// takes more than 50 million backtracking steps or keeps more than a million backtracking positions. A text fails if
/// its searches together take more than 200 million steps plus 2 000 per byte.
///
/// All searches together can take quadratic time if most of them look far ahead without success, as `a+b|.` does in a
/// run of `a`. The observer can stop them.
#[derive(Debug)]
pub(super) struct RegexSplitter {
    regex: BoundedRegex,
    behavior: SplitBehavior,
    /// Whether the text between matches counts as matched instead of the matches.
    invert: bool,
}

impl RegexSplitter {
    /// Compiles an expression.
    ///
    /// # Errors
    /// It is not a valid regular expression, or it matches the empty text.
    pub(super) fn new(pattern: &str, behavior: SplitBehavior, invert: bool) -> Result<RegexSplitter> {
        Ok(RegexSplitter { regex: checked(pattern)?, behavior, invert })
    }
}

impl Utf8Splitter for RegexSplitter {
    fn pretokens(&self, text: &str, budget: &mut StepBudget<'_>, take: &mut dyn FnMut(usize)) -> Result<()> {
        // The end of the previous section, whether it counts as matched, and the last split.
        let (mut done, mut before, mut split) = (0, None, 0);
        let mut section = |end: usize, matched: bool| {
            let matched = matched != self.invert;
            if matched && end > done && self.behavior == SplitBehavior::Removed {
                return Err(unmatched(&self.regex.pattern, &text[done..end]));
            }
            // An empty match splits, too, as in Hugging Face's tokenizers.
            if before.is_some_and(|before| self.behavior.splits_between(before, matched)) && done > split {
                take(done);
                split = done;
            }
            (done, before) = (end, Some(matched));
            Ok(())
        };
        let (mut matches, mut at) = (self.regex.matches(text), 0);
        while let Some(found) = matches.next(budget)? {
            if found.start() > at {
                section(found.start(), false)?;
            }
            section(found.end(), true)?;
            at = found.end();
        }
        if at < text.len() {
            section(text.len(), false)?;
        }
        if split < text.len() {
            take(text.len());
        }
        Ok(())
    }
}

/// Tails of most published patterns. They match white space without its last character, which is left to the word
/// after it.
const TAILS: [&str; 2] = [r"|\s+(?!\S)|\s+", r"|\s+(?!\S)|\s"];

/// Splits by an expression that ends in one of [`TAILS`], without the look-ahead of the tail.
///
/// It matches white space whole, and then gives the last character back. The remaining expression is mostly a regular
/// language, which the engine matches in linear time. With the look-ahead, the engine would backtrack and fail on a
/// million spaces.
///
/// For example, `\p{L}+|\s+(?!\S)|\s+` becomes `\p{L}+|(\s+)`. In `a   b`, the group matches three spaces; the last
/// one is given back, so the pre-tokens are `a`, two spaces, one space, and `b`.
pub(super) struct TailSplitter {
    /// The original expression, for error messages.
    pattern: String,
    /// The other alternatives, then all white space as the last capture group.
    regex: BoundedRegex,
    classes: &'static Classes,
    covers: bool,
}

impl TailSplitter {
    /// Returns the splitter of a valid expression; `None` if it does not end in one of [`TAILS`].
    pub(super) fn new(pattern: &str, covers: bool) -> Option<TailSplitter> {
        let others = TAILS.iter().find_map(|tail| pattern.strip_suffix(tail))?;
        // The bar of the tail is escaped, or matches depend on where the search started.
        if others.is_empty()
            || others.ends_with('\\')
            || [r"\K", r"\G"].iter().any(|anchor| others.contains(anchor))
        {
            return None;
        }
        let regex = BoundedRegex::new(&format!(r"{others}|(\s+)")).ok()?;
        // If a comment in the expression contains the added group, there are too few groups.
        let is_there = BoundedRegex::new(others).ok()?.groups().ok()? + 1 == regex.groups().ok()?;
        is_there.then(|| TailSplitter { pattern: pattern.to_owned(), regex, classes: Classes::get(), covers })
    }

    /// Checks text outside of all matches, which can be an error.
    fn check_unmatched(&self, text: &str) -> Result<()> {
        if self.covers { Err(unmatched(&self.pattern, text)) } else { Ok(()) }
    }

    /// Returns the end of the match `start..end` after white space has given back its last character.
    ///
    /// A match keeps its last character if that is its only one, or if it is the end of the text.
    fn end(&self, text: &str, start: usize, end: usize, budget: &mut StepBudget<'_>) -> Result<usize> {
        let last = text[start..end]
            .char_indices()
            .next_back()
            .filter(|(_, last)| self.classes.is_white_space(*last));
        let Some((last, _)) = last.filter(|(last, _)| *last > 0 && end < text.len()) else { return Ok(end) };
        // The match of another alternative can also end in white space; it keeps all of it.
        let white = self.regex.search(budget, start, |regex| {
            let groups = regex.captures_from_pos(text, start)?;
            Ok(groups.is_some_and(|groups| groups.get(groups.len() - 1).is_some()))
        })?;
        Ok(if white { start + last } else { end })
    }
}

impl Utf8Splitter for TailSplitter {
    fn pretokens(&self, text: &str, budget: &mut StepBudget<'_>, take: &mut dyn FnMut(usize)) -> Result<()> {
        let (mut done, mut at) = (0, 0);
        while let Some(found) = self.regex.search(budget, at, |regex| regex.find_from_pos(text, at))? {
            if found.start() > done {
                self.check_unmatched(&text[done..found.start()])?;
                take(found.start());
                done = found.start();
            }
            if found.start() == found.end() {
                let Some(skipped) = text[found.end()..].chars().next() else { break };
                at = found.end() + skipped.len_utf8();
                continue;
            }
            done = self.end(text, found.start(), found.end(), budget)?;
            take(done);
            at = done;
        }
        if done < text.len() {
            self.check_unmatched(&text[done..])?;
            take(text.len());
        }
        Ok(())
    }
}

/// Finds the matches of a regular expression from a `tokenizer.json`.
#[derive(Debug)]
pub(crate) struct Matcher(BoundedRegex);

impl Matcher {
    /// Compiles an expression in Oniguruma's dialect.
    ///
    /// # Errors
    /// It is not a valid regular expression, matches the empty text, or means something else in Oniguruma than in
    /// fancy-regex.
    pub(crate) fn from_oniguruma(pattern: &str) -> Result<Matcher> {
        checked(&translated(pattern)?).map(Matcher)
    }

    /// Returns `true` only if a text has no match. A search that exceeds its limits gives `false`.
    pub(crate) fn matches_nothing_of(&self, text: &str) -> bool {
        let first = self.0.matches(text).next(&mut StepBudget::new(0, &Silent));
        matches!(first, Ok(None))
    }

    /// Passes the byte range of each match to `take`, in order, until it returns `false`.
    ///
    /// # Errors
    /// The searches take too many backtracking steps.
    pub(crate) fn each(&self, text: &str, mut take: impl FnMut(Range<usize>) -> bool) -> Result<()> {
        let (mut matches, mut budget) = (self.0.matches(text), StepBudget::new(0, &Silent));
        while let Some(found) = matches.next(&mut budget)? {
            if !take(found.start()..found.end()) {
                break;
            }
        }
        Ok(())
    }
}

/// Limits of backtracking steps per search. A search that exceeds one limit is repeated with the next. The last limit
/// is reached in about two seconds; only then can a signal stop the run.
const STEP_LIMITS: [usize; 4] = [2_000, 50_000, 1_500_000, 50_000_000];

/// Backtracking steps that all searches in one text may take together, plus [`STEPS_PER_BYTE`] for each byte of it. A
/// search within the first limit costs nothing; each repetition with a higher limit costs that limit.
const STEPS_PER_TEXT: u64 = 200_000_000;
/// Further backtracking steps per byte of a text.
const STEPS_PER_BYTE: u64 = 2_000;

/// Maximum number of instructions of a compiled expression. Published expressions have a few hundred. Subroutine calls
/// are inlined, so a short expression can otherwise grow without bound.
const MAX_INSTRUCTIONS: usize = 100_000;

/// Maximum number of bytes of one automaton, the default of the regex crate. The engine compiles each section between
/// look-arounds to an automaton of its own. With more than [`LOOK_AROUNDS`] look-arounds, the limit per automaton falls
/// so that all together keep within the same bound.
const AUTOMATON_BYTES: usize = 10 << 20;
/// Look-arounds up to which each automaton may have [`AUTOMATON_BYTES`].
const LOOK_AROUNDS: usize = 4;

/// A regular expression with a bound on the backtracking steps of each search.
#[derive(Debug)]
struct BoundedRegex {
    pattern: String,
    /// The expression compiled for each of [`STEP_LIMITS`], on first use.
    regexes: [OnceLock<Regex>; STEP_LIMITS.len()],
}

impl BoundedRegex {
    /// Compiles an expression.
    ///
    /// # Errors
    /// It is not a valid regular expression, or it exceeds the bounds of size.
    fn new(pattern: &str) -> Result<BoundedRegex, Box<RegexError>> {
        let regexes = [const { OnceLock::new() }; STEP_LIMITS.len()];
        let regex = BoundedRegex { pattern: pattern.to_owned(), regexes };
        regex.regex(0)?;
        Ok(regex)
    }

    /// Returns the number of capture groups, including the whole match.
    fn groups(&self) -> Result<usize, Box<RegexError>> {
        Ok(self.regex(0)?.captures_len())
    }

    /// Returns the expression compiled for the limit `STEP_LIMITS[level]`.
    fn regex(&self, level: usize) -> Result<&Regex, Box<RegexError>> {
        let slot = &self.regexes[level];
        if let Some(regex) = slot.get() {
            return Ok(regex);
        }
        let compiled = compile(&self.pattern, STEP_LIMITS[level])?;
        Ok(slot.get_or_init(|| compiled))
    }

    /// Runs `search`, again with a higher limit while it exceeds one. `at` is the offset where the search starts; it
    /// appears in the error message only.
    ///
    /// # Errors
    /// The search exceeds the last limit, the searches in the text exceed their common limit, or the observer stops
    /// the run.
    fn search<T>(
        &self,
        budget: &mut StepBudget<'_>,
        at: usize,
        search: impl Fn(&Regex) -> Result<T, RegexError>,
    ) -> Result<T> {
        const TOO_SLOW: &str = "use a named pattern, or one without look-around and nested repetitions";
        let failed = |cause: Box<RegexError>| {
            let pattern = excerpt(&self.pattern);
            let problem =
                format!("the pattern {pattern} needs too many backtracking steps at byte {at} of a text");
            Error::caused(ErrorKind::Failed, problem, cause).with_help(TOO_SLOW)
        };
        let mut level = 0;
        loop {
            budget.observer.checkpoint()?;
            let found = search(self.regex(level).map_err(failed)?);
            let exceeded =
                matches!(&found, Err(RegexError::RuntimeError(RuntimeError::BacktrackLimitExceeded)));
            if level > 0 {
                let left = budget.left.checked_sub(to_u64(STEP_LIMITS[level]));
                budget.left = left.ok_or_else(|| {
                    let pattern = excerpt(&self.pattern);
                    let problem = "needs too many backtracking steps at many places of a text";
                    Error::failed(format!("the pattern {pattern} {problem}")).with_help(TOO_SLOW)
                })?;
            }
            if !exceeded || level + 1 == STEP_LIMITS.len() {
                return found.map_err(|cause| failed(Box::new(cause)));
            }
            level += 1;
        }
    }

    /// Returns the successive matches in a text.
    fn matches<'r, 't>(&'r self, text: &'t str) -> BoundedMatches<'r, 't> {
        BoundedMatches { regex: self, text, at: 0, last_end: None, skipped: false }
    }
}

/// The backtracking steps left for the searches in one text, and the observer that may stop them.
pub(super) struct StepBudget<'o> {
    left: u64,
    observer: &'o dyn Observer,
}

impl<'o> StepBudget<'o> {
    /// Returns the steps allowed for a text of `bytes` bytes.
    pub(super) fn new(bytes: usize, observer: &'o dyn Observer) -> StepBudget<'o> {
        StepBudget { left: STEPS_PER_TEXT + STEPS_PER_BYTE * to_u64(bytes), observer }
    }
}

/// Successive matches like those of [`Regex::find_iter`], with bounded searches.
struct BoundedMatches<'r, 't> {
    regex: &'r BoundedRegex,
    text: &'t str,
    at: usize,
    last_end: Option<usize>,
    /// Whether the last search found an empty match at its own start.
    skipped: bool,
}

impl<'t> BoundedMatches<'_, 't> {
    /// Returns the next match. An empty match directly after another match is skipped.
    fn next(&mut self, budget: &mut StepBudget<'_>) -> Result<Option<Match<'t>>> {
        while self.at <= self.text.len() {
            let (text, at, skipped) = (self.text, self.at, self.skipped);
            let input = || RegexInput::new(text).from_pos(at).continue_from_previous_match_end(!skipped);
            let Some(found) = self.regex.search(budget, at, |regex| regex.find_input(input()))? else {
                break;
            };
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
        .max_prog_size(MAX_INSTRUCTIONS)
        .delegate_size_limit(LOOK_AROUNDS * AUTOMATON_BYTES / LOOK_AROUNDS.max(look_arounds))
        // Needed for `\G` after an empty match.
        .allow_input_assertion_overrides(true)
        .build()?)
}

/// Compiles an expression and checks that it does not match the empty text.
fn checked(pattern: &str) -> Result<BoundedRegex> {
    let regex = BoundedRegex::new(pattern).map_err(|cause| {
        Error::caused(ErrorKind::Usage, format!("{} is not a regular expression", excerpt(pattern)), cause)
    })?;
    if regex.search(&mut StepBudget::new(0, &Silent), 0, |regex| regex.is_match(""))? {
        return Err(Error::usage(format!("the pattern {} can match the empty text", excerpt(pattern)))
            .with_help("every alternative must match at least one character: write + instead of *"));
    }
    Ok(regex)
}

/// Returns the error for text that an expression must match and does not. It quotes the first 40 characters.
fn unmatched(pattern: &str, text: &str) -> Error {
    const MAX_QUOTED: usize = 40;
    let (pattern, text) = (excerpt(pattern), text.chars().take(MAX_QUOTED).collect::<String>());
    let problem =
        format!("the pattern {pattern} does not match {text:?}, which Hugging Face's tokenizers would drop");
    Error::failed(problem).with_help("leave the document out")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::base::test_support::one_case_in;
    use crate::error::ErrorKind;
    use crate::split::tests::{custom, oracle, pretokens, step};
    use crate::split::{SplitPattern, SplitStep, splitter};

    #[test]
    fn a_custom_pattern_isolates_matches() {
        let cases: [(&str, &str, &[&str]); 7] = [
            (r"\d+", "ab12c", &["ab", "12", "c"]),
            (r"\d+", "12", &["12"]),
            // An empty match splits at its position. All results are those of Hugging Face's tokenizers 0.23.
            (r"(?=b)|c", "abc", &["a", "b", "c"]),
            (r"(?<= )", "ab cd ab", &["ab ", "cd ", "ab"]),
            (r"(?=(?:\d{3})+(?!\d))", "12345678, 123", &["12", "345", "678, ", "123"]),
            (r"(?=e)|\s+(?!\S)|\s+", "bee  e", &["b", "e", "e", " ", " ", "e"]),
            (r"\w+(?=!)", "ab! cd", &["ab", "! cd"]),
        ];
        for (regex, text, expected) in cases {
            let found = pretokens(custom(regex).as_ref(), text.as_bytes());
            assert_eq!(
                found,
                expected.iter().map(|pretoken| pretoken.as_bytes()).collect::<Vec<_>>(),
                "{regex}"
            );
        }
        let replacement = custom("\u{FFFD}");
        assert_eq!(
            pretokens(replacement.as_ref(), b"a\xF0\x9Fb\xFF"),
            [&b"a"[..], b"\xF0\x9F", b"b", b"\xFF"]
        );
    }

    /// The engine's optimizer changes the meaning of these expressions.
    #[test]
    fn repetitions_match_what_they_say() {
        let cases: [(&str, &str, &[&str]); 8] = [
            (r"[0-9]+[.,]?[0-9]+", "7a12.5b7,", &["7a", "12.5", "b7,"]),
            (r" ?\p{L}+'?\p{L}+|\s+(?!\S)|\s+", " a1 it's", &[" ", "a1", " it's"]),
            (r"a+b*a+c|a", "aac abac ac", &["aac", " ", "abac", " ", "a", "c"]),
            (r"(?:x+(?:mx+)?)+y", "xmxmxy", &["xm", "xmxy"]),
            (r"(?:x+)m?(?:x+)y", "xy xxy", &["xy ", "xxy"]),
            (r"(?:x+m??x*)+", "axm", &["a", "x", "m"]),
            (r"a*?(?:b+?)*c|[^z]", "bbcb", &["bbc", "b"]),
            (r"a{2,}-?a{2,}|[^z]", "aaa-a aaaa", &["a", "a", "a", "-", "a", " ", "aaaa"]),
        ];
        for (regex, text, expected) in cases {
            let found = pretokens(custom(regex).as_ref(), text.as_bytes());
            assert_eq!(
                found,
                expected.iter().map(|pretoken| pretoken.as_bytes()).collect::<Vec<_>>(),
                "{regex}"
            );
        }
    }

    #[test]
    fn only_some_anchors_depend_on_where_a_search_starts() {
        for regex in [r"\G\s|\s+(?!\S)|\s+", r"a\K\s+|\s+(?!\S)|\s+"] {
            for text in ["a  s", "a   a  ", "  a"] {
                let text = text.as_bytes();
                assert_eq!(
                    pretokens(custom(regex).as_ref(), text),
                    pretokens(oracle(regex).as_ref(), text),
                    "{regex}"
                );
            }
        }
    }

    #[test]
    fn text_outside_of_all_matches_can_be_an_error() {
        for regex in [r"\p{L}+| +", r"\p{L}+|\s+(?!\S)|\s+"] {
            let pattern = SplitPattern::from_steps(vec![step(regex, true)]);
            let splitter = splitter(&pattern).expect("a regular expression");
            assert_eq!(pretokens(splitter.as_ref(), b"ab c "), [&b"ab"[..], b" ", b"c", b" "]);
            for (text, left) in [("ab 1", "1"), ("12a", "12"), ("a3b", "3")] {
                let refused = splitter.pretoken_ends(text.as_bytes(), &mut Vec::new()).expect_err(text);
                assert!(
                    refused.to_string().contains(&format!("{regex:?} does not match {left:?}")),
                    "{refused}"
                );
            }
        }
    }

    #[test]
    fn wrong_patterns_are_refused() {
        for regex in ["(", "a*", "", r"[\p{Xyz}]"] {
            let refused = splitter(&SplitPattern::Custom(regex.to_owned())).err().expect(regex);
            assert_eq!(refused.kind(), ErrorKind::Usage, "{regex}");
        }
    }

    #[test]
    fn an_empty_match_at_the_end_of_a_text_adds_no_empty_pretoken() {
        for behavior in [SplitBehavior::Isolated, SplitBehavior::MergedWithNext, SplitBehavior::Contiguous] {
            let splitter =
                Lossy(RegexSplitter::new("(?<=b)", behavior, false).expect("a regular expression"));
            assert_eq!(pretokens(&splitter, b"abab"), [b"ab", b"ab"], "{behavior:?}");
        }
    }

    const ATOMS: [&str; 7] = ["a", "b", "[ab]", "c", "x", ".", "A"];
    const REPETITIONS: [&str; 16] =
        ["", "", "", "+", "*", "?", "{2,}", "{1}", "{0,2}", "+?", "*?", "??", "{1,}", "{0,}", "{2}", "{1,2}"];

    /// Expressions without look-around, which the `regex` crate supports, too.
    fn expressions() -> impl Strategy<Value = String> {
        let repeated = |(item, repetition): (String, &str)| item + repetition;
        let atoms = (select(&ATOMS[..]).prop_map(str::to_owned), select(&REPETITIONS[..])).prop_map(repeated);
        atoms.prop_recursive(4, 24, 4, move |inner| {
            let sequences = vec(inner, 1..5).prop_map(|items| items.concat());
            let alternatives = vec(sequences, 1..3).prop_map(|branches| branches.join("|"));
            let groups = (select(&["(?:", "(", "(?i:"][..]), alternatives);
            let groups = groups.prop_map(|(open, inner)| format!("{open}{inner})"));
            (groups, select(&REPETITIONS[..])).prop_map(repeated)
        })
    }

    /// Pre-token ends by the byte ranges of the matches.
    fn ends_of(text: &str, matches: impl Iterator<Item = Range<usize>>) -> Vec<u32> {
        let ends = matches.flat_map(|found| [found.start, found.end]).chain([text.len()]);
        let mut ends: Vec<u32> = ends.filter(|&end| end > 0).map(truncate_to_u32).collect();
        ends.dedup();
        ends
    }

    #[test]
    fn regular_expressions_split_as_by_another_engine() {
        let inputs = (expressions(), vec("[abcxA]{0,12}", 1..20));
        one_case_in(2, &inputs, |(expression, texts)| {
            // The splitter refuses expressions that match the empty text.
            let expression = format!("(?:{expression})(?:a|b|x)|A");
            let (splitter, other) = (
                custom(&expression),
                ::regex::Regex::new(&expression).expect("both engines know the syntax"),
            );
            for text in texts {
                let mut found = Vec::new();
                splitter.pretoken_ends(text.as_bytes(), &mut found).expect("short texts");
                prop_assert_eq!(
                    found,
                    ends_of(&text, other.find_iter(&text).map(|found| found.range())),
                    "{} on {}",
                    expression,
                    text
                );
            }
            Ok(())
        });
    }

    /// Pre-token ends by the matches of the engine without bounds.
    fn unbounded(regex: &str, text: &str) -> Vec<u32> {
        let mut builder = fancy_regex::RegexBuilder::new(regex);
        let regex =
            builder.optimize(false).backtrack_limit(usize::MAX).build().expect("a regular expression");
        ends_of(text, regex.find_iter(text).map(|found| found.expect("no limit").range()))
    }

    #[test]
    fn searches_with_many_steps_find_the_same_as_without_bounds() {
        let far = format!("{}!{} ", "word ".repeat(4_000), "a".repeat(3_000));
        let short = ["", "a", "aab", "bee  e", "12345678, 123", "ab cd ab\n", "e\u{301}e", " a! b! "];
        let texts = short.map(str::to_owned).into_iter().chain([far.clone(), far.repeat(3)]);
        let texts: Vec<String> = texts.collect();
        for regex in [
            r"[a-z]+(?=!)",
            r"\w+ (?=.*!)|.",
            r"(?=b)|c",
            r"(?<= )",
            r"(?=e)|\s+(?!\S)|[^\s]",
            r"\Ga|b",
            r"(?=a)|\G[ab]|e",
            r"a*?(?=b)|\w\K ",
            r"(?=(?:\d{3})+(?!\d))",
            r"(a+)+(?=b)|[a ]",
        ] {
            let splitter = oracle(regex);
            for text in &texts {
                let mut ends = Vec::new();
                if text.len() > 100 && regex.starts_with("(a+)+") {
                    continue;
                }
                splitter.pretoken_ends(text.as_bytes(), &mut ends).expect(regex);
                assert!(ends == unbounded(regex, text), "{regex} on {} bytes", text.len());
            }
        }
    }

    #[test]
    fn texts_that_take_too_many_steps_are_refused() {
        let runs = format!("{}b", "a".repeat(23)).repeat(9);
        let cases = [
            (r"(?:(a+)+)(?=c)|a", "a".repeat(60), "too many backtracking steps at byte 0"),
            (
                r"x(a+)+(?=c)|.",
                format!("é{}x{}", "b".repeat(5), "a".repeat(60)),
                "too many backtracking steps at byte 7",
            ),
            // No single search exceeds its limit.
            (r"(a+)+(?=c)|[ab]", runs.clone(), "at many places of a text"),
            (r"(a+)+(?=c)|[ab]|\s+(?!\S)|\s+", runs, "at many places of a text"),
        ];
        for (regex, text, message) in cases {
            let refused = custom(regex).pretoken_ends(text.as_bytes(), &mut Vec::new()).expect_err(regex);
            assert_eq!(refused.kind(), ErrorKind::Failed, "{regex}");
            assert!(refused.to_string().contains(message), "{refused}");
            assert!(refused.help().is_some_and(|help| help.contains("a named pattern")), "{regex}");
        }
    }

    #[test]
    fn expressions_that_compile_to_too_much_are_refused() {
        let calls: String = (1..24).map(|group| format!(r"(\g<{group}>\g<{group}>)")).collect();
        let cases = [
            (format!("(a){calls}"), ErrorKind::Usage),
            (r"(?<=\p{L}{1,2000})a|".repeat(200) + ".", ErrorKind::Usage),
            (r"(?:\p{L}{1,1000}){1,1000}".to_owned(), ErrorKind::Usage),
            ("(".repeat(5_000) + "a" + &")".repeat(5_000), ErrorKind::Usage),
            // The search in the empty text takes too many steps.
            (r"((a{0,100}){0,100}){0,100}(?=b)|.".to_owned(), ErrorKind::Failed),
        ];
        for (regex, kind) in cases {
            let refused = splitter(&SplitPattern::Custom(regex.clone())).err().expect("too much");
            assert_eq!(refused.kind(), kind, "{refused}");
        }
    }

    /// Stops a run after this number of checks.
    struct StopsAfter(AtomicUsize);

    impl Observer for StopsAfter {
        fn stopping(&self) -> bool {
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
        }
    }

    #[test]
    fn a_run_stops_between_two_searches_in_a_text() {
        // Each pattern takes quadratic time for the text, and no single search takes long.
        let text = "a".repeat(2_000_000);
        let step = |regex: &str| SplitStep::new(SplitPattern::Custom(regex.to_owned()), false);
        let steps = SplitPattern::from_steps(vec![step("[^b]+"), step("a+b|.")]);
        let patterns =
            [SplitPattern::from_regex("a+b|."), SplitPattern::from_regex(r"a+b|.|\s+(?!\S)|\s+"), steps];
        for pattern in patterns {
            let observer = StopsAfter(AtomicUsize::new(10));
            let splitter = splitter(&pattern).expect("regular expressions");
            let stopped = splitter.pretoken_ends_observed(text.as_bytes(), &mut Vec::new(), &observer);
            assert_eq!(stopped.expect_err("it takes an hour").kind(), ErrorKind::Interrupted, "{pattern}");
        }
    }
}
