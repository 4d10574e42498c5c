"""Models with an objective of their own, for zoo.odd_jobs: all but the critic return their loss."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = nn.ModuleList(
            nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 8)) for _ in range(4)
        )
        self.sc = nn.Parameter(torch.zeros(4, 4))

    def forward(self, x):
        ld = 0
        a, b = x.chunk(2, -1)
        for i, n in enumerate(self.n):
            st, t = n(a).chunk(2, -1)
            st = torch.tanh(st) * self.sc[i].exp()
            b = b * st.exp() + t
            ld = ld + st.sum(-1)
            a, b = b, a
        z = torch.cat([a, b], -1)
        return (0.5 * z.square().sum(-1) - ld + 4 * math.log(2 * math.pi)).mean()


class Triplets(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = nn.Sequential(
            nn.Linear(12, 32), nn.BatchNorm1d(32), nn.Hardswish(), nn.Linear(32, 8)
        )

    def forward(self, x):
        e = F.normalize(self.n(x), dim=-1)
        d = torch.cdist(e, e)
        lab = torch.arange(x.shape[0], device=x.device) // 2
        same = lab[:, None] == lab[None]
        pos = torch.where(same, d, torch.zeros_like(d)).amax(1)
        neg = d.masked_fill(same, 9.0).amin(1)
        return F.relu(pos - neg + 0.3).mean()


class GaussianProcess(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = nn.Linear(3, 4)
        self.ls = nn.Parameter(torch.zeros(4))
        self.noise = nn.Parameter(torch.tensor(-1.0))
        self.m = nn.Parameter(torch.zeros(1))

    def forward(self, x, y):
        z = torch.tanh(self.n(x)) / F.softplus(self.ls)
        k = torch.exp(-0.5 * torch.cdist(z, z).square()) + (
            F.softplus(self.noise) + 1e-3
        ) * torch.eye(x.shape[0], device=x.device)
        L = torch.linalg.cholesky(k)
        a = torch.linalg.solve_triangular(L, (y - self.m)[:, None], upper=False)
        return 0.5 * a.square().sum() / x.shape[0] + L.diagonal().log().mean()


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.LSTMCell(6, 16)
        self.p = nn.Linear(16, 4)
        self.v = nn.Linear(16, 1)

    def forward(self, x, a, r):
        h = c = x.new_zeros(x.shape[0], 16)
        ps, vs = [], []
        for t in range(x.shape[1]):
            h, c = self.c(x[:, t], (h, c))
            ps.append(self.p(h))
            vs.append(self.v(h))
        p, v = torch.stack(ps, 1).log_softmax(-1), torch.cat(vs, 1)
        ret = r.flip(1).cumsum(1).flip(1)
        adv = (ret - v).detach()
        return (
            -(p.gather(-1, a[..., None]).squeeze(-1) * adv).mean()
            + 0.5 * F.smooth_l1_loss(v, ret)
            + 0.01 * (p.exp() * p).sum(-1).mean()
        )


class MixtureDensity(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = nn.Sequential(nn.Linear(3, 24), nn.CELU(), nn.Linear(24, 12))

    def forward(self, x, y):
        pi, mu, sg = self.n(x).chunk(3, -1)
        sg = F.softplus(sg) + 1e-3
        return -torch.logsumexp(
            pi.log_softmax(-1) - 0.5 * ((y[:, None] - mu) / sg) ** 2 - sg.log(), -1
        ).mean()


class NegativeSampling(nn.Module):
    def __init__(self):
        super().__init__()
        self.i = nn.Embedding(60, 16)
        self.o = nn.Embedding(60, 16)

    def forward(self, c, p, n):
        v = self.i(c)
        return -(
            F.logsigmoid((v * self.o(p)).sum(-1))
            + F.logsigmoid(-torch.bmm(self.o(n), v[:, :, None]).squeeze(-1)).sum(-1)
        ).mean()


class Codebook(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Linear(12, 8)
        self.cb = nn.Embedding(10, 8)
        self.d = nn.Linear(8, 12)

    def forward(self, x):
        z = self.e(x)
        d = (
            z.square().sum(1, keepdim=True)
            - 2 * z @ self.cb.weight.T
            + self.cb.weight.square().sum(1)
        )
        q = self.cb(d.argmin(1))
        st = z + (q - z).detach()
        return (
            F.mse_loss(self.d(st), x) + F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
        )


class Rays(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = nn.Sequential(nn.Linear(18, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, x):
        f = x[..., None] * (2.0 ** torch.arange(3, device=x.device))
        o = self.n(torch.cat([f.sin(), f.cos()], -1).flatten(-2))
        rgb, sig = o[..., :3].sigmoid(), F.softplus(o[..., 3])
        a = 1 - torch.exp(-sig * 0.3)
        T = torch.cumprod(1 - a + 1e-10, -1)
        T = torch.cat([torch.ones_like(T[..., :1]), T[..., :-1]], -1)
        return ((a * T)[..., None] * rgb).sum(-2)


class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(30, 12)
        self.h = nn.Linear(12, 5)
        self.t = nn.Parameter(torch.randn(5, 5) * 0.3)

    def forward(self, x, y):
        u = self.h(self.e(x))
        al = u[:, 0]
        for t in range(1, x.shape[1]):
            al = torch.logsumexp(al[:, :, None] + self.t, 1) + u[:, t]
        gold = u.gather(2, y[..., None]).squeeze(-1).sum(1) + self.t[y[:, :-1], y[:, 1:]].sum(1)
        return (al.logsumexp(1) - gold).mean()


class ClippedPolicy(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 3))
        self.ls = nn.Parameter(torch.zeros(3) - 0.5)
        self.v = nn.Linear(6, 1)

    def forward(self, x, a, old, adv, ret):
        d = torch.distributions.Normal(self.n(x), self.ls.exp(), validate_args=False)
        lp = d.log_prob(a).sum(-1)
        r = (lp - old).exp()
        return (
            -torch.min(r * adv, r.clamp(0.8, 1.2) * adv).mean()
            + 0.5 * F.huber_loss(self.v(x).squeeze(-1), ret)
            - 0.01 * d.entropy().sum(-1).mean()
        )


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = nn.Sequential(
            nn.Linear(6, 32),
            nn.LeakyReLU(0.2),
            nn.Linear(32, 16),
            nn.LeakyReLU(0.2),
            nn.Linear(16, 1),
        )

    def forward(self, x):
        return self.n(x)


class Sinkhorn(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 8)
        self.b = nn.Linear(6, 8)

    def forward(self, x, y):
        c = (self.a(x)[:, None] - self.b(y)[None]).square().sum(-1)
        k = -c / 0.5
        f = torch.zeros_like(k[:, 0])
        g = torch.zeros_like(k[0])
        for _ in range(5):
            f = -torch.logsumexp(k + g[None], 1) - math.log(len(x))
            g = -torch.logsumexp(k + f[:, None], 0) - math.log(len(y))
        return ((k + f[:, None] + g[None]).exp() * c).sum()
