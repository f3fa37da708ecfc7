//! Reports of the layers of a volume, in use or being inspected, for callers that do not depend on a particular kind of
//! layer.

use forebay_device::ReportField;
use serde::{Deserialize, Serialize};

use crate::cache::{vitals, words};
use crate::files::{FilesCheck, FilesFacts, words as of_files};
use crate::lines::{RenderContext, ReportLines};
use crate::space::words as of_space;
use crate::space::{SpaceCheck, SpaceItem, SpaceMode, SpaceStatus, SpaceVerdict};
use crate::vitals::VolumeVitals;

/// Summary of a volume, from the view of its uppermost layer. In JSON it consists of the layer's fields.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LayerStatus {
    /// Of a write cache.
    Cache(CacheStatus),
    /// Of a log-structured volume.
    Space(SpaceStatus),
    /// Of a filesystem.
    Files(Box<FilesStatus>),
}

/// Summary of a write cache, and of the layer below.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CacheStatus {
    /// The cache.
    #[serde(flatten)]
    pub cache: forebay_dcd::DcdStatus,
    /// The layer that holds its data, if that is a layer and not a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<Box<LayerStatus>>,
}

/// Summary of a filesystem, and of its space.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FilesStatus {
    /// The filesystem.
    #[serde(flatten)]
    pub files: FilesFacts,
    /// The space, which only the filesystem uses.
    pub below: Box<LayerStatus>,
}

impl LayerStatus {
    /// Returns the status of the layer below, if any.
    pub fn below(&self) -> Option<&LayerStatus> {
        match self {
            LayerStatus::Cache(status) => status.below.as_deref(),
            LayerStatus::Space(_) => None,
            LayerStatus::Files(status) => Some(&status.below),
        }
    }

