//! `/dev/forebay/NAME`: as root, with a directory of the test instead of `/dev/forebay`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use crate::system::{TestLoop, TestMount, can_serve_loop, tool};
use crate::world::{CliSandbox, MIB, failed, texts, wait_until};

/// Returns a field of the volume's status.
pub(crate) fn status(world: &CliSandbox, name: &str, field: &str) -> serde_json::Value {
    let json = world.ok(&["status", name, "--json"]);
    serde_json::from_str::<serde_json::Value>(&json).unwrap()[field].take()
}

/// Returns the kernel's name of a volume's block device.
pub(crate) fn kernel_device(world: &CliSandbox, name: &str) -> String {
    let device = status(world, name, "kernel_device");
    device.as_str().expect("it has a block device").to_owned()
}

fn link(world: &CliSandbox, name: &str) -> String {
    world.path("dev").join(name).display().to_string()
}

fn target(world: &CliSandbox, name: &str) -> Option<PathBuf> {
    fs::read_link(link(world, name)).ok()
}

fn attach(world: &CliSandbox, name: &str) -> String {
    let device = world.ok(&["attach", name, "--via", "loop"]);
    device.trim().to_owned()
}

/// Returns a world with the volumes `a` and `b`.
fn two(test: &str) -> Option<CliSandbox> {
    if !can_serve_loop(test) {
        return None;
    }
    let world = CliSandbox::new();
    for name in ["a", "b"] {
        let (data, log) = (format!("{name}.img"), format!("{name}.log"));
        world.data(&data, 64 * MIB);
        world.image(&log, 40 * MIB);
        world.ok(&["create", "--name", name, "--data", &data, "--log", &log]);
    }
    Some(world)
}

/// Returns the first 512 bytes of a volume.
fn begins(world: &CliSandbox, name: &str) -> Vec<u8> {
    fs::read(link(world, name)).unwrap()[..512].to_vec()
}

/// The recipe for fstab mounted the wrong filesystem when two volumes were attached in another order.
#[test]
fn volumes_keep_their_links_when_attached_in_another_order() {
    let Some(world) = two("volumes_keep_their_links_when_attached_in_another_order") else {
        return;
    };
    for order in [["a", "b"], ["b", "a"]] {
        for name in order {
            let device = attach(&world, name);
            assert_eq!(device, link(&world, name));
            assert_eq!(status(&world, name, "device"), device);
            let kernel = kernel_device(&world, name);
            assert_eq!(target(&world, name), Some(kernel.clone().into()));
            let named = world.ok(&["udev", kernel.trim_start_matches("/dev/")]);
            assert_eq!(named, format!("FOREBAY_NAME={name}\n"));
        }
        let list = world.ok(&["list"]);
        for name in order {
            assert!(list.contains(&link(&world, name)), "{list}");
            let data = world.peek(&format!("{name}.img"), 0, 512);
            assert!(begins(&world, name) == data, "another volume is at {name}");
        }
        for name in order {
            world.ok(&["detach", name]);
            assert_eq!(target(&world, name), None);
        }
        // The locks are removed, too.
        assert_eq!(fs::read_dir(world.path("dev")).unwrap().count(), 0);
    }
}

#[test]
fn the_link_of_a_killed_daemon_is_replaced_by_the_next_attach() {
    if !can_serve_loop("the_link_of_a_killed_daemon_is_replaced_by_the_next_attach") {
        return;
    }
    let world = CliSandbox::with_volume();
    attach(&world, "v");
    let dead = kernel_device(&world, "v");
    world.kill("v");
    assert_eq!(target(&world, "v"), Some(dead.into()));
    // The removal of the former device is an ordinary event: it belongs to the log, in words.
    let attached = world.run(&["attach", "v", "--via", "loop"]);
    let (device, said) = crate::world::texts(&attached);
    assert!(
        attached.status.success() && !said.contains("INFO"),
        "{said}"
    );
    assert_eq!(device.trim(), link(&world, "v"));
    // The daemon writes its first events to its log file after the command has ended.
    let log = || fs::read_to_string(world.path("run/v.log")).unwrap();
    let removed = "removed what a killed server left: ";
    wait_until("the log has the removal", || log().contains(removed));
    let log = log();
    assert!(!log.contains("RemovedLeftovers"), "{log}");
    assert_eq!(target(&world, "v"), Some(kernel_device(&world, "v").into()));
    world.ok(&["detach", "v"]);
    assert_eq!(target(&world, "v"), None);
}

/// A name of its own: a volume `v` of another test may get the device, and would count as this one.
const NAME: &str = "given-away";

#[test]
fn list_removes_a_link_whose_device_belongs_to_another_program() {
    if !can_serve_loop("list_removes_a_link_whose_device_belongs_to_another_program") {
        return;
    }
    let world = CliSandbox::with_volume_named(NAME);
    attach(&world, NAME);
    let device = kernel_device(&world, NAME);
    // While the daemon runs, its link stays.
    world.ok(&["list"]);
    assert_eq!(target(&world, NAME), Some(device.clone().into()));
    world.kill(NAME);
    // The device of the killed daemon still belongs to the volume.
    world.ok(&["list"]);
    assert_eq!(target(&world, NAME), Some(device.clone().into()));
    tool("losetup", &["--detach", &device]).expect("nobody uses it");
    let list = world.ok(&["list"]);
    assert!(list.contains("dead") && !list.contains("/dev/"), "{list}");
    assert_eq!(target(&world, NAME), None);
    attach(&world, NAME);
    world.ok(&["detach", NAME]);
}

