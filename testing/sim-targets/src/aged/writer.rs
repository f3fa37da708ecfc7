//! A writer of an aged volume. Each of its requests is compared with the expected content and the bounds.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{BufMut, Durability};
use forebay_rng::Rng;
use forebay_rt::Rt;
use forebay_sim::Violation;
use forebay_units::Sector;
use forebay_vsl::{Batch, PlacementKind, Space, SpaceError, TuneError};

use super::checks;
use super::content::{LINE_SECTORS, SECTOR, fill, number_of};
use super::scenario::AgedRun;
use super::volume::WriteHolder;

/// The incarnation is over for the writer.
#[derive(Debug)]
pub(super) struct IncarnationOver;

/// The result of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BatchEnd {
    Done,
    /// The volume has no capacity for the batch.
    Full,
    /// The disk failed a read that the batch needed.
    Unread,
}

/// A writer, in its own part of the blocks.
pub(super) struct AgedWriter {
    pub(super) scenario: Rc<AgedRun>,
    pub(super) space: Space,
    pub(super) rt: Rt,
    pub(super) holder: Rc<WriteHolder>,
    pub(super) rng: Rng,
    pub(super) number: usize,
}

impl AgedWriter {
    /// Returns the writer's blocks.
    pub(super) fn lines(&self) -> Range<usize> {
        let recipe = &self.scenario.recipe;
        let of = recipe.lines() as usize / recipe.writers;
        self.number * of..(self.number + 1) * of
    }

    /// Returns the blocks of this writer that ageing wrote.
    pub(super) fn used(&self) -> Range<usize> {
        let lines = self.lines();
        let used = self.scenario.used.get() as usize / self.scenario.recipe.writers;
        lines.start..lines.start + used.clamp(1, lines.len())
    }

    /// Returns the sector of the space for a sector of the model.
    fn address(&self, sector: usize) -> Sector {
        let (line, within) = (sector / LINE_SECTORS, sector % LINE_SECTORS);
        Sector(line as u64 * self.scenario.recipe.stride + within as u64)
    }

    /// Returns true if consecutive blocks are adjacent.
    pub(super) fn is_dense(&self) -> bool {
        self.scenario.recipe.stride == LINE_SECTORS as u64
    }

    /// Ends the incarnation with a violation.
    fn violated(&self, checker: &'static str, text: String) -> IncarnationOver {
        self.scenario.violated(Violation::new(checker, text));
        IncarnationOver
    }

    /// Ends the incarnation after `error`. The error is a violation unless the disk may fail.
    fn failed(&self, what: &str, error: &SpaceError) -> IncarnationOver {
        if self.scenario.may_fail.get() {
            let line = || format!("writer {}: {what}: {error}", self.number);
            self.scenario.tape.say(self.rt.now(), line);
            self.scenario.failed.set(true);
            return IncarnationOver;
        }
        self.violated("errors", format!("{what} failed without a reason: {error}"))
    }

    fn too_long(&self, what: &str, patience: Duration) -> IncarnationOver {
        let (capacity, histogram) = (self.space.capacity(), self.space.histogram());
        let text = format!(
            "{what} waits for longer than {patience:?} [{capacity:?}, {histogram:?}, {}]",
            self.space.explain()
        );
        self.violated("liveness", text)
    }

