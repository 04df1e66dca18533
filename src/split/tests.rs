//! All splitters against the regular expressions of their patterns, and what holds of all of them.

use proptest::prelude::*;

use super::classes::{self, Classes};
use super::regex::{StepBudget, Utf8Splitter};
use super::*;
use crate::base::int::to_usize;
use crate::error::ErrorKind;

pub(super) fn pretokens<'t>(splitter: &dyn Splitter, text: &'t [u8]) -> Vec<&'t [u8]> {
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

pub(super) fn named(pattern: NamedPattern) -> Box<dyn Splitter> {
    splitter(&SplitPattern::Named(pattern)).expect("named patterns are always right")
}

pub(super) fn custom(regex: &str) -> Box<dyn Splitter> {
    splitter(&SplitPattern::Custom(regex.to_owned())).expect("a regular expression")
}

/// Splits by the regular expression of a pattern, the oracle of the other splitters.
pub(super) fn oracle(regex: &str) -> Box<dyn Splitter> {
    sequence(&[regex])
}

/// Splits by regular expressions in a row, each applied to the pre-tokens of the previous one.
fn sequence(regexes: &[&str]) -> Box<dyn Splitter> {
    let splitter = |regex: &&str| RegexSplitter::new(regex, SplitBehavior::Isolated, false);
    let splitters = regexes.iter().map(splitter).collect::<Result<_>>();
    Box::new(Lossy(Sequence(splitters.expect("regular expressions"))))
}

struct Sequence(Vec<RegexSplitter>);

impl Utf8Splitter for Sequence {
    fn pretokens(&self, text: &str, budget: &mut StepBudget<'_>, take: &mut dyn FnMut(usize)) -> Result<()> {
        let mut ends = vec![text.len()];
        for splitter in &self.0 {
            let mut start = 0;
            for end in std::mem::take(&mut ends) {
                splitter.pretokens(&text[start..end], budget, &mut |inner| ends.push(start + inner))?;
                start = end;
            }
        }
        ends.into_iter().for_each(take);
        Ok(())
    }
}

pub(super) fn step(regex: &str, covers: bool) -> SplitStep {
    SplitStep::new(SplitPattern::from_oniguruma(regex).expect(regex), covers)
}

/// At least one character of each kind that the patterns distinguish.
const REPRESENTATIVES: [&str; 27] = [
    "a", "s", "L", "'", " ", "\n", "\r", "\t", "1", "!", "/", "\u{17F}", "\u{85}", "\u{A0}", "\u{2028}",
    "\u{3000}", "½", "Ⅷ", "\u{301}", "ǅ", "漢", "ʰ", "・", "\u{3040}", "\u{3099}", "\0", "😀",
];
const FEW: [&str; 8] = ["a", "A", "漢", "\u{301}", " ", "\n", "!", "\0"];

/// A pattern like GPT-4's, and difficult patterns.
const OTHERS: [&str; 4] = [
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"\p{L}+\s|\s+a|\s+(?!\S)|\s+",
    r"(a)(L)|(?=1)|\s+(?!\S)|\s",
    r"(\p{L})\1|(?<=\s)\p{L}|\s+(?!\S)|\s+",
];

struct Pair {
    name: NamedPattern,
    scanner: Box<dyn Splitter>,
    /// The scanner with each instruction set.
    scanners: Vec<(Instructions, Box<dyn Splitter>)>,
    /// The expression, and those of `tokenizer.json` if they differ.
    oracles: Vec<Box<dyn Splitter>>,
}

fn pairs() -> Vec<Pair> {
    let pair = |name: NamedPattern| {
        let all = Instructions::ALL.into_iter().filter(|instructions| instructions.are_supported());
        let scanners = all.map(|instructions| (instructions, splitter_by(name, instructions))).collect();
        let mut oracles = vec![oracle(name.regex())];
        if name.steps() != [name.regex()] {
            oracles.push(sequence(name.steps()));
        }
        Pair { name, scanner: named(name), scanners, oracles }
    };
    NamedPattern::ALL.into_iter().map(pair).collect()
}

fn agree(pairs: &[Pair], text: &[u8]) {
    for Pair { name, scanners, oracles, .. } in pairs {
        let expected = pretokens(oracles[0].as_ref(), text);
        let shown = String::from_utf8_lossy(text);
        for other in &oracles[1..] {
            assert_eq!(pretokens(other.as_ref(), text), expected, "{name:?} of {shown:?} = {text:x?}");
        }
        for (by, scanner) in scanners {
            let found = pretokens(scanner.as_ref(), text);
            assert_eq!(found, expected, "{name:?} by {by:?} of {shown:?} = {text:x?}");
        }
    }
}