#[test]
fn a_foreign_file_at_the_path_of_a_link_is_kept_and_reported() {
    if !can_serve_loop("a_foreign_file_at_the_path_of_a_link_is_kept_and_reported") {
        return;
    }
    let world = CliSandbox::with_volume();
    fs::create_dir(world.path("dev")).unwrap();
    let place = world.path("dev/v");
    let attached = |what: &str| {
        let output = world.run(&["attach", "v", "--via", "loop"]);
        let (out, said) = texts(&output);
        assert!(output.status.success(), "{said}");
        let device = kernel_device(&world, "v");
        assert_eq!(out.trim(), device, "what can be used is printed");
        for part in [what, "which is not Forebay's", &device] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let status = world.ok(&["status", "v"]);
        assert!(status.contains(what), "{status}");
        world.ok(&["detach", "v"]);
    };
    fs::write(&place, "mine").unwrap();
    attached("something else of that name");
    assert_eq!(fs::read(&place).unwrap(), b"mine");
    fs::remove_file(&place).unwrap();
    symlink(world.path("log.img"), &place).unwrap();
    attached("a link to elsewhere of that name");
    assert_eq!(fs::read_link(&place).unwrap(), world.path("log.img"));
    fs::remove_file(&place).unwrap();
    // In a directory that other users may write, they could replace the link.
    fs::set_permissions(world.path("dev"), PermissionsExt::from_mode(0o777)).unwrap();
    let output = world.run(&["attach", "v", "--via", "loop"]);
    let said = texts(&output).1;
    assert!(said.contains("writable by no other user"), "{said}");
    world.ok(&["detach", "v"]);
    assert_eq!(fs::read_dir(world.path("dev")).unwrap().count(), 0);
}

#[test]
fn status_reports_a_removed_link_and_names_the_device_instead() {
    if !can_serve_loop("status_reports_a_removed_link_and_names_the_device_instead") {
        return;
    }
    let world = CliSandbox::with_volume();
    attach(&world, "v");
    fs::remove_file(link(&world, "v")).unwrap();
    let device = kernel_device(&world, "v");
    assert_eq!(status(&world, "v", "device"), device);
    let text = world.ok(&["status", "v"]);
    assert!(text.contains("removed or replaced the link"), "{text}");
    world.ok(&["detach", "v"]);
}

/// Volumes of two users, or of two runtime directories, can have the same name.
#[test]
fn the_first_of_two_volumes_with_the_same_name_gets_the_link() {
    if !can_serve_loop("the_first_of_two_volumes_with_the_same_name_gets_the_link") {
        return;
    }
    let (first, second) = (CliSandbox::with_volume(), CliSandbox::with_volume());
    attach(&first, "v");
    let args = ["attach", "v", "--via", "loop"];
    let mut command = second.command(&args);
    command.env("FOREBAY_DEV_DIR", first.path("dev"));
    let output = crate::world::output(&mut command).unwrap();
    let (out, said) = texts(&output);
    let (own, pid) = (kernel_device(&second, "v"), first.pid("v").unwrap());
    assert_eq!(out.trim(), own);
    let holder = format!("process {pid} holds it, for another volume of that name");
    assert!(said.contains(&holder), "{said}");
    second.ok(&["detach", "v"]);
    assert_eq!(target(&first, "v"), Some(kernel_device(&first, "v").into()));
    first.ok(&["detach", "v"]);
}

#[test]
fn a_mount_through_the_link_keeps_the_volume_attached_and_the_link_present() {
    if !can_serve_loop("a_mount_through_the_link_keeps_the_volume_attached_and_the_link_present") {
        return;
    }
    let world = CliSandbox::with_volume();
    let device = attach(&world, "v");
    tool("mkfs.ext4", &["-q", "-F", &device]).expect("mkfs.ext4 is installed");
    let mount = TestMount::new(&device, &world.path("mnt"), "rw").expect("it mounts");
    let refused = failed(&["detach"], &world.run(&["detach", "v"]));
    refused.with(4, &[&device, "mounted on", "mnt"]);
    assert_eq!(target(&world, "v"), Some(kernel_device(&world, "v").into()));
    drop(mount);
    // The kernel does not prevent a loop device over another.
    let above = TestLoop::over(device.as_ref()).expect("a loop device");
    let refused = failed(&["detach"], &world.run(&["detach", "v"]));
    refused.with(
        4,
        &[&device, "beneath the loop device", &above.0, "losetup -d"],
    );
    drop(above);
    wait_until("it is detached", || {
        world.run(&["detach", "v"]).status.success()
    });
}

/// The kernel shows the file of a loop device by its path without symbolic links. With a runtime directory behind a
/// link (`/var/run`), the device would seem to belong to another program.
#[test]
fn a_runtime_directory_behind_a_symbolic_link_works_as_usual() {
    if !can_serve_loop("a_runtime_directory_behind_a_symbolic_link_works_as_usual") {
        return;
    }
    let world = CliSandbox::with_volume();
    symlink(world.path("run"), world.path("by-link")).unwrap();
    let run = |args: &[&str]| {
        let mut command = world.command(args);
        command.env("FOREBAY_RUNTIME_DIR", world.path("by-link"));
        let output = crate::world::output(&mut command).unwrap();
        let (out, said) = texts(&output);
        assert!(output.status.success(), "{args:?}: {said}");
        out
    };
    let device = run(&["attach", "v", "--via", "loop"]);
    assert_eq!(device.trim(), link(&world, "v"));
    assert_eq!(status(&world, "v", "device"), device.trim());
    let kernel = kernel_device(&world, "v");
    assert_eq!(run(&["udev", &kernel]), "FOREBAY_NAME=v\n");
    run(&["detach", "v"]);
}
