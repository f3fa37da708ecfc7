//! What the write cache promises, and what is tried with it.

use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::{
    Acknowledge, AttachError, AttachOptions, AttachReport, DrainError, Gaps, Mode, Volume,
};
use forebay_device::{IoFuture, Op};
use forebay_log::{OpenError, PairError};
use forebay_sim::Violation;
use forebay_sim::disk::{Disk, Faults, Image, Request};
use forebay_sim::exhaustive::{ATOMIC_BYTES, cuts};
use forebay_sim::lanes::Promise;
use forebay_sim::machine::Machine;
use forebay_sim::plan::Settings;
use forebay_sim::role::Each;
use forebay_sim::subject::{
    Asked, Attach, Attaching, Bounds, Exchanged, Refused, Subject, Watcher,
};
use forebay_units::ByteLen;

use super::checkers::smooth::{self, Waiting};
use super::checkers::{Home, Log, accounts, epochs, liveness};
use super::plan::{Life, Plan, of_seed};
use super::settings::{Cache, Kind, Role};
use super::volume::{LOG_BYTES, Medium, attaching, kept, lost_with, medium, with_log};

/// What has happened to a cache in one life.
#[derive(Clone, Copy, Default)]
pub struct Known {
    /// Something the log had to do failed after the volume was attached.
    log_failed: bool,
    /// A flush of the data device failed, and may have lost what has no copy in the log.
    home_lost: bool,
    /// Who waited for room.
    waiting: Waiting,
}

impl Cache {
    /// What it is attached with to serve users.
    fn options(&self) -> AttachOptions {
        let common = AttachOptions::default();
        AttachOptions {
            acknowledge: self.acknowledge,
            max_delay: self.max_delay,
            bypass: self.bypass.map(ByteLen),
            map_memory: self.map_memory.map_or(common.map_memory, ByteLen),
            gaps: self.gaps.map_or(common.gaps, Gaps::Scattered),
            ..common
        }
    }
}

impl Subject for Cache {
    type Volume = Volume;
    type Report = AttachReport;
    type Refusal = AttachError;
    type Undrained = DrainError;
    type Known = Known;

    fn plan(seed: u64) -> Plan {
        of_seed(seed)
    }

    fn fresh(plan: &Plan) -> Medium {
        let Cache {
            used_log, grown, ..
        } = plan.volume;
        kept(plan.len, plan.block, (used_log, grown))
    }

    fn renewed(plan: &Plan, seen: &[u8]) -> Medium {
        with_log(LOG_BYTES, &Image::of(seen), plan.block)
    }

    fn attach(&self, machine: &Machine<Role>, why: Attach) -> Attaching<Cache> {
        let options = match why {
            Attach::Serve => self.options(),
            Attach::Look => AttachOptions::default(),
            Attach::Insist => AttachOptions {
                accept_changed: true,
                ..AttachOptions::default()
            },
        };
        let one_disk = self.one_disk && matches!(why, Attach::Serve);
        Box::pin(attaching(machine, one_disk, options, None))
    }

