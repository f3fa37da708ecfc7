//! An export: a device, its name, and its properties.

use std::rc::Rc;

use forebay_device::{Device, DeviceGeometry};
use forebay_frontend::requests::{FrontDevice, WHOLE_BYTES_MAX};

use super::status::{AllData, BlockStatus};
use crate::codec::format::{STRING_BYTES_MAX, export_flag};

/// The largest READ or WRITE served, in bytes. The protocol wants every server to accept this size.
pub const REQUEST_BYTES_MAX: u32 = WHOLE_BYTES_MAX as u32;

/// A device under a name.
#[derive(Clone)]
pub struct NbdExport {
    name: String,
    description: String,
    target: Rc<FrontDevice>,
    status: Rc<dyn BlockStatus>,
    fast_zeroes: bool,
    read_only: bool,
}

impl NbdExport {
    /// Creates an export of all of `device` with the name `name`.
    ///
    /// # Panics
    /// If the device's geometry breaks the contract of `Device`.
    pub fn new(name: impl Into<String>, device: Rc<dyn Device>) -> NbdExport {
        NbdExport {
            name: name.into(),
            description: String::new(),
            target: Rc::new(FrontDevice::new(device, "nbd")),
            status: Rc::new(AllData),
            fast_zeroes: false,
            read_only: false,
        }
    }

    /// Sets a human-readable description.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> NbdExport {
        self.description = text.into();
        self
    }

    /// Sets the source of block status.
    #[must_use]
    pub fn status(mut self, status: Rc<dyn BlockStatus>) -> NbdExport {
        self.status = status;
        self
    }

    /// Declares (`true`) that the device's `write_zeroes` is faster than writing zeroes. The export then serves
    /// requests for fast zeroes instead of refusing them.
    #[must_use]
    pub fn fast_zeroes(mut self, fast: bool) -> NbdExport {
        self.fast_zeroes = fast;
        self
    }

    /// Makes (`true`) the export refuse all requests that change the device.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> NbdExport {
        self.read_only = read_only;
        self
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn text(&self) -> &str {
        &self.description
    }

    pub(super) fn target(&self) -> &FrontDevice {
        &self.target
    }

    pub(crate) fn geometry(&self) -> DeviceGeometry {
        self.target.geometry()
    }

    pub(super) fn block_status(&self) -> &dyn BlockStatus {
        &*self.status
    }

    pub(super) fn has_fast_zeroes(&self) -> bool {
        self.fast_zeroes
    }

    /// Returns true if the device supports discards.
    pub(super) fn discards(&self) -> bool {
        self.geometry().discard_granularity > 0
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Returns the export's flags for a client that has or has not agreed on structured replies.
    pub(crate) fn flags(&self, structured: bool) -> u16 {
        use export_flag::{
            CAN_MULTI_CONN, HAS_FLAGS, READ_ONLY, SEND_DF, SEND_FAST_ZERO, SEND_FLUSH, SEND_FUA,
            SEND_TRIM, SEND_WRITE_ZEROES,
        };
        let mut flags = HAS_FLAGS | SEND_FLUSH | SEND_FUA | CAN_MULTI_CONN;
        if structured {
            flags |= SEND_DF;
        }
        if self.read_only {
            return flags | READ_ONLY;
        }
        if self.discards() {
            flags |= SEND_TRIM;
        }
        flags | SEND_WRITE_ZEROES | SEND_FAST_ZERO
    }

    /// Returns the smallest, preferred and largest size of a request, in bytes.
    pub(super) fn block_sizes(&self) -> [u32; 3] {
        let geometry = self.geometry();
        let smallest = geometry.block_size;
        let preferred = geometry.preferred_io.clamp(smallest, 1 << 20);
        [smallest, preferred.next_power_of_two(), REQUEST_BYTES_MAX]
    }
}

/// An error that prevents serving a list of exports.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// The list is empty.
    #[error("nothing to serve: give at least one export")]
    None,
    /// Two exports have this name.
    #[error("two exports are named \"{0}\"; names must differ")]
    Duplicate(String),
    /// The name or description of this export is longer than the protocol allows.
    #[error(
        "the name or description of export \"{0:.40}…\" is longer than {STRING_BYTES_MAX} bytes"
    )]
    TooLong(String),
}

/// The exports of a server, at least one. The first is also found under the empty name, the default.
pub(super) struct ExportList(Vec<Rc<NbdExport>>);

impl ExportList {
    pub(super) fn new(exports: Vec<NbdExport>) -> Result<ExportList, ExportError> {
        if exports.is_empty() {
            return Err(ExportError::None);
        }
        for (i, export) in exports.iter().enumerate() {
            if export.name.len() > STRING_BYTES_MAX || export.description.len() > STRING_BYTES_MAX {
                return Err(ExportError::TooLong(export.name.clone()));
            }
            if exports[..i].iter().any(|other| other.name == export.name) {
                return Err(ExportError::Duplicate(export.name.clone()));
            }
        }
        Ok(ExportList(exports.into_iter().map(Rc::new).collect()))
    }

    pub(super) fn find(&self, name: &str) -> Option<&Rc<NbdExport>> {
        let named = self.0.iter().find(|export| export.name == name);
        named.or_else(|| name.is_empty().then(|| self.default()))
    }

    pub(super) fn default(&self) -> &Rc<NbdExport> {
        &self.0[0]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Rc<NbdExport>> {
        self.0.iter()
    }
}
