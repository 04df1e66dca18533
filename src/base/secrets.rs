//! Hides secrets in everything that the program shows or writes: messages, reports, manifests and the recipes in
//! them.
//!
//! Addresses may contain passwords, signatures and tokens, and servers repeat them in error messages. Hiding too much
//! costs a reader a moment, but a published secret cannot be taken back, so the rules prefer to hide: all values of a
//! web query are hidden, and typing errors in an address do not stop it from being recognized.
//!
//! The rules, in addition to those for the parts of web addresses:
//!
//! - values of parameters with telling names (`token=…`, `password=…`, `X-Amz-Signature=…` and others);
//! - the words after `Bearer` and `Basic`;
//! - tokens with the prefixes of Hugging Face (`hf_`), GitHub (`ghp_` and others) and AWS (`AKIA`, `ASIA`);
//! - a name and password before the `@` of a host.

use std::ops::Range;

use fancy_regex::Regex;

use super::lazy::Lazy;

/// URI schemes with public queries: these URIs have no query, and a question mark is a glob pattern. Parameters that
/// are named like a secret are hidden anyway.
const OPEN: [&str; 4] = ["hf", "s3", "gs", "az"];

/// Matches secrets anywhere in a text, each as the last group that matched: values of parameters that are named like
/// a secret, tokens of known forms, and user name and password before a host.
static CREDENTIALS: Lazy<Regex> = Lazy::new(|| {
    let name = concat!(
        r"(?:x-(?:amz|goog)-(?:signature|credential|security-token)|sig|signature|(?:access[_-]?)?token",
        r"|password|passwd|secret(?:[_-]?access)?[_-]?key|client[_-]?secret|api[_-]?key|awsaccesskeyid)",
    );
    let alternatives = [
        &format!(r#"(?:^|[?&\s;,(\["'`]){name}=([^\s&"'`<>,;…]+)"#),
        r"\b(?:bearer|basic)\s+([a-z0-9._~+/=-]{8,})",
        r"\b((?-i:hf_|gh[pousr]_)[a-z0-9]{8,})",
        r"\b((?-i:AKIA|ASIA)(?-i:[0-9A-Z]){12,})",
        r#"(?:^|[\s/:("'`])([^\s/:@"'`<>…]+:[^\s/@"'`<>…]+)@"#,
    ];
    Regex::new(&format!("(?i){}", alternatives.join("|"))).expect("a regular expression")
});

/// The beginning of a web address, with common typing errors.
static WEB: Lazy<Regex> =
    Lazy::new(|| Regex::new("(?i)(?:^|[\\s\"'`(=])(https?[:;]?/{1,3})").expect("a regular expression"));

/// A URI as reports, files and messages show it. Parts of a web address that may be secret are replaced by `…`: user
/// name and password before the host, the values of the query, which may contain a signature, and the fragment after
/// `#`.
///
/// ```
/// use tokenmill::source::shown_uri;
///
/// assert_eq!(shown_uri("https://me:word@host/a.parquet?key=x&part=2"), "https://…@host/a.parquet?key=…&part=…");
/// assert_eq!(shown_uri("texts/part-?.txt"), "texts/part-?.txt");
/// ```
pub fn shown_uri(uri: &str) -> String {
    let secrets = if address(uri) == Some(0) { secrets(uri) } else { Vec::new() };
    replaced(uri, with_credentials(uri, secrets), |_| "…".to_owned())
}

/// Hides the secrets of all web addresses in a text (a command line, a recipe), like [`shown_uri`]. An address ends
/// at white space or a quote. Text that begins with a variable (`${BASE}/a?key=value`) may be an address, so the
/// values of its query are hidden too.
///
/// ```
/// use tokenmill::source::without_secrets;
///
/// assert_eq!(without_secrets("get https://host/a?sig=x now"), "get https://host/a?sig=… now");
/// ```
pub fn without_secrets(text: &str) -> String {
    replaced(text, all_secrets(text), |_| "…".to_owned())
}

/// Like [`without_secrets`], but replaces each byte of a secret by `*`, so that all other bytes keep their offsets.
///
/// ```
/// use tokenmill::source::with_secrets_covered;
///
/// assert_eq!(with_secrets_covered("https://host/a?k=abc#x"), "https://host/a?k=***#*");
/// ```
pub fn with_secrets_covered(text: &str) -> String {
    replaced(text, all_secrets(text), |secret| "*".repeat(secret.len()))
}

/// Replaces the given ranges of a text, which are in order and do not overlap.
fn replaced(text: &str, places: Vec<Range<usize>>, with: impl Fn(&str) -> String) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut done = 0;
    for place in places {
        shown.push_str(&text[done..place.start]);
        shown.push_str(&with(&text[place.clone()]));
        done = place.end;
    }
    shown + &text[done..]
}

