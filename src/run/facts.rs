//! Collects the figures of a run into a report.

use std::iter::repeat;

use super::encoding::{Encoded, added_tokens, shown_token};
use super::inputs::Inputs;
use super::plan::Plan;
use super::recipe::word;
use super::resources::Costs;
use super::training::Trained;
use crate::base::int::{bytes_per_token, to_f64, to_u64};
use crate::count::{Histogram, SourceFacts};
use crate::encode::{Dropout, MissingBytes};
use crate::error::Result;
use crate::report::{
    CorpusFacts, EncodedSource, EncodingFacts, LearnedMerge, LearnedSource, OutputFile, PackingFacts,
    ParityFacts, RecipeFacts, ResidueFacts, ResidueToken, RunReport, SkippedInput, TokenizerFacts,
    TrainingFacts, VocabularyFacts,
};
use crate::sink::{Packing, RowTotals, SourceShare};
use crate::source::{SkippedRow, shown_uri};
use crate::train::HistoryPoint;
use crate::vocab::{Residue, TokenUse, Vocabulary, token_uses, unreachable_tokens};
use crate::{FORMAT_VERSION, VERSION};

/// Number of merges and tokens that a report shows.
const SHOWN: usize = 40;

/// The results of a run, as far as it has come.
pub(super) struct ReportParts<'a> {
    /// The plan of the run.
    pub(super) plan: &'a Plan,
    /// The recipe as the report shows it. Its hash is replaced by that of the plan.
    pub(super) recipe: &'a RecipeFacts,
    /// The open inputs. They know the skipped rows and files.
    pub(super) inputs: &'a Inputs<'a>,
    /// The tokenizer of the run: trained, or given.
    pub(super) vocabulary: &'a Vocabulary,
    /// The result of training; `None` if the run trains nothing.
    pub(super) trained: Option<&'a Trained>,
    /// The result of encoding; `None` if the run encodes nothing.
    pub(super) encoded: Option<&'a Encoded>,
    /// The cost of each stage so far, in order.
    pub(super) costs: Costs,
}

