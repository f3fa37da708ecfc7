//! Messages on standard error, worded as the GNU programs word them.

use std::io::{self, Write as _};
use std::path::Path;

use crate::gnu::quoted_if_needed;

/// Writes a tool's messages, and remembers that there was one.
pub(crate) struct Complaints {
    tool: &'static str,
    any: bool,
}

impl Complaints {
    /// Of the tool `sleds TOOL`.
    pub(crate) fn new(tool: &'static str) -> Complaints {
        Complaints { tool, any: false }
    }

    /// True if there was a message.
    pub(crate) fn any(&self) -> bool {
        self.any
    }

    /// Writes `sleds TOOL: TEXT`.
    pub(crate) fn say(&mut self, text: impl AsRef<[u8]>) {
        self.any = true;
        note(self.tool, text);
    }

    /// Writes `sleds TOOL: FILE: REASON`.
    pub(crate) fn about(&mut self, file: impl AsRef<Path>, error: &io::Error) {
        let mut text = quoted_if_needed(file.as_ref());
        text.extend_from_slice(b": ");
        text.extend_from_slice(reason(error).as_bytes());
        self.say(text);
    }
}

/// Writes `sleds TOOL: TEXT` as one piece, which is not mixed with what others write.
fn note(tool: &str, text: impl AsRef<[u8]>) {
    let mut line = format!("sleds {tool}: ").into_bytes();
    line.extend_from_slice(text.as_ref());
    line.push(b'\n');
    // Nobody is left to hear of it if this fails.
    let _ = io::stderr().write_all(&line);
}

/// What the system says about `error`, without its number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match (error.raw_os_error(), text.rfind(" (os error ")) {
        (Some(_), Some(at)) => text[..at].to_owned(),
        _ => text,
    }
}
