//! What a job reads: the sources of its recipe, or texts and Arrow data of the program.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use pyo3::prelude::*;
use pyo3::types::PyIterator;
use tokenmill::Result;
use tokenmill::run::{Inputs, Plan};
use tokenmill::source::{Batch, Documents, OpenContext, once, record_batches};

use crate::arrow::Batches;
use crate::job::Look;
use crate::learn::hand_over;
use crate::text;

/// Portions of texts that wait to be read.
const WAITING: usize = 8;

/// The name of data of the program, for messages.
const NAME: &str = "the data";

/// What a job reads.
pub(crate) enum Input {
    /// The sources of its recipe.
    Sources,
    /// Texts, in portions.
    Texts(Receiver<Result<Batch>>),
    /// Record batches of Arrow.
    Table(Batches),
}

/// The iterator that gives the texts of [`Input::Texts`], and where they go.
pub(crate) struct Feed<'py>(Option<(Bound<'py, PyIterator>, SyncSender<Result<Batch>>)>);

impl Input {
    /// The texts of an iterator, or else the column of a table, or else the sources of the recipe. `column` is the name of
    /// a single column that is given as a table.
    ///
    /// # Errors
    /// The texts cannot be iterated over, or the table is not Arrow data.
    pub(crate) fn of<'py>(
        texts: Option<&Bound<'py, PyAny>>,
        table: Option<&Bound<'py, PyAny>>,
        column: &str,
    ) -> PyResult<(Input, Feed<'py>)> {
        if let Some(texts) = texts {
            let (sender, receiver) = sync_channel(WAITING);
            return Ok((Input::Texts(receiver), Feed(Some((text::iterator(texts)?, sender)))));
        }
        let input = match table {
            Some(table) => Input::Table(Batches::of(table, column)?),
            None => Input::Sources,
        };
        Ok((input, Feed(None)))
    }

    /// Opens it. Data of the program takes the place of the only source of the plan.
    ///
    /// # Errors
    /// A source cannot be opened, or the table has no such column of text.
    pub(crate) fn open<'a>(self, plan: &Plan, context: &OpenContext<'a>) -> Result<Inputs<'a>> {
        let documents: Documents<'static> = match self {
            Input::Sources => return Inputs::open(plan, context),
            Input::Texts(portions) => Box::new(portions.into_iter()),
            Input::Table(batches) => record_batches(Box::new(batches), &plan.sources[0], NAME)?,
        };
        Inputs::of(plan, &[once(NAME, documents)], context)
    }
}

impl<'py> Feed<'py> {
    /// Hands the texts over, if there are any.
    ///
    /// # Errors
    /// Those of [`hand_over`].
    pub(crate) fn run(self, py: Python<'py>, look: Look<'_>) -> PyResult<()> {
        match self.0 {
            Some((iterator, sender)) => hand_over(py, iterator, sender, look),
            None => Ok(()),
        }
    }
}
