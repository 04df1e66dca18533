//! The explorer page: a page that encodes text in the browser by the tokenizers that it contains.
//!
//! The page runs one script, [`SCRIPTS`], and forbids all other scripts and all requests by a content security policy.
//! Everything that comes from tokenizers is data in two forms that cannot end their element: JSON of ASCII characters
//! without `<`, and Base64.

use askama::Template;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::VERSION;

/// Tokenizers that are prepared for a page.
#[derive(Clone, Debug)]
pub struct Explorer {
    /// What all tokenizers share: the names of scripts, and the character classes of their expressions.
    pub facts: Value,
    /// At most four, in the order in which the page shows them.
    pub tokenizers: Vec<ExploredTokenizer>,
}

/// A tokenizer that is prepared for a page.
#[derive(Clone, Debug)]
pub struct ExploredTokenizer {
    /// Its name, added tokens and rules. Without `rules`, the page encodes no text by it, and shows the `notice` instead.
    pub facts: Value,
    /// All tokens and merges, in the form that the script reads.
    pub table: Vec<u8>,
}

/// The script of the page: the encoder, and then what shows its results.
const SCRIPTS: &str = concat!(
    "\"use strict\";\n",
    include_str!("../../templates/explorer-encoder.js"),
    include_str!("../../templates/explorer.js")
);

/// The data that the template lays out.
#[derive(Template)]
#[template(path = "explorer.html")]
struct Page {
    /// The hash of the script, by which the browser knows it.
    hash: String,
    script: &'static str,
    /// JSON that is safe inside an element.
    facts: String,
    /// The table of each tokenizer in Base64.
    tables: Vec<String>,
}

/// The tokenizers as an HTML page that needs no other file and no network. It encodes text as this program does, and
/// shows tokens, merges and vocabularies.
///
/// Equal tokenizers give equal pages.
pub fn explorer_to_html(explorer: &Explorer) -> String {
    let tokenizers: Vec<&Value> = explorer.tokenizers.iter().map(|tokenizer| &tokenizer.facts).collect();
    let facts = json!({ "version": VERSION, "shared": explorer.facts, "tokenizers": tokenizers });
    let page = Page {
        hash: STANDARD.encode(Sha256::digest(SCRIPTS)),
        script: SCRIPTS,
        facts: in_ascii(&facts.to_string()),
        tables: explorer.tokenizers.iter().map(|tokenizer| STANDARD.encode(&tokenizer.table)).collect(),
    };
    page.render().expect("a page is rendered into memory")
}

/// Returns JSON with all characters escaped that are not ASCII, or that HTML could act on. All of these are within
/// strings.
fn in_ascii(json: &str) -> String {
    let mut ascii = String::with_capacity(json.len());
    for character in json.chars() {
        if matches!(character, ' '..='~') && !"<>&'".contains(character) {
            ascii.push(character);
        } else {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                ascii.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    ascii
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::is_invisible;

    const HOSTILE: &str = "</script><script>alert(1)</script><!--,\"'\\|\u{202E}\u{1B}\u{7}\u{2028}";

    /// Nothing of a tokenizer leaves its place, and all of it is read back.
    #[test]
    fn nothing_from_a_tokenizer_leaves_its_place() {
        let tokenizer = ExploredTokenizer { facts: json!({ "name": HOSTILE }), table: HOSTILE.into() };
        let facts = json!({ "scripts": ["Latin", HOSTILE] });
        let page = explorer_to_html(&Explorer { facts, tokenizers: vec![tokenizer.clone(), tokenizer] });
        assert_eq!(page.matches("<script").count(), 4, "{page}");
        assert!(
            !page.contains("<!--") && page.chars().all(|c| c == '\n' || !c.is_control() && !is_invisible(c))
        );
        let after = page.split_once("id=\"facts\">").expect("the facts").1;
        let facts: Value = serde_json::from_str(after.split_once('<').expect("its end").0).expect("JSON");
        assert_eq!(facts["tokenizers"][1]["name"], HOSTILE);
        assert_eq!(facts["shared"]["scripts"][1], HOSTILE);
        let table =
            page.split_once("id=\"table-1\">").expect("a table").1.split_once('<').expect("its end").0;
        assert_eq!(STANDARD.decode(table).expect("Base64"), HOSTILE.as_bytes());
    }

    /// The script is one that its element can hold, and the one that the policy allows.
    #[test]
    fn the_page_allows_its_own_script_alone() {
        assert!(!SCRIPTS.contains("</script") && !SCRIPTS.contains("<!--") && SCRIPTS.is_ascii());
        let page = explorer_to_html(&Explorer { facts: json!({}), tokenizers: Vec::new() });
        let script =
            page.split_once("<script>").expect("the script").1.split_once("</script>").expect("its end").0;
        let hash = format!("script-src 'sha256-{}'", STANDARD.encode(Sha256::digest(script)));
        assert!(page.contains(&hash) && page.contains("default-src 'none'"), "{hash}");
    }
}
