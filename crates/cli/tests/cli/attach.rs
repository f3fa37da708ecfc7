//! The life of a volume: attached, used, stopped in every way, attached again.

use std::fs;

use forebay_nbd::client::BlockingNbdClient;

use crate::world::{CliSandbox, MIB, failed, signal, skip, texts, wait_for_end, wait_until};

#[test]
fn after_a_detach_the_data_image_alone_contains_all_writes() {
    let world = CliSandbox::with_volume();
    let before = world.content("data.img");
    let uri = world.attach();
    let socket = world.path("run/v.nbd.sock");
    assert_eq!(uri, format!("nbd+unix:///v?socket={}\n", socket.display()));
    {
        let mut client = world.client();
        assert_eq!(client.read(0, 512).unwrap(), before[..512]);
        client.write(MIB, &[1; 8192]).unwrap();
        client.flush().unwrap();
    }
    let out = world.ok(&["detach", "v"]);
    assert!(out.contains("the data device is complete"), "{out}");
    let mut expected = before;
    expected[MIB as usize..][..8192].fill(1);
    assert!(
        world.content("data.img") == expected,
        "other blocks changed"
    );
    world
        .refused(&["detach", "v"])
        .with(3, &["v", "not attached"]);
}

#[test]
fn a_detach_that_keeps_dirty_data_reports_it_and_the_next_attach_recovers_it() {
    let world = CliSandbox::with_volume();
    world.attach();
    {
        let mut client = world.client();
        client.write(MIB, &[1; 8192]).unwrap();
        client.flush().unwrap();
    }
    let out = world.ok(&["detach", "v", "--keep-dirty"]);
    assert!(out.contains("8KiB left in the log"), "{out}");
    assert_eq!(world.peek("data.img", MIB, 8192), [0; 8192]);
    let output = world.run(&["attach", "v", "--via", "none"]);
    assert!(texts(&output).1.contains("8KiB"), "{}", texts(&output).1);
    assert_eq!(world.client().read(MIB, 8192).unwrap(), [1; 8192]);
    let out = world.ok(&["drain", "v"]);
    assert!(out.contains("v is drained"), "{out}");
    assert_eq!(world.peek("data.img", MIB, 8192), [1; 8192]);
}

#[test]
fn a_killed_daemon_is_listed_as_dead_and_the_next_attach_recovers_its_data() {
    let world = CliSandbox::with_volume();
    world.dirty(MIB, 4, 4096);
    assert!(world.ok(&["list"]).contains("dead"));
    world
        .refused(&["status", "v"])
        .with(3, &["ended abruptly", "forebay attach v"]);
    world.attach();
    assert_eq!(world.client().read(MIB, 4096).unwrap(), [4; 4096]);
    assert!(world.ok(&["list"]).contains("attached"));
}

#[test]
fn an_attach_right_after_a_kill_waits_until_the_kernel_releases_the_files() {
    // Found by this suite: the kernel closes the files of an io_uring some time after its process has ended.
    let world = CliSandbox::with_volume();
    for _ in 0..5 {
        world.attach();
        let pid = world.pid("v").unwrap();
        signal(pid, "KILL");
        wait_for_end(pid);
    }
    world.attach();
    world.ok(&["detach", "v"]);
}

#[test]
fn sigterm_stops_cleanly_and_leaves_dirty_data_in_the_log() {
    let world = CliSandbox::with_volume();
    world.attach();
    {
        let mut client = world.client();
        // No flush by the client: the stop flushes.
        client.write(MIB, &[6; 4096]).unwrap();
    }
    let pid = world.pid("v").unwrap();
    signal(pid, "TERM");
    wait_for_end(pid);
    assert!(!world.path("run/v.sock").exists() && !world.path("run/v.nbd.sock").exists());
    assert_eq!(world.peek("data.img", MIB, 4096), [0; 4096]);
    assert_eq!(world.run(&["check", "v"]).status.code(), Some(1));
    world.attach();
    assert_eq!(world.client().read(MIB, 4096).unwrap(), [6; 4096]);
}

#[test]
fn a_volume_cannot_be_attached_twice() {
    let world = CliSandbox::with_volume();
    world.attach();
    let pid = world.pid("v").unwrap().to_string();
    let again = world.run(&["attach", "v", "--via", "none"]);
    failed(&[], &again).with(4, &["v is attached already", &pid]);
    // The same devices under another name.
    let description = fs::read_to_string(world.path("etc/v.toml")).unwrap();
    let other = description.replace("name = \"v\"", "name = \"w\"");
    fs::write(world.path("etc/w.toml"), other).unwrap();
    let again = world.run(&["attach", "w", "--via", "none"]);
    failed(&[], &again).with(4, &["log.img", "in use", &pid]);
    let again = world.run(&["attach", "--log", "log.img", "--via", "none"]);
    failed(&[], &again).with(4, &["log.img", "in use"]);
    let again = world.run(&[
        "create", "--force", "--name", "x", "--data", "data.img", "--log", "log.img",
    ]);
    failed(&[], &again).with(4, &["log.img", "in use"]);
    let again = world.run(&["remove", "v"]);
    failed(&[], &again).with(4, &["v is attached already"]);
    world.ok(&["detach", "v"]);
}

