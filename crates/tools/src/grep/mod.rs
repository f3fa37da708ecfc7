//! `sleds grep`: GNU's `grep`, in the order that costs least.
//!
//! From the command line (`args.rs`) comes a [`Config`]; each file is read in pieces, in any order
//! (`pieces.rs`), which are searched as a whole (`posix_regex/`); what is found is printed in the
//! order of the file (`emit.rs`, `line.rs`). Behaviour is that of GNU grep 3.8.

mod args;
mod color;
mod config;
mod digest;
mod emit;
mod glob;
mod line;
mod nuls;
mod output;
mod patterns;
mod pieces;
#[cfg(test)]
mod pieces_tests;
mod posix_regex;
mod runs;
mod walk;

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::ExitCode;

use rustix::fd::AsFd as _;

use crate::Tool;
use crate::gnu::{self, Complaints};
use crate::locale::{Charset, Locale};
use args::{Asked, Refused};
use color::Colors;
use config::{Color, Config, Devices, Directories, Listing, Matcher};
use emit::Outcome;
use output::Output;
use pieces::{Source, Trouble};
use posix_regex::{Options, Regex};
use walk::{Identity, Kind, identity, is_device};

pub(crate) const TOOL: Tool = Tool {
    name: "grep",
    command: args::command,
    run,
};

/// Exit codes.
const SELECTED: u8 = 0;
const NOTHING_SELECTED: u8 = 1;
const TROUBLE: u8 = 2;

fn run(args: Vec<OsString>) -> ExitCode {
    let mut complaints = Complaints::new("grep");
    let code = match args::parse(args, gnu::permutes()) {
        Ok(Asked::Help) => {
            gnu::print_help(args::command(), &mut complaints);
            if complaints.any() { TROUBLE } else { SELECTED }
        }
        Ok(Asked::Version) => {
            gnu::print_version(&mut complaints);
            if complaints.any() { TROUBLE } else { SELECTED }
        }
        Ok(Asked::Nothing) => {
            eprint_usage();
            TROUBLE
        }
        Ok(Asked::Search(config)) => start(*config, complaints),
        Err(Refused::Usage(usage)) => {
            complaints.say(&usage.0);
            eprint_usage();
            TROUBLE
        }
        // GNU grep's exit code is not the one it documents here.
        Err(Refused::Argument(usage)) => {
            complaints.say(&usage.0);
            eprint_usage();
            NOTHING_SELECTED
        }
        Err(Refused::Plain(text)) => {
            complaints.say(text);
            TROUBLE
        }
    };
    ExitCode::from(code)
}

fn eprint_usage() {
    eprintln!("Usage: sleds grep [OPTION]... PATTERNS [FILE]...");
    eprintln!("Try 'sleds grep --help' for more information.");
}

/// Prepares the search, and searches.
fn start(mut config: Config, mut complaints: Complaints) -> u8 {
    for warning in std::mem::take(&mut config.warnings) {
        complaints.note(warning);
    }
    let locale = Locale::of_environment();
    config.utf8 = locale.charset() == Charset::Utf8;
    let standard_output = StandardOutput::look();
    if standard_output == StandardOutput::Nowhere {
        config.quiet_for_nobody();
    }
    if config.quiet {
        config.listing = Listing::None;
    }
    if config.first_is_enough() {
        config.count = false;
    }
    if config.patterns.is_empty() && !config.invert {
        // Nothing matches nothing, so there is nothing to read.
        config.max_count = 0;
    }
    if config.max_count == 0 && config.listing != Listing::Nonmatching {
        return NOTHING_SELECTED;
    }
    let colors = colors(&config, &standard_output, &complaints);
    let Some(syntax) = config.matcher.unwrap_or(Matcher::Basic).syntax() else {
        complaints.say("Perl matching not supported in a --disable-perl-regexp build");
        return TROUBLE;
    };
    if config.patterns.is_empty() {
        // With `-v`, these do not count.
        config.whole_lines = false;
        config.whole_words = false;
    }
    let options = Options {
        syntax,
        icase: config.icase,
        utf8: config.utf8,
        eol: config.eol,
        whole_lines: config.whole_lines,
        whole_words: config.whole_words,
    };
    let regex = match Regex::new(&config.patterns, options) {
        Ok(regex) => regex,
        Err(errors) => {
            for error in errors {
                complaints.say(error.to_string());
            }
            return TROUBLE;
        }
    };
    for warning in regex.warnings() {
        complaints.note(format!("warning: {warning}"));
    }
    let deep = regex.backtracks();
    let search = move || {
        let out = Output::new(&config, colors);
        let grep = Grep {
            show_names: config.with_filename,
            config,
            regex,
            out,
            complaints,
            output: standard_output,
            trouble: false,
        };
        grep.all()
    };
    if !deep {
        return search();
    }
    let thread = std::thread::Builder::new().stack_size(posix_regex::STACK_BYTES);
    let code = thread.spawn(search).ok().and_then(|t| t.join().ok());
    code.unwrap_or(TROUBLE)
}

