"""An emulated second device: `shadow` tensors compute on the CPU but do not mix with CPU tensors.

As with a GPU, shadow tensors do not mix with CPU tensors (except scalars), have no `.numpy()`, and
take random numbers only from their device's generators. Importing this file registers the device.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

DEVICE = "shadow"
_setup_privateuseone_for_python_backend(DEVICE)
_Generator = torch.Generator
aten = torch.ops.aten
MOVES = (aten._to_copy.default, aten.copy_.default)


class Shadow(Tensor):
    """A tensor that says it lies on the shadow device; `body` holds its numbers."""

    body: Tensor

    @staticmethod
    def __new__(cls, body: Tensor) -> "Shadow":
        shadow = Tensor._make_wrapper_subclass(
            cls,
            body.size(),
            strides=body.stride(),
            storage_offset=body.storage_offset(),
            dtype=body.dtype,
            device=f"{DEVICE}:0",
        )
        shadow.body = body
        return shadow

    def tolist(self) -> Any:
        """Copy the numbers to the host, as a GPU does."""
        return self.body.tolist()

    def numpy(self, *_: Any, **__: Any) -> Any:
        """Refuse, as a GPU does."""
        raise TypeError(f"can't convert {DEVICE}:0 device type tensor to numpy; use Tensor.cpu()")

    __array__ = numpy

    @property
    def data(self) -> Tensor:
        """The numbers without their history."""
        return self.detach()

    @data.setter
    def data(self, value: "Shadow") -> None:
        """Take the numbers of another shadow, as modules do where they change their layout."""
        Tensor.data.__set__(self, value)
        self.body = value.body

    @classmethod
    def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
        return run(op, args, kwargs or {})


GENERATORS: dict[int, torch.Generator] = {}  # of the shadow device, by what they wrap


class Generator(_Generator):
    """Replaces `torch.Generator`, which does not support this device."""

    def __new__(cls, device: Any = "cpu") -> "Generator":
        there = torch.device(device).type == DEVICE
        generator = super().__new__(cls, "cpu" if there else device)
        if there:
            GENERATORS[generator._cdata] = generator
        return generator


def run(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Compute on the CPU, after refusing what a GPU would refuse."""
    tensors = [a for a in tree_flatten((args, kwargs))[0] if isinstance(a, Tensor)]
    shadows = {id(a.body): a for a in tensors if isinstance(a, Shadow)}
    here = [a for a in tensors if not isinstance(a, Shadow) and a.ndim]
    # Indices may lie on the CPU.
    mixed = shadows and here and op not in (*MOVES, aten.index.Tensor)
    if mixed and op not in (aten.index_put_.default, aten._index_put_impl_.default):
        raise RuntimeError(
            f"Expected all tensors to be on the same device: {op} got cpu and shadow"
        )
    device = kwargs.get("device")
    goes = bool(shadows) if device is None else torch.device(device).type == DEVICE
    source = kwargs.get("generator")
    if source is not None and (source._cdata in GENERATORS) != goes:
        raise RuntimeError(f"The generator of {op} lies on another device")
    bodies = tree_map(lambda a: a.body if isinstance(a, Shadow) else a, (args, dict(kwargs)))
    if device is not None:
        bodies[1]["device"] = "cpu"
    out = op(*bodies[0], **bodies[1])
    if op is aten.copy_.default:
        return args[0]

    def wrap(value: Any) -> Any:
        if not isinstance(value, Tensor) or not goes:
            return value
        return shadows.get(id(value)) if id(value) in shadows else Shadow(value)

    return tree_map(wrap, out)


# Others are made of these; those that first make an empty tensor and let it grow cannot be.
FACTORIES = (aten.empty.memory_format, aten.empty_strided.default, aten.eye.default, aten.eye.m)
FACTORIES += (aten.arange.default, aten.arange.start, aten.arange.start_step, aten.linspace.default)
_library = torch.library.Library("aten", "IMPL")
for _op in (*FACTORIES, *MOVES):
    _library.impl(
        _op.name(), lambda *args, _op=_op, **kwargs: run(_op, args, kwargs), "PrivateUse1"
    )
_library.impl("_efficientzerotensor", torch.zeros, "PrivateUse1")


def gru_cell(x: Tensor, h: Tensor, w_x: Tensor, w_h: Tensor, b_x: Tensor, b_h: Tensor) -> Tensor:
    """Compute a GRU cell from plain operations; torch has kernels for known devices only."""
    of_x, of_h = (linear(t, w, b).chunk(3, 1) for t, w, b in ((x, w_x, b_x), (h, w_h, b_h)))
    reset, update = ((a + b).sigmoid() for a, b in zip(of_x[:2], of_h[:2], strict=True))
    new = (of_x[2] + reset * of_h[2]).tanh()
    return new + update * (h - new)


_library.impl("gru_cell", gru_cell, "AutogradPrivateUse1")
