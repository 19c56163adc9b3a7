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


# kind -> (loss of an output of five columns, target made of a batch)
REDUCTIONS = ["mean", "mean", "sum"]
LOSSES = {
    "bce": (lambda r: (lambda x, y, how=r.choice(REDUCTIONS): F.binary_cross_entropy(torch.sigmoid(x), y, reduction=how)), lambda n: torch.rand(n, 5)),
    "bce_logits": (lambda r: (lambda x, y, how=r.choice(REDUCTIONS): F.binary_cross_entropy_with_logits(x, y, reduction=how)), lambda n: torch.rand(n, 5)),
    "bce_column": (lambda r: (lambda x, y: F.binary_cross_entropy_with_logits(x[:, 0], y)), lambda n: torch.rand(n)),
    "bce_squeezed": (lambda r: (lambda x, y: F.binary_cross_entropy_with_logits(x.mean(1, keepdim=True).squeeze(1), y)), lambda n: torch.rand(n)),
    "l1": (lambda r: (lambda x, y, how=r.choice(REDUCTIONS): F.l1_loss(x, y, reduction=how)), lambda n: torch.randn(n, 5)),
    "mse": (lambda r: (lambda x, y, how=r.choice(REDUCTIONS): F.mse_loss(x, y, reduction=how)), lambda n: torch.randn(n, 5)),
    "smooth_l1": (lambda r: (lambda x, y, beta=r.choice([1.0, 0.5]): F.smooth_l1_loss(x, y, beta=beta)), lambda n: torch.randn(n, 5)),
    "huber": (lambda r: (lambda x, y, delta=r.choice([1.0, 0.5]): F.huber_loss(x, y, delta=delta)), lambda n: torch.randn(n, 5)),
    "kl_div": (lambda r: (lambda x, y, how=r.choice(["batchmean", "mean", "sum"]): F.kl_div(F.log_softmax(x, -1), y, reduction=how)),
               lambda n: unit(torch.randn(n, 5))),
    "distilled": (lambda r: (lambda x, y: F.kl_div(F.log_softmax(x / 2, 1), F.softmax(y / 2, 1), reduction="batchmean") * 4), lambda n: torch.randn(n, 5)),
    "nll": (lambda r: (lambda x, y: F.nll_loss(F.log_softmax(x, -1), y)), lambda n: torch.randint(0, 5, (n,))),
    "ce_sum": (lambda r: (lambda x, y: F.cross_entropy(x, y, reduction="sum")), lambda n: torch.randint(0, 5, (n,))),
    "ce_ignored": (lambda r: (lambda x, y: F.cross_entropy(x, y, ignore_index=0)), lambda n: torch.randint(0, 5, (n,))),
    "smoothed": (lambda r: (lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1)), lambda n: torch.randint(0, 5, (n,))),
    "soft": (lambda r: (lambda x, y: F.cross_entropy(x, y)), lambda n: unit(torch.randn(n, 5))),
    "soft_written": (lambda r: (lambda x, y: -(y * F.log_softmax(x, -1)).sum(-1).mean()), lambda n: unit(torch.randn(n, 5))),
    "written_mse": (lambda r: (lambda x, y: ((x - y) ** 2).mean()), lambda n: torch.randn(n, 5)),
    "rmse": (lambda r: (lambda x, y: torch.sqrt(F.mse_loss(x, y) + 1e-8)), lambda n: torch.randn(n, 5)),
    "charbonnier": (lambda r: (lambda x, y: torch.sqrt((x - y) ** 2 + 1e-6).mean()), lambda n: torch.randn(n, 5)),
    "written_l1": (lambda r: (lambda x, y: (x - y).abs().mean()), lambda n: torch.randn(n, 5)),
    "log_cosh": (lambda r: (lambda x, y: torch.log(torch.cosh(x - y + 1e-12)).mean()), lambda n: torch.randn(n, 5)),
    "dice": (lambda r: (lambda x, y: 1 - (2 * (torch.sigmoid(x) * y).sum() + 1) / (torch.sigmoid(x).sum() + y.sum() + 1)), lambda n: torch.rand(n, 5).round()),
    "cosine": (lambda r: (lambda x, y: F.cosine_embedding_loss(x, y, torch.ones(x.shape[0]))), lambda n: torch.randn(n, 5)),
    "similar": (lambda r: (lambda x, y: 1 - F.cosine_similarity(x, y).mean()), lambda n: torch.randn(n, 5)),
    "triplet": (lambda r: (lambda x, y: F.triplet_margin_loss(x, x.flip(0), y)), lambda n: torch.randn(n, 5)),
    "margin": (lambda r: (lambda x, y: F.margin_ranking_loss(x[:, 0], x[:, 1], y)), lambda n: torch.ones(n)),
    "hinge": (lambda r: (lambda x, y: F.relu(1 - y * x).mean()), lambda n: torch.ones(n, 5)),
    "softplus": (lambda r: (lambda x, y: F.softplus(-x).mean() + F.softplus(x * y).mean()), lambda n: torch.ones(n, 5)),
    "gaussian": (lambda r: (lambda x, y: 0.5 * (x[:, :2].exp() * (x[:, 2:4] - y) ** 2 - x[:, :2]).mean()), lambda n: torch.randn(n, 2)),
    "gaussian_nll": (lambda r: (lambda x, y: F.gaussian_nll_loss(x[:, :2], y, F.softplus(x[:, 2:4]) + 1e-4)), lambda n: torch.randn(n, 2)),
    "poisson": (lambda r: (lambda x, y: F.poisson_nll_loss(x, y)), lambda n: torch.rand(n, 5)),
    "multilabel": (lambda r: (lambda x, y: F.multilabel_soft_margin_loss(x, y)), lambda n: torch.rand(n, 5).round()),
    "contrastive": (lambda r: (lambda x, y: F.cross_entropy(F.normalize(x, dim=1) @ F.normalize(y, dim=1).t() / 0.07, torch.arange(x.shape[0]))),
                    lambda n: torch.randn(n, 5)),
    "focal": (lambda r: (lambda x, y: (-(1 - F.log_softmax(x, 1).gather(1, y[:, None]).exp()) ** 2 * F.log_softmax(x, 1).gather(1, y[:, None])).mean()),
              lambda n: torch.randint(0, 5, (n,))),
    "pinball": (lambda r: (lambda x, y: torch.max(0.9 * (y - x), -0.1 * (y - x)).mean()), lambda n: torch.randn(n, 5)),
    "entropy": (lambda r: (lambda x, y: F.cross_entropy(x, y) - 0.01 * (F.softmax(x, -1) * F.log_softmax(x, -1)).sum(-1).mean()),
                lambda n: torch.randint(0, 5, (n,))),
    "multitask": (lambda r: (lambda x, y: F.mse_loss(x[:, 0], y[:, 0]) + 0.5 * F.binary_cross_entropy_with_logits(x[:, 1], y[:, 1]) + F.l1_loss(x[:, 2:], y[:, 2:])),
                  lambda n: torch.rand(n, 5)),
    "ctc": (lambda r: (lambda x, y: F.ctc_loss(F.log_softmax(x.view(-1, 1, 5), -1), y, (x.shape[0],), (1,))), lambda n: torch.ones(1, 1, dtype=torch.long)),
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
        return (F.binary_cross_entropy(torch.sigmoid(y), x, reduction="sum") if self.bce else F.mse_loss(y, x, reduction="sum")) + kl


def vae(r):
    rows = r.choice([1, 40])
    return Coded(r), lambda n: ((torch.rand(n * rows, 12),), None)


FAMILIES = {"mlp": mlp, "losses": losses, "vae": vae}
