//! Selection of the best front end on this system.

use std::fmt;
use std::fs::File;
use std::io;

use forebay_nbd::nbd_usable;
use forebay_ublk::ublk_usable;
use forebay_volume::FrontEndKind;

/// The selected front end, and the reasons against the better ones.
pub(super) struct FrontEndChoice {
    /// The best front end that works here.
    pub(super) via: FrontEndKind,
    /// The better front ends, each with the reason why it is not usable.
    passed_over: Vec<(FrontEndKind, String)>,
}

impl fmt::Display for FrontEndChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.via)?;
        for (via, why) in &self.passed_over {
            write!(f, "; not {via}: {why}")?;
        }
        Ok(())
    }
}

/// The result of testing each front end.
struct FrontEndProbes {
    ublk: Result<(), String>,
    nbd: Result<(), String>,
    r#loop: Result<(), String>,
}

/// Returns the best front end that works on this system, now, for this user.
pub(super) fn best_available() -> FrontEndChoice {
    choose(FrontEndProbes {
        ublk: ublk_usable().map_err(|error| error.to_string()),
        nbd: nbd_usable().map_err(|error| error.to_string()),
        r#loop: usable("/dev/fuse").and_then(|()| usable("/dev/loop-control")),
    })
}

fn choose(found: FrontEndProbes) -> FrontEndChoice {
    let mut passed_over = Vec::new();
    let ways = [
        (FrontEndKind::Ublk, found.ublk),
        (FrontEndKind::Nbd, found.nbd),
        (FrontEndKind::Loop, found.r#loop),
    ];
    for (via, found) in ways {
        match found {
            Ok(()) => return FrontEndChoice { via, passed_over },
            Err(why) => passed_over.push((via, why)),
        }
    }
    let via = FrontEndKind::None;
    FrontEndChoice { via, passed_over }
}

fn usable(path: &str) -> Result<(), String> {
    match File::options().read(true).write(true).open(path) {
        Ok(_) => Ok(()),
        Err(error) => Err(match error.kind() {
            io::ErrorKind::NotFound => format!("the kernel has no {path}"),
            io::ErrorKind::PermissionDenied => {
                format!("this user may not open {path}; try as root")
            }
            _ => format!("{path}: {error}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(ublk: bool, nbd: bool, r#loop: bool) -> FrontEndProbes {
        let found = |ok| if ok { Ok(()) } else { Err("absent".to_owned()) };
        FrontEndProbes {
            ublk: found(ublk),
            nbd: found(nbd),
            r#loop: found(r#loop),
        }
    }

    #[test]
    fn the_best_usable_front_end_is_chosen_and_better_ones_are_explained() {
        assert_eq!(choose(found(true, true, true)).via, FrontEndKind::Ublk);
        assert_eq!(choose(found(false, true, true)).via, FrontEndKind::Nbd);
        let choice = choose(found(false, false, true));
        let text = "loop; not ublk: absent; not nbd: absent";
        assert_eq!(
            (choice.via, choice.to_string()),
            (FrontEndKind::Loop, text.into())
        );
        assert_eq!(choose(found(false, false, false)).via, FrontEndKind::None);
    }
}
