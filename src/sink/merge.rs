//! Joins the outputs of the shards of a job to one data set.
//!
//! Data files are linked or copied, never read for their content: their hashes are in the manifests of the shards, and
//! the manifest of the data set takes them over. It is written last. A merge that is interrupted starts again.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use arrow::datatypes::Schema;
use serde::{Deserialize, Serialize};

use super::card;
use super::file_reader::columns_of;
use super::flat_file::MEGATRON_MAGIC;
use super::folder::OutputFolder;
use super::layout::{CARD_FILE, DATA_FOLDER, FilePlan, STATE_FOLDER, index_path, is_flat, read_up_to};
use super::manifest::{HashedFile, Manifest, ManifestInput, ManifestShard, OutputFile};
use super::schema::{Declaration, OutputFormat};
use super::state_folder::{Journal, holds_data, read_job, read_listing, write_job};
use crate::base::atomic_file;
use crate::base::int::to_u64;
use crate::base::integrity::{HashingWriter, sha256};
use crate::error::{Error, ErrorKind, Result};
use crate::observer::Observer;
use crate::source::{Identity, RowRange, missing_or_doubled};

/// The remedy for a shard that cannot be used.
const ENCODE_AGAIN: &str = "encode the shard again, with the command and the input of the others";

/// The result of [`merge_shards`].
#[derive(Clone, Debug)]
pub struct MergedShards {
    /// The manifest of the data set.
    pub manifest: Manifest,
    /// Whether the data set had been merged before, so that nothing was written.
    pub done_before: bool,
}

/// Joins the output folders of all shards of a job, in any order, to one data set in the folder `out`. Its rows are
/// those of the shards, one shard after the other: if rows are not packed, those that one run writes, in the same
/// order. [`Manifest::verify`] passes on it.
///
/// The data files get names like `train-00003-of-00012.parquet`. They are hard links where the file system has them, so
/// that they take no space, and otherwise copies, whose hashes are checked. Files without rows are left out, unless
/// there are no others. The folders of the shards are only read, and may be removed afterwards.
///
/// ```
/// use tokenmill::observer::Silent;
/// use tokenmill::sink::merge_shards;
///
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let folder = folder.path();
/// let error = merge_shards(&[folder.join("1"), folder.join("2")], &folder.join("out"), &Silent);
/// assert!(error.is_err()); // there are no such shards
/// ```
///
/// **Memory:** that of all manifests.
///
/// # Errors
/// - A folder is not the complete output of a shard, or has several splits ([`ErrorKind::Usage`]).
/// - The shards are not of the same job, or of the same input: the message names a file that changed between them
///   ([`ErrorKind::Usage`]).
/// - A shard is missing or is there twice: the message names all of them ([`ErrorKind::Usage`]).
/// - A data file is missing or has another size than its manifest says ([`ErrorKind::Mismatch`]).
/// - `out` is one of the folders, or holds another result ([`ErrorKind::Usage`]).
/// - A file cannot be read or written, or the observer asks to stop.
pub fn merge_shards(folders: &[PathBuf], out: &Path, observer: &dyn Observer) -> Result<MergedShards> {
    check_apart(folders, out)?;
    let mut shards = folders.iter().map(|folder| ShardFolder::open(folder)).collect::<Result<Vec<_>>>()?;
    let Some(first) = shards.first() else {
        return Err(Error::usage("there are no shards to merge").with_help("name the folders of all shards"));
    };
    shards.iter().try_for_each(|shard| first.check_same_job(shard))?;
    check_complete(&shards)?;
    shards.sort_by_key(|shard| shard.shard.index);
    let with_input: Vec<&ShardFolder> =
        shards.iter().filter(|shard| !shard.manifest.inputs.is_empty()).collect();
    with_input.windows(2).try_for_each(|pair| pair[0].check_same_file(pair[1]))?;
    let mut split = String::new();
    for shard in &shards {
        shard.check_files(observer)?;
        // The settings of a job include the name of the split, so all have the same.
        split = shard.split()?;
    }
    let merged = MergedFiles::plan(&shards, &split)?;
    if let Some(manifest) = merged.earlier(out)? {
        return Ok(MergedShards { manifest, done_before: true });
    }
    let manifest = merged.write(out, observer)?;
    Ok(MergedShards { manifest, done_before: false })
}

