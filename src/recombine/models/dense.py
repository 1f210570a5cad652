"""The builder of dense layers that all models share."""

from collections.abc import Callable, Sequence

from torch import nn

Layer = Callable[[int, int], nn.Module]  # inputs, outputs -> module


def dense_layers(
    *sizes: int, between: Sequence[Callable[[], nn.Module]] = (nn.ReLU,), layer: Layer = nn.Linear
) -> list[nn.Module]:
    """Build layers of these sizes: inputs, hidden layers, outputs.

    - between: constructors of the modules that follow each layer but the last
    - layer: constructor of a layer

    >>> dense_layers(2, 3, 1, between=[nn.Tanh])[1:]
    [Tanh(), Linear(in_features=3, out_features=1, bias=True)]
    """
    modules: list[nn.Module] = []
    for i in range(1, len(sizes)):
        modules.append(layer(sizes[i - 1], sizes[i]))
        if i < len(sizes) - 1:
            modules += [make() for make in between]
    return modules
