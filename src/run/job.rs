//! Runs whole jobs: trains, encodes, writes the report and the manifest, and resumes what an earlier run began.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::checks::{check, check_place, check_training_place};
use super::disk::{check_free, disk_need, note_free_space};
use super::encoding::{self, Encoded, OutputPlace, encode};
use super::extend::load_named;
use super::facts::ReportParts;
use super::inputs::Inputs;
use super::plan::Plan;
use super::resources::Costs;
use super::state::{JobState, StoredSettings};
use super::tokenizer_files::{remove_others, tokenizer_files, write_tokenizer};
use super::training::{
    Trained, forget_learned, has_begun, has_learned, restore_learned, store_learned, train,
};
use crate::base::folder_lock;
use crate::base::int::{ByteCount, to_u64, with_unit};
use crate::error::{Error, ErrorKind, Result};
use crate::observer::{Observer, Silent};
use crate::publish::{Destination, check_destination};
use crate::report::{self, RecipeFacts, RunReport, SkippedInput};
use crate::sink::{
    CARD_FILE, FileStore, HashedFile, Manifest, OutputFolder, STATE_FOLDER, TOKENIZER_FOLDER, split_files,
    split_of, write_listing,
};
use crate::source::OpenContext;
use crate::vocab::{self, Format, LoadOptions, TrainingRecord, Vocabulary, WriteOptions};

/// Options of a job besides its plan.
#[derive(Clone, Debug, Default)]
pub struct JobOptions {
    /// Facts about the recipe, which the report shows.
    pub recipe: RecipeFacts,
    /// Whether to replace the result of another job.
    pub force: bool,
    /// The tokenizer to encode with, if the program has it. It takes the place of the one that the plan names.
    pub tokenizer: Option<Arc<Vocabulary>>,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The report that was written; `None` if the job had already been done.
    pub report: Option<RunReport>,
    /// The report of the earlier run, if the job had already been done.
    pub before: Option<RunReport>,
    /// The contents of the output folder; `None` for a run that writes only a tokenizer.
    pub manifest: Option<Manifest>,
    /// Number of rows or files that were skipped.
    pub skipped: u64,
}

/// Carries out a plan: trains a tokenizer, encodes, and writes a report. The [module](super) has an example.
///
/// The manifest is written last. An output folder without a manifest is incomplete. If the folder holds the result of
/// the same job, and every file is as the manifest lists it, nothing is done and [`Outcome::before`] holds the
/// earlier report. If an earlier run of the same job was interrupted, its finished parts are kept. The results do not
/// depend on that, nor on the number of threads.
///
/// The job runs on its own pool of `plan.threads` threads.
///
/// **Memory:** `plan.memory` limits counting and training. Of encoding it limits only what one document takes: a
/// document is an error if it is too long to be held, or exceeds the limits of
/// [`Encoder::within`](crate::encode::Encoder::within). Apart from that, encoding takes what
/// [`encode_batches`](crate::encode::encode_batches) and [`ShardWriter`](crate::sink::ShardWriter) take, whatever
/// `plan.memory` is.
///
/// # Errors
/// - The output folder holds the result of another job and `force` is not set, or files of others
///   ([`ErrorKind::Usage`]). The help of this error, as of others, names the program's flag: `--force` is `force`.
/// - Errors of the stages: the input cannot be read or changed during the run, memory or disk space does not suffice,
///   the observer asks to stop.
pub fn job(plan: &Plan, options: &JobOptions, context: &OpenContext<'_>) -> Result<Outcome> {
    super::with_threads(plan.threads, || {
        let job = Job::open(plan, options, context)?;
        match job.already_done()? {
            Some((manifest, before)) => {
                for SkippedInput { place, reason } in &before.skipped {
                    // A file that could not be opened has its source as place, and its name in the reason.
                    context.observer.noted(&match reason.starts_with(place) {
                        true => format!("left out: {reason}"),
                        false => format!("left out: {place}: {reason}"),
                    });
                }
                job.finish_destination()?;
                let skipped = before.skipped_inputs;
                Ok(Outcome { report: None, before: Some(before), manifest: Some(manifest), skipped })
            }
            None => job.run(),
        }
    })
}

