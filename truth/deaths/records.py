#!/usr/bin/env python3
"""Keeps a few deaths of the development half as files of the repository: texts of each kind, and the smallest snapshot of each category.

    records.py build/deaths truth/deaths/records

What is kept needs only Python to be read again: oom.txt, run.toml, truth.json, train.log where it says more than the failure, and
snapshot.pickle with neutral paths. The test half stays out: nobody should read it.
"""

import json
import pickle
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
LARGEST = 200_000  # bytes of a snapshot
FILES = ("oom.txt", "run.toml", "truth.json")


def neutral_frames(value, neutral, seen):
    """Paths of frames, in place; frames are shared between events, so each is looked at once."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, dict):
        if isinstance(value.get("filename"), str):
            value["filename"] = neutral(value["filename"])
        for each in value.values():
            neutral_frames(each, neutral, seen)
    elif isinstance(value, (list, tuple)):
        for each in value:
            neutral_frames(each, neutral, seen)


def main():
    from deaths.texts import neutral
    found, kept = Path(sys.argv[1]) / "development", Path(sys.argv[2])
    shutil.rmtree(kept, ignore_errors=True)
    first, smallest = {}, {}
    for folder in sorted(path.parent for path in found.glob("*/truth.json")):
        truth = json.loads((folder / "truth.json").read_text())
        first.setdefault(truth["kind"], folder)
        snapshot = folder / "snapshot.pickle"
        size = snapshot.stat().st_size
        if size <= LARGEST and size < smallest.get(truth["category"], (LARGEST + 1, None))[0]:
            smallest[truth["category"]] = (size, folder)
    with_snapshot = {folder for _, folder in smallest.values()}
    for folder in sorted({*first.values(), *with_snapshot}):
        target = kept / "development" / folder.name
        target.mkdir(parents=True)
        for name in FILES:
            if (folder / name).exists():
                shutil.copyfile(folder / name, target / name)
        if not (folder / "oom.txt").exists():
            shutil.copyfile(folder / "train.log", target / "train.log")
        if folder in with_snapshot:
            snapshot = pickle.loads((folder / "snapshot.pickle").read_bytes())
            neutral_frames(snapshot, neutral, set())
            (target / "snapshot.pickle").write_bytes(pickle.dumps(snapshot, protocol=4))
    size = sum(path.stat().st_size for path in kept.rglob("*") if path.is_file())
    print(f"{len(list(kept.glob('*/*')))} deaths, {len(with_snapshot)} with a snapshot, {size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
