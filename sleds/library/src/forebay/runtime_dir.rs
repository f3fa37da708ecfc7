//! The directory with the control sockets of the user's volumes, as Forebay's programs choose it (`docs/control.md`).
//!
//! This library only looks for sockets, so it makes no directory. Other users may create files in `/tmp`. A directory
//! there is used only if it belongs to the user and is closed to others.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The facts about a process that determine the directory.
struct ProcessFacts<'a> {
    uid: u32,
    /// `FOREBAY_RUNTIME_DIR`, if it is set.
    named: Option<OsString>,
    /// `XDG_RUNTIME_DIR`, if it is set.
    session: Option<OsString>,
    /// The directory with the directories of sessions.
    sessions: &'a Path,
    /// The directory for temporary files of all users.
    temporary: &'a Path,
}

/// Returns the directory for this process. `None` if it is missing or not safe.
pub(super) fn runtime_dir() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    chosen(ProcessFacts {
        uid: rustix::process::geteuid().as_raw(),
        named: set("FOREBAY_RUNTIME_DIR"),
        session: set("XDG_RUNTIME_DIR"),
        sessions: Path::new("/run/user"),
        temporary: Path::new("/tmp"),
    })
}

fn chosen(facts: ProcessFacts<'_>) -> Option<PathBuf> {
    let uid = facts.uid;
    if let Some(named) = facts.named {
        return Some(named.into());
    }
    if uid == 0 {
        return Some("/run/forebay".into());
    }
    if let Some(session) = facts.session {
        return Some(PathBuf::from(session).join("forebay"));
    }
    let session = facts.sessions.join(uid.to_string());
    if is_private(&session, uid) {
        return Some(session.join("forebay"));
    }
    let temporary = facts.temporary.join(format!("forebay-{uid}"));
    is_private(&temporary, uid).then_some(temporary)
}

/// Returns true for a directory of the user that is closed to others. Symbolic links are not followed.
fn is_private(dir: &Path, uid: u32) -> bool {
    fs::symlink_metadata(dir)
        .is_ok_and(|found| found.is_dir() && found.uid() == uid && found.mode() & 0o077 == 0)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    /// Number of a user other than root, even if the tests run as root.
    const OTHER_UID: u32 = 65534;

    fn facts<'a>(uid: u32, sessions: &'a Path, temporary: &'a Path) -> ProcessFacts<'a> {
        ProcessFacts {
            uid,
            named: None,
            session: None,
            sessions,
            temporary,
        }
    }

    fn make(dir: &Path, mode: u32, uid: u32) {
        fs::create_dir(dir).expect("a directory");
        fs::set_permissions(dir, Permissions::from_mode(mode)).expect("a mode");
        if rustix::process::geteuid().is_root() {
            chown(dir, Some(uid), None).expect("an owner");
        }
    }

    #[test]
    fn variables_and_root_come_before_the_fallbacks() {
        let nowhere = Path::new("/nonexistent");
        let set = |named: Option<&str>, session: Option<&str>, uid| {
            chosen(ProcessFacts {
                named: named.map(OsString::from),
                session: session.map(OsString::from),
                ..facts(uid, nowhere, nowhere)
            })
        };
        for uid in [0, OTHER_UID] {
            assert_eq!(set(Some("/a"), Some("/b"), uid), Some("/a".into()));
        }
        assert_eq!(set(None, Some("/b"), 0), Some("/run/forebay".into()));
        assert_eq!(set(None, Some("/b"), OTHER_UID), Some("/b/forebay".into()));
        assert_eq!(set(None, None, OTHER_UID), None);
    }

    #[test]
    fn without_a_session_only_private_directories_of_the_user_are_used() {
        let dir = tempfile::tempdir().expect("a directory");
        let (sessions, temporary) = (dir.path().join("user"), dir.path().join("tmp"));
        make(&sessions, 0o755, 0);
        make(&temporary, 0o777, 0);
        let me = rustix::process::geteuid();
        let uid = if me.is_root() { OTHER_UID } else { me.as_raw() };
        let now = || chosen(facts(uid, &sessions, &temporary));
        assert_eq!(now(), None);
        let private = temporary.join(format!("forebay-{uid}"));
        make(&private, 0o750, uid);
        assert_eq!(now(), None, "the group has access");
        fs::set_permissions(&private, Permissions::from_mode(0o700)).expect("a mode");
        assert_eq!(now(), Some(private.clone()));
        let session = sessions.join(uid.to_string());
        make(&session, 0o700, uid);
        assert_eq!(now(), Some(session.join("forebay")));
        fs::remove_dir(&session).expect("removed");
        fs::rename(&private, temporary.join("elsewhere")).expect("renamed");
        symlink(temporary.join("elsewhere"), &private).expect("a link");
        assert_eq!(now(), None, "a link may be of another user");
        // Only root can give a directory away.
        if me.is_root() {
            fs::remove_file(&private).expect("removed");
            make(&private, 0o700, OTHER_UID - 1);
            assert_eq!(now(), None, "it belongs to another user");
        }
    }
}
