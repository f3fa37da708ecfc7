//! Reading what is cheap first.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::delivery::DEPTH;
use crate::describe::{Holder, Located, parts, shared};
use crate::observed;
use crate::records::{Peek, with_boundaries};
use crate::residency::{self, Means, Presence};
use crate::schedule::{Cost, Schedule, Stretch, settle};

use super::assemble::Assembly;
use super::linear::Linear;
use super::pool::Pool;
use super::{Piece, ReadOptions, Unit};

/// Bytes of a request to the device. As many as [`DEPTH`] are in memory at once, which is taken
/// from the page cache where memory is short.
const BLOCK: u64 = 256 << 10;
/// After so many surprises the residency is no longer looked up again: it changes faster than we
/// read, and what is not there any more is faulted in.
const RECONSIDERED_MAX: u32 = 1000;
/// Observations count if waiting for the device was this share of the time.
const WAITING: f64 = 0.7;

/// A part of the file being given out.
enum Current {
    /// From the page cache: read up to `at`.
    Cached { at: u64, end: u64 },
    /// From the device: given out up to `at`; the blocks from there to `end` are the next in
    /// `asked`, and if the stretch goes on after `end`, they are not the last (see
    /// [`Best::ask`]).
    Device { at: u64, end: u64 },
}

/// A part of the file that was asked for.
struct Asked {
    from: u64,
    to: u64,
    /// Somebody else read it into the page cache meanwhile: it is taken from there.
    cached: bool,
}

/// Reads bytes `from` to `to` in best order, then what was added since.
///
/// Invariants: every byte before `to` is in exactly one of: given out, `assembly`, `current` (from
/// `at` on), `asked`, `begun` or `schedule`. Stretches in `schedule` begin and end at boundaries of units,
/// but for the end of the file.
pub(super) struct Best<'f> {
    file: &'f File,
    to: u64,
    options: ReadOptions,
    means: Means,
    located: Arc<Located>,
    schedule: Schedule,
    peek: Peek<'f>,
    reconsidered: u32,
    current: Option<Current>,
    assembly: Assembly,
    pool: Option<Pool>,
    /// Blocks on their way, in the order in which they will be given out.
    asked: VecDeque<Asked>,
    /// The stretches that these blocks are of, without the current one: first byte, and the byte
    /// after the last that was asked for.
    stretches: VecDeque<(u64, u64)>,
    /// What was not asked for yet of the last stretch in `asked`. It goes on before any other, also
    /// one that comes before it in the file, since units lie across its blocks.
    begun: Option<Stretch>,
    /// The file ended inside the current device stretch.
    cut_off: bool,
    /// Device requests begin while the cached part is given out.
    ahead: bool,
    /// Where reading goes on after the schedule: the end, or the last unit if it is not whole.
    tail: u64,
    last: Option<Linear<'f>>,
    clock: Clock,
}

/// What the device took.
#[derive(Default)]
struct Clock {
    begun: Option<Instant>,
    waited: Duration,
    bytes: u64,
}

