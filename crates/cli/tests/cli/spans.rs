//! Spans: two devices, one after the other, as one volume.

use crate::world::{CliSandbox, MIB};

const CREATE: [&str; 8] = [
    "create", "--volume", "span", "--name", "v", "--data", "a.img", "--second",
];

/// Returns a world with the span `v` of 7 MiB and 15 MiB of data.
fn world() -> CliSandbox {
    let world = CliSandbox::new();
    world.image("a.img", 8 * MIB);
    world.image("b.img", 16 * MIB);
    let said = world.ok(&[&CREATE[..], &["b.img"]].concat());
    assert!(said.contains("22MiB long"), "{said}");
    world
}

#[test]
fn data_over_the_boundary_survives_a_kill_and_an_attach_by_the_first_device() {
    let world = world();
    world.attach();
    let mut client = world.client();
    assert_eq!(client.len(), 22 * MIB);
    let boundary = 7 * MIB;
    client.write(boundary - 4096, &[7; 8192]).unwrap();
    client.flush().unwrap();
    let text = world.ok(&["status", "v"]);
    assert!(
        text.contains("7MiB on the first, 15MiB on the second"),
        "{text}"
    );
    let status: serde_json::Value =
        serde_json::from_str(&world.ok(&["status", "v", "--json"])).unwrap();
    assert_eq!(
        (&status["layer"], &status["first_bytes"]),
        (&"span".into(), &(7 * MIB).into())
    );
    drop(client);
    world.kill("v");
    assert_eq!(world.peek("a.img", 8 * MIB - 4096, 4096), [7; 4096]);
    assert_eq!(world.peek("b.img", MIB, 4096), [7; 4096]);
    let checked = world.ok(&["check", "v"]);
    assert!(checked.contains("22MiB long"), "{checked}");
    // The first device records the path of the second.
    world.ok(&["attach", "--data", "a.img", "--via", "none"]);
    let read = world.client().read(boundary - 4096, 8192).unwrap();
    assert_eq!(read, [7; 8192]);
    world.detach();
}

#[test]
fn devices_of_other_spans_and_in_the_wrong_order_are_refused() {
    let world = world();
    for (data, second, code, part) in [
        ("a.img", "a.img", 4, "the same device"),
        ("b.img", "a.img", 4, "not the two devices of one span"),
    ] {
        let args = [
            "attach", "--data", data, "--second", second, "--via", "none",
        ];
        world.refused(&args).with(code, &[part]);
    }
    world.image("c.img", 16 * MIB);
    let args = [
        "attach", "--data", "a.img", "--second", "c.img", "--via", "none",
    ];
    world
        .refused(&args)
        .with(3, &["c.img", "second device of a span"]);
    world
        .refused(&[&CREATE[..], &["c.img", "--bypass", "64KiB", "--force"]].concat())
        .with(2, &["--bypass is not an option of a span"]);
    world
        .refused(&[
            "create", "--volume", "span", "--data", "c.img", "--name", "w",
        ])
        .with(2, &["--second PATH"]);
    world
        .refused(&["tune", "v", "--placement", "lfs"])
        .with(2, &["no placement"]);
}

#[test]
fn a_removed_span_leaves_no_trace_on_either_device() {
    let world = world();
    let create = |device: &'static str, name: &'static str| {
        let args = ["create", "--volume", "vsl", "--segment", "128KiB"];
        [&args[..], &["--data", device, "--name", name]].concat()
    };
    world
        .refused(&["remove", "v"])
        .with(4, &["LOSES all data on", "a.img", "b.img", "--force"]);
    world
        .refused(&create("b.img", "other"))
        .with(4, &["b.img", "a part of the Forebay span"]);
    world.ok(&["remove", "v", "--force"]);
    // Without --force, so nothing was found on the devices.
    world.ok(&create("a.img", "first"));
    world.ok(&create("b.img", "other"));
}

#[test]
fn a_span_with_a_truncated_or_damaged_device_is_refused() {
    let world = world();
    let attach = ["attach", "v", "--via", "none"];
    let second = world.path("b.img");
    let whole = std::fs::File::options().write(true).open(second).unwrap();
    whole.set_len(16 * MIB - 4096).unwrap();
    world
        .refused(&attach)
        .with(4, &["b.img", "its part of the span ends at 16777216"]);
    whole.set_len(16 * MIB).unwrap();
    // One damaged copy of the superblock does no harm, two do.
    world.poke("b.img", 40, &[0xff; 8]);
    world.attach();
    world.detach();
    world.poke("b.img", (512 << 10) + 40, &[0xff; 8]);
    world
        .refused(&attach)
        .with(3, &["b.img", "second device of a span", "checksum"]);
}
