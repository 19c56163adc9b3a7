"""Still more networks in the form in which people publish them: flows, attention in images, generators, tables, memories.

Forms are left out that no ONNX file tells from other ones: see architectures.py."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_models.architectures import Described, images
from torch_models.vision import ACTIVATIONS


class Flow(Described):
    """RealNVP, Glow and planar flows: the negative log likelihood is the loss."""

    def __init__(self, r):
        super().__init__(r)
        self.form, self.steps = self.pick("realnvp", "glow", "planar", "nice"), self.pick(1, 2, 3)
        self.width, self.squash = 6, self.pick("tanh", "sigmoid2", "exp")
        half = self.width // 2
        net = lambda: nn.Sequential(nn.Linear(half, 12), r.choice(ACTIVATIONS)(False), nn.Linear(12, half * (1 if self.form == "nice" else 2)))
        self.nets = nn.ModuleList(net() for _ in range(self.steps))
        self.shift = nn.ParameterList(nn.Parameter(torch.zeros(self.width)) for _ in range(self.steps))
        self.log_scale = nn.ParameterList(nn.Parameter(torch.zeros(self.width)) for _ in range(self.steps))
        self.mixes = nn.ParameterList(nn.Parameter(torch.linalg.qr(torch.randn(self.width, self.width))[0]) for _ in range(self.steps))

    def forward(self, x):
        log_det = torch.zeros(x.shape[0])
        for i in range(self.steps):
            if self.form == "glow":
                x = (x + self.shift[i]) * self.log_scale[i].exp()
                log_det = log_det + self.log_scale[i].sum()
                x = x @ self.mixes[i].t()
            if self.form == "planar":
                z = torch.tanh(x @ self.shift[i][:, None] + 0.1)
                x = x + self.log_scale[i] * z
                log_det = log_det + torch.log((1 + ((1 - z ** 2) * self.shift[i]) @ self.log_scale[i]).abs() + 1e-6)
                continue
            a, b = x.chunk(2, dim=-1)
            if self.form == "nice":
                x = torch.cat([b, a + self.nets[i](b)], dim=-1)
                continue
            s, t = self.nets[i](a).chunk(2, dim=1)
            if self.squash == "tanh":
                s = torch.tanh(s)
            elif self.squash == "sigmoid2":
                s = F.logsigmoid(s + 2)
            b = b * torch.exp(s) + t
            log_det = log_det + s.sum(dim=1)
            x = torch.cat([b, a], dim=1)
        log_p = -0.5 * (x ** 2).sum(dim=1) - 0.5 * self.width * math.log(2 * math.pi)
        return -(log_p + log_det).mean()


def flows(r):
    return Flow(r), lambda n: ((torch.randn(n, 6),), None)


class Attended(Described):
    """Attention in images: CBAM, squeeze and excitation, ECA, non-local, coordinate attention, selective kernels, gates of U-Nets."""

    def __init__(self, r):
        super().__init__(r)
        c = self.c = self.pick(8, 16)
        self.form = self.pick("cbam", "se", "eca", "nonlocal", "coordinate", "sk", "gate", "gc", "simam", "axial")
        self.stem, self.norm = nn.Conv2d(3, c, 3, 2, 1), self.pick("bn", "gn") == "bn" and nn.BatchNorm2d(c) or nn.GroupNorm(4, c)
        self.act = r.choice(ACTIVATIONS)(False)
        self.fc = nn.Sequential(nn.Conv2d(c, c // 4, 1), nn.ReLU(self.maybe("in place")), nn.Conv2d(c // 4, c, 1))
        self.spatial, self.eca = nn.Conv2d(2, 1, 7, padding=3, bias=False), nn.Conv1d(1, 1, 3, padding=1, bias=False)
        self.theta, self.phi, self.g = nn.Conv2d(c, c // 2, 1), nn.Conv2d(c, c // 2, 1), nn.Conv2d(c, c // 2, 1)
        self.back, self.other = nn.Conv2d(c // 2, c, 1), nn.Conv2d(c, c, 3, padding=2, dilation=2)
        self.mask, self.ln = nn.Conv2d(c, 1, 1), nn.LayerNorm([c // 4, 1, 1])
        self.down, self.up = nn.Conv2d(c, c // 4, 1), nn.Conv2d(c // 4, c, 1)
        self.h, self.w = nn.Conv2d(c // 4, c, 1), nn.Conv2d(c // 4, c, 1)
        self.qkv, self.head = nn.Linear(c, 3 * c, bias=False), nn.Linear(c, 5)

    def attend(self, x):
        n, c, h, w = x.shape
        if self.form == "cbam":
            x = x * torch.sigmoid(self.fc(F.adaptive_avg_pool2d(x, 1)) + self.fc(F.adaptive_max_pool2d(x, 1)))
            return x * torch.sigmoid(self.spatial(torch.cat([x.mean(1, keepdim=True), x.max(1, keepdim=True)[0]], dim=1)))
        if self.form == "se":
            return x * F.hardsigmoid(self.fc(x.mean((2, 3), keepdim=True)))
        if self.form == "eca":
            y = F.adaptive_avg_pool2d(x, 1)
            y = self.eca(y.squeeze(-1).transpose(-1, -2)).transpose(-1, -2).unsqueeze(-1)
            return x * torch.sigmoid(y).expand_as(x)
        if self.form == "nonlocal":
            q, k, v = self.theta(x).flatten(2), self.phi(x).flatten(2), self.g(x).flatten(2)
            a = F.softmax(torch.bmm(q.transpose(1, 2), k), dim=-1)
            return x + self.back(torch.bmm(v, a.transpose(1, 2)).view(n, c // 2, h, w))
        if self.form == "coordinate":
            y = torch.cat([x.mean(3, keepdim=True), x.mean(2, keepdim=True).permute(0, 1, 3, 2)], dim=2)
            y = F.hardswish(self.down(y))
            a, b = torch.split(y, [h, w], dim=2)
            return x * self.h(a).sigmoid() * self.w(b.permute(0, 1, 3, 2)).sigmoid()
        if self.form == "sk":
            feats = torch.stack([x, F.relu(self.other(x))], dim=1)
            s = self.fc(feats.sum(1).mean((2, 3), keepdim=True))
            a = torch.softmax(torch.stack([s, -s], dim=1), dim=1)
            return (feats * a).sum(dim=1)
        if self.form == "gate":
            q = F.relu(self.theta(x) + F.interpolate(self.phi(F.avg_pool2d(x, 2)), scale_factor=2, mode="nearest"))
            return x * torch.sigmoid(self.back(q).mean(1, keepdim=True))
        if self.form == "gc":
            a = F.softmax(self.mask(x).view(n, 1, h * w), dim=2).unsqueeze(-1)
            context = torch.matmul(x.view(n, c, h * w).unsqueeze(1), a).view(n, c, 1, 1)
            return x + self.up(F.relu(self.ln(self.down(context))))
        if self.form == "simam":
            d = (x - x.mean(dim=[2, 3], keepdim=True)).pow(2)
            v = d.sum(dim=[2, 3], keepdim=True) / (h * w - 1)
            return x * torch.sigmoid(d / (4 * (v + 1e-4)) + 0.5)
        rows = x.permute(0, 2, 3, 1).reshape(n * h, w, c)
        q, k, v = self.qkv(rows).chunk(3, dim=-1)
        y = ((q @ k.transpose(-2, -1)) * c ** -0.5).softmax(dim=-1) @ v
        return x + y.view(n, h, w, c).permute(0, 3, 1, 2)

    def forward(self, x):
        x = self.act(self.norm(self.stem(x)))
        return self.head(self.attend(x).mean([2, 3]))


def attended(r):
    return Attended(r), images


class Rescaled(Described):
    """Super-resolution and restoration: EDSR, RCAN, ESRGAN's dense blocks, DnCNN, deep back-projection; a loss that the scenario names, or by hand."""

    def __init__(self, r):
        super().__init__(r)
        c, self.form = self.pick(4, 8), self.pick("edsr", "rcan", "dense", "dncnn", "dbpn", "charbonnier")
        self.c = c
        if self.form != "charbonnier":
            self.loss_name = self.pick("l1", "mse", "smooth_l1")
            self.loss = {"l1": F.l1_loss, "mse": F.mse_loss, "smooth_l1": F.smooth_l1_loss}[self.loss_name]
        self.first, self.res = nn.Conv2d(3, c, 3, padding=1), nn.ModuleList(
            nn.Sequential(nn.Conv2d(c, c, 3, padding=1), nn.ReLU(self.maybe("in place")), nn.Conv2d(c, c, 3, padding=1)) for _ in range(self.pick(1, 2)))
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, 2, 1), nn.ReLU(inplace=True), nn.Conv2d(2, c, 1), nn.Sigmoid())
        self.dense = nn.ModuleList(nn.Conv2d(c + i * 4, 4 if i < 3 else c, 3, padding=1) for i in range(4))
        self.norms = nn.ModuleList(nn.BatchNorm2d(c) for _ in range(2))
        self.up = nn.Sequential(nn.Conv2d(c, 4 * c, 3, padding=1), nn.PixelShuffle(2))
        self.deconv, self.conv = nn.ConvTranspose2d(c, c, 6, 2, 2), nn.Conv2d(c, c, 6, 2, 2)
        self.prelu, self.last = nn.PReLU(), nn.Conv2d(c, 3, 3, padding=1)
        self.body = nn.ModuleList(nn.Conv2d(c, c, 3, padding=1, bias=False) for _ in range(2))

    def forward(self, x, y=None):
        f = self.first(x)
        h = f
        if self.form == "dncnn":
            h = F.relu(h, inplace=True)
            for conv, norm in zip(self.body, self.norms):
                h = F.relu(norm(conv(h)), inplace=True)
            out = F.interpolate(x - self.last(h), scale_factor=2)
        elif self.form == "dbpn":
            high = self.prelu(self.deconv(h))
            low = self.prelu(self.conv(high))
            out = self.last(self.deconv(low - h) + high)
        else:
            for block in self.res:
                if self.form == "dense":
                    parts = [h]
                    for i, conv in enumerate(self.dense):
                        d = conv(torch.cat(parts, 1))
                        parts.append(F.leaky_relu(d, 0.2) if i < 3 else d)
                    h = h + parts[-1] * 0.2
                elif self.form == "rcan":
                    d = block(h)
                    h = h + d * self.squeeze(d)
                else:
                    h = h + block(h).mul(0.1)
            out = self.last(self.up(h + f))
        if self.form == "charbonnier":
            return torch.sqrt((out - y) ** 2 + 1e-6).mean()
        return out


