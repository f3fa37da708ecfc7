//! The command line of `sleds grep`, which is that of GNU grep.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use clap::Command;

use super::config::{
    BinaryTreatment, ColorWhen, DeviceTreatment, DirectoryTreatment, FileListing, GrepConfig,
    NameGlobs, PatternSyntax,
};
use super::patterns::PatternSet;
use sleds_common::gnu::{self, OptionArgument, ParsedArgument, ToolOption, UsageError};
use sleds_common::plan;

/// Identifier of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum GrepOption {
    Basic,
    Extended,
    Fixed,
    Perl,
    Regexp,
    File,
    IgnoreCase,
    NoIgnoreCase,
    Words,
    Lines,
    NullData,
    NoMessages,
    Invert,
    Version,
    Help,
    MaxCount,
    ByteOffset,
    LineNumber,
    LineBuffered,
    WithFilename,
    NoFilename,
    Label,
    OnlyMatching,
    Quiet,
    BinaryFiles,
    Text,
    NoBinary,
    Directories,
    Devices,
    Recursive,
    Dereference,
    Include,
    Exclude,
    ExcludeFrom,
    ExcludeDir,
    ListNot,
    List,
    Count,
    InitialTab,
    Null,
    Before,
    After,
    Context,
    Digit(u8),
    Separator,
    NoSeparator,
    Color,
    BinaryMode,
    UnixOffsets,
    Plan,
}

const fn digit(n: u8) -> ToolOption<GrepOption> {
    ToolOption::new(
        GrepOption::Digit(n),
        b'0' + n,
        None,
        OptionArgument::None,
        "",
    )
}

