"""Find every GPU of the cluster, and the way to put a process beside it."""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from joulelab.core.device import DeviceAddress
from joulelab.devices import DEVICES
from joulelab.devices.choice import Choice, choose_backend, is_hardware, usable
from joulelab.errors import ConfigError, DeviceError, DeviceNotFoundError, JouleLabError
from joulelab.study.gpu import StudyGpu, grouped
from joulelab_actors.session import failure_in_words

_LOOK_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Site(StudyGpu):
    """A GPU and its place in the cluster."""

    node_id: str  # Ray's id of the node
    # Custom resource that the node declares for this GPU; an actor that asks for it follows the GPU
    # to a node that replaces this one. None if undeclared.
    resource: str | None = None
    partner_resources: tuple[str, ...] = ()  # those for its partners
    counted: bool = False  # whether Ray counts this GPU among the node's
    # What is lost on this node, whose best way to talk to GPUs failed; None where it did not, or
    # where the way was asked for.
    fallback: str | None = None

    def actor_options(self) -> dict[str, Any]:
        """Return the options that put an actor beside this GPU and show it that and its partners.

        Not ``num_gpus`` alone: Ray hands out GPUs by its own count, and an actor that it
        restarts can come back on another one.
        """
        options: dict[str, Any] = {"num_cpus": 0}
        if self.resource is not None:
            options["resources"] = dict.fromkeys((self.resource, *self.partner_resources), 1)
        else:
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(
                self.node_id, soft=False
            )
        if is_hardware(self.address):
            uuids = [self.uuid, *(partner.uuid for partner in self.partners)]
            options["num_gpus"] = len(uuids) if self.counted else 0
            options["runtime_env"] = {
                "env_vars": {
                    "CUDA_VISIBLE_DEVICES": ",".join(uuids),
                    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                    "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1",
                }
            }
        return options


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sighting:
    """What one node says: its devices, or why it has none."""

    hostname: str
    found: tuple[StudyGpu, ...] = ()
    trouble: str | None = None
    fallback: str | None = None


_Node: TypeAlias = dict[str, Any]
_Call: TypeAlias = tuple[Callable[..., _Sighting], tuple[Any, ...]]


def find_sites(backend: str, store: str | None = None) -> tuple[Site, ...]:
    """Find the GPUs of ``backend`` on every node of the connected cluster.

    ``"auto"`` is the best that finds a GPU, node by node. ``store`` is the folder of state or
    recordings, for backends that are not hardware. Raises UnknownNameError if there is no such
    backend; DeviceNotFoundError if no node has a device; says why, node by node.
    """
    if backend != "auto":
        DEVICES[backend]  # a wrong name is refused here rather than by every node
    nodes, sightings = _ask_all(lambda nodes: [(_look, (backend, store)) for _ in nodes])
    return _sites(backend, nodes, sightings)


def simulated_sites(
    kinds: str | Sequence[str], num_gpus: int, store: str | None = None, *, others: bool = False
) -> tuple[Site, ...]:
    """Make ``num_gpus`` simulated GPUs of each kind and deal them out to the nodes of the cluster.

    ``kinds`` are of the catalogue, e.g. ``"h200_sxm"``. ``store`` is the folder on each node that
    holds the state of its GPUs. With ``others`` those of the kinds that are there besides follow.
    Raises ConfigError if ``num_gpus`` is below 1 or a kind is not in the catalogue.
    """
    if num_gpus < 1:
        raise ConfigError(f"num_gpus must be at least 1, got {num_gpus}.")

    def deal(nodes: Sequence[_Node]) -> list[_Call]:
        places = [(node, len(nodes)) for node in range(len(nodes))]
        return [(_simulate, (keys, num_gpus, store, others, place)) for place in places]

    keys = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    nodes, sightings = _ask_all(deal, most=num_gpus)
    sites = _sites("simulated", nodes, sightings)
    return tuple(sorted(sites, key=lambda site: max(_index(site.uuid) - num_gpus + 1, 0)))


def grouped_sites(sites: Sequence[Site], gpus_per_trial: int) -> tuple[Site, ...]:
    """Return sites that stand for ``gpus_per_trial`` GPUs of one node each.

    Raises ConfigError if no node has so many of one product.
    """
    resources = {site.uuid: site.resource for site in sites}
    return tuple(
        replace(
            site,
            partner_resources=tuple(
                resource
                for partner in site.partners
                if (resource := resources[partner.uuid]) is not None
            ),
        )
        for site in grouped(sites, gpus_per_trial)
    )


def _ask_all(
    calls_for: Callable[[Sequence[_Node]], list[_Call]], *, most: int | None = None
) -> tuple[list[_Node], list[_Sighting]]:
    """Ask up to ``most`` nodes, each what is for it; anew if one turns out to be gone.

    Ray takes a node that vanished for alive until it has missed it for some seconds.
    """
    while True:
        nodes = alive_nodes()[:most]
        try:
            return nodes, _ask(nodes, calls_for(nodes))
        except ray.exceptions.TaskUnschedulableError as error:
            alive = {node["NodeID"] for node in alive_nodes()}
            if alive.issuperset(node["NodeID"] for node in nodes):
                raise DeviceError(f"A node cannot be asked for its GPUs: {error}") from error


