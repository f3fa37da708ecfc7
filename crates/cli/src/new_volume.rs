//! Steps of the commands that write a configuration file for a volume: `create`, `adopt` and `clone-id`.

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_volume::{ServedAs, VolumeName};

use crate::dirs::ProgramDirs;

/// Refuses a name for which a configuration file exists. `remedies` continue the message after "choose another --name".
///
/// # Errors
/// If the name is taken.
pub(crate) fn refuse_taken(dirs: &ProgramDirs, name: &VolumeName, remedies: &str) -> CommandResult {
    let file = dirs.description_file(name);
    if file.exists() {
        return Err(CommandFailure::refused(format!(
            "a volume {name} exists already ({}); choose another --name{remedies}",
            file.display()
        )));
    }
    Ok(())
}

/// Returns the advice after the volume got its configuration file.
pub(crate) fn next_step(served_as: ServedAs, name: &VolumeName) -> String {
    match served_as {
        ServedAs::Files => format!("mount it with: forebay mount {name} DIR"),
        ServedAs::BlockDevice => format!("attach it with: forebay attach {name}"),
    }
}
