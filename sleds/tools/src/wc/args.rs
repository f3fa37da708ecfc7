//! The command line of `sleds wc`.

use std::ffi::{OsStr, OsString};

use clap::Command;
use sleds::ReadPlan;

use sleds_common::gnu::{self, ParsedArgument, ToolOption, UsageError};
use sleds_common::{plan, text};

/// Identifier of an option.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WcOption {
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
const TABLE: [ToolOption<WcOption>; 11] = [
    ToolOption::flag(WcOption::Bytes, b'c', "bytes", "Print the byte counts"),
    ToolOption::flag(WcOption::Chars, b'm', "chars", "Print the character counts"),
    ToolOption::flag(WcOption::Lines, b'l', "lines", "Print the newline counts"),
    ToolOption::flag(WcOption::Width, b'L', "max-line-length", "Print the width of the longest line"),
    ToolOption::flag(WcOption::Words, b'w', "words", "Print the word counts"),
    ToolOption::with(WcOption::Files0From, 0, "files0-from", "F", "Read the files whose names, each ended by a NUL, are in F; if F is '-', on standard input"),
    ToolOption::with(WcOption::Total, 0, "total", "WHEN", "When to print a line with the total: auto, always, only or never"),
    ToolOption::flag(WcOption::Debug, 0, "debug", "Say on standard error in which order each file is read"),
    plan::option(WcOption::Plan),
    ToolOption::flag(WcOption::Help, 0, "help", "Print this help"),
    ToolOption::flag(WcOption::Version, 0, "version", "Print the version"),
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
pub(super) enum TotalWhen {
    Auto,
    Always,
    Only,
    Never,
}

/// Counts to print.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct WcColumns {
    pub(super) lines: bool,
    pub(super) words: bool,
    pub(super) chars: bool,
    pub(super) bytes: bool,
    pub(super) width: bool,
}

impl WcColumns {
    pub(super) fn number(self) -> usize {
        let all = [self.lines, self.words, self.chars, self.bytes, self.width];
        all.iter().filter(|shown| **shown).count()
    }
}

/// A counting job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct WcJob {
    pub(super) columns: WcColumns,
    pub(super) files: Vec<OsString>,
    pub(super) files0_from: Option<OsString>,
    pub(super) total: TotalWhen,
    pub(super) debug: bool,
    pub(super) plan: ReadPlan,
}

/// Action that the command line requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum WcRequest {
    Help,
    Version,
    Count(WcJob),
}

pub(super) fn parse(args: Vec<OsString>, permute: bool) -> Result<WcRequest, UsageError> {
    let mut job = WcJob {
        columns: WcColumns::default(),
        files: Vec::new(),
        files0_from: None,
        total: TotalWhen::Auto,
        debug: false,
        plan: ReadPlan::Auto,
    };
    for item in gnu::parse(&TABLE, args, permute)? {
        let (id, value) = match item {
            ParsedArgument::Operand(file) => {
                job.files.push(file);
                continue;
            }
            ParsedArgument::Option(id, value) => (id, value.unwrap_or_default()),
        };
        match id {
            WcOption::Bytes => job.columns.bytes = true,
            WcOption::Chars => job.columns.chars = true,
            WcOption::Lines => job.columns.lines = true,
            WcOption::Width => job.columns.width = true,
            WcOption::Words => job.columns.words = true,
            WcOption::Files0From => job.files0_from = Some(value),
            WcOption::Total => job.total = total(&value)?,
            WcOption::Debug => job.debug = true,
            WcOption::Plan => job.plan = plan::named(&value)?,
            WcOption::Help => return Ok(WcRequest::Help),
            WcOption::Version => return Ok(WcRequest::Version),
        }
    }
    if job.columns.number() == 0 {
        job.columns = WcColumns {
            lines: true,
            words: true,
            bytes: true,
            ..WcColumns::default()
        };
    }
    if let (Some(_), Some(extra)) = (&job.files0_from, job.files.first()) {
        let why = "\nfile operands cannot be combined with --files0-from";
        return Err(UsageError(text!("extra operand ", gnu::quoted(extra), why)));
    }
    Ok(WcRequest::Count(job))
}

const TOTALS: [(&str, TotalWhen); 4] = [
    ("auto", TotalWhen::Auto),
    ("always", TotalWhen::Always),
    ("only", TotalWhen::Only),
    ("never", TotalWhen::Never),
];

fn total(word: &OsStr) -> Result<TotalWhen, UsageError> {
    gnu::one_of("--total", word, &TOTALS)
}
