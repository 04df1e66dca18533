//! Normalizers of Hugging Face tokenizers: Unicode forms, lowercasing, stripping, prepending and replacing.

use std::borrow::Cow;
use std::iter::once;
use std::sync::LazyLock;

use memchr::memmem;
use unicode_normalization_alignments::char::{canonical_combining_class, is_combining_mark};
use unicode_normalization_alignments::{
    IsNormalized, UnicodeNormalization, is_nfc_quick, is_nfd_quick, is_nfkc_quick, is_nfkd_quick,
};

use super::fault::Fault;
use super::prepare::{white_end, white_start};
use crate::base::int::to_usize;
use crate::error::{Error, ErrorKind, Result};
use crate::split::Matcher;
use crate::vocab::{Normalizer, ReplacePattern};

/// Lowest lead byte (0xCC) of the characters from U+0300 on. Characters below U+0300 are in form C whatever
/// characters are next to them, and all their bytes are lower.
const FIRST: u8 = 0xCC;

/// For each character below U+30000, whether it [is steady](steady). Higher ones are rare and tested one by one.
static STEADY: LazyLock<Vec<bool>> =
    LazyLock::new(|| (0..0x3_0000).map(|code| char::from_u32(code).is_some_and(steady)).collect());

/// Most bytes of a normalized text: `GROWTH` for each byte of the text, and `ROOM` more. Without a limit,
/// replacing strings by longer ones again and again could fill the memory.
const GROWTH: usize = 64;
const ROOM: usize = 1 << 20;

/// The normalizers of a vocabulary, compiled.
#[derive(Default)]
pub(super) struct Normalizers(Vec<Step>);

enum Step {
    Form(Form),
    Lowercase,
    StripAccents,
    Strip { left: bool, right: bool },
    Prepend(Vec<u8>),
    ReplaceString { finder: Box<memmem::Finder<'static>>, content: Vec<u8> },
    ReplaceMatches { matcher: Box<Matcher>, content: Vec<u8> },
}

/// Unicode normalization forms. The tables are those of Unicode 9, as in Hugging Face's tokenizers: combining
/// marks that were added later keep their order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    C,
    D,
    Kc,
    Kd,
}

impl Normalizers {
    /// Compiles normalizers, in the order in which they are applied.
    ///
    /// # Errors
    /// A regular expression is invalid, or means something else here than in Hugging Face's engine.
    pub(super) fn new(normalizers: &[Normalizer]) -> Result<Normalizers> {
        normalizers.iter().map(Step::new).collect::<Result<_>>().map(Normalizers)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Applies all normalizers to a text, one after the other. Borrows the text if none changes it.
    ///
    /// # Errors
    /// The result would exceed `GROWTH` and `ROOM`, or a regular expression takes too many steps.
    pub(super) fn apply<'t>(&self, text: &'t [u8]) -> Result<Cow<'t, [u8]>> {
        let most = text.len().saturating_mul(GROWTH).saturating_add(ROOM);
        let mut normal = Cow::Borrowed(text);
        for step in &self.0 {
            if !step.leaves(&normal) {
                let changed = step.apply(&normal, most)?;
                if changed.len() > most {
                    return Err(grows(text.len(), most));
                }
                normal = Cow::Owned(changed);
            }
        }
        Ok(normal)
    }

    /// Whether no normalizer changes a text. May return `false` for a text that does not change, if a quick test
    /// cannot decide.
    pub(super) fn leaves(&self, text: &[u8]) -> bool {
        self.0.iter().all(|step| step.leaves(text))
    }
}

/// The error for a text of `bytes` bytes that would have more than `most`.
fn grows(bytes: usize, most: usize) -> Error {
    Error::new(ErrorKind::Failed, Fault::NormalGrows { bytes, most }).with_help("leave the document out")
}

impl Step {
    fn new(normalizer: &Normalizer) -> Result<Step> {
        Ok(match normalizer {
            Normalizer::Nfc => Step::Form(Form::C),
            Normalizer::Nfd => Step::Form(Form::D),
            Normalizer::Nfkc => Step::Form(Form::Kc),
            Normalizer::Nfkd => Step::Form(Form::Kd),
            Normalizer::Lowercase => Step::Lowercase,
            Normalizer::StripAccents => Step::StripAccents,
            Normalizer::Strip { strip_left, strip_right } => {
                Step::Strip { left: *strip_left, right: *strip_right }
            }
            Normalizer::Prepend { prepend } => Step::Prepend(prepend.clone().into_bytes()),
            Normalizer::Replace { pattern: ReplacePattern::String(text), content } => Step::ReplaceString {
                finder: Box::new(memmem::Finder::new(text.as_bytes()).into_owned()),
                content: content.clone().into_bytes(),
            },
            Normalizer::Replace { pattern: ReplacePattern::Regex(regex), content } => Step::ReplaceMatches {
                matcher: Box::new(Matcher::from_oniguruma(regex)?),
                content: content.clone().into_bytes(),
            },
        })
    }

