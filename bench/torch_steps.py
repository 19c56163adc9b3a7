#!/usr/bin/python3
"""Compares training steps of an installed PyTorch 1.13 (CPU) with the simulator, byte by byte.

    TIDEMARK=build/release/cli/tidemark bench/torch_steps.py cnn,former 0 50

builds random models of the families named (all of torch_models without), records the third step of
each with the profiler's memory events, exports the module to ONNX in training form, simulates it
with `framework: torch-1.13-cpu`, and prints what differs: saved bytes and the peaks of backward and
optimizer without kernel workspaces. Needs python3-torch 1.13 and python3-onnx.

A workspace is a block that one kernel allocates and frees: the outermost operator that is no
composite. A Python number that the argument parser makes a tensor of counts as one, too."""
import collections
import contextlib
import gc
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import warnings
import weakref

try:
    import onnx
    import torch
    import torch.nn.functional as F
    from torch.autograd.profiler import profile
    from torch_models import FAMILIES
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(0)

FORWARD = "FORWARD" in os.environ  # compare peaks of forward, too, which hang on Python's variables
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
    # The exporter fails on the power iteration that spectral_norm makes in training.
    mode = torch.onnx.TrainingMode.EVAL if getattr(model, "exports_in_eval", False) else torch.onnx.TrainingMode.TRAINING
    torch.onnx.export(model, inputs, buffer, do_constant_folding=False, training=mode,
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
    own = {key: spec[key] for key in ("amsgrad", "centered", "momentum") if key in spec}
    return getattr(torch.optim, classes[spec["name"]])(parameters, 1e-3, **own, **keys)


def bytes_of(tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


def peaks_by_part(profiler, parts, live):
    """Returns the most bytes that are live in each marked part, without workspaces; `live` at first."""
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
    part, peaks, made, mark = "", {}, {}, None
    workspaces = set()
    for i, (_, size, address, path, kernel, _) in enumerate(events):
        if FIRST_MARK <= size < FIRST_MARK + len(parts):
            part, mark = parts[size - FIRST_MARK], i  # not its address, at which a tensor may follow
        events[i][5] = part
        if size > 0:
            made[address] = i
        elif address in made:
            j = made.pop(address)
            number = part.endswith("optimizer") and events[j][1] == 8 and not events[j][3]
            if mark == j or number or (kernel is not None and events[j][4] == kernel):
                workspaces |= {i, j}
        else:
            workspaces.add(i)  # made before the recording, and not counted
    for i, (_, size, _, _, _, part) in enumerate(events):
        live += 0 if i in workspaces else size
        if part:
            peaks[part] = max(peaks.get(part, 0), live)
    return peaks


class Holder:
    """A saved tensor, which goes with its node: what leads only to unread results (max(1)[1]) dies in forward."""

    def __init__(self, tensor):
        self.tensor = tensor


def record(model, inputs, target, training):
    """Returns saved bytes and the peaks by phase of the third step."""
    targets = [] if target is None else [target]
    if hasattr(model, "runs"):
        model.runs = True
    torch.autograd.profiler.record_function = lambda *a, **k: contextlib.nullcontext()  # 292 B in step()
    optimizer = optimizer_of(model, training["optimizer"])
    autocast = training["precision"] == "bf16_autocast"
    from_start = bytes_of(v for s in optimizer.state.values() for v in s.values() if torch.is_tensor(v))

    def forward():
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            return model(*inputs)

    def loss_of(out):
        if target is None:
            return out
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            if hasattr(model, "loss_name"):
                return model.loss(out, target)
            return F.cross_entropy(out.flatten(0, 1) if out.dim() == 3 else out, target)

    named = {}  # variables of the training loop
    holds, until_next = training["hold_output"], training.get("hold_output_until") == "next_output"

    def step(marks):
        mark = (lambda part: torch.empty(FIRST_MARK + PARTS.index(part), dtype=torch.uint8)) if marks else lambda part: None
        mark("zero_grad")
        optimizer.zero_grad(set_to_none=training["zero_grad"] == "none")
        for _ in range(training["accumulate"]):
            mark("forward")
            named["out"] = forward()
            mark("loss")
            named["loss"] = loss_of(named["out"])
            if not holds:
                del named["out"]
            mark("backward")
            (named["loss"] / training["accumulate"] if training["accumulate"] > 1 else named["loss"]).backward()
            if training["accumulate"] > 1 and not until_next:
                del named["loss"]
        mark("optimizer")
        optimizer.step()
        mark("end")
        if not until_next:
            named.clear()

    gc.collect()
    with profile(profile_memory=True, use_kineto=True) as profiler:
        step(False)
        step(False)
        step(True)
    named.clear()
    live = from_start + bytes_of([*model.parameters(), *model.buffers(), *inputs, *targets])
    phases = {"zero_grad": "forward", "forward": "forward", "loss": "forward", "backward": "backward"}
    peaks = {}
    for part, peak in peaks_by_part(profiler, PARTS, live).items():
        phase = phases.get(part, "optimizer")
        peaks[phase] = max(peaks.get(phase, 0), peak)
    own = {t.storage().data_ptr() for t in [*model.parameters(), *model.buffers(), *inputs, *targets]}
    kept = []

    def pack(tensor):
        holder = Holder(tensor.detach())  # a result that its own node keeps would keep the node
        kept.append(weakref.ref(holder))
        return holder

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda holder: holder.tensor):
        loss = loss_of(forward())
    storages = [holder().tensor.storage() for holder in kept if holder() is not None]
    peaks["saved"] = sum({s.data_ptr(): s.nbytes() for s in storages if s.data_ptr() not in own}.values())
    del loss
    return peaks


def simulate(path, training, policies):
    document = {"version": 1, "model": {"onnx": path}, "hardware": "h100-sxm-80gb", "training": training, "allocator": "ideal"}
    if policies:
        document["policies"] = policies
    scenario = path + ".yaml"
    with open(scenario, "w") as file:
        file.write("\n".join(f"{key}: {json.dumps(value)}" for key, value in document.items()) + "\n")
    result = subprocess.run([BINARY, "run", scenario, "--json"], capture_output=True, text=True)
    if result.returncode not in (0, 1):
        raise RuntimeError(result.stderr.strip()[:300])
    memory = json.loads(result.stdout)["points"][0]["memory"]
    return {**memory["phase_peaks"], "saved": memory["saved_activations"]}


def compare(name, model, inputs, target, folder, **training):
    """Returns what differs."""
    model.train()
    training = {"micro_batch": inputs[0].shape[0], "accumulate": 1, "precision": "fp32", "framework": "torch-1.13-cpu",
                "zero_grad": "none", "steps": 2, "hold_output": False, **training}
    path = os.path.join(folder, name + ".onnx")
    export(model, inputs, path)
    want, got = record(model, inputs, target, training), simulate(path, training, getattr(model, "policies", []))
    keys = ("saved", "forward", "backward", "optimizer") if FORWARD else ("saved", "backward", "optimizer")
    wrong = [f"{key} {got[key]} instead of {want[key]} ({got[key] - want[key]:+d})" for key in keys
             if got[key] != want[key]]
    return wrong


def training_of(family, r):
    name = r.choice(["sgd", "momentum", "nesterov", "adam", "adam", "adamw", "adamw", "rmsprop", "adagrad"])
    optimizer = {"name": name, "implementation": r.choice(["loop", "foreach"]), "weight_decay": r.choice([0, 0.01])}
    if name in ("adam", "adamw") and r.random() < 0.3:
        optimizer["amsgrad"] = True
    if name == "rmsprop":
        optimizer.update(r.choice([{}, {"centered": True}, {"momentum": 0.9}, {"centered": True, "momentum": 0.9}]))
    return {"optimizer": optimizer, "accumulate": r.choice([1, 1, 2]), "zero_grad": r.choice(["none", "zero"]),
            "precision": "bf16_autocast" if family.startswith("bf16:") else "fp32",
            **r.choice([{}, {"hold_output": True}, {"hold_output": True, "hold_output_until": "next_output"}])}


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    chosen = sys.argv[1].split(",") if len(sys.argv) > 1 else list(FAMILIES)
    first, last = (int(argument) for argument in (sys.argv[2:4] if len(sys.argv) > 3 else (0, 20)))
    keep = os.environ.get("KEEP")  # a folder for the files, to look at what is wrong
    exact, refused = collections.Counter(), collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for family in chosen:
            for seed in range(first, last):
                r = random.Random(f"{family} {seed}")
                torch.manual_seed(seed)
                model, data = FAMILIES[family.removeprefix("bf16:")](r)
                inputs, target = data(r.choice([1, 2, 3, 4]))
                training = training_of(family, r)
                if hasattr(model, "loss_name"):
                    training.update({"loss": model.loss_name, **getattr(model, "training_keys", {})})
                name = f"{family.replace(':', '_')}_{seed}"
                try:
                    wrong = compare(name, model, inputs, target, keep or folder, **training)
                except Exception as error:  # of the model, of the exporter or of the simulator
                    wrong = [f"{type(error).__name__}: {str(error).strip()[:300]}"]
                    refused[family] += 1
                exact[family] += not wrong
                what = f" ({getattr(model, 'what', '')}; {training['optimizer']['name']} {training['accumulate']}" \
                       f"{' ' + training.get('hold_output_until', 'held') if training.get('hold_output') else ''})"
                print(f"{name}: " + ("; ".join(wrong) or "exact") + what, flush=True)
    for family in chosen:
        print(f"{family}: {exact[family]} of {last - first} exact, {refused[family]} refused")


if __name__ == "__main__":
    main()
