//! Small runs of the whole study, and the report.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use forebay_hylog_study::workload::{PAGE_BYTES, Skew, StudyTrace, Workload};
use forebay_hylog_study::{
    DiskArray, Effort, ExperimentPoint, ExperimentResults, MediumKind, ResultStore, StudyDisk,
    StudyExperiment, StudyMedium, StudyScale, StudySystem, WorkloadSpec, run_all, traces,
    write_report,
};
use forebay_placement::placement::PlacementKind;
use forebay_report::Circumstances;

const EFFORT: Effort = Effort {
    turned_over: 0.6,
    rewritten: 0.05,
    turned_over_max: f64::INFINITY,
    measured: 0.3,
    requests: 400,
    page_requests_max: 1,
};

fn place(array: DiskArray, what: WorkloadSpec, utilisation: f64) -> ExperimentPoint {
    ExperimentPoint {
        name: format!("{array:?}, {utilisation}"),
        medium: StudyMedium {
            kind: MediumKind::Disks,
            model: StudyDisk::Of1999,
            array,
            piece: 1 << 20,
            segments: 64,
        },
        utilisation,
        what,
        users: 4,
    }
}

fn experiment(places: Vec<ExperimentPoint>) -> StudyExperiment {
    StudyExperiment {
        key: "utilisation",
        title: "A title".into(),
        axis: "an axis",
        about: "How it was done.".into(),
        places,
        systems: vec![StudySystem::Plain, StudySystem::Volume(PlacementKind::Lfs)],
    }
}

fn run(experiment: StudyExperiment, threads: usize) -> ExperimentResults {
    let kept = ResultStore::nowhere();
    let mut results = run_all(vec![experiment], |_, _| EFFORT, threads, &kept, &|_| {});
    results.remove(0)
}

/// Half of the requests are reads, so that written data is compared.
const MIXED: WorkloadSpec = WorkloadSpec::Drawn(Skew::Uniform, 50);

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let places = vec![
        place(DiskArray::One, MIXED, 0.5),
        place(DiskArray::One, WorkloadSpec::TpcC, 0.4),
    ];
    let [one, three] = [1, 3].map(|threads| run(experiment(places.clone()), threads));
    assert_eq!(one.found, three.found);
    for found in one.found.iter().flatten() {
        let outcome = found.as_ref().unwrap();
        assert!(outcome.throughput() > 20.0, "{outcome:?}");
        assert!(outcome.done.compared > 100, "{outcome:?}");
    }
    let lfs = one.found[0][1].as_ref().unwrap();
    assert!(lfs.amplification().unwrap() > 1.0);
    assert!(lfs.counters.cleaned > 0);
}

#[test]
fn a_log_beats_writing_in_place_with_free_space_and_more_disks_are_faster() {
    let writes = WorkloadSpec::Drawn(Skew::Uniform, 0);
    let places = [
        (DiskArray::One, 0.4),
        (DiskArray::Stripes(4), 0.4),
        (DiskArray::Parity(5), 0.4),
    ];
    let places = places.map(|(array, full)| place(array, writes.clone(), full));
    let results = run(experiment(places.into()), 2);
    let rate = |place, under| results.rate(place, under);
    let lfs = StudySystem::Volume(PlacementKind::Lfs);
    for n in 0..3 {
        assert!(
            rate(n, lfs) > 1.5 * rate(n, StudySystem::Plain),
            "{:?}",
            results.found
        );
    }
    assert!(rate(1, StudySystem::Plain) > 1.5 * rate(0, StudySystem::Plain));
    // In place, a write with parity needs four requests.
    assert!(rate(2, StudySystem::Plain) < 0.8 * rate(1, StudySystem::Plain));
}

#[test]
fn configurations_that_the_engine_refuses_are_omitted_and_reported() {
    let full = place(DiskArray::One, MIXED, 0.99);
    let mut experiment = experiment(vec![full]);
    experiment
        .systems
        .push(StudySystem::Volume(PlacementKind::Overwrite));
    let results = run(experiment, 1);
    let [plain, lfs, other] = &results.found[0][..] else {
        panic!("{:?}", results.found);
    };
    assert!(plain.is_ok());
    assert!(lfs.as_ref().unwrap_err().contains("cannot be filled"));
    assert!(other.is_err());
    let folder = tempfile::tempdir().unwrap();
    let circumstances = Circumstances::begin();
    let path = write_report(
        folder.path(),
        &[circumstances.text()],
        StudyScale::Quick,
        &[results],
    )
    .unwrap();
    let text = fs::read_to_string(path).unwrap();
    for said in [
        "keeps a share of the medium free",
        "| 1999, disk | 0.94 |",
        "| 2003, cleaned segments | 0.94 |",
        "by the model within 0.02 | yes |",
        "HyLog was not measured",
        "nothing that was run has a hot share",
        "| TPC-C, 0.95 |",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert_eq!(shown(&text), drawn(folder.path()));
    check_tables(&text);
}

/// Returns the figures that a Markdown page shows.
fn shown(text: &str) -> BTreeSet<String> {
    let images = text.lines().filter(|line| line.starts_with("!["));
    let names = images.filter_map(|line| line.rsplit_once("](")?.1.strip_suffix(')'));
    names.map(str::to_owned).collect()
}

fn drawn(folder: &Path) -> BTreeSet<String> {
    let files = fs::read_dir(folder).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".svg")).collect()
}

/// Checks that all rows of a table have the same number of cells, and that no cell is NaN or infinite.
fn check_tables(text: &str) {
    let mut cells = 0;
    for line in text.lines() {
        let here = line.matches('|').count();
        assert!(cells == 0 || here == 0 || here == cells, "{line}");
        cells = here;
        assert!(!line.contains("NaN") && !line.contains("inf "), "{line}");
    }
}

/// Returns the path of an external recording, if it exists.
fn shared(file: &str) -> Option<PathBuf> {
    let from = std::env::var_os("FOREBAY_SHARED").map(PathBuf::from);
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let beside = here.ancestors().map(|dir| dir.join("shared"));
    let mut places = from.into_iter().chain(beside).map(|dir| dir.join(file));
    places.find(|path| path.exists())
}

#[test]
fn recorded_traces_are_replayed_without_untouched_pages() {
    let Some(folder) = shared("data/traces") else {
        println!("SKIPPED: recorded traces: there is no data/traces");
        return;
    };
    for (recorded, traced) in traces(Some(&folder), 8_000) {
        let mut traced = traced.unwrap();
        let pages = traced.pages();
        assert!((500..=8000).contains(&pages), "{recorded:?}: {pages}");
        let mut touched = BTreeSet::new();
        for _ in 0..traced.requests() {
            let access = traced.next(0);
            touched.extend(access.page..access.page + access.pages);
        }
        assert_eq!(touched, (0..pages).collect(), "{recorded:?}");
        let place = place(DiskArray::One, MIXED, 0.8).of_trace(&traced, recorded);
        let room = place.medium.bytes() as f64 * 0.8;
        let data = f64::from(pages) * PAGE_BYTES as f64;
        assert!(room >= data * 0.95, "{recorded:?}: {room} for {data}");
    }
    assert!(StudyTrace::ALL.len() == traces(None, 1).len());
}
