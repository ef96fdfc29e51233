"""``joulelab export-metrics``: the live view for Prometheus."""

import sys
from dataclasses import dataclass
from typing import Annotated

import tyro
from prometheus_client import start_http_server

from joulelab.cli.live_options import LiveOptions
from joulelab.core.bounds import check_range
from joulelab.errors import ConfigError
from joulelab.live.metrics import SLOW_PERIOD_S, registry_of


@dataclass(frozen=True, kw_only=True)
class ExportMetrics(LiveOptions):
    """Serve power, energy, clocks, heat and loans of this machine's GPUs to Prometheus.

    It reads when it is scraped, and calls no setter. Whoever reaches the address can read, so it is
    this machine's own unless another is named. Ctrl-C ends it.

    Attributes:
        address: Address of this machine to listen on.
        port: Port; 0 takes any that is free, and says which.
    """

    address: str = "127.0.0.1"
    port: Annotated[int, tyro.conf.arg(metavar="PORT")] = 9400

    def run(self) -> int:
        """Serve until interrupted; 1 if the server ends by itself."""
        check_range("--port", self.port, 0, 65535)
        with self.open_session(slow_period_s=SLOW_PERIOD_S) as session:
            try:
                server, thread = start_http_server(
                    self.port, addr=self.address, registry=registry_of(session)
                )
            except OSError as error:
                raise ConfigError(
                    f"--address and --port must be free here, got {self.address} and {self.port}: "
                    f"{error.strerror}. NVIDIA's own exporter takes 9400 too; name another."
                ) from error
            where = f"http://{self.address}:{server.server_port}/metrics"
            print(f"Serving metrics at {where}", file=sys.stderr, flush=True)
            try:
                # In turns: an interrupt that another thread receives does not end a longer wait.
                while thread.is_alive():
                    thread.join(1.0)
            finally:
                server.shutdown()
                server.server_close()
        return 1
