//! Preparation of a text before it is split: finds added tokens and normalizes the text between them, in the same
//! order as Hugging Face's tokenizers.

use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};
use std::str::from_utf8;
use std::sync::LazyLock;

use super::config::SpecialPolicy;
use super::fault::Fault;
use super::normal::Normalizers;
use crate::base::int::to_usize;
use crate::error::{Error, ErrorKind, Result};
use crate::split::{Segment, SpecialFinder, class_ranges};
use crate::vocab::{AddedToken, TextRules, Vocabulary};

/// How texts are prepared.
pub(crate) struct Preparation {
    /// Tokens that are searched for first, in the original text.
    early: Finder,
    /// Tokens that are searched for in the remaining text, after it is normalized.
    late: Finder,
    normalizers: Normalizers,
    /// Whether a space is put before text that does not begin with one.
    prefix_space: bool,
}

/// A part of a prepared text.
pub(crate) enum Part<'a> {
    /// Text to split and encode; never empty.
    Text(&'a [u8]),
    /// An added token.
    Token(&'a AddedToken),
}

type Take<'a> = &'a mut dyn FnMut(Part<'_>) -> Result<()>;

impl Preparation {
    /// The preparation that a vocabulary asks for; `None` if texts stay as they are.
    ///
    /// # Errors
    /// A normalizer cannot be compiled, or the added tokens are too many to search for.
    pub(crate) fn new(vocabulary: &Vocabulary, policy: SpecialPolicy) -> Result<Option<Preparation>> {
        let rules = vocabulary.rules();
        let found = |token: &AddedToken| !token.special || policy != SpecialPolicy::Text;
        let any = vocabulary.added().iter().any(found);
        if !any && *rules == TextRules::default() {
            return Ok(None);
        }
        let normalizers = Normalizers::new(&rules.normalizers)?;
        let none = Normalizers::default();
        let finder = |late: bool| {
            let tokens = vocabulary.added().iter().filter(|token| any && token.normalized == late);
            Finder::new(tokens.cloned().collect(), policy, if late { &normalizers } else { &none })
        };
        let (early, late) = (finder(false)?, finder(true)?);
        Ok(Some(Preparation { early, late, normalizers, prefix_space: rules.prefix_space }))
    }

    /// Passes the parts of a text to `take`, in order.
    ///
    /// # Errors
    /// - Errors that `take` returns.
    /// - The text spells a special token, and the policy forbids that.
    /// - Normalizing makes the text too long, or an expression takes too many steps.
    pub(crate) fn each(&self, text: &[u8], take: Take<'_>) -> Result<()> {
        self.early.each(text, Some(0), &mut |part| match part {
            Found::Token(token) => take(Part::Token(token)),
            Found::Text(range) => {
                let start = self.normalizers.is_empty().then_some(range.start);
                let normal = self.normalizers.apply(&text[range])?;
                self.late.each(&normal, start, &mut |part| match part {
                    Found::Token(token) => take(Part::Token(token)),
                    Found::Text(range) => take(Part::Text(&self.spaced(&normal[range]))),
                })
            }
        })
    }

    /// Whether preparation leaves a text unchanged and finds no token in it. May return `false` for a text that
    /// would not change, if a quick test cannot decide.
    pub(super) fn leaves(&self, text: &[u8]) -> bool {
        let finds_none =
            |finder: &Finder| finder.search.segments(text).all(|part| matches!(part, Segment::Text(_)));
        let spaced = !self.prefix_space || text.starts_with(b" ");
        spaced && finds_none(&self.early) && finds_none(&self.late) && self.normalizers.leaves(text)
    }

    /// The text, with a space before it if the rules ask for one.
    fn spaced<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        if self.prefix_space && !text.starts_with(b" ") {
            Cow::Owned([b" ", text].concat())
        } else {
            Cow::Borrowed(text)
        }
    }
}

/// Finds added tokens in text. If several overlap, the leftmost wins, then the longest.
struct Finder {
    search: SpecialFinder,
    tokens: Vec<AddedToken>,
    policy: SpecialPolicy,
}

enum Found<'a> {
    Text(Range<usize>),
    Token(&'a AddedToken),
}

impl Finder {
    /// Searches for the tokens' texts as `normalizers` transform them.
    fn new(tokens: Vec<AddedToken>, policy: SpecialPolicy, normalizers: &Normalizers) -> Result<Finder> {
        let spelled = |token: &AddedToken| normalizers.apply(token.text.as_bytes()).map(Cow::into_owned);
        let texts: Vec<Vec<u8>> = tokens.iter().map(spelled).collect::<Result<_>>()?;
        Ok(Finder { search: SpecialFinder::new(&texts)?, tokens, policy })
    }

    /// Passes tokens and the text between them to `take`. `start` is the position of the text in its document, or
    /// `None` if the text was normalized.
    ///
    /// Two rules follow Hugging Face's tokenizers:
    ///
    /// - A match that does not count (for example, a special token under the policy that treats it as text) still
    ///   hides the matches that overlap it.
    /// - A token with `rstrip` takes the white space after it, and so may cover part of the next match. That
    ///   match is still a token, unless it has `lstrip` and nothing is left of it.
    fn each(
        &self,
        text: &[u8],
        start: Option<usize>,
        take: &mut dyn FnMut(Found<'_>) -> Result<()>,
    ) -> Result<()> {
        // The end of the white space that was examined last, so that a long run is examined only once.
        let (mut done, mut white) = (0, 0);
        for segment in self.search.segments(text) {
            let Segment::Special(which, found) = segment else { continue };
            let token = &self.tokens[which];
            if !self.counts(token, text, &found) {
                continue;
            }
            if token.special && self.policy == SpecialPolicy::Forbid {
                return Err(forbidden(token, start.map(|start| start + found.start)));
            }
            let mut right = found.end;
            if token.rstrip {
                if white < found.end {
                    white = found.end + white_end(&text[found.end..]);
                }
                right = white;
            }
            // The token before has taken all of this match, which is white space.
            if token.lstrip && found.start < done && right <= done {
                continue;
            }
            let left = match text.get(done..found.start) {
                Some(before) if token.lstrip => done + white_start(before),
                _ => found.start,
            };
            if done < left {
                take(Found::Text(done..left))?;
            }
            take(Found::Token(token))?;
            done = right;
        }
        if done < text.len() { take(Found::Text(done..text.len())) } else { Ok(()) }
    }

    /// Whether a match counts as a token: not as text by policy, and not within a word if it must be a single
    /// word.
    fn counts(&self, token: &AddedToken, text: &[u8], found: &Range<usize>) -> bool {
        if token.special && self.policy == SpecialPolicy::Text {
            return false;
        }
        let inside = |neighbour: Option<char>| neighbour.is_some_and(is_word);
        !token.single_word || !inside(last(&text[..found.start])) && !inside(first(&text[found.end..]))
    }
}

/// The error for a special token in a text.
fn forbidden(token: &AddedToken, offset: Option<usize>) -> Error {
    let text = token.text.clone();
    let fault = match offset {
        Some(offset) => Fault::SpecialInText { text, offset },
        None => Fault::SpecialInNormal { text },
    };
    Error::new(ErrorKind::Failed, fault).with_help(
        "encode special tokens in documents as text (`--special text`) or as tokens (`--special allow`), or leave the document out",
    )
}

/// The start of the white space at the end of a text.
pub(super) fn white_start(text: &[u8]) -> usize {
    let mut start = text.len();
    while let Some(white) = last(&text[..start]).filter(|last| last.is_whitespace()) {
        start -= white.len_utf8();
    }
    start
}

/// The end of the white space at the start of a text.
pub(super) fn white_end(text: &[u8]) -> usize {
    let mut end = 0;
    while let Some(white) = first(&text[end..]).filter(|first| first.is_whitespace()) {
        end += white.len_utf8();
    }
    end
}

/// The first character, if the text begins with valid UTF-8.
fn first(text: &[u8]) -> Option<char> {
    (1..=text.len().min(4)).find_map(|length| from_utf8(&text[..length]).ok()?.chars().next())
}

/// The last character, if the text ends with valid UTF-8.
fn last(text: &[u8]) -> Option<char> {
    (1..=text.len().min(4)).find_map(|length| from_utf8(&text[text.len() - length..]).ok()?.chars().next())
}

/// Whether a character belongs to the class `\w`.
fn is_word(character: char) -> bool {
    static WORD: LazyLock<Vec<RangeInclusive<usize>>> = LazyLock::new(|| class_ranges(r"\w"));
    let code = to_usize(u32::from(character));
    let before = WORD.partition_point(|range| *range.end() < code);
    WORD.get(before).is_some_and(|range| range.contains(&code))
}
