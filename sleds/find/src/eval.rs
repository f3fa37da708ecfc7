//! Evaluates an expression for a file.

use std::collections::HashMap;
use std::ffi::{CStr, CString};

use rustix::fs::{AtFlags, FileType, Mode, RawDir, Stat};
use rustix::io::Errno;

use super::command::Runner;
use super::cost::{Costs, compares};
use super::entry::{Clock, Entry, Moment, base_name, kind_letter, stat_at, trim_slashes};
use super::expr::{Action, Compare, Node, PermMatch, Test};
use super::list::{Line, Widths};
use super::mounts::Mounts;
use super::output::{Outputs, for_terminal};
use super::walk::{Flow, READ_FOLDER, Visitor, WalkOptions};
use super::{report, sys};
use sleds_common::{glob, text};

/// State shared by all tests and actions.
pub(super) struct State {
    pub(super) outputs: Outputs,
    pub(super) runners: Vec<Runner>,
    pub(super) mounts: Mounts,
    pub(super) costs: Costs,
    pub(super) users: Names,
    pub(super) groups: Names,
    pub(super) now: Moment,
    pub(super) ignore_race: bool,
    depth_first: bool,
    widths: Widths,
    flow: Flow,
    /// Depth of the walk. Commands for the files of one directory run when the depth changes.
    depth: usize,
}

/// Names of users or of groups, each looked up once.
pub(super) struct Names {
    known: HashMap<u32, Option<CString>>,
    look_up: fn(u32) -> Option<CString>,
}

