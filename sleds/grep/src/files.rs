//! The files of a search: those on the command line, and those in directories.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fd::AsFd as _;

use super::block::SearchedFile;
use super::config::{DeviceTreatment, DirectoryTreatment, FileListing, GrepConfig};
use super::emit::SearchOutcome;
use super::output::GrepOutput;
use super::pieces::{self, SearchError};
use super::regex::{CompiledPatterns, MatchLimitError};
use super::walk::{self, DeviceInode, SearchEntryKind, identity, is_device};
use super::{NOTHING_SELECTED, SELECTED, TROUBLE};
use sleds_common::gnu::{self, ErrorReporter};
use sleds_common::stdio;

/// Number of bytes that GNU grep reads at once.
const READ_BYTES: u64 = 96 << 10;

/// Type of standard output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StandardOutput {
    /// A file. Searching the output file would never end.
    File(DeviceInode),
    /// `/dev/null`.
    Nowhere,
    Terminal,
    Other,
}

impl StandardOutput {
    pub(super) fn look() -> StandardOutput {
        let Ok(stat) = rustix::fs::fstat(rustix::stdio::stdout()) else {
            return StandardOutput::Other;
        };
        match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
            rustix::fs::FileType::RegularFile => StandardOutput::File((stat.st_dev, stat.st_ino)),
            rustix::fs::FileType::CharacterDevice => {
                let null = std::fs::metadata("/dev/null");
                let same = null.is_ok_and(|null| identity(&null) == (stat.st_dev, stat.st_ino));
                if same && stdio::output_is_closed() {
                    StandardOutput::Other
                } else if same {
                    StandardOutput::Nowhere
                } else {
                    StandardOutput::Terminal
                }
            }
            _ => StandardOutput::Other,
        }
    }
}

/// A search of many files.
pub(super) struct Grep {
    pub(super) config: GrepConfig,
    pub(super) regex: CompiledPatterns,
    pub(super) out: GrepOutput,
    pub(super) complaints: ErrorReporter,
    pub(super) output: StandardOutput,
    /// True if lines begin with the file's name. For `None`, the first file decides.
    pub(super) show_names: Option<bool>,
    pub(super) trouble: bool,
}

