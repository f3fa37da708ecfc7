//! Configuration of a search.

use std::ffi::OsString;

use sleds::ReadPlan;

use super::glob;

/// Syntax of the patterns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PatternSyntax {
    Basic,
    Extended,
    Fixed,
    Perl,
}

/// Treatment of files that are not text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum BinaryTreatment {
    /// Report a match without its line.
    #[default]
    Named,
    Text,
    WithoutMatch,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum ColorWhen {
    #[default]
    Never,
    Always,
    /// On a terminal.
    Auto,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum DirectoryTreatment {
    #[default]
    Read,
    Recurse,
    Skip,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum DeviceTreatment {
    /// Read devices that the command line names, or that a followed link leads to.
    #[default]
    Named,
    Read,
    Skip,
}

/// Files to list instead of lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum FileListing {
    #[default]
    None,
    Matching,
    Nonmatching,
}

/// Globs of names to exclude, or of the only names to include.
#[derive(Clone, Debug, Default)]
pub(super) struct NameGlobs(Vec<(Vec<u8>, bool)>);

impl NameGlobs {
    pub(super) fn add(&mut self, glob: &[u8], include: bool) {
        self.0.push((glob.to_vec(), include));
    }

    /// Returns true if the name is excluded. The last matching glob decides. Without a matching glob, the name is
    /// excluded if the first glob is an inclusion. A glob for a name that is `named` on the command line may match
    /// after any `/`.
    pub(super) fn exclude(&self, name: &[u8], named: bool) -> bool {
        for (glob, include) in self.0.iter().rev() {
            if glob::matches(glob, name, named) {
                return !include;
            }
        }
        self.0.first().is_some_and(|(_, include)| *include)
    }
}

/// A search, as the command line requests it.
#[derive(Clone, Debug, Default)]
pub(super) struct GrepConfig {
    pub(super) patterns: Vec<Vec<u8>>,
    pub(super) matcher: Option<PatternSyntax>,
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
    pub(super) binary: BinaryTreatment,
    pub(super) directories: DirectoryTreatment,
    pub(super) devices: DeviceTreatment,
    pub(super) dereference: bool,
    pub(super) file_globs: NameGlobs,
    pub(super) directory_globs: NameGlobs,
    pub(super) listing: FileListing,
    pub(super) count: bool,
    pub(super) initial_tab: bool,
    pub(super) null_names: bool,
    pub(super) before: Option<u64>,
    pub(super) after: Option<u64>,
    pub(super) separator: Option<Vec<u8>>,
    pub(super) color: ColorWhen,
    pub(super) plan: ReadPlan,
    pub(super) files: Vec<OsString>,
    /// Search the working directory, whose name is not printed.
    pub(super) here: bool,
    /// Warnings to print first.
    pub(super) warnings: Vec<Vec<u8>>,
    /// Lines are in UTF-8.
    pub(super) utf8: bool,
    /// Holes are not read, since their empty lines are neither selected nor printed.
    pub(super) skip_holes: bool,
    /// `quiet` is set because the output has no reader.
    pub(super) nobody: bool,
}

impl GrepConfig {
    /// Returns the defaults.
    pub(super) fn new() -> GrepConfig {
        GrepConfig {
            eol: b'\n',
            max_count: u64::MAX,
            separator: Some(b"--".to_vec()),
            ..GrepConfig::default()
        }
    }

    /// Returns true if one selected line decides the output for a file.
    pub(super) fn first_is_enough(&self) -> bool {
        self.quiet || self.listing != FileListing::None
    }

    /// Returns true if a zero byte ends a line, as in binary files. With `-z`, it does so anyway.
    pub(super) fn ends_lines_at_zeros(&self) -> bool {
        self.binary != BinaryTreatment::Text && self.eol != 0
    }

    /// Suppresses the output, since it has no reader. Only the exit code matters.
    pub(super) fn quiet_for_nobody(&mut self) {
        self.nobody = !self.quiet;
        self.quiet = true;
    }

    /// Returns true if context lines are requested, even zero of them.
    pub(super) fn has_context(&self) -> bool {
        self.before.is_some() || self.after.is_some()
    }
}
