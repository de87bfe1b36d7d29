"""The package as a user has it: questions, answers, errors, values. python -m unittest discover python/tests"""

import copy
import doctest
import gc
import importlib
import json
import os
import pickle
import pkgutil
import resource
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import steelyard as sy

ROOT = Path(__file__).resolve().parents[2]
ON = "8xh100-sxm-80gb"
EXAMPLE = ROOT / "examples/llama-3.1-8b-fsdp2.toml"
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of "
    "which 1.20 GiB is free. Including non-PyTorch memory, this process has 77.89 GiB memory in use. Of the allocated "
    "memory 70.12 GiB is allocated by PyTorch, and 6.30 GiB is reserved by PyTorch but unallocated.\n"
)


class Questions(unittest.TestCase):
    def test_weigh(self):
        answer = sy.weigh("llama-3.1-8b", on=ON, engine="fsdp2", zero_stage=3, sequence_length=16384)
        self.assertEqual(answer.verdict, "does_not_fit")
        self.assertFalse(answer.fits)
        self.assertEqual(answer.peak.piles.largest, "activations")
        self.assertEqual(answer.peak.piles.total, answer.peak.device)
        self.assertGreater(answer.peak.piles.activations.gib, 50)
        self.assertLessEqual(answer.peak.low, answer.peak.high)
        self.assertAlmostEqual(sum(answer.time.terms.values()), answer.time.step, places=6)
        applied = answer.suggestions[0].apply()
        self.assertTrue(applied.fits)
        self.assertEqual(applied.peak.device, answer.suggestions[0].peak)

    def test_names_flat_nested_and_dotted_are_one_question(self):
        flat = sy.weigh("llama-3.1-8b", on=ON, zero_stage=2, sequence_length=4096)
        nested = sy.weigh("llama-3.1-8b", on=ON, parallel={"zero_stage": 2}, training={"sequence_length": 4096})
        table = sy.weigh({"model": "llama-3.1-8b", "cluster": {"device": ON[2:], "devices": 8},
                          "parallel": {"zero_stage": 2}, "training": {"sequence_length": 4096}})
        self.assertEqual(flat.to_dict(), nested.to_dict())
        self.assertEqual(flat.peak.device, table.peak.device)

    def test_a_path_and_the_program(self):
        binary = os.environ.get("STEELYARD_BINARY")
        if not binary:
            self.skipTest("STEELYARD_BINARY names the program")
        told = subprocess.run([binary, "weigh", str(EXAMPLE), "--json"], stdout=subprocess.PIPE, check=False)
        self.assertEqual(sy.weigh(EXAMPLE).to_dict(), json.loads(told.stdout))

    def test_plan(self):
        seen = []
        answer = sy.plan("llama-3.1-8b", on=ON, progress=lambda done, every, best: seen.append((done, every, best)))
        self.assertEqual(answer.verdict, "fits")
        self.assertEqual(answer.best, answer.layouts[0])
        steps = [layout.step_seconds for layout in answer.layouts]
        self.assertEqual(steps, sorted(steps))
        self.assertEqual(len(answer.layouts.to_dicts()), len(steps))

    def test_plan_stops_and_raises_what_the_caller_raises(self):
        class Mine(Exception):
            pass

        def stop(done, every, best):
            raise Mine

        with self.assertRaises(Mine):
            sy.plan("llama-3-70b", on="256xh100", progress=stop)
        answer = sy.plan("llama-3-70b", on="256xh100", progress=lambda done, every, best: False)
        self.assertTrue(answer.interrupted)

    def test_the_others(self):
        run = sy.load(EXAMPLE)
        short = run.replace(sequence_length=2048)
        self.assertIn("sequence_length = 2048", short.text)
        self.assertIn("# sequences per device", short.text)
        points = sy.sweep(short, sequence_length=[2048, 4096])
        self.assertEqual([p.values for p in points],
                         [{"training.sequence_length": 2048}, {"training.sequence_length": 4096}])
        self.assertEqual(points.points[0].prediction.peak.device, sy.weigh(short).peak.device)
        self.assertEqual(sy.explain(run, "activations").total, sy.weigh(run).peak.piles.activations)
        self.assertIn("E210", str(sy.explain("E210")))
        comparison = sy.compare(run, short)
        self.assertFalse(comparison.same)
        self.assertLess(comparison.piles[0].delta, 0)
        self.assertTrue(sy.compare(run, run).same)
        self.assertEqual(sy.diagnose("oom.txt", files={"oom.txt": OOM}).verdict, "fragmentation")
        self.assertTrue(sy.gate(run).refused)
        self.assertFalse(sy.gate(short).refused)
        self.assertIn("torchtitan.toml", sy.export(short, "torchtitan").files)
        with tempfile.TemporaryDirectory() as folder:
            launch = Path(folder, "ds.json")
            launch.write_text('{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}}')
            imported = sy.import_(launch, model="llama-3.1-8b", on=ON)
            self.assertEqual(imported.run.source["parallel"]["zero_stage"], 3)
            self.assertEqual(imported.origins["parallel.zero_stage"]["line"], 1)
            sy.export(short, "torchtitan").save(Path(folder, "out"))
            self.assertTrue(Path(folder, "out/torchtitan.toml").exists())
            answer = sy.weigh(short)
            for name in ("page.html", "chart.svg", "answer.json", "answer.txt"):
                answer.save(Path(folder, name))
                self.assertGreater(Path(folder, name).stat().st_size, 500, name)
            answer.trace(Path(folder, "trace.json"))
            json.loads(Path(folder, "trace.json").read_text())
            answer.snapshot(Path(folder, "snapshot.pickle"))
            self.assertTrue(sy.compare(short, Path(folder, "snapshot.pickle")).to_dict())

    def test_estimate_is_near_the_prediction(self):
        short = sy.load(EXAMPLE).replace(sequence_length=2048)
        estimated, weighed = sy.estimate(short), sy.weigh(short)
        self.assertEqual(estimated.verdict, weighed.verdict)
        self.assertLess(abs(estimated.peak.device - weighed.peak.device), weighed.peak.device * 0.2)
        with self.assertRaises(KeyError):
            sy.weigh(short, brief=True).peak.piles


