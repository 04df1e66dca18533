//! Translates the regular expressions of split patterns to JavaScript, for pages that split text in a browser.
//!
//! Every character class is written out with the code points that it has here: the properties of a browser can be those
//! of another version of Unicode, and its `\s` and `\w` are other classes. Expressions with a construct that JavaScript
//! lacks are refused by name.

use std::collections::HashMap;

use fancy_regex::{Assertion, AstNode, Expr, LookAround};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, HirKind};
use serde::Serialize;

use super::dialect::translated;
use super::pattern::{SplitBehavior, SplitPattern, SplitStep};
use crate::error::{Error, ErrorKind, Result, excerpt};

/// Translates expressions and collects their character classes, so that each class is stored once.
#[derive(Default)]
pub(crate) struct JavascriptTranslator {
    classes: Vec<Vec<u32>>,
    /// The index of each class.
    known: HashMap<Vec<u32>, usize>,
}

/// One split of a text, by an expression that needs the flag `u`.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct JavascriptStep {
    regex: Vec<RegexPart>,
    behavior: SplitBehavior,
    /// Whether `behavior` applies to the text between matches instead of the matches.
    invert: bool,
    /// Whether the step splits the spelling of a text in GPT-2's byte alphabet.
    spelled: bool,
}

/// A part of an expression: a text of ASCII characters, or the index of a class.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum RegexPart {
    Text(String),
    Class(usize),
}

impl JavascriptTranslator {
    /// Returns the classes of all expressions so far. Each is a list of its ranges of code points, ascending: for each,
    /// the distance of its start from the end of the one before, and of its end from its start.
    pub(crate) fn classes(&self) -> &[Vec<u32>] {
        &self.classes
    }

    /// Returns the steps that split like a pattern, each applied to the pre-tokens of the previous one. No steps leave a
    /// text whole.
    ///
    /// # Errors
    /// An expression is invalid, or has a construct that JavaScript lacks.
    pub(crate) fn steps(&mut self, pattern: &SplitPattern) -> Result<Vec<JavascriptStep>> {
        Ok(match pattern {
            SplitPattern::None => Vec::new(),
            SplitPattern::Steps(steps) => {
                let mut all: Vec<JavascriptStep> = Vec::new();
                for step in steps {
                    all.extend(self.step(step)?);
                }
                if all.array_windows().any(|[one, next]| one.spelled && !next.spelled) {
                    return Err(refused("a split of text after one of its byte alphabet"));
                }
                all
            }
            SplitPattern::Named(_) | SplitPattern::Custom(_) => {
                self.step(&SplitStep::new(pattern.clone(), false))?
            }
        })
    }

    /// Returns the steps that split like one step of a pattern; several if its own pattern has several.
    fn step(&mut self, step: &SplitStep) -> Result<Vec<JavascriptStep>> {
        let Some(regex) = step.pattern.regex() else {
            let mut inner = self.steps(&step.pattern)?;
            if step.spelled && inner.iter().any(|inner| inner.spelled) {
                return Err(refused("a byte alphabet within another"));
            }
            inner.iter_mut().for_each(|inner| inner.spelled |= step.spelled);
            return Ok(inner);
        };
        let covers = step.covers && matches!(step.pattern, SplitPattern::Custom(_));
        let (behavior, invert) = match step.behavior {
            // To remove the text between matches is an error, because no text is dropped.
            SplitBehavior::Isolated if covers => (SplitBehavior::Removed, true),
            behavior => (behavior, step.invert),
        };
        Ok(vec![JavascriptStep { regex: self.regex(regex)?, behavior, invert, spelled: step.spelled }])
    }

    /// Translates an expression in Oniguruma's dialect.
    ///
    /// # Errors
    /// It is invalid, means something else in fancy-regex, or has a construct that JavaScript lacks.
    pub(crate) fn oniguruma(&mut self, regex: &str) -> Result<Vec<RegexPart>> {
        self.regex(&translated(regex)?)
    }

    /// Translates an expression in the dialect of fancy-regex.
    fn regex(&mut self, regex: &str) -> Result<Vec<RegexPart>> {
        let tree = Expr::parse_tree(regex).map_err(|cause| {
            Error::caused(ErrorKind::Usage, format!("{} is not a regular expression", excerpt(regex)), cause)
        })?;
        let mut writer = ExpressionWriter { translator: self, parts: Vec::new(), groups: 0, behind: false };
        writer.expression(&tree.expr)?;
        Ok(writer.parts)
    }

