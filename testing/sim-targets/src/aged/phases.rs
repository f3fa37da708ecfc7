//! The phases of a writer.

use std::ops::Range;
use std::time::Duration;

use forebay_device::Durability;

use super::checks::{self, QUIET_AFTER, QUIET_RATE};
use super::content::LINE_SECTORS;
use super::plan::{HeldWrites, TrimDurability, WriterPhase};
use super::writer::{AgedWriter, BatchEnd, IncarnationOver};

/// Average number of overwrites between two flushes.
const FLUSH_ONE_IN: u64 = 64;
/// Delay of held in-place writes while the log wraps.
const HELD: Duration = Duration::from_secs(20);

impl AgedWriter {
    pub(super) async fn phase(&self, phase: WriterPhase) -> Result<(), IncarnationOver> {
        let line = || format!("writer {}: {phase:?}", self.number);
        self.scenario.tape.say(self.rt.now(), line);
        match phase {
            WriterPhase::Overwrite(lines) => self.overwrite(lines).await,
            WriterPhase::Hot(times) => self.hot_only(times).await,
            WriterPhase::Pieces(pieces, fua) => self.pieces(pieces, fua).await,
            WriterPhase::Batches(batches) => self.batches(batches).await,
            WriterPhase::Fill(lines) => self.fill(lines).await,
            WriterPhase::TrimHuge(part, durable) => self.trim_huge(part, durable).await,
            WriterPhase::TrimSmall(trims) => self.trim_small(trims).await,
            WriterPhase::Delete(part) => self.delete(part).await,
            WriterPhase::GoRound(cycles) => self.go_round(cycles).await,
            WriterPhase::Steady => self.steady().await,
            WriterPhase::Idle(span) => self.idle(span).await,
            WriterPhase::Read(lines) => self.read(lines).await,
            WriterPhase::Flush => self.flush().await,
            WriterPhase::Checkpoint => self.checkpoint().await,
            WriterPhase::Place(kind) => self.place(kind).await,
        }
    }

    fn line_of(&self, lines: &Range<usize>) -> usize {
        lines.start + self.rng.below(lines.len() as u64) as usize
    }

    /// Returns the most frequently overwritten blocks.
    pub(super) fn hot(&self) -> Range<usize> {
        let used = self.used();
        let hot = used.len() * self.scenario.recipe.hot as usize / 100;
        used.end - hot.max(1)..used.end
    }

    /// Returns up to `most` consecutive blocks, or a single block if the blocks are far apart.
    fn run(&self, within: &Range<usize>, most: u64) -> Range<usize> {
        let from = self.line_of(within);
        let len = if self.is_dense() {
            1 + self.rng.below(most) as usize
        } else {
            1
        };
        from..(from + len).min(within.end)
    }

    async fn overwrite(&self, lines: u64) -> Result<(), IncarnationOver> {
        let (used, hot) = (self.used(), self.hot());
        for _ in 0..lines {
            let among = if self.rng.below(10) < 8 { &hot } else { &used };
            let most = if self.rng.one_in(16) { 16 } else { 1 };
            self.write_lines(self.run(among, most)).await?;
            if self.rng.one_in(FLUSH_ONE_IN) {
                self.flush().await?;
            }
        }
        Ok(())
    }

    async fn hot_only(&self, times: u64) -> Result<(), IncarnationOver> {
        let hot = self.hot();
        for _ in 0..times * hot.len() as u64 {
            let line = self.line_of(&hot);
            self.write_lines(line..line + 1).await?;
        }
        Ok(())
    }

    /// Overwrites the sectors of all used blocks one by one, in random order.
    pub(super) async fn every_sector(&self, durability: Durability) -> Result<(), IncarnationOver> {
        let used = self.used();
        let mut sectors: Vec<usize> =
            (used.start * LINE_SECTORS..used.end * LINE_SECTORS).collect();
        self.rng.shuffle(&mut sectors);
        for sector in sectors {
            let piece = sector..sector + 1;
            self.apply(vec![piece], Vec::new(), durability).await?;
        }
        Ok(())
    }

    async fn pieces(&self, pieces: u64, fua: bool) -> Result<(), IncarnationOver> {
        let durability = [Durability::Flush, Durability::Fua][usize::from(fua)];
        let used = self.used();
        for _ in 0..pieces {
            let piece = self.piece(&used);
            self.apply(vec![piece], Vec::new(), durability).await?;
        }
        Ok(())
    }

