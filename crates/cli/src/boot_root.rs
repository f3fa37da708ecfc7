//! The private root of a daemon that the initramfs starts.
//!
//! The initramfs moves `/dev`, `/proc`, `/sys` and `/run` to the real root, and deletes its own files. A daemon that
//! stayed there would lose all paths, and one in the real root would keep itself from being unmounted, and read its
//! program through itself. So a daemon gets a namespace of mounts with a small root in memory that cannot be swapped
//! out (`ramfs`): the program, its libraries, its configuration file and failed-log records. The kernel's filesystems
//! and `/run` are the same as everywhere.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use forebay_volume::VolumeName;
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_bind_recursive, mount_change,
    mount_move,
};

use crate::dirs::ProgramDirs;

/// Path of the program in the private root.
pub(crate) const PROGRAM: &str = "/usr/bin/forebay";

/// Directories that the private root shares with the system, with the mounts below them.
const KERNELS: [&str; 3] = ["/dev", "/proc", "/sys"];
/// Files that the loader needs to find libraries in unusual places.
const LOADERS: [&str; 1] = ["/etc/ld.so.cache"];
/// Maximum number of links on the way to a file, as in the kernel.
const LINKS_MAX: usize = 40;

/// Moves this process, which must be single-threaded, into a private root for the daemon of `name`.
pub(crate) fn enter(dirs: &ProgramDirs, name: &VolumeName) -> io::Result<()> {
    leave_groups();
    let program = std::env::current_exe()?;
    let libraries = libraries(&program)?;
    let state = dirs.state().ok().map(Path::to_owned);
    let runtime = dirs.make_runtime();
    let base = runtime.map_err(|failure| io::Error::other(failure.text))?;
    forebay_linux::own_mounts()?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private)?;
    mount(
        "ramfs",
        base,
        "ramfs",
        MountFlags::NOSUID,
        Some(c"mode=0700"),
    )?;
    let files = libraries.iter().map(PathBuf::as_path);
    for file in files.chain(LOADERS.iter().map(Path::new)) {
        if file.exists() {
            copy(file, base, 0)?;
        }
    }
    put(&program, &base.join("usr/bin/forebay"))?;
    let config = dirs.description_file(name);
    let file_name = config.file_name().unwrap_or_default();
    put(&config, &base.join("etc/forebay").join(file_name))?;
    for record in state.iter().flat_map(fs::read_dir).flatten().flatten() {
        put(
            &record.path(),
            &base.join("var/lib/forebay").join(record.file_name()),
        )?;
    }
    for dir in KERNELS {
        let place = below(base, Path::new(dir));
        fs::create_dir_all(&place)?;
        mount_bind_recursive(dir, &place)?;
    }
    // Without the mounts below it: the private root itself is mounted there.
    let run = base.join("run");
    fs::create_dir_all(&run)?;
    mount_bind("/run", &run)?;
    std::env::set_current_dir(base)?;
    mount_move(".", "/")?;
    rustix::process::chroot(".")?;
    std::env::set_current_dir("/")
}

/// Leaves the terminal, and the control group of the unit of the initramfs that started this process. Keeps the kernel
/// from killing this process for the memory of others.
fn leave_groups() {
    let _ = rustix::process::setsid();
    let _ = fs::write("/proc/self/oom_score_adj", "-1000");
    // Without systemd in the initramfs, these do not exist.
    for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/systemd"] {
        let _ = fs::write(Path::new(root).join("cgroup.procs"), "0");
    }
}

/// Returns the paths of the libraries of a program and of its loader. A static program has none.
fn libraries(program: &Path) -> io::Result<Vec<PathBuf>> {
    // The loader then prints the libraries instead of starting the program (ld.so(8)).
    let listed = Command::new(program)
        .env("LD_TRACE_LOADED_OBJECTS", "1")
        .arg("--version")
        .output()?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let paths = text
        .lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    Ok(paths.map(PathBuf::from).collect())
}

/// Copies a file to the same path below `base`, with the links on the way.
fn copy(file: &Path, base: &Path, links: usize) -> io::Result<()> {
    if links > LINKS_MAX {
        return Err(io::Error::other(format!(
            "{}: too many links",
            file.display()
        )));
    }
    let mut at = PathBuf::from("/");
    let mut rest = file.components();
    while let Some(part) = rest.next() {
        match part {
            Component::ParentDir => {
                at.pop();
            }
            Component::Normal(part) => at.push(part),
            _ => {}
        }
        let kind = fs::symlink_metadata(&at)?.file_type();
        let place = below(base, &at);
        if kind.is_symlink() {
            let target = fs::read_link(&at)?;
            if fs::symlink_metadata(&place).is_err() {
                symlink(&target, &place)?;
            }
            at.pop();
            return copy(&at.join(target).join(rest.as_path()), base, links + 1);
        } else if kind.is_dir() {
            fs::create_dir_all(&place)?;
        } else {
            fs::copy(&at, &place)?;
        }
    }
    Ok(())
}

/// Copies the content of `from`, through links, to the file `to`.
fn put(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(dir) = to.parent() {
        fs::create_dir_all(dir)?;
    }
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", from.display()));
    fs::copy(from, to).map(drop).map_err(named)
}

fn below(base: &Path, path: &Path) -> PathBuf {
    base.join(path.strip_prefix("/").unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn a_file_is_copied_with_the_links_on_its_way() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = from.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("usr/lib/x")).unwrap();
        fs::write(root.join("usr/lib/x/real.so"), "code").unwrap();
        symlink("real.so", root.join("usr/lib/x/name.so")).unwrap();
        symlink("usr/lib", root.join("lib")).unwrap();
        symlink("../lib/x/name.so", root.join("usr/loader.so")).unwrap();
        for file in ["lib/x/name.so", "usr/loader.so"] {
            copy(&root.join(file), to.path(), 0).unwrap();
            let there = below(to.path(), &root.join(file));
            assert_eq!(fs::read_to_string(&there).unwrap(), "code");
            assert!(fs::symlink_metadata(there).unwrap().is_symlink() || file.starts_with("lib"));
        }
        symlink("loop.so", root.join("loop.so")).unwrap();
        assert!(copy(&root.join("loop.so"), to.path(), 0).is_err());
    }

    #[test]
    fn the_libraries_of_a_program_include_its_loader() {
        let program = std::env::current_exe().unwrap();
        let found = libraries(&program).unwrap();
        // Unless the tests are static programs.
        if !found.is_empty() {
            let is_loader = |path: &PathBuf| {
                let name = path.file_name().and_then(OsStr::to_str);
                name.is_some_and(|name| name.starts_with("ld-"))
            };
            assert!(found.iter().any(is_loader), "{found:?}");
            assert!(found.iter().all(|path| path.exists()), "{found:?}");
        }
    }
}
