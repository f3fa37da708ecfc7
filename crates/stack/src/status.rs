//! Reports of the layers of a volume, in use or being inspected, for callers that do not depend on a particular kind of
//! layer.

use forebay_device::Field;
use serde::{Deserialize, Serialize};

use crate::cache::{vitals, words};
use crate::files::{FilesCheck, FilesFacts, words as of_files};
use crate::lines::{Around, Lines};
use crate::space::words as of_space;
use crate::space::{SpaceCheck, SpaceItem, SpaceMode, SpaceStatus, SpaceVerdict};
use crate::vitals::Vitals;

/// Summary of a volume, from the view of its uppermost layer. In JSON it consists of the layer's fields.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Status {
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
    pub cache: forebay_dcd::Status,
    /// The layer that holds its data, if that is a layer and not a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<Box<Status>>,
}

/// Summary of a filesystem, and of its space.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FilesStatus {
    /// The filesystem.
    #[serde(flatten)]
    pub files: FilesFacts,
    /// The space, which only the filesystem uses.
    pub below: Box<Status>,
}

impl Status {
    /// Returns the status of the layer below, if any.
    pub fn below(&self) -> Option<&Status> {
        match self {
            Status::Cache(status) => status.below.as_deref(),
            Status::Space(_) => None,
            Status::Files(status) => Some(&status.below),
        }
    }

    /// Returns the state, in words, of the devices of a volume that was drained and detached.
    pub fn when_drained(&self) -> &'static str {
        match self {
            Status::Cache(CacheStatus { below: None, .. }) => "the data device is complete",
            Status::Cache(_) => {
                "its log holds nothing, and there is nothing to recover on its data device"
            }
            Status::Space(_) | Status::Files(_) => "there is nothing to recover on its device",
        }
    }

    /// Returns the definition of each field.
    pub fn fields(&self) -> &'static [Field] {
        match self {
            Status::Cache(_) => forebay_dcd::Status::FIELDS,
            Status::Space(_) => SpaceStatus::FIELDS,
            Status::Files(_) => FilesFacts::FIELDS,
        }
    }

    /// Returns the name of the volume's mode.
    pub fn mode(&self) -> &'static str {
        match self {
            Status::Cache(status) => status.cache.mode.name(),
            Status::Space(status) => status.mode.name(),
            Status::Files(status) => status.files.mode.name(),
        }
    }

    /// Returns all names that [`Status::mode`] can return.
    pub fn modes(&self) -> Vec<&'static str> {
        match self {
            Status::Cache(_) => forebay_dcd::Mode::ALL.map(forebay_dcd::Mode::name).into(),
            Status::Space(_) | Status::Files(_) => SpaceMode::ALL.map(SpaceMode::name).into(),
        }
    }

    /// Returns the reason for the mode, where it needs an explanation.
    pub fn mode_detail(&self) -> Option<&str> {
        match self {
            Status::Cache(status) => {
                let below = || status.below.as_ref()?.mode_detail();
                status.cache.mode_detail.as_deref().or_else(below)
            }
            Status::Space(status) => status.mode_detail.as_deref(),
            Status::Files(status) => status.files.mode_detail.as_deref(),
        }
    }

    /// Returns the volume's length in bytes.
    pub fn len_bytes(&self) -> u64 {
        match self {
            Status::Cache(status) => status.cache.len,
            Status::Space(status) => status.len,
            Status::Files(status) => status.files.len,
        }
    }

    /// Returns the bytes that have not reached their final place.
    pub fn dirty_bytes(&self) -> u64 {
        match self {
            Status::Cache(status) => status.cache.dirty_bytes,
            Status::Space(_) | Status::Files(_) => 0,
        }
    }

    /// Returns the dirty bytes that were written to the data device, but are not durable there yet.
    pub fn homeward_bytes(&self) -> u64 {
        match self {
            Status::Cache(status) => status.cache.homeward_bytes,
            Status::Space(_) | Status::Files(_) => 0,
        }
    }

    /// Returns the bytes that must still be zeroed or discarded on the data device.
    pub fn marked_bytes(&self) -> u64 {
        match self {
            Status::Cache(status) => status.cache.marked_bytes,
            Status::Space(_) | Status::Files(_) => 0,
        }
    }

    /// Returns the name of the present destage activity.
    pub fn doing(&self) -> &'static str {
        match self {
            Status::Cache(status) => status.cache.destaging.name(),
            Status::Space(_) | Status::Files(_) => "resting",
        }
    }

    /// Returns true if destaging is idle.
    pub fn is_resting(&self) -> bool {
        match self {
            Status::Cache(status) => status.cache.destaging == forebay_dcd::Destaging::Resting,
            Status::Space(_) | Status::Files(_) => true,
        }
    }

    /// Returns the lost bytes.
    pub fn lost_bytes(&self) -> u64 {
        match self {
            Status::Cache(status) => status.cache.damaged_bytes,
            Status::Space(_) | Status::Files(_) => 0,
        }
    }

    /// Returns the bytes that cannot be read now, but are not lost.
    pub fn unreadable_bytes(&self) -> u64 {
        match self {
            Status::Cache(status) => status.cache.unreadable_bytes,
            Status::Space(_) | Status::Files(_) => 0,
        }
    }

    /// Returns true while the device that data is brought to fails.
    pub fn drain_fails(&self) -> bool {
        match self {
            Status::Cache(status) => status.cache.mode == forebay_dcd::Mode::DataFailing,
            Status::Space(status) => status.mode == SpaceMode::Failed,
            Status::Files(status) => status.files.mode == SpaceMode::Failed,
        }
    }

    /// Describes the data that abandoning would affect; `None` if nothing can be abandoned.
    pub fn to_give_up(&self) -> Option<String> {
        match self {
            Status::Cache(status) => words::to_give_up(&status.cache),
            Status::Space(_) | Status::Files(_) => None,
        }
    }

    /// Returns the figures that are worth watching over time.
    pub fn vitals(&self) -> Vitals {
        match self {
            Status::Cache(status) => vitals::of(&status.cache),
            Status::Space(status) => of_space::vitals(status),
            Status::Files(status) => of_files::vitals(&status.files),
        }
    }

    /// Returns the status as lines for people. With the status of some seconds earlier, the lines include present
    /// rates.
    pub fn lines(&self, earlier: Option<(&Status, f64)>, around: &Around<'_>) -> Lines {
        match self {
            Status::Cache(status) => {
                let earlier = earlier.and_then(|(earlier, ago)| match earlier {
                    Status::Cache(earlier) => Some((&earlier.cache, ago)),
                    Status::Space(_) | Status::Files(_) => None,
                });
                let mut lines = words::status(&status.cache, earlier, around);
                if let Some(Status::Space(below)) = status.below.as_deref() {
                    lines.extend(of_space::below(below));
                }
                lines
            }
            Status::Space(status) => {
                let earlier = earlier.and_then(|(earlier, ago)| match earlier {
                    Status::Space(earlier) => Some((earlier, ago)),
                    Status::Cache(_) | Status::Files(_) => None,
                });
                of_space::status(status, earlier, around)
            }
            Status::Files(status) => {
                let earlier = earlier.and_then(|(earlier, ago)| match earlier {
                    Status::Files(earlier) => Some((&earlier.files, ago)),
                    Status::Cache(_) | Status::Space(_) => None,
                });
                let mut lines = of_files::status(&status.files, earlier, around);
                if let Status::Space(below) = &*status.below {
                    lines.extend(of_space::below(below));
                }
                lines
            }
        }
    }
}

