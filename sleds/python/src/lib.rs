//! The Python module `sleds._sleds`: the library's descriptors and its reader.
//!
//! Users import `python/sleds/__init__.py`; `__init__.pyi` beside it has the types. The interpreter's lock is released
//! while a function waits for a device, so that other threads go on.
#![expect(
    clippy::doc_markdown,
    reason = "the documentation becomes Python's, which has no Markdown"
)]
#![allow(
    non_snake_case,
    reason = "Bps: B is the unit's symbol, for bytes and not bits"
)]

mod piece;
mod source;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use sleds::{
    DescribeError, EstimateRange, FileReader, RateSource, ReadOptions, ReadPlan, ReadUnit,
};

use piece::Piece;
use source::PythonFile;

self_cell::self_cell!(
    /// A reader together with its file. Dropping the reader closes the file.
    struct OpenReader {
        owner: File,
        #[not_covariant]
        dependent: FileReader,
    }
);

/// The cost of reading a part of a file.
#[pyclass(frozen, get_all, module = "sleds")]
#[derive(Clone)]
struct Sled {
    /// First byte of the part in the file.
    offset: u64,
    /// Bytes in the part.
    length: u64,
    /// "memory", "unknown", or the name of a device in the table.
    level: String,
    /// Source of the two numbers.
    source: String,
    /// Seconds to the first byte, at the median; None if unknown.
    latency_s: Option<f64>,
    /// The range in which the latency mostly lies.
    latency_range_s: Option<(f64, f64)>,
    /// Bytes per second after the first byte, at the median; None if unknown.
    bandwidth_Bps: Option<f64>,
    /// The range in which the bandwidth mostly lies.
    bandwidth_range_Bps: Option<(f64, f64)>,
}

#[pymethods]
impl Sled {
    fn __repr__(&self) -> String {
        format!(
            "Sled(offset={}, length={}, level={:?}, latency_s={}, bandwidth_Bps={})",
            self.offset,
            self.length,
            self.level,
            or_none(self.latency_s),
            or_none(self.bandwidth_Bps)
        )
    }
}

/// The time to read a whole file.
#[pyclass(frozen, get_all, module = "sleds")]
#[derive(Clone)]
struct Delivery {
    /// The estimate at the median; None if a part is unknown.
    seconds: Option<f64>,
    /// The range in which the time mostly lies.
    range_s: Option<(f64, f64)>,
    /// Bytes in unknown parts.
    unknown_bytes: u64,
}

#[pymethods]
impl Delivery {
    fn __repr__(&self) -> String {
        format!(
            "Delivery(seconds={}, unknown_bytes={})",
            or_none(self.seconds),
            self.unknown_bytes
        )
    }
}

fn or_none(value: Option<f64>) -> String {
    value.map_or("None".to_owned(), |value| format!("{value:?}"))
}

fn source_name(source: RateSource) -> &'static str {
    match source {
        RateSource::Measured => "measured",
        RateSource::Default => "default",
        RateSource::Observed => "observed",
        RateSource::Unknown => "unknown",
    }
}

fn median(spread: Option<EstimateRange>) -> Option<f64> {
    spread.map(|spread| spread.median)
}

fn range(spread: Option<EstimateRange>) -> Option<(f64, f64)> {
    spread.map(|spread| (spread.low, spread.high))
}

fn failure(path: &Path, error: std::io::Error) -> PyErr {
    match error.raw_os_error() {
        // Python turns the number into FileNotFoundError and similar exceptions.
        Some(number) => {
            let reason = error.to_string();
            let reason = reason
                .split(" (os error")
                .next()
                .unwrap_or(&reason)
                .to_owned();
            PyOSError::new_err((number, reason, path.as_os_str().to_owned()))
        }
        None => PyOSError::new_err(format!("{}: {error}", path.display())),
    }
}

fn undescribed(path: &Path, error: DescribeError) -> PyErr {
    match error {
        DescribeError::Io(error) => failure(path, error),
        other => PyOSError::new_err(format!("{}: {other}", path.display())),
    }
}

fn plan_of(name: &str) -> PyResult<ReadPlan> {
    match name {
        "linear" => Ok(ReadPlan::Linear),
        "best" => Ok(ReadPlan::Best),
        "auto" => Ok(ReadPlan::Auto),
        _ => Err(PyValueError::new_err(format!(
            "there is no plan {name:?}: \"linear\", \"best\" or \"auto\""
        ))),
    }
}

