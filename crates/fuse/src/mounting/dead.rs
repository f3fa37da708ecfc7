//! Mounts whose server has ended.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;

/// Time limit for the kernel to end the connection of a killed server.
const ENDING: Duration = Duration::from_secs(3);
/// Time between two requests while it does so.
const AGAIN_AFTER: Duration = Duration::from_millis(10);

/// Returns true if the FUSE filesystem at `dir` has no server, according to a request that only a server can answer.
/// Waits as long as a server does not answer.
///
/// While the kernel ends the connection of a killed server, it aborts waiting requests (`ECONNABORTED`). If the server
/// used io_uring, the kernel first cancels them (`ECANCELED`), and the function asks again.
pub fn is_dead(dir: &Path) -> bool {
    settled(Instant::now() + ENDING, || {
        rustix::fs::statfs(dir).map(drop)
    })
}

fn settled(until: Instant, mut ask: impl FnMut() -> Result<(), Errno>) -> bool {
    loop {
        match ask() {
            Err(Errno::NOTCONN | Errno::CONNABORTED | Errno::CONNREFUSED) => return true,
            Err(Errno::CANCELED) if Instant::now() < until => thread::sleep(AGAIN_AFTER),
            // Any other error came from a server.
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(answers: &[Result<(), Errno>]) -> bool {
        let mut answers = answers.iter().copied();
        let far = Instant::now() + Duration::from_secs(3600);
        let is_dead = settled(far, || answers.next().expect("one more question"));
        assert_eq!(answers.next(), None);
        is_dead
    }

    #[test]
    fn a_mount_is_dead_when_its_connection_has_ended() {
        assert!(answers(&[Err(Errno::NOTCONN)]));
        assert!(answers(&[Err(Errno::CONNABORTED)]));
        assert!(!answers(&[Ok(())]));
        assert!(!answers(&[Err(Errno::IO)]));
    }

    #[test]
    fn a_mount_is_asked_again_while_the_kernel_cancels_requests() {
        let canceled = Err(Errno::CANCELED);
        assert!(answers(&[canceled, canceled, Err(Errno::NOTCONN)]));
        assert!(!answers(&[canceled, Ok(())]));
        assert!(!settled(Instant::now(), || canceled));
    }
}
