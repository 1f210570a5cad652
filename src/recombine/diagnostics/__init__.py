"""Diagnostics: pure functions and registered measurements; a new file needs its line here."""

from recombine.diagnostics import additivity as additivity
from recombine.diagnostics import conjunctions as conjunctions
from recombine.diagnostics import crossfade as crossfade
from recombine.diagnostics import examples as examples
from recombine.diagnostics import factorization as factorization
from recombine.diagnostics import flow as flow
from recombine.diagnostics import identifiability as identifiability
from recombine.diagnostics import independence as independence
from recombine.diagnostics import interaction as interaction
from recombine.diagnostics import jacobians as jacobians
from recombine.diagnostics import kernels as kernels
from recombine.diagnostics import modularity as modularity
from recombine.diagnostics import position as position
from recombine.diagnostics import risk as risk
from recombine.diagnostics import robustness as robustness
from recombine.diagnostics import slots as slots
from recombine.diagnostics import sufficiency as sufficiency
from recombine.diagnostics import superposition as superposition
from recombine.diagnostics import theorem as theorem
from recombine.diagnostics import transport as transport
from recombine.diagnostics import variance as variance
