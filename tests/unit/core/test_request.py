"""What one unit of a whole request holds of each of its phases."""

import pytest

from joulelab.core.request import Request
from joulelab.errors import ConfigError


def test_a_request_of_512_tokens_in_and_64_out_holds_eight_of_the_prefill_per_token_out():
    request = Request(units={"prefill": 512.0, "decode": 64.0}, size=64.0)

    assert request.per_unit("prefill") == 8
    assert request.per_unit("decode") == 1


@pytest.mark.parametrize(("units", "size"), [({}, 1.0), ({"decode": 0.0}, 1.0), ({"a": 1.0}, 0.0)])
def test_a_request_without_work_is_refused(units, size):
    with pytest.raises(ConfigError, match="needs work"):
        Request(units=units, size=size)
