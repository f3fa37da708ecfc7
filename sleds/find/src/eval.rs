//! Evaluates an expression for a file.

use std::collections::HashMap;
use std::ffi::{CStr, CString};

use rustix::fs::{AtFlags, FileType, Mode, RawDir, Stat};
use rustix::io::Errno;

use super::command::CommandRunner;
use super::cost::{WalkCosts, compares};
use super::entry::{
    TimestampKind, UnixTime, VisitedFile, base_name, kind_letter, stat_at, trim_slashes,
};
use super::expr::{ExprNode, FileTest, FindAction, NumericComparison, PermMatch};
use super::list::{ColumnWidths, ListedFile};
use super::mounts::FilesystemTypes;
use super::output::{ActionOutputs, for_terminal};
use super::walk::{FileVisitor, READ_FOLDER, WalkFlow, WalkOptions};
use super::{report, sys};
use sleds_common::{glob, text};

/// State shared by all tests and actions.
pub(super) struct EvalState {
    pub(super) outputs: ActionOutputs,
    pub(super) runners: Vec<CommandRunner>,
    pub(super) mounts: FilesystemTypes,
    pub(super) costs: WalkCosts,
    pub(super) users: OwnerNames,
    pub(super) groups: OwnerNames,
    pub(super) now: UnixTime,
    /// True if `-ls` counts blocks of 512 bytes.
    small_blocks: bool,
    pub(super) ignore_race: bool,
    depth_first: bool,
    widths: ColumnWidths,
    flow: WalkFlow,
    /// Depth of the walk. Commands for the files of one directory run when the depth changes.
    depth: usize,
}

/// Names of users or of groups, each looked up once.
pub(super) struct OwnerNames {
    known: HashMap<u32, Option<CString>>,
    look_up: fn(u32) -> Option<CString>,
}

impl OwnerNames {
    fn new(look_up: fn(u32) -> Option<CString>) -> OwnerNames {
        OwnerNames {
            known: HashMap::new(),
            look_up,
        }
    }

    pub(super) fn get(&mut self, id: u32) -> Option<&[u8]> {
        let name = self.known.entry(id).or_insert_with(|| (self.look_up)(id));
        name.as_ref().map(|name| name.to_bytes())
    }
}

/// An expression that visits files.
pub(super) struct ExpressionVisitor {
    pub(super) expr: ExprNode,
    pub(super) state: EvalState,
}

impl FileVisitor for ExpressionVisitor {
    fn visit(&mut self, entry: &VisitedFile<'_>) -> WalkFlow {
        self.state.flow = WalkFlow::Continue;
        self.state.value(&self.expr, entry, true);
        self.state.flow
    }

    fn at_depth(&mut self, depth: usize) {
        let state = &mut self.state;
        if depth != state.depth || depth == 0 {
            state.depth = depth;
            let outputs = &mut state.outputs;
            for runner in state.runners.iter_mut().filter(|one| one.waits_in_dir()) {
                runner.run_waiting(&mut || outputs.flush_all());
            }
        }
    }
}

impl EvalState {
    pub(super) fn new(
        outputs: ActionOutputs,
        runners: Vec<CommandRunner>,
        now: UnixTime,
        walk: &WalkOptions,
    ) -> EvalState {
        EvalState {
            outputs,
            runners,
            mounts: FilesystemTypes::default(),
            costs: WalkCosts::default(),
            users: OwnerNames::new(sys::user_name),
            groups: OwnerNames::new(sys::group_name),
            now,
            small_blocks: std::env::var_os("POSIXLY_CORRECT").is_some(),
            ignore_race: walk.ignore_race,
            depth_first: walk.depth_first,
            widths: ColumnWidths::default(),
            flow: WalkFlow::Continue,
            depth: 0,
        }
    }

    /// Runs the commands with kept files, and writes out the buffers.
    pub(super) fn finish(&mut self, report: bool) {
        let outputs = &mut self.outputs;
        // Commands that run in directories come last.
        self.runners.sort_by_key(CommandRunner::waits_in_dir);
        for runner in &mut self.runners {
            runner.run_waiting(&mut || outputs.flush_all());
        }
        self.outputs.finish();
        self.costs.finish(report);
    }

    /// Returns the value of the expression. `wanted` is the value that lets the file through, as far as it is known;
    /// every `!` inverts it.
    fn value(&mut self, node: &ExprNode, entry: &VisitedFile<'_>, wanted: bool) -> bool {
        match node {
            ExprNode::Test(test) => {
                let value = self.test(test, entry);
                let costs = matches!(test, FileTest::Latency { .. } | FileTest::Level(_));
                if costs && value != wanted {
                    self.costs.skip(entry);
                }
                value
            }
            ExprNode::Do(action) => self.act(action, entry),
            ExprNode::Not(node) => !self.value(node, entry, !wanted),
            ExprNode::And(nodes) => nodes
                .iter()
                .all(|node| self.value(node, entry, wanted) && self.flow != WalkFlow::Quit),
            ExprNode::Or(nodes) => nodes
                .iter()
                .any(|node| self.value(node, entry, wanted) || self.flow == WalkFlow::Quit),
            ExprNode::List(nodes) => {
                let mut last = false;
                for node in nodes {
                    last = self.value(node, entry, wanted);
                    if self.flow == WalkFlow::Quit {
                        break;
                    }
                }
                last
            }
        }
    }