#[rustfmt::skip]
const TABLE: [ToolOption<GrepOption>; 63] = [
    ToolOption::flag(GrepOption::Basic, b'G', "basic-regexp", "Patterns are basic regular expressions (the default)"),
    ToolOption::flag(GrepOption::Extended, b'E', "extended-regexp", "Patterns are extended regular expressions"),
    ToolOption::flag(GrepOption::Fixed, b'F', "fixed-strings", "Patterns are the text to look for"),
    ToolOption::new(GrepOption::Fixed, 0, Some("fixed-regexp"), OptionArgument::None, ""),
    ToolOption::flag(GrepOption::Perl, b'P', "perl-regexp", "The pattern is a regular expression of Perl's"),
    ToolOption::with(GrepOption::Regexp, b'e', "regexp", "PATTERNS", "Look for PATTERNS, one on each line"),
    ToolOption::with(GrepOption::File, b'f', "file", "FILE", "Take patterns from FILE"),
    ToolOption::flag(GrepOption::IgnoreCase, b'i', "ignore-case", "Small and capital letters are the same"),
    ToolOption::new(GrepOption::IgnoreCase, b'y', None, OptionArgument::None, ""),
    ToolOption::flag(GrepOption::NoIgnoreCase, 0, "no-ignore-case", "They are not (the default)"),
    ToolOption::flag(GrepOption::Words, b'w', "word-regexp", "Matches are whole words"),
    ToolOption::flag(GrepOption::Lines, b'x', "line-regexp", "Matches are whole lines"),
    ToolOption::flag(GrepOption::NullData, b'z', "null-data", "Lines end in a zero byte"),
    ToolOption::flag(GrepOption::Invert, b'v', "invert-match", "Select lines that do not match"),
    ToolOption::with(GrepOption::MaxCount, b'm', "max-count", "NUM", "Stop after NUM selected lines of a file"),
    ToolOption::flag(GrepOption::ByteOffset, b'b', "byte-offset", "Print where lines begin, in bytes"),
    ToolOption::flag(GrepOption::LineNumber, b'n', "line-number", "Print the numbers of lines"),
    ToolOption::flag(GrepOption::LineBuffered, 0, "line-buffered", "Write out each line at once"),
    ToolOption::flag(GrepOption::WithFilename, b'H', "with-filename", "Print the names of files with lines"),
    ToolOption::flag(GrepOption::NoFilename, b'h', "no-filename", "Do not"),
    ToolOption::with(GrepOption::Label, 0, "label", "NAME", "What to call standard input"),
    ToolOption::flag(GrepOption::OnlyMatching, b'o', "only-matching", "Print only what matches, each match on a line"),
    ToolOption::flag(GrepOption::Quiet, b'q', "quiet", "Print nothing; the exit code says whether a line is selected"),
    ToolOption::new(GrepOption::Quiet, 0, Some("silent"), OptionArgument::None, ""),
    ToolOption::with(GrepOption::BinaryFiles, 0, "binary-files", "TYPE", "Take binary files as 'binary', 'text' or 'without-match'"),
    ToolOption::flag(GrepOption::Text, b'a', "text", "The same as --binary-files=text"),
    ToolOption::new(GrepOption::NoBinary, b'I', None, OptionArgument::None, "The same as --binary-files=without-match"),
    ToolOption::with(GrepOption::Directories, b'd', "directories", "ACTION", "What to do with directories: 'read', 'recurse' or 'skip'"),
    ToolOption::with(GrepOption::Devices, b'D', "devices", "ACTION", "What to do with devices, FIFOs and sockets: 'read' or 'skip'"),
    ToolOption::flag(GrepOption::Recursive, b'r', "recursive", "Read all files in directories"),
    ToolOption::flag(GrepOption::Dereference, b'R', "dereference-recursive", "The same, and follow symbolic links"),
    ToolOption::with(GrepOption::Include, 0, "include", "GLOB", "Read only files whose names match GLOB"),
    ToolOption::with(GrepOption::Exclude, 0, "exclude", "GLOB", "Skip files whose names match GLOB"),
    ToolOption::with(GrepOption::ExcludeFrom, 0, "exclude-from", "FILE", "Skip files whose names match a line of FILE"),
    ToolOption::with(GrepOption::ExcludeDir, 0, "exclude-dir", "GLOB", "Skip directories whose names match GLOB"),
    ToolOption::flag(GrepOption::ListNot, b'L', "files-without-match", "Print only the names of files without selected lines"),
    ToolOption::flag(GrepOption::List, b'l', "files-with-matches", "Print only the names of files with selected lines"),
    ToolOption::flag(GrepOption::Count, b'c', "count", "Print only how many lines are selected, for each file"),
    ToolOption::flag(GrepOption::InitialTab, b'T', "initial-tab", "Put a tab before a line's text"),
    ToolOption::flag(GrepOption::Null, b'Z', "null", "End names of files with a zero byte"),
    ToolOption::with(GrepOption::Before, b'B', "before-context", "NUM", "Print NUM lines before each selected one"),
    ToolOption::with(GrepOption::After, b'A', "after-context", "NUM", "Print NUM lines after each selected one"),
    ToolOption::with(GrepOption::Context, b'C', "context", "NUM", "Print NUM lines before and after; -NUM is the same"),
    digit(0), digit(1), digit(2), digit(3), digit(4),
    digit(5), digit(6), digit(7), digit(8), digit(9),
    ToolOption::with(GrepOption::Separator, 0, "group-separator", "SEP", "Print SEP between groups of lines ('--')"),
    ToolOption::flag(GrepOption::NoSeparator, 0, "no-group-separator", "Print nothing between them"),
    ToolOption::flag(GrepOption::NoMessages, b's', "no-messages", "Do not complain about files that cannot be read"),
    ToolOption::new(GrepOption::Color, 0, Some("color"), OptionArgument::Optional("WHEN"), "Mark what matches: 'always', 'never' or 'auto'"),
    ToolOption::new(GrepOption::Color, 0, Some("colour"), OptionArgument::Optional("WHEN"), ""),
    ToolOption::flag(GrepOption::BinaryMode, b'U', "binary", "Has no effect on this system"),
    ToolOption::new(GrepOption::UnixOffsets, b'u', Some("unix-byte-offsets"), OptionArgument::None, ""),
    plan::option(GrepOption::Plan),
    ToolOption::flag(GrepOption::Help, 0, "help", "Print this help"),
    ToolOption::flag(GrepOption::Version, b'V', "version", "Print the version"),
];

