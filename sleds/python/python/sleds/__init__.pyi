import os
from collections.abc import Iterator
from typing import Any, Literal, final

import numpy
import numpy.typing

__version__: str

Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]
Plan = Literal["linear", "best", "auto"]

@final
class Sled:
    """What it takes to read a part of a file."""

    offset: int
    """Its first byte."""
    length: int
    """Bytes in it."""
    level: str
    """"memory", "unknown", or the name of a device of the table."""
    source: str
    """Where the numbers are from."""
    latency_s: float | None
    """Seconds to the first byte, at the median; None if it is not known."""
    latency_range_s: tuple[float, float] | None
    """The range in which that mostly lies."""
    bandwidth_Bps: float | None
    """Bytes per second after that, at the median; None if it is not known."""
    bandwidth_range_Bps: tuple[float, float] | None
    """The range in which that mostly lies."""

@final
class Delivery:
    """How long reading a whole file takes."""

    seconds: float | None
    """The estimate at the median; None if nothing is known of a part."""
    range_s: tuple[float, float] | None
    """The range in which it mostly lies."""
    unknown_bytes: int
    """Bytes of which nothing is known."""

@final
class Piece:
    """A part of a file: a read-only buffer."""

    offset: int
    """Where in the file it begins."""
    def __len__(self) -> int: ...
    def __bytes__(self) -> bytes: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Picker(Iterator[Piece]):
    """Gives out a file piece by piece."""

    plan: str
    """The order that was chosen: "linear" or "best"."""
    def __iter__(self) -> Picker: ...
    def __next__(self) -> Piece: ...

def describe(path: Path) -> list[Sled]:
    """The SLEDs of a file, in order; they cover it exactly."""

def delivery_time(path: Path, plan: Plan = "auto") -> Delivery:
    """How long reading the whole file would take."""

def pick(
    path: Path,
    chunk: int = 262144,
    *,
    record: bytes | None = None,
    element: tuple[int, int] | None = None,
    plan: Plan = "auto",
) -> Picker:
    """Reads a file piece by piece, cheapest first, every byte once."""

def elements(
    path: Path,
    dtype: numpy.typing.DTypeLike,
    *,
    start: int = 0,
    count: int | None = None,
    chunk: int = 262144,
    plan: Plan = "auto",
) -> Iterator[tuple[int, numpy.ndarray[Any, Any]]]:
    """Reads a file of equal elements as numpy arrays, cheapest part first."""