impl ReportParts<'_> {
    /// Builds the report.
    ///
    /// # Errors
    /// The vocabulary lacks a special token that the plan names, or its split is invalid.
    pub(super) fn report(self) -> Result<RunReport> {
        Ok(RunReport {
            format_version: FORMAT_VERSION,
            tool_version: VERSION.to_owned(),
            recipe: RecipeFacts { sha256: self.plan.recipe_hash.clone(), ..self.recipe.clone() },
            corpus: self.corpus(),
            tokenizer: Some(self.tokenizer()),
            training: self.trained.map(|trained| self.training(trained)),
            vocabulary: Some(VocabularyFacts {
                unreachable: Some(to_u64(unreachable_tokens(self.vocabulary)?.len())),
                residue: self.trained.map(residue_facts),
                ..vocabulary_facts(self.vocabulary)
            }),
            encoding: self.encoded.map(|encoded| self.encoding(encoded)).transpose()?,
            files: self.encoded.map(files).unwrap_or_default(),
            input_notes: self.inputs.skipped_rows().all_file_notes(),
            skipped_inputs: self.inputs.skipped_rows().count(),
            skipped: self.skipped(),
            stages: self.costs.stages,
        })
    }

    /// Facts about the text: from training if a tokenizer was trained, otherwise from encoding, which counts neither
    /// characters nor distinct bytes.
    ///
    /// A training from counts files knows nothing of documents, so those figures are `None`.
    fn corpus(&self) -> CorpusFacts {
        let counts = self.plan.counts.iter().map(|path| path.display().to_string());
        let sources = self.plan.sources.iter().map(|source| shown_uri(&source.uri)).chain(counts).collect();
        if let Some(Trained { corpus, .. }) = self.trained {
            let from_text = !self.plan.sources.is_empty();
            return CorpusFacts {
                sources,
                documents: from_text.then_some(corpus.documents),
                null_documents: from_text.then_some(corpus.null_documents),
                text_bytes: corpus.text_bytes,
                characters: Some(corpus.characters),
                distinct_bytes: Some(corpus.distinct_bytes),
                document_lengths: from_text.then(|| corpus.document_lengths.clone()),
            };
        }
        let Some(Encoded { contents: facts, .. }) = self.encoded else { return CorpusFacts::default() };
        CorpusFacts {
            sources,
            documents: Some(facts.documents - facts.null_documents),
            null_documents: Some(facts.null_documents),
            text_bytes: facts.text_bytes,
            ..CorpusFacts::default()
        }
    }

    /// The identity of the tokenizer. It has a path only if the plan names it.
    fn tokenizer(&self) -> TokenizerFacts {
        let given = self.plan.encode.as_ref().and_then(|encode| encode.tokenizer.as_ref());
        TokenizerFacts {
            fingerprint: self.vocabulary.fingerprint(),
            path: given.map(|path| path.display().to_string()),
            split: self.vocabulary.split().to_string(),
        }
    }

    /// The figures of training. Counts of merges are by rank in the vocabulary, and the first [`SHOWN`] merges are
    /// listed.
    ///
    /// Points of the history give the number of tokens before the first merge and after the last.
    fn training(&self, trained: &Trained) -> TrainingFacts {
        let Trained { learned, vocabulary, .. } = trained;
        let config = self.plan.train.as_ref().map(|train| (&train.config, train.boundary));
        let show = |id| shown_token(vocabulary, id);
        let counts = trained.counts();
        let merges = vocabulary.merges().iter().zip(&counts);
        TrainingFacts {
            merges_asked: config.map_or(0, |(config, _)| to_u64(config.merges)),
            merges_learned: to_u64(learned.merges.len()),
            merges_taken_over: to_u64(trained.base.as_ref().map_or(0, |base| base.given.given())),
            train_s: self.costs.seconds("train"),
            distinct_pretokens: trained.distinct_pretokens,
            tokens_before: learned.history.first().map_or(0, tokens),
            tokens_after: learned.history.last().map_or(0, tokens),
            min_frequency: config.map_or(0, |(config, _)| config.min_frequency.get()),
            tie_break: config.map_or_else(String::new, |(config, _)| word(&config.tie_break)),
            score: config.map_or_else(String::new, |(config, _)| config.score.to_string()),
            boundary: config.map_or_else(String::new, |(_, boundary)| word(&boundary)),
            sources: self.learned_sources(trained),
            parity: self.parity(trained),
            history: learned.history.clone(),
            first_merges: merges
                .take(SHOWN)
                .map(|(ranked, &count)| LearnedMerge {
                    left: show(ranked.left),
                    right: show(ranked.right),
                    result: show(ranked.result),
                    count,
                })
                .collect(),
            merge_counts: counts,
        }
    }

    /// The figures of parity-aware training, by source or counts file.
    fn parity(&self, trained: &Trained) -> Option<ParityFacts> {
        let tokens = trained.parity.as_ref()?;
        let counts = self.plan.counts.iter().map(|path| path.display().to_string());
        let names = self.plan.sources.iter().map(|source| shown_uri(&source.uri)).chain(counts);
        ParityFacts::of(names.collect(), tokens.history.clone(), &tokens.plain)
    }

    /// The sources that were trained on. The share of each is its weighted bytes of text divided by those of all.
    ///
    /// Counts files have no sources, so the list is empty for them. The shares sum to 1, unless all are 0.
    fn learned_sources(&self, trained: &Trained) -> Vec<LearnedSource> {
        let known = &trained.corpus.sources;
        if known.is_empty() {
            return Vec::new();
        }
        let read = known.iter().copied().chain(repeat(SourceFacts::default()));
        let sources = self.plan.sources.iter().zip(&self.plan.weights).zip(read);
        let mut sources: Vec<LearnedSource> = sources
            .map(|((spec, &weight), SourceFacts { documents, text_bytes, .. })| {
                let times = to_f64(text_bytes) * to_f64(weight);
                LearnedSource { uri: shown_uri(&spec.uri), documents, text_bytes, weight, share: times }
            })
            .collect();
        let all: f64 = sources.iter().map(|source| source.share).sum();
        sources.iter_mut().filter(|_| all > 0.0).for_each(|source| source.share /= all);
        sources
    }

    /// The figures of encoding. BOS and EOS tokens are counted once for each document that is not null.
    ///
    /// # Errors
    /// The vocabulary lacks a special token that the plan names.
    fn encoding(&self, encoded: &Encoded) -> Result<EncodingFacts> {
        let Encoded { contents: facts, samples, .. } = encoded;
        let Some(encode) = &self.plan.encode else { return Ok(EncodingFacts::default()) };
        let added = added_tokens(encode, self.vocabulary)?;
        let documents = facts.documents - facts.null_documents;
        let a_document = [&added.bos, &added.eos].into_iter().flatten().count();
        Ok(EncodingFacts {
            documents,
            null_documents: facts.null_documents,
            text_bytes: facts.text_bytes,
            tokens: facts.tokens,
            added_tokens: facts.added_tokens(to_u64(a_document)),
            bos: added.bos.map(|token| shown_token(self.vocabulary, token.id)),
            eos: added.eos.map(|token| shown_token(self.vocabulary, token.id)),
            special: encode.special.name().to_owned(),
            missing_bytes: (encode.missing_bytes != MissingBytes::Error)
                .then(|| encode.missing_bytes.name().to_owned()),
            dropout: encode
                .dropout
                .map(|Dropout { probability, seed }| format!("{probability} (seed {seed})")),
            packing: encode.pack.map(|pack| packing_facts(&pack, facts)),
            sources: facts
                .sources
                .iter()
                .map(|share| self.encoded_source(share, to_u64(a_document)))
                .collect(),
            samples: samples.clone(),
        })
    }

    /// The figures of one source. `added_a_document` is the number of BOS and EOS tokens of each document. They do
    /// not count in the bytes per token.
    fn encoded_source(&self, share: &SourceShare, added_a_document: u64) -> EncodedSource {
        let &SourceShare { source, documents, text_bytes, tokens } = share;
        let bytes_per_token = bytes_per_token(text_bytes, tokens, documents * added_a_document);
        let uri = shown_uri(&self.plan.sources[source].uri);
        EncodedSource { uri, documents, text_bytes, tokens, bytes_per_token }
    }

    /// The rows and files that were skipped, with their places and reasons.
    fn skipped(&self) -> Vec<SkippedInput> {
        let listed = self.inputs.skipped_rows().listed().into_iter();
        listed
            .map(|SkippedRow { source, unit, problem }| {
                let uri = || shown_uri(&self.plan.sources[source].uri);
                let place = unit.map_or_else(uri, |unit| self.inputs.unit_name(source, unit));
                // Most messages begin with the place, which the report shows separately.
                let separators = [':', ',', ' '];
                let reason = problem.strip_prefix(&place).filter(|rest| rest.starts_with(separators));
                let reason = reason.map(|rest| rest.trim_start_matches(separators));
                SkippedInput { reason: reason.unwrap_or(&problem).to_owned(), place }
            })
            .collect()
    }
}

