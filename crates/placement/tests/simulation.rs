//! The policies in a simulated log, compared with the analytic model and with each other.
//!
//! With `--nocapture` each test prints its results.

mod simulator;

use std::collections::{BTreeMap, BTreeSet};

use forebay_placement::cost::{self, DiskParameters};
use forebay_placement::placement::{PlacementKind, PlacementOptions};
use forebay_placement::victim::VictimSelection;
use forebay_rng::Rng;
use forebay_sim::trace::TraceFormat;
use simulator::{PAGE, PageTally, Simulator, SimulatorConfig};

/// Generator of the next page to write.
enum AccessPattern {
    Uniform,
    /// A fifth of the pages receives four fifths of the writes.
    Skewed,
    /// A tenth of the pages receives nine tenths of the writes.
    HotCold,
    /// Zipf distribution by rank, with the partial sums of its terms.
    Zipf(Vec<f64>),
}

impl AccessPattern {
    fn zipf(pages: u32, exponent: f64) -> AccessPattern {
        let mut sum = 0.0;
        let sums = (1..=pages).map(|rank| {
            sum += f64::from(rank).powf(-exponent);
            sum
        });
        AccessPattern::Zipf(sums.collect())
    }

    /// Returns a generator of pages. Ranks are scattered over the pages.
    fn pages(&self, pages: u32, seed: u64) -> impl FnMut() -> u32 {
        let rng = Rng::new(seed);
        let mut scattered: Vec<u32> = (0..pages).collect();
        rng.shuffle(&mut scattered);
        let two = move |rng: &Rng, writes: u64, part: u32| {
            let hot = pages / part;
            if rng.below(100) < writes {
                rng.below(u64::from(hot)) as u32
            } else {
                hot + rng.below(u64::from(pages - hot)) as u32
            }
        };
        move || {
            let rank = match self {
                AccessPattern::Uniform => rng.below(u64::from(pages)) as u32,
                AccessPattern::Skewed => two(&rng, 80, 5),
                AccessPattern::HotCold => two(&rng, 90, 10),
                AccessPattern::Zipf(sums) => {
                    let unit = (rng.next() >> 11) as f64 / (1u64 << 53) as f64;
                    let at = unit * sums.last().copied().unwrap_or(0.0);
                    sums.partition_point(|sum| *sum < at).min(sums.len() - 1) as u32
                }
            };
            scattered[rank as usize]
        }
    }
}

/// Runs until the data was overwritten `warm` times, then measures while it is overwritten `measured` times. Returns
/// the measurement and the utilisation.
fn steady(
    config: SimulatorConfig,
    access: &AccessPattern,
    warm: u64,
    measured: u64,
) -> (PageTally, f64) {
    let data = config.data;
    let mut simulator = Simulator::new(config);
    let times = |n| n * u64::from(data);
    let tally = simulator.run(times(warm), times(measured), access.pages(data, 11));
    (tally, simulator.utilisation())
}

fn config(kind: PlacementKind, selection: VictimSelection, pages: u32, d: f64) -> SimulatorConfig {
    SimulatorConfig {
        selection: Some(selection),
        ..SimulatorConfig::new(kind, 1024, pages, d)
    }
}

#[test]
fn the_write_amplification_of_greedy_cleaning_of_uniform_updates_equals_the_analysis() {
    // The simple formula applies to segments with very many pages.
    for (pages, bound) in [(64, 0.08), (256, 0.05)] {
        for d in [0.5, 0.7, 0.8, 0.9] {
            let config = config(PlacementKind::Lfs, VictimSelection::Greedy, pages, d);
            let (tally, used) = steady(config, &AccessPattern::Uniform, 4, 2);
            let found = tally.amplification();
            let simple = cost::write_amplification(cost::cleaning_utilisation(used));
            let expected = cost::write_amplification(cost::greedy_utilisation(used, pages));
            println!("{pages} d {d}: {found:.3}, expected {expected:.3}, simple {simple:.3}");
            assert!(
                (found / simple - 1.0).abs() < bound,
                "{d}: {found}, {simple}"
            );
            assert!(
                (found / expected - 1.0).abs() < 0.01,
                "{d}: {found}, {expected}"
            );
        }
    }
}

