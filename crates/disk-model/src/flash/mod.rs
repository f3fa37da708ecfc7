//! Plain flash: channels, dies, planes, erase blocks and pages, without a translation layer.
//!
//! The layer above decides the place of data and the cleaning of blocks. This module computes the durations of page
//! operations, counts the programs and erases of each block, and enforces the rules:
//!
//! - A page is programmed once, and again only after its erase block was erased.
//! - The pages of an erase block are programmed in order.
//!
//! A request against a rule fails with a [`FlashError`], so that a faulty layer fails in its first test and not in the
//! field. Pages may be skipped ([`Flash::skip`]), but cannot be programmed later.
//!
//! Timing (`timing.rs`): a channel does one transfer at a time. A die does one array operation at a time. The operation
//! can include several of the die's planes, with a page or block of each (the multi-plane commands of ONFI). A plane
//! serves its requests in order. A read goes from the array to the plane's register and then over the channel, a
//! program goes the other way. Not modelled: cache registers (the transfer of one page during the array time of
//! another), suspended erases, and the variation of program times within a block. Command cycles, which take well below
//! a microsecond, are not modelled either.
//!
//! The flash is state without waiting, like the disk: [`Flash::submit`] takes requests, and [`Flash::advance`] returns
//! the completions. [`PlainFlash`] waits and stores the data: a device with these rules. [`FrontedFlash`] adds a first MiB
//! with two rewritable places, which a log-structured volume needs for its superblocks. [`TranslatedFlash`] is an
//! ordinary solid-state drive over such chips.

mod chips;
mod format;
mod front;
mod parts;
mod plain;
#[cfg(test)]
mod tests;
mod timing;
mod translated;

use forebay_rt::Instant;

pub use front::{FrontedError, FrontedFlash};
pub use parts::{FlashPart, named, names};
pub use plain::{FlashUsage, PlainFlash, PlainFlashError};
pub use translated::{TranslatedFlash, TranslatedFlashError, TranslationOptions, TranslationUsage};

use timing::FlashTiming;

/// A completed request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlashCompletion {
    /// The number with which the request was submitted.
    pub id: u64,
    /// Completion time.
    pub at: Instant,
}

/// Number of parts of one kind, on channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChipArrangement {
    /// Channels, which transfer concurrently.
    pub channels: u32,
    /// Dies on each channel. They share the channel's transfers, and otherwise work concurrently.
    pub dies_per_channel: u32,
}

/// An erase block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EraseBlock {
    /// The channel.
    pub channel: u32,
    /// The die on that channel.
    pub die: u32,
    /// The plane of that die.
    pub plane: u32,
    /// The block in that plane.
    pub block: u32,
}

/// A request to the flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlashOp {
    /// Reads one page. An erased page may be read; it contains ones.
    Read {
        /// Block of the page.
        block: EraseBlock,
        /// Number of the page in its block.
        page: u32,
    },
    /// Programs one page.
    Program {
        /// Block of the page.
        block: EraseBlock,
        /// Number of the page in its block.
        page: u32,
    },
    /// Erases a block.
    Erase(EraseBlock),
}

impl FlashOp {
    /// Returns the block of the request.
    pub fn block(&self) -> EraseBlock {
        match *self {
            FlashOp::Read { block, .. }
            | FlashOp::Program { block, .. }
            | FlashOp::Erase(block) => block,
        }
    }
}

/// Reason why the flash refused a request. The request had no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FlashError {
    /// The channel, die, plane, block or page does not exist.
    #[error("{0:?} is not on this flash")]
    NoSuchPlace(FlashOp),
    /// The page is programmed; its block must be erased first.
    #[error("page {page} of {block:?} is programmed already; erase the block first")]
    Programmed {
        /// The block.
        block: EraseBlock,
        /// The page.
        page: u32,
    },
    /// An earlier page of the block is not programmed yet.
    #[error("page {page} of {block:?} comes after page {next}, which is not programmed yet")]
    OutOfOrder {
        /// The block.
        block: EraseBlock,
        /// The requested page.
        page: u32,
        /// The page that must be programmed next.
        next: u32,
    },
    /// The page was skipped: a later page of the block is programmed.
    #[error(
        "page {page} of {block:?} was skipped; {next} is the next to program until it is erased"
    )]
    LeftOut {
        /// The block.
        block: EraseBlock,
        /// The requested page.
        page: u32,
        /// The page that can be programmed next.
        next: u32,
    },
}

/// Use of an erase block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockWear {
    /// Pages programmed in the block so far.
    pub programs: u64,
    /// Pages read from the block so far.
    pub reads: u64,
    /// Erases of the block.
    pub erases: u32,
    /// The next page to program: earlier pages are programmed or skipped.
    pub next_page: u32,
}

