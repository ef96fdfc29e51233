"""Ray Tune on pinned GPUs: the trainable for a Tuner of one's own, and our searches by Tune."""

from joulelab_actors.tune.own import measuring
from joulelab_actors.tune.strategy_searcher import StrategySearcher

__all__ = ["StrategySearcher", "measuring"]