fn all_strings(alphabet: &[&str], length: u32, mut take: impl FnMut(&[u8])) {
    let mut text = String::new();
    for number in 0..alphabet.len().pow(length) {
        text.clear();
        let mut rest = number;
        for _ in 0..length {
            text.push_str(alphabet[rest % alphabet.len()]);
            rest /= alphabet.len();
        }
        take(text.as_bytes());
    }
}

#[test]
fn every_short_text_is_split_as_by_the_regex() {
    let pairs = pairs();
    for length in 1..=3 {
        all_strings(&REPRESENTATIVES, length, |text| agree(&pairs, text));
    }
    all_strings(&FEW, 5, |text| agree(&pairs, text));
    all_strings(&["a", "'", "l", "L", "r", "E", " "], 5, |text| agree(&pairs, text));
}

/// The text after a contraction is split independently of the text before it.
#[test]
fn text_after_a_contraction_is_split_as_by_the_regex() {
    let pairs = pairs();
    for before in ["a's", "A'LL", "漢's"] {
        all_strings(&["a", "A", "漢", "\u{301}", " "], 4, |text| {
            agree(&pairs, &[before.as_bytes(), text].concat());
        });
    }
}

fn class_by_regex(code: char) -> u16 {
    use classes::*;
    let is =
        |regex: &fancy_regex::Regex| regex.is_match(code.encode_utf8(&mut [0; 4])).expect("no look-around");
    thread_local! {
        static KINDS: [(fancy_regex::Regex, u16); 8] = [
            (r"[\p{Lu}\p{Lt}]", UPPER),
            (r"\p{Ll}", LOWER),
            (r"[\p{Lm}\p{Lo}]", UNCASED),
            (r"\p{M}", MARK),
            (r"\p{N}", NUMBER),
            (r"[\r\n]", NEWLINE),
            (r"\s", SPACE),
            (r"[\p{P}\p{S}]", SIGN),
        ].map(|(pattern, class)| (fancy_regex::Regex::new(pattern).expect("a class"), class));
    }
    KINDS.with(|kinds| kinds.iter().find(|(regex, _)| is(regex)).map_or(OTHER, |(_, class)| *class))
}

fn around(character: char) -> String {
    let c = character;
    format!(
        "{c}a{c}A{c}1{c} {c}!{c}\n{c}{c} a{c} 1{c} !{c}\n{c}\t{c}  {c}'s{c}'{c}l'l{c} '{c} s{c}\u{301}{c}/\n/{c}漢{c}aA{c}Aa{c}  "
    )
}

#[test]
fn every_code_point_has_its_class_and_is_split_as_by_the_regex() {
    let (pairs, table) = (pairs(), Classes::get());
    let mut letters_numbers_spaces = [0, 0, 0];
    let (mut before, mut alike) = (0, 0);
    for character in '\0'..=char::MAX {
        let class = table.of_code(u32::from(character));
        assert_eq!(class & !classes::HAN, class_by_regex(character), "{character:?}");
        use classes::*;
        for (count, set) in
            letters_numbers_spaces.iter_mut().zip([UPPER | LOWER | UNCASED, NUMBER, SPACE | NEWLINE])
        {
            *count += usize::from(class & set != 0);
        }
        // In a long run of characters of one class, test the first two characters and every 256th only.
        alike = if class == before { alike + 1 } else { 0 };
        before = class;
        if alike < 2 || u32::from(character) % 0x100 == 0 || u32::from(character) < 0x400 {
            let text = around(character);
            agree(&pairs, text.as_bytes());
        }
    }
    assert_eq!(letters_numbers_spaces, [141_028, 1_911, 25], "the pinned version of Unicode");
}

