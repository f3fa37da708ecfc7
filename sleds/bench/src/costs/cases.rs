//! Compared commands, their input files, and the state of these files in the page cache.

/// A command that both `GNU` and `sleds` accept.
pub(super) struct CostCase {
    /// Name of the program; `sleds TOOL` for our side.
    pub(super) tool: &'static str,
    pub(super) args: &'static [&'static str],
    /// True if the command is also measured on uncached files. Reading then takes most of the time, so other commands
    /// would give similar results.
    pub(super) cold: bool,
}

const fn case(tool: &'static str, args: &'static [&'static str]) -> CostCase {
    CostCase {
        tool,
        args,
        cold: false,
    }
}

const fn cold(tool: &'static str, args: &'static [&'static str]) -> CostCase {
    CostCase {
        tool,
        args,
        cold: true,
    }
}

/// All commands. `grep` searches for `forebay`, which occurs from the beginning on, for each `penstock`, which occurs
/// once somewhere in a large text, and for `spillway`, which does not occur.
pub(super) const CASES: &[CostCase] = &[
    cold("wc", &[]),
    cold("wc", &["-l"]),
    case("wc", &["-w"]),
    case("wc", &["-c"]),
    case("wc", &["-m"]),
    cold("wc", &["-L"]),
    cold("grep", &["forebay"]),
    cold("grep", &["-c", "forebay"]),
    cold("grep", &["-n", "forebay"]),
    case("grep", &["-v", "forebay"]),
    case("grep", &["-F", "-x", "forebay"]),
    case("grep", &["-o", "a[a-z]*"]),
    cold("grep", &["-i", "FOREBAY"]),
    case("grep", &["-E", "forebay|penstock07|sluice"]),
    case("grep", &["q[aeiou][xyz]"]),
    case("grep", &["-w", "forebay"]),
    case("grep", &["-c", r"\(ab\)c*\1"]),
    case("grep", &["e"]),
    case("grep", &["-n", "e"]),
    case("grep", &["spillway"]),
    cold("grep", &["-q", "forebay"]),
    cold("grep", &["-q", "penstock07"]),
    case(
        "grep",
        &[
            "-e",
            "forebay",
            "-e",
            "penstock01",
            "-e",
            "spillway",
            "-e",
            "tailrace",
        ],
    ),
];

impl CostCase {
    /// Returns the command in shell notation.
    pub(super) fn title(&self) -> String {
        let quoted = |arg: &&str| {
            if arg.contains(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
                format!("'{arg}'")
            } else {
                (*arg).to_owned()
            }
        };
        let args = self.args.iter().map(quoted);
        let words: Vec<_> = std::iter::once(self.tool.to_owned()).chain(args).collect();
        words.join(" ")
    }
}

/// State of the files in the page cache before a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PageCacheState {
    Cached,
    /// The second half of each file is cached.
    Half,
    Uncached,
    /// Nothing is cached, and the disk is slow.
    Throttled,
}

pub(super) const STATES: [(PageCacheState, &str, &str); 4] = [
    (PageCacheState::Cached, "cached", "all cached"),
    (PageCacheState::Half, "half", "second half cached"),
    (PageCacheState::Uncached, "uncached", "none cached"),
    (
        PageCacheState::Throttled,
        "throttled",
        "none cached, slow disk",
    ),
];

impl PageCacheState {
    /// Returns the limit for the ratio of our time to GNU's.
    pub(super) fn bar(self) -> f64 {
        match self {
            PageCacheState::Cached => 1.00,
            _ => 1.02,
        }
    }
}

/// Kinds of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum InputKind {
    Large,
    Medium,
    Tiny,
    Many,
    Tree,
    Long,
    Scripts,
    Binary,
}

pub(super) const INPUTS: [(InputKind, &str, &str); 8] = [
    (InputKind::Large, "large", "a large text"),
    (InputKind::Medium, "medium", "a text of 1 MiB"),
    (InputKind::Tiny, "tiny", "a text of 64 bytes"),
    (InputKind::Many, "many", "2,000 texts of 4 KiB"),
    (InputKind::Tree, "tree", "a directory of them (grep -r)"),
    (InputKind::Long, "long", "lines of 4 MiB"),
    (InputKind::Scripts, "scripts", "text in several scripts"),
    (InputKind::Binary, "binary", "random bytes"),
];

impl InputKind {
    /// Returns true if a command is measured on this input in a state.
    pub(super) fn takes(self, case: &CostCase, state: PageCacheState) -> bool {
        let readable = self != InputKind::Tree || case.tool == "grep";
        let slow_enough = state != PageCacheState::Throttled || self == InputKind::Large;
        let differs = state != PageCacheState::Half
            || !matches!(self, InputKind::Tiny | InputKind::Many | InputKind::Tree);
        readable && slow_enough && differs && (case.cold || state == PageCacheState::Cached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_can_be_pasted_into_a_shell() {
        let title = |args| case("grep", args).title();
        assert_eq!(title(&["-o", "a[a-z]*"]), "grep -o 'a[a-z]*'");
        assert_eq!(title(&["-n", "e"]), "grep -n e");
        assert_eq!(case("wc", &[]).title(), "wc");
    }

    #[test]
    fn only_grep_gets_directories() {
        let (wc, grep) = (case("wc", &[]), case("grep", &["e"]));
        assert!(!InputKind::Tree.takes(&wc, PageCacheState::Cached));
        assert!(InputKind::Tree.takes(&grep, PageCacheState::Cached));
        assert!(!InputKind::Large.takes(&grep, PageCacheState::Uncached));
    }
}