impl Names {
    fn new(look_up: fn(u32) -> Option<CString>) -> Names {
        Names {
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
pub(super) struct Finder {
    pub(super) expr: Node,
    pub(super) state: State,
}

impl Visitor for Finder {
    fn visit(&mut self, entry: &Entry<'_>) -> Flow {
        self.state.flow = Flow::Continue;
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

impl State {
    pub(super) fn new(
        outputs: Outputs,
        runners: Vec<Runner>,
        now: Moment,
        walk: &WalkOptions,
    ) -> State {
        State {
            outputs,
            runners,
            mounts: Mounts::default(),
            costs: Costs::default(),
            users: Names::new(sys::user_name),
            groups: Names::new(sys::group_name),
            now,
            ignore_race: walk.ignore_race,
            depth_first: walk.depth_first,
            widths: Widths::default(),
            flow: Flow::Continue,
            depth: 0,
        }
    }

    /// Runs the commands with kept files, and writes out the buffers.
    pub(super) fn finish(&mut self, report: bool) {
        let outputs = &mut self.outputs;
        // Commands that run in directories come last.
        self.runners.sort_by_key(Runner::waits_in_dir);
        for runner in &mut self.runners {
            runner.run_waiting(&mut || outputs.flush_all());
        }
        self.outputs.finish();
        self.costs.finish(report);
    }

    /// Returns the value of the expression. `wanted` is the value that lets the file through, as far as it is known;
    /// every `!` inverts it.
    fn value(&mut self, node: &Node, entry: &Entry<'_>, wanted: bool) -> bool {
        match node {
            Node::Test(test) => {
                let value = self.test(test, entry);
                let costs = matches!(test, Test::Latency { .. } | Test::Level(_));
                if costs && value != wanted {
                    self.costs.skip(entry);
                }
                value
            }
            Node::Do(action) => self.act(action, entry),
            Node::Not(node) => !self.value(node, entry, !wanted),
            Node::And(nodes) => nodes
                .iter()
                .all(|node| self.value(node, entry, wanted) && self.flow != Flow::Quit),
            Node::Or(nodes) => nodes
                .iter()
                .any(|node| self.value(node, entry, wanted) || self.flow == Flow::Quit),
            Node::List(nodes) => {
                let mut last = false;
                for node in nodes {
                    last = self.value(node, entry, wanted);
                    if self.flow == Flow::Quit {
                        break;
                    }
                }
                last
            }
        }
    }

    /// Reports once that a file cannot be examined.
    pub(super) fn complain(&self, entry: &Entry<'_>, errno: Errno) {
        let vanished = errno == Errno::NOENT && self.ignore_race;
        if !vanished && !entry.complained.replace(true) {
            report::file_error(entry.path, errno);
        }
    }

    /// Returns a file's status. Reports an error.
    pub(super) fn stat<'e>(&self, entry: &'e Entry<'_>) -> Option<&'e Stat> {
        self.known(entry, entry.stat())
    }

    /// Returns the result of a query about a file. Reports an error.
    fn known<T>(&self, entry: &Entry<'_>, found: Result<T, Errno>) -> Option<T> {
        found.inspect_err(|errno| self.complain(entry, *errno)).ok()
    }

    /// Returns the target of a link. Reports an error.
    fn link(&self, entry: &Entry<'_>) -> Option<Vec<u8>> {
        self.known(entry, entry.link()).flatten()
    }

    /// Returns one of a file's times, if the file has it. Reports an error.
    pub(super) fn moment(&self, entry: &Entry<'_>, clock: Clock) -> Option<Moment> {
        self.known(entry, entry.time(clock)).flatten()
    }

    fn test(&mut self, test: &Test, entry: &Entry<'_>) -> bool {
        match test {
            Test::True => true,
            Test::False => false,
            Test::Name { pattern, fold } => {
                matches(pattern, trim_slashes(base_name(entry.path)), *fold)
            }
            Test::Path { pattern, fold } => matches(pattern, entry.path, *fold),
            Test::Link { .. } if self.stat(entry).is_none() => false,
            Test::Link { pattern, fold } => self
                .link(entry)
                .is_some_and(|target| matches(pattern, &target, *fold)),
            Test::Regex(regex) => regex.borrow_mut().is_match(entry.path),
            Test::Kind(letters) => self
                .known(entry, entry.kind())
                .is_some_and(|kind| letters.contains(&kind_letter(kind))),
            Test::OtherKind(letters) => self.other_kind(entry, letters),
            Test::Empty => self.is_empty(entry),
            Test::May(access) => {
                rustix::fs::accessat(entry.dir, entry.name, *access, AtFlags::empty()).is_ok()
            }
            Test::Latency {
                compare,
                value,
                unit_s,
            } => self.costs.latency(entry, |seconds| {
                compares(seconds, *compare, *value, *unit_s)
            }),
            Test::Level(name) => self.costs.level(entry, name),
            Test::Newer { .. } | Test::Age { .. } | Test::Used { .. } => self.time(test, entry),
            _ => match self.stat(entry) {
                Some(stat) => self.status(test, stat),
                None => false,
            },
        }
    }

    /// Evaluates a test of the status alone.
    fn status(&mut self, test: &Test, stat: &Stat) -> bool {
        match test {
            Test::Size { number, unit } => number.holds((stat.st_size as u64).div_ceil(*unit)),
            Test::Perm { file, dir, how } => {
                let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
                let asked = if is_dir { *dir } else { *file };
                let mode = stat.st_mode & 0o7777;
                match how {
                    PermMatch::Exactly => mode == asked,
                    PermMatch::All => mode & asked == asked,
                    PermMatch::Any => asked == 0 || mode & asked != 0,
                }
            }
            Test::Links(number) => number.holds(stat.st_nlink),
            Test::Inode(number) => number.holds(stat.st_ino),
            Test::User(number) => number.holds(stat.st_uid.into()),
            Test::Group(number) => number.holds(stat.st_gid.into()),
            Test::NoUser => self.users.get(stat.st_uid).is_none(),
            Test::NoGroup => self.groups.get(stat.st_gid).is_none(),
            Test::SameFile { device, inode } => stat.st_dev == *device && stat.st_ino == *inode,
            Test::FileSystem(name) => self.mounts.type_of(stat.st_dev) == name,
            _ => unreachable!("the other tests are not about the status alone"),
        }
    }

    fn time(&mut self, test: &Test, entry: &Entry<'_>) -> bool {
        let moment = |clock| self.moment(entry, clock);
        match test {
            Test::Newer { clock, than } => moment(*clock).is_some_and(|moment| moment > *than),
            Test::Age {
                clock,
                compare,
                reference,
                window,
            } => moment(*clock).is_some_and(|moment| match compare {
                Compare::Equal => {
                    let after = nanos_between(*reference, moment);
                    after > 0 && after <= i128::from(*window) * 1_000_000_000
                }
                _ => compare.holds(moment, *reference),
            }),
            Test::Used { compare, nanos } => {
                let (Some(access), Some(change)) = (moment(Clock::Access), moment(Clock::Change))
                else {
                    return false;
                };
                let unused = nanos_between(change, access);
                match compare {
                    _ if unused < 0 => false,
                    Compare::Equal => {
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
    fn other_kind(&mut self, entry: &Entry<'_>, letters: &[u8]) -> bool {
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

    fn is_empty(&mut self, entry: &Entry<'_>) -> bool {
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

    fn act(&mut self, action: &Action, entry: &Entry<'_>) -> bool {
        match action {
            Action::Print { to, end } => {
                let terminal = *end != 0 && self.outputs.is_terminal(*to);
                let buffer = self.outputs.buffer(*to);
                if terminal {
                    for_terminal(buffer, entry.path)
                } else {
                    buffer.extend_from_slice(entry.path)
                }
                buffer.push(*end);
                self.outputs.wrote(*to);
                true
            }
            Action::Format { to, format } => {
                if format.needs_status() && self.stat(entry).is_none() {
                    return false;
                }
                self.format(*to, format, entry);
                true
            }
            Action::List { to } => self.list(*to, entry),
            // GNU find does not prune a folder whose status is not available.
            Action::Prune if !self.depth_first && self.stat(entry).is_none() => false,
            Action::Prune => {
                if self.flow == Flow::Continue {
                    self.flow = Flow::Prune;
                }
                true
            }
            Action::Quit => {
                self.flow = Flow::Quit;
                true
            }
            Action::Delete => self.delete(entry),
            Action::Run(at) => {
                let outputs = &mut self.outputs;
                self.runners[*at].run(entry, &mut || outputs.flush_all())
            }
        }
    }

    fn list(&mut self, to: usize, entry: &Entry<'_>) -> bool {
        let Some(stat) = self.stat(entry) else {
            return false;
        };
        let link = self.link(entry);
        let line = Line {
            path: entry.path,
            stat,
            link: link.as_deref(),
            user: self.users.get(stat.st_uid),
            group: self.groups.get(stat.st_gid),
            now: self.now.seconds,
        };
        line.write(self.outputs.buffer(to), &mut self.widths);
        self.outputs.wrote(to);
        true
    }

    fn delete(&mut self, entry: &Entry<'_>) -> bool {
        if entry.path == b"." {
            return true;
        }
        let is_dir = matches!(entry.kind(), Ok(FileType::Directory));
        let link_followed = || {
            let found = rustix::fs::statat(entry.dir, entry.name, AtFlags::SYMLINK_NOFOLLOW);
            found.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
        };
        let flags = if is_dir && !(entry.follow && link_followed()) {
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
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

fn nanos_between(from: Moment, to: Moment) -> i128 {
    i128::from(to.seconds - from.seconds) * 1_000_000_000 + i128::from(to.nanos - from.nanos)
}

fn has_no_entries(entry: &Entry<'_>) -> Result<bool, Errno> {
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
