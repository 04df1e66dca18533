//! Resolves and encodes URLs.

/// Scheme, host and port of an address. The hub's token is sent only to addresses with the hub's origin.
pub(super) fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    let end = url[host..].find(['/', '?', '#']).map_or(url.len(), |at| host + at);
    &url[..end]
}

/// Resolves the header `Location: to` of an answer from `base`.
pub(super) fn join(base: &str, to: &str) -> String {
    // `to` is absolute only if its scheme precedes any path or query, because a query may contain an address too.
    if to.find("://").is_some_and(|scheme| !to[..scheme].contains(['/', '?', '#'])) {
        return to.to_owned();
    }
    if to.starts_with("//") {
        let scheme = base.find("//").unwrap_or(0);
        return format!("{}{to}", &base[..scheme]);
    }
    if to.starts_with('/') {
        return format!("{}{to}", origin(base));
    }
    let path = base.split(['?', '#']).next().unwrap_or(base);
    if to.starts_with('?') {
        return format!("{path}{to}");
    }
    let folder = path.rfind('/').filter(|&at| at >= origin(base).len()).map_or(path.len(), |at| at);
    format!("{}/{to}", &path[..folder])
}

/// Percent-encodes a text as a single segment of a URL's path.
pub(super) fn segment(text: &str) -> String {
    use std::fmt::Write;
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Percent-encodes a path, except for its slashes.
pub(super) fn path(text: &str) -> String {
    text.split('/').map(segment).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Absolute, scheme-relative and relative locations are resolved.
    #[test]
    fn locations_are_taken_from_where_they_stand() {
        let base = "https://hub.example:8080/a/b?c=/d";
        for (to, expected) in [
            ("https://other/x", "https://other/x"),
            ("//other/x", "https://other/x"),
            ("/x?y", "https://hub.example:8080/x?y"),
            ("x", "https://hub.example:8080/a/x"),
            ("?x", "https://hub.example:8080/a/b?x"),
            ("/x?from=https://other/y", "https://hub.example:8080/x?from=https://other/y"),
            ("x?from=https://other/y", "https://hub.example:8080/a/x?from=https://other/y"),
        ] {
            assert_eq!(join(base, to), expected);
        }
        assert_eq!(join("http://hub", "x"), "http://hub/x");
    }

    /// User names before the host are part of the origin, so that another host is never mistaken for the hub.
    #[test]
    fn an_origin_is_scheme_host_and_port() {
        for (url, expected) in [
            ("https://hub.example:8080/a", "https://hub.example:8080"),
            ("https://hub.example?a", "https://hub.example"),
            ("https://hub.example", "https://hub.example"),
            ("https://hub.example@evil/a", "https://hub.example@evil"),
        ] {
            assert_eq!(origin(url), expected);
        }
    }

    /// A segment's slashes are encoded; a path's are not.
    #[test]
    fn paths_are_encoded() {
        assert_eq!(segment("refs/convert/parquet"), "refs%2Fconvert%2Fparquet");
        assert_eq!(path("a b/ü#?.parquet"), "a%20b/%C3%BC%23%3F.parquet");
    }
}
