use std::ops::Range;

/// Schemes of addresses that hold no secrets: a name and password, or a signature, have no place in them.
const OPEN: [&str; 4] = ["hf", "s3", "gs", "az"];

/// An address as reports, files and messages show it. Of a web address they leave out what may be secret: a name and password
/// before the host, the values of a query, which may be a signature, and what follows `#`.
///
/// ```
/// use tokenmill::source::shown_uri;
///
/// assert_eq!(shown_uri("https://me:word@host/a.parquet?key=x&part=2"), "https://…@host/a.parquet?key=…&part=…");
/// assert_eq!(shown_uri("texts/part-?.txt"), "texts/part-?.txt");
/// ```
pub fn shown_uri(uri: &str) -> String {
    let secrets = if address(uri) == Some(0) { secrets(uri) } else { Vec::new() };
    replaced(uri, secrets, |_| "…".to_owned())
}

/// A text, such as a command line or a recipe, whose web addresses are as [`shown_uri`] shows them. They end at white space
/// and at quotes. What begins with a variable, as `${BASE}/a?key=value`, may be one.
pub fn without_secrets(text: &str) -> String {
    replaced(text, all_secrets(text), |_| "…".to_owned())
}

/// The same with all in its place: as many bytes stand for what is left out.
pub fn with_secrets_covered(text: &str) -> String {
    replaced(text, all_secrets(text), |secret| "*".repeat(secret.len()))
}

/// A text with something else in some places, which are in order.
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

/// What may be secret of all addresses of a text.
fn all_secrets(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = address(&text[at..]).into_iter().chain(text[at..].find("${")).min() {
        at += start;
        let rest = &text[at..];
        let end = rest.find(|c: char| c.is_whitespace() || "\"'`<>".contains(c)).unwrap_or(rest.len());
        // An address may come after a variable.
        let end = address(rest).filter(|next| (1..end).contains(next)).unwrap_or(end);
        let word = &rest[..end];
        let secrets = if word.starts_with('$') { secrets_if_query(word) } else { secrets(word) };
        found.extend(secrets.into_iter().map(|secret| at + secret.start..at + secret.end));
        at += end;
    }
    found
}

/// Where the next address begins that may hold secrets.
fn address(text: &str) -> Option<usize> {
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    text.match_indices("://").find_map(|(end, _)| {
        let start = text[..end].trim_end_matches(is_scheme).len();
        (start < end && !OPEN.contains(&&text[start..end])).then_some(start)
    })
}

/// What may be secret of an address.
fn secrets(uri: &str) -> Vec<Range<usize>> {
    let start = uri.find("://").map_or(0, |colon| colon + 3);
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

/// What may be secret of what begins with a variable: the values of its query. A path may have question marks too, but hardly
/// with an equals sign after one.
fn secrets_if_query(text: &str) -> Vec<Range<usize>> {
    match text.split_once('?') {
        Some((place, query)) if query.contains('=') => values(text, place.len() + 1..text.len()),
        _ => Vec::new(),
    }
}

/// The values of a query; what has no name may be one.
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
            ("see https://n:p@host", "see https://n:p@host"),
        ] {
            assert_eq!(shown_uri(uri), shown);
            assert_eq!(shown_uri(shown), shown, "shown once more");
        }
    }

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
