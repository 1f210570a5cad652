"""`fit`: known answers, and the same numbers for stacked and separate training."""

import random
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from recombine.base.error import Refused
from recombine.maps.seed import seeded
from recombine.measures.observed import predict
from recombine.models.decoders import cnn
from recombine.penalties.loss import margin_cross_entropy, sum_of_squares
from recombine.tasks.task import Data
from recombine.training.difference import difference
from recombine.training.fit import PROGRESS, cosine, fit, warm_up

F64 = torch.float64


def sample(n: int = 48, inputs: int = 5, outputs: int = 3, seed: int = 0) -> Data:
    source = torch.Generator().manual_seed(seed)
    x = torch.randn(n, inputs, generator=source, dtype=F64)
    y = torch.randn(n, outputs, generator=source, dtype=F64)
    return Data(np.zeros((n, 1)), x, torch.sin(2 * x @ torch.ones(inputs, outputs, dtype=F64)) + y)


def chain(seed: int, *extra: nn.Module, bias: bool = True) -> nn.Module:
    with seeded(seed):
        layers = [nn.Linear(5, 8, bias=bias), nn.Tanh(), *extra, nn.Linear(8, 3, bias=bias)]
        return nn.Sequential(*layers).double()


class Odd(nn.Module):
    """A model that cannot be stacked: one tied matrix, one frozen, one unused."""

    def __init__(self, power: float = 1.0) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(5, 5), nn.Linear(5, 5)
        self.b.weight = self.a.weight
        self.unused = nn.Linear(4, 4)
        self.out = nn.Linear(5, 3)
        self.out.bias.requires_grad_(False)
        self.power = power

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.b(self.a(x).tanh())) * self.power


def odd(seed: int, power: float = 1.0) -> nn.Module:
    with seeded(seed):
        return Odd(power).double()


def weight_norm(weight: float, power: float = 2.0):
    """A penalty on any model: the sum of |w|^power over its matrices."""
    return lambda model, batch: (
        weight * sum(p.abs().pow(power).sum() for p in model.parameters() if p.ndim > 1)
    )


def weights(model: nn.Module) -> list[Tensor]:
    return [v.detach().clone() for v in model.state_dict().values()]


def same(a: nn.Module, b: nn.Module) -> None:
    torch.testing.assert_close(weights(a), weights(b), rtol=1e-9, atol=1e-11, equal_nan=True)


def test_linear_regression_follows_the_closed_form():
    data, lr, steps = sample(), 0.05, 40
    model = nn.Sequential(nn.Linear(5, 3)).double()
    x = np.hstack([data.x.numpy(), np.ones((len(data), 1))])
    w = np.vstack([model[0].weight.detach().numpy().T, model[0].bias.detach().numpy()])
    losses = []
    for _ in range(steps):
        residual = x @ w - data.y.numpy()
        losses.append((residual**2).mean())
        w = w - lr * 2 * x.T @ residual / residual.size
    [history] = fit(model, data, steps=steps, lr=lr, optimizer=torch.optim.SGD, every=10)
    np.testing.assert_allclose(model[0].weight.detach().numpy().T, w[:-1], rtol=1e-10)
    np.testing.assert_allclose(model[0].bias.detach().numpy(), w[-1], rtol=1e-10)
    assert history.steps == [10, 20, 30, 40]
    np.testing.assert_allclose(history.loss, np.reshape(losses, (4, 10)).mean(axis=1))
    assert (history.end, history.stopped, history.diverged) == (40, False, None)


def test_adamw_and_minibatches_follow_torch():
    data, model = sample(), chain(0)
    alone = deepcopy(model)
    fit(model, data, steps=30, batch=7, seed=5, lr=0.01)
    source = torch.Generator().manual_seed(5)
    order = torch.cat([torch.randperm(len(data), generator=source) for _ in range(9)])
    optimizer = torch.optim.AdamW(alone.parameters(), lr=0.01)
    for rows in order[: 30 * 7].view(30, 7):
        optimizer.zero_grad()
        nn.functional.mse_loss(alone(data.x[rows]), data.y[rows]).backward()
        optimizer.step()
    same(model, alone)


