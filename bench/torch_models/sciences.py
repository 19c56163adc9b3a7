"""Networks of the sciences and of research in sequences, in the form in which people publish them: molecules, fields, recurrences.

Forms are left out that no ONNX file tells from other ones: see architectures.py and frontier.py."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_models.architectures import Described
from torch_models.frontier import ACTS, mse


class Molecule(Described):
    """Atoms and residues: SchNet, EGNN, PaiNN, Evoformer's triangles and outer products, Graphormer, principal aggregators, MeshGraphNet."""

    def __init__(self, r):
        super().__init__(r)
        d = self.d = self.pick(8, 12)
        self.form, self.act = self.pick("schnet", "egnn", "painn", "triangle", "outer", "graphormer", "pna", "mesh", "gated"), self.pick("silu", "relu", "elu")
        self.table, self.norm, self.norm2 = nn.Embedding(9, d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.register_buffer("offset", torch.linspace(0, 5, 6))
        self.filter, self.lin1, self.lin2 = nn.Sequential(nn.Linear(6, d), nn.Softplus(), nn.Linear(d, d)), nn.Linear(d, d, bias=False), nn.Linear(d, d)
        self.edge = nn.Sequential(nn.Linear(2 * d + 1, d), nn.SiLU(), nn.Linear(d, d), nn.SiLU())
        self.coord, self.node = nn.Sequential(nn.Linear(d, d), nn.SiLU(), nn.Linear(d, 1, bias=False)), nn.Sequential(nn.Linear(2 * d, d), nn.SiLU(), nn.Linear(d, d))
        self.wide, self.rbf, self.u, self.v = nn.Sequential(nn.Linear(d, d), nn.SiLU(), nn.Linear(d, 3 * d)), nn.Linear(6, 3 * d), nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.pair, self.a, self.b, self.ga, self.gb, self.g, self.z = nn.Linear(6, d), *(nn.Linear(d, d) for _ in range(5)), nn.Linear(d, d)
        self.small, self.outer = nn.Linear(d, 3), nn.Linear(9, d)
        self.spatial, self.degree, self.qkv = nn.Embedding(6, 2), nn.Embedding(4, d), nn.Linear(d, 3 * d)
        self.towers, self.head, self.bias = nn.Linear(4 * d, d), nn.Linear(d, 1), nn.Linear(d, 2, bias=False)

    def smear(self, distance):
        return torch.exp(-2.0 * torch.pow(distance.unsqueeze(-1) - self.offset, 2))

    def add(self, values, index, like):
        return torch.zeros_like(like).scatter_add(0, index.unsqueeze(-1).expand_as(values), values)

    def forward(self, kinds, at, y, edges=None):
        n = kinds.shape[0]
        h, act = self.table(kinds), ACTS[self.act]
        if self.form in ("schnet", "egnn", "painn", "mesh"):
            i, j = edges[0], edges[1]
            delta = at[i] - at[j]
            if self.form == "schnet":
                d = delta.norm(dim=-1)
                w = self.filter(self.smear(d)) * (0.5 * (torch.cos(d * math.pi / 5.0) + 1.0)).unsqueeze(-1)
                h = h + self.lin2(F.softplus(self.add(self.lin1(h)[j] * w, i, h)) - math.log(2.0))
            elif self.form == "egnn":
                radial = torch.sum(delta ** 2, 1, keepdim=True)
                m = self.edge(torch.cat([h[i], h[j], radial], dim=1))
                moved = at + self.add(delta / (torch.sqrt(radial) + 1) * self.coord(m), i, at)
                h = h + self.node(torch.cat([h, self.add(m, i, h)], dim=1))
                return mse(self.head(h).squeeze(-1), y) + moved.pow(2).mean()
            elif self.form == "painn":
                d = torch.sqrt(torch.sum(delta * delta, dim=-1) + 1e-8)
                s, a, b = (self.wide(h)[j] * self.rbf(self.smear(d))).split(self.d, dim=-1)
                vectors = (a * b).unsqueeze(1) * (delta / d.unsqueeze(-1)).unsqueeze(-1)
                vectors = torch.zeros(n, 3, self.d).scatter_add(0, i.view(-1, 1, 1).expand(-1, 3, self.d), vectors)
                h = h + self.add(s, i, h)
                h = h + (self.u(vectors) * self.v(vectors)).sum(dim=1)
            else:
                e = torch.cat([h[i], h[j], delta.norm(dim=-1, keepdim=True)], dim=-1)
                e = self.norm(self.edge(e))
                h = h + self.norm2(self.node(torch.cat([h, self.add(e, i, h)], dim=-1)))
            return mse(self.head(h).squeeze(-1), y)
        far = torch.cdist(at.unsqueeze(0), at.unsqueeze(0)).squeeze(0) if self.form == "pna" else (at.unsqueeze(1) - at.unsqueeze(0)).pow(2).sum(-1)
        if self.form == "pna":
            near = torch.exp(-far).unsqueeze(-1) * h.unsqueeze(0)
            mean = near.mean(dim=1)
            std = torch.sqrt(F.relu(near.pow(2).mean(dim=1) - mean.pow(2)) + 1e-5)
            h = act(self.towers(torch.cat([h, mean, near.max(dim=1)[0], std], dim=-1)))
            return mse(self.head(h).squeeze(-1), y)
        z = self.pair(self.smear(far)) + h.unsqueeze(0) if self.form == "triangle" else self.pair(self.smear(far))
        if self.form == "triangle":
            t = self.norm(z)
            a, b = torch.sigmoid(self.ga(t)) * self.a(t), torch.sigmoid(self.gb(t)) * self.b(t)
            x = torch.einsum("ikc,jkc->ijc", a, b)
            z = z + torch.sigmoid(self.g(t)) * self.z(self.norm2(x))
            return mse(self.head(z.mean(1)).squeeze(-1), y)
        if self.form == "outer":
            a = self.small(self.norm(h.unsqueeze(0) + h.unsqueeze(1)))
            o = torch.einsum("sic,sjd->ijcd", a, a) / n
            z = z + self.outer(o.flatten(-2))
            return mse(self.head(F.relu(z).sum(0)).squeeze(-1), y)
        if self.form == "graphormer":
            h = h + self.degree(kinds.clamp(max=3))
        q, k, v = (u.view(n, 2, -1).transpose(0, 1) for u in self.qkv(self.norm(h)).chunk(3, dim=-1))
        a = q @ k.transpose(1, 2) * (self.d // 2) ** -0.5
        a = a + (self.spatial(far.clamp(0, 5).long()) if self.form == "graphormer" else self.bias(z)).permute(2, 0, 1)
        x = (torch.softmax(a, dim=-1) @ v).transpose(0, 1).reshape(n, -1)
        h = h + (torch.sigmoid(self.g(h)) * x if self.form == "gated" else self.lin2(x))
        return mse(self.head(act(h)).squeeze(-1), y)


def molecules(r):
    model = Molecule(r)

    def data(n):
        atoms = 3 * n
        edges = (torch.randint(0, atoms, (2, 8 * n)),) if model.form in ("schnet", "egnn", "painn", "mesh") else ()
        return (torch.randint(0, 9, (atoms,)), torch.randn(atoms, 3), torch.randn(atoms), *edges), None

    return model, data


class Physics(Described):
    """Operators and dynamics: DeepONet, Runge-Kutta and Euler steps, stencils of an equation, Koopman, Fourier layers by matrices, neural processes, oscillators."""

    def __init__(self, r):
        super().__init__(r)
        w = self.w = self.pick(8, 12)
        self.form, self.act, self.steps = self.pick("deeponet", "rk4", "euler", "stencil", "koopman", "fourier", "process", "kuramoto", "unet1d", "sindy", "leapfrog"), self.pick("tanh", "gelu", "silu"), self.pick(1, 2, 3)
        self.branch, self.trunk, self.b = nn.Sequential(nn.Linear(10, w), nn.Tanh(), nn.Linear(w, w)), nn.Sequential(nn.Linear(1, w), nn.Tanh(), nn.Linear(w, w), nn.Tanh()), nn.Parameter(torch.zeros(1))
        self.f, self.g = nn.Sequential(nn.Linear(10, w), nn.Tanh(), nn.Linear(w, 10)), nn.Sequential(nn.Linear(11, w), nn.ELU(), nn.Linear(w, 10))
        self.encoder, self.k, self.decoder = nn.Sequential(nn.Linear(10, w), nn.ReLU(), nn.Linear(w, 4)), nn.Linear(4, 4, bias=False), nn.Linear(4, 10)
        self.nu, self.lift, self.real, self.imaginary = nn.Parameter(torch.tensor(0.1)), nn.Conv1d(1, w, 1), nn.Parameter(torch.randn(w, w, 3)), nn.Parameter(torch.randn(w, w, 3))
        angle = 2 * math.pi * torch.arange(10).float()[:, None] * torch.arange(3).float()[None] / 10
        self.register_buffer("cosine", angle.cos())
        self.register_buffer("sine", angle.sin())
        self.skip, self.project, self.coupling, self.omega = nn.Conv1d(w, w, 1), nn.Conv1d(w, 1, 1), nn.Parameter(torch.randn(10, 10)), nn.Parameter(torch.randn(10))
        self.pair, self.xi, self.conv = nn.Sequential(nn.Linear(2, w), nn.ReLU(inplace=self.maybe("in place")), nn.Linear(w, w)), nn.Parameter(torch.randn(21, 10)), nn.Conv1d(1, 1, 3, padding=1, padding_mode="circular", bias=False)
        self.both, self.down, self.up = nn.Linear(w + 1, 2), nn.Conv1d(w, 2 * w, 3, 2, 1), nn.ConvTranspose1d(2 * w, w, 4, 2, 1)

    def forward(self, u, y):
        n, h = u.shape[0], 0.1
        if self.form == "deeponet":
            places = torch.linspace(0, 1, 10).unsqueeze(-1)
            return mse(torch.einsum("bp,qp->bq", self.branch(u), self.trunk(places)) + self.b, y)
        if self.form == "rk4":
            for _ in range(self.steps):
                k1 = self.f(u)
                k2 = self.f(u + 0.5 * h * k1)
                k3 = self.f(u + 0.5 * h * k2)
                k4 = self.f(u + h * k3)
                u = u + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            return mse(u, y)
        if self.form == "euler":
            for i in range(self.steps):
                t = torch.full((n, 1), i * h)
                u = u + h * self.g(torch.cat([u, t], dim=-1))
            return mse(u, y)
        if self.form == "stencil":
            p = self.f(u)
            left, right, centre = p[:, :-2], p[:, 2:], p[:, 1:-1]
            residual = centre * (right - left) / (2 * h) - self.nu * (right - 2 * centre + left) / h ** 2
            return mse(p, y) + (residual ** 2).mean()
        if self.form == "koopman":
            z, loss = self.encoder(u), 0
            loss = mse(self.decoder(z), u)
            for _ in range(self.steps):
                z = self.k(z)
            return loss + mse(self.decoder(z), y)
        if self.form in ("fourier", "unet1d"):
            x = self.lift(u.unsqueeze(1))
            if self.form == "unet1d":
                x = x + F.relu(self.up(ACTS[self.act](self.down(x))))
                return mse(self.project(x).squeeze(1), y)
            for _ in range(2):
                a, b = x @ self.cosine, x @ self.sine
                c = torch.einsum("bik,iok->bok", a, self.real) - torch.einsum("bik,iok->bok", b, self.imaginary)
                d = torch.einsum("bik,iok->bok", a, self.imaginary) + torch.einsum("bik,iok->bok", b, self.real)
                x = ACTS[self.act](c @ self.cosine.t() + d @ self.sine.t() + self.skip(x))
            return mse(self.project(x).squeeze(1), y)
        if self.form == "process":
            points = torch.stack([u, y], dim=-1)
            r = self.pair(points).mean(dim=1, keepdim=True).expand(-1, 10, -1)
            mu, log_sigma = self.both(torch.cat([r, u.unsqueeze(-1)], dim=-1)).split(1, dim=-1)
            sigma = 0.1 + 0.9 * F.softplus(log_sigma)
            return (0.5 * ((y.unsqueeze(-1) - mu) / sigma).pow(2) + sigma.log()).mean()
        if self.form == "kuramoto":
            for _ in range(self.steps):
                u = u + h * (self.omega + (self.coupling * torch.sin(u.unsqueeze(1) - u.unsqueeze(2))).mean(dim=-1))
            return mse(torch.cos(u), y)
        if self.form == "sindy":
            library = torch.cat([torch.ones(n, 1), u, u ** 2], dim=1)
            return mse(library @ self.xi, y) + 1e-3 * self.xi.abs().sum()
        p = y
        for _ in range(self.steps):
            p = p - 0.5 * h * self.f(u)
            u = u + h * p
            p = p + h * self.conv(u.unsqueeze(1)).squeeze(1)
        return p.pow(2).mean() + u.pow(2).mean()


def physics(r):
    return Physics(r), lambda n: ((torch.randn(n + 1, 10), torch.randn(n + 1, 10)), None)


class Recurring(Described):
    """Recurrences of research: DeltaNet, gated linear attention, xLSTM, Griffin, HGRN, liquid cells, Turing machines, Mogrifier, reservoirs, Hopfield retrieval."""

    def __init__(self, r):
        super().__init__(r)
        d = self.d = self.pick(6, 8)
        self.form, self.length = self.pick("delta", "gated", "mlstm", "slstm", "griffin", "hgrn", "liquid", "turing", "mogrifier", "reservoir", "hopfield", "indrnn"), self.pick(3, 5)
        self.table, self.norm = nn.Embedding(13, d), nn.LayerNorm(d)
        self.beta, self.alpha = nn.Linear(d, 1), nn.Linear(d, d)
        self.q, self.k, self.v = (nn.Linear(d, d, bias=False) for _ in range(3))
        self.gates, self.wide, self.rec = nn.Linear(d, 2), nn.Linear(d, 4 * d), nn.Linear(d, 4 * d, bias=False)
        self.decay, self.tau, self.u = nn.Parameter(torch.randn(d)), nn.Parameter(torch.ones(d)), nn.Parameter(torch.rand(d))
        self.memory, self.cell, self.shift, self.key = nn.Parameter(torch.randn(1, 5, d)), nn.GRUCell(2 * d, d), nn.Linear(d, 3), nn.Linear(d, d + 1)
        self.lstm, self.mq, self.mr = nn.LSTMCell(d, d), nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.register_buffer("reservoir", torch.randn(d, d) * 0.3)
        self.out, self.drop = nn.Linear(d, 13), nn.Dropout(self.pick(0.0, 0.1))

    def start(self, x, *shape):
        return x.new_zeros(x.shape[0], *shape)

    def forward(self, ids):
        x = self.norm(self.table(ids))
        n, t, d = x.shape
        rows = []
        if self.form in ("delta", "gated", "mlstm"):
            q, k, v = self.q(x), self.k(x), self.v(x)
            s, z = self.start(x, d, d), self.start(x, d)
            if self.form == "delta":
                k, b = F.normalize(k, dim=-1), torch.sigmoid(self.beta(x))
            elif self.form == "gated":
                a = torch.exp(F.logsigmoid(self.alpha(x)) / 16)
            else:
                i, f = torch.exp(self.gates(x)).chunk(2, dim=-1)
            for step in range(t):
                kt, vt, qt = k[:, step], v[:, step], q[:, step]
                if self.form == "delta":
                    old = torch.bmm(s, kt.unsqueeze(-1)).squeeze(-1)
                    s = s + torch.bmm(((vt - old) * b[:, step]).unsqueeze(-1), kt.unsqueeze(1))
                elif self.form == "gated":
                    s = s * a[:, step].unsqueeze(-1) + kt.unsqueeze(-1) * vt.unsqueeze(-2)
                else:
                    open_, kept = i[:, step], f[:, step]
                    s = kept.unsqueeze(-1) * s + open_.unsqueeze(-1) * vt.unsqueeze(-1) @ kt.unsqueeze(1)
                    z = kept * z + open_ * kt
                if self.form == "mlstm":
                    rows.append((s @ qt.unsqueeze(-1)).squeeze(-1) / torch.clamp((z * qt).sum(-1, keepdim=True).abs(), min=1.0))
                else:
                    rows.append(torch.einsum("bk,bkv->bv", qt, s) if self.form == "gated" else torch.bmm(s, qt.unsqueeze(-1)).squeeze(-1))
        elif self.form == "slstm":
            h = c = z = m = x.mean(dim=1)  # the exporter copies a constant for each of its readers
            wide = self.wide(x)
            for step in range(t):
                i, f, g, o = (wide[:, step] + self.rec(h)).chunk(4, dim=-1)
                f = F.logsigmoid(f)
                top = torch.max(f + m, i)
                i, f, m = torch.exp(i - top), torch.exp(f + m - top), top
                c, z = f * c + i * torch.tanh(g), f * z + i
                h = torch.sigmoid(o) * c / z
                rows.append(h)
        elif self.form in ("griffin", "hgrn", "liquid", "reservoir", "indrnn"):
            h = self.start(x, d)
            if self.form == "griffin":
                r, i = torch.sigmoid(self.alpha(x)), torch.sigmoid(self.q(x))
                a = torch.exp(-8 * F.softplus(self.decay) * r)
                g = torch.sqrt(1 - a ** 2 + 1e-6) * (i * x)
            elif self.form == "hgrn":
                low = torch.sigmoid(self.decay)
                a = low + (1 - low) * torch.sigmoid(self.alpha(x))
                g = (1 - a) * F.silu(self.q(x))
            else:
                v, rate = self.v(x), 1 / self.tau if self.form == "liquid" else None
            for step in range(t):
                if self.form in ("griffin", "hgrn"):
                    h = a[:, step] * h + g[:, step]
                elif self.form == "liquid":
                    f = torch.sigmoid(v[:, step] + self.q(h))
                    h = (h + 0.1 * f * self.u) / (1 + 0.1 * (rate + f))
                elif self.form == "reservoir":
                    h = 0.7 * h + 0.3 * torch.tanh(v[:, step] + h @ self.reservoir)
                else:
                    h = F.relu(v[:, step] + self.u * h)
                rows.append(h)
        elif self.form == "turing":
            m, h, w = self.memory.expand(n, -1, -1), self.start(x, d), x.new_ones(n, 5) / 5
            for step in range(t):
                read = torch.bmm(w.unsqueeze(1), m).squeeze(1)
                h = self.cell(torch.cat([x[:, step], read], dim=-1), h)
                key, strength = self.key(h).split([d, 1], dim=-1)
                content = F.softmax(F.softplus(strength) * F.cosine_similarity(m, key.unsqueeze(1), dim=-1), dim=-1)
                s = F.softmax(self.shift(h), dim=-1)
                moved = s[:, 0:1] * torch.roll(content, 1, 1) + s[:, 1:2] * content + s[:, 2:3] * torch.roll(content, -1, 1)
                w = moved / (moved.sum(dim=1, keepdim=True) + 1e-6)
                m = m * (1 - w.unsqueeze(-1) * 0.5) + w.unsqueeze(-1) * torch.tanh(h).unsqueeze(1)
                rows.append(h)
        elif self.form == "mogrifier":
            h, c = x.mean(dim=1), self.start(x, d)
            for step in range(t):
                y = x[:, step]
                y = 2 * torch.sigmoid(self.mq(h)) * y
                h = 2 * torch.sigmoid(self.mr(y)) * h
                h, c = self.lstm(y, (h, c))
                rows.append(self.drop(h))
        else:
            h = self.q(x)
            for _ in range(2):
                h = torch.softmax(h @ self.memory.transpose(1, 2) * 2.0, dim=-1) @ self.memory
            return self.out(self.drop(h)).flatten(0, 1)
        return self.out(self.drop(torch.stack(rows, dim=1))).flatten(0, 1)


def recurring(r):
    model = Recurring(r)
    return model, lambda n: ((torch.randint(0, 13, (n, model.length)),), torch.randint(0, 13, (n * model.length,)))


FAMILIES = {"molecules": molecules, "physics": physics, "recurring": recurring}
