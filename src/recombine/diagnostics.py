"""The place of version 0.2; what was here moved."""

raise ImportError(
    "recombine.diagnostics is now recombine.measures. "
    "Public names have not moved: from recombine import …",
    name=__name__,
)
