//! A limit of write amplification: the cost of a log that has an oracle for the next write of each page.
//!
//! The simulation has pages and segments, without disks or an engine. A segment gets pages whose next writes are at
//! similar times. Such a segment becomes empty at once, which no real placement can achieve. The result limits the gain
//! of separating pages, but the result is not the minimum: victims are the segments with the least live data.

use crate::workload::{PAGE_BYTES, Workload};

/// Number of logs by remaining lifetime. Each log is for twice the lifetimes of the previous log.
const LOGS: u32 = 8;
/// Time of a write that never occurs.
const NEVER: u64 = u64::MAX;

/// Properties of a simulation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct OracleShape {
    /// Number of segments.
    pub(crate) segments: u32,
    /// Number of pages in each segment.
    pub(crate) pages: u32,
    /// True if the next write of each page is known. Otherwise one log is for users, and another for moved pages.
    pub(crate) knows: bool,
}

#[derive(Clone, Default)]
struct OracleSegment {
    /// Pages in the order of their writes. Some pages have other places now.
    written: Vec<u32>,
    live: u32,
    open: bool,
}

struct OracleLog {
    shape: OracleShape,
    segments: Vec<OracleSegment>,
    free: Vec<u32>,
    open: Vec<Option<u32>>,
    /// Segment of each page, and the time of its next write.
    lies: Vec<Option<u32>>,
    dies: Vec<u64>,
    now: u64,
    moved: u64,
}

/// Returns the pages that requests of `workload` write, at least `count`.
pub(crate) fn writes(workload: &mut dyn Workload, count: usize) -> Vec<u32> {
    let mut written = Vec::with_capacity(count);
    while written.len() < count {
        let access = workload.next(0);
        if access.write {
            written.extend(access.page..access.page + access.pages);
        }
    }
    written
}

/// Returns the number of page writes for each page that users write. The measurement covers the second half of
/// `writes`, after all `data` pages were written once.
pub(crate) fn amplification(shape: OracleShape, data: u32, writes: &[u32]) -> f64 {
    let mut next = vec![NEVER; data as usize];
    let mut dies = vec![NEVER; writes.len()];
    for (at, page) in writes.iter().enumerate().rev() {
        dies[at] = std::mem::replace(&mut next[*page as usize], at as u64);
    }
    let mut log = OracleLog::new(shape, data);
    for page in 0..data {
        log.write(page, next[page as usize]);
    }
    let half = writes.len() / 2;
    let mut before = 0;
    for (at, page) in writes.iter().enumerate() {
        if at == half {
            before = log.moved;
        }
        log.now = at as u64;
        log.write(*page, dies[at]);
    }
    let users = (writes.len() - half) as f64;
    1.0 + (log.moved - before) as f64 / users
}

/// Returns the number of pages at this utilisation.
pub(crate) fn data(shape: &OracleShape, utilisation: f64) -> u32 {
    (f64::from(shape.segments) * f64::from(shape.pages) * utilisation) as u32
}

impl OracleShape {
    fn logs(&self) -> usize {
        if self.knows { LOGS as usize } else { 2 }
    }

    /// Creates the shape with the study's segments.
    pub(crate) fn new(segments: u32, segment_bytes: u64, knows: bool) -> OracleShape {
        OracleShape {
            segments,
            pages: (segment_bytes / PAGE_BYTES) as u32,
            knows,
        }
    }
}

impl OracleLog {
    fn new(shape: OracleShape, data: u32) -> OracleLog {
        OracleLog {
            shape,
            segments: vec![OracleSegment::default(); shape.segments as usize],
            free: (0..shape.segments).rev().collect(),
            open: vec![None; LOGS as usize],
            lies: vec![None; data as usize],
            dies: vec![NEVER; data as usize],
            now: 0,
            moved: 0,
        }
    }

    fn write(&mut self, page: u32, dies: u64) {
        self.kill(page);
        // Moved pages may open a segment in each log.
        while self.free.len() <= self.shape.logs() {
            self.clean();
        }
        self.dies[page as usize] = dies;
        let log = self.log_of(page, 0);
        self.append(log, page);
    }

    fn kill(&mut self, page: u32) {
        if let Some(at) = self.lies[page as usize].take() {
            self.segments[at as usize].live -= 1;
        }
    }

    /// Returns the log of a page, or `else_to` if the next write is unknown.
    fn log_of(&self, page: u32, else_to: u32) -> usize {
        let left = self.dies[page as usize].saturating_sub(self.now);
        let segments = left / u64::from(self.shape.pages);
        if self.shape.knows {
            segments
                .checked_ilog2()
                .map_or(0, |log| log + 1)
                .min(LOGS - 1) as usize
        } else {
            else_to as usize
        }
    }

    fn append(&mut self, log: usize, page: u32) {
        let at = self.open[log].unwrap_or_else(|| {
            let at = self.free.pop().expect("some are kept free");
            self.segments[at as usize].open = true;
            at
        });
        let segment = &mut self.segments[at as usize];
        segment.written.push(page);
        segment.live += 1;
        self.lies[page as usize] = Some(at);
        let full = segment.written.len() == self.shape.pages as usize;
        segment.open = !full;
        self.open[log] = (!full).then_some(at);
    }

    /// Moves the live pages of the closed segment that has the fewest. The open segments are too few to hold all pages,
    /// so cleaning always gains space.
    fn clean(&mut self) {
        let closed = (0..).zip(&self.segments);
        let closed = closed.filter(|(_, segment)| !segment.open && !segment.written.is_empty());
        let least = closed.min_by_key(|(_, segment)| segment.live);
        let Some((at, _)) = least else {
            return;
        };
        let written = std::mem::take(&mut self.segments[at as usize].written);
        for page in written {
            if self.lies[page as usize] == Some(at) {
                self.kill(page);
                let log = self.log_of(page, 1);
                self.append(log, page);
                self.moved += 1;
            }
        }
        self.free.insert(0, at);
    }
}

#[cfg(test)]
mod tests {
    use forebay_placement::cost;

    use super::*;
    use crate::workload::{Skew, SyntheticWorkload};

    fn found(skew: Skew, utilisation: f64) -> [f64; 2] {
        [false, true].map(|knows| {
            let shape = OracleShape::new(256, 512 << 10, knows);
            let data = data(&shape, utilisation);
            let mut workload = SyntheticWorkload::new(skew, data, 0, 9);
            amplification(shape, data, &writes(&mut workload, 6 * data as usize))
        })
    }

    #[test]
    fn uniform_writes_cost_as_modelled_without_an_oracle_and_much_less_with_it() {
        let [log, oracle] = found(Skew::Uniform, 0.8);
        // Free and open segments are excluded.
        let used = 0.8 * 256.0 / (256.0 - 4.0);
        let model = cost::write_amplification(cost::greedy_utilisation(used, 64));
        assert!((log / model - 1.0).abs() < 0.05, "{log}, {model}");
        assert!(oracle < 0.75 * log, "{oracle}, {log}");
    }

    #[test]
    fn an_oracle_also_gains_with_hot_and_cold_pages() {
        let skew = Skew::HotCold {
            writes: 80,
            pages: 20,
        };
        let [log, oracle] = found(skew, 0.8);
        assert!(oracle > 1.0 && oracle < 0.8 * log, "{oracle}, {log}");
    }
}
