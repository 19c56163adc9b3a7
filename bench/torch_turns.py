#!/usr/bin/python3
"""Compares the turns of GANs in an installed PyTorch 1.13 (CPU) with the simulator, byte by byte.

    TIDEMARK=build/release/cli/tidemark bench/torch_turns.py 0 50

builds random pairs of a generator and a discriminator, records the third step of a training loop
that trains both in turn, exports each turn to ONNX, simulates them as `training.turns`, and prints
what differs in the peaks of backward and optimizer without kernel workspaces. The order of the
turns, what zero_grad does, whether both turns use the same samples and whether the generator's turn
freezes the discriminator are random, too. Needs python3-torch 1.13 and python3-onnx."""
import contextlib
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import warnings

try:
    import onnx
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    from torch.autograd.profiler import profile
    import torch_steps as steps
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(0)

PARTS = [f"{who}_{part}" for who in ("disc", "gen") for part in ("forward", "backward", "optimizer")] + ["samples", "end"]


def generator(r):
    noise, width, between = r.choice([16, 24]), r.choice([8, 12]), r.choice([nn.BatchNorm2d, lambda c: nn.GroupNorm(4, c)])
    layers = [nn.ConvTranspose2d(noise, 2 * width, 4, 1, 0, bias=False), between(2 * width), r.choice([nn.ReLU, nn.SiLU])(),
              nn.ConvTranspose2d(2 * width, width, 4, 2, 1), between(width), nn.ReLU(), nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh()]
    return nn.Sequential(*layers), noise


