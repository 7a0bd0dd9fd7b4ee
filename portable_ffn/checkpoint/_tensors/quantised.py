"""Quantised weights, recognised by their tensors' names and dtypes and by the config, one logical tensor for each.

What `formats` has a row for is read; every other format is named by `unread`, and refused when it is read.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from portable_ffn._arrays.dtype import REAL_FLOATING
from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._files.tensor import Encoding, TensorInfo
from portable_ffn.checkpoint._tensors.formats import FORMATS
from portable_ffn.checkpoint._tensors.module import Misfit, Module, Plan, Tensors
from portable_ffn.checkpoint._tensors.scheme import Scheme, block_sizes, read_scheme, transforms_online
from portable_ffn.checkpoint._tensors.unread import METHODS, REFUSED, REFUSED_FIRST, Method, Refused

_CODES: Final = frozenset({"int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"})
_FLOAT8: Final = "float8"
_LOOKS: Final = 100_000_000


def decode_plan(
    tensors: Mapping[str, TensorInfo],
    config: Mapping[str, Any],
    fetch: Callable[[str], np.ndarray[Any, Any]],
    metadata: Mapping[str, str],
) -> tuple[dict[str, TensorInfo], dict[str, Encoding]]:
    """The logical tensors, and the encodings of those that are not on disk as they are; `fetch` reads a small one."""
    scheme, blocks = read_scheme(config), block_sizes(config)
    if scheme.method is None and "tensor_names" in metadata:
        # torchao's own writer says it in the metadata alone.
        scheme = Scheme("torchao", {})
    method = METHODS.get(scheme.method or "")
    tensors = Tensors(tensors)
    logical = dict(tensors)
    _refuse_long_lists(scheme, len(tensors))
    encodings: dict[str, Encoding] = {}
    for name, info in tensors.items():
        if name not in logical:
            continue
        for plan in _planned(info._replace(name=name), tensors, scheme, method, blocks, fetch):
            new, encoding = plan.info, plan.encoding
            if new.name in tensors and new.name != name:
                raise CheckpointError(
                    f"{info.file}: has both {name!r} ({encoding.format}) and {new.name!r}; one must go"
                )
            for other in (name, *plan.hidden):
                logical.pop(other, None)
            logical[new.name] = new
            encodings[new.name] = encoding
    return logical, encodings


def _refuse_long_lists(scheme: Scheme, count: int) -> None:
    """CheckpointError for a list of layers that would have to be looked through for each of many tensors."""
    names = scheme.settings.get("modules_to_not_convert")
    if isinstance(names, list) and len(names) * count > _LOOKS:
        raise CheckpointError(
            f"quantization_config: modules_to_not_convert has {len(names)} names for {count} tensors, more than any "
            "model has"
        )


def _planned(
    info: TensorInfo,
    tensors: Tensors,
    scheme: Scheme,
    method: Method | None,
    blocks: frozenset[tuple[int, int]],
    fetch: Callable[[str], np.ndarray[Any, Any]],
) -> Iterator[Plan]:
    """The plan, one at most, of which the tensor holds the codes."""
    if method is not None:
        if plan := _plan_by_method(info, tensors, scheme, method):
            yield plan
        return
    coded = info.dtype in _CODES or info.dtype.startswith(_FLOAT8)
    if coded and (plan := _plan_by_name(info, tensors, scheme, REFUSED_FIRST)):
        yield plan
        return
    for row in FORMATS:
        layer = info.name.removesuffix(row.values)
        fits = info.dtype in row.dtypes and (layer != info.name or not row.values)
        if not fits or not all(layer + end in tensors for end in row.beside):
            continue
        module = Module(layer, info, tensors, scheme, blocks, fetch)
        try:
            if not info.shape:
                raise Misfit(f"{info.name} must have an axis, and has none")
            plan = _refused_beside(module) or row.plan(module)
        except Misfit as fault:
            yield _misfit(module, row.name, row.values, str(fault))
            return
        except CheckpointError:
            raise
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            # The last door for one layer, so that it doesn't hide the others.
            told = f"its tensors don't fit in a way that was not foreseen ({type(error).__name__}: {error})"
            yield _misfit(module, row.name, row.values, told)
            return
        if plan is not None:
            yield plan
            return
    if coded and (plan := _plan_by_name(info, tensors, scheme, REFUSED)):
        yield plan


def _plan_by_name(info: TensorInfo, tensors: Tensors, scheme: Scheme, table: Sequence[Refused]) -> Plan | None:
    """The refusal of a format that its names tell."""
    for row in table:
        layer = info.name.removesuffix(row.values)
        if layer != info.name and all(layer + end in tensors for end in row.beside):
            return _plan_refused(info, row, layer, tensors, scheme)
    return None


def _refused_beside(module: Module) -> Plan | None:
    """The refusal of a layer whose inputs are changed at run time, so that its weight alone says too little."""
    layer = module.name.removesuffix(".weight")
    if layer + ".pre_quant_scale" in module.tensors:
        integer = module.values.dtype == "int8"
        kind = "ModelOpt SmoothQuant" if integer else "ModelOpt AWQ"
        return _named(module.values, layer, f"{kind} (pre_quant_scale)", module.tensors)
    if module.scheme.method == "compressed-tensors" and transforms_online(module.scheme.settings):
        return _named(module.values, layer, "compressed-tensors with transforms at run time", module.tensors)
    return None


def _named(info: TensorInfo, layer: str, name: str, tensors: Tensors) -> Plan:
    """A layer of a format that is only known by name."""
    hidden = tuple(other for other in tensors.under(layer) if other not in (info.name, layer + ".bias"))
    target = info._replace(name=layer + ".weight", dtype=name, shape=_as_matrix(info.shape))
    return Plan(target, Encoding(name, (info.name,)), hidden)


def _as_matrix(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a matrix, whatever is packed: what the codes of a format that is not read amount to is not known."""
    return shape if len(shape) == 2 else (math.prod(shape[:1]), math.prod(shape[1:]))


