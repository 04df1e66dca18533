//! Invalid recipes, each beside the complete list of expected messages, and valid recipes.
//!
//! `UPDATE_EXPECTED=1` writes the current messages into the expected files. Review them before committing.

use std::fs;
use std::path::{Path, PathBuf};

use tokenmill::base::int::ByteCount;
use tokenmill::run::recipe::{self, Mistakes};
use tokenmill::run::{Environment, Plan, plan};
use tokenmill::split::{NamedPattern, SplitPattern};

fn variable(name: &str) -> Option<String> {
    match name {
        "KNOWN" => Some("/data".to_owned()),
        "HERE" => Some("here".to_owned()),
        _ => None,
    }
}

fn planned(path: &str, text: &str) -> Result<Plan, Mistakes> {
    let environment = Environment { variable: &variable, threads: 3, memory: ByteCount(1 << 30) };
    plan(&recipe::read(path, text)?, &environment)
}

fn shown(mistakes: &Mistakes) -> String {
    let line = |mistake: &recipe::Mistake| {
        let place = mistakes.place(mistake).expect("a recipe's mistakes have a place");
        let help = mistake.help.as_ref().map_or_else(String::new, |help| format!("    {help}\n"));
        format!("{place}: {}\n{help}", mistake.message)
    };
    mistakes.iter().map(line).collect()
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/recipes")
}

/// Each invalid recipe in `tests/data/recipes` gives exactly the messages in the file beside it.
#[test]
fn every_mistake_of_a_recipe_is_told_with_its_place() {
    let update = std::env::var_os("UPDATE_EXPECTED").is_some();
    let mut recipes = 0;
    for entry in fs::read_dir(data()).expect("the folder of recipes") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        recipes += 1;
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).expect("a recipe");
        let said = shown(&planned(&name, &text).expect_err(&name));
        let expected = path.with_extension("txt");
        if update {
            fs::write(&expected, &said).expect("a writable folder");
        }
        assert_eq!(said, fs::read_to_string(&expected).expect(&name), "{name}");
    }
    assert!(recipes >= 10, "only {recipes} recipes in {}", data().display());
}

/// A complete recipe, with lines added to the source, to `[train]` and at the end.
fn whole(source: &str, train: &str, rest: &str) -> String {
    format!(
        "[source]\nuri = \"a.txt\"\n{source}\n[train]\n{train}\n[encode]\n[output]\ndir = \"out\"\n{rest}"
    )
}

/// Missing keys of a recipe get their defaults.
#[test]
fn a_short_recipe_is_completed_with_defaults() {
    let plan = planned("recipes/short.toml", &whole("", "merges = 500", "")).expect("a right recipe");
    assert_eq!(plan.sources[0].uri, "recipes/a.txt");
    assert_eq!(plan.weights, [1]);
    assert_eq!((plan.threads, plan.memory), (3, ByteCount(1 << 30)));
    assert_eq!(plan.output, Path::new("out"));
    let train = plan.train.expect("a training");
    assert_eq!(train.split, SplitPattern::Named(NamedPattern::Gpt4));
    assert_eq!(
        (train.config.merges, train.config.history_every, train.config.min_frequency.get()),
        (500, 2, 2)
    );
    assert_eq!(train.output, Path::new("out/tokenizer"));
    let encode = plan.encode.expect("an encoding");
    assert_eq!((encode.tokenizer, encode.bos, encode.eos), (None, None, None));
    assert_eq!((encode.split_name.as_str(), encode.file_text_bytes), ("train", ByteCount(1_000_000_000)));
}

/// `vocab_size` includes the 256 bytes and the special tokens. `merges` does not.
#[test]
fn a_vocabulary_counts_bytes_and_special_tokens() {
    for (train, merges) in [
        ("vocab_size = 256", 0),
        ("vocab_size = 1000", 744),
        ("vocab_size = 1000\nspecial_tokens = [\"<a>\", \"<b>\"]", 742),
        ("merges = 1000\nspecial_tokens = [\"<a>\", \"<b>\"]", 1000),
    ] {
        let plan = planned("r.toml", &whole("", train, "")).expect(train);
        assert_eq!(plan.train.expect("a training").config.merges, merges, "{train}");
    }
}

