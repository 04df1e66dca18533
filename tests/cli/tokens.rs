//! `tokens`: the forms in which it shows the tokens of a text, and the text of ids.

use serde_json::{Value, json};

use super::*;

/// A folder with a tokenizer `made` that knows the words of a text.
fn made(text: &str, flags: &[&str]) -> TempDir {
    let folder = folder();
    write(&folder, "a.txt", text);
    let (code, said) = ended(&folder, &[&["train", "a.txt", "-o", "made", "-q"], flags].concat());
    assert_eq!(code, Some(0), "{said}");
    folder
}

/// What `tokens -t made` prints, and what it says.
#[track_caller]
fn tokens(folder: &TempDir, arguments: &[&str]) -> (String, String) {
    let output = tokenmill(folder).args(["tokens", "-t", "made"]).args(arguments).output().expect("a run");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{arguments:?} said\n{said}");
    (String::from_utf8_lossy(&output.stdout).into_owned(), said)
}

/// A text that is the name of a file is encoded as text, with a remark. `--file` encodes the content.
#[test]
fn the_name_of_a_file_is_told_from_its_content() {
    let folder = made(TEXT, &["--merges", "9"]);
    write(&folder, "b.txt", "the cat");
    let (shown, said) = tokens(&folder, &["b.txt", "--separator", ""]);
    assert_eq!(shown, "b.txt\n");
    assert!(
        said.starts_with("these are the tokens of the name b.txt;") && said.contains("--file b.txt"),
        "{said}"
    );
    assert!(tokens(&folder, &["-q", "b.txt"]).1.is_empty());
    assert!(!tokens(&folder, &["c.txt"]).1.contains("--file"));
    let (shown, said) = tokens(&folder, &["--file", "b.txt", "--separator", ""]);
    assert_eq!((shown.as_str(), said.contains("--file")), ("the cat\n", false));
    refuses(&folder, &["tokens", "-t", "made", "--file", "gone.txt"], 1, &["gone.txt"]);
    refuses(&folder, &["tokens", "-t", "made", "--file", "b.txt", "a"], 2, &["cannot be used with"]);
    for arguments in [&["--file", "-"][..], &["-"], &[]] {
        let mut command = tokenmill(&folder);
        command
            .args(["tokens", "-t", "made", "-q", "--separator", ""])
            .args(arguments)
            .write_stdin("from a pipe");
        assert_eq!(command.output().expect("a run").stdout, b"from a pipe\n", "{arguments:?}");
    }
}

/// `--decode` is the reverse of `--ids`. An id that the vocabulary lacks is an error that names the range.
#[test]
fn ids_are_decoded() {
    let folder = made(TEXT, &["--vocab-size", "260"]);
    let text = "the cat\u{e9} \n";
    let ids = tokens(&folder, &["--ids", "-q", text]).0;
    assert_eq!(tokens(&folder, &["--decode", &ids]).0, format!("{text}\n"));
    let mut piped = tokenmill(&folder);
    piped.args(["tokens", "-t", "made", "--decode", "-"]).write_stdin(ids.clone());
    assert_eq!(piped.output().expect("a run").stdout, format!("{text}\n").as_bytes());
    let listed = format!("[{}]", ids.trim().replace(' ', ", "));
    let (printed, said) = tokens(&folder, &["--json", "--decode", &listed]);
    assert_eq!(serde_json::from_str::<Value>(&printed).expect("JSON"), json!({ "text": text }));
    assert!(said.is_empty(), "{said}");
    let decode = |ids| ["tokens", "-t", "made", "--decode", ids];
    refuses(&folder, &decode("97 260"), 1, &["token id 260 is not in the vocabulary", "from 0 to 259"]);
    for wrong in ["97 x", "-1", "99999999999"] {
        refuses(&folder, &decode(wrong), 2, &["is not a token id", "from 0 to 259"]);
    }
    refuses(&folder, &[&decode("97")[..], &["text"]].concat(), 2, &["cannot be used with"]);
}

/// `--separator` is between tokens, and not before or after.
#[test]
fn a_separator_can_be_chosen() {
    let folder = made("the cat the cat", &["--vocab-size", "300"]);
    assert_eq!(tokens(&folder, &["the cat\nthe"]).0, "the| cat|\\n\nthe\n");
    assert_eq!(tokens(&folder, &["the cat\nthe", "--separator", "🍔"]).0, "the🍔 cat🍔\\n\nthe\n");
}

/// Ids are below their tokens, also if these have wide characters, and rows end before the last column.
#[test]
fn ids_are_aligned_with_their_tokens() {
    let folder = made("世界 hello 世界 hello 世界", &["--vocab-size", "300", "--split", "gpt2"]);
    let shown = tokens(&folder, &["--with-ids", "世界 hello x"]).0;
    let lines: Vec<&str> = shown.lines().collect();
    let (upper, lower): (Vec<&str>, Vec<&str>) =
        (lines[0].split('|').collect(), lines[1].split('|').collect());
    // The two characters take four columns, as the id with a space.
    assert_eq!((upper.len(), lower.len()), (4, 4), "{shown}");
    assert_eq!((upper[0], lower[0].len()), ("世界", 4), "{shown}");
    assert_eq!((upper[1], lower[1].len()), (" hello", 6), "{shown}");
    let ids = tokens(&folder, &["--ids", "-q", "世界 hello x"]).0;
    let below: Vec<&str> = lower.iter().map(|id| id.trim()).collect();
    assert_eq!(below.join(" "), ids.trim());

    let narrow = tokenmill(&folder)
        .env("COLUMNS", "12")
        .args(["tokens", "-t", "made", "-q", "--with-ids", "世界 hello x"])
        .output()
        .expect("a run");
    let narrow = String::from_utf8_lossy(&narrow.stdout).into_owned();
    assert_eq!(narrow.lines().count(), 5, "{narrow}");
    assert!(narrow.lines().all(|line| line.chars().count() <= 12), "{narrow}");
}

/// `--steps` shows the merges of each pre-token, from the bytes to the tokens.
#[test]
fn steps_lead_to_the_tokens() {
    let folder = made("hello hello", &["--vocab-size", "259", "--split", "gpt2"]);
    let (shown, said) = tokens(&folder, &["--steps", "hello hell", "--separator", " "]);
    assert_eq!(shown, "h e l l o\nh el l o\nhel l o\nhel lo\n\n  h e l l\n  h el l\n  hel l\n");
    assert_eq!(said, "5 tokens, 10 bytes, 5 merges\n");
    let ids = tokens(&folder, &["--ids", "-q", "hello hell"]).0;
    let steps: Value =
        serde_json::from_str(&tokens(&folder, &["--steps", "--json", "hello hell"]).0).expect("JSON");
    let last = steps.as_array().expect("pre-tokens").iter().flat_map(|steps| {
        let steps = steps.as_array().expect("steps");
        steps.last().and_then(Value::as_array).expect("tokens").iter().map(|token| token["id"].to_string())
    });
    assert_eq!(last.collect::<Vec<_>>().join(" "), ids.trim());
    write(&folder, "long.txt", "hello ".repeat(200));
    let long = ["tokens", "-t", "made", "--steps", "--file", "long.txt"];
    refuses(&folder, &long, 2, &["the text has 1200 bytes", "at most 1000 bytes", "shorter text"]);
}
