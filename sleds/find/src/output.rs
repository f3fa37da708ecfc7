//! Output files of the actions.

use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;

use rustix::io::Errno;

use sleds_common::stdio::{self, DirectOutput};

use super::report;

/// An output file of the actions.
struct ActionOutput {
    /// Name given by the user.
    name: Vec<u8>,
    /// `None` for standard output.
    file: Option<File>,
    terminal: bool,
    /// True for an unbuffered file, which also receives messages.
    direct: bool,
    buffer: Vec<u8>,
    /// True if a write failed and the error was reported.
    broken: bool,
}

/// Output files of the actions; the first is standard output.
pub(super) struct ActionOutputs {
    all: Vec<ActionOutput>,
}

/// Buffer size at which the output is written.
const FULL: usize = 64 << 10;

impl ActionOutputs {
    pub(super) fn new() -> ActionOutputs {
        let stdout = ActionOutput {
            name: b"standard output".to_vec(),
            file: None,
            direct: false,
            terminal: std::io::stdout().is_terminal(),
            buffer: Vec::new(),
            broken: false,
        };
        ActionOutputs { all: vec![stdout] }
    }

    /// Returns the number of the file with this name. The first call creates or truncates the file.
    pub(super) fn open(&mut self, name: &[u8]) -> Result<usize, Errno> {
        if name == b"/dev/stdout" {
            return Ok(0);
        }
        if let Some(at) = self.all.iter().skip(1).position(|out| out.name == name) {
            return Ok(at + 1);
        }
        let file = if name == b"/dev/stderr" {
            let fd = std::io::stderr().as_fd().try_clone_to_owned();
            File::from(fd.map_err(|error| report::errno_of(&error))?)
        } else {
            use std::os::unix::ffi::OsStrExt as _;
            let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name));
            File::create(path).map_err(|error| report::errno_of(&error))?
        };
        self.all.push(ActionOutput {
            name: name.to_vec(),
            terminal: file.is_terminal(),
            direct: name == b"/dev/stderr",
            file: Some(file),
            buffer: Vec::new(),
            broken: false,
        });
        Ok(self.all.len() - 1)
    }

    /// Returns the buffer of an output. After appending, call [`ActionOutputs::wrote`].
    pub(super) fn buffer(&mut self, at: usize) -> &mut Vec<u8> {
        &mut self.all[at].buffer
    }

    /// Must be called after an append to the buffer.
    pub(super) fn wrote(&mut self, at: usize) {
        let out = &mut self.all[at];
        if out.terminal || out.direct || out.buffer.len() >= FULL {
            out.flush();
        }
    }

    /// Returns true if the output is a terminal.
    pub(super) fn is_terminal(&self, at: usize) -> bool {
        self.all[at].terminal
    }

    /// Writes out the buffer of an output.
    pub(super) fn flush(&mut self, at: usize) {
        self.all[at].flush();
    }

    /// Writes out all buffers: before another program runs, and at the end.
    pub(super) fn flush_all(&mut self) {
        self.all.iter_mut().for_each(ActionOutput::flush);
    }

    /// Writes out all buffers, and reports a failed write to standard output.
    pub(super) fn finish(&mut self) {
        self.flush_all();
        if self.all[0].broken {
            // GNU find gives the reason only for a closed output.
            if stdio::output_is_closed() {
                let why = report::error_text(Errno::BADF);
                report::error(format!("write error: {why}"));
            } else {
                report::error(b"write error");
            }
        }
    }
}

impl ActionOutput {
    fn flush(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        let written = if let Some(file) = &mut self.file {
            file.write_all(&self.buffer)
        } else {
            DirectOutput.write_all(&self.buffer)
        };
        self.buffer.clear();
        if let Err(error) = written
            && !self.broken
        {
            self.broken = true;
            report::file_error(&self.name, report::errno_of(&error));
        }
    }
}

/// Appends a name with question marks in place of characters that a terminal must not receive.
pub(super) fn for_terminal(to: &mut Vec<u8>, name: &[u8]) {
    let locale = sleds_common::locale::Locale::of_environment();
    for part in name.utf8_chunks() {
        for c in part.valid().chars() {
            if locale.is_print(c.into()) {
                let mut bytes = [0; 4];
                to.extend_from_slice(c.encode_utf8(&mut bytes).as_bytes());
            } else {
                to.push(b'?');
            }
        }
        to.resize(to.len() + part.invalid().len(), b'?');
    }
}
