//! Progress of long work: a bar on a terminal, a line now and then otherwise. Always on stderr, so
//! that stdout stays what scripts read.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use forebay_units::ByteLen;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often a plain line comes.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// One piece of work, measured in bytes.
pub(crate) struct Progress {
    what: String,
    bar: Option<ProgressBar>,
    started: Instant,
    last_line: Instant,
    shown: bool,
}

impl Progress {
    /// Begins to show `what`. Nothing is printed before something is known.
    pub(crate) fn new(what: impl Into<String>) -> Progress {
        let what = what.into();
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10));
            let style = ProgressStyle::with_template(
                "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} eta {eta}",
            );
            bar.set_style(style.expect("the template is valid"));
            bar.set_message(what.clone());
            bar
        });
        let now = Instant::now();
        Progress {
            what,
            bar,
            started: now,
            last_line: now,
            shown: false,
        }
    }

    /// `done` bytes of `total` are done.
    pub(crate) fn set(&mut self, done: u64, total: u64) {
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            bar.set_position(done);
            return;
        }
        if self.last_line.elapsed() < LINE_EVERY {
            return;
        }
        self.last_line = Instant::now();
        self.shown = true;
        let elapsed = self.started.elapsed().as_secs_f64();
        let rate = done as f64 / elapsed;
        let left = if rate > 0.0 {
            format!("{:.0} s left", (total.saturating_sub(done)) as f64 / rate)
        } else {
            "time left unknown".into()
        };
        eprintln!(
            "{}: {} of {}, {}/s, {left}",
            self.what,
            ByteLen(done),
            ByteLen(total),
            ByteLen(rate as u64)
        );
    }

    /// The work is over, well or not.
    pub(crate) fn finish(self) {
        match self.bar {
            Some(bar) => bar.finish_and_clear(),
            None if self.shown => eprintln!(
                "{}: ended after {:.1} s",
                self.what,
                self.started.elapsed().as_secs_f64()
            ),
            None => {}
        }
    }
}
