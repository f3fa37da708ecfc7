//! Our own filesystem, whose daemon is killed at random moments while users work on it.
//!
//! After each kill, accesses to the stale mount fail. The test unmounts it in one of several ways, and `check` must
//! find nothing to repair. The filesystem is mounted again, sometimes after another kill during recovery, and the files
//! are compared with every guarantee of `fsync`.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use forebay_rng::Rng;

use crate::crash::{from_env, keep_promises, kill_in_recovery, seed, work_until_killed};
use crate::durably::{PAGE, ways};
use crate::kinds::{FOREBAY, FilesystemType};
use crate::system::{dead_mount_refuses, installed, root, tool, try_tool};
use crate::users::CrashUser;
use crate::world::{CliSandbox, skip, texts};

const USERS: u64 = 3;
const ROUNDS: u64 = 8;
const MOUNT: [&str; 3] = ["mount", "v", "mnt"];

#[test]
fn the_forebay_filesystem_keeps_synced_data_when_its_daemon_is_killed() {
    let test = "the_forebay_filesystem_keeps_synced_data_when_its_daemon_is_killed";
    if !root() || !Path::new("/dev/fuse").exists() {
        return skip(test, "not root, or no FUSE");
    }
    let seed = seed(test);
    let numbers = Rng::new(seed);
    let world = mounted(&FOREBAY);
    let at = world.path("mnt");
    let mut users: Vec<CrashUser> = (0..USERS)
        .map(|n| CrashUser::new(&FOREBAY, at.join(format!("user{n}")), numbers.next()))
        .collect();
    for round in 0..from_env("FOREBAY_ROUNDS").unwrap_or(ROUNDS) {
        let killed = Arc::new(AtomicBool::new(false));
        for user in &mut users {
            user.begin(&killed).expect("a healthy filesystem works");
        }
        users = work_until_killed(&world, users, &killed, &numbers);
        dead_mount_refuses(|| fs::read_dir(&at).map(drop));
        match numbers.below(3) {
            0 => drop(world.unmount("mnt")),
            1 => drop(tool("umount", &["-l", at.to_str().unwrap()]).expect("it is unmounted")),
            // The next mount releases the stale mount.
            _ => {}
        }
        let when = format!("round {round}, seed {seed}");
        let checked = world.run(&["check", "v"]);
        // Recovery may be necessary, but no repair.
        let is_sound = matches!(checked.status.code(), Some(0 | 1));
        assert!(is_sound, "{when}: {:?}", texts(&checked));
        if numbers.below(3) == 0 {
            kill_in_recovery(&world, &MOUNT, &numbers);
        }
        world.ok(&MOUNT);
        keep_promises(&users, &when);
    }
    world.unmount("v");
    let found = world.ok(&["check", "v"]);
    assert!(!found.contains("problem"), "{found}");
}

#[test]
fn written_data_survives_a_kill_with_every_way_to_request_durability() {
    let test = "written_data_survives_a_kill_with_every_way_to_request_durability";
    if !root() || !Path::new("/dev/fuse").exists() {
        return skip(test, "not root, or no FUSE");
    }
    let world = mounted(&FOREBAY);
    let at = world.path("mnt");
    let content = |n: usize, letter: u8| vec![letter + n as u8; 4 * PAGE];
    for (n, _) in ways().iter().enumerate() {
        fs::write(at.join(format!("f{n}")), content(n, b'a')).expect("written");
    }
    fs::File::open(&at)
        .expect("opened")
        .sync_all()
        .expect("durable");
    for (n, way) in ways().into_iter().enumerate() {
        let path = at.join(format!("f{n}"));
        let written = way.write(&path, &content(n, b'A'), 0);
        written.unwrap_or_else(|error| panic!("{way:?}: {error}"));
        // Kill after each write: a later request could make an earlier write durable.
        world.kill("v");
        world.ok(&MOUNT);
        let found = fs::read(&path).expect("read");
        assert!(found == content(n, b'A'), "{way:?}: the write is lost");
    }
    world.unmount("v");
}

#[test]
fn durable_writes_of_every_fio_engine_survive_a_daemon_kill() {
    let test = "durable_writes_of_every_fio_engine_survive_a_daemon_kill";
    if !root() || !Path::new("/dev/fuse").exists() || !installed(test, &["fio"]) {
        return skip(test, "not root, no FUSE, or no fio");
    }
    let world = mounted(&FOREBAY);
    let jobs = [
        ["psync", "--sync=dsync", "--direct=1"],
        ["libaio", "--sync=dsync", "--direct=1"],
        ["libaio", "--sync=sync", "--direct=1"],
        ["io_uring", "--sync=dsync", "--direct=1"],
        ["io_uring", "--sync=dsync", "--direct=0"],
        // The last write is not followed by an `msync` of its own.
        ["mmap", "--fsync=1", "--end_fsync=1"],
    ];
    for (n, [engine, sync, more]) in jobs.into_iter().enumerate() {
        let file = format!(
            "--filename={}",
            world.path("mnt").join(format!("f{n}")).display()
        );
        let engine = format!("--ioengine={engine}");
        let job = [
            "--name=durable",
            "--rw=randwrite",
            "--bs=4k",
            "--size=256k",
            "--iodepth=4",
            "--verify=crc32c",
            "--fallocate=none",
            "--verify_state_save=0",
        ];
        let first = ["--do_verify=0", &file, &engine, sync, more];
        tool("fio", &[&job[..], &first].concat()).expect("fio writes");
        world.kill("v");
        world.ok(&MOUNT);
        let then = ["--verify_only", &file, &engine, more];
        let verified = try_tool("fio", &[&job[..], &then].concat());
        verified.unwrap_or_else(|error| panic!("{engine} {sync} {more}: {error}"));
    }
    world.unmount("v");
}

/// Returns a world with a mounted filesystem of our own.
fn mounted(kind: &FilesystemType) -> CliSandbox {
    let world = CliSandbox::new();
    world.image("data.img", kind.data_bytes);
    world.ok(&["create", "--fs", "--data", "data.img", "--name", "v"]);
    fs::create_dir(world.path("mnt")).expect("made");
    world.ok(&MOUNT);
    world
}