    /// Returns one to eight consecutive sectors of a block.
    fn piece(&self, lines: &Range<usize>) -> Range<usize> {
        let line = self.line_of(lines) * LINE_SECTORS;
        let from = self.rng.below(LINE_SECTORS as u64) as usize;
        let most = (LINE_SECTORS - from) as u64;
        let len = if self.rng.coin() {
            1
        } else {
            1 + self.rng.below(most) as usize
        };
        line + from..line + from + len
    }

    async fn batches(&self, batches: u64) -> Result<(), IncarnationOver> {
        let used = self.used();
        for _ in 0..batches {
            let (mut writes, mut trims) = (Vec::new(), Vec::new());
            let mut lines: Vec<usize> = (0..2 + self.rng.below(10))
                .map(|_| self.line_of(&used))
                .collect();
            lines.sort_unstable();
            lines.dedup();
            for line in lines {
                let piece = self.piece(&(line..line + 1));
                if self.rng.one_in(4) {
                    trims.push(piece);
                } else {
                    writes.push(piece);
                }
            }
            self.apply(writes, trims, Durability::Flush).await?;
        }
        Ok(())
    }

    /// Writes blocks that hold no data, until `lines` blocks are written or the volume is full.
    pub(super) async fn fill(&self, lines: u64) -> Result<(), IncarnationOver> {
        let all = self.lines();
        let (mut left, mut refused) = (lines, 0);
        let from = self.used().end.min(all.end - 1);
        for line in (from..all.end).chain(all.start..from) {
            if left == 0 || refused > 3 {
                break;
            }
            if self.scenario.content.borrow().is_empty(line) {
                match self.write_lines(line..line + 1).await? {
                    BatchEnd::Done => left -= 1,
                    BatchEnd::Full | BatchEnd::Unread => refused += 1,
                }
            }
        }
        Ok(())
    }

    async fn trim_huge(&self, part: u64, durable: TrimDurability) -> Result<(), IncarnationOver> {
        let used = self.used();
        let len = (used.len() * part as usize / 100).max(1);
        let from = used.start + self.rng.below((used.len() - len) as u64 + 1) as usize;
        let durability = match durable {
            TrimDurability::Fua => Durability::Fua,
            TrimDurability::Flushed | TrimDurability::InCheckpoint => Durability::Flush,
        };
        self.trim_lines(from..from + len, durability).await?;
        match durable {
            TrimDurability::Fua => Ok(()),
            TrimDurability::Flushed => self.flush().await,
            TrimDurability::InCheckpoint => self.checkpoint().await,
        }
    }

    async fn trim_small(&self, trims: u64) -> Result<(), IncarnationOver> {
        let used = self.used();
        for _ in 0..trims {
            if self.rng.coin() {
                let piece = self.piece(&used);
                self.apply(Vec::new(), vec![piece], Durability::Flush)
                    .await?;
            } else {
                let from = self.line_of(&used);
                let to = (from + 1 + self.rng.below(8) as usize).min(used.end);
                self.trim_lines(from..to, Durability::Flush).await?;
            }
        }
        Ok(())
    }

    async fn delete(&self, part: u64) -> Result<(), IncarnationOver> {
        let used = self.used();
        let len = (used.len() * part as usize / 100).max(1);
        let from = used.start + self.rng.below((used.len() - len) as u64 + 1) as usize;
        let mut lines: Vec<usize> = (from..from + len).collect();
        self.rng.shuffle(&mut lines);
        for line in lines {
            self.trim_lines(line..line + 1, Durability::Flush).await?;
        }
        Ok(())
    }

    async fn read(&self, lines: u64) -> Result<(), IncarnationOver> {
        let used = self.used();
        for _ in 0..lines {
            self.read_lines(self.run(&used, 32)).await?;
        }
        Ok(())
    }

    async fn idle(&self, span: Duration) -> Result<(), IncarnationOver> {
        self.rt.sleep(span.min(QUIET_AFTER)).await;
        self.scenario.progressed();
        let rest = span.saturating_sub(QUIET_AFTER);
        if rest < QUIET_AFTER || self.scenario.may_fail.get() || self.scenario.writers.get() > 1 {
            self.rt.sleep(rest).await;
            return Ok(());
        }
        let before = self.scenario.requests.get();
        self.rt.sleep(rest).await;
        let rate = (self.scenario.requests.get() - before) / rest.as_secs();
        self.scenario.progressed();
        if rate > QUIET_RATE {
            Err(self
                .scenario
                .spins(&format!("an idle volume asks for {rate} requests a second")))
        } else {
            Ok(())
        }
    }

