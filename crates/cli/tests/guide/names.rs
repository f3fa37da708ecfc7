//! Example devices and directories of the manual, and their scratch replacements.

use std::path::{Path, PathBuf};

/// Directories that the pages name, and the directories in a sandbox that take their place.
const DIRECTORIES: [(&str, &str); 6] = [
    ("/etc/forebay", "etc"),
    ("/run/forebay", "run"),
    ("/var/lib/forebay", "state"),
    ("/dev/forebay", "dev"),
    ("/srv", "srv"),
    ("/mnt", "mnt"),
];
/// Beginnings of the paths of example devices.
const DEVICES: [&str; 3] = ["/dev/sd", "/dev/nvme", "/dev/vg"];

/// Paths of the pages with their replacements.
pub(crate) struct ExampleNames {
    pairs: Vec<(String, String)>,
}

impl ExampleNames {
    pub(crate) fn new(sandbox: &Path) -> ExampleNames {
        let pair = |(shown, scratch): (&str, &str)| {
            let scratch = sandbox.join(scratch).display().to_string();
            (shown.to_owned(), scratch)
        };
        ExampleNames {
            pairs: DIRECTORIES.map(pair).to_vec(),
        }
    }

    /// Adds a device with its replacement. The last replacement of a device is the one in commands.
    pub(crate) fn add(&mut self, shown: &str, scratch: String) {
        self.pairs.push((shown.to_owned(), scratch));
    }

    /// Returns the replacement of a path.
    pub(crate) fn scratch(&self, shown: &str) -> Option<PathBuf> {
        let pair = self.pairs.iter().rev().find(|pair| pair.0 == shown)?;
        Some(PathBuf::from(&pair.1))
    }

    /// Replaces the examples in a command.
    pub(crate) fn to_scratch(&self, text: &str) -> String {
        let pairs = self.pairs.iter().rev();
        replaced(text, pairs.map(|(from, to)| (&**from, &**to)).collect())
    }

    /// Replaces scratch paths in an output by the examples of the page.
    pub(crate) fn to_shown(&self, text: &str) -> String {
        let pairs = self.pairs.iter().map(|(to, from)| (&**from, &**to));
        replaced(text, pairs.collect())
    }
}

/// Returns the example devices in a command, each as often as it is named.
pub(crate) fn devices(command: &str) -> Vec<&str> {
    let starts = command.match_indices("/dev/").map(|(at, _)| at);
    let words = starts.map(|at| {
        let rest = &command[at..];
        let end = rest.find(|c: char| !is_of_name(c) && c != '/');
        &rest[..end.unwrap_or(rest.len())]
    });
    let is_example = |word: &&str| DEVICES.iter().any(|start| word.starts_with(start));
    words.filter(is_example).collect()
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || "_-".contains(c)
}

/// Replaces whole paths, and paths below them. The longest match wins.
fn replaced(text: &str, mut pairs: Vec<(&str, &str)>) -> String {
    pairs.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
    let (mut result, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        let before = result.chars().next_back();
        let is_start = before.is_none_or(|c| !is_of_name(c) && c != '.' && c != '/');
        let matched = pairs.iter().find(|(from, _)| {
            let after = rest.strip_prefix(from).map(|rest| rest.chars().next());
            is_start && after.is_some_and(|next| next.is_none_or(|c| !is_of_name(c)))
        });
        if let Some((from, to)) = matched {
            result.push_str(to);
            rest = &rest[from.len()..];
        } else {
            result.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    result
}

#[test]
fn names_are_replaced_as_whole_paths_in_both_directions() {
    let mut names = ExampleNames::new(Path::new("/s"));
    names.add("/dev/sdb1", "/s/disks/sdb1".to_owned());
    let command = "x /dev/sdb1@0+1GiB /dev/sdb12 --on=/srv/a /usr/srv /mnt; /dev/forebay/a";
    let there = names.to_scratch(command);
    assert_eq!(
        there,
        "x /s/disks/sdb1@0+1GiB /dev/sdb12 --on=/s/srv/a /usr/srv /s/mnt; /s/dev/a"
    );
    assert_eq!(names.to_shown(&there), command);
    assert_eq!(
        devices("a /dev/sdb1@0+8GiB /dev/null '/dev/vg/data'"),
        ["/dev/sdb1", "/dev/vg/data"]
    );
}
