//! Checks that the documents are true: runs the commands of their `console` blocks and compares the output with
//! the text below each command. Also checks that links lead to existing files and headings.

#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tokenmill::split::{NamedPattern, splitter};

const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");

/// The output shown in the tutorial is the real one.
#[test]
fn the_tutorial_shows_what_is_printed() {
    assert!(run("docs/tutorial.md") >= 14);
}

/// The output shown in the walk is the real one.
#[test]
fn the_walk_shows_what_is_printed() {
    assert!(run("docs/walk.md") >= 6);
}

/// The output shown on the page about large jobs is the real one.
#[test]
fn the_page_on_large_jobs_shows_what_is_printed() {
    assert!(run("docs/large.md") >= 7);
}

/// The tables of splits in the guide and in the help of `train` show what the splitters do.
#[test]
fn the_tables_of_splits_show_what_splitters_do() {
    let guide = fs::read_to_string(Path::new(REPOSITORY).join("docs/guide.md")).expect("the guide");
    let (help, _) = printed("tokenmill train --help", Path::new(REPOSITORY), Path::new(REPOSITORY));
    let cells = |line: &str, between: &str| -> Vec<String> {
        line.split(between)
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .map(|cell| cell.replace('`', ""))
            .collect()
    };
    for (page, between, begin) in [(&guide, "|", "| split | "), (&help, "  ", "split  ")] {
        let rows = page.lines().map(str::trim).skip_while(|line| !line.starts_with(begin));
        let rows: Vec<Vec<String>> =
            rows.take_while(|line| !line.is_empty()).map(|line| cells(line, between)).collect();
        let rows: Vec<&Vec<String>> = rows.iter().filter(|row| row[0] != "---").collect();
        let (texts, rows) = rows.split_first().expect("a table");
        assert_eq!(rows.len(), 1 + NamedPattern::ALL.len(), "{rows:?}");
        for (row, names) in rows.iter().flat_map(|row| row[0].split(", ").map(move |name| (row, name))) {
            let splitter = splitter(&names.parse().expect("a name")).expect("a splitter");
            for (text, shown) in texts.iter().zip(row.iter()).skip(1) {
                let text = text.replace('·', " ").replace('⏎', "\n");
                let mut ends = Vec::new();
                splitter.pretoken_ends(text.as_bytes(), &mut ends).expect("a text that is split");
                let starts = std::iter::once(0).chain(ends.iter().copied());
                let pretokens = starts.zip(&ends).map(|(start, &end)| {
                    text[usize::try_from(start).expect("small")..usize::try_from(end).expect("small")]
                        .replace(' ', "·")
                        .replace('\n', "⏎")
                });
                assert_eq!(*shown, pretokens.collect::<Vec<_>>().join(" "), "{names}");
            }
        }
    }
}

/// Every relative link in the documents leads to an existing file and heading.
#[test]
fn links_lead_to_files_and_headings() {
    let mut links = 0;
    for document in ["", "docs", "pipelines", "benches/record/*"].iter().flat_map(|folder| documents(folder))
    {
        let text = prose(&document);
        for (_, rest) in text.match_indices("](").map(|(at, found)| text.split_at(at + found.len())) {
            let (link, _) = rest.split_once(')').expect("a link that ends");
            if link.contains("://") {
                continue;
            }
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let file =
                if path.is_empty() { document.clone() } else { document.with_file_name("").join(path) };
            assert!(file.exists(), "{}: {link}", document.display());
            let known =
                heading.is_empty() || prose(&file).lines().any(|line| anchor(line) == Some(heading.into()));
            assert!(known, "{}: {link}", document.display());
            links += 1;
        }
    }
    assert!(links > 30, "{links} links");
}

