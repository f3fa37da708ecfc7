//! A log-structured device for the simulation of placement and cleaning: pages without content, segments as lists of
//! pages, and no waiting. It counts the pages that would be read and written.
//!
//! It calls the policies as the engine does.

use forebay_placement::WriteClock;
use forebay_placement::placement::{
    CollectedSegment, FillLevel, MoveOrder, MovedExtent, MovedPlace, OverwrittenExtent, Placement,
    PlacementKind, PlacementOptions, PlacementStream, PolicyNeeds, UserPlace, UserWrite,
};
use forebay_placement::victim::{ClosedSegment, VictimSelection, Victims};
use forebay_units::Sector;

/// Sectors of a page: 8 KiB.
pub(crate) const PAGE: u64 = 16;
const NONE: u32 = u32::MAX;
/// Nanoseconds between two client writes: a thousand a second.
const BETWEEN: u64 = 1_000_000;

/// Parameters of a simulation.
#[derive(Clone, Debug)]
pub(crate) struct SimulatorConfig {
    pub(crate) kind: PlacementKind,
    /// Method of choosing victims, if it differs from the policy's.
    pub(crate) selection: Option<VictimSelection>,
    pub(crate) segments: u32,
    /// Pages of a segment.
    pub(crate) pages: u32,
    /// Pages that hold data.
    pub(crate) data: u32,
    /// Segments that are cleaned together.
    pub(crate) together: usize,
    pub(crate) options: PlacementOptions,
}

impl SimulatorConfig {
    /// Creates the parameters of a device whose utilisation is `d`.
    pub(crate) fn new(kind: PlacementKind, segments: u32, pages: u32, d: f64) -> SimulatorConfig {
        SimulatorConfig {
            kind,
            selection: None,
            segments,
            pages,
            data: (f64::from(segments) * f64::from(pages) * d) as u32,
            together: 1,
            options: PlacementOptions {
                segment_bytes: u64::from(pages) * PAGE * 512,
                plugs: true,
                ..PlacementOptions::default()
            },
        }
    }
}

/// Pages read and written. For segments, their number.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct PageTally {
    pub(crate) users: u64,
    pub in_place: u64,
    pub(crate) moved: u64,
    pub(crate) plugged: u64,
    pub(crate) collected: u64,
}

impl PageTally {
    /// Returns the pages written per page that clients write.
    pub(crate) fn amplification(&self) -> f64 {
        (self.users + self.moved + self.plugged) as f64 / self.users as f64
    }

    /// Returns the segment I/Os per segment's worth of pages that clients write, as in `forebay_placement::cost`.
    pub(crate) fn cost(&self, pages: u32, in_place: f64) -> f64 {
        let pages = f64::from(pages);
        let single = (self.in_place + self.plugged) as f64 * in_place / pages;
        let logged = (self.users - self.in_place + self.moved) as f64 / pages;
        (single + logged + self.collected as f64) / (self.users as f64 / pages)
    }
}

#[derive(Clone, Debug)]
struct SimulatedSegment {
    live: u32,
    filled: u32,
    stream: PlacementStream,
    opened: u64,
    closed: u64,
}

/// A device in use.
pub(crate) struct Simulator {
    config: SimulatorConfig,
    policy: Box<dyn Placement>,
    needs: PolicyNeeds,
    /// Slot of each page, and the time of its last write.
    places: Vec<u32>,
    born: Vec<u64>,
    /// The page in each slot.
    slots: Vec<u32>,
    segments: Vec<SimulatedSegment>,
    victims: Victims,
    free: Vec<u32>,
    open: [Vec<Option<u32>>; 2],
    /// A segment whose holes are being plugged, and the next slot to examine.
    plugging: Option<(u32, u32)>,
    clock: u64,
    pub(crate) tally: PageTally,
}

