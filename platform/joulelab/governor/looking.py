"""How often is looked, so that looking takes no more than its share of a core."""

JUDGED_S, SLOWEST_S = 5.0, 1.0
"""Over how long the cost is judged, and the longest time between looks."""


class Looking:
    """Keeps the cost of looking within its budget.

    Args:
        period_s: Time between looks that is asked for.
        budget: Share of one core that they may take.
        now_s: When they begin.
    """

    def __init__(self, period_s: float, budget: float, now_s: float) -> None:
        self.period_s = period_s
        self.note = ""
        """Why looks are taken less often than asked for; empty if they are not."""
        self._budget = budget
        self._since_s = now_s
        self._cpu_s = 0.0
        self._is_new = True

    def bill(self, cpu_s: float, now_s: float) -> bool:
        """Take note of what a look cost; return whether the period must be longer from now on."""
        self._cpu_s += cpu_s
        passed_s = now_s - self._since_s
        if passed_s < JUDGED_S:
            return False
        share, is_new = self._cpu_s / passed_s, self._is_new
        self._cpu_s, self._since_s, self._is_new = 0.0, now_s, False
        # first calls cost more than all later ones
        if is_new or share <= self._budget or 2 * self.period_s > SLOWEST_S:
            return False
        self.period_s *= 2
        self.note = (
            f"Looking took {100 * share:.1f} % of a core, so that looks are taken every "
            f"{self.period_s:g} s, and a phase is recognised that much later."
        )
        return True
