"""Estimates of the time to read each part of a file, and reading of files in the cheapest order.

The idea is from *Latency Management in Storage Systems* by Rodney Van Meter and Minxi Gao (OSDI
2000). *Storage latency estimation descriptors* (SLEDs) describe a file. A program that does not
depend on the order reads the cheapest parts first.
"""

from ._sleds import Delivery, Picker, Piece, Sled, __version__, delivery_time, describe, pick

__all__ = [
    "Delivery",
    "Picker",
    "Piece",
    "Sled",
    "__version__",
    "delivery_time",
    "describe",
    "elements",
    "pick",
]


def elements(path, dtype, *, start=0, count=None, chunk=256 * 1024, plan="auto"):
    """Reads a file of elements of equal size as numpy arrays, cheapest part first.

    This function is the paper's interface in units of data elements (section 5.3, the calls with
    ``ff_``).

    Args:
        path: the file.
        dtype: the numpy type of the elements, or a value that numpy.dtype accepts (``">f4"``).
        start: the offset of the first element in the file, in bytes.
        count: the number of elements, from the first element on. None reads all complete elements.
        chunk: the approximate size of an array in bytes.
        plan: "linear" (from the first byte to the last), "best" (cheapest part first) or "auto"
            (best where that pays).

    Yields:
        (first, values): the number of the first element, counted from 0, and a read-only array.
        Arrays contain each element once. An incomplete element at the end of the file is omitted.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if the dtype has no size or contains Python objects, or if an argument is out of
            range.
    """
    import numpy

    dtype = numpy.dtype(dtype)
    if dtype.itemsize == 0:
        raise ValueError(f"elements of type {dtype} have no size")
    if dtype.hasobject:
        raise ValueError("elements that are Python objects cannot be read from a file")
    if count is not None and count < 0:
        raise ValueError(f"cannot read {count} elements")
    picker = pick(path, chunk, element=(start, dtype.itemsize), plan=plan)
    for piece in picker:
        first = (piece.offset - start) // dtype.itemsize
        values = numpy.frombuffer(piece, dtype, count=len(piece) // dtype.itemsize)
        if count is not None:
            values = values[: max(0, count - first)]
        if len(values):
            yield first, values
