"""What a Transformer with slots costs: a step of training against a plain loop, and its scores."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from benchmarks.measure import Result, benchmark, interleave, ratio
from recombine.maps.seed import seeded
from recombine.models.transformer import transformer_autoencoder
from recombine.penalties import Batch, attention_interaction, latent_capacity
from recombine.penalties.loss import sum_of_squares
from recombine.tasks.task import Data
from recombine.training.ensemble import Ensemble, Mapped, Objective, Single
from recombine.training.fit import fit
from recombine_papers.brady2024.jacobians import j_ari, jis, slot_maps


def scenes(side: int, n: int) -> Data:
    """Draw random images: speed does not depend on what they show."""
    x = torch.rand(n, 3, side, side, generator=torch.Generator().manual_seed(0))
    return Data(np.zeros((n, 2)), x, x)


class Heads(nn.Module):
    """Attention of many heads, written step by step."""

    def __init__(self, query: int, inner: int, heads: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, (inner / heads) ** -0.5
        self.q, self.k, self.v = (
            nn.Linear(query, inner),
            nn.Linear(inner, inner),
            nn.Linear(inner, inner),
        )
        self.o = nn.Linear(inner, query)

    def split(self, x: Tensor) -> Tensor:
        """Bring heads forward."""
        return x.reshape(x.shape[0], x.shape[1], self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, x: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Let `x` look at `z`; also give how."""
        q, k, v = self.split(self.q(x)), self.split(self.k(z)), self.split(self.v(z))
        weights = torch.softmax(q @ k.transpose(2, 3) * self.scale, dim=3)
        read = (weights @ v).permute(0, 2, 1, 3)
        return self.o(read.reshape(x.shape[0], x.shape[1], -1)), weights


