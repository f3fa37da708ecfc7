//! Compares `sleds wc` with GNU's `wc`.

#[path = "../support/mod.rs"]
mod support;

mod changing;
mod content;
mod locales;
mod messages;
mod places;

use forebay_rng::Rng;
use support::{CaseInput, GnuCase, ProgramOutcome, is_gnu, scratch, skip};

/// Returns true if GNU's `wc` is installed and counts words like the version that `sleds wc` follows. Otherwise reports
/// a skip. Later versions (from coreutils 9.5 on) take bytes that are not characters for parts of words.
fn can_compare(test: &str) -> bool {
    if !is_gnu(test, "wc") {
        return false;
    }
    let dir = scratch();
    let odd = GnuCase::new("wc", dir.path())
        .args(["-w"])
        .env("LC_ALL", "C")
        .input(CaseInput::Pipe(vec![0x80]));
    let ProgramOutcome { out, .. } = odd.run_gnu();
    let same = out == b"0\n";
    if !same {
        skip(
            test,
            "this wc counts words in another way than that of coreutils 9.1",
        );
    }
    same
}

/// Returns random content without sequences that the C library decodes to characters beyond Unicode: GNU's `wc` counts
/// these as characters, `sleds wc` does not.
fn any(rng: &Rng) -> Vec<u8> {
    let mut bytes = support::content::any(rng);
    for at in 0..bytes.len() {
        let beyond = match bytes[at] {
            0xf4 => bytes.get(at + 1).is_none_or(|next| *next >= 0x90),
            byte => byte > 0xf4,
        };
        if beyond {
            bytes[at] = 0xff;
        }
    }
    bytes
}
