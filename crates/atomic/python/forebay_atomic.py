"""Atomic updates of files on a mounted Forebay filesystem.

Many ranges of one or several files change together; after a crash either all of them have changed or none:

    change(accounts, [(0, b"100"), (4096, b"200"), Hole(8192, 8192)])

    with Transaction(accounts) as together:
        together.change(accounts, [(0, b"90"), (4096, b"210")])
        together.change(journal, [(0, b"10 from the first to the second")])

    exchange(accounts, other)

Files are descriptors, or objects with a method fileno(). An atomic update is not durable by itself: a later os.fsync()
of any of the files makes the update durable. docs/atomic.md has the guarantees. Errors raise OSError.
"""

import fcntl
import struct
from collections import namedtuple

_WRITE, _READ = 1, 2
_ARGUMENT_MAX = (1 << 14) - 1
_HEAD = struct.Struct("=QII")
_PART = struct.Struct("=QQII")
_FEATURES = struct.Struct("=IIQ")
_ID = struct.Struct("=Q")


def _number(direction, number, size=0):
    return direction << 30 | size << 16 | 0xFB << 8 | number


FEATURES = _number(_READ, 0, _FEATURES.size)
BEGIN = _number(_READ, 1, _ID.size)
JOIN = _number(_WRITE, 2, _ID.size)
COMMIT = _number(0, 4)
ABORT = _number(0, 5)
EXCHANGE = _number(_WRITE, 6, _ID.size)


def CHANGE(size):
    return _number(_WRITE, 3, size)


Features = namedtuple("Features", "version pieces_max bytes_max")
Features.__doc__ = "Limits of an atomic update, in all files together."

Hole = namedtuple("Hole", "offset len")
Hole.__doc__ = "A range that becomes a hole, which reads as zeroes and takes no space. The file keeps its size."


def features(file):
    """Returns the limits of atomic updates on the filesystem of a file."""
    return Features(*_FEATURES.unpack(fcntl.ioctl(file, FEATURES, bytes(_FEATURES.size))))


def _begin(file):
    return _ID.unpack(fcntl.ioctl(file, BEGIN, bytes(_ID.size)))[0]


def _arguments(id, parts):
    """Yields the arguments that encode all parts, in as few arguments as possible."""
    heads, data, size = [], [], _HEAD.size

    def made():
        return b"".join([_HEAD.pack(id, len(heads), 0), *heads, *data])

    for part in parts:
        offset, what = part
        left = None if isinstance(part, Hole) else memoryview(what).cast("B")
        while True:
            if heads and size + _PART.size >= _ARGUMENT_MAX:
                yield made()
                heads, data, size = [], [], _HEAD.size
            room = _ARGUMENT_MAX - size - _PART.size
            some = b"" if left is None else bytes(left[:room])
            heads.append(_PART.pack(offset, what if left is None else len(some), int(left is None), 0))
            data.append(some)
            size += _PART.size + len(some)
            if left is None or len(some) == len(left):
                break
            offset, left = offset + len(some), left[len(some):]
    if heads:
        yield made()


class Transaction:
    """Changes of any number of files that are committed together.

    The end of the `with` block commits the transaction; an exception in the block aborts the transaction. `file` owns
    the transaction. It is an open file or directory that has not begun another transaction."""

    def __init__(self, file):
        self._file = file
        self.id = _begin(file)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is None:
            self.commit()
        else:
            self.abort()

    def change(self, file, parts):
        """Adds changes of parts of a file: each part is (offset, bytes), or a Hole.

        The changes are invisible until the commit."""
        for argument in _arguments(self.id, parts):
            # fcntl.ioctl accepts more than 1024 bytes only in a mutable buffer.
            fcntl.ioctl(file, CHANGE(len(argument)), bytearray(argument))

    def join(self, file):
        """Adds an open file to the transaction: its later writes take effect with the commit."""
        fcntl.ioctl(file, JOIN, _ID.pack(self.id))

    def commit(self):
        """Commits the transaction."""
        fcntl.ioctl(self._file, COMMIT)

    def abort(self):
        """Aborts the transaction: all its changes are dropped."""
        fcntl.ioctl(self._file, ABORT)


def change(file, parts):
    """Changes parts of a file atomically: each part is (offset, bytes), or a Hole."""
    with Transaction(file) as all_parts:
        all_parts.change(file, parts)


def punch(file, ranges):
    """Makes holes of many ranges of a file atomically: each range is (offset, length)."""
    change(file, [Hole(*one) for one in ranges])


def exchange(one, other):
    """Exchanges the contents of two files atomically: data and size. Both must be open for reading and writing."""
    transaction = Transaction(one)
    try:
        fcntl.ioctl(other, EXCHANGE, _ID.pack(transaction.id))
    except OSError:
        transaction.abort()
        raise
