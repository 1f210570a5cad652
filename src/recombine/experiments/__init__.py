"""Experiments and their claims: one file a paper; a new file needs its line here."""

from recombine.experiments import liang2025 as liang2025