/// The site has every page of `docs/`, each once and under its own title.
#[test]
fn the_site_has_every_page() {
    let folder = Path::new(REPOSITORY).join("docs");
    let summary = fs::read_to_string(folder.join("SUMMARY.md")).expect("the list of pages");
    let mut listed = BTreeSet::new();
    for line in summary.lines() {
        let link = line.trim_start_matches([' ', '-', '[']).strip_suffix(')');
        let Some((title, path)) = link.and_then(|link| link.split_once("](")) else { continue };
        let page = fs::read_to_string(folder.join(path)).expect("a page");
        assert_eq!(page.lines().next(), Some(&*format!("# {title}")), "{path}");
        assert!(listed.insert(folder.join(path)), "{path} is listed twice");
    }
    listed.insert(folder.join("SUMMARY.md"));
    let missing: Vec<PathBuf> = documents("docs").into_iter().filter(|page| !listed.contains(page)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The crate, the Python package and the site name the same address of the project.
#[test]
fn the_project_has_one_address() {
    let address = |file: &str, keys: &[&str]| -> String {
        let text = fs::read_to_string(Path::new(REPOSITORY).join(file)).expect("a file of settings");
        let settings: toml::Value = toml::from_str(&text).expect("TOML");
        let address = keys.iter().fold(&settings, |value, &key| &value[key]);
        address.as_str().expect("a string").to_owned()
    };
    let repository = address("Cargo.toml", &["workspace", "package", "repository"]);
    assert_eq!(address("pyproject.toml", &["project", "urls", "Repository"]), repository);
    assert_eq!(address("book.toml", &["output", "html", "git-repository-url"]), repository);
}

/// The start of a recipe that fills as many fields of the output files as possible.
const RECIPE: &str = r#"
[[source]]
uri = "demo:verse?lines=300"
[[source]]
uri = "rows.jsonl"
on_bad_input = "quarantine"
[train]
vocab_size = 400
special_tokens = ["<|end|>"]
[encode]
eos = "<|end|>"
"#;

/// `formats.md` names every key of the JSON files that a run writes.
#[test]
fn every_key_that_is_written_is_explained() {
    let text = fs::read_to_string(Path::new(REPOSITORY).join("docs/formats.md")).expect("the document");
    let named = |heading: &str| -> Vec<&str> {
        let (_, section) = text.split_once(&format!("### {heading}\n")).expect("the section");
        let (section, _) = section.split_once("\n### ").unwrap_or((section, ""));
        section.split('`').skip(1).step_by(2).collect()
    };
    let home = TempDir::new().expect("a temporary folder");
    let folder = home.path();
    fs::write(folder.join("rows.jsonl"), "{\"text\": \"a row\"}\nno row\n").expect("a writable folder");
    let mut keys_seen = BTreeSet::new();
    let mut check = |json: &Value, headings: &[&str]| {
        let named: Vec<&str> = headings.iter().flat_map(|heading| named(heading)).collect();
        let keys = keys(json);
        let missing: Vec<&String> = keys.iter().filter(|key| !named.contains(&key.as_str())).collect();
        assert!(missing.is_empty(), "{headings:?}: {missing:?}");
        keys_seen.extend(keys);
    };
    let (in_parquet, report) = ("In each Parquet file", "`report.json`");
    let files = [
        ("manifest.json", vec!["`manifest.json`", in_parquet]),
        ("report.json", vec![report]),
        ("tokenizer/training.json", vec!["`training.json`", report]),
    ];
    for (name, more) in [("packed", "pack = \"concat\"\nlength = 8\n"), ("flat", "")] {
        let format = if more.is_empty() { "bin" } else { "parquet" };
        let output = format!("[output]\ndir = \"{name}\"\nformat = \"{format}\"\n");
        fs::write(folder.join("r.toml"), [RECIPE, more, &output].concat()).expect("a writable folder");
        let (said, _) = printed("tokenmill run r.toml", folder, folder);
        for (file, headings) in &files {
            let json = fs::read(folder.join(name).join(file)).unwrap_or_else(|_| panic!("{file}: {said}"));
            check(&serde_json::from_slice(&json).expect("JSON"), headings);
        }
    }
    let counts = serde_json::to_value(tokenmill::count::CountsInfo::default()).expect("JSON");
    check(&counts, &["Files of counts"]);
    let declared = serde_json::to_value(tokenmill::sink::Declaration::default()).expect("JSON");
    check(&declared, &[in_parquet]);
    assert!(keys_seen.len() > 90, "{keys_seen:?}");
}

/// All keys of a JSON value, nested ones included.
fn keys(json: &Value) -> Vec<String> {
    match json {
        Value::Object(fields) => {
            fields.iter().flat_map(|(key, value)| [vec![key.clone()], keys(value)].concat()).collect()
        }
        Value::Array(items) => items.iter().flat_map(keys).collect(),
        _ => Vec::new(),
    }
}

/// The Markdown files in the folders that match a glob pattern relative to the repository.
fn documents(folder: &str) -> Vec<PathBuf> {
    let pattern = Path::new(REPOSITORY).join(folder).join("*.md");
    let found = glob::glob(pattern.to_str().expect("a name in UTF-8")).expect("a pattern");
    found.map(|path| path.expect("a readable folder")).collect()
}

/// The text of a document without its fenced blocks.
fn prose(document: &Path) -> String {
    let text = fs::read_to_string(document).expect("a document");
    text.split("```").step_by(2).collect()
}

/// The anchor that a link uses for a heading line: its letters, digits and hyphens in lower case, spaces
/// replaced by hyphens.
fn anchor(line: &str) -> Option<String> {
    let heading = line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#'))?;
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    Some(kept.collect::<String>().to_lowercase().replace(' ', "-"))
}

/// Runs the commands of a document one after the other in an empty folder and returns their number.
/// `~/tokenmill` is a link to this repository.
fn run(document: &str) -> usize {
    let text = fs::read_to_string(Path::new(REPOSITORY).join(document)).expect("a document");
    let home = TempDir::new().expect("a temporary folder");
    symlink(REPOSITORY, home.path().join("tokenmill")).expect("a link");
    let folder = home.path().join("walk");
    fs::create_dir(&folder).expect("a new folder");
    let mut commands = 0;
    for (info, block) in blocks(&text) {
        if let Some(name) = info.strip_prefix("toml title=") {
            fs::write(folder.join(name), &block).expect("a writable folder");
        }
        if info == "console" {
            for (command, shown) in steps(&block) {
                let (printed, well) = printed(command, &folder, home.path());
                assert_eq!(well, !shown.starts_with("error: "), "{document}: $ {command}\n{printed}");
                assert_eq!(timeless(&printed), timeless(&shown), "{document}: $ {command}\n{printed}");
                commands += 1;
            }
        }
    }
    commands
}

/// The fenced blocks of a document, each with the info string after its opening fence.
fn blocks(text: &str) -> Vec<(&str, String)> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(info) = line.strip_prefix("```") {
            let block = lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n"));
            blocks.push((info, block.collect()));
        }
    }
    blocks
}

