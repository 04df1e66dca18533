//! Differences between two dialects of regular expressions: Oniguruma, which Hugging Face's tokenizers use, and
//! fancy-regex, which this crate uses.
//!
//! An expression that contains a construct with two meanings is refused or, for `$`, translated. The check may refuse
//! an expression that means the same in both; it must not accept one that does not.
//!
//! Some of the differences:
//!
//! | construct | fancy-regex | Oniguruma |
//! | --- | --- | --- |
//! | `$` | the end of the text | the end of every line |
//! | `x{1,3}+` | a possessive repetition | a repetition that is repeated |
//! | `x{3}?` | a lazy repetition | an optional one |
//! | `\w` | `\p{Alphabetic}`, marks, digits, connectors, joiners | letters, marks, digits, connectors |
//! | `(?m:.)` | a dot that ends at line breaks | a dot that matches them, too |
//! | `(?i:ss)` | matches `ss` in any case | matches `ß`, too |
//! | `(?<a>x)(y)` | two capture groups | one: groups without a name do not capture |

use crate::base::lazy::Lazy;
use crate::error::{Error, Result, excerpt};

/// The end of a line in a spelling that means the same in both: the option `m` applies to `$` in fancy-regex, and
/// only to `.` in Oniguruma.
const LINE_END: &str = "(?m:$)";

/// Escapes that mean different things: classes, anchors, escapes that are plain characters in Oniguruma,
/// and numbers.
const ESCAPES: [&str; 14] =
    [r"\w", r"\W", r"\b", r"\B", r"\R", r"\X", r"\<", r"\>", r"\Z", r"\U", r"\u{", r"\K", r"\G", r"\0"];

/// Anchors that can be repeated in fancy-regex but not in Oniguruma.
const ANCHORS: [&str; 2] = [r"\A", r"\z"];

/// Sequences within a class that one engine reads as a range, as members or as an error, and the other as a set
/// difference or as members.
const DIFFERENCES: [&str; 7] = ["--", "-[", r"-\h", r"-\H", r"\h-", r"\H-", "~~"];

/// Classes that contain characters like `ß`, which fold to several characters.
const FOLDED_CLASSES: [&str; 3] = [r"\D", r"\H", r"\S"];

/// Properties that have different characters in the two engines.
const PROPERTIES: [&str; 3] = ["graph", "print", "word"];

/// Properties that combine differently when a class contains several of them negated: fancy-regex requires all of the
/// negations of a character, and Oniguruma any of them.
const NEGATED_PROPERTIES: [&str; 3] = ["alnum", "blank", "cntrl"];

/// Openings of groups that mean the same in both.
const GROUPS: [&str; 6] = ["(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"];

/// Case foldings to several characters, in lower case, and the characters that fold to them: `ss` and `ß`, for
/// example. In expressions that ignore case, one matches the other in Oniguruma but not in fancy-regex.
static FOLDED: Lazy<Vec<String>> = Lazy::new(|| {
    let folded =
        |c: char| (c, c.to_lowercase().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect());
    let longer =
        ('\0'..=char::MAX).map(folded).filter(|(_, folded): &(char, String)| folded.chars().nth(1).is_some());
    longer.flat_map(|(c, folded)| [c.to_string(), folded]).collect()
});

/// Maximum number of bytes of an expression (64 KiB). Reading an expression can take time quadratic in its length. The
/// expressions of tokenizers have a few hundred bytes.
const LONGEST: usize = 1 << 16;

/// Translates an expression from Oniguruma's dialect: `$`, which matches at the end of every line in Oniguruma,
/// becomes [`LINE_END`].
///
/// # Errors
/// It uses another construct that means something else in fancy-regex, or has more than [`LONGEST`] bytes.
pub(super) fn translated(text: &str) -> Result<String> {
    let mut translated = String::with_capacity(text.len());
    for_each_item(text, |item, differs| {
        match item {
            "$" if differs => translated.push_str(LINE_END),
            construct if differs => return Err(refused(text, construct)),
            same => translated.push_str(same),
        }
        Ok(())
    })?;
    Ok(translated)
}

/// Returns the expression itself if it means the same in both dialects.
///
/// # Errors
/// It uses a construct that means something else in Oniguruma, or has more than [`LONGEST`] bytes.
pub(super) fn same_in_both(text: &str) -> Result<&str> {
    for_each_item(text, |item, differs| if differs { Err(refused(text, item)) } else { Ok(()) })?;
    Ok(text)
}

