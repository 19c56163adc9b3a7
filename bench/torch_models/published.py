"""More networks in the form in which people publish them: sound, detection, graphs, recommenders, recurrences.

Forms are left out that no ONNX file tells from other ones: see architectures.py."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_models.architectures import Described, images
from torch_models.vision import ACTIVATIONS


class Gates(Described):
    """WaveNet and TCN: causal dilated convolutions, gated or not, with skips."""

    def __init__(self, r):
        super().__init__(r)
        c, self.form = self.pick(4, 8), self.pick("wavenet", "tcn", "left pad")
        wrap = self.pick("plain", "weight_norm") == "weight_norm" and nn.utils.weight_norm or (lambda m: m)
        self.stem, self.dilations = nn.Conv1d(2, c, 1), [1, 2, 4][:self.pick(1, 2, 3)]
        both = 2 if self.form == "wavenet" and self.maybe("one conv") else 1
        pad = (lambda d: 2 * d) if self.form == "tcn" else lambda d: 0
        conv = lambda d, o: wrap(nn.Conv1d(c, o, 3, dilation=d, padding=pad(d)))
        self.filters = nn.ModuleList(conv(d, both * c) for d in self.dilations)
        self.gates = nn.ModuleList(conv(d, c) for d in self.dilations)
        self.both, self.residual = both, nn.ModuleList(nn.Conv1d(c, c, 1) for _ in self.dilations)
        self.skips = nn.ModuleList(nn.Conv1d(c, 6, 1) for _ in self.dilations)
        self.in_place, self.drop = self.maybe("in place"), nn.Dropout(self.pick(0, 0.1))
        self.act, self.last = nn.ReLU(self.in_place), nn.Sequential(nn.ReLU(), nn.Conv1d(6, 6, 1), nn.ReLU(), nn.Conv1d(6, 5, 1))
        self.out = nn.Linear(c, 5)

    def forward(self, x):
        x, total = self.stem(x), 0
        for i, d in enumerate(self.dilations):
            if self.form == "tcn":
                y = self.drop(self.act(self.filters[i](x)[:, :, :-2 * d]))
                y = self.drop(self.act(self.gates[i](y)[:, :, :-2 * d]))
                x = F.relu(y + x)
                continue
            padded = F.pad(x, (2 * d, 0))
            if self.form == "left pad":
                x = x + self.drop(self.act(self.filters[i](padded)))
                continue
            if self.both == 2:
                a, b = self.filters[i](padded).chunk(2, dim=1)
            else:
                a, b = self.filters[i](padded), self.gates[i](padded)
            y = torch.tanh(a) * torch.sigmoid(b)
            total = total + self.skips[i](y)
            if i + 1 < len(self.dilations):
                x = (x + self.residual[i](y)) * math.sqrt(0.5)
        return self.last(total).mean(-1) if self.form == "wavenet" else self.out(x[:, :, -1])


def gated_convolutions(r):
    model = Gates(r)
    # What wavenet does not use gets no gradient, and the export does not hold it.
    return model, lambda n: ((torch.randn(n, 2, 12),), torch.randint(0, 5, (n,)))


class Conformer(Described):
    """Macaron halves of feed-forward, convolution module with GLU, attention."""

    def __init__(self, r):
        super().__init__(r)
        d, p = self.pick(8, 16), self.pick(0, 0.1)
        self.stem = nn.Sequential(nn.Conv2d(1, 4, 3, 2), nn.ReLU(), nn.Conv2d(4, 4, 3, 2), nn.ReLU())
        self.into = nn.Linear(4 * 3, d)
        half = lambda: nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.SiLU(), nn.Dropout(p), nn.Linear(2 * d, d), nn.Dropout(p))
        self.first, self.second, self.norms = half(), half(), nn.ModuleList(nn.LayerNorm(d) for _ in range(3))
        self.attention, self.drop = nn.MultiheadAttention(d, 2, dropout=p, batch_first=self.maybe("batch first", 0.7)), nn.Dropout(p)
        self.glu = self.pick("module", "chunk")
        norm = self.pick("batch", "layer", "group")
        self.norm = norm
        self.depthwise = nn.Conv1d(d, d, 5, padding=2, groups=d, bias=self.maybe("bias"))
        self.normed = nn.BatchNorm1d(d) if norm == "batch" else nn.LayerNorm(d) if norm == "layer" else nn.GroupNorm(2, d)
        self.widen, self.narrow, self.act = nn.Conv1d(d, 2 * d, 1), nn.Conv1d(d, d, 1), nn.SiLU(self.maybe("in place"))
        self.out = nn.Linear(d, 7)

    def convolve(self, x):
        x = self.widen(self.norms[1](x).transpose(1, 2))
        if self.glu == "module":
            x = F.glu(x, dim=1)
        else:
            a, b = x.chunk(2, dim=1)
            x = a * b.sigmoid()
        x = self.depthwise(x)
        x = self.normed(x.transpose(1, 2)).transpose(1, 2) if self.norm == "layer" else self.normed(x)
        return self.drop(self.narrow(self.act(x)).transpose(1, 2))

    def forward(self, x):
        x = self.stem(x.unsqueeze(1))
        n, c, t, f = x.shape
        x = self.into(x.transpose(1, 2).contiguous().view(n, t, c * f))
        x = x + 0.5 * self.first(x)
        y = self.norms[0](x)
        if self.attention.batch_first:
            y = self.attention(y, y, y, need_weights=False)[0]
        else:
            y = y.transpose(0, 1)
            y = self.attention(y, y, y, need_weights=False)[0].transpose(0, 1)
        x = x + self.drop(y)
        x = x + self.convolve(x)
        x = self.norms[2](x + 0.5 * self.second(x))
        return self.out(x.mean(1))


def conformer(r):
    return Conformer(r), lambda n: ((torch.randn(n, 27, 16),), torch.randint(0, 7, (n,)))


class Pyramid(Described):
    """FPN or PAN over three levels, heads of RetinaNet, FCOS or YOLO, and a simple loss."""

    def __init__(self, r):
        super().__init__(r)
        c, self.heads = self.pick(4, 8), self.pick("retina", "fcos", "yolo", "semantic")
        conv = lambda i, o, s=1: nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), r.choice([nn.ReLU, nn.SiLU, lambda i: nn.LeakyReLU(0.1, i)])(r.random() < 0.7))
        self.stages = nn.ModuleList([conv(3, c, 2), conv(c, 2 * c, 2), conv(2 * c, 4 * c, 2)])
        self.laterals = nn.ModuleList(nn.Conv2d(i * c, c, 1) for i in (1, 2, 4))
        self.form, self.larger = self.pick("sum", "sum", "cat"), self.pick("scale", "size", "module")
        self.smooth = nn.ModuleList(nn.Conv2d(c if self.form == "sum" or i == 2 else 2 * c, c, 3, padding=1) for i in range(3))
        self.up, self.down = nn.Upsample(scale_factor=2, mode="nearest"), nn.ModuleList(conv(c, c, 2) for _ in range(2)) if self.maybe("pan") else None
        self.tower = nn.Sequential(nn.Conv2d(c, c, 3, padding=1), self.pick("gn", "none") == "gn" and nn.GroupNorm(2, c) or nn.Identity(), nn.ReLU(self.maybe("in place")))
        self.anchors = self.pick(1, 3)
        self.classes, self.boxes = nn.Conv2d(c, self.anchors * 5, 3, padding=1), nn.Conv2d(c, self.anchors * 4, 3, padding=1)
        self.all, self.scales = nn.Conv2d(c, self.anchors * 9, 1), nn.ParameterList(nn.Parameter(torch.ones(1)) for _ in range(3))

    def enlarge(self, x, like):
        if self.larger == "module":
            return self.up(x)
        return F.interpolate(x, scale_factor=2.0, mode="nearest") if self.larger == "scale" else F.interpolate(x, size=like.shape[-2:], mode="nearest")

    def forward(self, x):
        levels = []
        for stage in self.stages:
            x = stage(x)
            levels.append(x)
        levels = [lateral(y) for lateral, y in zip(self.laterals, levels)]
        for i in (1, 0):
            up = self.enlarge(levels[i + 1], levels[i])
            levels[i] = levels[i] + up if self.form == "sum" else self.smooth[i](torch.cat([levels[i], up], dim=1))
        if self.form == "sum":
            levels = [smooth(y) for smooth, y in zip(self.smooth, levels)]
        if self.down is not None:
            for i in (0, 1):
                levels[i + 1] = levels[i + 1] + self.down[i](levels[i])
        n, found = x.shape[0], []
        if self.heads == "semantic":
            whole = levels[0]
            for y in levels[1:]:
                whole = whole + F.interpolate(y, size=levels[0].shape[2:], mode="bilinear", align_corners=False)
            return self.classes(whole).mean((2, 3))
        for i, y in enumerate(levels):
            if self.heads == "yolo":
                y = self.all(y)
                y = y.view(n, self.anchors, 9, y.shape[2], y.shape[3]).permute(0, 1, 3, 4, 2).contiguous()
                found.append(torch.cat([y[..., :2].sigmoid() * 2 - 0.5, (y[..., 2:4].sigmoid() * 2) ** 2, y[..., 4:]], dim=-1).view(n, -1, 9))
                continue
            y = self.tower(y)
            classes, boxes = self.classes(y), self.boxes(y)
            if self.heads == "fcos":
                boxes = torch.exp(boxes * self.scales[i])
                found.append(torch.cat([classes.flatten(2).permute(0, 2, 1).reshape(n, -1, 5), boxes.flatten(2).permute(0, 2, 1).reshape(n, -1, 4)], dim=2))
            else:
                classes = classes.view(n, -1, 5, y.shape[2], y.shape[3]).permute(0, 3, 4, 1, 2).reshape(n, -1, 5)
                found.append(torch.cat([classes, boxes.permute(0, 2, 3, 1).reshape(n, -1, 4)], dim=-1))
        y = torch.cat(found, dim=1)
        return F.binary_cross_entropy_with_logits(y[..., 4:], torch.zeros_like(y[..., 4:])) + F.relu(y[..., :4]).mean()


def pyramid(r):
    model = Pyramid(r)
    return model, lambda n: ((torch.randn(n, 3, 32, 32),), torch.randint(0, 5, (n,)) if model.heads == "semantic" else None)


class Recommender(Described):
    """DLRM, DeepFM, DCN, NCF, AutoInt, two towers."""

    def __init__(self, r):
        super().__init__(r)
        d, self.form = 4, self.pick("dlrm", "deepfm", "dcn", "dcn2", "ncf", "autoint", "towers", "din")
        self.tables = nn.ModuleList(nn.Embedding(self.r.choice([11, 40]), d) for _ in range(3))
        self.first = nn.ModuleList(nn.Embedding(t.num_embeddings, 1) for t in self.tables)
        act = lambda: nn.ReLU(r.random() < 0.5)
        self.bottom = nn.Sequential(nn.Linear(5, 8), act(), nn.Linear(8, d), act())
        wide = {"dlrm": d + 6, "ncf": 2 * d, "din": 3 * d}.get(self.form, 4 * d)
        self.top = nn.Sequential(nn.Linear(wide, 8), self.maybe("bn") and nn.BatchNorm1d(8) or nn.Identity(), act(), nn.Dropout(self.pick(0, 0.2)), nn.Linear(8, 1))
        self.cross = nn.ParameterList(nn.Parameter(torch.randn(4 * d, 1)) for _ in range(2))
        self.bias = nn.ParameterList(nn.Parameter(torch.zeros(4 * d, 1) if self.form == "dcn" else torch.zeros(4 * d)) for _ in range(2))
        self.full, self.out = nn.ModuleList(nn.Linear(4 * d, 4 * d, bias=False) for _ in range(2)), nn.Linear(4 * d, 1)
        self.q, self.k, self.v = (nn.Linear(d, d, bias=False) for _ in range(3))
        self.score = nn.Sequential(nn.Linear(4 * d, 6), nn.PReLU() if self.maybe("prelu") else nn.Sigmoid(), nn.Linear(6, 1))
        self.pairs, self.norms = self.pick("indices", "flat"), self.maybe("normalised")

    def forward(self, dense, ids):
        n = dense.shape[0]
        x = None if self.form in ("ncf", "din") else self.bottom(dense)
        e = [table(ids[:, i]) for i, table in enumerate(self.tables)]
        if self.form == "dlrm":
            t = torch.cat([x] + e, dim=1).view(n, -1, x.shape[1])
            z = torch.bmm(t, t.transpose(1, 2))
            i, j = torch.tensor([i for i in range(4) for j in range(i)]), torch.tensor([j for i in range(4) for j in range(i)])
            pairs = z[:, i, j] if self.pairs == "indices" else z.flatten(1).index_select(1, 4 * i + j)
            y = self.top(torch.cat([x, pairs], dim=1))
        elif self.form == "deepfm":
            t = torch.stack([x] + e, dim=1)
            fm = 0.5 * (t.sum(dim=1).pow(2) - t.pow(2).sum(dim=1)).sum(dim=1, keepdim=True)
            y = fm + self.top(t.flatten(1)) + torch.cat([f(ids[:, i]) for i, f in enumerate(self.first)], dim=1).sum(dim=1, keepdim=True)
        elif self.form in ("dcn", "dcn2"):
            z = start = torch.cat([x] + e, dim=-1)
            if self.form == "dcn":
                z = start = start.unsqueeze(2)
                for w, b in zip(self.cross, self.bias):
                    z = torch.matmul(start, torch.tensordot(z, w, dims=([1], [0]))) + b + z
                z = z.squeeze(2)
            else:
                for f, b in zip(self.full, self.bias):
                    z = start * (f(z) + b) + z
            y = self.out(z) + self.top(start.flatten(1))
        elif self.form == "ncf":
            y = self.top(torch.cat([e[0], e[1]], dim=-1)) + (e[0] * e[1]).sum(-1, keepdim=True)
        elif self.form == "autoint":
            t = torch.stack([x] + e, dim=1)
            a = F.softmax(torch.einsum("bid,bjd->bij", self.q(t), self.k(t)), dim=-1)
            y = self.top(F.relu(torch.einsum("bij,bjd->bid", a, self.v(t)) + t).flatten(1))
        elif self.form == "towers":
            a, b = x, self.q(e[0] + e[1] + e[2])
            if self.norms:
                a, b = F.normalize(a, dim=-1), F.normalize(b, dim=-1)
            return F.cross_entropy(a @ b.t() / 0.1, torch.arange(n))
        else:
            history, target = torch.stack(e[:2], dim=1), e[2]
            query = target.unsqueeze(1).expand(-1, 2, -1)
            weights = self.score(torch.cat([query, history, query - history, query * history], dim=-1))
            y = self.top(torch.cat([self.bottom(dense), target, (weights * history).sum(dim=1)], dim=1))
        return F.binary_cross_entropy_with_logits(y.squeeze(1), (dense[:, 0] > 0).float())


def recommender(r):
    rows = r.choice([2, 30])
    return Recommender(r), lambda n: ((torch.randn(rows * n, 5), torch.randint(0, 11, (rows * n, 3))), None)


class Field(Described):
    """NeRF, SIREN, Fourier features, KAN-like splines."""

    def __init__(self, r):
        super().__init__(r)
        w, self.form = self.pick(8, 16), self.pick("nerf", "nerf", "siren", "fourier", "kan", "deepset")
        self.octaves = self.pick(2, 4)
        wide = {"nerf": 3 + 6 * self.octaves, "fourier": 12}.get(self.form, 3)
        self.wide = wide
        self.first, self.middle, self.skipped = nn.Linear(wide, w), nn.Linear(w, w), nn.Linear(w + wide, w)
        self.density, self.feature, self.colour, self.rgb = nn.Linear(w, 1), nn.Linear(w, w), nn.Linear(w + 3, w // 2), nn.Linear(w // 2, 3)
        self.out, self.rendered = nn.Linear(w, 3), self.maybe("rendered")
        self.register_buffer("random", torch.randn(3, 6))
        self.register_buffer("grid", torch.linspace(-1, 1, 5))
        self.base, self.spline = nn.Linear(3, w), nn.Parameter(torch.randn(w, 3, 5))
        self.places, self.in_place = self.pick("list", "powers"), self.maybe("in place")

    def encode(self, x):
        if self.places == "powers":
            y = x[..., None] * 2.0 ** torch.arange(self.octaves)
            return torch.cat([x, y.sin().flatten(-2), y.cos().flatten(-2)], dim=-1)
        return torch.cat([x] + [f(2.0 ** i * x) for i in range(self.octaves) for f in (torch.sin, torch.cos)], dim=-1)

    def forward(self, x, view):
        if self.form == "siren":
            y = torch.sin(30 * self.first(x))
            return ((self.out(torch.sin(30 * self.middle(y))) - view) ** 2).mean()
        if self.form == "fourier":
            p = (2 * math.pi * x) @ self.random
            p = torch.cat([torch.sin(p), torch.cos(p)], dim=-1)
            return ((torch.sigmoid(self.out(F.relu(self.middle(F.relu(self.first(p)))))) - view) ** 2).mean()
        if self.form == "kan":
            bumps = torch.exp(-((x.unsqueeze(-1) - self.grid) / 0.5) ** 2)
            y = self.base(F.silu(x)) + torch.einsum("bsif,oif->bso", bumps, self.spline)
            return ((self.out(y) - view) ** 2).mean()
        if self.form == "deepset":
            y = F.relu(self.middle(F.relu(self.first(x))))
            y = y - y.max(dim=1, keepdim=True)[0]
            return ((self.out(y.mean(1)) - view.mean(1)) ** 2).mean()
        p = self.encode(x)
        y = F.relu(self.middle(F.relu(self.first(p), inplace=False)))
        y = F.relu(self.skipped(torch.cat([p, y], dim=-1)))
        density = self.density(y)
        y = F.relu(self.colour(torch.cat([self.feature(y), view], dim=-1)))
        rgb = torch.sigmoid(self.rgb(y))
        if not self.rendered:
            return ((rgb - view) ** 2).mean() + F.relu(density).mean()
        depth = F.relu(density[..., 0]) * 0.1
        alpha, through = 1.0 - torch.exp(-depth), torch.exp(-torch.cumsum(depth, dim=-1))
        weights = alpha * through
        return ((torch.sum(weights[..., None] * rgb, dim=-2) - view[:, 0]) ** 2).mean()


def fields(r):
    return Field(r), lambda n: ((torch.randn(4 * n, 6, 3), torch.rand(4 * n, 6, 3)), None)


class Graphed(Described):
    """GCN, GraphSAGE, GIN, GAT by edges or by a dense mask, message passing; the exporter refuses index_add."""

    def __init__(self, r):
        super().__init__(r)
        w, self.form = self.pick(8, 16), self.pick("gcn", "sage", "gin", "gat", "gatv2", "dense gat", "mpnn", "adjacency")
        self.adds = self.pick("expand", "repeat")
        self.first, self.second, self.out = nn.Linear(6, w), nn.Linear(2 * w if self.form == "sage" else w, w, bias=self.maybe("bias")), nn.Linear(w, 4)
        self.left, self.right = nn.Parameter(torch.randn(1, 2, w // 2)), nn.Parameter(torch.randn(1, 2, w // 2))
        self.message, self.cell = nn.Sequential(nn.Linear(2 * w, w), nn.ReLU(), nn.Linear(w, w)), nn.GRUCell(w, w)
        self.eps, self.mlp, self.w = nn.Parameter(torch.zeros(1)), nn.Sequential(nn.Linear(w, w), nn.BatchNorm1d(w), nn.ReLU(), nn.Linear(w, w)), w
        self.whole = self.maybe("pooled")

    def gathered(self, values, target, count):
        index = target.view(-1, *[1] * (values.dim() - 1))
        index = index.expand_as(values) if self.adds == "expand" else index.repeat(1, *values.shape[1:])
        return torch.zeros(count, *values.shape[1:]).scatter_add(0, index, values)

    def forward(self, x, edges):
        n, source, target = x.shape[0], edges[0], edges[1]
        x = F.relu(self.first(x))
        if self.form == "gcn":
            degree = self.gathered(torch.ones(target.shape[0]), target, n) + 1
            norm = degree.pow(-0.5)
            y = self.second(x)
            y = self.gathered(y[source] * (norm[source] * norm[target]).unsqueeze(-1), target, n) + y
        elif self.form == "sage":
            degree = self.gathered(torch.ones(target.shape[0], 1), target, n).clamp(min=1)
            y = self.second(torch.cat([x, self.gathered(x.index_select(0, source), target, n) / degree], dim=-1))
        elif self.form == "gin":
            y = self.mlp((1 + self.eps) * x + self.gathered(x[source], target, n))
        elif self.form in ("gat", "gatv2"):
            h = self.second(x).view(n, 2, -1)
            if self.form == "gat":
                e = F.leaky_relu((h * self.left).sum(-1)[source] + (h * self.right).sum(-1)[target], 0.2)
            else:
                e = (F.leaky_relu(h[source] + h[target], 0.2) * self.left).sum(dim=-1)
            e = torch.exp(e - e.max())
            a = e / (self.gathered(e, target, n)[target] + 1e-16)
            y = F.elu(self.gathered(h[source] * a.unsqueeze(-1), target, n).flatten(1))
        elif self.form == "mpnn":
            y = self.cell(self.gathered(self.message(torch.cat([x[source], x[target]], dim=-1)), target, n), x)
        else:
            near = torch.zeros(n, n)
            near[source, target] = 1.0
            if self.form == "adjacency":
                near = near + torch.eye(n)
                y = F.relu((near / near.sum(dim=1, keepdim=True)) @ self.second(x))
            else:
                h = self.second(x).view(n, 2, -1).transpose(0, 1)
                e = F.leaky_relu((h * self.left.transpose(0, 1)).sum(-1, keepdim=True) + (h * self.right.transpose(0, 1)).sum(-1).unsqueeze(1), 0.2)
                a = F.softmax(torch.where(near > 0, e, torch.full_like(e, -9e15)), dim=-1)
                y = F.elu((a @ h).transpose(0, 1).reshape(n, -1))
        y = self.out(y)
        return y.mean(0, keepdim=True) if self.whole else y


def graph_networks(r):
    model = Graphed(r)

    def data(n):
        nodes, edges = 5 * n, 12 * n
        return (torch.randn(nodes, 6), torch.randint(0, nodes, (2, edges))), torch.randint(0, 4, (1 if model.whole else nodes,))

    return model, data


FAMILIES = {"gated_convolutions": gated_convolutions, "conformer": conformer, "pyramid": pyramid, "recommender": recommender, "fields": fields,
            "graph_networks": graph_networks}
