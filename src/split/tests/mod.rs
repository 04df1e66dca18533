mod agreement;
mod bounds;
mod edges;
mod engine;
mod patterns;
mod specials;

use super::*;
use crate::base::int::to_usize;

fn pretokens<'t>(splitter: &dyn Splitter, text: &'t [u8]) -> Vec<&'t [u8]> {
    let mut ends = Vec::new();
    splitter.pretoken_ends(text, &mut ends).expect("these patterns do not backtrack far");
    let ends = ends.into_iter().map(to_usize);
    let starts = std::iter::once(0).chain(ends.clone());
    let pretokens: Vec<&[u8]> = starts.zip(ends).map(|(start, end)| &text[start..end]).collect();
    assert!(
        pretokens.iter().all(|pretoken| !pretoken.is_empty()) && pretokens.concat() == text,
        "pre-tokens tile the text"
    );
    pretokens
}

fn named(pattern: Named) -> Box<dyn Splitter> {
    splitter(&SplitPattern::Named(pattern)).expect("named patterns are always right")
}

fn custom(regex: &str) -> Box<dyn Splitter> {
    splitter(&SplitPattern::Custom(regex.to_owned())).expect("a regular expression")
}

/// The splitter of a pattern's expressions in `tokenizer.json`.
fn steps(pattern: Named) -> Box<dyn Splitter> {
    Box::new(regex::RegexSplitter::sequence(pattern.steps()).expect("regular expressions"))
}

fn oracle(regex: &str) -> Box<dyn Splitter> {
    Box::new(regex::RegexSplitter::new(regex).expect("a regular expression"))
}
