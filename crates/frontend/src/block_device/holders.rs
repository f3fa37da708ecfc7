//! The users of a block device: programs, mounts and other devices.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, fs};

use forebay_linux::{loop_devices_over, system_mounts};

/// Number of looks while detaching waits for processes that only probe the device (udev opens a device whenever the
/// device changes).
pub const LOOKS: usize = 20;
/// Pause between these looks.
pub const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A user of a block device or of one of its partitions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceHolder {
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

impl fmt::Display for DeviceHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceHolder::Mounted(at) => write!(f, "mounted on {}", at.display()),
            DeviceHolder::Swap => write!(f, "in use as swap"),
            DeviceHolder::Device(name) => write!(f, "part of /dev/{name}"),
            DeviceHolder::Loop(path) => write!(
                f,
                "beneath the loop device {path} (`losetup -d {path}` removes it)"
            ),
            DeviceHolder::Process { pid, name } => write!(f, "open in {name} (process {pid})"),
        }
    }
}

/// The known users of a device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeviceHolders(pub Vec<DeviceHolder>);

impl fmt::Display for DeviceHolders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("by a user that is not visible from here");
        }
        for (i, holder) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{holder}")?;
        }
        Ok(())
    }
}

impl DeviceHolders {
    /// Returns true if a user is not a process: only processes can be expected to close the device soon.
    pub fn are_lasting(&self) -> bool {
        let lasting = |holder: &DeviceHolder| !matches!(holder, DeviceHolder::Process { .. });
        self.0.iter().any(lasting)
    }
}

/// Finds the users of `/dev/NAME` and its partitions, as far as this process namespace shows them.
pub fn holders(name: &str) -> DeviceHolders {
    let nodes = nodes(name);
    let mut found = Vec::new();
    let is_node = |path: &Path| {
        nodes
            .iter()
            .any(|node| path == Path::new("/dev").join(&node.name))
    };
    for mount in system_mounts().unwrap_or_default() {
        // Some filesystems have their own device number; the source identifies these.
        let by_number = nodes.iter().any(|node| node.number == Some(mount.device));
        // The source can be a link.
        let by_link = || {
            let is_in_dev = mount.source.starts_with("/dev/");
            is_in_dev && fs::canonicalize(&mount.source).is_ok_and(|source| is_node(&source))
        };
        if by_number || is_node(&mount.source) || by_link() {
            found.push(DeviceHolder::Mounted(mount.point));
        }
    }
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    if swaps
        .lines()
        .filter_map(|line| line.split(' ').next())
        .any(|path| is_node(path.as_ref()))
    {
        found.push(DeviceHolder::Swap);
    }
    for node in &nodes {
        for holder in names_in(&node.sys.join("holders")) {
            found.push(DeviceHolder::Device(holder));
        }
        let above = loop_devices_over(Path::new("/dev").join(&node.name));
        found.extend(above.into_iter().map(DeviceHolder::Loop));
    }
    found.extend(processes(is_node));
    DeviceHolders(found)
}

/// Like [`holders`], but if only processes have the device open, looks again for a while: they may only probe the
/// device.
pub fn lasting_holders(name: &str) -> DeviceHolders {
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
struct SysBlockNode {
    name: String,
    sys: PathBuf,
    number: Option<(u32, u32)>,
}

fn nodes(name: &str) -> Vec<SysBlockNode> {
    let node = |name: &str, sys: PathBuf| SysBlockNode {
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
fn processes(is_node: impl Fn(&Path) -> bool) -> Vec<DeviceHolder> {
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
            found.push(DeviceHolder::Process { pid, name });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_process_is_not_listed_as_a_holder_of_its_device() {
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

    fn pid(holder: &DeviceHolder) -> Option<u32> {
        match holder {
            DeviceHolder::Process { pid, .. } => Some(*pid),
            _ => None,
        }
    }

    fn is_ours(holder: &DeviceHolder) -> bool {
        pid(holder) == Some(std::process::id())
    }

    #[test]
    fn holders_are_listed_by_name_and_unknown_holders_are_reported() {
        let holders = DeviceHolders(vec![
            DeviceHolder::Mounted("/mnt".into()),
            DeviceHolder::Process {
                pid: 7,
                name: "fio".into(),
            },
            DeviceHolder::Loop("/dev/loop3".into()),
        ]);
        assert_eq!(
            holders.to_string(),
            "mounted on /mnt, open in fio (process 7), beneath the loop device /dev/loop3 (`losetup -d /dev/loop3` \
             removes it)"
        );
        assert!(holders.are_lasting());
        assert_eq!(
            DeviceHolders::default().to_string(),
            "by a user that is not visible from here"
        );
    }
}
