//! Faults of a mounted filesystem: its device fails, is full, or is damaged; its daemon is stopped; it is unmounted by
//! force while in use.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output};

use forebay_rng::Rng;
use rustix::process::{Pid, Resource, Rlimit};

use crate::files::{check, status, world};
use crate::system::{installed, tool, try_tool};
use crate::world::{CliSandbox, MIB, failed, output, signal, texts, wait_for_end, wait_until};

const EIO: Option<i32> = Some(5);
const ENOSPC: Option<i32> = Some(28);

fn mount(world: &CliSandbox) -> u32 {
    world.ok(&["mount", "f", "mnt"]);
    world.pid("f").expect("it is mounted")
}

/// Makes writes of the daemon beyond this file length fail, or removes the limit.
fn limit_writes(pid: u32, len: Option<u64>) {
    let limit = Rlimit {
        current: len,
        maximum: None,
    };
    let process = Pid::from_raw(pid as i32);
    rustix::process::prlimit(process, Resource::Fsize, limit).expect("one's own process");
}

fn write_durably(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_all()
}

#[test]
fn a_device_fault_is_reported_and_durable_files_are_readable_after_it_ends() {
    let Some(world) =
        world("a_device_fault_is_reported_and_durable_files_are_readable_after_it_ends")
    else {
        return;
    };
    let pid = mount(&world);
    let (kept, new) = (world.path("mnt/kept"), world.path("mnt/new"));
    write_durably(&kept, &[7; 100_000]).unwrap();
    // Neither all its buffered data, nor its log, fits below the limit.
    limit_writes(pid, Some(MIB));
    let refused = write_durably(&new, &[8; 100_000]).unwrap_err();
    assert_eq!(refused.raw_os_error(), EIO, "{refused}");
    let now = status(&world);
    assert_eq!(now["mode"], "failed", "{now}");
    let detail = now["mode_detail"].as_str().unwrap();
    assert!(
        detail.starts_with("the device has been failing for"),
        "{detail}"
    );
    assert!(detail.contains("when the device works again"), "{detail}");
    assert!(now["errors"].as_u64().unwrap() > 0, "{now}");
    assert_eq!(fs::read(&kept).unwrap(), [7; 100_000]);
    // The device works again: the refused data is written once more, and the filesystem goes on.
    limit_writes(pid, None);
    wait_until("it serves again", || status(&world)["mode"] == "serving");
    write_durably(&new, &[9; 100_000]).unwrap();
    world.unmount("mnt");
    wait_for_end(pid);
    world.ok(&["mount", "f", "mnt"]);
    assert_eq!(fs::read(&kept).unwrap(), [7; 100_000]);
    assert_eq!(fs::read(&new).unwrap(), [9; 100_000]);
    world.unmount("mnt");
    assert_eq!(check(&world).0, 0);
}

/// Found under `ulimit -f 0`: a signal ended the daemon, since its log had no space for a line. In addition, the report
/// of a failed log line went to the log as well, on a full disk for instance, and caused a panic.
#[test]
fn a_daemon_continues_to_serve_when_its_message_log_cannot_be_written() {
    let Some(world) = world("a_daemon_continues_to_serve_when_its_message_log_cannot_be_written")
    else {
        return;
    };
    let pid = mount(&world);
    let kept = world.path("mnt/kept");
    write_durably(&kept, &[7; 100_000]).unwrap();
    let log = world.content("run/f.log");
    limit_writes(pid, Some(1));
    let refused = write_durably(&world.path("mnt/new"), &[8; 100_000]).unwrap_err();
    assert_eq!(refused.raw_os_error(), EIO, "{refused}");
    assert_eq!(status(&world)["mode"], "failed");
    assert_eq!(fs::read(&kept).unwrap(), [7; 100_000]);
    assert!(lives(pid));
    assert_eq!(world.content("run/f.log"), log);
    // It reports its activity before, since the device gets time to work again.
    let unmounted = world.run(&["umount", "mnt"]);
    let said = String::from_utf8_lossy(&unmounted.stderr);
    assert_eq!(unmounted.status.code(), Some(5), "{said}");
    assert!(said.contains("not closed cleanly"), "{said}");
    wait_for_end(pid);
}

/// Unmounts `f`, and returns the activities that the daemon reports until it exits; or disconnects after the first
/// report.
fn unmount_and_listen(world: &CliSandbox, stays: bool) -> Vec<String> {
    let mut stream = UnixStream::connect(world.path("run/f.sock")).unwrap();
    stream.write_all(b"{\"command\":\"detach\"}\n").unwrap();
    let mut doing = Vec::new();
    for line in BufReader::new(stream).lines() {
        let reply: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        if reply["reply"] != "progress" {
            assert_eq!(reply["reply"], "done", "{reply}");
            break;
        }
        doing.push(reply["doing"].as_str().unwrap().to_owned());
        if !stays {
            break;
        }
    }
    doing
}

