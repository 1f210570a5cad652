"""Penalties that `fit` adds to the loss: functions `(model, batch) -> Tensor`."""

from recombine.penalties.chain import Chained as Chained
from recombine.penalties.chain import ChainState as ChainState
from recombine.penalties.chain import activity as activity
from recombine.penalties.chain import chain_norm as chain_norm
from recombine.penalties.chain import run_chain as run_chain
from recombine.penalties.chain import weight_activity as weight_activity
from recombine.penalties.low_rank import LowRank as LowRank
from recombine.penalties.low_rank import rank_entropy as rank_entropy
from recombine.penalties.low_rank import stripe_variance as stripe_variance
from recombine.penalties.penalty import Batch as Batch
from recombine.penalties.penalty import Penalty as Penalty
from recombine.penalties.slots import attention_interaction as attention_interaction
from recombine.penalties.slots import compositional_consistency as compositional_consistency
from recombine.penalties.slots import interaction as interaction
from recombine.penalties.slots import latent_capacity as latent_capacity
