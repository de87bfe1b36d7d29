"""The library's answers, held to the schemas of docs/schemas."""

import sys
import unittest
from pathlib import Path

import steelyard as sy

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
import schemas  # noqa: E402

SCHEMAS = schemas.Schemas(ROOT / "docs/schemas")
RUN = ROOT / "examples/llama-3.1-8b-fsdp2.toml"


class Schemas(unittest.TestCase):
    def held(self, document):
        self.assertEqual(SCHEMAS.faults(document), [])

    def test_answers_hold_to_them(self):
        short = sy.load(RUN).replace(sequence_length=2048)
        answers = [sy.weigh(RUN), sy.weigh(short, brief=True), sy.estimate(short), sy.plan("7b", on="8xh100", seconds=2),
                   sy.sweep(short, micro_batch=[1, 2]), sy.explain(RUN, "activations"), sy.compare(RUN, short), sy.gate(short),
                   sy.export(short, "torchtitan"), sy.list("devices")]
        for answer in answers:
            self.held(answer.to_dict())
        with self.assertRaises(sy.InputError) as caught:
            sy.weigh("7b", on="8xh1000")
        self.held(caught.exception.to_dict())

    def test_they_refuse(self):
        document = sy.weigh(RUN).to_dict()
        for damage in ({"nonsense": 1}, {"verdict": "perhaps"}, {"peak": None}):
            self.assertNotEqual(SCHEMAS.faults({**document, **damage}), [])


if __name__ == "__main__":
    unittest.main()
