#!/usr/bin/env python3
"""Writes the C table of the devices that the paper device can be, from data/devices and data/architectures.json.

    write_devices.py DATA > devices_table.h
"""

import json
import re
import sys
from pathlib import Path

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def bytes_of(text):
    number, unit = text.split()
    return int(float(number) * UNITS[unit])


def rows(data):
    architectures = json.loads((data / "architectures.json").read_text())["architectures"]
    for path in sorted((data / "devices").glob("*.json")):
        device = json.loads(path.read_text())
        name = device["architecture"]["value"]
        if not re.fullmatch(r"sm_\d+", name):
            continue  # CUDA alone is on paper
        here = architectures[name]
        compute = int(name[3:])
        yield (f'{{"{device["name"]}", "{device["description"]}", {bytes_of(device["capacity"]["low"])}u, {compute // 10}, '
               f'{compute % 10}, {device["multiprocessors"]["value"]}, {bytes_of(here["shared_memory"])}u, '
               f'{bytes_of(here["shared_memory_of_a_block"])}u, {bytes_of(device["l2_cache"]["value"])}u, '
               f'{here["threads"]}, {here["blocks"]}}},')


if __name__ == "__main__":
    print("// Written by write_devices.py from data/devices and data/architectures.json.")
    print("\n".join(rows(Path(sys.argv[1]))))
