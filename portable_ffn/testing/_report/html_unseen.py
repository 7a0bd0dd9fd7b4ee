"""What a check can't see: a table of faults by dtype, want of cases told apart from rounding."""

from collections.abc import Iterable

from portable_ffn.testing._faults.visible import SURELY, Visibility
from portable_ffn.testing._report.html_map import DTYPES
from portable_ffn.testing._report.page import figure, text


def unseen(visible: Iterable[Visibility]) -> str:
    """A table for each network that hides something, of its faults by dtype."""
    networks: dict[str, list[Visibility]] = {}
    for one in visible:
        name = f"{one.activation}{', gated' if one.gated else ''}{'' if one.bias else ', no biases'}"
        networks.setdefault(name, []).append(one)
    if not networks:
        return ""
    tables = "".join(_table(name, found) for name, found in networks.items() if any(one.unseen for one in found))
    every = "Every fault of the table moves an answer by more than twice the bound in the dtypes that were run."
    some = (
        "These faults move no answer by more than twice the bound. A number is their effect in units of the bound: "
        "they hide in the rounding of the dtype. “No case” means that the fault changes the answer of no case: "
        "that is for want of cases, not of precision."
    )
    return f"<h2>What can't be seen</h2><p>{some if tables else every}</p>{tables}"


def _table(name: str, found: list[Visibility]) -> str:
    """The faults that some dtype hides."""
    by_dtype = {one.dtype: one for one in found}
    dtypes = [dtype for dtype in DTYPES if dtype in by_dtype]
    faults = dict.fromkeys(fault for dtype in dtypes for fault in by_dtype[dtype].unseen)
    head = "".join(f'<th scope="col">{text(dtype)}</th>' for dtype in dtypes)
    lines = "".join(
        f'<tr><th scope="row">{text(fault)}</th>{"".join(_seen(by_dtype[dtype], fault) for dtype in dtypes)}</tr>'
        for fault in faults
    )
    count = f"{len(faults)} fault{'s' * (len(faults) != 1)}"
    return (
        f'<details class="card"><summary>{text(name)}: {count}</summary><div class="scroll"><table class="cases">'
        f'<thead><tr><th scope="col">fault</th>{head}</tr></thead><tbody>{lines}</tbody></table></div></details>'
    )


def _seen(one: Visibility, fault: str) -> str:
    """Whether one dtype shows a fault."""
    if fault not in one.effects:
        return '<td class="number muted">-</td>'
    effect = one.effects[fault]
    if effect > SURELY:
        return '<td class="number muted">seen</td>'
    return f'<td class="number">{"no case" if effect == 0.0 else f"hidden, {figure(effect)}"}</td>'
