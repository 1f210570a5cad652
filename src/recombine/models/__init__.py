"""Models: plain modules, one file per family; a new file needs its line here."""

from recombine.models import blocks as blocks
from recombine.models import compositional as compositional
from recombine.models import decoders as decoders
from recombine.models import modular as modular
from recombine.models import networks as networks
from recombine.models import rendering as rendering
from recombine.models import slots as slots
from recombine.models import transformer as transformer