impl<'f> Best<'f> {
    pub(super) fn new(
        file: &'f File,
        from: u64,
        to: u64,
        options: ReadOptions,
        may_stop: bool,
    ) -> io::Result<Best<'f>> {
        let mut best = Best {
            file,
            to,
            options,
            means: residency::means(file)?,
            located: shared().locate(file)?,
            schedule: Schedule::default(),
            peek: Peek::new(file, from, to),
            reconsidered: 0,
            current: None,
            assembly: Assembly::new(options.unit, options.chunk, from),
            pool: None,
            asked: VecDeque::new(),
            stretches: VecDeque::new(),
            begun: None,
            cut_off: false,
            ahead: !may_stop,
            tail: to,
            last: None,
            clock: Clock::default(),
        };
        best.consider(from, to)?;
        Ok(best)
    }

    /// The byte after the last that was there.
    pub(super) fn end(&self) -> u64 {
        self.last.as_ref().map_or(self.to, Linear::end)
    }

    /// Looks up where bytes `from` to `to` are, and puts them into the schedule.
    fn consider(&mut self, from: u64, to: u64) -> io::Result<()> {
        let located = Arc::clone(&self.located);
        let parts = parts(self.file, from, to)?;
        let stretches = parts.into_iter().map(|part| Stretch {
            offset: part.offset,
            end: part.end,
            cost: match part.holder {
                Holder::Cache => Cost::CACHED,
                Holder::Nothing => Cost::HOLE,
                Holder::Unknown => Cost::device(None),
                Holder::Device(at) => {
                    Cost::device(located.zone(at).rates.map(|rates| rates.latency_s.median))
                }
            },
        });
        let settled = with_boundaries(self.options.unit, &mut self.peek, |boundaries| {
            settle(stretches, boundaries)
        })?;
        self.schedule.add(settled);
        Ok(())
    }

    pub(super) fn next_piece(&mut self) -> io::Result<Option<Piece<'_>>> {
        loop {
            if self.last.is_some() {
                break;
            }
            match self.current {
                None => self.begin_next()?,
                Some(Current::Cached { at, end }) if at < end => self.load_cached(at, end)?,
                Some(Current::Device { at, end }) if at < end => self.load_block()?,
                Some(_) => {
                    self.end_current();
                    if self.assembly.cut(true) {
                        return Ok(Some(self.assembly.piece()));
                    }
                    continue;
                }
            }
            if self.assembly.cut(false) {
                return Ok(Some(self.assembly.piece()));
            }
        }
        match &mut self.last {
            Some(last) => last.next_piece(),
            None => Ok(None),
        }
    }

    /// Goes to the cheapest stretch left; after the last one, to what was added to the file.
    fn begin_next(&mut self) -> io::Result<()> {
        let cached = self
            .schedule
            .first(Cost::CACHED)
            .filter(|one| one.cost == Cost::CACHED);
        if let Some(stretch) = cached {
            self.schedule.take(stretch, stretch.end);
            self.assembly.restart(stretch.offset);
            self.current = Some(Current::Cached {
                at: stretch.offset,
                end: stretch.end,
            });
            if self.ahead {
                self.ask()?;
            }
            return Ok(());
        }
        self.ask()?;
        match self.stretches.pop_front() {
            Some((from, end)) => {
                self.assembly.restart(from);
                self.cut_off = false;
                self.current = Some(Current::Device { at: from, end });
            }
            None => {
                self.note_device();
                self.last = Some(Linear::at(self.file, self.tail, self.options));
            }
        }
        Ok(())
    }

    /// The stretch was read to its end. What it has of a unit that goes on beyond the end of the
    /// file is left for the tail, since the file may have grown.
    fn end_current(&mut self) {
        let end = match self.current.take() {
            Some(Current::Cached { end, .. } | Current::Device { end, .. }) => end,
            None => return,
        };
        if end == self.to && self.options.unit != Unit::Bytes {
            self.tail = self.assembly.at();
            self.assembly.restart(self.tail);
        }
    }

    /// The next part of a cached stretch, if it is still there; else back to the schedule with what
    /// is left of the stretch.
    fn load_cached(&mut self, at: u64, end: u64) -> io::Result<()> {
        let to = end.min(at + self.options.chunk.max(1) as u64);
        if self.reconsidered < RECONSIDERED_MAX
            && residency::uniform(self.file, self.means, at, to)? != Some(Presence::Cached)
        {
            self.reconsidered += 1;
            let from = self.assembly.at();
            self.assembly.restart(from);
            self.current = None;
            return self.consider(from, end);
        }
        let got = self.load_from_cache(at, to)?;
        // Less than asked for: the file was cut off here.
        let at = if got < to - at { end } else { to };
        self.current = Some(Current::Cached { at, end });
        Ok(())
    }

    /// The next block of the current device stretch.
    fn load_block(&mut self) -> io::Result<()> {
        let (Some(Current::Device { end, .. }), Some(asked)) =
            (&self.current, self.asked.pop_front())
        else {
            unreachable!("a device stretch has blocks until its end");
        };
        let end = *end;
        self.current = Some(Current::Device { at: asked.to, end });
        let got = match asked.cached {
            true if self.cut_off => 0,
            true => self.load_from_cache(asked.from, asked.to)?,
            false => self.load_from_pool()?,
        };
        self.cut_off |= got < asked.to - asked.from;
        // Before anything else: it makes `end` true of the current stretch.
        self.ask()
    }

    /// Adds bytes `from` to `to` without read-ahead; how many there were.
    fn load_from_cache(&mut self, from: u64, to: u64) -> io::Result<u64> {
        let mut at = from;
        while at < to {
            let room = self.assembly.make_room();
            let length = room.len().min((to - at) as usize);
            let n = self.peek.read(at, &mut room[..length])?;
            self.assembly.add(n);
            at += n as u64;
            if n < length {
                break;
            }
        }
        Ok(at - from)
    }

    fn load_from_pool(&mut self) -> io::Result<u64> {
        let pool = self.pool.as_mut().expect("asked for a block");
        let begun = Instant::now();
        self.clock.begun.get_or_insert(begun);
        let block = pool.wait()?;
        self.clock.waited += begun.elapsed();
        self.clock.bytes += block.length as u64;
        if !self.cut_off {
            self.assembly.append(block.bytes());
        }
        let length = block.length as u64;
        pool.recycle(block);
        Ok(length)
    }

    /// Keeps the device busy: afterwards enough blocks are asked for, or all.
    fn ask(&mut self) -> io::Result<()> {
        while self.asked.len() < DEPTH {
            let Some(stretch) = self.begun.take().or_else(|| self.take_dear()) else {
                return Ok(());
            };
            let (from, end) = (stretch.offset, stretch.end);
            let to = end.min((from / BLOCK + 1) * BLOCK);
            self.begun = (to < end).then_some(Stretch {
                offset: to,
                ..stretch
            });
            match (self.stretches.back_mut(), &mut self.current) {
                (Some((_, end)), _) if *end == from => *end = to,
                (None, Some(Current::Device { end, .. })) if *end == from => *end = to,
                _ => self.stretches.push_back((from, to)),
            }
            let presence = residency::uniform(self.file, self.means, from, to)?;
            let cached = presence == Some(Presence::Cached);
            self.asked.push_back(Asked { from, to, cached });
            if cached {
                continue;
            }
            if self.pool.is_none() {
                self.pool = Some(Pool::new(self.file, BLOCK as usize)?);
            }
            self.pool.as_mut().expect("just made").ask(from, to);
        }
        Ok(())
    }

    fn take_dear(&mut self) -> Option<Stretch> {
        let stretch = self.schedule.first(Cost::HOLE)?;
        self.schedule.take(stretch, stretch.end);
        Some(stretch)
    }

    /// What the device really took refreshes the estimates.
    fn note_device(&mut self) {
        let Clock {
            begun: Some(begun),
            waited,
            bytes,
        } = std::mem::take(&mut self.clock)
        else {
            return;
        };
        let took = begun.elapsed().as_secs_f64();
        if let [zone] = &self.located.zones[..]
            && waited.as_secs_f64() >= took * WAITING
        {
            observed::note(&zone.key, bytes, took);
        }
    }
}
