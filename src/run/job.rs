use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::check::{check, check_folder, check_outside, check_place, check_replaced, result_of};
use super::costs::Costs;
use super::disk::{check_free, disk_need, tell_free};
use super::encode::{self, Encoded, encode};
use super::facts::Deeds;
use super::fault::Fault;
use super::inputs::Inputs;
use super::learned;
use super::lists::load_named;
use super::plan::Plan;
use super::state::State;
use super::train::{Trained, remove_others, tokenizer_files, train, write_tokenizer};
use crate::error::{Error, ErrorKind, Result};
use crate::files;
use crate::observer::{Observer, Silent};
use crate::report::{self, RecipeFacts, RunReport};
use crate::sink::{CARD, HashedFile, Manifest, OutputFolder, STATE_FOLDER, TOKENIZER_FOLDER, split_files};
use crate::source::OpenContext;
use crate::units::{amount, counted};
use crate::vocab::{self, Format, LoadOptions, TrainingRecord, Vocabulary, WriteOptions};
use crate::{FORMAT_VERSION, VERSION};

/// How a job is to be done, beside its plan.
#[derive(Clone, Debug, Default)]
pub struct JobOptions {
    /// The recipe as the report shows it.
    pub recipe: RecipeFacts,
    /// Replace the result of another job.
    pub force: bool,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The report that was written; `None` if all was done already.
    pub report: Option<RunReport>,
    /// The report of the run that did it, if all was done already.
    pub before: Option<RunReport>,
    /// What the output folder holds; `None` for a run that writes a tokenizer alone.
    pub manifest: Option<Manifest>,
    /// How many rows or files were left out.
    pub skipped: u64,
}

/// Does all that a plan says: learns a tokenizer, encodes, reports; or finds that it is done already.
///
/// The manifest is written last: while it is not there, the output is not complete. Running again does
/// nothing if the folder holds the result of the same job and every file is as the manifest says.
///
/// # Errors
/// What the stages give. The folder holds the result of another job and `force` is not set.
pub fn job(plan: &Plan, options: &JobOptions, context: &OpenContext<'_>) -> Result<Outcome> {
    super::with_threads(plan.threads, || {
        let job = Job::open(plan, options, context)?;
        match job.already_done()? {
            Some((manifest, before)) => {
                let skipped = before.skipped_inputs;
                Ok(Outcome { report: None, before: Some(before), manifest: Some(manifest), skipped })
            }
            None => job.run(),
        }
    })
}

