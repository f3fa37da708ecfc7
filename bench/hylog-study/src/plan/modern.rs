//! Modern devices: shingled disks, solid-state drives, and chips without a translation layer. Also the traces with the
//! settings of newer papers.

use forebay_placement::placement::PlacementKind;

use super::{StudyScale, percent, place_of};
use crate::experiment::{ExperimentPoint, StudyExperiment, WorkloadSpec};
use crate::flash_medium::{FlashMedium, FlashPages, RECLAIM_BYTES, RESERVE_THOUSANDTHS};
use crate::medium::{DiskArray, MediumKind, PIECE_BYTES, StudyDisk, StudyMedium};
use crate::system::StudySystem;
use crate::workload::{Skew, StudyTrace, TracedWorkload};

/// Keys of these experiments, for the report.
pub(crate) const ZONES: &str = "zones";
pub(crate) const FLASH: &str = "flash";
pub(crate) const PUBLISHED: &str = "published";

/// Utilisation at which a log has some free space, and utilisation at which the log must clean much.
const ROOMY: f64 = 0.8;
const FULL: f64 = 0.9;
/// SepBIT's default: collection begins at 15 % of garbage.
const SEPBIT: f64 = 0.85;
/// The writes to all devices.
const ZIPF: Skew = Skew::Zipf(0.99);

const LFS: StudySystem = StudySystem::Volume(PlacementKind::Lfs);
const WOLF: StudySystem = StudySystem::Volume(PlacementKind::Wolf);
const SEPBIT_VOLUME: StudySystem = StudySystem::Volume(PlacementKind::SepBit);

/// The experiments, in the order of the report.
pub(super) fn experiments(
    scale: StudyScale,
    traces: &[(StudyTrace, Result<TracedWorkload, String>)],
) -> [StudyExperiment; 3] {
    [zones(scale), flash(scale), published(scale, traces)]
}

fn place(name: String, medium: StudyMedium, utilisation: f64) -> ExperimentPoint {
    ExperimentPoint {
        name,
        medium,
        utilisation,
        what: WorkloadSpec::Drawn(ZIPF, 0),
        users: super::USERS,
    }
}

fn zones(scale: StudyScale) -> StudyExperiment {
    let mut places = Vec::new();
    for utilisation in scale.of(&[ROOMY, super::TIGHT], &[ROOMY]) {
        let kinds = [("disk", MediumKind::Disks), ("zones", MediumKind::Zones)];
        for (name, kind) in kinds {
            let medium = StudyMedium {
                kind,
                ..super::medium(scale, StudyDisk::Terabyte, DiskArray::One, utilisation)
            };
            let name = format!("{name}, {}", percent(utilisation));
            places.push(place(name, medium, utilisation));
        }
    }
    StudyExperiment {
        key: ZONES,
        title: "Shingled disks: zones that are written in order".into(),
        axis: "medium",
        about: "20 users write pages by Zipf 0.99 to one disk of a terabyte, of 2012, and to the same disk as a host-managed \
                shingled one: each segment is a zone, which is written at its write pointer only and reset by a discard. Systems \
                that write in place (`overwrite`, `hylog`) cannot use zones. Real zones have 256 MiB; these have 1 MiB, as \
                the disk is scaled down."
            .into(),
        places,
        systems: vec![LFS, WOLF, SEPBIT_VOLUME],
    }
}

/// Returns the visible bytes of a drive, without superblocks.
fn flash_bytes(scale: StudyScale) -> u64 {
    match scale {
        StudyScale::Full => 3 << 30,
        StudyScale::Quick => 576 << 20,
    }
}

/// Name of the point whose segments have the length of a reclaim unit.
const LONG: &str = "drive, 16 KiB, handles, long segments";

fn flash_medium(scale: StudyScale, flash: FlashMedium, piece: u64) -> StudyMedium {
    let shown = flash_bytes(scale);
    let bytes = match flash {
        FlashMedium::Chips => shown + shown * u64::from(RESERVE_THOUSANDTHS) / 1000,
        FlashMedium::Drive { .. } => shown,
    };
    StudyMedium {
        kind: MediumKind::Flash(flash),
        model: StudyDisk::Terabyte,
        array: DiskArray::One,
        piece,
        segments: bytes / piece,
    }
}

