"""The schemas of docs/schemas by the Python package jsonschema, and the library's answers held to them."""

import json
import unittest
from pathlib import Path

import jsonschema
import referencing

import steelyard as sy

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in (ROOT / "docs/schemas").glob("*.json")}
REGISTRY = referencing.Registry().with_resources(
    [(name, referencing.Resource.from_contents(schema)) for name, schema in SCHEMAS.items()])
RUN = ROOT / "examples/llama-3.1-8b-fsdp2.toml"


def held(document):
    schema = SCHEMAS[document["schema"].split(".")[1].split("/")[0] + ".json"]
    jsonschema.Draft202012Validator(schema, registry=REGISTRY).validate(document)


class Schemas(unittest.TestCase):
    def test_they_are_schemas(self):
        self.assertGreater(len(SCHEMAS), 30)
        for name, schema in SCHEMAS.items():
            jsonschema.Draft202012Validator.check_schema(schema)
            self.assertEqual(schema["$id"], name)

    def test_answers_hold_to_them(self):
        short = sy.load(RUN).replace(sequence_length=2048)
        answers = [sy.weigh(RUN), sy.weigh(short, brief=True), sy.estimate(short), sy.plan("7b", on="8xh100", seconds=2),
                   sy.sweep(short, micro_batch=[1, 2]), sy.explain(RUN, "activations"), sy.compare(RUN, short), sy.gate(short),
                   sy.export(short, "torchtitan"), sy.list("devices")]
        for answer in answers:
            held(answer.to_dict())
        with self.assertRaises(sy.InputError) as caught:
            sy.weigh("7b", on="8xh1000")
        held(caught.exception.to_dict())

    def test_they_refuse(self):
        document = sy.weigh(RUN).to_dict()
        for damage in ({"nonsense": 1}, {"verdict": "perhaps"}, {"peak": None}):
            with self.assertRaises(jsonschema.ValidationError):
                held({**document, **damage})


if __name__ == "__main__":
    unittest.main()
