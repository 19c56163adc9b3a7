"""Transformers and recurrent networks."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_models.vision import ACTIVATIONS, Residual


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


class RootMeanSquare(nn.Module):
    """RMSNorm as people write it."""

    def __init__(self, r, width):
        super().__init__()
        self.form = r.choice(["llama", "x*x", "norm", "float"])
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        if self.form == "llama":
            return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))
        if self.form == "x*x":
            return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * self.weight
        if self.form == "norm":
            return x / (x.norm(2, dim=-1, keepdim=True) * x.shape[-1] ** -0.5 + 1e-6) * self.weight
        y = x.float()
        return (y / torch.sqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).type_as(x) * self.weight


def rotated(x):
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


def rotated_by_slices(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


class Heads(nn.Module):
    """Attention as people write it: projections, positions, masks and products of several kinds."""

    def __init__(self, r, width, length):
        super().__init__()
        self.heads = r.choice([2, 4])
        self.size = width // self.heads
        self.groups = r.choice([1, 1, 2])  # queries to one key
        self.packed = r.random() < 0.4 and self.groups == 1
        self.products = r.choice(["matmul", "matmul", "einsum", "bmm", "baddbmm"])
        self.positions = r.choice(["none", "none", "rope", "rope_slices", "alibi", "relative"])
        self.mask = r.choice(["none", "bool", "float", "buffer", "made"])
        self.repeats, self.in_float = r.choice(["interleave", "expand"]), r.random() < 0.2
        self.drop = nn.Dropout(r.choice([0, 0.1]))
        bias, few = r.random() < 0.5, width // self.groups
        if self.packed:
            self.qkv = nn.Linear(width, 3 * width, bias=bias)
        else:
            self.q, self.k, self.v = nn.Linear(width, width, bias=bias), nn.Linear(width, few, bias=bias), nn.Linear(width, few, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)
        at = torch.arange(length).float()
        angles = torch.outer(at, 1 / 10000 ** (torch.arange(0, self.size, 2).float() / self.size))
        self.register_buffer("cos", torch.cat([angles, angles], -1).cos())
        self.register_buffer("sin", torch.cat([angles, angles], -1).sin())
        self.register_buffer("causal", torch.tril(torch.ones(length, length, dtype=torch.bool)))
        self.register_buffer("slopes", -torch.abs(at[None] - at[:, None])[None, None] * 0.5 ** torch.arange(1, self.heads + 1).view(1, -1, 1, 1))
        if self.positions == "relative":
            self.table = nn.Parameter(torch.zeros(2 * length - 1, self.heads))
            self.register_buffer("places", (torch.arange(length)[None] - torch.arange(length)[:, None] + length - 1))
        self.what = " ".join(["packed" if self.packed else f"groups{self.groups}{self.repeats}", self.products, self.positions, self.mask])

    def forward(self, x):
        n, t, width = x.shape
        if self.packed:
            q, k, v = self.qkv(x).view(n, t, 3, self.heads, self.size).permute(2, 0, 3, 1, 4).unbind(0)
        else:
            q, k, v = (p(x).view(n, t, -1, self.size).transpose(1, 2) for p in (self.q, self.k, self.v))
        if self.positions.startswith("rope"):
            turn = rotated if self.positions == "rope" else rotated_by_slices
            q, k = q * self.cos[:t] + turn(q) * self.sin[:t], k * self.cos[:t] + turn(k) * self.sin[:t]
        if self.groups > 1:
            if self.repeats == "interleave":
                k, v = k.repeat_interleave(self.groups, 1), v.repeat_interleave(self.groups, 1)
            else:
                k, v = (y[:, :, None].expand(n, y.shape[1], self.groups, t, self.size).reshape(n, self.heads, t, self.size) for y in (k, v))
        scale = 1 / math.sqrt(self.size)
        if self.products == "matmul":
            scores = torch.matmul(q, k.transpose(2, 3)) * scale
        elif self.products == "einsum":
            scores = torch.einsum("bhid,bhjd->bhij", q, k) * scale
        elif self.products == "bmm":
            scores = torch.bmm(q.reshape(-1, t, self.size) * scale, k.reshape(-1, t, self.size).transpose(1, 2)).view(n, self.heads, t, t)
        else:
            bias = self.slopes.expand(n, -1, -1, -1).reshape(-1, t, t)
            scores = torch.baddbmm(bias, q.reshape(-1, t, self.size), k.reshape(-1, t, self.size).transpose(1, 2), alpha=scale)
            scores = scores.view(n, self.heads, t, t)
        if self.positions == "alibi":
            scores = scores + self.slopes
        elif self.positions == "relative":
            scores = scores + self.table[self.places.view(-1)].view(t, t, -1).permute(2, 0, 1).unsqueeze(0)
        if self.mask == "bool":
            scores = scores.masked_fill(~self.causal, float("-inf"))
        elif self.mask == "float":
            scores = scores + (1.0 - self.causal[None, None].float()) * -10000.0
        elif self.mask == "buffer":
            scores = torch.where(self.causal[:t, :t], scores, torch.full((), -1e9))
        elif self.mask == "made":
            scores = scores + torch.triu(torch.full((t, t), -1e9), diagonal=1)
        a = self.drop(F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype) if self.in_float else scores.softmax(-1))
        y = torch.einsum("bhij,bhjd->bihd", a, v) if self.products == "einsum" else torch.matmul(a, v).transpose(1, 2)
        return self.out(y.reshape(n, t, width))


class Gated(nn.Module):
    """GEGLU, SwiGLU, GLU, QuickGELU, squared ReLU and plain feed-forwards."""

    def __init__(self, r, width):
        super().__init__()
        self.form = r.choice(["swiglu", "geglu", "glu", "quick", "squared", "plain", "tanh", "packed"])
        bias = r.random() < 0.5
        wide = 2 * width
        self.up = nn.Linear(width, 2 * wide if self.form in ("geglu", "glu", "packed") else wide, bias=bias)
        self.gate = nn.Linear(width, wide, bias=bias) if self.form == "swiglu" else None
        self.down, self.drop = nn.Linear(wide, width, bias=bias), nn.Dropout(r.choice([0, 0.1]))
        self.act = r.choice(ACTIVATIONS)(r.random() < 0.5)
        self.what = self.form

    def forward(self, x):
        y = self.up(x)
        if self.form == "swiglu":
            y = F.silu(self.gate(x)) * y
        elif self.form == "geglu":
            a, b = y.chunk(2, -1)
            y = a * F.gelu(b)
        elif self.form == "packed":
            a, b = y.split(y.shape[-1] // 2, -1)
            y = F.silu(a) * b
        elif self.form == "glu":
            y = F.glu(y, -1)
        elif self.form == "quick":
            y = y * torch.sigmoid(1.702 * y)
        elif self.form == "squared":
            y = F.relu(y).pow(2)
        elif self.form == "tanh":
            y = F.gelu(y, approximate="tanh")
        else:
            y = self.act(y)
        return self.drop(self.down(y))


class Block(nn.Module):
    def __init__(self, r, width, length):
        super().__init__()
        norm = (lambda: RootMeanSquare(r, width)) if r.random() < 0.4 else (lambda: nn.LayerNorm(width))
        self.form, self.first, self.second = r.choice(["before", "before", "after", "parallel"]), norm(), norm()
        self.attention, self.feed_forward = Heads(r, width, length), Gated(r, width)
        self.what = f"[{self.form} {getattr(self.first, 'form', 'layer')} {self.attention.what} {self.feed_forward.what}]"

    def forward(self, x):
        if self.form == "before":
            x = x + self.attention(self.first(x))
            return x + self.feed_forward(self.second(x))
        if self.form == "after":
            x = self.first(x + self.attention(x))
            return self.second(x + self.feed_forward(x))
        y = self.first(x)
        return x + self.attention(y) + self.feed_forward(y)


class Decoder(nn.Module):
    def __init__(self, r, words, width, length):
        super().__init__()
        self.words, self.tied, self.head = nn.Embedding(words, width), r.random() < 0.3, r.choice(["all", "last", "mean", "first"])
        self.at = r.choice(["none", "learned", "parameter", "waves"])
        self.scaled = r.random() < 0.2
        if self.at == "learned":
            self.position = nn.Embedding(length, width)
        elif self.at == "parameter":
            self.position = nn.Parameter(torch.zeros(1, length, width))
        elif self.at == "waves":
            self.register_buffer("position", torch.randn(1, length, width))
        self.drop = nn.Dropout(r.choice([0, 0.1]))
        self.blocks = nn.ModuleList(Block(r, width, length) for _ in range(r.randint(1, 2)))
        self.shared = r.random() < 0.15  # ALBERT: one block, used twice
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, words, bias=not self.tied)
        if self.tied:
            self.out.weight = self.words.weight
        self.what = " ".join([self.head, self.at, "tied" if self.tied else "", "shared" if self.shared else "", *(b.what for b in self.blocks)])

    def forward(self, tokens):
        x = self.words(tokens)
        if self.scaled:
            x = x * math.sqrt(x.shape[-1])
        if self.at == "learned":
            x = x + self.position(torch.arange(tokens.shape[1]))
        elif self.at != "none":
            x = x + self.position[:, :tokens.shape[1]]
        x = self.drop(x)
        for block in self.blocks:
            x = block(x)
        if self.shared:
            x = self.blocks[0](x)
        x = self.norm(x)
        if self.head == "last":
            x = x[:, -1]
        elif self.head == "mean":
            x = x.mean(1)
        elif self.head == "first":
            x = x[:, 0]
        return self.out(x)


def decoder(r):
    width, length, words = r.choice([16, 32]), r.choice([1, 7, 12]), r.choice([31, 97])
    model = Decoder(r, words, width, length)

    def data(n):
        target = (n * length,) if model.head == "all" else (n,)
        return (torch.randint(0, words, (n, length)),), torch.randint(0, words, target)

    return model, data


class Patches(nn.Module):
    """ViT: patches, a class token, PyTorch's own encoder or the blocks of this file."""

    def __init__(self, r):
        super().__init__()
        width = r.choice([16, 24])
        self.patch, self.token = nn.Conv2d(3, width, 4, 4), nn.Parameter(torch.zeros(1, 1, width))
        self.position, self.repeats = nn.Parameter(torch.zeros(1, 17, width)), r.random() < 0.5
        if r.random() < 0.5:
            layer = nn.TransformerEncoderLayer(width, 2, 2 * width, r.choice([0, 0.1]), r.choice(["relu", "gelu"]), batch_first=r.random() < 0.7,
                                               norm_first=r.random() < 0.5)
            self.encoder = nn.TransformerEncoder(layer, r.randint(1, 2), enable_nested_tensor=False)
        else:
            self.encoder = Block(r, width, 17)
        self.norm, self.out, self.what = nn.LayerNorm(width), nn.Linear(width, 6), getattr(self.encoder, "what", "encoder")

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        n = x.shape[0]
        token = self.token.repeat(n, 1, 1) if self.repeats else self.token.expand(n, -1, -1)
        x = torch.cat([token, x], 1) + self.position
        return self.out(self.norm(self.encoder(x))[:, 0])


