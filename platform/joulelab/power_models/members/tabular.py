"""Learners of tables: the mean curve, a published formula, and trees.

Learners that take inputs (trees, networks) learn power as the logarithm of its share of the board's
default limit, and time as its elasticity, ``-d log(time) / d log(clock)``, averaged from the
profile's clock to the queried one: 0 where the clock does not matter, 1 where time goes as 1 /
clock, and a time of 1 at the clock of the profile whatever is predicted.

Trees have their libraries' default settings (Breiman 2001; Chen and Guestrin 2016; Ke et al. 2017).
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from typing_extensions import override

from joulelab.errors import ConfigError
from joulelab.power_models.base import PowerModel
from joulelab.power_models.features import filled, matrix, medians, required_medians
from joulelab.power_models.queries import Queries, Target
from joulelab.power_models.runs import Array, Names

INPUTS = (
    *("fp_active", "dram_active", "tensor_active", "sm_active", "gr_engine_active"),
    *("clock_ratio", "voltage", "default_power_limit_w", "memory_bandwidth_b_per_s"),
)
_RISING = ("clock_ratio", "voltage")
"""With these the power of an application does not fall."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Examples:
    """What a learner is taught: inputs (not a number where unread), outputs, and their weights."""

    inputs: Array
    outputs: Array
    weights: Array


def examples(queries: Queries, values: Array, target: Target) -> Examples:
    """Return ``values`` as a learner is taught them.

    Every application on every GPU weighs the same, however many clocks it was run at.
    """
    counts = np.bincount(queries.profile, minlength=len(queries.profiles))
    weights = 1.0 / counts[queries.profile]
    outputs = np.log(values) - _log_unit(queries, target)
    if target == "time_s":
        log_ratio = np.log(queries.clock_ratio)
        weights = weights * log_ratio**2
        outputs = -outputs / np.where(log_ratio == 0.0, 1.0, log_ratio)
    weights = weights / max(float(weights.mean()), 1e-300)
    return Examples(inputs=matrix(queries, INPUTS), outputs=outputs, weights=weights)


def decoded(queries: Queries, outputs: Array, target: Target) -> Array:
    """Return what a learner's ``outputs`` mean: watts, or time over that of the profile."""
    if target == "time_s":
        return np.asarray(np.exp(-outputs * np.log(queries.clock_ratio)))
    return np.asarray(np.exp(outputs + _log_unit(queries, target)))


def _log_unit(queries: Queries, target: Target) -> Array:
    """Return the log of what values are over: the board's limit for power, else 1."""
    if target == "time_s":
        return np.zeros(len(queries))
    limits_w = [profile.spec.default_power_limit_w for profile in queries.profiles]
    return np.log(queries.of_profiles(limits_w))


class MeanModel(PowerModel):
    """The mean curve of the training applications over clock ratios, in logs.

    Each application counts once, linear between its own clocks and not beyond them, by its changes
    from clock to clock: the mean of levels jumps where some applications end. Power is over the
    board's limit. Measured points raise and tilt the curve, as those of every model.
    """

    name: ClassVar[str] = "mean"
    learned_arrays: ClassVar[tuple[str, ...]] = ("clock_ratio", "curve", "level")

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        logs, ratio = np.log(values) - _log_unit(queries, self.target), queries.clock_ratio
        self._clock_ratio = np.unique(ratio)
        levels, steps = [], []
        for _, rows in queries.by_profile():
            own = rows[np.argsort(ratio[rows])]
            levels.append(np.interp(1.0, ratio[own], logs[own]))
            at = self._clock_ratio
            steps.append(np.diff(np.interp(at, ratio[own], logs[own], left=np.nan, right=np.nan)))
        num_known = np.sum(~np.isnan(steps), axis=0)
        curve = np.append(0.0, np.cumsum(np.nansum(steps, axis=0) / np.maximum(num_known, 1)))
        self._level, self._curve = np.array(np.mean(levels)), curve - np.interp(1.0, at, curve)
        return self

    @override
    def answer(self, queries: Queries) -> Array:
        curve = np.interp(queries.clock_ratio, self._clock_ratio, self._curve)
        return np.asarray(np.exp(self._level + curve + _log_unit(queries, self.target)))


_FGCS_INPUTS = ("fp_active", "dram_active")
_FGCS_POWER = np.array([-1.0318354343254663, 0.84864, 0.09749, 0.77006])
_FGCS_TIME = np.array([1.43847511, -0.16736726, -0.90400864, 0.48241361, 0.78898516])


class PublishedFgcsModel(PowerModel):
    """The log-linear model of Ali et al. (FGCS 2023) with its constants, fitted on one V100.

    ``ln(1 + P) = a + b fp + c dram + d ln(1 + f)`` and, with ``x = ln(1 + f_max) - ln(1 + f)``,
    ``ln(1 + T) = ln(1 + T_max) + p0 fp + p1 x + p2 fp^2 + p3 fp x + p4 x^2``. Time at the clock of
    the profile is that of the profile only if ``fp_active`` is 0: such is the published form.
    Constants are those of the authors' code (mertside/ai-inference-energy, models/fgcs_models.py).
    That has the V100's highest clock in its formula of time; here it is that of the profile, for on
    another GPU the published one is another model.
    """

    name: ClassVar[str] = "fgcs_published"
    learned_arrays: ClassVar[tuple[str, ...]] = ("coefficients", "typical")

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        self._typical = required_medians(matrix(queries, _FGCS_INPUTS), _FGCS_INPUTS)
        self._coefficients = _FGCS_POWER if self.target == "power_w" else _FGCS_TIME
        return self

    @override
    def answer(self, queries: Queries) -> Array:
        fp, dram = filled(matrix(queries, _FGCS_INPUTS), self._typical).T
        clock_mhz = queries.sm_clock_mhz
        if self.target == "power_w":
            columns = np.column_stack([np.ones_like(fp), fp, dram, np.log1p(clock_mhz)])
            return np.asarray(np.expm1(columns @ self._coefficients))
        x = np.log1p(queries.at_profile.sm_clock_mhz) - np.log1p(clock_mhz)
        columns = np.column_stack([fp, x, fp**2, fp * x, x**2])
        return np.asarray(np.exp(columns @ self._coefficients))


