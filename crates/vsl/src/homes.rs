//! What is on its way home (`home.rs`), as plain state.

use std::collections::BTreeMap;
use std::time::Duration;

use forebay_device::Buf;
use forebay_extents::{Check, Extent, Map, Place};
use forebay_rt::Instant;
use forebay_segments::Composer as _;
use forebay_units::{LINE_BYTES, LINE_SECTORS, Line, Sector};

use crate::options::Options;
use crate::prepared::mapped;
use crate::streams::Streams;

/// At most one in so many bytes of the medium are on their way home: till then they take room in the log. But so many may
/// be.
const MEDIUM_PART: u64 = 512;
const LEAST_BYTES: u64 = 256 << 10;
/// What has waited for so long is brought home even if it is little.
const DELAY: Duration = Duration::from_secs(1);

/// A line on its way home.
#[derive(Clone)]
pub(crate) struct Away {
    pub(crate) home: Home,
    /// Where its copy in the log lies.
    pub(crate) copy: Place,
    pub(crate) crc: u32,
    pub(crate) data: Buf,
}

/// Lines on their way home.
pub(crate) struct Homes {
    /// The most bytes of them.
    bytes_max: u64,
    waiting: BTreeMap<Line, Away>,
    /// Lines that are being written.
    under_way: usize,
    /// When the first of those that wait came, and whether nobody was told of it yet.
    since: Option<Instant>,
    news: bool,
}

impl Homes {
    /// None, of a medium of so many bytes.
    pub(crate) fn new(options: &Options, medium: u64) -> Homes {
        Homes {
            bytes_max: options
                .home_bytes
                .min((medium / MEDIUM_PART).max(LEAST_BYTES)),
            waiting: BTreeMap::new(),
            under_way: 0,
            since: None,
            news: false,
        }
    }

    /// True if so much is on its way that writers are to wait.
    pub(crate) fn is_full(&self) -> bool {
        (self.waiting.len() + self.under_way) as u64 * LINE_BYTES > self.bytes_max
    }

    /// True if so much waits that it should not any longer.
    fn is_much(&self) -> bool {
        self.waiting.len() as u64 * LINE_BYTES >= (self.bytes_max / 2).max(1)
    }

    /// True if who brings them home should look when they are due.
    pub(crate) fn wakes(&mut self) -> bool {
        std::mem::take(&mut self.news) || self.is_much()
    }

    /// All that wait: they are under way now.
    pub(crate) fn take(&mut self) -> BTreeMap<Line, Away> {
        self.under_way = self.waiting.len();
        std::mem::take(&mut self.waiting)
    }

    /// What was under way is not any more.
    pub(crate) fn arrived(&mut self) {
        self.under_way = 0;
    }

    /// When those that wait are to be brought home, if any do.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        let since = self.since.filter(|_| !self.waiting.is_empty())?;
        Some(if self.is_much() {
            now
        } else {
            since.plus(DELAY)
        })
    }

    /// Something else was written for these sectors, that is not to be brought home.
    pub(crate) fn forget(&mut self, sector: Sector) {
        if !self.waiting.is_empty() {
            self.waiting.remove(&sector.line());
        }
    }

    /// A line was appended that is to be brought home.
    pub(crate) fn add(
        &mut self,
        line: Line,
        home: Home,
        copy: (Place, u32),
        data: Buf,
        now: Instant,
    ) {
        if self.waiting.is_empty() {
            self.since = Some(now);
            self.news = true;
        }
        let away = Away {
            home,
            copy: copy.0,
            crc: copy.1,
            data,
        };
        self.waiting.insert(line, away);
    }

    /// Where a line is at home, if it lies whole in a segment that is on the medium, or is on its way to one.
    pub(crate) fn of(&self, line: Line, map: &Map, streams: &Streams, block: u64) -> Option<Home> {
        let place = whole(map, line)?;
        let away = self.waiting.get(&line).filter(|away| away.copy == place);
        let known = away.map(|away| away.home);
        let home = known.unwrap_or(Home { place });
        let aligned = home.place.bytes().is_multiple_of(block) && LINE_BYTES >= block;
        (aligned && home.takes(streams)).then_some(home)
    }
}

/// Where a line may be written.
#[derive(Clone, Copy)]
pub(crate) struct Home {
    pub(crate) place: Place,
}

impl Home {
    /// True if it may be written there now: the segment is full and on the device, and its number is not retired.
    pub(crate) fn takes(&self, streams: &Streams) -> bool {
        let segment = streams.layout.segment_of(self.place);
        streams.table.may_overwrite(segment).is_some()
            && streams.flight().segment(segment).is_none()
    }
}

/// Where a line lies, if it lies in one piece.
pub(crate) fn whole(map: &Map, line: Line) -> Option<Place> {
    let first = line.first_sector();
    let extents = mapped(map, first, LINE_SECTORS);
    let place = extents
        .first()
        .filter(|extent| extent.sector == first.0)?
        .place;
    let mut next = first.0;
    for extent in &extents {
        if extent.sector != next || extent.place != place.plus(next - first.0) {
            return None;
        }
        next = extent.end();
    }
    (next == first.0 + LINE_SECTORS).then_some(place)
}

/// How a line is mapped that is at home.
pub(crate) fn at_home(line: Line, place: Place, crc: u32) -> Extent {
    Extent {
        sector: line.first_sector().0,
        sectors: LINE_SECTORS,
        place,
        check: Check::Own(crc),
    }
}