    /// Returns the index of a class of characters that a regular expression is.
    pub(crate) fn class(&mut self, regex: &str) -> Result<usize> {
        self.class_of(regex, false)
    }

    /// Returns the index of the class of an expression, or of its characters in any case.
    fn class_of(&mut self, regex: &str, ignores_case: bool) -> Result<usize> {
        let parsed = ParserBuilder::new().case_insensitive(ignores_case).build().parse(regex);
        let parsed = parsed.map_err(|cause| {
            Error::caused(ErrorKind::Usage, format!("{} is not a class", excerpt(regex)), cause)
        })?;
        let code = |character: char| u32::from(character);
        let ranges: Vec<(u32, u32)> = match parsed.into_kind() {
            HirKind::Class(Class::Unicode(class)) => {
                class.iter().map(|range| (code(range.start()), code(range.end()))).collect()
            }
            HirKind::Literal(literal) => match std::str::from_utf8(&literal.0).ok().map(str::chars) {
                Some(mut characters) => match (characters.next(), characters.next()) {
                    (Some(only), None) => vec![(code(only), code(only))],
                    _ => return Err(refused(&excerpt(regex))),
                },
                None => return Err(refused(&excerpt(regex))),
            },
            _ => return Err(refused(&excerpt(regex))),
        };
        Ok(self.class_with(ranges.into_iter()))
    }

    /// Returns the index of the class of these ranges of code points, which ascend.
    pub(crate) fn class_with(&mut self, ranges: impl Iterator<Item = (u32, u32)>) -> usize {
        let mut before = 0;
        let distances =
            ranges.flat_map(|(start, end)| [start - std::mem::replace(&mut before, end), end - start]);
        let class: Vec<u32> = distances.collect();
        *self.known.entry(class).or_insert_with_key(|class| {
            self.classes.push(class.clone());
            self.classes.len() - 1
        })
    }
}

/// Returns the error for a construct that JavaScript lacks.
fn refused(construct: &str) -> Error {
    Error::usage(format!("{construct} has no equivalent in the regular expressions of browsers"))
}

/// Writes one expression.
struct ExpressionWriter<'t> {
    translator: &'t mut JavascriptTranslator,
    parts: Vec<RegexPart>,
    /// Number of capture groups that were written.
    groups: usize,
    /// Whether the current position is within a look-behind.
    behind: bool,
}

