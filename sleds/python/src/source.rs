#![allow(unsafe_code, reason = "a descriptor of Python is a number")]
//! Files as Python's functions name them: by a path, a descriptor, or a file object.
//!
//! Invariant of the unsafe code: a descriptor is used for one duplication, which fails for a number that is not an open
//! file.

use std::ffi::{OsStr, c_int};
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt};

/// A file that a caller in Python named.
pub(crate) struct PythonFile {
    /// Name for messages.
    pub(crate) name: PathBuf,
    /// The file, if the caller has it open.
    open: Option<File>,
}

impl PythonFile {
    /// Opens the file; the error names the file, as Python's own error does.
    pub(crate) fn open(&mut self) -> PyResult<File> {
        match self.open.take() {
            Some(file) => Ok(file),
            None => File::open(&self.name).map_err(|error| super::failure(&self.name, error)),
        }
    }

    /// Returns an own descriptor of the caller's open file. The position is shared.
    fn of_descriptor(number: c_int) -> PyResult<PythonFile> {
        let name = Path::new("/dev/fd").join(number.to_string());
        if number < 0 {
            return Err(PyValueError::new_err("negative file descriptor"));
        }
        // SAFETY: by the module's invariant.
        let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
        let own = borrowed.try_clone_to_owned();
        let own = own.map_err(|error| super::failure(&name, error))?;
        Ok(PythonFile {
            name,
            open: Some(own.into()),
        })
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for PythonFile {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<PythonFile> {
        if object.cast::<PyInt>().is_ok() {
            return PythonFile::of_descriptor(object.extract()?);
        }
        if object.hasattr("fileno")? && !object.hasattr("__fspath__")? {
            return PythonFile::of_descriptor(object.call_method0("fileno")?.extract()?);
        }
        let os = object.py().import("os")?;
        let path = os.call_method1("fspath", (object,))?;
        let name = match path.cast::<PyBytes>() {
            Ok(bytes) => PathBuf::from(OsStr::from_bytes(bytes.as_bytes())),
            Err(_) => path.extract()?,
        };
        Ok(PythonFile { name, open: None })
    }
}
