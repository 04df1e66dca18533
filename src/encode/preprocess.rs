//! Preparation of a text before it is split: finds added tokens and normalizes the text between them, in the same
//! order as Hugging Face's tokenizers.
//!
//! The normalizers are Unicode forms, lowercasing, removal of accents, stripping, prepending and replacing. A list
//! of them, compiled once per vocabulary, is [`NormalizerSteps`].

use std::borrow::Cow;
use std::iter::once;
use std::ops::{Range, RangeInclusive};
use std::str::from_utf8;

use memchr::memmem;
use serde::{Deserialize, Serialize};
use unicode_normalization_alignments::char::{canonical_combining_class, is_combining_mark};
use unicode_normalization_alignments::{
    IsNormalized, UnicodeNormalization, is_nfc_quick, is_nfd_quick, is_nfkc_quick, is_nfkd_quick,
};

use crate::base::int::to_usize;
use crate::base::lazy::Lazy;
use crate::error::{Error, Result};
use crate::split::{Matcher, Segment, SpecialFinder, class_ranges};
use crate::vocab::{AddedToken, Normalizer, ReplacePattern, TextRules, Vocabulary};

/// What to do with text that spells a special token.
///
/// This concerns special tokens only. Added tokens that are not special are ordinary vocabulary and are found
/// under every policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SpecialPolicy {
    /// Encode it like any other text, so that a corpus cannot inject control tokens.
    #[default]
    Text,
    /// Emit the special token. If several overlap, the leftmost wins, then the longest. Each text between two
    /// special tokens is split and encoded by itself.
    Allow,
    /// Return an error that names the token and its position.
    Forbid,
}

impl SpecialPolicy {
    /// The policy's name in flags, recipes and files.
    pub fn name(self) -> &'static str {
        match self {
            SpecialPolicy::Text => "text",
            SpecialPolicy::Allow => "allow",
            SpecialPolicy::Forbid => "forbid",
        }
    }
}

/// How texts are prepared.
pub(crate) struct Preprocessor {
    /// Tokens that are searched for first, in the original text.
    early: AddedTokenFinder,
    /// Tokens that are searched for in the remaining text, after it is normalized.
    late: AddedTokenFinder,
    /// What changes the text between early tokens, before late ones are searched for.
    normalizers: NormalizerSteps,
    /// Whether a space is put before text that does not begin with one.
    prefix_space: bool,
}

