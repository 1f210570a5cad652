"""The place of version 0.2; what was here moved."""

raise ImportError(
    "recombine.core is now recombine.spaces, recombine.claims and recombine.base. "
    "Public names have not moved: from recombine import …",
    name=__name__,
)
