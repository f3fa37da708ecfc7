//! `sleds cat`: copies files to standard output; with `--unordered`, writes their lines in the order that costs least
//! to read.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::process::ExitCode;

use clap::Command;
use rustix::fd::AsFd as _;
use sleds::{FileReader, ReadOptions, ReadPlan, ReadUnit};

use sleds_common::gnu::{
    self, ErrorReporter, OptionArgument, ParsedArgument, ToolOption, UsageError, quoted_if_needed,
    reason,
};
use sleds_common::{Tool, input, plan, text};

pub(crate) const TOOL: Tool = Tool {
    name: "cat",
    command,
    run,
};

/// Bytes per read and write.
const CHUNK: usize = 128 << 10;

#[derive(Clone, Copy, PartialEq, Eq)]
enum CatOption {
    Unordered,
    Null,
    Unbuffered,
    Plan,
    Help,
    Version,
}

#[rustfmt::skip]
const TABLE: [ToolOption<CatOption>; 6] = [
    ToolOption::flag(CatOption::Unordered, 0, "unordered", "Write the lines of each file in the order that costs least to read; none is cut").of_ours(),
    ToolOption::flag(CatOption::Null, b'z', "null-data", "With --unordered, records end with a NUL instead of a newline").of_ours(),
    ToolOption::new(CatOption::Unbuffered, b'u', None, OptionArgument::None, "Does nothing: output is never held back").of_ours(),
    plan::option(CatOption::Plan),
    ToolOption::flag(CatOption::Help, 0, "help", "Print this help"),
    ToolOption::flag(CatOption::Version, 0, "version", "Print the version"),
];

fn command() -> Command {
    let base = Command::new("cat")
        .about("Writes files to standard output, in any order of lines if that is free")
        .override_usage("sleds cat [OPTION]... [FILE]...")
        .arg(
            clap::Arg::new("FILE")
                .num_args(0..)
                .help("Files; '-' and none at all mean standard input"),
        )
        .after_help(
            "Without --unordered, and from pipes, everything comes in the order of the files, and \
             --plan changes nothing.\n\nExit codes: 0, done; 1, something could not be read or \
             written, or wrong usage.",
        );
    gnu::command(base, &TABLE)
}

struct CatJob {
    files: Vec<OsString>,
    plan: ReadPlan,
    /// Byte at the end of each record, if the order is free.
    unordered: Option<u8>,
}

enum CatRequest {
    Help,
    Version,
    Copy(CatJob),
}

fn parse(args: Vec<OsString>) -> Result<CatRequest, UsageError> {
    let mut files = Vec::new();
    let (mut unordered, mut end, mut plan) = (false, b'\n', ReadPlan::Auto);
    for item in gnu::parse(&TABLE, args, gnu::permutes())? {
        match item {
            ParsedArgument::Operand(file) => files.push(file),
            ParsedArgument::Option(CatOption::Unordered, _) => unordered = true,
            ParsedArgument::Option(CatOption::Null, _) => end = 0,
            ParsedArgument::Option(CatOption::Unbuffered, _) => {}
            ParsedArgument::Option(CatOption::Plan, name) => {
                plan = plan::named(&name.unwrap_or_default())?;
            }
            ParsedArgument::Option(CatOption::Help, _) => return Ok(CatRequest::Help),
            ParsedArgument::Option(CatOption::Version, _) => return Ok(CatRequest::Version),
        }
    }
    if files.is_empty() {
        files.push("-".into());
    }
    Ok(CatRequest::Copy(CatJob {
        files,
        plan: if unordered { plan } else { ReadPlan::Linear },
        unordered: unordered.then_some(end),
    }))
}

fn run(args: Vec<OsString>) -> ExitCode {
    let mut complaints = ErrorReporter::new("cat");
    match parse(args) {
        Ok(CatRequest::Help) => gnu::print_help(command(), &mut complaints),
        Ok(CatRequest::Version) => gnu::print_version(&mut complaints),
        Ok(CatRequest::Copy(job)) => {
            if let Err(error) = copy_all(&job, &mut complaints) {
                complaints.say(format!("write error: {}", reason(&error)));
            }
        }
        Err(usage) => complaints.wrong_usage(&usage),
    }
    ExitCode::from(u8::from(complaints.any()))
}

/// Copies each readable file. Fails only if the output fails.
fn copy_all(job: &CatJob, complaints: &mut ErrorReporter) -> io::Result<()> {
    let out = rustix::io::fcntl_dupfd_cloexec(io::stdout().as_fd(), 0)?;
    let out = File::from(out);
    let target = out.metadata()?;
    for name in &job.files {
        let file = match input::open(name) {
            Ok(file) => file,
            Err(error) => {
                complaints.about(name, &error);
                continue;
            }
        };
        if feeds_itself(&file, &target) {
            complaints.say(text!(quoted_if_needed(name), ": input file is output file"));
            continue;
        }
        match copy(&file, &out, job) {
            Ok(()) => {}
            Err(CatError::Reading(error)) => complaints.about(name, &error),
            Err(CatError::Writing(error)) => return Err(error),
        }
    }
    Ok(())
}

/// Returns true if the output is appended to the input, so that the copy would never end.
fn feeds_itself(mut file: &File, target: &Metadata) -> bool {
    let same = |from: &Metadata| (from.dev(), from.ino()) == (target.dev(), target.ino());
    let (Ok(from), Ok(position)) = (file.metadata(), file.stream_position()) else {
        return false;
    };
    target.is_file() && same(&from) && position < from.len()
}

enum CatError {
    Reading(io::Error),
    Writing(io::Error),
}

fn copy(file: &File, mut out: &File, job: &CatJob) -> Result<(), CatError> {
    let unit = job.unordered.map_or(ReadUnit::Bytes, ReadUnit::Records);
    let options = ReadOptions {
        plan: job.plan,
        unit,
        chunk: CHUNK,
    };
    let mut reader = FileReader::new(file, options).map_err(CatError::Reading)?;
    // The last record may lack its terminator, and would merge with the data that is read after it.
    let mut unended = Vec::new();
    while let Some(piece) = reader.next_piece().map_err(CatError::Reading)? {
        let whole = match job.unordered {
            None => piece.data.len(),
            Some(end) => memchr::memrchr(end, piece.data).map_or(0, |at| at + 1),
        };
        let (records, rest) = piece.data.split_at(whole);
        out.write_all(records).map_err(CatError::Writing)?;
        unended.extend_from_slice(rest);
    }
    out.write_all(&unended).map_err(CatError::Writing)
}