_TRUSTED = {"sklearn.tree._tree.Tree"}
"""Types that skops does not know and that are nothing but numbers."""
_NUM_ROUNDS = 100
_MOST_IN_LEAF = 20  # the default of LightGBM
_LEAVES = 20
"""Leaves that a table allows at least: of 40 runs, a leaf of 20 is half of them."""


class TreesModel(PowerModel):
    """A table of inputs and outputs behind a library's own trees, kept in its own format."""

    @override
    def learn(self, queries: Queries, values: Array, groups: Names) -> Self:
        self._trees: Any = self._trained(examples(queries, values, self.target))
        return self

    @override
    def answer(self, queries: Queries) -> Array:
        return decoded(queries, self._outputs(matrix(queries, INPUTS)), self.target)

    @abstractmethod
    def _trained(self, taught: Examples) -> Any:
        """Train the trees."""

    @abstractmethod
    def _outputs(self, inputs: Array) -> Array:
        """Return what the trees put out, shape ``(n,)``."""


class RandomForestModel(TreesModel):
    """The mean of a hundred trees of scikit-learn."""

    name: ClassVar[str] = "random_forest"
    learned_arrays: ClassVar[tuple[str, ...]] = ("typical",)
    file: ClassVar[str] = "trees.skops"

    @override
    def _trained(self, taught: Examples) -> Any:
        from sklearn.ensemble import RandomForestRegressor

        self._typical = medians(taught.inputs, 0.0)
        forest = RandomForestRegressor(random_state=self.seed, n_jobs=1)
        inputs = filled(taught.inputs, self._typical)
        return forest.fit(inputs, taught.outputs, sample_weight=taught.weights)

    @override
    def _outputs(self, inputs: Array) -> Array:
        # One by one: the forest's own predict takes longer to share them out among threads.
        inputs = filled(inputs, self._typical).astype(np.float32)
        each = [tree.tree_.predict(inputs)[:, 0] for tree in self._trees.estimators_]
        return np.asarray(np.mean(each, axis=0))

    @override
    def _save_native(self, folder: Path) -> None:
        import skops.io

        skops.io.dump(self._trees, folder / self.file)

    @override
    def _load_native(self, folder: Path) -> None:
        import skops.io

        path = folder / self.file
        unknown = set(skops.io.get_untrusted_types(file=path)) - _TRUSTED
        if unknown:
            raise ConfigError(
                f"A file with nothing but a forest is required, {path} holds {sorted(unknown)}; "
                "do not load it."
            )
        self._trees = skops.io.load(path, trusted=sorted(_TRUSTED))


def _monotone(target: Target) -> tuple[int, ...]:
    """Return for each input 1 where outputs must not fall with it, 0 where nothing is known."""
    return tuple(int(target == "power_w" and name in _RISING) for name in INPUTS)


class XgboostModel(TreesModel):
    """Boosted trees of XGBoost, none of which lets power fall as the clock rises."""

    name: ClassVar[str] = "xgboost"
    file: ClassVar[str] = "booster.ubj"

    @override
    def _trained(self, taught: Examples) -> Any:
        import xgboost

        data = xgboost.DMatrix(taught.inputs, label=taught.outputs, weight=taught.weights)
        settings = {"nthread": 1, "seed": self.seed, "verbosity": 0, "tree_method": "hist"}
        rising = {"monotone_constraints": _monotone(self.target)}
        return xgboost.train({**settings, **rising}, data, num_boost_round=_NUM_ROUNDS)

    @override
    def _outputs(self, inputs: Array) -> Array:
        return np.asarray(self._trees.inplace_predict(inputs), dtype=float)

    @override
    def _save_native(self, folder: Path) -> None:
        self._trees.save_model(folder / self.file)

    @override
    def _load_native(self, folder: Path) -> None:
        import xgboost

        self._trees = xgboost.Booster(params={"nthread": 1})
        self._trees.load_model(folder / self.file)


class LightgbmModel(TreesModel):
    """Boosted trees of LightGBM, grown leaf by leaf, likewise."""

    name: ClassVar[str] = "lightgbm"
    file: ClassVar[str] = "booster.txt"

    @override
    def _trained(self, taught: Examples) -> Any:
        import lightgbm

        num_rows = len(taught.outputs)
        settings: Mapping[str, Any] = {
            "num_threads": 1,
            "seed": self.seed,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
            "monotone_constraints": _monotone(self.target),
            "min_data_in_leaf": max(1, min(_MOST_IN_LEAF, num_rows // _LEAVES)),
        }
        data = lightgbm.Dataset(taught.inputs, label=taught.outputs, weight=taught.weights)
        return lightgbm.train({**settings}, data, num_boost_round=_NUM_ROUNDS)

    @override
    def _outputs(self, inputs: Array) -> Array:
        return np.asarray(self._trees.predict(inputs, num_threads=1), dtype=float)

    @override
    def _save_native(self, folder: Path) -> None:
        (folder / self.file).write_text(self._trees.model_to_string())

    @override
    def _load_native(self, folder: Path) -> None:
        import lightgbm

        path = folder / self.file
        try:
            self._trees = lightgbm.Booster(model_str=path.read_text())
        except lightgbm.basic.LightGBMError as error:
            raise ConfigError(f"A model of LightGBM is required, got {path}: {error}.") from error
