//! Filesystems: created, mounted, inspected, left by killed daemons, and removed.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::by_ring::FuseUringGuard;
use crate::system::{dead_mount_refuses, installed, root, try_unmount};
use crate::world::{CliSandbox, MIB, failed, output, skip, texts, wait_until};

/// Returns a world with a filesystem `f` on `disk.img`, and the directory `mnt`; or skips the test with a message.
pub(crate) fn world(test: &str) -> Option<CliSandbox> {
    if !root() || !Path::new("/dev/fuse").exists() {
        skip(test, "not root, or no FUSE");
        return None;
    }
    Some(made())
}

fn made() -> CliSandbox {
    let world = CliSandbox::new();
    world.image("disk.img", 64 * MIB);
    world.ok(&["create", "--fs", "--data", "disk.img", "--name", "f"]);
    fs::create_dir(world.path("mnt")).unwrap();
    world
}

pub(crate) fn status(world: &CliSandbox) -> Value {
    serde_json::from_str(&world.ok(&["status", "f", "--json"])).unwrap()
}

/// Returns the exit code and the output of `check`.
pub(crate) fn check(world: &CliSandbox) -> (i32, String) {
    let checked = world.run(&["check", "f"]);
    (checked.status.code().unwrap(), texts(&checked).0)
}

/// Found by a user of the manual: a long path shifted the columns behind it.
#[test]
fn the_columns_of_list_fit_the_longest_path() {
    let Some(world) = world("the_columns_of_list_fit_the_longest_path") else {
        return;
    };
    world.ok(&["mount", "f", "mnt"]);
    let list = world.ok(&["list"]);
    let lines: Vec<&str> = list.lines().collect();
    let [header, row] = lines[..] else {
        panic!("{list}")
    };
    let data = world.path("disk.img").canonicalize().unwrap();
    let at = row.find(data.to_str().unwrap());
    assert!(at.is_some() && at == header.find("DATA <"), "{list}");
    world.unmount("f");
}

/// Found by a user of the manual: three commands printed three capacities.
#[test]
fn create_status_resize_and_the_system_name_one_capacity() {
    let Some(world) = world("create_status_resize_and_the_system_name_one_capacity") else {
        return;
    };
    let said = world.ok(&[
        "create", "--force", "--fs", "--data", "disk.img", "--name", "f",
    ]);
    let (_, made) = said.split_once("a capacity of ").unwrap();
    let made = made.split(',').next().unwrap();
    world.ok(&["mount", "f", "mnt"]);
    let used = world.ok(&["status", "f"]);
    assert!(used.contains(&format!("of {made} (")), "{made}: {used}");
    let len = status(&world)["len"].as_u64().unwrap();
    let system = rustix::fs::statvfs(world.path("mnt")).unwrap();
    // The system counts whole blocks.
    let block = system.f_frsize;
    assert_eq!(system.f_blocks * block, len / block * block);
    let unchanged = world.ok(&["resize", "f"]);
    assert!(
        unchanged.contains(&format!("f has {made} as before")),
        "{made}: {unchanged}"
    );
    let disk = fs::File::options().write(true).open(world.path("disk.img"));
    disk.unwrap().set_len(96 * MIB).unwrap();
    let resized = world.ok(&["resize", "f"]);
    let grown = forebay_units::ByteLen(status(&world)["len"].as_u64().unwrap());
    assert!(
        resized.contains(&format!("f has {grown} now, {made} before")),
        "{resized}"
    );
    world.unmount("f");
}