/// The figures of packing. `padding` is the number of ids that the rows lack to their full length.
///
/// All rows have the same length, so the padding is rows × length minus the number of tokens.
fn packing_facts(packing: &Packing, contents: &RowTotals) -> PackingFacts {
    let length = to_u64(packing.length);
    PackingFacts {
        rule: packing.rule.to_string(),
        length,
        rows: contents.rows,
        padding: contents.rows * length - contents.tokens,
        cut_documents: contents.cut_documents,
    }
}

/// Number of tokens in the corpus at a point of the history.
fn tokens(point: &HistoryPoint) -> u64 {
    point.tokens
}

/// The figures of a vocabulary: the distribution of token lengths, and its first and longest tokens.
///
/// Special tokens are listed separately and do not count in the lengths. Of tokens with equal length, the lower id
/// comes first.
fn vocabulary_facts(vocabulary: &Vocabulary) -> VocabularyFacts {
    let mut token_lengths = Histogram::default();
    let mut by_length: Vec<_> = vocabulary.ordinary().map(|(id, bytes)| (bytes.len(), id)).collect();
    by_length.iter().for_each(|&(length, _)| token_lengths.add(to_u64(length)));
    by_length.sort_by_key(|&(length, id)| (std::cmp::Reverse(length), id));
    let longer = vocabulary.merges().iter().map(|merge| merge.result);
    VocabularyFacts {
        tokens: to_u64(vocabulary.tokens().count()),
        special_tokens: vocabulary.specials().map(|special| shown_token(vocabulary, special.id)).collect(),
        token_lengths,
        first_tokens: longer.take(SHOWN).map(|id| shown_token(vocabulary, id)).collect(),
        longest_tokens: by_length.iter().take(SHOWN).map(|&(_, id)| shown_token(vocabulary, id)).collect(),
        superwords: to_u64(vocabulary.superwords().count()),
        first_superwords: vocabulary
            .superwords()
            .take(SHOWN)
            .map(|(id, _)| shown_token(vocabulary, id))
            .collect(),
        ..VocabularyFacts::default()
    }
}

/// The tokens that the training text hardly uses but as parts of others, and the first [`SHOWN`] of them.
fn residue_facts(trained: &Trained) -> ResidueFacts {
    let show = |id| shown_token(&trained.vocabulary, id);
    let uses = token_uses(&trained.vocabulary, &trained.replaced());
    let residue = Residue::new(uses, Residue::DEFAULT_FLOOR);
    let shown = residue.tokens.iter().take(SHOWN);
    ResidueFacts {
        floor: residue.floor,
        tokens: to_u64(residue.tokens.len()),
        of: to_u64(residue.of),
        first: shown
            .map(|&TokenUse { id, whole, part, made_for }| ResidueToken {
                token: show(id),
                whole,
                part,
                made_for: made_for.map(show),
            })
            .collect(),
    }
}

/// The data files as the manifest lists them, in its order, with sizes in bytes and SHA-256 in hex.
fn files(encoded: &Encoded) -> Vec<OutputFile> {
    let files = encoded.manifest.files.iter();
    files
        .map(|file| OutputFile {
            path: file.name.clone(),
            bytes: file.bytes,
            rows: Some(file.rows),
            tokens: Some(file.tokens),
            sha256: Some(file.sha256.clone()),
        })
        .collect()
}