/// Return the SLEDs of a file, in order; they cover the file exactly.
///
/// `path` is a path, a descriptor, or an object with `fileno()`.
///
/// Raises OSError if the file cannot be opened or has no length (pipes, directories).
#[pyfunction]
fn describe(py: Python<'_>, mut path: PythonFile) -> PyResult<Vec<Sled>> {
    let file = path.open()?;
    let sleds = py
        .detach(|| sleds::describe(&file))
        .map_err(|error| undescribed(&path.name, error))?;
    let ours = |sled: sleds::Sled| Sled {
        offset: sled.offset,
        length: sled.length,
        level: sled.level.name().to_owned(),
        source: source_name(sled.source).to_owned(),
        latency_s: median(sled.latency_s),
        latency_range_s: range(sled.latency_s),
        bandwidth_Bps: median(sled.bandwidth_Bps),
        bandwidth_range_Bps: range(sled.bandwidth_Bps),
    };
    Ok(sleds.into_iter().map(ours).collect())
}

/// Estimate the time to read the whole file by a plan: "linear", "best" or "auto" (the lesser).
///
/// Raises OSError as describe does, and ValueError for another plan.
#[pyfunction]
#[pyo3(signature = (path, plan = "auto"))]
fn delivery_time(py: Python<'_>, mut path: PythonFile, plan: &str) -> PyResult<Delivery> {
    let plan = plan_of(plan)?;
    let file = path.open()?;
    let sleds = py
        .detach(|| sleds::describe(&file))
        .map_err(|error| undescribed(&path.name, error))?;
    let delivery = sleds::delivery_time(&sleds, plan);
    Ok(Delivery {
        seconds: median(delivery.known()),
        range_s: range(delivery.known()),
        unknown_bytes: delivery.unknown_bytes,
    })
}

/// Iterates over a file piece by piece, every byte once.
#[pyclass(frozen, module = "sleds")]
struct Picker {
    path: PathBuf,
    /// The chosen order: "linear" or "best".
    #[pyo3(get)]
    plan: &'static str,
    reader: Mutex<Option<OpenReader>>,
}

#[pymethods]
impl Picker {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.close();
    }

    /// Close the file. The iteration is then over.
    fn close(&self) {
        *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Piece>> {
        let next = py.detach(|| {
            let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(open) = reader.as_mut() else {
                return Ok(None);
            };
            let next = open.with_dependent_mut(|_, reader| {
                let piece = reader.next_piece()?;
                Ok(piece.map(|piece| Piece::new(piece.offset, piece.data)))
            });
            // After the end or an error, the iteration is over, and the file is closed.
            if !matches!(next, Ok(Some(_))) {
                *reader = None;
            }
            next
        });
        next.map_err(|error| failure(&self.path, error))
    }
}

/// Read a file piece by piece, cheapest part first, every byte once.
///
/// A piece has about `chunk` bytes and is a buffer with an `offset`. With `record`, a piece holds whole records, each
/// ended by that byte; with `element=(start, size)`, whole elements of `size` bytes, the first at byte `start`. `plan`
/// is "linear", "best" or "auto" (best where that pays). A descriptor or a file object is read from the position of
/// the descriptor on, which the caller must leave alone until the end.
///
/// Raises OSError if the file cannot be read, and ValueError for arguments out of range.
#[pyfunction]
#[pyo3(signature = (path, chunk = 256 << 10, *, record = None, element = None, plan = "auto"))]
fn pick(
    py: Python<'_>,
    mut path: PythonFile,
    chunk: usize,
    record: Option<&[u8]>,
    element: Option<(u64, u32)>,
    plan: &str,
) -> PyResult<Picker> {
    let unit = match (record, element) {
        (None, None) => ReadUnit::Bytes,
        (Some([end]), None) => ReadUnit::Records(*end),
        (None, Some((start, size))) if size > 0 => ReadUnit::Elements { start, size },
        (Some(_), None) => {
            return Err(PyValueError::new_err("a record ends with exactly one byte"));
        }
        (None, Some(_)) => return Err(PyValueError::new_err("an element has at least one byte")),
        (Some(_), Some(_)) => {
            return Err(PyValueError::new_err(
                "either records or elements, not both",
            ));
        }
    };
    if chunk == 0 {
        return Err(PyValueError::new_err("a piece has at least one byte"));
    }
    let options = ReadOptions {
        plan: plan_of(plan)?,
        unit,
        chunk,
        ..ReadOptions::default()
    };
    let file = path.open()?;
    let reader = py
        .detach(|| OpenReader::try_new(file, |file| FileReader::new(file, options)))
        .map_err(|error| failure(&path.name, error))?;
    let plan = match reader.with_dependent(|_, reader| reader.plan()) {
        ReadPlan::Best => "best",
        _ => "linear",
    };
    Ok(Picker {
        path: path.name,
        plan,
        reader: Mutex::new(Some(reader)),
    })
}

/// Estimates of the time to read each part of a file.
#[pymodule]
fn _sleds(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<Delivery>()?;
    module.add_class::<Picker>()?;
    module.add_class::<Piece>()?;
    module.add_class::<Sled>()?;
    module.add_function(wrap_pyfunction!(delivery_time, module)?)?;
    module.add_function(wrap_pyfunction!(describe, module)?)?;
    module.add_function(wrap_pyfunction!(pick, module)?)
}
