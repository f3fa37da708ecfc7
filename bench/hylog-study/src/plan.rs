//! The experiments of the study.

pub(crate) mod modern;

use forebay_placement::placement::PlacementKind;

use crate::experiment::{ExperimentPoint, StudyExperiment, WorkloadSpec};
use crate::medium::{DiskArray, MediumKind, PIECE_BYTES, StudyDisk, StudyMedium};
use crate::run::Effort;
use crate::system::StudySystem;
use crate::workload::{PAGE_BYTES, Skew, StudyTrace, TracedWorkload};

/// Extent of the measurements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StudyScale {
    /// The whole study.
    Full,
    /// A part that takes a few minutes.
    Quick,
}

/// Utilisation of the slides' comparisons.
const SLIDES: f64 = 0.98;
/// Utilisation at which a log has some free space.
const ROOMY: f64 = 0.8;
/// Utilisation at which a log must clean much.
const FULL: f64 = 0.9;
/// Utilisation slightly above [`FULL`].
const TIGHT: f64 = 0.92;
/// Minimum utilisation for large devices. On large devices, the fixed number of free segments is small relative to the
/// free share.
const LARGE_FROM: f64 = 0.95;
/// Bytes of large devices: of segments above 1 MiB, and others. No disk of 1999 has more.
const LARGE_BYTES: u64 = 10 << 30;
const LARGE_DISK_BYTES: u64 = 8 << 30;
/// See [`Effort::turned_over_max`]: for a placement that learns nothing.
const UNLEARNED_TURNED_OVER: f64 = 3.0;
/// Effort on large devices, see [`Effort`].
const LARGE_REWRITTEN: f64 = 1.75;
const LARGE_TURNED_OVER: f64 = 6.0;
const LARGE_MEASURED: f64 = 0.1;
/// Minimum bytes of a disk's part of a segment.
const PIECE_MIN: u64 = 256 << 10;
/// Numbers of users and disks in the slides' comparisons.
const USERS: usize = 20;
const DISKS: u32 = 4;

/// The systems of the slides' comparisons, and further systems.
const SYSTEMS: [StudySystem; 7] = [
    StudySystem::Plain,
    StudySystem::Volume(PlacementKind::Lfs),
    StudySystem::Volume(PlacementKind::Wolf),
    StudySystem::Volume(PlacementKind::HyLog),
    StudySystem::Volume(PlacementKind::SepBit),
    StudySystem::Volume(PlacementKind::HyLogSepBit),
    StudySystem::Auto,
];

impl StudyScale {
    /// Returns the number of a device's segments.
    fn segments(self) -> u64 {
        match self {
            StudyScale::Full => 1536,
            StudyScale::Quick => 192,
        }
    }

    /// Returns the maximum number of pages that a recorded workload touches.
    pub fn trace_pages(self) -> usize {
        let bytes = ROOMY * (self.segments() * PIECE_BYTES) as f64;
        (bytes / PAGE_BYTES as f64) as usize
    }

    /// Returns the effort of a run on a device of usual length.
    fn effort(self) -> Effort {
        match self {
            StudyScale::Full => Effort {
                turned_over: 1.0,
                // HyLog needs the first pass for counting. Then it must separate the pages, and measure the cost.
                rewritten: 2.0,
                turned_over_max: f64::INFINITY,
                measured: 0.5,
                requests: 10_000,
                page_requests_max: 8,
            },
            StudyScale::Quick => Effort {
                turned_over: 1.0,
                rewritten: 0.2,
                turned_over_max: f64::INFINITY,
                measured: 0.5,
                requests: 1500,
                page_requests_max: 2,
            },
        }
    }

    /// Returns the effort of a run on a device of this length. On a large device, a log that cleans at a utilisation of
    /// 98 % would write a terabyte before users have overwritten their data. LFS and WOLF learn nothing from overwrites.
    pub(crate) fn effort_for(self, bytes: u64, under: StudySystem) -> Effort {
        let mut effort = self.effort();
        let lfs = StudySystem::Volume(PlacementKind::Lfs);
        let wolf = StudySystem::Volume(PlacementKind::Wolf);
        if self == StudyScale::Full && (under == lfs || under == wolf) {
            effort.turned_over_max = UNLEARNED_TURNED_OVER;
        }
        if bytes < LARGE_DISK_BYTES {
            return effort;
        }
        Effort {
            rewritten: LARGE_REWRITTEN,
            turned_over_max: effort.turned_over_max.min(LARGE_TURNED_OVER),
            measured: LARGE_MEASURED,
            ..effort
        }
    }

