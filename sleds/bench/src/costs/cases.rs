//! What is compared: commands, the files that they read, and what of those is cached before.

/// A command as `GNU` and `sleds` both take it.
pub(super) struct Case {
    /// The program, which is `sleds TOOL` in ours.
    pub(super) tool: &'static str,
    pub(super) args: &'static [&'static str],
    /// It is measured on files that are not cached, too. There reading takes the time, so that it
    /// would say the same of all.
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

/// All commands. Of the words that `grep` looks for, `forebay` is there from the beginning, each
/// `penstock` once somewhere in a large text, and `spillway` nowhere.
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
    /// As one writes it in a shell.
    pub(super) fn title(&self) -> String {
        let quoted =
            |arg: &&str| match arg.contains(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
                true => format!("'{arg}'"),
                false => (*arg).to_owned(),
            };
        let args = self.args.iter().map(quoted);
        let words: Vec<_> = std::iter::once(self.tool.to_owned()).chain(args).collect();
        words.join(" ")
    }
}

/// What of the files is cached when a command begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Cached,
    /// The second half of each file.
    Half,
    Uncached,
    /// Nothing, and the disk is slow.
    Throttled,
}

pub(super) const STATES: [(State, &str, &str); 4] = [
    (State::Cached, "cached", "all cached"),
    (State::Half, "half", "second half cached"),
    (State::Uncached, "uncached", "none cached"),
    (State::Throttled, "throttled", "none cached, slow disk"),
];

impl State {
    /// The ratio to GNU's time that ours must not exceed.
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
    /// Whether a command is measured on it in a state.
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