/// Checks that the data set would not be written into the folder of a shard.
///
/// # Errors
/// `out` is one of the folders.
fn check_apart(folders: &[PathBuf], out: &Path) -> Result<()> {
    let Ok(place) = out.canonicalize() else { return Ok(()) };
    match folders.iter().find(|folder| folder.canonicalize().is_ok_and(|folder| folder == place)) {
        Some(folder) => {
            let folder = folder.display();
            Err(Error::usage(format!("{folder} is one of the shards, and the data set would replace it"))
                .with_help("choose another folder for the data set"))
        }
        None => Ok(()),
    }
}

/// Checks that each shard is there once.
///
/// # Errors
/// One is missing or is there more than once.
fn check_complete(shards: &[ShardFolder]) -> Result<()> {
    let Some(of) = shards.first().map(|shard| shard.shard.of) else { return Ok(()) };
    let found = shards.iter().map(|shard| (shard.shard.index, shard.folder.display().to_string()));
    match missing_or_doubled(&found.collect::<Vec<_>>(), of) {
        Some(problem) => Err(Error::usage(problem).with_help("name the folder of each shard once")),
        None => Ok(()),
    }
}

/// The output folder of a shard.
struct ShardFolder {
    /// The folder.
    folder: PathBuf,
    /// Its manifest.
    manifest: Manifest,
    /// The shard, by the manifest.
    shard: ManifestShard,
    /// What its data files declare.
    declaration: Declaration,
}

impl ShardFolder {
    /// Reads the manifest of a folder.
    ///
    /// # Errors
    /// The folder has no manifest, or one that is damaged or of something other than a shard.
    fn open(folder: &Path) -> Result<ShardFolder> {
        let shown = folder.display();
        let Some(manifest) = Manifest::read_checked(folder)? else {
            let problem = format!("{shown} is not a complete shard: it has no manifest.json");
            return Err(Error::usage(problem)
                .with_help("give the command that encodes the shard again, which continues it"));
        };
        match (manifest.shard.clone(), manifest.declaration.clone()) {
            (Some(shard), Some(declaration)) if (1..=shard.of).contains(&shard.index) => {
                Ok(ShardFolder { folder: folder.to_owned(), manifest, shard, declaration })
            }
            _ => {
                Err(Error::usage(format!("{shown} is not a shard: it was encoded without a shard's number"))
                    .with_help("name the folders that `encode --shard` has written"))
            }
        }
    }

    /// The error that this shard cannot be merged with others. `why` completes the sentence.
    fn refused(&self, why: &str) -> Error {
        let (folder, shard) = (self.folder.display(), &self.shard);
        Error::usage(format!("{folder} (shard {shard}) {why}")).with_help(ENCODE_AGAIN)
    }

    /// The name of the split.
    ///
    /// # Errors
    /// There are several.
    fn split(&self) -> Result<String> {
        match self.manifest.split_names().as_slice() {
            [split] => Ok((*split).to_owned()),
            names => Err(self
                .refused(&format!("has several splits: {}", names.join(", ")))
                .with_help("encode the shards of each split into folders of their own")),
        }
    }

    /// Checks that another shard is of the same job.
    ///
    /// # Errors
    /// It is not; the message names what differs.
    fn check_same_job(&self, other: &ShardFolder) -> Result<()> {
        if self.shard.job == other.shard.job {
            return Ok(());
        }
        let first = format!("{} (shard {})", self.folder.display(), self.shard);
        let (one, two) = (&self.manifest, &other.manifest);
        Err(other.refused(&if one.tool_version != two.tool_version {
            let (one, two) = (&one.tool_version, &two.tool_version);
            format!("was written by version {two} of the program, and {first} by version {one}")
        } else if one.tokenizer != two.tokenizer {
            format!("has another tokenizer than {first}")
        } else if self.declaration.recipe != other.declaration.recipe {
            format!("was encoded with other settings than {first}")
        } else if self.shard.of != other.shard.of {
            format!("is of another number of shards than {first}")
        } else {
            format!("is of another input than {first}: {}", self.changed_file(other))
        }))
    }

    /// The first file of the input that differs between two shards, in words.
    fn changed_file(&self, other: &ShardFolder) -> String {
        let read = |shard: &ShardFolder| read_listing(&shard.folder.join(STATE_FOLDER));
        let (one, two) = (read(self), read(other));
        let differs = one.iter().zip(&two).find(|(one, two)| one.sha256 != two.sha256);
        let added = one.get(two.len()).or_else(|| two.get(one.len()));
        match (differs, added) {
            (Some((one, two)), _) if one.name == two.name => format!("{} changed between them", one.name),
            (Some((one, two)), _) => format!("{} is in the place of {}", two.name, one.name),
            (None, Some(file)) => format!("only one of them has {}", file.name),
            (None, None) => "a file was added, removed or changed between them".to_owned(),
        }
    }