#[test]
fn without_a_configuration_file_the_log_alone_identifies_the_volume() {
    let world = CliSandbox::with_volume();
    fs::remove_file(world.path("etc/v.toml")).unwrap();
    world
        .refused(&["attach", "v"])
        .with(3, &["no volume v", "v.toml", "--log PATH"]);
    world.ok(&["attach", "--log", "log.img", "--via", "none"]);
    world.client().write(MIB, &[1; 512]).unwrap();
    world.ok(&["detach", "v"]);
    assert_eq!(world.peek("data.img", MIB, 512), [1; 512]);
    // If the data device has moved, its path can be given.
    fs::rename(world.path("data.img"), world.path("moved.img")).unwrap();
    let log = ["attach", "--log", "log.img", "--via", "none"];
    world.refused(&log).with(3, &["data.img", "does not exist"]);
    world.ok(&[&log[..], &["--data", "moved.img"]].concat());
}

#[test]
fn a_configuration_file_with_a_mistake_is_refused_with_file_line_and_key() {
    let world = CliSandbox::with_volume();
    let description = fs::read_to_string(world.path("etc/v.toml")).unwrap();
    let lines = description.lines().count();
    fs::write(
        world.path("etc/v.toml"),
        format!("{description}colour = \"red\"\n"),
    )
    .unwrap();
    let line = format!("line {}", lines + 1);
    let failed = world.refused(&["attach", "v"]);
    failed.with(2, &["etc/v.toml", &line, "key \"colour\"", "unknown"]);
    assert!(world.ok(&["list"]).contains("colour"));
}

#[test]
fn command_line_options_override_the_configuration_file() {
    let world = CliSandbox::with_volume();
    let description = fs::read_to_string(world.path("etc/v.toml")).unwrap();
    let with = description.replace("#via = \"auto\"", "via = \"none\"");
    fs::write(world.path("etc/v.toml"), with).unwrap();
    let uri = world.ok(&[
        "attach",
        "v",
        "--listen",
        "tcp:127.0.0.1:0",
        "--ack",
        "durable",
    ]);
    let port = uri
        .trim()
        .strip_prefix("nbd://127.0.0.1:")
        .and_then(|rest| rest.strip_suffix("/v"));
    assert!(
        port.is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port != 0)),
        "{uri}"
    );
    // The socket in the runtime directory exists as well.
    let mut client = world.client();
    // An acknowledged write is durable: no flush before the crash.
    client.write(MIB, &[2; 512]).unwrap();
    world.kill("v");
    world.attach();
    assert_eq!(world.client().read(MIB, 512).unwrap(), [2; 512]);
}

#[test]
fn a_cache_over_a_cache_is_refused() {
    let world = CliSandbox::with_volume();
    let path = |name: &str| world.path(name).display().to_string();
    let (log, data) = (path("log.img"), path("data.img"));
    let nested = format!(
        "name = \"v\"\nkind = \"cache\"\nlog = \"{log}\"\n[data]\nkind = \"cache\"\n\
         log = \"{data}@0+1MiB\"\ndata = \"{data}@1MiB+1MiB\"\n"
    );
    fs::write(world.path("etc/v.toml"), nested).unwrap();
    let attach = ["attach", "v", "--via", "none"];
    world
        .refused(&attach)
        .with(2, &["write cache itself", "name a device"]);
    assert!(
        world
            .ok(&["list"])
            .contains(&format!("({data}@1MiB+1MiB < {data}@0+1MiB) < {log}"))
    );
    // The log itself is readable, whatever it is in front of.
    assert!(world.ok(&["dump", "v"]).contains("superblock"));
}

#[test]
fn ublk_without_its_driver_is_refused_with_a_remedy() {
    if std::path::Path::new("/dev/ublk-control").exists() {
        return skip(
            "ublk_without_its_driver_is_refused_with_a_remedy",
            "this kernel has ublk",
        );
    }
    let world = CliSandbox::with_volume();
    // Refused before any change to the devices.
    let failed = world.refused(&["attach", "v", "--via", "ublk"]);
    failed.with(3, &["modprobe ublk_drv", "another --via"]);
}

#[test]
fn a_hand_off_works_only_for_ublk_and_nbd_and_other_volumes_stay_attached() {
    let world = CliSandbox::with_volume();
    world.attach();
    let failed = world.refused(&["detach", "v", "--hand-over"]);
    failed.with(4, &["only a ublk or nbd device", "via none"]);
    let both = world.refused(&["detach", "v", "--hand-over", "--keep-dirty"]);
    both.with(2, &["--keep-dirty"]);
    world.client().write(0, &[1; 512]).unwrap();
}

