//! The page of `attach --http`, over a plain socket and in a real browser.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use forebay_nbd::client::BlockingNbdClient;

use crate::world::{CliSandbox, MIB, output, skip, texts, wait_until};

/// Possible names of the browser. Debian's package `chromium-headless-shell` has the first.
const BROWSERS: [&str; 4] = [
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
];
/// A file name that would run as a script if it was taken for a part of the page.
const HOSTILE: &str = "a<img src=x onerror=alert(1)>.img";

/// Attaches `v` with a page; returns its host and port.
fn attach(world: &CliSandbox) -> String {
    world.ok(&["attach", "v", "--via", "none", "--http", "0"]);
    let status = world.ok(&["status", "v", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let page = status["http"].as_str().unwrap();
    let address = page
        .strip_prefix("http://")
        .and_then(|page| page.strip_suffix('/'));
    let address = address.unwrap().to_owned();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    address
}

fn get(address: &str, host: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn page_report_and_metrics_are_served_only_under_a_local_host_name() {
    let world = CliSandbox::with_volume();
    let address = attach(&world);
    world.client().write(0, &[1; 512]).unwrap();
    let page = get(&address, &address, "/");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    assert!(
        page.contains("Content-Security-Policy: default-src 'none';"),
        "{page}"
    );
    let report = get(&address, "localhost", "/status.json");
    let (_, report) = report.split_once("\r\n\r\n").unwrap();
    let report: serde_json::Value = serde_json::from_str(report).unwrap();
    assert_eq!(
        (&report["name"], &report["writes"]),
        (&"v".into(), &1.into())
    );
    let metrics = get(&address, &address, "/metrics");
    assert!(
        metrics.contains("forebay_writes_total{volume=\"v\",layer=\"cache\"} 1\n"),
        "{metrics}"
    );
    for path in ["/", "/status.json", "/metrics"] {
        let refused = get(&address, "evil.example", path);
        assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    }
    let said = world.ok(&["status", "v"]);
    assert!(said.contains(&format!("http://{address}/")), "{said}");
}

/// Returns the value of the first sample whose line begins with `sample`.
fn sample(metrics: &str, sample: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(sample));
    let value = line.unwrap_or_else(|| panic!("no {sample} in {metrics}"));
    value.trim().parse().unwrap()
}

#[test]
fn a_thousand_concurrent_scrapes_during_writes_are_each_complete_and_consistent() {
    let world = CliSandbox::with_volume();
    let address = attach(&world);
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                let mut before = 0.0;
                for _ in 0..100 {
                    let metrics = get(&address, "localhost", "/metrics");
                    let of_layer = "{volume=\"v\",layer=\"cache\"";
                    let writes = sample(&metrics, &format!("forebay_writes_total{of_layer}}}"));
                    let latency = "forebay_write_latency_seconds";
                    let count = sample(&metrics, &format!("{latency}_count{of_layer}}}"));
                    let all = sample(
                        &metrics,
                        &format!("{latency}_bucket{of_layer},le=\"+Inf\"}}"),
                    );
                    assert!(writes >= before, "{writes} after {before}");
                    assert_eq!(count.to_bits(), all.to_bits(), "{metrics}");
                    assert!(metrics.contains("\nforebay_mode{"), "{metrics}");
                    before = writes;
                }
            });
        }
        let mut client = world.client();
        for n in 0..500 {
            client.write(n * 4096, &[1; 4096]).unwrap();
        }
    });
    let metrics = get(&address, "localhost", "/metrics");
    let writes = sample(
        &metrics,
        "forebay_writes_total{volume=\"v\",layer=\"cache\"}",
    );
    assert!((writes - 500.0).abs() < 0.5, "{writes}");
}

#[test]
fn slow_and_endless_http_requests_do_not_block_other_clients() {
    let world = CliSandbox::with_volume();
    let address = attach(&world);
    // More clients than are served at a time, most of them in the middle of a request.
    let slow: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut stream = TcpStream::connect(&address).unwrap();
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: loc");
            stream
        })
        .collect();
    world.client().write(0, &[1; 512]).unwrap();
    world.ok(&["status", "v"]);
    drop(slow);
    wait_until("there is room again", || {
        get(&address, "localhost", "/").starts_with("HTTP/1.1 200")
    });
    // A head without an end gets no answer.
    let mut endless = TcpStream::connect(&address).unwrap();
    let _ = endless.write_all(&[b'a'; 32 << 10]);
    let mut nothing = Vec::new();
    let _ = endless.read_to_end(&mut nothing);
    assert!(nothing.is_empty());
    assert!(get(&address, "localhost", "/").starts_with("HTTP/1.1 200"));
}