/// Relative paths start at the folder of the recipe, except those that start with a variable. Characters of a
/// pattern in that folder's name are escaped.
#[test]
fn paths_are_relative_to_the_recipe_unless_a_variable_begins_them() {
    for (recipe, uri, expected) in [
        ("r.toml", "a.txt", "a.txt"),
        ("in/r.toml", "a.txt", "in/a.txt"),
        ("in/r.toml", "../a.txt", "in/../a.txt"),
        ("in/r.toml", "/a.txt", "/a.txt"),
        ("in/r.toml", "${KNOWN}/a.txt", "/data/a.txt"),
        ("in/r.toml", "${HERE}/a.txt", "here/a.txt"),
        ("in/r.toml", "a/${HERE}.txt", "in/a/here.txt"),
        ("in[1]/r.toml", "a.txt", "in[1]/a.txt"),
        ("in[1]/r.toml", "*.txt", "in[[]1[]]/*.txt"),
        ("in/r.toml", "demo:verse?lines=5", "demo:verse?lines=5"),
        ("in/r.toml", "hf://datasets/a/b", "hf://datasets/a/b"),
        ("in/r.toml", "-", "-"),
    ] {
        let text = format!("[source]\nuri = \"{uri}\"\n[encode]\ntokenizer = \"t\"\n[output]\ndir = \"out\"");
        let plan = planned(recipe, &text).expect(uri);
        assert_eq!(plan.sources[0].uri, expected, "{uri} in {recipe}");
        assert_eq!(plan.output, Path::new("out"), "{recipe}");
    }
}

/// Weights are scaled to the smallest integers with the same ratios.
#[test]
fn weights_become_the_smallest_whole_numbers() {
    for (weights, scaled) in [
        (["1", "0.25", "3"], [4, 1, 12]),
        (["2", "2.000000", "4"], [1, 1, 2]),
        (["0.000001", "1", "10"], [1, 1_000_000, 10_000_000]),
        (["0.3", "0.2", "0.5"], [3, 2, 5]),
    ] {
        let sources = weights.map(|weight| format!("[[source]]\nuri = \"a.txt\"\nweight = {weight}\n"));
        let text = format!("{}[train]\nmerges = 5\n[output]\ndir = \"out\"", sources.concat());
        assert_eq!(planned("r.toml", &text).expect("right weights").weights, scaled, "{weights:?}");
    }
}

/// The recipe hash depends on every key that affects the output, and on no other key, such as threads or the
/// output path.
#[test]
fn the_hash_follows_what_decides_the_bytes_and_nothing_else() {
    let hash = |path: &str, text: &str| planned(path, text).expect(text).recipe_hash;
    let plain = hash("r.toml", &whole("", "merges = 500", ""));
    let same = [
        ("r.toml", whole("", "vocab_size = 756", "")),
        ("moved/r.toml", whole("", "merges = 500", "")),
        ("r.toml", whole("weight = 7", "merges = 500\ntie_break = \"ids\"", "")),
        ("r.toml", whole("", "merges = 500", "[run]\nthreads = 9\nmemory = \"9GB\"")),
        ("r.toml", whole("", "merges = 500", "").replace("\"out\"", "\"elsewhere\"")),
        ("r.toml", whole("", "merges = 500\npad = false\nbos = false", "")),
    ];
    for (path, text) in same {
        assert_eq!(hash(path, &text), plain, "{text}");
    }
    let mut seen = std::collections::HashSet::from([plain]);
    for (source, train, rest) in [
        ("", "merges = 501", ""),
        ("column = \"line\"", "merges = 500", ""),
        ("documents = \"line\"", "merges = 500", ""),
        ("", "merges = 500\nsplit = \"none\"", ""),
        ("", "merges = 500\nsplit = { regex = \"a+\" }", ""),
        ("", "merges = 500\ntie_break = \"hf\"", ""),
        ("", "vocab_size = [300, 756]", ""),
        ("", "merges = 500\nscore = \"count-length\"", ""),
        ("", "merges = 500\nscore = { conditional = { p = 1, q = 1, r = 1 } }", ""),
        ("", "merges = 500\nboundary = \"join\"", ""),
        ("", "merges = 500\nspecial_tokens = [\"<a>\"]", ""),
        ("", "merges = 500\nspecial_tokens = [\"<a>\"]\neos = \"<a>\"", ""),
        ("", "merges = 500\nspecial_tokens = [\"<a>\"]\npad = \"<a>\"", ""),
        ("", "merges = 500\nspecial_tokens = [\"<a>\"]\nunk = \"<a>\"", ""),
        ("", "merges = 500\nspecial_tokens = [\"<a>\"]\nmask = \"<a>\"", ""),
        ("", "merges = 500\nmodel_max_length = 512", ""),
        ("", "merges = 500", "split_name = \"test\""),
        ("", "merges = 500", "[sample]\nseed = 1"),
        ("", "merges = 500", "[sample]\ntake = 1"),
    ] {
        let text = whole(source, train, rest);
        assert!(seen.insert(hash("r.toml", &text)), "{text}");
    }
}

