//! What the virtual storage layer promises, and what is tried with it.

use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Device, DeviceError, IoFuture, Op};
use forebay_rng::{Rng, mix};
use forebay_sim::Violation;
use forebay_sim::disk::{Disk, Request};
use forebay_sim::exhaustive::cuts;
use forebay_sim::lanes::{Lanes, Promise};
use forebay_sim::machine::Machine;
use forebay_sim::role::Each;
use forebay_sim::subject::{Attach, Attaching, Bounds, Refused, Subject, Watcher};
use forebay_vsl::{Levelling, OpenError, Options, Recovery};

use super::numbers;
use super::plan::{Plan, of_seed};
use super::rot;
use super::settings::{Kind, Role, Space};
use super::volume::{Changes, Medium, Served, attaching, holding, kept};

/// Time limit of the last checkpoint, which a device that fails can hold up for ever. The program has the same limit.
const CHECKPOINT: Duration = Duration::from_secs(10);

/// How long anything may take, in virtual time.
const BOUNDS: Bounds = Bounds {
    request: Duration::from_secs(240),
    close: Duration::from_secs(120),
    drain: Duration::from_secs(300),
    turn_bytes: 1 << 20,
    write_bytes: 8192,
};

/// What has happened to a volume in one life.
#[derive(Clone, Copy, Default)]
pub struct Known {
    /// Something it had to write or flush failed.
    failed: bool,
}

impl Space {
    fn options(&self) -> Options {
        let common = Options::default();
        Options {
            max_delay: self.max_delay,
            map_bytes: self.map_bytes.unwrap_or(common.map_bytes),
            check_bytes: self.map_bytes.unwrap_or(common.check_bytes),
            recovery_entries: self.recovery_entries,
            home_bytes: self.home_bytes,
            patience: common.patience,
            discard: self.discard,
            levelling: if self.levelled {
                Levelling { bound: 1, every: 1 }
            } else {
                common.levelling
            },
            spare_part: Some(self.spare_part),
            huge_trim: self.huge_trim,
            detached_max: self.detached_max,
        }
    }
}

/// Nothing is to be said of its requests one by one.
struct Nothing;

impl Watcher for Nothing {
    fn issued(&self, _: &Lanes, _: &Request) -> Result<(), Violation> {
        Ok(())
    }

    fn ended(&self, _: &Request, _: bool) {}
}

/// How a fresh volume places data, and whether that changes.
fn placed(plan: &Plan) -> (forebay_vsl::Kind, bool) {
    (plan.volume.placement, plan.volume.changes.is_some())
}

impl Subject for Space {
    type Volume = Served;
    type Report = Recovery;
    type Refusal = OpenError;
    type Undrained = DeviceError;
    type Known = Known;

    fn plan(seed: u64) -> Plan {
        of_seed(seed)
    }

    fn fresh(plan: &Plan) -> Medium {
        kept(plan.len, plan.block, placed(plan))
    }

    fn renewed(plan: &Plan, seen: &[u8]) -> Medium {
        holding(seen, plan.block, placed(plan))
    }

    fn attach(&self, machine: &Machine<Role>, why: Attach) -> Attaching<Space> {
        let options = match why {
            Attach::Serve => self.options(),
            Attach::Look | Attach::Insist => Options::default(),
        };
        let changes = match why {
            Attach::Serve => self.changes.map(|seed| Changes {
                rng: Rng::new(seed),
                kinds: (forebay_vsl::Kind::ALL.into_iter())
                    .filter(|kind| self.allows(*kind))
                    .collect(),
            }),
            Attach::Look | Attach::Insist => None,
        };
        Box::pin(attaching(machine, options, why == Attach::Insist, changes))
    }

    /// What was acknowledged is made durable, and a checkpoint made, so that the next attach finds it at once.
    fn close(volume: &Served) -> IoFuture<'_, ()> {
        Box::pin(async {
            volume.flush().await?;
            // Without one, what was flushed is found as after a crash.
            let checkpoint = volume.linear().space().checkpoint();
            let _ = volume.rt.timeout(CHECKPOINT, checkpoint).await;
            Ok(())
        })
    }

    async fn drain(volume: &Served) -> Result<(), DeviceError> {
        volume.flush().await
    }

    fn promise(&self, _: Known) -> Promise {
        Promise::Prefix
    }

    fn fua_covers_earlier(&self) -> bool {
        true
    }

    fn bounds(&self) -> Bounds {
        BOUNDS
    }

    fn check_lived(before: &Medium, after: &Medium) -> Result<(), Violation> {
        numbers::are_new(&before[Role::Medium], &after[Role::Medium])
    }

    fn rotten(plan: &Plan, medium: &Medium) -> Option<Medium> {
        let rng = Rng::new(mix(plan.seed, 0x0607_7e02));
        let disk = rot::rotten(&medium[Role::Medium], plan.block, &rng)?;
        Some(Each::of(|_| disk.clone()))
    }

    fn refused(&self, _: &OpenError, _: Known, _: &Medium) -> Refused {
        Refused::WithoutReason
    }

    fn watcher(&self, _: Role, _: &Each<Role, Rc<Disk>>) -> Box<dyn Watcher> {
        Box::new(Nothing)
    }

    fn ended(&self, known: &mut Known, attached: bool, _: Role, request: &Request, failed: bool) {
        known.failed |= failed && attached && request.op != Op::Read;
    }

    /// What is known of what the process left is only what was flushed.
    fn may_be_killed(known: Known) -> bool {
        !known.failed
    }

    fn cut_everywhere(seed: u64) -> Vec<(String, Plan)> {
        let plain = Space::plain(Kind::Calm);
        let variants = [("a plain volume", 512), ("large blocks", 4096)];
        let named = variants.map(|(name, block)| {
            let plan = cuts(seed, plain.clone(), block, 128 << 10);
            (format!("{name}, seed {seed}"), plan)
        });
        named.into()
    }

    fn failing(_: Role, op: Op) -> Option<Space> {
        let kind = match op {
            Op::Discard | Op::WriteZeroes => return None,
            Op::Read => Kind::ReadsFail,
            Op::Write | Op::Flush => Kind::Fails,
        };
        Some(Space::plain(kind))
    }
}
