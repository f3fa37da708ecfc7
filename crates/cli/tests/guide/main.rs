//! Executes the commands that the manual shows, and checks the structure of the book.
//!
//! The pages of docs/guide and docs/operate, and README.md, show commands in fenced blocks with the language `console`.
//! `page.rs` reads a page into steps. `names.rs` replaces example devices and directories (`/dev/sdb1`, `/srv`) by
//! scratch ones. `stage.rs` performs the steps as root. A command that fails, or that prints other lines than the page
//! shows, fails the test. `book.rs` checks the table of contents and the page of all commands.
//!
//! Blocks:
//!
//! - `console`: each line after `# ` or `$ ` is a command, and must succeed. A `\` at the end continues it. The lines up
//!   to the next command must be in its output, in this order. `…` stands for any text, and spaces are compared as one.
//! - `console,fails`: the same, but each command must fail.
//! - `console,norun`: not executed. The line before the block must be `<!-- test: norun REASON -->`.
//!
//! Comments that readers of the page do not see, each on a line of its own:
//!
//! - `<!-- test: fresh -->` ends all volumes of the page, and continues with empty devices.
//! - `<!-- test: needs PROGRAM… -->` skips the steps up to the next `fresh` if a program is not installed.
//! - `<!-- test: run COMMAND -->` executes a command.
//! - `<!-- test: disk PATH SIZE -->` sets the size of a device before its first use (else 1 GiB).
//! - `<!-- test: file PATH SIZE -->` makes the device a part of a file, so that `break` can fail it.
//! - `<!-- test: grow PATH SIZE -->` lengthens a device.
//! - `<!-- test: lose PATH -->` removes a device.
//! - `<!-- test: break VOLUME -->` fails the writes of a volume to devices made by `file`, and `mend VOLUME` ends that.
//! - `<!-- test: kill VOLUME -->` kills the daemon of a volume.

mod book;
mod names;
mod page;
mod stage;

#[path = "../cli/system.rs"]
mod system;
#[path = "../cli/world.rs"]
mod world;

use std::fs;
use std::path::{Path, PathBuf};

use crate::page::{GuidePage, PageStep};
use crate::stage::GuideStage;
use crate::system::can_serve_loop;

/// Maximum number of commands that the manual shows and this test does not execute.
const NOT_RUN_MAX: usize = 19;

/// Returns the root directory of the project.
fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the pages with commands: path from the root of the project, and contents.
fn pages() -> Vec<(String, GuidePage)> {
    let mut paths = vec!["README.md".to_owned()];
    for directory in ["docs/guide", "docs/operate"] {
        let entries = fs::read_dir(project().join(directory)).expect("a directory of the book");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let names = names.filter_map(|name| name.into_string().ok());
        paths.extend(names.map(|name| format!("{directory}/{name}")));
    }
    paths.retain(|path| path.ends_with(".md"));
    paths.sort();
    let read = |path: String| {
        let text = fs::read_to_string(project().join(&path)).expect("a page");
        let page = GuidePage::parse(&text).unwrap_or_else(|problem| panic!("{path}:{problem}"));
        (path, page)
    };
    paths.into_iter().map(read).collect()
}

/// Executes the steps of all pages whose path has this beginning.
fn execute(test: &str, beginning: &str) {
    if !can_serve_loop(test) {
        return;
    }
    for (path, page) in pages() {
        if !path.starts_with(beginning) {
            continue;
        }
        let mut stage = GuideStage::new();
        for (line, step) in &page.steps {
            if let Err(problem) = stage.perform(step) {
                panic!("{path}:{line}: {problem}");
            }
        }
    }
}

#[test]
fn the_commands_of_the_readme_do_as_shown() {
    execute("the_commands_of_the_readme_do_as_shown", "README.md");
}

#[test]
fn the_commands_of_the_guide_do_as_shown() {
    execute("the_commands_of_the_guide_do_as_shown", "docs/guide/");
}

#[test]
fn the_commands_of_the_operating_pages_do_as_shown() {
    execute(
        "the_commands_of_the_operating_pages_do_as_shown",
        "docs/operate/",
    );
}

#[test]
fn a_command_that_fails_is_an_error_unless_the_page_shows_a_failure() {
    if !can_serve_loop("a_command_that_fails_is_an_error_unless_the_page_shows_a_failure") {
        return;
    }
    let mut stage = GuideStage::new();
    for (command, fails, is_right) in [
        ("forebay list", false, true),
        ("forebay list", true, false),
        ("forebay attach missing", false, false),
        ("forebay attach missing", true, true),
    ] {
        let step = PageStep::Show {
            command: command.to_owned(),
            output: Vec::new(),
            fails,
        };
        assert_eq!(stage.perform(&step).is_ok(), is_right, "{command}");
    }
}

#[test]
fn few_commands_are_not_executed_and_each_has_a_reason() {
    let (mut executed, mut not_run) = (0, Vec::new());
    for (path, page) in pages() {
        for (line, step) in page.steps {
            match step {
                PageStep::Show { .. } => executed += 1,
                PageStep::NotRun { reason, commands } => {
                    not_run.push((path.clone(), line, reason, commands));
                }
                PageStep::Hidden { .. } => {}
            }
        }
    }
    for (path, line, reason, commands) in &not_run {
        println!("{path}:{line}: {commands} command(s) not executed: {reason}");
    }
    let count: usize = not_run.iter().map(|(.., commands)| commands).sum();
    println!("{executed} commands executed, {count} not");
    assert!(
        count <= NOT_RUN_MAX,
        "{count} commands are not executed, limit {NOT_RUN_MAX}"
    );
}