/// Found on a throttled disk: `umount` reported after 30 s that the daemon does not answer.
#[test]
fn umount_of_a_slow_disk_reports_progress_and_can_be_interrupted() {
    let Some(world) = world("umount_of_a_slow_disk_reports_progress_and_can_be_interrupted") else {
        return;
    };
    let disk = "model:dec_rz26:disk.img";
    world.ok(&["create", "--fs", "--data", disk, "--name", "f", "--force"]);
    fs::write(world.path("a"), vec![7; 2 << 20]).unwrap();
    for stays in [true, false] {
        let pid = mount(&world);
        // Another process copies, because a child process that another test starts holds this process's files for a
        // moment.
        let (from, to) = (world.path("a"), world.path("mnt/a"));
        tool("cp", &[from.to_str().unwrap(), to.to_str().unwrap()]).expect("copied");
        let doing = unmount_and_listen(&world, stays);
        assert!(doing.iter().any(|doing| doing == "closing"), "{doing:?}");
        wait_for_end(pid);
        let (code, found) = check(&world);
        assert_eq!(code, 0, "{found}");
    }
    mount(&world);
    assert_eq!(fs::read(world.path("mnt/a")).unwrap(), vec![7; 2 << 20]);
    world.unmount("f");
}

/// Writes until the first write that fails for lack of space. Returns the number of that write.
fn fill(mut write: impl FnMut(u64) -> std::io::Result<()>) -> u64 {
    for n in 0.. {
        if let Err(error) = write(n) {
            assert_eq!(error.raw_os_error(), ENOSPC, "{error}");
            return n;
        }
    }
    unreachable!("it is full some time")
}

#[test]
fn a_filesystem_can_be_filled_to_the_last_block_and_emptied_repeatedly() {
    let Some(world) = world("a_filesystem_can_be_filled_to_the_last_block_and_emptied_repeatedly")
    else {
        return;
    };
    world.ok(&["mount", "f", "mnt"]);
    let dir = world.path("mnt");
    let room = status(&world)["free_bytes"].as_u64().unwrap();
    for round in 1..=3 {
        let mut large = File::create(dir.join("large")).unwrap();
        let written = fill(|_| large.write_all(&[round; 1 << 20]));
        assert!(written >= room / MIB - 1, "{written} MiB of {room} bytes");
        large.set_len(MIB).unwrap();
        fs::create_dir(dir.join("small")).unwrap();
        let many = fill(|n| fs::write(dir.join(format!("small/{n}")), vec![round; 60_000]));
        assert!(many > 100, "{many}");
        // In a sector each, until the filesystem is full.
        fill(|n| write_durably(&dir.join(format!("small/{n:0>200}")), b"little"));
        let now = status(&world);
        assert!(
            now["full_errors"].as_u64().unwrap() >= 3 * u64::from(round),
            "{now}"
        );
        assert_eq!((&now["mode"], &now["errors"]), (&"full".into(), &0.into()));
        // Existing data can be overwritten, and made durable.
        let small = File::options().write(true).open(dir.join("small/0"));
        let mut small = small.unwrap();
        small.write_all(&[round + 1; 60_000]).unwrap();
        small.sync_all().unwrap();
        fs::remove_dir_all(dir.join("small")).unwrap();
        fs::remove_file(dir.join("large")).unwrap();
        let free = status(&world)["free_bytes"].as_u64().unwrap();
        // Except the segments that are being filled.
        assert!(free + 2 * MIB >= room, "{free} of {room}");
    }
    world.unmount("mnt");
    let (code, found) = check(&world);
    assert_eq!(code, 0, "{found}");
    assert!(found.contains("0 names, 0B of data"), "{found}");
}

/// Data written to mapped memory reaches the filesystem when only `msync` and `fsync` can report an error.
const MAPPED: &str = r#"
import errno, mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
mapped = mmap.mmap(file, 1 << 20)
mapped[:] = b"x" * (1 << 20)
def refused(what):
    try:
        what()
        return "done"
    except OSError as error:
        return errno.errorcode[error.errno]
print(refused(lambda: os.fsync(file)))
"#;

