//! Memory that clients can make the daemon use.

use std::fs;
use std::thread;

use serde_json::Value;

use crate::world::{CliSandbox, MIB, skip, wait_until};

const CLIENTS: u64 = 24;
/// The largest possible request.
const LARGEST: u64 = 32 * MIB;
const BOUND: u64 = 128 * MIB;
/// The daemon's memory besides that of requests: the segments being gathered (16 MiB), windows of up to 16 MiB of live
/// data being destaged (three at a time), the map, and the program with its stacks.
const BESIDES: u64 = 96 * MIB;

/// The same without a destage: segments, memory kept for the next burst (16 MiB), the program.
const BESIDES_AT_REST: u64 = 64 * MIB;

/// Returns the value of a line of `/proc/PID/status`, in bytes.
fn resident(pid: u32, key: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    let kib = line
        .expect("the kernel tells")
        .trim_matches([':', ' ', '\t']);
    1024 * kib.trim_end_matches(" kB").trim().parse::<u64>().unwrap()
}

fn status(world: &CliSandbox) -> Value {
    serde_json::from_str(&world.ok(&["status", "v", "--json"])).unwrap()
}

/// As found in review: these clients made the daemon 1.67 GB large, while `status` reported 1 MiB.
#[test]
fn concurrent_large_requests_of_many_clients_stay_within_the_memory_bound() {
    let world = CliSandbox::new();
    world.image("data.img", CLIENTS * LARGEST);
    world.image("log.img", 64 * MIB);
    world.ok(&[
        "create", "--name", "v", "--data", "data.img", "--log", "log.img",
    ]);
    world.ok(&["attach", "v", "--via", "none", "--memory", "128MiB"]);
    let pid = world.pid("v").unwrap();
    let held = resident(pid, "VmLck") > 0;
    let clients: Vec<_> = (0..CLIENTS).map(|_| world.client()).collect();
    let content = |i: u64| -> Vec<u8> {
        let words = (0..LARGEST / 8).map(|word| word << 8 | i);
        words.flat_map(u64::to_le_bytes).collect()
    };
    thread::scope(|scope| {
        for (mut client, i) in clients.into_iter().zip(0..) {
            scope.spawn(move || {
                let data = content(i);
                client.write(i * LARGEST, &data).unwrap();
                assert!(client.read(i * LARGEST, LARGEST as u32).unwrap() == data);
            });
        }
    });
    let most = resident(pid, "VmHWM");
    assert!(most <= BOUND + BESIDES, "it was {most} bytes large");
    assert_eq!(status(&world)["request_bytes_max"], BOUND);
    // The memory of destaged windows is returned afterwards, and the allocator's free memory too.
    wait_until("the daemon holds no more than it says", || {
        let status = status(&world);
        let number = |key: &str| status[key].as_u64().unwrap();
        // Memory kept for the next requests, and for each client that has not disconnected yet.
        assert!(number("request_bytes") <= 32 * MIB, "{status}");
        let known = number("request_bytes") + number("buffer_bytes") + number("map_bytes");
        resident(pid, "VmRSS") <= known + BESIDES_AT_REST
    });
    assert_eq!(resident(pid, "VmLck") > 0, held, "memory is held as before");
    world.detach();
}

#[test]
fn the_memory_bound_is_set_by_configuration_file_or_option_and_shown_by_status() {
    let world = CliSandbox::with_volume();
    world.attach();
    assert_eq!(status(&world)["request_bytes_max"], 256 * MIB);
    world.detach();
    let description = world.path("etc/v.toml");
    let mut text = fs::read_to_string(&description).unwrap();
    text.push_str("memory = \"100MiB\"\n");
    fs::write(&description, text).unwrap();
    world.attach();
    assert_eq!(status(&world)["request_bytes_max"], 100 * MIB);
    assert!(
        world
            .ok(&["status", "v"])
            .contains("of 100MiB for requests")
    );
    world.detach();
    // The minimum is enough to serve.
    world.ok(&["attach", "v", "--via", "none", "--memory", "64MiB"]);
    assert_eq!(status(&world)["request_bytes_max"], 64 * MIB);
    let data = vec![3; LARGEST as usize];
    world.client().write(0, &data).unwrap();
    assert!(world.client().read(0, LARGEST as u32).unwrap() == data);
    world.detach();
}

#[test]
fn the_daemon_locks_its_memory_if_permitted_and_serves_without() {
    const CAP_IPC_LOCK: u32 = 14;
    let world = CliSandbox::with_volume();
    world.attach();
    let pid = world.pid("v").unwrap();
    let own = fs::read_to_string("/proc/self/status").unwrap();
    let mask = own.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let mask = u64::from_str_radix(mask.unwrap().trim(), 16).unwrap();
    if mask & 1 << CAP_IPC_LOCK != 0 {
        assert!(resident(pid, "VmLck") >= resident(pid, "VmRSS"));
    } else {
        skip(
            "the_daemon_locks_its_memory_if_permitted_and_serves_without",
            "no CAP_IPC_LOCK",
        );
    }
    world.client().write(0, &[1; 4096]).unwrap();
    world.detach();
}
