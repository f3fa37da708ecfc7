//! Tools that change the page cache: `sleds warm`, `evict` and `lock`.

pub(crate) mod evict;
mod fill;
mod holders;
pub(crate) mod lock;
pub(crate) mod warm;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;

use forebay_units::ByteLen;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sleds::DescribeError;
use sleds_common::signals;

use crate::files::NamedFiles;
use crate::process::FileKey;
use crate::show::open;

/// Version of the JSON formats.
const SCHEMA: u32 = 1;

/// Calls `then` for each file, once for each inode. Returns messages about files that cannot be examined. Files in
/// folders may disappear at any time, which is no error.
fn each_file(
    paths: &[PathBuf],
    then: &mut dyn FnMut(PathBuf, &File) -> Result<(), DescribeError>,
) -> Vec<String> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for found in NamedFiles::new(paths.to_vec()) {
        if let Err(error) = signals::told_to_end() {
            errors.push(error.to_string());
            return errors;
        }
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                errors.push(error);
                continue;
            }
        };
        let outcome = open(&found.path).and_then(|file| Ok((file.metadata()?, file)));
        let outcome = outcome.map_err(DescribeError::Io);
        let outcome = outcome.and_then(|(meta, file)| {
            if seen.insert(FileKey::of(&meta)) {
                then(found.path.clone(), &file)?;
            }
            Ok(())
        });
        match outcome {
            Err(DescribeError::Io(error))
                if error.kind() == std::io::ErrorKind::NotFound && !found.named => {}
            Err(error) => errors.push(format!("{}: {error}", found.path.display())),
            Ok(()) => {}
        }
    }
    errors
}

/// Makes the progress bar for a number of bytes. It appears only on a terminal.
fn progress(bytes: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr_with_hz(10));
    let style = "{wide_bar} {percent:>3} %  {binary_bytes_per_sec}  {eta}  {msg}";
    let style = ProgressStyle::with_template(style);
    bar.with_style(style.expect("the template is valid"))
}

/// Returns the reason to refuse if `wanted` bytes do not fit into the memory that is free or holds evictable pages.
fn too_large(wanted: u64, available: Option<u64>) -> Option<String> {
    let available = available.filter(|available| wanted > *available)?;
    Some(format!(
        "{} do not fit into the available memory of {}",
        ByteLen(wanted),
        ByteLen(available)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_available_memory_is_too_large() {
        let message = too_large(3 << 30, Some(2 << 30));
        let expected = "3GiB do not fit into the available memory of 2GiB";
        assert_eq!(message.as_deref(), Some(expected));
        assert_eq!(too_large(2 << 30, Some(2 << 30)), None);
        assert_eq!(too_large(u64::MAX, None), None);
    }
}
