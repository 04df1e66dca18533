//! Checks licenses and bans of all dependencies against `deny.toml`.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

/// The allowed licenses and the banned crates, as listed in `deny.toml`.
struct Rules {
    licences: BTreeSet<String>,
    banned: BTreeSet<String>,
}

impl Rules {
    fn read() -> Rules {
        let text = std::fs::read_to_string(super::root().join("deny.toml")).expect("deny.toml");
        let rules: toml::Table = text.parse().expect("TOML");
        let list = |section: &str, key: &str| rules[section][key].as_array().expect("a list").clone();
        let string = |value: &toml::Value| value.as_str().expect("a string").to_owned();
        Rules {
            licences: list("licenses", "allow").iter().map(string).collect(),
            banned: list("bans", "deny").iter().map(|ban| string(&ban["crate"])).collect(),
        }
    }

    /// Whether the allowed licenses satisfy an SPDX expression: one alternative of every part joined by `AND`.
    fn allow(&self, expression: &str) -> bool {
        let alternatives = |part: &str| -> Vec<String> {
            let part = part.replace(['(', ')'], "").replace('/', " OR ");
            part.split(" OR ").map(|licence| licence.trim().to_owned()).collect()
        };
        expression.split(" AND ").all(|part| alternatives(part).iter().any(|one| self.licences.contains(one)))
    }

    /// Describes the rule that a package of `cargo metadata` breaks: a ban, a source other than a registry, or
    /// a license.
    fn offence(&self, package: &Value) -> Option<String> {
        let name = package["name"].as_str().unwrap_or_default();
        let licence = package["license"].as_str().unwrap_or("none");
        if self.banned.contains(name) {
            return Some(format!("{name} is banned"));
        }
        let ours = package["source"].is_null();
        if !ours && !package["source"].as_str().is_some_and(|source| source.starts_with("registry+")) {
            return Some(format!("{name} is from {}", package["source"]));
        }
        (!self.allow(licence)).then(|| format!("{name} has the licence {licence}"))
    }
}

#[test]
fn dependencies_have_licences_and_names_that_are_allowed() {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--all-features", "--locked"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(super::root())
        .output()
        .expect("cargo");
    let complaint = String::from_utf8_lossy(&metadata.stderr);
    assert!(metadata.status.success(), "{complaint}\n(`cargo fetch --locked` gets what is missing)");
    let metadata: Value = serde_json::from_slice(&metadata.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 100, "{} packages", packages.len());
    let rules = Rules::read();
    let offences: Vec<String> = packages.iter().filter_map(|package| rules.offence(package)).collect();
    assert!(offences.is_empty(), "{offences:?}");
}

#[test]
fn licence_expressions_are_met_by_one_alternative_of_each_part() {
    let allowed = ["MIT", "ISC"].map(str::to_owned);
    let rules = Rules { licences: allowed.into(), banned: BTreeSet::new() };
    for (expression, allowed) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("ISC AND MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("(GPL-3.0 OR MIT) AND ISC", true),
        ("(GPL-3.0 OR MIT) AND BSL-1.0", false),
    ] {
        assert_eq!(rules.allow(expression), allowed, "{expression}");
    }
}
