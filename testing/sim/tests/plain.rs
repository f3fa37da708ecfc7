//! Independence of the simulator from the layers: a plain disk is also a system under test. Its scenarios pass while it
//! keeps a disk's guarantee, and fail otherwise.

use std::fmt::{Display, Formatter};
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Device, DeviceError, DeviceOp, IoFuture};
use forebay_rng::{Rng, mix};
use forebay_sim::Violation;
use forebay_sim::disk::{DiskFaults, DiskImage, DiskRequest, SimDisk};
use forebay_sim::exhaustive::{cases, cuts, try_all};
use forebay_sim::explore::{Exploration, ExplorationResult, explore};
use forebay_sim::machine::{DiskContents, Machine};
use forebay_sim::plan::{
    CheckSchedule, DiskConditions, Incarnation, IncarnationEnd, ScenarioPlan, ScenarioSettings,
    coin, regions,
};
use forebay_sim::role::{DiskRole, PerDisk};
use forebay_sim::shrink::shrink;
use forebay_sim::stamp::{BEFORE, stamp};
use forebay_sim::system::{
    AttachFuture, AttachPurpose, RefusalMeaning, RequestWatcher, TestedSystem, TimeBounds,
};
use forebay_sim::workload::{ScriptBounds as Region, mix as mixes};
use forebay_sim::writers::{CrashGuarantee, WriterHistories};

const LEN: u64 = 64 << 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct PlainDisk;

impl DiskRole for PlainDisk {
    const ALL: &'static [PlainDisk] = &[PlainDisk];
}

impl Display for PlainDisk {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("disk")
    }
}

#[derive(Clone, Default, Debug)]
struct PlainTarget {
    fails: bool,
}

impl ScenarioSettings for PlainTarget {
    type Role = PlainDisk;

    fn kind(&self) -> String {
        "Plain".into()
    }

    fn show(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("a plain disk")
    }

    fn may_fail(&self) -> bool {
        self.fails
    }

    fn is_dishonest(&self) -> bool {
        false
    }

    fn plainer() -> &'static [fn(&mut PlainTarget)] {
        &[]
    }
}

struct PlainWatcher;

impl RequestWatcher for PlainWatcher {
    fn issued(&self, _writers: &WriterHistories, _request: &DiskRequest) -> Result<(), Violation> {
        Ok(())
    }

    fn ended(&self, _request: &DiskRequest, _failed: bool) {}
}

fn incarnation(
    rng: &Rng,
    seed: u64,
    lies: bool,
    plan: &ScenarioPlan<PlainTarget>,
) -> Incarnation<PlainDisk> {
    let script = |region: &std::ops::Range<u64>| {
        let region = Region {
            region: region.clone(),
            volume: LEN,
            block: 512,
        };
        mixes::script(rng, &region, 30)
    };
    Incarnation {
        seed,
        scripts: plan.regions.iter().map(script).collect(),
        cut_at: rng.below(120),
        stop_at: None,
        abandons_at: None,
        freeze: None,
        replaces_at: None,
        killed: rng.one_in(4),
        after: rng.pick(&[
            IncarnationEnd::Cut,
            IncarnationEnd::Quiet,
            IncarnationEnd::Close,
            IncarnationEnd::Drain,
        ]),
        coin: coin(rng, seed),
        looks: CheckSchedule::OneIn(2),
        disks: PerDisk::of(|_| DiskConditions {
            block: 512,
            slowest: Duration::from_millis(2),
            flush_takes: None,
            faults: DiskFaults {
                lies,
                ..DiskFaults::default()
            },
        }),
    }
}

/// If the disk lies, it acknowledges flushes without doing them, and the settings do not reveal this.
fn plan(seed: u64, lies: bool) -> ScenarioPlan<PlainTarget> {
    let rng = Rng::new(mix(seed, 1));
    let mut plan = ScenarioPlan {
        seed,
        volume: PlainTarget::default(),
        block: 512,
        len: LEN,
        regions: regions(&rng, LEN, 512),
        clock_leaps: None,
        resends: None,
        incarnations: Vec::new(),
    };
    for n in 0..3 {
        let incarnation = incarnation(&rng, mix(seed, n), lies, &plan);
        plan.incarnations.push(incarnation);
    }
    plan
}

impl TestedSystem for PlainTarget {
    type Volume = Rc<SimDisk>;
    type Report = ();
    type Refusal = DeviceError;
    type Undrained = DeviceError;
    type Known = ();

    fn plan(seed: u64) -> ScenarioPlan<PlainTarget> {
        plan(seed, false)
    }

    fn fresh(plan: &ScenarioPlan<PlainTarget>) -> DiskContents<PlainDisk> {
        PerDisk::of(|_| DiskImage::of(&stamp(BEFORE, 0, plan.len)))
    }

    fn renewed(_plan: &ScenarioPlan<PlainTarget>, seen: &[u8]) -> DiskContents<PlainDisk> {
        PerDisk::of(|_| DiskImage::of(seen))
    }

