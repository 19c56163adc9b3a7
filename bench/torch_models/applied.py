"""Networks of applications in the form in which people publish them: detection, segmentation, video, speech, memories, control.

Forms are left out that no ONNX file tells from other ones: see architectures.py."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_models.architectures import Described
from torch_models.vision import ACTIVATIONS


class Detector(Described):
    """Heads of detectors with their losses: YOLO, SSD, CenterNet, FCOS, DETR's queries."""

    def __init__(self, r):
        super().__init__(r)
        c = self.c = self.pick(8, 16)
        self.form = self.pick("yolo", "ssd", "centre", "fcos", "detr", "giou")
        self.stem = nn.Sequential(nn.Conv2d(3, c, 3, 2, 1, bias=False), nn.BatchNorm2d(c), nn.SiLU(inplace=self.maybe("in place")), nn.Conv2d(c, c, 3, 2, 1), nn.ReLU())
        self.yolo, self.cls, self.box, self.centre = nn.Conv2d(c, 2 * 7, 1), nn.Conv2d(c, 3, 3, padding=1), nn.Conv2d(c, 4, 3, padding=1), nn.Conv2d(c, 1, 3, padding=1)
        self.ssd, self.scale = nn.Conv2d(c, 2 * 4, 3, padding=1), nn.Parameter(torch.ones(1))
        self.query, self.pos = nn.Parameter(torch.randn(5, c)), nn.Parameter(torch.randn(16, 1, c))
        self.decoder = nn.TransformerDecoderLayer(c, 2, 2 * c, dropout=self.pick(0.0, 0.1))
        self.names, self.mlp = nn.Linear(c, 4), nn.Sequential(nn.Linear(c, c), nn.ReLU(), nn.Linear(c, 4))
        self.register_buffer("grid", torch.stack(torch.meshgrid(torch.arange(4.0), torch.arange(4.0), indexing="ij"), -1).view(1, 1, 4, 4, 2))
        self.register_buffer("anchors", torch.tensor([[1.0, 2.0], [2.0, 1.0]]).view(1, 2, 1, 1, 2))

    def iou(self, a, b):
        x1, y1, x2, y2 = a.unbind(-1)
        u1, v1, u2, v2 = b.unbind(-1)
        w = (torch.min(x2, u2) - torch.max(x1, u1)).clamp(min=0)
        h = (torch.min(y2, v2) - torch.max(y1, v1)).clamp(min=0)
        inter = w * h
        union = (x2 - x1).clamp(min=0) * (y2 - y1).clamp(min=0) + (u2 - u1) * (v2 - v1) - inter + 1e-7
        cw, ch = torch.max(x2, u2) - torch.min(x1, u1), torch.max(y2, v2) - torch.min(y1, v1)
        hull = cw * ch + 1e-7
        return inter / union - (hull - union) / hull

    def forward(self, x, y):
        n, f = x.shape[0], self.stem(x)
        if self.form == "yolo":
            p = self.yolo(f).view(n, 2, 7, 4, 4).permute(0, 1, 3, 4, 2).contiguous()
            xy, wh = (p[..., 0:2].sigmoid() * 2 - 0.5 + self.grid) / 4, (p[..., 2:4].sigmoid() * 2) ** 2 * self.anchors
            t = y.view(n, 1, 4, 4, 7)
            loss = ((xy - t[..., 0:2]) ** 2).mean() + ((wh - t[..., 2:4]) ** 2).mean()
            return loss + F.binary_cross_entropy_with_logits(p[..., 4:], t[..., 4:].expand_as(p[..., 4:]))
        if self.form == "ssd":
            loc = self.ssd(f).permute(0, 2, 3, 1).contiguous().view(n, -1, 4)
            d = (loc - y[:, :, :4].repeat(1, 2, 1)).abs()
            return torch.where(d < 1, 0.5 * d ** 2, d - 0.5).sum() / n
        if self.form == "centre":
            p = torch.clamp(self.cls(f).sigmoid(), min=1e-4, max=1 - 1e-4)
            t = y[:, :, :3].transpose(1, 2).reshape(n, 3, 4, 4)
            pos, neg = t.gt(0.5).float(), t.le(0.5).float()
            other = 1 - p
            loss = torch.log(p) * torch.pow(other, 2) * pos + torch.log(other) * torch.pow(p, 2) * torch.pow(1 - t, 4) * neg
            return -loss.sum() / n
        if self.form == "fcos":
            box = F.relu(self.scale * self.box(f)).flatten(2).transpose(1, 2)
            centre = self.centre(f).flatten(1)
            l, t, r, b = box.split(1, dim=-1)
            quality = torch.sqrt((torch.min(l, r) / (torch.max(l, r) + 1e-3)) * (torch.min(t, b) / (torch.max(t, b) + 1e-3)) + 1e-6).squeeze(-1)
            return (quality * centre.sigmoid() - y[..., 0]).abs().mean() + self.cls(f).pow(2).mean()
        if self.form == "detr":
            memory = f.flatten(2).permute(2, 0, 1) + self.pos
            h = self.decoder(self.query.unsqueeze(1).repeat(1, n, 1), memory).transpose(0, 1)
            boxes = self.mlp(h).sigmoid()
            return (boxes - y[:, :5, :4]).abs().mean() + F.cross_entropy(self.names(h).flatten(0, 1), torch.zeros(n * 5, dtype=torch.long))
        box = self.box(f).flatten(2).transpose(1, 2)
        middle, size = box[..., :2], box[..., 2:].exp()
        corners = torch.cat([middle - size, middle + size], dim=-1)
        return (1 - self.iou(corners, torch.cat([y[..., :2], y[..., :2] + 1], -1))).mean()


