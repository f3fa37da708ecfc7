"""Asynchronous direct writes (Linux's AIO) beside reads through the page cache. Run with the path of a file."""

import ctypes
import mmap
import os
import platform
import signal
import struct
import sys

# More than one request, so that reads are answered between them.
LEN = 8 << 20
ROUNDS = 150
PAGE = 4096
# Which pages are read.
PAGES = range(0, LEN, LEN // 128)
# io_setup, io_getevents, io_submit (`asm/unistd.h`)
SETUP, GETEVENTS, SUBMIT = {"x86_64": (206, 208, 209), "aarch64": (0, 4, 2)}[platform.machine()]
IOCB_CMD_PWRITE = 1

syscall = ctypes.CDLL(None, use_errno=True).syscall
syscall.restype = ctypes.c_long


def call(number, *arguments):
    done = syscall(ctypes.c_long(number), *arguments)
    if done < 0:
        raise OSError(ctypes.get_errno(), "aio")
    return done


def long(number):
    return ctypes.c_long(number)


path = sys.argv[1]
with open(path, "wb") as file:
    file.write(bytes(LEN))
cached = os.open(path, os.O_RDONLY)
os.posix_fadvise(cached, 0, 0, os.POSIX_FADV_RANDOM)
direct = os.open(path, os.O_WRONLY | os.O_DIRECT)
readers = []
for _ in range(3):
    reader = os.fork()
    if reader == 0:
        while True:
            for at in PAGES:
                os.pread(cached, PAGE, at)
    readers.append(reader)
memory = mmap.mmap(-1, LEN)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
context = ctypes.c_ulong(0)
call(SETUP, long(1), ctypes.byref(context))
try:
    for round in range(1, ROUNDS + 1):
        memory[:] = bytes([round]) * LEN
        # struct iocb (`linux/aio_abi.h`)
        iocb = struct.pack("QIiHhIQQqQII", 0, 0, 0, IOCB_CMD_PWRITE, 0, direct, address, LEN, 0, 0, 0, 0)
        iocb = ctypes.create_string_buffer(iocb, 64)
        pointer = ctypes.c_void_p(ctypes.addressof(iocb))
        call(SUBMIT, context, long(1), ctypes.byref(pointer))
        event = ctypes.create_string_buffer(32)
        call(GETEVENTS, context, long(1), long(1), event, None)
        assert struct.unpack("QQqq", event.raw)[2] == LEN
        seen = {os.pread(cached, PAGE, at)[0] for at in PAGES}
        assert seen == {round}, f"round {round}: {seen}"
finally:
    for reader in readers:
        os.kill(reader, signal.SIGKILL)
        os.waitpid(reader, 0)
