//! `explore`: the page that it writes, and what it refuses. `tests/peers/explorer.py` opens pages in a browser.

use super::*;

/// A folder with the tokenizers `one` and `two`, and the page as text that `explore` writes of them.
fn explored(tokenizers: &[&str]) -> (TempDir, String) {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    for (name, split) in [("one", "gpt4"), ("two", "none")] {
        let train = ["train", "a.txt", "-o", name, "--merges", "5", "--split", split, "-q"];
        assert_eq!(ended(&folder, &train).0, Some(0));
    }
    let (code, said) = ended(&folder, &[&["explore"], tokenizers, &["-o", "page.html"]].concat());
    assert_eq!((code, &*said), (Some(0), "wrote page.html\n"));
    let page = fs::read_to_string(folder.path().join("page.html")).expect("a page");
    (folder, page)
}

/// A page is one file, of the given tokenizers in their order. The same command gives the same page.
#[test]
fn a_page_has_the_tokenizers_that_are_named() {
    let (folder, page) = explored(&["two", "one"]);
    assert!(page.starts_with("<!doctype html>") && page.contains("default-src 'none'"));
    assert!(!page.contains("src=") && !page.contains("http://") && !page.contains("https://"));
    let names: Vec<usize> = ["\"name\":\"two\"", "\"name\":\"one\""]
        .iter()
        .map(|name| page.find(name).expect("its name"))
        .collect();
    assert!(names.is_sorted() && page.contains("id=\"table-1\"") && !page.contains("id=\"table-2\""));
    let (code, _) = ended(&folder, &["explore", "two", "one", "-o", "page.html", "-q"]);
    assert_eq!((code, fs::read_to_string(folder.path().join("page.html")).ok()), (Some(0), Some(page)));
}

/// Too many tokenizers, missing ones, and files that are no pages are refused before anything is written.
#[test]
fn what_is_no_page_is_refused() {
    let (folder, page) = explored(&["one"]);
    let explore = |words: &[&str], code, said: &[&str]| {
        let words = [&["explore"], words].concat();
        refuses(&folder, &words, code, said);
    };
    explore(&["one", "two", "one", "two", "one", "-o", "new.html"], 2, &["5 tokenizers", "at most 4"]);
    explore(&["one", "missing", "-o", "new.html"], 1, &["missing"]);
    explore(&["a.txt", "-o", "new.html"], 1, &["a.txt"]);
    explore(&["one"], 2, &["--output <FILE.html>"]);
    explore(&["one", "-o", "-"], 2, &["write a path"]);
    explore(&["one", "-o", "a.txt"], 2, &["a.txt exists and is not a page"]);
    explore(&["one", "-o", "no/such/page.html"], 1, &["no/such"]);
    assert!(!folder.path().join("new.html").exists());
    assert_eq!(fs::read_to_string(folder.path().join("a.txt")).expect("it stays"), TEXT);
    assert_eq!(fs::read_to_string(folder.path().join("page.html")).expect("it stays"), page);
}

/// A tokenizer whose split browsers cannot follow is named, with the reason. Its vocabulary is on the page all the same.
#[test]
fn a_split_that_browsers_lack_is_named() {
    let (folder, _) = explored(&["one"]);
    let train = ["train", "a.txt", "-o", "odd", "--merges", "5", "--split-regex", r"([a-z])\1|.|\n", "-q"];
    assert_eq!(ended(&folder, &train).0, Some(0));
    let output = tokenmill(&folder).args(["explore", "one", "odd", "-o", "page.html", "--json"]).output();
    let output = output.expect("a run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("odd: the page shows its vocabulary and encodes no text: a reference to a group"),
        "{said}"
    );
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(told["file"], "page.html");
    assert_eq!(
        (&told["tokenizers"][0]["encodes"], &told["tokenizers"][1]["encodes"]),
        (&true.into(), &false.into())
    );
    let page = fs::read_to_string(folder.path().join("page.html")).expect("a page");
    assert!(page.contains("\"notice\":\"a reference to a group") && page.contains("id=\"table-1\""));
}