    /// Checks that a file that was divided between this shard and the next one did not change between them.
    ///
    /// # Errors
    /// It did.
    fn check_same_file(&self, next: &ShardFolder) -> Result<()> {
        let (Some(last), Some(first)) = (self.manifest.inputs.last(), next.manifest.inputs.first()) else {
            return Ok(());
        };
        if last.name != first.name || is_same_file(&last.identity, &first.identity) {
            return Ok(());
        }
        let (own, file) = (&self.shard, &first.name);
        Err(next.refused(&format!("read {file} after it had changed since shard {own} was encoded")))
    }

    /// Checks that all data files are there and have their sizes.
    ///
    /// # Errors
    /// One is missing or has another size ([`ErrorKind::Mismatch`]), or the observer asks to stop.
    fn check_files(&self, observer: &dyn Observer) -> Result<()> {
        observer.checkpoint()?;
        let sizes = self.manifest.files.iter().flat_map(named_sizes);
        for (name, bytes, _) in sizes {
            let path = self.folder.join(name);
            let found = path.metadata().map(|file| file.len());
            if found.as_ref().is_ok_and(|found| *found == bytes) {
                continue;
            }
            let what = match found {
                Ok(found) => format!("has {found} bytes, and the manifest says {bytes}"),
                Err(_) => "is missing".to_owned(),
            };
            let problem = format!("{} {what}", path.display());
            return Err(Error::message(ErrorKind::Mismatch, problem).with_help(ENCODE_AGAIN));
        }
        Ok(())
    }
}

/// The name, the size and the hash of a data file and of its index.
fn named_sizes(file: &OutputFile) -> impl Iterator<Item = (&String, u64, &String)> {
    let index = file.index.iter().map(|index| (&index.name, index.bytes, &index.sha256));
    std::iter::once((&file.name, file.bytes, &file.sha256)).chain(index)
}

/// Whether two parts of a file may be of the same content. Those of text are identified by themselves, and the file by
/// its size.
fn is_same_file(one: &Identity, other: &Identity) -> bool {
    match (one, other) {
        (Identity::Content { bytes, .. }, Identity::Content { bytes: other, .. }) => bytes == other,
        _ => one == other,
    }
}

/// The inputs of all shards, with the parts of each file that is identified as a whole joined into one.
fn joined_inputs(shards: &[ShardFolder]) -> Vec<ManifestInput> {
    let mut inputs: Vec<ManifestInput> = Vec::new();
    for input in shards.iter().flat_map(|shard| &shard.manifest.inputs) {
        let is_same = |last: &&mut ManifestInput| last.name == input.name && last.identity == input.identity;
        match inputs.last_mut().filter(is_same) {
            Some(last) => last.range = RowRange::Whole,
            None => {
                let range = match input.range {
                    RowRange::RowGroups(0, 1) => input.range,
                    RowRange::RowGroups(..) => RowRange::Whole,
                    range => range,
                };
                inputs.push(ManifestInput { range, ..input.clone() });
            }
        }
    }
    inputs
}

/// The job file of a merge.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct MergeState {
    /// The fingerprint of the data set.
    merged: String,
    /// The split.
    split: String,
}

/// A record in the journal of data files, by which later runs know that the file may be removed.
#[derive(Serialize)]
struct MergedFile<'a> {
    file: &'a OutputFile,
}

/// A data set that is about to be merged.
struct MergedFiles {
    /// The manifest, without the dataset card.
    manifest: Manifest,
    /// For each data file, where it is now, and its index, if the format has one.
    places: Vec<Vec<PathBuf>>,
    /// What the data files declare.
    declaration: Declaration,
    /// The names of the files, and their format.
    plan: FilePlan,
    /// The columns of the files.
    schema: Schema,
}

