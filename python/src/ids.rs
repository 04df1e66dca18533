//! Token ids as objects of Python: lists of `int`, and arrays of NumPy.

use std::any::Any;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyInt, PyList};
use tokenmill::TokenId;

use crate::errors::usage;

/// Appends ids from Python to `ids`: a list or another sequence of whole numbers, or an array of NumPy or of another
/// library.
///
/// # Errors
/// They are not whole numbers of 32 bits.
pub(crate) fn extend(ids: &mut Vec<TokenId>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let extended = match object.cast_exact::<PyList>() {
        Ok(list) => extend_by_list(ids, list),
        Err(_) => extend_by_other(ids, object),
    };
    extended.map_err(|error| {
        let message = format!("the ids are not whole numbers of 32 bits: {}", error.value(object.py()));
        usage(object.py(), &message, "give a list of ids, each from 0 to vocab_size - 1")
    })
}

/// Appends the items of a list. They are taken from a tuple, which cannot change meanwhile, so that no reference to each
/// has to be counted; that saves more time than the copy takes.
fn extend_by_list(ids: &mut Vec<TokenId>, list: &Bound<'_, PyList>) -> PyResult<()> {
    let items = list.to_tuple();
    ids.reserve(items.len());
    for id in items.iter_borrowed() {
        ids.push(TokenId::new(id.extract()?));
    }
    Ok(())
}

/// Appends the items of another sequence, or of an array.
fn extend_by_other(ids: &mut Vec<TokenId>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    // Taking the items of an array one by one would make an object of the array's own type for each.
    let items = match object.getattr_opt("tolist")? {
        Some(tolist) => tolist.call0()?,
        None => object.to_owned(),
    };
    if let Ok(list) = items.cast_exact::<PyList>() {
        return extend_by_list(ids, list);
    }
    // Memory for as many ids as another sequence declares would be reserved at once.
    for id in items.try_iter()? {
        ids.push(TokenId::new(id?.extract()?));
    }
    Ok(())
}

/// The `int` of each id of a vocabulary. A list of ids refers to them, which takes less time than making them, and less
/// memory.
pub(crate) struct Ints(PyOnceLock<Vec<Py<PyInt>>>);

impl Ints {
    /// Makes nothing yet.
    pub(crate) const fn new() -> Ints {
        Ints(PyOnceLock::new())
    }

    /// Ids as a list. `limit` gives the number of ids of the vocabulary.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) fn list<'py>(
        &self,
        py: Python<'py>,
        ids: &[u32],
        limit: impl FnOnce() -> usize,
    ) -> PyResult<Bound<'py, PyList>> {
        let ints = self.0.get_or_try_init(py, || -> PyResult<_> {
            (0..limit()).map(|id| Ok(id.into_pyobject(py)?.unbind())).collect()
        })?;
        // Ids come from the vocabulary, so each of them has its `int`.
        PyList::new(py, ids.iter().map(|&id| usize::try_from(id).ok().and_then(|id| ints.get(id))))
    }
}

/// Python's cyclic garbage collector: its module `gc`.
pub(crate) struct Collector<'py>(Bound<'py, PyModule>);

impl<'py> Collector<'py> {
    /// Imports the module, which itself may run the collector.
    ///
    /// # Errors
    /// Python cannot import it.
    pub(crate) fn new(py: Python<'py>) -> PyResult<Collector<'py>> {
        py.import("gc").map(Collector)
    }

    /// Keeps the collector from running as long as the result lives, unless it is off anyway.
    ///
    /// It would run whenever some 700 lists were made, and look at all items of many lists again each time. Lists of
    /// `int`s have no cycles. Nothing may release the global lock meanwhile, so that no other code notices.
    ///
    /// # Errors
    /// Its module fails.
    pub(crate) fn pause(&self) -> PyResult<CollectorPause<'_, 'py>> {
        let is_on = self.0.call_method0("isenabled")?.extract::<bool>()?;
        if is_on {
            self.0.call_method0("disable")?;
        }
        Ok(CollectorPause(is_on.then_some(&self.0)))
    }
}

/// A pause of the collector. It has the module if the collector is to run again.
pub(crate) struct CollectorPause<'a, 'py>(Option<&'a Bound<'py, PyModule>>);

impl Drop for CollectorPause<'_, '_> {
    fn drop(&mut self) {
        // It cannot fail: it only sets a flag.
        let _ = self.0.map(|gc| gc.call_method0("enable"));
    }
}

/// The memory of an array of NumPy: numbers that were made without Python.
#[pyclass(frozen, module = "tokenmill._core")]
struct ArrayMemory {
    /// Owns the memory. Only NumPy reads and writes it.
    _numbers: Box<dyn Any + Send + Sync>,
    /// Where it begins.
    address: usize,
    /// Number of numbers.
    length: usize,
    /// NumPy's code of the type of a number.
    code: &'static str,
}

#[pymethods]
impl ArrayMemory {
    /// What NumPy asks for to use the memory.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", (self.length,))?;
        interface.set_item("typestr", self.code)?;
        let is_read_only = false;
        interface.set_item("data", (self.address, is_read_only))?;
        Ok(interface)
    }
}

/// A number that NumPy knows.
pub(crate) trait Number: Send + Sync + 'static {
    /// NumPy's code of the type.
    const CODE: &'static str;
}

impl Number for u32 {
    const CODE: &'static str = if cfg!(target_endian = "little") { "<u4" } else { ">u4" };
}

impl Number for i64 {
    const CODE: &'static str = if cfg!(target_endian = "little") { "<i8" } else { ">i8" };
}

/// Numbers as an array of NumPy that can be written to. They are not copied.
///
/// # Errors
/// NumPy is not installed.
pub(crate) fn array<T: Number>(py: Python<'_>, mut numbers: Vec<T>) -> PyResult<Bound<'_, PyAny>> {
    let (address, length) = (numbers.as_mut_ptr().expose_provenance(), numbers.len());
    let memory = ArrayMemory { _numbers: Box::new(numbers), address, length, code: T::CODE };
    py.import("numpy")?.call_method1("asarray", (memory,))
}
