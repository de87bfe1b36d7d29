"""The judge of the judges: the case runner and the sums, tried on what they must accept and refuse."""

import copy
import json
import pathlib
import tempfile
import unittest

import conservation
import run_cases

PILES = {"parameters": 40, "gradients": 20, "activations": 40, "slack": 7, "runtime": 9}
PHASE = {"phase": "backward", "allocated_bytes": 100, "reserved_bytes": 120, "piles": PILES}
RANK = {"rank": 0, "coordinates": {}, "replicas": 8, "phase": "backward", "allocated_bytes": 100,
        "reserved_bytes": 120, "resident_bytes": 60, "phases": [PHASE],
        "first_step": {"phase": "backward", "allocated_bytes": 100, "phases": [PHASE]}}
PREDICTION = {
    "schema": conservation.SCHEMA, "verdict": "fits",
    "parameters": {"total": 10, "active": 10, "trainable": 10},
    "peak": {"rank": 0, "phase": "backward", "allocated_bytes": 100, "reserved_bytes": 120, "device_bytes": 130,
             "low_bytes": 90, "high_bytes": 140},
    "ranks": [RANK],
    "device": {"usable_bytes": 150},
}


def with_change(change):
    prediction = copy.deepcopy(PREDICTION)
    change(prediction)
    return json.dumps(prediction)


class Sums(unittest.TestCase):
    def faults(self, change, code=0):
        return conservation.faults_of(with_change(change), code)

    def refuses(self, change, word, code=0):
        faults = self.faults(change, code)
        self.assertTrue(any(word in fault for fault in faults), faults)

    def test_accepts_a_sound_prediction(self):
        self.assertEqual(self.faults(lambda p: None), [])
        self.assertEqual(self.faults(lambda p: p["ranks"][0].pop("phases")), [], "--brief has no phases")

    def test_refuses_each_broken_sum(self):
        phase = lambda p: p["ranks"][0]["phases"][0]
        self.refuses(lambda p: phase(p)["piles"].update(gradients=21), "piles sum to 101")
        self.refuses(lambda p: phase(p)["piles"].update(gradients=-20, activations=80), "negative")
        self.refuses(lambda p: phase(p)["piles"].update(gradients=20.0), "whole number")
        self.refuses(lambda p: phase(p).update(reserved_bytes=99), "reserved 99 < allocated 100")
        self.refuses(lambda p: p["ranks"][0].update(allocated_bytes=101), "its largest phase 100")
        self.refuses(lambda p: p["ranks"][0].update(phase="forward"), "the largest phase is not forward")
        self.refuses(lambda p: p["ranks"][0]["first_step"].update(allocated_bytes=99), "not that of its largest")
        self.refuses(lambda p: p["ranks"][0].update(resident_bytes=101), "resident 101")
        self.refuses(lambda p: p["peak"].update(reserved_bytes=119), "the largest rank 120")
        self.refuses(lambda p: p["peak"].update(rank=3), "not among the ranks")
        self.refuses(lambda p: p["ranks"][0].update(rank=1), "not rank 0")
        self.refuses(lambda p: p["ranks"].append(p["ranks"][0]), "repeats")
        self.refuses(lambda p: p["parameters"].update(active=11), "active 11")
        self.refuses(lambda p: p.pop("peak"), "not a steelyard.prediction/1")
        self.refuses(lambda p: None, "exit 1", code=1)
        self.refuses(lambda p: p.update(verdict="perhaps"), "unknown verdict")

    def test_finds_predictions_wherever_they_stand(self):
        one = json.dumps(PREDICTION)
        self.assertEqual(len(conservation.predictions(one)), 1)
        self.assertEqual(len(conservation.predictions(f'{one}\n{{"error": {{}}}}\n{one}\n')), 2)
        self.assertEqual(len(conservation.predictions(f'{{"a": [{one}, {one}]}}')), 2)
        self.assertEqual(conservation.predictions("fits\n"), [])


CASE = """# What it shows.
# And why.
--- file job/run.toml
model = "x"

--- env COLUMNS=60
--- run steelyard weigh job/run.toml
--- stdin
hello
--- stdout
one
--- exit 1
--- run steelyard --version
"""


class Cases(unittest.TestCase):
    def parsed(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "a.case"
            path.write_text(text, encoding="utf-8")
            return run_cases.parse(path)

    def test_reads_and_writes_the_same_text(self):
        case = self.parsed(CASE)
        self.assertEqual(case.files, {"job/run.toml": 'model = "x"\n\n'})
        self.assertEqual(case.env, {"COLUMNS": "60"})
        self.assertEqual([step.exit for step in case.steps], [1, 0])
        self.assertEqual((case.steps[0].stdin, case.steps[0].stdout), ("hello\n", "one\n"))
        self.assertEqual(run_cases.written(case, case.steps), CASE)

    def test_refuses_what_is_not_a_case(self):
        for text in ("", "--- run steelyard\n", "# Says.\n", "# Says.\n--- stdout\n", "# Says.\n--- run a\nx\n",
                     "# Says.\n--- run a\n--- file b\n", "# Says.\n--- run a\n--- stdout\n--- stdout\n",
                     "# Says.\n--- env NAME\n--- run a\n"):
            with self.assertRaises(run_cases.Malformed, msg=text):
                self.parsed(text)

    def test_selects_parts_of_a_document(self):
        document = {"peak": {"bytes": 3}, "ranks": [{"rank": 0}, {"rank": 4}]}
        self.assertEqual(run_cases.selected(document, "peak.bytes"), ["peak.bytes = 3\n"])
        self.assertEqual(run_cases.selected(document, "ranks[*].rank"),
                         ["ranks[0].rank = 0\n", "ranks[1].rank = 4\n"])
        self.assertEqual(run_cases.selected(document, "ranks[1].rank"), ["ranks[1].rank = 4\n"])
        self.assertEqual(run_cases.selected(document, "peak.*"), ["peak.bytes = 3\n"])
        self.assertEqual(run_cases.selected(document, "time"), ["time is absent\n"])

    def test_shows_a_missing_end_of_line(self):
        self.assertEqual(run_cases.as_lines("x"), "x\n\\ no newline at end\n")


if __name__ == "__main__":
    unittest.main()