#[test]
fn writes_in_the_log_survive_a_kill() {
    let world = CliSandbox::with_volume();
    // The former name of `--ack device`.
    world.ok(&["attach", "v", "--via", "none", "--durability", "handover"]);
    let mut client = world.client();
    for i in 0..100 {
        client.write(i * 4096, &[i as u8 + 1; 512]).unwrap();
    }
    // No flush by the client, and no time for a flush by the daemon.
    world.kill("v");
    world.attach();
    let mut client = world.client();
    for i in 0..100 {
        assert_eq!(client.read(i * 4096, 512).unwrap(), [i as u8 + 1; 512]);
    }
}

#[test]
fn bad_options_are_refused_as_usage_errors() {
    let world = CliSandbox::with_volume();
    for option in [
        ["--via", "iscsi"],
        ["--listen", "somewhere"],
        ["--ack", "never"],
        ["--durability", "never"],
        ["--max-delay", "soon"],
        ["--bypass", "1"],
        ["--metrics", "here"],
        ["--memory", "63MiB"],
    ] {
        let failed = world.refused(&["attach", "v", option[0], option[1]]);
        failed.with(2, &option);
    }
    world.refused(&["attach"]).with(2, &[]);
}

#[test]
fn a_listen_path_that_is_a_regular_file_is_refused() {
    let world = CliSandbox::with_volume();
    fs::write(world.path("taken"), "").unwrap();
    let taken = format!("unix:{}", world.path("taken").display());
    let failed = world.refused(&["attach", "v", "--via", "none", "--listen", &taken]);
    failed.with(4, &["taken", "not a socket"]);
    assert!(
        !world.path("run/v.nbd.sock").exists(),
        "a socket was left behind"
    );
}

#[test]
fn a_port_in_use_is_refused_with_its_address() {
    let world = CliSandbox::with_volume();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (option, value) in [
        ("--listen", format!("tcp:{address}")),
        ("--metrics", address.clone()),
        ("--http", address.clone()),
    ] {
        let failed = world.refused(&["attach", "v", "--via", "none", option, &value]);
        failed.with(4, &[&address, "another program", "another port"]);
    }
}

#[test]
fn a_renamed_volume_is_found_by_its_new_name() {
    let world = CliSandbox::with_volume();
    let described = fs::read_to_string(world.path("etc/v.toml")).unwrap();
    let renamed = described.replace("name = \"v\"", "name = \"w\"");
    assert_ne!(renamed, described);
    fs::write(world.path("etc/w.toml"), renamed).unwrap();
    fs::remove_file(world.path("etc/v.toml")).unwrap();
    world.ok(&["attach", "w", "--via", "none"]);
    let status = world.ok(&["status", "w", "--json"]);
    assert!(status.starts_with("{\"name\":\"w\""), "{status}");
    world.ok(&["detach", "w"]);
}

#[test]
fn an_error_suggests_attach_or_mount_only_for_existing_volumes() {
    let world = CliSandbox::with_volume();
    world.image("files.img", 64 * MIB);
    world.ok(&["create", "--fs", "--name", "f", "--data", "files.img"]);
    for command in ["status", "drain", "detach"] {
        let refused = |name| failed(&[command], &world.run(&[command, name]));
        refused("f").with(3, &["filesystem f is not mounted", "forebay mount f"]);
        refused("v").with(3, &["volume v is not attached", "forebay attach v"]);
        refused("x").with(3, &["no volume x", "forebay list"]);
    }
}

#[test]
fn a_detach_is_refused_while_nbd_clients_are_connected() {
    let world = CliSandbox::with_volume();
    world.attach();
    let client = world.client();
    world
        .refused(&["detach", "v"])
        .with(4, &["1 NBD clients", "disconnect"]);
    drop(client);
    wait_until("the client is gone", || {
        let status: serde_json::Value =
            serde_json::from_str(&world.ok(&["status", "v", "--json"])).unwrap();
        status["nbd_connections"] == 0
    });
    world.ok(&["detach", "v"]);
}

#[test]
fn remove_drains_the_log_erases_it_and_deletes_the_configuration_file() {
    let world = CliSandbox::with_volume();
    world.dirty(MIB, 8, 8192);
    let out = world.ok(&["remove", "v"]);
    assert!(out.contains("removed volume v"), "{out}");
    assert_eq!(world.peek("data.img", MIB, 8192), [8; 8192]);
    assert!(!world.path("etc/v.toml").exists());
    assert_eq!(
        world.run(&["check", "--log", "log.img"]).status.code(),
        Some(3)
    );
    // The log is free for a new volume, without --force.
    world.ok(&[
        "create", "--name", "w", "--data", "data.img", "--log", "log.img",
    ]);
    world.ok(&["remove", "--log", "log.img"]);
    assert!(!world.path("etc/w.toml").exists());
}

