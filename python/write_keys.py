"""Writes steelyard/keys.py, the keys of a run file with their types: write_keys.py src/job/keys.def OUT.py

The build runs it, so that what an editor offers is what the core of the same build understands.
"""

import pathlib
import re
import sys

TYPES = {
    "kModel": "str | Mapping[str, Any]",
    "kMachine": "str | Mapping[str, Any]",
    "kCount": "int | str",
    "kSequence": "int | str",
    "kBytes": "int | str",
    "kBandwidth": "float | str",
    "kNumber": "float | str",
    "kFraction": "float",
    "kSwitch": "bool",
    "kClip": "bool | float",
    "kNames": "str | Sequence[str]",
    "kTexts": "str | Sequence[str]",
    "kCounts": "int | str | Sequence[int]",
}
LISTS = ("kNames", "kTexts", "kCounts")
# As src/job/keys.cc makes flags: in these sections a name says enough by itself.
ALONE = ("", "cluster", "training", "parallel")
NAMES_A_CHOICE = ("recompute", "offload", "adapter")

STRING = r'"((?:[^"\\]|\\.)*)"'
ROW = re.compile(rf"^KEY\((\w+),\s*{STRING},\s*{STRING},\s*(\w+),\s*(?:{STRING}|\w+),(.*?)(?=^KEY\(|\Z)", re.M | re.S)

HEAD = '''"""The keys of a run file. Written by python/write_keys.py in the build."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Sequence

if TYPE_CHECKING:
    from typing_extensions import TypedDict

    class RunKeys(TypedDict, total=False):
        """Keys by their flat names; a group is also said as a table: parallel={"tensor": 2}."""

'''


def rows(text):
    for _, section, name, kind, names, rest in ROW.findall(text):
        tail = re.findall(STRING, rest)
        yield section, name, kind, names, tail[0], tail[1], tail[2]


def main():
    source, out = map(pathlib.Path, sys.argv[1:3])
    fields, names_of, lists, paths, sections = [], {}, [], [], []
    for section, name, kind, names, fallback, aliases, help_text in rows(source.read_text(encoding="utf-8")):
        path = f"{section}.{name}" if section else name
        prefix = "" if section in ALONE else section + "_"
        flat = prefix + name
        if section and section not in sections:
            sections.append(section)
            fields.append(f"        {section}: Any")
            if section in NAMES_A_CHOICE:
                names_of[section] = path
        accepted = f" ({', '.join(names.split('|'))})" if names else ""
        fields.append(f"        #: {help_text}{accepted}; absent: {fallback}")
        fields.append(f"        {flat}: {TYPES.get(kind, 'str')}")
        paths.append(path)
        names_of[flat] = path
        for alias in filter(None, aliases.split("|")):
            fields.append(f"        {prefix}{alias}: {TYPES.get(kind, 'str')}")
            names_of[prefix + alias] = path
        if kind in LISTS:
            lists.append(path)
    if len(paths) < 100:
        sys.exit(f"{source}: {len(paths)} rows were understood, of more than a hundred")
    # A group may have the name of a key: a table is then the group.
    fields = [line for i, line in enumerate(fields) if not line.endswith(": Any") or
              not any(other.startswith(line.split(":")[0] + ":") for other in fields[i + 1:])]
    text = HEAD + "\n".join(fields)
    text += "\n\n#: Flat names, as flags of the program, and the keys that they mean.\nKEY_OF_NAME = {\n"
    text += "".join(f"    {name!r}: {path!r},\n" for name, path in names_of.items())
    text += "}\n\nKEYS = frozenset(KEY_OF_NAME.values())\n\n#: Whose values are lists.\n"
    text += f"KEYS_OF_LISTS = frozenset({lists!r})\n"
    out.write_text(text, encoding="utf-8")


main()