    /// Whether this normalizer leaves a text unchanged. May return `false` for a text that it does not change.
    fn leaves(&self, text: &[u8]) -> bool {
        let all = |test: fn(&str) -> bool| text.utf8_chunks().all(|chunk| test(chunk.valid()));
        match self {
            Step::Form(Form::C) => all(is_nfc),
            Step::Form(Form::D) => {
                all(|text| text.is_ascii() || is_nfd_quick(text.chars()) == IsNormalized::Yes)
            }
            Step::Form(Form::Kc) => {
                all(|text| text.is_ascii() || is_nfkc_quick(text.chars()) == IsNormalized::Yes)
            }
            Step::Form(Form::Kd) => {
                all(|text| text.is_ascii() || is_nfkd_quick(text.chars()) == IsNormalized::Yes)
            }
            Step::Lowercase => {
                all(|text| text.chars().all(|character| character.to_lowercase().eq(once(character))))
            }
            Step::StripAccents => all(|text| !text.chars().any(is_combining_mark)),
            Step::Strip { left, right } => {
                !(*left && white_end(text) > 0 || *right && white_start(text) < text.len())
            }
            Step::Prepend(prepend) => text.is_empty() || prepend.is_empty(),
            Step::ReplaceString { finder, .. } => finder.find(text).is_none(),
            Step::ReplaceMatches { matcher, .. } => {
                text.utf8_chunks().all(|chunk| matcher.matches_nothing_of(chunk.valid()))
            }
        }
    }

    /// Applies this normalizer. Replacing stops early once the result has more than `most` bytes, which the
    /// caller reports as an error.
    fn apply(&self, text: &[u8], most: usize) -> Result<Vec<u8>> {
        match self {
            Step::Form(form) => Ok(by_chunks(text, |text, normal| form.push(text, normal))),
            Step::Lowercase => Ok(by_chunks(text, |text, normal| {
                push_all(normal, text.chars().flat_map(char::to_lowercase));
            })),
            Step::StripAccents => Ok(by_chunks(text, |text, normal| {
                push_all(normal, text.chars().filter(|character| !is_combining_mark(*character)));
            })),
            Step::Strip { left, right } => {
                let start = if *left { white_end(text) } else { 0 };
                let end = if *right { white_start(text).max(start) } else { text.len() };
                Ok(text[start..end].to_vec())
            }
            Step::Prepend(prepend) => Ok([prepend, text].concat()),
            Step::ReplaceString { finder, content } => {
                let found = finder.find_iter(text).map(|start| start..start + finder.needle().len());
                let mut normal = Vec::with_capacity(text.len());
                let mut done = 0;
                for found in found {
                    normal.extend_from_slice(&text[done..found.start]);
                    normal.extend_from_slice(content);
                    done = found.end;
                    if normal.len() > most {
                        return Ok(normal);
                    }
                }
                normal.extend_from_slice(&text[done..]);
                Ok(normal)
            }
            Step::ReplaceMatches { matcher, content } => {
                let mut normal = Vec::with_capacity(text.len());
                for chunk in text.utf8_chunks() {
                    let (valid, mut done) = (chunk.valid(), 0);
                    matcher.each(valid, |found| {
                        normal.extend_from_slice(&valid.as_bytes()[done..found.start]);
                        normal.extend_from_slice(content);
                        done = found.end;
                        normal.len() <= most
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
    all_steady(text) || is_nfc_quick(text.chars()) == IsNormalized::Yes
}

/// Whether a text consists of [steady] characters.
fn all_steady(text: &str) -> bool {
    let mut rest = text;
    while let Some(skipped) = rest.bytes().position(|byte| byte >= FIRST) {
        let mut characters = rest[skipped..].chars();
        let Some(character) = characters.next() else { break };
        let known = STEADY.get(to_usize(u32::from(character))).copied();
        if !known.unwrap_or_else(|| steady(character)) {
            return false;
        }
        rest = characters.as_str();
    }
    true
}

/// Whether a character, among steady ones only, keeps its code point and its position in form C: its combining
/// class is 0 and the quick check says yes.
fn steady(character: char) -> bool {
    canonical_combining_class(character) == 0 && is_nfc_quick(once(character)) == IsNormalized::Yes
}