/// Learns a tokenizer and writes it into the plan's folder for it, with a report.
///
/// # Errors
/// What the stages give.
///
/// # Panics
/// On a plan that trains nothing.
pub fn train_only(plan: &Plan, options: &JobOptions, context: &OpenContext<'_>) -> Result<Outcome> {
    let settings = plan.train.as_ref().expect("a plan that trains");
    super::with_threads(plan.threads, || {
        if let Some(folder) = result_of(&settings.output) {
            let fault = Fault::HoldsResult { folder };
            return Err(
                Error::new(ErrorKind::Usage, fault).with_help("choose another folder for the tokenizer")
            );
        }
        check_folder(&settings.output)?;
        check_outside(plan, &settings.output)?;
        check_replaced(settings, false, Some(&settings.output))?;
        let mut folders = settings.smaller.iter().map(|smaller| &smaller.output).chain([&settings.output]);
        folders.try_for_each(|folder| files::check_writable(folder))?;
        tell_free(settings, context.observer);
        let inputs = Inputs::open(plan, context)?;
        let mut costs = Costs::default();
        let is_new = !settings.output.exists();
        let trained = train(plan, settings, &inputs, None, &mut costs, context.observer);
        if trained.is_err() && is_new {
            // Made for what did not fit the memory. If it is not empty, others have written there.
            let _ = fs::remove_dir(&settings.output);
        }
        let trained = trained?;
        let _lock = files::lock_folder(&settings.output, STATE_FOLDER, context.observer)?;
        write_tokenizer(&trained, plan, settings, &write_options(plan), context.observer)?;
        let report = Deeds {
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

/// A job whose inputs and output folder are open.
struct Job<'a> {
    plan: &'a Plan,
    options: &'a JobOptions,
    observer: &'a dyn Observer,
    inputs: Inputs<'a>,
    /// The tokenizer that the plan names, if it does.
    given: Option<Arc<Vocabulary>>,
    folder: OutputFolder,
    state: State,
}

impl<'a> Job<'a> {
    fn open(plan: &'a Plan, options: &'a JobOptions, context: &OpenContext<'a>) -> Result<Job<'a>> {
        let observer = context.observer;
        check_place(plan)?;
        OutputFolder::check(&plan.output)?;
        let inputs = Inputs::open(plan, context)?;
        let named = plan
            .encode
            .as_ref()
            .and_then(|encode| Some((encode.tokenizer.as_ref()?, &encode.tokenizer_options)));
        let given =
            named.map(|(name, options)| load_named(name, options, context)).transpose()?.map(Arc::new);
        check(plan, &inputs, given.as_deref())?;
        let folder = OutputFolder::take(&plan.output, plan.split_name(), observer)?;
        let state = State::of(plan, &inputs, given.as_deref())?;
        Ok(Job { plan, options, observer, inputs, given, folder, state })
    }

    /// The manifest and the report of the run that wrote it, if the folder holds this job's result, whole and undamaged.
    ///
    /// # Errors
    /// It holds the result of another job, or what one has begun, and that is not to be replaced.
    fn already_done(&self) -> Result<Option<(Manifest, RunReport)>> {
        let split = self.plan.split_name();
        let held = State::read(self.folder.path(), split);
        let changed = held.as_ref().and_then(|held| self.state.difference(held));
        let folder = self.folder.path().to_owned();
        let all = Manifest::read(self.folder.path())?;
        let Some(manifest) = all.as_ref().and_then(|all| all.of_split(split)) else {
            if let Some(changed) = changed
                && learned::has_begun(&folder, split)?
            {
                self.replace(changed, Fault::OtherBegun { folder, changed })?;
            }
            return Ok(None);
        };
        let is_done = manifest.job == self.state.fingerprint() && !self.inputs.read_once();
        if (is_done || held.as_ref() == Some(&self.state))
            && let Err(damage) = Manifest::read_checked(&folder)
        {
            return self.again(damage);
        }
        if is_done {
            let whole = all.map_or(Ok(()), |all| all.verify(self.folder.path(), self.observer));
            return match whole.and_then(|()| self.the_rest_is_there(&manifest).map_err(as_damage)) {
                Ok(report) => Ok(Some((manifest, report))),
                Err(damage) => self.again(damage),
            };
        }
        let unknown = if self.inputs.read_once() { "standard input or a pipe may have" } else { "something" };
        let changed = changed.unwrap_or(unknown);
        self.replace(changed, Fault::OtherJob { folder, changed })?;
        Ok(None)
    }

    /// Says that the job is done again, for what is not as it was written.
    ///
    /// # Errors
    /// It is another error.
    fn again<T>(&self, damage: Error) -> Result<Option<T>> {
        if damage.kind() != ErrorKind::Mismatch {
            return Err(damage);
        }
        self.observer.noted(&format!("{damage}; doing it again"));
        Ok(None)
    }

    /// Says that what another job left will be replaced, if that is wanted.
    ///
    /// # Errors
    /// It is not: the fault.
    fn replace(&self, changed: &str, fault: Fault) -> Result<()> {
        let what = self.replaced()?;
        if self.options.force {
            let what = what.map_or_else(String::new, |what| format!(", in the place of {what}"));
            self.observer.noted(&format!("{changed} changed since the last run; doing it again{what}"));
            return Ok(());
        }
        let help = match what {
            Some(what) => {
                format!("choose another output folder or --split-name, or replace {what} with --force")
            }
            None => "choose another output folder, or replace what is there with --force".to_owned(),
        };
        Err(Error::new(ErrorKind::Usage, fault).with_help(help))
    }

    /// The data files that this job would replace, in words; `None` if there are none.
    fn replaced(&self) -> Result<Option<String>> {
        let names = split_files(self.folder.path(), self.plan.split_name())?;
        let (Some(first), Some(last)) = (names.first(), names.last()) else { return Ok(None) };
        Ok(Some(match names.len() {
            1 => format!("the data file {first}"),
            many => format!("{}, {first} to {last},", counted(amount(many), "data file")),
        }))
    }

    /// Finds other splits of the output, which a tokenizer that is learned anew would leave without theirs.
    fn check_splits(&self) -> Result<()> {
        if let (Some(settings), Some(given)) = (&self.plan.encode, &self.given) {
            encode::check_splits(self.plan, settings, given, &self.inputs, &self.folder, &self.state)?;
        }
        let same = State::read(self.folder.path(), self.plan.split_name()).as_ref() == Some(&self.state);
        let Some(others) = self.folder.others()?.filter(|_| self.plan.train.is_some() && !same) else {
            return Ok(());
        };
        let names = others.split_names().join(", ");
        let folder = self.folder.path().to_owned();
        Err(Error::new(ErrorKind::Usage, Fault::HoldsSplits { folder, names }).with_help(
            "choose another folder, or encode with the tokenizer that the splits have (`tokenizer` in [encode])",
        ))
    }

    /// Looks for what the manifest does not list. Gives the report.
    fn the_rest_is_there(&self, manifest: &Manifest) -> Result<RunReport> {
        let card = self.plan.encode.as_ref().map(|_| CARD);
        let names = report::names(self.folder.later_split()).into_iter().chain(card.map(str::to_owned));
        names.map(|name| self.folder.path().join(name)).try_for_each(is_there)?;
        let own = report::names(self.folder.later_split());
        own.iter()
            .filter(|name| manifest.reports.contains(name))
            .try_for_each(|name| report::check(&self.folder.path().join(name)))?;
        if let Some(train) = &self.plan.train {
            is_there(TrainingRecord::path(&train.output))?;
            let record = TrainingRecord::read(&train.output)?;
            if record.is_none_or(|record| record.vocabulary != manifest.tokenizer) {
                let folder = train.output.clone();
                return Err(Error::new(ErrorKind::Failed, Fault::OtherTokenizer { folder }));
            }
            let mut folders = train.smaller.iter().map(|smaller| &smaller.output).chain([&train.output]);
            folders.try_for_each(|folder| {
                tokenizer_is_there(folder, &train.formats, &write_options(self.plan))
            })?;
        }
        report::read_of(self.folder.path(), self.folder.later_split())
    }

    fn run(&self) -> Result<Outcome> {
        self.check_splits()?;
        self.check_free()?;
        // What another job wrote must not stand beside a tokenizer that it was not encoded with. Of the
        // same job that cannot be, unless its input was a stream, which nothing identifies.
        if self.inputs.read_once()
            || State::read(self.folder.path(), self.plan.split_name()).as_ref() != Some(&self.state)
        {
            self.folder.clear_data()?;
            if let Some(given) = &self.given
                && self.folder.later_split().is_none()
                && learned::is_noted(&self.folder.state())
            {
                let folder = self.folder.path().join(TOKENIZER_FOLDER);
                remove_others(&folder, given, &write_options(self.plan), self.observer)?;
            }
            learned::forget(&self.folder)?;
        }
        self.state.write(&self.folder)?;
        let mut costs = Costs::default();
        let trained = self.learn(&mut costs)?;
        let learned = trained.as_ref().map(|trained| &trained.vocabulary);
        let vocabulary = self.given.as_ref().or(learned).expect("a plan trains or names a tokenizer");
        let encoded = self.encode(vocabulary, &mut costs)?;
        if encoded.is_none() {
            self.inputs.check_unchanged()?;
        }
        let report = Deeds {
            plan: self.plan,
            recipe: &self.options.recipe,
            inputs: &self.inputs,
            vocabulary,
            trained: trained.as_ref(),
            encoded: encoded.as_ref(),
            costs,
        }
        .report()?;
        report::write_of(self.folder.path(), self.folder.later_split(), &report)?;
        let mut manifest =
            encoded.map_or_else(|| self.manifest_of_tokenizer(vocabulary), |encoded| encoded.manifest);
        manifest.inputs = self.inputs.listed()?;
        if let Some(train) = &self.plan.train {
            manifest.tokenizer_files = tokenizer_files(train, self.folder.path(), &write_options(self.plan));
            let hashed = |name: &String| HashedFile::of_file(self.folder.path(), name);
            let hashed = manifest.tokenizer_files.iter().map(hashed).collect::<Result<Vec<_>>>()?;
            manifest.other_files.extend(hashed);
        }
        manifest.reports = report::names(self.folder.later_split()).into();
        self.folder.check_held()?;
        manifest.clone().joined(self.folder.others()?).write(self.folder.path())?;
        let skipped = self.inputs.skipped(self.observer);
        Ok(Outcome { skipped, report: Some(report), before: None, manifest: Some(manifest) })
    }

    /// Learns a tokenizer, if the plan says so, and writes it.
    fn learn(&self, costs: &mut Costs) -> Result<Option<Trained>> {
        let Some(settings) = &self.plan.train else { return Ok(None) };
        let key = self.state.fingerprint();
        let trained = match learned::recall(&self.folder, &key, settings, self.inputs.incidents())? {
            Some((trained, stages)) => {
                self.observer.noted("the tokenizer of an earlier run is there");
                costs.stages.extend(stages);
                trained
            }
            None => {
                let kept = self.folder.state().join("counts");
                let trained = train(self.plan, settings, &self.inputs, Some(&kept), costs, self.observer)?;
                learned::note(&self.folder, &key, &trained, &costs.stages, self.inputs.incidents())?;
                trained
            }
        };
        write_tokenizer(&trained, self.plan, settings, &write_options(self.plan), self.observer)?;
        Ok(Some(trained))
    }

    /// Encodes, if the plan says so.
    fn encode(&self, vocabulary: &Arc<Vocabulary>, costs: &mut Costs) -> Result<Option<Encoded>> {
        let Some(settings) = &self.plan.encode else { return Ok(None) };
        let encoded = costs.stage("encode", || {
            let encoded = encode(
                self.plan,
                settings,
                vocabulary,
                &self.inputs,
                &self.folder,
                &self.state,
                self.observer,
            )
            .map_err(|error| self.with_need(error, vocabulary));
            let encoded = match encoded {
                Ok(encoded) => encoded,
                Err(error) => {
                    self.forget_what_changed(&error)?;
                    return Err(error);
                }
            };
            let text_bytes = encoded.contents.text_bytes.saturating_sub(encoded.reused);
            Ok((encoded, text_bytes))
        })?;
        Ok(Some(encoded))
    }

    /// Removes what was written of input that changed meanwhile: once the input is again what it was, a run that goes on
    /// from there would take it for that of the whole input.
    fn forget_what_changed(&self, error: &Error) -> Result<()> {
        let changed = error.kind() == ErrorKind::InputChanged || self.inputs.check_stamps().is_err();
        if changed { self.folder.clear_data() } else { Ok(()) }
    }

    /// Compares the room that the data files take with what is free. Those that are there take no more of it, or go.
    fn check_free(&self) -> Result<()> {
        if let Some(train) = &self.plan.train {
            tell_free(train, self.observer);
        }
        let Some(settings) = &self.plan.encode else { return Ok(()) };
        let names = split_files(self.folder.path(), self.plan.split_name())?;
        let there = names.iter().map(|name| self.folder.path().join(name)).chain([self.folder.unfinished()]);
        let held = there.filter_map(|path| Some(path.metadata().ok()?.len())).fold(0, u64::saturating_add);
        check_free(self.plan, settings, &self.inputs, self.given.as_ref(), held, self.observer)
    }

    /// Tells with a full disk how much room the output wants, where that is known.
    fn with_need(&self, error: Error, vocabulary: &Arc<Vocabulary>) -> Error {
        let Some(settings) = self.plan.encode.as_ref().filter(|_| error.kind() == ErrorKind::DiskFull) else {
            return error;
        };
        let (text_bytes, given) = (self.inputs.text_bytes(), Some(vocabulary));
        let need = disk_need(self.plan, settings, &self.inputs, given, text_bytes, self.observer);
        match (need, error.help()) {
            (Ok(Some(need)), Some(help)) => {
                let help = format!("the token ids take about {}: {help}", need.bytes);
                error.with_help(help)
            }
            _ => error,
        }
    }

    fn manifest_of_tokenizer(&self, vocabulary: &Vocabulary) -> Manifest {
        Manifest {
            format_version: FORMAT_VERSION,
            tool_version: VERSION.to_owned(),
            job: self.state.fingerprint(),
            tokenizer: vocabulary.fingerprint(),
            declaration: None,
            inputs: Vec::new(),
            files: Vec::new(),
            tokenizer_files: Vec::new(),
            other_files: Vec::new(),
            reports: Vec::new(),
            splits: Vec::new(),
        }
    }
}

/// Of a report, card or tokenizer that cannot be read nothing is lost: it is written again in a moment.
fn as_damage(error: Error) -> Error {
    Error::new(ErrorKind::Mismatch, error)
}

/// What a tokenizer's files tell `transformers`. The tokens before and after documents are what the training says, or else
/// those that they are encoded with.
fn write_options(plan: &Plan) -> WriteOptions {
    let (train, encode) = (plan.train.as_ref(), plan.encode.as_ref());
    let bos = train.and_then(|train| train.bos.clone()).or_else(|| encode?.bos.clone());
    let eos = train.and_then(|train| train.eos.clone()).or_else(|| encode?.eos.clone());
    let transformers = train.map(|train| train.transformers.clone()).unwrap_or_default();
    WriteOptions { bos, eos, transformers, ..WriteOptions::default() }
}

/// Looks for the files of a tokenizer in each of its formats, and for how it was learned. They must hold the tokenizer
/// that the record is of.
fn tokenizer_is_there(folder: &Path, formats: &[Format], options: &WriteOptions) -> Result<()> {
    let learned = TrainingRecord::read(folder)?;
    let learned = learned.ok_or_else(|| missing(TrainingRecord::path(folder)))?.vocabulary;
    for &format in formats {
        let load = LoadOptions { format: Some(format), ..LoadOptions::default() };
        let vocabulary = vocab::load(folder, &load, &Silent)?;
        let files = vocab::render(&vocabulary, format, options)?;
        files.iter().map(|(name, _)| folder.join(name)).try_for_each(is_there)?;
        // Loading takes from these what the first lacks, which may be nothing.
        let mut others = files.iter().skip(1);
        let same = others.all(|(name, bytes)| fs::read(folder.join(name)).is_ok_and(|found| found == *bytes));
        if vocabulary.fingerprint() != learned || !same {
            let fault = Fault::OtherFile { folder: folder.to_owned(), format };
            return Err(Error::new(ErrorKind::Failed, fault));
        }
    }
    Ok(())
}

fn is_there(path: PathBuf) -> Result<()> {
    if path.is_file() { Ok(()) } else { Err(missing(path)) }
}

fn missing(path: PathBuf) -> Error {
    Error::new(ErrorKind::Failed, Fault::Missing { path })
}
