//! Independence of the simulator from the layers: a plain disk is also a system under test. Its scenarios pass while it
//! keeps a disk's guarantee, and fail otherwise.

use std::fmt::{Display, Formatter};
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Device, DeviceError, IoFuture, Op};
use forebay_rng::{Rng, mix};
use forebay_sim::Violation;
use forebay_sim::disk::{Disk, Faults, Image, Request};
use forebay_sim::exhaustive::{cases, cuts, try_all};
use forebay_sim::explore::{Exploration, Explored, explore};
use forebay_sim::lanes::{Lanes, Promise};
use forebay_sim::machine::{Machine, Medium};
use forebay_sim::plan::{After, Conditions, Life, Looks, Plan, Settings, coin, regions};
use forebay_sim::role::{Each, Role};
use forebay_sim::shrink::shrink;
use forebay_sim::stamp::{BEFORE, stamp};
use forebay_sim::subject::{Attach, Attaching, Bounds, Refused, Subject, Watcher};
use forebay_sim::workload::{Bounds as Region, mix as mixes};

const LEN: u64 = 64 << 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Only;

impl Role for Only {
    const ALL: &'static [Only] = &[Only];
}

impl Display for Only {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("disk")
    }
}

#[derive(Clone, Debug)]
struct Plain {
    fails: bool,
}

impl Settings for Plain {
    type Role = Only;

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

    fn plainer() -> &'static [fn(&mut Plain)] {
        &[]
    }
}

struct Unwatched;

impl Watcher for Unwatched {
    fn issued(&self, _lanes: &Lanes, _request: &Request) -> Result<(), Violation> {
        Ok(())
    }

    fn ended(&self, _request: &Request, _failed: bool) {}
}

fn life(rng: &Rng, seed: u64, lies: bool, plan: &Plan<Plain>) -> Life<Only> {
    let script = |region: &std::ops::Range<u64>| {
        let region = Region {
            region: region.clone(),
            volume: LEN,
            block: 512,
        };
        mixes::script(rng, &region, 30)
    };
    Life {
        seed,
        scripts: plan.regions.iter().map(script).collect(),
        cut_at: rng.below(120),
        stop_at: None,
        gives_up_at: None,
        killed: rng.one_in(4),
        after: rng.pick(&[After::Cut, After::Quiet, After::Close, After::Drain]),
        coin: coin(rng, seed),
        looks: Looks::OneIn(2),
        disks: Each::of(|_| Conditions {
            block: 512,
            slowest: Duration::from_millis(2),
            flush_takes: None,
            faults: Faults {
                lies,
                ..Faults::default()
            },
        }),
    }
}

/// If the disk lies, it acknowledges flushes without doing them, and the settings do not reveal this.
fn plan(seed: u64, lies: bool) -> Plan<Plain> {
    let rng = Rng::new(mix(seed, 1));
    let mut plan = Plan {
        seed,
        volume: Plain { fails: false },
        block: 512,
        len: LEN,
        regions: regions(&rng, LEN, 512),
        clock_leaps: None,
        resends: None,
        lives: Vec::new(),
    };
    for n in 0..3 {
        let life = life(&rng, mix(seed, n), lies, &plan);
        plan.lives.push(life);
    }
    plan
}

impl Subject for Plain {
    type Volume = Rc<Disk>;
    type Report = ();
    type Refusal = DeviceError;
    type Undrained = DeviceError;
    type Known = ();

    fn plan(seed: u64) -> Plan<Plain> {
        plan(seed, false)
    }

    fn fresh(plan: &Plan<Plain>) -> Medium<Only> {
        Each::of(|_| Image::of(&stamp(BEFORE, 0, plan.len)))
    }

    fn renewed(_plan: &Plan<Plain>, seen: &[u8]) -> Medium<Only> {
        Each::of(|_| Image::of(seen))
    }

    fn attach(&self, machine: &Machine<Only>, _why: Attach) -> Attaching<Plain> {
        let disk = Rc::clone(&machine.disks[Only]);
        // Data of the previous incarnation in the cache is visible from now on, so it must stay.
        Box::pin(async move {
            disk.flush().await?;
            Ok((disk, ()))
        })
    }

    fn close(volume: &Rc<Disk>) -> IoFuture<'_, ()> {
        volume.flush()
    }

    async fn drain(volume: &Rc<Disk>) -> Result<(), DeviceError> {
        Plain::close(volume).await
    }

    fn promise(&self, _known: ()) -> Promise {
        Promise::Sectors
    }

    fn bounds(&self) -> Bounds {
        Bounds {
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

    fn refused(&self, _refusal: &DeviceError, _known: (), _medium: &Medium<Only>) -> Refused {
        Refused::WithoutReason
    }

    fn watcher(&self, _role: Only, _disks: &Each<Only, Rc<Disk>>) -> Box<dyn Watcher> {
        Box::new(Unwatched)
    }

    fn ended(
        &self,
        _known: &mut (),
        _attached: bool,
        _role: Only,
        _request: &Request,
        _failed: bool,
    ) {
    }

    fn cut_everywhere(seed: u64) -> Vec<(String, Plan<Plain>)> {
        let volume = Plain { fails: false };
        vec![("a plain disk".into(), cuts(seed, volume, 512, LEN))]
    }

    fn failing(_role: Only, op: Op) -> Option<Plain> {
        // A disk that lost the data of a failed flush does not report this when the next flush succeeds.
        (op != Op::Flush).then_some(Plain { fails: true })
    }
}

fn explored(lies: bool) -> Explored {
    let exploration = Exploration {
        world: &|seed| forebay_sim::world::run(&plan(seed, lies), false),
        seed: 1,
        time: Duration::from_secs(600),
        worlds: Some(40),
        points: None,
        jobs: 1,
        violations: 1,
    };
    explore(&exploration, &|_, _| ())
}

#[test]
fn worlds_of_a_plain_disk_hold_a_disks_promise() {
    let explored = explored(false);
    let first = explored.first().map(|found| &found.violation);
    assert_eq!(first, None, "{explored}");
    assert!(explored.tally.cycles > 500, "{explored}");
}

#[test]
fn a_disk_that_lies_about_flushes_is_found_out_and_its_world_made_small() {
    let explored = explored(true);
    let first = explored.first().expect("a violation");
    assert_eq!(first.violation.checker, "flushed sectors");
    let smaller = shrink(&plan(first.seeds[0], true), Duration::from_secs(600));
    let actions = smaller.lives.iter().flat_map(|life| &life.scripts);
    let count: usize = actions.map(|script| script.actions.len()).sum();
    assert!(count <= 3, "{smaller}");
}

#[test]
fn everything_that_can_happen_to_a_plain_disk_is_tried() {
    let tried = try_all(&cases::<Plain>(7), 1);
    let first = tried.violations.first();
    let text = first.map(|(name, outcome)| format!("{name}: {:?}", outcome.violation));
    assert_eq!(text, None);
    let tally = tried.tally;
    assert!(tally.cycles > 300 && tally.faults > 30, "{tally:?}");
}
