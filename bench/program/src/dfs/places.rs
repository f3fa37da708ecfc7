//! The compared places: the filesystem and others, each on an image of equal size, and the available filesystems in
//! user space.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::result_line;
use forebay_scratch::drive::ScratchVolume;
use forebay_scratch::place::ScratchDir;
use forebay_scratch::stop::UserStop;
use forebay_scratch::system::{ImageLoop, ScratchImage, ToolMount, tool};
use forebay_volume::FILESYSTEM;

use super::copying::FuseMemoryFile;

/// Names of the places in the report.
pub(super) const RAW: &str = "raw";
pub(super) const COPYING: &str = "copying FUSE file";
pub(super) const FOREBAY: &str = "forebay";
pub(super) const EXT4: &str = "ext4";
/// A filesystem that few kernels have.
pub(super) const F2FS: &str = "f2fs";
pub(super) const BINDFS: &str = "bindfs on ext4";
pub(super) const FUSE2FS: &str = "fuse2fs";

/// A place to measure.
pub(super) struct BenchPlace {
    pub(super) name: &'static str,
    /// Directory for files, if the place supports files.
    pub(super) dir: Option<PathBuf>,
    /// File or device of the small random requests.
    pub(super) file: Option<PathBuf>,
    kept: PlaceGuard,
}

impl BenchPlace {
    /// Returns the bytes ever written to the device below the files of the place, since the device was created. For a
    /// filesystem of Forebay, since the start of its daemon. Fails for other places.
    ///
    /// # Errors
    /// If the system or the daemon does not return the number.
    pub(super) fn written(&self) -> io::Result<u64> {
        match &self.kept {
            PlaceGuard::Loop(device) | PlaceGuard::Mount(_, device) => device.written(),
            PlaceGuard::Files(UnmountOnDrop(volume, _)) => volume.written(),
            PlaceGuard::Copying(_) | PlaceGuard::Process(_) => {
                Err(io::ErrorKind::Unsupported.into())
            }
        }
    }
}

/// Resources that are released when a place is no longer needed, in this order.
#[expect(dead_code, reason = "kept to be dropped")]
enum PlaceGuard {
    Copying(FuseMemoryFile),
    Loop(ImageLoop),
    Mount(ToolMount, ImageLoop),
    Files(UnmountOnDrop),
    /// A filesystem in user space, on top of another place.
    Process(ToolMount),
}

/// Unmounts the filesystem when dropped.
struct UnmountOnDrop(ScratchVolume, PathBuf);

impl Drop for UnmountOnDrop {
    fn drop(&mut self) {
        if let Err(failure) = self.0.umount(&self.1) {
            eprintln!("forebay-bench: {failure}");
        }
    }
}

/// All places. The last place is released first, since it may lie on another.
pub(super) struct BenchPlaces(pub(super) Vec<BenchPlace>);