/// The commands of a block, each with the output shown below it.
fn steps(block: &str) -> Vec<(&str, String)> {
    let mut steps: Vec<(&str, String)> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push((command, String::new())),
            (None, Some((_, shown))) => *shown += &format!("{line}\n"),
            (None, None) => panic!("{line} stands before the first command"),
        }
    }
    steps
}

/// The output of a command, standard error included, and whether it succeeded.
fn printed(command: &str, folder: &Path, home: &Path) -> (String, bool) {
    let program = assert_cmd::cargo::cargo_bin("tokenmill");
    let programs = program.parent().expect("a folder").display();
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("sh")
        .args(["-c", &format!("{command} 2>&1")])
        .current_dir(folder)
        .env("HOME", home)
        .env("PATH", format!("{programs}:{path}"))
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success())
}

/// Removes values that differ between machines: times, rates, and memory limits. Lines of a log begin with a time only
/// where standard error is no terminal, so the documents show none.
fn timeless(text: &str) -> String {
    let machine = |word: &str| matches!(word, "ms," | "s," | "MB," | "MB/s," | "GB/s," | "kB/s,");
    let line = |line: &str| -> String {
        let line = line.split_once("Z ").filter(|(time, _)| is_time(time)).map_or(line, |(_, rest)| rest);
        if line.starts_with("limits ") {
            return "limits".to_owned();
        }
        match line.split_once(" in ") {
            Some((what, rest)) if rest.split(' ').any(machine) => what.to_owned(),
            _ => line.to_owned(),
        }
    };
    text.lines().map(line).collect::<Vec<String>>().join("\n")
}

/// Whether a text is a time as RFC 3339 writes it, without the zone.
fn is_time(text: &str) -> bool {
    text.len() == "2026-01-31T12:00:00".len() && text.chars().all(|c| c.is_ascii_digit() || "-T:".contains(c))
}
