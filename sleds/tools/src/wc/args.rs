//! The command line of `sleds wc`.

use std::ffi::{OsStr, OsString};

use clap::Command;
use sleds::Plan;

use sleds_common::gnu::{self, Item, Opt, Usage};
use sleds_common::{plan, text};

/// Identifier of an option.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Id {
    Bytes,
    Chars,
    Lines,
    Width,
    Words,
    Files0From,
    Total,
    Debug,
    Plan,
    Help,
    Version,
}

#[rustfmt::skip]
const TABLE: [Opt<Id>; 11] = [
    Opt::flag(Id::Bytes, b'c', "bytes", "Print the byte counts"),
    Opt::flag(Id::Chars, b'm', "chars", "Print the character counts"),
    Opt::flag(Id::Lines, b'l', "lines", "Print the newline counts"),
    Opt::flag(Id::Width, b'L', "max-line-length", "Print the width of the longest line"),
    Opt::flag(Id::Words, b'w', "words", "Print the word counts"),
    Opt::with(Id::Files0From, 0, "files0-from", "F", "Read the files whose names, each ended by a NUL, are in F; if F is '-', on standard input"),
    Opt::with(Id::Total, 0, "total", "WHEN", "When to print a line with the total: auto, always, only or never"),
    Opt::flag(Id::Debug, 0, "debug", "Say on standard error in which order each file is read"),
    plan::option(Id::Plan),
    Opt::flag(Id::Help, 0, "help", "Print this help"),
    Opt::flag(Id::Version, 0, "version", "Print the version"),
];

pub(super) fn command() -> Command {
    let base = Command::new("wc")
        .about("Counts lines, words and bytes, as GNU wc does, reading what is cheap first")
        .override_usage(
            "sleds wc [OPTION]... [FILE]...\n       sleds wc [OPTION]... --files0-from=F",
        )
        .arg(
            clap::Arg::new("FILE")
                .num_args(0..)
                .help("Files; '-' and none at all mean standard input"),
        )
        .after_help(
            "Without an option it prints lines, words and bytes; counts come in the order lines, \
             words, characters, bytes, width. A word is a run of characters that can be shown, \
             between white space.\n\nExit codes: 0, done; 1, something could not be read, or wrong \
             usage.",
        );
    gnu::command(base, &TABLE)
}

/// Condition for printing the total.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Total {
    Auto,
    Always,
    Only,
    Never,
}

/// Counts to print.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Columns {
    pub(super) lines: bool,
    pub(super) words: bool,
    pub(super) chars: bool,
    pub(super) bytes: bool,
    pub(super) width: bool,
}

impl Columns {
    pub(super) fn number(self) -> usize {
        let all = [self.lines, self.words, self.chars, self.bytes, self.width];
        all.iter().filter(|shown| **shown).count()
    }
}

/// A counting job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Job {
    pub(super) columns: Columns,
    pub(super) files: Vec<OsString>,
    pub(super) files0_from: Option<OsString>,
    pub(super) total: Total,
    pub(super) debug: bool,
    pub(super) plan: Plan,
}

/// Action that the command line requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    Help,
    Version,
    Count(Job),
}

pub(super) fn parse(args: Vec<OsString>, permute: bool) -> Result<Asked, Usage> {
    let mut job = Job {
        columns: Columns::default(),
        files: Vec::new(),
        files0_from: None,
        total: Total::Auto,
        debug: false,
        plan: Plan::Auto,
    };
    for item in gnu::parse(&TABLE, args, permute)? {
        let (id, value) = match item {
            Item::Operand(file) => {
                job.files.push(file);
                continue;
            }
            Item::Option(id, value) => (id, value.unwrap_or_default()),
        };
        match id {
            Id::Bytes => job.columns.bytes = true,
            Id::Chars => job.columns.chars = true,
            Id::Lines => job.columns.lines = true,
            Id::Width => job.columns.width = true,
            Id::Words => job.columns.words = true,
            Id::Files0From => job.files0_from = Some(value),
            Id::Total => job.total = total(&value)?,
            Id::Debug => job.debug = true,
            Id::Plan => job.plan = plan::named(&value)?,
            Id::Help => return Ok(Asked::Help),
            Id::Version => return Ok(Asked::Version),
        }
    }
    if job.columns.number() == 0 {
        job.columns = Columns {
            lines: true,
            words: true,
            bytes: true,
            ..Columns::default()
        };
    }
    if let (Some(_), Some(extra)) = (&job.files0_from, job.files.first()) {
        let why = "\nfile operands cannot be combined with --files0-from";
        return Err(Usage(text!("extra operand ", gnu::quoted(extra), why)));
    }
    Ok(Asked::Count(job))
}

const TOTALS: [(&str, Total); 4] = [
    ("auto", Total::Auto),
    ("always", Total::Always),
    ("only", Total::Only),
    ("never", Total::Never),
];

fn total(word: &OsStr) -> Result<Total, Usage> {
    gnu::one_of("--total", word, &TOTALS)
}
