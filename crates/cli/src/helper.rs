//! What `mount` and `umount` of the system call: `/sbin/mount.forebay SOURCE DIR [-snv] [-N NAMESPACE] [-o OPTIONS]` and
//! `/sbin/umount.forebay DIR [-flnrv] [-N NAMESPACE] [-t TYPE]`, as mount(8) has it. The program under such a name takes
//! these arguments, and does what its own commands do.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The arguments of the program's own command that is meant, if it was called by such a name.
pub(crate) fn own_arguments(called: &[OsString]) -> Option<Vec<OsString>> {
    let (program, arguments) = called.split_first()?;
    let program = Path::new(program).file_name()?.to_str()?;
    match program {
        "mount.forebay" | "mount.fuse.forebay" => mount(arguments),
        "umount.forebay" | "umount.fuse.forebay" => umount(arguments),
        _ => None,
    }
}

/// What stands alone, and what stands behind `-o`.
struct Words {
    alone: Vec<OsString>,
    options: Vec<OsString>,
}

fn words(arguments: &[OsString]) -> Words {
    let mut words = Words {
        alone: Vec::new(),
        options: Vec::new(),
    };
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.to_str() {
            Some("-o") => words.options.extend(rest.next().cloned()),
            // The namespace and the type are known.
            Some("-N" | "-t") => {
                rest.next();
            }
            // Of no mount table, of other words than there are, of more to be said.
            Some(flags) if flags.starts_with('-') && flags.len() > 1 => {}
            _ => words.alone.push(word.clone()),
        }
    }
    words
}

fn mount(arguments: &[OsString]) -> Option<Vec<OsString>> {
    let words = words(arguments);
    let mut own: Vec<OsString> = vec!["mount".into()];
    for options in words.options {
        own.extend(["-o".into(), options]);
    }
    own.push("--".into());
    own.extend(words.alone);
    Some(own)
}

fn umount(arguments: &[OsString]) -> Option<Vec<OsString>> {
    let mut own: Vec<OsString> = vec!["umount".into(), "--".into()];
    let is_flag = |word: &OsStr| word.to_str().is_some_and(|word| word.starts_with('-'));
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.to_str() {
            Some("-N" | "-t") => {
                rest.next();
            }
            _ if is_flag(word) => {}
            _ => own.push(word.clone()),
        }
    }
    Some(own)
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
    fn what_mount_calls_becomes_the_programs_own_command() {
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
        let expected = ["mount", "-o", "rw,noexec", "--", "thin", "/mnt"];
        assert_eq!(own(&called).unwrap(), expected);
        let called = ["umount.fuse.forebay", "/mnt", "-n", "-t", "fuse.forebay"];
        assert_eq!(own(&called).unwrap(), ["umount", "--", "/mnt"]);
    }

    #[test]
    fn under_its_own_name_its_arguments_stay_as_they_are() {
        assert_eq!(own(&["/usr/bin/forebay", "mount", "a"]), None);
        assert_eq!(own(&[]), None);
    }
}