#[test]
fn a_filesystem_is_created_mounted_used_unmounted_checked_and_removed() {
    let Some(world) = world("a_filesystem_is_created_mounted_used_unmounted_checked_and_removed")
    else {
        return;
    };
    let said = world.ok(&["mount", "f", "mnt"]);
    let dir = world.path("mnt").canonicalize().unwrap();
    assert_eq!(said.trim(), dir.to_str().unwrap());
    fs::create_dir(dir.join("a")).unwrap();
    fs::write(dir.join("a/b"), vec![7; 100_000]).unwrap();
    symlink("a/b", dir.join("c")).unwrap();
    let now = status(&world);
    assert_eq!(now["mounted"], dir.to_str().unwrap(), "{now}");
    assert_eq!(now["via"], "mount");
    assert!(now["requests_by"].is_string(), "{now}");
    assert_eq!(now["write_bytes"], 100_000);
    assert!(now["changes"].as_u64().unwrap() >= 3, "{now}");
    assert_eq!(now["below"]["mode"], "serving");
    assert!(now["nbd_uri"].is_null(), "{now}");
    assert!(world.ok(&["status"]).contains("used"));
    assert!(world.ok(&["list"]).contains(dir.to_str().unwrap()));
    let unmounted = world.unmount("mnt");
    assert!(unmounted.contains("needs no recovery"), "{unmounted}");
    assert!(!dir.join("a").exists());

    let (code, found) = check(&world);
    assert_eq!(code, 0, "{found}");
    assert!(found.contains("4 files, 2 directories"), "{found}");
    let json = world.ok(&["check", "--data", "disk.img", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["verdict"], &json["names"]),
        (&"clean".into(), &3.into())
    );
    let dumped = world.ok(&["dump", "f"]);
    for part in [
        "filesystem chunk_bits=35",
        "inode ",
        "entry ",
        "name=a",
        "data ",
    ] {
        assert!(dumped.contains(part), "{part}: {dumped}");
    }

    world.ok(&["mount", "f", "mnt", "-o", "ro"]);
    assert_eq!(fs::read(dir.join("c")).unwrap(), vec![7; 100_000]);
    let refused = fs::write(dir.join("d"), b"x").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    world.unmount("f");

    let refused = world.refused(&["remove", "f"]);
    refused.with(4, &["LOSES all files", "--force"]);
    world.ok(&["remove", "f", "--force"]);
    let gone = world.run(&["check", "--data", "disk.img"]);
    assert_eq!(gone.status.code(), Some(3));
}

#[test]
fn durable_files_survive_a_daemon_kill_and_the_stale_mount_is_released() {
    let Some(world) = world("durable_files_survive_a_daemon_kill_and_the_stale_mount_is_released")
    else {
        return;
    };
    world.ok(&["mount", "f", "mnt"]);
    let dir = world.path("mnt");
    let file = fs::File::create(dir.join("kept")).unwrap();
    fs::write(dir.join("kept"), b"what is to stay").unwrap();
    file.sync_all().unwrap();
    drop(file);
    world.kill("f");
    dead_mount_refuses(|| fs::read(dir.join("kept")).map(drop));
    let (code, found) = check(&world);
    assert_eq!(code, 1, "{found}");
    // Mounted again in the same place.
    world.ok(&["mount", "f", "mnt"]);
    assert_eq!(fs::read(dir.join("kept")).unwrap(), b"what is to stay");
    world.kill("f");
    // The stale mount can also be removed alone.
    let cleared = world.unmount("mnt");
    assert!(cleared.contains("the next mount recovers"), "{cleared}");
    let again = failed(&["umount", "mnt"], &world.run(&["umount", "mnt"]));
    again.with(3, &["no Forebay filesystem is mounted"]);
    world.ok(&["mount", "f", "mnt"]);
    // By its name as well: this once reported that nothing is mounted there.
    world.kill("f");
    let cleared = world.unmount("f");
    assert!(cleared.contains("the next mount recovers"), "{cleared}");
    world.ok(&["mount", "f", "mnt"]);
    world.unmount("f");
    assert_eq!(check(&world).0, 0);
}

