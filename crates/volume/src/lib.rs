//! From an administrator's configuration to a device that can be served.
//!
//! A path, perhaps of a part of a device, is a [`DeviceSpec`]. A volume's configuration file is a [`ConfigFile`] of a
//! [`LayerTree`] of layers. Both are only text until [`open()`] opens the devices, with all the checks that prevent mixing
//! them up. [`attach`] then puts the layers on the devices and returns a [`Layer`]. Commands and daemons use this
//! interface and do not depend on a particular kind of layer. The same holds for creating a volume ([`CreateSpec`]) and for
//! inspecting a volume that is not in use ([`SuperblockDevice`]). The layers are write caches (`cache/`) and log-structured volumes
//! (`space/`); a cache may be over a log-structured volume (`over/`). A filesystem (`files/`) is on a log-structured
//! space of its own, and offers files instead of a device.
//!
//! This crate reads devices only. The program reads and writes the text of configuration files.
//!
//! Reading order: `backend.rs`, `spec.rs`, `model.rs`, `options.rs`, `tree.rs`, `description.rs`, `open.rs`,
//! `mounting.rs`, `volume.rs`, `make.rs`, `content.rs`; `layer.rs`, `status.rs`, `vitals.rs`, `cache/`, `space/`,
//! `over/`, `files/`.

mod backend;
mod cache;
mod content;
mod description;
mod error;
mod files;
mod layer;
mod lines;
mod make;
mod model;
mod mounting;
mod not_done;
mod open;
mod option_texts;
mod options;
mod over;
mod space;
mod spec;
mod status;
mod text;
mod tree;
mod vitals;
mod volume;

pub use backend::{DeviceBackend, StorageIdentity};
pub use cache::{
    AcceptedFaults, AttachedLayer, DetectedLog, FailedLogFuture, FailedLogRegistry, VolumeId,
};
pub use content::{DeviceContent, probe};
pub use description::{ConfigFile, ConfigFileError, VolumeName, VolumeNameError};
pub use error::{ErrorCause, StackError};
pub use files::{
    FilesCheck, FilesFacts, FilesystemCounters, FilesystemCreateSpec, FilesystemRequestKind,
};
pub use forebay_dcd::AckMode;
pub use forebay_dfs::{FileTime, Fs, FsClock};
pub use layer::{
    DataLocation, DrainFailure, Layer, LayerFuture, LocatedExtent, ResizeReport, TuneReport,
};
pub use lines::{RenderContext, ReportLines};
pub use make::{CreateReport, CreateSpec, OpenedForCreate};
pub use model::{DiskModelSpec, ModelSpecError};
pub use mounting::{MountDir, MountOptionError, MountOptions};

pub use not_done::OperationError;
pub use open::{CacheDevices, OpenDevice, open_one, open_pair};
pub use options::{
    BypassSize, CacheOptions, FrontEndKind, HttpAddress, ListenAddress, ListenAddressError,
    MemoryLimit, MetricsAddress, ParseBypassError, ParseChoiceError, ParseMemoryError,
    SegmentDiscard, ServiceOptions,
};
pub use space::{
    NoSuchOption, ParseSpareError, RequestedPlacement, SpaceCheck, SpaceMode, SpaceOptions,
    SpaceStatus, SpaceVerdict, SpareShare,
};
pub use spec::{DeviceSpec, DeviceSpecError};
pub use status::{
    CacheCheck, CacheStatus, FilesStatus, LayerCheckReport, LayerDumpItem, LayerSalvageReport,
    LayerStatus, LayerVerdict,
};
pub use tree::{CacheTree, DEPTH_MAX, DeviceOrLayer, LayerKind, LayerTree, SpaceTree};
pub use vitals::{FlowCounters, LATENCY_BOUNDS_US, LatencySummary, RingUsage, VolumeVitals};
pub use volume::{
    SuperblockDevice, VolumeDevices, VolumeIdentity, attach, named_by, open, salvage,
};