impl Simulator {
    /// Creates a device on which all data was written once, in order.
    pub(crate) fn new(config: SimulatorConfig) -> Simulator {
        let slots = (config.segments * config.pages) as usize;
        let mut policy = config.kind.build(&config.options);
        let needs = policy.needs();
        let kept = u32::from(needs.moved) + config.together as u32;
        policy.filled(FillLevel {
            live: u64::from(config.data) * PAGE,
            capacity: u64::from((config.segments - kept) * config.pages) * PAGE,
        });
        let segment = SimulatedSegment {
            live: 0,
            filled: 0,
            stream: PlacementStream::User(0),
            opened: 0,
            closed: 0,
        };
        let open = [needs.user, needs.moved].map(|count| vec![None; usize::from(count)]);
        let mut simulator = Simulator {
            policy,
            needs,
            places: vec![NONE; config.data as usize],
            born: vec![0; config.data as usize],
            slots: vec![NONE; slots],
            segments: vec![segment; config.segments as usize],
            victims: Victims::new(),
            free: (0..config.segments).rev().collect(),
            open,
            plugging: None,
            clock: 0,
            tally: PageTally::default(),
            config,
        };
        for page in 0..simulator.config.data {
            simulator.write(page);
        }
        simulator
    }

    /// Runs `times` writes of pages from `next`, and then `measured` more, which are counted.
    pub(crate) fn run(
        &mut self,
        times: u64,
        measured: u64,
        mut next: impl FnMut() -> u32,
    ) -> PageTally {
        (0..times).for_each(|_| self.write(next()));
        self.tally = PageTally::default();
        (0..measured).for_each(|_| self.write(next()));
        self.tally
    }

    /// Returns the fraction of live pages in the used space, without free segments and unwritten space in open ones.
    pub(crate) fn utilisation(&self) -> f64 {
        let open = self.open.iter().flatten().flatten();
        let pages = self.config.pages;
        let unwritten: u32 = open
            .map(|&open| pages - self.segments[open as usize].filled)
            .sum();
        let used = (self.config.segments - self.free.len() as u32) * pages - unwritten;
        f64::from(self.config.data) / f64::from(used)
    }

    /// Writes a page as a client.
    pub(crate) fn write(&mut self, page: u32) {
        self.make_room();
        let old = self.places[page as usize];
        let overwrites = (old != NONE).then(|| OverwrittenExtent {
            born: WriteClock(self.born[page as usize]),
            stream: self.segments[(old / self.config.pages) as usize].stream,
        });
        let placed = self.policy.place_user(&UserWrite {
            at: Sector(u64::from(page) * PAGE),
            sectors: PAGE as u32,
            now: WriteClock(self.clock),
            nanos: self.clock / PAGE * BETWEEN,
            overwrites,
        });
        assert_eq!(placed.sectors, PAGE as u32);
        self.clock += PAGE;
        self.born[page as usize] = self.clock;
        self.tally.users += 1;
        match placed.place {
            UserPlace::InPlace(_) if old != NONE => self.tally.in_place += 1,
            UserPlace::InPlace(stream) | UserPlace::Append(stream) => {
                self.kill(old);
                self.append(PlacementStream::User(stream), page);
            }
        }
    }

    fn kill(&mut self, slot: u32) {
        if slot == NONE {
            return;
        }
        self.slots[slot as usize] = NONE;
        let number = slot / self.config.pages;
        let segment = &mut self.segments[number as usize];
        segment.live -= 1;
        self.victims.changed(number, segment.live);
    }

    fn append(&mut self, stream: PlacementStream, page: u32) {
        let (kind, at) = match stream {
            PlacementStream::User(at) => (0, usize::from(at)),
            PlacementStream::Moved(at) => (1, usize::from(at)),
        };
        let number = self.open[kind][at].unwrap_or_else(|| {
            let number = self.free.pop().expect("cleaning keeps some free");
            let segment = &mut self.segments[number as usize];
            (segment.stream, segment.opened) = (stream, self.clock);
            (segment.live, segment.filled) = (0, 0);
            number
        });
        let segment = &mut self.segments[number as usize];
        let slot = number * self.config.pages + segment.filled;
        segment.live += 1;
        segment.filled += 1;
        self.slots[slot as usize] = page;
        self.places[page as usize] = slot;
        let full = segment.filled == self.config.pages;
        self.open[kind][at] = (!full).then_some(number);
        if full {
            segment.closed = self.clock;
            let closed = ClosedSegment {
                capacity: self.config.pages,
                live: segment.live,
                closed: WriteClock(segment.closed),
            };
            self.victims.add(number, closed);
        }
    }

