"""Diagnostics: pure functions and registered measurements; a new file needs its line here."""


from recombine.audits import superposition as superposition
from recombine.measures import additivity as additivity
from recombine.measures import examples as examples
from recombine.measures import factorization as factorization
from recombine.measures import flow as flow
from recombine.measures import interaction as interaction
from recombine.measures import kernels as kernels
from recombine.measures import modularity as modularity
from recombine.measures import position as position
from recombine.measures import risk as risk
from recombine.measures import slots as slots
from recombine.measures import transport as transport
from recombine.measures import variance as variance