/// Texts of representatives, words, other characters, and invalid UTF-8.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        8 => prop::sample::select(&REPRESENTATIVES[..]).prop_map(|part| part.as_bytes().to_vec()),
        2 => "[a-zA-Z']{1,6}".prop_map(String::into_bytes),
        1 => "[ \n]{1,6}".prop_map(String::into_bytes),
        1 => "[0-9½]{1,9}".prop_map(String::into_bytes),
        1 => "[0-9]{50,140}".prop_map(String::into_bytes),
        1 => any::<char>().prop_map(|character| character.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 1..4),
        1 => prop::collection::vec(prop::sample::select(&b"\xE2\x82\xF0\x9F\x98\xC5\xBF\xED\xA0 a'"[..]), 1..5),
    ];
    prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn the_scanner_splits_as_the_regex(text in text()) {
        agree(&pairs_once(), &text);
    }

    #[test]
    fn the_tail_splitter_splits_as_the_look_ahead(text in text()) {
        thread_local!(static BOTH: Vec<(Lossy<TailSplitter>, Box<dyn Splitter>)> = {
            let with_tail = NamedPattern::ALL.into_iter().filter(|name| {
                !matches!(name, NamedPattern::DeepSeekV3 | NamedPattern::Superword)
            });
            let patterns = OTHERS.into_iter().chain(with_tail.map(NamedPattern::regex));
            let tail = |pattern| Lossy(TailSplitter::new(pattern, false).expect("a tail of white space"));
            patterns.map(|pattern| (tail(pattern), oracle(pattern))).collect()
        });
        BOTH.with(|both| for (number, (linear, oracle)) in both.iter().enumerate() {
            assert_eq!(pretokens(linear, &text), pretokens(oracle.as_ref(), &text), "pattern {number}");
        });
    }

    #[test]
    fn invalid_bytes_are_split_as_their_replacement(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let lossy = String::from_utf8_lossy(&bytes).into_owned();
        for Pair { scanner, .. } in pairs_once().iter() {
            let lossy_pretokens = pretokens(scanner.as_ref(), &bytes);
            let of_lossy: Vec<usize> = pretokens(scanner.as_ref(), lossy.as_bytes()).iter().map(|p| lossy_count(p)).collect();
            let counts: Vec<usize> = lossy_pretokens.iter().map(|pretoken| lossy_count(pretoken)).collect();
            prop_assert_eq!(counts, of_lossy);
        }
    }

    #[test]
    fn both_sides_of_a_safe_split_point_can_be_split_alone(
        [text, other, more] in [text(), text(), text()], [first, last] in [0..80_usize, 0..80],
    ) {
        for Pair { name, scanner, .. } in pairs_once().iter() {
            let Some(cut) = scanner.safe_split_point(&text, first..=last) else { continue };
            prop_assert!(0 < cut && cut < text.len() && (first..=last).contains(&cut));
            let whole = [&other[..], &text, &more].concat();
            let (left, right) = whole.split_at(other.len() + cut);
            let apart = [pretokens(scanner.as_ref(), left), pretokens(scanner.as_ref(), right)].concat();
            prop_assert_eq!(apart, pretokens(scanner.as_ref(), &whole), "{:?}", name);
        }
    }

    /// A section of a text may start and end within a character.
    #[test]
    fn a_safe_split_point_of_a_section_is_one_of_the_whole_text(
        text in text(), ends in [any::<prop::sample::Index>(), any::<prop::sample::Index>()],
    ) {
        let [one, other] = ends.map(|end| end.index(text.len() + 1));
        let (start, end) = (one.min(other), one.max(other));
        for Pair { name, scanner, .. } in pairs_once().iter() {
            let Some(cut) = scanner.safe_split_point(&text[start..end], 1..=end) else { continue };
            let (left, right) = text.split_at(start + cut);
            let apart = [pretokens(scanner.as_ref(), left), pretokens(scanner.as_ref(), right)].concat();
            prop_assert_eq!(apart, pretokens(scanner.as_ref(), &text), "{:?}", name);
        }
    }

    #[test]
    fn a_safe_prefix_ends_at_the_last_split_point_of_the_first_window_with_any(text in text(), about in 1..30_usize) {
        for Pair { name, scanner, .. } in pairs_once().iter() {
            let (mut rest, mut apart) = (&text[..], Vec::new());
            while !rest.is_empty() {
                let windows = std::iter::successors(Some(about), |window| Some(2 * window));
                let mut inner = windows.take_while(|window| *window < rest.len());
                let cut = inner.find_map(|window| scanner.safe_split_point(rest, 1..=window));
                let (part, after) = rest.split_at(scanner.safe_prefix(rest, about));
                prop_assert_eq!(part.len(), cut.unwrap_or(rest.len()));
                apart.extend(pretokens(scanner.as_ref(), part));
                rest = after;
            }
            prop_assert_eq!(apart, pretokens(scanner.as_ref(), &text), "{:?}", name);
        }
    }
}

fn lossy_count(bytes: &[u8]) -> usize {
    String::from_utf8_lossy(bytes).chars().count()
}

fn pairs_once() -> std::sync::Arc<Vec<Pair>> {
    thread_local!(static PAIRS: std::sync::Arc<Vec<Pair>> = pairs().into());
    PAIRS.with(std::sync::Arc::clone)
}

