//! The files that a run has written.

use std::collections::BTreeMap;
use std::path::Path;

/// Reads the files of a folder by name, except those that depend on more than input and recipe: the reports,
/// which contain times, and the state folder.
pub(crate) fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                folders.extend((name != ".tokenmill").then_some(path));
            } else if !name.starts_with("report.") {
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    found
}
