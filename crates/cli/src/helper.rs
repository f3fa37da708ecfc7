//! The interface to mount(8), which calls `/sbin/mount.forebay SOURCE DIR [-sfnv] [-N NAMESPACE] [-o OPTIONS]`. Under
//! such a name, the program accepts these arguments and runs its own `mount` command. `umount` has no such interface:
//! for a filesystem in user space it always calls `umount.fuse`.

use std::ffi::OsString;
use std::path::Path;

/// Returns the arguments of the program's own command if it was called under such a name.
pub(crate) fn own_arguments(called: &[OsString]) -> Option<Vec<OsString>> {
    let (program, arguments) = called.split_first()?;
    let program = Path::new(program).file_name()?.to_str()?;
    let is_helper = ["mount.forebay", "mount.fuse.forebay"].contains(&program);
    is_helper.then(|| mount(arguments))
}

fn mount(arguments: &[OsString]) -> Vec<OsString> {
    let mut own: Vec<OsString> = vec!["mount".into()];
    let mut alone = Vec::new();
    let mut is_quiet = true;
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.to_str() {
            Some("-o") => {
                own.push("-o".into());
                own.extend(rest.next().cloned());
            }
            // The namespace and the type need no option of ours.
            Some("-N" | "-t") => {
                rest.next();
            }
            Some(flags) if flags.starts_with('-') && flags.len() > 1 => {
                // The remaining flags (`-s`, `-n`) have no effect here.
                is_quiet &= !flags.contains('v');
                if flags.contains('f') {
                    own.push("--fake".into());
                }
            }
            _ => alone.push(word.clone()),
        }
    }
    if is_quiet {
        own.push("--quiet".into());
    }
    own.push("--".into());
    own.extend(alone);
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(called: &[&str]) -> Option<Vec<String>> {
        let called: Vec<OsString> = called.iter().map(Into::into).collect();
        let own = own_arguments(&called)?.into_iter();
        own.map(|word| word.into_string().ok()).collect()
    }

    #[test]
    fn a_call_by_mount_becomes_the_mount_command_of_the_program() {
        let called = [
            "/sbin/mount.forebay",
            "thin",
            "/mnt",
            "-n",
            "-o",
            "rw,noexec",
            "-t",
            "x",
        ];
        let expected = ["mount", "-o", "rw,noexec", "--quiet", "--", "thin", "/mnt"];
        assert_eq!(own(&called).unwrap(), expected);
        let fake = ["mount.forebay", "thin", "/mnt", "-fv"];
        let expected = ["mount", "--fake", "--", "thin", "/mnt"];
        assert_eq!(own(&fake).unwrap(), expected);
    }

    #[test]
    fn arguments_are_unchanged_when_the_program_runs_under_its_own_name() {
        assert_eq!(own(&["/usr/bin/forebay", "mount", "a"]), None);
        assert_eq!(own(&[]), None);
    }
}