class Errors(unittest.TestCase):
    def test_places_and_names(self):
        with self.assertRaises(sy.InputError) as caught:
            sy.weigh("llama-3.1-8b", on=ON, sequence_lenght=4096)
        self.assertIn("sequence_length", caught.exception.problems[0].help)
        with self.assertRaises(sy.InputError) as caught:
            sy.weigh("model = 'llama-3.1-8b'\nenginee = 'x'\n[training]\nsequence_lenght = 2\n", on=ON)
        problems = caught.exception.problems
        self.assertEqual([(p.code, p.line) for p in problems], [("E104", 2), ("E104", 4)])
        self.assertIn("^^^^", str(caught.exception))
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual([p.code for p in again.problems], ["E104", "E104"])

    def test_wrong_types(self):
        with self.assertRaises(TypeError):
            sy.weigh(3)
        with self.assertRaises(TypeError):
            sy.weigh("7b", on=ON, micro_batch=object())
        with self.assertRaises(sy.InputError):
            sy.weigh("7b", on=ON, micro_batch=-1)
        with self.assertRaises(FileNotFoundError):
            sy.load("no-such-run.toml")


class Values(unittest.TestCase):
    def test_pickle_copy_and_equality(self):
        answer = sy.weigh("llama-3.1-8b", on=ON)
        for other in (pickle.loads(pickle.dumps(answer)), copy.deepcopy(answer), copy.copy(answer)):
            self.assertEqual(other, answer)
            self.assertEqual(str(other), str(answer))
        run = sy.Run("7b").replace(on=ON, micro_batch=2)
        self.assertEqual(pickle.loads(pickle.dumps(run)), run)
        self.assertEqual(len({run, sy.Run("7b").replace(on=ON, micro_batch=2)}), 1)

    def test_answers_do_not_change(self):
        answer = sy.weigh("llama-3.1-8b", on=ON)
        answer.to_dict()["verdict"] = "tight"
        answer["peak"]["rank"] = 7
        self.assertEqual(answer.verdict, "fits")
        self.assertEqual(answer.peak.rank, 0)

    def test_notebook(self):
        for answer in (sy.weigh(EXAMPLE), sy.plan("7b", on=ON), sy.explain(EXAMPLE, "activations"),
                       sy.compare(EXAMPLE, ROOT / "examples/llama-3.1-8b-deepspeed.toml")):
            html = answer._repr_html_()
            self.assertLess(len(html), 30_000)
            self.assertNotIn("<script", html)
        hostile = sy.weigh({"model": {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
                                      "num_attention_heads": 4, "vocab_size": 100, "intermediate_size": 128,
                                      "_name_or_path": "<img src=x>"}}, on="1xh100")
        self.assertNotIn("<img", hostile._repr_html_())


