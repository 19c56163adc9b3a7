"""Ranking, retrieval and language in the form in which people publish them: losses over pairs and lists, variants of decoders and encoders.

Forms are left out that no ONNX file tells from other ones: see architectures.py and frontier.py."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_models.architectures import Described


class Ranked(Described):
    """Ranks and pools: ListNet, LambdaRank, BPR, SASRec, sampled softmax, MoCo's queue, proxies, circles, ordinals, ColBERT, sentence pairs."""

    def __init__(self, r):
        super().__init__(r)
        d = self.pick(6, 8)
        self.form = self.pick("listnet", "lambda", "bpr", "sasrec", "sampled", "moco", "proxy", "circle", "coral", "colbert", "pairs", "multi", "plackett")
        self.net = nn.Sequential(nn.Linear(d, 12), nn.ReLU(inplace=self.maybe("in place")), nn.Dropout(self.pick(0.0, 0.1)), nn.Linear(12, d))
        self.users, self.items, self.score = nn.Embedding(11, d), nn.Embedding(17, d, padding_idx=self.pick(None, 0)), nn.Linear(d, 1, bias=False)
        self.q, self.k, self.v, self.norm = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.LayerNorm(d)
        self.register_buffer("queue", F.normalize(torch.randn(d, 6), dim=0))
        self.register_buffer("log_q", torch.log(torch.rand(17) + 0.1))
        self.proxies, self.cuts, self.pair = nn.Parameter(torch.randn(5, d)), nn.Parameter(torch.zeros(4)), nn.Linear(4 * d, 3)
        self.d = d

    def forward(self, *inputs):  # the exporter drops inputs that nothing reads
        inputs = list(inputs)
        users = None if self.form == "colbert" else inputs.pop(0)
        items = None if self.form in ("proxy", "circle", "multi", "coral") else inputs.pop(0)
        grades = inputs.pop(0) if inputs else None
        n = (items if users is None else users).shape[0]
        u = None if users is None else self.users(users)
        v = None if items is None else self.items(items)
        if self.form == "sasrec":
            a = self.q(v) @ self.k(v).transpose(-2, -1) / math.sqrt(self.d)
            a = a.masked_fill(torch.ones(4, 4, dtype=torch.bool).triu(1), -1e9)
            h = self.norm(v + F.softmax(a, dim=-1) @ self.v(v))
            h = h[:, :-1]
            pos, neg = (h * v[:, 1:]).sum(-1), (h * u.unsqueeze(1)).sum(-1)
            return -(torch.log(torch.sigmoid(pos) + 1e-24) + torch.log(1 - torch.sigmoid(neg) + 1e-24)).mean()
        if self.form == "colbert":
            q, c = F.normalize(self.net(v), dim=-1), F.normalize(self.q(v), dim=-1)
            s = torch.einsum("aqd,bcd->abqc", q, c).max(dim=-1).values.sum(-1)
            return F.cross_entropy(s, torch.arange(n))
        if self.form == "pairs":
            mask = (grades > 0).float().unsqueeze(-1)
            a, b = (self.net(v) * mask).sum(1) / mask.sum(1).clamp(min=1e-9), self.q(u)
            return F.cross_entropy(self.pair(torch.cat([a, b, torch.abs(a - b), a * b], dim=-1)), grades[:, 0])
        if self.form in ("listnet", "plackett", "lambda"):
            s = self.score(self.net(v) * u.unsqueeze(1)).squeeze(-1)
            if self.form == "listnet":
                return -(F.softmax(grades.float(), dim=1) * F.log_softmax(s, dim=1)).sum(dim=1).mean()
            if self.form == "plackett":
                order = torch.gather(s, 1, torch.argsort(grades, dim=1, descending=True))
                return (torch.logsumexp(order, dim=1) - order[:, 0]).mean()
            diff = s.unsqueeze(2) - s.unsqueeze(1)
            gain = torch.sign(grades.unsqueeze(2) - grades.unsqueeze(1)).float()
            return (F.softplus(-gain * diff) * gain.abs()).sum() / (gain.abs().sum() + 1)
        x = self.net(u)
        if self.form == "bpr":
            diff = (x * v[:, 0]).sum(-1) - (x * v[:, 1]).sum(-1)
            return -F.logsigmoid(diff).mean() + 1e-4 * (x.norm(2).pow(2) + v.norm(2).pow(2)) / n
        if self.form == "sampled":
            s = x @ v[:, 0].t() - self.log_q[items[:, 0]]
            return F.cross_entropy(s, torch.arange(n))
        x = F.normalize(x, dim=1)
        if self.form == "moco":
            k = F.normalize(self.q(v.mean(1)), dim=1)
            s = torch.cat([torch.einsum("nc,nc->n", x, k).unsqueeze(-1), torch.einsum("nc,ck->nk", x, self.queue)], dim=1) / 0.07
            return F.cross_entropy(s, torch.zeros(n, dtype=torch.long))
        if self.form == "proxy":
            d = torch.cdist(x, F.normalize(self.proxies, dim=1)).pow(2)
            return F.cross_entropy(-d, grades[:, 0])
        if self.form == "coral":
            levels = (grades[:, :1] > torch.arange(4)).float()
            return F.binary_cross_entropy_with_logits(self.score(x) + self.cuts, levels)
        same = (grades[:, 0].unsqueeze(0) == grades[:, 0].unsqueeze(1)).float()
        s, other = x @ x.t(), 1 - same
        if self.form == "multi":
            centred = s - 0.5
            pos = torch.log(1 + (torch.exp(-2 * centred) * same).sum(1)) / 2
            return (pos + torch.log(1 + (torch.exp(10 * centred) * other).sum(1)) / 10).mean()
        ap, an = F.relu(1.25 - s), F.relu(s + 0.25)
        lp, ln = -8 * ap * (s - 0.75) - other * 1e4, 8 * an * (s - 0.25) - same * 1e4
        return F.softplus(torch.logsumexp(ln, dim=1) + torch.logsumexp(lp, dim=1)).mean()


def ranked(r):
    model = Ranked(r)

    def data(n):
        users = () if model.form in ("colbert",) else (torch.randint(0, 11, (n + 1,)),)
        items = () if model.form in ("proxy", "circle", "multi", "coral") else (torch.randint(1, 17, (n + 1, 4)),)
        grades = () if model.form in ("sasrec", "bpr", "sampled", "colbert", "moco") else (torch.randint(0, 3, (n + 1, 4)),)
        return (*users, *items, *grades), None

    return model, data


FAMILIES = {"ranked": ranked}
