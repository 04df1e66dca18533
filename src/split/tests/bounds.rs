//! Expressions that would take unbounded time or memory.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::base::int::truncate_to_u32;
use crate::error::ErrorKind;

/// Pre-token ends by the matches of the engine without bounds.
fn unbounded(regex: &str, text: &str) -> Vec<u32> {
    let mut builder = fancy_regex::RegexBuilder::new(regex);
    let regex = builder.optimize(false).backtrack_limit(usize::MAX).build().expect("a regular expression");
    let matches = regex.find_iter(text).map(|found| found.expect("no limit"));
    let places = matches.flat_map(|found| [found.start(), found.end()]);
    let mut ends: Vec<u32> = places.chain([text.len()]).filter(|&end| end > 0).map(truncate_to_u32).collect();
    ends.dedup();
    ends
}

#[test]
fn searches_that_take_many_steps_find_what_they_find_without_bounds() {
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