#[test]
fn a_filesystem_works_unchanged_with_fuse_over_io_uring() {
    let test = "a_filesystem_works_unchanged_with_fuse_over_io_uring";
    let Some(world) = world(test) else {
        return;
    };
    let Some(_switched_on) = FuseUringGuard::new() else {
        return skip(test, "the kernel has no FUSE over io_uring");
    };
    world.ok(&["mount", "f", "mnt"]);
    let dir = world.path("mnt");
    // More users than ring entries; each writes, reads and creates names.
    let users: Vec<_> = (0..100_u8)
        .map(|user| {
            let dir = dir.join(format!("user{user}"));
            std::thread::spawn(move || {
                fs::create_dir(&dir).unwrap();
                for (file, len) in [(0, 10), (1, 5000), (2, 60_000)] {
                    let path = dir.join(format!("{file}{}", "n".repeat(200)));
                    fs::write(&path, vec![user; len]).unwrap();
                    fs::File::open(&path).unwrap().sync_all().unwrap();
                    assert!(fs::read(&path).unwrap() == vec![user; len]);
                }
                assert_eq!(fs::read_dir(&dir).unwrap().count(), 3);
            })
        })
        .collect();
    for user in users {
        user.join().unwrap();
    }
    // A request of the maximum size, in both directions.
    let (large, copy) = (vec![9; 3 << 20], dir.join("copy"));
    fs::write(&copy, &large).unwrap();
    assert_eq!(status(&world)["requests_by"], "io_uring");
    world.unmount("mnt");
    assert_eq!(check(&world).0, 0);
    world.ok(&["mount", "f", "mnt"]);
    assert!(fs::read(&copy).unwrap() == large);
    // The connection ends with the daemon, although the ring used it.
    world.kill("f");
    dead_mount_refuses(|| fs::read(&copy).map(drop));
    world.ok(&["mount", "f", "mnt"]);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 101);
    try_unmount(&["-f", dir.to_str().unwrap()]).expect("by force");
    wait_until("it is closed", || check(&world).0 == 0);
}

#[test]
fn a_filesystem_unmounted_by_the_system_umount_is_closed_cleanly() {
    let Some(world) = world("a_filesystem_unmounted_by_the_system_umount_is_closed_cleanly") else {
        return;
    };
    world.ok(&["mount", "f", "mnt"]);
    fs::write(world.path("mnt/a"), b"x").unwrap();
    let pid = world.pid("f").unwrap();
    try_unmount(&[world.path("mnt").to_str().unwrap()]).expect("it is not in use");
    crate::world::wait_for_end(pid);
    wait_until("its sockets are gone", || {
        !world.path("run/f.sock").exists()
    });
    assert_eq!(check(&world).0, 0);
}

#[test]
fn mount_errors_report_the_reason() {
    let Some(world) = world("mount_errors_report_the_reason") else {
        return;
    };
    world.image("log.img", 40 * MIB);
    world.data("data.img", 64 * MIB);
    world.ok(&[
        "create", "--name", "v", "--data", "data.img", "--log", "log.img",
    ]);
    for (args, code, parts) in [
        (
            &["mount", "v", "mnt"][..],
            2,
            ["block device", "forebay attach v"],
        ),
        (&["attach", "f"], 2, ["filesystem", "forebay mount f DIR"]),
        (
            &["attach", "--data", "disk.img"],
            2,
            ["filesystem", "forebay mount"],
        ),
        (
            &["mount", "f"],
            2,
            ["no mount directory", "configuration file"],
        ),
        (&["mount", "f", "nowhere"], 3, ["does not exist", "make it"]),
        (
            &["mount", "f", "disk.img"],
            2,
            ["disk.img", "not a directory"],
        ),
        (
            &["mount", "f", "mnt", "-o", "fast"],
            2,
            ["\"fast\"", "noexec"],
        ),
        (&["mount", "g", "mnt"], 3, ["no volume g", "create"]),
        (
            &["mount", "./log.img", "mnt"],
            3,
            ["log.img", "log-structured"],
        ),
        (
            &["create", "--fs", "--data", "disk.img", "--name", "h"],
            4,
            ["filesystem", "--force"],
        ),
        (
            &[
                "create", "--fs", "--data", "data.img", "--log", "log.img", "--name", "h",
            ],
            2,
            ["leave out --log", "only a data device"],
        ),
        (
            &[
                "create", "--fs", "--data", "data.img", "--size", "1GiB", "--name", "h",
            ],
            2,
            ["--size", "the size of its device"],
        ),
        (
            &[
                "create",
                "--fs",
                "--data",
                "data.img",
                "--largest-file",
                "3GiB",
                "--name",
                "h",
            ],
            2,
            ["--largest-file", "powers of two"],
        ),
        (
            &[
                "create",
                "--data",
                "data.img",
                "--log",
                "log.img",
                "--small-file",
                "4KiB",
                "--name",
                "h",
            ],
            2,
            ["--small-file", "--volume fs"],
        ),
    ] {
        world.refused(args).with(code, &parts);
    }
    world.ok(&["mount", "f", "mnt"]);
    // A second mount, by name or by device.
    world
        .refused(&["mount", "f", "mnt"])
        .with(4, &["f is attached already"]);
    world
        .refused(&["mount", "./disk.img", "mnt"])
        .with(4, &["disk.img", "in use"]);
    // While a file is open.
    let file = fs::File::create(world.path("mnt/open")).unwrap();
    let busy = failed(&["umount"], &world.run(&["umount", "mnt"]));
    busy.with(4, &["in use", "open"]);
    drop(file);
    world.unmount("mnt");
}