#[test]
fn the_http_address_is_configurable_and_also_serves_metrics() {
    let world = CliSandbox::with_volume();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let description = std::fs::read_to_string(world.path("etc/v.toml")).unwrap();
    let with = format!("{description}\nhttp = \"{address}\"\nmetrics = \"{address}\"\n");
    std::fs::write(world.path("etc/v.toml"), with).unwrap();
    world.attach();
    assert!(get(&address, "localhost", "/").contains(" 200 OK"));
    assert!(get(&address, "localhost", "/metrics").contains("forebay_writes_total{"));
    world.ok(&["detach", "v"]);
    let args = ["attach", "v", "--http", "somewhere"];
    world.refused(&args).with(2, &["--http", "somewhere"]);
    // The message suggests a valid form.
    let args = ["attach", "v", "--http", "99999"];
    let refused = world.refused(&args);
    refused.with(2, &["write PORT or ADDRESS:PORT with a port up to 65535"]);
}

/// Returns the browser on this system.
fn browser(test: &str) -> Option<&'static str> {
    let there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let found = BROWSERS.into_iter().find(there);
    if found.is_none() {
        skip(
            test,
            &format!("none of {} is installed", BROWSERS.join(", ")),
        );
    }
    found
}

/// Returns the page after its script has run for some seconds of the browser's virtual time, and the browser's console
/// output.
fn dump_page(world: &CliSandbox, browser: &str, more: &[&str], url: &str) -> (String, String) {
    let mut command = Command::new(browser);
    command
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ])
        .arg(format!(
            "--user-data-dir={}",
            world.path("browser").display()
        ))
        .args([
            "--virtual-time-budget=6000",
            "--enable-logging=stderr",
            "--dump-dom",
        ])
        .args(more)
        .arg(url);
    let ran = output(&mut command).unwrap();
    let (page, said) = texts(&ran);
    assert!(ran.status.success(), "{}: {said}", ran.status);
    (page, said)
}

#[test]
fn a_browser_shows_live_changes_and_runs_no_script_from_a_name() {
    let name = "a_browser_shows_live_changes_and_runs_no_script_from_a_name";
    let Some(browser) = browser(name) else { return };
    let world = CliSandbox::new();
    world.data(HOSTILE, 64 * MIB);
    world.image("log.img", 40 * MIB);
    world.ok(&[
        "create", "--name", "v", "--data", HOSTILE, "--log", "log.img",
    ]);
    let address = attach(&world);
    world.client().write(0, &[1; 8192]).unwrap();
    let (page, said) = dump_page(&world, browser, &[], &format!("http://{address}/"));
    for part in [
        "<title>v – Forebay</title>",
        "<b id=\"name\">v</b>",
        "<span id=\"mode\" class=\"\">caching</span>",
        // Rates, so the page has asked more than once.
        "<td>writes</td><td>0/s</td><td>0B/s</td>",
        " of data not on the data device yet",
        "<polyline points=\"",
        // The last answer was valid.
        "<p id=\"state\" class=\"dim\">at ",
        // The name, as text.
        "a&lt;img src=x onerror=alert(1)&gt;.img",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("<img"), "{page}");
    // A browser reports policy violations and script errors on its console.
    assert!(!said.contains("CONSOLE"), "{said}");
}