impl Grep {
    pub(super) fn all(mut self) -> u8 {
        let recurse = self.config.directories == DirectoryTreatment::Recurse;
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

    /// Searches a file of the command line. Like all search functions here, returns true if a line is selected.
    fn named(&mut self, name: &OsStr) -> bool {
        if name != "-" {
            let name = match self.config.directories {
                DirectoryTreatment::Recurse => walk::without_slashes(name),
                DirectoryTreatment::Read | DirectoryTreatment::Skip => name,
            };
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

    /// Prints a message after all previous output.
    fn say(&mut self, text: impl AsRef<[u8]>) {
        self.out.flush();
        self.complaints.note(text);
    }

    fn skips_devices(&self, named: bool) -> bool {
        match self.config.devices {
            DeviceTreatment::Skip => true,
            DeviceTreatment::Read => false,
            DeviceTreatment::Named => !named && !self.config.dereference,
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

    /// Returns true if the command line's globs exclude the file.
    fn skips(&self, name: &[u8], named: bool, directory: bool) -> bool {
        if !directory {
            return self.config.file_globs.exclude(name, named);
        }
        if self.config.directories == DirectoryTreatment::Skip {
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
                DirectoryTreatment::Recurse => return self.directory(path, &meta, named),
                DirectoryTreatment::Skip => return false,
                DirectoryTreatment::Read => {}
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

    /// Returns true if the output goes to the searched file.
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
        let start = if is_stdin {
            file.stream_position().unwrap_or(0)
        } else {
            0
        };
        let source = SearchedFile {
            file: meta.is_file().then_some(file),
            start,
            length: meta.len(),
            name: names.then_some(shown),
        };
        let (config, regex) = (&self.config, &mut self.regex);
        let found = pieces::reader(file, config, is_stdin)
            .map(|mut pieces| pieces::search(config, regex, &mut self.out, &source, &mut pieces));
        let (outcome, trouble) =
            found.unwrap_or_else(|error| (SearchOutcome::default(), Some(SearchError::Io(error))));
        if let Some(trouble) = trouble {
            self.complain_of(trouble, shown);
        }
        self.report(outcome, shown, names);
        if is_stdin {
            self.leave_stdin(file, start..meta.len(), outcome);
        }
        outcome.selected > 0
    }

    /// Reports an error that ended the search of a file early.
    fn complain_of(&mut self, trouble: SearchError, shown: &[u8]) {
        match trouble {
            SearchError::Io(error) => self.complain(shown, &error),
            SearchError::TooDeep(MatchLimitError::Nested) => {
                self.trouble = true;
                self.say("stack overflow");
            }
            // GNU grep exits here.
            SearchError::TooDeep(MatchLimitError::Perl(failure)) => {
                self.say([shown, b": ", failure.reason().as_bytes()].concat());
                std::process::exit(i32::from(TROUBLE));
            }
        }
    }

    /// Prints the output about a file as a whole.
    fn report(&mut self, outcome: SearchOutcome, shown: &[u8], names: bool) {
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
            FileListing::None => false,
            FileListing::Matching => outcome.selected > 0,
            FileListing::Nonmatching => outcome.selected == 0,
        };
        if listed {
            self.out.filename_alone(shown);
        }
    }

    /// Positions standard input for the next reader: after the last selected line if no more lines were wanted,
    /// otherwise at the end. If the first selected line was enough, the position is at the end of the block that GNU
    /// grep would have read.
    fn leave_stdin(&mut self, mut file: &File, searched: Range<u64>, outcome: SearchOutcome) {
        if self.config.first_is_enough() && !self.config.nobody && outcome.selected > 0 {
            let read = outcome.after_last.next_multiple_of(READ_BYTES);
            // A pipe stays where it is.
            let end = searched.end.max(searched.start);
            let _ = file.seek(SeekFrom::Start((searched.start + read).min(end)));
            return;
        }
        let lines = self.config.listing == FileListing::None;
        let wanted = if lines && outcome.selected >= self.config.max_count {
            SeekFrom::Start(searched.start + outcome.after_last)
        } else {
            SeekFrom::End(0)
        };
        let moved = file.seek(wanted);
        if moved.is_err() && wanted == SeekFrom::End(0) {
            // The rest of a pipe is read, so that its writer does not receive SIGPIPE.
            let mut rest = vec![0; 64 << 10];
            while matches!(file.read(&mut rest), Ok(n) if n > 0) {}
        }
    }

    /// Searches all files in a directory.
    fn directory(&mut self, path: &Path, meta: &Metadata, named: bool) -> bool {
        let here = named && self.config.here;
        self.tree(path, here, &mut vec![identity(meta)])
    }

    fn tree(&mut self, path: &Path, here: bool, above: &mut Vec<DeviceInode>) -> bool {
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
            let directory = entry.kind == SearchEntryKind::Directory;
            if self.skips(entry.name.as_bytes(), false, directory) {
                continue;
            }
            any |= match entry.kind {
                SearchEntryKind::Link => false,
                SearchEntryKind::Directory => self.subtree(&entry.path, here, above),
                SearchEntryKind::Device if self.skips_devices(false) => false,
                SearchEntryKind::Device | SearchEntryKind::File => {
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

    fn subtree(&mut self, path: &Path, here: bool, above: &mut Vec<DeviceInode>) -> bool {
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

/// Returns a file's name for messages; without `./` if the working directory is searched by default.
fn shown(path: &Path, here: bool) -> &[u8] {
    let name = path.as_os_str().as_bytes();
    if here {
        name.strip_prefix(b"./").unwrap_or(name)
    } else {
        name
    }
}