#[test]
fn fsync_reports_enospc_to_a_writer_of_a_mapping() {
    let test = "fsync_reports_enospc_to_a_writer_of_a_mapping";
    let Some(world) = world(test) else { return };
    if !installed(test, &["python3"]) {
        return;
    }
    world.ok(&["mount", "f", "mnt"]);
    let dir = world.path("mnt");
    File::create(dir.join("mapped"))
        .unwrap()
        .set_len(MIB)
        .unwrap();
    let mut large = File::create(dir.join("large")).unwrap();
    fill(|_| large.write_all(&[1; 1 << 16]));
    let mut python = Command::new("python3");
    let said = output(python.args(["-c", MAPPED]).arg(dir.join("mapped"))).unwrap();
    assert_eq!(texts(&said).0, "ENOSPC\n", "{}", texts(&said).1);
    drop(large);
    world.unmount("mnt");
    assert_eq!(check(&world).0, 0);
}

/// Returns true if the daemon still runs.
fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| rest.starts_with(' ') && !rest.starts_with(" Z"))
}

fn is_one_of(codes: &[i32], what: &str, output: &Output) -> i32 {
    let code = output.status.code().unwrap_or(-1);
    let (_, said) = texts(output);
    assert!(
        codes.contains(&code) && !said.contains("panic"),
        "{what}: {code} {said}"
    );
    code
}

/// Overwrites some used sectors, or swaps some of them.
fn damage(image: &mut [u8], numbers: &Rng) {
    let sectors = (image.len() / 512) as u64;
    let lies = |n: u64| {
        image[n as usize * 512..][..512]
            .iter()
            .any(|byte| *byte != 0)
    };
    let used: Vec<u64> = (0..sectors).filter(|n| lies(*n)).collect();
    let any = || used[numbers.below(used.len() as u64) as usize] as usize * 512;
    for _ in 0..1 << numbers.below(6) {
        let (at, other) = (any(), any());
        match numbers.below(4) {
            0 => image[at + numbers.below(512) as usize] ^= 1 << numbers.below(8),
            1 => image[at..][..512].copy_from_slice(&numbers.bytes(512)),
            2 => image[at..][..512].fill(0),
            _ => image.copy_within(other..other + 512, at),
        }
    }
}

/// Reads, changes and removes all files. Impossible operations must report errors.
const WALK: &str = "find mnt -ls; find mnt -type f -exec cat {} +; touch mnt/new; mkdir mnt/in; mv mnt/d2 mnt/in; \
                    echo new > mnt/d1/new; sync mnt/new; df mnt; rm -rf mnt/*; find mnt -ls";

#[test]
fn a_damaged_image_is_refused_or_mounted_and_never_ends_the_daemon() {
    let Some(world) = world("a_damaged_image_is_refused_or_mounted_and_never_ends_the_daemon")
    else {
        return;
    };
    let numbers = Rng::new(21);
    world.image("disk.img", 12 * MIB);
    let create = [
        "create",
        "--fs",
        "--data",
        "disk.img",
        "--name",
        "f",
        "--segment",
        "256KiB",
        "--force",
    ];
    world.ok(&create);
    world.ok(&["mount", "f", "mnt"]);
    for n in 0..60 {
        let dir = world.path(&format!("mnt/d{}", n % 7));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(n.to_string()), numbers.bytes(n * 137)).unwrap();
    }
    world.kill("f");
    world.unmount("mnt");
    let image = world.content("disk.img");
    let rounds = std::env::var("FOREBAY_ROUNDS").map_or(8, |n| n.parse().expect("a number"));
    for round in 0..rounds {
        let mut image = image.clone();
        damage(&mut image, &numbers);
        fs::write(world.path("disk.img"), image).unwrap();
        is_one_of(&[0, 1, 2, 3, 5], "check", &world.run(&["check", "f"]));
        is_one_of(&[0, 3, 4, 5], "dump", &world.run(&["dump", "f"]));
        let mounted = world.run(&["mount", "f", "mnt"]);
        if is_one_of(&[0, 3, 4, 5], "mount", &mounted) > 0 {
            assert_eq!(texts(&mounted).1.lines().count(), 1, "{mounted:?}");
            continue;
        }
        let pid = world.pid("f").expect("it is mounted");
        let mut walk = Command::new("sh");
        let walked = output(walk.args(["-c", WALK]).current_dir(world.dir()));
        walked.unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert!(lives(pid), "round {round}");
        is_one_of(&[0, 5], "umount", &world.run(&["umount", "mnt"]));
    }
}

