"""Atomic updates of files on a mounted Forebay filesystem.

Many ranges of one file or of several are changed together, or, at a crash, not at all:

    change(accounts, [(0, b"100"), (4096, b"200"), Hole(8192, 8192)])

    with Transaction(accounts) as together:
        together.change(accounts, [(0, b"90"), (4096, b"210")])
        together.change(journal, [(0, b"10 from the first to the second")])

    exchange(accounts, other)

Files are descriptors, or objects that have one. That something is done at once does not make it durable: os.fsync() of
any of the files does, afterwards. What is promised is in docs/atomic.md. Errors are OSError.
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
Features.__doc__ = "What can be done at once, in all files together."

Hole = namedtuple("Hole", "offset len")
Hole.__doc__ = "A range that becomes zeroes which take no room; the file's size stays."


def features(file):
    """What can be done at once where a file is."""
    return Features(*_FEATURES.unpack(fcntl.ioctl(file, FEATURES, bytes(_FEATURES.size))))


def _begin(file):
    return _ID.unpack(fcntl.ioctl(file, BEGIN, bytes(_ID.size)))[0]


def _arguments(id, parts):
    """Arguments that say all parts, each as long as one can be."""
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
    """Changes of any number of files that are done together: at the end of the block, unless an exception ends it.

    It is begun by an open file or directory that has none yet."""

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
        """Parts of a file are changed when this is done: (offset, bytes), or Hole. Nobody sees it before."""
        for argument in _arguments(self.id, parts):
            # Only what can be written to may be longer than 1024 bytes.
            fcntl.ioctl(file, CHANGE(len(argument)), bytearray(argument))

    def join(self, file):
        """What is written to the open file from now on is done when this is."""
        fcntl.ioctl(file, JOIN, _ID.pack(self.id))

    def commit(self):
        """Does it all."""
        fcntl.ioctl(self._file, COMMIT)

    def abort(self):
        """Forgets it."""
        fcntl.ioctl(self._file, ABORT)


def change(file, parts):
    """Changes parts of a file, all at once: (offset, bytes), or Hole."""
    with Transaction(file) as all_parts:
        all_parts.change(file, parts)


def punch(file, ranges):
    """Makes holes of many ranges, (offset, length), at once."""
    change(file, [Hole(*one) for one in ranges])


def exchange(one, other):
    """Exchanges what two files have in them: data and size. Both are open for reading and writing."""
    transaction = Transaction(one)
    try:
        fcntl.ioctl(other, EXCHANGE, _ID.pack(transaction.id))
    except OSError:
        transaction.abort()
        raise
