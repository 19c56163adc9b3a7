"""Images by windows and sound, in the form in which people publish them.

Forms are left out that no ONNX file tells from other ones: see architectures.py and frontier.py."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_models.architectures import Described
from torch_models.frontier import labels, mse


class Windowed(Described):
    """Vision transformers of stages: Swin's windows and shifts, Swin v2, MaxViT's grid, PVT, CvT, XCiT, MViT's pools, focal modulation, token merging, LeViT."""

    def __init__(self, r):
        super().__init__(r)
        d = self.d = self.pick(8, 16)
        self.form, self.merges = self.pick("swin", "shifted", "swin2", "grid", "pvt", "cvt", "xcit", "mvit", "focal", "tome", "registers", "coat"), self.maybe("merges")
        self.stem, self.norm, self.norm2 = nn.Conv2d(3, d, 2, 2), nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj, self.mlp = nn.Linear(d, 3 * d, bias=self.maybe("bias")), nn.Linear(d, d), nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
        self.table, self.cpb = nn.Parameter(torch.zeros(49, 2)), nn.Sequential(nn.Linear(2, 12), nn.ReLU(inplace=True), nn.Linear(12, 2, bias=False))
        at = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")).flatten(1)
        near = (at[:, :, None] - at[:, None, :]).permute(1, 2, 0) + 3
        self.register_buffer("index", near[..., 0] * 7 + near[..., 1])
        self.register_buffer("coords", torch.randn(49, 2))
        zones = torch.arange(8).div(4, rounding_mode="floor").view(2, 4).repeat_interleave(2, 0)
        self.register_buffer("mask", (zones[:, :, None] != zones[:, None]).float().repeat_interleave(4, 1).repeat_interleave(4, 2) * -100.0)
        self.logit, self.temperature = nn.Parameter(torch.ones(2, 1, 1)), nn.Parameter(torch.ones(2, 1, 1))
        self.reduce, self.sr_norm, self.kv = nn.Conv2d(d, d, 2, 2), nn.LayerNorm(d), nn.Linear(d, 2 * d)
        self.dw = nn.ModuleList(nn.Sequential(nn.Conv2d(d, d, 3, padding=1, groups=d, bias=False), nn.BatchNorm2d(d)) for _ in range(3))
        self.q, self.local, self.focal, self.mod = nn.Linear(d, d), nn.Linear(d, 2 * d + 3), nn.ModuleList(nn.Conv2d(d, d, k, padding=k // 2, groups=d, bias=False) for k in (3, 5)), nn.Conv2d(d, d, 1)
        self.merge, self.merge_norm, self.head = nn.Linear(4 * d, d, bias=False), nn.LayerNorm(4 * d), nn.Linear(d, 5)
        self.registers, self.pool, self.scale = nn.Parameter(torch.randn(1, 2, d)), nn.Conv2d(d // 2, d // 2, 3, 2, 1, groups=d // 2), nn.Parameter(torch.ones(d) * 1e-4)

    def heads(self, x):
        return x.reshape(x.shape[0], -1, 2, self.d // 2).transpose(1, 2)

    def attend(self, x, bias=None):
        n, t, d = x.shape
        q, k, v = self.qkv(x).reshape(n, t, 3, 2, d // 2).permute(2, 0, 3, 1, 4).unbind(0)
        if self.form == "swin2":
            a = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * torch.clamp(self.logit, max=math.log(100.0)).exp()
        else:
            a = q * (d // 2) ** -0.5 @ k.transpose(-2, -1)
        if bias is not None:
            a = a + bias.unsqueeze(0)
        if self.form == "shifted":
            a = (a.view(n // 4, 4, 2, t, t) + self.mask[:, :t, :t].unsqueeze(1).unsqueeze(0)).view(-1, 2, t, t)
        return self.proj((a.softmax(dim=-1) @ v).transpose(1, 2).reshape(n, t, d))

    def mix(self, x):
        n, h, w, d = x.shape
        if self.form in ("swin", "shifted", "swin2", "grid"):
            x = torch.roll(x, shifts=(-2, -2), dims=(1, 2)) if self.form == "shifted" else x
            y = x.view(n, 2, 4, 2, 4, d)
            y = y.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, 16, d) if self.form != "grid" else y.permute(0, 2, 4, 1, 3, 5).reshape(-1, 4, d)
            bias = None
            if self.form == "swin2":
                bias = 16 * torch.sigmoid(self.cpb(self.coords)[self.index.view(-1)].view(16, 16, -1).permute(2, 0, 1).contiguous())
            elif self.form != "grid":
                bias = self.table[self.index.view(-1)].view(16, 16, -1).permute(2, 0, 1).contiguous()
            y = self.attend(y, bias)
            if self.form == "grid":
                return y.view(n, 4, 4, 2, 2, d).permute(0, 3, 1, 4, 2, 5).reshape(n, h, w, d)
            y = y.view(n, 2, 2, 4, 4, d).permute(0, 1, 3, 2, 4, 5).contiguous().view(n, h, w, d)
            return torch.roll(y, shifts=(2, 2), dims=(1, 2)) if self.form == "shifted" else y
        image, flat = x.permute(0, 3, 1, 2), x.reshape(n, h * w, d)
        if self.form == "pvt":
            k, v = self.kv(self.sr_norm(self.reduce(image).reshape(n, d, -1).permute(0, 2, 1))).reshape(n, -1, 2, 2, d // 2).permute(2, 0, 3, 1, 4)
            q = self.heads(self.q(flat))
        elif self.form == "cvt":
            q, k, v = (self.heads(f(image).flatten(2).transpose(1, 2)) for f in self.dw)
        elif self.form == "xcit":
            q, k, v = self.qkv(flat).reshape(n, h * w, 3, 2, d // 2).permute(2, 0, 3, 4, 1)
            a = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)) * self.temperature
            return self.proj((a.softmax(-1) @ v).permute(0, 3, 1, 2).reshape(n, h * w, d)).view(n, h, w, d)
        elif self.form == "mvit":
            q, k, v = self.qkv(flat).reshape(n, h * w, 3, 2, d // 2).permute(2, 0, 3, 1, 4).unbind(0)
            k, v = (self.pool(u.transpose(2, 3).reshape(n * 2, d // 2, h, w)).reshape(n, 2, d // 2, -1).transpose(2, 3) for u in (k, v))
        elif self.form == "focal":
            q, context, gates = torch.split(self.local(x).permute(0, 3, 1, 2), (d, d, 3), 1)
            total = 0
            for i, f in enumerate(self.focal):
                context = F.gelu(f(context))
                total = total + context * gates[:, i:i + 1]
            total = total + F.gelu(context.mean(2, keepdim=True).mean(3, keepdim=True)) * gates[:, 2:]
            return self.proj((q * self.mod(total)).permute(0, 2, 3, 1))
        elif self.form == "registers":
            y = self.attend(torch.cat([self.registers.expand(n, -1, -1), flat], dim=1))
            return y[:, 2:].view(n, h, w, d) * self.scale
        elif self.form == "tome":
            a, b = flat[:, ::2], flat[:, 1::2]
            near = (F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).transpose(-1, -2)).max(dim=-1)[1]
            b = b.scatter_add(1, near.unsqueeze(-1).expand(-1, -1, d), a)
            return self.attend(b).repeat(1, 2, 1).view(n, h, w, d)
        else:
            y = self.dw[0](image) + image
            return self.attend(y.flatten(2).transpose(1, 2)).view(n, h, w, d)
        y = F.softmax((q @ k.transpose(-2, -1)) * (d // 2) ** -0.5, dim=-1) @ v
        return self.proj(y.transpose(1, 2).reshape(n, h, w, d))

    def forward(self, x):
        x = self.stem(x).permute(0, 2, 3, 1)
        x = x + self.mix(self.norm(x))
        x = x + self.mlp(self.norm2(x))
        if self.merges:
            x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
            x = self.merge(self.merge_norm(x))
        return self.head(x.mean((1, 2)))


def windows(r):
    return Windowed(r), lambda n: ((torch.randn(n, 3, 16, 16),), labels(n))


class Rectified(nn.Module):
    """A block of HiFi-GAN's generator."""

    def __init__(self, c, kernel, dilation):
        super().__init__()
        self.conv = nn.utils.weight_norm(nn.Conv1d(c, c, kernel, padding=dilation * (kernel - 1) // 2, dilation=dilation))

    def forward(self, x):
        return self.conv(F.leaky_relu(x, 0.1)) + x


class Sound(Described):
    """Sound: wav2vec 2.0, Conv-TasNet, HiFi-GAN's blocks, Demucs, FastSpeech's predictors, spectrograms by convolution, Tacotron's locations, residual codes."""

    def __init__(self, r):
        super().__init__(r)
        c = self.c = self.pick(8, 12)
        self.form = self.pick("wav2vec", "tasnet", "hifigan", "demucs", "variance", "spectrogram", "location", "framed", "masked", "snake")
        self.conv1, self.gn, self.conv2 = nn.Conv1d(1, c, 5, 2, bias=False), nn.GroupNorm(c, c), nn.Conv1d(c, c, 3, 2, bias=False)
        self.pos, self.ln = nn.utils.weight_norm(nn.Conv1d(c, c, 4, padding=2, groups=2), dim=2), nn.LayerNorm(c)
        self.layer = nn.TransformerEncoderLayer(c, 2, 2 * c, dropout=self.pick(0.0, 0.1), batch_first=True, activation="gelu", norm_first=self.maybe("first"))
        self.encoder, self.bottleneck, self.decoder = nn.Conv1d(1, c, 4, 2, bias=False), nn.Conv1d(c, c, 1), nn.ConvTranspose1d(c, 1, 4, 2, bias=False)
        self.gain, self.bias, self.prelu, self.depth = nn.Parameter(torch.ones(1, c, 1)), nn.Parameter(torch.zeros(1, c, 1)), nn.PReLU(), nn.Conv1d(c, c, 3, padding=2, dilation=2, groups=c)
        self.masks = nn.Conv1d(c, 2 * c, 1)
        wn = nn.utils.weight_norm
        self.up, self.mrf = wn(nn.ConvTranspose1d(c, c, 4, 2, 1)), nn.ModuleList(Rectified(c, k, d) for k, d in ((3, 1), (3, 3), (5, 1)))
        self.last, self.rewrite, self.lstm, self.lin = wn(nn.Conv1d(c, 1, 7, padding=3)), nn.Conv1d(c, 2 * c, 1), nn.LSTM(c, c, bidirectional=True), nn.Linear(2 * c, c)
        self.register_buffer("basis", torch.randn(2 * 5, 1, 8))
        self.mel, self.alpha, self.mask = nn.Linear(5, c), nn.Parameter(torch.ones(1, c, 1)), nn.Parameter(torch.rand(c))
        self.where, self.query, self.v, self.frame = nn.Conv1d(2, c, 3, padding=1, bias=False), nn.Linear(c, c, bias=False), nn.Linear(c, 1, bias=False), nn.Linear(8, c)
        self.cell, self.drop, self.head = nn.LSTMCell(c, c), nn.Dropout(0.2), nn.Linear(c, 5)

    def forward(self, x):
        n = x.shape[0]
        if self.form in ("spectrogram", "framed"):
            if self.form == "framed":
                frames = x.squeeze(1).unfold(1, 8, 4)
                return self.head(F.gelu(self.frame(frames * 0.5)).mean(1))
            real, imaginary = F.conv1d(x, self.basis, stride=4).chunk(2, dim=1)
            power = torch.sqrt(real ** 2 + imaginary ** 2 + 1e-6)
            return self.head(torch.log(self.mel(power.transpose(1, 2)).abs() + 1e-5).mean(1))
        if self.form == "tasnet":
            w = F.relu(self.encoder(x))
            h = self.prelu(self.bottleneck(w))
            mean = h.mean(dim=(1, 2), keepdim=True)
            h = h - mean
            var = (h ** 2).mean(dim=(1, 2), keepdim=True)
            h = self.gain * h / torch.pow(var + 1e-8, 0.5) + self.bias
            m = torch.sigmoid(self.masks(self.depth(h) + h)).view(n, 2, self.c, -1)
            y = self.decoder((m * w.unsqueeze(1)).view(2 * n, self.c, -1)).view(n, 2, -1)
            s = x.expand(-1, 2, -1)
            scale = (y * s).sum(-1, keepdim=True) / (s.pow(2).sum(-1, keepdim=True) + 1e-8)
            target = scale * s
            return -10 * torch.log10(target.pow(2).sum(-1) / ((y - target).pow(2).sum(-1) + 1e-8) + 1e-8).mean()
        h = F.gelu(self.gn(self.conv1(x)))
        if self.form == "hifigan":
            h = self.up(F.leaky_relu(h, 0.1))
            total = 0
            for block in self.mrf:
                total = total + block(h)
            return torch.tanh(self.last(F.leaky_relu(total / 3))).pow(2).mean()
        if self.form == "snake":
            h = h + torch.sin(self.alpha * h) ** 2 / (self.alpha + 1e-9)
            return self.head(self.depth(h).mean(-1)).pow(2).mean()
        h = F.gelu(self.conv2(h))
        if self.form == "demucs":
            h = F.glu(self.rewrite(h), dim=1)
            y, _ = self.lstm(h.permute(2, 0, 1))
            return self.head(self.lin(y).mean(0)).abs().mean()
        h = h.transpose(1, 2)
        if self.form == "variance":
            y = self.ln(F.relu(self.bottleneck(h.transpose(1, 2)).transpose(1, 2)))
            return mse(self.v(self.drop(y)).squeeze(-1).exp(), torch.ones(n, h.shape[1]))
        if self.form == "location":
            state, cell = h.mean(1), h.sum(1)
            a = total = torch.softmax(self.v(h).squeeze(-1), dim=1)
            for _ in range(2):
                place = self.where(torch.stack([a, total], dim=1)).transpose(1, 2)
                e = self.v(torch.tanh(self.query(state).unsqueeze(1) + place + h)).squeeze(-1)
                a = F.softmax(e, dim=1)
                total = total + a
                state, cell = self.cell(torch.bmm(a.unsqueeze(1), h).squeeze(1), (state, cell))
            return self.head(state).pow(2).mean()
        if self.form == "masked":
            hidden = (torch.arange(h.shape[1]) % 3 == 0).view(1, -1, 1)
            h = torch.where(hidden, self.mask, h)
        y = h + F.gelu(self.pos(h.transpose(1, 2))[:, :, :-1]).transpose(1, 2)
        y = self.layer(self.ln(y))
        s = F.cosine_similarity(y.unsqueeze(2), h.unsqueeze(1), dim=-1) / 0.1
        return F.cross_entropy(s.flatten(0, 1), torch.arange(h.shape[1]).repeat(n))


def sounds(r):
    model = Sound(r)
    target = lambda n: labels(n) if model.form in ("spectrogram", "framed") else None
    return model, lambda n: ((torch.randn(n + 1, 1, 32),), target(n + 1))


FAMILIES = {"windows": windows, "sounds": sounds}