#[test]
fn cost_benefit_writes_less_than_greedy_with_hot_pages() {
    for d in [0.7, 0.8, 0.9] {
        let found = [VictimSelection::Greedy, VictimSelection::CostBenefit].map(|selection| {
            let config = SimulatorConfig {
                together: 8,
                ..config(PlacementKind::Lfs, selection, 64, d)
            };
            steady(config, &AccessPattern::HotCold, 5, 2)
                .0
                .amplification()
        });
        println!("d {d}: greedy, cost-benefit {found:.3?}");
        assert!(found[1] < 0.9 * found[0], "{d}: {found:?}");
    }
}

#[test]
fn sepbit_writes_a_tenth_less_than_a_single_log_for_zipfian_updates() {
    for selection in [VictimSelection::Greedy, VictimSelection::CostBenefit] {
        for d in [0.8, 0.9] {
            let found = [
                PlacementKind::Lfs,
                PlacementKind::Wolf,
                PlacementKind::SepBit,
            ]
            .map(|kind| {
                let config = config(kind, selection, 64, d);
                let access = AccessPattern::zipf(config.data, 0.99);
                steady(config, &access, 5, 2).0.amplification()
            });
            println!("{selection:?} d {d}: lfs, wolf, sepbit {found:.3?}");
            assert!(found[2] < 0.9 * found[0], "{selection:?} {d}: {found:?}");
        }
    }
}

/// E of 33 with segments of 64 pages: slower positioning than the disk of 2003, whose segments hold 128 pages.
const SLOW: DiskParameters = DiskParameters {
    positioning: 0.0083,
    ..DiskParameters::OF_2003
};

/// Returns the cost in segment I/Os in the steady state.
fn cost_of(kind: PlacementKind, d: f64, access: &AccessPattern) -> f64 {
    let mut config = SimulatorConfig::new(kind, 1024, 64, d);
    config.options = PlacementOptions {
        disk: SLOW,
        ..config.options
    };
    // Writes in place go through the log first, as in the engine.
    let in_place = 1.0 + SLOW.home_cost(8 << 10, 64 * (8 << 10));
    steady(config, access, 5, 2).0.cost(64, in_place)
}

/// Cost of the cheapest other policy divided by HyLog's cost, at the worst utilisation for HyLog.
struct HyLogComparison {
    overwrite_and_lfs: f64,
    wolf_too: f64,
    /// Ratio for HyLog with SepBIT's classes in its log, compared with all three other policies.
    with_sepbit: f64,
}

fn hylog_against_the_others(
    full: &[f64],
    access: impl Fn(u32) -> AccessPattern,
) -> HyLogComparison {
    let e = SLOW.efficiency(8 << 10, 64 * (8 << 10));
    let mut worst = HyLogComparison {
        overwrite_and_lfs: f64::INFINITY,
        wolf_too: f64::INFINITY,
        with_sepbit: f64::INFINITY,
    };
    for &d in full {
        let access = access((1024.0 * 64.0 * d) as u32);
        let kinds = [
            PlacementKind::Lfs,
            PlacementKind::Wolf,
            PlacementKind::HyLog,
            PlacementKind::HyLogSepBit,
        ];
        let [lfs, wolf, hylog, both] = kinds.map(|kind| cost_of(kind, d, &access));
        println!(
            "d {d}: overwrite {e:.1} lfs {lfs:.1} wolf {wolf:.1} hylog {hylog:.1} hylog+sepbit {both:.1}"
        );
        let best = e.min(lfs).min(wolf);
        worst.overwrite_and_lfs = worst.overwrite_and_lfs.min(e.min(lfs) / hylog);
        worst.wolf_too = worst.wolf_too.min(best / hylog);
        worst.with_sepbit = worst.with_sepbit.min(best / both);
    }
    worst
}

#[test]
fn hylog_costs_little_more_than_the_best_other_placement_for_uniform_and_skewed_updates() {
    let full = [0.8, 0.9, 0.95, 0.98];
    let even = hylog_against_the_others(&full[..3], |_| AccessPattern::Uniform);
    let skewed = hylog_against_the_others(&full, |_| AccessPattern::Skewed);
    for worst in [even, skewed].map(|compared| compared.wolf_too) {
        assert!(worst >= 0.97, "{worst}");
    }
}

