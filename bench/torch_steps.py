#!/usr/bin/python3
"""Compares training steps of an installed PyTorch 1.13 (CPU) with the simulator, byte by byte.

    TIDEMARK=build/release/cli/tidemark bench/torch_steps.py cnn,former 0 50

builds random models of the families named (all without), records the third step of each with the
profiler's memory events, exports the module to ONNX in training form, simulates it with
`framework: torch-1.13-cpu`, and prints what differs: saved bytes, the peak and the peaks of backward
and optimizer without kernel workspaces. Needs python3-torch 1.13 and python3-onnx.

A workspace is a block that one kernel allocates and frees: the outermost operator that is no
composite. A Python number that the argument parser makes a tensor of counts as one, too."""
import collections
import contextlib
import gc
import io
import json
import math
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
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(0)

BINARY = os.environ.get("TIDEMARK", "build/release/cli/tidemark")
PARTS = ["zero_grad", "forward", "loss", "backward", "optimizer", "end"]
FIRST_MARK = 1_000_003  # bytes of the allocation that marks the start of a part
SCHEMAS = [s.name + ("." + s.overload_name if s.overload_name else "") for s in torch._C._jit_get_all_schemas()]


def is_composite(name, known={}):
    if name not in known:
        forms = [s for s in SCHEMAS if s == name or s.startswith(name + ".")]
        forms = [s for s in forms if s == name] or [s for s in forms if "Dimname" not in s and "out" not in s] or forms
        found = False
        for form in forms:
            with contextlib.suppress(RuntimeError):
                found |= torch._C._dispatch_has_kernel_for_dispatch_key(form, "CompositeImplicitAutograd")
        known[name] = found
    return known[name]


def export(model, inputs, path):
    """Writes the module in training form, with the roles of its tensors and the modules in place."""
    buffer = io.BytesIO()
    torch.onnx.export(model, inputs, buffer, do_constant_folding=False, training=torch.onnx.TrainingMode.TRAINING,
                      keep_initializers_as_inputs=False, opset_version=14)
    model.train()
    proto = onnx.load_from_string(buffer.getvalue())
    present = {tensor.name for tensor in proto.graph.initializer}
    roles = {name: ("parameter" if p.requires_grad else "buffer", p) for name, p in model.named_parameters()}
    roles.update({name: ("buffer", b) for name, b in model.named_buffers()})
    metadata = {}
    for name, (role, tensor) in roles.items():
        if name in present:
            metadata[f"tidemark.role:{name}"] = role
        else:
            metadata[f"tidemark.absent:{name}"] = f"{role} {str(tensor.dtype)[6:]} [{', '.join(map(str, tensor.shape))}]"
    for name, module in model.named_modules():
        if getattr(module, "inplace", False):
            metadata[f"tidemark.inplace:{name}"] = type(module).__name__
    for key, value in metadata.items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, value
    onnx.save(proto, path)


def optimizer_of(model, spec):
    parameters = [p for p in model.parameters() if p.requires_grad]
    keys = {"weight_decay": spec["weight_decay"], "foreach": spec["implementation"] == "foreach"}
    sgd = {"momentum": {"momentum": 0.9}, "nesterov": {"momentum": 0.9, "nesterov": True}, "sgd": {}}
    if spec["name"] in sgd:
        return torch.optim.SGD(parameters, 0.01, **sgd[spec["name"]], **keys)
    classes = {"adam": "Adam", "adamw": "AdamW", "rmsprop": "RMSprop", "adagrad": "Adagrad"}
    return getattr(torch.optim, classes[spec["name"]])(parameters, 1e-3, **keys)


