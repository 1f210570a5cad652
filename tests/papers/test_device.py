"""Every trained experiment runs on a device other than the CPU and gives the same numbers there.

The device of these tests computes on the CPU but, like a GPU, refuses to mix its tensors with
those of the CPU or to turn them into NumPy arrays.
"""

from collections import Counter

import numpy as np
import pytest
import torch
from torch.utils import backend_registration
from torch.utils._pytree import tree_leaves, tree_map

from recombine.core.experiment import EXPERIMENTS
from recombine.runs.device import DEVICE

PAPERS = ("liang2025", "lippl2025", "wiedemer2023")
TRAINED = [
    name
    for name, e in EXPERIMENTS.items()
    if e.stochastic and e.family in PAPERS and name != "lippl2025.additivity"
]
CROSSINGS = ("aten::_to_copy", "aten::copy_", "aten::index.Tensor", "aten::_index_put_impl_")
GENERATOR = torch.Generator
CALLS = Counter()  # operations on the device by name


class Remote(torch.Tensor):
    """A tensor of the device; `raw` holds its numbers."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, raw):
        tensor = torch.Tensor._make_wrapper_subclass(
            cls,
            raw.shape,
            strides=raw.stride(),
            storage_offset=raw.storage_offset(),
            dtype=raw.dtype,
            device="fake:0",
            requires_grad=raw.requires_grad,
        )
        tensor.raw = raw
        return tensor

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        return compute(operation, *args, **(kwargs or {}))

    @property
    def data(self):
        return self.detach()

    @data.setter
    def data(self, other):
        torch.Tensor.data.__set__(self, other)
        self.raw = other.raw

    def tolist(self):
        return self.raw.tolist()


def compute(operation, *args, **kwargs):
    """Run an operation on the raw tensors and wrap what is new."""
    name = operation.name()
    CALLS[name] += 1

    def unwrap(value):
        if isinstance(value, Remote):
            return value.raw
        if isinstance(value, torch.Tensor) and value.dim() and name not in CROSSINGS:
            raise RuntimeError(f"{name} mixes the device with the CPU")
        return torch.device("cpu") if isinstance(value, torch.device) else value

    inputs = [v for v in tree_leaves((args, kwargs)) if isinstance(v, Remote)]
    known = {id(v.raw): v for v in inputs}
    raw_args, raw_kwargs = tree_map(unwrap, (args, kwargs))
    outputs = operation(*raw_args, **raw_kwargs)
    to_cpu = kwargs.get("device") is not None and torch.device(kwargs["device"]).type == "cpu"
    if to_cpu or (name == "aten::copy_" and not isinstance(args[0], Remote)):
        return outputs

    def wrap(value):
        if isinstance(value, torch.Tensor):
            return known[id(value)] if id(value) in known else Remote(value)
        return value

    return tree_map(wrap, outputs)


class AnyGenerator:
    """A generator of the CPU, whatever the device."""

    def __new__(cls, device="cpu"):
        return GENERATOR()


@pytest.fixture(scope="module")
def device():
    """Register the device with torch."""
    libraries = []
    if not hasattr(torch, "fake"):
        backend_registration._setup_privateuseone_for_python_backend("fake")
        fallback = torch.library.Library("_", "IMPL")
        fallback.fallback(compute, "PrivateUse1")
        libraries.append(fallback)
        aten = torch.library.Library("aten", "IMPL")
        libraries.append(aten)
        for name in (
            *("_to_copy", "arange", "arange.start", "arange.start_step", "linspace"),
            *("eye", "eye.m", "randperm", "randperm.generator"),
        ):
            packet, _, overload = name.partition(".")
            operation = getattr(getattr(torch.ops.aten, packet), overload or "default")
            aten.impl(name, lambda *a, op=operation, **k: compute(op, *a, **k), "PrivateUse1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "Generator", AnyGenerator)
        yield "fake:0"


def test_the_device_refuses_the_cpu_and_numpy(device):
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="mixes"):
        torch.add(x.to(device), x)
    with pytest.raises(RuntimeError, match="numpy"):
        x.to(device).numpy()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TRAINED)
def test_every_trained_experiment_runs_on_a_device(name, device):
    experiment = EXPERIMENTS[name]
    cfg = experiment.configure("smoke")
    on_cpu = experiment.run(cfg, [0, 1])
    CALLS.clear()
    token = DEVICE.set(device)
    try:
        on_device = experiment.run(cfg, [0, 1])
    finally:
        DEVICE.reset(token)
    assert any("fused" in operation for operation in CALLS), "the device trained nothing"
    for a, b in zip(on_cpu, on_device, strict=True):
        assert b.scores == pytest.approx(a.scores, rel=1e-5, abs=1e-8)
        assert b.arrays.keys() == a.arrays.keys()
        for key, value in a.arrays.items():
            if np.asarray(value).dtype.kind == "f":
                np.testing.assert_allclose(b.arrays[key], value, rtol=1e-4, atol=1e-6)