impl MergedFiles {
    /// Numbers the data files of all shards, which are in order.
    ///
    /// # Errors
    /// A data file cannot be read, or the sums of rows, tokens or bytes exceed 64 bits.
    fn plan(shards: &[ShardFolder], split: &str) -> Result<MergedFiles> {
        let files =
            shards.iter().flat_map(|shard| shard.manifest.files.iter().map(move |file| (shard, file)));
        let (mut files, empty): (Vec<_>, Vec<_>) = files.partition(|(_, file)| file.rows > 0);
        if files.is_empty() {
            files.extend(empty.into_iter().next());
        }
        let Some((first, file)) = files.first() else {
            return Err(Error::usage("the shards have no data files").with_help(ENCODE_AGAIN));
        };
        let path = first.folder.join(&file.name);
        let schema = if is_flat(&path) { Schema::empty() } else { Schema::new(columns_of(&path)?) };
        let plan = FilePlan::of_files(split, files.len())?.with_format(format_of(&path)?);
        let places = files
            .iter()
            .map(|(shard, file)| named_sizes(file).map(|(name, ..)| shard.folder.join(name)).collect());
        let places = places.collect();
        let renamed = |(number, (_, file)): (usize, &(&ShardFolder, &OutputFile))| {
            let name = plan.name(number);
            let index_name = index_path(Path::new(&name)).to_string_lossy().into_owned();
            let index = file.index.clone().map(|index| HashedFile { name: index_name, ..index });
            OutputFile { name, index, ..(*file).clone() }
        };
        let merged = files.iter().enumerate().map(renamed).collect();
        let declaration = first.declaration.clone();
        let jobs: Vec<&str> = shards.iter().map(|shard| &*shard.manifest.job).collect();
        let skipped = shards.iter().map(|shard| shard.manifest.skipped_inputs);
        let manifest = Manifest {
            declaration: Some(declaration.clone()),
            inputs: joined_inputs(shards),
            skipped_inputs: skipped.fold(0, u64::saturating_add),
            files: merged,
            ..Manifest::new(sha256(jobs.join(" ")), declaration.tokenizer.clone())
        };
        match manifest.mistake() {
            Some(mistake) => Err(Error::failed(format!("the manifest of the data set: {mistake}"))),
            None => Ok(MergedFiles { manifest, places, declaration, plan, schema }),
        }
    }

    /// The manifest of the data set, if it has been merged before and its files are there.
    ///
    /// # Errors
    /// The folder holds another result, or the beginning of one.
    fn earlier(&self, out: &Path) -> Result<Option<Manifest>> {
        let refused = |held: &str| {
            let help = "choose another folder, or remove this one";
            Err(Error::usage(format!("{} holds {held}", out.display())).with_help(help))
        };
        match Manifest::read(out)? {
            Some(manifest) if manifest.job == self.manifest.job => {
                let is_whole = Manifest::read_checked(out).is_ok()
                    && out.join(CARD_FILE).is_file()
                    && manifest.files_of_other_size(out, |_| false) == 0;
                Ok(is_whole.then_some(manifest))
            }
            Some(_) => refused("another result"),
            None if read_job(&out.join(STATE_FOLDER)).as_ref() == Some(&self.state()) => Ok(None),
            None if holds_data(out, None)? => refused("the unfinished result of another run"),
            None => Ok(None),
        }
    }

    /// What the job file says.
    fn state(&self) -> MergeState {
        MergeState { merged: self.manifest.job.clone(), split: self.plan.split_name().to_owned() }
    }

    /// Writes the data set. Names are in the journal before files have them, and the manifest comes last.
    ///
    /// # Errors
    /// Another process writes to the folder, a file cannot be linked nor copied, or the observer asks to stop.
    fn write(self, out: &Path, observer: &dyn Observer) -> Result<Manifest> {
        let folder = OutputFolder::open_split(out, None, observer)?;
        folder.clear_data()?;
        write_job(&folder.state(), &self.state())?;
        let data = folder.path().join(DATA_FOLDER);
        fs::create_dir_all(&data).map_err(|cause| Error::io("create", &data, cause))?;
        let mut journal = Journal::create(folder.file_journal(), &self.manifest.job)?;
        self.manifest.files.iter().try_for_each(|file| journal.append(&MergedFile { file }))?;
        journal.sync()?;
        for (file, places) in self.manifest.files.iter().zip(&self.places) {
            observer.checkpoint()?;
            for (from, (name, _, sha256)) in places.iter().zip(named_sizes(file)) {
                link_or_copy(from, &folder.path().join(name), sha256)?;
            }
        }
        atomic_file::sync_folder(&data)?;
        let Manifest { files, skipped_inputs, .. } = &self.manifest;
        let card =
            card::write(folder.path(), &self.plan, &self.schema, &self.declaration, files, *skipped_inputs)?;
        let manifest = Manifest { other_files: vec![card], ..self.manifest };
        folder.check_held()?;
        manifest.write(folder.path())?;
        Ok(manifest)
    }
}

/// The format of a data file.
///
/// # Errors
/// The index of a file of bare ids cannot be read.
fn format_of(path: &Path) -> Result<OutputFormat> {
    if !is_flat(path) {
        return Ok(OutputFormat::Parquet);
    }
    let index = read_up_to(to_u64(MEGATRON_MAGIC.len()), &index_path(path))?;
    let is_megatron = index.is_some_and(|index| index == MEGATRON_MAGIC);
    Ok(if is_megatron { OutputFormat::Megatron } else { OutputFormat::Bin })
}

