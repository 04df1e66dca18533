//! Counts of the shards of an input: a sum has each of them once, and is described like the counts of the whole input.
//!
//! The run describes what it counted in [`CountsInfo::sources`]: the `sources`, each with its `units`, and for a shard
//! also the `shard`, with its `index`, the number `of` all shards, and a hash of the `listing` from which they follow.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::counts_file::CountsInfo;
use crate::base::hash::Map;
use crate::base::int::to_u64;
use crate::error::{Error, Result};
use crate::source::{InputShard, missing_or_doubled};

/// The shard that a counts file holds.
#[derive(Debug, Deserialize)]
struct CountedShard {
    /// The number of the shard, from 1.
    index: u64,
    /// The number of all shards.
    of: u64,
    /// Hash of the listing of the whole input.
    listing: String,
}

impl CountedShard {
    /// The shard of a counts file; `None` if it holds something else.
    fn of(info: &CountsInfo) -> Option<CountedShard> {
        let shard = CountedShard::deserialize(&info.sources["shard"]).ok()?;
        InputShard::new(shard.index, shard.of).ok().map(|_| shard)
    }
}

/// The files that hold shards of one input, by their numbers in a list.
#[derive(Default)]
struct ShardGroup {
    /// The number and the shard of each file.
    files: Vec<(usize, CountedShard)>,
}

/// Groups the files of a list by the input of which they hold shards. The groups are in the order of their first files.
fn groups(infos: &[CountsInfo]) -> Vec<ShardGroup> {
    let mut numbers: Map<String, usize> = Map::default();
    let mut groups: Vec<ShardGroup> = Vec::new();
    for (number, info) in infos.iter().enumerate() {
        let Some(shard) = CountedShard::of(info) else { continue };
        let sources = info.sources["sources"].as_array().into_iter().flatten();
        let sources: Vec<Value> =
            sources.map(|source| json!([source["uri"], source["column"], source["weight"]])).collect();
        let group = *numbers.entry(json!([shard.of, sources]).to_string()).or_insert(groups.len());
        if group == groups.len() {
            groups.push(ShardGroup::default());
        }
        groups[group].files.push((number, shard));
    }
    groups
}

/// The order in which these counts files are summed, as indexes: that of the list, but shards of one input follow each
/// other in the order of the input.
///
/// # Errors
/// A shard of an input is missing or is given more than once, or the input changed between two shards.
pub(super) fn order(paths: &[&Path], infos: &[CountsInfo]) -> Result<Vec<usize>> {
    let mut keys: Vec<(usize, u64)> = (0..infos.len()).map(|number| (number, 0)).collect();
    for ShardGroup { files } in groups(infos) {
        let Some((first, shard)) = files.first() else { continue };
        if let Some((other, changed)) = files.iter().find(|(_, other)| other.listing != shard.listing) {
            let (first, other) = (paths[*first].display(), paths[*other].display());
            let problem =
                format!("the input changed between {first} (shard {}/{}) and {other}", shard.index, shard.of);
            let problem = format!("{problem} (shard {}/{})", changed.index, changed.of);
            return Err(Error::usage(problem).with_help("count all shards again"));
        }
        let found: Vec<_> =
            files.iter().map(|(number, shard)| (shard.index, paths[*number].display().to_string())).collect();
        if let Some(problem) = missing_or_doubled(&found, shard.of) {
            return Err(Error::usage(problem).with_help("name the counts file of each shard once"));
        }
        files.iter().for_each(|(number, shard)| keys[*number] = (*first, shard.index));
    }
    let mut order: Vec<usize> = (0..infos.len()).collect();
    order.sort_by_key(|&number| keys[number]);
    Ok(order)
}

/// The description of the whole input, if these are the counts of all its shards, in order. It is the one that the
/// counts of the whole input have.
pub(super) fn whole_input(infos: &[CountsInfo]) -> Option<Value> {
    let all = groups(infos);
    let [ShardGroup { files }] = all.as_slice() else { return None };
    let is_whole = files.len() == infos.len() && files.first()?.1.of == to_u64(infos.len());
    let (first, others) = infos.split_first().filter(|_| is_whole)?;
    let mut whole = first.sources.clone();
    whole.as_object_mut()?.remove("shard");
    for other in others {
        let sources = whole["sources"].as_array_mut()?.iter_mut();
        for (source, more) in sources.zip(other.sources["sources"].as_array()?) {
            source["units"].as_array_mut()?.extend(more["units"].as_array()?.iter().cloned());
        }
    }
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(uri: &str, shard: Option<(u64, u64)>) -> CountsInfo {
        let index = shard.map_or(0, |(index, _)| index);
        let mut sources = json!({ "sources": [{ "uri": uri, "units": [index] }], "sample": {} });
        if let Some((index, of)) = shard {
            sources["shard"] = json!({ "index": index, "of": of, "listing": "files" });
        }
        CountsInfo { sources, ..CountsInfo::default() }
    }

    #[test]
    fn shards_are_summed_in_their_order() {
        let infos = [
            ("b", Some((2, 2))),
            ("other", None),
            ("a", Some((2, 3))),
            ("a", Some((1, 3))),
            ("b", Some((1, 2))),
            ("a", Some((3, 3))),
        ];
        let infos = infos.map(|(uri, shard)| info(uri, shard));
        let paths = [Path::new("file"); 6];
        assert_eq!(order(&paths, &infos).expect("complete"), [4, 0, 1, 3, 2, 5]);
        assert!(whole_input(&infos).is_none());
        let whole = whole_input(&[infos[3].clone(), infos[2].clone(), infos[5].clone()]);
        assert_eq!(whole, Some(json!({ "sources": [{ "uri": "a", "units": [1, 2, 3] }], "sample": {} })));
    }

    #[test]
    fn missing_doubled_and_changed_shards_are_errors() {
        let paths = ["1", "2", "3"].map(Path::new);
        let said = |infos: &[CountsInfo]| order(&paths[..infos.len()], infos).expect_err("wrong").to_string();
        assert_eq!(said(&[info("a", Some((1, 2)))]), "shard 2/2 is missing");
        let doubled = [(1, 2), (2, 2), (1, 2)].map(|shard| info("a", Some(shard)));
        assert_eq!(said(&doubled), "shard 1/2 is there more than once: 1, 3");
        let mut changed = [(1, 2), (2, 2)].map(|shard| info("a", Some(shard)));
        changed[1].sources["shard"]["listing"] = json!("other files");
        assert_eq!(said(&changed), "the input changed between 1 (shard 1/2) and 2 (shard 2/2)");
    }
}
