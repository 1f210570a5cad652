"""Public names that have moved: they answer, with a warning, for two minor releases."""

MOVED = {
    "check_assumptions": "recombine_papers.wiedemer2023.theorem",
}
