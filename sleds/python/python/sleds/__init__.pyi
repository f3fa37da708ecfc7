import os
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Literal, Protocol, final

import numpy
import numpy.typing

__version__: str

class HasFileno(Protocol):
    """A file object."""

    def fileno(self) -> int: ...

Path = str | bytes | os.PathLike[str] | os.PathLike[bytes] | int | HasFileno
Plan = Literal["linear", "best", "auto"]

@final
class Sled:
    """The cost of reading a part of a file."""

    offset: int
    """First byte of the part in the file."""
    length: int
    """Bytes in the part."""
    level: str
    """Level: "memory", "unknown", or the name of a device in the table."""
    source: str
    """Source of the two numbers."""
    latency_s: float | None
    """Seconds to the first byte, at the median; None if unknown."""
    latency_range_s: tuple[float, float] | None
    """The range in which the latency mostly lies; None if unknown."""
    bandwidth_Bps: float | None
    """Bytes per second after the first byte, at the median; None if unknown."""
    bandwidth_range_Bps: tuple[float, float] | None
    """The range in which the bandwidth mostly lies; None if unknown."""

@final
class Delivery:
    """The time to read a whole file."""

    seconds: float | None
    """The estimate at the median, in seconds; None if a part is unknown."""
    range_s: tuple[float, float] | None
    """The range in which the time mostly lies, in seconds; None if a part is unknown."""
    unknown_bytes: int
    """Bytes in unknown parts."""

@final
class Piece:
    """A part of a file: a read-only buffer."""

    offset: int
    """First byte of the piece in the file."""
    def __len__(self) -> int: ...
    def __bytes__(self) -> bytes: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Picker(Iterator[Piece]):
    """Iterates over a file piece by piece, every byte once."""

    plan: str
    """The chosen order: "linear" or "best"."""
    def __iter__(self) -> Picker: ...
    def __next__(self) -> Piece: ...
    def __enter__(self) -> Picker: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...
    def close(self) -> None:
        """Closes the file, and ends the iteration."""

def describe(path: Path) -> list[Sled]:
    """Returns the SLEDs of a file, in order; they cover the file exactly."""

def delivery_time(path: Path, plan: Plan = "auto") -> Delivery:
    """Estimates the time to read the whole file by a plan; "auto" selects the faster plan."""

def pick(
    path: Path,
    chunk: int = 262144,
    *,
    record: bytes | None = None,
    element: tuple[int, int] | None = None,
    plan: Plan = "auto",
) -> Picker:
    """Reads a file piece by piece, cheapest part first, every byte once."""

def elements(
    path: Path,
    dtype: numpy.typing.DTypeLike,
    *,
    start: int = 0,
    count: int | None = None,
    chunk: int = 262144,
    plan: Plan = "auto",
) -> Iterator[tuple[int, numpy.ndarray[Any, Any]]]:
    """Reads a file of elements of equal size as numpy arrays, cheapest part first."""
