//! Operation of a drive: translates requests of the host to operations of the chips.

use std::collections::VecDeque;
use std::ops::Range;

use forebay_rt::Instant;

use super::BLOCK;
use super::TranslationUsage;
use super::buffer::{UnitPart, WriteBuffer};
use super::map::{FlashMap, PageWriter};
use crate::clockwork::{ClockworkModel, CommandCompletion};
use crate::flash::chips::FlashChips;

/// Number of chip requests that program pages for the host.
const PROGRAM: u64 = 1;
/// Number of chip requests for which no host request waits.
const BACKGROUND: u64 = 3;

/// A write of the host that is not completely in the buffer yet.
struct WaitingWrite {
    id: u64,
    parts: VecDeque<UnitPart>,
}

/// The drive: map, write buffer and chips.
pub(super) struct TranslatedDrive {
    pub(super) map: FlashMap,
    chips: FlashChips,
    buffer: WriteBuffer,
    /// Bytes of a mapping unit, which is a page.
    unit: u64,
    writes: VecDeque<WaitingWrite>,
    /// Completed requests.
    ready: Vec<CommandCompletion>,
    /// Counts, except those of the chips.
    usage: TranslationUsage,
    /// Buffer, kept to reuse its memory.
    done: Vec<CommandCompletion>,
}

impl TranslatedDrive {
    /// Creates a drive over erased chips. A mapping unit has `unit` bytes.
    pub(super) fn new(
        chips: FlashChips,
        map: FlashMap,
        unit: u64,
        buffer_units: u32,
    ) -> TranslatedDrive {
        TranslatedDrive {
            map,
            chips,
            buffer: WriteBuffer::new(buffer_units, unit / BLOCK),
            unit,
            writes: VecDeque::new(),
            ready: Vec::new(),
            usage: TranslationUsage::default(),
            done: Vec::new(),
        }
    }

    /// Returns the counts so far.
    pub(super) fn usage(&self) -> TranslationUsage {
        let wear = self.chips.wear(0..self.map.reclaim_units());
        let blocks = wear.len() as u64;
        let programs: u64 = wear.iter().map(|wear| wear.programs).sum();
        let erases: u64 = wear.iter().map(|wear| u64::from(wear.erases)).sum();
        TranslationUsage {
            programmed: programs * self.unit,
            erased: erases * self.bytes() / blocks.max(1),
            ..self.usage
        }
    }

    /// Returns the bytes of the chips in use.
    pub(super) fn bytes(&self) -> u64 {
        self.map.reclaim_units() * self.map.pages() * self.unit
    }

    /// Returns the mapping units, or parts of them, in a range of bytes.
    fn parts(&self, range: Range<u64>) -> impl Iterator<Item = UnitPart> {
        let unit_bytes = self.unit;
        (range.start / unit_bytes..range.end.div_ceil(unit_bytes)).map(move |unit| {
            let from = range.start.max(unit * unit_bytes) - unit * unit_bytes;
            let to = range.end.min((unit + 1) * unit_bytes) - unit * unit_bytes;
            let count = (to - from) / BLOCK;
            UnitPart {
                unit,
                blocks: (u64::MAX >> (64 - count)) << (from / BLOCK),
            }
        })
    }

    /// Takes a write of whole blocks.
    pub(super) fn write(&mut self, now: Instant, id: u64, range: Range<u64>) {
        self.usage.host += range.end - range.start;
        let parts = self.parts(range).collect();
        self.writes.push_back(WaitingWrite { id, parts });
        self.fill_buffer(now);
    }

    /// Takes a read of whole blocks. Blocks in the buffer, and blocks that were never written, take no time.
    pub(super) fn read(&mut self, now: Instant, id: u64, range: Range<u64>) {
        let beneath = self.parts(range).filter(|part| !self.buffer.holds(part));
        let pages: Vec<u64> = beneath
            .filter_map(|part| self.map.page_of(part.unit))
            .collect();
        if pages.is_empty() {
            self.ready.push(CommandCompletion { id, at: now });
        } else {
            self.chips.read(now, 2 * id, pages);
        }
    }

    /// Unmaps mapping units.
    pub(super) fn discard(&mut self, units: Range<u64>) {
        for unit in units {
            self.buffer.forget(unit);
            self.map.unmap(unit);
        }
    }

    /// Moves writes to the buffer, oldest first, while the buffer has space, and programs the units that the buffer
    /// releases.
    fn fill_buffer(&mut self, now: Instant) {
        while let Some(write) = self.writes.front_mut() {
            while let Some(part) = write.parts.front() {
                if !self.buffer.add(*part) {
                    break;
                }
                write.parts.pop_front();
            }
            let is_done = write.parts.is_empty();
            let id = write.id;
            let mut programs = 0;
            while let Some(part) = self.buffer.take() {
                self.program(now, part);
                programs += 1;
            }
            if is_done {
                self.writes.pop_front();
                self.ready.push(CommandCompletion { id, at: now });
            } else if programs == 0 {
                return;
            }
        }
    }

    fn program(&mut self, now: Instant, part: UnitPart) {
        if !self.buffer.is_whole(&part)
            && let Some(page) = self.map.page_of(part.unit)
        {
            self.usage.completed += self.unit;
            self.chips.read(now, BACKGROUND, [page]);
        }
        while self.map.must_collect(part.unit) {
            self.collect(now);
        }
        let page = self.map.map(part.unit, PageWriter::Host);
        self.chips.program(now, PROGRAM, [page]);
    }

    /// Empties and erases one reclaim unit.
    fn collect(&mut self, now: Instant) {
        let (victim, units) = self.map.victim();
        for unit in units {
            let from = self.map.page_of(unit).expect("it is live");
            self.chips.read(now, BACKGROUND, [from]);
            let to = self.map.map(unit, PageWriter::Collection);
            self.chips.program(now, BACKGROUND, [to]);
            self.usage.moved += self.unit;
        }
        let blocks = self.chips.to_erase(victim..victim + 1);
        self.chips
            .erase(now, BACKGROUND, victim..victim + 1, &blocks);
        self.map.freed(victim);
    }
}

impl ClockworkModel for TranslatedDrive {
    fn next_event(&self) -> Option<Instant> {
        let ready = self.ready.first().map(|done| done.at);
        ready.or_else(|| self.chips.next_event())
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<CommandCompletion>) {
        let mut of_chips = std::mem::take(&mut self.done);
        self.chips.advance(now, &mut of_chips);
        let mut has_space = false;
        for CommandCompletion { id, at } in of_chips.drain(..) {
            match id {
                PROGRAM => {
                    self.buffer.programmed();
                    has_space = true;
                }
                BACKGROUND => {}
                _ => done.push(CommandCompletion { id: id / 2, at }),
            }
        }
        self.done = of_chips;
        if has_space {
            self.fill_buffer(now);
        }
        done.append(&mut self.ready);
    }
}
