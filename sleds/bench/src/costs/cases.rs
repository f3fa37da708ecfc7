//! Compared commands, their input files, and the state of these files in the page cache.

/// A command that both `GNU` and `sleds` accept.
pub(super) struct Case {
    /// Name of the program; `sleds TOOL` for our side.
    pub(super) tool: &'static str,
    pub(super) args: &'static [&'static str],
    /// True if the command is also measured on uncached files. Reading then takes most of the time, so other commands
    /// would give similar results.
    pub(super) cold: bool,
}

const fn case(tool: &'static str, args: &'static [&'static str]) -> Case {
    Case {
        tool,
        args,
        cold: false,
    }
}

const fn cold(tool: &'static str, args: &'static [&'static str]) -> Case {
    Case {
        tool,
        args,
        cold: true,
    }
}

/// All commands. `grep` searches for `forebay`, which occurs from the beginning on, for each `penstock`, which occurs
/// once somewhere in a large text, and for `spillway`, which does not occur.
pub(super) const CASES: &[Case] = &[
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

impl Case {
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
pub(super) enum State {
    Cached,
    /// The second half of each file is cached.
    Half,
    Uncached,
    /// Nothing is cached, and the disk is slow.
    Throttled,
}

pub(super) const STATES: [(State, &str, &str); 4] = [
    (State::Cached, "cached", "all cached"),
    (State::Half, "half", "second half cached"),
    (State::Uncached, "uncached", "none cached"),
    (State::Throttled, "throttled", "none cached, slow disk"),
];

impl State {
    /// Returns the limit for the ratio of our time to GNU's.
    pub(super) fn bar(self) -> f64 {
        match self {
            State::Cached => 1.00,
            _ => 1.02,
        }
    }
}

/// Kinds of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Input {
    Large,
    Medium,
    Tiny,
    Many,
    Tree,
    Long,
    Scripts,
    Binary,
}

pub(super) const INPUTS: [(Input, &str, &str); 8] = [
    (Input::Large, "large", "a large text"),
    (Input::Medium, "medium", "a text of 1 MiB"),
    (Input::Tiny, "tiny", "a text of 64 bytes"),
    (Input::Many, "many", "2,000 texts of 4 KiB"),
    (Input::Tree, "tree", "a directory of them (grep -r)"),
    (Input::Long, "long", "lines of 4 MiB"),
    (Input::Scripts, "scripts", "text in several scripts"),
    (Input::Binary, "binary", "random bytes"),
];

impl Input {
    /// Returns true if a command is measured on this input in a state.
    pub(super) fn takes(self, case: &Case, state: State) -> bool {
        let readable = self != Input::Tree || case.tool == "grep";
        let slow_enough = state != State::Throttled || self == Input::Large;
        let differs =
            state != State::Half || !matches!(self, Input::Tiny | Input::Many | Input::Tree);
        readable && slow_enough && differs && (case.cold || state == State::Cached)
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
    fn directories_are_for_grep() {
        let (wc, grep) = (case("wc", &[]), case("grep", &["e"]));
        assert!(!Input::Tree.takes(&wc, State::Cached));
        assert!(Input::Tree.takes(&grep, State::Cached));
        assert!(!Input::Large.takes(&grep, State::Uncached));
    }
}
