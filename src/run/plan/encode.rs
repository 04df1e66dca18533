//! Checks the settings of encoding and of the data files.

use std::collections::HashSet;
use std::path::PathBuf;

use super::check::{Check, value_of};
use super::{EncodePlan, TrainPlan};
use crate::base::int::{ByteCount, u64_to_usize};
use crate::encode::Dropout;
use crate::run::recipe::{EncodeKeys, Field, Given, Origin, OutputKeys, Recipe};
use crate::sink::{
    INPUT_IDS, LENGTH, MAX_PACKED_LENGTH, OutputFormat, PackRule, Packing, is_split_name, split_name_help,
};
use crate::source::tokenizer_address;
use crate::vocab::LoadOptions;

/// Default of `split_name`.
pub const DEFAULT_SPLIT_NAME: &str = "train";

/// Default of `file_text_bytes` (1 GB): few files for a large corpus, each still easy to move.
pub const DEFAULT_FILE_TEXT_BYTES: ByteCount = ByteCount(1_000_000_000);

impl Check<'_> {
    /// Checks the settings of encoding. `trained` is the plan of the training in the same recipe, if there is one.
    ///
    /// Mistakes are recorded and do not end the check. The result is only of use without mistakes.
    pub(super) fn encode(
        &mut self,
        keys: &EncodeKeys,
        recipe: &Recipe,
        trained: Option<&TrainPlan>,
    ) -> EncodePlan {
        self.format_holds(keys, &recipe.output);
        let specials = trained.map(|train| &train.specials[..]);
        EncodePlan {
            tokenizer: self.tokenizer(keys, trained.is_some()),
            tokenizer_options: self.tokenizer_options(keys, trained.is_some()),
            documents: value_of(&keys.documents).unwrap_or_default(),
            columns: self.columns(&keys.columns),
            special: value_of(&keys.special).unwrap_or_default(),
            missing_bytes: value_of(&keys.missing_bytes).unwrap_or_default(),
            dropout: self.dropout(keys),
            bos: self.end_token("bos", &keys.bos, specials),
            eos: self.end_token("eos", &keys.eos, specials),
            pack: self.packing(keys, &recipe.output),
            compression: value_of(&keys.compression).unwrap_or_default(),
            format: value_of(&recipe.output.format).unwrap_or_default(),
            split_name: self.split_name(&recipe.output),
            file_text_bytes: self.file_text_bytes(&recipe.output),
            one_file: self.one_file(&recipe.output),
        }
    }

    /// The file, folder or address of the tokenizer; `None` if one is trained. Reports a recipe with both or neither.
    ///
    /// An address on the hub or a known name is kept as it is; the job resolves it.
    fn tokenizer(&mut self, keys: &EncodeKeys, trained: bool) -> Option<PathBuf> {
        match (&keys.tokenizer, trained) {
            (Some(given), true) => {
                self.wrong(
                    "tokenizer",
                    given,
                    "cannot be combined with [train], which makes a tokenizer",
                    "keep one of the two",
                );
                None
            }
            (Some(given), false) => {
                let path = PathBuf::from(self.path("tokenizer", given));
                let address = tokenizer_address(&given.value).map(PathBuf::from);
                // A local file or folder of that name takes precedence.
                Some(address.filter(|_| !path.exists()).unwrap_or(path))
            }
            (None, true) => None,
            (None, false) => {
                if !self.is_wrong("train") {
                    let problem = "no tokenizer to encode with is given";
                    self.missing(
                        "tokenizer",
                        keys.span.clone(),
                        problem,
                        "add `tokenizer`, or [train] to make one",
                    );
                }
                None
            }
        }
    }

    /// The settings to use where the files of a tokenizer lack them. Reports such settings if the tokenizer is
    /// trained, since it has settings of its own.
    fn tokenizer_options(&mut self, keys: &EncodeKeys, trained: bool) -> LoadOptions {
        if trained {
            let (problem, help) =
                ("applies to a tokenizer from a file, but [train] makes one", "leave it out");
            if let Some(given) = &keys.split {
                self.wrong("split", given, problem, help);
            }
            if let Some(given) = keys.special_tokens.first() {
                self.wrong("special_tokens", given, problem, help);
            }
        }
        let special_tokens = keys.special_tokens.iter().map(|given| given.value.clone()).collect();
        LoadOptions { format: None, split: value_of(&keys.split), special_tokens }
    }

    /// The names of pass-through columns. Reports repeated ones, and the names of the output's own columns. The order
    /// is kept.
    fn columns(&mut self, given: &[Given<String>]) -> Vec<String> {
        let mut seen = HashSet::new();
        for column in given {
            let name = &column.value;
            if [INPUT_IDS, LENGTH].contains(&name.as_str()) {
                let problem = format!("has {name:?}, which the output always has");
                self.wrong("columns", column, &problem, "leave it out");
            } else if !seen.insert(name) {
                self.wrong("columns", column, &format!("has {name:?} twice"), "name it once");
            }
        }
        given.iter().map(|column| column.value.clone()).collect()
    }

    /// The BOS or EOS token. It is checked against `specials`, the special tokens of a training. Those of a tokenizer
    /// from a file are checked later, when the job reads it. `None` means that the encoding adds no such token.
    fn end_token(
        &mut self,
        key: &'static str,
        field: &Field<Option<String>>,
        specials: Option<&[String]>,
    ) -> Option<String> {
        let given = field.as_ref()?;
        let token = given.value.as_ref()?;
        if let Some(specials) = specials
            && !specials.contains(token)
        {
            let problem = format!("is {token:?}, which is not a special token of the tokenizer");
            let known = specials.iter().map(|token| format!("{token:?}")).collect::<Vec<_>>().join(", ");
            let help = match (known.is_empty(), self.origin) {
                (true, Origin::Flags(_)) => format!("add `--special-token {token:?}`"),
                (true, _) => format!("add special_tokens = [{token:?}] to [train]"),
                (false, _) => format!("its special tokens are {known}"),
            };
            self.wrong(key, given, &problem, &help);
        }
        Some(token.clone())
    }

    /// How documents are packed. Reports settings that packing excludes.
    fn packing(&mut self, keys: &EncodeKeys, output: &OutputKeys) -> Option<Packing> {
        let Some((pack, rule)) = keys.pack.as_ref().and_then(|pack| Some((pack, pack.value?))) else {
            if let Some(length) = keys.length.as_ref().filter(|_| !self.is_wrong("pack")) {
                let help = format!("leave it out, or add {}", self.origin.name("pack"));
                self.wrong("length", length, "has no effect without packing", &help);
            }
            return None;
        };
        let parquet = value_of(&output.format).unwrap_or_default() == OutputFormat::Parquet;
        if !parquet {
            let problem = "is for Parquet only: files of ids alone are one sequence of tokens";
            let help = format!("leave it out, or leave out {}", self.output_format());
            self.wrong("pack", pack, problem, &help);
        }
        if let Some(column) = keys.columns.first().filter(|_| parquet) {
            let problem = "cannot be passed through: packed rows are not documents";
            let help = format!("leave them out, or leave out {}", self.origin.name("pack"));
            self.wrong("columns", column, problem, &help);
        }
        Some(Packing::new(rule, self.packed_length(pack, &keys.length)))
    }

    /// How merges are left out at random. Reports a seed that has no effect.
    fn dropout(&mut self, keys: &EncodeKeys) -> Option<Dropout> {
        let Some(probability) = value_of(&keys.dropout) else {
            if let Some(seed) = keys.dropout_seed.as_ref().filter(|_| !self.is_wrong("dropout")) {
                let help = format!("leave it out, or add {}", self.origin.name("dropout"));
                self.wrong("dropout_seed", seed, "has no effect without dropout", &help);
            }
            return None;
        };
        let seed = value_of(&keys.dropout_seed).unwrap_or(0);
        Some(Dropout { probability, seed }).filter(|_| probability.get() > 0.0)
    }

    /// The number of token ids in a packed row. A missing length is reported, and 1 takes its place.
    fn packed_length(&mut self, pack: &Given<Option<PackRule>>, field: &Field<u64>) -> usize {
        if field.is_none() {
            let problem = format!("{} needs a {}", self.origin.name("pack"), self.origin.name("length"));
            let help = "it is the number of token ids in a row, such as 2048";
            self.missing("length", pack.span.clone(), &problem, help);
        }
        let length = self.at_least_one("length", field).map_or(1, u64_to_usize);
        if let Some(given) = field.as_ref().filter(|_| length > MAX_PACKED_LENGTH) {
            self.wrong("length", given, "is too long", &format!("it is {MAX_PACKED_LENGTH} at most"));
        }
        length
    }

    /// Reports settings that only Parquet files can hold.
    ///
    /// These are pass-through columns and compression. Files of bare ids hold neither.
    fn format_holds(&mut self, keys: &EncodeKeys, output: &OutputKeys) {
        if value_of(&output.format).unwrap_or_default() == OutputFormat::Parquet {
            return;
        }
        if let Some(column) = keys.columns.first() {
            let problem = "cannot be passed through: only Parquet files have columns";
            let help = format!("leave them out, or leave out {}", self.output_format());
            self.wrong("columns", column, problem, &help);
        }
        if let Some(compression) = &keys.compression {
            let problem = "has no effect here: only Parquet files are compressed";
            self.wrong("compression", compression, problem, "leave it out");
        }
    }

    /// The key or flag of the output format, for messages.
    fn output_format(&self) -> &'static str {
        match self.origin {
            Origin::Flags(_) => "`--output-format`",
            Origin::Arguments(_) => "`output_format`",
            _ => "the output's `format`",
        }
    }

    /// The name of the split. Reports one that cannot begin the name of a file. The default is
    /// [`DEFAULT_SPLIT_NAME`].
    fn split_name(&mut self, output: &OutputKeys) -> String {
        let Some(given) = &output.split_name else { return DEFAULT_SPLIT_NAME.to_owned() };
        if !is_split_name(&given.value) {
            let problem = format!("cannot be {:?}", given.value);
            self.wrong("split_name", given, &problem, split_name_help(&given.value));
        }
        given.value.clone()
    }

    /// Whether all data goes into one file. Only the formats of bare ids have that, since their readers ask for one
    /// file by name.
    fn one_file(&mut self, output: &OutputKeys) -> bool {
        let Some(given) = output.one_file.as_ref().filter(|given| given.value) else { return false };
        if value_of(&output.format).unwrap_or_default() == OutputFormat::Parquet {
            let help = "leave it out, or choose the output format `bin` or `megatron`";
            self.wrong("one_file", given, "is for files of ids alone", help);
        }
        if output.file_text_bytes.is_some() {
            let problem = format!("makes {} meaningless", self.origin.name("file_text_bytes"));
            self.wrong("one_file", given, &problem, "leave out one of the two");
        }
        true
    }

    /// Bytes of text per data file. Reports 0. The default is [`DEFAULT_FILE_TEXT_BYTES`].
    fn file_text_bytes(&mut self, output: &OutputKeys) -> ByteCount {
        let Some(given) = &output.file_text_bytes else { return DEFAULT_FILE_TEXT_BYTES };
        if given.value == ByteCount(0) {
            self.wrong(
                "file_text_bytes",
                given,
                "cannot be 0",
                "it is the approximate amount of text per file",
            );
        }
        given.value
    }
}
