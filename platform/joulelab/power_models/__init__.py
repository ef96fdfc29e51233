"""Power models: learn power and time from runs, say how sure, choose the clock.

    runs = read_csv(path, boards={"A100(GA100)": "a100_sxm"})     # readers.py, checked
    model = POWER_MODELS["stacked"](target="power_w").fit(runs)   # or target="time_s"
    asked = sweep(profile_of(runs, gpu, application))             # queries.py
    model.predict(asked)                                          # W or s, shape (n,)
    model.predict_interval(asked, level=0.9)                      # lower, upper, what is outside
    model.adapt(one_measured_point)                               # a new, anchored model
    model.save(folder); load_model(folder)                        # JSON, npz, native; no pickle

**To add a member**: a class in ``members/`` and one line in the table below. The class derives
from :class:`joulelab.power_models.base.PowerModel`, has a ``name`` and

* ``learn(queries, values, groups)``: returns itself. ``values`` are watts, or time over that of
  the profile where ``self.target == "time_s"``; ``groups`` says which rows belong together
  (hold out whole groups in any inner validation). Use ``self.seed`` for all that is random.
* ``answer(queries)``: positive values in the same unit, one per query, whatever their order.
* ``learned_values`` and ``learned_arrays``: the attributes that hold what was learned as JSON can
  hold it and as arrays, without their underscore (or ``_state()`` and ``_restore(state)``);
  ``_save_native(folder)`` and ``_load_native(folder)`` for what has a file format of its own (a
  booster's JSON or text, safetensors, skops).
* ``settings()``, if the constructor takes more than the base's: what it takes, as JSON.

Features come from ``features.matrix(queries, names)``, not a number where a profile lacks one:
``features.medians`` and ``filled`` deal with it, and refuse a table that lacks a column wholly.
Clocks, activities at the *default clock* and the catalogue's figures are all there is; nothing
measured at the queried clock can be reached. Intervals, anchors, the training domain, power
limits and saving are the base's; override ``adapt`` only for what scaling cannot do.
Learn logarithms or ratios, not watts: applications differ by a factor, and nothing may be negative.

Heavy imports (scikit-learn, xgboost, lightgbm) stay in the member's module; torch is allowed in
``members/dnn.py`` alone. ``tests/contracts/test_power_models.py`` covers each entry.
"""

from joulelab.power_models.base import PowerModel
from joulelab.registry import Registry

_REMOVED = dict.fromkeys(
    (
        *("bayesian", "ensemble", "fgcs", "log_linear", "meta", "physics_residual"),
        *("piecewise", "polynomial", "ridge"),
    ),
    "no comparison needs it; train 'stacked', which is recommended",
)

POWER_MODELS: Registry[type[PowerModel]] = Registry(
    "power model",
    {
        "dnn": "joulelab.power_models.members.dnn:DnnModel",
        "fgcs_published": "joulelab.power_models.members.tabular:PublishedFgcsModel",
        "lightgbm": "joulelab.power_models.members.tabular:LightgbmModel",
        "mean": "joulelab.power_models.members.tabular:MeanModel",
        "physics": "joulelab.power_models.members.physics:PhysicsModel",
        "random_forest": "joulelab.power_models.members.tabular:RandomForestModel",
        "stacked": "joulelab.power_models.members.stacked:StackedModel",
        "xgboost": "joulelab.power_models.members.tabular:XgboostModel",
    },
    group="joulelab.power_models",
    base=PowerModel,
    removed=_REMOVED,
)
