//! Parses `Link` headers (RFC 8288).

use ureq::http::HeaderMap;

/// Whether a list has another page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Links {
    /// The list continues at this address.
    Next(String),
    /// The list is complete.
    Last,
    /// The headers cannot be read, so the list may be incomplete.
    Unreadable,
}

/// The next page from `Link: <address>; rel="next"`, among other links and in any of several headers.
pub(super) fn next_page(headers: &HeaderMap) -> Links {
    for header in headers.get_all("link") {
        let Ok(mut rest) = header.to_str() else { return Links::Unreadable };
        while !rest.trim_matches([' ', '\t', ',']).is_empty() {
            let Some((link, after)) = link(rest) else { return Links::Unreadable };
            if link.is_next() {
                return Links::Next(link.address.to_owned());
            }
            rest = after;
        }
    }
    Links::Last
}

/// One link of a header.
struct Link<'a> {
    /// The address, which may be relative.
    address: &'a str,
    /// The parameters `; name=value` or `; name="value"` that follow the address.
    parameters: Vec<(&'a str, &'a str)>,
}

impl Link<'_> {
    /// Whether the link leads to the next page.
    fn is_next(&self) -> bool {
        // If the relation is given repeatedly, the first one counts.
        let relation = self.parameters.iter().find(|(name, _)| name.eq_ignore_ascii_case("rel"));
        relation.is_some_and(|(_, kinds)| {
            kinds.split_ascii_whitespace().any(|kind| kind.eq_ignore_ascii_case("next"))
        })
    }
}

/// The first link of a header, and the text after it.
fn link(header: &str) -> Option<(Link<'_>, &str)> {
    let (address, mut rest) =
        header.trim_start_matches([' ', '\t', ',']).strip_prefix('<')?.split_once('>')?;
    let mut parameters = Vec::new();
    while let Some(parameter) = rest.trim_start().strip_prefix(';') {
        let end = parameter.find(['=', ';', ',']).unwrap_or(parameter.len());
        let name = parameter[..end].trim();
        rest = &parameter[end..];
        let Some(value) = rest.strip_prefix('=').map(str::trim_start) else { continue };
        let (value, after) = match value.strip_prefix('"') {
            // Relations contain no quotes, so escapes need not be handled.
            Some(quoted) => quoted.split_once('"')?,
            None => value.split_at(value.find([';', ',']).unwrap_or(value.len())),
        };
        parameters.push((name, value.trim()));
        rest = after;
    }
    let rest = rest.trim_start();
    (rest.is_empty() || rest.starts_with(',')).then_some((Link { address, parameters }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(links: &[&'static str]) -> Links {
        let mut headers = HeaderMap::new();
        for link in links {
            headers.append("link", link.parse().expect("a header"));
        }
        next_page(&headers)
    }

    /// All notations that the standard allows.
    #[test]
    fn the_next_page_is_named_in_many_ways() {
        for links in [
            &["</p>; rel=\"next\""][..],
            &["</p>;rel=next"],
            &["</p> ; REL = \"Next\""],
            &["</p>; rel=\"next last\""],
            &["</p>; title=\"a, b; c\"; rel=next"],
            &["</first>; rel=first, </p>; rel=next"],
            &["</first>; rel=first", "</p>; rel=next"],
            &["</first>; crossorigin; rel=first,, </p>; rel=next"],
        ] {
            assert_eq!(next(links), Links::Next("/p".to_owned()), "{links:?}");
        }
        assert_eq!(next(&["</p?a=1,2;b>; rel=next"]), Links::Next("/p?a=1,2;b".to_owned()));
    }

    /// A list without a link to a next page is complete.
    #[test]
    fn a_listing_ends_where_no_link_leads_on() {
        for links in
            [&[][..], &[""], &["</p>; rel=prev"], &["</p>; rel=prev; rel=next"], &["</p>; title=\"next\""]]
        {
            assert_eq!(next(links), Links::Last, "{links:?}");
        }
    }

    /// Headers that cannot be parsed might have contained a link, so the list may be incomplete.
    #[test]
    fn what_is_no_link_may_have_been_one() {
        for links in ["next", "</p; rel=next", "</p>; rel=\"next", "</p> rel=next"] {
            assert_eq!(next(&[links]), Links::Unreadable, "{links}");
        }
    }
}