def rescaled(r):
    model = Rescaled(r)
    if model.form == "charbonnier":
        return model, lambda n: ((torch.randn(n, 3, 8, 8), torch.randn(n, 3, 16, 16)), None)
    return model, lambda n: ((torch.randn(n, 3, 8, 8),), torch.randn(n, 3, 16, 16))


class Generator(Described):
    """Parts of generators: modulated convolutions, SPADE, AdaIN, class-conditional batch norm, minibatch deviation, blur pools."""

    def __init__(self, r):
        super().__init__(r)
        c, self.form = self.pick(4, 8), self.pick("modulated", "adain", "spade", "conditional", "deviation", "blur", "self attention", "pixel norm")
        self.c, self.style, self.demodulate = c, nn.Linear(6, c), self.maybe("demodulate")
        self.weight, self.first = nn.Parameter(torch.randn(1, c, c, 3, 3)), nn.Linear(6, c * 16)
        self.both, self.norm, self.conv = nn.Linear(6, 2 * c), nn.InstanceNorm2d(c, affine=False), nn.Conv2d(c, c, 3, padding=1)
        self.shared, self.gamma, self.beta = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, c, 3, padding=1), nn.Conv2d(4, c, 3, padding=1)
        self.bn, self.table = nn.BatchNorm2d(c, affine=False), nn.Linear(6, 2 * c, bias=False)
        self.register_buffer("kernel", torch.tensor([1.0, 2.0, 1.0])[:, None] * torch.tensor([1.0, 2.0, 1.0])[None] / 16)
        self.wide, self.gain = nn.Conv2d(c + 1, c, 3, padding=1), nn.Parameter(torch.zeros(1))
        self.q, self.k, self.v, self.rgb = nn.Conv2d(c, c // 4, 1), nn.Conv2d(c, c // 4, 1), nn.Conv2d(c, c, 1), nn.Conv2d(c, 3, 1)
        self.noise = nn.Parameter(torch.zeros(1, c, 1, 1))
        self.loss_name, self.loss = "mse", F.mse_loss

    def forward(self, z, y=None):
        n, c = z.shape[0], self.c
        x = F.leaky_relu(self.first(z).view(n, c, 4, 4), 0.2)
        if self.form == "modulated":
            w = self.weight * self.style(z).view(n, 1, c, 1, 1)
            if self.demodulate:
                w = w * torch.rsqrt((w ** 2).sum([2, 3, 4], keepdim=True) + 1e-8)
            x = F.conv2d(x.reshape(1, n * c, 4, 4), w.view(n * c, c, 3, 3), padding=1, groups=n).view(n, c, 4, 4)
            x = x + self.noise
        elif self.form == "adain":
            g, b = self.both(z).view(n, 2 * c, 1, 1).chunk(2, dim=1)
            x = (1 + g) * self.norm(x) + b
        elif self.form == "spade":
            m = F.relu(self.shared(F.interpolate(y.mean(1, keepdim=True), size=(4, 4), mode="nearest")))
            x = self.norm(x) * (1 + self.gamma(m)) + self.beta(m)
        elif self.form == "conditional":
            g, b = self.table(z).chunk(2, 1)
            x = g.view(-1, c, 1, 1) * self.bn(x) + b.view(-1, c, 1, 1)
        elif self.form == "deviation":
            s = torch.sqrt((x - x.mean(dim=0, keepdim=True)).pow(2).mean(dim=0, keepdim=True) + 1e-8)
            x = self.wide(torch.cat([x, s.mean().repeat(n, 1, 4, 4)], dim=1))
        elif self.form == "blur":
            x = F.conv2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), self.kernel[None, None].repeat(c, 1, 1, 1), groups=c)
        elif self.form == "self attention":
            q, k, v = self.q(x).view(n, -1, 16), self.k(x).view(n, -1, 16), self.v(x).view(n, -1, 16)
            a = F.softmax(torch.bmm(q.permute(0, 2, 1), k), dim=-1)
            x = self.gain * torch.bmm(v, a.permute(0, 2, 1)).view(n, c, 4, 4) + x
        else:
            x = x / torch.sqrt(torch.mean(x ** 2, dim=1, keepdim=True) + 1e-8)
        return torch.tanh(self.rgb(F.interpolate(F.leaky_relu(self.conv(x), 0.2), scale_factor=2, mode="nearest")))