    fn of<T: Clone>(self, full: &[T], quick: &[T]) -> Vec<T> {
        match self {
            StudyScale::Full => full.to_vec(),
            StudyScale::Quick => quick.to_vec(),
        }
    }
}

fn array(disks: u32) -> DiskArray {
    match disks {
        1 => DiskArray::One,
        disks => DiskArray::Stripes(disks),
    }
}

/// Returns a device for this utilisation. Its segments have [`PIECE_BYTES`], of which each disk has a part of at least
/// [`PIECE_MIN`].
fn medium(scale: StudyScale, model: StudyDisk, array: DiskArray, utilisation: f64) -> StudyMedium {
    let piece = (PIECE_BYTES / array.holds()).max(PIECE_MIN);
    let bytes = match (utilisation >= LARGE_FROM, piece * array.holds()) {
        (true, ..=PIECE_BYTES) => LARGE_DISK_BYTES,
        (true, _) => LARGE_BYTES,
        (false, _) => scale.segments() * PIECE_BYTES,
    };
    StudyMedium {
        kind: MediumKind::Disks,
        model,
        array,
        piece,
        segments: bytes / (piece * array.holds()),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// Returns a point like in the slides' comparisons: TPC-C, 20 users, disks of 1999.
fn place_of(
    scale: StudyScale,
    name: impl Into<String>,
    array: DiskArray,
    utilisation: f64,
) -> ExperimentPoint {
    ExperimentPoint {
        name: name.into(),
        medium: medium(scale, StudyDisk::Of1999, array, utilisation),
        utilisation,
        what: WorkloadSpec::TpcC,
        users: USERS,
    }
}

/// Returns all experiments.
pub fn experiments(
    scale: StudyScale,
    traces: &[(StudyTrace, Result<TracedWorkload, String>)],
) -> Vec<StudyExperiment> {
    let mut all = Vec::new();
    all.extend(crossovers(scale));
    all.push(utilisation(scale));
    all.extend(disk_types(scale));
    for full in scale.of(&[SLIDES, FULL, ROOMY], &[ROOMY]) {
        all.push(users(scale, full));
        all.push(disks(scale, full));
    }
    all.extend((scale == StudyScale::Full).then(|| users_and_disks(scale)));
    all.push(parity(scale));
    all.push(other_traces(scale, traces));
    all.push(beyond(scale));
    all.extend(modern::experiments(scale, traces));
    all
}

/// Returns uniform updates by one user, on one disk of each year in the slides' table.
fn crossovers(scale: StudyScale) -> Vec<StudyExperiment> {
    let one = |key: &'static str, model: StudyDisk, piece: u64| {
        let place = |utilisation: &f64| ExperimentPoint {
            name: percent(*utilisation),
            medium: StudyMedium {
                kind: MediumKind::Disks,
                model,
                array: DiskArray::One,
                piece,
                segments: scale.segments() * (PIECE_BYTES / piece).min(2),
            },
            utilisation: *utilisation,
            what: WorkloadSpec::Drawn(Skew::Uniform, 0),
            users: 1,
        };
        let full = [0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.94, 0.97];
        StudyExperiment {
            key,
            title: format!("Even updates on the disk of {}", model.name()),
            axis: "utilisation",
            about: "One user writes pages drawn evenly (the slides: TPC-B), and reads nothing."
                .into(),
            places: scale
                .of(&full, &[0.5, 0.7, 0.85])
                .iter()
                .map(place)
                .collect(),
            systems: vec![StudySystem::Plain, StudySystem::Volume(PlacementKind::Lfs)],
        }
    };
    let models = [
        // These segment sizes reproduce the slides' crossovers.
        ("even-1991", StudyDisk::Of1991, 128 << 10),
        ("even-1999", StudyDisk::Of1999, PIECE_BYTES),
        ("even-2003", StudyDisk::Of2003, PIECE_BYTES),
    ];
    let models = scale.of(&models, &models[1..2]);
    models
        .into_iter()
        .map(|(key, model, piece)| one(key, model, piece))
        .collect()
}

fn utilisation(scale: StudyScale) -> StudyExperiment {
    let full = [0.5, 0.7, 0.8, 0.85, FULL, TIGHT, LARGE_FROM, SLIDES];
    let place = |full: &f64| place_of(scale, percent(*full), array(DISKS), *full);
    StudyExperiment {
        key: "utilisation",
        title: "Disk space utilisation (slide 21)".into(),
        axis: "utilisation",
        about: "TPC-C, 20 users, 4 disks of 1999.".into(),
        places: scale.of(&full, &[0.5, 0.8]).iter().map(place).collect(),
        systems: SYSTEMS.into(),
    }
}

fn disk_types(scale: StudyScale) -> Vec<StudyExperiment> {
    let one = |key: &'static str, model: StudyDisk| {
        let place = |full: &f64| ExperimentPoint {
            medium: medium(scale, model, array(DISKS), *full),
            ..place_of(scale, percent(*full), array(DISKS), *full)
        };
        let full = [ROOMY, FULL, SLIDES];
        StudyExperiment {
            key,
            title: format!("The disk of {} (slides 22 and 23)", model.name()),
            axis: "utilisation",
            about: "TPC-C, 20 users, 4 disks.".into(),
            places: scale.of(&full, &[ROOMY]).iter().map(place).collect(),
            systems: SYSTEMS.into(),
        }
    };
    vec![
        one("disk-2003", StudyDisk::Of2003),
        one("disk-2008", StudyDisk::Of2008),
    ]
}