/// The mistakes, as message and help, of a recipe that consists of one key in one section.
fn mistakes_with(section: &str, key: &str, value: &str) -> Vec<(String, String)> {
    let text = format!("[{section}]\n{key} = {value}\n");
    match planned("r.toml", &text) {
        Ok(_) => Vec::new(),
        Err(mistakes) => {
            mistakes.iter().map(|one| (one.message.clone(), one.help.clone().unwrap_or_default())).collect()
        }
    }
}

/// The patterns of the JSON Schema accept the same byte counts and split names as recipes do.
#[test]
fn the_schema_takes_the_amounts_and_names_that_recipes_take() {
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../docs/recipe.schema.json")).expect("JSON");
    let output = &schema["properties"]["output"]["properties"];
    let amounts = &schema["$defs"]["bytes"]["oneOf"][1]["pattern"];
    let amount =
        ["5", "5B", "8gb", "64 MiB", " 1.5 kB", ".5T", "", "GB", "1.2.3GB", "5 bytes", "5.GB", "-1", "1e3"];
    let name = ["train", "a.b", "1_0", "allx", "all", "", "a b", "a..b", ".a", "a-b"];
    let (mut taken, mut refused) = (0, 0);
    for (section, key, pattern, texts) in [
        ("sample", "max_bytes", amounts, &amount[..]),
        ("output", "split_name", &output["split_name"]["pattern"], &name[..]),
    ] {
        let pattern = fancy_regex::Regex::new(pattern.as_str().expect("a pattern")).expect("an expression");
        for text in texts {
            // The keys of samples and output are checked only if the recipe encodes something.
            let recipe = format!("[encode]\ntokenizer = \"t\"\n[{section}]\n{key} = {text:?}\n");
            let mistakes = planned("r.toml", &recipe).expect_err("no source");
            let takes = !mistakes.iter().any(|one| one.message.starts_with(&format!("`{key}`")));
            assert_eq!(pattern.is_match(text).expect("short texts"), takes, "{key} = {text:?}");
            *(if takes { &mut taken } else { &mut refused }) += 1;
        }
    }
    assert!(taken > 8 && refused > 8, "{taken} and {refused}");
}

/// The JSON Schema that editors use lists exactly the keys and choices that recipes accept.
#[test]
fn the_schema_has_the_keys_and_choices_of_recipes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/recipe.schema.json");
    let schema: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(path).expect("the schema")).expect("JSON");
    let mut choices = 0;
    for section in ["source", "sample", "train", "encode", "output", "run"] {
        let described = match section {
            "source" => &schema["$defs"]["source"]["properties"],
            section => &schema["properties"][section]["properties"],
        };
        let described = described.as_object().expect("a table of keys");
        let unknown = mistakes_with(section, "zzzzzzzzzz", "1");
        let (_, help) =
            unknown.iter().find(|(message, _)| message.contains("zzzzzzzzzz")).expect("a mistake");
        let known = help.strip_prefix("the keys there are ").expect("the list of keys");
        let mut known: Vec<&str> = known.split(", ").collect();
        let mut keys: Vec<&str> = described.keys().map(String::as_str).collect();
        known.sort_unstable();
        keys.sort_unstable();
        assert_eq!(keys, known, "[{section}]");

        for (key, value) in described {
            let branches = value["oneOf"].as_array().into_iter().flatten();
            let named = std::iter::once(value).chain(branches).filter_map(|branch| branch["enum"].as_array());
            let refused = |value: &str| {
                let cannot = format!("`{key}` cannot be");
                mistakes_with(section, key, value).iter().any(|(message, _)| message.starts_with(&cannot))
            };
            for choice in named.flatten() {
                choices += 1;
                assert!(!refused(&choice.to_string()), "[{section}] {key} = {choice}");
                assert!(refused("\"zzzzzzzzzz\""), "[{section}] {key}");
            }
        }
    }
    assert!(choices > 40, "{choices}");
}