/// Adds the ranges of credentials to `places`. The result is sorted and does not overlap.
fn with_credentials(text: &str, mut places: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let groups = CREDENTIALS.captures_iter(text).flatten().filter_map(|groups| {
        let group = (1..groups.len()).rev().find_map(|group| groups.get(group))?;
        // In a complete address, the path may contain a colon and an `@`.
        let is_path = group.end() < text.len()
            && text[group.end()..].starts_with('@')
            && is_in_path(text, group.start());
        (!is_path).then(|| group.start()..group.end())
    });
    places.extend(groups);
    places.sort_by_key(|place| (place.start, place.end));
    let mut apart: Vec<Range<usize>> = Vec::with_capacity(places.len());
    for place in places {
        match apart.last_mut() {
            Some(last) if place.start < last.end => last.end = last.end.max(place.end),
            _ => apart.push(place),
        }
    }
    apart
}

/// Whether an offset is in the path of an address, or in its query if that could be a glob pattern.
fn is_in_path(text: &str, at: usize) -> bool {
    let word =
        text[..at].rfind(|c: char| c.is_whitespace() || "\"'`<>".contains(c)).map_or(0, |space| space + 1);
    text[word..at].split_once("://").is_some_and(|(_, after)| after.contains('/'))
}

/// The ranges of all secrets: parts of addresses, and credentials.
fn all_secrets(text: &str) -> Vec<Range<usize>> {
    with_credentials(text, secrets_of_addresses(text))
}

/// The ranges in all addresses that may be secret.
fn secrets_of_addresses(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = address(&text[at..]).into_iter().chain(text[at..].find("${")).min() {
        at += start;
        let rest = &text[at..];
        let end = rest.find(|c: char| c.is_whitespace() || "\"'`<>".contains(c)).unwrap_or(rest.len());
        // An address may follow a variable directly.
        let end = address(rest).filter(|next| (1..end).contains(next)).unwrap_or(end);
        let word = &rest[..end];
        let secrets = if word.starts_with('$') { secrets_if_query(word) } else { secrets(word) };
        found.extend(secrets.into_iter().map(|secret| at + secret.start..at + secret.end));
        at += end;
    }
    found
}

/// The offset of the next address that may contain secrets.
fn address(text: &str) -> Option<usize> {
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let right = text.match_indices("://").find_map(|(end, _)| {
        let start = text[..end].trim_end_matches(is_scheme).len();
        (start < end && !OPEN.contains(&&text[start..end])).then_some(start)
    });
    let mistyped = WEB.captures(text).ok().flatten().and_then(|found| Some(found.get(1)?.start()));
    right.into_iter().chain(mistyped).min()
}

/// The ranges of an address that may be secret.
fn secrets(uri: &str) -> Vec<Range<usize>> {
    let scheme = uri.find([':', ';', '/']).unwrap_or(0);
    let start = uri.len() - uri[scheme..].trim_start_matches([':', ';', '/']).len();
    let end = |from: usize, at: &[char]| uri[from..].find(at).map_or(uri.len(), |found| from + found);
    let fragment = end(start, &['#']);
    let query = end(start, &['?']).min(fragment);
    let host = end(start, &['/']).min(query);
    let mut found = Vec::new();
    found.extend(uri[start..host].rfind('@').map(|at| start..start + at));
    if query < fragment {
        found.extend(values(uri, query + 1..fragment));
    }
    found.extend((fragment < uri.len()).then_some(fragment + 1..uri.len()));
    found
}

/// The ranges that may be secret if a text begins with a variable: the values of its query. A path may contain
/// question marks too, but hardly followed by an equals sign.
fn secrets_if_query(text: &str) -> Vec<Range<usize>> {
    match text.split_once('?') {
        Some((place, query)) if query.contains('=') => values(text, place.len() + 1..text.len()),
        _ => Vec::new(),
    }
}

