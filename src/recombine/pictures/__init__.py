"""Pictures of single experiments for the report: one file a paper; a new file needs its line."""

from recombine.pictures import brady2024 as brady2024
from recombine.pictures import brady2024_theory as brady2024_theory
from recombine.pictures import brady2024_vectors as brady2024_vectors
from recombine.pictures import liang2025 as liang2025
from recombine.pictures import liang2025_rotation as liang2025_rotation
from recombine.pictures import liang2025_scaling as liang2025_scaling
from recombine.pictures import lippl2025 as lippl2025
from recombine.pictures import qian2025 as qian2025
from recombine.pictures import qian2025_extrapolation as qian2025_extrapolation
from recombine.pictures import qian2025_robustness as qian2025_robustness
from recombine.pictures import qian2025_samples as qian2025_samples
from recombine.pictures import wiedemer2023 as wiedemer2023
from recombine.pictures import wiedemer2023_slots as wiedemer2023_slots
from recombine.pictures import wiedemer2023_theory as wiedemer2023_theory
from recombine.pictures import wiedemer2023_vectors as wiedemer2023_vectors
