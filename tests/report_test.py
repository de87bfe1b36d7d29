"""Reports: what --json says is in them, names with markup are words, and each weighs as the run that it carries.

report_test.py STEELYARD
"""

import html.parser
import json
import pathlib
import subprocess
import sys
import tempfile

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&\"'"
# A file may be called so; a slash would be a folder.
NAME = "<img src=x onerror=alert(3)>&\"'"


class Page(html.parser.HTMLParser):
    """The scripts of a page, and every tag and attribute that runs or loads something."""

    def __init__(self):
        super().__init__()
        self.scripts, self.alive, self.inside = {}, [], None

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag == "script":
            self.inside = values.get("id")
            self.scripts[self.inside] = ""
            if values.get("type") != "application/json":
                self.alive.append("a script that runs")
        if tag in ("img", "iframe", "object", "embed", "link", "form"):
            self.alive.append(f"<{tag}>")
        self.alive += [name for name, value in attributes
                       if name != "xmlns" and (name.startswith("on") or (value or "").startswith(("http", "//", "javascript:")))]

    def handle_endtag(self, tag):
        if tag == "script":
            self.inside = None

    def handle_data(self, data):
        if self.inside is not None:
            self.scripts[self.inside] += data


def main():
    binary, faults = pathlib.Path(sys.argv[1]).resolve(), []
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)

        def run(*words):
            return subprocess.run([binary, *words], cwd=work, capture_output=True, text=True, timeout=120)

        (work / f"{NAME}.toml").write_text('model = "llama-3.1-8b"\n[cluster]\ndevice = "h100-sxm-80gb"\ndevices = 8\n'
                                           '[training]\nsequence_length = 4096\n')
        (work / "carried.yaml").write_text("base_model: meta-llama/Llama-3.1-8B\nsequence_len: 2048\nmicro_batch_size: 1\n"
                                           f"bf16: true\noutput_dir: {json.dumps(HOSTILE)}\n")
        (work / "oom.txt").write_text(f"File \"{NAME}.py\", line 1, in <module>\ntorch.OutOfMemoryError: CUDA out of memory. Tried to "
                                      "allocate 1.96 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.02 GiB is free. Including "
                                      "non-PyTorch memory, this process has 78.08 GiB memory in use. Of the allocated memory 70.43 GiB is "
                                      "allocated by PyTorch, and 5.98 GiB is reserved by PyTorch but unallocated.\n")
        asked = {
            "weigh": ["weigh", f"{NAME}.toml"],
            "carried": ["weigh", "carried.yaml", "--on", "8xh100-sxm-80gb"],
            # Quiet is for the terminal: the page has the ways out all the same.
            "quiet": ["weigh", f"{NAME}.toml", "--sequence-length", "8192", "-q"],
            "plan": ["plan", f"{NAME}.toml", "--engine", "fsdp2", "--threads", "1"],
            "sweep": ["sweep", f"{NAME}.toml", "--over", "micro-batch=1,2"],
            "compare": ["compare", f"{NAME}.toml", "carried.yaml", "--on", "8xh100-sxm-80gb"],
            "diagnose": ["diagnose", "oom.txt"],
        }
        for what, words in asked.items():
            drawn = run(*words, "--html", f"{what}.html", "--svg", f"{what}.svg")
            if drawn.returncode not in (0, 1):
                faults.append(f"{what}: exit {drawn.returncode}: {drawn.stderr[:300]}")
                continue
            page, picture = Page(), Page()
            page.feed((work / f"{what}.html").read_text())
            picture.feed((work / f"{what}.svg").read_text())
            faults += [f"{what}: {alive}" for alive in page.alive + picture.alive]
            said = json.loads(run(*[word for word in words if word != "-q"], "--json").stdout)
            carried = json.loads(page.scripts.get("steelyard-answer", "null"))
            # What a search took differs from run to run.
            for answer in (said, carried):
                if isinstance(answer, dict):
                    for key in ("seconds", "searched", "search"):
                        answer.pop(key, None)
            if what != "plan" and said != carried:
                faults.append(f"{what}: the page's answer is not --json's")
        if "Ways out" not in (work / "quiet.html").read_text():
            faults.append("quiet: the page has no ways out of a run that does not fit")
        for what in ("weigh", "carried"):
            before, after = run(*asked[what], "-q"), run("weigh", f"{what}.html", "-q")
            if before.stdout != after.stdout:
                faults.append(f"{what}: {before.stdout.strip()}, from its report: {after.stdout.strip()} {after.stderr[:200]}")
    print("\n".join(faults) if faults else f"{len(asked)} reports, 0 faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