def discriminator(r):
    width = r.choice([8, 16])
    layers = [nn.Conv2d(3, width, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(width, 2 * width, 4, 2, 1, bias=False)]
    layers += [nn.BatchNorm2d(2 * width)] if r.random() < 0.5 else []
    return nn.Sequential(*layers, nn.LeakyReLU(0.2), nn.Conv2d(2 * width, 1, 4, 1, 0))


class Turn(nn.Module):
    """The loss of one network, from noise or from samples that the loop has made."""

    def __init__(self, gen, disc):
        super().__init__()
        self.gen, self.disc = gen, disc

    def forward(self, noise, *real):
        return self.loss(self.gen(noise), *real)


class DiscriminatorTurn(Turn):
    def loss(self, fake, real):
        fake = fake.detach()
        return F.softplus(-self.disc(real)).mean() + F.softplus(self.disc(fake)).mean()


class GeneratorTurn(Turn):
    def loss(self, fake):
        return F.softplus(-self.disc(fake)).mean()


def record(gen, disc, noise, real, how):
    turns = {"disc": (DiscriminatorTurn(gen, disc), (real,), disc), "gen": (GeneratorTurn(gen, disc), (), gen)}
    torch.autograd.profiler.record_function = lambda *a, **k: contextlib.nullcontext()
    optimizers = {who: steps.optimizer_of(turns[who][2], how["optimizers"][who]) for who in turns}
    states = [v for o in optimizers.values() for s in o.state.values() for v in s.values() if torch.is_tensor(v)]
    live = steps.bytes_of([*gen.parameters(), *disc.parameters(), *gen.buffers(), *disc.buffers(), noise, real, *states])

    def take(who, fake, mark):
        module, real_samples, _ = turns[who]
        mark(f"{who}_forward")
        if how["frozen"]:
            disc.requires_grad_(who == "disc")
        optimizers[who].zero_grad(set_to_none=how["zero_grad"] == "none")
        for _ in range(how["accumulate"]):
            mark(f"{who}_forward")
            loss = module.loss(fake, *real_samples) if how["shared"] else module(noise, *real_samples)
            mark(f"{who}_backward")
            (loss / how["accumulate"] if how["accumulate"] > 1 else loss).backward()
            if how["accumulate"] > 1:
                del loss
        mark(f"{who}_optimizer")
        optimizers[who].step()

    def step(marks):
        mark = (lambda part: torch.empty(steps.FIRST_MARK + PARTS.index(part), dtype=torch.uint8)) if marks else lambda part: None
        mark("samples")
        fake = gen(noise) if how["shared"] else None
        for who in how["order"]:
            take(who, fake, mark)
        mark("end")

    gc.collect()
    with profile(profile_memory=True, use_kineto=True) as profiler:
        step(False)
        step(False)
        step(True)
    return steps.peaks_by_part(profiler, PARTS, live)


def simulate(folder, name, batch, gen, disc, noise, real, how):
    paths = {}
    for who, module, inputs in (("disc", DiscriminatorTurn(gen, disc), (noise, real)), ("gen", GeneratorTurn(gen, disc), (noise,))):
        paths[who] = os.path.join(folder, f"{name}_{who}.onnx")
        steps.export(module, inputs, paths[who])
    samples = next(o for node in onnx.load(paths["gen"]).graph.node if node.op_type == "Tanh" for o in node.output)
    turns = {"disc": {"model": {"onnx": paths["disc"], "detach": [samples]}},
             "gen": {"policies": [{"freeze": {"layers": ["disc"]}}]} if how["frozen"] else {}}
    training = {"micro_batch": batch, "accumulate": how["accumulate"], "precision": "fp32", "framework": "torch-1.13-cpu",
                "zero_grad": how["zero_grad"], "steps": 2,
                "turns": [{"train": [who], "optimizer": how["optimizers"][who], **turns[who]} for who in how["order"]]}
    document = {"version": 1, "model": {"onnx": paths["gen"], **({"shared": [samples]} if how["shared"] else {})},
                "hardware": "h100-sxm-80gb", "allocator": "ideal", "training": training}
    scenario = os.path.join(folder, name + ".yaml")
    with open(scenario, "w") as file:
        file.write("\n".join(f"{key}: {json.dumps(value)}" for key, value in document.items()) + "\n")
    result = subprocess.run([steps.BINARY, "run", scenario, "--json"], capture_output=True, text=True)
    if result.returncode not in (0, 1):
        raise RuntimeError(result.stderr.strip()[:300])
    return json.loads(result.stdout)["points"][0]["memory"]["phase_peaks"]


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    first, last = (int(argument) for argument in (sys.argv[1:3] if len(sys.argv) > 2 else (0, 20)))
    exact = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, last):
            r = random.Random(f"turns {seed}")
            torch.manual_seed(seed)
            (gen, width), disc = generator(r), discriminator(r)
            batch = r.choice([1, 2, 3, 5])
            noise, real = torch.randn(batch, width, 1, 1), torch.randn(batch, 3, 16, 16)
            how = {"optimizers": {who: steps.training_of("", r)["optimizer"] for who in ("disc", "gen")}, "frozen": r.random() < 0.5,
                   "zero_grad": r.choice(["none", "zero"]), "order": ["disc", "gen"], "accumulate": 1, "shared": r.random() < 0.5}
            how["order"] = r.choice([["disc", "gen"], ["gen", "disc"]])
            if not how["shared"]:
                how["accumulate"] = r.choice([1, 1, 2])
            got = simulate(keep_in() or folder, str(seed), batch, gen, disc, noise, real, how)
            parts = record(gen, disc, noise, real, how)
            want = {phase: max(parts[f"{who}_{phase}"] for who in ("disc", "gen")) for phase in ("backward", "optimizer")}
            wrong = [f"{phase} {got[phase]} instead of {want[phase]} ({got[phase] - want[phase]:+d})" for phase in want if got[phase] != want[phase]]
            exact += not wrong
            told = {key: value for key, value in how.items() if key != "optimizers"}
            print(f"{seed}: " + ("; ".join(wrong) or "exact") + f" ({told}; {[o['name'] for o in how['optimizers'].values()]})", flush=True)
    print(f"turns: {exact} of {last - first} exact")


def keep_in():
    return os.environ.get("KEEP")  # a folder for the files, to look at what is wrong


if __name__ == "__main__":
    main()