    /// Writes and trims sectors of the model in one batch.
    pub(super) async fn apply(
        &self,
        writes: Vec<Range<usize>>,
        trims: Vec<Range<usize>>,
        durability: Durability,
    ) -> Result<BatchEnd, IncarnationOver> {
        let scenario = &self.scenario;
        if scenario.is_over() {
            return Err(IncarnationOver);
        }
        let new = {
            let content = scenario.content.borrow();
            let sectors = writes.iter().flat_map(Clone::clone);
            sectors.filter(|sector| content.now(*sector) == 0).count() as u64
        };
        let number =
            scenario
                .content
                .borrow_mut()
                .begin(self.number, writes.clone(), trims.clone());
        let batch = self.batch(number, &writes, &trims);
        let patience = scenario.patience.get();
        let done = self
            .rt
            .timeout(patience, self.space.apply(&batch, durability));
        let done = done.await;
        scenario.progressed();
        let what = match (writes.first(), trims.first()) {
            (Some(_), None) => "a write",
            (None, _) => "a trim",
            _ => "a batch",
        };
        let error = match done {
            Err(_) => return Err(self.too_long(what, patience)),
            Ok(Ok(_)) => {
                let mut content = scenario.content.borrow_mut();
                content.acknowledge(self.number);
                if durability == Durability::Fua {
                    let mut marks = content.marks();
                    let others = marks.iter_mut().enumerate();
                    others
                        .filter(|(number, _)| *number != self.number)
                        .for_each(|(_, mark)| *mark = 0);
                    content.durable(&marks);
                }
                return Ok(BatchEnd::Done);
            }
            Ok(Err(error)) => error,
        };
        if scenario.is_over() {
            Err(IncarnationOver)
        } else {
            self.refused(what, new, error).await
        }
    }

    /// Handles the failure of the last batch with `error`. The batch would have mapped `new` more sectors.
    async fn refused(
        &self,
        what: &str,
        new: u64,
        error: SpaceError,
    ) -> Result<BatchEnd, IncarnationOver> {
        let scenario = &self.scenario;
        match error {
            // The batch may have been executed despite the error.
            SpaceError::Failed(_) | SpaceError::Failing { .. } => Err(self.failed(what, &error)),
            // On a full volume, an overwrite by smaller fragments also needs more space.
            error
                if error.lacks_space()
                    && (new > 0 || checks::is_brimful(&self.space, &scenario.recipe)) =>
            {
                scenario.content.borrow_mut().refuse(self.number);
                let full = checks::is_full(&self.space, &scenario.recipe, new);
                full.map_err(|violation| {
                    scenario.violated(violation);
                    IncarnationOver
                })?;
                Ok(BatchEnd::Full)
            }
            error if error.lacks_space() => {
                let text = format!("{what} that maps nothing new is refused: {error}");
                Err(self.violated("room", text))
            }
            SpaceError::Device(_) if scenario.may_fail.get() => {
                scenario.content.borrow_mut().refuse(self.number);
                // The writer delays its next batch.
                self.rt.sleep(Duration::from_millis(50)).await;
                Ok(BatchEnd::Unread)
            }
            error => {
                let text = format!("{what} failed without a reason: {error}");
                Err(self.violated("errors", text))
            }
        }
    }

    fn batch(&self, number: u32, writes: &[Range<usize>], trims: &[Range<usize>]) -> Batch {
        let mut batch = Batch::new();
        let step = if self.is_dense() {
            usize::MAX
        } else {
            LINE_SECTORS
        };
        for range in writes {
            let mut from = range.start;
            while from < range.end {
                let to = (from - from % LINE_SECTORS)
                    .saturating_add(step)
                    .min(range.end);
                let mut data = BufMut::to_fill((to - from) * SECTOR);
                fill(number, from, &mut data);
                batch.write(self.address(from), data.freeze());
                from = to;
            }
        }
        for range in trims {
            let (from, last) = (self.address(range.start), self.address(range.end - 1));
            batch.trim(from, last.0 + 1 - from.0);
        }
        batch
    }

    /// Writes whole blocks, with the usual durability.
    pub(super) async fn write_lines(
        &self,
        lines: Range<usize>,
    ) -> Result<BatchEnd, IncarnationOver> {
        let sectors = lines.start * LINE_SECTORS..lines.end * LINE_SECTORS;
        self.apply(vec![sectors], Vec::new(), Durability::Flush)
            .await
    }

