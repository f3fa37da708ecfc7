"""Memory that a program maps (MAP_SHARED) and changes. Run with a directory and the name of a case."""

import errno
import fcntl
import mmap
import os
import signal
import subprocess
import sys

import forebay_atomic as atomic

PAGE = 4096
SIZE = 1 << 20
# Where something is stored, in bytes.
STORES = [0, 17 * PAGE + 100, SIZE - PAGE]


class Mapped:
    """A file that is one hole, and its memory."""

    def __init__(self, name):
        self.path = os.path.join(sys.argv[1], name)
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.ftruncate(self.fd, SIZE)
        self.memory = mmap.mmap(self.fd, SIZE)

    def store(self, at, data):
        self.memory[at : at + len(data)] = data

    def read(self, at, length):
        return os.pread(self.fd, length, at)


def data_of(fd):
    """The ranges of a file that have data."""
    ranges, at = [], 0
    while True:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:
            return ranges
        at = os.lseek(fd, start, os.SEEK_HOLE)
        ranges.append((start, at))


def holes():
    file = Mapped("holes")
    other = os.open(file.path, os.O_RDONLY)
    assert data_of(other) == []
    for at in STORES:
        file.store(at, b"stored")
    pages = [(at // PAGE * PAGE, at // PAGE * PAGE + PAGE) for at in STORES]
    assert data_of(other) == pages, data_of(other)
    # Holes that get data one after the other: the next hole is behind all of them.
    for page in range(1, 17):
        file.store(page * PAGE, b"more")
    assert os.lseek(other, 0, os.SEEK_HOLE) == 18 * PAGE
    file.store(100 * PAGE, b"later")
    for sparse in ["auto", "always", "never"]:
        copy = file.path + "." + sparse
        subprocess.run(["cp", "--sparse=" + sparse, file.path, copy], check=True)
        with open(copy, "rb") as copied:
            assert copied.read() == file.memory[:], sparse


def change():
    file = Mapped("change")
    file.store(100, b"stored")
    atomic.change(file.fd, [(200, b"changed")])
    assert file.read(100, 6) == b"stored"
    assert file.read(200, 7) == b"changed"
    assert file.memory[200:207] == b"changed"


def many():
    """An update of more pieces than the kernel is told one by one, around a page that is not of it."""
    file = Mapped("many")
    file.store(100 * PAGE, b"stored")
    pieces = [(n * PAGE, b"changed") for n in range(80)] + [(200 * PAGE, b"changed")]
    atomic.change(file.fd, pieces)
    assert file.read(100 * PAGE, 6) == b"stored"
    file.store(101 * PAGE, b"stored")
    with atomic.Transaction(file.fd) as kept:
        kept.change(file.fd, pieces)
    assert file.read(101 * PAGE, 6) == b"stored"
    assert file.read(200 * PAGE, 7) == b"changed"


def flags():
    """The flags of an open file change while it is written through the page cache."""
    path = os.path.join(sys.argv[1], "flags")
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, SIZE)
    plain = fcntl.fcntl(fd, fcntl.F_GETFL)
    changing = os.fork()
    if changing == 0:
        while True:
            fcntl.fcntl(fd, fcntl.F_SETFL, plain | os.O_DIRECT)
            fcntl.fcntl(fd, fcntl.F_SETFL, plain)
    try:
        for n in range(20000):
            at = n * 5003 % SIZE
            try:
                os.pread(fd, 1, n * 7001 % SIZE)
                os.pwrite(fd, b"x" * 100, at)
            except OSError as error:
                # What is direct has to be aligned on some kernels.
                assert error.errno == errno.EINVAL, error
    finally:
        os.kill(changing, signal.SIGKILL)
        os.waitpid(changing, 0)


def direct(path, length):
    """What the filesystem has, past the page cache."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    page = mmap.mmap(-1, length)
    os.preadv(fd, [page], 0)
    os.close(fd)
    return page


def transaction():
    file = Mapped("transaction")
    other = os.open(file.path, os.O_RDWR)
    storing = os.fork()
    if storing == 0:
        while True:
            file.store(300, b"stored")
    try:
        for _ in range(500):
            with_kept = atomic.Transaction(other)
            with_kept.join(other)
            os.pwrite(other, b"kept", 200)
            # The kernel writes back the page, in which is what was written as well.
            file.memory.flush(0, PAGE)
            assert direct(file.path, PAGE)[200:204] == bytes(4), "kept data was written"
            with_kept.abort()
            assert file.read(200, 4) == bytes(4)
        for n in range(200):
            with_kept = atomic.Transaction(other)
            with_kept.join(other)
            os.pwrite(other, b"%04d" % n, 200)
            with_kept.commit()
            assert file.read(200, 4) == b"%04d" % n, "a page was written over the commit"
            atomic.change(other, [(400, b"%04d" % n)])
            assert file.read(400, 4) == b"%04d" % n, "a page was written over the change"
    finally:
        os.kill(storing, signal.SIGKILL)
        os.waitpid(storing, 0)
    file.memory.flush()
    assert direct(file.path, PAGE)[200:204] == b"0199"
    assert direct(file.path, PAGE)[400:404] == b"0199"
    assert direct(file.path, PAGE)[300:306] == b"stored"


def exchange():
    one, other = Mapped("one"), Mapped("other")
    one.store(5 * PAGE, b"of one")
    other.store(7 * PAGE, b"of the other")
    atomic.exchange(one.fd, other.fd)
    assert other.read(5 * PAGE, 6) == b"of one"
    assert one.read(7 * PAGE, 12) == b"of the other"
    assert one.read(5 * PAGE, 6) == bytes(6)
    assert one.memory[7 * PAGE : 7 * PAGE + 12] == b"of the other"


CASES = {
    "holes": holes,
    "change": change,
    "many": many,
    "flags": flags,
    "transaction": transaction,
    "exchange": exchange,
}
CASES[sys.argv[2]]()