/// Gives a file a further name, or copies it if the file system cannot do that.
///
/// # Errors
/// The file cannot be read, the copy cannot be written, or it has another hash ([`ErrorKind::Mismatch`]).
fn link_or_copy(from: &Path, to: &Path, sha256: &str) -> Result<()> {
    // A link to a symbolic link would be one itself.
    let place = from.canonicalize().map_err(|cause| Error::io("read", from, cause))?;
    fs::hard_link(place, to).or_else(|_| copy(from, to, sha256))
}

/// Copies a file completely or not at all.
///
/// # Errors
/// Those of [`link_or_copy`].
fn copy(from: &Path, to: &Path, sha256: &str) -> Result<()> {
    let mut source = File::open(from).map_err(|cause| Error::io("read", from, cause))?;
    atomic_file::publish_within(to, |file| {
        let mut hashing = HashingWriter::new(file);
        io::copy(&mut source, &mut hashing).map_err(|cause| Error::io("write", to, cause))?;
        if hashing.sha256() == sha256 {
            return Ok(());
        }
        let problem = format!("{} is not as its manifest says: its SHA-256 differs", from.display());
        Err(Error::message(ErrorKind::Mismatch, problem).with_help(ENCODE_AGAIN))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_whole_and_right_or_not_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::write(&from, "ids").expect("a file");
        let error = copy(&from, &to, &sha256("other")).expect_err("another hash");
        assert_eq!((error.kind(), to.exists()), (ErrorKind::Mismatch, false));
        copy(&from, &to, &sha256("ids")).expect("the same hash");
        assert_eq!(fs::read(&to).expect("a file"), b"ids");
    }

    fn shard(index: u64, input: Option<(&str, Identity)>) -> ShardFolder {
        let input = input.map(|(name, identity)| {
            let range = RowRange::RowGroups(index, index + 1);
            ManifestInput { name: name.to_owned(), range, identity }
        });
        let shard = ManifestShard { index, of: 3, job: "job".to_owned(), listing: "listing".to_owned() };
        let manifest = Manifest {
            shard: Some(shard.clone()),
            inputs: input.into_iter().collect(),
            ..Manifest::new(String::new(), String::new())
        };
        let declaration = serde_json::json!({
            "format_version": 1, "tool_version": "1", "tokenizer": "t", "recipe": "r", "special": "text",
        });
        let declaration = serde_json::from_value(declaration).expect("a declaration");
        ShardFolder { folder: PathBuf::from("folder"), manifest, shard, declaration }
    }

    #[test]
    fn a_file_that_is_divided_must_be_the_same_in_both_shards() {
        let footer = |sha256: &str| Identity::Footer { bytes: 9, sha256: sha256.to_owned() };
        let text = |bytes, sha256: &str| Identity::Content { bytes, sha256: sha256.to_owned() };
        for (one, other, same) in [
            (("a", footer("x")), ("a", footer("x")), true),
            (("a", footer("x")), ("a", footer("y")), false),
            (("a", footer("x")), ("b", footer("y")), true),
            (("a", text(9, "x")), ("a", text(9, "y")), true),
            (("a", text(9, "x")), ("a", text(8, "y")), false),
        ] {
            let (one, other) = (shard(1, Some(one)), shard(3, Some(other)));
            let checked = one.check_same_file(&other);
            assert_eq!(checked.is_ok(), same, "{checked:?}");
            let said = checked.err().map_or_else(String::new, |error| error.to_string());
            assert!(same || said.contains("read a after it had changed since shard 1/3"), "{said}");
        }
    }

    #[test]
    fn a_file_of_several_shards_is_listed_once() {
        let footer = Identity::Footer { bytes: 9, sha256: "x".to_owned() };
        let shards =
            [shard(0, Some(("a", footer.clone()))), shard(1, None), shard(1, Some(("a", footer.clone())))];
        let range = |inputs: &[ShardFolder]| {
            joined_inputs(inputs).iter().map(|input| input.range).collect::<Vec<_>>()
        };
        assert_eq!(range(&shards), [RowRange::Whole]);
        assert_eq!(range(&shards[..1]), [RowRange::RowGroups(0, 1)]);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_behind_a_symbolic_link_is_linked_itself() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "ids").expect("a file");
        std::os::unix::fs::symlink(at("file"), at("link")).expect("a link");
        link_or_copy(&at("link"), &at("to"), "").expect("linked");
        assert!(!at("to").is_symlink() && fs::read(at("to")).expect("a file") == b"ids");
    }
}
