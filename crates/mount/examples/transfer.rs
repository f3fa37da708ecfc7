//! Transfers money between accounts in one file and records the transfer in another file, atomically: `transfer
//! DIRECTORY`.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use forebay_atomic::{FileChange, FileTransaction, change, exchange, features};

const PAGE: u64 = 4096;

fn main() -> io::Result<()> {
    let directory = std::env::args_os().nth(1);
    transfer(Path::new(
        &directory.ok_or(io::Error::other("transfer DIRECTORY"))?,
    ))
}

/// Runs the example in a directory.
pub(crate) fn transfer(directory: &Path) -> io::Result<()> {
    let open = |name: &str| -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options.open(directory.join(name))
    };
    let (accounts, journal, spare) = (open("accounts")?, open("journal")?, open("spare")?);
    println!("{:?}", features(&accounts)?);

    // Several places of one file.
    change(
        &accounts,
        &[
            FileChange::Write(0, b"100"),
            FileChange::Write(16 * PAGE, b"100"),
            FileChange::Punch(PAGE..16 * PAGE),
        ],
    )?;

    // Two files, with more data than one ioctl can carry.
    let page = |text: &[u8]| {
        let mut page = [0; PAGE as usize];
        page[..text.len()].copy_from_slice(text);
        page
    };
    let together = FileTransaction::begin(&accounts)?;
    let (from, to) = (page(b"90"), page(b"110"));
    together.change(
        &accounts,
        &[
            FileChange::Write(0, &from),
            FileChange::Write(16 * PAGE, &to),
        ],
    )?;
    together.change(&journal, &[FileChange::Write(0, &vec![b'n'; 200_000])])?;
    together.commit()?;

    // Exchanges the data of two files.
    exchange(&journal, &spare)?;
    accounts.sync_all()
}