/// Returns the error for a construct with two meanings.
fn refused(text: &str, construct: &str) -> Error {
    let problem = format!(
        "{construct} in the pattern {} has a different meaning in Hugging Face's regular expression engine",
        excerpt(text)
    );
    Error::usage(problem).with_help(
        r"write (?>x{1,3}) instead of x{1,3}+, \A instead of ^, \z instead of $, and [\p{L}\p{M}\p{Nd}\p{Pc}] instead of \w",
    )
}

/// Passes the items of an expression to `take`, in order, each with whether both engines accept it with different
/// meanings.
///
/// # Errors
/// The expression has more than [`LONGEST`] bytes, or `take` fails.
fn for_each_item(text: &str, mut take: impl FnMut(&str, bool) -> Result<()>) -> Result<()> {
    if text.len() > LONGEST {
        let bytes = text.len();
        return Err(Error::usage(format!(
            "the regular expression has {bytes} bytes; the limit is {LONGEST}"
        )));
    }
    let mut reader = ExpressionReader::new(text);
    let mut rest = text;
    while !rest.is_empty() {
        let (length, differs) = reader.read(rest);
        let (item, after) = rest.split_at(length);
        take(item, differs)?;
        if let Some(folded) = reader.folded(item) {
            take(folded, true)?;
        }
        rest = after;
    }
    Ok(())
}

/// The state of reading an expression: what the meaning of the rest depends on.
#[derive(Default)]
struct ExpressionReader<'a> {
    /// The whole expression.
    text: &'a str,
    /// Number of open brackets of classes.
    class_depth: usize,
    /// The whole expression, and each open group within it.
    scopes: Vec<Scope<'a>>,
    /// Number of capture groups that have started.
    groups: usize,
    /// Whether some groups have names. Groups without a name then capture in fancy-regex, but not in
    /// Oniguruma.
    has_names: bool,
    /// Whether the previous item is a repetition.
    repeated: bool,
    /// The literal characters directly before the current position, in lower case.
    literal: String,
}

/// The state of a group.
#[derive(Clone, Copy, Default)]
struct Scope<'a> {
    /// The group ignores case.
    ignores_case: bool,
    /// The group is, or is within, a look-behind.
    behind: bool,
    /// The group is a look-around, so it matches no text.
    looks: bool,
    /// The number and the name of a capture group.
    group: Option<(usize, &'a str)>,
    /// Which of its alternatives can match nothing.
    empty: EmptyMatches,
}

/// Tracks whether the alternatives of a group can match the empty text.
///
/// The engines differ in loops over such groups. If an iteration matches nothing, Oniguruma ends the loop, but
/// fancy-regex tries the other alternatives of that iteration.
#[derive(Clone, Copy)]
struct EmptyMatches {
    /// The current alternative, as far as it was read, can match nothing.
    so_far: bool,
    /// The current alternative without its last item can match nothing.
    before: bool,
    /// An earlier alternative can match nothing.
    earlier: bool,
    /// The last item can match nothing through an alternative that has another one after it.
    last: bool,
    /// Some item, or an earlier alternative of the group itself, matches nothing in this way.
    any: bool,
}

impl Default for EmptyMatches {
    fn default() -> EmptyMatches {
        EmptyMatches { so_far: true, before: true, earlier: false, last: false, any: false }
    }
}

impl EmptyMatches {
    /// Records the next item. `takes` says whether it always matches some text.
    fn item(&mut self, takes: bool) {
        (self.before, self.last) = (self.so_far, false);
        self.so_far &= !takes;
    }

    /// Records a group that has ended as the next item. `looks` says whether it is a look-around.
    fn group(&mut self, inner: EmptyMatches, looks: bool) {
        let may_be_empty = inner.so_far || inner.earlier;
        self.item(!may_be_empty && !looks);
        self.last = inner.any && may_be_empty && !looks;
        self.any |= self.last;
    }

    /// Records that the next alternative starts.
    fn alternative(&mut self) {
        self.earlier |= self.so_far;
        self.any |= self.so_far;
        (self.so_far, self.before, self.last) = (true, true, false);
    }
}

impl<'a> ExpressionReader<'a> {
    fn new(text: &'a str) -> ExpressionReader<'a> {
        let has_names = (0..text.len()).any(|at| text.get(at..).is_some_and(|rest| name(rest).is_some()));
        ExpressionReader { text, scopes: vec![Scope::default()], has_names, ..ExpressionReader::default() }
    }

    /// Returns the state of the innermost open group. Unbalanced parentheses are reported elsewhere.
    fn scope(&self) -> Scope<'a> {
        self.scopes.last().copied().unwrap_or_default()
    }