#[test]
fn long_runs_of_all_kinds_come_to_an_end() {
    let letters: Vec<u8> = (0..200_000_u32)
        .map(|n| b'a' + (n.wrapping_mul(2_654_435_761) >> 24 & 15).to_le_bytes()[0])
        .collect();
    let runs =
        ["a", " ", "\n", "A", "!", "1", "½", "'", "漢", "\u{301}", "漢AA", "\u{301}A", " \n", "\n ", "\r\n/"];
    let texts = runs.map(|run| run.repeat(200_000)).into_iter().map(String::into_bytes);
    for text in texts.chain([letters]) {
        for Pair { scanner, .. } in pairs_once().iter() {
            for end in ["", "x", "\n", "\u{FFFD}"] {
                pretokens(scanner.as_ref(), &[&text, end.as_bytes()].concat());
            }
        }
        pretokens(custom(OTHERS[0]).as_ref(), &[&text, &b"x"[..]].concat());
    }
}

/// A safe split point depends on the two characters around it. This tests all pairs of kinds within all kinds of
/// texts.
#[test]
fn every_safe_split_point_between_two_characters_is_safe() {
    let around = [
        "", "a", "A", "'", " ", "\n", "!", "1", "\u{301}", "漢", "・", "\0", "\u{3040}", "'s", "\n/",
        "a\u{301}",
    ];
    for Pair { name, scanner, .. } in pairs_once().iter() {
        let mut cuts = 0;
        all_strings(&REPRESENTATIVES, 2, |text| {
            let Some(cut) = scanner.safe_split_point(text, 1..=text.len()) else { return };
            cuts += 1;
            for (before, after) in around.iter().flat_map(|before| around.map(|after| (before, after))) {
                let whole = [before.as_bytes(), text, after.as_bytes()].concat();
                let (left, right) = whole.split_at(before.len() + cut);
                let apart = [pretokens(scanner.as_ref(), left), pretokens(scanner.as_ref(), right)].concat();
                assert_eq!(apart, pretokens(scanner.as_ref(), &whole), "{name:?} of {whole:x?}");
            }
        });
        assert!(cuts > 100, "{name:?} cuts {cuts} of 729 pairs");
    }
}

#[test]
fn texts_without_spaces_have_safe_split_points_too() {
    // Nothing splits a text of words for superwords but two signs, and numbers.
    for text in ["function(a,b){return a[0]+b;}", "吾輩は猫である。名前はまだ無い。どこで"]
    {
        for Pair { name, scanner, .. } in pairs_once().iter() {
            if *name == NamedPattern::Superword && !text.contains("[0]") {
                continue;
            }
            assert!(
                scanner.safe_split_point(text.as_bytes(), 1..=text.len()).is_some(),
                "{name:?} of {text}"
            );
        }
    }
}

proptest! {
    /// Every step sees the pre-tokens of the previous one as separate texts, also in text that is not UTF-8.
    #[test]
    fn steps_split_as_their_regexes_do(
        texts in proptest::collection::vec(proptest::sample::select(&REPRESENTATIVES[..]), 0..20),
        garbage in proptest::collection::vec(any::<u8>(), 0..4),
        at in 0..20usize,
    ) {
        const DIGITS: &str = r"\p{N}";
        const LINES: &str = r"[\r\n]|\s+(?!\S)";
        let mut text: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
        text.insert(at.min(text.len()), garbage);
        let text = text.concat();
        let custom = |regex: &str| SplitStep::new(SplitPattern::Custom(regex.to_owned()), false);
        let gpt2 = SplitStep::new(SplitPattern::Named(NamedPattern::Gpt2), false);
        let chain = SplitPattern::from_steps(vec![custom(LINES), custom(DIGITS), gpt2]);
        let obvious = sequence(&[LINES, DIGITS, NamedPattern::Gpt2.regex()]);
        let chain = splitter(&chain).expect("valid");
        prop_assert_eq!(pretokens(chain.as_ref(), &text), pretokens(obvious.as_ref(), &text));
    }
}

/// Compares splits by masks at the edges of blocks with the scalar scanner, which has no blocks.
struct Edges {
    scanners: Vec<(NamedPattern, Instructions, Box<dyn Splitter>)>,
    scalars: Vec<(NamedPattern, Box<dyn Splitter>)>,
}