#[test]
fn callers_of_a_stopped_daemon_wait_and_then_continue_or_get_an_error_if_it_ends() {
    let Some(world) =
        world("callers_of_a_stopped_daemon_wait_and_then_continue_or_get_an_error_if_it_ends")
    else {
        return;
    };
    world.ok(&["mount", "f", "mnt"]);
    let pid = world.pid("f").unwrap();
    for ends in [false, true] {
        write_durably(&world.path("mnt/kept"), b"kept").unwrap();
        signal(pid, "STOP");
        let path = world.path("mnt/new");
        let waiting = std::thread::spawn(move || write_durably(&path, b"new"));
        // sleeps: a waiting process gives no event
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert!(!waiting.is_finished());
        signal(pid, if ends { "KILL" } else { "CONT" });
        assert_eq!(waiting.join().unwrap().is_err(), ends);
    }
    wait_for_end(pid);
    let mounted = texts(&world.run(&["mount", "f", "mnt"])).1;
    assert!(mounted.contains("stale mount"), "{mounted}");
    assert_eq!(fs::read(world.path("mnt/kept")).unwrap(), b"kept");
    world.unmount("f");
    assert_eq!(check(&world).0, 0);
}

#[test]
fn a_filesystem_in_use_that_is_unmounted_by_force_is_closed_cleanly() {
    let Some(world) = world("a_filesystem_in_use_that_is_unmounted_by_force_is_closed_cleanly")
    else {
        return;
    };
    let at = world.path("mnt");
    let at = at.to_str().unwrap();
    world.ok(&["mount", "f", "mnt"]);
    let pid = world.pid("f").unwrap();
    let mut open = File::create(world.path("mnt/open")).unwrap();
    open.write_all(b"before").unwrap();
    // The system aborts the requests, and reports that the filesystem is in use nevertheless.
    let forced = try_tool("umount", &["-f", at]).unwrap_err();
    assert!(forced.contains("busy"), "{forced}");
    wait_for_end(pid);
    assert!(open.write_all(b"gone").is_err());
    drop(open);
    wait_until("it is let go of", || check(&world).0 == 0);

    world.ok(&["mount", "f", "mnt"]);
    let pid = world.pid("f").unwrap();
    let mut open = File::options()
        .append(true)
        .open(world.path("mnt/open"))
        .unwrap();
    tool("umount", &["-l", at]).expect("it is unmounted");
    open.write_all(b", and after").unwrap();
    let now = status(&world);
    assert!(now["mounted"].is_null() && now["via"] == "mount", "{now}");
    assert!(world.ok(&["status", "f"]).contains("no longer mounted"));
    let used = failed(&["umount"], &world.run(&["umount", "f"]));
    used.with(4, &["unmounted already", "still in use"]);
    let again = failed(&["mount"], &world.run(&["mount", "f", "mnt"]));
    again.with(4, &["attached already"]);
    drop(open);
    wait_for_end(pid);
    wait_until("it is let go of", || check(&world).0 == 0);
    world.ok(&["mount", "f", "mnt"]);
    assert_eq!(
        fs::read(world.path("mnt/open")).unwrap(),
        b"before, and after"
    );
    world.unmount("f");
}

#[test]
fn umount_with_force_cuts_off_open_files_and_keeps_written_data() {
    let Some(world) = world("umount_with_force_cuts_off_open_files_and_keeps_written_data") else {
        return;
    };
    let content = || fs::read(world.path("mnt/open")).unwrap();
    world.ok(&["mount", "f", "mnt"]);
    let pid = world.pid("f").unwrap();
    let mut open = File::create(world.path("mnt/open")).unwrap();
    open.write_all(b"before").unwrap();
    failed(&["umount"], &world.run(&["umount", "mnt"])).with(4, &["in use"]);
    let said = world.ok(&["umount", "mnt", "--force"]);
    assert!(said.contains("data written before is kept"), "{said}");
    wait_for_end(pid);
    assert!(open.write_all(b"gone").is_err());
    assert_eq!(check(&world).0, 0);

    // By its name, while its daemon does not answer.
    world.ok(&["mount", "f", "mnt"]);
    assert_eq!(content(), b"before");
    let pid = world.pid("f").unwrap();
    let _open = File::open(world.path("mnt/open")).unwrap();
    signal(pid, "STOP");
    failed(&["umount"], &world.run(&["umount", "f"])).with(5, &["it is stopped"]);
    let said = world.ok(&["umount", "f", "--force"]);
    assert!(said.contains("its daemon has not ended"), "{said}");
    assert!(!world.path("mnt/open").exists());
    signal(pid, "CONT");
    wait_for_end(pid);
    // A filesystem that is not in use is unmounted without force.
    world.ok(&["mount", "f", "mnt"]);
    assert_eq!(content(), b"before");
    let said = world.ok(&["umount", "f", "--force"]);
    assert!(said.contains("needs no recovery"), "{said}");
}
