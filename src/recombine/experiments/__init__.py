"""Experiments and their claims: one file a paper; a new file needs its line here."""

from recombine.experiments import liang2025 as liang2025
from recombine.experiments import lippl2025 as lippl2025
from recombine.experiments import lippl2025_networks as lippl2025_networks
