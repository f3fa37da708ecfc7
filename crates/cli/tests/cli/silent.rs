//! Daemons that do not answer, or that were killed, and their leftovers.

use std::fs;
use std::time::{Duration, Instant};

use crate::system::{TestMount, can_serve_loop, tool};
use crate::world::{CliSandbox, MIB, failed, signal, texts};

/// Found in a trial: `list` took 31 s, and `drain --timeout 3s` 30 s.
#[test]
fn a_stopped_daemon_is_reported_and_does_not_delay_commands_for_other_volumes() {
    let world = CliSandbox::with_volume();
    world.attach();
    world.data("w.img", 64 * MIB);
    world.image("w.log", 40 * MIB);
    world.ok(&["create", "--name", "w", "--data", "w.img", "--log", "w.log"]);
    world.ok(&["attach", "w", "--via", "none"]);
    let pid = world.pid("v").unwrap();
    signal(pid, "STOP");
    let stopped = format!("(process {pid}) does not answer: it is stopped");
    let begun = Instant::now();
    let list = world.ok(&["list"]);
    assert!(
        begun.elapsed() < Duration::from_millis(2500),
        "{:?}",
        begun.elapsed()
    );
    let of = |name: &str| {
        let mut lines = list.lines();
        lines
            .find(|line| line.starts_with(name))
            .unwrap()
            .to_owned()
    };
    assert!(
        of("v").contains("unusable") && of("v").contains(&stopped),
        "{list}"
    );
    assert!(of("w").contains("attached"), "{list}");
    let (shown, said) = texts(&world.run(&["status"]));
    assert!(
        shown.starts_with("w ") && said.contains(&stopped),
        "{shown}{said}"
    );
    let drained = failed(&["drain"], &world.run(&["drain", "v", "--timeout", "0s"]));
    drained.with(5, &[&stopped]);
    signal(pid, "CONT");
    for name in ["v", "w"] {
        world.ok(&["detach", name]);
    }
}

/// Found in a trial: the refused attach removed the socket of the killed daemon, by which `list` had recognized it.
#[test]
fn a_refused_attach_keeps_the_dead_state_of_a_volume() {
    if !can_serve_loop("a_refused_attach_keeps_the_dead_state_of_a_volume") {
        return;
    }
    let world = CliSandbox::with_volume();
    let device = world.attach_loop();
    tool("mkfs.ext4", &["-q", "-F", &device]).expect("mkfs.ext4 is installed");
    let mount = TestMount::new(&device, &world.path("mnt"), "rw").expect("it mounts");
    world.kill("v");
    for _ in 0..2 {
        let refused = failed(&["attach"], &world.run(&["attach", "v", "--via", "loop"]));
        refused.with(4, &["mounted on", "mnt"]);
        let list = world.ok(&["list"]);
        assert!(list.contains(" dead "), "{list}");
        let status = failed(&["status"], &world.run(&["status", "v"]));
        status.with(3, &["ended abruptly", "forebay attach v"]);
    }
    drop(mount);
    world.attach_loop();
    world.ok(&["detach", "v"]);
    let list = world.ok(&["list"]);
    assert!(list.contains("detached"), "{list}");
}

#[test]
fn refused_commands_leave_no_lock_file() {
    let world = CliSandbox::with_volume();
    let exists = [
        "create", "--name", "v", "--data", "data.img", "--log", "log.img",
    ];
    failed(&exists, &world.run(&exists)).with(4, &["a volume v exists already"]);
    let missing = [
        "create", "--name", "w", "--data", "none.img", "--log", "log.img",
    ];
    failed(&missing, &world.run(&missing));
    let mount = ["mount", "v", "/nowhere"];
    failed(&mount, &world.run(&mount));
    assert_eq!(fs::read_dir(world.path("run")).unwrap().count(), 0);
}