MANY = {
    "plain": {},
    "batch": {"batch": 7},
    "batch of all": {"batch": 48},
    "batch too large": {"batch": 1000},
    "schedule": {"batch": 7, "schedule": cosine(0.1)},
    "clip": {"batch": 7, "clip": 0.05},
    "sgd": {"batch": 7, "optimizer": torch.optim.SGD, "options": {"momentum": 0.9}},
    "foreach": {"batch": 7, "options": {"foreach": True}},
    "rmsprop": {"batch": 7, "optimizer": torch.optim.RMSprop},
    "adadelta": {"batch": 7, "optimizer": torch.optim.Adadelta},
    "another loss": {"batch": 7, "loss": nn.functional.l1_loss},
    "many seeds": {"batch": 7, "seed": (9, 2, 4)},
    "penalty": {"batch": 7, "penalties": [weight_norm(0.1), (weight_norm(0.1, 1), warm_up(0.5))]},
}


@pytest.mark.parametrize(
    "data", [sample(), [sample(seed=s) for s in range(3)]], ids=["one", "each"]
)
@pytest.mark.parametrize("options", MANY.values(), ids=MANY)
def test_training_together_equals_training_alone(options, data):
    keywords = {"steps": 12, "lr": 0.02, "every": 4, **options}
    seeds = keywords.pop("seed", (0, 1, 2))
    alone, histories = [chain(s) for s in range(3)], []
    for i, m in enumerate(alone):
        data_i = data if isinstance(data, Data) else data[i]
        histories += fit(m, data_i, seed=seeds[i], engine="turn", **keywords)
    for engine in ["map", "turn"] if "penalties" in options else ["stack", "map", "turn"]:
        models = [chain(s) for s in range(3)]
        together = fit(models, data, seed=seeds, engine=engine, **keywords)
        for m, history, m_alone, expected in zip(models, together, alone, histories, strict=True):
            same(m, m_alone)
            np.testing.assert_allclose(history.loss, expected.loss, rtol=1e-9)
            assert history.steps == expected.steps == [4, 8, 12]
            assert history.engine == engine
            assert not m.training


@pytest.mark.parametrize("engine", ["stack", "map", "turn"])
def test_each_seed_stops_independently(engine):
    """One stops early, one diverges, one goes on; each as it would alone."""
    data = [sample(seed=s) for s in range(3)]
    data[0] = Data(data[0].z, data[0].x, data[0].y * 1e-3)
    data[1] = Data(data[1].z, data[1].x, data[1].y.clone())
    data[1].y[5] = torch.inf
    models = [chain(s) for s in range(3)]
    alone = [deepcopy(m) for m in models]
    keywords = {"steps": 60, "batch": 4, "lr": 0.01, "every": 6, "stop": 0.05, "clip": 1.0}
    score = {"scores": lambda m: {"training": float(m.training), "size": m[0].weight.norm().item()}}
    together = fit(models, data, engine=engine, **keywords, **score)
    for i in range(3):
        [history] = fit(alone[i], data[i], seed=i, engine="turn", **keywords, **score)
        same(models[i], alone[i])
        assert together[i].steps == history.steps
        assert together[i].end == history.end
        assert (together[i].stopped, together[i].diverged) == (history.stopped, history.diverged)
        assert len(together[i].scores["size"]) == len(history.steps)
        assert set(together[i].scores["training"]) == {0.0}
        np.testing.assert_allclose(together[i].scores["size"], history.scores["size"])
    assert together[0].stopped
    assert together[0].end < 60
    assert together[1].diverged is not None
    assert together[1].diverged <= together[1].end
    assert not together[1].stopped
    assert together[2].end == 60
    assert together[0].scores["size"][-1] == pytest.approx(models[0][0].weight.norm().item())


def test_divergence_names_the_step():
    data, model = sample(), nn.Sequential(nn.Linear(5, 3)).double()
    losses, reference = [], deepcopy(model)
    optimizer = torch.optim.SGD(reference.parameters(), lr=1e30)
    while not losses or np.isfinite(losses[-1]):
        loss = nn.functional.mse_loss(reference(data.x), data.y)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    [history] = fit(model, data, steps=50, lr=1e30, optimizer=torch.optim.SGD, every=20)
    assert history.diverged == len(losses)
    assert history.end == 20
    assert history.loss == []


