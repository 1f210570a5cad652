"""Models: plain modules, one file a family; a new file needs its line here."""

from recombine.models import decoders as decoders
from recombine.models import networks as networks
from recombine.models import rendering as rendering
from recombine.models import upsampling as upsampling
