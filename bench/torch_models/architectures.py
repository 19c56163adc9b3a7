"""Networks in the form in which people publish them: diffusion, mixers, recommenders, detectors, scans.

Forms are left out that no ONNX file tells from other ones: x * sigmoid(x) and silu, square and x * x,
detach (SimSiam; BYOL's teacher of frozen parameters needs none), contiguous(), results that nothing
reads, one function computed twice of equal inputs, which the exporter writes once, buffers that are
not persistent, which it writes as constants, and repeat_interleave over axis -1, which it writes wrongly."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_models.language import Gated, rotated, rotated_by_slices
from torch_models.vision import ACTIVATIONS


class Described(nn.Module):
    """Draws its parts by name: `pick` notes what was drawn in `what`."""

    def __init__(self, r):
        super().__init__()
        self.r, self.what = r, ""

    def pick(self, *choices):
        choice = self.r.choice(choices)
        self.what += f" {choice}"
        return choice

    def maybe(self, name, share=0.5):
        chosen = self.r.random() < share
        self.what += f" {name}" if chosen else ""
        return chosen


def images(n, classes=5, size=16):
    return (torch.randn(n, 3, size, size),), torch.randint(0, classes, (n,))


def waves_of(t, width, where):
    """Sinusoidal embedding of times."""
    half = width // 2
    if where == "exp":
        angles = t[:, None].float() * torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))[None]
    else:
        angles = t[:, None].float() * torch.exp(-math.log(10000) * torch.arange(0, half, dtype=torch.float32) / half)[None]
    return torch.cat([angles.sin(), angles.cos()] if where == "exp" else [torch.cos(angles), torch.sin(angles)], dim=-1)


class TimedBlock(Described):
    """ResBlock of DDPM: group norm, SiLU, convolution; time by a sum or by scale and shift."""

    def __init__(self, r, i, o, wide):
        super().__init__(r)
        self.form = self.pick("add", "scale_shift")
        self.first = nn.Sequential(nn.GroupNorm(2, i), nn.SiLU(), nn.Conv2d(i, o, 3, padding=1))
        self.time = nn.Sequential(nn.SiLU(), nn.Linear(wide, o if self.form == "add" else 2 * o))
        self.norm, self.last = nn.GroupNorm(2, o), nn.Sequential(nn.SiLU(), nn.Dropout(self.pick(0, 0.1)), nn.Conv2d(o, o, 3, padding=1))
        self.skip = nn.Identity() if i == o else nn.Conv2d(i, o, 1)

    def forward(self, x, t):
        y, t = self.first(x), self.time(t)[:, :, None, None]
        if self.form == "add":
            y = self.norm(y + t)
        else:
            scale, shift = t.chunk(2, dim=1)
            y = self.norm(y) * (1 + scale) + shift
        return self.skip(x) + self.last(y)


class Diffusion(Described):
    def __init__(self, r):
        super().__init__(r)
        c = self.c = self.pick(4, 8)
        self.form, self.predicts = self.pick("exp", "arange"), self.maybe("mse")
        self.time = nn.Sequential(nn.Linear(c, 4 * c), nn.SiLU(), nn.Linear(4 * c, 4 * c))
        self.stem, self.down = nn.Conv2d(3, c, 3, padding=1), self.pick("conv", "pool")
        self.smaller = nn.Conv2d(c, c, 3, 2, 1) if self.down == "conv" else nn.AvgPool2d(2)
        self.blocks = nn.ModuleList(TimedBlock(r, i, o, 4 * c) for i, o in [(c, c), (c, 2 * c), (2 * c + c, c)])
        self.larger = nn.Conv2d(2 * c, 2 * c, 3, padding=1) if self.maybe("up conv") else nn.Identity()
        self.out = nn.Sequential(nn.GroupNorm(2, c), nn.SiLU(), nn.Conv2d(c, 3, 3, padding=1))
        self.what += "".join(b.what for b in self.blocks)

    def forward(self, x, t, noise):
        e = self.time(waves_of(t, self.c, self.form))
        x = self.stem(x)
        skip = x = self.blocks[0](x, e)
        x = self.blocks[1](self.smaller(x), e)
        x = self.larger(F.interpolate(x, scale_factor=2, mode="nearest"))
        y = self.out(self.blocks[2](torch.cat([x, skip], dim=1), e))
        return ((y - noise) ** 2).mean() if self.predicts else (y - noise).abs().mean()


def diffusion(r):
    return Diffusion(r), lambda n: ((torch.randn(n, 3, 8, 8), torch.randint(0, 1000, (n,)), torch.randn(n, 3, 8, 8)), None)


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class Zeroed(Described):
    """DiT's block: adaLN-zero."""

    def __init__(self, r, width):
        super().__init__(r)
        self.heads = 2
        self.norms = nn.ModuleList(nn.LayerNorm(width, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.body = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(approximate=self.pick("tanh", "none")), nn.Linear(2 * width, width))
        self.makes = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def attend(self, x):
        n, t, width = x.shape
        q, k, v = self.qkv(x).reshape(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        a = (q * (width // self.heads) ** -0.5 @ k.transpose(-2, -1)).softmax(dim=-1)
        return self.out((a @ v).transpose(1, 2).reshape(n, t, width))

    def forward(self, x, c):
        a, b, g, d, e, h = self.makes(c).chunk(6, dim=1)
        x = x + g.unsqueeze(1) * self.attend(modulate(self.norms[0](x), a, b))
        return x + h.unsqueeze(1) * self.body(modulate(self.norms[1](x), d, e))


class Dit(Described):
    def __init__(self, r):
        super().__init__(r)
        width = self.pick(8, 16)
        self.patch, self.size = nn.Conv2d(3, width, 2, 2), width
        self.time, self.label = nn.Sequential(nn.Linear(16, width), nn.SiLU(), nn.Linear(width, width)), nn.Embedding(7, width)
        self.position = nn.Parameter(torch.zeros(1, 16, width), requires_grad=self.maybe("learned"))
        self.blocks = nn.ModuleList(Zeroed(r, width) for _ in range(self.pick(1, 2)))
        self.norm, self.makes = nn.LayerNorm(width, elementwise_affine=False), nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))
        self.out, self.einsum = nn.Linear(width, 12), self.maybe("einsum")

    def forward(self, x, t, y):
        x = self.patch(x).flatten(2).transpose(1, 2) + self.position
        c = self.time(waves_of(t, 16, "arange")) + self.label(y)
        for block in self.blocks:
            x = block(x, c)
        shift, scale = self.makes(c).chunk(2, dim=1)
        x = self.out(modulate(self.norm(x), shift, scale)).reshape(x.shape[0], 4, 4, 2, 2, 3)
        x = torch.einsum("nhwpqc->nchpwq", x) if self.einsum else x.permute(0, 5, 1, 3, 2, 4)
        return x.reshape(x.shape[0], 3, 8, 8).mean((2, 3))


def dit(r):
    return Dit(r), lambda n: ((torch.randn(n, 3, 8, 8), torch.randint(0, 1000, (n,)), torch.randint(0, 7, (n,))), torch.randint(0, 3, (n,)))


class Mixer(Described):
    """MLP-Mixer, gMLP, ResMLP, ConvMixer, FNet-like pooling (PoolFormer)."""

    def __init__(self, r):
        super().__init__(r)
        width, places = self.pick(8, 12), 16
        self.form = self.pick("mixer", "mixer", "gmlp", "resmlp", "convmixer", "pool")
        self.patch = nn.Conv2d(3, width, 4, 4, bias=self.maybe("bias"))
        act, drop = lambda: r.choice([nn.GELU, nn.ReLU, nn.SiLU])(), self.pick(0, 0, 0.1)
        mlp = lambda i, o: nn.Sequential(nn.Linear(i, o), act(), nn.Dropout(drop), nn.Linear(o, i), nn.Dropout(drop))
        count = self.pick(1, 2)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * count))
        if self.form == "mixer":
            self.rows, self.columns = nn.ModuleList(mlp(places, 24) for _ in range(count)), nn.ModuleList(mlp(width, 24) for _ in range(count))
        elif self.form == "gmlp":
            self.rows = nn.ModuleList(nn.Linear(width, 24) for _ in range(count))
            self.gates = nn.ModuleList(nn.LayerNorm(12) for _ in range(count))
            self.spatial = nn.ModuleList(nn.Conv1d(places, places, 1) for _ in range(count))
            self.columns = nn.ModuleList(nn.Linear(12, width) for _ in range(count))
        elif self.form == "resmlp":
            self.scales = nn.ParameterList(nn.Parameter(torch.ones(1, 1, width)) for _ in range(4 * count))
            self.rows, self.columns = nn.ModuleList(nn.Conv1d(places, places, 1) for _ in range(count)), nn.ModuleList(mlp(width, 24) for _ in range(count))
        elif self.form == "convmixer":
            self.rows = nn.ModuleList(nn.Sequential(nn.Conv2d(width, width, 3, groups=width, padding=1), nn.GELU(), nn.BatchNorm2d(width)) for _ in range(count))
            self.columns = nn.ModuleList(nn.Sequential(nn.Conv2d(width, width, 1), nn.GELU(), nn.BatchNorm2d(width)) for _ in range(count))
        else:
            self.norms = nn.ModuleList(nn.GroupNorm(1, width) for _ in range(2 * count))
            self.rows = nn.ModuleList(nn.AvgPool2d(3, 1, 1, count_include_pad=False) for _ in range(count))
            self.columns = nn.ModuleList(nn.Sequential(nn.Conv2d(width, 24, 1), nn.GELU(), nn.Conv2d(24, width, 1)) for _ in range(count))
            self.scales = nn.ParameterList(nn.Parameter(torch.ones(width)) for _ in range(2 * count))
        self.norm, self.out, self.count = nn.LayerNorm(width), nn.Linear(width, 5), count

    def forward(self, x):
        x = self.patch(x)
        if self.form in ("convmixer", "pool"):
            for i in range(self.count):
                if self.form == "convmixer":
                    x = self.columns[i](self.rows[i](x) + x)
                else:
                    y = self.norms[2 * i](x)
                    x = x + self.scales[2 * i].unsqueeze(-1).unsqueeze(-1) * (self.rows[i](y) - y)
                    x = x + self.scales[2 * i + 1][:, None, None] * self.columns[i](self.norms[2 * i + 1](x))
            return self.out(self.norm(x.mean([-2, -1])))
        x = x.flatten(2).transpose(1, 2)
        for i in range(self.count):
            if self.form == "mixer":
                x = x + self.rows[i](self.norms[2 * i](x).transpose(1, 2)).transpose(1, 2)
                x = x + self.columns[i](self.norms[2 * i + 1](x))
            elif self.form == "gmlp":
                u, v = F.gelu(self.rows[i](self.norms[2 * i](x))).chunk(2, dim=-1)
                x = x + self.columns[i](u * self.spatial[i](self.gates[i](v)))
            else:
                s = self.scales[4 * i:4 * i + 4]
                x = x + s[1] * self.rows[i](x * s[0] + s[2])
                x = x + self.columns[i](x) * s[3]
        return self.out(self.norm(x).mean(dim=1))


