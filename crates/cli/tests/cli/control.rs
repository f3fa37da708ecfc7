//! The control socket, with hostile clients.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use crate::world::CliSandbox;

fn connect(world: &CliSandbox) -> UnixStream {
    UnixStream::connect(world.path("run/v.sock")).unwrap()
}

pub(crate) fn answer(world: &CliSandbox, request: &[u8]) -> serde_json::Value {
    let mut stream = connect(world);
    stream.write_all(request).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

#[test]
fn requests_are_answered_as_documented() {
    let world = CliSandbox::with_volume();
    world.attach();
    let pong = answer(&world, b"{\"command\":\"ping\"}\n");
    assert_eq!(
        (&pong["reply"], &pong["name"]),
        (&"pong".into(), &"v".into())
    );
    let status = answer(&world, b"{\"command\":\"status\"}\n");
    assert_eq!(
        (&status["reply"], &status["mode"]),
        (&"status".into(), &"caching".into())
    );
    let done = answer(&world, b"{\"command\":\"drain\",\"timeout_ms\":10000}\n");
    assert_eq!(
        (&done["reply"], &done["dirty_bytes"]),
        (&"done".into(), &0.into())
    );
}

#[test]
fn several_requests_on_one_connection_are_answered_in_order() {
    let world = CliSandbox::with_volume();
    world.attach();
    let mut stream = connect(&world);
    stream
        .write_all(b"{\"command\":\"ping\"}\n{\"command\":\"status\"}\n{\"comm")
        .unwrap();
    stream.write_all(b"and\":\"ping\"}\n").unwrap();
    let lines = BufReader::new(stream).lines().take(3);
    let replies: Vec<serde_json::Value> = lines
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect();
    let kinds: Vec<_> = replies
        .iter()
        .map(|reply| reply["reply"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["pong", "status", "pong"]);
}

#[test]
fn a_malformed_request_ends_only_its_own_connection() {
    let world = CliSandbox::with_volume();
    world.attach();
    for garbage in [
        &b"\n"[..],
        b"hello\n",
        b"{\"command\":\"format\"}\n",
        b"{\"command\":\"detach\",\"keep_dirty\":\"maybe\"}\n",
        b"{\"command\":\"ping\",\"again\":true}\n",
        b"\xff\xfe\x00\x01\n",
        b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\n",
    ] {
        let mut stream = connect(&world);
        stream.write_all(garbage).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(
            answer.contains("\"failed\"") && answer.contains("\"usage\""),
            "{answer}"
        );
    }
    world.ok(&["status", "v"]);
}

#[test]
fn an_endless_request_is_cut_off_at_the_length_limit() {
    let world = CliSandbox::with_volume();
    world.attach();
    let mut stream = connect(&world);
    let nested = [b'['; 4096];
    stream.write_all(&nested).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("at most 4096 bytes"), "{answer}");
    // A request of the maximum length is accepted, padded with blanks to the last byte.
    let mut long = b"{\"command\":\"ping\"}".to_vec();
    long.resize(4095, b' ');
    long.push(b'\n');
    assert_eq!(self::answer(&world, &long)["reply"], "pong");
}

#[test]
fn idle_control_connections_do_not_block_the_volume() {
    let world = CliSandbox::with_volume();
    world.attach();
    // More clients than the daemon serves at a time, some of them in the middle of a line.
    let idle: Vec<UnixStream> = (0..64)
        .map(|i| {
            let mut stream = connect(&world);
            if i % 2 == 0 {
                let _ = stream.write_all(b"{\"comm");
            }
            stream
        })
        .collect();
    // NBD clients are not affected.
    world.client().write(0, &[1; 512]).unwrap();
    drop(idle);
    crate::world::wait_until("there is room again", || {
        world.run(&["status", "v"]).status.success()
    });
}

#[test]
fn a_client_that_disconnects_during_a_drain_stops_only_the_drain() {
    let world = CliSandbox::with_volume();
    world.attach();
    {
        let mut client = world.client();
        for block in 0..64u64 {
            client.write(block * 262_144, &[1; 65536]).unwrap();
        }
    }
    let mut stream = connect(&world);
    stream.write_all(b"{\"command\":\"drain\"}\n").unwrap();
    drop(stream);
    world.ok(&["drain", "v"]);
    world.ok(&["detach", "v"]);
}

/// Found by a user of the manual: connections to a daemon that is being killed are reset, which passed for a daemon
/// that does not answer; and the state was `detached` after a refused attach.
#[test]
fn a_killed_daemon_is_dead_at_once_and_after_a_refused_attach() {
    let world = CliSandbox::with_volume();
    let state = || {
        let list = world.ok(&["list", "--json"]);
        let list: serde_json::Value = serde_json::from_str(&list).unwrap();
        list[0]["state"].as_str().unwrap().to_owned()
    };
    for _ in 0..3 {
        world.attach();
        // The daemon does not answer while it is stopped, so the kill meets a request in flight.
        let pid = world.pid("v").unwrap();
        crate::world::signal(pid, "STOP");
        let listed = std::thread::scope(|scope| {
            let listed = scope.spawn(state);
            std::thread::sleep(std::time::Duration::from_millis(100)); // sleeps: the request must be in flight
            crate::world::signal(pid, "KILL");
            listed.join().unwrap()
        });
        assert_eq!(listed, "dead");
        crate::world::wait_for_end(pid);
        std::fs::rename(world.path("data.img"), world.path("away.img")).unwrap();
        world
            .refused(&["attach", "v", "--via", "none"])
            .with(3, &["data.img"]);
        std::fs::rename(world.path("away.img"), world.path("data.img")).unwrap();
        assert_eq!(state(), "dead");
        world.attach();
        world.ok(&["detach", "v"]);
    }
}

#[test]
fn a_socket_file_without_a_listener_is_replaced() {
    let world = CliSandbox::with_volume();
    world.attach();
    world.kill("v");
    assert!(
        world.path("run/v.sock").exists(),
        "the kill left the socket"
    );
    world.attach();
    world.ok(&["detach", "v"]);
}

#[test]
fn discard_unreadable_is_refused_if_the_log_has_not_failed() {
    let world = CliSandbox::with_volume();
    world.attach();
    let refused = answer(&world, b"{\"command\":\"discard-unreadable\"}\n");
    assert_eq!(
        (&refused["reply"], &refused["code"]),
        (&"failed".into(), &"refused".into())
    );
    for args in [
        &["discard-unreadable", "v"][..],
        &["give-up", "v"],
        &["discard-unreadable", "v", "--lose-unreadable"],
    ] {
        let failed = crate::world::failed(args, &world.run(args));
        failed.with(4, &["no data to discard"]);
    }
    world.ok(&["detach", "v"]);
}

#[test]
fn place_reports_the_extents_on_the_log_and_on_the_data_device_and_both_devices() {
    let world = CliSandbox::with_volume();
    world.attach();
    let ask = |start: u64, end: u64| {
        let request = format!("{{\"command\":\"place\",\"start\":{start},\"end\":{end}}}\n");
        answer(&world, request.as_bytes())
    };
    let parts = |answer: &serde_json::Value| -> Vec<(u64, u64, String)> {
        let parts = answer["parts"].as_array().unwrap().iter();
        let number = |part: &serde_json::Value, key: &str| part[key].as_u64().unwrap();
        parts
            .map(|part| {
                let place = part["place"].as_str().unwrap().to_owned();
                (number(part, "start"), number(part, "end"), place)
            })
            .collect()
    };
    let mut client = world.client();
    client.write(1 << 20, &[7; 4096]).unwrap();
    client.flush().unwrap();
    let reply = ask((1 << 20) - 100, (1 << 20) + 4196);
    assert_eq!(reply["reply"], "places", "{reply}");
    let places = parts(&reply);
    let edges: Vec<(u64, u64)> = places.iter().map(|part| (part.0, part.1)).collect();
    let (from, to) = (1 << 20, (1 << 20) + 4096);
    assert_eq!(edges, [(from - 100, from), (from, to), (to, to + 100)]);
    assert_eq!((&*places[0].2, &*places[2].2), ("home", "home"));
    // The segment may still be in memory.
    assert!(["log", "memory"].contains(&&*places[1].2), "{reply}");
    let path = |name: &str| world.path(name).canonicalize().unwrap();
    for (what, file) in [("home", "data.img"), ("log", "log.img")] {
        assert_eq!(reply[what]["path"], path(file).to_str().unwrap(), "{reply}");
        assert!(reply[what]["inode"].is_u64(), "{reply}");
    }
    assert_eq!(reply["home"]["start"], 0);
    assert!(reply["log"]["start"].is_null() && reply["device"].is_null());
    world.ok(&["drain", "v"]);
    assert_eq!(parts(&ask(from, to)), [(from, to, "home".to_owned())]);
    // Nothing beyond the end, and no more than an answer can contain; a malformed range gives an empty answer.
    assert_eq!(ask(0, u64::MAX)["end"], 64 << 20);
    assert_eq!(parts(&ask(u64::MAX, 5)), []);
    assert_eq!(parts(&ask(5, 5)), []);
}
