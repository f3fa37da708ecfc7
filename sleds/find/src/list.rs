//! `-ls`: prints a file like `ls -dils`.

use std::io::Write as _;

use rustix::fs::{FileType, Stat};

use super::perm;
use super::sys::LocalTime;
use sleds_common::gnu::escape_letter;

/// Current column widths. They grow with their content.
pub(super) struct ColumnWidths {
    inode: usize,
    blocks: usize,
    links: usize,
    user: usize,
    group: usize,
    size: usize,
}

impl Default for ColumnWidths {
    fn default() -> ColumnWidths {
        ColumnWidths {
            inode: 9,
            blocks: 6,
            links: 3,
            user: 8,
            group: 8,
            size: 8,
        }
    }
}

/// A file to list.
pub(super) struct ListedFile<'a> {
    pub(super) path: &'a [u8],
    pub(super) stat: &'a Stat,
    pub(super) link: Option<&'a [u8]>,
    /// Names, if known.
    pub(super) user: Option<&'a [u8]>,
    pub(super) group: Option<&'a [u8]>,
    /// Seconds since 1970.
    pub(super) now: i64,
    /// True if the column of blocks counts 512 bytes, as POSIX demands, and not 1024.
    pub(super) small_blocks: bool,
}

fn column(to: &mut Vec<u8>, width: &mut usize, text: &str) {
    *width = (*width).max(text.len());
    let _ = write!(to, "{text:>0$} ", *width);
}

fn name_column(to: &mut Vec<u8>, width: &mut usize, name: &[u8]) {
    *width = (*width).max(name.len());
    to.extend_from_slice(name);
    to.resize(to.len() + *width - name.len() + 1, b' ');
}

/// Writes a number in place of a missing name, and returns its width.
fn number_column(to: &mut Vec<u8>, id: u32) -> usize {
    let text = format!("{id:<8}");
    let _ = write!(to, "{text} ");
    text.len()
}

impl ListedFile<'_> {
    /// Writes the line.
    pub(super) fn write(&self, to: &mut Vec<u8>, widths: &mut ColumnWidths) {
        let stat = self.stat;
        column(to, &mut widths.inode, &stat.st_ino.to_string());
        let blocks = stat.st_blocks as u64;
        let blocks = if self.small_blocks {
            blocks
        } else {
            blocks.div_ceil(2)
        };
        column(to, &mut widths.blocks, &blocks.to_string());
        to.extend_from_slice(&perm::letters(stat.st_mode));
        to.push(b' ');
        column(to, &mut widths.links, &stat.st_nlink.to_string());
        match self.user {
            Some(name) => name_column(to, &mut widths.user, name),
            // GNU find adds the space after a number to the width of names.
            None => widths.user = widths.user.max(number_column(to, stat.st_uid) + 1),
        }
        match self.group {
            Some(name) => name_column(to, &mut widths.group, name),
            None => widths.group = widths.group.max(number_column(to, stat.st_gid)),
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::CharacterDevice | FileType::BlockDevice => {
                let (major, minor) = (
                    rustix::fs::major(stat.st_rdev),
                    rustix::fs::minor(stat.st_rdev),
                );
                let _ = write!(to, "{major:>3}, {minor:>3} ");
            }
            _ => column(to, &mut widths.size, &stat.st_size.to_string()),
        }
        to.extend_from_slice(&self.date());
        to.push(b' ');
        escape(to, self.path);
        if let Some(link) = self.link {
            to.extend_from_slice(b" -> ");
            escape(to, link);
        }
        to.push(b'\n');
    }

    /// Returns the time of day for dates less than half a year old, otherwise the year.
    fn date(&self) -> Vec<u8> {
        let seconds = self.stat.st_mtime;
        let recent = self.now - 6 * 30 * 86_400 <= seconds && seconds - 3600 <= self.now;
        let format = if recent { c"%b %e %H:%M" } else { c"%b %e  %Y" };
        match LocalTime::new(seconds) {
            Some(local) => local.format(format),
            None => seconds.to_string().into_bytes(),
        }
    }
}

/// Writes a name as one word of printable ASCII.
fn escape(to: &mut Vec<u8>, name: &[u8]) {
    for byte in name {
        match *byte {
            // These two characters are not among the letters here.
            7 | 11 => {
                let _ = write!(to, "\\{byte:03o}");
            }
            b' ' | b'"' => to.extend_from_slice(&[b'\\', *byte]),
            b if b.is_ascii_graphic() && b != b'\\' => to.push(b),
            b => match escape_letter(char::from(b)) {
                Some(letter) => to.extend_from_slice(&[b'\\', letter]),
                None => {
                    let _ = write!(to, "\\{b:03o}");
                }
            },
        }
    }
}
