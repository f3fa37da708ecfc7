"""Opens the properties of a file in a real Nautilus window, and prints the panel's texts as JSON.

    xvfb-run -a dbus-run-session -- /usr/bin/python3 window_test.py SLEDS FILE [SCREENSHOT.png]

The program reads the window through the accessibility interface, as a screen reader does. So it
prints the texts that a user sees. It installs the extension into a temporary home directory, at
the path that README.md gives.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import gi

gi.require_version("Atspi", "2.0")
from gi.repository import Atspi, Gio, GLib  # noqa: E402

TITLE = "Time to read"
DEADLINE_S = 60


def until(what, condition):
    """Returns the first true result of `condition`; ends the program after DEADLINE_S seconds."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        try:
            answer = condition()
        except GLib.Error:
            answer = None  # The window changed during the query.
        if answer:
            return answer
        time.sleep(0.1)
    sys.exit(f"waited {DEADLINE_S} s in vain for {what}")


def nodes(node):
    """Yields a widget and all widgets inside it."""
    yield node
    for n in range(node.get_child_count()):
        child = node.get_child_at_index(n)
        if child is not None:
            yield from nodes(child)


def window():
    """Yields all widgets of Nautilus."""
    desktop = Atspi.get_desktop(0)
    for n in range(desktop.get_child_count()):
        application = desktop.get_child_at_index(n)
        if application is not None and "autilus" in (application.get_name() or ""):
            yield from nodes(application)


def labels(root):
    return [n.get_name() for n in nodes(root) if n.get_role_name() == "label" and n.get_name()]


def find_row():
    """Returns the row of the properties that opens the panel; None if the row is missing."""
    for node in window():
        if node.get_role_name() == "list item" and TITLE in labels(node):
            return node
    return None


def find_page():
    """Returns the texts of the panel below its title; None until the panel is filled."""
    for node in window():
        if node.get_name() == "GtkStackPage" or node.get_role_name() != "panel":
            continue
        children = [node.get_child_at_index(n) for n in range(node.get_child_count())]
        if len(children) >= 2 and labels(children[0])[:1] == [TITLE]:
            texts = labels(node)
            if len(texts) >= 3:
                return texts[1:]
    return None


def environment(home):
    runtime = home / "run"
    runtime.mkdir(mode=0o700)
    return {
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(runtime),
        "XDG_DATA_HOME": str(home / ".local/share"),
        "GDK_BACKEND": "x11",
        "GSK_RENDERER": "cairo",
        "LIBGL_ALWAYS_SOFTWARE": "1",
        "LC_ALL": "C.UTF-8",
    }


def show_properties(path):
    bus = Gio.bus_get_sync(Gio.BusType.SESSION)
    bus.call_sync(
        "org.freedesktop.FileManager1",
        "/org/freedesktop/FileManager1",
        "org.freedesktop.FileManager1",
        "ShowItemProperties",
        GLib.Variant("(ass)", ([Gio.File.new_for_path(path).get_uri()], "")),
        None,
        Gio.DBusCallFlags.NO_AUTO_START,
        DEADLINE_S * 1000,
    )
    return True


def main(program, file, screenshot=None):
    here = pathlib.Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        home = pathlib.Path(home)
        os.environ.update(environment(home), SLEDS=program)
        extensions = home / ".local/share/nautilus-python/extensions"
        extensions.mkdir(parents=True)
        shutil.copy(here / "sleds_panel.py", extensions)
        nautilus = subprocess.Popen(
            ["nautilus", "--gapplication-service"],
            stdout=subprocess.DEVNULL,
            stderr=open(home / "nautilus.log", "wb"),
        )
        try:
            until("Nautilus on the bus", lambda: show_properties(os.path.abspath(file)))
            row = until("the panel's row in the properties", find_row)
            click(row)
            texts = until("the panel", find_page)
            if screenshot:
                # The page slides in. Two consecutive equal pictures show that the page has stopped.
                picture = None
                while picture != (picture := shoot(screenshot)):
                    time.sleep(0.5)
            print(json.dumps(texts, ensure_ascii=False))
        finally:
            nautilus.kill()
            nautilus.wait()
            words = (home / "nautilus.log").read_text(errors="replace")
            if "Traceback" in words:
                sys.exit(words)


def click(node):
    """Clicks the center of a widget. Without a window manager the window is at the top left."""
    box = node.get_extents(Atspi.CoordType.WINDOW)
    x, y = box.x + box.width // 2, box.y + box.height // 2
    subprocess.run(["xdotool", "mousemove", str(x), str(y), "click", "1"], check=True)


def shoot(to):
    subprocess.run(["import", "-window", "root", "-trim", "+repage", to], check=True)
    return pathlib.Path(to).read_bytes()


if __name__ == "__main__":
    main(*sys.argv[1:])
