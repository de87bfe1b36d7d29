"""Many calls: how much two threads gain over one, and whether memory grows. many_calls.py --jobs 100000"""

import argparse
import gc
import resource
import sys
import time

import steelyard as sy


def timed(runs, threads):
    started = time.perf_counter()
    answers = sy.weigh_many(runs, on="8xh100-sxm-80gb", brief=True, threads=threads)
    assert all(isinstance(answer, sy.Prediction) for answer in answers)
    return time.perf_counter() - started


def grown():
    gc.collect()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=2000)
    count = parser.parse_args().jobs
    names = ("qwen2.5-0.5b", "llama-3.2-1b", "llama-3.1-8b")
    runs = [sy.Run(names[i % 3]).replace(sequence_length=1024 + 128 * (i % 50)) for i in range(count)]
    part = runs[: max(100, count // 10)]
    one, two = timed(part, 1), timed(part, 2)
    print(f"{len(part)} jobs: {one:.2f} s on one thread, {two:.2f} s on two: {one / two:.2f} times")
    before = grown()
    for run in runs:
        sy.weigh(run, on="8xh100-sxm-80gb", brief=True)
    after = grown()
    print(f"{count} calls: {before:.1f} MiB before, {after:.1f} MiB after")
    return 0 if after - before < 16 else 1


if __name__ == "__main__":
    sys.exit(main())