#[test]
fn the_system_mount_uses_mount_point_and_options_of_the_configuration_file() {
    let Some(world) =
        world("the_system_mount_uses_mount_point_and_options_of_the_configuration_file")
    else {
        return;
    };
    let description = world.path("etc/f.toml");
    let dir = world.path("mnt");
    let text = fs::read_to_string(&description).unwrap();
    let text = format!(
        "mount = \"{}\"\nmount-options = \"ro\"\n{text}",
        dir.display()
    );
    fs::write(&description, text).unwrap();
    world.ok(&["mount", "f"]);
    assert!(fs::write(dir.join("a"), b"x").is_err());
    world.unmount("f");
    // In the way that mount(8) calls its helpers.
    let helper = world.path("mount.forebay");
    symlink(env!("CARGO_BIN_EXE_forebay"), &helper).unwrap();
    let mut command = Command::new(&helper);
    world.set_up(&mut command);
    let mounted = command.args(["f", "mnt", "-n", "-o", "rw,noatime,_netdev"]);
    let mounted = output(mounted).unwrap();
    assert!(mounted.status.success(), "{:?}", texts(&mounted));
    fs::write(dir.join("a"), b"x").unwrap();
    world.unmount("mnt");
    assert!(!dir.join("a").exists());
}

/// Commands of an unprivileged user, with `/dev/fuse` accessible to all users as on most systems.
const NOT_ROOT: &str = r#"
set -e
mknod node c 10 229 && chmod 666 node && mount --bind node /dev/fuse
as() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
as truncate --size=64M state/disk.img
as ./forebay create --fs --data state/disk.img --name f
as ./forebay mount f mnt
as sh -c 'echo x > mnt/a && cat mnt/a'
as ./forebay umount f
as ./forebay check f
"#;

#[test]
fn an_unprivileged_user_mounts_by_fusermount() {
    let test = "an_unprivileged_user_mounts_by_fusermount";
    if !installed(test, &["fusermount3", "setpriv", "unshare"]) {
        return;
    }
    if !root() || !Path::new("/dev/fuse").exists() {
        return skip(test, "not root to begin with, or no FUSE");
    }
    // In a directory that all users can reach, and with a mount namespace of its own.
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let path = |name: &str| dir.path().join(name);
    for name in ["etc", "run", "state", "mnt"] {
        fs::create_dir(path(name)).unwrap();
        std::os::unix::fs::chown(path(name), Some(65534), Some(65534)).unwrap();
    }
    fs::copy(env!("CARGO_BIN_EXE_forebay"), path("forebay")).unwrap();
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", NOT_ROOT])
        .current_dir(dir.path())
        .env("FOREBAY_CONFIG_DIR", path("etc"))
        .env("FOREBAY_RUNTIME_DIR", path("run"))
        .env("FOREBAY_STATE_DIR", path("state"))
        .env("FOREBAY_DEV_DIR", path("dev"));
    let done = output(&mut command).unwrap();
    let (out, said) = texts(&done);
    assert!(done.status.success(), "{out}{said}");
    assert!(out.contains("\nx\nf is unmounted"), "{out}{said}");
    assert!(out.contains("clean"), "{out}{said}");
}
