//! Structure of the book: its table of contents, and the page of all commands.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::project;
use crate::system::tool;
use crate::world::{CliSandbox, output, skip};

const COMMANDS: &str = "docs/reference/commands.md";

/// Collects the paths of Markdown pages below a directory, from that directory on.
fn collect(directory: &Path, beginning: &str, into: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        let path = format!("{beginning}{name}");
        if entry.path().is_dir() {
            collect(&entry.path(), &format!("{path}/"), into);
        } else if name.ends_with(".md") && name != "SUMMARY.md" {
            into.insert(path);
        }
    }
}

#[test]
fn the_table_of_contents_has_every_page_once() {
    let docs = project().join("docs");
    let mut pages = BTreeSet::new();
    collect(&docs, "", &mut pages);
    let contents = fs::read_to_string(docs.join("SUMMARY.md")).expect("a table of contents");
    let links = contents.lines().flat_map(|line| {
        let targets = line.split("](").skip(1);
        targets.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()))
    });
    let mut listed = BTreeSet::new();
    for link in links {
        assert!(listed.insert(link.clone()), "SUMMARY.md lists {link} twice");
    }
    assert_eq!(listed, pages);
}

/// Pages that readers of the book alone must understand do not link out of the book.
#[test]
fn the_pages_of_the_manual_link_only_to_pages_of_the_book() {
    for directory in ["guide", "operate", "reference"] {
        let mut pages = BTreeSet::new();
        collect(&project().join("docs").join(directory), "", &mut pages);
        for page in pages {
            let path = project().join("docs").join(directory).join(&page);
            let text = fs::read_to_string(path).expect("a page");
            assert!(
                !text.contains("](../../"),
                "docs/{directory}/{page} links out of docs"
            );
        }
    }
}

#[test]
fn the_page_of_commands_has_the_help_of_the_program() {
    let sandbox = CliSandbox::new();
    let general = sandbox.ok(&["--help"]);
    let list = general.split("Commands:").nth(1).expect("commands");
    let names = list
        .lines()
        .skip(1)
        .take_while(|line| !line.trim().is_empty());
    let names = names
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|&name| name != "help");
    let mut page = String::from(
        "# Commands\n\nThis page contains the help of the program `forebay`. A test compares both.\n",
    );
    let mut section = |title: &str, help: &str| {
        writeln!(page, "\n## {title}\n\n```text\n{}\n```", help.trim_end()).expect("a string");
    };
    section("forebay", &general);
    for name in names {
        section(&format!("forebay {name}"), &sandbox.ok(&[name, "--help"]));
    }
    let path = project().join(COMMANDS);
    if std::env::var_os("FOREBAY_WRITE_DOCS").is_some() {
        fs::write(&path, &page).expect("written");
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "{COMMANDS} differs; FOREBAY_WRITE_DOCS=1 cargo test -p forebay-cli --test guide commands writes it"
    );
}

#[test]
fn mdbook_builds_the_book() {
    if tool("mdbook", &["--version"]).is_none() {
        skip("mdbook_builds_the_book", "mdbook is not installed");
        return;
    }
    let sandbox = CliSandbox::new();
    let mut build = Command::new("mdbook");
    build
        .args(["build", "--dest-dir"])
        .arg(sandbox.path("book"));
    build.arg(project().join("docs"));
    let built = output(&mut build).expect("mdbook runs");
    assert!(built.status.success(), "{built:?}");
    let said = String::from_utf8_lossy(&built.stderr).into_owned();
    assert!(!said.contains("ERROR"), "{said}");
}