    fn close(volume: &Volume) -> IoFuture<'_, ()> {
        Box::pin(volume.close())
    }

    async fn drain(volume: &Volume) -> Result<(), DrainError> {
        volume.drain().await
    }

    fn tells_of_loss(undrained: &DrainError) -> bool {
        matches!(undrained, DrainError::Lost(_))
    }

    /// Not of a log that failed: then somebody would answer for it that it is not attached again.
    fn give_up(volume: &Volume) -> bool {
        let status = volume.status();
        let something = status.mode != Mode::Degraded && volume.has_to_give_up();
        if something {
            volume.give_up_unreadable();
        }
        something
    }

    fn promise(&self, known: Known) -> Promise {
        if known.log_failed || self.bypass.is_some() {
            Promise::Sectors
        } else {
            Promise::Prefix
        }
    }

    fn bounds(&self) -> Bounds {
        match self.kind {
            Kind::Calm | Kind::Summaries | Kind::Lies | Kind::LogLost => liveness::HEALTHY,
            _ => liveness::IN_TROUBLE,
        }
    }

    fn is_durable_at_once(&self) -> bool {
        self.acknowledge == Acknowledge::Write
    }

    fn outlives_the_process(&self) -> bool {
        self.acknowledge >= Acknowledge::Handover
    }

    /// A write past the log takes nothing earlier with it.
    fn fua_covers_earlier(&self) -> bool {
        self.bypass.is_none()
    }

    fn may_lose_unflushed(known: Known) -> bool {
        known.home_lost
    }

    /// Writes need nothing but the log, where that works: a data device that is away for less than users'
    /// patience is no reason to fail, not even where the log is full.
    fn must_take_writes(plan: &Plan, life: &Life) -> bool {
        let (log, data) = (
            &life.disks[Role::Log].faults,
            &life.disks[Role::Data].faults,
        );
        let soon_over = data.end().is_some_and(|end| end < liveness::PATIENCE / 3);
        // A disk that fails a flush of the data device may forget what is in the log.
        let alone = !plan.volume.one_disk;
        let steady = plan.clock_leaps.is_none() && data.slow.is_none() && alone;
        soon_over && steady && plan.volume.bypass.is_none() && log.refuse_nothing()
    }

    /// Of a log that failed, and of what went past it, nothing says what is durable.
    fn may_be_killed(known: Known) -> bool {
        !known.log_failed
    }

    fn refused(&self, refusal: &AttachError, known: Known, medium: &Medium) -> Refused {
        match refusal {
            // The data device alone is the volume.
            AttachError::Abandoned { .. } if known.log_failed => {
                let lost = lost_with(&medium[Role::Log]);
                Refused::Holds(medium[Role::Data].to_vec(), Some(lost))
            }
            // The superblock of a log that failed takes no writes: a copy of which that is in doubt is
            // written again, and then the other, since one will do. A cut there may tear both, and then
            // nobody believes the log either.
            AttachError::Log(OpenError::Superblocks(PairError::NoSuperblock { .. }))
                if known.log_failed =>
            {
                Refused::Holds(medium[Role::Data].to_vec(), None)
            }
            // The rescue had begun to change the ends of the data device: a human has to say that the
            // log counts, and then it does.
            AttachError::Changed { .. } if known.log_failed => Refused::Insist,
            _ => Refused::WithoutReason,
        }
    }

    /// The log device is gone; another is in its place.
    fn exchanged(&self, left: &Medium) -> Option<Exchanged<Role>> {
        (self.kind == Kind::LogLost).then(|| Exchanged {
            medium: medium(&Image::new(LOG_BYTES), &left[Role::Data]),
            volume: left[Role::Data].to_vec(),
            wrong: "an empty device was taken for the log",
        })
    }

    fn watcher(&self, role: Role, disks: &Each<Role, Rc<Disk>>) -> Box<dyn Watcher> {
        match role {
            Role::Log => {
                let data = &disks[Role::Data];
                Box::new(Log::new(data, !self.is_dishonest(), self.one_disk))
            }
            Role::Data => Box::new(Home::default()),
        }
    }

    fn ended(
        &self,
        known: &mut Known,
        attached: bool,
        role: Role,
        request: &Request,
        failed: bool,
    ) {
        if !failed {
            return;
        }
        let flush_of = |which| request.is_flush() && (role == which || self.one_disk);
        let has_only_copy = self.bypass.is_some() || known.log_failed;
        known.home_lost |= flush_of(Role::Data) && has_only_copy;
        let of_log = role == Role::Log && request.op != Op::Read;
        known.log_failed |= attached && (of_log || flush_of(Role::Log));
    }

    fn waited(plan: &Plan, life: &Life, took: Duration, ahead: u64) -> Result<(), Violation> {
        let Cache {
            kind,
            max_delay,
            map_memory,
            ..
        } = plan.volume;
        let is_slow = |faults: &Faults| {
            faults.slow.is_some() || faults.slow_reads.is_some() || !faults.troubles.is_empty()
        };
        let disks = || life.disks.iter().map(|(_, disk)| disk);
        // A map that is full holds single sectors, which go home one by one.
        let steady = kind == Kind::Calm && plan.clock_leaps.is_none() && map_memory.is_none();
        if !steady || disks().any(|disk| is_slow(&disk.faults)) {
            return Ok(());
        }
        let slowest = disks().map(|disk| disk.slowest.max(disk.flush_takes.unwrap_or_default()));
        smooth::check(took, slowest.max().unwrap_or_default(), max_delay, ahead)
    }

    fn check_serving(volume: &Volume, known: &mut Known) -> Result<(), Violation> {
        known.waiting.look(&volume.status())
    }

    fn check_accounts(
        volume: &Volume,
        report: &AttachReport,
        asked: &Asked,
    ) -> Result<(), Violation> {
        accounts::check(volume, asked, report.dirty_bytes)
    }

    fn check_drained(volume: &Volume, known: Known) -> Result<(), Violation> {
        if known.log_failed {
            Ok(())
        } else {
            accounts::check_drained(volume)
        }
    }

    fn check_lived(before: &Medium, after: &Medium) -> Result<(), Violation> {
        epochs::begun(&before[Role::Log], &after[Role::Log])
    }

    /// A log that wraps under writes of 1 MiB, which span segments; an ordinary cache; writes that are
    /// acknowledged when they are durable, or when the log device has them; large ones that go past the log; blocks of 4096 bytes;
    /// gaps between records.
    fn cut_everywhere(seed: u64) -> Vec<(String, Plan)> {
        let (len, plain) = (128 << 10, Cache::plain(Kind::Calm));
        let durable = Cache {
            acknowledge: Acknowledge::Write,
            ..plain.clone()
        };
        let handed_over = Cache {
            acknowledge: Acknowledge::Handover,
            ..plain.clone()
        };
        let bypass = Cache {
            bypass: Some(8 << 10),
            ..plain.clone()
        };
        let gaps = Cache {
            gaps: Some(seed),
            ..durable.clone()
        };
        let variants = [
            ("a wrapping log", &plain, 512, ATOMIC_BYTES + (64 << 10)),
            ("a plain volume", &plain, 512, len),
            ("durable writes", &durable, 512, len),
            ("writes handed over", &handed_over, 512, len),
            ("a bypass", &bypass, 512, len),
            ("large blocks", &plain, 4096, len),
            ("gaps in the log", &gaps, 512, len),
        ];
        let named = variants.map(|(name, cache, block, len)| {
            let plan = cuts(seed, cache.clone(), block, len);
            (format!("{name}, seed {seed}"), plan)
        });
        named.into()
    }

    fn failing(role: Role, op: Op) -> Option<Cache> {
        let kind = match (role, op) {
            // A log is neither discarded nor zeroed but when it is made.
            (Role::Log, Op::Discard | Op::WriteZeroes) => return None,
            (Role::Log, Op::Read) => Kind::LogReadsFail,
            (Role::Log, _) => Kind::LogFails,
            (Role::Data, _) => Kind::DataFails,
        };
        Some(Cache::plain(kind))
    }
}
