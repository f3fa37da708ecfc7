//! `forebay udev`: prints the volume of a block device in the form that udev imports. Not for users.

use std::path::Path;

use crate::dirs::ProgramDirs;
use crate::link;
use forebay_command_output::failure::CommandResult;
use forebay_command_output::result_line;

/// Prints nothing for a device that belongs to no volume: udev asks for every device of these kinds.
pub(crate) fn run(device: &Path) -> CommandResult {
    if let Some(name) = link::name_of(&ProgramDirs::new()?, device) {
        result_line!("FOREBAY_NAME={name}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_udev_rule_uses_the_variable_that_the_udev_command_prints() {
        let rule = include_str!("../../../../packaging/udev/90-forebay.rules");
        for part in [
            "forebay udev $kernel",
            "/dev/forebay/$env{FOREBAY_NAME}",
            "*.fuse/volume",
        ] {
            assert!(rule.contains(part), "{part}");
        }
    }
}
