"""Brady et al. 2024: autoencoders whose slots become objects, with and without two penalties."""

from __future__ import annotations

from collections.abc import Sequence

from recombine.claims.experiment import Result, experiment
from recombine.claims.score import AT_MOST_1, POSITIVE, UNIT, Score
from recombine_papers.brady2024.objects_scenes import Ablation

EXAMPLES = 6  # scenes of each kind that are stored for figures


TRIES = 16  # random partners per scene, among which recombined scenes are found


CHOOSING = 2048  # training scenes on which restarts are compared


FEW = 64  # test scenes on which every restart is scored


@experiment(
    smoke={"shown": 16, "asked": 12, "looked": 4, "steps": 2, "batch": 4, "side": 8, "dim": 2},
    paper={
        "album": "sprites", "data_dir": "data", "objects": 4, "slots": 5, "dim": 32, "side": 64,
        "paper": True, "sigma": 5.0, "interaction": 2.88, "rise": 0.05, "steps": 500_000,
        "batch": 64, "lr": 5e-4,
    },
    selection="lowest objective on training scenes",
    seeds_per_job=lambda cfg: 5 if cfg.encoder == "dense" else 1,
    scores=[
        Score("j_ari_id", "adjusted Rand index of objects and slots by derivatives, foreground",
              better="higher", summary=True, within=AT_MOST_1),
        Score("j_ari_ood", "the same for held-out pairs of hues", better="higher", summary=True,
              within=AT_MOST_1),
        Score("jis_id", "degree to which a pixel depends on one slot, from 0 to 1", better="higher",
              summary=True, within=UNIT),
        Score("jis_ood", "the same for held-out pairs of hues", better="higher", summary=True,
              within=UNIT),
        Score("j_ari_*", "J-ARI of one restart on 64 scenes", better="higher", within=AT_MOST_1),
        Score("jis_*", "JIS of one restart on 64 scenes", better="higher", within=UNIT),
        Score("objective*", "training objective on training scenes", better="lower"),
        Score("error", "squared error summed over pixels, on training scenes", better="lower",
              within=POSITIVE),
        Score("kl", "divergence of the posterior from N(0, 1), in nats, on training scenes",
              within=POSITIVE),
        Score("interaction", "interaction of slots in attention, from 0 to 1", better="lower",
              within=UNIT),
        Score("largest_share_*", "largest share of one slot in all objects", within=UNIT),
        Score("r2_recombined", "R² of slots recombined into held-out scenes", better="higher",
              within=AT_MOST_1),
        Score("scene_*", "scenes", draw="images"),
        Score("drawn_*", "reconstructions", draw="images", beside=("scene_*",)),
        Score("maps_*", "share of each slot in a pixel's derivatives", draw="none"),
        Score("attention_*", "share of each slot in a pixel's attention", draw="none"),
        Score("labels_*", "object of each pixel", draw="none"),
    ],
)  # fmt: skip
def objects(cfg: Ablation, seeds: Sequence[int]) -> list[Result]:
    """Train an autoencoder with slots, with and without penalties on its code and attention."""
    from recombine_papers.brady2024.objects_training import objects as run

    return run(cfg, seeds)