/// Trains a tokenizer and writes it into the plan's folder for it, with a report. Unlike [`job`](job()), it writes no
/// manifest and always trains.
///
/// # Errors
/// - The folder is part of the result of a job ([`ErrorKind::Usage`]): it has a manifest, or it is the folder
///   `tokenizer` of an output folder with a manifest, or a folder in it.
/// - A file in the folder has the name of a file to write, and the folder has no training record, so the file may be
///   somebody's own ([`ErrorKind::Usage`]). This applies to the folders of smaller tokenizers too.
/// - The folder's path is that of a file, a source contains the folder, or it cannot be written to.
/// - Errors of the stages, as for [`job`](job()).
///
/// # Panics
/// On a plan that trains nothing.
pub fn train_only(plan: &Plan, options: &JobOptions, context: &OpenContext<'_>) -> Result<Outcome> {
    let settings = plan.train.as_ref().expect("a plan that trains");
    super::with_threads(plan.threads, || {
        check_training_place(plan, settings)?;
        note_free_space(settings, context.observer);
        let inputs = Inputs::open(plan, context)?;
        let mut costs = Costs::default();
        let is_new = !settings.output.exists();
        let trained = train(plan, settings, &inputs, None, &mut costs, context.observer);
        if trained.is_err() && is_new {
            // Counts that do not fit the memory go to unnamed files in this folder, so it may have been created for
            // them. If somebody else has written there meanwhile, it is not empty, and `remove_dir` leaves it.
            let _ = fs::remove_dir(&settings.output);
        }
        let trained = trained?;
        let _lock = folder_lock::lock_folder(&settings.output, STATE_FOLDER, context.observer)?;
        write_tokenizer(&trained, plan, settings, &write_options(plan), context.observer)?;
        let report = ReportParts {
            plan,
            recipe: &options.recipe,
            inputs: &inputs,
            vocabulary: &trained.vocabulary,
            trained: Some(&trained),
            encoded: None,
            costs,
        }
        .report()?;
        report::write(&settings.output, &report)?;
        let skipped = inputs.skipped(context.observer);
        Ok(Outcome { skipped, report: Some(report), before: None, manifest: None })
    })
}

/// The data files of a split, which a job would replace, in words; `None` if there are none.
///
/// # Errors
/// The folder cannot be read.
fn replaced(folder: &Path, split: Option<&str>) -> Result<Option<String>> {
    let names = split_files(folder, split)?;
    let (Some(first), Some(last)) = (names.first(), names.last()) else { return Ok(None) };
    Ok(Some(match names.len() {
        1 => format!("the data file {first}"),
        many => format!("{}, {first} to {last},", with_unit(to_u64(many), "data file")),
    }))
}

/// The error ([`ErrorKind::Usage`]) for a folder with the result of another job, or with an unfinished one: `held`.
/// `changed` names what differs. If the folder cannot be read, the error is that.
pub(super) fn of_another_run(plan: &Plan, changed: &str, held: &str) -> Error {
    let help = match replaced(&plan.output, plan.split_name()) {
        Ok(Some(what)) => {
            format!("choose another output folder or --split-name, or replace {what} with --force")
        }
        Ok(None) => "choose another output folder, or replace the existing result with --force".to_owned(),
        Err(error) => return error,
    };
    let earlier = StoredSettings::read(&plan.output, plan.split_name());
    let keys = StoredSettings::of(plan).changed_keys(&earlier);
    let command = earlier
        .command
        .map_or_else(String::new, |command| format!("; the other run was started as: {command}"));
    let place = plan.place();
    Error::usage(format!("{place} holds {held} of another run: {changed} changed since{keys}"))
        .with_help(help + &command)
}

