//! The expected content of an aged volume: the newest number written to each sector, and all steps that are not yet
//! durable.
//!
//! A sector holds one word of eight bytes, repeated. The word contains the number of the step that wrote it, and a hash
//! of the sector's address. So a disk image stores a sector in eight bytes (`forebay_sim::disk::DiskImage`), and a
//! misplaced or older sector is recognised. Several writers work concurrently, each in its own part of the blocks, one
//! step at a time. The names in the code call a block of 4 KiB a *line*.

use std::collections::VecDeque;
use std::ops::Range;

use forebay_rng::mix;

/// Sectors of a block.
pub(super) const LINE_SECTORS: usize = 8;
/// Bytes of a sector.
pub(super) const SECTOR: usize = 512;
/// The number for a sector that is not one repeated word of the model.
pub(super) const FOREIGN: u32 = u32::MAX;

/// Returns the word of a sector that step `number` wrote. Step 0 stands for a sector that reads as zeroes.
fn word(number: u32, sector: usize) -> u64 {
    match number {
        0 => 0,
        _ => u64::from(number) << 32 | mix(0xa6ed, sector as u64) >> 32,
    }
}

/// Fills `bytes` with the content that step `number` writes to the sectors from `sector` on.
pub(super) fn fill(number: u32, sector: usize, bytes: &mut [u8]) {
    for (n, bytes) in bytes.chunks_exact_mut(SECTOR).enumerate() {
        let word = word(number, sector + n).to_le_bytes();
        bytes.as_chunks_mut().0.fill(word);
    }
}

/// Returns the step that wrote the content of a sector, or [`FOREIGN`].
pub(super) fn number_of(bytes: &[u8], sector: usize) -> u32 {
    let first = bytes.as_chunks::<8>().0[0];
    let number = (u64::from_le_bytes(first) >> 32) as u32;
    let is_one_word = bytes[8..] == bytes[..SECTOR - 8];
    if is_one_word && u64::from_le_bytes(first) == word(number, sector) {
        number
    } else {
        FOREIGN
    }
}

/// A step of a writer that may not be durable yet.
#[derive(Clone, Debug)]
struct VolatileStep {
    /// The number in its sectors.
    number: u32,
    /// Written sectors.
    writes: Vec<Range<usize>>,
    /// Trimmed sectors. No sector is both written and trimmed.
    trims: Vec<Range<usize>>,
    asked: u64,
    acknowledged: Option<u64>,
}

/// The steps of one writer since its last durable step.
#[derive(Clone, Debug, Default)]
struct WriterSteps {
    steps: VecDeque<VolatileStep>,
    /// Number of durable steps, which are no longer in `steps`.
    durable: usize,
}

/// For each writer, the number of acknowledged steps at some moment.
pub(super) type AcknowledgedSteps = Vec<usize>;

/// The expected content of a volume: see the module.
#[derive(Clone)]
pub(super) struct ExpectedContent {
    /// For each sector, the number after the last durable step.
    base: Vec<u32>,
    /// For each sector, the number after the last acknowledged step.
    now: Vec<u32>,
    /// For each block, true if a step ever wrote to it.
    touched: Vec<bool>,
    writers: Vec<WriterSteps>,
    next: u32,
    events: u64,
}

/// A version of a sector: the step of its writer, its number, and the previous version.
struct SectorStep {
    step: usize,
    number: u32,
    before: u32,
}

/// Marks a sector that has no versions since the base.
const NONE: u32 = u32::MAX;

impl ExpectedContent {
    /// Creates content of zeroes, for `writers` writers.
    pub(super) fn new(lines: usize, writers: usize) -> ExpectedContent {
        ExpectedContent {
            base: vec![0; lines * LINE_SECTORS],
            now: vec![0; lines * LINE_SECTORS],
            touched: vec![false; lines],
            writers: vec![WriterSteps::default(); writers],
            next: 1,
            events: 0,
        }
    }

    /// Returns the number of blocks.
    pub(super) fn lines(&self) -> usize {
        self.touched.len()
    }

    /// Returns true if a step ever wrote to this block.
    pub(super) fn is_touched(&self, line: usize) -> bool {
        self.touched[line]
    }

    /// Returns true if no sector of the block holds data after the acknowledged steps.
    pub(super) fn is_empty(&self, line: usize) -> bool {
        let sectors = line * LINE_SECTORS..(line + 1) * LINE_SECTORS;
        self.now[sectors].iter().all(|number| *number == 0)
    }

    /// Returns the number that a read of the sector must return while its writer is idle.
    pub(super) fn now(&self, sector: usize) -> u32 {
        self.now[sector]
    }

    /// Returns the number of sectors that hold data after the acknowledged steps.
    pub(super) fn mapped(&self) -> u64 {
        self.now.iter().filter(|number| **number != 0).count() as u64
    }

