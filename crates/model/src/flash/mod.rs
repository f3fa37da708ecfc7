//! Plain flash: channels, dies, planes, erase blocks and pages, and nothing on top of them.
//!
//! Where data lies, and when a block is cleaned, is for the layer above; this only knows how long a
//! page takes, how often each block was programmed and erased, and what may not be done:
//!
//! - A page is programmed once, then not again until its erase block is erased.
//! - The pages of an erase block are programmed in order.
//!
//! Both are refused as a [`FlashError`] when asked for, so that a layer that breaks them fails in its
//! first test and not in the field. Pages may be left out ([`Flash::skip`]), but not made good for.
//!
//! How time passes (`timing.rs`): a channel carries one transfer at a time. A die does one array
//! operation at a time, over one page or block of each of its planes at once if they are of the same
//! kind (the multi-plane commands of ONFI); its planes keep the order they are asked in. Reads go from
//! the array to the plane's register and then over the channel, programs the other way. Left out:
//! cache registers (the transfer of one page during the array time of another), suspended erases,
//! command cycles, which take well under a microsecond, and the spread of program times within a block.
//!
//! State apart from waiting, like the disk: requests go in with [`Flash::submit`], and
//! [`Flash::advance`] gives the completions out. [`PlainFlash`] does the waiting and has the data: a device
//! with these rules. [`Fronted`] puts a first MiB before it in which two places can be rewritten, as a
//! log-structured volume needs for its superblocks. [`TranslatedFlash`] is an ordinary solid-state drive over such chips.

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

pub use front::{Fronted, FrontedError};
pub use parts::{Part, named, names};
pub use plain::{FlashUsage, PlainFlash, PlainFlashError};
pub use translated::{TranslatedFlash, TranslatedFlashError, TranslationOptions, TranslationUsage};

use timing::Timing;

/// A finished request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The number it was submitted with.
    pub id: u64,
    /// When it was done.
    pub at: Instant,
}

/// How much flash there is: parts of one kind, on channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrangement {
    /// Channels, which transfer at the same time.
    pub channels: u32,
    /// Dies on each channel, which share its transfers and else work at the same time.
    pub dies_per_channel: u32,
}

/// An erase block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Block {
    /// The channel.
    pub channel: u32,
    /// The die on that channel.
    pub die: u32,
    /// The plane of that die.
    pub plane: u32,
    /// The block in that plane.
    pub block: u32,
}

/// What is asked of the flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Reads one page. An erased page may be read; it holds ones.
    Read {
        /// Its block.
        block: Block,
        /// The page in it.
        page: u32,
    },
    /// Programs one page.
    Program {
        /// Its block.
        block: Block,
        /// The page in it.
        page: u32,
    },
    /// Erases a block.
    Erase(Block),
}

impl Op {
    /// The block concerned.
    pub fn block(&self) -> Block {
        match *self {
            Op::Read { block, .. } | Op::Program { block, .. } | Op::Erase(block) => block,
        }
    }
}

/// Why the flash does not do what it is asked. Nothing happened then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FlashError {
    /// There is no such channel, die, plane, block or page.
    #[error("{0:?} is not on this flash")]
    NoSuchPlace(Op),
    /// The page is programmed; its block must be erased first.
    #[error("page {page} of {block:?} is programmed already; erase the block first")]
    Programmed {
        /// The block.
        block: Block,
        /// The page.
        page: u32,
    },
    /// An earlier page of the block is not programmed yet.
    #[error("page {page} of {block:?} comes after page {next}, which is not programmed yet")]
    OutOfOrder {
        /// The block.
        block: Block,
        /// The page asked for.
        page: u32,
        /// The page whose turn it is.
        next: u32,
    },
    /// A later page of the block is programmed, and this one was left out.
    #[error(
        "page {page} of {block:?} was left out; {next} is the next to program until it is erased"
    )]
    LeftOut {
        /// The block.
        block: Block,
        /// The page asked for.
        page: u32,
        /// The page whose turn it is.
        next: u32,
    },
}

/// How an erase block was used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wear {
    /// Pages programmed in it, ever.
    pub programs: u64,
    /// Pages read of it, ever.
    pub reads: u64,
    /// Times it was erased.
    pub erases: u32,
    /// The next page to program: those before it are programmed since, or left out.
    pub next_page: u32,
}

