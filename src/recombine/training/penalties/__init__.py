"""Penalties that `fit` adds to the loss: functions `(model, batch) -> Tensor`."""

from recombine.training.penalties.base import Batch as Batch
from recombine.training.penalties.base import Penalty as Penalty
from recombine.training.penalties.chain import Chained as Chained
from recombine.training.penalties.chain import ChainState as ChainState
from recombine.training.penalties.chain import activity as activity
from recombine.training.penalties.chain import chain_norm as chain_norm
from recombine.training.penalties.chain import run_chain as run_chain
from recombine.training.penalties.chain import weight_activity as weight_activity
from recombine.training.penalties.low_rank import LowRank as LowRank
from recombine.training.penalties.low_rank import rank_entropy as rank_entropy
from recombine.training.penalties.low_rank import stripe_variance as stripe_variance
from recombine.training.penalties.slots import attention_interaction as attention_interaction
from recombine.training.penalties.slots import (
    compositional_consistency as compositional_consistency,
)
from recombine.training.penalties.slots import interaction as interaction
from recombine.training.penalties.slots import latent_capacity as latent_capacity