    /// Reads the next item. Returns its length in bytes, and whether the engines understand it differently.
    fn read(&mut self, rest: &'a str) -> (usize, bool) {
        if self.class_depth > 0 {
            return self.member(rest);
        }
        if let Some((length, differs)) = repetition(rest) {
            // In a look-behind, a possessive repetition can match text after the position in fancy-regex, but not
            // in Oniguruma.
            let possessive = self.scope().behind && rest[..length].ends_with("+") && length > 1;
            let differs = differs || possessive || self.loop_differs(&rest[..length]);
            return (length, std::mem::replace(&mut self.repeated, true) || differs);
        }
        self.repeated = false;
        match rest.as_bytes()[0] {
            b'(' => return self.group(rest),
            b')' => {
                if let Some(Scope { empty, looks, .. }) = self.scopes.pop() {
                    self.update_empty(|outer| outer.group(empty, looks));
                }
                return (1, false);
            }
            b'|' => self.update_empty(EmptyMatches::alternative),
            _ => self.update_empty(|empty| empty.item(!takes_nothing(rest))),
        }
        match rest.as_bytes()[0] {
            b'\\' => (escape(rest), self.escape_differs(rest)),
            b'[' => self.class(rest),
            b'^' | b'$' => (1, true),
            _ => (rest.chars().next().map_or(0, char::len_utf8), false),
        }
    }

    /// Updates the record of empty matches in the innermost group.
    fn update_empty(&mut self, note: impl FnOnce(&mut EmptyMatches)) {
        if let Some(scope) = self.scopes.last_mut() {
            note(&mut scope.empty);
        }
    }

    /// Returns whether a repetition applies to an item that can match nothing through an alternative that has another
    /// one after it. Records that the repeated item can be absent.
    fn loop_differs(&mut self, repetition: &str) -> bool {
        let (min, max) = times(repetition);
        let mut differs = false;
        self.update_empty(|empty| {
            if min == 0 {
                empty.so_far = empty.before;
            }
            differs = empty.last && max > 1;
        });
        differs
    }

    /// Reads the opening of a class. Returns its length in bytes, and whether the engines understand it differently:
    /// a closing bracket in first position is a member, not the end of the class, and in Oniguruma it can start a
    /// range.
    fn class(&mut self, rest: &str) -> (usize, bool) {
        self.class_depth += 1;
        let negated = if rest[1..].starts_with('^') { 2 } else { 1 };
        match rest[negated..].strip_prefix(']') {
            Some(after) if after.starts_with('-') => (negated + "]-".len(), true),
            Some(_) => (negated + 1, false),
            None => (negated, false),
        }
    }

