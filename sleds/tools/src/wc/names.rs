//! Names of the input files, from the command line or from a list.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::ffi::OsStringExt as _;

use sleds_common::gnu::{quoted, reason};
use sleds_common::{input, text};

/// Size limit of a list that is read completely before counting.
const LIST_BYTES_MAX: u64 = 10 << 20;

/// The names, in order. Names of a list are numbered from 1.
pub(super) enum InputNames {
    Known(std::vec::IntoIter<OsString>),
    /// A list that is long, or comes from a pipe.
    Streamed(BufReader<File>),
}

impl InputNames {
    /// Returns the names in the list `from` ("-": standard input).
    ///
    /// # Errors
    /// The message to print.
    pub(super) fn listed(from: &OsStr) -> Result<InputNames, Vec<u8>> {
        let shown = quoted(from);
        let mut list = input::open(from)
            .map_err(|error| text!("cannot open ", shown, " for reading: ", reason(&error)))?;
        let short = |m: Metadata| m.is_file() && m.len() <= LIST_BYTES_MAX;
        if !list.metadata().is_ok_and(short) {
            return Ok(InputNames::Streamed(BufReader::new(list)));
        }
        let mut bytes = Vec::new();
        list.read_to_end(&mut bytes)
            .map_err(|_| text!("cannot read file names from ", shown))?;
        if bytes.last() == Some(&0) {
            bytes.pop();
        } else if bytes.is_empty() {
            return Ok(InputNames::Known(Vec::new().into_iter()));
        }
        let names = bytes
            .split(|b| *b == 0)
            .map(|n| OsString::from_vec(n.into()));
        Ok(InputNames::Known(names.collect::<Vec<_>>().into_iter()))
    }

    /// Returns the remaining names, if they are known.
    pub(super) fn known(&self) -> Option<&[OsString]> {
        match self {
            InputNames::Known(names) => Some(names.as_slice()),
            InputNames::Streamed(_) => None,
        }
    }

    /// Returns the next name.
    ///
    /// # Errors
    /// If the list cannot be read.
    pub(super) fn next(&mut self) -> io::Result<Option<OsString>> {
        let list = match self {
            InputNames::Known(names) => return Ok(names.next()),
            InputNames::Streamed(list) => list,
        };
        let mut name = Vec::new();
        let n = list.read_until(0, &mut name)?;
        if name.last() == Some(&0) {
            name.pop();
        }
        Ok((n > 0).then(|| OsString::from_vec(name)))
    }
}