/// A part of a prepared text.
pub(crate) enum TextOrToken<'a> {
    /// Text to split and encode; never empty.
    Text(&'a [u8]),
    /// An added token.
    Token(&'a AddedToken),
}

/// Receives the parts of a text in order. An error ends the preparation of the text.
type TakePart<'a> = &'a mut dyn FnMut(TextOrToken<'_>) -> Result<()>;

impl Preprocessor {
    /// The preparation that a vocabulary asks for; `None` if texts stay as they are.
    ///
    /// # Errors
    /// A normalizer cannot be compiled, or the added tokens are too many to search for.
    pub(crate) fn new(vocabulary: &Vocabulary, policy: SpecialPolicy) -> Result<Option<Preprocessor>> {
        let rules = vocabulary.rules();
        let found = |token: &AddedToken| !token.special || policy != SpecialPolicy::Text;
        let any = vocabulary.added().iter().any(found);
        if !any && *rules == TextRules::default() {
            return Ok(None);
        }
        let normalizers = NormalizerSteps::new(&rules.normalizers)?;
        let none = NormalizerSteps::default();
        let finder = |late: bool| {
            let tokens = vocabulary.added().iter().filter(|token| any && token.normalized == late);
            AddedTokenFinder::new(tokens.cloned().collect(), policy, if late { &normalizers } else { &none })
        };
        let (early, late) = (finder(false)?, finder(true)?);
        Ok(Some(Preprocessor { early, late, normalizers, prefix_space: rules.prefix_space }))
    }

    /// Passes the parts of a text to `take`, in order.
    ///
    /// # Errors
    /// - Errors that `take` returns.
    /// - The text spells a special token, and the policy forbids that.
    /// - Normalizing makes the text too long, or an expression takes too many steps.
    pub(crate) fn each(&self, text: &[u8], take: TakePart<'_>) -> Result<()> {
        self.early.each(text, Some(0), &mut |part| match part {
            RangeOrToken::Token(token) => take(TextOrToken::Token(token)),
            RangeOrToken::Text(range) => {
                let start = self.normalizers.0.is_empty().then_some(range.start);
                let normal = self.normalizers.apply(&text[range])?;
                self.late.each(&normal, start, &mut |part| match part {
                    RangeOrToken::Token(token) => take(TextOrToken::Token(token)),
                    RangeOrToken::Text(range) => take(TextOrToken::Text(&self.spaced(&normal[range]))),
                })
            }
        })
    }

    /// Whether preparation leaves a text unchanged and finds no token in it. May return `false` for a text that
    /// would not change, if a quick test cannot decide.
    pub(super) fn leaves_unchanged(&self, text: &[u8]) -> bool {
        let finds_none = |finder: &AddedTokenFinder| {
            finder.search.segments(text).all(|part| matches!(part, Segment::Text(_)))
        };
        let spaced = !self.prefix_space || text.starts_with(b" ");
        spaced && finds_none(&self.early) && finds_none(&self.late) && self.normalizers.leaves_unchanged(text)
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
struct AddedTokenFinder {
    /// Finds the texts of `tokens`, in the same order, as the normalizers change them.
    search: SpecialFinder,
    /// The tokens to find. A match gives an index into this list.
    tokens: Vec<AddedToken>,
    /// What a match of a special token means. Other tokens count under every policy.
    policy: SpecialPolicy,
}

/// A part of a text that a finder has searched.
enum RangeOrToken<'a> {
    /// The bytes between two tokens, never empty.
    Text(Range<usize>),
    /// A token. The bytes that it covers are not passed on.
    Token(&'a AddedToken),
}

impl AddedTokenFinder {
    /// Searches for the tokens' texts as `normalizers` transform them.
    fn new(
        tokens: Vec<AddedToken>,
        policy: SpecialPolicy,
        normalizers: &NormalizerSteps,
    ) -> Result<AddedTokenFinder> {
        let spelled = |token: &AddedToken| normalizers.apply(token.text.as_bytes()).map(Cow::into_owned);
        let texts: Vec<Vec<u8>> = tokens.iter().map(spelled).collect::<Result<_>>()?;
        Ok(AddedTokenFinder { search: SpecialFinder::new(&texts)?, tokens, policy })
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
        take: &mut dyn FnMut(RangeOrToken<'_>) -> Result<()>,
    ) -> Result<()> {
        // The end of the white space that was examined last, so that a long run is examined only once.
        let (mut done, mut white) = (0, 0);
        for segment in self.search.segments(text) {
            let Segment::Special(which, found) = segment else { continue };
            let token = &self.tokens[which];
            if !self.is_token(token, text, &found) {
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
                take(RangeOrToken::Text(done..left))?;
            }
            take(RangeOrToken::Token(token))?;
            done = right;
        }
        if done < text.len() { take(RangeOrToken::Text(done..text.len())) } else { Ok(()) }
    }

    /// Whether a match counts as a token: not as text by policy, and not within a word if it must be a single
    /// word.
    fn is_token(&self, token: &AddedToken, text: &[u8], found: &Range<usize>) -> bool {
        if token.special && self.policy == SpecialPolicy::Text {
            return false;
        }
        let inside = |neighbour: Option<char>| neighbour.is_some_and(is_word);
        !token.single_word || !inside(last(&text[..found.start])) && !inside(first(&text[found.end..]))
    }
}

/// The error for a special token in a text.
fn forbidden(token: &AddedToken, offset: Option<usize>) -> Error {
    let text = &token.text;
    Error::failed(match offset {
        Some(offset) => format!("the text contains the special token {text:?} at byte {offset}"),
        None => format!("the normalized text contains the special token {text:?}"),
    })
    .with_help(
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
    /// The ranges of code points of `\w`, ascending. They are computed at first use.
    static WORD: Lazy<Vec<RangeInclusive<usize>>> = Lazy::new(|| class_ranges(r"\w"));
    let code = to_usize(u32::from(character));
    let before = WORD.partition_point(|range| *range.end() < code);
    WORD.get(before).is_some_and(|range| range.contains(&code))
}

/// Lowest lead byte (0xCC) of the characters from U+0300 on. Characters below U+0300 are in form C whatever
/// characters are next to them, and all their bytes are lower.
const FIRST: u8 = 0xCC;

/// For each character below U+30000, whether it [is stable](is_stable). Higher ones are rare and tested one by one.
static STABLE: Lazy<Vec<bool>> =
    Lazy::new(|| (0..0x3_0000).map(|code| char::from_u32(code).is_some_and(is_stable)).collect());

/// Maximum number of bytes of a normalized text for each byte of the text, besides [`ROOM`]. Without a limit, replacing
/// strings by longer ones again and again could fill the memory.
const GROWTH: usize = 64;
/// Bytes (1 MiB) that a normalized text may have however short the text was, since a replacement can be long.
const ROOM: usize = 1 << 20;

/// The normalizers of a vocabulary, compiled.
#[derive(Default)]
pub(super) struct NormalizerSteps(Vec<NormalizerStep>);

/// One normalizer. Its string or regular expression, if any, is compiled.
enum NormalizerStep {
    /// Brings text into a Unicode normalization form.
    Form(Form),
    /// Replaces each character by its lowercase mapping, which may be several characters.
    Lowercase,
    /// Removes combining marks. Composed characters keep their accents unless a form has decomposed them before.
    StripAccents,
    /// Removes the white space at the start (`left`), at the end (`right`), or at both.
    Strip { left: bool, right: bool },
    /// Puts these bytes before a text that is not empty.
    Prepend(Vec<u8>),
    /// Replaces each occurrence of a string, from left to right without overlap, by `content`.
    ReplaceString { finder: Box<memmem::Finder<'static>>, content: Vec<u8> },
    /// Replaces each match of a regular expression by `content`. Matches never include invalid UTF-8.
    ReplaceMatches { matcher: Box<Matcher>, content: Vec<u8> },
}

/// Unicode normalization forms. The tables are those of Unicode 9, as in Hugging Face's tokenizers: combining
/// marks that were added later keep their order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Canonical composition.
    C,
    /// Canonical decomposition.
    D,
    /// Compatibility decomposition, then canonical composition.
    Kc,
    /// Compatibility decomposition.
    Kd,
}

impl NormalizerSteps {
    /// Compiles normalizers, in the order in which they are applied.
    ///
    /// # Errors
    /// A regular expression is invalid, or means something else here than in Hugging Face's engine.
    pub(super) fn new(normalizers: &[Normalizer]) -> Result<NormalizerSteps> {
        normalizers.iter().map(NormalizerStep::new).collect::<Result<_>>().map(NormalizerSteps)
    }

    /// Applies all normalizers to a text, one after the other. Borrows the text if none changes it.
    ///
    /// # Errors
    /// The result would exceed `GROWTH` and `ROOM`, or a regular expression takes too many steps.
    pub(super) fn apply<'t>(&self, text: &'t [u8]) -> Result<Cow<'t, [u8]>> {
        let max_bytes = text.len().saturating_mul(GROWTH).saturating_add(ROOM);
        let mut normal = Cow::Borrowed(text);
        for step in &self.0 {
            if !step.leaves_unchanged(&normal) {
                let changed = step.apply(&normal, max_bytes)?;
                if changed.len() > max_bytes {
                    return Err(grows(text.len(), max_bytes));
                }
                normal = Cow::Owned(changed);
            }
        }
        Ok(normal)
    }

    /// Whether no normalizer changes a text. May return `false` for a text that does not change, if a quick test
    /// cannot decide.
    pub(super) fn leaves_unchanged(&self, text: &[u8]) -> bool {
        self.0.iter().all(|step| step.leaves_unchanged(text))
    }
}

/// The error for a text of `bytes` bytes that would have more than `max_bytes`.
fn grows(bytes: usize, max_bytes: usize) -> Error {
    Error::failed(format!("normalizing a text of {bytes} bytes gives more than {max_bytes} bytes"))
        .with_help("leave the document out")
}

impl NormalizerStep {
    /// Compiles one normalizer.
    ///
    /// # Errors
    /// Its regular expression is invalid, or means something else here than in Hugging Face's engine.
    fn new(normalizer: &Normalizer) -> Result<NormalizerStep> {
        Ok(match normalizer {
            Normalizer::Nfc => NormalizerStep::Form(Form::C),
            Normalizer::Nfd => NormalizerStep::Form(Form::D),
            Normalizer::Nfkc => NormalizerStep::Form(Form::Kc),
            Normalizer::Nfkd => NormalizerStep::Form(Form::Kd),
            Normalizer::Lowercase => NormalizerStep::Lowercase,
            Normalizer::StripAccents => NormalizerStep::StripAccents,
            Normalizer::Strip { strip_left, strip_right } => {
                NormalizerStep::Strip { left: *strip_left, right: *strip_right }
            }
            Normalizer::Prepend { prepend } => NormalizerStep::Prepend(prepend.clone().into_bytes()),
            Normalizer::Replace { pattern: ReplacePattern::String(text), content } => {
                NormalizerStep::ReplaceString {
                    finder: Box::new(memmem::Finder::new(text.as_bytes()).into_owned()),
                    content: content.clone().into_bytes(),
                }
            }
            Normalizer::Replace { pattern: ReplacePattern::Regex(regex), content } => {
                NormalizerStep::ReplaceMatches {
                    matcher: Box::new(Matcher::from_oniguruma(regex)?),
                    content: content.clone().into_bytes(),
                }
            }
        })
    }

    /// Whether this normalizer leaves a text unchanged. May return `false` for a text that it does not change.
    fn leaves_unchanged(&self, text: &[u8]) -> bool {
        let all = |test: fn(&str) -> bool| text.utf8_chunks().all(|chunk| test(chunk.valid()));
        match self {
            NormalizerStep::Form(Form::C) => all(is_nfc),
            NormalizerStep::Form(Form::D) => {
                all(|text| text.is_ascii() || is_nfd_quick(text.chars()) == IsNormalized::Yes)
            }
            NormalizerStep::Form(Form::Kc) => {
                all(|text| text.is_ascii() || is_nfkc_quick(text.chars()) == IsNormalized::Yes)
            }
            NormalizerStep::Form(Form::Kd) => {
                all(|text| text.is_ascii() || is_nfkd_quick(text.chars()) == IsNormalized::Yes)
            }
            NormalizerStep::Lowercase => {
                all(|text| text.chars().all(|character| character.to_lowercase().eq(once(character))))
            }
            NormalizerStep::StripAccents => all(|text| !text.chars().any(is_combining_mark)),
            NormalizerStep::Strip { left, right } => {
                !(*left && white_end(text) > 0 || *right && white_start(text) < text.len())
            }
            NormalizerStep::Prepend(prepend) => text.is_empty() || prepend.is_empty(),
            NormalizerStep::ReplaceString { finder, .. } => finder.find(text).is_none(),
            NormalizerStep::ReplaceMatches { matcher, .. } => {
                text.utf8_chunks().all(|chunk| matcher.matches_nothing_of(chunk.valid()))
            }
        }
    }

    /// Applies this normalizer. Replacing stops early once the result has more than `max_bytes` bytes, which the
    /// caller reports as an error.
    fn apply(&self, text: &[u8], max_bytes: usize) -> Result<Vec<u8>> {
        match self {
            NormalizerStep::Form(form) => Ok(by_chunks(text, |text, normal| form.push(text, normal))),
            NormalizerStep::Lowercase => Ok(by_chunks(text, |text, normal| {
                push_all(normal, text.chars().flat_map(char::to_lowercase));
            })),
            NormalizerStep::StripAccents => Ok(by_chunks(text, |text, normal| {
                push_all(normal, text.chars().filter(|character| !is_combining_mark(*character)));
            })),
            NormalizerStep::Strip { left, right } => {
                let start = if *left { white_end(text) } else { 0 };
                let end = if *right { white_start(text).max(start) } else { text.len() };
                Ok(text[start..end].to_vec())
            }
            NormalizerStep::Prepend(prepend) => Ok([prepend, text].concat()),
            NormalizerStep::ReplaceString { finder, content } => {
                let found = finder.find_iter(text).map(|start| start..start + finder.needle().len());
                let mut normal = Vec::with_capacity(text.len());
                let mut done = 0;
                for found in found {
                    normal.extend_from_slice(&text[done..found.start]);
                    normal.extend_from_slice(content);
                    done = found.end;
                    if normal.len() > max_bytes {
                        return Ok(normal);
                    }
                }
                normal.extend_from_slice(&text[done..]);
                Ok(normal)
            }
            NormalizerStep::ReplaceMatches { matcher, content } => {
                let mut normal = Vec::with_capacity(text.len());
                for chunk in text.utf8_chunks() {
                    let (valid, mut done) = (chunk.valid(), 0);
                    matcher.each(valid, |found| {
                        normal.extend_from_slice(&valid.as_bytes()[done..found.start]);
                        normal.extend_from_slice(content);
                        done = found.end;
                        normal.len() <= max_bytes
                    })?;
                    normal.extend_from_slice(&valid.as_bytes()[done..]);
                    normal.extend_from_slice(chunk.invalid());
                }
                Ok(normal)
            }
        }
    }
}

impl Form {
    /// Appends `text` in this form to `normal`.
    fn push(self, text: &str, normal: &mut Vec<u8>) {
        match self {
            Form::C => push_all(normal, text.nfc().map(|(character, _)| character)),
            Form::D => push_all(normal, text.nfd().map(|(character, _)| character)),
            Form::Kc => push_all(normal, text.nfkc().map(|(character, _)| character)),
            Form::Kd => push_all(normal, text.nfkd().map(|(character, _)| character)),
        }
    }
}

/// Applies `push` to each segment of valid UTF-8. Invalid bytes are kept as they are, and the text on either side
/// of them is normalized separately, as if they were a replacement character.
fn by_chunks(text: &[u8], push: impl Fn(&str, &mut Vec<u8>)) -> Vec<u8> {
    let mut normal = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        push(chunk.valid(), &mut normal);
        normal.extend_from_slice(chunk.invalid());
    }
    normal
}

/// Appends characters in UTF-8.
fn push_all(normal: &mut Vec<u8>, characters: impl Iterator<Item = char>) {
    let mut buffer = [0; 4];
    characters.for_each(|character| normal.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes()));
}

/// Whether a text is in form C.
fn is_nfc(text: &str) -> bool {
    all_stable(text) || is_nfc_quick(text.chars()) == IsNormalized::Yes
}

/// Whether a text consists of [stable](is_stable) characters.
///
/// Such characters are in form C whatever their order. Skips bytes below [`FIRST`], so that ASCII and Latin text is
/// passed over quickly.
fn all_stable(text: &str) -> bool {
    let mut rest = text;
    while let Some(skipped) = rest.bytes().position(|byte| byte >= FIRST) {
        let mut characters = rest[skipped..].chars();
        let Some(character) = characters.next() else { break };
        let known = STABLE.get(to_usize(u32::from(character))).copied();
        if !known.unwrap_or_else(|| is_stable(character)) {
            return false;
        }
        rest = characters.as_str();
    }
    true
}

/// Whether a character, among stable ones only, keeps its code point and its position in form C: its combining
/// class is 0 and the quick check says yes.
fn is_stable(character: char) -> bool {
    canonical_combining_class(character) == 0 && is_nfc_quick(once(character)) == IsNormalized::Yes
}