    /// Estimates the number of extents in a map of all data.
    pub(super) fn extents(&self) -> u64 {
        let lines = self.now.chunks(LINE_SECTORS);
        let in_line = |line: &[u32]| {
            let changes = line.windows(2).filter(|pair| pair[0] != pair[1]).count();
            changes as u64 + u64::from(line[0] != 0)
        };
        lines.map(in_line).sum()
    }

    /// Records that a writer requests a batch. Returns the number in the batch's data.
    pub(super) fn begin(
        &mut self,
        writer: usize,
        writes: Vec<Range<usize>>,
        trims: Vec<Range<usize>>,
    ) -> u32 {
        let number = self.next;
        (self.next, self.events) = (number + 1, self.events + 1);
        for range in &writes {
            let lines = range.start / LINE_SECTORS..range.end.div_ceil(LINE_SECTORS);
            self.touched[lines].fill(true);
        }
        self.writers[writer].steps.push_back(VolatileStep {
            number,
            writes,
            trims,
            asked: self.events,
            acknowledged: None,
        });
        number
    }

    /// Records that the last step of a writer is acknowledged.
    pub(super) fn acknowledge(&mut self, writer: usize) {
        self.events += 1;
        let step = self.writers[writer].steps.back_mut().expect("begun");
        step.acknowledged = Some(self.events);
        for range in &step.writes {
            self.now[range.clone()].fill(step.number);
        }
        for range in &step.trims {
            self.now[range.clone()].fill(0);
        }
    }

    /// Records that the last step of a writer was refused as a whole.
    pub(super) fn refuse(&mut self, writer: usize) {
        self.writers[writer].steps.pop_back();
    }

    /// Returns the number of acknowledged steps of each writer.
    pub(super) fn marks(&self) -> AcknowledgedSteps {
        let upto = |writer: &WriterSteps| {
            let open = writer
                .steps
                .back()
                .is_some_and(|step| step.acknowledged.is_none());
            writer.durable + writer.steps.len() - usize::from(open)
        };
        self.writers.iter().map(upto).collect()
    }

    /// Records that all steps up to `marks` are durable.
    pub(super) fn durable(&mut self, marks: &AcknowledgedSteps) {
        for (writer, upto) in self.writers.iter_mut().zip(marks) {
            while writer.durable < *upto {
                writer.durable += 1;
                let step = writer.steps.pop_front().expect("acknowledged");
                for range in step.writes {
                    self.base[range].fill(step.number);
                }
                for range in step.trims {
                    self.base[range].fill(0);
                }
            }
        }
    }

    /// Compares the volume's content after a crash, `seen`, with the permitted contents, and continues from `seen` if
    /// it fits.
    ///
    /// For each writer, the content must be a prefix of its steps that includes all durable steps. If a step is
    /// present, all steps that were acknowledged before its request must be present.
    ///
    /// # Errors
    /// If the content does not fit. The text names the place.
    pub(super) fn judge(&mut self, seen: Vec<u32>) -> Result<(), String> {
        let (heads, versions) = self.versions();
        let mut possible = Vec::new();
        let mut seen_in: Vec<Vec<u32>> = self
            .writers
            .iter()
            .map(|writer| vec![0; writer.steps.len() + 1])
            .collect();
        let mut counted = vec![0; self.writers.len()];
        for (sector, number) in seen.iter().enumerate() {
            let (writer, head) = heads[sector];
            if head == NONE {
                if *number != self.base[sector] {
                    return Err(self.wrong(sector, *number, &[]));
                }
                continue;
            }
            counted[writer as usize] += 1;
            let fits = &mut seen_in[writer as usize];
            if !self.count(sector, *number, head, &versions, fits) {
                return Err(self.wrong(sector, *number, &Self::chain(head, &versions)));
            }
        }
        for (writer, fits) in seen_in.iter().enumerate() {
            let steps = (0..fits.len()).filter(|step| fits[*step] == counted[writer]);
            let steps: Vec<usize> = steps.collect();
            if steps.is_empty() {
                return Err(format!("no step of writer {writer} fits all its sectors"));
            }
            possible.push(steps);
        }
        self.go_together(&possible)?;
        self.now.clone_from(&seen);
        self.base = seen;
        self.writers
            .iter_mut()
            .for_each(|writer| *writer = WriterSteps::default());
        Ok(())
    }

    /// Returns the newest version of each sector, with its writer, and all versions.
    fn versions(&self) -> (Vec<(u8, u32)>, Vec<SectorStep>) {
        let mut heads = vec![(0, NONE); self.base.len()];
        let mut versions = Vec::new();
        for (writer, of_writer) in self.writers.iter().enumerate() {
            for (n, step) in of_writer.steps.iter().enumerate() {
                let writes = step.writes.iter().map(|range| (range, step.number));
                let trims = step.trims.iter().map(|range| (range, 0));
                for (range, number) in writes.chain(trims) {
                    for sector in range.clone() {
                        let before = heads[sector].1;
                        heads[sector] = (writer as u8, versions.len() as u32);
                        versions.push(SectorStep {
                            step: n + 1,
                            number,
                            before,
                        });
                    }
                }
            }
        }
        (heads, versions)
    }