def test_weights_that_break_in_the_last_step_are_noticed():
    data, model = sample(), chain(0)
    data.y[:] = 1e200
    [history] = fit(model, data, steps=1, lr=1e200, optimizer=torch.optim.SGD, engine="turn")
    assert history.diverged == 1


def test_auto_takes_the_fastest_that_is_exact():
    def engine(models, data=None, **options):
        return fit(models, data or sample(), steps=2, batch=4, **options)[0].engine

    assert engine([chain(s) for s in range(2)]) == "stack"
    assert engine([chain(s) for s in range(2)], penalties=[weight_norm(1.0)]) == "map"
    assert engine([chain(s, nn.LayerNorm(8)) for s in range(2)]) == "map"
    assert engine([chain(s, nn.Dropout(0.5)) for s in range(2)]) == "turn"
    assert engine([chain(s, nn.BatchNorm1d(8)) for s in range(2)]) == "turn"
    assert engine([chain(0), chain(1, nn.ReLU())]) == "turn"
    assert engine([chain(0), chain(1)], [sample(), sample(n=47)]) == "turn"
    assert engine([chain(s) for s in range(2)], optimizer=torch.optim.Adafactor) == "turn"
    matrices = [chain(s, bias=False) for s in range(2)]
    assert engine(matrices) == "stack"
    if hasattr(torch.optim, "Muon"):  # since torch 2.9
        assert engine(matrices, optimizer=torch.optim.Muon) == "turn"
    assert engine([odd(0), odd(1)]) == "map"
    assert engine([odd(0), odd(1, power=2.0)]) == "turn", "they differ in more than their weights"
    tied = [chain(s) for s in range(2)]
    for m in tied:
        m.append(nn.Linear(3, 3).double()).append(m[-1])
    assert engine(tied) == "turn"
    hooked = [chain(s) for s in range(2)]
    hooked[0][0].register_forward_hook(lambda module, options, out: out + 1)
    assert engine(hooked) == "turn"


class Strong(nn.Module):
    """A model with a number that only a penalty reads."""

    def __init__(self, strength: float) -> None:
        super().__init__()
        self.layer, self.strength = nn.Linear(5, 3), strength

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


def strong(strength: float) -> nn.Module:
    with seeded(0):
        return Strong(strength).double()


def test_models_train_with_their_own_attributes():
    def penalty(model, batch):
        return model.strength * model.layer.weight.abs().sum()

    strengths, keywords = (0.0, 1e-4, 3e-4), {"steps": 30, "batch": 7, "penalties": [penalty]}
    alone = [strong(s) for s in strengths]
    for m in alone:
        fit(m, sample(), seed=4, engine="turn", **keywords)
    together = [strong(s) for s in strengths]
    assert fit(together, sample(), seed=[4] * 3, **keywords)[0].engine == "turn"
    for a, b in zip(together, alone, strict=True):
        same(a, b)
    assert not together[0].layer.weight.equal(together[1].layer.weight)
    with pytest.raises(Refused, match=r"models 0 and 1 differ in Strong\.strength"):
        fit([strong(0.0), strong(1e-4)], sample(), steps=1, engine="map")


def test_an_engine_is_exact_in_every_penalty_and_gradient():
    """Each of these agrees in the total loss up to 1e-3, or on two rows of the first data set."""
    models = [strong(0.0), strong(0.0)]
    shift = {id(m): 1e-6 * i for i, m in enumerate(models)}

    def by_model(model, batch):
        return shift.get(id(model), 0.0) * model.layer.weight.square().sum()

    class Rare(Strong):
        """Models that differ in an unregistered tensor, which matters on large inputs only."""

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x) + self.shift * (x[:, :1] > 1.5)

    class Cached(Strong):
        """Counts its calls."""

        def forward(self, x: Tensor) -> Tensor:
            self.strength += 1
            return self.layer(x)

    assert fit(models, sample(), steps=1, penalties=[by_model])[0].engine == "turn"
    rare = [Rare(0.0).double() for _ in range(2)]
    for i, m in enumerate(rare):
        m.shift = torch.full((1,), float(i), dtype=F64)
    assert fit(rare, sample(), steps=1)[0].engine == "turn"
    counting = [Cached(0.0).double() for _ in range(2)]
    assert fit(counting, sample(), steps=3)[0].engine == "turn"
    assert counting[0].strength == counting[1].strength >= 3
    scaled = [chain(s) for s in range(2)]
    scaled[1][0].weight.register_hook(lambda grad: 2 * grad)
    assert fit(scaled, sample(), steps=1)[0].engine == "turn"


