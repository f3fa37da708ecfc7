//! The program `forebay`, which the comparisons measure as users run it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use forebay_command_output::failure::{CommandFailure, CommandResult};

const NAME: &str = "forebay";

/// Returns the path of the program: `asked` if given, else the file beside this program, else the first in `PATH`.
///
/// # Errors
/// If no such file exists.
pub(crate) fn program(asked: Option<&Path>) -> CommandResult<PathBuf> {
    let own = std::env::current_exe().map_err(CommandFailure::io)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = find(asked, &own, &path)?;
    // Its daemons change their working directory.
    Ok(std::path::absolute(&found).unwrap_or(found))
}

fn find(asked: Option<&Path>, own: &Path, path: &OsStr) -> CommandResult<PathBuf> {
    if let Some(asked) = asked {
        if asked.is_file() {
            return Ok(asked.to_owned());
        }
        return Err(CommandFailure::not_found(format!(
            "{} is not a file; name the program forebay with --forebay PATH",
            asked.display()
        )));
    }
    let beside = own.with_file_name(NAME);
    let in_path = std::env::split_paths(path).map(|dir| dir.join(NAME));
    let mut candidates = std::iter::once(beside.clone()).chain(in_path);
    candidates.find(|file| file.is_file()).ok_or_else(|| {
        CommandFailure::not_found(format!(
            "the program forebay is missing: {} does not exist, and no directory in PATH contains it; build it with \
             `cargo build --release`, or name it with --forebay PATH",
            beside.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use forebay_command_output::failure::FailureCode;

    use super::*;

    #[test]
    fn the_named_program_comes_first_then_the_one_beside_this_program_then_path() {
        let dir = tempfile::tempdir().unwrap();
        let [beside, installed, named] = ["beside", "installed", "named"].map(|name| {
            let dir = dir.path().join(name);
            fs::create_dir(&dir).unwrap();
            dir.join("forebay")
        });
        let own = beside.with_file_name("forebay-bench");
        let path = installed.parent().unwrap().as_os_str();
        let missing = find(None, &own, path).unwrap_err();
        assert_eq!(missing.code, FailureCode::NotFound);
        assert!(missing.text.contains("--forebay PATH"), "{missing}");
        fs::write(&installed, "").unwrap();
        assert_eq!(find(None, &own, path).unwrap(), installed);
        fs::write(&beside, "").unwrap();
        assert_eq!(find(None, &own, path).unwrap(), beside);
        let refused = find(Some(&named), &own, path).unwrap_err();
        assert!(refused.text.contains("is not a file"), "{refused}");
        fs::write(&named, "").unwrap();
        assert_eq!(find(Some(&named), &own, path).unwrap(), named);
    }
}
