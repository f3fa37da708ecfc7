//! Validation: converts a request into a device's operation. All errors that a client can make are found here.

use std::ops::Range;

use forebay_device::Room;

use super::export::{Export, REQUEST_BYTES_MAX};
use super::format::{Errno, Request, command, command_flag};
use super::handshake::Session;
use crate::requests::Change;

/// A valid request: aligned, inside the export, and allowed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Command {
    Read { range: Range<u64>, whole: bool },
    Write { range: Range<u64>, fua: bool },
    Change(Change),
    Status { range: Range<u64>, one: bool },
}

/// Returns the request flags that the command allows. FUA is allowed for all commands, although some ignore it.
fn flags_known(code: u16, session: &Session) -> u16 {
    use command_flag::*;
    FUA | match code {
        command::READ if session.structured => DF,
        command::WRITE_ZEROES => NO_HOLE | FAST_ZERO,
        command::BLOCK_STATUS => REQ_ONE,
        _ => 0,
    }
}

/// Validates `request`.
///
/// # Errors
/// The error number to answer instead of executing the request.
pub(super) fn check(session: &Session, request: &Request) -> Result<Command, Errno> {
    if request.flags & !flags_known(request.command, session) != 0 {
        return Err(Errno::Inval);
    }
    let has = |flag| request.flags & flag != 0;
    let fua = has(command_flag::FUA);
    let export = &*session.export;
    match request.command {
        command::READ => {
            let range = range(export, request, Errno::Inval)?;
            limit(request)?;
            let whole = !session.structured || has(command_flag::DF);
            Ok(Command::Read { range, whole })
        }
        command::WRITE => {
            writable(export)?;
            let range = range(export, request, Errno::NoSpc)?;
            limit(request)?;
            Ok(Command::Write { range, fua })
        }
        command::FLUSH if request.offset == 0 && request.len == 0 => {
            Ok(Command::Change(Change::Flush))
        }
        command::TRIM if export.is_read_only() || export.discards() => {
            writable(export)?;
            let range = range(export, request, Errno::Inval)?;
            Ok(Command::Change(Change::Discard { range, fua }))
        }
        command::WRITE_ZEROES => {
            writable(export)?;
            let range = range(export, request, Errno::NoSpc)?;
            if has(command_flag::FAST_ZERO) && !export.has_fast_zeroes() {
                return Err(Errno::NotSup);
            }
            let room = if has(command_flag::NO_HOLE) {
                Room::Keep
            } else {
                Room::Release
            };
            Ok(Command::Change(Change::Zero { range, room, fua }))
        }
        command::BLOCK_STATUS if session.contexts.any() => {
            let range = range(export, request, Errno::Inval)?;
            let one = has(command_flag::REQ_ONE);
            Ok(Command::Status { range, one })
        }
        _ => Err(Errno::Inval),
    }
}

fn writable(export: &Export) -> Result<(), Errno> {
    if export.is_read_only() {
        Err(Errno::Perm)
    } else {
        Ok(())
    }
}

fn limit(request: &Request) -> Result<(), Errno> {
    if request.len > REQUEST_BYTES_MAX {
        Err(Errno::Inval)
    } else {
        Ok(())
    }
}

/// Returns the request's range if it is in whole blocks, not empty, and inside the export; `past_end` if it ends
/// outside.
fn range(export: &Export, request: &Request, past_end: Errno) -> Result<Range<u64>, Errno> {
    let geometry = export.geometry();
    let end = request.offset.checked_add(request.len.into());
    let end = end.filter(|end| *end <= geometry.len).ok_or(past_end)?;
    let block = u64::from(geometry.block_size);
    let whole = request.offset.is_multiple_of(block) && end.is_multiple_of(block);
    if request.len == 0 || !whole {
        return Err(Errno::Inval);
    }
    Ok(request.offset..end)
}