def test_models_train_with_the_attributes_of_their_weights():
    """A mapped call hands the model tensors that have lost them."""

    def penalty(model, batch):
        weight = model.layer.weight
        return getattr(weight, "strength", 0.0) * weight.abs().sum()

    models = [strong(0.0) for _ in range(2)]
    for m, strength in zip(models, (0.0, 1e-2), strict=True):
        m.layer.weight.strength = strength
    assert fit(models, sample(), seed=[4, 4], steps=9, penalties=[penalty])[0].engine == "turn"
    assert not models[0].layer.weight.equal(models[1].layer.weight)


def test_models_that_hold_their_weights_in_a_list_are_not_mapped():
    """A mapped call would read the old weights of the first model there."""

    class Tied(Strong):
        def __init__(self):
            super().__init__(0.0)
            self.tied = [self.layer.weight]

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(torch.tanh(self.layer(x)) @ self.tied[0])

    with seeded(0):
        model = Tied().double()
    models = [model, deepcopy(model)]
    assert fit(models, sample(), steps=2)[0].engine == "turn"
    with pytest.raises(Refused, match="Tied is not one"):
        fit(models, sample(), steps=1, engine="map")


def test_modules_are_compared_by_value():
    def build(slope=0.1, extra=None):
        model = nn.Sequential(nn.Linear(2, 2), nn.LeakyReLU(slope))
        model.note = {"sizes": [1, 2], "table": np.arange(3), "f": lambda x: x + slope}
        model.alias, model.extra = [model[0]], extra
        return model

    assert difference(build(), build()) == ""
    assert difference(build(), build(0.2)) == "Sequential.note"
    assert difference(build(), build(extra=torch.ones(2))) == "Sequential.extra"
    assert difference(build(extra=torch.ones(2)), build(extra=torch.ones(2))) == ""
    assert difference(nn.Linear(2, 2), nn.Linear(2, 2, bias=False)) == "Linear_parameters"
    assert difference(nn.Linear(2, 2), nn.Linear(2, 2).double()) == "Linear_parameters"
    assert difference(nn.Sequential(nn.ReLU()), nn.Sequential(nn.Tanh())) != ""
    assert difference(nn.Sequential(nn.ReLU()), nn.Sequential()) != ""

    class Slots:
        __slots__ = ("number",)

    class Inherited(Slots):
        """It has a `__dict__` beside the slot."""

    class Listed(list):
        """Equal to every list of the same elements."""

    class Careless:
        def __eq__(self, other):
            return True

    def function():
        return 0

    for kind in (Slots, Inherited, Listed, Careless, lambda: partial(function)):
        values = [kind() for _ in range(3)]
        for value, number in zip(values, (1.0, 1.0, 2.0), strict=True):
            value.number = number
        assert difference(build(extra=values[0]), build(extra=values[1])) == ""
        assert difference(build(extra=values[0]), build(extra=values[2])) == "Sequential.extra"
    many = [[partial(pow, i) for i in range(9)], [partial(pow, min(i, 7)) for i in range(9)]]
    assert difference(build(extra=many[0]), build(extra=many[1])) == "Sequential.extra"


@pytest.mark.parametrize("build", [odd, lambda s: chain(s, nn.LayerNorm(8))], ids=["odd", "norm"])
def test_mapped_models_train_as_they_would_alone(build):
    models = [build(s) for s in range(3)]
    before, alone = [weights(m) for m in models], [deepcopy(m) for m in models]
    fit(models, sample(), steps=20, batch=7, engine="map")
    for i, m in enumerate(alone):
        fit(m, sample(), steps=20, batch=7, seed=i, engine="turn")
        same(models[i], m)
    if build is odd:
        assert models[0].a.weight is models[0].b.weight
        names = list(models[0].state_dict())
        unchanged = [
            n for n, a, b in zip(names, before[0], weights(models[0]), strict=True) if a.equal(b)
        ]
        assert unchanged == ["unused.weight", "unused.bias", "out.bias"]