/// The state of flash chips: wear and operations in progress.
pub struct Flash {
    part: FlashPart,
    arrangement: ChipArrangement,
    wear: Vec<BlockWear>,
    timing: FlashTiming,
}

impl Flash {
    /// Creates new flash: never programmed, all blocks erased.
    ///
    /// # Panics
    /// If the number of channels or dies is 0.
    pub fn new(part: FlashPart, arrangement: ChipArrangement) -> Flash {
        let ChipArrangement {
            channels,
            dies_per_channel,
        } = arrangement;
        assert!(channels > 0 && dies_per_channel > 0, "{arrangement:?}");
        let dies = channels as usize * dies_per_channel as usize;
        let blocks = dies * part.planes_per_die as usize * part.blocks_per_plane as usize;
        Flash {
            part,
            arrangement,
            wear: vec![BlockWear::default(); blocks],
            timing: FlashTiming::new(part, arrangement),
        }
    }

    /// Returns the kind of the parts.
    pub fn part(&self) -> &FlashPart {
        &self.part
    }

    /// Returns the arrangement of the parts.
    pub fn arrangement(&self) -> ChipArrangement {
        self.arrangement
    }

    /// Returns the capacity in bytes, without the pages' spare areas.
    pub fn bytes(&self) -> u64 {
        let block = u64::from(self.part.pages_per_block) * u64::from(self.part.page_bytes);
        self.wear.len() as u64 * block
    }

    /// Returns the wear of a block. `None` if the block does not exist.
    pub fn wear(&self, block: EraseBlock) -> Option<BlockWear> {
        self.index(block).map(|index| self.wear[index])
    }

    /// Returns the wear of all blocks, in the order of channel, die, plane and block.
    pub fn all_wear(&self) -> &[BlockWear] {
        &self.wear
    }

    fn index(&self, at: EraseBlock) -> Option<usize> {
        let fits = at.channel < self.arrangement.channels
            && at.die < self.arrangement.dies_per_channel
            && at.plane < self.part.planes_per_die
            && at.block < self.part.blocks_per_plane;
        let die =
            at.channel as usize * self.arrangement.dies_per_channel as usize + at.die as usize;
        let plane = die * self.part.planes_per_die as usize + at.plane as usize;
        fits.then_some(plane * self.part.blocks_per_plane as usize + at.block as usize)
    }

    /// Takes a request that arrives at `now`; the completion carries `id`. A plane serves its requests in the order of
    /// submission, so a program may be submitted directly after the one before it. The caller must have advanced the
    /// flash to `now` ([`Flash::advance`]).
    ///
    /// # Errors
    /// If the rules of NAND forbid the request. It has no effect then.
    pub fn submit(&mut self, now: Instant, id: u64, op: FlashOp) -> Result<(), FlashError> {
        let index = self.index(op.block()).ok_or(FlashError::NoSuchPlace(op))?;
        let wear = &mut self.wear[index];
        match op {
            FlashOp::Read { page, .. } | FlashOp::Program { page, .. }
                if page >= self.part.pages_per_block =>
            {
                return Err(FlashError::NoSuchPlace(op));
            }
            FlashOp::Read { .. } => wear.reads += 1,
            FlashOp::Program { block, page } => {
                let next = wear.next_page;
                if page < next {
                    return Err(FlashError::Programmed { block, page });
                }
                if page > next {
                    return Err(FlashError::OutOfOrder { block, page, next });
                }
                wear.next_page += 1;
                wear.programs += 1;
            }
            FlashOp::Erase(_) => {
                wear.next_page = 0;
                wear.erases += 1;
            }
        }
        self.timing.submit(now, id, op);
        Ok(())
    }

    /// Skips the pages of a block before `page`, until the block is erased. (Chips with one level per cell allow
    /// skipping; chips with several levels may require programmed pages.)
    ///
    /// # Errors
    /// If the page does not exist, or a page behind it is programmed.
    pub fn skip(&mut self, block: EraseBlock, page: u32) -> Result<(), FlashError> {
        let index = self.index(block);
        let fits = page < self.part.pages_per_block;
        let no_place = FlashError::NoSuchPlace(FlashOp::Program { block, page });
        let wear = &mut self.wear[index.filter(|_| fits).ok_or(no_place)?];
        if page < wear.next_page {
            return Err(FlashError::Programmed { block, page });
        }
        wear.next_page = page;
        Ok(())
    }

    /// Returns the time of the next event. `None` without operations in progress.
    pub fn next_event(&self) -> Option<Instant> {
        self.timing.next_event()
    }

    /// Advances time to `now`; adds completed requests to `done`, in the order of completion.
    pub fn advance(&mut self, now: Instant, done: &mut Vec<FlashCompletion>) {
        self.timing.advance(now, done);
    }
}
