# SPDX-License-Identifier: Apache-2.0
"""The model: a Llama-style decoder (RMSNorm, rotate-half RoPE, grouped-query attention, SwiGLU, tied
head), structured like the llm-export blocks, so that training and export share the code."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Config:
    vocab = 1100
    hidden = 192
    layers = 4
    heads = 6
    kv_heads = 2
    head_dim = 32
    intermediate = 432  # 13.5 blocks of 32: the remainder is intentional
    theta = 10000.0
    eps = 1e-5
    context = 384


class RMSNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        variance = x.pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + self.eps))


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def rotary(position_ids, c):
    """Returns cos and sin, stacked, [2, 1, seq, 1, head_dim], of position_ids [1, seq]."""
    inverse = 1.0 / (c.theta ** (torch.arange(0, c.head_dim, 2, dtype=torch.float32) / c.head_dim))
    angle = position_ids.float().reshape(-1, 1) * inverse
    angle = torch.cat((angle, angle), dim=-1).unsqueeze(1).unsqueeze(0)
    return torch.stack([torch.cos(angle), torch.sin(angle)])


class CausalAttention(torch.autograd.Function):
    """softmax(q k^T + causal mask) v for whole sequences, used in training only. Processes the
    queries in chunks and skips keys after the end of a chunk, which halves the time of a step.
    q (already scaled), k, v: [batch * heads, seq, head_dim]."""

    CHUNK = 128

    @staticmethod
    def forward(ctx, q, k, v):
        out = torch.empty_like(q)
        seq = q.shape[1]
        mask = torch.full((seq, seq), -1e9, dtype=q.dtype).triu(1)
        probabilities = []
        for a in range(0, seq, CausalAttention.CHUNK):
            b = min(a + CausalAttention.CHUNK, seq)
            scores = torch.bmm(q[:, a:b], k[:, :b].transpose(1, 2))
            scores[:, :, a:] += mask[a:b, a:b]
            p = torch._softmax(scores, -1, False)
            out[:, a:b] = torch.bmm(p, v[:, :b])
            probabilities.append(p)
        ctx.save_for_backward(q, k, v, *probabilities)
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, *probabilities = ctx.saved_tensors
        grad = grad.to(q.dtype)
        dq, dk, dv = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for i, p in enumerate(probabilities):
            a = i * CausalAttention.CHUNK
            b = a + p.shape[1]
            g = grad[:, a:b]
            dv[:, :b] += torch.bmm(p.transpose(1, 2), g)
            dp = torch.bmm(g, v[:, :b].transpose(1, 2))
            ds = torch._softmax_backward_data(dp, p, -1, p.dtype)
            dq[:, a:b] = torch.bmm(ds, k[:, :b])
            dk[:, :b] += torch.bmm(ds.transpose(1, 2), q[:, a:b])
        return dq, dk, dv


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.n1 = RMSNorm(c.hidden, c.eps)
        self.q = nn.Linear(c.hidden, c.heads * c.head_dim, bias=False)
        self.k = nn.Linear(c.hidden, c.kv_heads * c.head_dim, bias=False)
        self.v = nn.Linear(c.hidden, c.kv_heads * c.head_dim, bias=False)
        self.o = nn.Linear(c.heads * c.head_dim, c.hidden, bias=False)
        self.n2 = RMSNorm(c.hidden, c.eps)
        self.gate = nn.Linear(c.hidden, c.intermediate, bias=False)
        self.up = nn.Linear(c.hidden, c.intermediate, bias=False)
        self.down = nn.Linear(c.intermediate, c.hidden, bias=False)

    def forward(self, x, rope, mask=None, past=None):
        """x [batch, seq, hidden]. Without past: causal attention over x, as trained. With past
        [2, batch, past, kv_heads, head_dim]: mask [1, 1, seq, total] is added to the scores, and the
        whole cache is returned with the new x; this form is exported."""
        c = self.c
        h = self.n1(x)
        batch, seq = h.shape[0], h.shape[1]
        q = self.q(h).view(batch, seq, c.heads, c.head_dim)
        k = self.k(h).view(batch, seq, c.kv_heads, c.head_dim)
        v = self.v(h).view(batch, seq, c.kv_heads, c.head_dim)
        cos, sin = rope
        q = (q * cos) + (rotate_half(q) * sin)
        k = (k * cos) + (rotate_half(k) * sin)
        if past is None:
            out, presents = self.train_attention(q, k, v), None
        else:
            k = torch.cat((past[0], k), dim=1)
            v = torch.cat((past[1], v), dim=1)
            presents = torch.stack((k, v))
            q = q.transpose(1, 2)
            k = self.repeat(k.permute(0, 2, 3, 1))
            v = self.repeat(v.transpose(1, 2))
            scores = torch.matmul(q, k) / math.sqrt(c.head_dim)
            scores = torch.softmax(scores + mask, dim=-1)
            out = torch.matmul(scores, v).transpose(1, 2)
        out = out.reshape(batch, seq, c.heads * c.head_dim)
        x = x + self.o(out)
        h = self.n2(x)
        g = self.gate(h)
        x = x + self.down(g * torch.sigmoid(g) * self.up(h))
        return (x, presents) if past is not None else x

    def train_attention(self, q, k, v):
        c = self.c
        batch, seq = q.shape[0], q.shape[1]
        q = (q * (1.0 / math.sqrt(c.head_dim))).to(v.dtype).transpose(1, 2)
        k = self.repeat(k.to(v.dtype).transpose(1, 2))
        v = self.repeat(v.transpose(1, 2))
        q, k, v = (x.reshape(batch * c.heads, seq, c.head_dim) for x in (q, k, v))
        out = CausalAttention.apply(q, k, v)
        return out.view(batch, c.heads, seq, c.head_dim).transpose(1, 2)

    def repeat(self, x):
        """[batch, kv_heads, a, b] -> [batch, heads, a, b]: each KV head serves a group of heads."""
        batch, kv, a, b = x.shape
        group = self.c.heads // self.c.kv_heads
        return x[:, :, None, :, :].expand(batch, kv, group, a, b).reshape(batch, kv * group, a, b)


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.embedding = nn.Embedding(c.vocab, c.hidden)
        self.blocks = nn.ModuleList(Layer(c) for _ in range(c.layers))
        self.final = RMSNorm(c.hidden, c.eps)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                deep = name.endswith(("o.weight", "down.weight"))
                nn.init.normal_(p, std=0.04 / (math.sqrt(2 * c.layers) if deep else 1.0))
        self.register_buffer("rope", rotary(torch.arange(c.context)[None], c), persistent=False)

    def forward(self, ids):
        """Returns the logits [batch, seq, vocab] of ids [batch, seq]; seq is at most the training context."""
        seq = ids.shape[1]
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, self.rope[:, :, :seq])
        return F.linear(self.final(x), self.embedding.weight)
