"""Loops over time, shared weights and several losses, in the form in which people publish them.

Forms are left out that no ONNX file tells from other ones: see architectures.py."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_models.architectures import Described


class Translator(Described):
    """Encoder and decoder cells with attention of Bahdanau or Luong, a pointer, teacher forcing."""

    def __init__(self, r):
        super().__init__(r)
        w, self.kind, self.form = self.pick(8, 12), self.pick("GRU", "LSTM"), self.pick("bahdanau", "dot", "general", "pointer")
        self.both = self.maybe("both ways", 0.3)
        self.source, self.target = nn.Embedding(20, 8), nn.Embedding(20, 8)
        self.encoder = getattr(nn, self.kind)(8, w // 2 if self.both else w, batch_first=True, bidirectional=self.both)
        self.feeds = self.maybe("feeds")
        self.cell = getattr(nn, self.kind + "Cell")(8 + w if self.feeds else 8, w)
        self.u, self.v, self.score = nn.Linear(w, w), nn.Linear(w, w, bias=False), nn.Linear(w, 1, bias=False)
        self.join, self.out, self.drop, self.w = nn.Linear(2 * w, w), nn.Linear(w, 20), nn.Dropout(self.pick(0, 0.1)), w

    def forward(self, x, y):
        n = x.shape[0]
        memory, _ = self.encoder(self.drop(self.source(x)))
        h, context, steps = memory[:, -1], memory.mean(1), []
        c = torch.tanh(self.v(h)) if self.kind == "LSTM" else None
        keys = self.u(memory) if self.form != "dot" else memory
        for t in range(y.shape[1]):
            z = self.target(y[:, t])
            z = torch.cat([z, context], dim=1) if self.feeds else z
            if self.kind == "LSTM":
                h, c = self.cell(z, (h, c))
            else:
                h = self.cell(z, h)
            if self.form in ("bahdanau", "pointer"):
                e = self.score(torch.tanh(keys + self.v(h).unsqueeze(1))).squeeze(2)
            else:
                e = torch.bmm(keys, h.unsqueeze(2)).squeeze(2)
            if self.form == "pointer":
                steps.append(F.log_softmax(e, dim=1))
                continue
            a = F.softmax(e, dim=1)
            context = torch.bmm(a.unsqueeze(1), memory).squeeze(1)
            steps.append(self.out(torch.tanh(self.join(torch.cat([h, context], dim=1)))))
        return torch.stack(steps, dim=1).flatten(0, 1)


def translator(r):
    length, target = r.choice([4, 6]), r.choice([1, 3])
    model = Translator(r)
    return model, lambda n: ((torch.randint(0, 20, (n, length)), torch.randint(0, 20, (n, target))), torch.randint(0, length, (n * target,)))


class Chained(Described):
    """A tagger with a CRF: the forward algorithm in a loop of logsumexp; a mixture of softmaxes; an HMM."""

    def __init__(self, r):
        super().__init__(r)
        self.form = self.pick("crf", "crf", "mixture", "hmm")
        self.embed, self.body, self.tags = nn.Embedding(20, 8), nn.LSTM(8, 6, batch_first=True, bidirectional=self.maybe("both", 0.4)), 4
        wide = 12 if self.body.bidirectional else 6
        self.out, self.transitions = nn.Linear(wide, 4), nn.Parameter(torch.randn(4, 4))
        self.start, self.end = nn.Parameter(torch.randn(4)), nn.Parameter(torch.randn(4))
        self.prior, self.latent, self.decode = nn.Linear(wide, 3, bias=False), nn.Linear(wide, 3 * 5), nn.Linear(5, 20)
        self.score, self.ends = self.pick("gather", "index"), self.maybe("ends")

    def forward(self, x, y=None):
        h, _ = self.body(self.embed(x))
        if self.form == "mixture":
            latent = torch.tanh(self.latent(h)).view(-1, 5)
            prior = F.softmax(self.prior(h).view(-1, 3), -1)
            p = F.softmax(self.decode(latent).view(-1, 20), -1).view(h.shape[0], -1, 20)
            p = (p.view(-1, 3, 20) * prior.unsqueeze(2).expand(-1, 3, 20)).sum(1)
            return F.nll_loss(torch.log(p.add(1e-8)), y.flatten())
        e, (n, t) = self.out(h), x.shape
        if self.form == "hmm":
            e = F.log_softmax(e, -1)
            alpha = self.start.log_softmax(0) + e[:, 0]
            moves = self.transitions.log_softmax(1)
            for i in range(1, t):
                alpha = torch.logsumexp(alpha.unsqueeze(2) + moves, dim=1) + e[:, i]
            return -torch.logsumexp(alpha, dim=1).mean()
        tags = y
        alpha = self.start + e[:, 0]
        for i in range(1, t):
            alpha = torch.logsumexp(alpha.unsqueeze(2) + self.transitions + e[:, i].unsqueeze(1), dim=1)
        total = torch.logsumexp(alpha + self.end if self.ends else alpha, dim=1)
        own = e.gather(2, tags.unsqueeze(2)).squeeze(2).sum(1) if self.score == "gather" else sum(e[torch.arange(n), i, tags[:, i]] for i in range(t))
        own = own + self.start[tags[:, 0]] + self.transitions[tags[:, :-1], tags[:, 1:]].sum(1)
        if self.ends:
            own = own + self.end[tags[:, -1]]
        return (total - own).mean()


def chains(r):
    length, model = r.choice([2, 5]), Chained(r)

    def data(n):
        tokens, tags = torch.randint(0, 20, (n, length)), torch.randint(0, 4, (n, length))
        return ((tokens,) if model.form == "hmm" else (tokens, tags)), None

    return model, data


class Scanned(Described):
    """Mamba, S4D, linear recurrences, RWKV, minGRU, retention, SRU, QRNN."""

    def __init__(self, r, length):
        super().__init__(r)
        d, self.form, self.n = self.pick(6, 8), self.pick("mamba", "mamba", "s4d", "lru", "rwkv", "mingru", "retention", "sru"), 4
        self.embed, self.norm, self.head = nn.Embedding(20, d), nn.LayerNorm(d), nn.Linear(d, 20)
        e = self.e = 2 * d if self.form == "mamba" else d
        self.into, self.outof = nn.Linear(d, 2 * e, bias=self.maybe("bias")), nn.Linear(e, d, bias=False)
        self.conv = nn.Conv1d(e, e, 4, groups=e, padding=3, bias=self.maybe("conv bias"))
        self.x_proj, self.dt_proj = nn.Linear(e, 2 + 2 * self.n, bias=False), nn.Linear(2, e)
        self.a_log, self.skip = nn.Parameter(torch.log(torch.arange(1, self.n + 1).float().repeat(e, 1))), nn.Parameter(torch.ones(e))
        self.mixes = nn.ParameterList(nn.Parameter(torch.rand(1, 1, d)) for _ in range(5))
        self.projections = nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(5))
        self.up, self.down = nn.Linear(d, 4 * d, bias=False), nn.Linear(4 * d, d, bias=False)
        self.decay, self.first = nn.Parameter(torch.randn(d)), nn.Parameter(torch.randn(d))
        self.shift, self.wide, self.deltas = nn.ZeroPad2d((0, 0, 1, -1)), nn.Linear(d, 3 * d), self.pick("einsum", "broadcast")
        self.register_buffer("zero_state", torch.zeros(1, d))

    def mamba(self, x):
        x, gate = self.into(x).chunk(2, dim=-1)
        x = F.silu(self.conv(x.transpose(1, 2))[..., :x.shape[1]].transpose(1, 2))
        dt, b, c = self.x_proj(x).split([2, self.n, self.n], dim=-1)
        dt, a = F.softplus(self.dt_proj(dt)), -torch.exp(self.a_log)
        if self.deltas == "einsum":
            da = torch.exp(torch.einsum("bld,dn->bldn", dt, a))
            dbx = torch.einsum("bld,bln,bld->bldn", dt, b, x)
        else:
            da, dbx = torch.exp(dt.unsqueeze(-1) * a), (dt * x).unsqueeze(-1) * b.unsqueeze(2)
        h, ys = torch.zeros(x.shape[0], self.e, self.n), []
        for i in range(x.shape[1]):
            h = da[:, i] * h + dbx[:, i]
            ys.append(torch.einsum("bdn,bn->bd", h, c[:, i]) if self.deltas == "einsum" else (h * c[:, i].unsqueeze(1)).sum(-1))
        y = torch.stack(ys, dim=1) + x * self.skip
        return self.outof(y * F.silu(gate))

    def rwkv(self, x):
        last = self.shift(x)
        k, v, g = (p(x * m + last * (1 - m)) for p, m in zip(self.projections, self.mixes[:3]))
        n, t, d = x.shape
        num, den, ys = k[:, 0] * 0, v[:, 0] * 0, []
        w = torch.exp(-torch.exp(self.decay)) if t > 1 else None
        for i in range(t):
            plus = torch.exp(self.first + k[:, i])
            ys.append((num + plus * v[:, i]) / (den + plus))
            if i + 1 < t:
                e = torch.exp(k[:, i])
                num, den = w * num + e * v[:, i], w * den + e
        x = x + self.projections[3](torch.sigmoid(g) * torch.stack(ys, dim=1))
        last = F.pad(x, (0, 0, 1, 0))[:, :-1]
        return torch.sigmoid(self.projections[4](last)) * self.down(torch.relu(self.up(x * self.mixes[3] + last * (1 - self.mixes[3]))) ** 2)

    def mix(self, x):
        n, t, d = x.shape
        if self.form in ("mamba", "rwkv"):
            return getattr(self, self.form)(x)
        if self.form == "s4d":
            k = torch.arange(t)
            kernel = (torch.exp(-torch.exp(self.a_log).unsqueeze(-1) * 0.1 * k)).sum(1)
            y = F.conv1d(F.pad(x.transpose(1, 2), (t - 1, 0)), kernel.flip(-1).unsqueeze(1), groups=d).transpose(1, 2)
            return self.outof(F.gelu(y + x * self.skip))
        if self.form == "retention":
            q, k, v = self.wide(x).chunk(3, dim=-1)
            at = torch.arange(t)
            decay = torch.tril(0.9 ** (at[:, None] - at[None, :]).float())
            return self.outof((q @ k.transpose(1, 2)) * d ** -0.5 * decay @ v)
        a, b, c = self.wide(x).chunk(3, dim=-1)
        h, ys, decay = torch.zeros(n, d), [], torch.sigmoid(self.decay) if self.form == "lru" else None
        for i in range(t):
            if self.form == "lru":
                h = decay * h + a[:, i]
            elif self.form == "mingru":
                z = torch.sigmoid(b[:, i])
                h = (1 - z) * h + z * a[:, i]
            else:
                f = torch.sigmoid(b[:, i] + self.decay)
                h = f * h + (1 - f) * a[:, i]
            ys.append(h)
        y = torch.stack(ys, 1)
        if self.form == "sru":
            g = torch.sigmoid(c)
            return g * torch.tanh(y) + (1 - g) * x
        return self.outof(y)

    def forward(self, x):
        x = self.embed(x)
        x = x + self.mix(self.norm(x))
        return self.head(x.mean(1))


def scans(r):
    length = r.choice([1, 4, 5])
    return Scanned(r, length), lambda n: ((torch.randint(0, 20, (n, length)),), torch.randint(0, 20, (n,)))


class Capsules(Described):
    """Capsules: squashing and routing by agreement. Slots: attention normalised over the slots."""

    def __init__(self, r):
        super().__init__(r)
        self.form, self.rounds = self.pick("routing", "slots"), self.pick(1, 2, 3)
        self.stem = nn.Conv2d(3, 8, 5, 2)
        self.weights = nn.Parameter(torch.randn(5, 18, 6, 4) * 0.1)
        self.slots, self.norms = nn.Parameter(torch.randn(1, 3, 8)), nn.ModuleList(nn.LayerNorm(8) for _ in range(3))
        self.q, self.k, self.v, self.cell = (nn.Linear(8, 8, bias=False) for _ in range(3)), None, None, nn.GRUCell(8, 8)
        self.q, self.k, self.v = (nn.Linear(8, 8, bias=False) for _ in range(3))
        self.mlp, self.out, self.margin = nn.Sequential(nn.Linear(8, 12), nn.ReLU(self.maybe("in place")), nn.Linear(12, 8)), nn.Linear(8, 5), self.maybe("margin")

    @staticmethod
    def squash(x):
        square = (x ** 2).sum(-1, keepdim=True)
        return square / (1 + square) * x / (torch.sqrt(square) + 1e-8)

    def forward(self, x):
        x = F.relu(self.stem(x))
        n = x.shape[0]
        if self.form == "routing":
            u = self.squash(x.view(n, -1, 4))
            votes = torch.matmul(self.weights, u[:, None, :, :, None]).squeeze(-1)
            logits = torch.zeros(n, 5, 18)
            for i in range(self.rounds):
                c = F.softmax(logits, dim=1)
                v = self.squash((c[..., None] * votes).sum(dim=2))
                if i + 1 < self.rounds:
                    logits = logits + (votes * v[:, :, None]).sum(-1)
            lengths = v.norm(dim=-1)
            return F.relu(0.9 - lengths).pow(2).mean() if self.margin else -torch.log(lengths + 1e-8).mean()
        x = self.norms[0](x.flatten(2).transpose(1, 2))
        slots, k, v = self.slots.expand(n, -1, -1), self.k(x), self.v(x)
        for _ in range(self.rounds):
            q = self.q(self.norms[1](slots))
            a = F.softmax(torch.einsum("bjd,bid->bij", k, q) * 8 ** -0.5, dim=1) + 1e-8
            a = a / a.sum(dim=-1, keepdim=True)
            slots = self.cell(torch.einsum("bjd,bij->bid", v, a).reshape(-1, 8), slots.reshape(-1, 8)).reshape(n, -1, 8)
            slots = slots + self.mlp(self.norms[2](slots))
        return self.out(slots.mean(1)).pow(2).mean()


def capsules(r):
    return Capsules(r), lambda n: ((torch.randn(n, 3, 9, 9),), None)


class Twins(Described):
    """Shared weights: siamese, triplet, SimCLR, BYOL with a frozen teacher, Barlow, VICReg, CLIP, tasks with several losses."""

    def __init__(self, r):
        super().__init__(r)
        self.form = self.pick("siamese", "triplet", "simclr", "byol", "barlow", "vicreg", "clip", "tasks", "uncertain")
        body = lambda: nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1), nn.BatchNorm2d(6), nn.ReLU(self.in_place), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 8))
        self.in_place, self.hidden = self.maybe("in place"), self.pick("bn", "none")
        self.body, self.project = body(), nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8) if self.hidden == "bn" else nn.Identity(), nn.ReLU(self.in_place), nn.Linear(8, 6))
        self.predict, self.scale = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 6)), nn.Parameter(torch.tensor(2.0))
        if self.form == "byol":
            self.teacher = nn.Sequential(body(), nn.Linear(8, 6)).requires_grad_(False)
        if self.form == "clip":
            self.words, self.text = nn.Embedding(20, 8), nn.Linear(8, 6)
        self.tasks, self.weights = nn.ModuleList(nn.Linear(8, o) for o in (5, 1, 4)), nn.Parameter(torch.zeros(3))
        self.once, self.distance = self.maybe("one batch"), self.pick("abs", "square", "pairwise")

    def forward(self, x, y):
        n = x.shape[0]
        if self.form in ("tasks", "uncertain"):
            h = F.relu(self.body(x))
            a, b, c = (t(h) for t in self.tasks)
            losses = [F.cross_entropy(a, torch.arange(n) % 5), ((b.squeeze(-1) - x.mean((1, 2, 3))) ** 2).mean(), F.binary_cross_entropy_with_logits(c, y[:, 0, :4, 0].sigmoid())]
            if self.form == "tasks":
                return losses[0] + 0.5 * losses[1] + 0.1 * losses[2]
            losses = torch.stack(losses)
            return (torch.exp(-self.weights) * losses + self.weights).sum()
        if self.form == "siamese":
            a, b = self.body(x), self.body(y)
            d = (a - b).abs() if self.distance == "abs" else (a - b) ** 2
            return F.cross_entropy(self.tasks[0](d), torch.arange(n) % 5)
        if self.form == "triplet":
            a, p, q = self.body(x), self.body(y), self.body(x.flip(3))
            near, far = (((a - t) ** 2).sum(1) for t in (p, q))
            return F.relu(near - far + 0.2).mean()
        if self.form == "clip":
            a = self.project(self.body(x))
            b = self.text(self.words((y[:, 0, :, 0] > 0).long()).mean(1))
            a, b = a / a.norm(dim=1, keepdim=True), b / b.norm(dim=1, keepdim=True)
            logits = self.scale.exp() * a @ b.t()
            labels = torch.arange(n)
            return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2
        if self.once:
            a, b = self.project(self.body(torch.cat([x, y], dim=0))).chunk(2, dim=0)
        else:
            a, b = self.project(self.body(x)), self.project(self.body(y))
        if self.form == "byol":
            p, q = F.normalize(self.predict(a), dim=-1), F.normalize(self.predict(b), dim=-1)
            with torch.no_grad():
                s, t = F.normalize(self.teacher(x), dim=-1), F.normalize(self.teacher(y), dim=-1)
            return ((2 - 2 * (p * t).sum(dim=-1)) + (2 - 2 * (q * s).sum(dim=-1))).mean()
        if self.form == "simclr":
            z = F.normalize(torch.cat([a, b]), dim=1)
            s = z @ z.t() / 0.5
            s = s.masked_fill(torch.eye(2 * n, dtype=torch.bool), -1e9)
            return F.cross_entropy(s, (torch.arange(2 * n) + n) % (2 * n))
        if self.form == "barlow":
            a, b = ((z - z.mean(0)) / (z.std(0, unbiased=False) + 1e-5) for z in (a, b))
            c = a.t() @ b / n
            off = 1 - torch.eye(6)  # the exporter writes an If for torch.diagonal
            return (((c - 1) * torch.eye(6)) ** 2).sum() + 0.005 * ((c * off) ** 2).sum()
        same = ((a - b) ** 2).mean()
        a, b = a - a.mean(dim=0), b - b.mean(dim=0)
        spread = F.relu(1 - torch.sqrt(a.var(dim=0, unbiased=False) + 1e-4)).mean() + F.relu(1 - torch.sqrt(b.var(dim=0, unbiased=False) + 1e-4)).mean()
        c = (a.t() @ a / n) * (1 - torch.eye(6))
        return 25 * same + 25 * spread + c.pow(2).sum() / 6


def twins(r):
    model, rows = Twins(r), r.choice([2, 10])
    return model, lambda n: ((torch.randn(n * rows, 3, 8, 8), torch.randn(n * rows, 3, 8, 8)), None)


FAMILIES = {"translator": translator, "chains": chains, "scans": scans, "capsules": capsules, "twins": twins}