/// Returns the key of an experiment with several utilisations, and the utilisation's text in its title.
fn keyed(
    [slides, full, roomy]: [&'static str; 3],
    slide: &str,
    utilisation: f64,
) -> (&'static str, String) {
    let said = percent(utilisation);
    match utilisation {
        SLIDES => (slides, format!("{said} in use ({slide})")),
        FULL => (full, format!("{said} in use")),
        _ => (roomy, format!("{said} in use")),
    }
}

fn users(scale: StudyScale, utilisation: f64) -> StudyExperiment {
    let place = |users: &usize| ExperimentPoint {
        users: *users,
        ..place_of(scale, users.to_string(), array(DISKS), utilisation)
    };
    let keys = ["users-98", "users-90", "users-80"];
    let (key, said) = keyed(keys, "slide 24", utilisation);
    StudyExperiment {
        key,
        title: format!("Users, {said}"),
        axis: "users",
        about: "TPC-C, 4 disks of 1999.".into(),
        places: scale.of(&[1, 5, 80], &[1, 40]).iter().map(place).collect(),
        systems: SYSTEMS.into(),
    }
}

fn disks(scale: StudyScale, utilisation: f64) -> StudyExperiment {
    let place = |disks: &u32| place_of(scale, disks.to_string(), array(*disks), utilisation);
    let keys = ["disks-98", "disks-90", "disks-80"];
    let (key, said) = keyed(keys, "slide 25", utilisation);
    StudyExperiment {
        key,
        title: format!("Disks, {said}"),
        axis: "disks",
        about: "TPC-C, 20 users, disks of 1999, striped.".into(),
        places: scale.of(&[1, 2, 8], &[1, 8]).iter().map(place).collect(),
        systems: SYSTEMS.into(),
    }
}

fn users_and_disks(scale: StudyScale) -> StudyExperiment {
    let place = |(full, users, disks): (f64, usize, u32)| ExperimentPoint {
        users,
        ..place_of(
            scale,
            format!("{users} × {disks}, {}", percent(full)),
            array(disks),
            full,
        )
    };
    let all =
        [SLIDES, FULL].map(|full| [1, 80].map(|users| [1, 8].map(|disks| (full, users, disks))));
    StudyExperiment {
        key: "users-disks",
        title: "Users and disks (slide 31)".into(),
        axis: "users × disks",
        about: "TPC-C, disks of 1999, striped.".into(),
        places: all
            .as_flattened()
            .as_flattened()
            .iter()
            .copied()
            .map(place)
            .collect(),
        systems: SYSTEMS.into(),
    }
}

fn parity(scale: StudyScale) -> StudyExperiment {
    let kinds = [
        ("RAID-0 (8)", DiskArray::Stripes(8)),
        ("RAID-5 (9)", DiskArray::Parity(9)),
    ];
    let full = scale.of(&[ROOMY, FULL, SLIDES], &[ROOMY]);
    let all = full.iter().map(|full| {
        kinds.map(|(name, array)| {
            place_of(scale, format!("{name}, {}", percent(*full)), array, *full)
        })
    });
    StudyExperiment {
        key: "raid",
        title: "RAID-5 against RAID-0 (slide 26)".into(),
        axis: "array",
        about: "TPC-C, 20 users, disks of 1999: 8 without parity, and 9 with it.".into(),
        places: all.flatten().collect(),
        systems: SYSTEMS.into(),
    }
}

fn other_traces(
    scale: StudyScale,
    traces: &[(StudyTrace, Result<TracedWorkload, String>)],
) -> StudyExperiment {
    let mut places = Vec::new();
    let mut missing = Vec::new();
    for (recorded, traced) in traces {
        match traced {
            Err(why) => missing.push(format!("{}: {why}", recorded.name())),
            Ok(traced) => {
                for utilisation in scale.of(&[ROOMY, FULL, SLIDES], &[ROOMY]) {
                    let name = format!("{}, {}", recorded.name(), percent(utilisation));
                    let place = ExperimentPoint {
                        users: scale.of(&[USERS], &[8])[0],
                        ..place_of(scale, name, DiskArray::One, utilisation)
                    };
                    places.push(place.of_trace(traced, *recorded));
                }
            }
        }
    }
    let mut about = "Recorded requests, not the slides' traces, on one disk of 1999. They are short: each user \
                     repeats a copy of its own (several users one, where copies would be too many), and the disk \
                     is as large as all that is ever touched needs. Of long ones the beginning is taken. Devices \
                     that a trace tells apart are taken for one."
        .to_owned();
    if !missing.is_empty() {
        about += &format!(" Left out: {}.", missing.join("; "));
    }
    StudyExperiment {
        key: "traces",
        title: "Other traces (slide 27)".into(),
        axis: "trace",
        about,
        places,
        systems: SYSTEMS.into(),
    }
}

fn beyond(scale: StudyScale) -> StudyExperiment {
    let skews = [
        (
            "90/10",
            Skew::HotCold {
                writes: 90,
                pages: 10,
            },
        ),
        ("Zipf 0.99", Skew::Zipf(0.99)),
    ];
    let mut places = Vec::new();
    for (name, skew) in scale.of(&skews, &skews[1..]) {
        for utilisation in scale.of(&[ROOMY, TIGHT, SLIDES], &[ROOMY]) {
            for model in scale.of(
                &[StudyDisk::Of2003, StudyDisk::Terabyte],
                &[StudyDisk::Terabyte],
            ) {
                let name = format!("{name}, {}, {}", model.name(), percent(utilisation));
                places.push(ExperimentPoint {
                    medium: medium(scale, model, DiskArray::One, utilisation),
                    what: WorkloadSpec::Drawn(skew, 0),
                    ..place_of(scale, name, DiskArray::One, utilisation)
                });
            }
        }
    }
    StudyExperiment {
        key: "beyond",
        title: "Beyond the slides: a larger disk, other skews".into(),
        axis: "writes and disk",
        about: "20 users write pages drawn with a skew to one disk. On a medium that cannot write in \
                place (shingled disks, flash) only `lfs`, `wolf` and `sepbit` are possible: their columns are what \
                remains there."
            .into(),
        places,
        systems: SYSTEMS.into(),
    }
}

#[cfg(test)]
mod tests {
    use forebay_disk_model::disk::named;

    use super::*;

    #[test]
    fn every_medium_fits_its_disks() {
        for scale in [StudyScale::Full, StudyScale::Quick] {
            for experiment in experiments(scale, &[]) {
                for place in &experiment.places {
                    let medium = &place.medium;
                    let used = (medium.segments + 8) * medium.piece;
                    let blocks = named(medium.model.disk()).unwrap().blocks();
                    assert!(used <= blocks * 512, "{}: {used}", experiment.key);
                }
            }
        }
    }
}
