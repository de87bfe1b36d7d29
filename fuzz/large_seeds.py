#!/usr/bin/env python3
"""Seeds of up to 256 KB for each fuzz target: what tests/bounds_test.py calls bombs.

    large_seeds.py FOLDER BYTES         writes FOLDER/launch/..., FOLDER/document/..., a folder for each target
"""

import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
import bounds_test  # noqa: E402


def seeds(size):
    """Contents by target; what a bomb adds around its pieces stays below the limit."""
    size -= 2000
    documents = {ending: list(bombs.values()) for ending, bombs in bounds_test.documents(size).items()}
    configs = list(bounds_test.configs(size // 2).values())
    headers = list(bounds_test.headers(size).values())
    return {
        "document": documents["json"] + documents["toml"] + documents["yaml"],
        "job": documents["json"] + documents["toml"],
        "config": configs + documents["json"],
        "launch": documents["sh"] + documents["yaml"] + documents["json"],
        "measured_row": documents["json"],
        "export": documents["toml"],
        "plan": documents["toml"],
        "safetensors": headers,
        "memory_snapshot": [b"\x80\x04" + b"(" * size, b"\x80\x04" + b"]" * size, b"\x80\x04" + b"]2" * (size // 2),
                            b"\x80\x04]" + b"]a" * (size // 2) + b".", b"\x80\x04" + b"\x94" * size],
        # What a run left behind: lines, tables and dumps that never end or never close.
        "log": ["CUDA out of memory. Tried to allocate " * (size // 38), "[rank0]: " * (size // 9), "x" * size,
                "\n".join(["step: 1 memory: 1.00GiB(1.00%)"] * (size // 31)), "\x1b[" * (size // 2),
                "Traceback (most recent call last):\n" + '  File "a.py", line 1, in f\n' * (size // 29)],
        "evidence": [b"\x80\x04" + b"(" * size, b"\x80\x04" + b"]" * size, b"\x80\x04]" + b"]a" * (size // 2) + b".",
                     b"\x80\x04" + b"\x94" * size, "[" * size, '{"segments": ' * (size // 13)],
        "flight_recorder": [b"\x80\x02" + b"(" * size, "[" * size, '{"entries": [' * (size // 13)],
        "profiler_trace": ["[" * size, '{"traceEvents": [' + '{"ts": 1},' * (size // 10), '{"traceEvents": ' * (size // 16)],
        "allocator_settings": ["[" * size, "expandable_segments:True," * (size // 25), "a:[" + "1:2," * (size // 4) + "]"],
    }


def main():
    folder, size = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    for target, contents in seeds(size).items():
        into = folder / target
        into.mkdir(parents=True, exist_ok=True)
        for number, content in enumerate(contents):
            content = content if isinstance(content, bytes) else content.encode()
            if len(content) <= size:
                (into / f"large-{number}").write_bytes(content)


if __name__ == "__main__":
    sys.exit(main())