def _misfit(module: Module, name: str, values: str, fault: str) -> Plan:
    """A layer that contradicts its own format."""
    layer = module.name.removesuffix(".weight") if not values else module.name
    target = module.name if not values or values == "_blocks" else layer + ".weight"
    info = module.values._replace(name=target, dtype=name)
    hidden = tuple(other for other in module.tensors.under(layer) if other not in (info.name, layer + ".bias"))
    return Plan(info, Encoding(name, (module.values.name,), fault=fault), hidden)


def _plan_by_method(info: TensorInfo, tensors: Tensors, scheme: Scheme, method: Method) -> Plan | None:
    """A tensor of a layer that the config says is of a format that is not read."""
    for end in method.values:
        layer = info.name.removesuffix(end)
        if layer == info.name:
            continue
        plain = info.dtype in REAL_FLOATING
        if plain and (end != ".weight" or not method.online or len(info.shape) < 2 or _left_out(layer, scheme)):
            return None
        if end == ".weight" and not plain and len(info.shape) < 1:
            return None
        return _named(info, layer, method.name, tensors)
    return None


def _left_out(layer: str, scheme: Scheme) -> bool:
    """Whether the config says that a layer is left as it is."""
    names = scheme.settings.get("modules_to_not_convert") or ["lm_head"]
    return isinstance(names, list) and any(isinstance(name, str) and name in layer for name in names)


def _plan_refused(info: TensorInfo, row: Refused, layer: str, tensors: Tensors, scheme: Scheme) -> Plan:
    """A format that is named only; its shape is (out, in) where the shapes beside it tell that."""
    name = row.format
    # Several tools write these names; the config says which it was.
    if row.values == ".qweight" and scheme.method:
        name = {"gptq": "GPTQ", "awq": "AWQ"}.get(scheme.method, scheme.method)
    elif "integer" in name and scheme.method:
        name = f"{name} of {scheme.method}"
    shape = info.shape
    if row.values == ".qweight" and len(shape) == 2:
        columns = tensors[layer + ".scales"].shape[-1:]
        if columns != shape[1:]:
            shape = (*columns, shape[0])  # AWQ packs along the outputs
        elif layer + ".g_idx" in tensors:
            shape = (shape[1], math.prod(tensors[layer + ".g_idx"].shape))
    target = info.name if row.values == ".kernel" else layer + ".weight"
    info = info._replace(name=target, dtype=name, shape=_as_matrix(shape))
    beside = tuple(layer + end for end in row.beside)
    hidden = tuple(layer + end for end in (*row.beside, *row.more))
    fault = "" if scheme.method else row.why
    return Plan(info, Encoding(name, (layer + row.values, *beside), fault=fault), hidden)
