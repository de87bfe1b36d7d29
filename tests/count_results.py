"""Prints `N passed, N failed` over the ctest results of a folder: count_results.py FOLDER STATUS

STATUS is the exit status of the run that wrote them. A run that failed without a failed test did not build,
or could not start: that counts as one failure. Exits with success only when nothing failed.
"""

import pathlib
import sys
import xml.etree.ElementTree


def main():
    folder, status = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    passed, failed = 0, 0
    for path in sorted(folder.glob("*.xml")):
        suite = xml.etree.ElementTree.parse(path).getroot()
        tests = suite.findall("testcase")
        good = sum(1 for test in tests if test.get("status") == "run" and test.find("failure") is None)
        skipped = sum(1 for test in tests if test.get("status") in ("disabled", "notrun")
                      and test.find("failure") is None and test.find("skipped") is not None)
        bad = len(tests) - good - skipped
        print(f"{path.stem}: {good} passed, {bad} failed" + (f", {skipped} skipped" if skipped else ""))
        passed += good
        failed += bad
    if status and not failed:
        print(f"the run ended with status {status} before its tests did")
        failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
