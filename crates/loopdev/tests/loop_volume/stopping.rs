//! Stopping: refused while the device is in use, complete when it is unused.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use forebay_frontend::block_device::DeviceHolder;
use forebay_loopdev::{CleanupError, LeftoverPolicy, LoopDetachError, cleanup_stale};

use crate::harness::{LoopMount, LoopServerPlan, able, run};

fn nothing_is_left(dir: &Path) {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    assert!(!mounts.contains(dir.to_str().expect("text")), "{mounts}");
    let left: Vec<_> = std::fs::read_dir(dir).expect("list").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    let text = dir.to_str().expect("text");
    for entry in std::fs::read_dir("/sys/block").expect("list").flatten() {
        let file = std::fs::read_to_string(entry.path().join("loop/backing_file"));
        assert!(!file.unwrap_or_default().contains(text), "{entry:?}");
    }
}

#[test]
fn a_mounted_device_refuses_to_stop_and_keeps_working() {
    if !able(&["mkfs.ext4"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let elsewhere = tempfile::tempdir().expect("a directory");
    let mut server = LoopServerPlan::new(dir.path(), "mounted").serve();
    run("mkfs.ext4", &["-q", "-F", server.node()]);
    let mounted = LoopMount::new(server.node(), elsewhere.path());
    let error = server.detach().expect_err("mounted");
    let LoopDetachError::Busy { holders, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(holders.0, [DeviceHolder::Mounted(elsewhere.path().into())]);
    let mut file = File::create(elsewhere.path().join("still")).expect("it works on");
    file.write_all(b"there").expect("it works on");
    file.sync_all().expect("it works on");
    drop((file, mounted));
    server.detach().expect("unmounted");
    nothing_is_left(dir.path());
}

#[test]
fn an_open_device_refuses_to_stop_and_names_its_holder() {
    if !able(&[]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = LoopServerPlan::new(dir.path(), "open").serve();
    let node = File::open(&server.node).expect("open");
    // Not this process: the server of a device is not among the device's users.
    let mut sleep = std::process::Command::new("sleep");
    let mut user = sleep.arg("600").stdin(node).spawn().expect("sleep");
    drop(sleep);
    let error = server.detach();
    let (pid, _) = (user.id(), user.kill());
    user.wait().expect("ends");
    let error = error.expect_err("open");
    let LoopDetachError::Busy { holders, .. } = &error else {
        panic!("{error}")
    };
    let named = |holder: &DeviceHolder| matches!(holder, DeviceHolder::Process { pid: found, .. } if *found == pid);
    assert!(holders.0.iter().any(named), "{error}");
    let file = File::open(&server.file).expect("open");
    let error = server.detach().expect_err("the file beneath is open");
    assert!(matches!(error, LoopDetachError::FileBusy { .. }), "{error}");
    drop(file);
    server.detach().expect("closed");
    nothing_is_left(dir.path());
}

#[test]
fn dirty_pages_reach_the_volume_before_it_stops() {
    if !able(&[]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = LoopServerPlan::new(dir.path(), "dirty").serve();
    let mut node = File::options()
        .write(true)
        .open(&server.node)
        .expect("open");
    node.write_all(&[5; 1 << 20]).expect("into the page cache");
    drop(node);
    let before = server.flushes();
    server.detach().expect("closed");
    assert!(server.flushes() > before);
    nothing_is_left(dir.path());
}

#[test]
fn a_volume_with_failed_flushes_reports_them_once_and_can_still_be_stopped() {
    if !able(&[]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = LoopServerPlan::new(dir.path(), "broken").serve();
    *server.strings.broken_flush.lock().expect("no panic") = true;
    let error = server.detach().expect_err("a flush failed");
    assert!(
        matches!(error, LoopDetachError::WriteBack { .. }),
        "{error}"
    );
    server.detach().expect("it was said");
    nothing_is_left(dir.path());
}

#[test]
fn two_volumes_are_served_independently() {
    if !able(&["fio"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mut one = LoopServerPlan::new(dir.path(), "one").serve();
    let mut two = LoopServerPlan::new(dir.path(), "two").serve();
    assert_ne!(one.node, two.node);
    let file = |node: &str, job: &str| [format!("--name={job}"), format!("--filename={node}")];
    let common = [
        "--rw=randwrite",
        "--bs=4k",
        "--size=16m",
        "--direct=1",
        "--iodepth=16",
    ];
    let mut args: Vec<String> = common.iter().map(ToString::to_string).collect();
    args.extend(["--ioengine=libaio".into(), "--verify=crc32c".into()]);
    args.extend(file(one.node(), "a"));
    args.extend(file(two.node(), "b"));
    run("fio", &args.iter().map(String::as_str).collect::<Vec<_>>());
    one.detach().expect("idle");
    std::fs::metadata(&two.file).expect("the other is served on");
    two.detach().expect("idle");
    nothing_is_left(dir.path());
}

#[test]
fn a_served_volume_is_not_a_leftover() {
    if !able(&[]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = LoopServerPlan::new(dir.path(), "alive").serve();
    for in_use in [LeftoverPolicy::Refuse, LeftoverPolicy::Detach] {
        let error = cleanup_stale(dir.path(), "alive", in_use).expect_err("alive");
        assert!(matches!(error, CleanupError::Served { .. }), "{error}");
    }
    std::fs::metadata(&server.file).expect("still served");
    server.detach().expect("idle");
}

#[test]
fn a_forced_unmount_ends_the_server_and_leaves_nothing_behind() {
    if !able(&[]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = LoopServerPlan::new(dir.path(), "cut").serve();
    let mount = server.file.parent().expect("a directory");
    // This cuts the connection, and then fails to unmount under a loop device.
    let forced = Command::new("umount").arg("--force").arg(mount).output();
    assert!(!forced.expect("umount").status.success());
    server.ended().expect("nobody uses it");
    nothing_is_left(dir.path());
}