    /// Does the same as [`ExpressionReader::read`] within a class.
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
                (escape(rest), folded || self.escape_differs(rest))
            }
            // The range may contain characters that fold to several characters.
            b'-' if ignores_case && second.is_some_and(|second| !second.is_ascii()) => (1, true),
            b'[' if rest.starts_with("[:") => (2, true),
            b'[' => {
                let (length, differs) = self.class(rest);
                (length, differs || ignores_case)
            }
            b']' => {
                self.class_depth -= 1;
                (1, false)
            }
            _ => (first, false),
        }
    }

    /// Reads the opening of a group. Returns its length in bytes, and whether the engines understand it differently.
    fn group(&mut self, rest: &'a str) -> (usize, bool) {
        let at_start = rest.len() == self.text.len();
        let scope = Scope { empty: EmptyMatches::default(), group: None, looks: false, ..self.scope() };
        if rest.starts_with(LINE_END) {
            return (LINE_END.len(), false);
        }
        if rest.starts_with("(?#") {
            let length = rest.find(')').map_or(rest.len(), |end| end + 1);
            // After the start, a comment can separate items for fancy-regex that belong together for Oniguruma.
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

    /// Does the same as [`ExpressionReader::group`] for a group that sets options.
    ///
    /// `m` and `s` apply to lines in fancy-regex and to `.` in Oniguruma, and `x` ignores different white space.
    /// Options without a colon apply up to the end of the group in Oniguruma, and to the end of the alternative in
    /// fancy-regex.
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

    /// Returns whether a condition refers to a capture group that started before it and is not open.
    fn is_a_group(&self, condition: &str) -> bool {
        let pointed = condition.strip_prefix('<').and_then(|after| after.strip_suffix('>'));
        let quoted = || condition.strip_prefix('\'').and_then(|after| after.strip_suffix('\''));
        let name = pointed.or_else(quoted);
        let is_number = |number: usize| !self.has_names && (1..=self.groups).contains(&number);
        let is_known = name.is_some_and(is_word) || name.unwrap_or(condition).parse().is_ok_and(is_number);
        is_known && !self.is_open(name.unwrap_or(condition))
    }

    /// Returns whether an open group has this name or number. A relative number counts as one that it may have.
    fn is_open(&self, group: &str) -> bool {
        let mut open = self.scopes.iter().filter_map(|scope| scope.group);
        open.any(|(number, name)| {
            name == group || group.parse() == Ok(number) || group.starts_with(['-', '+'])
        })
    }

    /// Returns whether the engines understand an escape differently.
    fn escape_differs(&self, rest: &str) -> bool {
        let Scope { ignores_case, behind, .. } = self.scope();
        let is_repeated = |place: &str| {
            rest.strip_prefix(place).is_some_and(|after| after.starts_with(['?', '*', '+', '{']))
        };
        ESCAPES.iter().any(|escape| rest.starts_with(escape))
            || ANCHORS.iter().any(|place| is_repeated(place))
            || behind && rest.starts_with(r"\z")
            || property_differs(rest, ignores_case)
            || code_differs(rest, ignores_case)
            || rest.strip_prefix(r"\g").is_some_and(|after| !after.starts_with(['<', '\'']))
            || self.has_names && refers_by_number(rest)
            || reference(rest).is_some_and(|group| ignores_case || self.is_open(group))
            // Escaped characters outside ASCII do not ignore case in fancy-regex.
            || ignores_case && !rest.chars().nth(1).is_some_and(|escaped| escaped.is_ascii())
    }

    /// Adds a section to the literal characters before the current position. Returns the entry of [`FOLDED`] that
    /// they now end with.
    fn folded(&mut self, part: &str) -> Option<&'static str> {
        let mut characters = part.chars();
        match (characters.next(), characters.next()) {
            _ if !self.scope().ignores_case => self.literal.clear(),
            // Oniguruma joins the literal characters on both sides of these.
            _ if [")", "(?:", "{1}", "{1,1}"].contains(&part) => {}
            // Oniguruma may expand the repetition of a character into repeated literal characters.
            (Some('{'), Some(_)) => self.literal.extend(self.literal.chars().next_back()),
            (Some(only), None) if !"([]|.?*+".contains(only) => self.literal.extend(only.to_lowercase()),
            _ => self.literal.clear(),
        }
        FOLDED.iter().map(String::as_str).find(|folded| self.literal.ends_with(folded))
    }
}

/// Returns the length of an escape in bytes, including the braces of `\p{L}` and `\x{2028}`, after which a `+`
/// repeats the whole escape.
fn escape(rest: &str) -> usize {
    let end = || rest.find('}').map(|end| end + 1);
    let braced = [r"\p{", r"\P{", r"\x{"].iter().any(|escape| rest.starts_with(escape));
    let plain = rest.chars().take(2).map(char::len_utf8).sum();
    braced.then(end).flatten().unwrap_or(plain)
}

