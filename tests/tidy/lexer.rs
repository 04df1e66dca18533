/// An identifier, number or punctuation mark of Rust source, with its line. `::` is a single token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
}

/// Splits Rust source into tokens. Comments, string and character literals, and lifetimes give no token.
pub(crate) fn tokens(source: &str) -> Vec<Token> {
    let mut cursor = Cursor { rest: source, line: 1, tokens: Vec::new() };
    while !cursor.rest.is_empty() {
        cursor.step();
    }
    cursor.tokens
}

/// Removes every item under `#[cfg(test)]`.
pub(crate) fn without_tests(tokens: &[Token]) -> Vec<Token> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let marked = tokens[at..].iter().zip(MARK).filter(|(token, mark)| token.text == *mark).count();
        if marked == MARK.len() {
            at = end_of_item(tokens, at + MARK.len());
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

/// Returns the index after the item that begins at `from`: after its `;` or its closing brace.
fn end_of_item(tokens: &[Token], from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token.text.as_str() {
            "{" | "(" | "[" => depth += 1,
            ")" | "]" => depth = depth.saturating_sub(1),
            "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    // `use a::{b};` ends after the brace.
                    let semicolon = tokens.get(at + 1).is_some_and(|next| next.text == ";");
                    return at + 1 + usize::from(semicolon);
                }
            }
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

struct Cursor<'a> {
    rest: &'a str,
    line: usize,
    tokens: Vec<Token>,
}

impl Cursor<'_> {
    fn step(&mut self) {
        let first = self.rest.chars().next().expect("called while something is left");
        if self.rest.starts_with("//") {
            self.skip(self.rest.find('\n').unwrap_or(self.rest.len()));
        } else if self.rest.starts_with("/*") {
            self.skip(block_comment(self.rest));
        } else if let Some(length) = raw_string(self.rest) {
            self.skip(length);
        } else if first == '"' {
            self.skip(quoted(self.rest, '"'));
        } else if first == '\'' {
            self.skip(quote_or_lifetime(self.rest));
        } else if first.is_alphanumeric() || first == '_' {
            let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            self.take(end.unwrap_or(self.rest.len()));
        } else if self.rest.starts_with("::") {
            self.take(2);
        } else if first.is_whitespace() {
            self.skip(first.len_utf8());
        } else {
            self.take(first.len_utf8());
        }
    }

    fn take(&mut self, length: usize) {
        self.tokens.push(Token { text: self.rest[..length].to_owned(), line: self.line });
        self.skip(length);
    }

    fn skip(&mut self, length: usize) {
        self.line += self.rest[..length].matches('\n').count();
        self.rest = &self.rest[length..];
    }
}

/// Length of the block comment at the start of `text`, nested comments included.
fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Length of the raw string (`r"…"`, `br#"…"#`) at the start of `text`; `None` if `text` starts with something
/// else.
fn raw_string(text: &str) -> Option<usize> {
    let body =
        text.strip_prefix("br").or_else(|| text.strip_prefix("cr")).or_else(|| text.strip_prefix('r'))?;
    let prefix = text.len() - body.len();
    let hashes = body.len() - body.trim_start_matches('#').len();
    let content = body[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = content.find(&end).map_or(content.len(), |at| at + end.len());
    Some(prefix + hashes + 1 + length)
}

/// Length of the literal at the start of `text`, both quotes included.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// Length of the character literal or lifetime at the start of `text`.
fn quote_or_lifetime(text: &str) -> usize {
    let mut chars = text.chars().skip(1);
    match (chars.next(), chars.next()) {
        (Some('\\'), _) | (Some(_), Some('\'')) => quoted(text, '\''),
        _ => {
            let name = text[1..].find(|c: char| !c.is_alphanumeric() && c != '_');
            name.map_or(text.len(), |at| at + 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<String> {
        tokens(source).into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_literals_and_lifetimes_are_no_tokens() {
        let source = "a /* b /* c */ d */ \"e \\\" f\" r#\"g \" h\"# 'i' '\\'' &'j k // l\nb\"m\" n::o";
        assert_eq!(words(source), ["a", "&", "k", "b", "n", "::", "o"]);
    }

    #[test]
    fn lines_are_counted_through_everything_skipped() {
        let found = tokens("/* \n */ a \"\n\n\"\nb r\"\n\" c");
        let lines: Vec<usize> = found.iter().map(|token| token.line).collect();
        assert_eq!(lines, [2, 5, 6]);
    }

    #[test]
    fn items_under_cfg_test_are_left_out() {
        let source = "a; #[cfg(test)] mod t { x { y } } b; #[cfg(test)] use c::{d}; e; #[cfg(unix)] f;";
        let kept: Vec<String> = without_tests(&tokens(source)).into_iter().map(|token| token.text).collect();
        assert_eq!(kept.join(" "), "a ; b ; e ; # [ cfg ( unix ) ] f ;");
    }
}
