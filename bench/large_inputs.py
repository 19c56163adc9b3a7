#!/usr/bin/env python3
"""Writes large inputs for searches with a time limit.

  large_inputs.py nested|short|mixed BUFFERS out.csv      for tidemark pack
  large_inputs.py chain|residual|random NODES out.json    for tidemark plan

The same arguments give the same file everywhere.
"""

import json
import random
import sys

PACKING = ("nested", "short", "mixed")
GRAPHS = ("chain", "residual", "random")


def lifetime(kind, index, count, rng):
    """Returns when a buffer begins and ends: [lower, upper)."""
    if kind == "nested":  # as forward and backward
        return index, 2 * count - index
    lower = rng.randrange(2 * count)
    if kind == "short":
        return lower, lower + 1 + rng.randrange(200)
    long = rng.random() < 0.2
    return lower, lower + 1 + rng.randrange(2 * count - lower if long else 50)


def write_buffers(kind, count, rng, file):
    file.write("id,lower,upper,size\n")
    for index in range(count):
        lower, upper = lifetime(kind, index, count, rng)
        file.write(f"{index},{lower},{upper},{rng.randrange(1, 4096) * 512}\n")


def forward_inputs(kind, node, rng):
    deps = {node - 1} if node > 0 else set()
    if kind == "residual" and node >= 4 and node % 4 == 0:
        deps.add(node - 4)
    if kind == "random" and node > 1:
        deps.update(rng.randrange(max(0, node - 50), node) for _ in range(2))
    return sorted(deps)


def cost_graph(kind, count, rng):
    nodes = []
    forward = count // 2
    readers = [[] for _ in range(forward)]

    def add(phase, deps, most_cost):
        nodes.append({"id": len(nodes), "name": f"{phase[0]}{len(nodes)}", "kind": phase,
                      "cost": rng.randrange(1, most_cost), "bytes": rng.randrange(1, 500) * 100,
                      "workspace": 0, "deps": sorted(set(deps))})

    for node in range(forward):
        deps = forward_inputs(kind, node, rng)
        for dep in deps:
            readers[dep].append(node)
        add("forward", deps, 40)
    for node in reversed(range(forward)):
        deps = list(nodes[node]["deps"])
        if kind != "chain" and rng.random() < 0.5:
            deps.append(node)
        add("backward", deps + [2 * forward - 1 - reader for reader in readers[node]], 60)
    return {"name": kind, "fixed_bytes": 1000, "nodes": nodes}


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in PACKING + GRAPHS:
        sys.exit(__doc__)
    kind, count = sys.argv[1], int(sys.argv[2])
    rng = random.Random(7)
    with open(sys.argv[3], "w", encoding="utf-8") as file:
        if kind in PACKING:
            write_buffers(kind, count, rng, file)
        else:
            json.dump(cost_graph(kind, count, rng), file)


if __name__ == "__main__":
    main()