/// The settings that differ from those of the job whose result is in the output folder, for the end of a message.
fn changed_keys(plan: &Plan) -> String {
    StoredSettings::of(plan).changed_keys(&StoredSettings::read(&plan.output, plan.split_name()))
}

/// A job with open inputs and an open output folder. The folder is locked until the value is dropped.
struct Job<'a> {
    /// The plan to carry out.
    plan: &'a Plan,
    /// Options that the output does not depend on, apart from the recipe in the report.
    options: &'a JobOptions,
    /// Gets progress and notes, and may ask to stop.
    observer: &'a dyn Observer,
    /// The open inputs. Training and encoding each read them.
    inputs: Inputs<'a>,
    /// The tokenizer that the plan names, if it names one.
    given: Option<Arc<Vocabulary>>,
    /// The output folder, locked against other runs.
    folder: OutputFolder,
    /// The place in an object store to which the output moves; `None` if it stays in the folder.
    destination: Option<Destination<'a>>,
    /// The state of this job, to compare with the state that the folder stores.
    state: JobState,
}

impl<'a> Job<'a> {
    /// Checks the plan against its inputs and its output folder, and locks the folder.
    ///
    /// The folder is locked once the inputs are open and the plan is checked. The input is identified last, which may
    /// read all of it.
    ///
    /// # Errors
    /// Something is wrong with one of them, or another run holds the folder.
    fn open(plan: &'a Plan, options: &'a JobOptions, context: &OpenContext<'a>) -> Result<Job<'a>> {
        let observer = context.observer;
        check_place(plan)?;
        OutputFolder::check(&plan.output)?;
        plan.destination.as_ref().map_or(Ok(()), |uri| check_destination(uri, context))?;
        let inputs = Inputs::open(plan, context)?;
        let named = plan
            .encode
            .as_ref()
            .and_then(|encode| Some((encode.tokenizer.as_ref()?, &encode.tokenizer_options)));
        let load = |(name, settings): (&PathBuf, &LoadOptions)| match &options.tokenizer {
            Some(given) => Ok(Arc::clone(given)),
            None => load_named(name, settings, context).map(Arc::new),
        };
        let given = named.map(load).transpose()?;
        check(plan, &inputs, given.as_deref())?;
        let folder = OutputFolder::open_split(&plan.output, plan.split_name(), observer)?;
        let destination = plan.destination.as_ref();
        let destination = destination
            .map(|uri| Destination::open(uri, &folder, plan.train.is_some(), options.force, context))
            .transpose()?;
        let state = JobState::of(plan, &inputs, given.as_deref())?;
        Ok(Job { plan, options, observer, inputs, given, folder, destination, state })
    }

    /// The place to which complete data files move; `None` if they stay in the folder.
    fn store(&self) -> Option<&dyn FileStore> {
        let destination: &dyn FileStore = self.destination.as_ref()?;
        Some(destination)
    }

    /// Uploads what the destination lacks of the complete output, and last the manifest.
    ///
    /// # Errors
    /// A file cannot be uploaded.
    fn finish_destination(&self) -> Result<()> {
        self.destination.as_ref().map_or(Ok(()), Destination::finish)
    }

    /// Removes everything that an earlier run left of the split, in the folder and at the destination.
    ///
    /// # Errors
    /// A file or an object cannot be removed.
    fn clear_data(&self) -> Result<()> {
        self.folder.clear_data()?;
        let own = self.plan.split_name();
        let is_other = |name: &str| own.is_some_and(|own| split_of(name) != own);
        self.store().map_or(Ok(()), |store| store.keep_only(&is_other))
    }

    /// Whether a folder without a manifest holds the beginning of a job, or the destination holds data files.
    ///
    /// # Errors
    /// The folder cannot be read.
    fn has_begun(&self) -> Result<bool> {
        let split = self.plan.split_name();
        let is_there = self.destination.as_ref().is_some_and(|destination| destination.holds_data(split));
        Ok(is_there || has_begun(self.folder.path(), split)?)
    }

    /// The manifest and the report, if the folder holds the complete and undamaged result of this job.
    ///
    /// `None` means that the job must run. An input that can be read only once has no identity, so its job always
    /// runs. Damaged files lead to a note, and the job runs again, except for data files of other splits.
    ///
    /// # Errors
    /// The folder holds the result of another job, or the beginning of one, and it may not be replaced.
    fn already_done(&self) -> Result<Option<(Manifest, RunReport)>> {
        let split = self.plan.split_name();
        let held = JobState::read(self.folder.path(), split);
        let changed = held.as_ref().and_then(|held| self.state.difference(held));
        let folder = self.folder.path();
        let all = Manifest::read(folder)?;
        let Some(manifest) = all.as_ref().and_then(|all| all.of_split(split)) else {
            if let Some(changed) = changed
                && self.has_begun()?
            {
                self.replace(changed, "the unfinished result")?;
            }
            return Ok(None);
        };
        let is_done = manifest.job == self.state.fingerprint() && !self.inputs.read_once();
        if (is_done || held.as_ref() == Some(&self.state))
            && let Err(damage) = Manifest::read_checked(folder)
        {
            return self.run_again_if_damaged(damage);
        }
        if is_done {
            let whole = all.map_or(Ok(()), |all| all.verify_for(split, folder, self.store(), self.observer));
            return match whole.and_then(|()| self.check_other_files(&manifest).map_err(as_damage)) {
                Ok(report) => Ok(Some((manifest, report))),
                Err(damage) => self.run_again_if_damaged(damage),
            };
        }
        let unknown = if self.inputs.read_once() { "standard input or a pipe may have" } else { "something" };
        let changed = changed.unwrap_or(unknown);
        let file = if changed == "the input" && !self.inputs.read_once() {
            self.first_changed_input(&manifest)?
        } else {
            None
        };
        let changed = file.map_or_else(|| changed.to_owned(), |file| format!("{changed} ({file})"));
        self.replace(&changed, "the result")?;
        Ok(None)
    }

    /// The name of the first input that differs from those in a manifest, or else of the first that is no longer there.
    ///
    /// # Errors
    /// An input cannot be read.
    fn first_changed_input(&self, manifest: &Manifest) -> Result<Option<String>> {
        let inputs = self.inputs.listed()?;
        let new = inputs.iter().find(|input| !manifest.inputs.contains(input));
        let gone = || manifest.inputs.iter().find(|input| !inputs.contains(input));
        Ok(new.or_else(gone).map(|input| input.name.clone()))
    }

    /// Handles an error from checking the existing result. If it is about damage ([`ErrorKind::Mismatch`]), tells the
    /// observer so and returns `None`, by which [`already_done`](Job::already_done) says that the job must run.
    ///
    /// # Errors
    /// Returns any other error.
    fn run_again_if_damaged<T>(&self, damage: Error) -> Result<Option<T>> {
        if damage.kind() != ErrorKind::Mismatch {
            return Err(damage);
        }
        self.observer.noted(&format!("{damage}; doing it again"));
        Ok(None)
    }

    /// Allows replacing the result of another job, or its beginning, if `force` is set. Tells the observer which data
    /// files are replaced, and why: `changed` names what differs from the other job, and the keys of settings that
    /// differ are added. It removes nothing itself.
    ///
    /// # Errors
    /// - `force` is not set ([`ErrorKind::Usage`]). `held` names what the folder holds of the other job.
    /// - The folder cannot be read.
    fn replace(&self, changed: &str, held: &str) -> Result<()> {
        if self.options.force {
            let what = replaced(self.folder.path(), self.plan.split_name())?;
            let keys = changed_keys(self.plan);
            let what = what.map_or_else(String::new, |what| format!(", replacing {what}"));
            self.observer.noted(&format!("{changed} changed since the last run{keys}; doing it again{what}"));
            return Ok(());
        }
        Err(of_another_run(self.plan, changed, held))
    }

    /// Checks that the job can write its split beside the other splits of the output, before anything is changed.
    ///
    /// A job with a given tokenizer must encode as the others did: see [`encoding::check_dataset_splits`]. A job that
    /// trains would replace the tokenizer with which the others were encoded, so there must be none. The check of a job
    /// that trains is left out if the folder stores the state of this job, which was then checked before.
    ///
    /// # Errors
    /// - The job trains, and there are other splits ([`ErrorKind::Usage`]).
    /// - The tokenizer is given, and the split does not fit the others, or the tokenizer lacks a token that the plan
    ///   names.
    /// - The manifest or a file of another split cannot be read, or is damaged.
    fn check_splits(&self) -> Result<()> {
        if let (Some(settings), Some(given)) = (&self.plan.encode, &self.given) {
            encoding::check_dataset_splits(
                self.plan,
                settings,
                given,
                &self.inputs,
                &self.folder,
                &self.state,
            )?;
        }
        let same = JobState::read(self.folder.path(), self.plan.split_name()).as_ref() == Some(&self.state);
        let Some(others) = self.folder.other_splits()?.filter(|_| self.plan.train.is_some() && !same) else {
            return Ok(());
        };
        let names = others.split_names().join(", ");
        let folder = self.folder.path().display();
        let problem = format!("{folder} holds other splits ({names}), which were encoded with its tokenizer");
        Err(Error::usage(problem).with_help(
            "choose another folder, or encode with the tokenizer that the splits have (`tokenizer` in [encode])",
        ))
    }

    /// Tells the observer about other splits that may have documents in common with this one. Validation data that
    /// was trained on shows nothing. Of standard input it is not known whether it is the same.
    ///
    /// # Errors
    /// The manifest cannot be read or is damaged.
    fn note_common_documents(&self) -> Result<()> {
        let Some(own) = self.plan.split_name().filter(|_| !self.inputs.read_once()) else { return Ok(()) };
        let settings = StoredSettings::of(self.plan);
        let others = self.folder.other_splits()?;
        for other in others.iter().flat_map(Manifest::split_names) {
            let state = JobState::read(self.folder.path(), Some(other));
            let of_other = StoredSettings::read(self.folder.path(), Some(other));
            if state.is_some_and(|state| state.inputs == self.state.inputs)
                && let Some(note) = settings.common_documents(own, other, &of_other)
            {
                self.observer.noted(&note);
            }
        }
        Ok(())
    }

    /// Checks what [`Manifest::verify`] leaves out, and returns the report:
    ///
    /// - The reports exist, and, if the job encodes, the dataset card, which may be edited.
    /// - Each report that the manifest lists has the checksum at its end.
    /// - If the job trains, the training record names the tokenizer of the manifest. Each folder of a tokenizer, also
    ///   of a smaller one, has a training record and all files of each format, and they hold the recorded tokenizer.
    ///
    /// # Errors
    /// A file is missing, damaged or cannot be read, or a tokenizer is another one.
    fn check_other_files(&self, manifest: &Manifest) -> Result<RunReport> {
        let card = self.plan.encode.as_ref().map(|_| CARD_FILE);
        let names = report::names(self.folder.additional_split()).into_iter().chain(card.map(str::to_owned));
        names.map(|name| self.folder.path().join(name)).try_for_each(check_exists)?;
        let own = report::names(self.folder.additional_split());
        own.iter()
            .filter(|name| manifest.reports.contains(name))
            .try_for_each(|name| report::check(&self.folder.path().join(name)))?;
        if let Some(train) = &self.plan.train {
            check_exists(TrainingRecord::path(&train.output))?;
            let record = TrainingRecord::read(&train.output)?;
            if record.is_none_or(|record| record.vocabulary != manifest.tokenizer) {
                return Err(Error::failed(format!("{} holds another tokenizer", train.output.display())));
            }
            let mut folders = train.smaller.iter().map(|smaller| &smaller.output).chain([&train.output]);
            folders.try_for_each(|folder| {
                check_tokenizer_folder(folder, &train.formats, &write_options(self.plan))
            })?;
        }
        report::read_of(self.folder.path(), self.folder.additional_split())
    }

    /// Does the job: trains, encodes, and writes the report and last the manifest.
    ///
    /// The order makes each step safe to repeat. The state is stored before any result, the report is written before
    /// the manifest, and only the manifest makes the output complete.
    ///
    /// # Errors
    /// Those of the stages. The finished parts stay in the folder for the next run, unless the input changed.
    fn run(&self) -> Result<Outcome> {
        self.check_splits()?;
        self.note_common_documents()?;
        self.check_free()?;
        self.destination.as_ref().map_or(Ok(()), Destination::begin)?;
        // Data files of another job are removed: beside the tokenizer of this job, they would seem to be encoded with
        // it. Data files of the same job are kept, and encoding continues them. Whether an input that can be read
        // only once is the same as before is not known, so data files are then removed as well.
        if self.inputs.read_once()
            || JobState::read(self.folder.path(), self.plan.split_name()).as_ref() != Some(&self.state)
        {
            self.clear_data()?;
            if let Some(given) = &self.given
                && self.folder.additional_split().is_none()
                && has_learned(&self.folder.state())
            {
                let folder = self.folder.path().join(TOKENIZER_FOLDER);
                remove_others(&folder, given, &write_options(self.plan), self.observer)?;
            }
            forget_learned(&self.folder)?;
        }
        self.state.write(&self.folder, self.plan, &self.options.recipe)?;
        if let Some(part) = self.inputs.part() {
            write_listing(&self.folder.state(), &part.listing)?;
        }
        let mut costs = Costs::default();
        let trained = self.learn(&mut costs)?;
        let learned = trained.as_ref().map(|trained| &trained.vocabulary);
        let vocabulary = self.given.as_ref().or(learned).expect("a plan trains or names a tokenizer");
        let encoded = self.encode(vocabulary, &mut costs)?;
        if encoded.is_none()
            && let Err(error) = self.inputs.check_unchanged()
        {
            self.forget_changed(&error)?;
            return Err(error);
        }
        let report = ReportParts {
            plan: self.plan,
            recipe: &self.options.recipe,
            inputs: &self.inputs,
            vocabulary,
            trained: trained.as_ref(),
            encoded: encoded.as_ref(),
            costs,
        }
        .report()?;
        report::write_of(self.folder.path(), self.folder.additional_split(), &report)?;
        let mut manifest = encoded.map_or_else(
            || Manifest {
                skipped_inputs: self.inputs.skipped_rows().count(),
                ..Manifest::new(self.state.fingerprint(), vocabulary.fingerprint())
            },
            |encoded| encoded.manifest,
        );
        manifest.shard = self.state.manifest_shard();
        manifest.inputs = self.inputs.listed()?;
        if let Some(train) = &self.plan.train {
            manifest.tokenizer_files = tokenizer_files(train, self.folder.path(), &write_options(self.plan));
            let hashed = |name: &String| HashedFile::of_file(self.folder.path(), name);
            let hashed = manifest.tokenizer_files.iter().map(hashed).collect::<Result<Vec<_>>>()?;
            manifest.other_files.extend(hashed);
        }
        manifest.reports = report::names(self.folder.additional_split()).into();
        self.folder.check_held()?;
        manifest.clone().joined(self.folder.other_splits()?).write(self.folder.path())?;
        self.finish_destination()?;
        let skipped = self.inputs.skipped(self.observer);
        Ok(Outcome { skipped, report: Some(report), before: None, manifest: Some(manifest) })
    }

    /// Trains a tokenizer, if the plan says so, and writes it. A tokenizer that an earlier run of the job learned is
    /// used again.
    ///
    /// # Errors
    /// Training fails, the stored merges cannot be read or written, or a format cannot hold the tokenizer.
    fn learn(&self, costs: &mut Costs) -> Result<Option<Trained>> {
        let Some(settings) = &self.plan.train else { return Ok(None) };
        let key = self.state.fingerprint();
        let trained = match restore_learned(&self.folder, &key, settings, self.inputs.skipped_rows())? {
            Some((trained, stages)) => {
                self.observer.noted("using the tokenizer of an earlier run");
                costs.stages.extend(stages);
                trained
            }
            None => {
                let kept = self.folder.state().join("counts");
                let trained = train(self.plan, settings, &self.inputs, Some(&kept), costs, self.observer)?;
                store_learned(&self.folder, &key, &trained, &costs.stages, self.inputs.skipped_rows())?;
                trained
            }
        };
        write_tokenizer(&trained, self.plan, settings, &write_options(self.plan), self.observer)?;
        Ok(Some(trained))
    }

    /// Encodes, if the plan says so.
    ///
    /// The cost of the stage counts only the text that this run encoded.
    ///
    /// # Errors
    /// Encoding fails. If the input changed meanwhile, the data files and the stored merges are removed.
    fn encode(&self, vocabulary: &Arc<Vocabulary>, costs: &mut Costs) -> Result<Option<Encoded>> {
        let Some(settings) = &self.plan.encode else { return Ok(None) };
        let encoded = costs.stage("encode", || {
            let encoded = encode(
                self.plan,
                settings,
                vocabulary,
                &self.inputs,
                OutputPlace { folder: &self.folder, store: self.store() },
                &self.state,
                self.observer,
            )
            .map_err(|error| self.with_need(error, vocabulary));
            let encoded = match encoded {
                Ok(encoded) => encoded,
                Err(error) => {
                    self.forget_changed(&error)?;
                    return Err(error);
                }
            };
            let text_bytes = encoded.contents.text_bytes.saturating_sub(encoded.reused_bytes);
            Ok((encoded, text_bytes))
        })?;
        Ok(Some(encoded))
    }

    /// Removes the output and the stored merges if the input changed during the run. Otherwise, once the input is back
    /// in its former state, another run would resume from there and keep data of the changed input. If the input stays
    /// as it is, the same command would find the beginning of another job.
    ///
    /// # Errors
    /// A file cannot be removed.
    fn forget_changed(&self, error: &Error) -> Result<()> {
        if error.kind() != ErrorKind::InputChanged && self.inputs.check_stamps().is_ok() {
            return Ok(());
        }
        self.clear_data()?;
        forget_learned(&self.folder)
    }

    /// Compares the disk space for the data files with the free space. Existing data files are kept or replaced, so
    /// their space counts as free.
    ///
    /// # Errors
    /// The space is too small by far ([`ErrorKind::DiskFull`]), or the folder cannot be read.
    fn check_free(&self) -> Result<()> {
        if let Some(train) = &self.plan.train {
            note_free_space(train, self.observer);
        }
        let Some(settings) = &self.plan.encode else { return Ok(()) };
        let occupied = self.data_bytes()?;
        check_free(self.plan, settings, &self.inputs, self.given.as_ref(), occupied, self.observer)
    }

    /// Bytes of the data files, with the one that is being written.
    ///
    /// # Errors
    /// The folder cannot be read.
    fn data_bytes(&self) -> Result<u64> {
        let names = split_files(self.folder.path(), self.plan.split_name())?;
        let existing =
            names.iter().map(|name| self.folder.path().join(name)).chain([self.folder.incomplete_file()]);
        Ok(existing.filter_map(|path| Some(path.metadata().ok()?.len())).fold(0, u64::saturating_add))
    }

    /// Adds to an error about a full disk the estimated size of the output, and how much of it is missing, if that can
    /// be estimated.
    fn with_need(&self, error: Error, vocabulary: &Arc<Vocabulary>) -> Error {
        // Files that move elsewhere never need their space all at once.
        let stays = self.plan.destination.is_none() && error.kind() == ErrorKind::DiskFull;
        let Some(settings) = self.plan.encode.as_ref().filter(|_| stays) else { return error };
        let (text_bytes, given) = (self.inputs.text_bytes(), Some(vocabulary));
        let need = disk_need(self.plan, settings, &self.inputs, given, text_bytes, self.observer);
        match (need, error.help()) {
            (Ok(Some(need)), Some(help)) => {
                let missing = need.bytes.0.saturating_sub(self.data_bytes().unwrap_or(0));
                let missing = ByteCount(missing);
                let help = format!(
                    "the token ids need about {}, {missing} more than is written: {help}",
                    need.bytes
                );
                error.with_help(help)
            }
            _ => error,
        }
    }
}

/// Turns any error of checking the report, the card or the tokenizer into damage ([`ErrorKind::Mismatch`]), so that
/// the job runs again instead of failing.
///
/// That is quick if the state folder is undamaged: it has the learned merges and the records of the data files, so
/// nothing is learned or encoded again. Without a usable record of the merges, the job trains once more.
fn as_damage(error: Error) -> Error {
    Error::new(ErrorKind::Mismatch, error)
}

/// How a tokenizer is written: its BOS and EOS tokens for `transformers` are those of the training, or else those of
/// the encoding.
pub(super) fn write_options(plan: &Plan) -> WriteOptions {
    let (train, encode) = (plan.train.as_ref(), plan.encode.as_ref());
    let bos = train.and_then(|train| train.bos.clone()).or_else(|| encode?.bos.clone());
    let eos = train.and_then(|train| train.eos.clone()).or_else(|| encode?.eos.clone());
    let transformers = train.map(|train| train.transformers.clone()).unwrap_or_default();
    WriteOptions { bos, eos, transformers, ..WriteOptions::default() }
}

/// Checks the files of a tokenizer in each of its formats, and its training record. They must hold the tokenizer that
/// the record describes.
///
/// # Errors
/// A file is missing, cannot be read, or holds another tokenizer.
fn check_tokenizer_folder(folder: &Path, formats: &[Format], options: &WriteOptions) -> Result<()> {
    let learned = TrainingRecord::read(folder)?;
    let learned = learned.ok_or_else(|| missing(&TrainingRecord::path(folder)))?.vocabulary;
    for &format in formats {
        let load = LoadOptions { format: Some(format), ..LoadOptions::default() };
        let vocabulary = vocab::load(folder, &load, &Silent)?;
        let files = vocab::render(&vocabulary, format, options)?;
        files.iter().map(|(name, _)| folder.join(name)).try_for_each(check_exists)?;
        // A format can have several files. Loading reads the first one, and succeeds without some of the others. So
        // these are compared with what would be written for the loaded tokenizer.
        let mut others = files.iter().skip(1);
        let same = others.all(|(name, bytes)| fs::read(folder.join(name)).is_ok_and(|found| found == *bytes));
        if vocabulary.fingerprint() != learned || !same {
            let folder = folder.display();
            return Err(Error::failed(format!(
                "the {format} files in {folder} are of another tokenizer than training.json"
            )));
        }
    }
    Ok(())
}

/// Checks that a file exists.
///
/// # Errors
/// The path is missing, or is a folder.
fn check_exists(path: PathBuf) -> Result<()> {
    if path.is_file() { Ok(()) } else { Err(missing(&path)) }
}

/// The error for a file of the result that does not exist, at this path. Callers turn it into damage
/// ([`as_damage`]).
fn missing(path: &Path) -> Error {
    Error::failed(format!("{} is missing", path.display()))
}