impl Edges {
    fn new() -> Edges {
        let scalars = NamedPattern::ALL.map(|name| (name, splitter_by(name, Instructions::Scalar))).into();
        let here =
            Instructions::ALL.into_iter().filter(|by| by.are_supported() && *by != Instructions::Scalar);
        let all = here.flat_map(|by| NamedPattern::ALL.map(|name| (name, by, splitter_by(name, by))));
        Edges { scanners: all.collect(), scalars }
    }

    fn agree(&self, text: &[u8]) {
        let mut ends = Vec::new();
        for (pattern, scalar) in &self.scalars {
            let mut expected = Vec::new();
            scalar.pretoken_ends(text, &mut expected).expect("any text");
            for (_, by, scanner) in self.scanners.iter().filter(|(name, ..)| name == pattern) {
                ends.clear();
                scanner.pretoken_ends(text, &mut ends).expect("any text");
                assert_eq!(ends, expected, "{pattern:?} by {by:?} of {:?}", String::from_utf8_lossy(text));
            }
        }
    }
}

const FEW_AT_EDGES: [&str; 12] = ["a", "B", "l", "L", "漢", "\u{301}", " ", "\n", "!", "'", "1", "/"];

#[test]
fn short_texts_at_block_edges_are_split_as_elsewhere() {
    let edges = Edges::new();
    for (filler, rest) in [("a", "a"), (" ", "!"), ("!", "a"), ("1", " a"), ("\n", " \n"), ("B", "\u{301}")] {
        for before in 58..64 {
            all_strings(&REPRESENTATIVES, 2, |text| {
                edges.agree(&[filler.repeat(before).as_bytes(), text, rest.as_bytes()].concat());
            });
        }
        for before in [61, 62, 63] {
            all_strings(&FEW_AT_EDGES, 3, |text| {
                edges.agree(&[filler.repeat(before).as_bytes(), text, rest.as_bytes()].concat());
            });
        }
    }
    for before in [60, 62] {
        all_strings(&REPRESENTATIVES, 3, |text| {
            edges.agree(&[" ".repeat(before).as_bytes(), text, b"a"].concat());
        });
    }
}

#[test]
fn runs_of_any_length_are_split_as_elsewhere() {
    let edges = Edges::new();
    let parts =
        ["a", "A", "é", "É", "漢", "\u{301}", "1", "½", " ", "\n", "\u{A0}", "!", "。", "/", "\0", "😀"];
    for (first, second) in parts.iter().flat_map(|first| parts.map(|second| (first, second))) {
        for (length, more) in
            [(20, 60), (31, 64), (32, 1), (63, 63), (64, 130), (129, 2), (20, 108), (64, 128)]
        {
            for end in ["", "x", "\n", " x", "\n  x", "'s", "漢", "1"] {
                let text = [&first.repeat(length), &second.repeat(more), end].concat();
                edges.agree(text.as_bytes());
            }
        }
    }
}

#[test]
fn invalid_utf8_is_split_as_elsewhere() {
    let edges = Edges::new();
    let leads: [&[u8]; 9] = [
        b"\xC3",
        b"\xE0\x9F",
        b"\xED\xA0",
        b"\xF0\x8F",
        b"\xF4\x90",
        b"\xE2\x82",
        b"\x80",
        b"\xF5",
        b"\xC1\xBF",
    ];
    for (lead, before) in leads.into_iter().flat_map(|lead| (56..72).map(move |before| (lead, before))) {
        for tail in [
            &b""[..],
            b"\x80",
            b"\x80a",
            b"\x80\x80",
            b"\x80\x80\x80",
            b"a",
            b"\xC3\xA9",
            b" a",
            b"\xE6\xBC\xA2a",
        ] {
            for filler in ["a", "!", " ", "é", "漢"] {
                edges.agree(&[filler.repeat(before).as_bytes(), lead, tail].concat());
                edges.agree(&[filler.repeat(before / 2).as_bytes(), lead, tail, lead, b"xyz"].concat());
            }
        }
    }
}

#[test]
fn no_steps_do_not_split() {
    let splitter = splitter(&SplitPattern::Steps(Vec::new())).expect("there is no regular expression");
    assert_eq!(pretokens(splitter.as_ref(), b"a b"), [b"a b"]);
}

#[test]
fn a_text_of_4_gib_is_refused() {
    // The operating system provides no memory for zeros that are never read.
    let text = vec![0; 1 << 32];
    for splitter in
        [splitter(&SplitPattern::None).expect("no pattern"), named(NamedPattern::Gpt2), custom("a")]
    {
        let refused = splitter.pretoken_ends(&text, &mut Vec::new()).expect_err("too long");
        assert_eq!(refused.kind(), ErrorKind::Failed);
    }
}
