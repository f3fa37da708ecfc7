//! From an administrator's configuration to a device that can be served.
//!
//! A path, perhaps of a part of a device, is a [`DeviceSpec`]. A volume's configuration file is a [`ConfigFile`] of a
//! [`LayerTree`] of layers. Both are only text until [`open()`] opens the devices, with all the checks that prevent mixing
//! them up. [`OpenVolume::attach`] then puts the layers on the devices and returns a [`Layer`]. Commands and daemons use
//! this interface and do not depend on a particular kind of volume. The same holds for creating a volume
//! ([`CreateSpec`]) and for inspecting a volume that is not attached ([`SuperblockDevice`]).
//!
//! Each kind of volume is a directory under `kinds/`, with an implementation of [`VolumeKind`], and a row in
//! `registry.rs`. Each option is declared once, in `options/` or in the directory of its kind.
//!
//! This crate reads devices only. The program reads and writes the text of configuration files.
//!
//! Reading order: `backend.rs`, `spec.rs`, `model.rs`, `open.rs`; `options/`, `tree.rs`, `config_file.rs`, `config_edit.rs`,
//! `mounting.rs`; `kind_spec.rs`, `kind.rs`, `layer.rs`, `new_log.rs`, `replacing.rs`, `report.rs`, `health.rs`, `vitals.rs`, `one_device.rs`, `closing.rs`;
//! `scrub/`; `kinds/cache/`, `kinds/space/`, `kinds/files/`; `registry.rs`, `open_volume.rs`, `create.rs`, `content.rs`.

mod backend;
mod closing;
mod config_edit;
mod config_file;
mod content;
mod create;
mod create_spec;
mod error;
mod error_cause;
mod exact;
mod filesystem_counters;
mod health;
mod held;
mod kind;
mod kind_spec;
mod kinds;
mod layer;
mod model;
mod mounting;
mod name;
mod new_log;
mod one_device;
mod open;
mod open_volume;
mod operation_error;
mod options;

mod placement;
mod read_report;
mod registry;
mod render;
mod replacing;
mod report;
mod scrub;
mod spec;
mod tree;
mod vitals;

pub use backend::{DeviceBackend, StorageIdentity};
pub use config_edit::with_log;
pub use config_file::{ConfigFile, ConfigFileError};
pub use content::{DeviceContent, probe};
pub use create::OpenedForCreate;
pub use create_spec::{CreateReport, CreateSpec};
pub use error::{KindError, VolumeError};
pub use error_cause::ErrorCause;
pub use filesystem_counters::FilesystemCounters;
pub use forebay_dcd::DestageActivity;
pub use forebay_device::{
    AckMode, CheckVerdict, DataLocation, LocatedExtent, ScrubArea, ScrubFault, ScrubFaultKind,
};
pub use forebay_dfs::{FileTime, Fs, FsClock};
pub use health::{HealthFinding, HealthSeverity, ServiceFaults, VolumeHealth};
pub use kind::{
    AcceptedFaults, AttachContext, AttachedLayer, CheckContext, CreateContext, FoundLog,
    FoundVolume, NewIdentity, OpenedVolume, ProgressSink, VolumeCreation, VolumeIdentity,
    VolumeKind,
};
pub use kind_spec::{DeviceRole, KindSpec, PlacementChoice, ServedAs};
pub use kinds::cache::{FailedLogFuture, FailedLogRegistry, FormerLog, VolumeId};
pub use kinds::files::FilesFacts;
pub use kinds::space::{ParseSpareError, SpaceMode, SpaceStatus, SpareShare};
pub use layer::{
    DrainFailure, Layer, LayerFuture, LogRecording, LogReplacementReport, ResizeReport, TuneReport,
};
pub use model::{DiskModelSpec, ModelSpecError};
pub use mounting::{MountDir, MountOptionError, MountOptions};
pub use name::{VolumeName, VolumeNameError};
pub use new_log::NewLog;
pub use open::{OpenContext, OpenDevice, open_one};
pub use open_volume::{OpenVolume, SuperblockDevice, open, own_device};
pub use operation_error::OperationError;
pub use options::page::options_page;
pub use options::service::{
    BOOT, HTTP, LISTEN, MEMORY, METRICS, MOUNT, MOUNT_OPTIONS, VIA, boot_keys, mount_keys,
    service_options,
};
pub use options::values::{
    BootAttach, BypassSize, FrontEndKind, HttpAddress, ListenAddress, ListenAddressError,
    MemoryLimit, MetricsAddress, ParseBypassError, ParseChoiceError, ParseMemoryError,
    SegmentDiscard,
};
pub use options::{FormerOption, OptionKey, OptionRow, OptionSpec, OptionValueError, OptionValues};
pub use placement::RequestedPlacement;
pub use registry::{DEFAULT_KIND, FILESYSTEM, LOG_STRUCTURED, UnknownKind, kind_named, kind_specs};
pub use render::{RenderContext, ReportLines};
pub use report::{
    LayerCheckReport, LayerDumpItem, LayerReport, LayerSalvageReport, LayerStatus, StatusSummary,
};
pub use scrub::run::scrub;
pub use scrub::state::{ScrubFaults, ScrubPhase, ScrubState};
pub use spec::{DeviceSpec, DeviceSpecError};
pub use tree::{DEPTH_MAX, DeviceMap, DeviceOrLayer, LayerTree, NoSuchOption};
pub use vitals::{FlowCounters, LATENCY_BOUNDS_US, LatencySummary, RingUsage, VolumeVitals};
