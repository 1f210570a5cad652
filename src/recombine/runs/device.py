"""The device of the current run: set by `execute`, read where models and data are built."""

from __future__ import annotations

from contextvars import ContextVar

DEVICE: ContextVar[str] = ContextVar("device", default="cpu")
