"""Write one outside case from transformers: a tiny random model as that library saves it, and what its layers compute.

    python ci/golden.py LlamaForCausalLM cases/golden/llama --set hidden_size=16 --set intermediate_size=20 \\
        --set num_hidden_layers=2 --set vocab_size=64 --module model.layers.0.mlp --module model.layers.1.mlp

Neither this library nor its tests need transformers; whoever adds a family runs this once, where transformers and
torch are installed, and the tests read the folder (PORTABLE_FFN_CASES=cases). Each module must take one array
(..., d_model) and return one of that shape; a layer that is no module of its own is compared in a test instead.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import safe_open
from safetensors.numpy import save_file


def main() -> None:
    """One folder: config.json, model.safetensors, cases.json, cases.safetensors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model_class", help="a class of transformers, such as LlamaForCausalLM")
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a value of the config in JSON; dots reach into nested configs",
    )
    parser.add_argument("--module", action="append", required=True, metavar="PATH", help="a layer, by its path")
    parser.add_argument("--stack", default="main", help="the stack's name (main)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    model_class = getattr(transformers, args.model_class)
    config = model_class.config_class()
    for assignment in args.set:
        key, _, value = assignment.partition("=")
        *outer, last = key.split(".")
        target = config
        for name in outer:
            target = getattr(target, name)
        setattr(target, last, json.loads(value))
    torch.manual_seed(args.seed)
    model = model_class(config).eval().float()
    randomise(model)
    model.save_pretrained(args.folder)

    cases, arrays = [], {}
    modules = [(path, model.get_submodule(path)) for path in args.module]
    keys = on_disk(args.folder / "model.safetensors")
    for number, (path, module) in enumerate(modules):
        name = f"case{number}"
        params = {param: recipe(value, keys, path) for param, value in module.state_dict().items()}
        d_model, *_, d_ff = widths(module)
        x = 2 * torch.randn(2, 5, d_model)
        with torch.no_grad():
            arrays |= {f"{name}.x": x.numpy(), f"{name}.y": module(x).numpy()}
            wide = module.double()
            arrays |= {f"{name}.y64": wide(x.double()).numpy(), f"{name}.y8_64": wide(8 * x.double()).numpy()}
        cases.append(
            {
                "name": name,
                "kind": "unit",
                "path": path,
                "module_class": type(module).__name__,
                "d_model": d_model,
                "d_ff": d_ff,
                "in_layer_stack": True,
                "stack": args.stack,
                "params": params,
                "form": "",
                "activation": "",
                "placement_dynamic": {},
                "layer_norms": {},
                "spec": {},
            }
        )
    save_file(arrays, args.folder / "cases.safetensors")
    told = {
        "model_type": config.model_type,
        "model_class": args.model_class,
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "cases": cases,
    }
    (args.folder / "cases.json").write_text(json.dumps(told, indent=1))


@torch.no_grad()
def randomise(model: torch.nn.Module) -> None:
    """Values that hide nothing: no zero bias, no norm of ones."""
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        if not value.is_floating_point():
            continue
        if name.endswith("running_var"):
            value.copy_(0.5 + torch.rand(value.shape))
        elif value.ndim > 1:
            value.normal_(std=0.35)
        elif "norm" in name.lower() and name.endswith("weight"):
            value.copy_(1 + 0.3 * torch.randn(value.shape))
        else:
            value.normal_(std=0.5)


def widths(module: torch.nn.Module) -> list[int]:
    """What each linear map takes, in their order: d_model first, d_ff last."""
    found = [
        inner.in_features if isinstance(inner, torch.nn.Linear) else int(inner.weight.shape[0])
        for inner in module.modules()
        if isinstance(inner, torch.nn.Linear) or type(inner).__name__ == "Conv1D"
    ]
    if len(found) < 2:
        raise SystemExit(f"{type(module).__name__} must hold two linear maps for its widths to be known")
    return found


def on_disk(file: Path) -> dict[str, torch.Tensor]:
    """The tensors that were saved."""
    with safe_open(file, "pt") as tensors:
        return {key: tensors.get_tensor(key) for key in tensors.keys()}  # noqa: SIM118


def recipe(value: torch.Tensor, keys: dict[str, torch.Tensor], path: str) -> dict[str, Any]:
    """The tensor on disk that a parameter came from, whole or as a half of one."""
    for key, stored in keys.items():
        if stored.shape == value.shape and torch.equal(stored, value):
            return {"op": "id", "key": key}
    for key, stored in keys.items():
        for half in range(2):
            if (
                stored.ndim == value.ndim
                and stored.shape[0] == 2 * value.shape[0]
                and torch.equal(stored.chunk(2)[half], value)
            ):
                return {"op": "part", "key": key, "ops": [["chunk", 0, 2, half]]}
    raise SystemExit(f"no tensor on disk is a parameter of {path}, or a half of one holds it")


if __name__ == "__main__":
    main()