class Layer(nn.Module):
    """Cross-attention, self-attention if asked for, and a feed-forward part, each normed first."""

    def __init__(self, query: int, inner: int, heads: int, meets: bool) -> None:
        super().__init__()
        self.cross = Heads(query, inner, heads)
        self.own = Heads(query, inner, heads) if meets else None
        self.norms = nn.ModuleList([nn.LayerNorm(query) for _ in range(3 if meets else 2)])
        self.other = nn.LayerNorm(inner)
        self.up, self.down = nn.Linear(query, 2 * query), nn.Linear(2 * query, query)

    def forward(self, x: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Refine `x` by `z`; also give how it looked."""
        read, weights = self.cross(self.norms[0](x), self.other(z))
        x = x + read
        if self.own is not None:
            met = self.norms[1](x)
            x = x + self.own(met, met)[0]
        return x + self.down(gelu(self.up(self.norms[-1](x)))), weights


def mlp(*sizes: int) -> nn.Sequential:
    """Dense layers with GELU."""
    layers: list[nn.Module] = []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), nn.GELU()]
    return nn.Sequential(*layers[:-1])


class Plain(nn.Module):
    """The same autoencoder, as the paper's page describes it, without second thoughts."""

    def __init__(self, side: int, slots: int, dim: int) -> None:
        super().__init__()
        self.side, self.dim = side, dim
        convolutions: list[nn.Module] = []
        for a, b, stride in ((3, 24, 2), (24, 24, 1), (24, 24, 2), (24, 32, 1)):
            convolutions += [nn.Conv2d(a, b, 5, stride, 2), nn.GELU()]
        self.convolutions = nn.Sequential(*convolutions)
        self.place = nn.Linear(4, 32)
        self.tokens = mlp(32, 32, 32)
        self.queries = nn.Parameter(torch.rand(1, slots, 32))
        self.reading = nn.ModuleList([Layer(32, 32, 4, True) for _ in range(2)])
        self.read = nn.LayerNorm(32)
        self.head = nn.Linear(32, 2 * dim)
        self.slots, self.pixels = mlp(dim, 64, 32), mlp(20, 64, 32)
        self.drawing = nn.ModuleList([Layer(32, 32, 2, False) for _ in range(2)])
        self.drawn = nn.LayerNorm(32)
        self.draw = mlp(32, 32, 32, 3)

    def coordinates(self, side: int) -> Tensor:
        """Rows and columns from 0 to 1."""
        at = torch.linspace(0, 1, side)
        return torch.stack(torch.meshgrid(at, at, indexing="ij"), dim=-1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Draw; also give mean and deviation of the code, and the attention."""
        h = self.convolutions(x).permute(0, 2, 3, 1)
        at = self.coordinates(h.shape[1])
        h = (h + self.place(torch.cat([at, 1 - at], dim=-1))).flatten(1, 2)
        h = self.tokens(nn.functional.layer_norm(h, h.shape[2:]))
        z = self.queries.repeat(len(x), 1, 1)
        for layer in self.reading:
            z, _ = layer(z, h)
        mean, s = self.head(self.read(z)).chunk(2, dim=2)
        spread = torch.exp(s / 2)
        slots = self.slots(mean + spread * torch.randn_like(mean))
        at = self.coordinates(self.side).flatten(0, 1)
        angles = [2**o * torch.pi * at[:, i : i + 1] for i in range(2) for o in range(5)]
        waves = [torch.sin(a) for a in angles] + [torch.cos(a) for a in angles]
        p = self.pixels(torch.cat(waves, dim=-1).repeat(len(x), 1, 1))
        looks = []
        for layer in self.drawing:
            p, weights = layer(p, slots)
            looks.append(weights)
        drawn = self.draw(self.drawn(p)).permute(0, 2, 1).reshape(x.shape)
        return drawn, mean, spread, torch.stack(looks).mean(dim=0)


def plain_loss(model: Plain, x: Tensor) -> Tensor:
    """Add reconstruction, divergence, and attention to pairs of slots, pair by pair."""
    drawn, mean, spread, looks = model(x)
    total = 20 * (drawn - x).square().sum() / len(x)
    kl = 0.5 * (mean**2 + spread**2 - 1) - torch.log(spread)
    total = total + 0.05 * kl.sum(dim=(1, 2)).mean()
    heads, k = looks.shape[1], looks.shape[3]
    looks = looks.sum(dim=1)
    pairs = [looks[:, :, i] * looks[:, :, j] for i in range(k) for j in range(i + 1, k)]
    most = heads**2 * (1 - 1 / k) / 2
    found: Tensor = total + 20 / most * torch.stack(pairs).sum(dim=0).mean()
    return found


def copy_heads(heads: Heads, *layers: nn.Module) -> None:
    """Give attention our weights: query, key and value, in one layer or more, then output."""
    ours = [layer for layer in layers if isinstance(layer, nn.Linear)]
    weights = torch.cat([layer.weight for layer in ours[:-1]]).chunk(3)
    biases = torch.cat([layer.bias for layer in ours[:-1]]).chunk(3)
    for layer, weight, bias in zip((heads.q, heads.k, heads.v), weights, biases, strict=True):
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    heads.o.load_state_dict(ours[-1].state_dict())


def copy_weights(plain: Plain, model: Any) -> None:
    """Give the plain model the weights of ours, so that their losses can be compared."""
    encoder, decoder, seen = model.encoder, model.decoder, model.encoder.backbone.convolutions
    pairs = [(plain.convolutions, seen[:8]), (plain.place, seen[8].embed)]
    pairs += [(plain.tokens, encoder.backbone.mlp), (plain.read, encoder.norm)]
    pairs += [(plain.head, model.head), (plain.slots, decoder.slots)]
    pairs += [(plain.pixels, decoder.pixels), (plain.drawn, decoder.norm)]
    pairs += [(plain.draw, decoder.readout)]
    layers: list[tuple[Any, Any]] = [*zip(plain.reading, encoder.layers, strict=True)]
    layers += zip(plain.drawing, decoder.layers, strict=True)
    with torch.no_grad():
        plain.queries.copy_(encoder.queries)
        for theirs, ours in layers:
            copy_heads(theirs.cross, ours.query, ours.key_value, ours.out)
            norms = [ours.norm_query, ours.norm_mlp]
            if theirs.own is not None:
                copy_heads(theirs.own, ours.self_qkv, ours.self_out)
                norms.insert(1, ours.norm_self)
            read = ours.norm_slots if theirs.own is None else ours.norm_tokens
            pairs += [*zip(theirs.norms, norms, strict=True), (theirs.other, read)]
            pairs += [(theirs.up, ours.mlp[0]), (theirs.down, ours.mlp[2])]
        for module, ours in pairs:
            module.load_state_dict(ours.state_dict())


def squares(drawn: Tensor, wanted: Tensor) -> Tensor:
    """Twenty times the squared error of an image."""
    return 20 * (drawn - wanted).square().sum() / len(drawn)


@benchmark
def train_transformer(rounds: int) -> Result:
    """Transformer with 3 slots (104k parameters), 16×16, batch 16, both penalties, Adam."""
    steps, batch = 20, 16
    data = scenes(16, 1000)
    model, plain = transformer_autoencoder(data), Plain(16, 3, 6)
    counts = [sum(p.numel() for p in m.parameters()) for m in (model, plain)]
    assert counts[0] == counts[1]
    copy_weights(plain, model)
    penalties = [latent_capacity(0.05), attention_interaction(20.0)]
    x = data.x[:batch]
    with seeded(0):
        wanted = plain_loss(plain, x)
    with seeded(0):
        work = model.run(x)
        loss = squares(work.drawn, x) + sum(p(model, Batch(x, x, work)) for p in penalties)
    torch.testing.assert_close(loss, wanted)
    adam = torch.optim.Adam(plain.parameters(), lr=1.5e-3)

    def eager() -> None:
        for rows in torch.randperm(len(data))[: steps * batch].split(batch):
            adam.zero_grad()
            plain_loss(plain, data.x[rows]).backward()
            adam.step()

    def ours() -> None:
        options: dict[str, Any] = {"lr": 1.5e-3, "optimizer": torch.optim.Adam, "loss": squares}
        fit(model, data, steps=steps, batch=batch, penalties=penalties, **options)

    seconds = interleave({"fit": ours, "plain": eager}, rounds)
    faster = ratio(seconds, "plain", "fit")
    each = sorted(seconds["fit"])[len(seconds["fit"]) // 2] / steps
    return Result(
        "≥ 1.3 × the plain loop",
        f"{faster:.1f} ×; {each * 1e3:.0f} ms per step",
        faster >= 1.3,
    )


@benchmark
def random_pixels(rounds: int) -> Result:
    """Ten dense autoencoders as one stack, 32 of 256 pixels per step: against one with tokens.

    CPU time per image and model; the one with tokens decodes all pixels. Both penalties, 3 slots.
    """
    data, models = scenes(16, 64), 10
    loss = partial(sum_of_squares, weight=20.0, outputs=data.y[0].numel())
    penalties = [latent_capacity(2.0), attention_interaction(100.0)]
    options: dict[str, Any] = {"dim": 12, "drawing_heads": 4}

    def step(ensemble: Ensemble, batch: int) -> Callable[[], None]:
        """Prepare steps on one batch for each model; `fit` first checks that a stack is exact."""
        adam = torch.optim.AdamW(ensemble.parameters, lr=2e-3, fused=True)
        x = data.x[:batch].expand(len(ensemble.objectives), -1, -1, -1, -1).contiguous()

        def run() -> None:
            for _ in range(3):
                adam.zero_grad()
                ensemble.losses(x, x)[0].sum().backward()
                adam.step()

        return run

    tokens = Objective(transformer_autoencoder(data, **options), loss, penalties)
    options |= {"encoder": "dense", "pixels": 32}
    dense = [
        Objective(transformer_autoencoder(data, **options, seed=s), loss, penalties)
        for s in range(models)
    ]
    with Single(tokens) as single:
        pieces = {"tokens": step(single, 16), "pixels": step(Mapped(dense, range(models)), 32)}
        seconds = interleave(pieces, rounds)
    images = {"tokens": 3 * 16, "pixels": 3 * 32 * models}
    faster = ratio(seconds, "tokens", "pixels") * images["pixels"] / images["tokens"]
    each = [1e3 * median(seconds[name]) / count for name, count in images.items()]
    return Result(
        "≥ 4 × per image",
        f"{faster:.1f} ×; {each[0]:.2f} and {each[1]:.2f} ms per image",
        faster >= 4,
    )


@benchmark
def jacobian_maps(rounds: int) -> Result:
    """J-ARI and JIS of 100 images of 32×32 with 5 slots of 6 numbers."""
    data = scenes(32, 100)
    model = transformer_autoencoder(data, slots=5).eval()
    labels = torch.randint(0, 5, (100, 32, 32), generator=torch.Generator().manual_seed(0))
    taken = []
    for _ in range(max(1, rounds // 3)):
        start = time.process_time()
        maps = slot_maps(model.decode, model.encode(data.x))
        j_ari(maps, labels)
        jis(maps, labels)
        taken.append(time.process_time() - start)
    seconds = sorted(taken)[len(taken) // 2]
    return Result("< 30 s", f"{seconds:.1f} s", seconds < 30)
