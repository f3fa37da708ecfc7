"""The package as its users see it."""

import os
import pathlib
import random
import tempfile
import threading
import unittest

import sleds

SEED = int(os.environ.get("FOREBAY_SEED", "1"))


class Files(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(dir=os.environ.get("SLEDS_TEST_DIR"))
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.random = random.Random(SEED)

    def file(self, content, evict=True):
        path = self.directory / f"{self.random.getrandbits(64):x}"
        path.write_bytes(content)
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            # Holes in what is cached, so that the order of reading is not that of the file.
            for _ in range(8 if evict else 0):
                at = self.random.randrange(len(content) + 1)
                length = self.random.randrange(len(content) + 1)
                os.posix_fadvise(file.fileno(), at, length, os.POSIX_FADV_DONTNEED)
        return path


class Describing(Files):
    def test_descriptors_cover_the_file_exactly(self):
        path = self.file(os.urandom(3_000_001))
        at = 0
        for sled in sleds.describe(path):
            self.assertEqual(sled.offset, at)
            self.assertGreater(sled.length, 0)
            at += sled.length
        self.assertEqual(at, 3_000_001)

    def test_a_file_just_written_is_in_memory(self):
        path = self.file(bytes(range(256)) * 4096, evict=False)
        (sled,) = sleds.describe(str(path))
        self.assertEqual(sled.level, "memory")
        self.assertGreater(sled.bandwidth_Bps, 0)
        low, high = sled.latency_range_s
        self.assertTrue(low <= sled.latency_s <= high)
        self.assertIn("memory", repr(sled))

    def test_a_file_is_named_by_any_kind_of_path_and_by_a_descriptor(self):
        path = self.file(b"x" * 10_000, evict=False)
        with open(path, "rb") as file:
            for name in [str(path), bytes(path), path, file, file.fileno()]:
                (sled,) = sleds.describe(name)
                self.assertEqual(sled.length, 10_000)
                self.assertIsNotNone(sleds.delivery_time(name).seconds)
                with sleds.pick(name) as picker:
                    self.assertEqual(sum(len(piece) for piece in picker), 10_000)
                file.seek(0)
            file.seek(9_000)
            self.assertEqual(sum(len(piece) for piece in sleds.pick(file)), 1_000)
        for name in [-1, 10**6]:
            with self.assertRaises((OSError, ValueError)):
                sleds.describe(name)
        for name in [None, 1.5, []]:
            with self.assertRaises(TypeError):
                sleds.describe(name)

    def test_a_reader_is_closed_at_the_end_of_its_block(self):
        path = self.file(b"x" * 3_000_000)
        with self.assertRaises(ZeroDivisionError), sleds.pick(path) as picker:
            self.assertGreater(len(next(picker)), 0)
            raise ZeroDivisionError
        self.assertEqual(list(picker), [])
        picker = sleds.pick(path)
        picker.close()
        self.assertEqual(list(picker), [])

    def test_an_empty_file_has_none_and_takes_no_time(self):
        path = self.file(b"", evict=False)
        self.assertEqual(sleds.describe(path), [])
        self.assertEqual(sleds.delivery_time(path).seconds, 0)

    def test_the_best_plan_never_takes_longer_than_the_worse_of_both(self):
        path = self.file(os.urandom(4_000_000))
        times = {plan: sleds.delivery_time(path, plan).seconds for plan in ("linear", "best", "auto")}
        self.assertLessEqual(times["auto"], min(times["linear"], times["best"]))


class Picking(Files):
    def test_every_byte_comes_once_by_any_plan(self):
        content = os.urandom(2_500_003)
        path = self.file(content)
        for plan in ("linear", "best", "auto"):
            got = bytearray(len(content))
            seen = 0
            for piece in sleds.pick(path, 65_536, plan=plan):
                got[piece.offset : piece.offset + len(piece)] = piece
                seen += len(piece)
            self.assertEqual(seen, len(content))
            self.assertEqual(bytes(got), content)

    def test_records_are_not_cut(self):
        lines = [b"%d" % self.random.getrandbits(self.random.randrange(1, 2000)) for _ in range(3000)]
        path = self.file(b"\n".join(lines) + b"\n")
        got = []
        for piece in sleds.pick(path, 10_000, record=b"\n", plan="best"):
            self.assertTrue(bytes(piece).endswith(b"\n"))
            got.append((piece.offset, bytes(piece)))
        got.sort()
        self.assertEqual(b"".join(part for _, part in got), path.read_bytes())

    def test_a_piece_is_a_buffer_that_cannot_be_written(self):
        piece = next(sleds.pick(self.file(b"some bytes", evict=False)))
        view = memoryview(piece)
        self.assertTrue(view.readonly)
        self.assertEqual(bytes(view), b"some bytes")
        # The view keeps the bytes when the piece is gone.
        del piece
        self.assertEqual(bytes(view), b"some bytes")

    def test_a_picker_says_its_plan_and_stays_ended(self):
        picker = sleds.pick(self.file(b"x", evict=False), plan="linear")
        self.assertEqual(picker.plan, "linear")
        self.assertEqual(len(list(picker)), 1)
        self.assertEqual(list(picker), [])

    def test_threads_share_a_picker(self):
        content = os.urandom(4_000_000)
        picker = sleds.pick(self.file(content), 10_000, plan="best")
        parts = [[] for _ in range(4)]

        def read(into):
            into.extend((piece.offset, bytes(piece)) for piece in picker)

        threads = [threading.Thread(target=read, args=(into,)) for into in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        got = sorted(part for into in parts for part in into)
        self.assertEqual(b"".join(part for _, part in got), content)


class Refusing(Files):
    def test_what_is_not_there_is_python_s_own_error(self):
        for call in (sleds.describe, sleds.delivery_time, sleds.pick):
            with self.assertRaises(FileNotFoundError) as caught:
                call("/no/such/file")
            self.assertEqual(caught.exception.filename, "/no/such/file")

    def test_a_directory_is_refused_with_its_name(self):
        with self.assertRaisesRegex(OSError, "irectory"):
            sleds.describe(self.directory)

    def test_arguments_out_of_range_are_named(self):
        path = self.file(b"x", evict=False)
        for arguments, words in [
            ({"plan": "fast"}, "no plan"),
            ({"chunk": 0}, "at least one byte"),
            ({"record": b""}, "exactly one byte"),
            ({"record": b"\r\n"}, "exactly one byte"),
            ({"element": (0, 0)}, "at least one byte"),
            ({"element": (0, 4), "record": b"\n"}, "not both"),
        ]:
            with self.assertRaisesRegex(ValueError, words):
                sleds.pick(path, **arguments)


try:
    import numpy
except ImportError:
    numpy = None


@unittest.skipIf(numpy is None, "SKIPPED: elements: numpy is not installed")
class Elements(Files):
    def test_arrays_together_are_the_file(self):
        for dtype in ("u1", "<i2", ">f4", "<c16"):
            numbers = numpy.frombuffer(self.random.randbytes(16 * 50_000), dtype)
            path = self.file(b"head!" + numbers.tobytes())
            got = numpy.zeros(len(numbers), dtype)
            seen = 0
            for first, values in sleds.elements(path, dtype, start=5, chunk=4096, plan="best"):
                got[first : first + len(values)] = values
                seen += len(values)
            self.assertEqual(seen, len(numbers))
            self.assertEqual(got.tobytes(), numbers.tobytes())

    def test_a_count_and_a_cut_element_end_the_reading(self):
        path = self.file(bytes(1000) + b"\x01\x02", evict=False)
        total = sum(len(values) for _, values in sleds.elements(path, "<f8"))
        self.assertEqual(total, 125)
        total = sum(len(values) for _, values in sleds.elements(path, "<f8", count=7))
        self.assertEqual(total, 7)

    def test_types_without_a_size_are_refused(self):
        path = self.file(b"x", evict=False)
        with self.assertRaises(ValueError):
            next(sleds.elements(path, "V0"))
        with self.assertRaises(ValueError):
            next(sleds.elements(path, object))


if __name__ == "__main__":
    unittest.main()