    /// Reports once that a file cannot be examined.
    pub(super) fn complain(&self, entry: &VisitedFile<'_>, errno: Errno) {
        let vanished = errno == Errno::NOENT && self.ignore_race;
        if !vanished && !entry.complained.replace(true) {
            report::file_error(entry.path, errno);
        }
    }

    /// Returns a file's status. Reports an error.
    pub(super) fn stat<'e>(&self, entry: &'e VisitedFile<'_>) -> Option<&'e Stat> {
        self.known(entry, entry.stat())
    }

    /// Returns the result of a query about a file. Reports an error.
    fn known<T>(&self, entry: &VisitedFile<'_>, found: Result<T, Errno>) -> Option<T> {
        found.inspect_err(|errno| self.complain(entry, *errno)).ok()
    }

    /// Returns the target of a link. Reports an error.
    fn link(&self, entry: &VisitedFile<'_>) -> Option<Vec<u8>> {
        self.known(entry, entry.link()).flatten()
    }

    /// Returns one of a file's times, if the file has it. Reports an error.
    pub(super) fn moment(&self, entry: &VisitedFile<'_>, clock: TimestampKind) -> Option<UnixTime> {
        self.known(entry, entry.time(clock)).flatten()
    }

    fn test(&mut self, test: &FileTest, entry: &VisitedFile<'_>) -> bool {
        match test {
            FileTest::True => true,
            FileTest::False => false,
            FileTest::Name { pattern, fold } => {
                matches(pattern, trim_slashes(base_name(entry.path)), *fold)
            }
            FileTest::Path { pattern, fold } => matches(pattern, entry.path, *fold),
            FileTest::Link { .. } if self.stat(entry).is_none() => false,
            FileTest::Link { pattern, fold } => self
                .link(entry)
                .is_some_and(|target| matches(pattern, &target, *fold)),
            FileTest::Regex(regex) => regex.borrow_mut().is_match(entry.path),
            FileTest::Kind(letters) => self
                .known(entry, entry.kind())
                .is_some_and(|kind| letters.contains(&kind_letter(kind))),
            FileTest::OtherKind(letters) => self.other_kind(entry, letters),
            FileTest::Empty => self.is_empty(entry),
            FileTest::May(access) => {
                rustix::fs::accessat(entry.dir, entry.name, *access, AtFlags::empty()).is_ok()
            }
            FileTest::Latency {
                compare,
                value,
                unit_s,
            } => self.costs.latency(entry, |seconds| {
                compares(seconds, *compare, *value, *unit_s)
            }),
            FileTest::Level(name) => self.costs.level(entry, name),
            FileTest::Newer { .. } | FileTest::Age { .. } | FileTest::Used { .. } => {
                self.time(test, entry)
            }
            _ => match self.stat(entry) {
                Some(stat) => self.status(test, stat),
                None => false,
            },
        }
    }

    /// Evaluates a test of the status alone.
    fn status(&mut self, test: &FileTest, stat: &Stat) -> bool {
        match test {
            FileTest::Size { number, unit } => number.holds((stat.st_size as u64).div_ceil(*unit)),
            FileTest::Perm { file, dir, how } => {
                let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
                let asked = if is_dir { *dir } else { *file };
                let mode = stat.st_mode & 0o7777;
                match how {
                    PermMatch::Exactly => mode == asked,
                    PermMatch::All => mode & asked == asked,
                    PermMatch::Any => asked == 0 || mode & asked != 0,
                }
            }
            FileTest::Links(number) => number.holds(stat.st_nlink),
            FileTest::Inode(number) => number.holds(stat.st_ino),
            FileTest::User(number) => number.holds(stat.st_uid.into()),
            FileTest::Group(number) => number.holds(stat.st_gid.into()),
            FileTest::NoUser => self.users.get(stat.st_uid).is_none(),
            FileTest::NoGroup => self.groups.get(stat.st_gid).is_none(),
            FileTest::SameFile { device, inode } => stat.st_dev == *device && stat.st_ino == *inode,
            FileTest::FileSystem(name) => self.mounts.type_of(stat.st_dev) == name,
            _ => unreachable!("the other tests are not about the status alone"),
        }
    }

    fn time(&mut self, test: &FileTest, entry: &VisitedFile<'_>) -> bool {
        let moment = |clock| self.moment(entry, clock);
        match test {
            FileTest::Newer { clock, than } => moment(*clock).is_some_and(|moment| moment > *than),
            FileTest::Age {
                clock,
                compare,
                reference,
                window,
            } => moment(*clock).is_some_and(|moment| match compare {
                NumericComparison::Equal => {
                    let after = nanos_between(*reference, moment);
                    after > 0 && after <= i128::from(*window) * 1_000_000_000
                }
                _ => compare.holds(moment, *reference),
            }),
            FileTest::Used { compare, nanos } => {
                let (Some(access), Some(change)) =
                    (moment(TimestampKind::Access), moment(TimestampKind::Change))
                else {
                    return false;
                };
                let unused = nanos_between(change, access);
                match compare {
                    _ if unused < 0 => false,
                    NumericComparison::Equal => {
                        let after = unused - (nanos - 86_400_000_000_000);
                        (0..86_400_000_000_000).contains(&after)
                    }
                    _ => compare.holds(unused, *nanos),
                }
            }
            _ => unreachable!("the other tests are not about times"),
        }
    }

