//! The run of a scrub: reads piece by piece, and reports to the state.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::ScrubTarget;
use forebay_rt::Rt;

use super::pace::ScrubPace;
use super::state::{ScrubPhase, ScrubState};
use crate::layer::Layer;

/// Pause before content that could not be read is read again.
const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// Number of steps that are kept for a retry. Steps beyond this number count as unreadable at once.
const RETRIES_MAX: usize = 1024;

/// A scrub under way.
struct ScrubRun<'a> {
    rt: &'a Rt,
    layer: &'a dyn Layer,
    state: &'a RefCell<ScrubState>,
    pace: ScrubPace,
    /// Positions of a target that must be read again.
    again: Vec<(usize, Range<u64>)>,
}

/// A target, and its index.
struct NumberedTarget<'a> {
    n: usize,
    target: &'a dyn ScrubTarget,
}

/// Scrubs an attached volume. The caller has called [`ScrubState::begin`] before. The result is in `state`. The volume
/// may be closed meanwhile only if the future is dropped before.
pub async fn scrub(rt: &Rt, layer: &dyn Layer, state: &RefCell<ScrubState>) {
    let targets = layer.scrub_targets();
    state.borrow_mut().total_bytes = targets.iter().map(|target| target.bytes()).sum();
    let mut run = ScrubRun {
        rt,
        layer,
        state,
        pace: ScrubPace::new(rt.now()),
        again: Vec::new(),
    };
    let ended = run.all(&targets).await;
    let phase = ended.err().unwrap_or(ScrubPhase::Finished);
    state.borrow_mut().end(rt.now(), phase);
}

impl ScrubRun<'_> {
    /// Reads all targets. The error is the phase in which the scrub ends early.
    async fn all(&mut self, targets: &[Rc<dyn ScrubTarget>]) -> Result<(), ScrubPhase> {
        for (n, target) in targets.iter().enumerate() {
            let range = 0..target.end();
            self.range(
                &NumberedTarget {
                    n,
                    target: &**target,
                },
                range,
                false,
            )
            .await?;
        }
        let again = std::mem::take(&mut self.again);
        if !again.is_empty() {
            let until = self.rt.now().plus(RETRY_PAUSE);
            while self.rt.now() < until {
                self.may_go_on()?;
                self.rt.sleep(RETRY_PAUSE / 20).await;
            }
        }
        for (n, range) in again {
            self.range(
                &NumberedTarget {
                    n,
                    target: &*targets[n],
                },
                range,
                true,
            )
            .await?;
        }
        Ok(())
    }

    async fn range(
        &mut self,
        target: &NumberedTarget<'_>,
        range: Range<u64>,
        retries: bool,
    ) -> Result<(), ScrubPhase> {
        let mut at = range.start;
        while at < range.end {
            self.wait().await?;
            let began = self.rt.now();
            let step = target.target.step(at..range.end).await;
            let (next, bytes) = (step.next.max(at + 1), step.bytes);
            let is_last_try = retries || self.again.len() >= RETRIES_MAX;
            if self.state.borrow_mut().note(step, is_last_try) {
                self.again.push((target.n, at..next.min(range.end)));
            }
            let rate = self.state.borrow().rate;
            self.pace.read(began, bytes, rate);
            // A step without a wait must not keep other tasks from running.
            self.rt.yield_now().await;
            at = next;
        }
        Ok(())
    }

    /// Waits until the next piece may be read.
    async fn wait(&mut self) -> Result<(), ScrubPhase> {
        self.may_go_on()?;
        while let Some(pause) = self.pace.wait(self.rt.now(), self.layer.is_busy()) {
            self.rt.sleep(pause).await;
            self.may_go_on()?;
        }
        Ok(())
    }

    fn may_go_on(&self) -> Result<(), ScrubPhase> {
        self.state.borrow().must_end().map_or(Ok(()), Err)
    }
}
