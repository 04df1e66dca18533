use super::agreement::{REPRESENTATIVES, all_strings};
use super::*;

/// Compares splits by masks at the edges of blocks with the walk, which has no blocks.
struct Edges {
    scanners: Vec<(Named, Instructions, Box<dyn Splitter>)>,
    walks: Vec<(Named, Box<dyn Splitter>)>,
}

impl Edges {
    fn new() -> Edges {
        let walks = Named::ALL.map(|name| (name, splitter_by(name, Instructions::Walk))).into();
        let here = Instructions::ALL.into_iter().filter(|by| by.are_here() && *by != Instructions::Walk);
        let all = here.flat_map(|by| Named::ALL.map(|name| (name, by, splitter_by(name, by))));
        Edges { scanners: all.collect(), walks }
    }

    fn agree(&self, text: &[u8]) {
        let mut ends = Vec::new();
        for (pattern, walk) in &self.walks {
            let mut expected = Vec::new();
            walk.pretoken_ends(text, &mut expected).expect("any text");
            for (_, by, scanner) in self.scanners.iter().filter(|(name, ..)| name == pattern) {
                ends.clear();
                scanner.pretoken_ends(text, &mut ends).expect("any text");
                assert_eq!(ends, expected, "{pattern:?} by {by:?} of {:?}", String::from_utf8_lossy(text));
            }
        }
    }
}

const FEW: [&str; 12] = ["a", "B", "l", "L", "漢", "\u{301}", " ", "\n", "!", "'", "1", "/"];

#[test]
fn short_texts_at_the_edges_of_blocks_are_cut_as_anywhere() {
    let edges = Edges::new();
    for (filler, rest) in [("a", "a"), (" ", "!"), ("!", "a"), ("1", " a"), ("\n", " \n"), ("B", "\u{301}")] {
        for before in 58..64 {
            all_strings(&REPRESENTATIVES, 2, |text| {
                edges.agree(&[filler.repeat(before).as_bytes(), text, rest.as_bytes()].concat());
            });
        }
        for before in [61, 62, 63] {
            all_strings(&FEW, 3, |text| {
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
fn runs_that_end_at_any_place_are_cut_as_anywhere() {
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
fn bytes_that_are_not_text_are_cut_as_anywhere() {
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