/// The ranges of a query's values. A parameter without a name counts as a value.
fn values(text: &str, query: Range<usize>) -> Vec<Range<usize>> {
    let mut at = query.start;
    let value = |parameter: &str| {
        let start = at + parameter.find('=').map_or(0, |equals| equals + 1);
        let end = at + parameter.len();
        at = end + 1;
        start..end
    };
    text[query].split('&').map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every part that may be secret is replaced, even after typing errors; showing the result once more changes
    /// nothing.
    #[test]
    fn what_may_be_secret_is_left_out() {
        for (uri, shown) in [
            ("https://host/a.txt", "https://host/a.txt"),
            ("http://name@host:8080/a@b", "http://…@host:8080/a@b"),
            ("https://na/me:pass@host", "https://na/me:pass@host"),
            ("https://n:p@ss@host?key", "https://…@host?…"),
            ("https://host/a?to=https://n:p@other/?k=v&x=", "https://host/a?to=…&x=…"),
            ("https://host/a#?k=v", "https://host/a#…"),
            ("s3://bucket/a?k=v", "s3://bucket/a?k=v"),
            ("hf://datasets/a/b@main/c?", "hf://datasets/a/b@main/c?"),
            ("ftp://n:p@host/a?k=v", "ftp://…@host/a?k=…"),
            ("HTTPS://n:p@host", "HTTPS://…@host"),
            ("see https://n:p@host", "see https://…@host"),
            ("https:/n:p@host/a?k=v", "https:/…@host/a?k=…"),
            ("https//n:p@host/a?k=v", "https//…@host/a?k=…"),
            ("https:///n:p@host/a?k=v", "https:///…@host/a?k=…"),
            ("http;//host/a?k=v", "http;//host/a?k=…"),
            ("htps:/n:p@host", "htps:/…@host"),
            ("n:p@host/a.txt", "…@host/a.txt"),
            ("s3://key:word@bucket/a", "s3://…@bucket/a"),
            ("hf://gpt2@main/c", "hf://gpt2@main/c"),
            ("az://container/a?sv=1&sig=x%2F", "az://container/a?sv=1&sig=…"),
            ("texts/b:c?/part-?.txt", "texts/b:c?/part-?.txt"),
        ] {
            assert_eq!(shown_uri(uri), shown);
            assert_eq!(shown_uri(shown), shown, "shown once more");
        }
    }

    /// Each address in a longer text is found, up to white space or a quote.
    #[test]
    fn every_address_of_a_text_is_shown_without_secrets() {
        let recipe =
            "uri = \"https://n:p@host/a?k=v\" # not http://host/b?k=v, but\n'http://host/c?d' s3://e?f";
        let shown = "uri = \"https://…@host/a?k=…\" # not http://host/b?k=… but\n'http://host/c?…' s3://e?f";
        assert_eq!(without_secrets(recipe), shown);
        assert_eq!(without_secrets("https://"), "https://");
        let covered =
            "uri = \"https://***@host/a?k=*\" # not http://host/b?k=** but\n'http://host/c?*' s3://e?f";
        assert_eq!(with_secrets_covered(recipe), covered);
        assert_eq!(with_secrets_covered("http://é@h"), "http://**@h");
    }

    /// Credentials that a server repeats in a message are found by their form or name.
    #[test]
    fn credentials_that_a_server_repeats_are_left_out() {
        for (said, shown) in [
            ("token hf_abcdefgh1234 is wrong", "token … is wrong"),
            ("check HF_ENDPOINT, then run", "check HF_ENDPOINT, then run"),
            ("Authorization: Bearer abc.def-123", "Authorization: Bearer …"),
            ("<AWSAccessKeyId>AKIAIOSFODNN7EXAMPLE</AWSAccessKeyId>", "<AWSAccessKeyId>…</AWSAccessKeyId>"),
            ("no object a?X-Amz-Signature=0ab&part=1", "no object a?X-Amz-Signature=…&part=1"),
            ("sig=ab%2B, password=x", "sig=…, password=…"),
            ("--special-token=[PAD] --eos-token=a", "--special-token=[PAD] --eos-token=a"),
            ("[output]\ntoken_ids = 1\nhf_x", "[output]\ntoken_ids = 1\nhf_x"),
            ("a.txt: row 3: a@b", "a.txt: row 3: a@b"),
        ] {
            assert_eq!(without_secrets(said), shown);
            assert_eq!(without_secrets(shown), shown, "shown once more");
        }
    }

    /// A variable may be the beginning of an address.
    #[test]
    fn what_a_variable_may_make_an_address_is_shown_without_its_query() {
        for (text, shown) in [
            ("uri = \"${BASE}/a.txt?sig=x&b\" # c=d", "uri = \"${BASE}/a.txt?sig=…&…\" # c=d"),
            ("'${BASE}?sig=x#y' https://h?k=v", "'${BASE}?sig=…' https://h?k=…"),
            ("${HERE}/part-?.parquet ${", "${HERE}/part-?.parquet ${"),
            ("${A}https://n:p@h", "${A}https://…@h"),
            ("https://${USER}:p@h/${B}?k=v", "https://…@h/${B}?k=…"),
        ] {
            assert_eq!(without_secrets(text), shown);
        }
    }
}
