//! A limit: how seldom a log would have to write, if it knew when each page is written next.
//!
//! Pages and segments alone, without disks or an engine. Pages that are to be overwritten at about the same time come into
//! the same segment, which so dies at once; that no placement can know. It is a limit for what telling pages apart can
//! gain, not the least possible: victims are those with the least in them.

use crate::workload::{PAGE_BYTES, Workload};

/// Logs by remaining lifetime: each for twice the lifetimes of the one before.
const LOGS: u32 = 8;
/// Never again.
const NEVER: u64 = u64::MAX;

/// What is simulated.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct OracleShape {
    /// Segments that there are.
    pub(crate) segments: u32,
    /// Pages in each.
    pub(crate) pages: u32,
    /// True if it is known when each page is written next; else there is one log for users and one for what is moved.
    pub(crate) knows: bool,
}

#[derive(Clone, Default)]
struct OracleSegment {
    /// Pages as they were written; some lie elsewhere by now.
    written: Vec<u32>,
    live: u32,
    open: bool,
}

struct OracleLog {
    shape: OracleShape,
    segments: Vec<OracleSegment>,
    free: Vec<u32>,
    open: Vec<Option<u32>>,
    /// Where each page lies, and when it is written next.
    lies: Vec<Option<u32>>,
    dies: Vec<u64>,
    now: u64,
    moved: u64,
}

/// The pages written by so many requests of `workload`.
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

/// How often a page is written for each time that users write one: over the second half of `writes`, after all
/// `data` pages were written once.
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

/// Pages that fill so much of a shape.
pub(crate) fn data(shape: &OracleShape, utilisation: f64) -> u32 {
    (f64::from(shape.segments) * f64::from(shape.pages) * utilisation) as u32
}

impl OracleShape {
    fn logs(&self) -> usize {
        if self.knows { LOGS as usize } else { 2 }
    }

    /// With segments as the study has them.
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
        // What is moved may open a segment of each log.
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

    /// The log that a page belongs to; `else_to` if nothing is known.
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

    /// Moves what is live in the segment with the least of it. There are fewer open segments than hold all pages, so
    /// that something is always gained.
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
        // What is kept free, and what is open, does not count.
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