def generators(r):
    model = Generator(r)
    maps = lambda n: (torch.randn(n, 1, 8, 8),) if model.form == "spade" else ()
    return model, lambda n: ((torch.randn(n, 6), *maps(n)), torch.randn(n, 3, 8, 8))


class Table(Described):
    """Networks for tables and forecasts: FT-Transformer, TabTransformer, N-BEATS, gated residual networks, NODE's soft trees, highways."""

    def __init__(self, r):
        super().__init__(r)
        self.form = self.pick("ft", "nbeats", "grn", "trees", "highway", "mixture", "experts", "attention", "sets", "maxout")
        d = self.d = self.pick(8, 16)
        self.tokens, self.bias, self.cls = nn.Parameter(torch.randn(6, d)), nn.Parameter(torch.zeros(6, d)), nn.Parameter(torch.zeros(1, 1, d))
        self.layer = nn.TransformerEncoderLayer(d, 2, 2 * d, dropout=self.pick(0.0, 0.1), batch_first=True, norm_first=self.maybe("first"))
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(6, d), nn.ReLU(), nn.Linear(d, d), nn.ReLU(), nn.Linear(d, 6 + 5, bias=False)) for _ in range(2))
        self.lift, self.a, self.b, self.gate, self.norm = nn.Linear(6, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, 2 * d), nn.LayerNorm(d)
        self.choice, self.cut, self.response = nn.Parameter(torch.randn(6, 4, 3)), nn.Parameter(torch.randn(4, 3)), nn.Parameter(torch.randn(4, 5, 8))
        self.register_buffer("codes", torch.tensor([[[float(i >> j & 1), 1 - float(i >> j & 1)] for i in range(8)] for j in range(3)]))
        self.experts, self.router = nn.ModuleList(nn.Linear(d, d) for _ in range(3)), nn.Linear(d, 3)
        self.head, self.drop, self.act = nn.Linear(d, 5), nn.Dropout(0.1), r.choice(ACTIVATIONS)(False)
        self.pieces = nn.Linear(d, 3 * d)

    def forward(self, x):
        if self.form in ("ft", "attention"):
            t = self.tokens[None] * x[..., None] + self.bias
            if self.form == "attention":
                w = F.softmax(self.a(t).mean(-1), dim=1)
                return self.head(torch.einsum("bk,bkd->bd", w, self.act(t)))
            t = torch.cat([self.cls.expand(x.shape[0], -1, -1), t], dim=1)
            return self.head(F.relu(self.norm(self.layer(t)[:, 0])))
        if self.form == "nbeats":
            total = 0
            for block in self.blocks:
                back, ahead = block(x).split([6, 5], dim=-1)
                x, total = x - back, total + ahead
            return total
        if self.form == "trees":
            f = torch.einsum("bi,itd->btd", x, F.softmax(self.choice, dim=0))
            z = (f - self.cut) * 2
            bins = F.hardtanh(0.5 * torch.stack([-z, z], dim=-1) + 0.5, 0, 1)
            r = torch.einsum("btds,dcs->btdc", bins, self.codes)
            leaves = r[:, :, 0] * r[:, :, 1] * r[:, :, 2]
            return torch.einsum("bnd,ncd->bnc", leaves, self.response).sum(1)
        h = self.act(self.lift(x))
        if self.form == "grn":
            y = self.drop(self.b(F.elu(self.a(h))))
            return self.head(self.norm(h + F.glu(self.gate(y), dim=-1)))
        if self.form == "highway":
            for _ in range(2):
                t = torch.sigmoid(self.b(h))
                h = t * F.relu(self.a(h)) + (1 - t) * h
            return self.head(h)
        if self.form == "experts":
            w = F.softmax(self.router(h), dim=-1)
            return self.head((torch.stack([e(h) for e in self.experts], dim=1) * w.unsqueeze(-1)).sum(dim=1))
        if self.form == "mixture":
            p = torch.log_softmax(self.router(h), dim=1)
            return torch.logsumexp(p.unsqueeze(1) - 0.5 * (self.head(h).unsqueeze(-1) - torch.arange(3.0)) ** 2, dim=-1)
        if self.form == "maxout":
            return self.head(self.pieces(h).view(x.shape[0], self.d, 3).max(dim=-1)[0])
        s = self.act(self.a(h.unsqueeze(1) * self.tokens))
        return self.head(self.norm(s.sum(dim=1) + s.max(dim=1).values + s.mean(dim=1)))


