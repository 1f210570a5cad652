"""One package per paper: its experiments, claims and figures; no paper imports another."""

from recombine.papers import brady2024 as brady2024
from recombine.papers import liang2025 as liang2025
from recombine.papers import lippl2025 as lippl2025
from recombine.papers import qian2025 as qian2025
from recombine.papers import wiedemer2023 as wiedemer2023