fn colors(config: &Config, output: &StandardOutput, complaints: &Complaints) -> Colors {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    let on = match config.color {
        Color::Never => false,
        Color::Always => true,
        Color::Auto => *output == StandardOutput::Terminal && !dumb && !config.quiet,
    };
    if !on {
        return Colors::none();
    }
    let old = std::env::var_os("GREP_COLOR");
    let new = std::env::var_os("GREP_COLORS");
    let bytes = |v: &Option<OsString>| v.as_ref().map(|v| v.as_bytes().to_vec());
    let (colors, warning) = Colors::of_user(bytes(&old).as_deref(), bytes(&new).as_deref());
    if let Some(warning) = warning {
        complaints.note(warning);
    }
    colors
}

/// What standard output is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StandardOutput {
    /// A file; reading from it what is written to it would not end.
    File(Identity),
    /// `/dev/null`.
    Nowhere,
    Terminal,
    Other,
}

impl StandardOutput {
    fn look() -> StandardOutput {
        let Ok(stat) = rustix::fs::fstat(rustix::stdio::stdout()) else {
            return StandardOutput::Other;
        };
        match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
            rustix::fs::FileType::RegularFile => StandardOutput::File((stat.st_dev, stat.st_ino)),
            rustix::fs::FileType::CharacterDevice => {
                let null = std::fs::metadata("/dev/null");
                let same = null.is_ok_and(|null| identity(&null) == (stat.st_dev, stat.st_ino));
                match same {
                    true => StandardOutput::Nowhere,
                    false => StandardOutput::Terminal,
                }
            }
            _ => StandardOutput::Other,
        }
    }
}

/// A search of many files.
struct Grep {
    config: Config,
    regex: Regex,
    out: Output,
    complaints: Complaints,
    output: StandardOutput,
    /// Lines begin with the file's name. Without an answer, the first file gives it.
    show_names: Option<bool>,
    trouble: bool,
}

impl Grep {
    fn all(mut self) -> u8 {
        let recurse = self.config.directories == Directories::Recurse;
        let mut files = std::mem::take(&mut self.config.files);
        if self.show_names.is_none() && (files.len() > 1 || !recurse) {
            self.show_names = Some(files.len() > 1);
        }
        if files.is_empty() {
            files.push(OsString::from(if self.config.here { "." } else { "-" }));
        }
        let mut any = false;
        for file in files {
            any |= self.named(&file);
            if any && self.config.quiet && !self.config.nobody {
                break;
            }
        }
        self.out.flush();
        match (any, self.trouble) {
            (true, _) if self.config.quiet && !self.config.nobody => SELECTED,
            (_, true) => TROUBLE,
            (true, false) => SELECTED,
            (false, false) => NOTHING_SELECTED,
        }
    }

    /// Searches what the command line names. True if a line is selected, as in all of these.
    fn named(&mut self, name: &OsStr) -> bool {
        if name != "-" {
            return self.path(Path::new(name), name.as_bytes(), true, true);
        }
        let label = self.config.label.clone();
        let label = label.unwrap_or_else(|| OsString::from("(standard input)"));
        let stdin = rustix::io::fcntl_dupfd_cloexec(io::stdin().as_fd(), 0);
        match stdin {
            Ok(fd) => self.file(&File::from(fd), None, label.as_bytes(), true),
            Err(error) => {
                self.complain(label.as_bytes(), &error.into());
                false
            }
        }
    }

