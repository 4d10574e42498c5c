"""Networks that no package has, for zoo.odd_jobs: each returns what a usual loss reads."""

import torch
import torch.nn.functional as F
from torch import nn


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, padding=1)
        self.b = nn.Conv2d(8, 16, 3, 2, 1)
        self.u = nn.Conv2d(24, 8, 3, padding=1, padding_mode="reflect")
        self.g = nn.GroupNorm(4, 8)
        self.o = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = F.gelu(self.a(x))
        b = F.gelu(self.b(a))
        u = F.interpolate(b, scale_factor=2, mode="bilinear", align_corners=False)
        return self.o(self.g(F.mish(self.u(torch.cat([a, u], 1)))))


class Hypernetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.z = nn.Parameter(torch.randn(4) * 0.5)
        self.h = nn.Linear(4, 3 * 6 * 9)
        self.o = nn.Linear(6, 4)

    def forward(self, x):
        w = self.h(self.z).view(6, 3, 3, 3)
        return self.o(F.leaky_relu(F.conv2d(x, w, padding=1), 0.1).mean((2, 3)))


class WaveNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.i = nn.Conv1d(1, 8, 1)
        self.d = nn.ModuleList(
            nn.utils.parametrizations.weight_norm(nn.Conv1d(8, 16, 2, dilation=2**i))
            for i in range(3)
        )
        self.r = nn.ModuleList(nn.Conv1d(8, 8, 1) for _ in range(3))
        self.o = nn.Conv1d(8, 12, 1)

    def forward(self, x):
        h = self.i(x)
        sk = 0
        for i, (d, r) in enumerate(zip(self.d, self.r, strict=True)):
            a, b = d(F.pad(h, (2**i, 0))).chunk(2, 1)
            z = r(a.tanh() * b.sigmoid())
            h = h + z
            sk = sk + z
        return self.o(F.relu(sk))


class DeformedSampling(nn.Module):
    def __init__(self):
        super().__init__()
        self.o = nn.Conv2d(3, 2, 3, padding=1)
        self.c = nn.Conv2d(3, 6, 3, padding=1)
        self.h = nn.Linear(6, 4)

    def forward(self, x):
        y, xx = torch.meshgrid(
            torch.linspace(-1, 1, x.shape[2], device=x.device),
            torch.linspace(-1, 1, x.shape[3], device=x.device),
            indexing="ij",
        )
        g = torch.stack([xx, y], -1)[None] + 0.2 * torch.tanh(self.o(x)).permute(0, 2, 3, 1)
        return self.h(
            F.relu(self.c(F.grid_sample(x, g, align_corners=True, padding_mode="border"))).amax(
                (2, 3)
            )
        )


class ChannelWeights(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2),
            nn.BatchNorm2d(8),
            nn.SiLU(),
            nn.AvgPool2d(2),
            nn.Flatten(),
        )
        self.se = nn.Linear(8, 8)
        self.h = nn.Linear(72, 5)

    def forward(self, x):
        h = self.c(x).view(x.shape[0], 8, -1)
        h = h * torch.sigmoid(self.se(h.mean(-1)))[..., None]
        return self.h(h.flatten(1))


class LatentAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Parameter(torch.randn(5, 16) * 0.3)
        self.a = nn.MultiheadAttention(16, 2, kdim=12, vdim=12, batch_first=True)
        self.norm = nn.LayerNorm(16)
        self.o = nn.Linear(16, 3)

    def forward(self, x):
        y, _ = self.a(self.q.expand(x.shape[0], -1, -1), x, x, need_weights=False)
        return self.o(self.norm(y).mean(1))


class RelativePositions(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(40, 24)
        self.qkv = nn.Linear(24, 72, bias=False)
        self.r = nn.Parameter(torch.randn(3, 10, 8) * 0.1)
        self.u = nn.Parameter(torch.randn(3, 1, 8) * 0.1)
        self.o = nn.Linear(24, 40)

    def forward(self, x):
        h = self.e(x)
        B, T, C = h.shape
        q, k, v = self.qkv(h).view(B, T, 3, 3, 8).permute(2, 0, 3, 1, 4)
        ac = (q + self.u) @ k.transpose(-1, -2)
        bd = q @ self.r.transpose(-1, -2)
        bd = F.pad(bd, (1, 0)).view(B, 3, T + 1, T)[:, :, 1:]
        w = (
            ((ac + bd) / 8**0.5)
            .masked_fill(torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1), float("-inf"))
            .softmax(-1)
        )
        return self.o((w @ v).transpose(1, 2).reshape(B, T, C))