/// Opens the page of the volume `name` in the browser, and checks that the page shows values and no script failed.
fn shown(world: &CliSandbox, browser: &str, name: &str) -> String {
    let status = world.ok(&["status", name, "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let url = status["http"].as_str().unwrap();
    let (page, said) = dump_page(world, browser, &[], url);
    assert!(!said.contains("CONSOLE"), "{said}");
    let (body, _) = page.split_once("<script").unwrap();
    for wrong in ["NaN", "undefined", "null", "Infinity", "[object"] {
        assert!(!body.contains(wrong), "{wrong}: {body}");
    }
    for part in [
        &format!("<b id=\"name\">{name}</b>")[..],
        "<p id=\"state\" class=\"dim\">at ",
        "<dt>memory</dt>",
    ] {
        assert!(body.contains(part), "{part}: {body}");
    }
    body.to_owned()
}

#[test]
fn a_browser_shows_every_kind_of_block_volume() {
    let Some(browser) = browser("a_browser_shows_every_kind_of_block_volume") else {
        return;
    };
    let world = CliSandbox::new();
    for (image, len) in [
        ("a", 64),
        ("b", 64),
        ("c", 64),
        ("l", 40),
        ("s", 8),
        ("t", 16),
    ] {
        world.image(&format!("{image}.img"), len * MIB);
    }
    let vsl = ["create", "--volume", "vsl", "--size", "1GiB"];
    world.ok(&[&vsl[..], &["--data", "a.img", "--name", "thin"]].concat());
    world.ok(&[
        &vsl[..],
        &["--data", "b.img", "--log", "l.img", "--name", "both"],
    ]
    .concat());
    let span = [
        "create", "--volume", "span", "--data", "s.img", "--second", "t.img",
    ];
    world.ok(&[&span[..], &["--name", "span"]].concat());
    for (name, parts) in [
        (
            "thin",
            &[
                "mapped",
                "placement ",
                "<td>by checkpoints</td>",
                "<td>trims</td>",
            ][..],
        ),
        (
            "both",
            &[
                "of the log in use",
                "<h2>below: volume</h2>",
                "<td>destaged</td>",
                "mapped",
            ],
        ),
        ("span", &["7MiB on the first device, 15MiB on the second"]),
    ] {
        world.ok(&["attach", name, "--via", "none", "--http", "0"]);
        let socket = world.path("run").join(format!("{name}.nbd.sock"));
        let mut client = BlockingNbdClient::connect(&socket, name).unwrap();
        client.write(4096, &[1; 65536]).unwrap();
        client.flush().unwrap();
        drop(client);
        let body = shown(&world, browser, name);
        for part in parts {
            assert!(body.contains(part), "{name}: {part}: {body}");
        }
        assert!(body.contains("<span id=\"mode\" class=\"\">"), "{body}");
        let rows = body.matches("<polyline points=\"").count();
        assert!((rows > 5) != (name == "span"), "{name}: {body}");
        world.kill(name);
    }
}

#[test]
fn a_browser_shows_a_filesystem() {
    let name = "a_browser_shows_a_filesystem";
    let (Some(browser), Some(world)) = (browser(name), crate::files::world(name)) else {
        return;
    };
    world.ok(&["mount", "f", "mnt", "--http", "0"]);
    std::fs::write(world.path("mnt/file"), vec![7; 100_000]).unwrap();
    let body = shown(&world, browser, "f");
    for part in [
        "used</div>",
        "<dt>mounted</dt>",
        "<td>syncs</td>",
        "<td>changes</td>",
        "<h2>below: volume</h2>",
        "<span id=\"mode\" class=\"\">serving</span>",
    ] {
        assert!(body.contains(part), "{part}: {body}");
    }
    assert!(!body.contains("<dt>nbd</dt>"), "{body}");
    world.unmount("mnt");
}

#[test]
fn the_history_begins_with_the_daemon_and_not_with_the_page() {
    let world = CliSandbox::with_volume();
    let address = attach(&world);
    world.client().write(0, &[1; 65536]).unwrap();
    let history = || {
        let answer = get(&address, "localhost", "/history.json");
        let (_, history) = answer.split_once("\r\n\r\n").unwrap().to_owned();
        serde_json::from_str::<serde_json::Value>(history).unwrap()
    };
    let sum = |history: &serde_json::Value, flow: usize| -> f64 {
        let rates = history["layers"][0]["rates"][flow].as_array().unwrap();
        rates.iter().map(|rate| rate.as_f64().unwrap()).sum()
    };
    wait_until("the write is in the history", || {
        sum(&history(), 1) > 60_000.0
    });
    let history = history();
    assert_eq!(history["layers"][0]["label"], "cache");
    assert_eq!(
        (&history["every_s"], &history["samples_max"]),
        (&1.into(), &300.into())
    );
    let Some(browser) = browser("the_history_begins_with_the_daemon_and_not_with_the_page") else {
        return;
    };
    let body = shown(&world, browser, "v");
    // The write happened before the page was opened: its sparkline rises above the base line.
    let row = body.split("<td>writes</td>").nth(1).unwrap();
    let points = row
        .split("points=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let is_high = |point: &str| !point.ends_with(",19.00");
    assert!(points.split(' ').any(is_high), "{points}");
}

#[test]
fn a_browser_that_comes_under_a_foreign_host_name_sees_no_data() {
    let name = "a_browser_that_comes_under_a_foreign_host_name_sees_no_data";
    let Some(browser) = browser(name) else { return };
    let world = CliSandbox::with_volume();
    let address = attach(&world);
    let (_, port) = address.rsplit_once(':').unwrap();
    let led = ["--host-resolver-rules=MAP evil.example 127.0.0.1"];
    let url = format!("http://evil.example:{port}/status.json");
    let (page, _) = dump_page(&world, browser, &led, &url);
    assert!(page.contains("for this machine only"), "{page}");
    assert!(!page.contains("data.img"), "{page}");
}
