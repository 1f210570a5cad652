"""Brady et al. 2024: interaction asymmetry."""

# Registration order is the order of tables and reports.
# isort: off
from recombine_papers.brady2024 import objects as objects
from recombine_papers.brady2024 import objects_claims as objects_claims
from recombine_papers.brady2024 import orders as orders
from recombine_papers.brady2024 import conditions as conditions
from recombine_papers.brady2024 import attention as attention
from recombine_papers.brady2024 import vectors as vectors
from recombine_papers.brady2024 import vectors_claims as vectors_claims
