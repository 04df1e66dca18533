//! `plan --nodes`: how long a job takes on several machines.

use serde_json::Value;

use super::*;

const RECIPE: &str = "\
[source]
uri = \"demo:verse?lines=20000\"
column = \"line\"

[train]
vocab_size = 1000

[encode]
eos = false

[output]
dir = \"out\"

[run]
threads = 2
";

fn planned(folder: &TempDir, more: &[&str]) -> Value {
    let (_, printed) = both(folder, &[&["plan", "r.toml", "--json"], more].concat(), 0);
    serde_json::from_str(&printed).expect("JSON")
}

/// With the rates of a run, one machine with its cores takes the time of this run, and has its figures.
#[test]
fn the_rates_of_a_run_give_the_figures_of_this_run() {
    let folder = folder();
    write(&folder, "r.toml", RECIPE);
    both(&folder, &["run", "r.toml"], 0);
    let report = fs::read(folder.path().join("out/report.json")).expect("a report");
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    let stage = |name: &str| {
        let stages = report["stages"].as_array().expect("stages");
        stages.iter().find(|stage| stage["name"] == name).expect(name).clone()
    };
    assert_eq!(stage("count")["threads"], 2);
    let bytes = report["corpus"]["text_bytes"].to_string();
    let rates = ["--nodes", "1", "--cores", "2", "--rates", "out", "--text-bytes", &bytes];
    let cluster = planned(&folder, &rates)["cluster"].clone();
    assert_eq!(cluster["counted_bytes"], report["corpus"]["text_bytes"]);
    assert_eq!(cluster["encoded_bytes"], report["encoding"]["text_bytes"]);
    let estimate = &cluster["estimates"][0];
    for name in ["count", "encode"] {
        let (found, took) =
            (&estimate[format!("{name}_s")], stage(name)["seconds"].as_f64().expect("a time"));
        let found = found.as_f64().expect("a time");
        assert!((found / took - 1.0).abs() < 1e-6, "{name}: {found} for {took}");
    }
    assert_eq!(estimate["distinct_pretokens"], report["training"]["distinct_pretokens"]);
    let written: u64 = report["files"]
        .as_array()
        .expect("files")
        .iter()
        .filter_map(|file| file["tokens"].is_u64().then(|| file["bytes"].as_u64()).flatten())
        .sum();
    assert!(estimate["ids_bytes"].as_u64().expect("a size").abs_diff(written) <= 1);
    assert_eq!((&estimate["merged_rows"], &estimate["merge_s"]), (&Value::from(0), &Value::from(0.0)));
}

/// Two machines have half of the time each, and counts files to sum, which have about the rows that are estimated.
#[test]
fn counts_files_of_parts_have_about_the_estimated_rows() {
    let folder = folder();
    write(&folder, "r.toml", RECIPE);
    both(&folder, &["run", "r.toml"], 0);
    let estimate = planned(&folder, &["--nodes", "2", "--cores", "2", "--rates", "out"]);
    let rows = estimate["cluster"]["estimates"][0]["merged_rows"].as_f64().expect("rows");
    let mut found = 0.0;
    for part in [["--take", "10000", "--skip", "0"], ["--take", "10000", "--skip", "10000"]] {
        let count = ["count", "demo:verse?lines=20000", "--column", "line", "-o", "part.parquet", "--json"];
        let (_, printed) = both(&folder, &[&count[..], &part].concat(), 0);
        let counted: Value = serde_json::from_str(&printed).expect("JSON");
        found += counted["pretokens"].as_f64().expect("a number");
    }
    assert!((0.5..2.0).contains(&(rows / found)), "{rows} for {found}");
}

/// The size of the text can be given. People get a table with both kinds of text, and the assumptions.
#[test]
fn a_table_shows_the_steps_and_the_assumptions() {
    let folder = folder();
    write(&folder, "r.toml", RECIPE);
    let (_, shown) =
        both(&folder, &["plan", "r.toml", "--nodes", "64", "--cores", "16", "--text-bytes", "10TB"], 0);
    for line in [
        "cluster  64 nodes of 16 cores; 10 TB to count, 10 TB to encode",
        "         with the rates of ",
        "         count ",
        "         sum, on one node ",
        "         train, on one node ",
        "         encode ",
        "assumed  each node runs one process",
        "         measured on English books: counted at 760 MB/s with 2 cores",
    ] {
        assert!(shown.lines().any(|found| found.starts_with(line)), "{line} in\n{shown}");
    }
    assert!(planned(&folder, &[])["cluster"].is_null());
    let refused =
        |more: &[&str], said: &[&str]| refuses(&folder, &[&["plan", "r.toml"], more].concat(), 2, said);
    refused(&["--cores", "2"], &["--nodes"]);
    refused(&["--nodes", "0"], &["range from 1 to"]);
    write(
        &folder,
        "unsplit.toml",
        RECIPE.replace("vocab_size = 1000", "vocab_size = 1000\nsplit = \"none\""),
    );
    let unsplit = ["plan", "unsplit.toml", "--nodes", "2"];
    refuses(&folder, &unsplit, 2, &["cannot share this training", "choose a split"]);
    refuses(&folder, &["plan", "r.toml", "--nodes", "2", "--rates", "none"], 1, &["none"]);
}
