"""Models of one feature each, chosen by seed: what a test names (tests/data/torch/generated)."""
import torch
import torch.nn as nn

spectral_norm = nn.utils.spectral_norm


class ChannelsLast(nn.Module):
    """ConvNeXt's downsampling: a layer norm over channels that lie last, between permutations."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm, self.down = nn.Conv2d(3, 8, 4, 4), nn.LayerNorm(8), nn.Conv2d(8, 16, 2, 2)
        self.last, self.out = nn.LayerNorm(16), nn.Linear(16, 5)

    def forward(self, x):
        x = self.norm(self.stem(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        x = self.last(self.down(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.out(x.mean((2, 3)))


def spectral_linear():
    return nn.Sequential(spectral_norm(nn.Linear(20, 16)), nn.ReLU(), spectral_norm(nn.Linear(16, 5)))


def spectral_convolution():
    return nn.Sequential(spectral_norm(nn.Conv2d(3, 8, 3, padding=1)), nn.LeakyReLU(0.2, True), spectral_norm(nn.Conv2d(8, 8, 4, 2, 1)),
                         nn.LeakyReLU(0.2, True), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))


NAMED = [("spectral_norm of linears", spectral_linear, (20,)), ("spectral_norm of convolutions", spectral_convolution, (3, 16, 16)),
         ("convolutions between channels-last norms", ChannelsLast, (3, 32, 32))]


def named(r):
    what, make, shape = r.choice(NAMED)
    model = make()
    model.what, model.exports_in_eval = what, what.startswith("spectral")
    return model, lambda n: ((torch.randn(n, *shape),), torch.randint(0, 5, (n,)))


FAMILIES = {"named": named}