def detectors(r):
    return Detector(r), lambda n: ((torch.randn(n, 3, 16, 16), torch.rand(n, 16, 7)), None)


class Segmenter(Described):
    """Segmentation: ASPP, pyramid pooling, fusion of resolutions, MLP decoders, attention gates; dice and cross-entropy."""

    def __init__(self, r):
        super().__init__(r)
        c = self.c = self.pick(8, 16)
        self.form, self.loss_by = self.pick("aspp", "psp", "hrnet", "mlp", "bisenet", "fcn", "linknet"), self.pick("ce", "dice")
        self.align = self.maybe("aligned")
        block = lambda i, o, **k: nn.Sequential(nn.Conv2d(i, o, 3, padding=k.get("dilation", 1), bias=False, **k), nn.BatchNorm2d(o), nn.ReLU(inplace=self.in_place))
        self.in_place = self.maybe("in place")
        self.stem, self.deep, self.low = block(3, c, stride=2), block(c, c, stride=2), nn.Conv2d(c, c // 2, 1)
        self.rates = nn.ModuleList(block(c, c // 2, dilation=d) for d in (1, 2, 3))
        self.image = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, c // 2, 1), nn.ReLU())
        self.merge, self.out = nn.Conv2d(2 * c, c, 1), nn.Conv2d(c, 3, 1)
        self.bins = nn.ModuleList(nn.Sequential(nn.AdaptiveAvgPool2d(b), nn.Conv2d(c, c // 4, 1, bias=False), nn.ReLU()) for b in (1, 2, 4))
        self.psp = nn.Conv2d(c + 3 * (c // 4), c, 3, padding=1)
        self.cross, self.back, self.fuse = nn.Conv2d(c, c, 3, 2, 1), nn.Conv2d(c, c, 1), nn.Linear(2 * c, c)
        self.project, self.attention, self.up = nn.ModuleList(nn.Linear(c, c) for _ in range(2)), nn.Conv2d(c, c, 1), nn.ConvTranspose2d(c, c, 3, 2, 1, 1)
        self.drop = nn.Dropout(self.pick(0, 0.1))

    def resize(self, x, size):
        return F.interpolate(x, size=size, mode="bilinear", align_corners=self.align)

    def forward(self, x, y):
        a = self.stem(x)
        b = self.deep(a)
        if self.form == "aspp":
            parts = [rate(b) for rate in self.rates] + [self.resize(self.image(b), (4, 4))]
            h = F.relu(self.merge(torch.cat(parts, dim=1)))
        elif self.form == "psp":
            h = self.psp(torch.cat([b] + [self.resize(bin(b), (4, 4)) for bin in self.bins], 1))
        elif self.form == "hrnet":
            high, low = F.relu(a + self.resize(self.back(b), (8, 8))), F.relu(b + self.cross(a))
            h = high + self.resize(low, (8, 8))
        elif self.form == "mlp":
            flat = [p(t.flatten(2).transpose(1, 2)).permute(0, 2, 1).reshape(x.shape[0], -1, *t.shape[2:]) for p, t in zip(self.project, (a, b))]
            h = self.fuse(torch.cat([flat[0], self.resize(flat[1], (8, 8))], dim=1).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        elif self.form == "bisenet":
            w = torch.sigmoid(self.attention(torch.mean(b, dim=(2, 3), keepdim=True)))
            h = torch.mul(b, w) + b.mean(dim=(2, 3), keepdim=True)
        elif self.form == "linknet":
            h = self.up(b) + a
        else:
            h = torch.cat([self.low(a), self.resize(self.low(b), (8, 8))], 1)
        z = self.resize(self.out(self.drop(h)), (16, 16))
        if self.loss_by == "ce":
            return F.cross_entropy(z, y)
        p, hot = torch.softmax(z, dim=1), (y.unsqueeze(1) == torch.arange(3).view(1, 3, 1, 1)).float()
        inter = (p * hot).sum(dim=(0, 2, 3))
        return 1 - ((2 * inter + 1) / (p.sum(dim=(0, 2, 3)) + hot.sum(dim=(0, 2, 3)) + 1)).mean()


def segmenters(r):
    return Segmenter(r), lambda n: ((torch.randn(n, 3, 16, 16), torch.randint(0, 3, (n, 16, 16))), None)


class Clip(Described):
    """Video: 3-D and factorised convolutions, temporal shifts, divided attention, pools over time, two streams."""

    def __init__(self, r):
        super().__init__(r)
        c = self.c = self.pick(4, 8)
        self.form, self.in_place = self.pick("c3d", "r2plus1d", "shift", "divided", "stream", "lstm", "tubelet"), self.maybe("in place")
        self.conv, self.bn = nn.Conv3d(3, c, 3, padding=1, bias=False), nn.BatchNorm3d(c)
        self.space, self.time = nn.Conv3d(c, 2 * c, (1, 3, 3), padding=(0, 1, 1), bias=False), nn.Conv3d(2 * c, c, (3, 1, 1), padding=(1, 0, 0), bias=False)
        self.bn2, self.frame, self.frame2 = nn.BatchNorm3d(2 * c), nn.Conv2d(3, c, 3, 2, 1), nn.Conv2d(c, c, 3, padding=1)
        self.slow, self.fast, self.lateral = nn.Conv3d(3, c, (1, 3, 3), padding=(0, 1, 1)), nn.Conv3d(3, c // 2, 3, padding=1), nn.Conv3d(c // 2, c // 2, (5, 1, 1), stride=(2, 1, 1), padding=(2, 0, 0))
        self.lstm, self.tube = nn.LSTM(c, 6, batch_first=True), nn.Conv3d(3, 2 * c, (2, 4, 4), (2, 4, 4))
        self.q, self.o, self.ln, self.ln2 = nn.Linear(c, 3 * c), nn.Linear(c, c), nn.LayerNorm(c), nn.LayerNorm(2 * c)
        self.encoder = nn.TransformerEncoderLayer(2 * c, 2, 2 * c, dropout=0.0, batch_first=True)
        self.head, self.head2, self.head3, self.head4 = nn.Linear(c, 5), nn.Linear(6, 5), nn.Linear(2 * c, 5), nn.Linear(c + c // 2, 5)

    def attend(self, x):
        q, k, v = self.q(self.ln(x)).chunk(3, dim=-1)
        return x + self.o(F.softmax(q @ k.transpose(-2, -1) * self.c ** -0.5, dim=-1) @ v)

    def forward(self, x):
        n, _, t, h, w = x.shape
        if self.form == "c3d":
            y = F.max_pool3d(F.relu(self.bn(self.conv(x)), inplace=self.in_place), (1, 2, 2))
            return self.head(y.mean((2, 3, 4)))
        if self.form == "r2plus1d":
            y = self.conv(x)
            z = self.time(F.relu(self.bn2(self.space(y)), inplace=self.in_place))
            return self.head(F.adaptive_avg_pool3d(F.relu(z + y), 1).flatten(1))
        if self.form == "stream":
            slow, fast = F.relu(self.slow(x[:, :, ::2])), F.relu(self.fast(x))
            y = torch.cat([slow, self.lateral(fast)], dim=1)
            return self.head4(y.mean(dim=[-3, -2, -1]))
        if self.form == "tubelet":
            y = self.tube(x).flatten(2).transpose(1, 2)
            return self.head3(self.ln2(self.encoder(y)).mean(dim=1))
        y = F.relu(self.frame(x.transpose(1, 2).reshape(n * t, 3, h, w)))
        if self.form == "shift":
            y = y.view(n, t, self.c, h // 2, w // 2)
            fold = self.c // 4
            before = F.pad(y[:, 1:, :fold], (0, 0, 0, 0, 0, 0, 0, 1))
            after = F.pad(y[:, :-1, fold:2 * fold], (0, 0, 0, 0, 0, 0, 1, 0))
            y = torch.cat([before, after, y[:, :, 2 * fold:]], dim=2).view(n * t, self.c, h // 2, w // 2)
            return self.head(self.frame2(y).mean([2, 3])).view(n, t, 5).mean(1)
        if self.form == "divided":
            y = y.mean([3]).permute(0, 2, 1).reshape(n, t, h // 2, self.c)
            y = self.attend(y)
            y = self.attend(y.transpose(1, 2)).transpose(1, 2)
            return self.head(y.mean((1, 2)))
        y, _ = self.lstm(y.mean([2, 3]).view(n, t, self.c))
        return self.head2(y[:, -1])


def videos(r):
    return Clip(r), lambda n: ((torch.randn(n, 3, 4, 8, 8),), torch.randint(0, 5, (n,)))


class Spoken(Described):
    """Speech: time-delay networks with statistics pooling, SincNet's filters, subsampling, squeezed convolutions, location-aware attention."""

    def __init__(self, r):
        super().__init__(r)
        c = self.c = self.pick(8, 16)
        self.form = self.pick("tdnn", "sinc", "subsampled", "ecapa", "crnn", "quartz", "glu")
        self.tdnn = nn.ModuleList(nn.Conv1d(i, c, k, dilation=d) for i, k, d in ((6, 5, 1), (c, 3, 2), (c, 1, 1)))
        self.bns, self.drop = nn.ModuleList(nn.BatchNorm1d(c) for _ in range(3)), nn.Dropout(self.pick(0, 0.1))
        self.low, self.band = nn.Parameter(torch.rand(c, 1) * 50), nn.Parameter(torch.rand(c, 1) * 50)
        self.register_buffer("window", torch.hamming_window(9, periodic=False))
        self.register_buffer("places", torch.arange(-4.0, 5.0).view(1, -1) / 100)
        self.conv2 = nn.Sequential(nn.Conv2d(1, c, 3, 2, 1), nn.ReLU(), nn.Conv2d(c, c, 3, 2, 1), nn.ReLU())
        self.lin, self.gru = nn.Linear(c, c), nn.GRU(c, c // 2, bidirectional=self.maybe("both ways"), batch_first=True)
        self.first, self.se1, self.se2 = nn.Conv1d(6, c, 1), nn.Conv1d(c, 4, 1), nn.Conv1d(4, c, 1)
        self.attention = nn.Sequential(nn.Conv1d(c, 4, 1), nn.Tanh(), nn.Conv1d(4, c, 1), nn.Softmax(dim=2))
        self.depth, self.point, self.gate = nn.Conv1d(c, c, 5, padding=2, groups=c, bias=False), nn.Conv1d(c, c, 1, bias=False), nn.Conv1d(c, 2 * c, 3, padding=1)
        self.head, self.head2 = nn.Linear(2 * c, 5), nn.Linear(c, 5)
        self.after = nn.Linear(self.gru.hidden_size * (2 if self.gru.bidirectional else 1), 5)

    def forward(self, x):
        n = x.shape[0]
        if self.form == "tdnn":
            for conv, bn in zip(self.tdnn, self.bns):
                x = self.drop(bn(F.relu(conv(x))))
            return self.head(torch.cat([x.mean(dim=2), x.std(dim=2)], dim=1))
        if self.form == "sinc":
            low = 30 + self.low.abs()
            high = torch.clamp(low + 50 + self.band.abs(), 30, 200)
            wave = 2 * math.pi * self.places
            f = ((torch.sin(high @ wave) - torch.sin(low @ wave)) / (wave / 2 + 1e-3)) * self.window
            f = (f / (2 * (high - low))).view(self.c, 1, 9)
            y = F.leaky_relu(self.bns[0](F.max_pool1d(torch.abs(F.conv1d(x[:, :1], f)), 2)), 0.2)
            return self.head2(y.mean(-1))
        if self.form in ("subsampled", "crnn"):
            y = self.conv2(x.transpose(1, 2).unsqueeze(1) if self.form == "subsampled" else x.unsqueeze(1))
            b, c, t, f = y.size()
            if self.form == "subsampled":
                return self.head2(F.relu(self.lin(y.mean(dim=3).transpose(1, 2))).mean(1))
            y, _ = self.gru(y.mean(dim=2).permute(0, 2, 1))
            return self.after(y.mean(dim=1))
        if self.form == "ecapa":
            y = F.relu(self.first(x))
            s = torch.sigmoid(self.se2(F.relu(self.se1(y.mean(dim=2, keepdim=True)))))
            y = y * s + y
            w = self.attention(y)
            mu = torch.sum(y * w, dim=2)
            sg = torch.sqrt((torch.sum((y ** 2) * w, dim=2) - mu ** 2).clamp(min=1e-4))
            return self.head(torch.cat((mu, sg), 1))
        y = self.first(x)
        if self.form == "quartz":
            return self.head2(F.relu(self.bns[0](self.point(self.depth(y))) + y).mean(2))
        return self.head2((y + F.glu(self.gate(self.drop(y)), dim=1)).mul(math.sqrt(0.5)).mean(2))


def speech(r):
    return Spoken(r), lambda n: ((torch.randn(n + 1, 6, 20),), torch.randint(0, 5, (n + 1,)))


class Memory(Described):
    """Memories and cells: attention of decoders step by step, pointers, key-value memories, ConvLSTM, neural stacks of cells."""

    def __init__(self, r):
        super().__init__(r)
        c = self.c = self.pick(8, 16)
        self.form, self.steps = self.pick("bahdanau", "pointer", "keyvalue", "convlstm", "luong", "hops", "gates", "associative"), self.pick(2, 3)
        self.table, self.cell, self.gru = nn.Embedding(12, c), nn.LSTMCell(2 * c, c), nn.GRUCell(c, c)
        self.w1, self.w2, self.v = nn.Linear(c, c), nn.Linear(c, c), nn.Linear(c, 1, bias=False)
        self.keys, self.values = nn.Parameter(torch.randn(6, c)), nn.Parameter(torch.randn(6, c))
        self.conv = nn.Conv2d(1 + c, 4 * c, 3, padding=1)
        self.out, self.both = nn.Linear(c, 12), nn.Linear(2 * c, 12)
        self.wide = nn.Linear(2 * c, 3 * c)

    def forward(self, ids):
        x = self.table(ids)
        n, t, c = x.shape
        if self.form in ("bahdanau", "luong"):
            h, s = x.mean(1), x[:, 0]  # the exporter copies a constant for each of its readers
            rows, keys = [], self.w1(x)
            for i in range(self.steps):
                if self.form == "bahdanau":
                    e = self.v(torch.tanh(keys + self.w2(h).unsqueeze(1)))
                    context = (F.softmax(e, dim=1) * x).sum(dim=1)
                else:
                    a = F.softmax(torch.bmm(keys, h.unsqueeze(2)).squeeze(2), dim=-1)
                    context = torch.bmm(a.unsqueeze(1), x).squeeze(1)
                h, s = self.cell(torch.cat([x[:, i], context], dim=1), (h, s))
                rows.append(self.both(torch.cat([h, context], -1)))
            return torch.stack(rows, dim=1).mean(1)
        if self.form == "pointer":
            h = x.mean(1)
            total, keys = 0, self.w1(x)
            for i in range(self.steps):
                h = self.gru(x[:, i], h)
                p = F.log_softmax(self.v(torch.tanh(keys + self.w2(h)[:, None])).squeeze(-1), dim=1)
                total = total + p
            return torch.cat([total, total[:, :12 - t]], dim=1)
        if self.form == "keyvalue":
            q = self.w1(x)
            a = F.softmax(q @ self.keys.t() / math.sqrt(c), dim=-1)
            return self.out((a @ self.values + x).mean(dim=1))
        if self.form == "hops":
            u = x.sum(1)
            values = self.w1(x)
            for _ in range(self.steps):
                p = F.softmax((x * u.unsqueeze(1)).sum(2), dim=1)
                u = u + (values * p.unsqueeze(2)).sum(1)
            return self.out(u)
        if self.form == "convlstm":
            h, s = torch.zeros(n, c, t, t), torch.zeros(n, c, t, t)
            image = torch.bmm(x, x.transpose(1, 2)).unsqueeze(1)
            for _ in range(self.steps):
                i, f, o, g = torch.split(self.conv(torch.cat([image, h], dim=1)), c, dim=1)
                s = torch.sigmoid(f) * s + torch.sigmoid(i) * torch.tanh(g)
                h = torch.sigmoid(o) * torch.tanh(s)
            return self.out(h.mean((2, 3)))
        if self.form == "gates":
            h = torch.zeros(n, c)
            for i in range(self.steps):
                z, g, m = self.wide(torch.cat([x[:, i], h], 1)).chunk(3, 1)
                z = z.sigmoid()
                h = (1 - z) * h + z * torch.tanh(g) * m.sigmoid()
            return self.out(h)
        a = torch.zeros(n, c, c)
        for i in range(self.steps):
            k = F.elu(self.w1(x[:, i])) + 1
            a = a + k.unsqueeze(2) * self.w2(x[:, i]).unsqueeze(1)
        return self.out((x[:, -1].unsqueeze(1) @ a).squeeze(1))


def memories(r):
    return Memory(r), lambda n: ((torch.randint(0, 12, (n, 7)),), torch.randint(0, 12, (n,)))


class Agent(Described):
    """Control: policy gradients, PPO's clip, dueling values, quantiles, Gaussian policies with tanh, world models' symlog."""

    def __init__(self, r):
        super().__init__(r)
        c, self.form = self.pick(8, 16), self.pick("a2c", "ppo", "dueling", "quantile", "sac", "categorical", "td3", "symlog", "noisy")
        self.body = nn.Sequential(nn.Linear(6, c), r.choice(ACTIVATIONS)(self.maybe("in place")), nn.Linear(c, c), nn.Tanh())
        self.pi, self.v, self.mean, self.log_std = nn.Linear(c, 4), nn.Linear(c, 1), nn.Linear(c, 2), nn.Linear(c, 2)
        self.atoms, self.q1, self.q2 = nn.Linear(c, 4 * 5), nn.Linear(c, 4), nn.Linear(c, 4)
        self.mu, self.sigma = nn.Parameter(torch.randn(4, c)), nn.Parameter(torch.randn(4, c))
        self.free = nn.Parameter(torch.zeros(2))
        self.register_buffer("support", torch.linspace(-1, 1, 5))
        self.register_buffer("taus", (torch.arange(5.0) + 0.5) / 5)

    def forward(self, x, y=None):
        h = self.body(x)
        if self.form == "sac":
            mean, log_std = self.mean(h), torch.clamp(self.log_std(h), -20, 2)
            std = log_std.exp()
            z = mean + std * torch.randn_like(mean)
            action = torch.tanh(z)
            log_p = -0.5 * ((z - mean) / std).pow(2) - log_std - 0.5 * math.log(2 * math.pi)
            log_p = (log_p - torch.log(1 - action.pow(2) + 1e-6)).sum(1, keepdim=True)
            return (0.2 * log_p - self.v(h)).mean()
        if self.form == "noisy":
            mean = self.mean(h)
            w = self.mu + self.sigma * torch.randn(4, self.mu.shape[1])
            return F.linear(h, w).pow(2).mean() + (mean / self.free.exp().expand_as(mean)).pow(2).mean()
        a, value = y[:, :1].long(), y[:, 1:2]
        if self.form in ("a2c", "ppo"):
            log_p = F.log_softmax(self.pi(h), dim=-1)
            chosen = log_p.gather(1, a)
            v = self.v(h)
            advantage = value - v
            entropy = -(log_p.exp() * log_p).sum(-1).mean()
            if self.form == "a2c":
                return -(chosen * value).mean() + 0.5 * advantage.pow(2).mean() - 0.01 * entropy
            ratio = torch.exp(chosen - y[:, 2:3])
            return -torch.min(ratio * value, torch.clamp(ratio, 0.8, 1.2) * value).mean() + 0.5 * (advantage ** 2).mean() - 0.01 * entropy
        if self.form == "dueling":
            adv = self.q1(h)
            q = self.v(h) + adv - adv.mean(dim=1, keepdim=True)
            return (q.gather(1, a).squeeze(1) - value.squeeze(1)).pow(2).mean()
        if self.form == "quantile":
            z = self.atoms(h).view(-1, 4, 5).mean(1)
            u = value - z
            rho = torch.where(u.abs() <= 1, 0.5 * u.pow(2), u.abs() - 0.5)
            return ((self.taus - (u < 0).float()).abs() * rho).sum(1).mean()
        if self.form == "categorical":
            p = F.softmax(self.atoms(h).view(-1, 4, 5), dim=2)
            return ((p * self.support).sum(2).max(1)[0] - value.squeeze(1)).abs().mean()
        if self.form == "td3":
            q = torch.min(self.q1(h), self.q2(h))
            return (q - value).pow(2).mean()
        target = torch.sign(value) * torch.log(1 + value.abs())
        return 0.5 * (self.v(h) - target).pow(2).mean()


def agents(r):
    model = Agent(r)
    told = lambda n: () if model.form in ("sac", "noisy") else (torch.rand(n, 3),)
    return model, lambda n: ((torch.randn(n + 1, 6), *told(n + 1)), None)


FAMILIES = {"detectors": detectors, "segmenters": segmenters, "videos": videos, "speech": speech, "memories": memories, "agents": agents}
