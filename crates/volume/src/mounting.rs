//! Mount point and mount options of a filesystem, as `mount` and `fstab` write them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use forebay_dfs::AccessTimes;

/// The directory where a filesystem is mounted: an absolute path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountDir(pub PathBuf);

/// Reason why a text is not a mount point or a mount option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MountOptionError {
    /// The path is relative, so it depends on the directory where the program is started.
    #[error("\"{0}\" is not an absolute path; write it from the root")]
    Relative(String),
    /// The option is unknown.
    #[error(
        "\"{0}\" is not a mount option; known options: ro, rw, nosuid, suid, nodev, dev, noexec, exec, noatime, \
         relatime, strictatime, nodiratime, diratime, sync, dirsync, parallel_direct, allow_other, private, and \
         options of fstab alone (defaults, auto, noauto, user, nofail, _netdev, x-…)"
    )]
    Unknown(String),
}

impl FromStr for MountDir {
    type Err = MountOptionError;

    fn from_str(text: &str) -> Result<MountDir, MountOptionError> {
        if Path::new(text).is_absolute() {
            Ok(MountDir(text.into()))
        } else {
            Err(MountOptionError::Relative(text.into()))
        }
    }
}

impl fmt::Display for MountDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

/// Mount options: the words behind `-o`. A later word overrides an earlier word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MountOptions {
    /// The mount is read-only.
    pub read_only: bool,
    /// Set-user-ID and set-group-ID bits are ignored.
    pub no_suid: bool,
    /// Device nodes cannot be opened.
    pub no_dev: bool,
    /// Programs cannot be executed.
    pub no_exec: bool,
    /// Policy for updating access times. A read-only mount never updates them.
    pub access_times: AccessTimes,
    /// Access times of directories are never updated.
    pub no_dir_atime: bool,
    /// Every change is durable when it returns.
    pub sync: bool,
    /// Changes of directories are durable when they return.
    pub dir_sync: bool,
    /// Direct writes of one file run in parallel. A file that is open with `O_DIRECT` then cannot be mapped shared.
    pub parallel_direct: bool,
    /// True if users other than the mounting user may use the mount; by default they may if the mounting user is root.
    pub for_all: Option<bool>,
}

/// Words in fstab that are meant for programs other than the mounter, or that name the default.
const OF_OTHERS: [&str; 17] = [
    "defaults",
    "auto",
    "noauto",
    "user",
    "users",
    "owner",
    "group",
    "nouser",
    "nofail",
    "_netdev",
    "async",
    "lazytime",
    "nolazytime",
    "default_permissions",
    "silent",
    "loud",
    "nomand",
];

impl FromStr for MountOptions {
    type Err = MountOptionError;

    fn from_str(text: &str) -> Result<MountOptions, MountOptionError> {
        let mut options = MountOptions::default();
        for word in text.split(',').filter(|word| !word.is_empty()) {
            match word {
                "ro" => options.read_only = true,
                "rw" => options.read_only = false,
                "nosuid" => options.no_suid = true,
                "suid" => options.no_suid = false,
                "nodev" => options.no_dev = true,
                "dev" => options.no_dev = false,
                "noexec" => options.no_exec = true,
                "exec" => options.no_exec = false,
                "noatime" => options.access_times = AccessTimes::Never,
                "relatime" | "atime" | "nostrictatime" => {
                    options.access_times = AccessTimes::Relative;
                }
                "strictatime" | "norelatime" => options.access_times = AccessTimes::Always,
                "nodiratime" => options.no_dir_atime = true,
                "diratime" => options.no_dir_atime = false,
                "sync" => options.sync = true,
                "dirsync" => options.dir_sync = true,
                "parallel_direct" => options.parallel_direct = true,
                "allow_other" => options.for_all = Some(true),
                "private" => options.for_all = Some(false),
                _ if OF_OTHERS.contains(&word) => {}
                _ if word.starts_with("x-") || word.starts_with("X-") => {}
                _ if word.starts_with("comment=") => {}
                _ => return Err(MountOptionError::Unknown(word.into())),
            }
        }
        Ok(options)
    }
}

impl MountOptions {
    /// Returns the policies for updating access times: of all other files first, then of directories.
    pub fn noted(&self) -> (AccessTimes, AccessTimes) {
        match (self.read_only, self.no_dir_atime) {
            (true, _) => (AccessTimes::Never, AccessTimes::Never),
            (false, true) => (self.access_times, AccessTimes::Never),
            (false, false) => (self.access_times, self.access_times),
        }
    }

    /// Returns the word of each option that is set.
    fn words(&self) -> Vec<&'static str> {
        let said = [
            (self.read_only, "ro"),
            (self.no_suid, "nosuid"),
            (self.no_dev, "nodev"),
            (self.no_exec, "noexec"),
            (self.access_times == AccessTimes::Never, "noatime"),
            (self.access_times == AccessTimes::Always, "strictatime"),
            (self.no_dir_atime, "nodiratime"),
            (self.sync, "sync"),
            (self.dir_sync, "dirsync"),
            (self.parallel_direct, "parallel_direct"),
            (self.for_all == Some(true), "allow_other"),
            (self.for_all == Some(false), "private"),
        ];
        let said = said.into_iter().filter(|(said, _)| *said);
        said.map(|(_, word)| word).collect()
    }
}

impl fmt::Display for MountOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.words() {
            words if words.is_empty() => f.write_str("rw"),
            words => f.write_str(&words.join(",")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_options_survive_print_and_parse_and_foreign_fstab_options_are_ignored() {
        for text in [
            "rw",
            "ro,nosuid,nodev,noexec,noatime,nodiratime,sync,dirsync,parallel_direct,allow_other",
            "strictatime",
            "private",
        ] {
            assert_eq!(text.parse::<MountOptions>().unwrap().to_string(), text);
        }
        let fstab = "defaults,_netdev,nofail,x-systemd.device-timeout=5,ro,rw";
        assert_eq!(fstab.parse(), Ok(MountOptions::default()));
        assert_eq!("".parse(), Ok(MountOptions::default()));
        let later = "noatime,nodiratime,strictatime,diratime,relatime,lazytime";
        assert_eq!(later.parse(), Ok(MountOptions::default()));
    }

    #[test]
    fn unknown_mount_options_are_refused_with_the_list_of_options() {
        let error = "ro,fast".parse::<MountOptions>().unwrap_err().to_string();
        assert!(
            error.contains("\"fast\"") && error.contains("noexec"),
            "{error}"
        );
        assert!("mnt".parse::<MountDir>().is_err());
        assert_eq!("/mnt".parse::<MountDir>().unwrap().to_string(), "/mnt");
    }
}
