use super::counts::MOST_CODES;
use super::text::Code;

/// A merge as the scan does it: each `left` that `right` follows becomes `made`, and `right` goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) left: Code,
    pub(super) right: Code,
    pub(super) made: Code,
    /// How often the pair occurs, overlapping occurrences counted each.
    pub(super) count: u64,
}

/// So many rules at most are applied in one pass.
pub(super) const MOST_RULES: usize = 32;

/// Stars that fit the two bytes of bits for each code.
pub(super) const MOST_STARS: usize = 16;

/// The merges of one pass over the text. No code is the left one of a rule and the right one of another.
pub(super) struct Rules {
    pub(super) list: Vec<Rule>,
    /// The rules whose two codes are the same.
    pub(super) doubles: Vec<Code>,
    pub(super) stars: Stars,
    /// 1 + the place of each code among the distinct left ones, or 0, and the same for right ones.
    left_places: Box<[u8; MOST_CODES]>,
    right_places: Box<[u8; MOST_CODES]>,
    /// The rule for a left and a right place, or [`NONE`].
    found: [[u8; MOST_RULES + 1]; MOST_RULES + 1],
}

const NONE: u8 = u8::MAX;

impl Rules {
    pub(super) fn new(list: Vec<Rule>) -> Rules {
        let mut rules = Rules {
            doubles: list.iter().filter(|rule| rule.left == rule.right).map(|rule| rule.left).collect(),
            stars: Stars::new(&list),
            left_places: Box::new([0; MOST_CODES]),
            right_places: Box::new([0; MOST_CODES]),
            found: [[NONE; MOST_RULES + 1]; MOST_RULES + 1],
            list,
        };
        let (mut lefts, mut rights) = (0, 0);
        for (number, rule) in (0..).zip(&rules.list) {
            let left = place_in(&mut rules.left_places, rule.left, &mut lefts);
            let right = place_in(&mut rules.right_places, rule.right, &mut rights);
            rules.found[usize::from(left)][usize::from(right)] = number;
        }
        rules
    }

    /// The rule that merges these codes, if any.
    pub(super) fn find(&self, left: Code, right: Code) -> Option<usize> {
        let rule = self.number(left, right);
        (rule != NONE).then_some(usize::from(rule))
    }

    fn number(&self, left: Code, right: Code) -> u8 {
        let left = self.left_places[usize::from(left) % MOST_CODES];
        let right = self.right_places[usize::from(right) % MOST_CODES];
        self.found[usize::from(left)][usize::from(right)]
    }

    /// The rule that merges these codes.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn rule(&self, left: Code, right: Code) -> (usize, &Rule) {
        let number = usize::from(self.number(left, right));
        (number, &self.list[number])
    }
}

fn place_in(places: &mut [u8; MOST_CODES], code: Code, known: &mut u8) -> u8 {
    let place = &mut places[usize::from(code)];
    if *place == 0 {
        *known += 1;
        *place = *known;
    }
    *place
}

/// The rules of two different codes, as bits by which whole blocks of text are looked up at once.
///
/// The pairs are covered by stars: one left code with some right ones, or one right code with some left
/// ones. Each star has a bit; a pair is a rule exactly if some star has its left code on the left and its
/// right code on the right. The codes of a star that are many share their high byte, so that bits for low
/// bytes and bits for high bytes tell exactly which codes are meant.
#[derive(Clone, Debug, Default)]
pub(super) struct Stars {
    /// Up to eight stars each.
    pub(super) sets: Vec<Bits>,
}

/// The bits of up to eight stars.
#[derive(Clone, Debug)]
pub(super) struct Bits {
    pub(super) left: SideBits,
    pub(super) right: SideBits,
}

/// A code is in a star if both its bytes are.
#[derive(Clone, Debug)]
pub(super) struct SideBits {
    pub(super) low: [u8; 256],
    pub(super) high: [u8; 16],
}

impl SideBits {
    const NONE: SideBits = SideBits { low: [0; 256], high: [0; 16] };

    fn add(&mut self, code: Code, bit: u8) {
        let [low, high] = code.to_le_bytes();
        self.low[usize::from(low)] |= bit;
        self.high[usize::from(high)] |= bit;
    }
}

impl Stars {
    fn new(rules: &[Rule]) -> Stars {
        let mut sets = Vec::new();
        for eight in cover(rules).chunks(8) {
            let mut bits = Bits { left: SideBits::NONE, right: SideBits::NONE };
            for (star, bit) in eight.iter().zip((0..8).map(|n| 1 << n)) {
                for &(left, right) in star {
                    bits.left.add(left, bit);
                    bits.right.add(right, bit);
                }
            }
            sets.push(bits);
        }
        Stars { sets }
    }

    /// How many stars these rules need.
    pub(super) fn needed(rules: &[Rule]) -> usize {
        cover(rules).len()
    }
}

/// Stars that cover the pairs of different codes: again and again the one that covers most of the rest.
fn cover(rules: &[Rule]) -> Vec<Vec<(Code, Code)>> {
    let mut rest: Vec<(Code, Code)> =
        rules.iter().map(|rule| (rule.left, rule.right)).filter(|(left, right)| left != right).collect();
    let mut stars = Vec::new();
    while !rest.is_empty() {
        let candidates = rest.iter().flat_map(|&pair| {
            [
                star(&rest, |other| (other.0, other.1 >> 8) == (pair.0, pair.1 >> 8)),
                star(&rest, |other| (other.1, other.0 >> 8) == (pair.1, pair.0 >> 8)),
            ]
        });
        let best = candidates.max_by_key(Vec::len).expect("there is a rest");
        rest.retain(|pair| !best.contains(pair));
        stars.push(best);
    }
    stars
}

fn star(rest: &[(Code, Code)], belongs: impl Fn((Code, Code)) -> bool) -> Vec<(Code, Code)> {
    rest.iter().copied().filter(|&pair| belongs(pair)).collect()
}