def alive_nodes() -> list[_Node]:
    """Return what Ray says of the nodes that it takes for alive, sorted by hostname."""
    nodes: list[_Node] = ray.nodes()  # type: ignore[no-untyped-call]
    alive = [node for node in nodes if node["Alive"]]
    return sorted(alive, key=lambda node: (node["NodeManagerHostname"], node["NodeID"]))


def call_on(node_id: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call ``function`` in a process on a node that takes no resource; return Ray's reference."""
    strategy = NodeAffinitySchedulingStrategy(node_id, soft=False)
    remote = ray.remote(function).options(num_cpus=0, scheduling_strategy=strategy)
    return remote.remote(*arguments)


def _ask(nodes: Sequence[_Node], calls: Sequence[_Call]) -> list[_Sighting]:
    refs = [
        call_on(node["NodeID"], function, arguments)
        for node, (function, arguments) in zip(nodes, calls, strict=True)
    ]
    try:
        sightings: list[_Sighting] = ray.get(refs, timeout=_LOOK_TIMEOUT_S)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, JouleLabError):
            raise error.cause from error
        raise DeviceError(f"Looking for GPUs failed: {failure_in_words(error)}") from error
    except ray.exceptions.GetTimeoutError as error:
        ready, _ = ray.wait(refs, num_returns=len(refs), timeout=0)
        silent = [
            node["NodeManagerHostname"]
            for node, ref in zip(nodes, refs, strict=True)
            if ref not in ready
        ]
        raise DeviceError(
            f"These nodes did not say within {_LOOK_TIMEOUT_S:g} s which GPUs they have: "
            f"{', '.join(silent)}."
        ) from error
    return sightings


def _sites(
    backend: str, nodes: Sequence[dict[str, Any]], sightings: Sequence[_Sighting]
) -> tuple[Site, ...]:
    found: dict[str, Site] = {}  # two nodes on one machine may see the same GPU
    for node, sighting in zip(nodes, sightings, strict=True):
        for site in _sites_on(node, sighting):
            found.setdefault(site.uuid, site)
    sites = tuple(found.values())
    if not sites:
        seen = "; ".join(f"{s.hostname}: {s.trouble or 'none'}" for s in sightings)
        what = "GPU" if backend == "auto" else f"{backend} device"
        raise DeviceNotFoundError(f"No node of the cluster has a {what}. {seen}")
    return sites


def _sites_on(node: _Node, sighting: _Sighting) -> list[Site]:
    """Take all that were found, or only those that the node is to offer."""
    declared = {name for name in node["Resources"] if name.startswith("dev:")}
    sites = []
    for gpu in sighting.found:
        resource = f"dev:{gpu.uuid}"
        if is_hardware(gpu.address) and declared and resource not in declared:
            continue
        sites.append(
            Site(
                address=gpu.address,
                identity=gpu.identity,
                capabilities=gpu.capabilities,
                node_id=node["NodeID"],
                hostname=gpu.hostname,
                resource=resource if resource in declared else None,
                counted=is_hardware(gpu.address) and node["Resources"].get("GPU", 0) >= 1,
                fallback=sighting.fallback,
                guard_outlives_job=gpu.guard_outlives_job,
            )
        )
    return sites


def _look(backend: str, store: str | None) -> _Sighting:
    try:
        choice = choose_backend() if backend == "auto" else None
        addresses = DEVICES[backend if choice is None else choice.name].discover(store)
    except DeviceError as error:
        return _Sighting(hostname=socket.gethostname(), trouble=str(error))
    return _sighting(usable(addresses), choice)


def _simulate(
    kinds: Sequence[str], num_gpus: int, store: str | None, others: bool, place: tuple[int, int]
) -> _Sighting:
    """Make the simulated GPUs, and return those of the node at a place, which is of so many."""
    from joulelab.devices.simulated import DriverStore, fleet

    uuids = [address.uuid for address in fleet(kinds, num_gpus, store)]
    if others:
        states = map(DriverStore(store).state, DriverStore(store).uuids())
        uuids += [state.uuid for state in states if state.kind in kinds]
    node, num_nodes = place
    return _sighting(
        [
            DeviceAddress(backend="simulated", uuid=uuid, store=store)
            for uuid in dict.fromkeys(uuids)
            if _index(uuid) % num_nodes == node
        ]
    )


def _index(uuid: str) -> int:
    """Return the place of a simulated GPU among those of its kind."""
    return int(uuid.rpartition("-")[2])


def _sighting(addresses: Sequence[DeviceAddress], choice: Choice | None = None) -> _Sighting:
    return _Sighting(
        hostname=socket.gethostname(),
        found=tuple(map(StudyGpu.of, addresses)),
        fallback=choice.why if choice is not None and choice.is_fallback else None,
    )