@pytest.mark.parametrize("batch", [7, None])
def test_models_that_share_data_in_groups_train_as_alone(batch):
    datas = [sample(seed=s) for s in (0, 0, 1)]
    datas[1] = datas[0]
    models = [chain(s) for s in range(3)]
    fit(models, datas, steps=5, batch=batch, engine="stack")
    for i, data in enumerate(datas):
        alone = chain(i)
        fit(alone, data, steps=5, batch=batch, seed=i)
        same(models[i], alone)


def test_frozen_layers_stay_in_a_stack():
    models = [chain(s) for s in range(2)]
    for m in models:
        m[0].requires_grad_(False)
    first, last = models[1][0].weight.clone(), models[1][2].weight.clone()
    assert fit(models, sample(), steps=5)[0].engine == "stack"
    assert models[1][0].weight.equal(first)
    assert not models[1][2].weight.equal(last)


@pytest.mark.parametrize("extra", [nn.Dropout(0.5), nn.BatchNorm1d(8)])
def test_randomness_and_buffers_depend_on_the_seed_only(extra):
    models = [chain(s, deepcopy(extra)) for s in range(2)]
    alone = [deepcopy(m) for m in models]
    torch.manual_seed(1)
    state = torch.get_rng_state()
    fit(models, sample(), steps=10, batch=8)
    assert torch.get_rng_state().equal(state)
    torch.rand(3)
    fit(alone[1], sample(), steps=10, batch=8, seed=1)
    same(models[1], alone[1])


@pytest.mark.parametrize("engine", ["stack", "map", "turn"])
def test_scores_may_draw_random_numbers(engine):
    """They change nothing in training, and depend on the model's seed and the step alone."""

    def noisy(model):
        python, numpy = random.random(), np.random.rand()  # noqa: NPY002 - as a user might
        return {"draw": torch.rand(()).item(), "python": python, "numpy": numpy}

    keywords = {"steps": 6, "every": 2, "batch": 7}
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    dropout = engine == "turn"  # the only engine that takes it
    models = [chain(s, *[nn.Dropout(0.5)] * dropout) for s in range(3)]
    plain, alone = [deepcopy(m) for m in models], deepcopy(models[1])
    histories = fit(models, sample(), seed=[5, 6, 7], engine=engine, scores=noisy, **keywords)
    fit(plain, sample(), seed=[5, 6, 7], engine=engine, **keywords)
    [history] = fit(alone, sample(), seed=6, engine="turn", scores=noisy, **keywords)
    for a, b in zip(models, plain, strict=True):
        same(a, b)
    assert histories[1].scores == history.scores
    assert all(len({d for h in histories for d in h.scores[k]}) == 9 for k in history.scores)
    assert before == np.random.get_state()[1].tolist()  # noqa: NPY002


def test_threads_do_not_share_random_numbers():
    """Weights, dropout and scores are those of the seed, whatever other threads train."""

    def run(seed):
        model = chain(seed, nn.Dropout(0.5))
        keywords = {"steps": 60, "batch": 8, "every": 5, "seed": seed}
        [history] = fit(model, sample(), scores=lambda m: {"u": torch.rand(())}, **keywords)
        return weights(model), history.scores

    seeds = [0, 1, 0, 1]
    alone = [run(seed) for seed in seeds]
    state = torch.get_rng_state()
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(run, seeds))
    for (a, scores), (b, others) in zip(alone, together, strict=True):
        assert all(v.equal(w) for v, w in zip(a, b, strict=True))
        assert scores == others
    assert torch.get_rng_state().equal(state)


def test_a_callback_may_wait_for_training_in_another_thread():
    def watch(moment):
        if moment.step == 2:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(fit, chain(1, nn.Dropout(0.5)), sample(), steps=2).result(timeout=60)

    fit(chain(0, nn.Dropout(0.5)), sample(), steps=3, watch=watch)


def test_a_refused_model_keeps_its_mode():
    model = chain(0, nn.Dropout(0.5))
    model[2].eval()
    with pytest.raises(Refused, match="shape"):
        fit(model, Data(np.zeros((4, 1)), torch.zeros(4, 5, dtype=F64), torch.zeros(4, 2)), steps=1)
    assert [m.training for m in model] == [True, True, False, True]


def test_repeating_gives_the_same_bits():
    def run(seed):
        models = [chain(s) for s in range(3)]
        fit(models, sample(), steps=20, batch=7, seed=seed)
        return [w for m in models for w in weights(m)]

    assert all(a.equal(b) for a, b in zip(run(0), run(0), strict=True))
    assert not all(a.equal(b) for a, b in zip(run(0), run(1), strict=True))


