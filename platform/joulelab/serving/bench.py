"""Drive a server: what its GPUs use meanwhile, per request and per token, and latencies."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from joulelab.monitor.monitor import Monitor
from joulelab.provenance import collect_provenance
from joulelab.running.measure import InForce, Use, counted, notes_of_sight
from joulelab.serving.client import Reply
from joulelab.serving.deployment import Deployment
from joulelab.serving.settings import LatencyLimits, Load, ServerSettings

REQUESTS = 100
"""How many count where nobody says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Mean and percentiles of a latency, in seconds."""

    mean_s: float
    p50_s: float
    p90_s: float
    p99_s: float

    @classmethod
    def of(cls, values_s: Sequence[float]) -> "Spread | None":
        """Return the spread of some values; ``None`` of none."""
        if not values_s:
            return None
        p50_s, p90_s, p99_s = np.percentile(values_s, [50, 90, 99]).tolist()
        return cls(mean_s=float(np.mean(values_s)), p50_s=p50_s, p90_s=p90_s, p99_s=p99_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What some load on a server came to."""

    num_requests: int
    num_failed: int
    failures: tuple[str, ...]  # why, each reason once, with how often
    duration_s: float  # from the begin of the load to the last answer, in seconds
    output_tokens: int
    # Whether the server stated how many; else pieces of its stream were counted.
    has_token_counts: bool
    ttft_s: Spread | None  # time to the first token
    tpot_s: Spread | None
    latency_s: Spread | None  # time to the end of an answer
    good_per_s: float  # answers per second that kept the limits

    @classmethod
    def of(cls, answers: Sequence[Reply], limits: LatencyLimits, duration_s: float) -> "Served":
        """Sum up the answers to a load that took so many seconds."""
        sound = [answer for answer in answers if not answer.failure]
        why = Counter(answer.failure for answer in answers if answer.failure)
        return cls(
            num_requests=len(answers),
            num_failed=len(answers) - len(sound),
            failures=tuple(f"{times} x {failure}" for failure, times in why.most_common(5)),
            duration_s=duration_s,
            output_tokens=sum(answer.output_tokens or 0 for answer in sound),
            has_token_counts=bool(sound) and all(answer.is_counted for answer in sound),
            ttft_s=Spread.of([a.ttft_s for a in sound if a.ttft_s is not None]),
            tpot_s=Spread.of([a.tpot_s for a in sound if a.tpot_s is not None]),
            latency_s=Spread.of([a.latency_s for a in sound]),
            good_per_s=sum(map(limits.are_kept, answers)) / duration_s,
        )

    @property
    def metrics(self) -> dict[str, float]:
        """Rates and latencies, by name."""
        found = {
            "requests_per_s": (self.num_requests - self.num_failed) / self.duration_s,
            "output_tokens_per_s": self.output_tokens / self.duration_s,
            "goodput_per_s": self.good_per_s,
        }
        spreads = {"ttft": self.ttft_s, "tpot": self.tpot_s, "latency": self.latency_s}
        for name, spread in spreads.items():
            if spread is not None:
                found |= {f"{name}_{part}": value for part, value in asdict(spread).items()}
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerUse(Use):
    """A load on a server, and what the GPUs used meanwhile, idle power included.

    The processors' use holds that of the load itself.
    """

    url: str
    command: tuple[str, ...]  # what started it; empty if it ran already
    model: str  # which model was asked
    load: Load
    limits: LatencyLimits  # latencies that a good answer keeps
    served: Served

    @property
    def metrics(self) -> dict[str, float]:
        """The numbers that are known, by name."""
        served = self.served
        return {"duration_s": served.duration_s, **served.metrics, **self._energies()}

    def _energies(self) -> dict[str, float]:
        found = self.totals
        if not found:
            return {}
        energy_j = found["energy_j"]
        num_sound = self.served.num_requests - self.served.num_failed
        if num_sound:
            found["energy_per_request_j"] = energy_j / num_sound
        if self.served.output_tokens and self.served.has_token_counts:
            found["energy_per_output_token_j"] = energy_j / self.served.output_tokens
        elif self.served.output_tokens:
            found["energy_per_output_piece_j"] = energy_j / self.served.output_tokens
        return found


async def bench(
    deployment: Deployment,
    settings: ServerSettings,
    monitor: Monitor,
    *,
    in_force: InForce,
    named: Sequence[str] = (),
    missing: str = "",
) -> ServerUse:
    """Warm a server up, drive it, and return what that cost.

    ``monitor`` is open and knows the server's processes; ``in_force`` was put on the GPUs. Those in
    ``named`` count, else those that the server is seen on; ``missing`` says why there is none.
    """
    provenance = collect_provenance()
    model = await deployment.warmed_up(settings)
    load = settings.load(settings.requests or REQUESTS)

    async def ask(_number: int, due_s: float) -> Reply:
        return await deployment.ask(settings, model, due_s)

    window, begin_s = monitor.begin("load"), time.monotonic()
    answers = await load.run(ask)
    duration_s = time.monotonic() - begin_s
    monitor.end(window)
    gpus, others = counted(window.gpus.values(), named)
    return ServerUse(
        url=deployment.url,
        command=deployment.command,
        model=model,
        load=load,
        limits=settings.limits,
        served=Served.of(answers, settings.limits, duration_s),
        gpus=gpus,
        others=others,
        cpu=window.cpu,
        requested=in_force.point,
        receipts=in_force.receipts,
        notes=(*in_force.lost, *notes_of_sight("server", gpus, others)),
        missing=missing,
        provenance=provenance,
    )
