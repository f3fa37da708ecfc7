//! The users of a block device: programs, mounts and other devices.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_os::{loop_devices_over, mounts};

/// Number of looks, and the pause between them, while detaching waits for processes that only probe the device (udev
/// opens a device whenever the device changes).
pub(super) const LOOKS: usize = 20;
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A user of a block device or of one of its partitions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Holder {
    /// A filesystem on the device is mounted at this directory.
    Mounted(PathBuf),
    /// The device is used as swap.
    Swap,
    /// Another block device (`dm-0`, `md1`) uses this device.
    Device(String),
    /// A loop device (`/dev/loop3`) is on top of the device. The kernel does not list a loop device among the holders,
    /// and no process has the lower device open for it.
    Loop(String),
    /// A process has the device open.
    Process {
        /// Process id.
        pid: u32,
        /// Name of the process.
        name: String,
    },
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Mounted(at) => write!(f, "mounted on {}", at.display()),
            Holder::Swap => write!(f, "in use as swap"),
            Holder::Device(name) => write!(f, "part of /dev/{name}"),
            Holder::Loop(path) => write!(
                f,
                "beneath the loop device {path} (`losetup -d {path}` takes that away)"
            ),
            Holder::Process { pid, name } => write!(f, "open in {name} (process {pid})"),
        }
    }
}

/// The known users of a device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Holders(pub Vec<Holder>);

impl fmt::Display for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("by something that cannot be seen from here");
        }
        for (i, holder) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{holder}")?;
        }
        Ok(())
    }
}

impl Holders {
    /// Returns true if a user is not a process: only processes can be expected to close the device soon.
    pub(crate) fn are_lasting(&self) -> bool {
        let lasting = |holder: &Holder| !matches!(holder, Holder::Process { .. });
        self.0.iter().any(lasting)
    }
}

/// Finds the users of `/dev/NAME` and its partitions, as far as this mount and process namespace shows them.
pub(crate) fn holders(name: &str) -> Holders {
    let nodes = nodes(name);
    let mut found = Vec::new();
    let is_node = |path: &Path| {
        nodes
            .iter()
            .any(|node| path == Path::new("/dev").join(&node.name))
    };
    for mount in mounts().unwrap_or_default() {
        // Some filesystems have their own device number; the source identifies these.
        let by_number = nodes.iter().any(|node| node.number == Some(mount.device));
        // The source can be a link.
        let by_link = || {
            let is_in_dev = mount.source.starts_with("/dev/");
            is_in_dev && fs::canonicalize(&mount.source).is_ok_and(|source| is_node(&source))
        };
        if by_number || is_node(&mount.source) || by_link() {
            found.push(Holder::Mounted(mount.point));
        }
    }
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    if swaps
        .lines()
        .filter_map(|line| line.split(' ').next())
        .any(|path| is_node(path.as_ref()))
    {
        found.push(Holder::Swap);
    }
    for node in &nodes {
        for holder in names_in(&node.sys.join("holders")) {
            found.push(Holder::Device(holder));
        }
        let above = loop_devices_over(Path::new("/dev").join(&node.name));
        found.extend(above.into_iter().map(Holder::Loop));
    }
    found.extend(processes(is_node));
    Holders(found)
}

/// Like [`holders`], but if only processes have the device open, looks again for a while: they may only probe the
/// device.
pub(crate) fn lasting_holders(name: &str) -> Holders {
    for _ in 0..LOOKS {
        let found = holders(name);
        if found.0.is_empty() || found.are_lasting() {
            return found;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    holders(name)
}

/// A block device or partition.
struct Node {
    name: String,
    sys: PathBuf,
    number: Option<(u32, u32)>,
}

fn nodes(name: &str) -> Vec<Node> {
    let node = |name: &str, sys: PathBuf| Node {
        name: name.to_owned(),
        number: fs::read_to_string(sys.join("dev")).ok().and_then(|text| {
            let (major, minor) = text.trim().split_once(':')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        }),
        sys,
    };
    let sys = Path::new("/sys/block").join(name);
    let mut nodes = vec![node(name, sys.clone())];
    for part in names_in(&sys)
        .into_iter()
        .filter(|part| part.starts_with(name))
    {
        nodes.push(node(&part, sys.join(&part)));
    }
    nodes
}

fn names_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// Returns the processes besides this one that have a matching path open. Only reads the links: following a link could
/// lead into the filesystem that is being unmounted.
fn processes(is_node: impl Fn(&Path) -> bool) -> Vec<Holder> {
    let mut found = Vec::new();
    for pid in names_in("/proc".as_ref())
        .iter()
        .filter_map(|name| name.parse::<u32>().ok())
        .filter(|pid| *pid != std::process::id())
    {
        let proc = PathBuf::from(format!("/proc/{pid}"));
        let links = names_in(&proc.join("fd"))
            .into_iter()
            .map(|fd| proc.join("fd").join(fd));
        let mut targets = links.filter_map(|link| fs::read_link(link).ok());
        if targets.any(|target| is_node(&target)) {
            let name = fs::read_to_string(proc.join("comm")).unwrap_or_default();
            let name = name.trim().to_owned();
            found.push(Holder::Process { pid, name });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_serves_a_device_is_not_among_those_who_keep_it_in_use() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let is_it = |path: &Path| path == file.path();
        assert!(!processes(is_it).iter().any(is_ours));
        let mut other = std::process::Command::new("sleep");
        let mut other = other
            .arg("60")
            .stdin(file.reopen().unwrap())
            .spawn()
            .unwrap();
        let found = processes(is_it);
        other.kill().unwrap();
        other.wait().unwrap();
        let pids: Vec<u32> = found.iter().filter_map(pid).collect();
        assert!(pids.contains(&other.id()), "{pids:?}");
    }

    fn pid(holder: &Holder) -> Option<u32> {
        match holder {
            Holder::Process { pid, .. } => Some(*pid),
            _ => None,
        }
    }

    fn is_ours(holder: &Holder) -> bool {
        pid(holder) == Some(std::process::id())
    }

    #[test]
    fn holders_are_named_one_by_one_and_nobody_is_admitted() {
        let holders = Holders(vec![
            Holder::Mounted("/mnt".into()),
            Holder::Process {
                pid: 7,
                name: "fio".into(),
            },
            Holder::Loop("/dev/loop3".into()),
        ]);
        assert_eq!(
            holders.to_string(),
            "mounted on /mnt, open in fio (process 7), beneath the loop device /dev/loop3 (`losetup -d \
             /dev/loop3` takes that away)"
        );
        assert!(holders.are_lasting());
        assert_eq!(
            Holders::default().to_string(),
            "by something that cannot be seen from here"
        );
    }
}
