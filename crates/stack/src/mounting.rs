//! Where a filesystem is mounted and how: what `mount` and `fstab` say.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use forebay_dfs::AccessTimes;

/// The directory where a filesystem is mounted: an absolute path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountDir(pub PathBuf);

/// Why a text is not where, or how, a filesystem can be mounted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MountOptionError {
    /// The path depends on where the program is started.
    #[error("\"{0}\" is not an absolute path; write it from the root")]
    Relative(String),
    /// There is no such option.
    #[error(
        "\"{0}\" is no option of a mount; there are: ro, rw, nosuid, suid, nodev, dev, noexec, exec, noatime, \
         relatime, strictatime, nodiratime, diratime, sync, dirsync, parallel_direct, allow_other, private, and what fstab says of other things (defaults, auto, \
         noauto, user, nofail, _netdev, x-…)"
    )]
    Unknown(String),
}

impl FromStr for MountDir {
    type Err = MountOptionError;

    fn from_str(text: &str) -> Result<MountDir, MountOptionError> {
        match Path::new(text).is_absolute() {
            true => Ok(MountDir(text.into())),
            false => Err(MountOptionError::Relative(text.into())),
        }
    }
}

impl fmt::Display for MountDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

/// How a filesystem is mounted: the words behind `-o`, of which a later one wins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MountOptions {
    /// Nothing can be changed through the mount.
    pub read_only: bool,
    /// Programs do not run as their owners.
    pub no_suid: bool,
    /// Devices cannot be opened.
    pub no_dev: bool,
    /// Nothing can be run.
    pub no_exec: bool,
    /// Which reads are noted. None on a mount through which nothing can be changed.
    pub access_times: AccessTimes,
    /// None of directories are.
    pub no_dir_atime: bool,
    /// All is durable when it is done.
    pub sync: bool,
    /// Changes of directories are durable when they are done.
    pub dir_sync: bool,
    /// Direct writes of one file go in parallel; a file that is open with `O_DIRECT` cannot be mapped shared then.
    pub parallel_direct: bool,
    /// Whether others than who mounts it may use it; if nothing is said, they may if that is root.
    pub for_all: Option<bool>,
}

/// Words of fstab that say something to others than who mounts, or what is so anyway.
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
    /// Which reads are noted: of directories behind those of all other files.
    pub fn noted(&self) -> (AccessTimes, AccessTimes) {
        match (self.read_only, self.no_dir_atime) {
            (true, _) => (AccessTimes::Never, AccessTimes::Never),
            (false, true) => (self.access_times, AccessTimes::Never),
            (false, false) => (self.access_times, self.access_times),
        }
    }

    /// What is said of each, as a word.
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
    fn options_print_as_they_read_and_what_fstab_says_to_others_is_passed_over() {
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
    fn options_that_are_none_are_refused_with_those_there_are() {
        let error = "ro,fast".parse::<MountOptions>().unwrap_err().to_string();
        assert!(
            error.contains("\"fast\"") && error.contains("noexec"),
            "{error}"
        );
        assert!("mnt".parse::<MountDir>().is_err());
        assert_eq!("/mnt".parse::<MountDir>().unwrap().to_string(), "/mnt");
    }
}
