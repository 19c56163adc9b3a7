"""MLPs, and losses inside of the module."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_models.vision import ACTIVATIONS


def mlp(r):
    width, parametrized = r.choice([16, 32]), r.choice([lambda m: m, nn.utils.weight_norm])
    layers = [nn.Linear(20, width)]
    for _ in range(r.randint(1, 3)):
        layers += [parametrized(nn.Linear(width, width)), r.choice([nn.BatchNorm1d, nn.LayerNorm])(width), r.choice(ACTIVATIONS)(r.random() < 0.5)]
    return nn.Sequential(*layers, nn.Linear(width, 5)), lambda n: ((torch.randn(n, 20),), torch.randint(0, 5, (n,)))


def unit(t):
    return t.softmax(-1)


def dice(x, y):
    p = torch.sigmoid(x)
    return 1 - (2 * (p * y).sum() + 1) / (p.sum() + y.sum() + 1)


def gaussian(x, y):
    mean, spread = x.chunk(2, 1)
    return 0.5 * (spread.exp() * (mean - y) ** 2 - spread).mean()


def focal(x, y):
    log = F.log_softmax(x, 1).gather(1, y[:, None])
    return (-(1 - log.exp()) ** 2 * log).mean()


# kind -> (loss of an output of five columns, target made of a batch)
REDUCTIONS = ["mean", "mean", "sum"]
LOSSES = {
    "bce_logits": (lambda r: (lambda x, y, how=r.choice(REDUCTIONS): F.binary_cross_entropy_with_logits(x, y, reduction=how)), lambda n: torch.rand(n, 5)),
    "bce_column": (lambda r: (lambda x, y: F.binary_cross_entropy_with_logits(x[:, 0], y)), lambda n: torch.rand(n)),
    "bce_squeezed": (lambda r: (lambda x, y: F.binary_cross_entropy_with_logits(x.mean(1, keepdim=True).squeeze(1), y)), lambda n: torch.rand(n)),
    "kl_div": (lambda r: (lambda x, y, how=r.choice(["batchmean", "mean", "sum"]): F.kl_div(F.log_softmax(x, -1), y, reduction=how)),
               lambda n: unit(torch.randn(n, 5))),
    "distilled": (lambda r: (lambda x, y: F.kl_div(F.log_softmax(x / 2, 1), F.softmax(y / 2, 1), reduction="batchmean") * 4), lambda n: torch.randn(n, 5)),
    "nll": (lambda r: (lambda x, y: F.nll_loss(F.log_softmax(x, -1), y)), lambda n: torch.randint(0, 5, (n,))),
    "ce_sum": (lambda r: (lambda x, y: F.cross_entropy(x, y, reduction="sum")), lambda n: torch.randint(0, 5, (n,))),
    "ce_ignored": (lambda r: (lambda x, y: F.cross_entropy(x, y, ignore_index=0)), lambda n: torch.randint(0, 5, (n,))),
    "soft": (lambda r: (lambda x, y: F.cross_entropy(x, y)), lambda n: unit(torch.randn(n, 5))),
    "soft_written": (lambda r: (lambda x, y: -(y * F.log_softmax(x, -1)).sum(-1).mean()), lambda n: unit(torch.randn(n, 5))),
    "written_mse": (lambda r: (lambda x, y: ((x - y) ** 2).mean()), lambda n: torch.randn(n, 5)),
    "charbonnier": (lambda r: (lambda x, y: torch.sqrt((x - y) ** 2 + 1e-6).mean()), lambda n: torch.randn(n, 5)),
    "written_l1": (lambda r: (lambda x, y: (x - y).abs().mean()), lambda n: torch.randn(n, 5)),
    "dice": (lambda r: dice, lambda n: torch.rand(n, 5).round()),
    "similar": (lambda r: (lambda x, y: 1 - F.cosine_similarity(x, y).mean()), lambda n: torch.randn(n, 5)),
    "hinge": (lambda r: (lambda x, y: F.relu(1 - y * x).mean()), lambda n: torch.ones(n, 5)),
    "softplus": (lambda r: (lambda x, y: F.softplus(-x).mean() + F.softplus(x * y).mean()), lambda n: torch.ones(n, 5)),
    "gaussian": (lambda r: lambda x, y: gaussian(x[:, :4], y), lambda n: torch.randn(n, 2)),
    "multilabel": (lambda r: (lambda x, y: F.multilabel_soft_margin_loss(x, y)), lambda n: torch.rand(n, 5).round()),
    "contrastive": (lambda r: (lambda x, y: F.cross_entropy(F.normalize(x, dim=1) @ F.normalize(y, dim=1).t() / 0.07, torch.arange(x.shape[0]))),
                    lambda n: torch.randn(n, 5)),
    "focal": (lambda r: focal, lambda n: torch.randint(0, 5, (n,))),
    "pinball": (lambda r: (lambda x, y: torch.max(0.9 * (y - x), -0.1 * (y - x)).mean()), lambda n: torch.randn(n, 5)),
    "entropy": (lambda r: (lambda x, y: F.cross_entropy(x, y) - 0.01 * (F.softmax(x, -1) * F.log_softmax(x, -1)).sum(-1).mean()),
                lambda n: torch.randint(0, 5, (n,))),
}


class Lossy(nn.Module):
    def __init__(self, body, loss, what):
        super().__init__()
        self.body, self.loss, self.what = body, loss, what

    def forward(self, x, y):
        return self.loss(self.body(x), y)


def losses(r):
    kind = r.choice(list(LOSSES))
    make, target = LOSSES[kind]
    # A batch in which the loss counts: the peak of a loss on few values lies elsewhere.
    body, rows = nn.Sequential(nn.Linear(6, 8), r.choice(ACTIVATIONS)(False), nn.Linear(8, 5)), r.choice([1, 40, 200])

    def data(n):
        return (torch.randn(n * rows, 6), target(n * rows)), None

    return Lossy(body, make(r), kind), data


class Coded(nn.Module):
    """A variational autoencoder with its loss."""

    def __init__(self, r):
        super().__init__()
        self.up, self.down, self.form = nn.Linear(12, 16), nn.Linear(4, 16), r.choice(["exp", "std", "split"])
        self.mean, self.spread, self.both, self.out = nn.Linear(16, 4), nn.Linear(16, 4), nn.Linear(16, 8), nn.Linear(16, 12)
        self.what, self.bce = self.form, r.random() < 0.5

    def forward(self, x):
        h = F.relu(self.up(x))
        mean, spread = self.both(h).chunk(2, 1) if self.form == "split" else (self.mean(h), self.spread(h))
        deviation = torch.exp(0.5 * spread) if self.form != "std" else spread.mul(0.5).exp()
        z = mean + torch.randn_like(deviation) * deviation
        y = self.out(F.relu(self.down(z)))
        kl = -0.5 * torch.sum(1 + spread - mean.pow(2) - spread.exp())
        return (F.binary_cross_entropy_with_logits(y, x, reduction="sum") if self.bce else (y - x).pow(2).sum()) + kl


def vae(r):
    rows = r.choice([1, 40])
    return Coded(r), lambda n: ((torch.rand(n * rows, 12),), None)


# training.loss -> (the function, how the module ends, targets)
CRITERIA = {
    "mse": (F.mse_loss, nn.Identity, lambda n: torch.randn(n, 5)), "l1": (F.l1_loss, nn.Identity, lambda n: torch.randn(n, 5)),
    "smooth_l1": (F.smooth_l1_loss, nn.Identity, lambda n: torch.randn(n, 5)), "huber": (F.huber_loss, nn.Identity, lambda n: torch.randn(n, 5)),
    "bce": (F.binary_cross_entropy, nn.Sigmoid, lambda n: torch.rand(n, 5)), "kl_div": (F.kl_div, lambda: nn.LogSoftmax(-1), lambda n: unit(torch.randn(n, 5))),
    "bce_with_logits": (F.binary_cross_entropy_with_logits, nn.Identity, lambda n: torch.rand(n, 5)),
    "nll": (F.nll_loss, lambda: nn.LogSoftmax(-1), lambda n: torch.randint(0, 5, (n,))),
    "smoothed_cross_entropy": (lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), nn.Identity, lambda n: torch.randint(0, 5, (n,))),
    "soft_cross_entropy": (F.cross_entropy, nn.Identity, lambda n: unit(torch.randn(n, 5))),
}


class Embedded(nn.Module):
    """One body on several inputs, whose results a loss compares."""

    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, *inputs):
        return tuple(self.body(x) for x in inputs)


class Steps(nn.Module):
    """Log-probabilities of classes by step and sample."""

    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        return F.log_softmax(self.body(x), -1)


def compared(r, kind):
    body, rows = nn.Sequential(nn.Linear(6, 8), r.choice(ACTIVATIONS)(False), nn.Linear(8, 5)), r.choice([1, 40, 200])
    if kind == "ctc":
        model = Steps(body)
        model.loss = lambda x, y: F.ctc_loss(x, y, (x.shape[0],) * x.shape[1], (y.shape[1],) * x.shape[1])
        model.training_keys = {"target_length": 3}
        data = lambda n: ((torch.randn(7, n * rows, 6),), torch.randint(1, 5, (n * rows, 3)))
    else:
        model, count = Embedded(body), 3 if kind == "triplet" else 2
        model.loss = (lambda out, y: F.triplet_margin_loss(*out)) if kind == "triplet" else (lambda out, y: F.cosine_embedding_loss(*out, y))
        targets = (lambda n: torch.empty(0)) if kind == "triplet" else (lambda n: torch.ones(n * rows))
        data = lambda n: (tuple(torch.randn(n * rows, 6) for _ in range(count)), targets(n))
    model.what, model.loss_name = kind, kind
    return model, data


def criteria(r):
    """Losses that the scenario names, as the exporter refuses most of them."""
    kind = r.choice([*CRITERIA, "triplet", "cosine_embedding", "ctc"])
    if kind not in CRITERIA:
        return compared(r, kind)
    function, last, target = CRITERIA[kind]
    model, rows = nn.Sequential(nn.Linear(6, 8), r.choice(ACTIVATIONS)(False), nn.Linear(8, 5), last()), r.choice([1, 40, 200])
    model.what, model.loss, model.loss_name = kind, function, kind
    return model, lambda n: ((torch.randn(n * rows, 6),), target(n * rows))


FAMILIES = {"mlp": mlp, "losses": losses, "vae": vae, "criteria": criteria}
