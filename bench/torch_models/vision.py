"""Networks for images."""
import torch
import torch.nn as nn
import torch.nn.functional as F

ACTIVATIONS = [nn.ReLU, lambda i: nn.LeakyReLU(0.1, i), nn.SiLU, nn.Hardswish, lambda i: nn.GELU(), lambda i: nn.ELU(inplace=i),
               nn.Mish, nn.ReLU6, lambda i: nn.Tanh(), lambda i: nn.Softplus(), lambda i: nn.PReLU(), lambda i: nn.Sigmoid()]


class Residual(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        return x + self.body(x)


class Permuted(nn.Module):
    """A layer norm over the channels of an image."""

    def __init__(self, channels):
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x):
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def cnn(r):
    norm = r.choice([nn.BatchNorm2d, lambda c: nn.GroupNorm(4, c), nn.InstanceNorm2d, Permuted])
    activation, in_place, c = r.choice(ACTIVATIONS), r.random() < 0.4, r.choice([8, 16])

    def layer(i, o, kernel=3, stride=1, groups=1):
        return nn.Sequential(nn.Conv2d(i, o, kernel, stride, kernel // 2, groups=groups, bias=r.random() < 0.5), norm(o), activation(in_place))

    blocks = [layer(3, c, r.choice([3, 5]), r.choice([1, 2]))]
    for _ in range(r.randint(1, 3)):
        blocks.append(r.choice([lambda: Residual(layer(c, c)), lambda: layer(c, c, 3, 1, c), lambda: nn.MaxPool2d(2),
                                lambda: nn.Sequential(nn.ConvTranspose2d(c, c, 2, 2), layer(c, c, 3, 2))])())
    model = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(r.choice([0, 0.2])), nn.Linear(c, 10))
    return model, lambda n: ((torch.randn(n, 3, 16, 16),), torch.randint(0, 10, (n,)))


class Squeeze(nn.Module):
    """Squeeze and excitation, by convolutions or by linears, with a gate in place or not."""

    def __init__(self, r, c):
        super().__init__()
        self.linear, self.pool = r.random() < 0.5, r.random() < 0.5
        kind = nn.Linear if self.linear else lambda i, o: nn.Conv2d(i, o, 1)
        self.body = nn.Sequential(kind(c, c // 2), nn.ReLU(r.random() < 0.5), kind(c // 2, c), r.choice([nn.Sigmoid, nn.Hardsigmoid])())
        self.in_place = r.random() < 0.2

    def forward(self, x):
        s = F.adaptive_avg_pool2d(x, 1) if self.pool else x.mean((2, 3), keepdim=True)
        s = self.body(s.flatten(1)).view(x.shape[0], -1, 1, 1) if self.linear else self.body(s)
        return x * s


class Shuffle(nn.Module):
    def forward(self, x):
        n, c, h, w = x.shape
        return x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


class Halves(nn.Module):
    """ShuffleNetV2 and CSP: one half of the channels passes by."""

    def __init__(self, body, split):
        super().__init__()
        self.body, self.split = body, split

    def forward(self, x):
        if self.split:
            a, b = x.chunk(2, 1)
        else:
            a, b = x[:, :x.shape[1] // 2], x[:, x.shape[1] // 2:]
        return torch.cat([a, self.body(b)], 1)


class Dense(nn.Module):
    def __init__(self, layers, last):
        super().__init__()
        self.layers, self.last = nn.ModuleList(layers), last

    def forward(self, x):
        parts = [x]
        for layer in self.layers:
            parts.append(layer(torch.cat(parts, 1)))
        return self.last(torch.cat(parts, 1))


class Upsampled(nn.Module):
    def __init__(self, r):
        super().__init__()
        self.mode, self.scale = r.choice(["nearest", "bilinear", "bicubic"]), r.random() < 0.5

    def forward(self, x):
        keys = {} if self.mode == "nearest" else {"align_corners": False}
        if self.scale:
            return F.interpolate(x, scale_factor=2, mode=self.mode, **keys)
        return F.interpolate(x, size=(x.shape[2] * 2, x.shape[3] * 2), mode=self.mode, **keys)


class Scaled(nn.Module):
    """ConvNeXt's block: depthwise, permuted norm, linears, layer scale."""

    def __init__(self, r, c):
        super().__init__()
        self.depthwise, self.norm = nn.Conv2d(c, c, 7, padding=3, groups=c), nn.LayerNorm(c)
        self.up, self.act, self.down = nn.Linear(c, 2 * c), r.choice([nn.GELU, nn.SiLU])(), nn.Linear(2 * c, c)
        self.gamma = nn.Parameter(torch.ones(c) * 0.1)

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.gamma * self.down(self.act(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


class Positions(nn.Module):
    """Coordinates beside the channels."""

    def forward(self, x):
        n, _, h, w = x.shape
        ys = torch.linspace(-1, 1, h).view(1, 1, h, 1).expand(n, 1, h, w)
        xs = torch.linspace(-1, 1, w).view(1, 1, 1, w).expand(n, 1, h, w)
        return torch.cat([x, ys, xs], 1)


class Spatial(nn.Module):
    """CBAM's attention over places."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 1, 7, padding=3, bias=False)

    def forward(self, x):
        return x * torch.sigmoid(self.conv(torch.cat([x.mean(1, keepdim=True), x.max(1, keepdim=True)[0]], 1)))


class Partial(nn.Module):
    """Self-attention over places, as in SAGAN and diffusion models."""

    def __init__(self, r, c):
        super().__init__()
        self.norm, self.qkv, self.out = nn.GroupNorm(4, c), nn.Conv2d(c, 3 * c, 1), nn.Conv2d(c, c, 1)
        self.einsum = r.random() < 0.5

    def forward(self, x):
        n, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(n, 3 * c, h * w).chunk(3, 1)
        if self.einsum:
            a = torch.einsum("bct,bcs->bts", q * c ** -0.25, k * c ** -0.25).softmax(-1)
            y = torch.einsum("bts,bcs->bct", a, v)
        else:
            a = F.softmax(torch.bmm(q.permute(0, 2, 1), k) * c ** -0.5, -1)
            y = torch.bmm(v, a.permute(0, 2, 1))
        return x + self.out(y.reshape(n, c, h, w))


def image_layer(r, i, o, kernel=3, stride=1, groups=1):
    norm = r.choice([nn.BatchNorm2d, nn.BatchNorm2d, lambda c: nn.GroupNorm(2, c), lambda c: nn.InstanceNorm2d(c, affine=True),
                     lambda c: nn.GroupNorm(1, c), Permuted, nn.InstanceNorm2d, lambda c: nn.Identity(), lambda c: nn.LocalResponseNorm(3)])
    conv = nn.Conv2d(i, o, kernel, stride, kernel // 2 if r.random() < 0.8 else 0, groups=groups, bias=r.random() < 0.5,
                     padding_mode=r.choice(["zeros"] * 5 + ["reflect", "circular"]))
    conv = r.choice([lambda m: m] * 6 + [nn.utils.weight_norm])(conv)
    return nn.Sequential(conv, norm(o), r.choice(ACTIVATIONS)(r.random() < 0.5))


def image_part(r, c):
    """A part that keeps the channels, and the name of its kind."""
    kinds = {
        "layer": lambda: image_layer(r, c, c),
        "residual": lambda: Residual(image_layer(r, c, c, 1)),
        "depthwise": lambda: nn.Sequential(nn.Conv2d(c, c, 3, 1, 1, groups=c, bias=False), nn.BatchNorm2d(c), nn.ReLU6(True), nn.Conv2d(c, c, 1)),
        "inverted": lambda: Residual(nn.Sequential(nn.Conv2d(c, 2 * c, 1, bias=False), nn.BatchNorm2d(2 * c), nn.SiLU(True),
                                                   nn.Conv2d(2 * c, 2 * c, 3, 1, 1, groups=2 * c, bias=False), nn.BatchNorm2d(2 * c),
                                                   nn.SiLU(True), Squeeze(r, 2 * c), nn.Conv2d(2 * c, c, 1, bias=False), nn.BatchNorm2d(c))),
        "squeeze": lambda: Squeeze(r, c),
        "grouped": lambda: nn.Sequential(nn.Conv2d(c, c, 3, 1, 1, groups=2), Shuffle()),
        "dilated": lambda: nn.Conv2d(c, c, 3, padding=2, dilation=2),
        "strip": lambda: nn.Conv2d(c, c, (1, 5), padding=(0, 2)),
        "halves": lambda: Halves(nn.Sequential(nn.Conv2d(c // 2, c // 2, 3, padding=1), nn.BatchNorm2d(c // 2), nn.ReLU(True)), r.random() < 0.5),
        "dense": lambda: Dense([nn.Sequential(nn.BatchNorm2d(c + 4 * i), nn.ReLU(True), nn.Conv2d(c + 4 * i, 4, 3, padding=1)) for i in range(2)],
                               nn.Conv2d(c + 8, c, 1)),
        "transposed": lambda: nn.Sequential(nn.ConvTranspose2d(c, c, r.choice([2, 3, 4]), 2, r.choice([0, 1]), bias=r.random() < 0.5), nn.MaxPool2d(2)),
        "shuffle": lambda: nn.Sequential(nn.Conv2d(c, 4 * c, 3, padding=1), nn.PixelShuffle(2), nn.LeakyReLU(0.2, r.random() < 0.5), nn.AvgPool2d(2)),
        "unshuffle": lambda: nn.Sequential(nn.Upsample(scale_factor=2), nn.PixelUnshuffle(2), nn.Conv2d(4 * c, c, 1)),
        "upsample": lambda: nn.Sequential(Upsampled(r), nn.Conv2d(c, c, 3, 2, 1)),
        "scaled": lambda: Scaled(r, c),
        "coordinates": lambda: nn.Sequential(Positions(), nn.Conv2d(c + 2, c, 1)),
        "spatial": lambda: Spatial(),
        "attention": lambda: Partial(r, c),
        "dropout": lambda: nn.Dropout(0.2, r.random() < 0.5),
        "pools": lambda: r.choice([nn.MaxPool2d(3, 1, 1), nn.AvgPool2d(3, 1, 1), nn.AvgPool2d(3, 1, 1, count_include_pad=False),
                                   nn.MaxPool2d(2, 1, ceil_mode=True), nn.AdaptiveAvgPool2d(1), nn.AdaptiveMaxPool2d(1)]),
        "padded": lambda: nn.Sequential(r.choice([nn.ReflectionPad2d(1), nn.ReplicationPad2d(1), nn.ZeroPad2d(1), nn.ConstantPad2d(1, 0.5)]),
                                        nn.Conv2d(c, c, 3)),
    }
    kind = r.choice(list(kinds))
    return kind, kinds[kind]()


def parts(r):
    """One to three parts of image networks between a stem and a head."""
    c, size, chosen = r.choice([4, 8, 12]), r.choice([8, 9, 12, 16]), []
    for _ in range(r.randint(1, 3)):
        chosen.append(image_part(r, c))
    channels = r.choice([1, 3])
    body = nn.Sequential(nn.Conv2d(channels, c, 3, padding=1, bias=r.random() < 0.5), *[part for _, part in chosen])
    head = r.choice([lambda: nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 7)), lambda: nn.Sequential(Mean(), nn.Linear(c, 7)),
                     lambda: nn.Sequential(nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(c, 7))])()
    model = nn.Sequential(body, head)
    model.what = " ".join(kind for kind, _ in chosen)
    return model, lambda n: ((torch.randn(n, channels, size, size),), torch.randint(0, 7, (n,)))


class Mean(nn.Module):
    def forward(self, x):
        return x.mean([2, 3])


class Nested(nn.Module):
    """U-Net: skips by cat or by sums, transposed convolutions or upsampling."""

    def __init__(self, r):
        super().__init__()
        c = r.choice([4, 8])
        self.joins = r.random() < 0.7
        self.down = nn.ModuleList([nn.Sequential(image_same(r, i, o), image_same(r, o, o)) for i, o in [(3, c), (c, 2 * c)]])
        self.middle = image_same(r, 2 * c, 2 * c)
        self.up = nn.ModuleList([nn.ConvTranspose2d(2 * c, 2 * c, 2, 2) if r.random() < 0.5 else Upsampled(r),
                                 nn.ConvTranspose2d(c, c, 2, 2) if r.random() < 0.5 else nn.Upsample(scale_factor=2)])
        twice = 2 if self.joins else 1
        self.after = nn.ModuleList([image_same(r, 2 * c * twice, c), image_same(r, c * twice, c)])
        self.out = nn.Conv2d(c, 5, 1)

    def forward(self, x):
        skips = []
        for part in self.down:
            x = part(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for up, after in zip(self.up, self.after):
            x, skip = up(x), skips.pop()
            x = after(torch.cat([skip, x], 1) if self.joins else x + skip)
        return self.out(x)


def image_same(r, i, o):
    norm = r.choice([nn.BatchNorm2d, nn.InstanceNorm2d, lambda c: nn.GroupNorm(2, c)])
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=r.random() < 0.5), norm(o), r.choice(ACTIVATIONS)(r.random() < 0.6))


def unet(r):
    return Nested(r), lambda n: ((torch.randn(n, 3, 16, 16),), torch.randint(0, 5, (n, 16, 16)))


def waves(r):
    """Convolutions over one axis, as for sound and series, and over three."""
    c, three = 8, r.random() < 0.3
    if three:
        layers = [nn.Conv3d(2, c, 3, padding=1), r.choice([nn.BatchNorm3d, nn.InstanceNorm3d, lambda c: nn.GroupNorm(2, c)])(c), nn.ReLU(True),
                  r.choice([nn.MaxPool3d(2), nn.AvgPool3d(2), nn.Conv3d(c, c, 2, 2)]), nn.Conv3d(c, c, 3, padding=1, groups=r.choice([1, 2])),
                  nn.LeakyReLU(0.1, r.random() < 0.5), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(c, 5)]
        return nn.Sequential(*layers), lambda n: ((torch.randn(n, 2, 4, 8, 8),), torch.randint(0, 5, (n,)))
    norm = r.choice([nn.BatchNorm1d, nn.InstanceNorm1d, lambda c: nn.GroupNorm(2, c)])
    # The exporter fails on an odd kernel with padding after spectral_norm over one axis.
    wrap = r.choice([lambda m: m, lambda m: m, nn.utils.weight_norm])

    def layer(i, o, **keys):
        return nn.Sequential(wrap(nn.Conv1d(i, o, 3, **keys)), norm(o), r.choice(ACTIVATIONS)(r.random() < 0.5))

    layers = [layer(2, c, padding=1)]
    for _ in range(r.randint(1, 3)):
        layers.append(r.choice([lambda: layer(c, c, padding=2, dilation=2), lambda: Residual(layer(c, c, padding=1)), lambda: nn.MaxPool1d(2),
                                lambda: layer(c, c, padding=1, groups=c), lambda: nn.AvgPool1d(3, 1, 1), lambda: nn.Dropout(0.1),
                                lambda: nn.Sequential(nn.ConvTranspose1d(c, c, 4, 2, 1), nn.ELU(inplace=r.random() < 0.5), nn.Conv1d(c, c, 3, 2, 1))])())
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(c, 5))
    return model, lambda n: ((torch.randn(n, 2, 24),), torch.randint(0, 5, (n,)))


FAMILIES = {"cnn": cnn, "parts": parts, "unet": unet, "waves": waves}
