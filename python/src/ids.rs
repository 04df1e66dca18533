//! Token ids as objects of Python: lists of `int`, and arrays of NumPy.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyByteArray, PyInt, PyList};

use crate::errors::usage;

/// Ids from Python: a list or another sequence of whole numbers, or an array of NumPy or of another library.
pub(crate) struct Ids(pub(crate) Vec<u32>);

impl FromPyObject<'_, '_> for Ids {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Ids> {
        // Taking the items of an array one by one would make an object of the array's own type for each.
        let list = match object.getattr_opt("tolist")? {
            Some(tolist) => tolist.call0()?,
            None => object.to_owned(),
        };
        list.extract().map(Ids).map_err(|error: PyErr| {
            let message = format!("the ids are not whole numbers of 32 bits: {}", error.value(object.py()));
            usage(object.py(), &message, "give a list of ids, each from 0 to vocab_size - 1")
        })
    }
}

/// The `int` of each id of a vocabulary. A list of ids refers to them, which takes less time than making them, and less
/// memory.
pub(crate) struct Ints(PyOnceLock<Vec<Py<PyInt>>>);

impl Ints {
    /// Makes nothing yet.
    pub(crate) const fn new() -> Ints {
        Ints(PyOnceLock::new())
    }

    /// Ids as a list. `limit` is the number of ids of the vocabulary.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) fn list<'py>(
        &self,
        py: Python<'py>,
        ids: &[u32],
        limit: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        let ints = self.0.get_or_try_init(py, || -> PyResult<_> {
            (0..limit).map(|id| Ok(id.into_pyobject(py)?.unbind())).collect()
        })?;
        // Ids come from the vocabulary, so each of them has its `int`.
        PyList::new(py, ids.iter().map(|&id| usize::try_from(id).ok().and_then(|id| ints.get(id))))
    }
}

/// Numbers as an array of NumPy that can be written to.
///
/// # Errors
/// NumPy is not installed.
pub(crate) fn array<'py, T: Copy, const N: usize>(
    py: Python<'py>,
    numbers: &[T],
    dtype: &str,
    bytes_of: impl Fn(T) -> [u8; N],
) -> PyResult<Bound<'py, PyAny>> {
    let numpy = py.import("numpy")?;
    let bytes = PyByteArray::new_with(py, numbers.len() * N, |bytes| {
        let (places, _) = bytes.as_chunks_mut();
        places.iter_mut().zip(numbers).for_each(|(place, &number)| *place = bytes_of(number));
        Ok(())
    })?;
    numpy.call_method1("frombuffer", (bytes, dtype))
}
