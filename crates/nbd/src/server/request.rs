//! Validation: converts a request into a device's operation. All errors that a client can make are found here.

use std::ops::Range;

use forebay_device::ZeroedSpace;
use forebay_frontend::requests::ChangeRequest;

use super::export::{NbdExport, REQUEST_BYTES_MAX};
use super::handshake::NbdSession;
use crate::codec::format::{NbdErrno, NbdRequest, command, command_flag};

/// A valid request: aligned, inside the export, and allowed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum NbdCommand {
    Read { range: Range<u64>, whole: bool },
    Write { range: Range<u64>, fua: bool },
    Change(ChangeRequest),
    Status { range: Range<u64>, one: bool },
}

/// Returns the request flags that the command allows. FUA is allowed for all commands, although some ignore it.
fn flags_known(code: u16, session: &NbdSession) -> u16 {
    use command_flag::{DF, FAST_ZERO, FUA, NO_HOLE, REQ_ONE};
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
pub(super) fn check(session: &NbdSession, request: &NbdRequest) -> Result<NbdCommand, NbdErrno> {
    if request.flags & !flags_known(request.command, session) != 0 {
        return Err(NbdErrno::Inval);
    }
    let has = |flag| request.flags & flag != 0;
    let fua = has(command_flag::FUA);
    let export = &*session.export;
    match request.command {
        command::READ => {
            let range = range(export, request, NbdErrno::Inval)?;
            limit(request)?;
            let whole = !session.structured || has(command_flag::DF);
            Ok(NbdCommand::Read { range, whole })
        }
        command::WRITE => {
            writable(export)?;
            let range = range(export, request, NbdErrno::NoSpc)?;
            limit(request)?;
            Ok(NbdCommand::Write { range, fua })
        }
        command::FLUSH if request.offset == 0 && request.len == 0 => {
            Ok(NbdCommand::Change(ChangeRequest::Flush))
        }
        command::TRIM if export.is_read_only() || export.discards() => {
            writable(export)?;
            let range = range(export, request, NbdErrno::Inval)?;
            Ok(NbdCommand::Change(ChangeRequest::Discard { range, fua }))
        }
        command::WRITE_ZEROES => {
            writable(export)?;
            let range = range(export, request, NbdErrno::NoSpc)?;
            if has(command_flag::FAST_ZERO) && !export.has_fast_zeroes() {
                return Err(NbdErrno::NotSup);
            }
            let room = if has(command_flag::NO_HOLE) {
                ZeroedSpace::Keep
            } else {
                ZeroedSpace::Release
            };
            Ok(NbdCommand::Change(ChangeRequest::Zero { range, room, fua }))
        }
        command::BLOCK_STATUS if session.contexts.any() => {
            let range = range(export, request, NbdErrno::Inval)?;
            let one = has(command_flag::REQ_ONE);
            Ok(NbdCommand::Status { range, one })
        }
        _ => Err(NbdErrno::Inval),
    }
}

fn writable(export: &NbdExport) -> Result<(), NbdErrno> {
    if export.is_read_only() {
        Err(NbdErrno::Perm)
    } else {
        Ok(())
    }
}

fn limit(request: &NbdRequest) -> Result<(), NbdErrno> {
    if request.len > REQUEST_BYTES_MAX {
        Err(NbdErrno::Inval)
    } else {
        Ok(())
    }
}

/// Returns the request's range if it is in whole blocks, not empty, and inside the export; `past_end` if it ends
/// outside.
fn range(
    export: &NbdExport,
    request: &NbdRequest,
    past_end: NbdErrno,
) -> Result<Range<u64>, NbdErrno> {
    let geometry = export.geometry();
    let end = request.offset.checked_add(request.len.into());
    let end = end.filter(|end| *end <= geometry.len).ok_or(past_end)?;
    let block = u64::from(geometry.block_size);
    let whole = request.offset.is_multiple_of(block) && end.is_multiple_of(block);
    if request.len == 0 || !whole {
        return Err(NbdErrno::Inval);
    }
    Ok(request.offset..end)
}