fn flash(scale: StudyScale) -> StudyExperiment {
    let drive = |pages, handles| FlashMedium::Drive { pages, handles };
    let [small, large] = [FlashPages::Of4KiB, FlashPages::Of16KiB];
    let media = [
        ("chips, 4 KiB", FlashMedium::Chips),
        ("drive, 4 KiB", drive(small, false)),
        ("drive, 4 KiB, handles", drive(small, true)),
        ("drive, 16 KiB", drive(large, false)),
        ("drive, 16 KiB, handles", drive(large, true)),
        (LONG, drive(large, true)),
    ];
    let mut places = Vec::new();
    for utilisation in scale.of(&[ROOMY, FULL], &[ROOMY]) {
        for (name, flash) in media {
            let piece = match name {
                LONG => RECLAIM_BYTES,
                _ => PIECE_BYTES,
            };
            let medium = flash_medium(scale, flash, piece);
            // Chips without a translation layer hold as much data as a drive.
            let shown = flash_bytes(scale) as f64 / medium.bytes() as f64;
            let name = format!("{name}, {}", percent(utilisation));
            places.push(place(name, medium, utilisation * shown));
        }
    }
    StudyExperiment {
        key: FLASH,
        title: "Flash: drives with and without placement handles, and chips alone".into(),
        axis: "medium",
        about: "20 users write pages of 8 KiB by Zipf 0.99. A *drive* maps pages of its chips (4 KiB: SLC; 16 KiB: QLC), has 7 % of \
                reserve, collects greedily, and takes discards. With *handles*, each stream of the log has reclaim units of its \
                own (NVMe FDP). *Long segments* are as long as a reclaim unit, 2 MiB; others have 1 MiB. *Chips* are flash without a translation layer, where a segment is an erase unit and the log \
                has the reserve; they cannot be written in place. The utilisation is data by what a drive shows."
            .into(),
        places,
        systems: vec![StudySystem::Plain, LFS, SEPBIT_VOLUME],
    }
}

/// Returns the workload of MiDAS's example: 8 GB of data in 2048 segments of 4 MiB.
fn zipf_of_midas(scale: StudyScale) -> ExperimentPoint {
    let utilisation = 8e9 / (2048u64 << 22) as f64;
    let medium = StudyMedium {
        segments: scale.of(&[2048], &[384])[0],
        ..super::medium(scale, StudyDisk::Of1999, DiskArray::One, utilisation)
    };
    ExperimentPoint {
        what: WorkloadSpec::Drawn(Skew::Zipf(1.0), 0),
        ..place(
            format!("Zipf 1.0, {}", percent(utilisation)),
            medium,
            utilisation,
        )
    }
}

fn published(
    scale: StudyScale,
    traces: &[(StudyTrace, Result<TracedWorkload, String>)],
) -> StudyExperiment {
    let mut places = vec![zipf_of_midas(scale)];
    for (recorded, traced) in traces {
        let Ok(traced) = traced else { continue };
        for utilisation in scale.of(&[SEPBIT, FULL], &[SEPBIT]) {
            let name = format!("{}, {}", recorded.name(), percent(utilisation));
            let place = ExperimentPoint {
                users: scale.of(&[super::USERS], &[8])[0],
                ..place_of(scale, name, DiskArray::One, utilisation)
            };
            places.push(place.of_trace(traced, *recorded));
        }
    }
    StudyExperiment {
        key: PUBLISHED,
        title: "Write amplification beside published figures".into(),
        axis: "trace",
        about: "On one disk of 1999. Zipf 1.0 at 93 % is the nearest to a figure of MiDAS below; there pages have 4 KiB, and here 8 KiB. \
                Recorded requests are those of the other traces above, at 85 % (SepBIT cleans when 15 % is garbage, unless told \
                otherwise) and at 90 %. The traces of the two papers (Alibaba and Tencent Cloud, and others) are not at hand. What \
                `lfs` and `sepbit` write includes headers, checksums, the map and its checkpoints, which simulations of placement do \
                not count."
            .into(),
        places,
        systems: vec![LFS, SEPBIT_VOLUME],
    }
}