    /// Returns the state, in words, of the devices of a volume that was drained and detached.
    pub fn when_drained(&self) -> &'static str {
        match self {
            LayerStatus::Cache(CacheStatus { below: None, .. }) => "the data device is complete",
            LayerStatus::Cache(_) => "its log is empty, and its data device needs no recovery",
            LayerStatus::Space(_) | LayerStatus::Files(_) => "its device needs no recovery",
        }
    }

    /// Returns the definition of each field.
    pub fn fields(&self) -> &'static [ReportField] {
        match self {
            LayerStatus::Cache(_) => forebay_dcd::DcdStatus::FIELDS,
            LayerStatus::Space(_) => SpaceStatus::FIELDS,
            LayerStatus::Files(_) => FilesFacts::FIELDS,
        }
    }

    /// Returns the name of the layer's kind, as a label of metrics.
    pub fn layer_name(&self) -> &'static str {
        match self {
            LayerStatus::Cache(_) => "cache",
            LayerStatus::Space(_) => "volume",
            LayerStatus::Files(_) => "filesystem",
        }
    }

    /// Returns the name of the volume's mode.
    pub fn mode(&self) -> &'static str {
        match self {
            LayerStatus::Cache(status) => status.cache.mode.name(),
            LayerStatus::Space(status) => status.mode.name(),
            LayerStatus::Files(status) => status.files.mode.name(),
        }
    }

    /// Returns all names that [`LayerStatus::mode`] can return.
    pub fn modes(&self) -> Vec<&'static str> {
        match self {
            LayerStatus::Cache(_) => forebay_dcd::CacheMode::ALL
                .map(forebay_dcd::CacheMode::name)
                .into(),
            LayerStatus::Space(_) | LayerStatus::Files(_) => {
                SpaceMode::ALL.map(SpaceMode::name).into()
            }
        }
    }

    /// Returns the reason for the mode, where it needs an explanation.
    pub fn mode_detail(&self) -> Option<&str> {
        match self {
            LayerStatus::Cache(status) => {
                let below = || status.below.as_ref()?.mode_detail();
                status.cache.mode_detail.as_deref().or_else(below)
            }
            LayerStatus::Space(status) => status.mode_detail.as_deref(),
            LayerStatus::Files(status) => status.files.mode_detail.as_deref(),
        }
    }

    /// Returns the volume's length in bytes.
    pub fn len_bytes(&self) -> u64 {
        match self {
            LayerStatus::Cache(status) => status.cache.len,
            LayerStatus::Space(status) => status.len,
            LayerStatus::Files(status) => status.files.len,
        }
    }

    /// Returns the bytes that have not reached their final place.
    pub fn dirty_bytes(&self) -> u64 {
        match self {
            LayerStatus::Cache(status) => status.cache.dirty_bytes,
            LayerStatus::Space(_) | LayerStatus::Files(_) => 0,
        }
    }

    /// Returns the dirty bytes that were written to the data device, but are not durable there yet.
    pub fn homeward_bytes(&self) -> u64 {
        match self {
            LayerStatus::Cache(status) => status.cache.homeward_bytes,
            LayerStatus::Space(_) | LayerStatus::Files(_) => 0,
        }
    }

    /// Returns the bytes that must still be zeroed or discarded on the data device.
    pub fn marked_bytes(&self) -> u64 {
        match self {
            LayerStatus::Cache(status) => status.cache.marked_bytes,
            LayerStatus::Space(_) | LayerStatus::Files(_) => 0,
        }
    }

    /// Returns the name of the present destage activity.
    pub fn doing(&self) -> &'static str {
        match self {
            LayerStatus::Cache(status) => status.cache.destaging.name(),
            LayerStatus::Space(_) | LayerStatus::Files(_) => "resting",
        }
    }

    /// Returns true if destaging is idle.
    pub fn is_resting(&self) -> bool {
        match self {
            LayerStatus::Cache(status) => {
                status.cache.destaging == forebay_dcd::DestageActivity::Resting
            }
            LayerStatus::Space(_) | LayerStatus::Files(_) => true,
        }
    }

    /// Returns the lost bytes.
    pub fn lost_bytes(&self) -> u64 {
        match self {
            LayerStatus::Cache(status) => status.cache.damaged_bytes,
            LayerStatus::Space(_) | LayerStatus::Files(_) => 0,
        }
    }

    /// Returns the bytes that cannot be read now, but are not lost.
    pub fn unreadable_bytes(&self) -> u64 {
        match self {
            LayerStatus::Cache(status) => status.cache.unreadable_bytes,
            LayerStatus::Space(_) | LayerStatus::Files(_) => 0,
        }
    }

    /// Returns true while the device that data is brought to fails.
    pub fn drain_fails(&self) -> bool {
        match self {
            LayerStatus::Cache(status) => status.cache.mode == forebay_dcd::CacheMode::DataFailing,
            LayerStatus::Space(status) => status.mode == SpaceMode::Failed,
            LayerStatus::Files(status) => status.files.mode == SpaceMode::Failed,
        }
    }

    /// Describes the data that abandoning would affect; `None` if nothing can be abandoned.
    pub fn to_give_up(&self) -> Option<String> {
        match self {
            LayerStatus::Cache(status) => words::to_give_up(&status.cache),
            LayerStatus::Space(_) | LayerStatus::Files(_) => None,
        }
    }

    /// Returns the figures that are worth watching over time.
    pub fn vitals(&self) -> VolumeVitals {
        match self {
            LayerStatus::Cache(status) => vitals::of(&status.cache),
            LayerStatus::Space(status) => of_space::vitals(status),
            LayerStatus::Files(status) => of_files::vitals(&status.files),
        }
    }

    /// Returns the status as lines for people. With the status of some seconds earlier, the lines include present
    /// rates.
    pub fn lines(
        &self,
        earlier: Option<(&LayerStatus, f64)>,
        around: &RenderContext<'_>,
    ) -> ReportLines {
        match self {
            LayerStatus::Cache(status) => {
                let earlier = earlier.and_then(|(earlier, ago)| match earlier {
                    LayerStatus::Cache(earlier) => Some((&earlier.cache, ago)),
                    LayerStatus::Space(_) | LayerStatus::Files(_) => None,
                });
                let mut lines = words::status(&status.cache, earlier, around);
                if let Some(LayerStatus::Space(below)) = status.below.as_deref() {
                    lines.extend(of_space::below(below));
                }
                lines
            }
            LayerStatus::Space(status) => {
                let earlier = earlier.and_then(|(earlier, ago)| match earlier {
                    LayerStatus::Space(earlier) => Some((earlier, ago)),
                    LayerStatus::Cache(_) | LayerStatus::Files(_) => None,
                });
                of_space::status(status, earlier, around)
            }
            LayerStatus::Files(status) => {
                let earlier = earlier.and_then(|(earlier, ago)| match earlier {
                    LayerStatus::Files(earlier) => Some((&earlier.files, ago)),
                    LayerStatus::Cache(_) | LayerStatus::Space(_) => None,
                });
                let mut lines = of_files::status(&status.files, earlier, around);
                if let LayerStatus::Space(below) = &*status.below {
                    lines.extend(of_space::below(below));
                }
                lines
            }
        }
    }
}

