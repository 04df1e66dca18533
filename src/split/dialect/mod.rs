//! What regular expressions mean in Oniguruma, which Hugging Face's tokenizers use, and what here.

use std::sync::LazyLock;

mod empty;

use empty::{Nothing, times};

use super::fault::Fault;
use crate::error::{Error, Result};

/// The end of a line, in a spelling that means the same in both: the option concerns `$` here and only the
/// point there.
const LINE_END: &str = "(?m:$)";

/// Escapes that do not mean the same in both: classes, places, what is a letter there, and numbers.
const ESCAPES: [&str; 14] =
    [r"\w", r"\W", r"\b", r"\B", r"\R", r"\X", r"\<", r"\>", r"\Z", r"\U", r"\u{", r"\K", r"\G", r"\0"];

/// Places that can be repeated here, and not there.
const PLACES: [&str; 2] = [r"\A", r"\z"];

/// In a class: what is a range, members or an error in one, and a difference of classes or members in the other.
const DIFFERENCES: [&str; 7] = ["--", "-[", r"-\h", r"-\H", r"\h-", r"\H-", "~~"];

/// Classes that hold `ß` and its like.
const FOLDED_CLASSES: [&str; 3] = [r"\D", r"\H", r"\S"];

/// Properties that other characters have there.
const PROPERTIES: [&str; 3] = ["graph", "print", "word"];

/// Properties of whose negations a class has all here, and any there.
const NEGATED_PROPERTIES: [&str; 3] = ["alnum", "blank", "cntrl"];

/// How groups begin that mean the same in both.
const GROUPS: [&str; 6] = ["(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"];

/// What some characters are folded to where upper and lower case are alike, in lower case, and these characters: `ss`
/// and `ß`. There one matches the other, here it does not.
static FOLDED: LazyLock<Vec<String>> = LazyLock::new(|| {
    let folded =
        |c: char| (c, c.to_lowercase().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect());
    let longer =
        ('\0'..=char::MAX).map(folded).filter(|(_, folded): &(char, String)| folded.chars().nth(1).is_some());
    longer.flat_map(|(c, folded)| [c.to_string(), folded]).collect()
});

/// Longer expressions are not read, since reading one can take as long as the square of its length. Tokenizers have some
/// hundred bytes.
const LONGEST: usize = 1 << 16;

/// An expression of Oniguruma's as it is written here: `$`, which ends every line there, is spelled out.
///
/// # Errors
/// It uses what means something else here.
pub(super) fn translated(text: &str) -> Result<String> {
    let mut translated = String::with_capacity(text.len());
    walk(text, |part| match part {
        Part::Same(same) => {
            translated.push_str(same);
            Ok(())
        }
        Part::Different("$") => {
            translated.push_str(LINE_END);
            Ok(())
        }
        Part::Different(construct) => Err(refused(text, construct)),
    })?;
    Ok(translated)
}

/// The expression itself, if it means the same in both.
///
/// # Errors
/// It does not.
pub(super) fn same_in_both(text: &str) -> Result<&str> {
    walk(text, |part| match part {
        Part::Same(_) => Ok(()),
        Part::Different(construct) => Err(refused(text, construct)),
    })?;
    Ok(text)
}

fn refused(text: &str, construct: &str) -> Error {
    Fault::Dialect { pattern: text.to_owned(), construct: construct.to_owned() }.into()
}

/// A stretch of an expression.
enum Part<'a> {
    Same(&'a str),
    /// A construct that both engines accept and understand differently.
    Different(&'a str),
}

fn walk<'a>(text: &'a str, mut take: impl FnMut(Part<'a>) -> Result<()>) -> Result<()> {
    if text.len() > LONGEST {
        return Err(Fault::LongExpression { bytes: text.len(), most: LONGEST }.into());
    }
    let mut reader = Reader::new(text);
    let mut rest = text;
    while !rest.is_empty() {
        let (length, different) = reader.read(rest);
        let (part, after) = rest.split_at(length);
        take(if different { Part::Different(part) } else { Part::Same(part) })?;
        if let Some(folded) = reader.folded(part) {
            take(Part::Different(folded))?;
        }
        rest = after;
    }
    Ok(())
}

/// What has been read of an expression, as far as what follows depends on it.
struct Reader<'a> {
    text: &'a str,
    class_depth: usize,
    /// The whole, and each group that is open.
    scopes: Vec<Scope<'a>>,
    /// How many groups have begun that are remembered.
    groups: usize,
    /// Whether some groups have names: the others are then remembered here, and not there.
    has_names: bool,
    /// Whether a repetition stands just before.
    repeated: bool,
    /// The characters just before, as far as each stands for itself.
    literal: String,
}

