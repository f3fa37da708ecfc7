//! `forebay udev`: whose block device it is, as udev imports it. Not for users.

use std::path::Path;

use crate::link;
use forebay_program::dirs::Dirs;
use forebay_program::failure::Outcome;
use forebay_program::result_line;

/// Prints nothing where the device is nobody's: udev asks for every device of that kind.
pub(crate) fn run(device: &Path) -> Outcome {
    if let Some(name) = link::name_of(&Dirs::new()?, device) {
        result_line!("FOREBAY_NAME={name}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_rule_asks_for_what_is_printed_here() {
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
