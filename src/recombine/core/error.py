"""The one exception that a user, rather than a bug, can cause, and how to suggest a nearby name."""

from collections.abc import Iterable
from difflib import get_close_matches


class Refused(ValueError):
    """An input that cannot be served: says what was given, what was needed and what to do.

    The command line prints it as one sentence; every other exception is a bug and keeps its
    traceback.
    """


def nearest(kind: str, name: str, known: Iterable[str]) -> Refused:
    """Build the error for an unknown name, with the nearest known one.

    >>> print(nearest("decoder", "mpl", ["mlp", "cnn"]))
    There is no decoder 'mpl'. Did you mean 'mlp'? Known: cnn, mlp.
    """
    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.4)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return Refused(f"There is no {kind} {name!r}.{hint} Known: {', '.join(names) or 'none'}.")