/// While HyLog logs everything, its log is a plain one, and WOLF's two streams gain if some pages are much hotter than
/// others. With SepBIT's classes in its log, HyLog gains as much.
#[test]
fn hylog_needs_sepbit_classes_to_approach_wolf_for_zipfian_updates() {
    let full = [0.8, 0.9, 0.95, 0.98];
    let worst = hylog_against_the_others(&full, |pages| AccessPattern::zipf(pages, 0.99));
    assert!(
        worst.overwrite_and_lfs >= 0.97,
        "{}",
        worst.overwrite_and_lfs
    );
    assert!(worst.with_sepbit >= 0.97, "{}", worst.with_sepbit);
    assert!((0.85..0.95).contains(&worst.wolf_too), "{}", worst.wolf_too);
}

/// Returns the path of a trace recorded by others, if the file exists.
fn shared(file: &str) -> Option<std::path::PathBuf> {
    let from = std::env::var_os("FOREBAY_SHARED").map(std::path::PathBuf::from);
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let beside = here.ancestors().map(|dir| dir.join("shared"));
    let mut places = from.into_iter().chain(beside).map(|dir| dir.join(file));
    places.find(|path| path.exists())
}

/// Returns the pages that a recorded system wrote, numbered in the order of addresses.
fn recorded(name: &str) -> Option<Vec<u32>> {
    let path = shared(&format!("data/traces/{name}"))?;
    let format = TraceFormat::of_name(name)?;
    let trace = format.read(&std::fs::read(path).ok()?, 60_000).ok()?;
    let writes = trace.iter().filter(|request| request.write);
    let pages = writes.flat_map(|request| {
        let end = request.sector + request.sectors.max(1);
        request.sector / PAGE..end.div_ceil(PAGE)
    });
    let pages: Vec<u64> = pages.take(200_000).collect();
    let distinct: BTreeSet<u64> = pages.iter().copied().collect();
    let numbers: BTreeMap<u64, u32> = distinct.into_iter().zip(0..).collect();
    Some(pages.iter().map(|page| numbers[page]).collect())
}

#[test]
fn lifetime_separation_never_costs_more_on_recorded_traces_and_hylog_little_more() {
    for name in [
        "oltp-financial1-like.ascii",
        "postmark.disksim",
        "cloudphysics.vscsi",
        "hplajw-1week.srt",
    ] {
        let Some(pages) = recorded(name) else {
            println!("SKIPPED: recorded traces: there is no data/traces/{name}");
            continue;
        };
        let data = pages.iter().max().map_or(0, |last| last + 1);
        let d = 0.85;
        let per_segment = (data / 400).clamp(4, 64);
        let segments = (f64::from(data) / d) as u32 / per_segment;
        let options = SimulatorConfig::new(PlacementKind::Lfs, segments, per_segment, d).options;
        let e = SLOW.efficiency(PAGE * 512, options.segment_bytes);
        println!(
            "{name}: {} writes, {data} pages, {segments} segments, E {e:.1}",
            pages.len()
        );
        let found = PlacementKind::ALL.map(|kind| {
            let config = SimulatorConfig {
                data,
                options: PlacementOptions {
                    disk: SLOW,
                    ..options
                },
                ..SimulatorConfig::new(kind, segments, per_segment, d)
            };
            let mut again = pages.iter().copied().cycle();
            let mut simulator = Simulator::new(config);
            let times = pages.len() as u64;
            let warm = times * (1 + 4 * u64::from(data) / times);
            let tally = simulator.run(warm, warm, || again.next().unwrap_or(0));
            let cost = tally.cost(per_segment, e);
            println!(
                "   {kind}: amplification {:.2}, cost {cost:.1}",
                tally.amplification()
            );
            cost
        });
        let [lfs, _, hylog, sepbit, _, overwrite] = found;
        assert!(sepbit < 1.01 * lfs, "{name}: {found:?}");
        assert!(hylog < 1.1 * lfs.min(overwrite), "{name}: {found:?}");
    }
}
