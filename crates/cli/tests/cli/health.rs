//! The health of volumes in `list`, `status`, `status --check` and the metrics.

use crate::world::{CliSandbox, MIB, signal, texts};

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

/// Runs `status --check`; returns the exit code and the line.
fn checked(world: &CliSandbox, args: &[&str]) -> (i32, String) {
    let args = [&["status", "--check"], args].concat();
    let output = world.run(&args);
    let (out, err) = texts(&output);
    assert_eq!(out.lines().count(), 1, "{out}{err}");
    (output.status.code().unwrap(), out.trim_end().to_owned())
}

fn listed(world: &CliSandbox) -> serde_json::Value {
    json(&world.ok(&["list", "--json"]))[0].clone()
}

#[test]
fn a_healthy_volume_is_ok_in_every_output() {
    let world = CliSandbox::with_volume();
    assert_eq!(listed(&world)["health"], "detached");
    world.attach();
    world.client().write(0, &[1; 8192]).unwrap();
    let status = json(&world.ok(&["status", "v", "--json"]));
    assert_eq!(status["health"], "ok");
    assert_eq!(status["health_severity"], "ok");
    assert!(status["health_detail"].is_null(), "{status}");
    let text = world.ok(&["status", "v"]);
    let first = text.lines().nth(1).unwrap();
    assert_eq!(
        first.split_whitespace().collect::<Vec<_>>(),
        ["health", "ok"]
    );
    let volume = listed(&world);
    assert_eq!(
        (&volume["health"], &volume["health_severity"]),
        (&"ok".into(), &"ok".into())
    );
    let (code, line) = checked(&world, &["v"]);
    assert_eq!(code, 0);
    assert!(line.starts_with("FOREBAY OK - v ok|v_dirty="), "{line}");
    assert!(
        line.contains("B;;;0 v_used=") && line.ends_with("%;;;0;100"),
        "{line}"
    );
    let (code, line) = checked(&world, &[]);
    assert!(code == 0 && line.contains("v ok|"), "{line}");
    world.detach();
    assert_eq!(listed(&world)["health"], "detached");
    let (code, line) = checked(&world, &["v"]);
    assert_eq!(code, 2);
    assert!(line.starts_with("FOREBAY CRITICAL - v detached"), "{line}");
}

#[test]
fn killed_stopped_and_dirty_volumes_have_a_critical_or_warning_health() {
    let world = CliSandbox::with_volume();
    world.dirty(0, 9, 4096);
    let volume = listed(&world);
    assert_eq!(
        (&volume["health"], &volume["state"]),
        (&"dead".into(), &"dead".into())
    );
    assert_eq!(volume["health_severity"], "critical");
    let (code, line) = checked(&world, &[]);
    assert_eq!(code, 2);
    assert!(
        line.contains("v dead: ") && line.contains("forebay attach v"),
        "{line}"
    );
    world.attach();
    {
        let mut client = world.client();
        client.write(0, &[3; 4096]).unwrap();
        client.flush().unwrap();
    }
    crate::world::wait_until("the client is gone", || {
        let status = json(&world.ok(&["status", "v", "--json"]));
        status["nbd_connections"] == 0
    });
    world.ok(&["detach", "v", "--keep-dirty"]);
    let volume = listed(&world);
    assert_eq!(
        (&volume["health"], &volume["state"]),
        (&"dirty".into(), &"detached".into())
    );
    assert_eq!(volume["health_severity"], "warning");
    let detail = volume["health_detail"].as_str().unwrap();
    assert!(
        detail.contains("log.img") && detail.contains("forebay attach v"),
        "{detail}"
    );
    world.attach();
    let pid = world.pid("v").unwrap();
    signal(pid, "STOP");
    let (code, line) = checked(&world, &["v"]);
    signal(pid, "CONT");
    assert_eq!(code, 2);
    assert!(
        line.starts_with("FOREBAY CRITICAL - v unusable: ") && line.contains("stopped"),
        "{line}"
    );
    world.ok(&["detach", "v"]);
    assert_eq!(listed(&world)["health"], "detached");
}

#[test]
fn mistakes_of_the_caller_and_of_configuration_files_have_their_own_exit_codes() {
    let world = CliSandbox::new();
    let (code, line) = checked(&world, &["nothing"]);
    assert_eq!(code, 3);
    assert!(
        line.starts_with("FOREBAY UNKNOWN - no volume nothing"),
        "{line}"
    );
    let output = world.run(&["status", "--check", "--json"]);
    assert_eq!(output.status.code(), Some(3), "{}", texts(&output).1);
    std::fs::create_dir_all(world.path("etc")).unwrap();
    std::fs::write(world.path("etc/v.toml"), "colour = \"blue\"\n").unwrap();
    assert_eq!(listed(&world)["health"], "unusable");
    let (code, line) = checked(&world, &["v"]);
    assert_eq!(code, 2);
    assert!(
        line.contains("v unusable") && line.contains("etc/v.toml"),
        "{line}"
    );
}

#[test]
fn a_nearly_full_volume_is_a_warning_and_a_shorter_device_is_critical() {
    let world = CliSandbox::new();
    world.image("d.img", 40 * MIB);
    world.ok(&[
        "create", "--volume", "vsl", "--data", "d.img", "--size", "1GiB", "--name", "v",
    ]);
    world.attach();
    {
        let mut client = world.client();
        let mut written = 0;
        // Up to the mode itself: the capacity depends on the number of extents.
        while json(&world.ok(&["status", "v", "--json"]))["mode"] == "serving" {
            assert!(written < 40 * MIB, "the device is smaller");
            client.write(written, &[5; 1 << 18]).unwrap();
            written += 1 << 18;
        }
        client.flush().unwrap();
    }
    assert_eq!(listed(&world)["health"], "nearly_full");
    let (code, line) = checked(&world, &["v"]);
    assert_eq!(code, 1, "{line}");
    assert!(
        line.starts_with("FOREBAY WARNING - v nearly_full: "),
        "{line}"
    );
    let share = line
        .split("v_used=")
        .nth(1)
        .unwrap()
        .split('%')
        .next()
        .unwrap();
    let share: f64 = share.parse().unwrap();
    assert!((90.0..99.0).contains(&share), "{line}");
    let file = std::fs::File::options()
        .write(true)
        .open(world.path("d.img"))
        .unwrap();
    file.set_len(30 * MIB).unwrap();
    let status = json(&world.ok(&["status", "v", "--json"]));
    assert_eq!(
        (&status["health"], &status["health_severity"]),
        (&"damaged".into(), &"critical".into())
    );
    assert_eq!(checked(&world, &["v"]).0, 2);
}
