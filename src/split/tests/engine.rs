use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::custom;
use crate::base::int::truncate_to_u32;
use crate::base::test_support::one_case_in;

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

/// Pre-token ends by the matches of the `regex` crate.
fn ends(regex: &::regex::Regex, text: &str) -> Vec<u32> {
    let places = regex.find_iter(text).flat_map(|found| [found.start(), found.end()]);
    let mut ends: Vec<u32> = places.chain([text.len()]).filter(|&end| end > 0).map(truncate_to_u32).collect();
    ends.dedup();
    ends
}

#[test]
fn regular_expressions_cut_as_by_another_engine() {
    let inputs = (expressions(), vec("[abcxA]{0,12}", 1..20));
    one_case_in(2, &inputs, |(expression, texts)| {
        // The splitter refuses expressions that match the empty text.
        let expression = format!("(?:{expression})(?:a|b|x)|A");
        let (splitter, other) =
            (custom(&expression), ::regex::Regex::new(&expression).expect("both know what stands there"));
        for text in texts {
            let mut found = Vec::new();
            splitter.pretoken_ends(text.as_bytes(), &mut found).expect("short texts");
            prop_assert_eq!(found, ends(&other, &text), "{} on {}", expression, text);
        }
        Ok(())
    });
}