    /// Counts one sector for each step after which it may hold `number`. Returns false if no step permits this number.
    fn count(
        &self,
        sector: usize,
        number: u32,
        head: u32,
        versions: &[SectorStep],
        fits: &mut [u32],
    ) -> bool {
        let (mut at, mut end, mut any) = (head, fits.len(), false);
        while at != NONE {
            let version = &versions[at as usize];
            if version.number == number {
                fits[version.step..end]
                    .iter_mut()
                    .for_each(|count| *count += 1);
                any = true;
            }
            (at, end) = (version.before, version.step);
        }
        if self.base[sector] == number {
            fits[..end].iter_mut().for_each(|count| *count += 1);
            any = true;
        }
        any
    }

    fn chain(head: u32, versions: &[SectorStep]) -> Vec<(usize, u32)> {
        let mut chain = Vec::new();
        let mut at = head;
        while at != NONE {
            let version = &versions[at as usize];
            chain.push((version.step, version.number));
            at = version.before;
        }
        chain
    }

    fn wrong(&self, sector: usize, number: u32, versions: &[(usize, u32)]) -> String {
        let holds = match number {
            FOREIGN => "something foreign or unreadable".into(),
            0 => "zeroes".into(),
            number => format!("the data of step [{number}]"),
        };
        let base = self.base[sector];
        format!(
            "sector {sector} (line {}) holds {holds}; durable is [{base}], newer are {versions:?}",
            sector / LINE_SECTORS
        )
    }

    /// Raises the writers from their lowest possible steps until they fit together. If a step is present, all steps of
    /// other writers that were acknowledged before its request must be present.
    fn go_together(&self, possible: &[Vec<usize>]) -> Result<(), String> {
        let mut at: Vec<usize> = possible.iter().map(|steps| steps[0]).collect();
        loop {
            let before = at.clone();
            for writer in 0..at.len() {
                let Some(step) = at[writer].checked_sub(1) else {
                    continue;
                };
                let asked = self.writers[writer].steps[step].asked;
                for other in 0..at.len() {
                    let steps = &self.writers[other].steps;
                    let least = steps
                        .partition_point(|step| step.acknowledged.is_some_and(|at| at < asked));
                    if other == writer || at[other] >= least {
                        continue;
                    }
                    let higher = possible[other].iter().find(|step| **step >= least);
                    at[other] = *higher.ok_or_else(|| {
                        format!("writer {writer} shows a step later than one of writer {other} that is missing")
                    })?;
                }
            }
            if at == before {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "a batch of one range")]
mod tests {
    use super::*;

    fn with(content: &ExpectedContent, writes: &[(usize, u32)]) -> Vec<u32> {
        let mut seen = content.base.clone();
        for (at, number) in writes {
            seen[*at] = *number;
        }
        seen
    }

    #[test]
    fn content_words_identify_their_step_and_sector() {
        let mut bytes = vec![0; 2 * SECTOR];
        fill(7, 100, &mut bytes);
        assert_eq!(number_of(&bytes[..SECTOR], 100), 7);
        assert_eq!(number_of(&bytes[SECTOR..], 101), 7);
        assert_eq!(number_of(&bytes[SECTOR..], 100), FOREIGN);
        bytes[SECTOR - 1] ^= 1;
        assert_eq!(number_of(&bytes[..SECTOR], 100), FOREIGN);
        assert_eq!(number_of(&[0; SECTOR], 3), 0);
    }

    #[test]
    fn expected_content_judges_prefixes_durable_steps_batches_and_combined_writers() {
        let mut content = ExpectedContent::new(4, 2);
        let first = content.begin(0, vec![0..1, 2..3], vec![]);
        content.acknowledge(0);
        let second = content.begin(1, vec![16..17], vec![]);
        content.acknowledge(1);
        let third = content.begin(0, vec![0..1], vec![2..3]);
        content.acknowledge(0);
        let judge = |content: &ExpectedContent, writes: &[(usize, u32)]| {
            let seen = with(content, writes);
            content.clone().judge(seen).is_ok()
        };
        assert!(judge(&content, &[]));
        assert!(judge(&content, &[(0, first), (2, first)]));
        assert!(!judge(&content, &[(0, first)]), "half a batch");
        assert!(
            !judge(&content, &[(16, second)]),
            "writer 1 without writer 0"
        );
        assert!(judge(&content, &[(0, third), (16, second)]));
        assert!(!judge(&content, &[(0, third), (2, first), (16, second)]));
        assert!(!judge(&content, &[(5, first), (0, first), (2, first)]));
        let marks = content.marks();
        content.durable(&marks);
        assert!(judge(&content, &[]));
        let old = with(&content, &[(0, first), (2, first)]);
        assert!(
            content.clone().judge(old).is_err(),
            "durable steps are gone"
        );
        content.begin(0, vec![0..8], vec![]);
        content.refuse(0);
        assert!(judge(&content, &[]) && !judge(&content, &[(0, third + 1)]));
    }
}