pub(super) fn command() -> Command {
    let base = Command::new("grep")
        .about("Prints lines that match patterns, as GNU grep does, reading what is cheap first")
        .override_usage("sleds grep [OPTION]... PATTERNS [FILE]...")
        .arg(clap::Arg::new("PATTERNS").help("What to look for, unless -e or -f says it"))
        .arg(
            clap::Arg::new("FILE")
                .num_args(0..)
                .help("Files; '-' is standard input, and so is none at all, or '.' with -r"),
        )
        .after_help(
            "Files are read in the order that costs least; lines are printed in the order of the \
             file. With -q, -l and -L reading ends at the first line found, wherever it \
             is.\n\nExit codes: 0, a line is selected; 1, none is; 2, something went wrong.",
        );
    gnu::command(base, &TABLE)
}

/// Action that the command line requests.
pub(super) enum GrepRequest {
    Help,
    Version,
    Search(Box<GrepConfig>),
    /// Missing arguments: print only the hint.
    Nothing,
}

/// Reasons for rejecting the command line.
pub(super) enum GrepUsageError {
    /// Message with a hint about usage.
    Usage(UsageError),
    /// Message with a hint, for an unknown argument of an option.
    Argument(UsageError),
    /// Message without a hint.
    Plain(Vec<u8>),
}

impl From<UsageError> for GrepUsageError {
    fn from(usage: UsageError) -> GrepUsageError {
        GrepUsageError::Usage(usage)
    }
}

fn plain(text: impl AsRef<[u8]>) -> GrepUsageError {
    GrepUsageError::Plain(text.as_ref().to_vec())
}

/// State of the parser.
#[derive(Default)]
struct GrepParser {
    config: GrepConfig,
    patterns: PatternSet,
    given: bool,
    context: Option<u64>,
    recursed_by_option: bool,
    help: bool,
    version: bool,
}

/// Parses the command line.
pub(super) fn parse(args: Vec<OsString>, permute: bool) -> Result<GrepRequest, GrepUsageError> {
    let mut state = GrepParser {
        config: GrepConfig::new(),
        ..GrepParser::default()
    };
    let mut operands = Vec::new();
    // Adjacent digits in one word form a number.
    let (mut digits, mut digits_in) = (0u64, 0);
    for (word, item) in gnu::parse_words(&TABLE, args, permute)? {
        if std::mem::replace(&mut digits_in, word) != word {
            digits = 0;
        }
        match item {
            ParsedArgument::Option(GrepOption::Digit(digit), _) => {
                digits = digits.saturating_mul(10).saturating_add(u64::from(digit));
                state.context = Some(digits);
            }
            ParsedArgument::Option(id, value) => {
                digits = 0;
                state.option(id, &value.unwrap_or_default())?;
            }
            ParsedArgument::Operand(operand) => operands.push(operand),
        }
    }
    if state.version {
        return Ok(GrepRequest::Version);
    }
    if state.help {
        return Ok(GrepRequest::Help);
    }
    if !state.given && operands.is_empty() {
        return Ok(GrepRequest::Nothing);
    }
    if !state.given {
        state.add_operand(operands.remove(0).as_bytes());
    }
    Ok(GrepRequest::Search(Box::new(state.into_config(operands))))
}

impl GrepParser {
    /// Uses the first operand as the pattern.
    fn add_operand(&mut self, text: &[u8]) {
        // GNU grep removes this backslash, so that a pattern may begin with `-`.
        let escaped = self.config.matcher != Some(PatternSyntax::Fixed) && text.starts_with(b"\\-");
        self.patterns.add(&text[usize::from(escaped)..]);
    }