    /// Cleans until the free segments suffice for the worst case of cleaning, plus one.
    fn make_room(&mut self) {
        let needed = usize::from(self.needs.moved) + self.config.together;
        while self.free.len() <= needed {
            self.clean();
        }
    }

    fn clean(&mut self) {
        let now = WriteClock(self.clock);
        let selection = self.config.selection.unwrap_or(self.policy.selection());
        let victims = self
            .victims
            .choose(selection, now, u64::MAX, self.config.together, 1);
        assert!(!victims.is_empty(), "nothing is to be gained");
        let mut pages: Vec<(u32, u32)> = Vec::new();
        for victim in &victims {
            self.victims.remove(victim.segment);
            if self
                .plugging
                .is_some_and(|(target, _)| target == victim.segment)
            {
                self.plugging = None;
            }
            let first = victim.segment * self.config.pages;
            let slots = first..first + self.config.pages;
            let live = slots.map(|slot| (self.slots[slot as usize], victim.segment));
            pages.extend(live.filter(|(page, _)| *page != NONE));
        }
        if self.needs.order == MoveOrder::Age {
            pages.sort_by_key(|&(page, _)| self.born[page as usize]);
        }
        for victim in &victims {
            let segment = &self.segments[victim.segment as usize];
            self.policy.collected(&CollectedSegment {
                stream: segment.stream,
                opened: WriteClock(segment.opened),
                closed: WriteClock(segment.closed),
                now,
                live: segment.live * PAGE as u32,
                capacity: self.config.pages * PAGE as u32,
            });
        }
        for (page, from) in pages {
            self.move_page(page, from);
        }
        for victim in victims {
            assert_eq!(self.segments[victim.segment as usize].live, 0);
            self.free.insert(0, victim.segment);
            self.tally.collected += 1;
        }
    }

    fn move_page(&mut self, page: u32, from: u32) {
        let segment = &self.segments[from as usize];
        let placed = self.policy.place_moved(&MovedExtent {
            at: Sector(u64::from(page) * PAGE),
            sectors: PAGE as u32,
            now: WriteClock(self.clock),
            born: WriteClock(self.born[page as usize]),
            stream: segment.stream,
            segment_age: self.clock - segment.closed,
        });
        self.kill(self.places[page as usize]);
        match placed.place {
            MovedPlace::Plug(_) if self.plug(page) => self.tally.plugged += 1,
            MovedPlace::Plug(stream) | MovedPlace::Append(stream) => {
                self.append(PlacementStream::Moved(stream), page);
                self.tally.moved += 1;
            }
        }
    }

    /// Puts `page` into the next hole. Returns false if no hole is left.
    fn plug(&mut self, page: u32) -> bool {
        loop {
            let Some((number, at)) = self.plugging else {
                self.plugging = self
                    .victims
                    .holed(WriteClock(self.clock))
                    .next()
                    .map(|number| (number, 0));
                if self.plugging.is_none() {
                    return false;
                }
                continue;
            };
            let first = number * self.config.pages;
            let mut slots = first + at..first + self.config.pages;
            let hole = slots.find(|&slot| self.slots[slot as usize] == NONE);
            let Some(slot) = hole else {
                self.plugging = None;
                continue;
            };
            self.plugging = Some((number, slot - first + 1));
            self.slots[slot as usize] = page;
            self.places[page as usize] = slot;
            let segment = &mut self.segments[number as usize];
            segment.live += 1;
            self.victims.changed(number, segment.live);
            return true;
        }
    }
}
