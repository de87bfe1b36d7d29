"""Seeded deaths of the development half (truth/deaths/records) diagnosed again: each answer is right, or listed with what is said.

    deaths_test.py BINARY            every recorded death: the verdict is the planted cause, or the one in known_misdiagnoses.json
    deaths_test.py BINARY --rebase   writes known_misdiagnoses.json as things stand; the diff is part of the review

An answer that has become right is a failure too: the list says what is not diagnosed yet, no more. The rates of both halves are
`make verify-diagnose`'s, in docs/deaths.md.
"""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "truth" / "deaths"))
import score  # noqa: E402

RECORDS = HERE.parent / "truth" / "deaths" / "records" / "development"
LIST = HERE / "known_misdiagnoses.json"


def misdiagnosed(binary):
    folders = sorted(path.parent for path in RECORDS.glob("*/truth.json"))
    assert len(folders) > 20, f"{len(folders)} recorded deaths in {RECORDS}"
    found = {}
    for folder in folders:
        for question, answer in score.scored(binary, folder)["answers"].items():
            if answer["judged"] != "right":
                found[f"{folder.name}: {question}"] = answer["said"]
    return found, len(folders)


def main():
    found, deaths = misdiagnosed(sys.argv[1])
    if "--rebase" in sys.argv:
        LIST.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    known = json.loads(LIST.read_text())
    wrong = [f"{name}: said {found.get(name, 'the right cause')}, known is {known.get(name, 'the right cause')}"
             for name in sorted({*found, *known}) if found.get(name) != known.get(name)]
    print("\n".join(wrong))
    print(f"{deaths} deaths, {len(found)} answers that are not right, {len(wrong)} that are not as listed (--rebase writes the list)")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
