//! Cuts the shard of a plan out of its opened sources, so that everything that reads them sees its units alone.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::base::int::to_u64;
use crate::base::integrity::sha256;
use crate::error::{Error, Result};
use crate::sink::ListedFile;
use crate::source::{InputShard, Source, shown_uri};

/// The shard that a job reads, and the listing of the whole input from which it follows.
#[derive(Clone, Debug)]
pub(super) struct InputPart {
    /// The shard.
    pub(super) shard: InputShard,
    /// The files of all sources, in order, before the shard was cut out.
    pub(super) listing: Vec<ListedFile>,
    /// For each source, how many of its units come before the shard.
    pub(super) first_units: Vec<u64>,
}

/// What identifies a shard of an input: its number, and the listing of the whole input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ShardState {
    /// The number of the shard, from 1.
    pub(super) index: u64,
    /// The number of all shards.
    pub(super) of: u64,
    /// Hash of the listing.
    pub(super) listing: String,
}

impl InputPart {
    /// Leaves only the units of the shard in the sources. `uris` has their addresses. Nothing may have been read before.
    ///
    /// # Errors
    /// A source cannot be divided, since it can be read only once ([`Usage`](crate::ErrorKind::Usage)).
    pub(super) fn cut(
        shard: InputShard,
        sources: &mut [Arc<dyn Source>],
        uris: &[String],
    ) -> Result<InputPart> {
        let listing = sources.iter().enumerate().flat_map(|(number, source)| listed(number, &**source));
        let listing = listing.collect();
        let units = shard.units(&unit_bytes(sources));
        let (mut before, mut first_units) = (0, Vec::new());
        for (source, uri) in sources.iter_mut().zip(uris) {
            let count = source.units().len();
            let own = |bound: usize| bound.clamp(before, before + count) - before;
            let range = own(units.start)..own(units.end);
            first_units.push(to_u64(range.start));
            before += count;
            let is_divisible = !source.is_stream()
                && (range == (0..count)
                    || Arc::get_mut(source).is_some_and(|source| source.keep_units(range)));
            if !is_divisible {
                let problem = format!("{} cannot be divided into shards", shown_uri(uri));
                return Err(Error::usage(problem).with_help("write it to files first"));
            }
        }
        Ok(InputPart { shard, listing, first_units })
    }

    /// What identifies the shard.
    pub(super) fn state(&self) -> ShardState {
        let hashes: Vec<&str> = self.listing.iter().map(|file| &*file.sha256).collect();
        ShardState { index: self.shard.index(), of: self.shard.of(), listing: sha256(hashes.join(" ")) }
    }
}

/// The bytes of each unit of all sources: of its text if that is known of all of them, or else of the place where it
/// is stored.
fn unit_bytes(sources: &[Arc<dyn Source>]) -> Vec<u64> {
    let text = sources.iter().flat_map(|source| source.units()).map(|unit| unit.text_bytes);
    let text: Option<Vec<u64>> = text.collect();
    text.unwrap_or_else(|| sources.iter().flat_map(|source| source.stored_bytes()).collect())
}

/// The files of a source, in order, each with a hash of its name, its units and their sizes. The folder of a file is
/// left out, since machines may have the same input in different places.
fn listed(number: usize, source: &dyn Source) -> Vec<ListedFile> {
    let (units, bytes) = (source.units(), source.stored_bytes());
    let mut files = Vec::new();
    let mut first = 0;
    for file in units.chunk_by(|one, next| one.name == next.name) {
        let name = &file[0].name;
        let of_file = file.iter().zip(&bytes[first..]);
        let parts: Vec<Value> =
            of_file.map(|(unit, bytes)| json!([unit.range, unit.rows, unit.text_bytes, bytes])).collect();
        first += file.len();
        let own_name = name.rsplit('/').next();
        let sha256 = sha256(json!([to_u64(number), own_name, parts]).to_string());
        files.push(ListedFile { name: shown_uri(name), sha256 });
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Silent;
    use crate::source::{self, OpenContext, SourceSpec};

    fn opened(uris: &[String]) -> Vec<Arc<dyn Source>> {
        let open = |(number, uri): (usize, &String)| {
            let spec = SourceSpec { uri: uri.clone(), ..SourceSpec::default() };
            source::open(&spec, number, &OpenContext::new(&Silent)).expect("a source")
        };
        uris.iter().enumerate().map(open).collect()
    }

    /// Sources of several kinds together, with more and with fewer shards than units.
    #[test]
    fn the_documents_of_all_shards_are_those_of_the_input() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in [("a.txt", "one"), ("b.txt", "three"), ("c.txt", "")] {
            std::fs::write(folder.path().join(name), text).expect("a file");
        }
        let uris = [folder.path().display().to_string(), "demo:verse?lines=700000".to_owned()];
        let documents = |sources| -> Vec<Vec<u8>> {
            let batches = source::collected_documents(source::in_order(sources, 2));
            let batches = batches.map(|batch| batch.expect("documents"));
            batches.flat_map(|batch| batch.iter().flatten().map(<[u8]>::to_vec).collect::<Vec<_>>()).collect()
        };
        let whole = documents(opened(&uris));
        for of in [1, 2, 5, 9] {
            let (mut all, mut states) = (Vec::new(), Vec::new());
            for index in 1..=of {
                let mut sources = opened(&uris);
                let shard = InputShard::new(index, of).expect("a shard");
                let part = InputPart::cut(shard, &mut sources, &uris).expect("a part");
                states.push(part.state().listing);
                all.extend(documents(sources));
            }
            assert!(all == whole, "{of} shards");
            states.dedup();
            assert_eq!(states.len(), 1);
        }
    }

    /// The listing is that of the files, wherever they are.
    #[test]
    fn the_listing_tells_what_changed() {
        let listings = ["one", "two", "three"].map(|last| {
            let folder = tempfile::tempdir().expect("a folder");
            std::fs::write(folder.path().join("a.txt"), "same").expect("a file");
            std::fs::write(folder.path().join("b.txt"), last).expect("a file");
            let sources = opened(&[folder.path().display().to_string()]);
            listed(0, &*sources[0]).into_iter().map(|file| file.sha256).collect::<Vec<_>>()
        });
        assert_eq!(listings[0], listings[1], "the content is compared by the shard that reads it");
        assert_eq!(listings[0][0], listings[2][0]);
        assert_ne!(listings[0][1], listings[2][1]);
    }
}