impl ExpressionWriter<'_> {
    /// Writes a part of the expression's syntax.
    fn text(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(RegexPart::Text(last)) => last.push_str(text),
            _ => self.parts.push(RegexPart::Text(text.to_owned())),
        }
    }

    /// Writes a class of characters.
    fn class(&mut self, regex: &str, ignores_case: bool) -> Result<()> {
        let class = self.translator.class_of(regex, ignores_case)?;
        self.parts.push(RegexPart::Class(class));
        Ok(())
    }

    /// Writes `opening`, an expression, and a closing parenthesis.
    fn group(&mut self, opening: &str, inner: &Expr) -> Result<()> {
        self.text(opening);
        self.expression(inner)?;
        self.text(")");
        Ok(())
    }

    /// Writes an expression. An alternation is always within a group, unless it is the whole.
    fn expression(&mut self, expression: &Expr) -> Result<()> {
        match expression {
            Expr::Empty => {}
            Expr::Any { newline: true, .. } => self.text("[^]"),
            Expr::Any { crlf: false, .. } => self.text(r"[^\n]"),
            Expr::Assertion(assertion) => self.assertion(assertion)?,
            Expr::Literal { val, casei } => {
                for character in val.chars() {
                    self.literal(character, *casei)?;
                }
            }
            Expr::Concat(items) => {
                for item in items {
                    self.item(item)?;
                }
            }
            Expr::Alt(alternatives) => {
                for (number, alternative) in alternatives.iter().enumerate() {
                    if number > 0 {
                        self.text("|");
                    }
                    self.item(alternative)?;
                }
            }
            Expr::Group(inner) => self.group("(?:", inner)?,
            Expr::AstNode(AstNode::AstGroup { inner, .. }, _) => self.group("(?:", inner)?,
            Expr::LookAround(inner, look) => self.look_around(inner, look)?,
            Expr::Repeat { child, lo, hi, greedy } => self.repetition(child, *lo, *hi, *greedy)?,
            Expr::Delegate { inner, casei } => self.class(inner, *casei)?,
            Expr::AtomicGroup(inner) => self.atomic(inner)?,
            Expr::Backref { .. } | Expr::BackrefWithRelativeRecursionLevel { .. } => {
                return Err(refused("a reference to a group"));
            }
            Expr::KeepOut => return Err(refused(r"\K")),
            Expr::ContinueFromPreviousMatchEnd => return Err(refused(r"\G")),
            Expr::Conditional { .. } | Expr::BackrefExistsCondition { .. } => {
                return Err(refused("a condition"));
            }
            Expr::GeneralNewline { .. } => return Err(refused(r"\R")),
            Expr::LiteralBytes { .. } => return Err(refused("a byte that is not ASCII")),
            _ => return Err(refused("a construct of the expression")),
        }
        Ok(())
    }

    /// Writes an expression within a sequence or as an alternative.
    fn item(&mut self, item: &Expr) -> Result<()> {
        match item {
            Expr::Alt(_) => self.group("(?:", item),
            _ => self.expression(item),
        }
    }

    /// Writes a character, in any case if `ignores_case`.
    fn literal(&mut self, character: char, ignores_case: bool) -> Result<()> {
        let escaped = match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' => character.to_string(),
            _ => format!("\\u{{{:x}}}", u32::from(character)),
        };
        if ignores_case && character.is_alphabetic() {
            return self.class(&regex_syntax::escape(&character.to_string()), true);
        }
        self.text(&escaped);
        Ok(())
    }

    fn assertion(&mut self, assertion: &Assertion) -> Result<()> {
        match assertion {
            Assertion::StartText => self.text("^"),
            Assertion::EndText => self.text("$"),
            Assertion::StartLine { crlf: false } => self.text(r"(?<=^|\n)"),
            Assertion::EndLine { crlf: false } => self.text(r"(?=$|\n)"),
            Assertion::WordBoundary | Assertion::NotWordBoundary => {
                let is_boundary = matches!(assertion, Assertion::WordBoundary);
                let [first, second] = if is_boundary { ["(?!", "(?="] } else { ["(?=", "(?!"] };
                for (opening, next) in [("(?:(?<=", first), ("|(?<!", second)] {
                    self.text(opening);
                    self.class(r"\w", false)?;
                    self.text(")");
                    self.text(next);
                    self.class(r"\w", false)?;
                    self.text(")");
                }
                self.text(")");
            }
            _ => return Err(refused("an anchor of the expression")),
        }
        Ok(())
    }

    fn look_around(&mut self, inner: &Expr, look: &LookAround) -> Result<()> {
        let opening = match look {
            LookAround::LookAhead => "(?=",
            LookAround::LookAheadNeg => "(?!",
            LookAround::LookBehind => "(?<=",
            LookAround::LookBehindNeg => "(?<!",
        };
        let is_behind = matches!(look, LookAround::LookBehind | LookAround::LookBehindNeg);
        let before = self.behind;
        self.behind |= is_behind;
        self.group(opening, inner)?;
        self.behind = before;
        Ok(())
    }

    /// Writes an atomic group: a look-ahead captures what the group matches, and a reference takes it. No position
    /// within a look-ahead is tried again.
    fn atomic(&mut self, inner: &Expr) -> Result<()> {
        // JavaScript matches look-behinds from right to left, so the reference would come before its group.
        if self.behind {
            return Err(refused("a possessive repetition or atomic group within a look-behind"));
        }
        self.groups += 1;
        let number = self.groups;
        self.group("(?:(?=(", inner)?;
        self.text(&format!(r")\{number})"));
        Ok(())
    }

    /// Writes a repetition.
    ///
    /// JavaScript does not count an iteration that matches nothing, and tries another way through it. So an optional
    /// item that can match nothing is written as an alternative, and other repetitions of such items are refused.
    fn repetition(&mut self, child: &Expr, lo: usize, hi: usize, greedy: bool) -> Result<()> {
        if may_be_empty(child) && hi > 1 {
            return Err(refused("the repetition of an expression that can match nothing"));
        }
        match (lo, hi) {
            (0, 1) if greedy => {
                self.group("(?:(?:", child)?;
                self.text("|)");
            }
            (0, 1) => {
                self.group("(?:|(?:", child)?;
                self.text(")");
            }
            _ => {
                self.group("(?:", child)?;
                match hi {
                    usize::MAX => self.text(&format!("{{{lo},}}")),
                    _ => self.text(&format!("{{{lo},{hi}}}")),
                }
                if !greedy {
                    self.text("?");
                }
            }
        }
        Ok(())
    }
}