#[test]
fn status_prints_text_and_documented_json() {
    let world = CliSandbox::with_volume();
    assert!(world.ok(&["status"]).contains("no volume is attached"));
    world.attach();
    {
        let mut client = world.client();
        client.write(MIB, &[1; 8192]).unwrap();
        client.flush().unwrap();
    }
    let text = world.ok(&["status"]);
    assert!(text.contains("caching") && text.contains("8KiB"), "{text}");
    let status: serde_json::Value = serde_json::from_str(&world.ok(&["status", "--json"])).unwrap();
    assert_eq!(status["schema"], 1);
    assert_eq!(status["dirty_bytes"], 8192);
    assert_eq!(status["pid"], world.pid("v").unwrap());
    let page = include_str!("../../../../docs/status.md");
    for key in status.as_object().unwrap().keys() {
        assert!(page.contains(&format!("| `{key}` |")), "{key}");
    }
    let list: serde_json::Value = serde_json::from_str(&world.ok(&["list", "--json"])).unwrap();
    assert_eq!(list[0]["state"], "attached");
}

#[test]
fn log_and_data_on_one_image_survive_a_crash() {
    let world = CliSandbox::new();
    world.image("disk.img", 128 * MIB);
    let (data, log) = ("disk.img@40MiB+64MiB", "disk.img@0+40MiB");
    world.ok(&["create", "--name", "v", "--data", data, "--log", log]);
    world.dirty(MIB, 5, 4096);
    world.attach();
    assert_eq!(world.client().read(MIB, 4096).unwrap(), [5; 4096]);
    world.ok(&["detach", "v"]);
    assert_eq!(world.peek("disk.img", 41 * MIB, 4096), [5; 4096]);
}

#[test]
fn concurrent_clients_see_the_writes_of_each_other() {
    let world = CliSandbox::with_volume();
    world.attach();
    let mut clients: Vec<BlockingNbdClient> = (0..8).map(|_| world.client()).collect();
    for (i, client) in (0u8..).zip(&mut clients) {
        client.write(u64::from(i) * 4096, &[i + 1; 4096]).unwrap();
    }
    for i in 0u8..8 {
        let other = &mut clients[usize::from(7 - i)];
        assert_eq!(
            other.read(u64::from(i) * 4096, 4096).unwrap(),
            [i + 1; 4096]
        );
    }
}

/// Found in a trial: data beyond the truncation was lost, and `detach` reported the data device as complete.
#[test]
fn a_truncated_data_device_is_not_reported_as_complete() {
    let world = CliSandbox::with_volume();
    world.attach();
    world.client().write(MIB, &[1; 4096]).unwrap();
    let file = fs::File::options().write(true).open(world.path("data.img"));
    let file = file.unwrap();
    file.set_len(32 * MIB).unwrap();
    let text = world.ok(&["status", "v"]);
    assert!(
        text.contains("DAMAGE") && text.contains("was truncated to 32MiB"),
        "{text}"
    );
    // As long as before, filled with zeroes.
    file.set_len(64 * MIB).unwrap();
    let parts = [
        "data device",
        "data.img",
        "was truncated to 32MiB",
        "had 64MiB",
        "lost",
    ];
    let drained = failed(&["drain"], &world.run(&["drain", "v"]));
    drained.with(5, &parts);
    wait_until("the client is gone", || {
        world
            .ok(&["status", "v", "--json"])
            .contains("\"nbd_connections\":0")
    });
    let detached = failed(&["detach"], &world.run(&["detach", "v"]));
    detached.with(5, &parts);
    assert!(detached.said.contains("v is detached"), "{}", detached.said);
    let list = world.ok(&["list"]);
    assert!(list.contains("detached"), "{list}");
}

/// Found in review: a monitoring job that ran `check` during system startup made the attach fail.
#[test]
fn an_attach_waits_for_a_process_that_holds_the_device_for_reading() {
    let world = CliSandbox::with_volume();
    let log = fs::File::open(world.path("log.img")).unwrap();
    let shared = rustix::fs::FlockOperation::NonBlockingLockShared;
    rustix::fs::fcntl_lock(&log, shared).unwrap();
    let mut attach = world.command(&["attach", "v", "--via", "none"]);
    let mut attaching = attach.spawn().unwrap();
    // The sockets are made first, so they show that the attach has begun.
    wait_until("the daemon is at work", || {
        world.path("run/v.sock").exists()
    });
    assert!(attaching.try_wait().unwrap().is_none(), "it did not wait");
    drop(log);
    assert!(attaching.wait().unwrap().success());
    world.ok(&["detach", "v"]);
}
