//! `-printf`: output of the directives.

use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;

use super::entry::{VisitedFile, base_name, dir_name, kind_letter};
use super::eval::EvalState;
use super::printf::{
    FieldLayout, PrintfDirective, PrintfFormat, PrintfItem, general, long_time, time,
};
use super::{perm, report};
use sleds_common::text;

impl EvalState {
    /// Writes a format for a file.
    pub(super) fn format(&mut self, to: usize, format: &PrintfFormat, entry: &VisitedFile<'_>) {
        for piece in &format.pieces {
            match piece {
                PrintfItem::Text(text) => self.outputs.buffer(to).extend_from_slice(text),
                PrintfItem::Stop => {
                    self.outputs.flush(to);
                    return;
                }
                PrintfItem::Directive { field, what } => {
                    let mut text = Vec::new();
                    self.directive(&mut text, *field, *what, entry);
                    self.outputs.buffer(to).extend_from_slice(&text);
                }
            }
        }
        self.outputs.wrote(to);
    }

    fn directive(
        &mut self,
        to: &mut Vec<u8>,
        field: FieldLayout,
        what: PrintfDirective,
        entry: &VisitedFile<'_>,
    ) {
        let letter = match what {
            PrintfDirective::Time(clock, letter) => {
                let moment = self.moment(entry, clock);
                return moment.map_or((), |moment| field.text(to, &time(moment, letter)));
            }
            PrintfDirective::LongTime(clock) => {
                let moment = self.moment(entry, clock);
                return moment.map_or((), |moment| field.text(to, &long_time(moment)));
            }
            PrintfDirective::Letter(letter) => letter,
        };
        match letter {
            b'p' | b'f' | b'h' | b'H' | b'P' => field.text(to, path_part(entry, letter)),
            b'd' => field.decimal(to, entry.depth as u64),
            b'y' => field.text(to, &[entry.kind().map_or(b'U', kind_letter)]),
            b'Y' => field.text(to, &[self.target_letter(entry)]),
            b'l' => match entry.link() {
                Ok(target) => field.text(to, target.as_deref().unwrap_or(b"")),
                Err(errno) => self.complain(entry, errno),
            },
            b'Z' => self.context(to, field, entry),
            _ => {
                if let Some(stat) = self.stat(entry) {
                    self.of_status(to, field, letter, stat);
                }
            }
        }
    }

    fn of_status(&mut self, to: &mut Vec<u8>, field: FieldLayout, letter: u8, stat: &Stat) {
        let number = |n: u64| n.to_string();
        let text = match letter {
            b'b' => number(stat.st_blocks as u64),
            b'k' => number((stat.st_blocks as u64).div_ceil(2)),
            b'D' => number(stat.st_dev),
            b'i' => number(stat.st_ino),
            b'n' => number(stat.st_nlink),
            b's' => number(stat.st_size as u64),
            b'U' => number(stat.st_uid.into()),
            b'G' => number(stat.st_gid.into()),
            b'm' => return field.octal(to, stat.st_mode & 0o7777),
            b'M' => return field.text(to, &perm::letters(stat.st_mode)),
            b'F' => return field.text(to, self.mounts.type_of(stat.st_dev)),
            b'u' | b'g' => {
                let (name, id) = match letter {
                    b'u' => (self.users.get(stat.st_uid), stat.st_uid),
                    _ => (self.groups.get(stat.st_gid), stat.st_gid),
                };
                let id = id.to_string();
                return field.text(to, name.unwrap_or(id.as_bytes()));
            }
            _ => general(sparseness(stat)),
        };
        field.text(to, text.as_bytes());
    }

    /// Returns the type letter of a link's target, or the letter of the error.
    fn target_letter(&mut self, entry: &VisitedFile<'_>) -> u8 {
        match entry.kind() {
            Ok(FileType::Symlink) => {}
            Ok(kind) => return kind_letter(kind),
            Err(_) => return b'U',
        }
        match rustix::fs::statat(entry.dir, entry.name, AtFlags::empty()) {
            Ok(stat) => kind_letter(FileType::from_raw_mode(stat.st_mode)),
            Err(Errno::NOENT | Errno::NOTDIR) => b'N',
            Err(Errno::LOOP) => b'L',
            Err(errno) => {
                report::file_error(entry.path, errno);
                b'?'
            }
        }
    }

    /// Writes the security context of SELinux.
    fn context(&mut self, to: &mut Vec<u8>, field: FieldLayout, entry: &VisitedFile<'_>) {
        let read = || -> Result<Vec<u8>, Errno> {
            use rustix::fs::{Mode, OFlags};
            let file = rustix::fs::openat(
                entry.dir,
                entry.name,
                OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW,
                Mode::empty(),
            )?;
            let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
            let mut value = vec![0_u8; 1024];
            let length = rustix::fs::getxattr(path.as_str(), "security.selinux", &mut value[..])?;
            value.truncate(length);
            Ok(value)
        };
        match read() {
            Ok(value) => field.text(to, value.strip_suffix(b"\0").unwrap_or(&value)),
            Err(errno) => {
                report::error(text!(
                    "getfilecon failed: ",
                    report::about(entry.path, errno)
                ));
            }
        }
    }
}

/// Returns the part of a file's path for a directive.
fn path_part<'e>(entry: &VisitedFile<'e>, letter: u8) -> &'e [u8] {
    let (start, rest) = entry.path.split_at(entry.start_len);
    match letter {
        b'f' => base_name(entry.path),
        b'h' => dir_name(entry.path),
        b'H' => start,
        b'P' => rest.strip_prefix(b"/").unwrap_or(rest),
        _ => entry.path,
    }
}

/// Returns the share of its length that a file occupies on disk; 1 means the full length.
fn sparseness(stat: &Stat) -> f64 {
    let taken = 512.0 * stat.st_blocks as f64;
    match (stat.st_size, stat.st_blocks) {
        (0, 0) => 1.0,
        _ => taken / stat.st_size as f64,
    }
}
