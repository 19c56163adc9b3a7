"""Networks of research in the form in which people publish them: routed experts, adapters, distillation, forecasts.

Forms are left out that no ONNX file tells from other ones: see architectures.py. Those are besides: a straight-through estimate,
targets that the module detaches, products with 1.0, 1 / x and x.reciprocal(), and in loops an index or a quotient of the
same operands that each pass repeats. The exporter writes a constant for each of its readers, and no inputs that nothing reads."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_models.architectures import Described

ACTS = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu, "tanh": torch.tanh, "elu": F.elu}


def labels(n, classes=5):
    return torch.randint(0, classes, (n,))


def mse(a, b):
    return (a - b).pow(2).mean()


class Routed(Described):
    """Mixtures of experts: Switch, GShard's top-2, Mixtral's weights, expert choice, Soft MoE, shared experts, mixture of depths."""

    def __init__(self, r):
        super().__init__(r)
        d = self.d = self.pick(8, 12)
        self.form, self.act = self.pick("switch", "top2", "mixtral", "choice", "soft", "shared", "depths", "hash", "noisy"), self.pick(*ACTS)
        self.table, self.norm, self.router = nn.Embedding(17, d), nn.LayerNorm(d), nn.Linear(d, 4, bias=self.maybe("bias"))
        self.up, self.down = nn.Parameter(torch.randn(4, d, 2 * d) * 0.1), nn.Parameter(torch.randn(4, 2 * d, d) * 0.1)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(inplace=self.maybe("in place")), nn.Linear(2 * d, d)) for _ in range(4))
        self.slots, self.noise, self.head, self.drop = nn.Parameter(torch.randn(d, 4, 2)), nn.Linear(d, 4, bias=False), nn.Linear(d, 5), nn.Dropout(self.pick(0.0, 0.1))
        self.balance = self.maybe("balance")

    def wide(self, x):
        return torch.bmm(ACTS[self.act](torch.bmm(x, self.up)), self.down)

    def mix(self, x):
        n, t, d = x.shape
        flat = x.reshape(n * t, d)
        if self.form == "soft":
            logits = torch.einsum("btd,dep->btep", x, self.slots)
            dispatch, combine = logits.softmax(dim=1), logits.flatten(2).softmax(dim=-1).view(n, t, 4, 2)
            slots = torch.einsum("btd,btep->ebpd", x, dispatch).reshape(4, n * 2, d)
            return torch.einsum("ebpd,btep->btd", self.wide(slots).view(4, n, 2, d), combine), 0
        logits = self.router(flat)
        if self.form == "noisy":
            logits = logits + torch.randn_like(logits) * F.softplus(self.noise(flat))
        p = logits.softmax(dim=-1) if self.form != "depths" else logits
        if self.form == "choice":
            weights, chosen = p.t().topk(k=2 * n, dim=-1)
            y = self.wide(flat[chosen]) * weights.unsqueeze(-1)
            return torch.zeros(n * t, d).scatter_add(0, chosen.reshape(-1, 1).expand(-1, d), y.reshape(-1, d)).view(n, t, d), 0
        if self.form == "depths":
            weights, chosen = torch.topk(logits[:, 0].view(n, t), 3, dim=1)
            index = chosen.unsqueeze(-1).expand(-1, -1, d)
            y = self.experts[0](torch.gather(x, 1, index)) * torch.sigmoid(weights).unsqueeze(-1)
            return torch.scatter_add(torch.zeros(n, t, d), 1, index, y), 0
        gate, chosen = p.max(dim=-1) if self.form in ("switch", "hash") else torch.topk(p, 2, dim=-1)
        if self.form == "switch":
            hot = F.one_hot(chosen, 4).float()
            place = (torch.cumsum(hot, dim=0) - 1) * hot
            kept = hot * (place < 3).float()
            dispatch = kept.unsqueeze(-1) * F.one_hot(place.sum(-1).long().clamp(max=2), 3).unsqueeze(1)
            y = torch.einsum("tec,td->ecd", dispatch, flat)
            y = torch.einsum("tec,ecd->td", dispatch * gate[:, None, None], self.wide(y))
            return y.view(n, t, d), (hot.mean(0) * p.mean(0)).sum() * 4 if self.balance else 0
        if self.form == "top2":
            gate = gate / gate.sum(dim=-1, keepdim=True)
            y = torch.stack([e(flat) for e in self.experts], dim=1)
            y = torch.gather(y, 1, chosen.unsqueeze(-1).expand(-1, -1, d))
            return (y * gate.unsqueeze(-1)).sum(dim=1).view(n, t, d), (logits.logsumexp(dim=-1) ** 2).mean() if self.balance else 0
        if self.form == "hash":
            return sum(e(flat) * (chosen == i).float().unsqueeze(-1) for i, e in enumerate(self.experts)).mul(gate.unsqueeze(1)).view(n, t, d), 0
        full = torch.zeros(n * t, 4).scatter(1, chosen, gate)
        if self.form == "shared":
            y = self.experts[0](flat) + sum(full[:, i:i + 1] * self.experts[i](flat) for i in range(1, 4))
            return y.view(n, t, d), 0
        y = torch.einsum("te,etd->td", full, torch.stack([e(flat) for e in self.experts]))
        return y.reshape(n, t, d), 0

    def forward(self, ids, y):
        x = self.table(ids)
        h, aux = self.mix(self.norm(x))
        loss = F.cross_entropy(self.head((x + self.drop(h)).mean(1)), y)
        return loss + 0.01 * aux if torch.is_tensor(aux) else loss


def routed(r):
    return Routed(r), lambda n: ((torch.randint(0, 17, (n, 6)), labels(n)), None)


class Adapted(Described):
    """Frozen bodies with LoRA, bottleneck adapters, prompts, prefixes, IA3, BitFit, side networks, DoRA, VeRA, gated cross-attention."""

    def __init__(self, r):
        super().__init__(r)
        d, k = self.pick(8, 16), 2
        self.d, self.form = d, self.pick("lora", "adapter", "prompt", "prefix", "ia3", "bitfit", "side", "dora", "vera", "flamingo", "layers")
        self.table, self.place = nn.Embedding(19, d), nn.Embedding(16, d)
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.norms, self.up, self.down = nn.ModuleList(nn.LayerNorm(d) for _ in range(3)), nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
        for name, p in self.named_parameters():
            p.requires_grad = self.form == "bitfit" and name.endswith("bias") or self.form == "layers" and name.startswith(("up", "down", "norms.2"))
        self.a, self.b = (nn.ModuleList(nn.Linear(i, o, bias=False) for _ in range(2)) for i, o in ((d, k), (k, d)))
        self.narrow, self.widen = nn.ModuleList(nn.Linear(d, 3) for _ in range(2)), nn.ModuleList(nn.Linear(3, d) for _ in range(2))
        self.prompt, self.prefix = nn.Parameter(torch.randn(1, 3, d)), nn.Parameter(torch.randn(2, 1, 3, d))
        self.lk, self.lv, self.lf = nn.Parameter(torch.ones(d)), nn.Parameter(torch.ones(d)), nn.Parameter(torch.ones(2 * d))
        self.m, self.gate, self.media = nn.Parameter(torch.ones(d, 1)), nn.Parameter(torch.zeros(1)), nn.Linear(4, d)
        self.scale, self.drop, self.head, self.act = self.pick(2.0, 0.5), nn.Dropout(self.pick(0.0, 0.05)), nn.Linear(d, 5), self.pick("relu", "gelu", "silu")

    def lora(self, base, x, i):
        if self.form == "lora":
            return base(x) + self.b[i](self.a[i](self.drop(x))) * self.scale
        if self.form == "dora":
            w = base.weight + self.b[i].weight @ self.a[i].weight * self.scale
            return F.linear(x, self.m * (w / w.norm(p=2, dim=1, keepdim=True)), base.bias)
        return base(x) + self.lv * F.linear(self.lk[:2] * F.linear(x, self.a[0].weight), self.b[0].weight) if self.form == "vera" else base(x)

    def attend(self, x):
        n, t, d = x.shape
        q, k, v = self.lora(self.q, x, 0), self.k(x), self.lora(self.v, x, 1) if self.form != "vera" else self.v(x)
        if self.form == "ia3":
            k, v = k * self.lk, v * self.lv
        if self.form == "prefix":
            k, v = torch.cat([self.prefix[0].expand(n, -1, -1), k], dim=1), torch.cat([self.prefix[1].expand(n, -1, -1), v], dim=1)
        q, k, v = (y.view(n, -1, 2, d // 2).transpose(1, 2) for y in (q, k, v))
        a = F.softmax(q @ k.transpose(-2, -1) / math.sqrt(d // 2), dim=-1)
        return self.o((a @ v).transpose(1, 2).reshape(n, t, d))

    def forward(self, ids, image=None):
        n, t = ids.shape
        x = self.table(ids) + self.place(torch.arange(t))
        if self.form == "prompt":
            x = torch.cat([self.prompt.expand(n, -1, -1), x], dim=1)
        act = ACTS[self.act]
        h = self.attend(self.norms[0](x))
        if self.form == "adapter":
            h = h + self.widen[0](act(self.narrow[0](h)))
        x = x + h
        if self.form == "flamingo":
            q, m = self.a[0](self.norms[1](x)), self.media(image)
            a = (q @ self.a[1](m).transpose(1, 2)).softmax(dim=-1)
            x = x + self.gate.tanh() * (a @ m)
        y = act(self.up(self.norms[2](x)))
        y = self.down(y * self.lf if self.form == "ia3" else y)
        if self.form == "adapter":
            y = self.widen[1](act(self.narrow[1](y))) + y
        x = x + y
        if self.form == "side":
            g = self.gate.sigmoid()
            x = g * self.widen[0](act(self.narrow[0](x))) + (1 - g) * self.widen[1](F.relu(self.narrow[1](h)))
        return self.head(x.mean(dim=1))


def adapted(r):
    model = Adapted(r)
    image = lambda n: (torch.randn(n, 3, 4),) if model.form == "flamingo" else ()
    return model, lambda n: ((torch.randint(0, 19, (n, 6)), *image(n)), labels(n))


class Distilled(Described):
    """A student beside a frozen teacher: soft targets, hints, attention transfer, relations, decoupled logits, features of a projector, ensembles."""

    def __init__(self, r):
        super().__init__(r)
        c = self.pick(4, 8)
        self.form, self.t = self.pick("soft", "hint", "attention", "relation", "similarity", "decoupled", "mse", "ensemble", "dino", "cosine"), self.pick(1.0, 2.0, 4.0)
        body = lambda w: nn.Sequential(nn.Conv2d(3, w, 3, 2, 1), nn.BatchNorm2d(w), nn.ReLU(inplace=self.pick(True, False)), nn.Conv2d(w, w, 3, 2, 1), nn.ReLU())
        self.student, self.head = body(c), nn.Linear(c, 5)
        self.teachers, self.heads = nn.ModuleList(body(2 * c) for _ in range(2 if self.form == "ensemble" else 1)), nn.ModuleList(nn.Linear(2 * c, 5) for _ in range(2))
        for p in [*self.teachers.parameters(), *self.heads.parameters()]:
            p.requires_grad_(False)
        self.project, self.centre = nn.Conv2d(c, 2 * c, 1), nn.Parameter(torch.zeros(5), requires_grad=False)

    def forward(self, x, y=None):
        f, g = self.student(x), [t(x) for t in self.teachers]
        s, z = self.head(f.mean((2, 3))), [h(u.mean((2, 3))) for h, u in zip(self.heads, g)]
        t = self.t
        ce = F.cross_entropy(s, y) if y is not None else 0
        if self.form == "soft":
            return 0.5 * ce + 0.5 * t * t * F.kl_div(F.log_softmax(s / t, dim=1), F.softmax(z[0] / t, dim=1), reduction="batchmean")
        if self.form == "hint":
            return ce + 0.1 * mse(self.project(f), g[0])
        if self.form == "attention":
            a, b = (F.normalize(u.pow(2).mean(1).flatten(1)) for u in (f, g[0]))
            return ce + (a - b).pow(2).mean()
        if self.form == "relation":
            d, e = (((u.mean((2, 3)).unsqueeze(0) - u.mean((2, 3)).unsqueeze(1)) ** 2).sum(-1).clamp(min=1e-6).sqrt() for u in (f, g[0]))
            u = (d / d.mean() - e / e.mean()).abs()
            return ce + torch.where(u < 1, 0.5 * u ** 2, u - 0.5).mean()
        if self.form == "similarity":
            a, b = (F.normalize(u.flatten(1) @ u.flatten(1).t(), p=2, dim=1) for u in (f, g[0]))
            return ce + torch.norm(a - b) ** 2 / x.shape[0] ** 2
        if self.form == "decoupled":
            hot = F.one_hot(y, 5).float()
            p, q = F.softmax(s / t, dim=1), F.softmax(z[0] / t, dim=1)
            a, b = (torch.cat([(u * hot).sum(1, keepdim=True), (u * (1 - hot)).sum(1, keepdim=True)], dim=1) for u in (p, q))
            return ce + F.kl_div(torch.log(a), b, reduction="sum") / x.shape[0]
        if self.form == "mse":
            return ce + mse(s, z[0])
        if self.form == "ensemble":
            q = sum(F.softmax(u / t, dim=-1) for u in z) / len(z)
            return 0.9 * ce - 0.1 * (q * F.log_softmax(s, dim=-1)).sum(dim=1).mean()
        if self.form == "dino":
            q = F.softmax((z[0] - self.centre) / 0.04, dim=-1)
            return torch.sum(-q * F.log_softmax(s / 0.1, dim=-1), dim=-1).mean()
        return ce + (1 - F.cosine_similarity(self.project(f).flatten(1), g[0].flatten(1), dim=1)).mean()


def distilled(r):
    model = Distilled(r)
    return model, lambda n: ((torch.randn(n + 1, 3, 12, 12), *(() if model.form == "dino" else (labels(n + 1),))), None)


class Forecast(Described):
    """Forecasts: DLinear, PatchTST with RevIN, N-HiTS, TSMixer, Autoformer's decomposition, DeepAR, Informer's sparse queries, TFT, TimesNet, iTransformer."""

    def __init__(self, r):
        super().__init__(r)
        d, t, c = self.pick(8, 16), 12, 3
        self.d, self.form = d, self.pick("dlinear", "patch", "nhits", "mixer", "autoformer", "deepar", "informer", "selection", "times", "inverted", "quantile")
        self.seasonal, self.trend = nn.Linear(t, 4), nn.Linear(t, 4)
        self.pool = nn.AvgPool1d(kernel_size=5, stride=1)
        self.gain, self.bias, self.patch, self.place = nn.Parameter(torch.ones(c)), nn.Parameter(torch.zeros(c)), nn.Linear(4, d), nn.Parameter(torch.zeros(1, 5, d))
        self.layer = nn.TransformerEncoderLayer(d, 2, 2 * d, dropout=self.pick(0.0, 0.1), batch_first=True, activation=self.pick("relu", "gelu"), norm_first=self.maybe("first"))
        self.flat, self.stacks = nn.Linear(5 * d, 4), nn.ModuleList(nn.Sequential(nn.Linear(t // k, d), nn.ReLU(), nn.Linear(d, t // k + 2)) for k in (1, 2, 4))
        self.tb, self.cb = nn.ModuleList(nn.Linear(t, t) for _ in range(2)), nn.ModuleList(nn.Sequential(nn.Linear(c, d), nn.ReLU(), nn.Dropout(0.1), nn.Linear(d, c), nn.Dropout(0.1)) for _ in range(2))
        self.bns, self.lstm, self.mu, self.sigma = nn.ModuleList(nn.BatchNorm1d(t * c) for _ in range(2)), nn.LSTM(c, d, self.pick(1, 2), batch_first=True), nn.Linear(d, c), nn.Linear(d, c)
        self.embed, self.q, self.k, self.v, self.out = nn.Conv1d(c, d, 3, padding=1, padding_mode="circular"), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, c)
        self.lift, self.grns, self.weigh = nn.ModuleList(nn.Linear(1, d) for _ in range(c)), nn.ModuleList(nn.Linear(d, 2 * d) for _ in range(c)), nn.Linear(c * d, c)
        self.ln, self.invert, self.backward_map, self.conv = nn.LayerNorm(d), nn.Linear(t, d), nn.Linear(d, 4), nn.Conv2d(d, d, 3, padding=1)
        self.three = nn.Linear(t, 4 * 3)

    def parts(self, x):
        front, end = x[:, :1].repeat(1, 2, 1), x[:, -1:].repeat(1, 2, 1)
        mean = self.pool(torch.cat([front, x, end], dim=1).permute(0, 2, 1)).permute(0, 2, 1)
        return x - mean, mean

    def forward(self, x, y):
        n, t, c = x.shape
        if self.form == "dlinear":
            a, b = self.parts(x)
            return mse((self.seasonal(a.permute(0, 2, 1)) + self.trend(b.permute(0, 2, 1))).permute(0, 2, 1), y)
        if self.form == "patch":
            mean = x.mean(dim=1, keepdim=True)
            std = torch.sqrt(torch.var(x, dim=1, keepdim=True, unbiased=False) + 1e-5)
            z = ((x - mean) / std * self.gain + self.bias).permute(0, 2, 1)
            z = self.patch(z.unfold(2, 4, 2)).reshape(n * c, 5, self.d) + self.place
            z = self.flat(self.layer(z).flatten(1)).view(n, c, 4).permute(0, 2, 1)
            return mse((z - self.bias) / (self.gain + 1e-10) * std + mean, y)
        if self.form == "nhits":
            z, total = x.permute(0, 2, 1), 0
            for k, stack in zip((1, 2, 4), self.stacks):
                theta = stack(F.max_pool1d(z, k, k) if k > 1 else z)
                z = z - F.interpolate(theta[..., :-2], size=12, mode="nearest")
                total = total + F.interpolate(theta[..., -2:], size=4, mode="linear")
            return (total.permute(0, 2, 1) - y).abs().mean()
        if self.form == "mixer":
            for i in range(2):
                z = self.bns[i](x.reshape(n, -1)).view(n, t, c).transpose(1, 2)
                x = x + F.relu(self.tb[i](z)).transpose(1, 2)
                x = x + self.cb[i](x)
            return (self.trend(x.transpose(1, 2)).transpose(1, 2) - y).abs().mean()
        if self.form == "deepar":
            h, _ = self.lstm(x)
            h = h[:, -4:]
            mu, sigma = self.mu(h), F.softplus(self.sigma(h)) + 1e-6
            return (torch.log(sigma) + 0.5 * ((y - mu) / sigma) ** 2 + 0.5 * math.log(2 * math.pi)).mean()
        if self.form == "inverted":
            z = self.layer(self.invert(x.transpose(1, 2)))
            e = (self.backward_map(z).transpose(1, 2) - y).abs()
            return (e + F.softplus(-2.0 * e) - math.log(2.0)).mean()
        if self.form == "quantile":
            e = y.unsqueeze(-1) - self.three(x.transpose(1, 2)).view(n, c, 4, 3).transpose(1, 2)
            q = torch.tensor([0.1, 0.5, 0.9])
            return torch.max(q * e, (q - 1) * e).sum(-1).mean()
        if self.form == "selection":
            h = [lift(x[..., i:i + 1]) for i, lift in enumerate(self.lift)]
            w = F.softmax(self.weigh(torch.cat(h, dim=-1)), dim=-1).unsqueeze(-2)
            z = torch.stack([self.ln(u + F.glu(g(F.elu(u)), dim=-1)) for u, g in zip(h, self.grns)], dim=-1)
            z = (z * w).sum(dim=-1)
            return mse(self.out(z)[:, -4:], y)
        h = self.embed(x.permute(0, 2, 1)).transpose(1, 2)
        if self.form == "times":
            z = h.reshape(n, 3, 4, self.d).permute(0, 3, 1, 2).contiguous()
            z = F.gelu(self.conv(z)).permute(0, 2, 3, 1).reshape(n, -1, self.d)
            return mse(self.out(self.ln(z + h))[:, -4:, :], y)
        q, k, v = self.q(h), self.k(h), self.v(h)
        if self.form == "autoformer":
            a = F.softmax(torch.stack([(q * torch.roll(k, -i, 1)).mean((1, 2)) for i in (1, 2, 3)], -1), dim=-1)
            z = sum(torch.roll(v, -i - 1, 1) * a[:, i].view(n, 1, 1) for i in range(3))
            a, b = self.parts(h + z)
            return mse(self.out(self.ln(a) + b)[:, -4:], y)
        s = q @ k.transpose(-2, -1)
        top = (s.max(-1)[0] - s.sum(-1) / t).topk(3, sorted=False)[1]
        chosen = torch.gather(q, 1, top.unsqueeze(-1).expand(-1, -1, self.d))
        z = v.mean(dim=-2, keepdim=True).expand(n, t, self.d).clone()
        z = z.scatter(1, top.unsqueeze(-1).expand(-1, -1, self.d), F.softmax(chosen @ k.transpose(-2, -1) / math.sqrt(self.d), -1) @ v)
        return mse(self.out(h + z)[:, -4:], y)


def forecasts(r):
    return Forecast(r), lambda n: ((torch.randn(n + 1, 12, 3), torch.randn(n + 1, 4, 3)), None)


FAMILIES = {"routed": routed, "adapted": adapted, "distilled": distilled, "forecasts": forecasts}
