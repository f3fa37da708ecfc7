//! What a search is to do.

use std::ffi::OsString;

use sleds::Plan;

use super::glob;

/// How patterns are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Matcher {
    Basic,
    Extended,
    Fixed,
    Perl,
}

/// What to do with files that are not text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Binary {
    /// Say that they match, and not where.
    #[default]
    Named,
    Text,
    WithoutMatch,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Color {
    #[default]
    Never,
    Always,
    /// On a terminal.
    Auto,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Directories {
    #[default]
    Read,
    Recurse,
    Skip,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Devices {
    /// Those that are named on the command line, or by a followed link, are read.
    #[default]
    Named,
    Read,
    Skip,
}

/// Which files to name instead of lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Listing {
    #[default]
    None,
    Matching,
    Nonmatching,
}

/// Names to leave out, or the only ones to take.
#[derive(Clone, Debug, Default)]
pub(super) struct Globs(Vec<(Vec<u8>, bool)>);

impl Globs {
    pub(super) fn add(&mut self, glob: &[u8], include: bool) {
        self.0.push((glob.to_vec(), include));
    }

    /// True if the name is left out. Of the globs that it matches, the last decides; if there is
    /// none, the name is left out if the first glob lists names to take. A glob for a name that is
    /// `named` on the command line may match from any `/` on.
    pub(super) fn exclude(&self, name: &[u8], named: bool) -> bool {
        for (glob, include) in self.0.iter().rev() {
            if glob::matches(glob, name, named) {
                return !include;
            }
        }
        self.0.first().is_some_and(|(_, include)| *include)
    }
}

/// A search, as the command line asks for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Config {
    pub(super) patterns: Vec<Vec<u8>>,
    pub(super) matcher: Option<Matcher>,
    pub(super) icase: bool,
    pub(super) whole_words: bool,
    pub(super) whole_lines: bool,
    pub(super) eol: u8,
    pub(super) no_messages: bool,
    pub(super) invert: bool,
    pub(super) max_count: u64,
    pub(super) byte_offset: bool,
    pub(super) line_number: bool,
    pub(super) line_buffered: bool,
    pub(super) with_filename: Option<bool>,
    pub(super) label: Option<OsString>,
    pub(super) only_matching: bool,
    pub(super) quiet: bool,
    pub(super) binary: Binary,
    pub(super) directories: Directories,
    pub(super) devices: Devices,
    pub(super) dereference: bool,
    pub(super) file_globs: Globs,
    pub(super) directory_globs: Globs,
    pub(super) listing: Listing,
    pub(super) count: bool,
    pub(super) initial_tab: bool,
    pub(super) null_names: bool,
    pub(super) before: Option<u64>,
    pub(super) after: Option<u64>,
    pub(super) separator: Option<Vec<u8>>,
    pub(super) color: Color,
    pub(super) plan: Plan,
    pub(super) files: Vec<OsString>,
    /// Search the working directory, whose name is not shown.
    pub(super) here: bool,
    /// What to warn about before anything else.
    pub(super) warnings: Vec<Vec<u8>>,
    /// Lines are in UTF-8.
    pub(super) utf8: bool,
    /// `quiet` because nobody reads what is printed.
    pub(super) nobody: bool,
}

impl Config {
    /// What holds unless an option says otherwise.
    pub(super) fn new() -> Config {
        Config {
            eol: b'\n',
            max_count: u64::MAX,
            separator: Some(b"--".to_vec()),
            ..Config::default()
        }
    }

    /// True if one selected line says all there is to say about a file.
    pub(super) fn first_is_enough(&self) -> bool {
        self.quiet || self.listing != Listing::None
    }

    /// Nobody reads what is printed, so only the exit code matters.
    pub(super) fn quiet_for_nobody(&mut self) {
        self.nobody = !self.quiet;
        self.quiet = true;
    }

    /// True if lines around selected ones are asked for, be it none of them.
    pub(super) fn has_context(&self) -> bool {
        self.before.is_some() || self.after.is_some()
    }
}