    fn into_config(self, files: Vec<OsString>) -> GrepConfig {
        let mut config = self.config;
        config.patterns = self.patterns.into_list();
        config.before = config.before.or(self.context);
        config.after = config.after.or(self.context);
        let recurses = config.directories == DirectoryTreatment::Recurse && self.recursed_by_option;
        config.here = files.is_empty() && recurses;
        config.files = files;
        config
    }

    /// Applies an option. Options about patterns are here.
    fn option(&mut self, id: GrepOption, value: &OsStr) -> Result<(), GrepUsageError> {
        let config = &mut self.config;
        match id {
            GrepOption::Basic => return self.matcher(PatternSyntax::Basic),
            GrepOption::Extended => return self.matcher(PatternSyntax::Extended),
            GrepOption::Fixed => return self.matcher(PatternSyntax::Fixed),
            GrepOption::Perl => return self.matcher(PatternSyntax::Perl),
            GrepOption::Regexp => {
                self.given = true;
                self.patterns.add(value.as_bytes());
            }
            GrepOption::File => {
                self.given = true;
                self.patterns.add_file(value).map_err(plain)?;
            }
            GrepOption::IgnoreCase => config.icase = true,
            GrepOption::NoIgnoreCase => config.icase = false,
            GrepOption::Words => config.whole_words = true,
            GrepOption::Lines => config.whole_lines = true,
            GrepOption::NullData => config.eol = 0,
            GrepOption::NoMessages => config.no_messages = true,
            GrepOption::Invert => config.invert = true,
            GrepOption::Version => self.version = true,
            GrepOption::Help => self.help = true,
            GrepOption::MaxCount => config.max_count = max_count(value)?,
            GrepOption::Quiet => config.quiet = true,
            GrepOption::BinaryFiles => config.binary = binary_files(value)?,
            GrepOption::Text => config.binary = BinaryTreatment::Text,
            GrepOption::NoBinary => config.binary = BinaryTreatment::WithoutMatch,
            GrepOption::Plan => config.plan = plan::named(value)?,
            _ => return self.printing(id, value),
        }
        Ok(())
    }

    /// Applies an option about the output.
    fn printing(&mut self, id: GrepOption, value: &OsStr) -> Result<(), GrepUsageError> {
        let config = &mut self.config;
        match id {
            GrepOption::ByteOffset => config.byte_offset = true,
            GrepOption::LineNumber => config.line_number = true,
            GrepOption::LineBuffered => config.line_buffered = true,
            GrepOption::WithFilename => config.with_filename = Some(true),
            GrepOption::NoFilename => config.with_filename = Some(false),
            GrepOption::Label => config.label = Some(value.to_owned()),
            GrepOption::OnlyMatching => config.only_matching = true,
            GrepOption::ListNot => config.listing = FileListing::Nonmatching,
            GrepOption::List => config.listing = FileListing::Matching,
            GrepOption::Count => config.count = true,
            GrepOption::InitialTab => config.initial_tab = true,
            GrepOption::Null => config.null_names = true,
            GrepOption::Before => config.before = Some(context(value)?),
            GrepOption::After => config.after = Some(context(value)?),
            GrepOption::Context => self.context = Some(context(value)?),
            GrepOption::Separator => config.separator = Some(value.as_bytes().to_vec()),
            GrepOption::NoSeparator => config.separator = None,
            GrepOption::Color => self.color(value),
            GrepOption::UnixOffsets => {
                let text = b"warning: --unix-byte-offsets (-u) is obsolete";
                config.warnings.push(text.to_vec());
            }
            _ => return self.files(id, value),
        }
        Ok(())
    }

