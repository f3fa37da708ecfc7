//! What the layers of a volume say of themselves, for those who know no layer: the reports of a volume in
//! use, and of one that is looked at.

use forebay_device::Field;
use serde::{Deserialize, Serialize};

use crate::cache::{vitals, words};
use crate::files::{FilesCheck, FilesFacts, words as of_files};
use crate::lines::{Around, Lines};
use crate::space::words as of_space;
use crate::space::{SpaceCheck, SpaceItem, SpaceMode, SpaceStatus, SpaceVerdict};
use crate::vitals::Vitals;

/// A volume at a glance, as its uppermost layer sees it. In JSON it is the layer's fields.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Status {
    /// A write cache's.
    Cache(CacheStatus),
    /// A log-structured volume's.
    Space(SpaceStatus),
    /// A filesystem's.
    Files(Box<FilesStatus>),
}

/// A write cache at a glance, with what it is over.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CacheStatus {
    /// The cache.
    #[serde(flatten)]
    pub cache: forebay_dcd::Status,
    /// The layer that its data is on, if that is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<Box<Status>>,
}

/// A filesystem at a glance, and the space that it is on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FilesStatus {
    /// The filesystem.
    #[serde(flatten)]
    pub files: FilesFacts,
    /// The space, of which nothing is asked but by the filesystem.
    pub below: Box<Status>,
}

impl Status {
    /// The layer below, if there is one.
    pub fn below(&self) -> Option<&Status> {
        match self {
            Status::Cache(status) => status.below.as_deref(),
            Status::Space(_) => None,
            Status::Files(status) => Some(&status.below),
        }
    }

    /// What to know of a volume that was drained and detached, in words.
    pub fn when_drained(&self) -> &'static str {
        match self {
            Status::Cache(CacheStatus { below: None, .. }) => "the data device is complete",
            Status::Cache(_) => {
                "its log holds nothing, and there is nothing to recover on its data device"
            }
            Status::Space(_) | Status::Files(_) => "there is nothing to recover on its device",
        }
    }

    /// What each field is.
    pub fn fields(&self) -> &'static [Field] {
        match self {
            Status::Cache(_) => forebay_dcd::Status::FIELDS,
            Status::Space(_) => SpaceStatus::FIELDS,
            Status::Files(_) => FilesFacts::FIELDS,
        }
    }

    /// What the volume is doing, in a word.
    pub fn mode(&self) -> &'static str {
        match self {
            Status::Cache(status) => status.cache.mode.name(),
            Status::Space(status) => status.mode.name(),
            Status::Files(status) => status.files.mode.name(),
        }
    }

    /// All that [`Status::mode`] may be.
    pub fn modes(&self) -> Vec<&'static str> {
        match self {
            Status::Cache(_) => forebay_dcd::Mode::ALL.map(forebay_dcd::Mode::name).into(),
            Status::Space(_) | Status::Files(_) => SpaceMode::ALL.map(SpaceMode::name).into(),
        }
    }

    /// Why it does that, where that needs saying.
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

    /// The volume's length in bytes.
    pub fn len_bytes(&self) -> u64 {
        match self {
            Status::Cache(status) => status.cache.len,
            Status::Space(status) => status.len,
            Status::Files(status) => status.files.len,
        }
    }

    /// What is not where it is to stay yet, in bytes.
    pub fn dirty_bytes(&self) -> u64 {
        match self {
            Status::Cache(status) => status.cache.dirty_bytes,
            Status::Space(_) | Status::Files(_) => 0,
        }
    }

    /// The part of it that was written there, and is not durable there yet, in bytes.
    pub fn homeward_bytes(&self) -> u64 {
        match self {
            Status::Cache(status) => status.cache.homeward_bytes,
            Status::Space(_) | Status::Files(_) => 0,
        }
    }

    /// What is still to be zeroed or discarded there, in bytes.
    pub fn marked_bytes(&self) -> u64 {
        match self {
            Status::Cache(status) => status.cache.marked_bytes,
            Status::Space(_) | Status::Files(_) => 0,
        }
    }

    /// What is being done to bring all that there, in a word.
    pub fn doing(&self) -> &'static str {
        match self {
            Status::Cache(status) => status.cache.destaging.name(),
            Status::Space(_) | Status::Files(_) => "resting",
        }
    }

    /// True if nothing is done just now to bring anything there.
    pub fn is_resting(&self) -> bool {
        match self {
            Status::Cache(status) => status.cache.destaging == forebay_dcd::Destaging::Resting,
            Status::Space(_) | Status::Files(_) => true,
        }
    }

    /// What is lost, in bytes.
    pub fn lost_bytes(&self) -> u64 {
        match self {
            Status::Cache(status) => status.cache.damaged_bytes,
            Status::Space(_) | Status::Files(_) => 0,
        }
    }

    /// What cannot be read now and is not lost, in bytes.
    pub fn unreadable_bytes(&self) -> u64 {
        match self {
            Status::Cache(status) => status.cache.unreadable_bytes,
            Status::Space(_) | Status::Files(_) => 0,
        }
    }

    /// True while the device that things are to be brought to fails.
    pub fn drain_fails(&self) -> bool {
        match self {
            Status::Cache(status) => status.cache.mode == forebay_dcd::Mode::DataFailing,
            Status::Space(status) => status.mode == SpaceMode::Failed,
            Status::Files(status) => status.files.mode == SpaceMode::Failed,
        }
    }

    /// What giving up would be about, in words; none if there is nothing to give up.
    pub fn to_give_up(&self) -> Option<String> {
        match self {
            Status::Cache(status) => words::to_give_up(&status.cache),
            Status::Space(_) | Status::Files(_) => None,
        }
    }

    /// What of it is worth watching as time goes by.
    pub fn vitals(&self) -> Vitals {
        match self {
            Status::Cache(status) => vitals::of(&status.cache),
            Status::Space(status) => of_space::vitals(status),
            Status::Files(status) => of_files::vitals(&status.files),
        }
    }

    /// All this for people; with what it was some seconds earlier, also what happens now.
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

/// What looking at a volume that is not in use came to, in a word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// There is nothing to recover.
    Clean,
    /// Attaching recovers something.
    Dirty,
    /// Something is missing, damaged, or does not belong together.
    Damaged,
}

/// What a check of a volume's devices found.
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

/// What a check of a write cache found, and of what it is over.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CacheCheck {
    /// On its log.
    #[serde(flatten)]
    pub cache: forebay_dcd::CheckReport,
    /// On the device of the log-structured volume below, if it was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below: Option<Box<SpaceCheck>>,
}

impl CheckReport {
    /// In a word.
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

    /// For people, line by line.
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

/// The verdict on a log-structured volume.
fn of(verdict: SpaceVerdict) -> Verdict {
    match verdict {
        SpaceVerdict::Clean => Verdict::Clean,
        SpaceVerdict::Dirty => Verdict::Dirty,
        SpaceVerdict::Damaged => Verdict::Damaged,
    }
}

/// What was brought back of what was lost.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum SalvageReport {
    /// From a write cache's log.
    Cache(forebay_dcd::SalvageReport),
}

impl SalvageReport {
    /// True if nothing is missing any more.
    pub fn is_whole(&self) -> bool {
        match self {
            SalvageReport::Cache(report) => report.lost_bytes == report.found_bytes,
        }
    }

    /// For people, line by line.
    pub fn lines(&self) -> Vec<String> {
        match self {
            SalvageReport::Cache(report) => words::salvaged(report),
        }
    }
}

/// One structure on a layer's devices.
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
