"""What explains the rows of one place and dtype, put into them; and what a wider dtype says of the same network."""

from dataclasses import replace

import numpy as np

from portable_ffn._arrays.dtype import LOW_PRECISION
from portable_ffn.testing._faults.arithmetic import hidden_nan
from portable_ffn.testing._faults.diagnosis import Diagnosis, diagnose
from portable_ffn.testing._faults.failure import Evidence
from portable_ffn.testing._faults.row import Meant
from portable_ffn.testing._questions import Questions
from portable_ffn.testing._report.rows import Row

SHARP = 8  # calls in float32 of a network that is checked in half precision


def in_wider(at: Questions, meant: Meant) -> Diagnosis:
    """What is wrong with the network in float32, where half precision alone is checked."""
    if at.dtype not in LOW_PRECISION or at.backend.slow or "float32" not in at.backend.held_dtypes():
        return Diagnosis()
    sharp = Questions(at.wrapped, at.backend, at.device, "float32", at.answers, at.activation, at.errors)
    asked = [sharp.asked(name) for name in sharp.names[:SHARP]]
    return diagnose([call for call in asked if call is not None], meant, sharp)


def with_causes(row: Row, call: Evidence | None, diagnosis: Diagnosis) -> Row:
    """A row with what explains it; what fails where x is not finite alone has a cause of its own."""
    if row.status != "fail" or row.causes or call is None or call.got is None or not row.worst > 1.0:
        return row
    finite = np.isfinite(call.x).all(axis=-1, keepdims=True)
    if not (call.outside & finite).any():
        return replace(row, causes=("NaN hidden",) if hidden_nan(call) else ())
    message = "; ".join(filter(None, (row.message, diagnosis.note)))
    return replace(row, causes=diagnosis.causes, message=message)
