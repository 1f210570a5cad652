"""One package per paper: its experiments, claims and figures; no paper imports another."""
