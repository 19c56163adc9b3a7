"""Small models that hold a few operators each, optimizers, checkpoints and torchvision's networks.

Functions are left out that the exporter refuses (expm1, sinh) or writes like other ones: square and
x * x, x * sigmoid(x) and silu, log2 and
log(x) / log(2), products with a bool mask and with mask.float(), amax and max, x[:, index] and index_select, detach, F.elu_."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.checkpoint

from torch_models.language import Block
from torch_models.vision import ACTIVATIONS, image_layer


class Chain(nn.Module):
    """Functions between two linears; `width` is what they leave of the last axis."""

    def __init__(self, functions, what, shape=(6,), width=8):
        super().__init__()
        self.first, self.last, self.functions, self.shape, self.what = nn.Linear(5, 8), nn.Linear(width, 4), functions, shape, what
        self.scale, self.shift = nn.Parameter(torch.rand(8) + 0.5), nn.Parameter(torch.rand(8))
        self.register_buffer("mask", torch.rand(8) > 0.3)
        self.register_buffer("weights", torch.rand(8))

    def forward(self, x):
        x = self.first(x)
        for function in self.functions:
            x = function(self, x)
        x = self.last(x)
        return x.mean(1) if x.dim() == 3 else x


def chain(r, table, most, width=8):
    names = [r.choice(list(table)) for _ in range(r.randint(1, most))]
    length = r.choice([1, 6, 9])
    model = Chain([table[name] for name in names], f"{' '.join(names)} over {length}", width=width)
    return model, lambda n: ((torch.randn(n, length, 5),), torch.randint(0, 4, (n,)))


POINTWISE = {
    "exp": lambda m, x: torch.exp(x * 0.1), "log": lambda m, x: torch.log(x.abs() + 1), "log1p": lambda m, x: torch.log1p(x.abs()),
    "sqrt": lambda m, x: torch.sqrt(x ** 2 + 1), "rsqrt": lambda m, x: torch.rsqrt(x.pow(2) + 1),
    "abs": lambda m, x: x.abs(), "sin": lambda m, x: torch.sin(x), "cos": lambda m, x: torch.cos(x), "tan": lambda m, x: torch.tan(x * 0.1),
    "atan": lambda m, x: torch.atan(x), "erf": lambda m, x: torch.erf(x), "pow2": lambda m, x: x ** 2,
    "pow3": lambda m, x: x.pow(3), "pow_half": lambda m, x: (x.abs() + 1) ** 0.5, "pow1.5": lambda m, x: (x.abs() + 1) ** 1.5,
    "pow_minus": lambda m, x: (x.abs() + 1) ** -1.0, "pow_tensor": lambda m, x: (x.abs() + 1) ** m.scale, "two_to": lambda m, x: 2 ** x,
    "reciprocal": lambda m, x: 1 / (x.abs() + 1), "reciprocal_n": lambda m, x: 2.0 / (x.abs() + 1),
    "neg": lambda m, x: -x, "rsub": lambda m, x: 1 - x, "scale": lambda m, x: x * 0.5, "div": lambda m, x: x / 3.0, "shift": lambda m, x: x + 1.5,
    "sub": lambda m, x: x - 0.5, "mul_p": lambda m, x: x * m.scale, "add_p": lambda m, x: x + m.shift, "div_p": lambda m, x: x / m.scale,
    "sub_p": lambda m, x: x - m.shift, "rsub_p": lambda m, x: m.shift - x, "rdiv_p": lambda m, x: m.scale / (x.abs() + 1), "affine": lambda m, x: x * m.scale + m.shift,
    "mul_b": lambda m, x: x * m.weights, "add_b": lambda m, x: x + m.weights, "mul_self": lambda m, x: x * x, "mul_mask": lambda m, x: x * m.mask,
    "clamp": lambda m, x: x.clamp(-0.5, 0.5), "clamp_min": lambda m, x: x.clamp(min=0), "relu6": lambda m, x: F.relu6(x),
    "hardtanh": lambda m, x: F.hardtanh(x), "softplus": lambda m, x: F.softplus(x), "mish": lambda m, x: F.mish(x), 
    "gelu_tanh": lambda m, x: F.gelu(x, approximate="tanh"), "gelu": lambda m, x: F.gelu(x),
    "gelu_new": lambda m, x: 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0)))),
    "gelu_erf": lambda m, x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0))), "selu": lambda m, x: F.selu(x), "celu": lambda m, x: F.celu(x),
    "logsigmoid": lambda m, x: F.logsigmoid(x), "softsign": lambda m, x: F.softsign(x), "tanhshrink": lambda m, x: F.tanhshrink(x),
    "hardshrink": lambda m, x: F.hardshrink(x), "softshrink": lambda m, x: F.softshrink(x), 
    "hardsigmoid": lambda m, x: F.hardsigmoid(x), "hardswish": lambda m, x: F.hardswish(x), "lerp": lambda m, x: torch.lerp(x, m.shift, 0.3),
    "lerp_t": lambda m, x: torch.lerp(x, m.shift.expand_as(x), m.weights), "where": lambda m, x: torch.where(m.mask, x, m.shift),
    "where_n": lambda m, x: torch.where(x > 0, x, x * 0.1), "where_zero": lambda m, x: torch.where(m.mask, x, torch.zeros_like(x)),
    "maximum": lambda m, x: torch.maximum(x, m.shift), "minimum": lambda m, x: torch.minimum(x, m.shift), "masked": lambda m, x: x.masked_fill(m.mask, 0.0),
    "masked_not": lambda m, x: x.masked_fill(~m.mask, -1.0), 
    "add_": lambda m, x: (x * 2).add_(1), "mul_": lambda m, x: (x + 1).mul_(0.5), "iadd": lambda m, x: (x * 2).add_(m.shift), "relu_": lambda m, x: (x + 0.1).relu_(),
    
    
    "dropout": lambda m, x: F.dropout(x, 0.1, True), "noise": lambda m, x: x + torch.randn_like(x) * 0.1, "uniform": lambda m, x: x * torch.rand_like(x),
    "sigmoid": lambda m, x: torch.sigmoid(x), "tanh": lambda m, x: torch.tanh(x), "prelu": lambda m, x: F.prelu(x, m.shift[:1]), 
    "sign": lambda m, x: x * torch.sign(x), "floor": lambda m, x: x - torch.floor(x), "nan_to_num": lambda m, x: torch.nan_to_num(x),
    "double": lambda m, x: x.double().mul(2).float(),
    "half": lambda m, x: x.bfloat16().float(),
}

REDUCED = {
    "mean": lambda m, x: x - x.mean(-1, keepdim=True), "mean_row": lambda m, x: x - x.mean(1, keepdim=True), "sum": lambda m, x: x / x.sum(-1, keepdim=True),
    "max": lambda m, x: x - x.max(-1, keepdim=True)[0], "min": lambda m, x: x - x.min(-1, keepdim=True).values,
    "var": lambda m, x: x * x.var(-1, keepdim=True), "var_biased": lambda m, x: x / (x.var(-1, unbiased=False, keepdim=True) + 1), "std": lambda m, x: x / (x.std(-1, keepdim=True) + 1),
    "norm": lambda m, x: x / (x.norm(dim=-1, keepdim=True) + 1), "normalize": lambda m, x: F.normalize(x, dim=-1), "linalg": lambda m, x: x / (torch.linalg.norm(x, dim=-1, keepdim=True) + 1),
    "norm1": lambda m, x: x / (x.norm(1, -1, True) + 1), "softmax": lambda m, x: x.softmax(-1), "log_softmax": lambda m, x: F.log_softmax(x, -1), "softmax_row": lambda m, x: x * x.softmax(1),
    "softmax_float": lambda m, x: F.softmax(x, -1, dtype=torch.float32), "logsumexp": lambda m, x: x - torch.logsumexp(x, -1, keepdim=True), "prod": lambda m, x: x * x.prod(-1, keepdim=True),
    "cumsum": lambda m, x: x.cumsum(1), "standard": lambda m, x: (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, unbiased=False, keepdim=True) + 1e-5),
    "standard_affine": lambda m, x: m.scale * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6) + m.shift, "layer_norm": lambda m, x: F.layer_norm(x, (8,), m.scale, m.shift),
    "layer_norm_plain": lambda m, x: F.layer_norm(x, (8,)), "permuted_norm": lambda m, x: F.layer_norm(x.transpose(1, 2), (x.shape[1],)).transpose(1, 2),
    "instance": lambda m, x: F.instance_norm(x.repeat(1, 2, 1)), "group": lambda m, x: F.group_norm(x.transpose(1, 2), 2, m.scale, m.shift).transpose(1, 2),
    "rms": lambda m, x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * m.scale, "glu": lambda m, x: F.glu(torch.cat([x, x], -1)), "softmin": lambda m, x: F.softmin(x, -1),
    "gumbel": lambda m, x: F.softmax((x - torch.log(-torch.log(torch.rand_like(x) + 1e-9) + 1e-9)) / 0.5, -1), "mean_all": lambda m, x: x - x.mean(), "sum_all": lambda m, x: x * x.sum() * 0.01,
    "abs_mean": lambda m, x: x / (x.abs().mean(-1, keepdim=True) + 1), "topk": lambda m, x: x * torch.topk(x, 2, -1)[0].sum(-1, keepdim=True), "sorted": lambda m, x: torch.topk(x, 8, -1)[0],
    "cosine": lambda m, x: x * F.cosine_similarity(x, m.shift.expand_as(x), dim=-1).unsqueeze(-1), "cdist": lambda m, x: torch.cdist(x, x).mean(-1, keepdim=True) * x,
    "pairs": lambda m, x: x * ((x[:, :, None] - x[:, None]) ** 2).sum(-1).mean(-1, keepdim=True), "argmax": lambda m, x: x * F.one_hot(x.argmax(-1), 8).float(),
    
}

MOVED = {
    "column": lambda m, x: x[:, 0], "last": lambda m, x: x[:, -1], "column3": lambda m, x: x * x[:, :, 0:1], "one": lambda m, x: x * x[:, :, 0].unsqueeze(-1), "ellipsis": lambda m, x: x * x[..., 1:2],
    "ellipsis1": lambda m, x: x + x[..., 1][..., None], "halves": lambda m, x: torch.cat([x[..., :4], x[..., 4:]], -1), "from1": lambda m, x: torch.cat([x[:, :1], x], 1), "strided": lambda m, x: x[:, ::2],
    "both": lambda m, x: torch.stack([x[..., ::2], x[..., 1::2]], -1).flatten(-2), "none": lambda m, x: (x[:, None] + x[:, :, None]).mean(1), "chunk": lambda m, x: torch.cat(x.chunk(2, -1)[::-1], -1),
    "chunk_mul": lambda m, x: torch.cat([x.chunk(2, -1)[0] * x.chunk(2, -1)[1]] * 2, -1), "split": lambda m, x: torch.cat([p.tanh() for p in x.split([3, 5], -1)], -1), "stack": lambda m, x: torch.stack([x, x * 2]).sum(0),
    "stack1": lambda m, x: torch.stack([x, x + 1], 1).mean(1), "unbind": lambda m, x: torch.stack([p.relu() for p in x.unbind(-1)], -1), "flip": lambda m, x: x + x.flip(1), "roll": lambda m, x: x.roll(1, 1),
    "roll2": lambda m, x: torch.roll(x, (1, 2), (1, 2)), "repeat": lambda m, x: x.repeat(1, 2, 1), "interleave": lambda m, x: x.repeat_interleave(2, 1), "expand": lambda m, x: x + x[:, :1].expand(-1, x.shape[1], -1),
    "pad": lambda m, x: F.pad(x, (0, 0, 1, 0)), "pad_cut": lambda m, x: F.pad(x, (0, 0, 1, 0))[:, :-1], "tril": lambda m, x: x.tril(), "gather": lambda m, x: x.gather(2, torch.zeros_like(x, dtype=torch.long)),
    "index_select": lambda m, x: x.index_select(2, torch.arange(7, -1, -1)), "permute": lambda m, x: x.permute(1, 0, 2).contiguous().permute(1, 0, 2),
    "transpose": lambda m, x: x.transpose(0, 1).reshape(-1, 8).view(x.shape[1], x.shape[0], 8).transpose(0, 1), "heads": lambda m, x: x.view(*x.shape[:2], 2, 4).transpose(1, 2).reshape(x.shape[0], -1, 8),
    "scatter_add": lambda m, x: torch.zeros_like(x).scatter_add(1, torch.zeros(x.shape, dtype=torch.long), x), "meshgrid":
    lambda m, x: x + torch.stack(torch.meshgrid(torch.arange(2.0), torch.arange(4.0), indexing="ij"), -1).sum(-1).flatten(), "eye": lambda m, x: x @ torch.eye(8) + x, "outer": lambda m, x: x + (m.scale[:, None] * m.shift[None]).sum(0),
    "assign": lambda m, x: assigned(x), "squeeze": lambda m, x: x.unsqueeze(1).squeeze(1).view(x.shape[0], 1, -1).reshape(x.shape), "narrow": lambda m, x: x.narrow(2, 0, 4).repeat(1, 1, 2), "again": lambda m, x: x[:, :, :6][:, :, 2:].repeat(1, 1, 2),
    "movedim": lambda m, x: x.movedim(1, 0).contiguous().movedim(0, 1), "rows": lambda m, x: torch.stack([x[:, i].sigmoid() for i in range(x.shape[1])], 1),
}


def assigned(x):
    y = torch.zeros_like(x)
    y[:, :, :4] = x[:, :, :4]
    return y


MULTIPLIED = {
    "mm": lambda m, x: x @ (m.scale[:, None] * m.shift[None]), "xxT": lambda m, x: (x @ x.transpose(1, 2)).softmax(-1) @ x, "einsum_xxT": lambda m, x: torch.einsum("bij,bjd->bid", torch.einsum("bid,bjd->bij", x, x), x) * 0.1,
    "einsum_w": lambda m, x: torch.einsum("bid,de->bie", x, m.scale[:, None] * m.shift[None]), "einsum_v": lambda m, x: x * torch.einsum("bid,d->bi", x, m.scale)[..., None], "matvec": lambda m, x: x * (x @ m.scale)[..., None],
    "bmm": lambda m, x: torch.bmm(x, torch.bmm(x.transpose(1, 2), x)) * 0.1, "bmm_expand": lambda m, x: torch.bmm(x, (m.scale[:, None] * m.shift[None]).expand(x.shape[0], 8, 8)), "transposed": lambda m, x: F.linear(x.transpose(1, 2).contiguous().transpose(1, 2), m.last.weight[:1].repeat(8, 1)),
    "linear_t": lambda m, x: m.last(x.transpose(0, 1)).transpose(0, 1).repeat(1, 1, 2), "linear4": lambda m, x: m.last(x.view(x.shape[0], -1, 1, 8)).flatten(2).repeat(1, 1, 2), "linear4_nb": lambda m, x: F.linear(x[:, None], m.last.weight).repeat(1, 1, 1, 2)[:, 0],
    "linear2": lambda m, x: m.last(x.reshape(-1, 8)).view(x.shape[0], -1, 4).repeat(1, 1, 2), "twice": lambda m, x: torch.cat([m.last(m.last(x).repeat(1, 1, 2)), m.last(x)], -1), "baddbmm": lambda m, x: torch.baddbmm(x, x, torch.bmm(x.transpose(1, 2), x), alpha=0.1),
    "addmm": lambda m, x: torch.addmm(m.shift, x.reshape(-1, 8), m.scale[:, None] * m.shift[None]).view_as(x), "four": lambda m, x: (x[:, None] @ x[:, None].transpose(2, 3)).matmul(x[:, None])[:, 0] * 0.1, "conv": lambda m, x: F.conv1d(x.transpose(1, 2), m.last.weight[:, :, None]).transpose(1, 2).repeat(1, 1, 2),
    "mixer": lambda m, x: x + F.linear(x.transpose(1, 2), torch.eye(x.shape[1]) * m.scale[0]).transpose(1, 2), "outer": lambda m, x: (x.unsqueeze(-1) * x.unsqueeze(-2)).mean(-1), 
    "heads": lambda m, x: heads(x), "addbmm": lambda m, x: x + (x.transpose(1, 2) @ x).sum(0).mean(0), "tied": lambda m, x: F.linear(F.linear(x, m.last.weight), m.last.weight.t()),
}


def heads(x):
    q = x.view(*x.shape[:2], 2, 4).transpose(1, 2)
    return ((q @ q.transpose(-1, -2)).softmax(-1) @ q).transpose(1, 2).reshape(x.shape)


class Bagged(nn.Module):
    """Recommenders: tables, bags, products of features, a few dense columns beside them."""

    def __init__(self, r):
        super().__init__()
        self.form, self.mode = r.choice(["bag", "factors", "wide", "cross", "sum"]), r.choice(["mean", "sum", "max"])
        self.words, self.linear = nn.Embedding(50, 8, padding_idx=r.choice([None, 0])), nn.Embedding(50, 1)
        self.bag, self.bias = nn.EmbeddingBag(50, 8, mode=self.mode), nn.Parameter(torch.zeros(1))
        self.deep = nn.Sequential(nn.Linear(8 * 4 if self.form in ("wide", "cross") else 8, 16), r.choice(ACTIVATIONS)(False), nn.Dropout(0.1), nn.Linear(16, 3))
        self.cross, self.what = nn.Linear(32, 32), f"{self.form} {self.mode if self.form == 'bag' else ''}"

    def forward(self, ids):
        if self.form == "bag":
            return self.deep(self.bag(ids))
        x = self.words(ids)
        if self.form == "factors":
            return self.deep(0.5 * (x.sum(1) ** 2 - (x ** 2).sum(1))) + self.linear(ids).sum(1) + self.bias
        if self.form == "sum":
            return self.deep(x.sum(1))
        flat = x.flatten(1)
        if self.form == "cross":
            flat = flat * self.cross(flat) + flat
        return self.deep(flat) + self.linear(ids).sum(dim=1)


def bagged(r):
    rows = r.choice([1, 30])
    return Bagged(r), lambda n: ((torch.randint(0, 50, (n * rows, 4)),), torch.randint(0, 3, (n * rows,)))


class Checkpointed(nn.Module):
    """Blocks of which some are checkpointed while `runs` is set, which the export is not."""

    def __init__(self, stem, blocks, head, chosen, reentrant):
        super().__init__()
        self.stem, self.blocks, self.head, self.chosen, self.reentrant, self.runs = stem, nn.ModuleList(blocks), head, chosen, reentrant, False
        self.policies = [{"checkpoint": {"layers": chosen, "reentrant": reentrant}}] if chosen else []

    def forward(self, x):
        x = self.stem(x)
        for i, block in enumerate(self.blocks):
            if self.runs and i in self.chosen:
                x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=self.reentrant)
            else:
                x = block(x)
        return self.head(x)


class Pooled(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.out = nn.Linear(width, 5)

    def forward(self, x):
        return self.out(x.mean(1) if x.dim() == 3 else x.mean((2, 3)))


def checkpointed(r):
    count = r.randint(2, 4)
    chosen, reentrant = sorted(r.sample(range(count), r.randint(1, count))), r.random() < 0.5
    if r.random() < 0.5:
        blocks = [Block(r, 16, 6) for _ in range(count)]
        model = Checkpointed(nn.Embedding(31, 16), blocks, Pooled(16), chosen, reentrant)
        model.what = f"{chosen} {reentrant} {' '.join(b.what for b in blocks)}"
        return model, lambda n: ((torch.randint(0, 31, (n, 6)),), torch.randint(0, 5, (n,)))
    blocks = [image_layer(r, 8, 8) for _ in range(count)]
    model = Checkpointed(nn.Conv2d(3, 8, 3, padding=1), blocks, Pooled(8), chosen, reentrant)
    model.what = f"{chosen} {reentrant} {' '.join(type(m).__name__ for b in blocks for m in b)}"
    return model, lambda n: ((torch.randn(n, 3, 16, 16),), torch.randint(0, 5, (n,)))


def optimizers(r):
    widths = [6, r.choice([1, 9, 30]), r.choice([4, 40]), 5]
    layers = []
    for i, o in zip(widths, widths[1:]):
        layers += [nn.Linear(i, o, bias=r.random() < 0.7), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    return model, lambda n: ((torch.randn(n, 6),), torch.randint(0, 5, (n,)))


def library(r):
    import torchvision.models as models
    name = r.choice(["resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large", "efficientnet_b0", "densenet121", "squeezenet1_1",
                     "shufflenet_v2_x0_5", "mnasnet0_5", "regnet_y_400mf", "convnext_tiny", "vgg11", "vgg11_bn", "googlenet", "vit_b_32", "swin_t", "alexnet",
                     "resnext50_32x4d", "regnet_x_400mf", "efficientnet_v2_s", "inception_v3", "maxvit_t", "swin_v2_t"])
    keys = {"image_size": 64} if name == "vit_b_32" else {"aux_logits": False, "init_weights": False} if name in ("googlenet", "inception_v3") else {}
    model, size = getattr(models, name)(weights=None, num_classes=7, **keys), 96 if name == "inception_v3" else 224 if name == "maxvit_t" else 64
    model.what = name
    return model, lambda n: ((torch.randn(n, 3, size, size),), torch.randint(0, 7, (n,)))


FAMILIES = {"pointwise": lambda r: chain(r, POINTWISE, 4), "reduced": lambda r: chain(r, REDUCED, 3), "moved": lambda r: chain(r, MOVED, 3),
            "multiplied": lambda r: chain(r, MULTIPLIED, 2), "mixed": lambda r: chain(r, {**POINTWISE, **REDUCED, **MOVED, **MULTIPLIED}, 4),
            "bagged": bagged, "checkpointed": checkpointed, "optimizers": optimizers, "library": library}