/// Returns whether an expression may match the empty text. `true` if that is not clear.
fn may_be_empty(expression: &Expr) -> bool {
    match expression {
        Expr::Literal { val, .. } => val.is_empty(),
        Expr::Any { .. } | Expr::Delegate { .. } => false,
        Expr::Concat(items) => items.iter().all(may_be_empty),
        Expr::Alt(alternatives) => alternatives.iter().any(may_be_empty),
        Expr::Group(inner) => may_be_empty(inner),
        Expr::AstNode(AstNode::AstGroup { inner, .. }, _) | Expr::AtomicGroup(inner) => may_be_empty(inner),
        Expr::Repeat { child, lo, .. } => *lo == 0 || may_be_empty(child),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The translation of an expression, with each class as its ranges of code points in brackets.
    fn written(regex: &str) -> Result<String> {
        let mut translator = JavascriptTranslator::default();
        let parts = translator.regex(regex)?;
        let shown = |part: &RegexPart| match part {
            RegexPart::Text(text) => text.clone(),
            RegexPart::Class(class) => {
                let (mut at, mut shown) = (0, String::new());
                for range in translator.classes()[*class].as_chunks::<2>().0 {
                    let start = at + range[0];
                    at = start + range[1];
                    shown += &format!("{start}-{at} ");
                }
                format!("[{}]", shown.trim_end())
            }
        };
        Ok(parts.iter().map(shown).collect())
    }

    #[test]
    fn expressions_are_written_for_browsers() {
        for (regex, expected) in [
            ("ab|c.", r"ab|c[^\n]"),
            ("(?s:.)[^\n]", "[^][0-9 11-1114111]"),
            (r"'(?i:s|ll)", r"\u{27}(?:[83-83 115-115 383-383]|[76-76 108-108][76-76 108-108])"),
            (
                r"[\r\n]*+\s++$",
                r"(?:(?=((?:[10-10 13-13]){0,}))\1)(?:(?=((?:[9-13 32-32 133-133 160-160 5760-5760 8192-8202 8232-8233 8239-8239 8287-8287 12288-12288]){1,}))\2)$",
            ),
            (r" ?a{1,3}?b{2}", r"(?:(?:\u{20})|)(?:a){1,3}?(?:b){2,2}"),
            (r"a??(?:b*)?", r"(?:|(?:a))(?:(?:(?:b){0,})|)"),
            (r"(?<=^|a)(?!b)(c)", r"(?<=^|a)(?!b)(?:c)"),
            (r"(?m:^a$)\z", r"(?<=^|\n)a(?=$|\n)$"),
            ("x(?:a|b)*é", r"x(?:a|b){0,}\u{e9}"),
        ] {
            assert_eq!(written(regex).expect(regex), expected, "{regex}");
        }
    }

    #[test]
    fn what_browsers_lack_is_refused_by_name() {
        for (regex, named) in [
            (r"(a)\1", "a reference to a group"),
            (r"a\Kb", r"\K"),
            (r"\Ga", r"\G"),
            (r"(?<=a++)b", "within a look-behind"),
            (r"(?:a?)+b", "can match nothing"),
            (r"(a)?(?(1)b|c)", "a condition"),
        ] {
            let error = written(regex).expect_err(regex);
            assert!(error.to_string().contains(named), "{regex}: {error}");
        }
        assert!(written("(").is_err());
    }

    /// All named patterns have an equivalent.
    #[test]
    fn named_patterns_are_translated() {
        let mut translator = JavascriptTranslator::default();
        for named in super::super::NamedPattern::ALL {
            let steps = translator.steps(&SplitPattern::Named(named)).expect("it is translated");
            assert_eq!(steps.len(), 1, "{named:?}");
        }
        assert!(translator.steps(&SplitPattern::None).expect("no steps").is_empty());
    }
}
