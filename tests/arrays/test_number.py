"""Numbers that a caller gives."""

import pytest

from portable_ffn import (
    ClippedGate,
    layer_norm,
    rms_norm,
)
from tests.contract import X


@pytest.mark.parametrize("value", ["7", True, b"7", [7.0]], ids=str)
def test_a_number_is_a_number(value):
    for call in (
        lambda: ClippedGate(value),
        lambda: ClippedGate(7.0, alpha=value),
        lambda: layer_norm(X, None, eps=value),
        lambda: rms_norm(X, None, offset=value),
    ):
        with pytest.raises(TypeError, match="must be a number, got"):
            call()
