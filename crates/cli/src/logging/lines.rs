//! Events as lines for people.
//!
//! Under systemd, standard error is the journal: each line begins with its priority, as in sd-daemon(3), and the journal
//! adds the time. Otherwise each line has the time and the level. The values of an event follow its text in words.
//!
//! A fault that lasts may be reported many times a second. So at most [`BURST`] warnings that differ only in numbers are
//! written in an interval, and the first line of the next interval has the number of lines left out.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::is_held;

/// Time in which at most [`BURST`] warnings of a kind are written.
const INTERVAL: Duration = Duration::from_secs(30);
/// Warnings of a kind that are written in an interval. Their numbers may name different places.
const BURST: u32 = 10;
/// Maximum number of warnings that are remembered.
const KINDS_MAX: usize = 256;

/// Returns true if standard error is the journal: `JOURNAL_STREAM` contains its device and inode numbers.
fn is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    // Standard error changes when a daemon goes to the background.
    let file = rustix::fs::fstat(io::stderr());
    file.is_ok_and(|file| stream == format!("{}:{}", file.st_dev, file.st_ino))
}

/// The format of the lines.
#[derive(Default)]
pub(super) struct LogFormat(Mutex<RepeatLimit>);

impl<S, N> FormatEvent<S, N> for LogFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = *event.metadata().level();
        let mut words = EventWords::default();
        event.record(&mut words);
        let text = words.text();
        let left_out = if level <= Level::WARN {
            let mut limit = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match limit.admit(&text, Instant::now()) {
                Some(left_out) => left_out,
                None => return Ok(()),
            }
        } else {
            0
        };
        // Held lines go to a file, whatever standard error is now.
        let is_held = is_held(level);
        if !is_held && is_journal() {
            write!(out, "<{}>", priority(level))?;
        } else if !is_held && io::stderr().is_terminal() {
            write!(out, "{level}: ")?;
        } else {
            SystemTime.format_time(&mut out)?;
            write!(out, " {level:>5} ")?;
        }
        // With its level of detail, the place in the program is useful.
        if level > Level::INFO {
            write!(out, "{}: ", event.metadata().target())?;
        }
        out.write_str(&text)?;
        if left_out > 0 {
            write!(out, " (and {left_out} more times since the last such line)")?;
        }
        writeln!(out)
    }
}

/// Returns the priority of a line, as in sd-daemon(3).
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

/// The text and the values of an event.
#[derive(Default)]
struct EventWords {
    message: String,
    /// The reason.
    error: Option<String>,
    /// Other values, each with its name.
    values: Vec<String>,
}

impl EventWords {
    fn add(&mut self, field: &Field, value: String) {
        match field.name() {
            "message" => self.message = value,
            "error" => self.error = Some(value),
            name => self
                .values
                .push(format!("{} {value}", name.replace('_', " "))),
        }
    }

    /// Returns a single line.
    fn text(&self) -> String {
        let mut text = self.message.clone();
        if !self.values.is_empty() {
            let _ = write!(text, " ({})", self.values.join(", "));
        }
        if let Some(error) = &self.error {
            let _ = write!(text, ": {error}");
        }
        text.replace(['\n', '\r'], " ")
    }
}

impl Visit for EventWords {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.to_owned());
    }
}

/// Warnings of the last interval.
#[derive(Default)]
struct RepeatLimit(HashMap<String, RepeatedWarning>);

/// Warnings that differ only in numbers.
#[derive(Clone, Copy)]
struct RepeatedWarning {
    /// Begin of the interval.
    begun: Instant,
    /// Lines written in the interval.
    written: u32,
    /// Lines left out in the interval.
    left_out: u64,
}

impl RepeatLimit {
    /// Returns the number of lines of the kind left out in its previous interval, or `None` if this line is left out,
    /// too.
    fn admit(&mut self, text: &str, now: Instant) -> Option<u64> {
        let is_old = |warning: &RepeatedWarning| now.duration_since(warning.begun) >= INTERVAL;
        let kind: String = text.chars().filter(|c| !c.is_ascii_digit()).collect();
        if self.0.len() >= KINDS_MAX && !self.0.contains_key(&kind) {
            self.0.retain(|_, warning| !is_old(warning));
            if self.0.len() >= KINDS_MAX {
                return Some(0);
            }
        }
        let begin = RepeatedWarning {
            begun: now,
            written: 0,
            left_out: 0,
        };
        let warning = self.0.entry(kind).or_insert(begin);
        let mut left_out = 0;
        if is_old(warning) {
            left_out = warning.left_out;
            *warning = begin;
        }
        if warning.written == BURST {
            warning.left_out += 1;
            return None;
        }
        warning.written += 1;
        Some(left_out)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn repeated_warnings_are_written_some_times_in_an_interval_and_counted() {
        let mut limit = RepeatLimit::default();
        let begin = Instant::now();
        for n in 0..BURST {
            let line = format!("cannot read sector {n}");
            assert_eq!(limit.admit(&line, begin), Some(0));
        }
        for n in 0..100 {
            assert_eq!(limit.admit(&format!("cannot read sector {n}"), begin), None);
        }
        assert_eq!(limit.admit("cannot write sector 7", begin), Some(0));
        let later = begin + INTERVAL;
        assert_eq!(limit.admit("cannot read sector 1234", later), Some(100));
        assert_eq!(limit.admit("cannot read sector 1234", later), Some(0));
        // The memory is bounded.
        for n in 0..2 * KINDS_MAX {
            let kind: String = "ab".repeat(n + 1);
            assert_eq!(limit.admit(&kind, later), Some(0));
        }
        assert!(limit.0.len() <= KINDS_MAX);
        assert_eq!(limit.admit("new", later + INTERVAL), Some(0));
        assert_eq!(limit.0.len(), 1);
    }

    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn values_are_words_behind_the_text_and_the_reason_is_last() {
        let captured = Captured::default();
        let writer = captured.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .event_format(LogFormat::default())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            for at in 0..BURST + 5 {
                let error = io::Error::other("no\nanswer");
                tracing::warn!(%error, first_byte = at, path = "/dev/sdb", "cannot read");
            }
            tracing::info!("the end");
            tracing::info!("the end");
        });
        let text = String::from_utf8(captured.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), BURST as usize + 2, "{text}");
        let expected = "cannot read (first byte 0, path /dev/sdb): no answer";
        assert!(
            lines[0].ends_with(expected) && lines[0].contains("WARN"),
            "{text}"
        );
        assert!(text.ends_with("the end\n"), "{text}");
        assert!(!text.contains(['"', '=', '{']), "{text}");
    }
}
