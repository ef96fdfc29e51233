"""Is the GPU that CUDA computes on the one whose sensors are read?"""

from joulelab.errors import DeviceError


def require_cuda_sees_only(uuid: str) -> None:
    """Check that this process computes on the GPU ``uuid`` and can reach no other.

    CUDA and NVML count GPUs in orders of their own, and a scheduler may hand out one while
    the sensors of another are read; the UUID is the same to both.

    Raises:
        DeviceError: If CUDA sees another GPU, several, or none.
    """
    import torch

    count = torch.cuda.device_count()
    seen = [_uuid_of(torch.cuda.get_device_properties(index)) for index in range(count)]
    if [_bare(one) for one in seen] != [_bare(uuid)]:
        raise DeviceError(
            f"CUDA must see {uuid} and nothing else, but it sees {', '.join(seen) or 'no GPU'}; "
            "start the process with CUDA_VISIBLE_DEVICES set to that UUID, and with a PyTorch "
            "that was built for CUDA."
        )


def _uuid_of(properties: object) -> str:
    return str(getattr(properties, "uuid", "a GPU without UUID"))


def _bare(uuid: str) -> str:
    return uuid.removeprefix("GPU-").lower()
