use super::*;

/// `compare` prints, and writes to JSON and HTML, the figures of several tokenizers on the same text.
#[test]
fn tokenizers_are_compared_on_the_same_text() {
    let folder = folder();
    write(&folder, "latin.txt", "the same words again and again, the same\n".repeat(30));
    write(&folder, "greek.txt", "οι ίδιες λέξεις ξανά και ξανά\n".repeat(20));
    let run = |arguments: &[&str]| {
        let output = tokenmill(&folder).args(arguments).output().expect("a run");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    for (name, split) in [("one", "gpt2"), ("two", "none")] {
        let (code, _, said) =
            run(&["train", "latin.txt", "-o", name, "--vocab-size", "290", "--split", split, "--quiet"]);
        assert_eq!(code, Some(0), "{said}");
    }
    let compare = ["compare", "one", "two", "--on", "latin.txt", "greek.txt", "--documents", "line"];
    let (code, printed, said) = run(&[&compare[..], &["--html", "page.html"]].concat());
    assert_eq!(code, Some(0), "{said}");
    for expected in ["50 documents", "bytes per token by source", "Latin", "Greek", "longest tokens"] {
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
    let page = fs::read_to_string(folder.path().join("page.html")).expect("a page");
    assert!(page.contains("By main script") && !page.contains("<script"), "{page}");

    // The figures equal those of `bench`, for any number of threads.
    let (_, json, _) = run(&[&compare[..], &["--json", "--threads", "1"]].concat());
    let (_, again, _) = run(&[&compare[..], &["--json", "--threads", "3"]].concat());
    assert_eq!(json, again);
    let found: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    for (number, name) in ["one", "two"].into_iter().enumerate() {
        for (source, text) in ["latin.txt", "greek.txt"].into_iter().enumerate() {
            let (_, bench, _) = run(&["bench", text, "-t", name, "--documents", "line", "--json"]);
            let bench: serde_json::Value = serde_json::from_str(&bench).expect("JSON");
            let compared = &found["sources"][source];
            assert_eq!(compared["tokens"][number], bench["tokens"], "{name} {text}");
            assert_eq!(compared["text_bytes"], bench["text_bytes"]);
        }
    }
    assert_eq!(found["text"]["words"], 30 * 8 + 20 * 6);
    assert_eq!(found["scripts"].as_array().map(Vec::len), Some(2));
    assert!(found["words"][0]["count"].as_u64().is_some_and(|count| count > 0));

    assert_eq!(run(&["compare", "one", "--on", "missing.txt"]).0, Some(1));
    assert_eq!(run(&["compare", "missing", "--on", "latin.txt"]).0, Some(1));
}

/// `tokens --html` writes a page and escapes the text in it.
#[test]
fn tokens_are_shown_on_a_page() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let run = |arguments: &[&str]| tokenmill(&folder).args(arguments).output().expect("a run");
    assert!(run(&["train", "a.txt", "-o", "t", "--vocab-size", "270", "--quiet"]).status.success());
    let output = run(&["tokens", "-t", "t", "a <b> text", "--html", "page.html"]);
    assert!(output.status.success() && output.stdout.is_empty());
    let page = fs::read_to_string(folder.path().join("page.html")).expect("a page");
    assert!(page.contains("&#60;") && !page.contains("<b>"), "{page}");
}