def tables(r):
    return Table(r), lambda n: ((torch.randn(n, 6),), torch.randint(0, 5, (n,)))


class Points(Described):
    """Point clouds and sets: PointNet with its T-Net, edge convolutions, Set Transformers, deep sets with masks."""

    def __init__(self, r):
        super().__init__(r)
        c, self.form = self.pick(8, 16), self.pick("pointnet", "edge", "isab", "pma", "masked")
        self.c, self.conv1, self.conv2 = c, nn.Conv1d(3, c, 1), nn.Conv1d(c, c, 1)
        self.bn1, self.bn2, self.tnet, self.fc = nn.BatchNorm1d(c), nn.BatchNorm1d(c), nn.Linear(c, 9), nn.Linear(c, 5)
        self.edge = nn.Sequential(nn.Conv2d(6, c, 1, bias=False), nn.BatchNorm2d(c), nn.LeakyReLU(0.2, inplace=self.maybe("in place")))
        self.lift, self.inducing, self.seed = nn.Linear(3, c), nn.Parameter(torch.randn(1, 4, c)), nn.Parameter(torch.randn(1, 1, c))
        self.q, self.k, self.v, self.o = (nn.Linear(c, c) for _ in range(4))
        self.ln = nn.LayerNorm(c) if self.maybe("ln") else nn.Identity()

    def mab(self, x, y):
        q, k, v = self.q(x), self.k(y), self.v(y)
        q_, k_, v_ = torch.cat(q.split(self.c // 2, 2), 0), torch.cat(k.split(self.c // 2, 2), 0), torch.cat(v.split(self.c // 2, 2), 0)
        a = torch.softmax(q_.bmm(k_.transpose(1, 2)) / math.sqrt(self.c), 2)
        h = torch.cat((q_ + a.bmm(v_)).split(x.shape[0] if x.shape[0] == y.shape[0] else y.shape[0], 0), 2)
        h = self.ln(h)
        return h + F.relu(self.o(h))

    def forward(self, x):
        n, m = x.shape[0], x.shape[1]
        if self.form == "pointnet":
            x = x.transpose(2, 1)
            t = torch.max(F.relu(self.bn1(self.conv1(x))), 2, keepdim=True)[0].view(-1, self.c)
            t = (self.tnet(t) + torch.eye(3).view(1, 9).repeat(n, 1)).view(-1, 3, 3)
            x = torch.bmm(x.transpose(2, 1), t).transpose(2, 1)
            x = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
            return self.fc(torch.max(x, 2)[0])
        if self.form == "edge":
            inner = -2 * torch.matmul(x, x.transpose(2, 1))
            square = torch.sum(x ** 2, dim=2, keepdim=True)
            near = (-square - inner - square.transpose(2, 1)).topk(k=3, dim=-1)[1]
            index = (near + torch.arange(n).view(-1, 1, 1) * m).view(-1)
            f = x.reshape(n * m, -1)[index, :].view(n, m, 3, 3)
            centre = x.view(n, m, 1, 3).repeat(1, 1, 3, 1)
            f = torch.cat((f - centre, centre), dim=3).permute(0, 3, 1, 2).contiguous()
            return self.fc(self.edge(f).max(dim=-1, keepdim=False)[0].mean(-1))
        h = self.lift(x)
        if self.form == "isab":
            return self.fc(self.mab(h, self.mab(self.inducing.repeat(n, 1, 1), h)).mean(1))
        if self.form == "pma":
            return self.fc(self.mab(self.seed.repeat(n, 1, 1), h).squeeze(1))
        mask = (x[..., :1] > 0).float()
        h = F.relu(h) * mask
        return self.fc(h.sum(1) / mask.sum(1).clamp(min=1.0))


def points(r):
    return Points(r), lambda n: ((torch.randn(n, 7, 3),), torch.randint(0, 5, (n,)))


class Attention(Described):
    """Variants of attention in language models: ALiBi, local windows, talking heads, multi-query, retention, XL memory, GLU variants."""

    def __init__(self, r):
        super().__init__(r)
        d = self.d = self.pick(8, 16)
        self.form, self.ffn = self.pick("alibi", "local", "talking", "mqa", "retention", "memory", "parallel", "cosine", "sink", "gqa"), self.pick("geglu", "swiglu", "reglu", "relu2", "bilinear")
        self.table, self.norm, self.norm2 = nn.Embedding(20, d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.q, self.kv, self.o = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d), nn.Linear(d, 2 * (d // 2)), nn.Linear(d, d)
        self.pre, self.post, self.temperature = nn.Conv2d(2, 2, 1, bias=False), nn.Linear(2, 2), nn.Parameter(torch.ones(2, 1, 1))
        self.w1, self.w2, self.w3 = nn.Linear(d, 2 * d, bias=False), nn.Linear(2 * d, d, bias=False), nn.Linear(d, 2 * d, bias=False)
        self.register_buffer("slopes", torch.tensor([0.5, 0.25]).view(2, 1, 1))
        self.register_buffer("distance", (torch.arange(8)[None, :] - torch.arange(8)[:, None]).float())
        self.keys, self.drop, self.head = nn.Parameter(torch.randn(1, 2, 3, d // 2)), nn.Dropout(self.pick(0.0, 0.1)), nn.Linear(d, 20, bias=self.maybe("bias"))
        self.tied = self.maybe("tied")
        if self.tied:
            self.head.weight = self.table.weight
        self.gn = nn.GroupNorm(2, d)

    def split(self, t):
        return t.view(t.shape[0], t.shape[1], 2, -1).transpose(1, 2)

    def attend(self, x):
        n, t, d = x.shape
        causal = self.distance[:t, :t] > 0
        if self.form in ("mqa", "gqa"):
            q = self.split(self.q(x))
            k, v = self.kv(x).chunk(2, dim=-1)
            if self.form == "gqa":
                k, v = (u.view(n, t, 1, d // 2).transpose(1, 2) for u in (k, v))
                k, v = (u[:, :, None].expand(n, 1, 2, t, d // 2).reshape(n, 2, t, d // 2) for u in (k, v))
                s = q @ k.transpose(-2, -1) / math.sqrt(d // 2)
            else:
                s = torch.einsum("bhid,bjd->bhij", q, k) * (d // 2) ** -0.5
            a = s.masked_fill(causal, float("-inf")).softmax(dim=-1)
            y = a @ v if self.form == "gqa" else torch.einsum("bhij,bjd->bhid", a, v)
            return self.o(y.transpose(1, 2).reshape(n, t, d))
        q, k, v = (self.split(u) for u in self.qkv(x).split(d, dim=-1))
        if self.form == "sink":
            k = torch.cat([self.keys.expand(n, -1, -1, -1), k], dim=2)
            v = F.pad(v, (0, 0, 3, 0))
            causal = F.pad(causal, (3, 0))
        if self.form == "cosine":
            q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
            s = q @ k.transpose(-2, -1) * self.temperature.clamp(max=4.6).exp()
        else:
            s = torch.matmul(q, k.transpose(-1, -2)) / (d // 2) ** 0.5
        if self.form == "retention":
            decay = torch.where(causal, torch.zeros(t, t), 0.9 ** (-self.distance[:t, :t]))
            y = (s * decay) @ v
            y = self.gn(y.transpose(1, 2).reshape(n * t, d, 1)).view(n, t, d)
            return self.o(y * F.silu(self.q(x)))
        if self.form == "alibi":
            s = s + self.slopes * self.distance[:t, :t]
        if self.form == "talking":
            s = self.pre(s)
        if self.form == "local":
            causal = causal | (self.distance[:t, :t] < -3)
        a = self.drop(F.softmax(s.masked_fill(causal, -1e4), dim=-1))
        if self.form == "talking":
            a = self.post(a.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.o(torch.matmul(a, v).transpose(1, 2).contiguous().view(n, t, d))

    def feed(self, x):
        a, b = self.w1(x), self.w3(x)
        if self.ffn == "relu2":
            return self.w2(F.relu(a) ** 2)
        gate = {"geglu": F.gelu, "swiglu": F.silu, "reglu": F.relu, "bilinear": lambda u: u}[self.ffn]
        return self.w2(gate(a) * b)

    def forward(self, ids):
        x = self.table(ids)
        if self.form == "memory":
            x = torch.cat([x[:, :4].detach(), x[:, 4:]], dim=1)
        if self.form == "parallel":
            h = self.norm(x)
            x = x + self.attend(h) + self.feed(h)
        else:
            x = x + self.drop(self.attend(self.norm(x)))
            x = x + self.drop(self.feed(self.norm2(x)))
        logits = self.head(x)
        return logits


def attentions(r):
    return Attention(r), lambda n: ((torch.randint(0, 20, (n, 8)),), torch.randint(0, 20, (n * 8,)))


class Aligned(Described):
    """Metric learning and alignment: InfoNCE, CLIP, ArcFace, triplets with mining by hand, supervised contrast, VICReg, Barlow twins, focal losses."""

    def __init__(self, r):
        super().__init__(r)
        self.form = self.pick("infonce", "clip", "arcface", "triplet", "supcon", "vicreg", "barlow", "focal", "label smoothing", "distances")
        self.net = nn.Sequential(nn.Linear(6, 12), r.choice(ACTIVATIONS)(self.maybe("in place")), nn.Linear(12, 8))
        self.other, self.scale, self.centres = nn.Linear(6, 8), nn.Parameter(torch.tensor(2.0)), nn.Parameter(torch.randn(5, 8))

    def forward(self, x, y=None):
        n = x.shape[0]
        a, b = self.net(x), None
        if self.form in ("infonce", "clip", "triplet", "vicreg", "barlow"):
            b = self.other(x * 0.9)
        if self.form == "infonce":
            z = F.normalize(torch.cat([a, b]), dim=1)
            s = z @ z.t() / 0.5
            s = s.masked_fill(torch.eye(2 * n, dtype=torch.bool), -1e9)
            return F.cross_entropy(s, torch.cat([torch.arange(n, 2 * n), torch.arange(n)]))
        if self.form == "clip":
            a, b = a / a.norm(dim=-1, keepdim=True), b / b.norm(dim=-1, keepdim=True)
            s = self.scale.exp() * a @ b.t()
            t = torch.arange(n)
            return (F.cross_entropy(s, t) + F.cross_entropy(s.t(), t)) / 2
        if self.form == "arcface":
            c = F.linear(F.normalize(a), F.normalize(self.centres))
            sine = torch.sqrt((1.0 - torch.pow(c, 2)).clamp(0, 1))
            phi = c * math.cos(0.5) - sine * math.sin(0.5)
            hot = torch.zeros(n, 5).scatter(1, y.view(-1, 1), 1)
            return F.cross_entropy((hot * phi + (1.0 - hot) * c) * 8.0, y)
        if self.form == "triplet":
            d = torch.sqrt(((a[:, None] - b[None]) ** 2).sum(-1) + 1e-8)
            return F.relu((d * torch.eye(n)).sum(1, keepdim=True) - d + 0.3).mean()
        if self.form == "supcon":
            z = F.normalize(a, dim=-1)
            s = z @ z.t() / 0.1
            s = s - s.max(dim=1, keepdim=True)[0].detach()
            e = torch.exp(s) * (1 - torch.eye(n))
            log_p = s - torch.log(e.sum(1, keepdim=True) + 1e-6)
            same = (y[:, None] == y[None]).float()
            return -(same * log_p).sum(1).div(same.sum(1)).mean()
        if self.form == "vicreg":
            std = torch.sqrt(a.var(dim=0, unbiased=False) + 1e-4)
            m = a - a.mean(dim=0)
            cov = (m.t() @ m) / max(n - 1, 1)
            off = cov * (1 - torch.eye(8))
            return 25 * (a - b).pow(2).mean() + 25 * F.relu(1 - std).mean() + off.pow(2).sum() / 8
        if self.form == "barlow":
            c = (a - a.mean(0)).t() @ (b - b.mean(0)) / n
            on = ((c * torch.eye(8)).sum(0) - 1).pow(2).sum()
            return on + 0.005 * (c * (1 - torch.eye(8))).pow(2).sum()
        if self.form == "focal":
            ce = F.cross_entropy(a, y, reduction="none")
            return (0.25 * (1 - torch.exp(-ce)) ** 2 * ce).mean()
        if self.form == "label smoothing":
            lp = F.log_softmax(a, dim=-1)
            nll = -lp.gather(dim=-1, index=y.unsqueeze(1)).squeeze(1)
            return (0.9 * nll + 0.1 * -lp.mean(dim=-1)).mean()
        d = (a ** 2).sum(1, keepdim=True) + (self.centres ** 2).sum(1) - 2 * a @ self.centres.t()
        return F.cross_entropy(-d, y)


def aligned(r):
    model = Aligned(r)
    labels = lambda n: (torch.randint(0, 5, (n,)),) if model.form in ("arcface", "supcon", "focal", "label smoothing", "distances") else ()
    return model, lambda n: ((torch.randn(n + 1, 6), *labels(n + 1)), None)


class Residual(Described):
    """Blocks of image classifiers: DenseNet, Inception, Res2Net, ShuffleNet, Ghost, ResNeXt, RepVGG, MobileOne, ConvNeXt v2, MetaFormer, pre-activation, anti-aliasing."""

    def __init__(self, r):
        super().__init__(r)
        c, self.form = self.pick(8, 16), self.pick("dense", "inception", "res2", "shuffle", "ghost", "rep", "grn", "pool", "preact", "octave", "involution", "mbconv")
        self.c, self.in_place = c, self.maybe("in place")
        self.stem, self.head = nn.Sequential(nn.Conv2d(3, c, 3, 2, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU(inplace=self.in_place)), nn.Linear(c, 5)
        conv = lambda i, o, k=3, g=1: nn.Conv2d(i, o, k, padding=k // 2, groups=g, bias=False)
        self.bns, self.convs = nn.ModuleList(nn.BatchNorm2d(c) for _ in range(3)), nn.ModuleList([conv(c, c), conv(c, c), conv(c, c, 1)])
        self.dense, self.dense_bn = nn.ModuleList(conv(c + 4 * i, 4) for i in range(3)), nn.ModuleList(nn.BatchNorm2d(c + 4 * i) for i in range(3))
        self.trans = nn.Conv2d(c + 12, c, 1)
        self.quarters, self.halves = nn.ModuleList(conv(c // 4, c // 4) for _ in range(3)), nn.ModuleList([conv(c // 2, c // 2, 1), conv(c // 2, c // 2, 3, c // 2), conv(c // 2, c // 2, 1)])
        self.wide, self.narrow, self.depth = nn.Linear(c, 2 * c), nn.Linear(2 * c, c), conv(c, c, 7, c)
        self.g, self.b, self.ln = nn.Parameter(torch.zeros(1, 1, 1, 2 * c)), nn.Parameter(torch.zeros(1, 1, 1, 2 * c)), nn.LayerNorm(c)
        self.scale, self.gn, self.mlp = nn.Parameter(torch.ones(c, 1, 1) * 1e-2), nn.GroupNorm(1, c), nn.Sequential(nn.Conv2d(c, 2 * c, 1), nn.GELU(), nn.Conv2d(2 * c, c, 1))
        self.kernel = nn.Conv2d(c, 9, 1)
        self.expand, self.dw, self.project = conv(c, 2 * c, 1), conv(2 * c, 2 * c, 3, 2 * c), conv(2 * c, c, 1)
        self.wbn = nn.ModuleList(nn.BatchNorm2d(2 * c) for _ in range(2))
        self.se = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(2 * c, 2, 1), nn.SiLU(inplace=True), nn.Conv2d(2, 2 * c, 1), nn.Sigmoid())

    def act(self, x):
        return F.relu(x, inplace=self.in_place)

    def block(self, x):
        n, c, h, w = x.shape
        if self.form == "dense":
            for conv, bn in zip(self.dense, self.dense_bn):
                x = torch.cat([x, conv(self.act(bn(x)))], 1)
            return F.avg_pool2d(self.trans(x), 2)
        if self.form == "inception":
            return torch.cat([t[:, :c // 4] for t in (self.convs[0](x), self.convs[1](self.convs[2](x)), self.convs[2](F.max_pool2d(x, 3, 1, 1)), F.avg_pool2d(x, 3, 1, 1))], 1)
        if self.form == "res2":
            parts = torch.split(x, c // 4, 1)
            y, out = None, [parts[0]]
            for i, conv in enumerate(self.quarters):
                y = conv(parts[i + 1] if y is None else y + parts[i + 1])
                out.append(y)
            return self.act(self.bns[0](torch.cat(out, 1)) + x)
        if self.form == "shuffle":
            a, b = x.chunk(2, dim=1)
            b = self.halves[2](self.halves[1](F.relu(self.halves[0](b))))
            y = torch.cat((a, b), dim=1)
            return y.view(n, 2, c // 2, h, w).transpose(1, 2).contiguous().view(n, -1, h, w)
        if self.form == "ghost":
            a = F.relu(self.halves[0](x[:, :c // 2]))
            return torch.cat([a, self.halves[1](a)], dim=1) + x
        if self.form == "rep":
            return self.act(self.bns[0](self.convs[0](x)) + self.bns[1](self.convs[2](x)) + self.bns[2](x))
        if self.form == "grn":
            y = F.gelu(self.wide(self.ln(self.depth(x).permute(0, 2, 3, 1))))
            s = torch.norm(y, p=2, dim=(1, 2), keepdim=True)
            y = self.g * (y * (s / (s.mean(dim=-1, keepdim=True) + 1e-6))) + self.b + y
            return x + self.narrow(y).permute(0, 3, 1, 2)
        if self.form == "pool":
            y = self.gn(x)
            x = x + self.scale * (F.avg_pool2d(y, 3, 1, 1, count_include_pad=False) - y)
            return x + self.scale * self.mlp(self.gn(x))
        if self.form == "preact":
            y = self.convs[0](self.act(self.bns[0](x)))
            return x + self.convs[1](self.act(self.bns[1](y)))
        if self.form == "octave":
            low = F.avg_pool2d(x[:, :c // 2], 2)
            return torch.cat([F.interpolate(self.halves[0](low), scale_factor=2, mode="nearest"), self.halves[2](x[:, c // 2:])], 1)
        if self.form == "involution":
            k = self.kernel(x).view(n, 1, 9, h, w)
            u = F.unfold(x, 3, padding=1).view(n, c, 9, h, w)
            return (k * u).sum(dim=2)
        y = F.silu(self.wbn[0](self.expand(x)), inplace=True)
        y = F.silu(self.wbn[1](self.dw(y)), inplace=True)
        return x + self.bns[0](self.project(y * self.se(y)))

    def forward(self, x):
        return self.head(torch.flatten(F.adaptive_avg_pool2d(self.block(self.stem(x)), (1, 1)), 1))


def residuals(r):
    return Residual(r), images


FAMILIES = {"flows": flows, "attended": attended, "rescaled": rescaled, "generators": generators, "tables": tables, "points": points,
            "attentions": attentions, "aligned": aligned, "residuals": residuals}