def bytes_of(tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


def record(model, inputs, target, training):
    """Returns saved bytes and the peaks by phase of the third step."""
    torch.autograd.profiler.record_function = lambda *a, **k: contextlib.nullcontext()  # 292 B in step()
    optimizer = optimizer_of(model, training["optimizer"])
    autocast = training["precision"] == "bf16_autocast"
    from_start = bytes_of(v for s in optimizer.state.values() for v in s.values() if torch.is_tensor(v))

    def forward():
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            return model(*inputs)

    def loss_of(out):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            return F.cross_entropy(out.flatten(0, 1) if out.dim() == 3 else out, target)

    def step(marks):
        mark = (lambda part: torch.empty(FIRST_MARK + PARTS.index(part), dtype=torch.uint8)) if marks else lambda part: None
        mark("zero_grad")
        optimizer.zero_grad(set_to_none=training["zero_grad"] == "none")
        for _ in range(training["accumulate"]):
            mark("forward")
            out = forward()
            mark("loss")
            loss = loss_of(out)
            del out
            mark("backward")
            (loss / training["accumulate"] if training["accumulate"] > 1 else loss).backward()
            if training["accumulate"] > 1:
                del loss
        mark("optimizer")
        optimizer.step()
        mark("end")

    gc.collect()
    with profile(profile_memory=True, use_kineto=True) as profiler:
        step(False)
        step(False)
        step(True)
    events, roots = [], []

    def walk(node, path, kernel, slices=None):
        if str(node.tag).endswith("Allocation"):
            events.append([node.start_time_ns, node.extra_fields.alloc_size, node.extra_fields.ptr, path, kernel or slices, ""])
            return
        name = node.name if isinstance(node.name, str) else node.name()
        if kernel is None and "::" in name and not name.startswith(("torch::autograd", "autograd::")) and not is_composite(name):
            kernel = id(node)
        if name == "torch::autograd::CopySlices":
            slices = id(node)  # what composites make and it drops lives inside it
        for child in node.children:
            walk(child, path + (name,), kernel, slices)

    for root in profiler.kineto_results.experimental_event_tree():
        roots.append(root)  # the tree must outlive the ids of its nodes
        walk(root, (), None)
    events.sort(key=lambda event: event[0])
    part, live, peaks, made, mark = "", from_start, {}, {}, None
    workspaces = set()
    for i, (_, size, address, path, kernel, _) in enumerate(events):
        if FIRST_MARK <= size < FIRST_MARK + len(PARTS):
            part, mark = PARTS[size - FIRST_MARK], address
        events[i][5] = part
        if size > 0:
            made[address] = i
        elif address in made:
            j = made.pop(address)
            number = part == "optimizer" and events[j][1] == 8 and not events[j][3]
            if mark == address or number or (kernel is not None and events[j][4] == kernel):
                workspaces |= {i, j}
        else:
            workspaces.add(i)  # made before the recording, and not counted
    live += bytes_of(model.parameters()) + bytes_of(model.buffers()) + bytes_of(inputs) + bytes_of([target])
    phases = {"zero_grad": "forward", "forward": "forward", "loss": "forward", "backward": "backward"}
    for i, (_, size, _, _, _, part) in enumerate(events):
        live += 0 if i in workspaces else size
        if part:
            phase = phases.get(part, "optimizer")
            peaks[phase] = max(peaks.get(phase, 0), live)
    own = {t.storage().data_ptr() for t in [*model.parameters(), *model.buffers(), *inputs, target]}
    saved = {}

    def pack(tensor):
        storage = tensor.storage()
        saved[storage.data_ptr()] = (storage.nbytes(), storage)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = loss_of(forward())
    peaks["saved"] = sum(size for address, (size, _) in saved.items() if address not in own)
    del loss
    return peaks


def simulate(path, training):
    document = {"version": 1, "model": {"onnx": path}, "hardware": "h100-sxm-80gb", "training": training, "allocator": "ideal"}
    scenario = path + ".yaml"
    with open(scenario, "w") as file:
        file.write("\n".join(f"{key}: {json.dumps(value)}" for key, value in document.items()) + "\n")
    result = subprocess.run([BINARY, "run", scenario, "--json"], capture_output=True, text=True)
    if result.returncode not in (0, 1):
        raise RuntimeError(result.stderr.strip()[:300])
    memory = json.loads(result.stdout)["points"][0]["memory"]
    return {**memory["phase_peaks"], "saved": memory["saved_activations"]}


def compare(name, model, inputs, target, folder, **training):
    """Prints and returns whether all figures are equal; a peak of forward hangs on Python's variables."""
    model.train()
    training = {"micro_batch": inputs[0].shape[0], "accumulate": 1, "precision": "fp32", "framework": "torch-1.13-cpu",
                "zero_grad": "none", "steps": 2, **training}
    path = os.path.join(folder, name + ".onnx")
    export(model, inputs, path)
    want, got = record(model, inputs, target, training), simulate(path, training)
    wrong = [f"{key} {got[key]} instead of {want[key]} ({got[key] - want[key]:+d})" for key in ("saved", "backward", "optimizer")
             if got[key] != want[key]]
    print(f"{name}: " + ("; ".join(wrong) or "exact"), flush=True)
    return not wrong


# --- Random models ---

ACTIVATIONS = [nn.ReLU, lambda i: nn.LeakyReLU(0.1, i), nn.SiLU, nn.Hardswish, lambda i: nn.GELU(), lambda i: nn.ELU(inplace=i),
               nn.Mish, nn.ReLU6, lambda i: nn.Tanh(), lambda i: nn.Softplus(), lambda i: nn.PReLU(), lambda i: nn.Sigmoid()]


class Residual(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        return x + self.body(x)


class Permuted(nn.Module):
    """A layer norm over the channels of an image."""

    def __init__(self, channels):
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x):
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def cnn(r):
    norm = r.choice([nn.BatchNorm2d, lambda c: nn.GroupNorm(4, c), nn.InstanceNorm2d, Permuted])
    activation, in_place, c = r.choice(ACTIVATIONS), r.random() < 0.4, r.choice([8, 16])

    def layer(i, o, kernel=3, stride=1, groups=1):
        return nn.Sequential(nn.Conv2d(i, o, kernel, stride, kernel // 2, groups=groups, bias=r.random() < 0.5), norm(o), activation(in_place))

    blocks = [layer(3, c, r.choice([3, 5]), r.choice([1, 2]))]
    for _ in range(r.randint(1, 3)):
        blocks.append(r.choice([lambda: Residual(layer(c, c)), lambda: layer(c, c, 3, 1, c), lambda: nn.MaxPool2d(2),
                                lambda: nn.Sequential(nn.ConvTranspose2d(c, c, 2, 2), layer(c, c, 3, 2))])())
    model = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(r.choice([0, 0.2])), nn.Linear(c, 10))
    return model, lambda n: ((torch.randn(n, 3, 16, 16),), torch.randint(0, 10, (n,)))


class Attention(nn.Module):
    def __init__(self, r, width, heads):
        super().__init__()
        self.heads, self.causal = heads, r.random() < 0.5
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=r.random() < 0.7), nn.Linear(width, width)
        self.register_buffer("mask", torch.tril(torch.ones(64, 64)).view(1, 1, 64, 64))

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = (part.view(n, length, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(width, 2))
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        if self.causal:
            scores = scores.masked_fill(self.mask[:, :, :length, :length] == 0, float("-inf"))
        return self.out((F.softmax(scores, -1) @ v).transpose(1, 2).reshape(n, length, width))


class Last(nn.Module):
    def forward(self, x):
        return x[:, -1]


def former(r):
    width, length, words = r.choice([16, 32]), r.choice([8, 12, 33]), r.choice([31, 97])
    blocks = [nn.Embedding(words, width)]
    for _ in range(r.randint(1, 3)):
        feed_forward = nn.Sequential(nn.Linear(width, 4 * width), r.choice(ACTIVATIONS)(r.random() < 0.5), nn.Linear(4 * width, width))
        blocks += [Residual(nn.Sequential(nn.LayerNorm(width), Attention(r, width, r.choice([2, 4])))),
                   Residual(nn.Sequential(nn.LayerNorm(width), feed_forward, nn.Dropout(r.choice([0, 0.1]))))]
    model = nn.Sequential(*blocks, nn.LayerNorm(width), Last(), nn.Linear(width, words, bias=False))
    return model, lambda n: ((torch.randint(0, words, (n, length)),), torch.randint(0, words, (n,)))


class Recurrent(nn.Module):
    def __init__(self, r):
        super().__init__()
        both = r.random() < 0.4
        self.embed = nn.Embedding(31, 8)
        self.layers = r.choice([nn.LSTM, nn.GRU, nn.RNN])(8, 12, r.choice([1, 2]), batch_first=True, bidirectional=both)
        self.out = nn.Linear(24 if both else 12, 5)

    def forward(self, x):
        return self.out(self.layers(self.embed(x))[0].mean(1))


def rnn(r):
    return Recurrent(r), lambda n: ((torch.randint(0, 31, (n, 9)),), torch.randint(0, 5, (n,)))


def mlp(r):
    width, parametrized = r.choice([16, 32]), r.choice([lambda m: m, nn.utils.weight_norm])
    layers = [nn.Linear(20, width)]
    for _ in range(r.randint(1, 3)):
        layers += [parametrized(nn.Linear(width, width)), r.choice([nn.BatchNorm1d, nn.LayerNorm])(width), r.choice(ACTIVATIONS)(r.random() < 0.5)]
    return nn.Sequential(*layers, nn.Linear(width, 5)), lambda n: ((torch.randn(n, 20),), torch.randint(0, 5, (n,)))


FAMILIES = {"cnn": cnn, "former": former, "rnn": rnn, "mlp": mlp}


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    chosen = sys.argv[1].split(",") if len(sys.argv) > 1 else list(FAMILIES)
    first, last = (int(argument) for argument in (sys.argv[2:4] if len(sys.argv) > 3 else (0, 20)))
    exact = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for family in chosen:
            for seed in range(first, last):
                r = random.Random(f"{family} {seed}")
                torch.manual_seed(seed)
                model, data = FAMILIES[family](r)
                inputs, target = data(r.choice([2, 3, 4]))
                optimizer = {"name": r.choice(["sgd", "momentum", "nesterov", "adam", "adamw", "rmsprop", "adagrad"]),
                             "implementation": r.choice(["loop", "foreach"]), "weight_decay": r.choice([0, 0.01])}
                exact[family] += compare(f"{family}_{seed}", model, inputs, target, folder, optimizer=optimizer,
                                         accumulate=r.choice([1, 1, 2]), zero_grad=r.choice(["none", "zero"]))
    for family in chosen:
        print(f"{family}: {exact[family]} of {last - first} exact")


if __name__ == "__main__":
    main()