/// Returns whether the next item is an anchor, or a reference to a group, which may have matched nothing.
fn takes_nothing(rest: &str) -> bool {
    rest.starts_with(['^', '$'])
        || rest.starts_with(r"\") && rest[1..].starts_with(['A', 'z', 'b', 'B', 'Z', 'G', 'K', 'k', 'g'])
        || reference(rest).is_some()
}

/// Returns the name or number of the group that an escape refers to.
fn reference(rest: &str) -> Option<&str> {
    let after = rest.strip_prefix('\\')?;
    if let Some(name) = bracketed(rest, r"\k") {
        return Some(name);
    }
    let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    (digits > 0).then(|| &after[..digits])
}

/// Returns whether an escape is a property that only one engine knows, or that only one folds by case.
fn property_differs(rest: &str, ignores_case: bool) -> bool {
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

/// Returns whether an escape is the code of a character that only one engine folds by case, or the value of a byte.
fn code_differs(rest: &str, ignores_case: bool) -> bool {
    let braced = rest.strip_prefix(r"\x{").and_then(|after| after.split('}').next());
    let plain = || rest.strip_prefix(r"\x").and_then(|after| after.get(..2));
    let wide = || rest.strip_prefix(r"\u").and_then(|after| after.get(..4));
    let Some(digits) = braced.or_else(plain).or_else(wide) else { return false };
    let folds = |code: u8| !code.is_ascii() || code.is_ascii_alphabetic();
    let code = u32::from_str_radix(digits, 16).ok().and_then(|code| u8::try_from(code).ok());
    // From hexadecimal 80 on, it means a byte of the text in Oniguruma, and a code point in fancy-regex.
    let is_byte = braced.is_none() && rest.starts_with(r"\x") && code.is_none_or(|code| !code.is_ascii());
    is_byte || ignores_case && code.is_none_or(folds)
}

/// Returns whether an escape refers to a group by its number.
fn refers_by_number(rest: &str) -> bool {
    let reference = rest[1..].trim_start_matches(['k', 'g']).trim_start_matches(['<', '\'', '+', '-']);
    reference.starts_with(|c: char| c.is_ascii_digit())
}

/// Returns the name of the group that opens here, if it is a named group.
fn name(rest: &str) -> Option<&str> {
    bracketed(rest, "(?").filter(|name| !name.starts_with(['=', '!']))
}

/// Returns the name in `<…>` or `'…'` after a prefix.
fn bracketed<'a>(rest: &'a str, prefix: &str) -> Option<&'a str> {
    let after = rest.strip_prefix(prefix)?;
    let pointed = after.strip_prefix('<').and_then(|after| after.split_once('>'));
    let quoted = || after.strip_prefix('\'').and_then(|after| after.split_once('\''));
    pointed.or_else(quoted).map(|(name, _)| name)
}

/// Returns whether both engines accept a name for a group.
fn is_word(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_numeric()) && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Reads a repetition operator, if one is next. Returns its length in bytes, and whether the engines understand it
/// differently.
///
/// A `+` after braces makes the repetition possessive in fancy-regex, and repeats it in Oniguruma. A `?` after a
/// single number makes it lazy in fancy-regex, and optional in Oniguruma.
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
    let differs = match numbers.split_once(',') {
        None => after.starts_with(['+', '?']),
        Some((min, max)) => {
            let number = |digits: &str| digits.parse::<u64>().ok();
            let backwards = !max.is_empty() && number(max) < number(min);
            min.is_empty() || backwards || after.starts_with('+')
        }
    };
    Some((end + 1 + manner(after), differs))
}

/// Returns the smallest and the largest number of iterations of a repetition operator.
fn times(repetition: &str) -> (u64, u64) {
    let number = |digits: &str| digits.parse().ok();
    match repetition.as_bytes().first() {
        Some(b'?') => (0, 1),
        Some(b'*') => (0, u64::MAX),
        Some(b'{') => {
            let (numbers, _) = repetition[1..].split_once('}').unwrap_or_default();
            let (min, max) = numbers.split_once(',').unwrap_or((numbers, numbers));
            (number(min).unwrap_or(0), number(max).unwrap_or(u64::MAX))
        }
        _ => (1, u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use crate::error::ErrorKind;
    use crate::split::tests::{custom, named, pretokens};
    use crate::split::{NamedPattern, SplitPattern, splitter};

    #[test]
    fn constructs_with_another_meaning_in_oniguruma_are_refused() {
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
            NamedPattern::Cl100k.regex(),
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
        let refused =
            splitter(&SplitPattern::Custom("(".repeat(1 << 12))).map(drop).expect_err("no expression");
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
            assert_eq!(
                SplitPattern::from_oniguruma(regex).ok(),
                Some(SplitPattern::Custom(regex.to_owned()))
            );
        }
        let [written] = *SplitPattern::Named(NamedPattern::Cl100k).oniguruma().expect("it can be written")
        else {
            panic!("one expression")
        };
        let written = custom(written);
        for text in ["12345 a  \n ", "a \n  b\n", "\n\n", "x  \n"] {
            let text = text.as_bytes();
            assert_eq!(
                pretokens(written.as_ref(), text),
                pretokens(named(NamedPattern::Cl100k).as_ref(), text)
            );
        }
    }

    #[test]
    fn a_line_end_means_the_same_as_in_oniguruma() {
        let pattern = SplitPattern::from_oniguruma(r"\s+$").expect("translated");
        let written = pattern.oniguruma().expect("it means the same there");
        assert_eq!(written, [r"\s+(?m:$)"]);
        assert_eq!(SplitPattern::from_oniguruma(written[0]).ok(), Some(pattern.clone()));
        let splitter = splitter(&pattern).expect("a regular expression");
        assert_eq!(pretokens(splitter.as_ref(), b"a \n b  "), [&b"a"[..], b" ", b"\n b", b"  "]);
    }
}
