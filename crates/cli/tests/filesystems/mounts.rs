//! A filesystem of our own, whose daemon is killed at random moments while users work on it.
//!
//! After each kill: the mount is dead and says so, it is unmounted in one of the ways there are, `check` finds nothing to be
//! repaired, and every promise of `fsync` is held against what the next mount shows, which sometimes comes after another kill in
//! the middle of recovery.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use forebay_rng::Rng;

use crate::crash::{from_env, keep_promises, kill_in_recovery, seed, work_until_killed};
use crate::kinds::FOREBAY;
use crate::system::{root, tool};
use crate::users::User;
use crate::world::{World, skip, texts};

const USERS: u64 = 3;
const ROUNDS: u64 = 8;
const MOUNT: [&str; 3] = ["mount", "v", "mnt"];

#[test]
fn a_filesystem_of_our_own_keeps_what_fsync_promised_when_its_daemon_is_killed() {
    let test = "a_filesystem_of_our_own_keeps_what_fsync_promised";
    if !root() || !Path::new("/dev/fuse").exists() {
        return skip(test, "not root, or no FUSE");
    }
    let seed = seed(test);
    let numbers = Rng::new(seed);
    let world = World::new();
    world.image("data.img", FOREBAY.data_bytes);
    world.ok(&["create", "--fs", "--data", "data.img", "--name", "v"]);
    let at = world.path("mnt");
    fs::create_dir(&at).unwrap();
    world.ok(&MOUNT);
    let mut users: Vec<User> = (0..USERS)
        .map(|n| User::new(&FOREBAY, at.join(format!("user{n}")), numbers.next()))
        .collect();
    for round in 0..from_env("FOREBAY_ROUNDS").unwrap_or(ROUNDS) {
        let killed = Arc::new(AtomicBool::new(false));
        for user in &mut users {
            user.begin(&killed).expect("a healthy filesystem works");
        }
        users = work_until_killed(&world, users, &killed, &numbers);
        let dead = fs::read_dir(&at).unwrap_err();
        assert_eq!(dead.raw_os_error(), Some(107), "{dead}");
        match numbers.below(3) {
            0 => drop(world.unmount("mnt")),
            1 => drop(tool("umount", &["-l", at.to_str().unwrap()]).expect("it is unmounted")),
            // The next mount lets go of it.
            _ => {}
        }
        let when = format!("round {round}, seed {seed}");
        let checked = world.run(&["check", "v"]);
        // Something may be to be recovered, and nothing to be repaired.
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