    /// Trims whole blocks.
    pub(super) async fn trim_lines(
        &self,
        lines: Range<usize>,
        durability: Durability,
    ) -> Result<BatchEnd, IncarnationOver> {
        let sectors = lines.start * LINE_SECTORS..lines.end * LINE_SECTORS;
        self.apply(Vec::new(), vec![sectors], durability).await
    }

    pub(super) async fn flush(&self) -> Result<(), IncarnationOver> {
        let marks = self.scenario.content.borrow().marks();
        let patience = self.scenario.patience.get();
        let done = self.rt.timeout(patience, self.space.flush()).await;
        self.durable("a flush", done.map_err(|_| patience), &marks)
    }

    pub(super) async fn checkpoint(&self) -> Result<(), IncarnationOver> {
        let marks = self.scenario.content.borrow().marks();
        let patience = self.scenario.patience.get();
        let done = self.rt.timeout(patience, self.space.checkpoint()).await;
        self.scenario
            .checkpoints
            .set(self.scenario.checkpoints.get() + 1);
        self.durable("a checkpoint", done.map_err(|_| patience), &marks)
    }

    /// Changes the placement. The change makes all data durable, like a checkpoint.
    pub(super) async fn place(&self, kind: PlacementKind) -> Result<(), IncarnationOver> {
        let marks = self.scenario.content.borrow().marks();
        let patience = self.scenario.patience.get();
        let placed = self.space.set_placement(Some(kind));
        let done = self.rt.timeout(patience, placed).await;
        self.scenario
            .checkpoints
            .set(self.scenario.checkpoints.get() + 1);
        let done = match done {
            Ok(Err(TuneError::Full { .. })) => return Ok(()),
            Ok(Err(TuneError::Space(error))) => Ok(Err(error)),
            Ok(Ok(())) => Ok(Ok(())),
            Err(_) => Err(patience),
        };
        self.durable("a change of the placement", done, &marks)
    }

    fn durable(
        &self,
        what: &str,
        done: Result<Result<(), SpaceError>, Duration>,
        marks: &Vec<usize>,
    ) -> Result<(), IncarnationOver> {
        self.scenario.progressed();
        if self.scenario.is_over() {
            return Err(IncarnationOver);
        }
        match done {
            Ok(Ok(())) => {
                self.scenario.content.borrow_mut().durable(marks);
                Ok(())
            }
            // A checkpoint reads the map. The writer may request the checkpoint again later.
            Ok(Err(SpaceError::Device(_))) if self.scenario.may_fail.get() => Ok(()),
            Ok(Err(error)) => Err(self.failed(what, &error)),
            Err(patience) => Err(self.too_long(what, patience)),
        }
    }

    /// Reads blocks and compares them with the last written data.
    pub(super) async fn read_lines(&self, lines: Range<usize>) -> Result<(), IncarnationOver> {
        if self.scenario.is_over() {
            return Err(IncarnationOver);
        }
        let first = lines.start * LINE_SECTORS;
        let buf = BufMut::to_fill(lines.len() * LINE_SECTORS * SECTOR);
        let patience = self.scenario.patience.get();
        let read = self.space.read(self.address(first), buf);
        let read = self.rt.timeout(patience, read).await;
        self.scenario.progressed();
        let bytes = match read {
            Err(_) => return Err(self.too_long("a read", patience)),
            Ok(Ok(bytes)) => bytes,
            Ok(Err(_)) if self.scenario.may_fail.get() => return Ok(()),
            Ok(Err(error)) => return Err(self.failed("a read", &error)),
        };
        for (n, bytes) in bytes.chunks_exact(SECTOR).enumerate() {
            let sector = first + n;
            let (found, expected) = (
                number_of(bytes, sector),
                self.scenario.content.borrow().now(sector),
            );
            if found != expected {
                let text = format!("sector {sector} reads as step [{found}], not [{expected}]");
                return Err(self.violated("reads", text));
            }
        }
        Ok(())
    }
}
