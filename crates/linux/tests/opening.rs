//! Errors of opening a device, and the identity of devices.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use common::{dir, file, root_or_skip, run};
use forebay_linux::{
    DeviceKind, DeviceOpenError, DeviceOpenOptions, FileCreateError, create_file, identity, node_id,
};

const WRITING: DeviceOpenOptions = DeviceOpenOptions {
    read_only: false,
    small_blocks: false,
    outlast_readers: false,
};
const READING: DeviceOpenOptions = DeviceOpenOptions {
    read_only: true,
    small_blocks: false,
    outlast_readers: false,
};

/// Held while a process is started, and while the users of a file matter. Until it calls `exec`, a new process holds
/// all open files and locks of this process.
static STARTING: Mutex<()> = Mutex::new(());

fn starting() -> MutexGuard<'static, ()> {
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the error of opening `path`, which must name the path.
fn refused(path: impl AsRef<Path>, options: DeviceOpenOptions) -> DeviceOpenError {
    let path = path.as_ref().to_owned();
    let named = path.display().to_string();
    let error = run(|_, ring| async move { forebay_linux::open(&ring, path, options).err() });
    let error = error.expect("an error");
    assert!(error.to_string().contains(&named), "{error}");
    error
}

#[test]
fn a_missing_path_is_reported_as_missing() {
    let path = dir().path().join("none");
    assert!(matches!(
        refused(&path, WRITING),
        DeviceOpenError::Missing { .. }
    ));
    let below_file = Path::new(file!()).canonicalize();
    let below_file = below_file.unwrap_or("/etc/passwd".into()).join("x");
    assert!(matches!(
        refused(below_file, READING),
        DeviceOpenError::Missing { .. }
    ));
}

#[test]
fn a_path_that_is_not_storage_is_refused_with_its_file_type() {
    let dir = dir();
    let pipe = dir.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    for (path, name) in [
        (dir.path(), "a directory"),
        (Path::new("/dev/null"), "a character device"),
        (&pipe, "a pipe"),
    ] {
        let error = refused(path, WRITING);
        assert!(
            matches!(error, DeviceOpenError::NotStorage { what, .. } if what == name),
            "{error}"
        );
    }
}

#[test]
fn an_unsupported_size_is_refused_with_the_command_that_corrects_it() {
    let dir = dir();
    let path = file(&dir, "empty", 0);
    assert!(matches!(
        refused(&path, READING),
        DeviceOpenError::Empty { .. }
    ));
    let path = file(&dir, "odd", 1000);
    let error = refused(&path, WRITING);
    assert!(matches!(
        error,
        DeviceOpenError::NotWholeBlocks {
            len: 1000,
            block_size: 512,
            ..
        }
    ));
    assert!(error.to_string().contains("truncate -s 1024"), "{error}");
}

#[test]
fn a_writer_excludes_all_others_and_readers_share() {
    let _nobody_starts = starting();
    let dir = dir();
    let path = file(&dir, "a", 4096);
    run(|_, ring| async move {
        let open = |options| forebay_linux::open(&ring, &path, options);
        let writer = open(WRITING).unwrap();
        for options in [WRITING, READING] {
            let error = open(options).err().unwrap();
            assert!(matches!(error, DeviceOpenError::Locked { .. }));
            let us = format!("process {}", std::process::id());
            assert!(error.to_string().contains(&us), "{error}");
        }
        drop(writer);
        let readers = (open(READING).unwrap(), open(READING).unwrap());
        assert!(matches!(
            open(WRITING).err(),
            Some(DeviceOpenError::Locked { .. })
        ));
        drop(readers);
        open(WRITING).unwrap();
    });
}

#[test]
fn a_writer_outlasts_readers_that_close_at_any_moment() {
    let _nobody_starts = starting();
    let dir = dir();
    let path = file(&dir, "a", 4096);
    // Opens and closes the file until it must end.
    let ends = Arc::new(AtomicBool::new(false));
    let reader = std::thread::spawn({
        let (path, ends) = (path.clone(), ends.clone());
        move || {
            run(|_, ring| async move {
                while !ends.load(Ordering::Relaxed) {
                    // Refused while the writer has it open.
                    let _ = forebay_linux::open(&ring, &path, READING);
                }
            });
        }
    });
    run(|_, ring| async move {
        for _ in 0..300 {
            forebay_linux::open(&ring, &path, WRITING.outlasting_readers()).unwrap();
        }
    });
    ends.store(true, Ordering::Relaxed);
    reader.join().unwrap();
}

