//! The log of the program, on standard error. `lines.rs` makes the lines of events.
//!
//! The standard error of a daemon is that of the command that starts it, until the daemon is ready. Events of an
//! ordinary start do not belong there. They are held, and written to the log file of the daemon.

mod lines;

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use lines::LogFormat;

/// Lines that are not written yet; `None` if all lines go to standard error.
static HELD: Mutex<Option<Vec<u8>>> = Mutex::new(None);

fn held() -> MutexGuard<'static, Option<Vec<u8>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the log with this level, unless `RUST_LOG` names levels. With `holds`, events below warnings are held until
/// [`release`], except for those that `RUST_LOG` asks for.
pub(crate) fn start(level: &str, holds: bool) {
    let named = EnvFilter::try_from_default_env();
    if holds && named.is_err() {
        held().get_or_insert_default();
    }
    tracing_subscriber::fmt()
        .with_env_filter(named.unwrap_or_else(|_| EnvFilter::new(level)))
        .with_writer(LogWriter)
        // If the log cannot be written, as on a full disk, the library would report this on stderr too, and panic.
        .log_internal_errors(false)
        .event_format(LogFormat::default())
        .init();
}

/// Writes the held lines to standard error, and later lines at once.
pub(crate) fn release() {
    if let Some(lines) = held().take() {
        // A full disk must not stop the daemon.
        let _ = io::stderr().write_all(&lines);
    }
}

/// Returns true if the lines of this level go to the log file of the daemon later.
fn is_held(level: Level) -> bool {
    level > Level::WARN && held().is_some()
}

/// Creates the writer of each event.
struct LogWriter;

/// Writes one event.
enum EventWriter {
    Held,
    Stderr(io::Stderr),
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = EventWriter;

    fn make_writer(&'a self) -> EventWriter {
        EventWriter::Stderr(io::stderr())
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> EventWriter {
        if is_held(*event.level()) {
            EventWriter::Held
        } else {
            EventWriter::Stderr(io::stderr())
        }
    }
}

impl Write for EventWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            EventWriter::Held => match &mut *held() {
                Some(lines) => lines.extend_from_slice(bytes),
                None => return io::stderr().write(bytes),
            },
            EventWriter::Stderr(stderr) => return stderr.write(bytes),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
