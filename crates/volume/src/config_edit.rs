//! Changes of a configuration file that keep the comments, the order and the options of the administrator.

use toml_edit::{DocumentMut, Value};

use crate::spec::DeviceSpec;

/// Returns the content of a configuration file with another log in its uppermost layer.
///
/// # Errors
/// If the content is not TOML, or has no `log`.
pub fn with_log(content: &str, log: &DeviceSpec) -> Result<String, String> {
    let mut file: DocumentMut = content
        .parse()
        .map_err(|error: toml_edit::TomlError| error.message().to_owned())?;
    let value = file.get_mut("log").and_then(|item| item.as_value_mut());
    let value = value.ok_or("the file has no key \"log\"")?;
    let surroundings = value.decor().clone();
    *value = Value::from(log.to_string());
    *value.decor_mut() = surroundings;
    Ok(file.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_log_keeps_comments_order_and_options() {
        let before = "# mine\nname = \"a\"\nlog =  \"/dev/old\" # fast\nack = \"device\"\n\n[data]\nkind = \"vsl\"\n\
                      data = \"/dev/b\" # slow\n";
        let after = with_log(before, &DeviceSpec::whole("/dev/disk/by-id/new")).unwrap();
        let expected = before.replace("/dev/old", "/dev/disk/by-id/new");
        assert_eq!(after, expected);
    }

    #[test]
    fn a_file_without_a_log_or_with_a_mistake_is_refused() {
        let log = DeviceSpec::whole("/dev/new");
        assert!(with_log("data = \"/dev/b\"\n", &log).is_err());
        assert!(with_log("log = \n", &log).is_err());
        assert!(with_log("[log]\nx = 1\n", &log).is_err());
    }
}
