"""Text beside images, weights that networks make, and dialects of language models, in the form in which people publish them.

Forms are left out that no ONNX file tells from other ones: see architectures.py and frontier.py."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_models.architectures import Described, waves_of
from torch_models.frontier import ACTS, labels, mse


class Crossed(Described):
    """A block of Stable Diffusion: self- and cross-attention, GEGLU, time; its losses (v-prediction, min-SNR, flow matching, EDM), ControlNet, dropped text."""

    def __init__(self, r):
        super().__init__(r)
        c = self.c = self.pick(8, 12)
        self.form, self.linear = self.pick("v", "snr", "flow", "edm", "control", "dropped", "joint", "huber"), self.maybe("linear")
        self.table, self.stem, self.out = nn.Embedding(11, 6), nn.Conv2d(3, c, 3, padding=1), nn.Sequential(nn.GroupNorm(4, c), nn.SiLU(), nn.Conv2d(c, 3, 3, padding=1))
        self.time = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, c))
        self.norm, self.norms = nn.GroupNorm(4, c, eps=1e-6), nn.ModuleList(nn.LayerNorm(c) for _ in range(3))
        self.into, self.back = (nn.Linear(c, c), nn.Linear(c, c)) if self.linear else (nn.Conv2d(c, c, 1), nn.Conv2d(c, c, 1))
        self.q, self.k, self.v, self.o = (nn.ModuleList(nn.Linear(i, c, bias=b) for i in (c, j)) for j, b in ((c, False), (6, False), (6, False), (c, True)))
        self.k[0], self.v[0] = nn.Linear(c, c, bias=False), nn.Linear(c, c, bias=False)
        self.wide, self.narrow, self.drop = nn.Linear(c, 4 * c), nn.Linear(2 * c, c), nn.Dropout(self.pick(0.0, 0.1))
        self.zero, self.hint, self.null = nn.Conv2d(c, c, 1), nn.Conv2d(3, c, 3, padding=1), nn.Parameter(torch.zeros(1, 5, 6))
        self.text = nn.Linear(6, c)
        self.register_buffer("alphas", torch.linspace(0.99, 0.1, 50))
        frozen = {"control": (self.stem, self.norm, self.into), "dropped": (self.table,)}.get(self.form, ())
        for module in frozen:
            module.requires_grad_(False)

    def attend(self, i, x, context):
        n, t, c = x.shape
        q, k, v = (f(y).view(n, -1, 2, c // 2).transpose(1, 2) for f, y in ((self.q[i], x), (self.k[i], context), (self.v[i], context)))
        a = torch.softmax(q @ k.transpose(-2, -1) * (c // 2) ** -0.5, dim=-1)
        return self.drop(self.o[i]((a @ v).transpose(1, 2).reshape(n, t, c)))

    def body(self, x, t, text):
        h = self.stem(x) + self.time(waves_of(t, 8, "arange"))[:, :, None, None]
        n, c, height, width = h.shape
        y = self.norm(h)
        y = self.into(y.permute(0, 2, 3, 1).reshape(n, -1, c)) if self.linear else self.into(y).flatten(2).transpose(1, 2)
        if self.form == "joint":
            y = torch.cat([self.text(text), y], dim=1)
        z = self.norms[0](y)
        y = y + self.attend(0, z, z)
        if self.form == "joint":
            y = y[:, 5:]
        y = y + self.attend(1, self.norms[1](y), text)
        a, gate = self.wide(self.norms[2](y)).chunk(2, dim=-1)
        y = y + self.narrow(a * F.gelu(gate))
        y = self.back(y).reshape(n, height, width, c).permute(0, 3, 1, 2) if self.linear else self.back(y.transpose(1, 2).reshape(n, c, height, width))
        return h + y

    def forward(self, x, noise, t, ids):
        text, a = self.table(ids), self.alphas[t].view(-1, 1, 1, 1)
        if self.form == "dropped":
            text = torch.where((ids[:, :1] > 5).unsqueeze(-1), text, self.null)
        root, rest = a.sqrt(), (1 - a).sqrt()
        if self.form == "flow":
            noisy = (1 - a) * x + a * noise
        elif self.form == "edm":
            noisy = (x + a * noise) / (a ** 2 + 0.25).sqrt()
        else:
            noisy = root * x + rest * noise
        h = self.body(noisy, t, text)
        if self.form == "control":
            h = h + self.zero(F.silu(self.hint(x)))
        y = self.out(h)
        if self.form in ("v", "joint"):
            return mse(y, root * noise - rest * x)
        if self.form == "snr":
            snr = (a / (1 - a)).flatten()
            w = torch.min(snr, torch.full((ids.shape[0],), 5.0)) / snr
            return ((y - noise) ** 2).mean(dim=[1, 2, 3]).mul(w).mean()
        if self.form == "flow":
            return mse(y, noise - x)
        if self.form == "edm":
            skip = 0.25 / (a ** 2 + 0.25)
            return ((a ** 2 + 0.25) / (a * 0.5) ** 2 * (skip * noisy + a * y - x) ** 2).mean()
        if self.form == "huber":
            return (torch.sqrt((y - noise) ** 2 + 0.01 ** 2) - 0.01).mean()
        return mse(y, noise)


def crossed(r):
    return Crossed(r), lambda n: ((torch.randn(n, 3, 4, 4), torch.randn(n, 3, 4, 4), torch.randint(0, 50, (n,)), torch.randint(0, 11, (n, 5))), None)


class Paired(Described):
    """Images and words: CLIP with one frozen tower, Q-Former, LLaVA, CoCa, SAM's mask decoder, BLIP's matching, ViLT, FiLM, fusion by products, SigLIP."""

    def __init__(self, r):
        super().__init__(r)
        d = self.d = self.pick(8, 16)
        self.form = self.pick("lit", "qformer", "llava", "coca", "sam", "match", "vilt", "film", "siglip", "tensor")
        self.patch, self.place, self.words = nn.Conv2d(3, d, 4, 4), nn.Parameter(torch.randn(1, 4, d) * 0.02), nn.Embedding(17, d)
        self.layer = nn.TransformerEncoderLayer(d, 2, 2 * d, self.pick(0.0, 0.1), self.pick("relu", "gelu"), batch_first=True, norm_first=self.maybe("first"))
        self.decoder = nn.TransformerDecoderLayer(d, 2, 2 * d, dropout=0.0, batch_first=True)
        self.query, self.project, self.kinds = nn.Parameter(torch.zeros(1, 3, d)), nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d)), nn.Embedding(2, d)
        self.scale, self.bias, self.head, self.words_out = nn.Parameter(torch.ones([]) * 2.0), nn.Parameter(torch.ones([]) * -2.0), nn.Linear(d, 5), nn.Linear(d, 17, bias=False)
        self.up = nn.Sequential(nn.ConvTranspose2d(d, d // 4, 2, 2), nn.GELU(), nn.ConvTranspose2d(d // 4, d // 8, 2, 2), nn.GELU())
        self.masks, self.gamma, self.beta, self.norm = nn.Linear(d, d // 8), nn.Linear(d, d), nn.Linear(d, d), nn.LayerNorm(d)
        self.one, self.other = nn.Linear(d + 1, 20), nn.Linear(20, 5)
        if self.form in ("lit", "llava", "qformer"):
            self.patch.requires_grad_(False)
            self.place.requires_grad_(False)
        if self.maybe("tied"):
            self.words_out.weight = self.words.weight

    def forward(self, image, ids, y=None):
        n, f = image.shape[0], self.patch(image)
        v, w = f.flatten(2).transpose(1, 2) + self.place, self.words(ids)
        if self.form in ("lit", "siglip"):
            a, b = self.project(v.mean(1)), self.layer(w)[:, 0]
            if self.form == "lit":
                a, b = a / a.norm(dim=1, keepdim=True), b / b.norm(dim=1, keepdim=True)
                s, t = self.scale.exp() * a @ b.t(), torch.arange(n)
                return (F.cross_entropy(s, t) + F.cross_entropy(s.t(), t)) / 2
            s = F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).t() * self.scale.exp() + self.bias
            return -F.logsigmoid((2 * torch.eye(n) - 1) * s).sum() / n
        if self.form == "qformer":
            q = self.decoder(self.query.expand(n, -1, -1), v)
            s = torch.einsum("bqd,cd->bcq", F.normalize(q, dim=-1), F.normalize(w.mean(1), dim=-1)).max(-1)[0]
            return F.cross_entropy(s / 0.07, torch.arange(n))
        if self.form in ("llava", "vilt"):
            if self.form == "vilt":
                x = torch.cat([w + self.kinds(torch.zeros_like(ids)), v + self.kinds.weight[1]], dim=1)
                return F.cross_entropy(self.head(self.layer(x)[:, 0]), y)
            x = self.layer(torch.cat([self.project(v), w], dim=1))
            return F.cross_entropy(self.words_out(self.norm(x[:, 4:-1])).flatten(0, 1), ids[:, 1:].flatten())
        if self.form == "coca":
            mask = torch.triu(torch.full((6, 6), float("-inf")), diagonal=1)
            h = self.decoder(w, v, tgt_mask=mask)
            s = v.mean(1) @ h[:, -1].t() * self.scale
            return F.cross_entropy(self.words_out(h).transpose(1, 2), ids) + F.cross_entropy(s, torch.arange(n))
        if self.form == "sam":
            h = self.decoder(torch.cat([self.query.expand(n, -1, -1), w], dim=1), v)[:, :3]
            up = self.up(v.transpose(1, 2).view(n, self.d, 2, 2))
            m = (self.masks(h) @ up.view(n, self.d // 8, 64)).view(n, 3, 8, 8)
            m = F.interpolate(m, size=(8, 8), mode="bilinear", align_corners=False)
            target = (image.mean(1, keepdim=True) > 0).float().expand(-1, 3, -1, -1)
            return F.binary_cross_entropy_with_logits(m, target) + self.head(h[:, 0]).pow(2).mean()
        if self.form == "film":
            z = (1 + self.gamma(w.mean(1))).view(n, -1, 1, 1) * f + self.beta(w.sum(1)).view(n, -1, 1, 1)
            return F.cross_entropy(self.head(F.relu(z, inplace=True).amax((2, 3))), y)
        a, b = v.mean(1), w.mean(1)
        if self.form == "tensor":
            one = torch.ones(n, 1)
            z = torch.bmm(self.gamma(a).unsqueeze(2), self.beta(b).unsqueeze(1)).mean(1)
            return F.cross_entropy(self.other(F.relu(self.one(torch.cat([z, one], dim=1)))), y)
        h = self.decoder(w, v)[:, 0]
        return F.binary_cross_entropy_with_logits(self.head(h)[:, 0], (y > 2).float())


def paired(r):
    model = Paired(r)
    told = lambda n: (labels(n),) if model.form in ("vilt", "film", "tensor", "match") else ()
    return model, lambda n: ((torch.randn(n + 1, 3, 8, 8), torch.randint(0, 17, (n + 1, 6)), *told(n + 1)), None)


class Made(Described):
    """Weights that networks make: hypernetworks by sample and by layer, CondConv, dynamic depthwise filters, standardised and equalised weights, masks of weights, ternary scales."""

    def __init__(self, r):
        super().__init__(r)
        d, c = self.pick(6, 8), 8
        self.d, self.form, self.act = d, self.pick("sample", "layer", "cond", "depthwise", "standard", "equal", "masked", "lowrank", "gain", "circulant", "monarch", "shared"), self.pick("relu", "tanh", "gelu")
        self.z, self.make, self.make_b, self.first, self.out = nn.Parameter(torch.randn(2, 4)), nn.Linear(4, d * d), nn.Linear(4, d), nn.Linear(10, d), nn.Linear(d, 5)
        self.by_x, self.stem, self.bank, self.route = nn.Linear(d, d * d + d), nn.Conv2d(3, c, 3, 2, 1), nn.Parameter(torch.randn(3, c, c, 3, 3) * 0.1), nn.Linear(c, 3)
        self.kernel, self.w, self.g, self.head = nn.Linear(c, c * 9), nn.Parameter(torch.randn(c, c, 3, 3)), nn.Parameter(torch.ones(c, 1, 1, 1)), nn.Linear(c, 5)
        self.register_buffer("mask", (torch.rand(d, d) > 0.3).float())
        self.weight, self.bias, self.a, self.b, self.s = nn.Parameter(torch.randn(d, d)), nn.Parameter(torch.zeros(d)), nn.Parameter(torch.randn(d, 2)), nn.Parameter(torch.randn(2, d)), nn.Parameter(torch.ones(d))
        self.register_buffer("turn", (torch.arange(d)[:, None] - torch.arange(d)[None]) % d)
        self.blocks = nn.Parameter(torch.randn(2, 2, d // 2, d // 2))

    def forward(self, x):
        act, n = ACTS[self.act], x.shape[0]
        if x.dim() == 4:
            h = F.relu(self.stem(x))
            pooled = h.mean((2, 3))
            if self.form == "cond":
                w = torch.sigmoid(self.route(pooled)) @ self.bank.view(3, -1)
                h = F.conv2d(h.reshape(1, -1, 4, 4), w.view(n * 8, 8, 3, 3), padding=1, groups=n).view(n, 8, 4, 4)
            elif self.form == "depthwise":
                k = F.softmax(self.kernel(pooled).view(n * 8, 1, 9), dim=-1).view(n * 8, 1, 3, 3)
                h = F.conv2d(h.view(1, n * 8, 4, 4), k, padding=1, groups=n * 8).view(n, 8, 4, 4) + h
            elif self.form == "standard":
                w = self.w - self.w.mean(dim=(1, 2, 3), keepdim=True)
                h = F.conv2d(h, w / (w.pow(2).mean(dim=(1, 2, 3), keepdim=True) + 1e-5).sqrt() * self.g, padding=1)
            else:
                h = F.leaky_relu(F.conv2d(h, self.w * (1 / math.sqrt(72)), padding=1), 0.2) * math.sqrt(2)
            return self.head(act(h).mean((2, 3)))
        h = act(self.first(x))
        if self.form == "sample":
            w, b = self.by_x(h).split([self.d * self.d, self.d], dim=-1)
            h = torch.bmm(w.view(n, self.d, self.d), h.unsqueeze(-1)).squeeze(-1) + b
        elif self.form == "layer":
            for i in range(2):
                h = act(F.linear(h, self.make(self.z[i]).view(self.d, self.d), self.make_b(self.z[i])))
        elif self.form == "masked":
            h = F.linear(h, self.weight * self.mask, self.bias)
        elif self.form == "lowrank":
            h = F.linear(h, self.weight + self.a @ self.b, self.bias)
        elif self.form == "gain":
            h = F.linear(h, self.s.unsqueeze(1) * self.weight / self.weight.norm(dim=1, keepdim=True), self.bias)
        elif self.form == "circulant":
            h = F.linear(h, self.s[self.turn])
        elif self.form == "monarch":
            y = torch.einsum("bki,kio->bko", h.view(n, 2, -1), self.blocks[0])
            h = torch.einsum("bki,kio->bko", y.transpose(1, 2).reshape(n, 2, -1), self.blocks[1]).flatten(1)
        else:
            h = act(F.linear(h, self.weight, self.bias))
            h = F.linear(h, self.weight.t())
        return self.out(act(h))


def made(r):
    model = Made(r)
    image = model.form in ("cond", "depthwise", "standard", "equal")
    return model, lambda n: ((torch.randn(n + 1, 3, 8, 8) if image else torch.randn(n + 1, 10),), labels(n + 1))


class Dialect(Described):
    """Language models: latent attention, differential attention, nGPT, soft caps, sandwiched norms, ALBERT, halting, masked words, several heads of tokens, ReZero, values of the first layer."""

    def __init__(self, r):
        super().__init__(r)
        d = self.d = self.pick(8, 16)
        self.form = self.pick("latent", "differential", "ngpt", "softcap", "sandwich", "albert", "halting", "masked", "tokens", "rezero", "values", "z", "span")
        self.table, self.small, self.widen = nn.Embedding(19, d), nn.Embedding(19, 4), nn.Linear(4, d, bias=False)
        self.norms, self.qkv, self.o = nn.ModuleList(nn.LayerNorm(d) for _ in range(4)), nn.ModuleList(nn.Linear(d, 3 * d, bias=self.maybe("bias")) for _ in range(2)), nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(2))
        self.up, self.down = nn.ModuleList(nn.Linear(d, 2 * d) for _ in range(2)), nn.ModuleList(nn.Linear(2 * d, d) for _ in range(2))
        self.compress, self.expand, self.lam = nn.Linear(d, 4, bias=False), nn.Linear(4, 2 * d, bias=False), nn.Parameter(torch.tensor(0.3))
        self.alphas, self.first, self.heads = nn.ParameterList(nn.Parameter(torch.zeros(1)) for _ in range(4)), nn.Parameter(torch.tensor(0.5)), nn.ModuleList(nn.Linear(d, 19, bias=False) for _ in range(2))
        self.halt, self.word_bias, self.transform, self.two, self.drop = nn.Linear(d, 1), nn.Parameter(torch.zeros(19)), nn.Linear(d, d), nn.Linear(d, 2), nn.Dropout(self.pick(0.0, 0.1))
        self.register_buffer("hidden", torch.ones(6, 6).triu(1).bool())
        if self.form == "masked":
            self.heads[0].weight = self.table.weight

    def attend(self, i, x, v0=None):
        n, t, d = x.shape
        if self.form == "latent":
            q = self.qkv[i](x)[..., :d]
            k, v = self.expand(self.compress(x)).chunk(2, dim=-1)
        else:
            q, k, v = self.qkv[i](x).split(d, dim=2)
        if v0 is not None:
            v = (1 - self.first) * v + self.first * v0
        q, k = (y.view(n, t, 2, d // 2).transpose(1, 2) for y in (q, k))
        if self.form == "ngpt":
            q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        s = q @ k.transpose(-2, -1) / math.sqrt(d // 2)
        if self.form == "softcap":
            s = 30.0 * torch.tanh(s / 30.0)
        if self.form != "masked":
            s = s.masked_fill(self.hidden, float("-inf"))
        a = F.softmax(s, dim=-1)
        if self.form == "differential":
            first, second = a.unbind(1)
            y = (first - self.lam * second) @ v
        else:
            y = (self.drop(a) @ v.view(n, t, 2, d // 2).transpose(1, 2)).transpose(1, 2).contiguous().view(n, t, d)
        return self.o[i](y), v

    def block(self, i, x, v0=None):
        a, b = self.norms[2 * i], self.norms[2 * i + 1]
        y, v = self.attend(i, x if self.form == "ngpt" else a(x), v0)
        if self.form == "ngpt":
            x = F.normalize(x + 0.3 * (F.normalize(y, dim=-1) - x), dim=-1)
            y = self.down[i](F.silu(self.up[i](x)))
            return F.normalize(x + 0.3 * (F.normalize(y, dim=-1) - x), dim=-1), v
        if self.form == "rezero":
            x = x + self.alphas[2 * i] * y
            return x + self.alphas[2 * i + 1] * self.down[i](F.relu(self.up[i](x))), v
        x = x + (b(y) if self.form == "sandwich" else y)
        return x + self.down[i](F.gelu(self.up[i](x if self.form == "sandwich" else b(x)))), v

    def forward(self, ids, y=None):
        n, t = ids.shape
        x = self.widen(self.small(ids)) if self.form == "albert" else self.table(ids)
        if self.form == "halting":
            total, left = 0, torch.ones(n, t, 1)
            for _ in range(2):
                x, _ = self.block(0, x)
                p = torch.sigmoid(self.halt(x)) * left
                total, left = total + p * x, left - p
            return F.cross_entropy(self.heads[0](total + left * x).flatten(0, 1), y.flatten()) + 0.01 * left.mean()
        x, v = self.block(0, x)
        x, _ = self.block(0 if self.form == "albert" else 1, x, v if self.form == "values" else None)
        if self.form == "span":
            start, end = self.two(x).split(1, dim=-1)
            return (F.cross_entropy(start.squeeze(-1), y[:, 0] % t) + F.cross_entropy(end.squeeze(-1), y[:, 1] % t)) / 2
        if self.form == "masked":
            index = (y[:, :2] % t).unsqueeze(-1).expand(-1, -1, self.d)
            h = self.norms[0](F.gelu(self.transform(torch.gather(x, 1, index))))
            return F.cross_entropy((self.heads[0](h) + self.word_bias).view(-1, 19), y[:, 2:4].reshape(-1))
        if self.form == "tokens":
            return sum(F.cross_entropy(head(x).view(-1, 19), y.view(-1)) for head in self.heads) / 2
        z = self.heads[0](x)
        if self.form == "softcap":
            z = torch.tanh(z / 15.0) * 15.0
        loss = F.cross_entropy(z.view(-1, 19), y.view(-1))
        return loss + 1e-4 * torch.logsumexp(z, dim=-1).pow(2).mean() if self.form == "z" else loss


def dialects(r):
    return Dialect(r), lambda n: ((torch.randint(0, 19, (n, 6)), torch.randint(0, 19, (n, 6))), None)


FAMILIES = {"crossed": crossed, "paired": paired, "made": made, "dialects": dialects}
