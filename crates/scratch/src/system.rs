//! Loop devices and filesystems, by the tools of the system.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::drive::first_line;
use super::variant::FilesystemVariant;
use forebay_command_output::failure::{CommandFailure, CommandResult};

/// Attempts to unmount while another process still uses the filesystem.
const UNMOUNT_TRIES: u32 = 20;

/// Discards the free space of a mounted filesystem, if its device supports discards.
pub(crate) fn trim(at: &Path) {
    if let Err(error) = text(at).and_then(|at| tool("fstrim", &[at])) {
        tracing::debug!(%error, "not trimmed");
    }
}

/// Checks that this process can make loop devices and mount them. Returns the reason if not.
///
/// # Errors
/// The missing permission, device or program.
pub fn can_mount() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("not running as root".into());
    }
    for device in ["/dev/loop-control", "/dev/fuse"] {
        if !Path::new(device).exists() {
            return Err(format!("{device} does not exist"));
        }
    }
    for tool in ["losetup", "mkfs.ext4", "mount", "umount", "fsck.ext4"] {
        if Command::new(tool).arg("-V").output().is_err() {
            return Err(format!("{tool} is not installed"));
        }
    }
    Ok(())
}

/// Runs a program of the system. Returns the first line that it prints.
///
/// # Errors
/// If the program cannot be run, or fails.
pub fn tool(name: &str, args: &[&str]) -> CommandResult<String> {
    let output = Command::new(name)
        .args(args)
        .output()
        .map_err(|e| CommandFailure::general(format!("cannot run {name}: {e}")))?;
    first_line(&format!("{name} {}", args.join(" ")), &output)
}

fn text(path: &Path) -> CommandResult<&str> {
    path.to_str()
        .ok_or_else(|| CommandFailure::usage(format!("{} is not UTF-8", path.display())))
}

/// A file, or a range of a file, that holds a device's data.
#[derive(Clone, Debug)]
pub struct ScratchImage {
    /// Path of the file.
    pub path: PathBuf,
    /// Range in bytes; `None` for the whole file.
    pub part: Option<Range<u64>>,
}

impl ScratchImage {
    /// Returns the suffix of the path that selects the range.
    pub(crate) fn suffix(&self) -> String {
        match &self.part {
            Some(part) => format!("@{}+{}", part.start, part.end - part.start),
            None => String::new(),
        }
    }
}

/// A loop device directly over an image, with direct I/O.
pub struct ImageLoop(String);

impl ImageLoop {
    /// Makes a loop device over an image.
    ///
    /// # Errors
    /// If `losetup` fails.
    pub fn over(image: &ScratchImage) -> CommandResult<ImageLoop> {
        let (offset, limit) = match &image.part {
            Some(part) => (part.start, part.end - part.start),
            None => (0, 0),
        };
        let (offset, limit) = (format!("--offset={offset}"), format!("--sizelimit={limit}"));
        let mut args = vec!["--find", "--show", "--direct-io=on"];
        if image.part.is_some() {
            args.extend([&offset[..], &limit]);
        }
        args.push(text(&image.path)?);
        tool("losetup", &args).map(ImageLoop)
    }

    /// Returns the path of the device.
    pub fn device(&self) -> &str {
        &self.0
    }

    /// Returns the bytes written to the device.
    ///
    /// # Errors
    /// If the counters of the device cannot be read.
    pub fn written(&self) -> io::Result<u64> {
        let name = self.0.trim_start_matches("/dev/");
        let said = std::fs::read_to_string(format!("/sys/block/{name}/stat"))?;
        // In sectors of 512 bytes, whatever the block size of the device is.
        let sectors = said.split_whitespace().nth(6).and_then(|n| n.parse().ok());
        let sectors: u64 = sectors.ok_or(io::ErrorKind::InvalidData)?;
        Ok(sectors * 512)
    }
}

impl Drop for ImageLoop {
    fn drop(&mut self) {
        if let Err(failure) = tool("losetup", &["--detach", &self.0]) {
            eprintln!("forebay: {failure}");
        }
    }
}

/// Makes an ext4 filesystem of `len` bytes in an image. Lazy initialisation is off, since it
/// would continue in the background of the measurements.
pub(crate) fn make_filesystem(
    image: &ScratchImage,
    len: u64,
    variant: FilesystemVariant,
) -> CommandResult {
    let offset = image.part.as_ref().map_or(0, |part| part.start);
    let extended = format!("lazy_itable_init=0,lazy_journal_init=0,nodiscard,offset={offset}");
    let features = if variant.has_journal() {
        "has_journal"
    } else {
        "^has_journal"
    };
    let (path, size) = (text(&image.path)?, format!("{}k", len >> 10));
    let args = ["-q", "-F", "-O", features, "-E", &extended, path, &size];
    tool("mkfs.ext4", &args).map(drop)
}

/// Checks a filesystem. Returns the fault if the check fails.
///
/// # Errors
/// The findings of `fsck.ext4`.
pub fn check_filesystem(device: &str) -> CommandResult {
    tool("fsck.ext4", &["-f", "-n", device]).map(drop)
}

/// A mounted filesystem.
pub struct ToolMount(PathBuf);

impl ToolMount {
    /// Mounts an ext4 filesystem.
    ///
    /// # Errors
    /// If `mount` fails.
    pub fn new(device: &str, at: PathBuf, options: &str) -> CommandResult<ToolMount> {
        ToolMount::of("ext4", device, at, options)
    }

    /// Mounts a filesystem of any kind.
    ///
    /// # Errors
    /// If `mount` fails.
    pub fn of(kind: &str, device: &str, at: PathBuf, options: &str) -> CommandResult<ToolMount> {
        tool("mount", &["-t", kind, "-o", options, device, text(&at)?])?;
        Ok(ToolMount(at))
    }

    /// Returns a handle of a filesystem that another program mounted.
    pub fn taken(at: PathBuf) -> ToolMount {
        ToolMount(at)
    }

    /// Returns the mount directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Unmounts the filesystem.
    ///
    /// # Errors
    /// If `umount` still fails after several attempts.
    pub fn unmount(self) -> CommandResult {
        let unmounted = self.try_unmount();
        if unmounted.is_ok() {
            std::mem::forget(self);
        }
        unmounted
    }

    fn try_unmount(&self) -> CommandResult {
        let mut tries = 0;
        loop {
            match tool("umount", &[text(&self.0)?]) {
                Err(_) if tries < UNMOUNT_TRIES => {
                    tries += 1;
                    std::thread::sleep(Duration::from_millis(100));
                }
                result => return result.map(drop),
            }
        }
    }
}

impl Drop for ToolMount {
    fn drop(&mut self) {
        if let Err(failure) = self.try_unmount() {
            eprintln!("forebay: {failure}");
            let _ = tool("umount", &["--lazy", &self.0.display().to_string()]);
        }
    }
}
