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
    let Some((scheme, rest)) =
        ["https://", "http://"].iter().find_map(|scheme| Some((scheme, uri.strip_prefix(scheme)?)))
    else {
        return uri.to_owned();
    };
    let (rest, fragment) = parted(rest, '#');
    let (place, query) = parted(rest, '?');
    let (host, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    let host = host.rsplit_once('@').map_or(host.to_owned(), |(_, host)| format!("…@{host}"));
    let query = query.map(shown_query);
    let fragment = fragment.map_or("", |_| "#…");
    format!("{scheme}{host}{path}{}{fragment}", query.unwrap_or_default())
}

/// A text, such as a command line or a recipe, whose web addresses are as [`shown_uri`] shows them. They end at white space
/// and at quotes. What begins with a variable, as `${BASE}/a?key=value`, may be one.
pub fn without_secrets(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = address(rest).into_iter().chain(rest.find("${")).min() {
        let (before, found) = rest.split_at(start);
        let end = found.find(|c: char| c.is_whitespace() || "\"'`<>".contains(c)).unwrap_or(found.len());
        // An address may come after a variable.
        let end = address(found).filter(|next| (1..end).contains(next)).unwrap_or(end);
        let (found, after) = found.split_at(end);
        shown.push_str(before);
        shown.push_str(&if found.starts_with('$') { shown_if_query(found) } else { shown_uri(found) });
        rest = after;
    }
    shown + rest
}

/// Where the next web address begins.
fn address(text: &str) -> Option<usize> {
    ["https://", "http://"].iter().filter_map(|scheme| text.find(scheme)).min()
}

/// What begins with a variable, without the values of its query. A path may have question marks too, but hardly with an
/// equals sign after one.
fn shown_if_query(text: &str) -> String {
    match text.split_once('?') {
        Some((place, query)) if query.contains('=') => format!("{place}{}", shown_query(query)),
        _ => text.to_owned(),
    }
}

/// What stands before the first of a character, and after it if it is there.
fn parted(text: &str, at: char) -> (&str, Option<&str>) {
    text.split_once(at).map_or((text, None), |(before, after)| (before, Some(after)))
}

fn shown_query(query: &str) -> String {
    format!("?{}", query.split('&').map(shown_parameter).collect::<Vec<_>>().join("&"))
}

fn shown_parameter(parameter: &str) -> String {
    parameter.split_once('=').map_or("…".to_owned(), |(name, _)| format!("{name}=…"))
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