/// What holds in a group.
#[derive(Clone, Copy, Default)]
struct Scope<'a> {
    /// Upper and lower case are alike.
    ignores_case: bool,
    /// It looks behind.
    behind: bool,
    /// It looks ahead or behind, and takes nothing.
    looks: bool,
    /// The number and the name of a group that is remembered.
    group: Option<(usize, &'a str)>,
    nothing: Nothing,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Reader<'a> {
        let has_names = (0..text.len()).any(|at| text.get(at..).is_some_and(|rest| name(rest).is_some()));
        Reader {
            text,
            class_depth: 0,
            scopes: vec![Scope::default()],
            groups: 0,
            has_names,
            repeated: false,
            literal: String::new(),
        }
    }

    /// What holds here; a parenthesis too many is an error elsewhere.
    fn scope(&self) -> Scope<'a> {
        self.scopes.last().copied().unwrap_or_default()
    }

    /// The length of what comes next, and whether it is understood differently.
    fn read(&mut self, rest: &'a str) -> (usize, bool) {
        if self.class_depth > 0 {
            return self.member(rest);
        }
        if let Some((length, different)) = repetition(rest) {
            // What is possessive may take what stands after the place here, and not there.
            let possessive = self.scope().behind && rest[..length].ends_with("+") && length > 1;
            let different = different || possessive || self.is_another_loop(&rest[..length]);
            return (length, std::mem::replace(&mut self.repeated, true) || different);
        }
        self.repeated = false;
        match rest.as_bytes()[0] {
            b'(' => return self.group(rest),
            b')' => {
                if let Some(Scope { nothing, looks, .. }) = self.scopes.pop() {
                    self.nothing(|outer| outer.group(nothing, looks));
                }
                return (1, false);
            }
            b'|' => self.nothing(Nothing::alternative),
            _ => self.nothing(|nothing| nothing.item(!takes_nothing(rest))),
        }
        match rest.as_bytes()[0] {
            b'\\' => (escape(rest), self.is_another_escape(rest)),
            b'[' => self.class(rest),
            b'^' | b'$' => (1, true),
            _ => (rest.chars().next().map_or(0, char::len_utf8), false),
        }
    }

    /// Notes what may be nothing.
    fn nothing(&mut self, note: impl FnOnce(&mut Nothing)) {
        if let Some(scope) = self.scopes.last_mut() {
            note(&mut scope.nothing);
        }
    }

    /// Whether a repetition is one of what may take nothing by an alternative that others follow. Notes what it makes
    /// of the item before.
    fn is_another_loop(&mut self, repetition: &str) -> bool {
        let (least, most) = times(repetition);
        let mut different = false;
        self.nothing(|nothing| {
            if least == 0 {
                nothing.so_far = nothing.before;
            }
            different = nothing.last && most > 1;
        });
        different
    }

    /// The length of how a class begins, and whether it is understood differently: a bracket that comes first is a
    /// member, not the end, and begins a range there.
    fn class(&mut self, rest: &str) -> (usize, bool) {
        self.class_depth += 1;
        let negated = if rest[1..].starts_with('^') { 2 } else { 1 };
        match rest[negated..].strip_prefix(']') {
            Some(after) if after.starts_with('-') => (negated + "]-".len(), true),
            Some(_) => (negated + 1, false),
            None => (negated, false),
        }
    }

    /// As [`Reader::read`], in a class.
    fn member(&mut self, rest: &str) -> (usize, bool) {
        let ignores_case = self.scope().ignores_case;
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let second = rest[first..].chars().next();
        if let Some(difference) = DIFFERENCES.iter().find(|difference| rest.starts_with(**difference)) {
            return (difference.len(), true);
        }
        match rest.as_bytes()[0] {
            b'\\' => {
                let folded = ignores_case && FOLDED_CLASSES.iter().any(|class| rest.starts_with(class));
                (escape(rest), folded || self.is_another_escape(rest))
            }
            // The range may hold what is folded to more than one character.
            b'-' if ignores_case && second.is_some_and(|second| !second.is_ascii()) => (1, true),
            b'[' if rest.starts_with("[:") => (2, true),
            b'[' => {
                let (length, different) = self.class(rest);
                (length, different || ignores_case)
            }
            b']' => {
                self.class_depth -= 1;
                (1, false)
            }
            _ => (first, false),
        }
    }

    /// The length of how a group begins, and whether it is understood differently.
    fn group(&mut self, rest: &'a str) -> (usize, bool) {
        let at_start = rest.len() == self.text.len();
        let scope = Scope { nothing: Nothing::default(), group: None, looks: false, ..self.scope() };
        if rest.starts_with(LINE_END) {
            return (LINE_END.len(), false);
        }
        if rest.starts_with("(?#") {
            let length = rest.find(')').map_or(rest.len(), |end| end + 1);
            // Elsewhere it may part here what belongs together there.
            return (length, !at_start || rest[..length].contains('\\'));
        }
        if let Some(group) = GROUPS.iter().find(|group| rest.starts_with(**group)) {
            let behind = scope.behind || group.starts_with("(?<");
            self.scopes.push(Scope { behind, looks: group.contains(['=', '!']), ..scope });
            return (group.len(), scope.behind && *group != "(?:");
        }
        if let Some(name) = name(rest) {
            self.groups += 1;
            self.scopes.push(Scope { group: Some((self.groups, name)), ..scope });
            return ("(?<>".len() + name.len(), scope.behind || !is_word(name));
        }
        if let Some((condition, _)) = rest.strip_prefix("(?(").and_then(|after| after.split_once(')')) {
            self.scopes.push(scope);
            return ("(?()".len() + condition.len(), !self.is_a_group(condition));
        }
        if rest.starts_with("(?") {
            self.scopes.push(scope);
            return self.options(rest, at_start);
        }
        self.groups += 1;
        self.scopes.push(Scope { group: Some((self.groups, "")), ..scope });
        (1, scope.behind || rest.starts_with("(*"))
    }

    /// As [`Reader::group`], of one that sets options: `m` and `s` concern lines here and the point there, and white
    /// space is not the same with `x`. Without a colon they reach to the end of the group there, of the branch here.
    fn options(&mut self, rest: &str, at_start: bool) -> (usize, bool) {
        let Some(end) = rest.find([':', ')']) else { return (rest.len(), true) };
        let options = &rest["(?".len()..end];
        let alone = rest[end..].starts_with(')');
        if alone {
            self.scopes.pop();
        }
        let (set, unset) = options.split_once('-').unwrap_or((options, ""));
        if let Some(scope) = self.scopes.last_mut() {
            scope.ignores_case = (scope.ignores_case || set.contains('i')) && !unset.contains('i');
        }
        (end + 1, alone && !at_start || !options.chars().all(|option| "i-".contains(option)))
    }

    /// Whether a condition is that a group has been matched which has begun.
    fn is_a_group(&self, condition: &str) -> bool {
        let pointed = condition.strip_prefix('<').and_then(|after| after.strip_suffix('>'));
        let quoted = || condition.strip_prefix('\'').and_then(|after| after.strip_suffix('\''));
        let name = pointed.or_else(quoted);
        let is_number = |number: usize| !self.has_names && (1..=self.groups).contains(&number);
        let is_known = name.is_some_and(is_word) || name.unwrap_or(condition).parse().is_ok_and(is_number);
        is_known && !self.is_open(name.unwrap_or(condition))
    }

    /// Whether a group that has not ended has this name or number, or may have it if that is a distance.
    fn is_open(&self, group: &str) -> bool {
        let mut open = self.scopes.iter().filter_map(|scope| scope.group);
        open.any(|(number, name)| {
            name == group || group.parse() == Ok(number) || group.starts_with(['-', '+'])
        })
    }

    /// Whether an escape is one that both engines understand differently.
    fn is_another_escape(&self, rest: &str) -> bool {
        let Scope { ignores_case, behind, .. } = self.scope();
        let is_repeated = |place: &str| {
            rest.strip_prefix(place).is_some_and(|after| after.starts_with(['?', '*', '+', '{']))
        };
        ESCAPES.iter().any(|escape| rest.starts_with(escape))
            || PLACES.iter().any(|place| is_repeated(place))
            || behind && rest.starts_with(r"\z")
            || is_another_property(rest, ignores_case)
            || is_another_code(rest, ignores_case)
            || rest.strip_prefix(r"\g").is_some_and(|after| !after.starts_with(['<', '\'']))
            || self.has_names && is_number_of_group(rest)
            || reference(rest).is_some_and(|group| ignores_case || self.is_open(group))
            // Upper and lower case are not alike here.
            || ignores_case && !rest.chars().nth(1).is_some_and(|escaped| escaped.is_ascii())
    }

    /// What a part completes of what is folded to several characters, or from them.
    fn folded(&mut self, part: &str) -> Option<&'static str> {
        let mut characters = part.chars();
        match (characters.next(), characters.next()) {
            _ if !self.scope().ignores_case => self.literal.clear(),
            // There it is as if they were not there.
            _ if [")", "(?:", "{1}", "{1,1}"].contains(&part) => {}
            // There it may be as if it stood so often.
            (Some('{'), Some(_)) => self.literal.extend(self.literal.chars().next_back()),
            (Some(only), None) if !"([]|.?*+".contains(only) => self.literal.extend(only.to_lowercase()),
            _ => self.literal.clear(),
        }
        FOLDED.iter().map(String::as_str).find(|folded| self.literal.ends_with(folded))
    }
}