/// Result of inspecting a volume that is not in use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LayerVerdict {
    /// Recovery has nothing to do.
    Clean,
    /// Attaching the volume will recover data.
    Dirty,
    /// Some structure is missing, damaged, or does not belong to the volume.
    Damaged,
}

/// Findings of a check of a volume's devices.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum LayerCheckReport {
    /// On a write cache's log.
    Cache(CacheCheck),
    /// On a log-structured volume's device.
    Space(SpaceCheck),
    /// On a filesystem's device.
    Files(Box<FilesCheck>),
}

/// Findings of a check of a write cache and of the layer below.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CacheCheck {
    /// On the log.
    #[serde(flatten)]
    pub cache: forebay_dcd::DcdCheckReport,
    /// On the device of the log-structured volume below, if it was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below: Option<Box<SpaceCheck>>,
}

impl LayerCheckReport {
    /// Returns the verdict of the check.
    pub fn verdict(&self) -> LayerVerdict {
        match self {
            LayerCheckReport::Cache(report) => {
                let cache = match report.cache.verdict {
                    forebay_dcd::CheckVerdict::Clean => LayerVerdict::Clean,
                    forebay_dcd::CheckVerdict::Dirty => LayerVerdict::Dirty,
                    forebay_dcd::CheckVerdict::Damaged => LayerVerdict::Damaged,
                };
                let below = report.below.as_ref().map(|below| of(below.verdict));
                below.map_or(cache, |below| cache.max(below))
            }
            LayerCheckReport::Space(report) => of(report.verdict),
            LayerCheckReport::Files(report) => of(report.space.verdict),
        }
    }

    /// Returns the report as lines for people.
    pub fn lines(&self) -> Vec<String> {
        match self {
            LayerCheckReport::Cache(report) => {
                let mut lines = words::check(&report.cache);
                lines.extend(report.below.iter().flat_map(|below| of_space::check(below)));
                lines
            }
            LayerCheckReport::Space(report) => of_space::check(report),
            LayerCheckReport::Files(report) => of_files::check(report),
        }
    }
}

/// Converts the verdict on a log-structured volume.
fn of(verdict: SpaceVerdict) -> LayerVerdict {
    match verdict {
        SpaceVerdict::Clean => LayerVerdict::Clean,
        SpaceVerdict::Dirty => LayerVerdict::Dirty,
        SpaceVerdict::Damaged => LayerVerdict::Damaged,
    }
}

/// Report of salvaged data.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum LayerSalvageReport {
    /// From a write cache's log.
    Cache(forebay_dcd::LogSalvageReport),
}

impl LayerSalvageReport {
    /// Returns true if all lost data was found.
    pub fn is_whole(&self) -> bool {
        match self {
            LayerSalvageReport::Cache(report) => report.lost_bytes == report.found_bytes,
        }
    }

    /// Returns the report as lines for people.
    pub fn lines(&self) -> Vec<String> {
        match self {
            LayerSalvageReport::Cache(report) => words::salvaged(report),
        }
    }
}

/// A structure on a layer's devices.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum LayerDumpItem {
    /// Of a write cache's log.
    Cache(forebay_dcd::LogDumpItem),
    /// Of a log-structured volume.
    Space(SpaceItem),
    /// Of a filesystem.
    Files(forebay_dfs::FsDumpItem),
}
