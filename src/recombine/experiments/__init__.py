"""Experiments and their claims: one file a paper; a new file needs its line here."""

from recombine.experiments import brady2024 as brady2024
from recombine.experiments import brady2024_theory as brady2024_theory
from recombine.experiments import brady2024_vectors as brady2024_vectors
from recombine.experiments import liang2025 as liang2025
from recombine.experiments import liang2025_cures as liang2025_cures
from recombine.experiments import liang2025_reading as liang2025_reading
from recombine.experiments import liang2025_rotation as liang2025_rotation
from recombine.experiments import liang2025_scaling as liang2025_scaling
from recombine.experiments import lippl2025 as lippl2025
from recombine.experiments import lippl2025_networks as lippl2025_networks
from recombine.experiments import qian2025 as qian2025
from recombine.experiments import qian2025_depth as qian2025_depth
from recombine.experiments import qian2025_elsewhere as qian2025_elsewhere
from recombine.experiments import qian2025_extrapolation as qian2025_extrapolation
from recombine.experiments import qian2025_robustness as qian2025_robustness
from recombine.experiments import qian2025_samples as qian2025_samples
from recombine.experiments import wiedemer2023 as wiedemer2023
from recombine.experiments import wiedemer2023_slots as wiedemer2023_slots
from recombine.experiments import wiedemer2023_theory as wiedemer2023_theory
from recombine.experiments import wiedemer2023_vectors as wiedemer2023_vectors
