"""What a death leaves as text: neutral paths, and the run file in TOML."""

import json
import re
import sys
from pathlib import Path

TRUTH = Path(__file__).resolve().parent.parent
PLACES = ((sys.prefix, "/opt/venv"), (sys.base_prefix, "/usr/local"), (str(TRUTH), "/workspace/train"))
DEVICE = "MiB"


def neutral(text):
    """Paths are those of any container; carriage returns of progress bars end lines; addresses of objects go."""
    for found, name in PLACES:
        text = text.replace(found, name)
    text = re.sub(r"/workspace/train/deaths/\w+\.py", "/workspace/train/run.py", text)
    return re.sub(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\]", "[2026-01-15 09:30:00,000]", text.replace("\r", "\n"))


def literal(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, list):
        return "[" + ", ".join(literal(each) for each in value) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(k)} = {literal(v)}" for k, v in value.items() if v is not None) + " }"
    raise TypeError(type(value))


def write_run(path, run, capacity):
    """The run file, on a device of the size at which the run died. Keys that begin with _ are the script's own."""
    run = {key: value for key, value in run.items() if not key.startswith("_")}
    run["cluster"] = {**run["cluster"], "device": f"{capacity // 2**20}{DEVICE}"}
    tables = {key: value for key, value in run.items() if isinstance(value, dict)}
    lines = [f"{key} = {literal(value)}" for key, value in run.items() if key not in tables]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *(f"{key if re.fullmatch('[A-Za-z0-9_-]+', key) else json.dumps(key)} = {literal(value)}"
                                     for key, value in table.items() if value is not None)]
    path.write_text("\n".join(lines) + "\n")
