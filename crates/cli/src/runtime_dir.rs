//! The runtime directory of a user without `XDG_RUNTIME_DIR`, as after `su` or in a cron job.
//!
//! The directory is below `/run/user/UID`, if that exists and belongs to the user, else `/tmp/forebay-UID`. Other users
//! may create files in `/tmp`. So the directory there must be a directory of the user, closed to others, and `/tmp` must
//! not let other users rename it.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use forebay_command_output::failure::{CommandFailure, CommandResult};

/// Mode bit of a directory in which users can only rename and remove their own files.
const STICKY: u32 = 0o1000;

/// Returns the runtime directory of a user without `XDG_RUNTIME_DIR`.
///
/// # Errors
/// If another user created the directory in `/tmp`, or its permissions are too wide.
pub(crate) fn fallback(uid: u32) -> CommandResult<PathBuf> {
    chosen(uid, Path::new("/run/user"), Path::new("/tmp"))
}

fn chosen(uid: u32, users: &Path, temporary: &Path) -> CommandResult<PathBuf> {
    let own = users.join(uid.to_string());
    if fs::symlink_metadata(&own).is_ok_and(|dir| is_private(&dir, uid)) {
        return Ok(own.join("forebay"));
    }
    let above = fs::metadata(temporary).map_err(|error| {
        CommandFailure::io(format!(
            "cannot examine {}: {error}; set XDG_RUNTIME_DIR or FOREBAY_RUNTIME_DIR",
            temporary.display()
        ))
    })?;
    let others_may_rename = above.mode() & 0o022 != 0 && above.mode() & STICKY == 0;
    let owner_may_rename = above.uid() != 0 && above.uid() != uid;
    let dir = temporary.join(format!("forebay-{uid}"));
    if others_may_rename || owner_may_rename {
        return Err(unsafe_dir(&dir, "other users can rename it"));
    }
    match fs::DirBuilder::new().mode(0o700).create(&dir) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(CommandFailure::io(format!(
                "cannot make the directory {}: {error}; set XDG_RUNTIME_DIR or FOREBAY_RUNTIME_DIR",
                dir.display()
            )));
        }
        _ => {}
    }
    // Not followed: a symbolic link of another user could lead anywhere.
    match fs::symlink_metadata(&dir) {
        Ok(found) if is_private(&found, uid) => Ok(dir),
        Ok(found) if !found.is_dir() => Err(unsafe_dir(&dir, "it is not a directory")),
        Ok(found) if found.uid() != uid => Err(unsafe_dir(&dir, "it belongs to another user")),
        Ok(_) => Err(unsafe_dir(&dir, "other users have access to it")),
        Err(error) => Err(unsafe_dir(&dir, &error.to_string())),
    }
}

/// Returns true for a directory of the user that is closed to others.
fn is_private(found: &Metadata, uid: u32) -> bool {
    found.is_dir() && found.uid() == uid && found.mode() & 0o077 == 0
}

fn unsafe_dir(dir: &Path, why: &str) -> CommandFailure {
    CommandFailure::refused(format!(
        "the directory {} is not safe for control sockets: {why}; remove it, or set XDG_RUNTIME_DIR or \
         FOREBAY_RUNTIME_DIR",
        dir.display()
    ))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    /// Directories in the place of `/run/user` and `/tmp`, and the user of this process.
    fn dirs() -> (tempfile::TempDir, PathBuf, PathBuf, u32) {
        let dir = tempfile::tempdir().unwrap();
        let (users, temporary) = (dir.path().join("user"), dir.path().join("tmp"));
        for made in [&users, &temporary] {
            fs::create_dir(made).unwrap();
        }
        set_mode(&temporary, 0o1777);
        let uid = rustix::process::geteuid().as_raw();
        (dir, users, temporary, uid)
    }

    #[test]
    fn the_directory_of_the_session_comes_before_a_private_directory() {
        let (_dir, users, temporary, uid) = dirs();
        let private = temporary.join(format!("forebay-{uid}"));
        assert_eq!(chosen(uid, &users, &temporary).unwrap(), private);
        assert_eq!(fs::metadata(&private).unwrap().mode() & 0o777, 0o700);
        assert_eq!(chosen(uid, &users, &temporary).unwrap(), private);
        let own = users.join(uid.to_string());
        fs::create_dir(&own).unwrap();
        set_mode(&own, 0o755);
        assert_eq!(chosen(uid, &users, &temporary).unwrap(), private);
        set_mode(&own, 0o700);
        assert_eq!(
            chosen(uid, &users, &temporary).unwrap(),
            own.join("forebay")
        );
    }

    #[test]
    fn a_directory_that_another_user_prepared_is_refused() {
        let (_dir, users, temporary, uid) = dirs();
        let private = temporary.join(format!("forebay-{uid}"));
        let refused = |part: &str| {
            let failure = chosen(uid, &users, &temporary).unwrap_err();
            assert!(failure.text.contains(part), "{failure}");
        };
        symlink(&users, &private).unwrap();
        refused("not a directory");
        fs::remove_file(&private).unwrap();
        fs::write(&private, "").unwrap();
        refused("not a directory");
        fs::remove_file(&private).unwrap();
        fs::create_dir(&private).unwrap();
        set_mode(&private, 0o770);
        refused("other users have access");
        set_mode(&private, 0o700);
        set_mode(&temporary, 0o777);
        refused("can rename it");
        set_mode(&temporary, 0o1777);
        // Only root can give a directory away.
        if uid == 0 {
            chown(&private, Some(65534), None).unwrap();
            refused("belongs to another user");
            chown(&temporary, Some(65534), None).unwrap();
            refused("can rename it");
        }
    }
}
