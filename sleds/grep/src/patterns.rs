//! The list of patterns, from the command line and from files.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;

use sleds_common::{gnu, input};

/// Patterns without duplicates.
#[derive(Default)]
pub(super) struct PatternSet {
    list: Vec<Vec<u8>>,
    seen: BTreeSet<Vec<u8>>,
}

impl PatternSet {
    /// Adds each line of `text` as a pattern.
    pub(super) fn add(&mut self, text: &[u8]) {
        for line in text.split(|b| *b == b'\n') {
            if self.seen.insert(line.to_vec()) {
                self.list.push(line.to_vec());
            }
        }
    }

    /// Adds the patterns in the file `name`; `-` is standard input. An empty file has no patterns.
    pub(super) fn add_file(&mut self, name: &OsStr) -> Result<(), Vec<u8>> {
        let text = read(name)?;
        if !text.is_empty() {
            self.add(text.strip_suffix(b"\n").unwrap_or(&text));
        }
        Ok(())
    }

    pub(super) fn into_list(self) -> Vec<Vec<u8>> {
        self.list
    }
}

/// Reads the file `name`, where `-` is standard input. The error is the message to print.
pub(super) fn read(name: &OsStr) -> Result<Vec<u8>, Vec<u8>> {
    let mut text = Vec::new();
    let read = match name.as_bytes() {
        b"-" => input::standard_input().and_then(|mut input| input.read_to_end(&mut text)),
        _ => std::fs::File::open(name).and_then(|mut file| file.read_to_end(&mut text)),
    };
    match read {
        Ok(_) => Ok(text),
        Err(error) => {
            let why = gnu::reason(&error);
            Err([name.as_bytes(), b": ", why.as_bytes()].concat())
        }
    }
}
