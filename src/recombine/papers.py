"""The place of version 0.2; what was here moved."""

raise ImportError(
    "recombine.papers is now the distribution recombine-papers, as recombine_papers. "
    "Public names have not moved: from recombine import …",
    name=__name__,
)