class Many(unittest.TestCase):
    def test_order_and_errors_in_their_places(self):
        jobs = [sy.Run("llama-3.1-8b", {"training.micro_batch": n}) for n in (1, 2, 3)]
        answers = sy.weigh_many([jobs[0], {"model": "no-such-model"}, jobs[1], jobs[2]], on=ON)
        self.assertIsInstance(answers[1], sy.InputError)
        self.assertEqual([a.to_dict() for a in answers if isinstance(a, sy.Prediction)],
                         [sy.weigh(job, on=ON).to_dict() for job in jobs])

    def test_python_goes_on_meanwhile(self):
        counted, done = [0], threading.Event()

        def count():
            while not done.is_set():
                counted[0] += 1
                time.sleep(0.0005)

        counter = threading.Thread(target=count)
        counter.start()
        before = counted[0]
        sy.weigh_many([sy.Run("llama-3.1-8b")] * 200, on=ON)
        during = counted[0] - before
        done.set()
        counter.join()
        self.assertGreater(during, 5)

    def test_nothing_leaks(self):
        def calls(count):
            for _ in range(count):
                sy.weigh("7b", on=ON, brief=True).verdict
                try:
                    sy.weigh("7b", on=ON, bogus=1)
                except sy.InputError:
                    pass
            gc.collect()
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        calls(300)
        before = calls(100)
        self.assertLess(calls(1000) - before, 8 * 1024)  # KiB; a leak of 10 kB a call would be 20 MiB


class Import(unittest.TestCase):
    def test_it_brings_nothing_heavy(self):
        script = ("import sys, steelyard; print([m for m in ('torch', 'numpy', 'asyncio', 'inspect', 'dataclasses') "
                  "if m in sys.modules])")
        told = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True)
        self.assertEqual(told.stdout.strip(), b"[]")

    def test_record_says_what_it_needs(self):
        try:
            import torch  # noqa: F401
        except ImportError:
            with self.assertRaisesRegex(ImportError, "pip install torch"):
                with sy.record("evidence"):
                    pass

    def test_docstrings(self):
        for module in pkgutil.iter_modules(sy.__path__):
            if module.name in ("_core", "callbacks"):
                continue
            outcome = doctest.testmod(importlib.import_module(f"steelyard.{module.name}"))
            self.assertEqual(outcome.failed, 0, module.name)
        self.assertGreater(doctest.testmod(sy).attempted, 2)

    def test_the_documents_words(self):
        here = os.getcwd()
        os.chdir(ROOT)
        try:
            outcome = doctest.testfile(str(ROOT / "docs/python.md"), module_relative=False)
        finally:
            os.chdir(here)
        self.assertEqual(outcome.failed, 0)
        self.assertGreater(outcome.attempted, 10)


if __name__ == "__main__":
    unittest.main()
