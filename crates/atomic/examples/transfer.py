"""Moves money between accounts in one file and notes it in another, both or neither: transfer.py DIRECTORY."""

import os
import sys

import forebay_atomic as atomic

PAGE = 4096


def opened(name):
    return os.open(os.path.join(sys.argv[1], name), os.O_RDWR | os.O_CREAT, 0o600)


accounts, journal, spare = opened("accounts"), opened("journal"), opened("spare")
print(atomic.features(accounts))

# Places of one file.
atomic.change(accounts, [(0, b"100"), (16 * PAGE, b"100"), atomic.Hole(PAGE, 15 * PAGE)])

# Two files, and more than one ioctl carries.
with atomic.Transaction(accounts) as together:
    together.change(accounts, [(0, b"90".ljust(PAGE, b"\0")), (16 * PAGE, b"110".ljust(PAGE, b"\0"))])
    together.change(journal, [(0, b"n" * 200000)])

# What one has, for what the other has.
atomic.exchange(journal, spare)
os.fsync(accounts)
