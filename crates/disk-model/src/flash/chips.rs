//! Plain flash as a sequence of erase units: place of each page, order of programming, and completion of requests for
//! several pages.
//!
//! A *lane* is a plane of a die. Lanes are numbered by channel first, then die, then plane, so that adjacent lanes
//! share few resources. An erase unit consists of one block of each of `gang` adjacent lanes, and its pages are
//! distributed round-robin over them. The next unit is on the next lanes.

use std::ops::Range;

use forebay_rt::Instant;
use slab::Slab;

use super::{BlockWear, EraseBlock, Flash, FlashCompletion, FlashError, FlashOp};
use crate::clockwork::{ClockworkModel, CommandCompletion};

/// The chips and their requests.
pub(super) struct FlashChips {
    flash: Flash,
    gang: u64,
    /// A bit for each page, set if the page was programmed since its block was erased.
    programmed: Vec<u64>,
    requests: Slab<ChipRequest>,
    /// Buffer, kept to reuse its memory.
    done: Vec<FlashCompletion>,
}

struct ChipRequest {
    id: u64,
    /// Pages and blocks that are not done.
    left: usize,
}

impl FlashChips {
    /// Creates the chips with `gang` lanes in an erase unit. The number of lanes must be a multiple of `gang`.
    pub(super) fn new(flash: Flash, gang: u32) -> FlashChips {
        let pages = flash.bytes() / u64::from(flash.part().page_bytes);
        FlashChips {
            flash,
            gang: gang.into(),
            programmed: vec![0; pages.div_ceil(64) as usize],
            requests: Slab::new(),
            done: Vec::new(),
        }
    }

    /// Returns the pages of an erase unit.
    fn unit_pages(&self) -> u64 {
        self.gang * u64::from(self.flash.part().pages_per_block)
    }

    /// Returns the block of an erase unit on one of its lanes.
    fn block(&self, unit: u64, lane: u64) -> EraseBlock {
        let (part, arrangement) = (self.flash.part(), self.flash.arrangement());
        let channels = u64::from(arrangement.channels);
        let dies = channels * u64::from(arrangement.dies_per_channel);
        let gangs = dies * u64::from(part.planes_per_die) / self.gang;
        let lane = unit % gangs * self.gang + lane;
        EraseBlock {
            channel: (lane % channels) as u32,
            die: (lane % dies / channels) as u32,
            plane: (lane / dies) as u32,
            block: (unit / gangs) as u32,
        }
    }

    /// Returns the block of a page, and the number of the page in the block.
    fn place(&self, page: u64) -> (EraseBlock, u32) {
        let (unit, within) = (page / self.unit_pages(), page % self.unit_pages());
        let block = self.block(unit, within % self.gang);
        (block, (within / self.gang) as u32)
    }

    pub(super) fn is_programmed(&self, page: u64) -> bool {
        self.programmed[(page / 64) as usize] >> (page % 64) & 1 == 1
    }

    /// Checks that pages may be programmed.
    pub(super) fn may_program(&self, pages: Range<u64>) -> Result<(), FlashError> {
        for number in pages {
            let (block, page) = self.place(number);
            let no_place = FlashError::NoSuchPlace(FlashOp::Program { block, page });
            let next = self.flash.wear(block).ok_or(no_place)?.next_page;
            if self.is_programmed(number) {
                return Err(FlashError::Programmed { block, page });
            }
            if page < next {
                return Err(FlashError::LeftOut { block, page, next });
            }
        }
        Ok(())
    }

    /// Programs pages. The caller must have checked [`FlashChips::may_program`].
    pub(super) fn program(&mut self, now: Instant, id: u64, pages: impl IntoIterator<Item = u64>) {
        let request = self.request(id);
        for number in pages {
            let (block, page) = self.place(number);
            self.flash.skip(block, page).expect("it may be programmed");
            self.submit(now, request, FlashOp::Program { block, page });
            self.programmed[(number / 64) as usize] |= 1 << (number % 64);
        }
    }

    pub(super) fn read(&mut self, now: Instant, id: u64, pages: impl IntoIterator<Item = u64>) {
        let request = self.request(id);
        for number in pages {
            let (block, page) = self.place(number);
            self.submit(now, request, FlashOp::Read { block, page });
        }
    }

    /// Returns the wear of the blocks of erase units.
    pub(super) fn wear(&self, units: Range<u64>) -> Vec<BlockWear> {
        let of_unit = |unit| (0..self.gang).map(move |lane| self.block(unit, lane));
        let wear = |block| self.flash.wear(block).unwrap_or_default();
        units.flat_map(of_unit).map(wear).collect()
    }

    /// Returns the programmed blocks of erase units.
    pub(super) fn to_erase(&self, units: Range<u64>) -> Vec<EraseBlock> {
        let of_unit = |unit| (0..self.gang).map(move |lane| self.block(unit, lane));
        let used = |block: &EraseBlock| {
            self.flash
                .wear(*block)
                .is_some_and(|wear| wear.next_page > 0)
        };
        units.flat_map(of_unit).filter(used).collect()
    }

    /// Erases `blocks`, which must be all blocks of `units` that are not erased.
    pub(super) fn erase(
        &mut self,
        now: Instant,
        id: u64,
        units: Range<u64>,
        blocks: &[EraseBlock],
    ) {
        let request = self.request(id);
        for block in blocks {
            self.submit(now, request, FlashOp::Erase(*block));
        }
        for number in units.start * self.unit_pages()..units.end * self.unit_pages() {
            self.programmed[(number / 64) as usize] &= !(1 << (number % 64));
        }
    }

    fn request(&mut self, id: u64) -> usize {
        self.requests.insert(ChipRequest { id, left: 0 })
    }

    fn submit(&mut self, now: Instant, request: usize, op: FlashOp) {
        let taken = self.flash.submit(now, request as u64, op);
        taken.expect("it is on the flash and in order");
        self.requests[request].left += 1;
    }
}

impl ClockworkModel for FlashChips {
    fn next_event(&self) -> Option<Instant> {
        self.flash.next_event()
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<CommandCompletion>) {
        self.flash.advance(now, &mut self.done);
        for FlashCompletion { id, at } in self.done.drain(..) {
            let request = &mut self.requests[id as usize];
            request.left -= 1;
            if request.left == 0 {
                let ChipRequest { id, .. } = self.requests.remove(id as usize);
                done.push(CommandCompletion { id, at });
            }
        }
    }
}