def test_lbfgs_solves_least_squares():
    data, model = sample(), nn.Sequential(nn.Linear(5, 3)).double()
    exact = {"tolerance_grad": 1e-12, "tolerance_change": 1e-15}
    newton = {"optimizer": torch.optim.LBFGS, "options": exact}
    [history] = fit(model, data, steps=30, lr=1.0, every=1, **newton)
    x = np.hstack([data.x.numpy(), np.ones((len(data), 1))])
    best = np.linalg.lstsq(x, data.y.numpy(), rcond=None)[0]
    np.testing.assert_allclose(model[0].weight.detach().numpy().T, best[:-1], atol=1e-5)
    assert len(history.loss) == 30
    with pytest.raises(Refused, match="LBFGS does not update each weight independently"):
        fit(model, data, steps=1, engine="stack", **newton)


@pytest.mark.parametrize("engine", ["stack", "map", "turn"])
def test_classes(engine):
    x = torch.eye(4).repeat(3, 1)
    data = Data(np.zeros((12, 1)), x, torch.tensor([0, 1, 1, 2]).repeat(3))
    models = [nn.Sequential(nn.Linear(4, 3)) for _ in range(2)]
    fit(models, data, steps=100, lr=0.1, loss=nn.functional.cross_entropy, engine=engine)
    for m in models:
        assert predict(m, x[:4]).argmax(dim=1).tolist() == [0, 1, 1, 2]


def test_float32_agrees_with_the_plain_loop_and_keeps_its_type():
    data = sample()
    data = Data(data.z, data.x.float(), data.y.float())
    models = [chain(s).float() for s in range(2)]
    alone = [deepcopy(m) for m in models]
    fit(models, data, steps=50, batch=8)
    for i, m in enumerate(alone):
        fit(m, data, steps=50, batch=8, seed=i, engine="turn")
        torch.testing.assert_close(weights(models[i]), weights(m), rtol=1e-4, atol=1e-5)
    assert models[0][0].weight.dtype is torch.float32


def test_sequences_are_not_mistaken_for_stacks():
    x = torch.randn(12, 4, 5, dtype=F64)
    data = Data(np.zeros((12, 1)), x, torch.zeros(12, 4, 3, dtype=F64))
    models = [chain(s) for s in range(2)]
    assert fit(models, data, steps=2)[0].engine == "map"


def test_convolutions_come_back_in_their_own_order():
    data = Data(np.zeros((8, 2)), torch.rand(8, 6), torch.rand(8, 14, 14))
    model = cnn(data, channels=4, depth=1)
    [history] = fit(model, data, steps=30, batch=4, lr=0.01)
    assert history.engine == "turn"
    assert history.loss[-1] < history.loss[0]
    assert all(p.is_contiguous() for p in model.parameters())
    deep = nn.Sequential(nn.Unflatten(1, (1, 1, 2, 3)), nn.Conv3d(1, 1, 1), nn.Flatten())
    fit(deep, Data(data.z, data.x, data.x), steps=2)


def test_progress_counts_all_models():
    reports = []
    token = PROGRESS.set(lambda step, steps: reports.append((step, steps)))
    try:
        fit([chain(0), chain(1)], sample(), steps=4, every=2, engine="turn")
        fit([chain(0), chain(1)], sample(), steps=4, every=2)
    finally:
        PROGRESS.reset(token)
    assert reports == [(2, 8), (4, 8), (6, 8), (8, 8), (2, 4), (4, 4)]


def test_schedules():
    assert [cosine()(t) for t in (0.0, 0.5, 1.0)] == pytest.approx([1.0, 0.5, 0.0])
    assert cosine(0.2)(1.0) == pytest.approx(0.2)
    assert [warm_up(0.5)(t) for t in (0.0, 0.25, 0.9)] == [0.0, 0.5, 1.0]
    assert warm_up(0.0)(0.0) == 1.0
    late = warm_up(0.6, start=0.2)
    assert [late(t) for t in (0.1, 0.4, 0.6, 1.0)] == pytest.approx([0.0, 0.5, 1.0, 1.0])
    assert [warm_up(0.3, start=0.3)(t) for t in (0.2, 0.3)] == [0.0, 1.0]