def patches(r):
    return Patches(r), lambda n: ((torch.randn(n, 3, 16, 16),), torch.randint(0, 6, (n,)))


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


class Cells(nn.Module):
    """Loops over cells, and layers of several kinds, read in several ways."""

    def __init__(self, r, length):
        super().__init__()
        self.bag = None
        self.kind, self.take = r.choice(["LSTMCell", "GRUCell", "RNNCell", "LSTM", "GRU", "RNN"]), r.choice(["last", "mean", "max", "hidden", "all"])
        self.embed, bias = nn.Embedding(31, 8), r.random() < 0.8
        self.cell, both = self.kind.endswith("Cell"), False
        if self.cell:
            self.layer, self.take = getattr(nn, self.kind)(8, 12, bias=bias), r.choice(["last", "mean"])
        else:
            both, self.first, count = r.random() < 0.4, r.random() < 0.6, r.choice([1, 2, 3])
            self.layer = getattr(nn, self.kind)(8, 12, count, bias=bias, batch_first=self.first, bidirectional=both)
        wide = 24 if both and self.take != "hidden" else 12
        self.norm, self.out = r.choice([nn.Identity(), nn.LayerNorm(wide), nn.Dropout(0.1)]), nn.Linear(wide, 5)
        self.what = f"{self.kind} {self.take} {'both' if both else ''} {'' if bias else 'no bias'}"

    def forward(self, tokens):
        x = self.embed(tokens)
        if self.cell:
            # Zeros of its own, as None and two tensors of zeros are exported alike.
            zeros = torch.zeros(x.shape[0], 12)
            h, outputs = (zeros, torch.zeros(x.shape[0], 12)) if self.kind == "LSTMCell" else zeros, []
            for t in range(x.shape[1]):
                h = self.layer(x[:, t], h)
                outputs.append(h[0] if isinstance(h, tuple) else h)
            y = outputs[-1] if self.take == "last" else torch.stack(outputs, 1).mean(1)
        else:
            x = x if self.first else x.transpose(0, 1)
            y, h = self.layer(x)
            axis = 1 if self.first else 0
            h = h[0] if isinstance(h, tuple) else h
            if self.take == "last":
                y = y[:, -1] if self.first else y[-1]
            elif self.take == "hidden":
                y = h[-1]
            elif self.take == "max":
                y = y.max(axis)[0]
            elif self.take == "mean":
                y = y.mean(axis)
            elif not self.first:
                y = y.transpose(0, 1)
        return self.out(self.norm(y))


def cells(r):
    length = r.choice([1, 5, 8])
    model = Cells(r, length)
    return model, lambda n: ((torch.randint(0, 31, (n, length)),), torch.randint(0, 5, (n * length,) if model.take == "all" else (n,)))


FAMILIES = {"former": former, "decoder": decoder, "patches": patches, "rnn": rnn, "cells": cells}
