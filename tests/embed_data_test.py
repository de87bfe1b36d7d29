"""cmake/embed_data.py keeps every byte of a file, in order, and stops at a broken one."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parent.parent / "cmake" / "embed_data.py"


class Embed(unittest.TestCase):
    def embed(self, files):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for path, text in files.items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(text, encoding="utf-8")
            out = folder / "out" / "files.cc"
            done = subprocess.run([sys.executable, str(TOOL), "--version", "1.2.3", "--out", str(out), name],
                                  capture_output=True, text=True, check=False)
            return done.returncode, done.stderr, out.read_text(encoding="utf-8") if out.exists() else ""

    def test_rows_are_sorted_and_counted(self):
        code, _, text = self.embed({"b/x.json": "{}", "a/z.json": "[1]", "a/y.json": "[2]", "a/note.txt": "no"})
        self.assertEqual(code, 0)
        self.assertIn("std::array<EmbeddedFile, 3>", text)
        self.assertLess(text.index('"a/y.json"'), text.index('"a/z.json"'))
        self.assertLess(text.index('"a/z.json"'), text.index('"b/x.json"'))
        self.assertNotIn("note", text)
        self.assertIn('return "1.2.3"', text)

    def test_text_that_looks_like_the_end_of_a_literal_stays_text(self):
        code, _, text = self.embed({"a.json": '{"x": ")text", "y": 1}'})
        self.assertEqual(code, 0)
        self.assertIn('R"text_({"x": ")text", "y": 1})text_"', text)

    def test_a_broken_file_is_named_with_its_line(self):
        code, fault, text = self.embed({"a.json": '{"x": 1,\n "y" 2}'})
        self.assertEqual((code, text), (1, ""))
        self.assertIn("a.json:2: error:", fault)

    def test_a_key_given_twice_is_refused(self):
        code, fault, _ = self.embed({"a.json": '{"x": 1, "x": 2}'})
        self.assertEqual(code, 1)
        self.assertIn('key "x" is given twice', fault)


if __name__ == "__main__":
    unittest.main()
