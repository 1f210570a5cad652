"""The exception for invalid input, and suggestions of similar names."""

from collections.abc import Iterable

MOST = 12  # names that an error lists


class Refused(ValueError):
    """Invalid input: the message says what was given, what is needed and what to do.

    The command line prints it as one sentence; every other exception is a bug and keeps its
    traceback.
    """


def nearest(kind: str, name: str, known: Iterable[str]) -> Refused:
    """Build the error for an unknown name, with the nearest known ones.

    >>> print(nearest("decoder", "mpl", ["mlp", "cnn"]))
    There is no decoder 'mpl'. Did you mean 'mlp'? Known: cnn, mlp.
    """
    from difflib import get_close_matches  # here, since only errors need it

    names = sorted(known)
    name = str(name)
    short = name if len(name) <= 60 else f"{name[:57]}..."
    close = get_close_matches(short, names, n=3, cutoff=0.4)
    hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    listed = ", ".join(names if len(names) <= MOST else [*names[:3], f"… ({len(names)} in all)"])
    listed = f"Known: {listed}" if names else "There are none yet"
    return Refused(f"There is no {kind} {short!r}.{hint} {listed}.")
