"""GPUs that play back what was measured before: by us, or by others in a published table."""

from joulelab.devices.replay.device import ReplayDevice, read_recording

__all__ = ["ReplayDevice", "read_recording"]
