#!/usr/bin/env python3
"""Checks every direct #include under kernels/, lib/ and tools/ against the file LAYERS.

A room is a folder with a row in LAYERS; a folder without a row belongs to the nearest one above it that has one. Prints each fault
and exits 1 if there is one: an include that no row allows, a row without a folder, rows that include each other in a circle, a library
that LAYERS does not name, a folder with more units than the bound (a unit: the files of one name).
Usage: check_layers.py [ROOT]
"""
import pathlib
import re
import sys

MAX_UNITS = 25
SOURCES = {".h", ".cc", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)
PROJECT = ("kernels/", "lib/", "tools/", "tests/")


class Layers:
    """The rows of LAYERS: room -> {room: the headers that may be included, or None for all}; and the libraries' names."""

    def __init__(self, text):
        self.rows = {}
        self.libraries = set()
        for line in text.splitlines():
            line = line.split("#")[0].strip()
            if not line:
                continue
            room, _, below = line.partition(":")
            if room == "libraries":
                self.libraries.update(below.split())
                continue
            allowed = self.rows.setdefault(room.strip(), {})
            for name, headers in re.findall(r"([\w/]+)(?:\(([^)]*)\))?", below):
                allowed[name] = {h.strip() for h in headers.split(",")} if headers else None

    def room_of(self, path):
        parts = path.split("/")[:-1]
        while parts and "/".join(parts) not in self.rows:
            parts.pop()
        return "/".join(parts)

    def circle(self):
        """A list of rooms of which each may include the next and the last the first, or None."""
        done, way = set(), []

        def visit(room):
            if room in way:
                return way[way.index(room):]
            if room in done:
                return None
            way.append(room)
            for below in self.rows.get(room, {}):
                found = visit(below)
                if found:
                    return found
            way.pop()
            done.add(room)
            return None

        for room in self.rows:
            found = visit(room)
            if found:
                return found
        return None


def sources(root):
    for top in ("kernels", "lib", "tools"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SOURCES:
                yield path


def include_fault(layers, path, target, quoted):
    """Why the file at `path` may not include `target`; None where it may."""
    if not target.startswith(PROJECT):
        if quoted:
            return "write includes from the root of the project" if "/" in target else None
        top = target.split("/")[0]
        return None if "/" not in target or top in layers.libraries else f"no row of LAYERS names the library {top}"
    room, below = layers.room_of(path), layers.room_of(target)
    if not room:
        return "no row of LAYERS has this file's folder"
    if room == below:
        return None
    if below not in layers.rows[room]:
        return f"{room} may not include {below or target.split('/')[0]}"
    headers = layers.rows[room][below]
    if headers and target[len(below) + 1:] not in headers:
        return f"{room} may include only {', '.join(sorted(headers))} of {below}"
    return None


def check(root):
    layers = Layers((root / "LAYERS").read_text())
    faults = [f"LAYERS: {room} has no folder" for room in layers.rows if not (root / room).is_dir()]
    faults += [f"LAYERS: {room} may include {below}, which has no row"
               for room, allowed in layers.rows.items() for below in allowed if below not in layers.rows]
    circle = layers.circle()
    if circle:
        faults.append("LAYERS: a circle: " + " -> ".join(circle + circle[:1]))
    includes, units = 0, {}
    for path in sources(root):
        name = path.relative_to(root).as_posix()
        units.setdefault(str(pathlib.PurePosixPath(name).parent), set()).add(path.stem)
        text = path.read_text()
        for match in INCLUDE.finditer(text):
            includes += match[2].startswith(PROJECT)
            fault = include_fault(layers, name, match[2], match[1] == '"')
            if fault:
                line = text.count("\n", 0, match.start()) + 1
                faults.append(f'{name}:{line}: includes {match[2]}: {fault}')
    faults += [f"{folder}: {len(names)} units; {MAX_UNITS} at most" for folder, names in units.items() if len(names) > MAX_UNITS]
    largest = max(units, key=lambda folder: len(units[folder]))
    print("\n".join(faults + [f"layers: {len(layers.rows)} rooms, {includes} includes, {len(faults)} wrong; "
                              f"largest folder {largest} ({len(units[largest])} units)"]))
    return 1 if faults or not includes else 0


if __name__ == "__main__":
    sys.exit(check(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)))