    /// Overwrites a few blocks so often that the log wraps while in-place writes of these blocks are held.
    async fn go_round(&self, cycles: u64) -> Result<(), IncarnationOver> {
        let used = self.used();
        let hot: Vec<usize> = used
            .step_by(4)
            .take(8 + self.rng.below(24) as usize)
            .collect();
        let segments = self.scenario.recipe.segments;
        for _ in 0..cycles {
            self.hold_in_place(&hot).await?;
            let released = self.rt.now().plus(HELD / 2);
            for _ in 0..segments + self.rng.below(segments) {
                self.round(&hot).await?;
                if self.rt.now() >= released {
                    break;
                }
            }
            self.rt.sleep(2 * HELD).await;
            self.scenario.progressed();
            for line in hot.iter().copied() {
                self.read_lines(line..line + 1).await?;
            }
        }
        Ok(())
    }

    /// Writes the hot blocks into full segments among blocks that stay, overwrites them, and waits until in-place
    /// writes are held.
    async fn hold_in_place(&self, hot: &[usize]) -> Result<(), IncarnationOver> {
        let (first, last) = (hot[0], hot[hot.len() - 1]);
        for line in first..(last + 4).min(self.lines().end) {
            self.write_lines(line..line + 1).await?;
        }
        self.flush().await?;
        self.rt.sleep(Duration::from_secs(3)).await;
        let most = 1 + self.rng.below(32);
        self.holder.arm(Some(HeldWrites {
            takes: HELD,
            most,
            in_place: true,
        }));
        for _ in 0..2 {
            self.round(hot).await?;
        }
        for line in hot.iter().copied() {
            self.write_lines(line..line + 1).await?;
        }
        self.flush().await?;
        for _ in 0..20 {
            if self.holder.left() < most {
                break;
            }
            self.rt.sleep(Duration::from_millis(100)).await;
        }
        let held = most - self.holder.left();
        self.holder.arm(None);
        let line = || format!("{held} writes in place are held");
        self.scenario.tape.say(self.rt.now(), line);
        Ok(())
    }

    /// Overwrites some of the hot blocks, and writes and trims other blocks.
    async fn round(&self, hot: &[usize]) -> Result<(), IncarnationOver> {
        let all = self.lines();
        let spare = self.used().end.min(all.end - 1)..all.end;
        let filler = (4 + self.rng.below(28) as usize).min(spare.len());
        let mut lines = hot.to_vec();
        self.rng.shuffle(&mut lines);
        lines.truncate(1 + self.rng.below(lines.len() as u64) as usize);
        lines.extend(spare.start..spare.start + filler);
        for line in lines {
            self.write_lines(line..line + 1).await?;
        }
        self.trim_lines(spare.start..spare.start + filler, Durability::Flush)
            .await?;
        self.flush().await?;
        if self.rng.one_in(8) {
            self.checkpoint().await?;
        }
        Ok(())
    }

    /// Overwrites blocks in uniform order, and compares the cost with the model.
    async fn steady(&self) -> Result<(), IncarnationOver> {
        let used = self.used();
        for _ in 0..2 * used.len() {
            self.write_lines(self.run(&used, 1)).await?;
        }
        let before = self.space.stats();
        let (mut unused, mut looks) = (0, 0);
        for n in 0..2 * used.len() {
            self.write_lines(self.run(&used, 1)).await?;
            if n % 64 == 0 {
                unused += self.space.capacity().unused / self.scenario.recipe.segment_bytes;
                looks += 1;
            }
        }
        if self.scenario.writers.get() > 1 || self.scenario.may_fail.get() {
            return Ok(());
        }
        let pages = self.space.capacity().mapped / 4096;
        let unused = unused as f64 / f64::from(looks);
        let (recipe, after) = (&self.scenario.recipe, self.space.stats());
        // Blocks that are not overwritten are practically cold. The model is valid only if such blocks are few.
        let is_uniform = pages as usize * 9 / 10 <= used.len();
        match checks::amplification(recipe, &before, &after, pages, unused) {
            Ok(text) => self.scenario.tape.say(self.rt.now(), || text),
            Err(violation) if is_uniform => {
                self.scenario.violated(violation);
                return Err(IncarnationOver);
            }
            Err(_) => {}
        }
        Ok(())
    }
}
