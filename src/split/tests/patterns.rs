use super::*;
use crate::error::ErrorKind;

#[test]
fn names_read_and_print() {
    for name in ["none", "gpt2", "gpt4", "cl100k", "o200k", "nanochat", "qwen2", "deepseek-v3"] {
        let pattern: SplitPattern = name.parse().expect("a name");
        assert_eq!(pattern.to_string(), name);
        let regex = pattern.regex().expect("one expression");
        assert_eq!(SplitPattern::from_regex(regex), pattern, "{name}");
        let written = pattern.oniguruma().expect("named patterns can be written");
        let steps = written.iter().map(|(regex, covers)| step(regex, *covers)).collect();
        assert_eq!(SplitPattern::from_steps(steps), pattern, "{name}");
    }
    assert_eq!("llama3".parse(), Ok(SplitPattern::Named(Named::Gpt4)));
    assert!("gpt5".parse::<SplitPattern>().is_err());
}

fn step(regex: &str, covers: bool) -> SplitStep {
    SplitStep::new(SplitPattern::from_oniguruma(regex).expect(regex), covers)
}

#[test]
fn published_spellings_are_recognised() {
    let cases = [
        // Hugging Face's ByteLevel and GPT-2's own.
        (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", "gpt2"),
        // tiktoken's r50k.
        (r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s", "gpt2"),
        // minbpe.
        (
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
            "gpt4",
        ),
        // rustbpe.
        (
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
            "gpt4",
        ),
        // nanochat.
        (
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
            "nanochat",
        ),
        // Llama 3 and Qwen 2.5.
        (
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            "gpt4",
        ),
        (
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            "qwen2",
        ),
        ("(?s:.+)", "none"),
        (r"\p{L}+", r"\p{L}+"),
    ];
    let texts =
        ["It's 12345 o'clock!\r\n\n  DON'T  \n", "a\n\n", "x   \n\n  ", " \u{17F}'\u{17F} ½½½½\n \n!\n\n\r "];
    for (regex, name) in cases {
        let pattern = SplitPattern::from_regex(regex);
        assert_eq!(pattern.to_string(), name, "{regex}");
        let (known, oracle) = (splitter(&pattern).expect("a pattern"), custom(regex));
        for text in texts {
            assert_eq!(
                pretokens(known.as_ref(), text.as_bytes()),
                pretokens(oracle.as_ref(), text.as_bytes()),
                "{regex}"
            );
        }
    }
}

#[test]
fn what_oniguruma_understands_otherwise_is_not_passed_on() {
    for regex in [
        r"\p{N}{1,3}+|\D+",
        r"^\s+|.",
        r"\w+|\s",
        r"[\w-]+|.",
        r"[[:punct:]]|.",
        r"(?m:.)",
        r"(?i-s:.)",
        r"\<\|x\|\>|.",
        r"\pL+|\PL",
        r"\p{IsGreek}|.",
        r"\p{N}{3}?|.",
        r"a{3,1}|.",
        r"a{,3}|.",
        r"[+--]|.",
        r"[a~~b]|.",
        r"[\x80-\xFF]+|.",
        r"(?i:ss)|.",
        r"(?i)[ß]|.",
        r"(?i:oﬃce)|.",
        r"(?i:off)|.",
        "(?i:\u{3B9}\u{308}\u{301})|.",
        r"(?P<n>a)|.",
        r"(?u:a)|.",
        r"a(?i)b|c",
        r"(a(?i)b|c)d",
        r"(?i)a(?-i)b|c",
        r"(?x)a+ +a",
        r"a+(?#x)+a|.",
        r"(?#\)[)\s+$|.",
        r"\s+\Z|\S",
        r"\U0001F600+|.",
        r"\u{61}|.",
        r"\s{1,2}+|.",
        r"\s{2,1}|.",
        r"a{2}{2}",
        r"a{1,2}{2}|.",
        r"a*{2}|.",
        r"a+?+b|.",
        r"\A?a",
        r"(?i)\p{Lu}+",
        r"(?i)\P{Lu}+",
        r"(?i:[\p{Ll}])|.",
        r"(?i)[\S]|.",
        r"(?i)[[^b]]|.",
        r"(?i)[Þ-à]|.",
        r"(?i)\x{DF}",
        r"(?i)\u00DF",
        r"(?i)[\x{DF}]",
        r"(?i)\x73\u0073|.",
        r"(?i)(?:s)s|.",
        r"(?i)\é|.",
        r"[]-a]+",
        r"[^]-a]+|.",
        r"[*-[ß]]|.",
        r"[+-\h]|.",
        r"[\h-x]|.",
        r"\p{script=han}",
        r"\p{sc=Han}",
        r"\p{gc=L}",
        r"\p{scx:Greek}",
        r"\p{Script_Extensions=Han}",
        r"\p{is_greek}|.",
        r"\p{Graph}|.",
        r"[\p{^Alnum}\P{Blank}]|.",
        r"(?<a>x)(y)\2",
        r"(x)\k<1>(?<a>y)",
        r"(a)\g1|.",
        r"(?<a-b>x)",
        r"(?(1)a|b)",
        r"(?(2)a|b)(c)",
        r"(?<a>x)?(?(1)b|c)",
        r"(?(a)b|c)",
        r"(*F)|.",
        "(?",
        "(?é",
        r"(?~ab)c",
        r"(?<=b++)b",
        r"(?<=(?>b+))b",
        r"(?<!(b))a",
        r"(?<=b(?=c))c",
        r"(?<=b\z)|.",
        r"a\K\s|.",
        r"\Ga|.",
        r"\p{Word}|.",
        r"[\P{word}]|.",
        r"(?i)s{1}s|.",
        r"(?i)(?:s){1,1}s|.",
        r"(?i)s{2}|.",
        r"(?i)(s)\1|.",
        r"(?i:(?<x>s)\k<x>)|.",
        r"(a)\01|.",
        r"(a|b\1)+|.",
        r"(?<x>a|b\k<x>)+|.",
        r"(b\k<-1>)|.",
        r"((?(1)a))b",
        r"(?: *|a)+.",
        r"(?:a?|b){2,}.",
        r"(?:(?:a?|b)c*)+.",
        Named::Cl100k.regex(),
    ] {
        let refused = SplitPattern::from_oniguruma(regex).expect_err(regex);
        assert_eq!(refused.kind(), ErrorKind::Usage);
        assert!(SplitPattern::Custom(regex.to_owned()).oniguruma().is_err(), "{regex}");
    }
    for long in ["(?<".repeat(1 << 20), "{".repeat(1 << 20)] {
        let refused = SplitPattern::from_oniguruma(&long).expect_err("too long").to_string();
        assert!(refused.contains("the limit is") && refused.len() < 1000, "{refused}");
        assert!(SplitPattern::Custom(long).oniguruma().is_err());
    }
    let refused = splitter(&SplitPattern::Custom("(".repeat(1 << 12))).map(drop).expect_err("no expression");
    assert!(refused.to_string().contains("(((") && refused.to_string().len() < 300, "{refused}");
    for regex in
        [r"\$|[$^]+|\^\}+|.", r"(?>\p{N}{1,3})|\p{L}+|[^\p{L}]", r"[]^$]+|[^]$]", r"[:a]|(?i:m)|(?=s)."]
            .into_iter()
            .chain([
                r"(?i:'(?:[sdmt]|ll|ve|re))|.",
                r"ss|ß|ﬁ",
                r"\p{N}{1,3}?|a{2}|a{2,}|a{x",
                r"[a-]|[-~]|\x7F|\x{80}",
                r"(?#^$)a|.",
                r"(?#x)\s|.",
                r"(?i)a|b",
                r"a(?i:'s|'re)?|[\p{Lu}\p{Lt}]+|\u00DF|[À-ÿ]",
                r"[\p{Han}]+|[\p{L}\p{M}&&[^\p{Han}]]++|\P{^N}",
                r"(?i:[^\s\d'a-z\x00-\x40-])(?-i:\p{Ll})|s(?i:s)s",
                r"a{2}a{1,2}?|a++|a*?b",
                r"(a)\1|(b)?(?(2)c|d)",
                r"(?<a>x)\k<a>|(?<b>y)?(?(<b>)c|d)",
                r"(?:a|b?)+.|(?:(?:a?|b)c)+.|(?:a?|b)?c|(?:(?=a|)b)+.",
                r"(?<!a|bc)d|(?<=\s)(?:e|f+)|(?<=\Ag)h",
            ])
    {
        assert_eq!(SplitPattern::from_oniguruma(regex).ok(), Some(SplitPattern::Custom(regex.to_owned())));
    }
    let [(written, false)] = *SplitPattern::Named(Named::Cl100k).oniguruma().expect("it can be written")
    else {
        panic!("one expression")
    };
    let written = custom(written);
    for text in ["12345 a  \n ", "a \n  b\n", "\n\n", "x  \n"] {
        let text = text.as_bytes();
        assert_eq!(pretokens(written.as_ref(), text), pretokens(named(Named::Cl100k).as_ref(), text));
    }
}

/// The engine's optimizer changes the meaning of these expressions.
#[test]
fn repetitions_take_what_they_say() {
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
        assert_eq!(found, expected.iter().map(|pretoken| pretoken.as_bytes()).collect::<Vec<_>>(), "{regex}");
    }
}

#[test]
fn where_a_search_began_matters_only_to_who_asks_for_it() {
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
fn the_end_of_a_line_is_oniguruma_s() {
    let pattern = SplitPattern::from_oniguruma(r"\s+$").expect("translated");
    let written = pattern.oniguruma().expect("it means the same there");
    assert_eq!(written, [(r"\s+(?m:$)", false)]);
    assert_eq!(SplitPattern::from_oniguruma(written[0].0).ok(), Some(pattern.clone()));
    let splitter = splitter(&pattern).expect("a regular expression");
    assert_eq!(pretokens(splitter.as_ref(), b"a \n b  "), [&b"a"[..], b" ", b"\n b", b"  "]);
}

#[test]
fn steps_are_those_of_a_known_pattern_or_cut_one_after_the_other() {
    for named in Named::ALL {
        let mut steps: Vec<SplitStep> = named.steps().iter().map(|regex| step(regex, false)).collect();
        assert_eq!(SplitPattern::from_steps(steps.clone()), SplitPattern::Named(named));
        let escaped = named.steps().iter().map(|step| step.replace('\r', r"\r").replace('\n', r"\n"));
        let escaped = escaped.map(|regex| step(&regex, false)).collect();
        assert_eq!(SplitPattern::from_steps(escaped), SplitPattern::Named(named));
        steps[0].covers = true;
        let first_drops = SplitPattern::from_steps(steps.clone());
        assert!(
            steps.len() == 1 || first_drops != SplitPattern::Named(named),
            "the first step leaves something out"
        );
        steps[0].covers = false;
        steps.push(step(r"\p{L}", false));
        assert_eq!(SplitPattern::from_steps(steps.clone()), SplitPattern::Steps(steps));
    }
    assert_eq!(SplitPattern::from_steps(Vec::new()), SplitPattern::None);
    let starcoder = SplitPattern::from_steps(vec![step(r"\p{N}", false), step(Named::Gpt2.regex(), false)]);
    assert_eq!(starcoder.to_string(), r"\p{N} then gpt2");
    assert_eq!(starcoder.regex(), None);
    let splitter = splitter(&starcoder).expect("regular expressions");
    let expected: [&[u8]; 7] = [b"a", b" ", b"1", b"2", b" b", b"3", b"\xFF!!"];
    assert_eq!(pretokens(splitter.as_ref(), b"a 12 b3\xFF!!"), expected);
}

#[test]
fn what_would_be_dropped_is_an_error() {
    for regex in [r"\p{L}+| +", r"\p{L}+|\s+(?!\S)|\s+"] {
        let pattern = SplitPattern::from_steps(vec![step(regex, true)]);
        let splitter = splitter(&pattern).expect("a regular expression");
        assert_eq!(pretokens(splitter.as_ref(), b"ab c "), [&b"ab"[..], b" ", b"c", b" "]);
        for (text, left) in [("ab 1", "1"), ("12a", "12"), ("a3b", "3")] {
            let refused = splitter.pretoken_ends(text.as_bytes(), &mut Vec::new()).expect_err(text);
            assert!(refused.to_string().contains(&format!("{regex:?} does not match {left:?}")), "{refused}");
        }
    }
}

#[test]
fn recipes_hold_a_name_or_a_regex() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Recipe {
        split: SplitPattern,
    }
    for (written, pattern) in [
        ("split = \"none\"", SplitPattern::None),
        ("split = \"o200k\"", SplitPattern::Named(Named::O200k)),
        ("split = { regex = '\\w+' }", SplitPattern::Custom(r"\w+".to_owned())),
        ("split = { regex = '(?s).+' }", SplitPattern::None),
    ] {
        let recipe: Recipe = toml::from_str(written).expect(written);
        assert_eq!(recipe.split, pattern);
        let json = serde_json::to_string(&recipe).expect("patterns serialise");
        let again: Recipe = serde_json::from_str(&json).expect("and read back");
        assert_eq!(again.split, pattern);
    }
    for wrong in [
        "split = \"gpt\"",
        "split = 3",
        "split = {}",
        "split = { regex = 'a', x = 1 }",
        "split = { re = 'a' }",
    ] {
        assert!(toml::from_str::<Recipe>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn steps_are_written_and_read_back() {
    let steps = vec![step(r"\p{N}", true), step(Named::Gpt2.regex(), false), step(r"\p{L}", false)];
    let pattern = SplitPattern::from_steps(steps);
    let json = serde_json::to_string(&pattern).expect("patterns serialise");
    assert_eq!(serde_json::from_str::<SplitPattern>(&json).expect("and read back"), pattern, "{json}");
    for wrong in ["[]", "[1]", r#"[{"pattern":"gpt2"}]"#, r#"[{"pattern":"gpt2","covers":false,"x":1}]"#] {
        assert!(serde_json::from_str::<SplitPattern>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn no_steps_cut_nothing() {
    let splitter = splitter(&SplitPattern::Steps(Vec::new())).expect("there is no regular expression");
    assert_eq!(pretokens(splitter.as_ref(), b"a b"), [b"a b"]);
}

#[test]
fn a_custom_pattern_cuts_matches_and_what_is_between_them() {
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
        assert_eq!(found, expected.iter().map(|pretoken| pretoken.as_bytes()).collect::<Vec<_>>(), "{regex}");
    }
    let replacement = custom("\u{FFFD}");
    assert_eq!(pretokens(replacement.as_ref(), b"a\xF0\x9Fb\xFF"), [&b"a"[..], b"\xF0\x9F", b"b", b"\xFF"]);
}

#[test]
fn wrong_patterns_are_refused() {
    for regex in ["(", "a*", "", r"[\p{Xyz}]"] {
        let refused = splitter(&SplitPattern::Custom(regex.to_owned())).err().expect(regex);
        assert_eq!(refused.kind(), ErrorKind::Usage, "{regex}");
    }
}

#[test]
fn a_text_whose_places_need_more_than_32_bits_is_refused() {
    // The operating system provides no memory for zeros that are never read.
    let text = vec![0; 1 << 32];
    for splitter in [splitter(&SplitPattern::None).expect("no pattern"), named(Named::Gpt2), custom("a")] {
        let refused = splitter.pretoken_ends(&text, &mut Vec::new()).expect_err("too long");
        assert_eq!(refused.kind(), ErrorKind::Failed);
    }
}

/// The expressions must match every text, because tiktoken drops unmatched text.
#[test]
fn the_expressions_leave_nothing_over() {
    let text: String = ('\0'..=char::MAX).collect();
    for pattern in Named::ALL {
        let regex = fancy_regex::Regex::new(pattern.regex()).expect("named patterns are right");
        let mut end = 0;
        for found in regex.find_iter(&text) {
            let found = found.expect("these patterns do not backtrack far");
            assert_eq!(found.start(), end, "{pattern:?}");
            end = found.end();
        }
        assert_eq!(end, text.len(), "{pattern:?}");
    }
}
