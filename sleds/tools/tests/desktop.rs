//! Tests of the panel in the file manager, in a real window on a separate display.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

const SLEDS: &str = env!("CARGO_BIN_EXE_sleds");
const NAME: &str = "the_file_properties_show_the_output_of_sleds_show";

/// Returns the first missing requirement.
fn lacking() -> Option<String> {
    let found = |program: &str| {
        let there = Command::new("sh")
            .args(["-c", &format!("command -v {program}")])
            .output();
        there.is_ok_and(|output| output.status.success())
    };
    for program in [
        "nautilus",
        "xvfb-run",
        "dbus-run-session",
        "xdotool",
        "/usr/bin/python3",
    ] {
        if !found(program) {
            return Some(format!("{program} is not installed"));
        }
    }
    let import = "import gi; gi.require_version('Atspi', '2.0'); \
                  gi.require_version('Nautilus', '4.0')";
    let python = Command::new("/usr/bin/python3")
        .args(["-c", import])
        .output();
    match python {
        Ok(output) if output.status.success() => None,
        _ => Some("Python lacks the modules for Nautilus 4.0 or Atspi".into()),
    }
}

#[test]
fn the_file_properties_show_the_output_of_sleds_show() {
    if let Some(why) = lacking() {
        let _ = std::io::stderr().write_all(format!("SKIPPED: {NAME}: {why}\n").as_bytes());
        return;
    }
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = directory.path().join("a file.bin");
    std::fs::write(&file, vec![7; 3 << 20]).unwrap();
    let said = Command::new(SLEDS)
        .args(["show", "--json"])
        .arg(&file)
        .output()
        .unwrap();
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(said["sleds"][0]["level"], "memory");

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../desktop/nautilus/window_test.py");
    let mut window = Command::new("xvfb-run");
    window.args([
        "-a",
        "-s",
        "-screen 0 900x1000x24",
        "dbus-run-session",
        "--",
    ]);
    window
        .args(["/usr/bin/python3"])
        .arg(script)
        .arg(SLEDS)
        .arg(&file);
    // Renews the picture in the documents.
    window.args(std::env::var_os("SLEDS_SCREENSHOT"));
    let shown = window.output().unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&shown.stdout),
        String::from_utf8_lossy(&shown.stderr),
    );
    assert!(shown.status.success(), "{out}{err}");
    let texts = out
        .lines()
        .find(|line| line.starts_with('['))
        .expect("a line of texts");
    let texts: Vec<String> = serde_json::from_str(texts).unwrap();
    let value_of = |name: &str| {
        let at = texts.iter().position(|text| text == name);
        at.map_or_else(
            || panic!("no {name} in {texts:?}"),
            |at| texts[at + 1].as_str(),
        )
    };
    assert_eq!(value_of("In memory"), "3.0 MiB of 3.0 MiB");
    assert!(
        value_of("3.0 MiB at 0 B").starts_with("memory: "),
        "{texts:?}"
    );
    let linear = value_of("Whole file, in order");
    assert!(
        linear.contains('s') && !linear.contains("unknown"),
        "{texts:?}"
    );
}
