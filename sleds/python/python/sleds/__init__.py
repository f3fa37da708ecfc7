"""How long would it take to read which part of a file? And reading it in that order.

The idea is from *Latency Management in Storage Systems* by Rodney Van Meter and Minxi Gao (OSDI
2000): a file is described by *storage latency estimation descriptors* (SLEDs), and a program that
does not care about order reads what is cheap first.
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
    """Reads a file of equal elements as numpy arrays, cheapest part first.

    This is the paper's interface in units of data elements (section 5.3, the calls with ``ff_``).

    Args:
        path: the file.
        dtype: the elements' numpy type, or what makes one (``">f4"``).
        start: the byte at which the first element begins.
        count: how many elements to read; all that are whole if None.
        chunk: about how many bytes an array should have.
        plan: "linear", "best" or "auto".

    Yields:
        (first, values): the number of the first element and a read-only array. Every element comes
        once; an incomplete one at the end of the file is left out.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if the dtype has no size, or an argument is out of range.
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
