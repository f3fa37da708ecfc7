//! Tests of closed standard input and output.

use std::path::Path;
use std::process::Command;

use crate::support::{is_gnu, scratch};

/// Outcome of a shell script.
#[derive(Debug)]
struct ShellOutcome {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Runs a script in `dir`, with `tool` in place of `TOOL`.
fn run(dir: &Path, script: &str, tool: &str) -> ShellOutcome {
    let output = Command::new("sh")
        .args(["-c", &script.replace("TOOL", tool)])
        .env("LC_ALL", "C")
        .current_dir(dir)
        .output()
        .expect("a shell");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let err = text(&output.stderr).replace("sleds ", "");
    ShellOutcome {
        code: output.status.code(),
        out: text(&output.stdout),
        err,
    }
}

#[test]
fn a_closed_standard_file_has_the_outcome_of_the_gnu_programs() {
    let name = "a_closed_standard_file_has_the_outcome_of_the_gnu_programs";
    let dir = scratch();
    std::fs::write(dir.path().join("f"), "text\n").expect("a file");
    let scripts = [
        ("wc", "TOOL f >&-"),
        ("wc", "TOOL -l - f <&-"),
        ("wc", "TOOL --version >&-"),
        ("wc", "TOOL --files0-from=- <&-"),
        ("cat", "TOOL f >&-"),
        ("cat", "TOOL - f <&-"),
        ("grep", "TOOL t f >&-"),
        ("grep", "TOOL -c t f >&-"),
        ("grep", "TOOL -l t f >&-"),
        ("grep", "TOOL -q t f >&-"),
        ("grep", "TOOL z f >&-"),
        ("grep", "TOOL --help >&-"),
        ("grep", "TOOL t <&-"),
        ("grep", "TOOL -f - f <&-"),
        ("find", "TOOL f >&-"),
        ("find", "TOOL f -printf %p >&-"),
        ("find", "TOOL --help >&-"),
        ("find", "TOOL -files0-from - <&-"),
        ("find", "TOOL f -name g >&-"),
    ];
    let sleds = env!("CARGO_BIN_EXE_sleds");
    for (tool, script) in scripts {
        if is_gnu(name, tool) {
            let ours = run(dir.path(), script, &format!("{sleds} {tool}"));
            let gnu = run(dir.path(), script, tool);
            let first = |outcome: &ShellOutcome| outcome.err.lines().next().map(str::to_owned);
            assert_eq!(
                (ours.code, &ours.out, first(&ours)),
                (gnu.code, &gnu.out, first(&gnu)),
                "{tool}: {script}"
            );
        }
    }
}

#[test]
fn a_closed_output_is_an_error_of_tools_without_a_gnu_program() {
    let dir = scratch();
    std::fs::write(dir.path().join("f"), "text\n").expect("a file");
    let scripts = [
        "TOOL --help >&-",
        "TOOL show f >&-",
        "TOOL show --json f >&-",
        "TOOL show --help >&-",
        "TOOL watch --once f >&-",
        "TOOL watch --once --json f >&-",
        "TOOL man >&-",
        "TOOL completions bash >&-",
        "TOOL fits --help >&-",
        "TOOL bench --help >&-",
    ];
    for script in scripts {
        let outcome = run(dir.path(), script, env!("CARGO_BIN_EXE_sleds"));
        assert_eq!(outcome.code, Some(1), "{script}: {outcome:?}");
        assert!(outcome.err.contains("Bad file descriptor"), "{outcome:?}");
    }
}
