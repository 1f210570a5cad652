"""Read arrays from an `.npz` file, after checking the type and size of each."""

from __future__ import annotations

import io
from collections.abc import Collection
from math import prod
from tokenize import TokenError
from typing import Any, BinaryIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

from numpy.lib import format as npy

HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def unpack(
    content: bytes | BinaryIO, most: int, names: Collection[str] | None = None
) -> dict[str, Any]:
    """Read the arrays with these names (default: all), which may unpack to `most` bytes.

    Raises ValueError, or an error of zipfile or NumPy, if the content is invalid.
    """
    arrays = {}
    with ZipFile(io.BytesIO(content) if isinstance(content, bytes) else content) as members:
        chosen = {m.filename.removesuffix(".npy"): m for m in members.infolist()}
        if names is not None:
            chosen = {name: m for name, m in chosen.items() if name in names}
        if sum(member.file_size for member in chosen.values()) > most:
            raise ValueError(f"it unpacks to more than {most:,} bytes")
        for name, member in chosen.items():
            if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
                raise ValueError(f"{member.filename} has a compression that NumPy does not write")
            with members.open(member) as file:
                header = HEADERS.get(npy.read_magic(file))
                if header is None:
                    raise ValueError(f"{member.filename} is not a plain array")
                try:
                    shape, _, kind = header(file)
                except (TokenError, SyntaxError) as problem:
                    raise ValueError(f"{member.filename} has no header") from problem
                if kind.hasobject or prod(shape) * kind.itemsize != member.file_size - file.tell():
                    raise ValueError(f"{member.filename} is not as large as its shape")
            with members.open(member) as file:
                arrays[name] = npy.read_array(file, allow_pickle=False)
    return arrays
