"""Pictures of single experiments for the report: one file a paper; a new file needs its line."""

from recombine.pictures import lippl2025 as lippl2025