class ExpertsWithCapacity(nn.Module):
    def __init__(self):
        super().__init__()
        self.g = nn.Linear(12, 4, bias=False)
        self.w1 = nn.Parameter(torch.randn(4, 12, 16) * 0.2)
        self.w2 = nn.Parameter(torch.randn(4, 16, 12) * 0.2)
        self.h = nn.Linear(12, 5)

    def forward(self, x):
        p = self.g(x).softmax(-1)
        v, i = p.topk(2, -1)
        oh = F.one_hot(i, 4)
        pos = (oh.flatten(0, 1).cumsum(0) - 1).view_as(oh)
        keep = (pos < 6) & (oh > 0)
        cap = F.one_hot(pos.clamp(0, 5), 6) * keep[..., None]
        comb = (v[..., None, None] * cap.to(x.dtype)).sum(1)
        disp = (comb > 0).to(x.dtype)
        y = torch.einsum("nec,nd->ecd", disp, x)
        y = torch.einsum("ecd,edf->ecf", y, self.w1).relu()
        y = torch.einsum("ecf,efd->ecd", y, self.w2)
        aux = (p.mean(0) * F.one_hot(i[:, 0], 4).to(x.dtype).mean(0)).sum() * 4
        return self.h(x + torch.einsum("nec,ecd->nd", comb, y)), aux


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(30, 12)
        self.enc = nn.GRU(12, 16, batch_first=True)
        self.dec = nn.GRUCell(28, 16)
        self.a = nn.Linear(16, 16, bias=False)
        self.o = nn.Linear(16, 30)

    def forward(self, x, y):
        m, h = self.enc(self.e(x))
        h = h[0]
        out = []
        for t in range(y.shape[1]):
            w = torch.bmm(m, self.a(h)[:, :, None]).softmax(1)
            h = self.dec(torch.cat([self.e(y[:, t]), (m * w).sum(1)], 1), h)
            out.append(self.o(h))
        return torch.stack(out, 1)


class GraphAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Linear(8, 12, bias=False)
        self.a = nn.Parameter(torch.randn(12) * 0.3)
        self.b = nn.Parameter(torch.randn(12) * 0.3)
        self.o = nn.Linear(12, 4)

    def forward(self, x, e):
        h = self.w(x)
        scores = F.leaky_relu((h @ self.a)[e[0]] + (h @ self.b)[e[1]], 0.2)
        w = scores.exp()
        z = torch.zeros(x.shape[0], device=x.device).index_add(0, e[1], w)
        return self.o(
            F.elu(torch.zeros_like(h).index_add(0, e[1], h[e[0]] * (w / z[e[1]])[:, None]))
        )


class Splines(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Parameter(torch.randn(4, 6, 8) * 0.2)
        self.c2 = nn.Parameter(torch.randn(6, 1, 8) * 0.2)
        self.b = nn.Linear(4, 6)

    def basis(self, x):
        g = torch.linspace(-2.2, 2.2, 12, device=x.device)
        x = x[..., None]
        b = ((x >= g[:-1]) & (x < g[1:])).to(x.dtype)
        for k in range(1, 4):
            b = (x - g[: -k - 1]) / (g[k:-1] - g[: -k - 1]) * b[..., :-1] + (g[k + 1 :] - x) / (
                g[k + 1 :] - g[1:-k]
            ) * b[..., 1:]
        return b

    def forward(self, x):
        h = torch.einsum("nik,iok->no", self.basis(x), self.c) + self.b(F.silu(x))
        return torch.einsum("nik,iok->no", self.basis(torch.tanh(h)), self.c2)


class NeuralOde(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(5, 32), nn.SiLU(), nn.Linear(32, 4))
        self.o = nn.Linear(4, 2)

    def forward(self, x):
        h = 0.25

        def f(t, y):
            return self.f(torch.cat([y, torch.full_like(y[:, :1], t)], 1))

        for i in range(4):
            t = i * h
            k1 = f(t, x)
            k2 = f(t + h / 2, x + h / 2 * k1)
            k3 = f(t + h / 2, x + h / 2 * k2)
            k4 = f(t + h, x + h * k3)
            x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return self.o(x)
