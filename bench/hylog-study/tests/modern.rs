//! Small runs on modern devices, and their tables in the report.

use std::fs;

use forebay_hylog_study::workload::Skew;
use forebay_hylog_study::{
    DiskArray, Effort, ExperimentPoint, ExperimentResults, FlashMedium, FlashPages, MediumCounts,
    MediumKind, ResultStore, StudyDisk, StudyExperiment, StudyMedium, StudyScale, StudySystem,
    WorkloadSpec, experiments, run_all, write_report,
};
use forebay_placement::placement::PlacementKind;
use forebay_report::Circumstances;

const EFFORT: Effort = Effort {
    turned_over: 0.6,
    rewritten: 0.05,
    turned_over_max: f64::INFINITY,
    measured: 0.3,
    requests: 400,
    page_requests_max: 2,
};

const LFS: StudySystem = StudySystem::Volume(PlacementKind::Lfs);
const SEPBIT: StudySystem = StudySystem::Volume(PlacementKind::SepBit);

fn place(name: &str, kind: MediumKind, segments: u64) -> ExperimentPoint {
    ExperimentPoint {
        name: name.into(),
        medium: StudyMedium {
            kind,
            model: StudyDisk::Terabyte,
            array: DiskArray::One,
            piece: 1 << 20,
            segments,
        },
        utilisation: 0.4,
        what: WorkloadSpec::Drawn(Skew::Zipf(0.99), 20),
        users: 4,
    }
}

fn run(
    key: &'static str,
    places: Vec<ExperimentPoint>,
    systems: Vec<StudySystem>,
) -> ExperimentResults {
    let experiment = StudyExperiment {
        key,
        title: "A title".into(),
        axis: "medium",
        about: "How it was done.".into(),
        places,
        systems,
    };
    run_all(
        vec![experiment],
        |_, _| EFFORT,
        2,
        &ResultStore::nowhere(),
        &|_| {},
    )
    .remove(0)
}

fn below(results: &ExperimentResults, place: usize, under: StudySystem) -> MediumCounts {
    let found = &results.found;
    let outcome = results.outcome(place, under);
    outcome
        .unwrap_or_else(|| panic!("{found:?}"))
        .counters
        .below
}

fn report(results: ExperimentResults) -> String {
    let folder = tempfile::tempdir().unwrap();
    let circumstances = Circumstances::begin();
    let path = write_report(
        folder.path(),
        &[circumstances.text()],
        StudyScale::Quick,
        &[results],
    )
    .unwrap();
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_log_writes_zones_sequentially_and_writing_in_place_is_refused() {
    let places = vec![place("zones, small", MediumKind::Zones, 64)];
    let systems = vec![
        StudySystem::Plain,
        LFS,
        StudySystem::Volume(PlacementKind::Wolf),
        SEPBIT,
    ];
    let results = run("zones", places, systems.clone());
    assert!(results.found[0][0].is_err());
    for under in &systems[1..] {
        let below = below(&results, 0, *under);
        assert!(below.resets > 5 && below.refused == 0, "{below:?}");
        // Each stream has an open segment, and other segments are not full.
        assert!((2..20).contains(&below.partly_written_max), "{below:?}");
    }
    let text = report(results);
    assert!(text.contains("| medium | system | resets | refused | partly written |"));
    assert_eq!(text.matches("| zones, small | ").count(), 4);
}

#[test]
fn the_report_separates_write_amplification_of_drive_and_log() {
    let drive = |handles| {
        let pages = FlashPages::Of16KiB;
        MediumKind::Flash(FlashMedium::Drive { pages, handles })
    };
    let places = vec![
        place("chips", MediumKind::Flash(FlashMedium::Chips), 128),
        place("drive", drive(false), 384),
        place("with handles", drive(true), 384),
    ];
    let results = run("flash", places, vec![StudySystem::Plain, LFS]);
    let chips = below(&results, 0, LFS);
    assert!(chips.programmed > 0 && chips.host == 0, "{chips:?}");
    let plain = results.outcome(1, StudySystem::Plain).unwrap();
    assert_eq!(plain.amplification(), Some(1.0));
    // Pages of 8 KiB need mapping units of 16 KiB.
    let counts = plain.counters.below;
    assert_eq!(counts.host, plain.done.written);
    assert!(counts.programmed > counts.host && counts.completed > 0);
    for place in [1, 2] {
        let log = results.outcome(place, LFS).unwrap();
        let (counters, below) = (&log.counters, &log.counters.below);
        // Only superblocks are outside the log.
        let ratio = below.host as f64 / counters.log as f64;
        assert!((0.98..1.02).contains(&ratio), "{counters:?}");
        assert!(below.programmed as f64 > 0.98 * below.host as f64);
    }
    let text = report(results);
    assert!(text.contains("| medium | system | log | drive | total | collected |"));
    assert!(text.contains("| chips | lfs | 1."));
}

#[test]
fn the_plan_has_current_media_and_the_report_shows_published_results() {
    for scale in [StudyScale::Full, StudyScale::Quick] {
        let keys: Vec<&str> = experiments(scale, &[]).iter().map(|one| one.key).collect();
        assert!(keys.ends_with(&["beyond", "zones", "flash", "published"]));
    }
    let one = place("Zipf", MediumKind::Disks, 64);
    let text = report(run("published", vec![one], vec![LFS]));
    for said in ["MiDAS-Simulation", "2.30", "| Zipf | lfs | 0."] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(text.contains("Zipf in a simulation of pages without an engine"));
}