impl Drop for BenchPlaces {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

/// Creates all places that this machine supports. `program` is the program `forebay`.
pub(super) fn all(
    program: &Path,
    scratch: &ScratchDir,
    bytes: u64,
    memory: u64,
    stop: &UserStop,
) -> CommandResult<BenchPlaces> {
    let image = |name: &str| -> CommandResult<ScratchImage> {
        let path = scratch.image(&format!("{name}.img"), bytes, stop)?;
        Ok(ScratchImage { path, part: None })
    };
    let at = |name: &str| scratch.subdir(&format!("at-{name}"));
    let mut made = BenchPlaces(Vec::new());
    let places = &mut made.0;
    let raw = ImageLoop::over(&image("raw")?)?;
    places.push(BenchPlace {
        name: RAW,
        dir: None,
        file: Some(raw.device().into()),
        kept: PlaceGuard::Loop(raw),
    });
    let copying = FuseMemoryFile::mount(&at("memory")?, memory).map_err(CommandFailure::io)?;
    places.push(BenchPlace {
        name: COPYING,
        dir: None,
        file: Some(copying.file()),
        kept: PlaceGuard::Copying(copying),
    });
    places.push(forebay(program, scratch, &image(FOREBAY)?, &at(FOREBAY)?)?);
    for (name, make) in [
        (
            EXT4,
            &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"][..],
        ),
        ("xfs", &["-q", "-f"]),
        ("btrfs", &["-q", "-f"]),
        (F2FS, &["-q", "-f"]),
    ] {
        let program = format!("mkfs.{name}");
        if name != EXT4 && !can_be_had(name) {
            result_line!("{name}: no {program}, or not in this kernel; omitted");
            continue;
        }
        let (image, at) = (image(name)?, at(name)?);
        let device = ImageLoop::over(&image)?;
        tool(&program, &[make, &[device.device()]].concat())?;
        let mount = ToolMount::of(name, device.device(), at.clone(), "defaults")?;
        places.push(BenchPlace {
            name,
            file: Some(at.join("blocks")),
            dir: Some(at),
            kept: PlaceGuard::Mount(mount, device),
        });
    }
    let others = others(scratch, &image, places)?;
    places.extend(others);
    Ok(made)
}

fn forebay(
    program: &Path,
    scratch: &ScratchDir,
    image: &ScratchImage,
    at: &Path,
) -> CommandResult<BenchPlace> {
    let kind = FILESYSTEM.to_string();
    let spec = image.path.display().to_string();
    let more = ["--volume", &kind, "--force"];
    let volume = ScratchVolume::create(program, scratch, "files", &spec, &more)?;
    volume.mount(at)?;
    let mounted = UnmountOnDrop(volume, at.to_owned());
    Ok(BenchPlace {
        name: FOREBAY,
        file: Some(at.join("blocks")),
        dir: Some(at.to_owned()),
        kept: PlaceGuard::Files(mounted),
    })
}

/// Creates the places of other filesystems in user space, for names only.
fn others(
    scratch: &ScratchDir,
    image: &dyn Fn(&str) -> CommandResult<ScratchImage>,
    places: &[BenchPlace],
) -> CommandResult<Vec<BenchPlace>> {
    let mut others = Vec::new();
    let of = |name: &'static str, at: PathBuf| BenchPlace {
        name,
        dir: Some(at.clone()),
        file: None,
        kept: PlaceGuard::Process(ToolMount::taken(at)),
    };
    let ext4 = places.iter().find(|place| place.name == EXT4);
    let below = ext4.and_then(|place| place.dir.clone());
    if let (true, Some(below)) = (is_there("bindfs"), below) {
        let (below, at) = (below.join("bound"), scratch.subdir("at-bindfs")?);
        std::fs::create_dir(&below).map_err(CommandFailure::io)?;
        tool(
            "bindfs",
            &[&below.display().to_string(), &at.display().to_string()],
        )?;
        others.push(of(BINDFS, at));
    }
    if is_there("fuse2fs") {
        let (image, at) = (image("fuse2fs")?, scratch.subdir("at-fuse2fs")?);
        let path = image.path.display().to_string();
        tool("mkfs.ext4", &["-q", "-F", &path])?;
        let options = ["-o", "fakeroot,rw", &path, &at.display().to_string()];
        match tool("fuse2fs", &options) {
            Ok(_) => others.push(of(FUSE2FS, at)),
            Err(failure) => result_line!("fuse2fs: {failure}; omitted"),
        }
    }
    Ok(others)
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("-V").output().is_ok()
}

/// Returns true if the kernel has a filesystem or can load it.
fn is_known(name: &str) -> bool {
    let _ = Command::new("modprobe").arg(name).output();
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    known.split_whitespace().any(|one| one == name)
}

/// Returns true if a kernel filesystem can be made and mounted on this machine.
fn can_be_had(name: &str) -> bool {
    is_there(&format!("mkfs.{name}")) && is_known(name)
}

/// Returns the bytes for the images of all places.
pub(super) fn need(bytes: u64) -> u64 {
    (6 + u64::from(can_be_had(F2FS))) * bytes
}
