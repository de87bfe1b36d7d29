#!/usr/bin/env python3
"""Writes a memory snapshot of any size, as Python's own pickle does: protocol 4, with frames and stacks shared as PyTorch shares them.

PyTorch makes one dict of a frame for the whole file, and one list for each stack it captured: an `alloc` has its own, the two events
of a free share one. So two lists come with three events, 36 frames deep, of about 1,200 frames: 170 bytes an event, as in real files.

    large_snapshot.py OUT.pickle 5500000          events: about a gigabyte
    large_snapshot.py OUT.pickle 5500000 --measure BINARY

A run of many steps: parameters, then forward, backward and an optimizer step, again and again; it ends out of memory. --measure runs
`BINARY diagnose` and pickle.load on it, each in a process of its own, and prints seconds and the highest resident memory.
"""

import argparse
import multiprocessing
import os
import pickle
import subprocess
import sys
import time

MIB = 2**20
LAYERS, DEEP = 48, 36


def frame(name, file, line):
    return {"filename": file, "line": line, "name": name}


def stacks():
    base = [frame("main", "/home/user/train.py", 12), frame("train", "/home/user/train.py", 88)]
    wrap = [frame("_call_impl", "/lib/site-packages/torch/nn/modules/module.py", 1790 + i) for i in range(DEEP // 4)]
    def stack(name, file, line):
        own = [frame("forward", "/lib/blocks.py", 20 * line + i) for i in range(DEEP - 4 - len(wrap))]
        return [frame(name, file, line), *own, *wrap, frame("forward", "/lib/model.py", 40 + line % 17), *reversed(base)]
    return {
        "load": stack("_apply", "/lib/site-packages/torch/nn/modules/module.py", 934),
        "forward": [stack("forward", "/lib/model.py", 100 + layer) for layer in range(LAYERS)],
        "loss": stack("cross_entropy", "/lib/site-packages/torch/nn/functional.py", 3104),
        "state": stack("_init_group", "/lib/site-packages/torch/optim/adam.py", 178),
    }


def snapshot(events):
    said, trace, live, at, clock = stacks(), [], {}, 0x7f0000000000, 1_700_000_000_000_000
    free = {}

    def add(action, address, size, frames=()):
        nonlocal clock
        clock += 3
        trace.append({"action": action, "addr": address, "size": size, "stream": 0, "time_us": clock, "frames": frames,
                      "compile_context": "N/A", "user_metadata": ""})

    def alloc(size, frames):
        nonlocal at
        address = free[size].pop() if free.get(size) else None
        if address is None:
            address, at = at, at + max(size, 2 * MIB)
            add("segment_alloc", address, max(size, 2 * MIB), frames)
        frames = list(frames)
        add("alloc", address, size, frames)
        live[address] = (size, frames)
        return address

    def release(address):
        size, frames = live.pop(address)
        frames = list(frames)
        add("free_requested", address, size, frames)
        add("free_completed", address, size, frames)
        free.setdefault(size, []).append(address)

    sizes = [MIB * (1 + layer % 7) for layer in range(LAYERS)]
    for size in sizes:
        alloc(size, said["load"])
    made = False
    while len(trace) < events:
        kept = [alloc(4 * MIB, said["forward"][layer]) for layer in range(LAYERS) for _ in range(6)]
        kept.append(alloc(64 * MIB, said["loss"]))
        gradients = []
        for layer in reversed(range(LAYERS)):
            gradients.append(alloc(sizes[layer], ()))
            for address in [kept.pop(0) for _ in range(6)]:
                release(address)
        release(kept.pop())
        if not made:
            for size in sizes:
                alloc(size, said["state"])
                alloc(size, said["state"])
            made = True
        for address in gradients:
            release(address)
    trace.append({"action": "oom", "size": 512 * MIB, "device_free": 20 * MIB, "stream": 0, "time_us": clock, "frames": said["loss"]})
    segments = [{"device": 0, "address": address, "total_size": max(size, 2 * MIB), "allocated_size": size, "active_size": size,
                 "requested_size": size, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False,
                 "frames": [], "blocks": blocks}
                for address, size, blocks in segments_of(live, free)]
    return {"segments": segments, "device_traces": [trace], "allocator_settings": {"expandable_segments": False},
            "external_annotations": []}


def segments_of(live, free):
    held = [(address, size, frames, "active_allocated") for address, (size, frames) in live.items()]
    held += [(address, size, [], "inactive") for size, addresses in free.items() for address in addresses]
    for address, size, frames, state in sorted(held, key=lambda one: one[0]):
        blocks = [{"address": address, "size": size, "requested_size": size, "state": state, "frames": list(frames)}]
        if size < 2 * MIB:
            blocks.append({"address": address + size, "size": 2 * MIB - size, "requested_size": 0, "state": "inactive", "frames": []})
        yield address, size, blocks


def measure(command):
    start = time.time()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    return time.time() - start, used.ru_maxrss / 2**20, status


def write(out, events):
    with open(out, "wb") as file:
        pickle.dump(snapshot(events), file, protocol=4)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("events", type=int)
    parser.add_argument("--measure", metavar="BINARY")
    said = parser.parse_args()
    writer = multiprocessing.Process(target=write, args=(said.out, said.events))  # a child has its parent's memory in its highest
    writer.start()
    writer.join()
    if said.measure:
        for name, command in [("steelyard diagnose", [said.measure, "diagnose", said.out]),
                              ("pickle.load", [sys.executable, "-c", f"import pickle; pickle.load(open({said.out!r}, 'rb'))"])]:
            seconds, gib, status = measure(command)
            print(f"{name:20} {seconds:6.2f} s   {gib:5.2f} GiB   status {status >> 8}")


if __name__ == "__main__":
    main()