    fn attach(
        &self,
        machine: &Machine<PlainDisk>,
        _why: AttachPurpose,
    ) -> AttachFuture<PlainTarget> {
        let disk = Rc::clone(&machine.disks[PlainDisk]);
        // Data of the previous incarnation in the cache is visible from now on, so it must stay.
        Box::pin(async move {
            disk.flush().await?;
            Ok((disk, ()))
        })
    }

    fn close(volume: &Rc<SimDisk>) -> IoFuture<'_, ()> {
        volume.flush()
    }

    async fn drain(volume: &Rc<SimDisk>) -> Result<(), DeviceError> {
        PlainTarget::close(volume).await
    }

    /// Claims success, but neither flushes the disk nor holds writes back.
    async fn freeze(_volume: &Rc<SimDisk>, _limit: Duration) -> Result<(), String> {
        Ok(())
    }

    fn is_frozen(_volume: &Rc<SimDisk>) -> bool {
        true
    }

    fn guarantee(&self, _known: ()) -> CrashGuarantee {
        CrashGuarantee::Sectors
    }

    fn bounds(&self) -> TimeBounds {
        TimeBounds {
            request: Duration::from_secs(1),
            close: Duration::from_secs(1),
            drain: Duration::from_secs(1),
            turn_bytes: 1 << 20,
            write_bytes: 0,
        }
    }

    fn fua_covers_earlier(&self) -> bool {
        false
    }

    fn refused(
        &self,
        _refusal: &DeviceError,
        _known: (),
        _medium: &DiskContents<PlainDisk>,
    ) -> RefusalMeaning {
        RefusalMeaning::WithoutReason
    }

    fn watcher(
        &self,
        _role: PlainDisk,
        _disks: &PerDisk<PlainDisk, Rc<SimDisk>>,
    ) -> Box<dyn RequestWatcher> {
        Box::new(PlainWatcher)
    }

    fn ended(
        &self,
        _known: &mut (),
        _attached: bool,
        _role: PlainDisk,
        _request: &DiskRequest,
        _failed: bool,
    ) {
    }

    fn cut_everywhere(seed: u64) -> Vec<(String, ScenarioPlan<PlainTarget>)> {
        let volume = PlainTarget::default();
        vec![("a plain disk".into(), cuts(seed, volume, 512, LEN))]
    }

    fn failing(_role: PlainDisk, op: DeviceOp) -> Option<PlainTarget> {
        // A disk that lost the data of a failed flush does not report this when the next flush succeeds.
        (op != DeviceOp::Flush).then_some(PlainTarget { fails: true })
    }
}

fn explored(lies: bool) -> ExplorationResult {
    explored_as(&|seed| plan(seed, lies))
}

fn explored_as(plan: &(dyn Fn(u64) -> ScenarioPlan<PlainTarget> + Sync)) -> ExplorationResult {
    let exploration = Exploration {
        scenario: &|seed| forebay_sim::scenario::run(&plan(seed), false),
        seed: 1,
        time: Duration::from_secs(600),
        scenarios: Some(40),
        points: None,
        jobs: 1,
        violations: 1,
    };
    explore(&exploration, &|_, _| ())
}

#[test]
fn scenarios_of_a_plain_disk_keep_the_guarantees_of_a_disk() {
    let explored = explored(false);
    let first = explored.first().map(|found| &found.violation);
    assert_eq!(first, None, "{explored}");
    assert!(explored.tally.cycles > 500, "{explored}");
}

#[test]
fn a_disk_that_ignores_flushes_is_detected_and_its_scenario_is_shrunk() {
    let explored = explored(true);
    let first = explored.first().expect("a violation");
    assert_eq!(first.violation.checker, "flushed sectors");
    let smaller = shrink(&plan(first.seeds[0], true), Duration::from_secs(600));
    let actions = smaller
        .incarnations
        .iter()
        .flat_map(|incarnation| &incarnation.scripts);
    let count: usize = actions.map(|script| script.actions.len()).sum();
    assert!(count <= 3, "{smaller}");
}

#[test]
fn a_freeze_that_does_not_keep_its_promise_is_detected() {
    let explored = explored_as(&|seed| {
        let mut plan = plan(seed, false);
        plan.add_freezes();
        plan
    });
    let checkers = explored.found.values().map(|found| found.violation.checker);
    let checkers: Vec<&str> = checkers.collect();
    assert!(
        checkers.contains(&"flushed sectors"),
        "{checkers:?}: the copy lacks data"
    );
    assert!(explored.tally.freezes > 0, "{explored}");
}

#[test]
fn all_crash_points_and_faults_of_a_plain_disk_are_tried() {
    let tried = try_all(&cases::<PlainTarget>(7), 1);
    let first = tried.violations.first();
    let text = first.map(|(name, outcome)| format!("{name}: {:?}", outcome.violation));
    assert_eq!(text, None);
    let tally = tried.tally;
    assert!(tally.cycles > 300 && tally.faults > 30, "{tally:?}");
}
