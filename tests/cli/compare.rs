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
    assert!(page.contains("by main script") && !page.contains("<script"), "{page}");

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

/// CSV, Markdown and the terminal have the figures of `--json`, measured against the baseline. Files of other kinds are
/// not replaced.
#[test]
fn all_forms_of_a_comparison_have_the_same_figures() {
    let folder = folder();
    write(&folder, "latin.txt", "the same words again and again, the same\n".repeat(30));
    write(&folder, "greek.txt", "οι ίδιες λέξεις ξανά και ξανά\n".repeat(20));
    let run = |arguments: &[&str]| {
        let output = tokenmill(&folder).args(arguments).output().expect("a run");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    for (name, split) in [("one", "gpt2"), ("two", "none")] {
        run(&["train", "latin.txt", "-o", name, "--vocab-size", "290", "--split", split, "--quiet"]);
    }
    let on = ["--on", "latin.txt", "greek.txt", "--documents", "line", "--baseline", "two"];
    let compare = |more: &[&str]| run(&[&["compare", "one", "two"], &on[..], more].concat());
    let json: serde_json::Value = serde_json::from_str(&compare(&["--json"])).expect("JSON");
    assert_eq!(json["baseline"], 1);
    let number = |value: &serde_json::Value| value.as_f64().expect("a number");
    // Reading a number from JSON may change its last bit.
    let equal = |one: f64, other: f64| (one - other).abs() < 1e-12;
    let text = &json["text"];
    let against = number(&text["against_baseline"][0]);
    assert!(equal(against, number(&text["tokens"][0]) / number(&text["tokens"][1]) - 1.0));
    assert!(against != 0.0 && text["against_baseline"][1].is_null());

    // Each file is written twice: a comparison may be replaced.
    let files = ["--csv", "c.csv", "--markdown", "c.md", "--html", "c.html"];
    compare(&files);
    let printed = compare(&files);
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect(name);
    let percent =
        |change: f64| format!("{:+.1} %", 100.0 * change).replace('-', "−").replace("+0.0 %", "0.0 %");

    let csv = read("c.csv");
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| rows[0].iter().position(|&column| column == name).expect(name);
    for row in &rows[1..] {
        let parts = match row[0] {
            "all" => std::slice::from_ref(text),
            "source" => json["sources"].as_array().expect("a list"),
            _ => json["scripts"].as_array().expect("a list"),
        };
        let part = parts.iter().find(|part| part["name"] == row[1]).expect("the part");
        let tokenizer =
            ["one", "two"].iter().position(|name| *name == row[column("tokenizer")]).expect("one");
        for name in ["documents", "text_bytes", "characters", "words"] {
            assert_eq!(row[column(name)], part[name].to_string(), "{name} of {row:?}");
        }
        for name in ["tokens", "bytes_per_token", "characters_per_token", "tokens_per_word"] {
            let shown: f64 = row[column(name)].parse().expect("a number");
            assert!(equal(shown, number(&part[name][tokenizer])), "{name} of {row:?}");
        }
        let known = part["against_baseline"][tokenizer].as_f64();
        match known {
            Some(known) => {
                let shown = row[column("against_baseline")].parse().expect("a number");
                assert!(equal(shown, known), "{row:?}");
            }
            None => assert_eq!(row[column("against_baseline")], ""),
        }
    }
    assert_eq!(rows.len(), 1 + 2 * (1 + 2 + 2));

    let bytes = format!("{:.3}", number(&text["bytes_per_token"][0]));
    let tokens = text["tokens"][0].to_string();
    let row = format!("| one | {tokens} | {} | {bytes} |", percent(against));
    let markdown = read("c.md");
    assert!(markdown.contains(&row), "{row}: {markdown}");
    for part in json["sources"].as_array().into_iter().chain(json["scripts"].as_array()).flatten() {
        let [one, two] = [0, 1].map(|at| format!("{:.3}", number(&part["bytes_per_token"][at])));
        let change = percent(number(&part["against_baseline"][0]));
        let name = part["name"].as_str().expect("a name");
        assert!(markdown.contains(&format!("| {one} ({change}) | {two} |")), "{name}: {markdown}");
        let line = |figure: &str| printed.lines().any(|line| line.contains(name) && line.contains(figure));
        assert!(line(&one) && line(&two) && line(&change), "{name}: {printed}");
    }
    let line = printed.lines().find(|line| line.starts_with("one ")).expect("a line");
    for figure in [tokens, bytes, percent(against)] {
        assert!(line.contains(&figure), "{figure}: {line}");
    }

    // A baseline that is not among the others is compared, too, as the first.
    let alone = run(&[&["compare", "one"], &on[..], &["--json"]].concat());
    let alone: serde_json::Value = serde_json::from_str(&alone).expect("JSON");
    assert_eq!((&alone["baseline"], &alone["tokenizers"][0]["path"]), (&0.into(), &"two".into()));
    assert_eq!(alone["text"]["against_baseline"][1], text["against_baseline"][0]);

    for (flag, kind) in [("--csv", "CSV"), ("--markdown", "Markdown"), ("--html", "page")] {
        let refused = [&["compare", "one"], &on[..], &[flag, "latin.txt"]].concat();
        refuses(&folder, &refused, 2, &["latin.txt exists and is not a", kind, "not replaced"]);
    }
    let twice = [&["compare", "one"], &on[..], &["--csv", "new", "--html", "new"]].concat();
    refuses(&folder, &twice, 2, &["new is to be written twice", "`--markdown`"]);
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

/// Parallel texts are measured against one of them. Texts that are not the same are refused.
#[test]
fn parallel_texts_are_measured_against_a_base() {
    let folder = folder();
    let rows = |text: fn(usize) -> String, ids: std::ops::Range<usize>| -> String {
        ids.map(|id| serde_json::json!({ "id": id, "text": text(id) }).to_string() + "\n").collect()
    };
    let english = |id: usize| format!("the same words again and again, {}", "the same ".repeat(id % 5));
    let greek = |id: usize| format!("οι ίδιες λέξεις ξανά και ξανά {}", "ίδιες ".repeat(id % 5));
    write(&folder, "en.jsonl", rows(english, 0..40));
    write(&folder, "el.jsonl", rows(greek, 0..40));
    write(&folder, "short.jsonl", rows(greek, 0..38));
    write(&folder, "twice.jsonl", rows(greek, 0..40) + &rows(greek, 3..4));
    let run = |arguments: &[&str]| {
        let output = tokenmill(&folder).args(arguments).output().expect("a run");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let trained = run(&["train", "en.jsonl", "-o", "one", "--vocab-size", "290", "--quiet"]);
    assert_eq!(trained.0, Some(0), "{}", trained.2);
    let compare = |more: &[&str]| run(&[&["compare", "one", "--on"], more].concat());

    let parallel = ["en.jsonl", "el.jsonl", "--parallel", "id"];
    let json = |threads: &str, base: &str| -> serde_json::Value {
        let more = ["--base", base, "--json", "--threads", threads];
        let (code, printed, said) = compare(&[&parallel[..], &more].concat());
        assert_eq!(code, Some(0), "{said}");
        serde_json::from_str(&printed).expect("JSON")
    };
    let found = json("1", "en.jsonl");
    assert_eq!(found, json("3", "en.jsonl"), "threads change nothing");
    let number = |value: &serde_json::Value| value.as_f64().expect("a number");
    let [english, greek] = [0, 1].map(|source| number(&found["sources"][source]["tokens"][0]));
    let premium = number(&found["premiums"][1][0]);
    assert!((premium - greek / english).abs() < 1e-12 && premium > 1.0, "{premium}");
    assert_eq!(number(&found["premiums"][0][0]), 1.0);
    assert!((number(&found["worst_to_best"][0]) - premium).abs() < 1e-12);
    let gini = (greek - english) / (2.0 * (greek + english));
    assert!((number(&found["gini"][0]) - gini).abs() < 1e-12);
    let interval = &found["source_intervals"][1]["premium"][0];
    assert!(number(&interval["low"]) < premium && premium < number(&interval["high"]), "{interval}");
    let bytes = number(&found["text"]["bytes_per_token"][0]);
    let interval = &found["text_intervals"]["bytes_per_token"][0];
    assert!(number(&interval["low"]) < bytes && bytes < number(&interval["high"]), "{interval}");
    let other = json("1", "el.jsonl");
    assert!((number(&other["premiums"][0][0]) - english / greek).abs() < 1e-12);

    let files = ["--markdown", "c.md", "--csv", "c.csv", "--html", "c.html"];
    let (code, printed, said) = compare(&[&parallel[..], &files].concat());
    assert_eq!(code, Some(0), "{said}");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect(name);
    let shown = format!("{premium:.3}");
    for page in [printed, read("c.md"), read("c.csv"), read("c.html")] {
        assert!(page.contains(&shown[..4]), "{shown}: {page}");
    }
    assert!(read("c.md").contains("## Tokens of the same texts against"));

    for (more, expected) in [
        (&["en.jsonl", "short.jsonl", "--parallel", "id"][..], "lacks 2 of the 40 ids of"),
        (&["short.jsonl", "en.jsonl", "--parallel", "id"], "lacks 2 of the 40 ids of"),
        (&["en.jsonl", "twice.jsonl", "--parallel", "id"], "has the id \"3\" twice"),
        (&["en.jsonl", "--parallel", "id"], "needs at least two inputs"),
        (&["en.jsonl", "el.jsonl", "--parallel", "id", "--base", "de.jsonl"], "none of the inputs"),
        (&["en.jsonl", "el.jsonl", "--base", "en.jsonl"], "--parallel"),
    ] {
        let (code, _, said) = compare(more);
        assert!(code == Some(2) && said.contains(expected), "{more:?}: {said}");
    }
}
