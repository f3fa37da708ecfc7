"""A page in the file manager's properties: the estimated time to read the selected files.

The paper added a panel to the file manager gmc (*Latency Management in Storage Systems*, OSDI 2000,
figure 6). The panel lists a file's SLEDs with their offset, length, latency and bandwidth, and
the time to read the whole file. This extension is that panel for Nautilus 43 and later. It runs the
program `sleds`, which must be on the path or in $SLEDS.
"""

import json
import os
import shutil
import subprocess

from gi.repository import Gio, GObject, Nautilus

# The window waits while this extension fills the panel. A file on storage that hangs must not
# block the window.
TIMEOUT_S = 5
# More rows do not help the user. The last row states the number of omitted rows.
ROWS_MAX = 100


def find_program():
    """Returns the path of the program `sleds`; None if the program is missing."""
    return shutil.which(os.environ.get("SLEDS", "sleds"))


def describe(path):
    """Returns the output of `sleds show` for a file; raises ValueError with the reason."""
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
    """Formats a number of bytes for the panel."""
    count = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def span(seconds):
    """Formats a time for the panel."""
    if seconds is None:
        return "unknown"
    for unit, scale in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def rate(bytes_a_second):
    """Formats a bandwidth for the panel."""
    return "unknown" if bytes_a_second is None else f"{size(bytes_a_second)}/s"


def estimate(seconds):
    """Formats an estimate with the range in which the time mostly lies."""
    if seconds is None:
        return "unknown"
    low, high = span(seconds["low"]), span(seconds["high"])
    middle = span(seconds["median"])
    return middle if low == high else f"{middle} ({low} to {high})"


def delivery(plan):
    """Formats the time to read the file by a plan."""
    unknown = plan["unknown_bytes"]
    return f"unknown: nothing is known of {size(unknown)}" if unknown else estimate(plan["seconds"])


def median(spread):
    return None if spread is None else spread["median"]


def rows_of(file):
    """Returns the rows of the panel for one file: pairs of a name and a value."""
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
    """Returns all rows of a single selected file, or one row for each of several files."""
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
    """The provider of the page for Nautilus."""

    def get_models(self, files):
        """Returns the page. Nautilus calls this when the user opens the properties of files."""
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
