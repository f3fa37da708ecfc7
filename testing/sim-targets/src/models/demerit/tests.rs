use std::io::Write;

use forebay_sim::trace::{MeasuredRequest, read_measured};

use super::*;

const GOOD: &str = "R Hit    2992396   4  13670.00000  35942.00000\n\
                    W x 3865568 8 1971.0 29108.0\n";

#[test]
fn a_request_beyond_the_end_of_the_drive_is_named_in_the_error() {
    let spec = disk::named("barracuda").expect("a known name");
    let trace = read_measured("R Hit 1 4 1.0 1.0\nR Hit 4109999 2 1.0 1.0").expect("it parses");
    let error = trace::check(&trace, &spec).expect_err("there is no block 4110000");
    assert_eq!(
        error.to_string(),
        "request 2 is for blocks 4109999 to 4110000, but the drive has 4110000"
    );
    let trace = read_measured("R Hit 18446744073709551615 4 1.0 1.0").expect("it parses");
    assert!(trace::check(&trace, &spec).is_err());
}

#[test]
fn the_demerit_compares_by_rank() {
    let trace: Vec<MeasuredRequest> = (0..4)
        .map(|n| MeasuredRequest {
            write: n >= 2,
            first: n,
            blocks: 1,
            service_us: 0.0,
            gap_us: 0.0,
        })
        .collect();
    let times = |ms: [f64; 4]| SortedServiceTimes::new(&trace, &ms);
    let real = times([5.0, 1.0, 2.0, 2.0]);
    // The model's reads have the other order. Its writes are 1 ms slower and 3 ms faster.
    let model = times([1.0, 5.0, 3.0, -1.0]);
    let outcome = compare(&real, &[model]);
    assert_eq!(outcome.reads.expect("there are reads").mean, 0.0);
    let writes = outcome.writes.expect("there are writes").mean;
    assert!((writes - 5f64.sqrt()).abs() < 1e-12, "{writes}");
    // All requests: 1 2 2 5 against -1 1 3 5.
    assert!(
        (outcome.all.mean - 1.5f64.sqrt()).abs() < 1e-12,
        "{}",
        outcome.all.mean
    );
    assert_eq!((outcome.mean_real, outcome.mean_model.mean), (2.5, 2.0));
    assert!(
        text(&outcome, 1).starts_with(
            "demerit_ms 1.225 reads_ms 0.000 writes_ms 2.236 mean_real_ms 2.500 \
             mean_model_ms 2.000\n"
        ),
        "{}",
        text(&outcome, 1)
    );
}

#[test]
fn a_trace_of_reads_only_has_no_demerit_for_writes() {
    let trace = read_measured("R x 1 4 1000 1000\nR x 100 4 1000 1000").expect("it parses");
    let times = SortedServiceTimes::new(&trace, &[1.0, 1.0]);
    let outcome = compare(&times, std::slice::from_ref(&times));
    assert!(outcome.writes.is_none());
    assert!(text(&outcome, 1).contains("writes_ms n/a"));
    assert!(json(&outcome, 1)["writes_ms"].is_null());
}

#[test]
fn the_gap_is_before_or_after_its_request() {
    let spec = disk::named("barracuda").expect("a known name");
    // After a read, the drive reads the next blocks. The owner of the second gap decides if the drive had time for
    // this.
    let trace = read_measured("R x 1000 8 15000 0\nR x 1250 8 1000 900000").expect("it parses");
    let options = DiskOptions {
        caches: EnabledCaches::Own,
        ..DiskOptions::default()
    };
    let before = replay::replay(&spec, options, &trace, GapMeaning::Before);
    let after = replay::replay(&spec, options, &trace, GapMeaning::After);
    assert!(before[1] < 1.0, "{before:?}");
    assert!(after[1] > 1.0, "{after:?}");
    assert_eq!(GapMeaning::of(&spec), GapMeaning::Before);
    assert_eq!(
        GapMeaning::of(&disk::named("dec_rz26").expect("a known name")),
        GapMeaning::After
    );
}

#[test]
fn the_plot_has_a_curve_for_each_kind_and_side() {
    let trace = read_measured(GOOD).expect("it parses");
    let real = SortedServiceTimes::new(&trace, &[13.67, 1.971]);
    let svg = plot::draw("a drive", &real, &real);
    assert_eq!(svg.matches("<polyline").count(), 8);
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    let beside = trace::beside(&trace, &[13.67, 1.971], &[14.0, 2.0]);
    assert_eq!(beside.lines().nth(1), Some("R 2992396 4 13.670 14.000"));
}

#[test]
fn an_unknown_model_is_refused_with_the_list_of_models() {
    let error = find("no-such-drive")
        .expect_err("there is none")
        .to_string();
    assert!(
        error.contains("barracuda") && error.contains("hylog-2008"),
        "{error}"
    );
}

/// The drive, its trace, and the model's demerit over 32 phases plus a spread, in ms: all, reads, writes. The demerits
/// of DiskSim are 0.348 (0.497, 0.270), 0.268 (0.385, 0.175), 0.341 (0.273, 1.06) and 0.378 (0.472, 0.069).
const BARS: [(&str, &str, [f64; 3]); 4] = [
    ("barracuda", "barracuda", [0.275, 0.345, 0.090]),
    ("atlas10k", "atlas10k", [0.095, 0.105, 0.170]),
    ("dec_rz26", "dec_rz26", [0.525, 0.360, 1.060]),
    ("atlas3", "atlas_III", [0.280, 0.345, 0.080]),
];

#[test]
fn the_disk_models_stay_within_their_recorded_demerits() {
    for (name, trace, bars) in BARS {
        let Some(path) = measured(trace) else {
            let line = format!(
                "SKIPPED: the_disk_models_stay_within_their_recorded_demerits: no \
                 measured trace {trace}.trace; set FOREBAY_SHARED to where the data is\n"
            );
            let _ = std::io::stderr().write_all(line.as_bytes());
            continue;
        };
        let trace = trace::load(&path).expect("a measured trace");
        let spec = find(name).expect("a known name");
        trace::check(&trace, &spec).expect("it is of that drive");
        let gap = GapMeaning::of(&spec);
        let runs: Vec<SortedServiceTimes> = (0..8)
            .map(|k| {
                let options = DiskOptions {
                    caches: EnabledCaches::Own,
                    phase: f64::from(k) / 8.0,
                    ..DiskOptions::default()
                };
                SortedServiceTimes::new(&trace, &replay::replay(&spec, options, &trace, gap))
            })
            .collect();
        let real: Vec<f64> = trace.iter().map(|r| r.service_us / 1000.0).collect();
        let outcome = compare(&SortedServiceTimes::new(&trace, &real), &runs);
        let figures = [
            ("all", Some(outcome.all)),
            ("reads", outcome.reads),
            ("writes", outcome.writes),
        ];
        for ((what, figure), bar) in figures.into_iter().zip(bars) {
            let mean = figure.expect("the trace has both").mean;
            assert!(mean < bar, "{name}, {what}: {mean} ms, not under {bar} ms");
        }
    }
}

/// Returns the trace of a drive, if the directory of measured data exists.
fn measured(name: &str) -> Option<PathBuf> {
    let file = Path::new("data/disks").join(format!("{name}.trace"));
    let beside = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|dir| dir.join("shared"));
    std::env::var_os("FOREBAY_SHARED")
        .map(PathBuf::from)
        .into_iter()
        .chain(beside)
        .map(|shared| shared.join(&file))
        .find(|path| path.is_file())
}
