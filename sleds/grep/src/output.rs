//! Buffered standard output.

use std::io;
use std::process::exit;
use std::rc::Rc;

use super::color::ColorSequences;
use super::config::GrepConfig;
use sleds_common::gnu;

/// Buffer size at which the output is written.
const ENOUGH: usize = 64 << 10;

pub(super) struct GrepOutput {
    sink: OutputSink,
    buf: Vec<u8>,
    colors: Rc<ColorSequences>,
    line_buffered: bool,
    null_names: bool,
    /// True after any output, for any file.
    pub(super) used: bool,
}

impl GrepOutput {
    pub(super) fn new(config: &GrepConfig, colors: ColorSequences) -> GrepOutput {
        GrepOutput {
            sink: OutputSink::StandardOutput,
            buf: Vec::with_capacity(ENOUGH + 4096),
            colors: Rc::new(colors),
            line_buffered: config.line_buffered,
            null_names: config.null_names,
            used: false,
        }
    }

    pub(super) fn colors(&self) -> Rc<ColorSequences> {
        Rc::clone(&self.colors)
    }

    #[inline]
    pub(super) fn write(&mut self, text: &[u8]) {
        if text.len() >= ENOUGH {
            self.flush();
            self.write_out(text);
            return;
        }
        self.buf.extend_from_slice(text);
        if self.buf.len() >= ENOUGH {
            self.flush();
        }
    }

    pub(super) fn flush(&mut self) {
        let mut buf = std::mem::take(&mut self.buf);
        self.write_out(&buf);
        buf.clear();
        self.buf = buf;
    }

    /// Marks the end of a line.
    pub(super) fn end_line(&mut self) {
        if self.line_buffered {
            self.flush();
        }
    }

    pub(super) fn start_color(&mut self, color: &[u8]) {
        if self.colors.on && !color.is_empty() {
            self.buf.extend_from_slice(b"\x1b[");
            self.buf.extend_from_slice(color);
            self.buf.extend_from_slice(self.sgr_end());
        }
    }

    pub(super) fn end_color(&mut self, color: &[u8]) {
        if self.colors.on && !color.is_empty() {
            self.buf.extend_from_slice(b"\x1b[");
            self.buf.extend_from_slice(self.sgr_end());
        }
    }

    fn sgr_end(&self) -> &'static [u8] {
        if self.colors.no_erase {
            b"m"
        } else {
            b"m\x1b[K"
        }
    }

    #[inline]
    pub(super) fn colored(&mut self, color: &[u8], text: &[u8]) {
        self.start_color(color);
        self.write(text);
        self.end_color(color);
    }

    pub(super) fn separator(&mut self, text: &[u8]) {
        if !self.colors.on {
            self.write(text);
            return;
        }
        let colors = self.colors();
        self.colored(&colors.separator, text);
    }

    fn filename(&mut self, name: &[u8]) {
        let colors = self.colors();
        self.colored(&colors.filename, name);
    }

    /// Prints the file's name before a line or a count.
    pub(super) fn filename_before(&mut self, name: &[u8], separator: u8) {
        self.filename(name);
        if self.null_names {
            self.write(b"\0");
        } else {
            self.separator(&[separator]);
        }
    }

    /// Prints the file's name as a line.
    pub(super) fn filename_alone(&mut self, name: &[u8]) {
        self.filename(name);
        self.write(if self.null_names { b"\0" } else { b"\n" });
        self.end_line();
    }

    /// Prints a number before a line.
    pub(super) fn number(&mut self, number: u64, line: bool, width: usize, separator: u8) {
        let mut digits = [b' '; 20];
        let (mut at, mut rest) = (digits.len(), number);
        while at == digits.len() || rest > 0 {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        let text = &digits[at.min(digits.len() - width)..];
        if !self.colors.on {
            self.buf.extend_from_slice(text);
            self.buf.push(separator);
            return;
        }
        let colors = self.colors();
        let color = if line {
            &colors.line_number
        } else {
            &colors.byte_number
        };
        self.colored(color, text);
        self.separator(&[separator]);
    }

    fn write_out(&mut self, text: &[u8]) {
        match &mut self.sink {
            OutputSink::StandardOutput => write_out(text),
            #[cfg(test)]
            OutputSink::Memory(bytes) => bytes.extend_from_slice(text),
        }
    }

    /// Makes an output that collects everything in memory.
    #[cfg(test)]
    pub(super) fn into_memory(config: &GrepConfig) -> GrepOutput {
        let mut output = GrepOutput::new(config, ColorSequences::none());
        output.sink = OutputSink::Memory(Vec::new());
        output
    }

    /// Returns the collected output.
    #[cfg(test)]
    pub(super) fn gathered(mut self) -> Vec<u8> {
        self.flush();
        match self.sink {
            OutputSink::Memory(bytes) => bytes,
            OutputSink::StandardOutput => Vec::new(),
        }
    }
}

/// Destination of the output.
enum OutputSink {
    StandardOutput,
    #[cfg(test)]
    Memory(Vec<u8>),
}

/// Writes all of `text`. Exits if the output cannot be written.
fn write_out(mut text: &[u8]) {
    while !text.is_empty() {
        match rustix::io::write(rustix::stdio::stdout(), text) {
            Ok(n) => text = &text[n..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                let error = io::Error::from(error);
                eprintln!("sleds grep: write error: {}", gnu::reason(&error));
                exit(2);
            }
        }
    }
}
