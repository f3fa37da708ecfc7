//! The command line of `sleds grep`, which is that of GNU grep.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use clap::Command;

use super::config::{Binary, Color, Config, Devices, Directories, Globs, Listing, Matcher};
use super::patterns::Patterns;
use sleds_common::gnu::{self, Arg, Item, Opt, Usage};
use sleds_common::plan;

/// Identifier of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Id {
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

const fn digit(n: u8) -> Opt<Id> {
    Opt::new(Id::Digit(n), b'0' + n, None, Arg::None, "")
}

#[rustfmt::skip]
const TABLE: [Opt<Id>; 63] = [
    Opt::flag(Id::Basic, b'G', "basic-regexp", "Patterns are basic regular expressions (the default)"),
    Opt::flag(Id::Extended, b'E', "extended-regexp", "Patterns are extended regular expressions"),
    Opt::flag(Id::Fixed, b'F', "fixed-strings", "Patterns are the text to look for"),
    Opt::new(Id::Fixed, 0, Some("fixed-regexp"), Arg::None, ""),
    Opt::flag(Id::Perl, b'P', "perl-regexp", "The pattern is a regular expression of Perl's"),
    Opt::with(Id::Regexp, b'e', "regexp", "PATTERNS", "Look for PATTERNS, one on each line"),
    Opt::with(Id::File, b'f', "file", "FILE", "Take patterns from FILE"),
    Opt::flag(Id::IgnoreCase, b'i', "ignore-case", "Small and capital letters are the same"),
    Opt::new(Id::IgnoreCase, b'y', None, Arg::None, ""),
    Opt::flag(Id::NoIgnoreCase, 0, "no-ignore-case", "They are not (the default)"),
    Opt::flag(Id::Words, b'w', "word-regexp", "Matches are whole words"),
    Opt::flag(Id::Lines, b'x', "line-regexp", "Matches are whole lines"),
    Opt::flag(Id::NullData, b'z', "null-data", "Lines end in a zero byte"),
    Opt::flag(Id::Invert, b'v', "invert-match", "Select lines that do not match"),
    Opt::with(Id::MaxCount, b'm', "max-count", "NUM", "Stop after NUM selected lines of a file"),
    Opt::flag(Id::ByteOffset, b'b', "byte-offset", "Print where lines begin, in bytes"),
    Opt::flag(Id::LineNumber, b'n', "line-number", "Print the numbers of lines"),
    Opt::flag(Id::LineBuffered, 0, "line-buffered", "Write out each line at once"),
    Opt::flag(Id::WithFilename, b'H', "with-filename", "Print the names of files with lines"),
    Opt::flag(Id::NoFilename, b'h', "no-filename", "Do not"),
    Opt::with(Id::Label, 0, "label", "NAME", "What to call standard input"),
    Opt::flag(Id::OnlyMatching, b'o', "only-matching", "Print only what matches, each match on a line"),
    Opt::flag(Id::Quiet, b'q', "quiet", "Print nothing; the exit code says whether a line is selected"),
    Opt::new(Id::Quiet, 0, Some("silent"), Arg::None, ""),
    Opt::with(Id::BinaryFiles, 0, "binary-files", "TYPE", "Take binary files as 'binary', 'text' or 'without-match'"),
    Opt::flag(Id::Text, b'a', "text", "The same as --binary-files=text"),
    Opt::new(Id::NoBinary, b'I', None, Arg::None, "The same as --binary-files=without-match"),
    Opt::with(Id::Directories, b'd', "directories", "ACTION", "What to do with directories: 'read', 'recurse' or 'skip'"),
    Opt::with(Id::Devices, b'D', "devices", "ACTION", "What to do with devices, FIFOs and sockets: 'read' or 'skip'"),
    Opt::flag(Id::Recursive, b'r', "recursive", "Read all files in directories"),
    Opt::flag(Id::Dereference, b'R', "dereference-recursive", "The same, and follow symbolic links"),
    Opt::with(Id::Include, 0, "include", "GLOB", "Read only files whose names match GLOB"),
    Opt::with(Id::Exclude, 0, "exclude", "GLOB", "Skip files whose names match GLOB"),
    Opt::with(Id::ExcludeFrom, 0, "exclude-from", "FILE", "Skip files whose names match a line of FILE"),
    Opt::with(Id::ExcludeDir, 0, "exclude-dir", "GLOB", "Skip directories whose names match GLOB"),
    Opt::flag(Id::ListNot, b'L', "files-without-match", "Print only the names of files without selected lines"),
    Opt::flag(Id::List, b'l', "files-with-matches", "Print only the names of files with selected lines"),
    Opt::flag(Id::Count, b'c', "count", "Print only how many lines are selected, for each file"),
    Opt::flag(Id::InitialTab, b'T', "initial-tab", "Put a tab before a line's text"),
    Opt::flag(Id::Null, b'Z', "null", "End names of files with a zero byte"),
    Opt::with(Id::Before, b'B', "before-context", "NUM", "Print NUM lines before each selected one"),
    Opt::with(Id::After, b'A', "after-context", "NUM", "Print NUM lines after each selected one"),
    Opt::with(Id::Context, b'C', "context", "NUM", "Print NUM lines before and after; -NUM is the same"),
    digit(0), digit(1), digit(2), digit(3), digit(4),
    digit(5), digit(6), digit(7), digit(8), digit(9),
    Opt::with(Id::Separator, 0, "group-separator", "SEP", "Print SEP between groups of lines ('--')"),
    Opt::flag(Id::NoSeparator, 0, "no-group-separator", "Print nothing between them"),
    Opt::flag(Id::NoMessages, b's', "no-messages", "Do not complain about files that cannot be read"),
    Opt::new(Id::Color, 0, Some("color"), Arg::Optional("WHEN"), "Mark what matches: 'always', 'never' or 'auto'"),
    Opt::new(Id::Color, 0, Some("colour"), Arg::Optional("WHEN"), ""),
    Opt::flag(Id::BinaryMode, b'U', "binary", "Has no effect on this system"),
    Opt::new(Id::UnixOffsets, b'u', Some("unix-byte-offsets"), Arg::None, ""),
    plan::option(Id::Plan),
    Opt::flag(Id::Help, 0, "help", "Print this help"),
    Opt::flag(Id::Version, b'V', "version", "Print the version"),
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
pub(super) enum Asked {
    Help,
    Version,
    Search(Box<Config>),
    /// Missing arguments: print only the hint.
    Nothing,
}

/// Reasons for rejecting the command line.
pub(super) enum Refused {
    /// Message with a hint about usage.
    Usage(Usage),
    /// Message with a hint, for an unknown argument of an option.
    Argument(Usage),
    /// Message without a hint.
    Plain(Vec<u8>),
}

impl From<Usage> for Refused {
    fn from(usage: Usage) -> Refused {
        Refused::Usage(usage)
    }
}

fn plain(text: impl AsRef<[u8]>) -> Refused {
    Refused::Plain(text.as_ref().to_vec())
}

/// State of the parser.
#[derive(Default)]
struct State {
    config: Config,
    patterns: Patterns,
    given: bool,
    context: Option<u64>,
    recursed_by_option: bool,
    help: bool,
    version: bool,
}

/// Parses the command line.
pub(super) fn parse(args: Vec<OsString>, permute: bool) -> Result<Asked, Refused> {
    let mut state = State {
        config: Config::new(),
        ..State::default()
    };
    let mut operands = Vec::new();
    // Adjacent digits in one word form a number.
    let (mut digits, mut digits_in) = (0u64, 0);
    for (word, item) in gnu::parse_words(&TABLE, args, permute)? {
        if std::mem::replace(&mut digits_in, word) != word {
            digits = 0;
        }
        match item {
            Item::Option(Id::Digit(digit), _) => {
                digits = digits.saturating_mul(10).saturating_add(u64::from(digit));
                state.context = Some(digits);
            }
            Item::Option(id, value) => {
                digits = 0;
                state.option(id, &value.unwrap_or_default())?;
            }
            Item::Operand(operand) => operands.push(operand),
        }
    }
    if state.version {
        return Ok(Asked::Version);
    }
    if state.help {
        return Ok(Asked::Help);
    }
    if !state.given && operands.is_empty() {
        return Ok(Asked::Nothing);
    }
    if !state.given {
        state.add_operand(operands.remove(0).as_bytes());
    }
    Ok(Asked::Search(Box::new(state.into_config(operands))))
}

impl State {
    /// Uses the first operand as the pattern.
    fn add_operand(&mut self, text: &[u8]) {
        // GNU grep removes this backslash, so that a pattern may begin with `-`.
        let escaped = self.config.matcher != Some(Matcher::Fixed) && text.starts_with(b"\\-");
        self.patterns.add(&text[usize::from(escaped)..]);
    }

    fn into_config(self, files: Vec<OsString>) -> Config {
        let mut config = self.config;
        config.patterns = self.patterns.into_list();
        config.before = config.before.or(self.context);
        config.after = config.after.or(self.context);
        let recurses = config.directories == Directories::Recurse && self.recursed_by_option;
        config.here = files.is_empty() && recurses;
        config.files = files;
        config
    }

    /// Applies an option. Options about patterns are here.
    fn option(&mut self, id: Id, value: &OsStr) -> Result<(), Refused> {
        let config = &mut self.config;
        match id {
            Id::Basic => return self.matcher(Matcher::Basic),
            Id::Extended => return self.matcher(Matcher::Extended),
            Id::Fixed => return self.matcher(Matcher::Fixed),
            Id::Perl => return self.matcher(Matcher::Perl),
            Id::Regexp => {
                self.given = true;
                self.patterns.add(value.as_bytes());
            }
            Id::File => {
                self.given = true;
                self.patterns.add_file(value).map_err(plain)?;
            }
            Id::IgnoreCase => config.icase = true,
            Id::NoIgnoreCase => config.icase = false,
            Id::Words => config.whole_words = true,
            Id::Lines => config.whole_lines = true,
            Id::NullData => config.eol = 0,
            Id::NoMessages => config.no_messages = true,
            Id::Invert => config.invert = true,
            Id::Version => self.version = true,
            Id::Help => self.help = true,
            Id::MaxCount => config.max_count = max_count(value)?,
            Id::Quiet => config.quiet = true,
            Id::BinaryFiles => config.binary = binary_files(value)?,
            Id::Text => config.binary = Binary::Text,
            Id::NoBinary => config.binary = Binary::WithoutMatch,
            Id::Plan => config.plan = plan::named(value)?,
            _ => return self.printing(id, value),
        }
        Ok(())
    }

    /// Applies an option about the output.
    fn printing(&mut self, id: Id, value: &OsStr) -> Result<(), Refused> {
        let config = &mut self.config;
        match id {
            Id::ByteOffset => config.byte_offset = true,
            Id::LineNumber => config.line_number = true,
            Id::LineBuffered => config.line_buffered = true,
            Id::WithFilename => config.with_filename = Some(true),
            Id::NoFilename => config.with_filename = Some(false),
            Id::Label => config.label = Some(value.to_owned()),
            Id::OnlyMatching => config.only_matching = true,
            Id::ListNot => config.listing = Listing::Nonmatching,
            Id::List => config.listing = Listing::Matching,
            Id::Count => config.count = true,
            Id::InitialTab => config.initial_tab = true,
            Id::Null => config.null_names = true,
            Id::Before => config.before = Some(context(value)?),
            Id::After => config.after = Some(context(value)?),
            Id::Context => self.context = Some(context(value)?),
            Id::Separator => config.separator = Some(value.as_bytes().to_vec()),
            Id::NoSeparator => config.separator = None,
            Id::Color => self.color(value),
            Id::UnixOffsets => {
                let text = b"warning: --unix-byte-offsets (-u) is obsolete";
                config.warnings.push(text.to_vec());
            }
            _ => return self.files(id, value),
        }
        Ok(())
    }

    /// Applies an option about the files to read.
    fn files(&mut self, id: Id, value: &OsStr) -> Result<(), Refused> {
        let config = &mut self.config;
        match id {
            Id::Directories => {
                let table = [
                    ("read", Directories::Read),
                    ("recurse", Directories::Recurse),
                    ("skip", Directories::Skip),
                ];
                config.directories =
                    gnu::one_of("--directories", value, &table).map_err(Refused::Argument)?;
                self.recursed_by_option |= config.directories == Directories::Recurse;
            }
            Id::Devices => {
                config.devices = match value.as_bytes() {
                    b"read" => Devices::Read,
                    b"skip" => Devices::Skip,
                    _ => return Err(plain("unknown devices method")),
                };
            }
            Id::Recursive | Id::Dereference => {
                config.directories = Directories::Recurse;
                config.dereference = id == Id::Dereference;
                self.recursed_by_option = true;
            }
            Id::Include => config.file_globs.add(value.as_bytes(), true),
            Id::Exclude => config.file_globs.add(value.as_bytes(), false),
            Id::ExcludeFrom => exclude_from(&mut config.file_globs, value)?,
            Id::ExcludeDir => {
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

    fn matcher(&mut self, matcher: Matcher) -> Result<(), Refused> {
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
            b"" | b"auto" | b"tty" | b"if-tty" => Color::Auto,
            b"always" | b"yes" | b"force" => Color::Always,
            b"never" | b"no" | b"none" => Color::Never,
            _ => {
                self.help = true;
                Color::Never
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

fn max_count(value: &OsStr) -> Result<u64, Refused> {
    let count = number(value.as_bytes()).ok_or_else(|| plain("invalid max count"))?;
    Ok(u64::try_from(count).unwrap_or(u64::MAX))
}

fn context(value: &OsStr) -> Result<u64, Refused> {
    let lines = number(value.as_bytes()).and_then(|n| u64::try_from(n).ok());
    let text = [value.as_bytes(), b": invalid context length argument"].concat();
    lines.ok_or(Refused::Plain(text))
}

fn binary_files(value: &OsStr) -> Result<Binary, Refused> {
    match value.as_bytes() {
        b"binary" => Ok(Binary::Named),
        b"text" => Ok(Binary::Text),
        b"without-match" => Ok(Binary::WithoutMatch),
        _ => Err(plain("unknown binary-files type")),
    }
}

/// Adds the globs in the file `name`, one per line.
fn exclude_from(globs: &mut Globs, name: &OsStr) -> Result<(), Refused> {
    let text = super::patterns::read(name).map_err(plain)?;
    for line in text.split(|b| *b == b'\n') {
        let line = line.trim_ascii_end();
        if !line.is_empty() {
            globs.add(line, false);
        }
    }
    Ok(())
}