def test_predict_is_the_model_in_pieces():
    model = chain(0, nn.Dropout(0.5))
    whole = predict(model, sample().x)
    torch.testing.assert_close(predict(model, sample().x, chunk=7), whole)
    assert not whole.requires_grad


def test_shapes_are_checked_for_models_with_buffers():
    data, x = sample(outputs=1), torch.zeros(1, 5, dtype=F64)
    flat = Data(data.z, data.x, data.y[:, 0])

    def build():
        return nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).double()

    losses = (None, margin_cross_entropy, nn.functional.l1_loss, nn.MSELoss())
    losses += (partial(sum_of_squares, weight=2.0),)
    for loss in losses:
        model, keywords = build(), {} if loss is None else {"loss": loss}
        before = weights(model)
        with pytest.raises(Refused, match=r"outputs have shape \(1,\).*targets have shape \(\)"):
            fit(model, flat, steps=1, **keywords)
        assert all(a.equal(b) for a, b in zip(weights(model), before, strict=True))
        fit(model, data, steps=1, **keywords)
    with pytest.raises(Refused, match="targets have shape"):  # the second model is looked at too
        fit([build(), nn.Linear(5, 2).double()], data, steps=1)
    assert predict(build(), x).shape == (1, 1)


UNEVEN = torch.ones(3, 5, dtype=F64), torch.ones(2, 3, dtype=F64)
REFUSED = {
    "no model": ({"models": []}, "needs a model, .* got none"),
    "twice": ({"models": [MODEL := chain(0), MODEL]}, "same model twice"),
    "shared": ({"models": [MODEL, nn.Sequential(*MODEL)]}, "share a weight"),
    "datas": ({"data": [sample()] * 2}, "got 2 data sets for 1 models"),
    "seeds": ({"seed": [1, 2]}, "got 2 for 1 models"),
    "steps": ({"steps": 0}, r"fit\(\) needs steps >= 1; got 0"),
    "batch": ({"batch": 0}, "needs batch >= 1; got 0"),
    "every": ({"every": 0}, "needs every >= 1; got 0"),
    "lr": ({"lr": -1e-3}, "needs a finite lr >= 0; got -0.001"),
    "lr nan": ({"lr": float("nan")}, "needs a finite lr >= 0; got nan"),
    "clip": ({"clip": -1}, "needs clip > 0, or None for no clipping; got -1"),
    "clip zero": ({"clip": 0.0}, "needs clip > 0"),
    "clip nan": ({"clip": float("nan")}, "needs clip > 0"),
    "lr inf": ({"lr": float("inf")}, "needs a finite lr >= 0; got inf"),
    "stop": ({"stop": float("nan")}, "got stop=nan"),
    "climb": ({"schedule": lambda t: -1.0}, r"finite factors >= 0; got -1.0 after 0 of 2"),
    "schedule": ({"schedule": lambda t: float("nan")}, "finite factors >= 0; got nan"),
    "uneven": ({"data": Data(np.zeros((3, 1)), *UNEVEN)}, "got 3 inputs and 2 targets"),
    "tuple": ({"models": nn.LSTM(5, 3).double()}, "LSTM returns a tuple. Wrap it"),
    "empty": ({"data": sample(n=0)}, "at least one example"),
    "shape": ({"data": sample(outputs=2)}, r"shape \(3,\).*shape \(2,\)"),
    "loss": ({"loss": lambda p, y: (p - y).square()}, r"one number; got .* shape \(48, 3\)"),
    "frozen": ({"models": chain(0).requires_grad_(False)}, "trainable parameters"),
    "device": ({"models": chain(0).to("meta")}, "cpu and meta"),
    "engine": ({"engine": "stak"}, "Did you mean 'stack'"),
    "stack": ({"models": odd(0), "engine": "stack"}, "Odd is not one"),
    "map": ({"models": chain(0, nn.Dropout()), "engine": "map"}, "Sequential is not one"),
}


@pytest.mark.parametrize(("arguments", "says"), REFUSED.values(), ids=REFUSED)
def test_refusals_say_what_to_do(arguments, says):
    with pytest.raises(Refused, match=says):
        fit(**{"models": chain(0), "data": sample(), "steps": 2, **arguments})
