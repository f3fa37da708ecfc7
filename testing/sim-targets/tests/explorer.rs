//! Tests of the explorer with scenarios of the cache: the condition of its end, and its smaller scenarios.

use std::time::Duration;

use forebay_sim::disk::DiskOutage;
use forebay_sim::explore::{Exploration, explore, of_seed};
use forebay_sim::scenario::{self, ScenarioLimits};
use forebay_sim::shrink::shrink;
use forebay_sim::system::TestedSystem;
use forebay_sim_targets::cache::plan::CachePlan;
use forebay_sim_targets::cache::{CacheDisk, CacheFaultKind, CacheTarget};

fn exploration(points: Option<u64>) -> Exploration<'static> {
    Exploration {
        scenario: &of_seed::<CacheTarget>,
        seed: 1,
        time: Duration::from_secs(600),
        scenarios: Some(200),
        points,
        jobs: 1,
        violations: u64::MAX,
    }
}

#[test]
fn an_exploration_ends_after_the_given_number_of_crash_points() {
    let explored = explore(&exploration(Some(30)), &|_, _| ());
    assert!(explored.tally.cycles >= 30, "{explored}");
    assert!(explored.tally.scenarios < 200, "{explored}");
}

fn count(plan: &CachePlan) -> usize {
    let scripts = plan
        .incarnations
        .iter()
        .flat_map(|incarnation| &incarnation.scripts);
    scripts.map(|script| script.actions.len()).sum()
}

/// Returns a scenario that claims to have no faults, although the data device fails in its last incarnation.
fn not_calm() -> CachePlan {
    let seeds = (1..).map(CacheTarget::plan);
    let mut calm = seeds.filter(|plan| {
        plan.volume.kind == CacheFaultKind::Calm && plan.incarnations.len() > 2 && count(plan) > 200
    });
    let mut plan = calm.next().expect("there are such");
    let last = plan.incarnations.last_mut().expect("an incarnation");
    last.cut_at = u64::MAX;
    last.disks[CacheDisk::Data].faults.outage = Some(DiskOutage {
        from: 0,
        op: Some(forebay_device::DeviceOp::Read),
        requests: None,
        reads: true,
    });
    plan
}

#[test]
fn a_shrunk_scenario_is_small_and_violates_the_same_checker() {
    let plan = not_calm();
    let checker = |plan: &CachePlan| {
        scenario::run(plan, false)
            .violation
            .map(|wrong| wrong.checker)
    };
    let smaller = shrink(&plan, Duration::from_secs(600));
    assert_eq!(checker(&smaller), checker(&plan), "{smaller}");
    assert!(checker(&plan).is_some());
    assert!(
        smaller.incarnations.len() == 1 && count(&smaller) <= 2,
        "{smaller}"
    );
}

#[test]
fn shrinking_without_time_left_returns_the_scenario_unchanged() {
    let plan = not_calm();
    let same = shrink(&plan, Duration::ZERO);
    assert_eq!(format!("{same}"), format!("{plan}"));
}

#[test]
fn a_scenario_is_abandoned_at_its_limit_without_a_violation() {
    let limits = ScenarioLimits {
        requests: Some(40),
        until: None,
    };
    let outcome = scenario::run_within(&not_calm(), false, limits);
    assert!(outcome.abandoned && outcome.violation.is_none());
}