    /// Evaluates `-xtype`: the type of a link's target, or of the link itself if links are followed.
    fn other_kind(&mut self, entry: &VisitedFile<'_>, letters: &[u8]) -> bool {
        let found = if entry.follow {
            rustix::fs::statat(entry.dir, entry.name, AtFlags::SYMLINK_NOFOLLOW)
        } else {
            stat_at(entry.dir, entry.name, true)
        };
        match found {
            Ok(stat) => letters.contains(&kind_letter(FileType::from_raw_mode(stat.st_mode))),
            Err(errno) => {
                if !entry.complained.get() {
                    report::file_error(entry.path, errno);
                }
                false
            }
        }
    }

    fn is_empty(&mut self, entry: &VisitedFile<'_>) -> bool {
        let Some(stat) = self.stat(entry) else {
            return false;
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => has_no_entries(entry).unwrap_or_else(|errno| {
                report::file_error(entry.path, errno);
                false
            }),
            FileType::RegularFile => stat.st_size == 0,
            _ => false,
        }
    }

    fn act(&mut self, action: &FindAction, entry: &VisitedFile<'_>) -> bool {
        match action {
            FindAction::Print { to, end } => {
                let terminal = *end != 0 && self.outputs.is_terminal(*to);
                let buffer = self.outputs.buffer(*to);
                if terminal {
                    for_terminal(buffer, entry.path);
                } else {
                    buffer.extend_from_slice(entry.path);
                }
                buffer.push(*end);
                self.outputs.wrote(*to);
                true
            }
            FindAction::Format { to, format } => {
                if format.needs_status() && self.stat(entry).is_none() {
                    return false;
                }
                self.format(*to, format, entry);
                true
            }
            FindAction::List { to } => self.list(*to, entry),
            // GNU find does not prune a folder whose status is not available.
            FindAction::Prune if !self.depth_first && self.stat(entry).is_none() => false,
            FindAction::Prune => {
                if self.flow == WalkFlow::Continue {
                    self.flow = WalkFlow::Prune;
                }
                true
            }
            FindAction::Quit => {
                self.flow = WalkFlow::Quit;
                true
            }
            FindAction::Delete => self.delete(entry),
            FindAction::Run(at) => {
                let outputs = &mut self.outputs;
                self.runners[*at].run(entry, &mut || outputs.flush_all())
            }
        }
    }

    fn list(&mut self, to: usize, entry: &VisitedFile<'_>) -> bool {
        let Some(stat) = self.stat(entry) else {
            return false;
        };
        let link = self.link(entry);
        let line = ListedFile {
            path: entry.path,
            stat,
            link: link.as_deref(),
            user: self.users.get(stat.st_uid),
            group: self.groups.get(stat.st_gid),
            now: self.now.seconds,
            small_blocks: self.small_blocks,
        };
        line.write(self.outputs.buffer(to), &mut self.widths);
        self.outputs.wrote(to);
        true
    }

    fn delete(&mut self, entry: &VisitedFile<'_>) -> bool {
        if entry.path == b"." {
            return true;
        }
        // As in GNU find, a followed link to a directory is not removed: the removal of a directory fails.
        let flags = match entry.kind() {
            Ok(FileType::Directory) => AtFlags::REMOVEDIR,
            _ => AtFlags::empty(),
        };
        match rustix::fs::unlinkat(entry.dir, entry.name, flags) {
            Ok(()) => true,
            Err(Errno::NOENT) if self.ignore_race => true,
            Err(errno) => {
                report::error(text!("cannot delete ", report::about(entry.path, errno)));
                false
            }
        }
    }
}

fn nanos_between(from: UnixTime, to: UnixTime) -> i128 {
    i128::from(to.seconds - from.seconds) * 1_000_000_000 + i128::from(to.nanos - from.nanos)
}

fn has_no_entries(entry: &VisitedFile<'_>) -> Result<bool, Errno> {
    let dir = rustix::fs::openat(entry.dir, entry.name, READ_FOLDER, Mode::empty())?;
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(&dir, &mut buffer);
    while let Some(found) = entries.next() {
        if !matches!(found?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns true if `text` matches a pattern. The match needs a terminating zero after the text.
fn matches(pattern: &CStr, text: &[u8], fold: bool) -> bool {
    let mut short = [0_u8; 512];
    if text.len() < short.len() {
        short[..text.len()].copy_from_slice(text);
        let end = CStr::from_bytes_until_nul(&short).expect("there is a zero behind the text");
        return glob::matches(pattern, end, fold);
    }
    glob::matches(pattern, &CString::new(text).unwrap_or_default(), fold)
}