def mixer(r):
    return Mixer(r), images


class Perceiver(Described):
    """Latents that attend to the input, then to themselves."""

    def __init__(self, r):
        super().__init__(r)
        width, self.heads = self.pick(8, 16), self.pick(1, 2)
        self.latents, self.repeats = nn.Parameter(torch.randn(4, width)), self.pick("repeat", "expand", "einops")
        self.stem, self.norms = nn.Linear(6, width), nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
        self.q, self.kv, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, 2 * width, bias=False), nn.Linear(width, width)
        self.library = self.maybe("library")
        self.self_attention = nn.MultiheadAttention(width, self.heads, batch_first=True) if self.library else None
        self.feed_forward, self.head, self.masked = Gated(r, width), nn.Linear(width, 5), self.maybe("mask")
        self.what += " " + self.feed_forward.what

    def cross(self, x, context):
        (n, i, width), j = x.shape, context.shape[1]
        k, v = self.kv(context).chunk(2, dim=-1)
        q, k, v = (y.reshape(n, -1, self.heads, width // self.heads).permute(0, 2, 1, 3) for y in (self.q(x), k, v))
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * (width // self.heads) ** -0.5
        if self.masked:
            mask = torch.arange(j)[None, None, None, :] < j - 1
            scores = scores.masked_fill(~mask, -torch.finfo(scores.dtype).max)
        y = torch.einsum("bhij,bhjd->bhid", scores.softmax(dim=-1), v)
        return self.out(y.permute(0, 2, 1, 3).reshape(n, i, width))

    def forward(self, x):
        n, context = x.shape[0], self.norms[0](self.stem(x))
        x = self.latents.unsqueeze(0).repeat(n, 1, 1) if self.repeats == "repeat" else self.latents.expand(n, -1, -1)
        x = x + self.cross(self.norms[1](x), context)
        y = self.norms[2](x)
        x = x + (self.self_attention(y, y, y, need_weights=False)[0] if self.library else self.cross(y, y))
        x = x + self.feed_forward(self.norms[3](x))
        return self.head(x.mean(dim=1))


def perceiver(r):
    return Perceiver(r), lambda n: ((torch.randn(n, 9, 6),), torch.randint(0, 5, (n,)))


class Linearised(Described):
    """Attention without a square: elu + 1, Performer's features, softmaxes apart, Linformer, Nystrom-like."""

    def __init__(self, r):
        super().__init__(r)
        width, self.form = self.pick(8, 16), self.pick("elu", "elu", "performer", "efficient", "linformer", "relu2", "causal")
        self.embed, self.heads = nn.Embedding(31, width), 2
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=r.random() < 0.5) for _ in range(4))
        self.register_buffer("random", torch.randn(6, width // 2))
        self.shrink, self.norm, self.head = nn.Parameter(torch.randn(9, 3)), nn.LayerNorm(width), nn.Linear(width, 5)
        self.eps, self.pre = 1e-6, self.maybe("pre")

    def features(self, x, query):
        x = x * x.shape[-1] ** -0.25
        projected = torch.einsum("bhnd,md->bhnm", x, self.random)
        half = (x ** 2).sum(dim=-1, keepdim=True) / 2
        top = projected.max(dim=-1, keepdim=True)[0] if query else projected.amax(dim=(-1, -2), keepdim=True)
        return 6 ** -0.5 * (torch.exp(projected - half - top) + 1e-4)

    def attend(self, x):
        n, t, width = x.shape
        q, k, v = (p(x).view(n, t, self.heads, -1).transpose(1, 2) for p in (self.q, self.k, self.v))
        if self.form in ("elu", "relu2", "causal"):
            q, k = (F.elu(q) + 1, F.elu(k) + 1) if self.form != "relu2" else (F.relu(q) + self.eps, F.relu(k) + self.eps)
            if self.form == "causal":
                kv = torch.einsum("bhnd,bhne->bhnde", k, v).cumsum(dim=2)
                z = 1 / (torch.einsum("bhnd,bhnd->bhn", q, k.cumsum(dim=2)) + self.eps)
                y = torch.einsum("bhnd,bhnde,bhn->bhne", q, kv, z)
            elif self.form == "elu":
                kv = torch.einsum("bhnd,bhne->bhde", k, v)
                z = 1 / (torch.einsum("bhnd,bhd->bhn", q, k.sum(dim=2)) + self.eps)
                y = torch.einsum("bhnd,bhde,bhn->bhne", q, kv, z)
            else:
                y = (q @ (k.transpose(-2, -1) @ v)) / (q @ k.sum(dim=2).unsqueeze(-1) + self.eps)
        elif self.form == "performer":
            q, k = self.features(q, True), self.features(k, False)
            inverse = 1.0 / torch.einsum("...nd,...d->...n", q, k.sum(dim=-2))
            y = torch.einsum("...de,...nd,...n->...ne", torch.einsum("...nd,...ne->...de", k, v), q, inverse)
        elif self.form == "efficient":
            y = q.softmax(dim=-1) @ (k.softmax(dim=-2).transpose(-2, -1) @ v)
        else:
            k, v = (torch.einsum("bhnd,nk->bhkd", y, self.shrink) for y in (k, v))
            y = (torch.einsum("bhnd,bhkd->bhnk", q, k) / math.sqrt(q.shape[-1])).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(n, t, width))

    def forward(self, x):
        x = self.embed(x)
        x = x + self.attend(self.norm(x)) if self.pre else self.norm(x + self.attend(x))
        return self.head(x[:, 0])


def linear_attention(r):
    return Linearised(r), lambda n: ((torch.randint(0, 31, (n, 9)),), torch.randint(0, 5, (n,)))


class Relative(Described):
    """Attention with positions: Transformer-XL's skew, T5's buckets, ALiBi, rotations by pairs, windows."""

    def __init__(self, r, length):
        super().__init__(r)
        width, self.heads, self.form = self.pick(8, 16), self.pick(1, 2, 4), self.pick("xl", "xl", "t5", "alibi", "pairs", "half", "complex", "window", "shaw", "deberta")
        self.size, self.groups = width // self.heads, self.pick(1, self.heads)
        self.embed = nn.Embedding(31, width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, o, bias=r.random() < 0.5) for o in (width, width // self.groups, width // self.groups, width))
        if self.form == "xl":
            self.place, self.skew = nn.Linear(width, width, bias=False), self.pick("pad", "cat")
            self.u, self.w = nn.Parameter(torch.zeros(self.heads, self.size)), nn.Parameter(torch.zeros(self.heads, self.size))
        self.buckets = nn.Embedding(8, self.heads) if self.form == "t5" else None
        self.table = nn.Parameter(torch.randn(2 * length - 1, self.size)) if self.form == "shaw" else None
        self.near = nn.Embedding(2 * length, self.size) if self.form == "deberta" else None
        self.register_buffer("waves", torch.randn(length, width))
        angles = torch.outer(torch.arange(length).float(), 1 / 10000 ** (torch.arange(0, self.size, 2).float() / self.size))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        slopes = torch.tensor([2 ** (-8 * (i + 1) / self.heads) for i in range(self.heads)])
        self.register_buffer("slopes", slopes.view(-1, 1, 1))
        self.norm, self.head, self.turn = nn.LayerNorm(width), nn.Linear(width, 31, bias=False), r.choice([rotated, rotated_by_slices])
        self.tied = self.maybe("tied", 0.3)
        if self.tied:
            self.head.weight = self.embed.weight

    def rotate(self, x, cos, sin):
        if self.form == "half":
            return x * cos + self.turn(x) * sin
        if self.form == "pairs":
            return x * cos + torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2) * sin
        a, b = x.reshape(*x.shape[:-1], -1, 2).unbind(-1)
        return torch.stack([a * self.cos - b * self.sin, a * self.sin + b * self.cos], dim=-1).flatten(3)

    def bucket(self, t):
        at = torch.arange(t)
        far = torch.clamp(at[:, None] - at[None, :], min=0)
        large = 4 + (torch.log(far.float() / 4 + 1e-6) / math.log(4) * 4).to(torch.long)
        return torch.where(far < 4, far, torch.min(large, torch.full_like(large, 7)))

    def forward(self, x):
        x = self.embed(x)
        n, t, width = x.shape
        y = self.norm(x)
        q, k, v = (p(y).view(n, t, -1, self.size).transpose(1, 2) for p in (self.q, self.k, self.v))
        if self.groups > 1:
            k, v = (torch.repeat_interleave(z, dim=1, repeats=self.groups) for z in (k, v))
        at = torch.arange(t)
        if self.form == "xl":
            place = self.place(self.waves[:t]).view(t, self.heads, self.size)
            content = torch.einsum("bhid,bhjd->bhij", q + self.u[None, :, None], k)
            moved = torch.einsum("bhid,jhd->bhij", q + self.w[None, :, None], place)
            if self.skew == "cat":
                moved = torch.cat([torch.zeros(n, self.heads, t, 1), moved], dim=-1)
            else:
                moved = F.pad(moved, (1, 0))
            moved = moved.view(n, self.heads, t + 1, t)[:, :, 1:].view_as(content)
            scores = (content + moved) * self.size ** -0.5
        else:
            if self.form in ("pairs", "half", "complex"):
                cos, sin = self.cos, self.sin
                if self.form == "half":
                    cos, sin = (torch.cat([z, z], dim=-1)[None, None, :t] for z in (cos, sin))
                elif self.form == "pairs":
                    cos, sin = (torch.repeat_interleave(z, 2, dim=1) for z in (cos, sin))
                q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
            scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.size)
        if self.form == "t5":
            scores = scores + self.buckets(self.bucket(t)).permute(2, 0, 1).unsqueeze(0)
        elif self.form == "alibi":
            scores = scores + self.slopes * (at[None, None, :] - at[None, :, None])
        elif self.form == "shaw":
            index = at[None, :] - at[:, None] + t - 1
            scores = scores + torch.einsum("bhid,ijd->bhij", q, self.table[index])
        elif self.form == "deberta":
            places = self.near(torch.arange(2 * t))
            index = torch.clamp(at[:, None] - at[None, :] + t, 0, 2 * t - 1)
            scores = scores + torch.gather(q @ places.t(), -1, index.expand(n, self.heads, t, t))
        mask = at[None, :] > at[:, None]
        if self.form == "window":
            mask = mask | (at[:, None] - at[None, :] >= 3)
        scores = scores.masked_fill(mask, float("-inf"))
        y = (scores.softmax(dim=-1) @ v).transpose(1, 2).contiguous().view(n, t, width)
        return self.head(x + self.out(y)).flatten(0, 1)


def relative(r):
    length = r.choice([1, 6, 9])
    return Relative(r, length), lambda n: ((torch.randint(0, 31, (n, length)),), torch.randint(0, 31, (n * length,)))


FAMILIES = {"diffusion": diffusion, "dit": dit, "mixer": mixer, "perceiver": perceiver, "linear_attention": linear_attention, "relative": relative}
