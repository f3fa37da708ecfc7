//! Progress of long work: a bar on a terminal, otherwise occasional lines. Always on stderr, so that stdout contains
//! only results for scripts.
//!
//! `estimate.rs` computes speed and remaining time, `drain.rs` combines the two kinds of work in a drain, and
//! `lines.rs` decides when a line is due. These modules use neither a clock nor a terminal.

mod drain;
mod estimate;
mod lines;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use forebay_control::{RemainingWork, VolumeActivity};
use forebay_units::ByteLen;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use drain::DrainEstimate;
use estimate::WorkEstimate;
use lines::ProgressLines;

/// Interval between two updates of a bar.
const BAR_EVERY: Duration = Duration::from_millis(100);

/// The progress of one work, measured in bytes.
pub struct ByteProgress {
    work: WorkEstimate,
    shown: ProgressDisplay,
}

impl ByteProgress {
    /// Begins to show progress for `what`. Prints nothing before the first values are known.
    pub fn new(what: impl Into<String>) -> ByteProgress {
        ByteProgress {
            work: WorkEstimate::default(),
            shown: ProgressDisplay::new(what.into()),
        }
    }

    /// Records that `done` of `total` bytes are completed.
    pub fn set(&mut self, done: u64, total: u64) {
        let span = self.shown.look();
        self.work.look(total.saturating_sub(done), span);
        if self.shown.is_due(done, total, VolumeActivity::Unknown) {
            let rate = match self.work.rate() {
                Some(rate) => format!(", {}/s", ByteLen(rate.round() as u64)),
                None => String::new(),
            };
            let left = self.work.time_left();
            let left = left.map_or("time left unknown".into(), estimate::left_in_words);
            let (done, total) = (ByteLen(done), ByteLen(total));
            self.shown.say(&format!("{done} of {total}{rate}, {left}"));
        }
    }

    /// Ends the display, whether the work has succeeded or failed.
    pub fn finish(self) {
        self.shown.finish();
    }
}

/// The progress of a drain, measured by the remaining work.
pub struct DrainProgress {
    drain: DrainEstimate,
    shown: ProgressDisplay,
}

impl DrainProgress {
    /// Begins to show progress for `what`.
    pub fn new(what: String) -> DrainProgress {
        DrainProgress {
            drain: DrainEstimate::default(),
            shown: ProgressDisplay::new(what),
        }
    }

    /// Records the remaining work.
    pub fn set(&mut self, left: &RemainingWork) {
        let span = self.shown.look();
        self.drain.look(left, span);
        let (done, total) = self.drain.done();
        if self.shown.is_due(done, total, left.doing) {
            self.shown.say(&self.drain.text());
        }
    }

    /// Ends the display, whether the drain has succeeded or failed.
    pub fn finish(self) {
        self.shown.finish();
    }
}

/// The display of progress.
struct ProgressDisplay {
    what: String,
    bar: Option<ProgressBar>,
    began: Instant,
    looked: Instant,
    drawn: Option<Instant>,
    due: ProgressLines,
}

impl ProgressDisplay {
    fn new(what: String) -> ProgressDisplay {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar =
                ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr_with_hz(10));
            let style = ProgressStyle::with_template("{bar:20} {percent:>3} % {wide_msg}");
            bar.set_style(style.expect("the template is valid"));
            bar
        });
        let now = Instant::now();
        ProgressDisplay {
            what,
            bar,
            began: now,
            looked: now,
            drawn: None,
            due: ProgressLines::default(),
        }
    }

    /// Returns the seconds since the previous call.
    fn look(&mut self) -> f64 {
        let now = Instant::now();
        let before = std::mem::replace(&mut self.looked, now);
        (now - before).as_secs_f64()
    }

    /// Returns true if the display must be updated now. Moves the bar, if any.
    fn is_due(&mut self, done: u64, total: u64, doing: VolumeActivity) -> bool {
        let Some(bar) = &self.bar else {
            let span = (self.looked - self.began).as_secs_f64();
            return self.due.is_due(span, (done, total), doing);
        };
        let due = self.drawn.is_none_or(|at| self.looked - at >= BAR_EVERY);
        if due {
            self.drawn = Some(self.looked);
            bar.set_length(total.max(1));
            bar.set_position(done);
        }
        due
    }

    fn say(&self, text: &str) {
        let text = format!("{}: {text}", self.what);
        match &self.bar {
            Some(bar) => bar.set_message(text),
            None => eprintln!("{text}"),
        }
    }

    fn finish(self) {
        match self.bar {
            Some(bar) => bar.finish_and_clear(),
            None if self.due.was() => {
                let span = self.began.elapsed().as_secs_f64();
                eprintln!("{}: ended after {span:.1} s", self.what);
            }
            None => {}
        }
    }
}