/// The length of an escape, with the braces of `\p{L}` and `\x{2028}`: a `+` after them repeats a class.
fn escape(rest: &str) -> usize {
    let end = || rest.find('}').map(|end| end + 1);
    let braced = [r"\p{", r"\P{", r"\x{"].iter().any(|escape| rest.starts_with(escape));
    let plain = rest.chars().take(2).map(char::len_utf8).sum();
    braced.then(end).flatten().unwrap_or(plain)
}

/// Whether what comes next stands for a place, or for what a group matched, which may be nothing.
fn takes_nothing(rest: &str) -> bool {
    rest.starts_with(['^', '$'])
        || rest.starts_with(r"\") && rest[1..].starts_with(['A', 'z', 'b', 'B', 'Z', 'G', 'K', 'k', 'g'])
        || reference(rest).is_some()
}

/// The group that an escape refers to, by its name or number.
fn reference(rest: &str) -> Option<&str> {
    let after = rest.strip_prefix('\\')?;
    let pointed = || after.strip_prefix("k<").and_then(|after| after.split_once('>'));
    let quoted = || after.strip_prefix("k'").and_then(|after| after.split_once('\''));
    if let Some((name, _)) = pointed().or_else(quoted) {
        return Some(name);
    }
    let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    (digits > 0).then(|| &after[..digits])
}

/// Whether an escape is of a class that only one engine knows, or that only one folds.
fn is_another_property(rest: &str, ignores_case: bool) -> bool {
    let Some(after) = rest.strip_prefix(r"\p").or(rest.strip_prefix(r"\P")) else { return false };
    let Some((name, _)) = after.strip_prefix('{').and_then(|after| after.split_once('}')) else {
        return true;
    };
    let letters: String = name.chars().filter(|c| c.is_alphanumeric()).collect();
    let letters = letters.to_lowercase();
    let negated = rest.starts_with(r"\P") || name.starts_with('^');
    ignores_case
        || name.contains(['=', ':'])
        || letters.starts_with("is")
        || PROPERTIES.contains(&&*letters)
        || negated && NEGATED_PROPERTIES.contains(&&*letters)
}

/// Whether an escape has the number of a character that only one engine folds, or of a byte.
fn is_another_code(rest: &str, ignores_case: bool) -> bool {
    let braced = rest.strip_prefix(r"\x{").and_then(|after| after.split('}').next());
    let plain = || rest.strip_prefix(r"\x").and_then(|after| after.get(..2));
    let wide = || rest.strip_prefix(r"\u").and_then(|after| after.get(..4));
    let Some(digits) = braced.or_else(plain).or_else(wide) else { return false };
    let folds = |code: u8| !code.is_ascii() || code.is_ascii_alphabetic();
    let code = u32::from_str_radix(digits, 16).ok().and_then(|code| u8::try_from(code).ok());
    // From 80 on a byte of the text there, a character here.
    let is_byte = braced.is_none() && rest.starts_with(r"\x") && code.is_none_or(|code| !code.is_ascii());
    is_byte || ignores_case && code.is_none_or(folds)
}

/// Whether an escape refers to a group by its number.
fn is_number_of_group(rest: &str) -> bool {
    let reference = rest[1..].trim_start_matches(['k', 'g']).trim_start_matches(['<', '\'', '+', '-']);
    reference.starts_with(|c: char| c.is_ascii_digit())
}

/// The name that a group gets, if it does.
fn name(rest: &str) -> Option<&str> {
    let pointed = rest.strip_prefix("(?<").and_then(|after| after.split_once('>'));
    let quoted = || rest.strip_prefix("(?'").and_then(|after| after.split_once('\''));
    let (name, _) = pointed.or_else(quoted)?;
    (!name.starts_with(['=', '!'])).then_some(name)
}

fn is_word(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_numeric()) && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// The length of how often something may be repeated, if that comes next, and whether it is understood differently:
/// what is possessive here repeats a repetition there, and with a single number what is lazy here may be left out
/// there.
fn repetition(rest: &str) -> Option<(usize, bool)> {
    let manner = |after: &str| usize::from(after.starts_with(['?', '+']));
    if rest.starts_with(['?', '*', '+']) {
        return Some((1 + manner(&rest[1..]), false));
    }
    let end = rest.strip_prefix('{')?.find('}')? + 1;
    let (numbers, after) = (&rest[1..end], &rest[end + 1..]);
    if numbers.is_empty() || !numbers.chars().all(|c| c.is_ascii_digit() || c == ',') {
        return None;
    }
    let different = match numbers.split_once(',') {
        None => after.starts_with(['+', '?']),
        Some((least, most)) => {
            let number = |digits: &str| digits.parse::<u64>().ok();
            let backwards = !most.is_empty() && number(most) < number(least);
            least.is_empty() || backwards || after.starts_with('+')
        }
    };
    Some((end + 1 + manner(after), different))
}
