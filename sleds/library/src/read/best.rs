//! Reading what is cheap first.
//!
//! Two lanes: what is cached, and what has to come from the device. The cached one goes first; but
//! a block that has come from the device meanwhile is as cheap as a cached one, so it is given out
//! at once, and the device goes on to the next. So the device works while the caller does.

use std::fs::File;
use std::io;

use super::assemble::Assembly;
use super::cached::CachedLane;
use super::clock::Clock;
use super::device::DeviceLane;
use super::linear::Linear;
use super::unread::{Step, Unread};
use super::{Piece, ReadOptions};

/// Reads bytes `from` to `to` in best order, then what was added since.
///
/// Invariant: every byte before `to` is given out, or in exactly one of the lanes or the schedule;
/// or after `tail`, once the lanes are done.
pub(super) struct Best<'f> {
    unread: Unread<'f>,
    cached: CachedLane,
    device: DeviceLane,
    /// The device works while the cached part is given out.
    ahead: bool,
    /// Nothing is given out from here on, even if the file grows.
    limit: u64,
    /// Reads what comes after the lanes.
    last: Option<Linear<'f>>,
}

impl<'f> Best<'f> {
    pub(super) fn new(
        file: &'f File,
        from: u64,
        to: u64,
        options: ReadOptions,
        may_stop: bool,
    ) -> io::Result<Best<'f>> {
        let assembly = || Assembly::new(options.unit, options.chunk, from);
        let unread = Unread::new(file, from, to, options)?;
        let clock = Clock::best(&unread.located);
        Ok(Best {
            unread,
            cached: CachedLane::new(assembly()),
            device: DeviceLane::new(assembly(), options.chunk, clock),
            ahead: !may_stop,
            limit: u64::MAX,
            last: None,
        })
    }

    /// The same, but nothing from byte `limit` of the file on.
    pub(super) fn until(self, limit: u64) -> Best<'f> {
        Best { limit, ..self }
    }

    /// Nothing is learnt from this pass.
    pub(super) fn unobserved(&mut self) {
        self.device.unobserved();
    }

    /// The byte after the last that was there.
    pub(super) fn end(&self) -> u64 {
        self.last.as_ref().map_or(self.unread.to, Linear::end)
    }

    pub(super) fn next_piece(&mut self) -> io::Result<Option<Piece<'_>>> {
        while self.last.is_none() {
            if self.ahead {
                self.device.ask(&mut self.unread)?;
                if self.device.is_ready() && self.device.step(&mut self.unread)? == Step::Piece {
                    return Ok(Some(self.device.assembly.piece()));
                }
            }
            match self.cached.step(&mut self.unread)? {
                Step::Piece => return Ok(Some(self.cached.assembly.piece())),
                Step::More => continue,
                Step::Done => {}
            }
            match self.device.step(&mut self.unread)? {
                Step::Piece => return Ok(Some(self.device.assembly.piece())),
                Step::More => {}
                Step::Done => {
                    let Unread {
                        file,
                        tail,
                        options,
                        ..
                    } = self.unread;
                    self.last = Some(Linear::at(file, tail, options).until(self.limit));
                }
            }
        }
        match &mut self.last {
            Some(last) => last.next_piece(),
            None => Ok(None),
        }
    }
}
