//! A detach that fails or is interrupted, and block devices that other programs remove.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use rustix::process::{Pid, Resource, Rlimit};

use crate::links::{kernel_device, status};
use crate::system::{TestLoop, can_serve_loop, loop_over, tool};
use crate::world::{CliSandbox, MIB, signal, wait_for_end, wait_until};

/// The offset of the tests' writes, beyond the part that a failing data device accepts.
const AT: u64 = 8 * MIB;

/// Limits the daemon's writes to files to the first `len` bytes, or removes the limit. Block devices have no such
/// limit.
fn limit_writes(world: &CliSandbox, len: Option<u64>) {
    let limit = Rlimit {
        current: len,
        maximum: None,
    };
    let pid = world.pid("v").expect("it is attached");
    let process = Pid::from_raw(pid as i32);
    rustix::process::prlimit(process, Resource::Fsize, limit).expect("one's own process");
}

/// Returns the volume `v`, attached as a loop device. Its log holds data that its data device does not accept.
fn failing(test: &str) -> Option<(CliSandbox, TestLoop)> {
    if !can_serve_loop(test) {
        return None;
    }
    let world = CliSandbox::new();
    world.data("data.img", 64 * MIB);
    world.image("log.img", 40 * MIB);
    let log = loop_over(test, &world.path("log.img"))?;
    world.ok(&[
        "create", "--name", "v", "--data", "data.img", "--log", &log.0,
    ]);
    let device = world.attach_loop();
    limit_writes(&world, Some(MIB));
    let file = File::options().write(true).open(device).unwrap();
    file.write_all_at(&[7; 65536], AT).unwrap();
    file.sync_all().unwrap();
    Some((world, log))
}

/// Begins a detach, and returns once the daemon reports that the data device fails.
fn begin_detach(world: &CliSandbox) -> UnixStream {
    let stream = UnixStream::connect(world.path("run/v.sock")).unwrap();
    (&stream).write_all(b"{\"command\":\"detach\"}\n").unwrap();
    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut lines = lines.map(|line| line.unwrap());
    let fails = |line: &String| line.contains("\"retrying\"");
    assert!(lines.any(|line| fails(&line)), "it does not fail");
    stream
}

/// Checks that the block device is unchanged and has the written data.
fn is_as_before(world: &CliSandbox, device: &str) {
    assert_eq!(kernel_device(world, "v"), device);
    let link = status(world, "v", "device");
    let link = link.as_str().expect("it is named").to_owned();
    assert_eq!(link, world.path("dev/v").to_str().unwrap());
    let list = world.ok(&["list"]);
    assert!(list.contains(&link), "{list}");
    let mut read = vec![0; 65536];
    File::open(link)
        .unwrap()
        .read_exact_at(&mut read, AT)
        .unwrap();
    assert_eq!(read, [7; 65536]);
}

/// Found in a trial: an interrupted detach left the volume "attached" without a block device. `status` still named
/// `/dev/loop0`, which belonged to another program by then.
#[test]
fn a_detach_whose_client_disconnects_leaves_the_block_device() {
    let Some((world, _log)) = failing("a_detach_whose_client_disconnects_leaves_the_block_device")
    else {
        return;
    };
    let device = kernel_device(&world, "v");
    drop(begin_detach(&world));
    is_as_before(&world, &device);
    // The command itself, interrupted.
    let mut detach = world.command(&["detach", "v"]);
    let mut detach = detach.stderr(Stdio::piped()).spawn().unwrap();
    let mut progress = BufReader::new(detach.stderr.take().unwrap());
    let mut line = String::new();
    progress.read_line(&mut line).unwrap();
    assert!(line.contains("draining v"), "{line}");
    signal(detach.id(), "INT");
    assert!(!detach.wait().unwrap().success());
    is_as_before(&world, &device);
    limit_writes(&world, None);
    world.ok(&["detach", "v"]);
    assert_eq!(world.peek("data.img", AT, 65536), [7; 65536]);
}

#[test]
fn a_daemon_that_stops_on_a_signal_answers_a_waiting_detach() {
    let Some((world, _log)) = failing("a_daemon_that_stops_on_a_signal_answers_a_waiting_detach")
    else {
        return;
    };
    let stream = begin_detach(&world);
    let pid = world.pid("v").unwrap();
    signal(pid, "TERM");
    let lines = BufReader::new(stream).lines().map(|line| line.unwrap());
    let last = lines.last().expect("an answer");
    for part in ["failed", "is stopping", "stays in the log"] {
        assert!(last.contains(part), "{part}: {last}");
    }
    wait_for_end(pid);
    let list = world.ok(&["list"]);
    assert!(list.contains("detached"), "{list}");
    // Nothing is lost.
    world.attach_loop();
    world.ok(&["detach", "v"]);
    assert_eq!(world.peek("data.img", AT, 65536), [7; 65536]);
}

#[test]
fn a_block_device_taken_over_by_another_program_is_not_reported() {
    if !can_serve_loop("a_block_device_taken_over_by_another_program_is_not_reported") {
        return;
    }
    let world = CliSandbox::with_volume();
    world.attach_loop();
    let device = kernel_device(&world, "v");
    tool("losetup", &["--detach", &device]).expect("nobody uses it");
    wait_until("it is gone", || {
        status(&world, "v", "kernel_device").is_null()
    });
    assert!(status(&world, "v", "device").is_null());
    let text = world.ok(&["status", "v"]);
    let gone = format!("another program removed {device}");
    assert!(
        text.contains(&gone) && text.contains("no longer present"),
        "{text}"
    );
    let list = world.ok(&["list"]);
    assert!(
        list.contains("attached") && !list.contains("/dev/"),
        "{list}"
    );
    // The device number may already be in use by another program: found by a parallel test.
    let other = world.image("other.img", MIB);
    let another = tool("losetup", &[&device, other.to_str().unwrap()]);
    let _another = another.map(|_| TestLoop(device.clone()));
    let _user = File::open(&device);
    world.ok(&["detach", "v"]);
    assert!(!world.path("dev/v").exists());
}