    fn complain(&mut self, name: &[u8], error: &io::Error) {
        self.trouble = true;
        if !self.config.no_messages {
            let why = gnu::reason(error);
            self.say([name, b": ", why.as_bytes()].concat());
        }
    }

    /// Says something after everything that was printed before.
    fn say(&mut self, text: impl AsRef<[u8]>) {
        self.out.flush();
        self.complaints.note(text);
    }

    fn skips_devices(&self, named: bool) -> bool {
        match self.config.devices {
            Devices::Skip => true,
            Devices::Read => false,
            Devices::Named => !named && !self.config.dereference,
        }
    }

    /// Opens and searches a file.
    fn path(&mut self, path: &Path, shown: &[u8], named: bool, follow: bool) -> bool {
        let mut flags = libc::O_NOCTTY;
        if !follow {
            flags |= libc::O_NOFOLLOW;
        }
        if self.skips_devices(named) {
            flags |= libc::O_NONBLOCK;
        }
        match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Ok(file) => self.file(&file, Some(path), shown, named),
            Err(error) if !follow && error.raw_os_error() == Some(libc::ELOOP) => false,
            Err(error) => {
                self.complain(shown, &error);
                false
            }
        }
    }

    /// True if the command line's globs leave the file out.
    fn skips(&self, name: &[u8], named: bool, directory: bool) -> bool {
        if !directory {
            return self.config.file_globs.exclude(name, named);
        }
        if self.config.directories == Directories::Skip {
            return true;
        }
        let here = named && self.config.here;
        !here && self.config.directory_globs.exclude(name, named)
    }

    /// Searches a file, or a directory; `path` is `None` for standard input.
    fn file(&mut self, file: &File, path: Option<&Path>, shown: &[u8], named: bool) -> bool {
        let meta = match file.metadata() {
            Ok(meta) => meta,
            Err(error) => {
                self.complain(shown, &error);
                return false;
            }
        };
        if path.is_some() {
            if self.skips_devices(named) && is_device(meta.file_type()) {
                return false;
            }
            if named && self.skips(shown, true, meta.is_dir()) {
                return false;
            }
        }
        let names = *self.show_names.get_or_insert(meta.is_dir());
        if let Some(path) = path.filter(|_| meta.is_dir()) {
            match self.config.directories {
                Directories::Recurse => return self.directory(path, &meta, named),
                Directories::Skip => return false,
                Directories::Read => {}
            }
        }
        if self.is_output(&meta) {
            self.trouble = true;
            if !self.config.no_messages {
                self.say([shown, b": input file is also the output"].concat());
            }
            return false;
        }
        self.contents(file, &meta, shown, names, path.is_none())
    }

    /// True if what is printed goes to the file that is read.
    fn is_output(&self, meta: &Metadata) -> bool {
        let prints = !self.config.count && !self.config.first_is_enough();
        let same = self.output == StandardOutput::File(identity(meta));
        prints && self.config.max_count > 1 && meta.is_file() && same
    }

    fn contents(
        &mut self,
        mut file: &File,
        meta: &Metadata,
        shown: &[u8],
        names: bool,
        is_stdin: bool,
    ) -> bool {
        let start = match is_stdin {
            true => file.stream_position().unwrap_or(0),
            false => 0,
        };
        let source = Source {
            file: meta.is_file().then_some(file),
            start,
            length: meta.len(),
            name: names.then_some(shown),
        };
        let (config, regex) = (&self.config, &mut self.regex);
        let found = pieces::reader(file, config)
            .map(|mut pieces| pieces::search(config, regex, &mut self.out, &source, &mut pieces));
        let (outcome, trouble) = found.unwrap_or_else(|error| {
            let none = Outcome {
                selected: 0,
                all_found: false,
                after_last: 0,
                binary_matches: false,
            };
            (none, Some(Trouble::Io(error)))
        });
        match trouble {
            None => {}
            Some(Trouble::Io(error)) => self.complain(shown, &error),
            Some(Trouble::TooDeep) => {
                self.trouble = true;
                self.say("stack overflow");
            }
        }
        self.report(outcome, shown, names);
        if is_stdin {
            self.leave_stdin(file, start, outcome);
        }
        outcome.selected > 0
    }

    /// Prints what is to be said about a file as a whole.
    fn report(&mut self, outcome: Outcome, shown: &[u8], names: bool) {
        if outcome.binary_matches {
            self.say([shown, b": binary file matches"].concat());
        }
        if self.config.count {
            if names {
                self.out.filename_before(shown, b':');
            }
            self.out.write(format!("{}\n", outcome.selected).as_bytes());
            self.out.end_line();
        }
        let listed = match self.config.listing {
            Listing::None => false,
            Listing::Matching => outcome.selected > 0,
            Listing::Nonmatching => outcome.selected == 0,
        };
        if listed {
            self.out.filename_alone(shown);
        }
    }

    /// Leaves standard input where whoever reads on expects it: behind the last selected line if no
    /// more were wanted, otherwise at the end.
    fn leave_stdin(&mut self, mut file: &File, start: u64, outcome: Outcome) {
        if self.config.quiet && !self.config.nobody && outcome.selected > 0 {
            return;
        }
        let lines = self.config.listing == Listing::None;
        let wanted = match lines && outcome.selected >= self.config.max_count {
            true => SeekFrom::Start(start + outcome.after_last),
            false => SeekFrom::End(0),
        };
        let moved = file.seek(wanted);
        if moved.is_err() && wanted == SeekFrom::End(0) {
            // Whoever writes into the pipe is not to be ended by this.
            let mut rest = vec![0; 64 << 10];
            while matches!(file.read(&mut rest), Ok(n) if n > 0) {}
        }
    }

    /// Searches all files in a directory.
    fn directory(&mut self, path: &Path, meta: &Metadata, named: bool) -> bool {
        let here = named && self.config.here;
        self.tree(path, here, &mut vec![identity(meta)])
    }

    fn tree(&mut self, path: &Path, here: bool, above: &mut Vec<Identity>) -> bool {
        let entries = match walk::list(path, self.config.dereference) {
            Ok(entries) => entries,
            Err(error) => {
                self.complain(shown(path, here), &error);
                return false;
            }
        };
        let mut any = false;
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    self.complain(shown(path, here), &error);
                    continue;
                }
            };
            let directory = entry.kind == Kind::Directory;
            if self.skips(entry.name.as_bytes(), false, directory) {
                continue;
            }
            any |= match entry.kind {
                Kind::Link => false,
                Kind::Directory => self.subtree(&entry.path, here, above),
                Kind::Device if self.skips_devices(false) => false,
                Kind::Device | Kind::File => {
                    let follow = self.config.dereference;
                    let name = shown(&entry.path, here).to_vec();
                    self.path(&entry.path, &name, false, follow)
                }
            };
            if any && self.config.quiet && !self.config.nobody {
                break;
            }
        }
        any
    }

    fn subtree(&mut self, path: &Path, here: bool, above: &mut Vec<Identity>) -> bool {
        let meta = match std::fs::metadata(path) {
            Ok(meta) => meta,
            Err(error) => {
                self.complain(shown(path, here), &error);
                return false;
            }
        };
        if above.contains(&identity(&meta)) {
            if !self.config.no_messages {
                let name = shown(path, here).to_vec();
                self.say([&name[..], b": warning: recursive directory loop"].concat());
            }
            return false;
        }
        above.push(identity(&meta));
        let any = self.tree(path, here, above);
        above.pop();
        any
    }
}

/// A file's name in messages; without `./` if the working directory is searched unasked.
fn shown(path: &Path, here: bool) -> &[u8] {
    let name = path.as_os_str().as_bytes();
    match here {
        true => name.strip_prefix(b"./").unwrap_or(name),
        false => name,
    }
}
