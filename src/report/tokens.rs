use askama::Template;

use super::ShownToken;

/// The tokens of a text as an HTML page that needs no other file and no network. All token text is escaped.
pub fn tokens_to_html(tokens: &[ShownToken]) -> String {
    Page { tokens }.render().expect("a page is rendered into memory")
}

#[derive(Template)]
#[template(path = "tokens.html")]
struct Page<'a> {
    tokens: &'a [ShownToken],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::int::TokenId;

    /// The page shows each token, and escapes all text.
    #[test]
    fn the_page_shows_each_token_and_nothing_leaves_its_place() {
        let token = |id, bytes: &[u8]| ShownToken::new(TokenId::new(id), bytes);
        let page = tokens_to_html(&[token(7, b"<script>"), token(300, b" a\n"), token(255, b"\xFF")]);
        assert!(!page.contains("<script"), "{page}");
        for expected in
            ["3 tokens", "id 300, 3 bytes", "\u{2423}a", "</span><br>", "\\xFF", "&#60;script&#62;"]
        {
            assert!(page.contains(expected), "{expected}: {page}");
        }
    }
}