/// Result of inspecting a volume that is not in use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
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
pub enum CheckReport {
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
    pub cache: forebay_dcd::CheckReport,
    /// On the device of the log-structured volume below, if it was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below: Option<Box<SpaceCheck>>,
}

impl CheckReport {
    /// Returns the verdict of the check.
    pub fn verdict(&self) -> Verdict {
        match self {
            CheckReport::Cache(report) => {
                let cache = match report.cache.verdict {
                    forebay_dcd::CheckVerdict::Clean => Verdict::Clean,
                    forebay_dcd::CheckVerdict::Dirty => Verdict::Dirty,
                    forebay_dcd::CheckVerdict::Damaged => Verdict::Damaged,
                };
                let below = report.below.as_ref().map(|below| of(below.verdict));
                below.map_or(cache, |below| cache.max(below))
            }
            CheckReport::Space(report) => of(report.verdict),
            CheckReport::Files(report) => of(report.space.verdict),
        }
    }

    /// Returns the report as lines for people.
    pub fn lines(&self) -> Vec<String> {
        match self {
            CheckReport::Cache(report) => {
                let mut lines = words::check(&report.cache);
                lines.extend(report.below.iter().flat_map(|below| of_space::check(below)));
                lines
            }
            CheckReport::Space(report) => of_space::check(report),
            CheckReport::Files(report) => of_files::check(report),
        }
    }
}

/// Converts the verdict on a log-structured volume.
fn of(verdict: SpaceVerdict) -> Verdict {
    match verdict {
        SpaceVerdict::Clean => Verdict::Clean,
        SpaceVerdict::Dirty => Verdict::Dirty,
        SpaceVerdict::Damaged => Verdict::Damaged,
    }
}

/// Report of salvaged data.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum SalvageReport {
    /// From a write cache's log.
    Cache(forebay_dcd::SalvageReport),
}

impl SalvageReport {
    /// Returns true if all lost data was found.
    pub fn is_whole(&self) -> bool {
        match self {
            SalvageReport::Cache(report) => report.lost_bytes == report.found_bytes,
        }
    }

    /// Returns the report as lines for people.
    pub fn lines(&self) -> Vec<String> {
        match self {
            SalvageReport::Cache(report) => words::salvaged(report),
        }
    }
}

/// A structure on a layer's devices.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum DumpItem {
    /// Of a write cache's log.
    Cache(forebay_dcd::DumpItem),
    /// Of a log-structured volume.
    Space(SpaceItem),
    /// Of a filesystem.
    Files(forebay_dfs::DumpItem),
}
