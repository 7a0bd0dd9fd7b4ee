"""Which experts one token is given and with what weights, in scalar formulas of `math`, with the error of each.

Scores carry their error, so that a choice may be in doubt: where the scores of a chosen and an unchosen expert lie
within their errors of each other, either is right, and every choice that is possible is returned.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from portable_ffn.oracle._bound import growth, roundoff
from portable_ffn.oracle._numbers import Floating
from portable_ffn.oracle._scalars import sigmoid, softplus, sqrt_softplus

# Beyond this many possible choices of one token nothing is asserted about it.
MOST = 64
Pairs = list[tuple[float, float]]


class Choice(NamedTuple):
    """The experts of one token, best first, with their weights and how far off these may be; whether in doubt."""

    indices: tuple[int, ...]
    weights: tuple[float, ...]
    errors: tuple[float, ...]


def choices(logits: Pairs, biases: Pairs | None, routing: Any, dtype: Floating) -> list[Choice] | None:
    """All choices that are possible for one token, the one without errors first; None where there are too many."""
    ranked = _scored(logits, routing.score, dtype)
    if biases is not None:
        u = roundoff(dtype)
        ranked = [(s + b, e + d + u * abs(s + b)) for (s, e), (b, d) in zip(ranked, biases, strict=True)]
    ranked = [(math.inf, 0.0) if math.isnan(s) else (s, e) for s, e in ranked]
    sets = list(itertools.islice(_sets(ranked, routing, dtype), MOST + 1))
    if len(sets) > MOST:
        return None
    return [_weighed(logits, found, routing, dtype) for found in sets]


def _sets(ranked: Pairs, routing: Any, dtype: Floating) -> Iterator[tuple[int, ...]]:
    """The sets of experts that may be chosen."""
    allowed: list[list[int]] = [list(range(len(ranked)))]
    if routing.groups is not None:
        n_groups, top_groups, kind = routing.groups
        size = len(ranked) // n_groups
        members = [list(range(g * size, (g + 1) * size)) for g in range(n_groups)]
        values = [_group_value([ranked[e] for e in inside], kind, dtype) for inside in members]
        allowed = [sorted(e for g in best for e in members[g]) for best in _best(values, top_groups)]
    seen = set()
    for inside in allowed:
        for best in _best([ranked[e] for e in inside], routing.top_k):
            found = tuple(inside[i] for i in best)
            if frozenset(found) not in seen:
                seen.add(frozenset(found))
                yield found


def _group_value(inside: Pairs, kind: str, dtype: Floating) -> tuple[float, float]:
    """What a group is worth: its largest value, or the sum of its two largest."""
    values = sorted((value for value, _ in inside), reverse=True)[: 1 if kind == "max" else 2]
    error = max(error for _, error in inside)
    total = math.fsum(values) if all(map(math.isfinite, values)) else values[0]
    return total, len(values) * error + roundoff(dtype) * abs(total) if math.isfinite(total) else 0.0


def _best(values: Pairs, k: int) -> Iterator[tuple[int, ...]]:
    """The k largest, best first and ties by the lower index; then every other set that errors make possible."""
    order = sorted(range(len(values)), key=lambda i: (-values[i][0], i))
    yield tuple(order[:k])
    low, high = [v - e for v, e in values], [v + e for v, e in values]
    certain = [i for i in order if sum(high[j] >= low[i] for j in order if j != i) < k]
    doubtful = [i for i in order if i not in certain and sum(low[j] > high[i] for j in order) < k]
    if len(certain) + len(doubtful) > k:
        for more in itertools.combinations(doubtful, k - len(certain)):
            if set(certain) | set(more) != set(order[:k]):
                yield tuple(sorted((*certain, *more), key=order.index))


def _scored(logits: Pairs, score: str, dtype: Floating) -> Pairs:
    """What the experts are chosen by, before the bias."""
    if score == "softmax_of_chosen":
        return logits
    if score == "softmax":
        return [_out_of_log(*found, dtype) for found in _log_softmax(logits, dtype)]
    function = {"sigmoid": sigmoid, "sqrt_softplus": sqrt_softplus}.get(score)
    if function is None:
        raise ValueError(f"score must be softmax, sigmoid, sqrt_softplus or softmax_of_chosen, got {score!r}")
    # sqrt_softplus underflows no sooner than its square does.
    eta = dtype.underflow if score == "sigmoid" else math.sqrt(dtype.underflow)
    found = []
    for logit, error in logits:
        value = function(logit)
        moved = max(abs(function(logit + error) - value), abs(function(logit - error) - value)) if error else 0.0
        found.append((value, moved + roundoff(dtype) * 4 * (value + moved) + eta))
    return found


def _log_softmax(logits: Pairs, dtype: Floating) -> Pairs:
    """The logarithms of the softmax, and their errors."""
    top = max((logit for logit, _ in logits), default=0.0)
    if not all(math.isfinite(logit) for logit, _ in logits):
        # Infinite logits: what any library's softmax makes of them.
        return [(math.nan if top == math.inf or math.isnan(logit) else -math.inf, 0.0) for logit, _ in logits]
    shares = [math.exp(logit - top) for logit, _ in logits]
    total = math.fsum(shares)
    common = sum(share * error for share, (_, error) in zip(shares, logits, strict=True)) / total
    u, largest = roundoff(dtype), max(error for _, error in logits)
    common = common * math.exp(2 * min(largest, 300.0)) + u * (4 + growth(len(logits)))
    return [(logit - top - math.log(total), error + common + u * 2 * (top - logit)) for logit, error in logits]


def _out_of_log(value: float, error: float, dtype: Floating) -> tuple[float, float]:
    """exp of a logarithm with its error."""
    score = math.exp(value) if not math.isnan(value) else math.nan
    return score, score * math.expm1(min(error, 300.0)) + dtype.underflow if score == score else 0.0


def _log_scores(logits: Pairs, chosen: Sequence[int], score: str, dtype: Floating) -> Pairs:
    """The logarithms of the chosen experts' scores, and their errors."""
    if score == "softmax":
        every = _log_softmax(logits, dtype)
        return [every[i] for i in chosen]
    if score == "softmax_of_chosen":
        return _log_softmax([logits[i] for i in chosen], dtype)

    def logarithm(logit: float) -> float:
        if score == "sigmoid":
            return -softplus(-logit)
        return 0.5 * (logit if logit < -700.0 else math.log(softplus(logit)))

    found = []
    for logit, error in (logits[i] for i in chosen):
        value = logarithm(logit)
        moved = max(abs(logarithm(logit + error) - value), abs(logarithm(logit - error) - value)) if error else 0.0
        found.append((value, moved + roundoff(dtype) * (4 + 2 * abs(value))))
    return found


