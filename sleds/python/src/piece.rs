#![allow(unsafe_code, reason = "Python's buffer protocol hands out an address")]
//! A part of a file as a Python buffer.
//!
//! Invariant: the bytes of a [`Piece`] are never changed nor moved while the object lives. The class is frozen, and no
//! function returns a mutable reference.

use std::ffi::{c_int, c_void};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A part of a file: a read-only buffer.
#[pyclass(frozen, module = "sleds")]
pub(crate) struct Piece {
    /// Offset of the part in the file.
    #[pyo3(get)]
    offset: u64,
    data: Box<[u8]>,
}

impl Piece {
    pub(crate) fn new(offset: u64, data: &[u8]) -> Piece {
        Piece {
            offset,
            data: data.into(),
        }
    }
}

#[pymethods]
impl Piece {
    fn __len__(&self) -> usize {
        self.data.len()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.data)
    }

    fn __repr__(&self) -> String {
        format!(
            "<sleds.Piece: {} bytes at {}>",
            self.data.len(),
            self.offset
        )
    }

    /// Fills in a view of the bytes.
    ///
    /// # Safety
    /// Python must call this function: `view` points to a `Py_buffer` to fill.
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill"));
        }
        let data = &slf.get().data;
        let len = ffi::Py_ssize_t::try_from(data.len())?;
        // SAFETY: `view` is Python's, and not null. The bytes live as long as the object (the module's invariant), of
        // which the view holds a reference, and the view is read-only.
        let status = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                data.as_ptr().cast::<c_void>().cast_mut(),
                len,
                1,
                flags,
            )
        };
        match status {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}
