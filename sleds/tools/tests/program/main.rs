//! Tests of help, completions and manual pages of the whole program.

mod closed;
mod old_kernel;
#[path = "../support/mod.rs"]
mod support;

use std::process::{Command, Output};

fn sleds(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sleds"));
    command.args(args).output().expect("sleds to run")
}

/// Returns the output of a successful run.
fn told(args: &[&str]) -> String {
    let output = sleds(args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn help_names_every_tool_and_each_tool_has_help() {
    let help = told(&["--help"]);
    for tool in ["wc", "cat", "grep", "find"] {
        assert!(help.contains(&format!("  {tool} ")), "{tool}: {help}");
    }
    assert!(told(&["wc", "--help"]).contains("--files0-from <F>"));
    assert!(told(&["wc", "--help"]).contains("Exit codes"));
    assert!(told(&["cat", "--help"]).contains("--unordered"));
    assert!(told(&["wc", "--version"]).starts_with("sleds wc (Forebay) "));
}

#[test]
fn an_unknown_tool_is_a_usage_error() {
    let output = sleds(&["wcc"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("wc"));
}

#[test]
fn an_unknown_plan_is_refused_with_the_list_of_plans() {
    let output = sleds(&["wc", "--plan=fast", "/dev/null"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("'fast'") && said.contains("linear"), "{said}");
}

#[test]
fn completions_are_printed_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let completions = told(&["completions", shell]);
        assert!(completions.contains("files0-from"), "{shell}");
    }
    assert_eq!(sleds(&["completions", "dos"]).status.code(), Some(2));
}

#[test]
fn manual_pages_are_printed_singly_or_written_all_to_a_directory() {
    let page = told(&["man"]);
    assert!(page.contains(".TH SLEDS 1"), "{page}");
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let out = dir.path().join("pages");
    told(&["man", "--out", out.to_str().unwrap()]);
    let wc = std::fs::read_to_string(out.join("sleds-wc.1")).unwrap();
    assert!(
        wc.contains("files0") && wc.contains(".TH SLEDS-WC 1"),
        "{wc}"
    );
    assert!(out.join("sleds-cat.1").exists());
    for tool in ["show", "warm", "evict", "lock"] {
        let page = std::fs::read_to_string(out.join(format!("sleds-{tool}.1"))).unwrap();
        assert!(
            page.contains(".SH EXAMPLES") && page.contains(r#".SH "EXIT STATUS""#),
            "{page}"
        );
    }
}