#[test]
fn a_file_that_must_not_be_written_is_refused_with_the_reason() {
    let dir = dir();
    let path = file(&dir, "a", 4096);
    if !rustix::process::geteuid().is_root() {
        let mut permissions = fs::metadata(&path).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&path, permissions).unwrap();
        assert!(matches!(
            refused(&path, WRITING),
            DeviceOpenError::Denied { .. }
        ));
        return;
    }
    // Permissions do not restrict the superuser; the immutable flag does.
    let chattr = |flag: &str| {
        let _turn = starting();
        Command::new("chattr")
            .arg(flag)
            .arg(&path)
            .status()
            .unwrap()
    };
    if !chattr("+i").success() {
        eprintln!("SKIPPED: this filesystem has no immutable files");
        return;
    }
    let error = refused(&path, WRITING);
    chattr("-i");
    assert!(matches!(error, DeviceOpenError::Denied { .. }), "{error}");
    assert!(error.to_string().contains("immutable"), "{error}");
}

/// A mount that ends with the test.
struct MountGuard(std::path::PathBuf);

impl Drop for MountGuard {
    fn drop(&mut self) {
        // Lazily: a process that reads /proc may hold files briefly.
        let _turn = starting();
        let status = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(
            status.is_ok_and(|s| s.success()),
            "{} stays mounted",
            self.0.display()
        );
    }
}

fn mount(at: &Path, arguments: &[&str]) -> Option<MountGuard> {
    fs::create_dir_all(at).unwrap();
    let _turn = starting();
    let status = Command::new("mount").args(arguments).arg(at).status();
    status
        .is_ok_and(|s| s.success())
        .then(|| MountGuard(at.to_owned()))
}

#[test]
fn the_error_names_a_read_only_filesystem_as_the_reason() {
    if !root_or_skip("a read-only filesystem") {
        return;
    }
    let dir = dir();
    file(&dir, "a", 4096);
    let at = dir.path().join("view");
    let source = dir.path().to_str().unwrap();
    let Some(_mounted) = mount(&at, &["--bind", "-o", "ro", source]) else {
        eprintln!("SKIPPED (may not mount): a read-only filesystem");
        return;
    };
    let error = refused(at.join("a"), WRITING);
    assert!(
        matches!(
            error,
            DeviceOpenError::ReadOnly {
                what: "its filesystem",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_filesystem_without_direct_io_is_used_through_the_page_cache() {
    if !root_or_skip("a filesystem without direct I/O") {
        return;
    }
    let dir = dir();
    let at = dir.path().join("ramfs");
    let Some(_mounted) = mount(&at, &["-t", "ramfs", "none"]) else {
        eprintln!("SKIPPED (may not mount): a filesystem without direct I/O");
        return;
    };
    let path = at.join("a");
    create_file(&path, 1 << 20, true).unwrap();
    run(|_, ring| async move {
        let device = common::open(&ring, path);
        let data = common::filled(4096, 3);
        device
            .write(512, data, forebay_device::Durability::Fua)
            .await
            .unwrap();
        device
            .write_zeroes(0..1 << 20, forebay_device::ZeroedSpace::Release)
            .await
            .unwrap();
        device.discard(0..1 << 20).await.unwrap();
        device.flush().await.unwrap();
        assert_eq!(common::read(&*device, 512, 4096).await, vec![0; 4096]);
    });
}

#[test]
fn a_file_is_created_completely_and_never_over_an_existing_file() {
    use std::os::unix::fs::MetadataExt;
    let dir = dir();
    let full = file(&dir, "full", 1 << 20);
    assert!(fs::metadata(&full).unwrap().blocks() * 512 >= 1 << 20);
    let sparse = dir.path().join("sparse");
    create_file(&sparse, 1 << 40, true).unwrap();
    assert_eq!(fs::metadata(&sparse).unwrap().blocks(), 0);
    let again = create_file(&full, 4096, false);
    assert!(matches!(again, Err(FileCreateError::Exists { .. })));
    let huge = dir.path().join("huge");
    let error = create_file(&huge, 1 << 43, false);
    assert!(
        matches!(error, Err(FileCreateError::NoSpace { .. })),
        "{error:?}"
    );
    assert!(!huge.exists());
}

#[test]
fn a_file_is_the_same_device_under_every_path_to_it() {
    let dir = dir();
    let path = file(&dir, "a", 8192);
    let (link, hard) = (dir.path().join("link"), dir.path().join("hard"));
    std::os::unix::fs::symlink(&path, &link).unwrap();
    fs::hard_link(&path, &hard).unwrap();
    let id = |path: &Path| node_id(path).unwrap();
    assert!(id(&path) == id(&link) && id(&path) == id(&hard));
    let other = file(&dir, "b", 8192);
    assert_ne!(id(&path), id(&other));
    let (a, b) = (identity(&path).unwrap(), identity(&link).unwrap());
    assert_eq!(a, b);
    assert_eq!((a.kind, a.len), (DeviceKind::File, 8192));
    assert_eq!(a.names, [path.canonicalize().unwrap().to_str().unwrap()]);
    assert!(identity("/dev/null").is_err());
}
