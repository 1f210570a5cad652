"""Facts about the generators of tasks: their kinds, interaction orders and ranges."""

from __future__ import annotations

REACH = 2.0  # inputs of independent functions lie within ±REACH
