"""Power models: learn power and time from runs, say how sure, choose the clock.

    runs = read_csv(path, boards={"A100(GA100)": "a100_sxm"})     # readers.py, checked
    model = POWER_MODELS["physics"](target="power_w").fit(runs)   # or target="time_s"
    asked = sweep(profile_of(runs, gpu, application))             # queries.py
    model.predict(asked)                                          # W or s, shape (n,)
    model.predict_interval(asked, level=0.9)                      # lower, upper, what is outside
    model.adapt(one_measured_point)                               # a new, anchored model
    model.save(folder); artifacts.load_model(folder)              # JSON, npz, native; no pickle

**To add a member**: one file in ``members/`` and one line in the table below. The class derives
from :class:`joulelab.power_models.base.PowerModel`, has a ``name`` and

* ``learn(queries, values, groups)``: returns itself. ``values`` are watts, or time over that of
  the profile where ``self.target == "time_s"``; ``groups`` says which rows belong together
  (hold out whole groups in any inner validation). Use ``self.seed`` for all that is random.
* ``answer(queries)``: positive values in the same unit, one per query, whatever their order.
* ``_state()`` and ``_restore(state)``: what was learned as a :class:`~.state.State` of JSON values
  and arrays; ``_save_native(folder)`` and ``_load_native(folder)`` for what has a file format of
  its own (a booster's JSON or text, safetensors, skops).
* ``settings()``, if the constructor takes more than the base's: what it takes, as JSON.

Features come from ``features.matrix(queries, names)``, not a number where a profile lacks one:
``features.medians`` and ``filled`` deal with it, and refuse a table that lacks a column wholly.
Clocks, activities at the *default clock* and the catalogue's figures are all there is; nothing
measured at the queried clock can be reached. Intervals, anchors, the training domain, power
limits and saving are the base's; override ``adapt`` only for what scaling cannot do.
Learn logarithms or ratios, not watts: applications differ by a factor, and nothing may be negative.

Heavy imports (scikit-learn, xgboost, lightgbm) stay in the member's module; torch is allowed in
``members/neural/`` alone. ``tests/contracts/test_power_models.py`` covers each entry.
"""

from joulelab.power_models.base import PowerModel
from joulelab.registry import Registry

POWER_MODELS: Registry[type[PowerModel]] = Registry(
    "power model",
    {
        "bayesian": "joulelab.power_models.members.bayesian:BayesianModel",
        "dnn": "joulelab.power_models.members.neural.dnn:DnnModel",
        "ensemble": "joulelab.power_models.members.ensemble:EnsembleModel",
        "fgcs": "joulelab.power_models.members.fgcs:FgcsModel",
        "fgcs_published": "joulelab.power_models.members.fgcs:PublishedFgcsModel",
        "lightgbm": "joulelab.power_models.members.lightgbm_trees:LightgbmModel",
        "log_linear": "joulelab.power_models.members.linear:LogLinearModel",
        "mean": "joulelab.power_models.members.mean:MeanModel",
        "meta": "joulelab.power_models.members.meta:MetaModel",
        "physics": "joulelab.power_models.members.physics:PhysicsModel",
        "physics_residual": "joulelab.power_models.members.physics_residual:PhysicsResidualModel",
        "piecewise": "joulelab.power_models.members.piecewise:PiecewiseModel",
        "polynomial": "joulelab.power_models.members.linear:PolynomialModel",
        "random_forest": "joulelab.power_models.members.random_forest:RandomForestModel",
        "ridge": "joulelab.power_models.members.ridge:RidgeModel",
        "xgboost": "joulelab.power_models.members.xgboost_trees:XgboostModel",
    },
)
