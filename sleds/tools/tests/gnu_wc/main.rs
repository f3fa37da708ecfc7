//! `sleds wc` against GNU's `wc`.

#[path = "../support/mod.rs"]
mod support;

mod changing;
mod content;
mod locales;
mod messages;
mod places;

use support::{Case, Input, Outcome, is_gnu, scratch, skip};

/// True if GNU's `wc` is there and counts words as the one that `sleds wc` follows; says loudly if
/// not. Later ones (from coreutils 9.5 on) take bytes that are no characters for parts of words.
fn can_compare(test: &str) -> bool {
    if !is_gnu(test, "wc") {
        return false;
    }
    let dir = scratch();
    let odd = Case::new("wc", dir.path())
        .args(["-w"])
        .env("LC_ALL", "C")
        .input(Input::Pipe(vec![0x80]));
    let Outcome { out, .. } = odd.run_gnu();
    let same = out == b"0\n";
    if !same {
        skip(
            test,
            "this wc counts words in another way than that of coreutils 9.1",
        );
    }
    same
}