    /// Applies an option about the files to read.
    fn files(&mut self, id: GrepOption, value: &OsStr) -> Result<(), GrepUsageError> {
        let config = &mut self.config;
        match id {
            GrepOption::Directories => {
                let table = [
                    ("read", DirectoryTreatment::Read),
                    ("recurse", DirectoryTreatment::Recurse),
                    ("skip", DirectoryTreatment::Skip),
                ];
                config.directories = gnu::one_of("--directories", value, &table)
                    .map_err(GrepUsageError::Argument)?;
                self.recursed_by_option |= config.directories == DirectoryTreatment::Recurse;
            }
            GrepOption::Devices => {
                config.devices = match value.as_bytes() {
                    b"read" => DeviceTreatment::Read,
                    b"skip" => DeviceTreatment::Skip,
                    _ => return Err(plain("unknown devices method")),
                };
            }
            GrepOption::Recursive | GrepOption::Dereference => {
                config.directories = DirectoryTreatment::Recurse;
                config.dereference = id == GrepOption::Dereference;
                self.recursed_by_option = true;
            }
            GrepOption::Include => config.file_globs.add(value.as_bytes(), true),
            GrepOption::Exclude => config.file_globs.add(value.as_bytes(), false),
            GrepOption::ExcludeFrom => exclude_from(&mut config.file_globs, value)?,
            GrepOption::ExcludeDir => {
                let mut glob = value.as_bytes();
                while let [rest @ .., b'/'] = glob
                    && !rest.is_empty()
                {
                    glob = rest;
                }
                config.directory_globs.add(glob, false);
            }
            // The other options have no effect.
            _ => {}
        }
        Ok(())
    }

    fn matcher(&mut self, matcher: PatternSyntax) -> Result<(), GrepUsageError> {
        let config = &mut self.config;
        if config.matcher.is_some_and(|before| before != matcher) {
            return Err(plain("conflicting matchers specified"));
        }
        config.matcher = Some(matcher);
        Ok(())
    }

    fn color(&mut self, when: &OsStr) {
        let when = when.as_bytes().to_ascii_lowercase();
        self.config.color = match when.as_slice() {
            b"" | b"auto" | b"tty" | b"if-tty" => ColorWhen::Auto,
            b"always" | b"yes" | b"force" => ColorWhen::Always,
            b"never" | b"no" | b"none" => ColorWhen::Never,
            _ => {
                self.help = true;
                ColorWhen::Never
            }
        };
    }
}

/// Parses a decimal number like `strtol`: `None` if the text is not a number. Large numbers are clamped.
fn number(text: &[u8]) -> Option<i64> {
    let text = text.trim_ascii_start();
    let (minus, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0i64, |n, b| {
        n.saturating_mul(10).saturating_add(i64::from(b - b'0'))
    });
    Some(if minus { -value } else { value })
}

fn max_count(value: &OsStr) -> Result<u64, GrepUsageError> {
    let count = number(value.as_bytes()).ok_or_else(|| plain("invalid max count"))?;
    Ok(u64::try_from(count).unwrap_or(u64::MAX))
}

fn context(value: &OsStr) -> Result<u64, GrepUsageError> {
    let lines = number(value.as_bytes()).and_then(|n| u64::try_from(n).ok());
    let text = [value.as_bytes(), b": invalid context length argument"].concat();
    lines.ok_or(GrepUsageError::Plain(text))
}

fn binary_files(value: &OsStr) -> Result<BinaryTreatment, GrepUsageError> {
    match value.as_bytes() {
        b"binary" => Ok(BinaryTreatment::Named),
        b"text" => Ok(BinaryTreatment::Text),
        b"without-match" => Ok(BinaryTreatment::WithoutMatch),
        _ => Err(plain("unknown binary-files type")),
    }
}

/// Adds the globs in the file `name`, one per line.
fn exclude_from(globs: &mut NameGlobs, name: &OsStr) -> Result<(), GrepUsageError> {
    let text = super::patterns::read(name).map_err(plain)?;
    for line in text.split(|b| *b == b'\n') {
        let line = line.trim_ascii_end();
        if !line.is_empty() {
            globs.add(line, false);
        }
    }
    Ok(())
}
