//! `sleds cat`: copies files to standard output; with `--unordered`, writes their lines in the order that costs least
//! to read.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::process::ExitCode;

use clap::Command;
use rustix::fd::AsFd as _;
use sleds::{FilePiece, FileReader, ReadOptions, ReadPlan, ReadUnit};

use sleds_common::gnu::{
    self, ErrorReporter, OptionArgument, ParsedArgument, ToolOption, UsageError, quoted_if_needed,
    reason,
};
use sleds_common::{Tool, input, plan, stdio, text};

pub(crate) const TOOL: Tool = Tool {
    name: "cat",
    command,
    run,
};

/// Bytes per read and write.
const CHUNK: usize = 128 << 10;

/// Maximum length of a record in bytes in a free order. A file with a longer record is copied in order from then on.
const RECORD_LIMIT: usize = 64 << 20;

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
    if stdio::output_is_closed() {
        let why = reason(&rustix::io::Errno::BADF.into());
        complaints.say(format!("standard output: {why}"));
        return Ok(());
    }
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

fn copy(file: &File, out: &File, job: &CatJob) -> Result<(), CatError> {
    let Some(end) = job.unordered else {
        return copy_in_order(file, out);
    };
    let options = ReadOptions {
        plan: job.plan,
        unit: ReadUnit::Records(end),
        chunk: CHUNK,
        record_limit: RECORD_LIMIT,
        ..ReadOptions::default()
    };
    let reader = FileReader::new(file, options).map_err(CatError::Reading)?;
    match reader.plan() {
        ReadPlan::Best => RecordCopy::new(file, out, end).copy(reader),
        _ => copy_in_order(file, out),
    }
}

fn copy_in_order(file: &File, mut out: &File) -> Result<(), CatError> {
    let options = ReadOptions {
        plan: ReadPlan::Linear,
        chunk: CHUNK,
        ..ReadOptions::default()
    };
    let mut reader = FileReader::new(file, options).map_err(CatError::Reading)?;
    while let Some(piece) = reader.next_piece().map_err(CatError::Reading)? {
        out.write_all(piece.data).map_err(CatError::Writing)?;
    }
    Ok(())
}

/// A copy of the records of one file in any order.
struct RecordCopy<'f> {
    file: &'f File,
    out: &'f File,
    /// Byte at the end of each record.
    end: u8,
    /// Ranges of the file that are copied: first byte and end.
    copied: Vec<(u64, u64)>,
    /// The last record, if it lacks its terminator. It would merge with data that is written after it.
    unended: Vec<u8>,
}

impl<'f> RecordCopy<'f> {
    fn new(file: &'f File, out: &'f File, end: u8) -> RecordCopy<'f> {
        RecordCopy {
            file,
            out,
            end,
            copied: Vec::new(),
            unended: Vec::new(),
        }
    }

    fn copy(mut self, mut reader: FileReader<'_>) -> Result<(), CatError> {
        let start = reader.start();
        loop {
            match reader.next_piece() {
                Ok(Some(piece)) => self.write_records(piece)?,
                Ok(None) => break,
                // A record is too long for the memory.
                Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                    self.copy_rest(start)?;
                    break;
                }
                Err(error) => return Err(CatError::Reading(error)),
            }
        }
        self.write(&self.unended)
    }

    fn write(&self, bytes: &[u8]) -> Result<(), CatError> {
        let mut out = self.out;
        out.write_all(bytes).map_err(CatError::Writing)
    }

    fn write_records(&mut self, piece: FilePiece<'_>) -> Result<(), CatError> {
        let whole = memchr::memrchr(self.end, piece.data).map_or(0, |at| at + 1);
        let (records, rest) = piece.data.split_at(whole);
        self.write(records)?;
        self.unended.extend_from_slice(rest);
        let end = piece.offset + piece.data.len() as u64;
        match self.copied.last_mut() {
            Some(last) if last.1 == piece.offset => last.1 = end,
            _ => self.copied.push((piece.offset, end)),
        }
        Ok(())
    }

    /// Copies the bytes from `start` on that are not yet copied, in the order of the file.
    fn copy_rest(&mut self, start: u64) -> Result<(), CatError> {
        let mut copied = std::mem::take(&mut self.copied);
        copied.sort_unstable();
        let mut at = start;
        for (from, to) in copied {
            self.copy_range(at, from)?;
            at = to;
        }
        let end = self.copy_range(at, u64::MAX)?;
        let mut file = self.file;
        file.seek(SeekFrom::Start(end)).map_err(CatError::Reading)?;
        Ok(())
    }

    /// Copies bytes `from` to `to`, or up to the end of the file. Returns the end of the copied bytes.
    fn copy_range(&self, from: u64, to: u64) -> Result<u64, CatError> {
        let mut buf = vec![0; CHUNK];
        let mut at = from;
        while at < to {
            let length = usize::try_from(to - at).map_or(CHUNK, |left| left.min(CHUNK));
            match self.file.read_at(&mut buf[..length], at) {
                Ok(0) => break,
                Ok(n) => {
                    self.write(&buf[..n])?;
                    at += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(CatError::Reading(error)),
            }
        }
        Ok(at)
    }
}
