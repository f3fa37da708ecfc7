"""A page in the file manager's properties: how long would it take to read this?

The paper gave the file manager of its day a panel that lists a file's SLEDs with their offset,
length, latency and bandwidth, and the time the whole would take (*Latency Management in Storage
Systems*, OSDI 2000, section 4.3, "gmc"). This is that panel for Nautilus 43 and later. It asks the
program `sleds`, so it needs nothing but that program on the path (or in $SLEDS).
"""

import json
import os
import shutil
import subprocess

from gi.repository import Gio, GObject, Nautilus

# The panel is filled while the window waits, so a file on storage that hangs must not hang it.
TIMEOUT_S = 5
# More rows than these do not help anyone; what is left out is said.
ROWS_MAX = 100


def find_program():
    """The program to ask, or None."""
    return shutil.which(os.environ.get("SLEDS", "sleds"))


def describe(path):
    """What `sleds show` says of a file; raises ValueError with the reason if it says nothing."""
    program = find_program()
    if program is None:
        raise ValueError("the program sleds is not installed (or not on the path)")
    try:
        run = subprocess.run(
            [program, "show", "--json", "--", path],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"no answer in {TIMEOUT_S} seconds") from None
    except OSError as error:
        raise ValueError(str(error)) from None
    if run.returncode != 0:
        words = run.stderr.decode(errors="replace").strip().splitlines()
        raise ValueError(words[-1] if words else f"sleds ended with {run.returncode}")
    return json.loads(run.stdout.splitlines()[0])


def size(count):
    """Bytes for people."""
    count = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def span(seconds):
    """A time for people."""
    if seconds is None:
        return "unknown"
    for unit, scale in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def rate(bytes_a_second):
    """A bandwidth for people."""
    return "unknown" if bytes_a_second is None else f"{size(bytes_a_second)}/s"


def estimate(seconds):
    """An estimate with the range it mostly lies in."""
    if seconds is None:
        return "unknown"
    low, high = span(seconds["low"]), span(seconds["high"])
    middle = span(seconds["median"])
    return middle if low == high else f"{middle} ({low} to {high})"


def delivery(plan):
    """How long the file takes by a plan."""
    unknown = plan["unknown_bytes"]
    return f"unknown: nothing is known of {size(unknown)}" if unknown else estimate(plan["seconds"])


def median(spread):
    return None if spread is None else spread["median"]


def rows_of(file):
    """The rows of the panel for one file, as pairs of a name and a value."""
    rows = [
        ("Whole file, in order", delivery(file["linear"])),
        ("Whole file, cheapest first", delivery(file["best"])),
        ("In memory", f"{size(file['cached'])} of {size(file['length'])}"),
    ]
    if file["source"] == "default":
        rows.append(("Note", "typical for such a device, not measured; see sleds calibrate"))
    sleds = file["sleds"]
    for sled in sleds[:ROWS_MAX]:
        name = f"{size(sled['length'])} at {size(sled['offset'])}"
        latency, bandwidth = median(sled["latency_s"]), median(sled["bandwidth_Bps"])
        rows.append((name, f"{sled['level']}: {span(latency)}, {rate(bandwidth)}"))
    if len(sleds) > ROWS_MAX:
        rows.append(("More", f"{len(sleds) - ROWS_MAX} parts are not shown; see sleds show"))
    return rows


def panel(paths):
    """The rows for the selected files: a file's own if it is one, else a line a file."""
    rows = []
    for path in paths[:ROWS_MAX]:
        try:
            file = describe(path)
            if len(paths) == 1:
                return rows_of(file)
            rows.append((os.path.basename(path), delivery(file["best"])))
        except (ValueError, KeyError, IndexError) as error:
            name = "No estimate" if len(paths) == 1 else os.path.basename(path)
            rows.append((name, str(error)))
    if len(paths) > ROWS_MAX:
        rows.append(("More", f"{len(paths) - ROWS_MAX} files are not shown"))
    return rows


class SledsPanel(GObject.GObject, Nautilus.PropertiesModelProvider):
    """Gives Nautilus the page."""

    def get_models(self, files):
        """Called when the properties of files are opened."""
        paths = [
            file.get_location().get_path()
            for file in files
            if file.get_uri_scheme() == "file" and not file.is_directory()
        ]
        if not paths:
            return []
        model = Gio.ListStore.new(item_type=Nautilus.PropertiesItem)
        for name, value in panel(paths):
            model.append(Nautilus.PropertiesItem(name=name, value=value))
        return [Nautilus.PropertiesModel(title="Time to read", model=model)]