/// Flash as it is: how worn, and what it is doing.
pub struct Flash {
    part: Part,
    arrangement: Arrangement,
    wear: Vec<Wear>,
    timing: Timing,
}

impl Flash {
    /// New flash: never programmed, all blocks erased.
    ///
    /// # Panics
    /// If there is none of it.
    pub fn new(part: Part, arrangement: Arrangement) -> Flash {
        let Arrangement {
            channels,
            dies_per_channel,
        } = arrangement;
        assert!(channels > 0 && dies_per_channel > 0, "{arrangement:?}");
        let dies = channels as usize * dies_per_channel as usize;
        let blocks = dies * part.planes_per_die as usize * part.blocks_per_plane as usize;
        Flash {
            part,
            arrangement,
            wear: vec![Wear::default(); blocks],
            timing: Timing::new(part, arrangement),
        }
    }

    /// What it is made of.
    pub fn part(&self) -> &Part {
        &self.part
    }

    /// How it is put together.
    pub fn arrangement(&self) -> Arrangement {
        self.arrangement
    }

    /// The room in it, in bytes, without the pages' spare areas.
    pub fn bytes(&self) -> u64 {
        let block = u64::from(self.part.pages_per_block) * u64::from(self.part.page_bytes);
        self.wear.len() as u64 * block
    }

    /// How a block was used; `None` if there is no such block.
    pub fn wear(&self, block: Block) -> Option<Wear> {
        self.index(block).map(|index| self.wear[index])
    }

    /// How each block was used, in the order of channel, die, plane and block.
    pub fn all_wear(&self) -> &[Wear] {
        &self.wear
    }

    fn index(&self, at: Block) -> Option<usize> {
        let fits = at.channel < self.arrangement.channels
            && at.die < self.arrangement.dies_per_channel
            && at.plane < self.part.planes_per_die
            && at.block < self.part.blocks_per_plane;
        let die =
            at.channel as usize * self.arrangement.dies_per_channel as usize + at.die as usize;
        let plane = die * self.part.planes_per_die as usize + at.plane as usize;
        fits.then_some(plane * self.part.blocks_per_plane as usize + at.block as usize)
    }

    /// Takes a request that arrives at `now`; `id` comes back with its completion. Requests to one
    /// plane are done in the order they are submitted, so a program may follow the one before it
    /// at once. Time must have passed up to `now` first ([`Flash::advance`]).
    ///
    /// # Errors
    /// If the rules of NAND forbid it; then it does not happen.
    pub fn submit(&mut self, now: Instant, id: u64, op: Op) -> Result<(), FlashError> {
        let index = self.index(op.block()).ok_or(FlashError::NoSuchPlace(op))?;
        let wear = &mut self.wear[index];
        match op {
            Op::Read { page, .. } | Op::Program { page, .. }
                if page >= self.part.pages_per_block =>
            {
                return Err(FlashError::NoSuchPlace(op));
            }
            Op::Read { .. } => wear.reads += 1,
            Op::Program { block, page } => {
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
            Op::Erase(_) => {
                wear.next_page = 0;
                wear.erases += 1;
            }
        }
        self.timing.submit(now, id, op);
        Ok(())
    }

    /// Leaves out the pages of a block that come before `page`, until it is erased. (Chips of one level a cell
    /// allow that; those of several may want the pages programmed with something.)
    ///
    /// # Errors
    /// If there is no such page, or one that comes behind it is programmed.
    pub fn skip(&mut self, block: Block, page: u32) -> Result<(), FlashError> {
        let index = self.index(block);
        let fits = page < self.part.pages_per_block;
        let no_place = FlashError::NoSuchPlace(Op::Program { block, page });
        let wear = &mut self.wear[index.filter(|_| fits).ok_or(no_place)?];
        if page < wear.next_page {
            return Err(FlashError::Programmed { block, page });
        }
        wear.next_page = page;
        Ok(())
    }

    /// When something next happens; `None` if nothing is under way.
    pub fn next_event(&self) -> Option<Instant> {
        self.timing.next_event()
    }

    /// Lets time pass up to `now`; what is done by then is added to `done`, in the order it was done.
    pub fn advance(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.timing.advance(now, done);
    }
}