def _weighed(logits: Pairs, chosen: tuple[int, ...], routing: Any, dtype: Floating) -> Choice:
    """The weights of a choice."""
    found = _log_scores(logits, chosen, routing.score, dtype)
    if any(math.isnan(value) for value, _ in found):
        return Choice(chosen, (math.nan,) * len(chosen), (0.0,) * len(chosen))
    u, scale = roundoff(dtype), float(routing.scale)
    own = [math.exp(value) for value, _ in found]
    errors = [error for _, error in found]
    total = math.fsum(own) + float(routing.epsilon)
    if not routing.normalise:
        weights = [scale * score for score in own]
        relative = [error + 4 * u for error in errors]
        lost = abs(scale) * dtype.underflow
    elif total == 0.0:
        return Choice(chosen, (0.0,) * len(chosen), (0.0,) * len(chosen))
    else:
        weights = [scale * score / total for score in own]
        common = math.fsum(score * error for score, error in zip(own, errors, strict=True)) / total
        common += u * (8 + growth(len(own)) + 2 * abs(math.log(total)))
        relative = [error + common for error in errors]
        # Scores that underflow may be lost before they are divided.
        lost = abs(scale) * (len(own) * dtype.underflow / total + dtype.underflow)
    bounds = [abs(w) * math.expm1(min(r, 300.0)) + lost for w, r in zip(weights, relative, strict=True)]
    return Choice(chosen, tuple(weights), tuple(bounds))
