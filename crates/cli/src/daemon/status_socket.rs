//! The socket of members of the group `forebay`, which shows the status of root's volumes and permits nothing else.
//!
//! The socket accepts the requests `ping` and `status`, and refuses all others. It has its own limits, so hostile
//! clients never take the connections of the control socket.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use forebay_control::ControlRequest;
use forebay_linux::{IoRing, SocketListener};
use forebay_volume::VolumeName;

use crate::dirs::ProgramDirs;
use forebay_command_output::failure::CommandFailure;

/// The group whose members may see the status, unless `FOREBAY_GROUP` names another.
const GROUP: &str = "forebay";
/// The file with the groups of the system.
const GROUPS: &str = "/etc/group";

/// The requests that a socket accepts, and the limits of its clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ControlAccess {
    /// All requests.
    Full,
    /// Only requests for the status.
    StatusOnly,
}

impl ControlAccess {
    /// Returns the maximum number of clients; a further connection is closed at once.
    pub(super) fn clients_max(self) -> usize {
        match self {
            ControlAccess::Full => 32,
            ControlAccess::StatusOnly => 16,
        }
    }

    /// Returns the time for a client to send its next request, and to fetch a reply.
    pub(super) fn patience(self) -> Duration {
        match self {
            ControlAccess::Full => Duration::from_secs(30),
            ControlAccess::StatusOnly => Duration::from_secs(5),
        }
    }

    /// Returns the pause before the next request of a client and before the next connection. It bounds the work for
    /// clients that ask without a pause.
    pub(super) fn pause(self) -> Option<Duration> {
        match self {
            ControlAccess::Full => None,
            ControlAccess::StatusOnly => Some(Duration::from_millis(5)),
        }
    }

    /// Returns the reason why the socket refuses a request.
    pub(super) fn refusal(
        self,
        request: &ControlRequest,
        name: &VolumeName,
    ) -> Option<CommandFailure> {
        let is_allowed = match self {
            ControlAccess::Full => true,
            ControlAccess::StatusOnly => {
                matches!(request, ControlRequest::Ping {} | ControlRequest::Status {})
            }
        };
        (!is_allowed).then(|| {
            CommandFailure::refused(format!(
                "this socket answers only requests for the status; use the control socket of {name} as the user who \
                 attached the volume"
            ))
        })
    }
}

/// Listens on the socket that only shows the status. `None` if the group is missing, or the daemon does not run as root.
///
/// # Errors
/// If the socket cannot be created, or cannot be given to the group.
pub(super) fn bind(
    ring: &Rc<IoRing>,
    dirs: &ProgramDirs,
    name: &VolumeName,
) -> io::Result<Option<SocketListener>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let wanted = std::env::var("FOREBAY_GROUP")
        .ok()
        .filter(|group| !group.is_empty());
    let groups = fs::read_to_string(GROUPS).unwrap_or_default();
    let Some(group) = group_id(&groups, wanted.as_deref().unwrap_or(GROUP)) else {
        return Ok(None);
    };
    dirs.make_shared_status()?;
    let path = dirs.status_socket(name);
    let listener = SocketListener::unix(ring, &path)?;
    give_to(&path, group)?;
    Ok(Some(listener))
}

fn give_to(path: &Path, group: u32) -> io::Result<()> {
    chown(path, None, Some(group))?;
    fs::set_permissions(path, Permissions::from_mode(0o660))
}

/// Returns the number of a group by its name or number, from the content of `/etc/group`.
fn group_id(groups: &str, wanted: &str) -> Option<u32> {
    let named = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_it = fields.next() == Some(wanted);
        is_it.then(|| fields.nth(1)).flatten()?.parse().ok()
    });
    named.or_else(|| wanted.parse().ok())
}

#[cfg(test)]
mod tests {
    use forebay_control::NewLogRequest;

    use super::*;

    #[test]
    fn a_group_is_found_by_name_or_number() {
        let groups = "root:x:0:\nforebayx:x:7:\nforebay:x:990:alice,bob\nbad\n";
        assert_eq!(group_id(groups, "forebay"), Some(990));
        assert_eq!(group_id(groups, "4711"), Some(4711));
        assert_eq!(group_id(groups, "bad"), None);
        assert_eq!(group_id(groups, "alice"), None);
    }

    #[test]
    fn only_ping_and_status_are_allowed_on_the_status_socket() {
        let name = "v".parse().unwrap();
        let refusal = |request| ControlAccess::StatusOnly.refusal(&request, &name);
        assert_eq!(refusal(ControlRequest::Ping {}), None);
        assert_eq!(refusal(ControlRequest::Status {}), None);
        for request in [
            ControlRequest::Place { start: 0, end: 1 },
            ControlRequest::Drain { timeout_ms: None },
            ControlRequest::Freeze { timeout_ms: 1 },
            ControlRequest::Thaw {},
            ControlRequest::DiscardUnreadable {},
            ControlRequest::Resize { size: None },
            ControlRequest::Tune { placement: None },
            ControlRequest::ReplaceLog(NewLogRequest {
                log: "/dev/null".into(),
                segment: None,
                sparse: false,
                force: true,
            }),
            ControlRequest::Scrub { rate: None },
            ControlRequest::StopScrub {},
            ControlRequest::Detach { keep_dirty: true },
            ControlRequest::HandOver {},
        ] {
            assert_eq!(ControlAccess::Full.refusal(&request, &name), None);
            assert!(refusal(request).is_some());
        }
    }
}
