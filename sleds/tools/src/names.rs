//! Names of files from a list.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use sleds_common::{gnu, input};

/// Options of a list of files.
#[derive(clap::Args)]
pub(crate) struct FileList {
    /// Also take names from FILE, one on each line; '-' is standard input
    #[arg(long, value_name = "FILE")]
    files_from: Option<PathBuf>,
    /// Names in the list end with a zero byte
    #[arg(long, short = '0', requires = "files_from")]
    null: bool,
}

impl FileList {
    /// Returns the names in the list. Empty names are left out.
    ///
    /// # Errors
    /// The message about a list that cannot be read.
    pub(crate) fn names(&self) -> Result<Vec<PathBuf>, String> {
        let Some(from) = &self.files_from else {
            return Ok(Vec::new());
        };
        let mut list = Vec::new();
        let read = input::open(from.as_os_str()).and_then(|mut file| file.read_to_end(&mut list));
        if let Err(error) = read {
            return Err(format!("{}: {}", from.display(), gnu::reason(&error)));
        }
        let end = if self.null { 0 } else { b'\n' };
        let names = list.split(|byte| *byte == end);
        let names = names.filter(|name| !name.is_empty());
        Ok(names
            .map(|name| PathBuf::from(OsStr::from_bytes(name)))
            .collect())
    }
}
