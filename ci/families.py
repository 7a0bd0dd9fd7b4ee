"""Survey the model families of transformers: which config is each network's own, and which key its code reads there.

    python ci/families.py --cache build/survey            compare with the table that there is; status 1 if they differ
    python ci/families.py --cache build/survey --write    write portable_ffn/checkpoint/_config/survey.json
    python ci/families.py --cache build/survey gemma2     survey some model types anew, and print their lines

It needs transformers 5.24, torch, and what some families import (pillow, timm, scipy); neither the library nor its
tests do. Every family is built on the meta device with a probe under each key that may name an activation, and again
with each flag turned that may change a network, and the probes are looked for in its networks. That takes half an hour;
the cache keeps what was surveyed of each family.
"""

import argparse
import importlib
import inspect
import json
import logging
import re
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

from survey.configs import classes, facts
from survey.probe import build, objects, put_probes, shrink
from survey.special import BACKBONES, FLAGS, NEEDED, READ_IN_THE_CODE, VARIANTS
from survey.table import assemble, is_main, rows_of, write
from transformers.modeling_utils import PreTrainedModel
from transformers.models.auto import modeling_auto

TABLE = Path(__file__).parent.parent / "portable_ffn" / "checkpoint" / "_config" / "survey.json"
# Heads that add no network to the model below them.
_BARE_HEADS = re.compile(
    "For(MultipleChoice|QuestionAnswering|TokenClass|NextSentence|SequenceClass|ImageClass|AudioFrame|XVector|Regression)"
)
_AUTO = ("MODEL_MAPPING", "MODEL_FOR_CAUSAL_LM_MAPPING", "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING")
_SECONDS = 60


def model_classes(cls: Any) -> list[Any]:
    """The models of a config class: those beside it, or those that the automatic classes choose for it."""
    name = cls.__module__.replace("configuration_", "modeling_")
    try:
        module = vars(importlib.import_module(name))
    except ImportError:
        module = {}
    found = [
        model
        for model in module.values()
        if inspect.isclass(model)
        and issubclass(model, PreTrainedModel)
        and model.__module__ == name
        and getattr(model, "config_class", None) is cls
        and not model.__name__.endswith("PreTrainedModel")
    ]
    for mapping in () if found else _AUTO:
        try:
            chosen = getattr(modeling_auto, mapping)[cls]
        except KeyError:
            continue
        found += chosen if isinstance(chosen, tuple) else [chosen]
    lean = [model for model in found if not _BARE_HEADS.search(model.__name__)]
    whole = [model for model in lean if is_main(model.__name__)]
    return sorted(whole or lean or found, key=lambda model: len(model.__name__))


def survey(model_type: str, cls: Any) -> dict[str, Any]:
    """The networks of one model type, over its models and variants; what could not be built is told."""
    rows: dict[str, Any] = {}
    failed: list[str] = []

    def add(model: Any, said: dict[str, Any], flag: tuple[tuple[str, ...], str, bool] | None = None) -> bool:
        """One model of one config."""
        # Some can't be built with fewer layers, and some look the names up in tables of their own.
        for probes, small in ((True, True), (True, False), (False, True)):
            signal.alarm(_SECONDS)
            try:
                config = cls(**said)
                for path, inner in objects(config):
                    if flag is not None and flag[0] == path:
                        inner.__dict__[flag[1]] = flag[2]
                if small:
                    shrink(config)
                if probes:
                    put_probes(config)
                found = rows_of(build(model, config))
            except Exception as error:
                failed.append(f"{model.__name__} {flag or ''}: {type(error).__name__} {str(error)[:120]}")
                continue
            finally:
                signal.alarm(0)
            for name, source in found.items():
                if not probes:
                    source = READ_IN_THE_CODE.get(model_type)
                if name in rows and rows[name] != source and flag is None:
                    source = rows[name] if source is None else None if rows[name] is not None else source
                rows[name] = rows.get(name) or source if flag is not None else source
            return True
        return False

    needed = NEEDED.get(model_type, {})
    models = [model for model in model_classes(cls) if add(model, needed)]
    for said in VARIANTS.get(model_type, ()):
        for model in models:
            add(model, needed | said)
    if models:
        flags = [
            (path, key, not value)
            for path, inner in objects(cls(**needed))
            for key, value in vars(inner).items()
            if isinstance(value, bool) and re.search(FLAGS, key)
        ]
        for flag in flags:
            add(models[-1], needed, flag)
    return {"rows": rows, "backbones": _backbones(cls, models), "failed": failed}


def _backbones(cls: Any, models: list[Any]) -> list[str]:
    """The paths under which a family keeps a backbone of any kind."""
    if "backbone_config" not in (getattr(cls, "sub_configs", None) or {}):
        return []
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    for model in reversed(models or model_classes(cls)):
        for kind in BACKBONES:
            signal.alarm(_SECONDS)
            try:
                kinds = {key: value for key, value in kind.items() if key != "model_type"}
                config = cls(backbone_config=CONFIG_MAPPING[kind["model_type"]](**kinds))
                shrink(config)
                put_probes(config)
                rows = rows_of(build(model, config))
            except Exception:
                continue
            finally:
                signal.alarm(0)
            theirs = {name for name, source in rows.items() if source and source[0] == "backbone_config"}
            if theirs:
                return sorted({name.partition(".encoder.")[0] for name in theirs})
    return []


def main() -> int:
    """The table, compared or written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True, help="keeps what was surveyed of each family")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("model_types", nargs="*")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGALRM, _too_slow)
    args.cache.mkdir(parents=True, exist_ok=True)
    halves: dict[str, dict[str, Any]] = {"facts": {}, "rows": {}, "backbones": {}}
    for model_type, cls in classes().items():
        kept = args.cache / f"{model_type}.json"
        if args.model_types and model_type not in args.model_types and not kept.exists():
            continue
        if model_type in args.model_types or not kept.exists():
            try:
                line = {"facts": facts(cls, NEEDED.get(model_type, {})), **survey(model_type, cls)}
            except Exception as error:
                line = {"failed": [f"{type(error).__name__} {str(error)[:120]}"]}
            kept.write_text(json.dumps(line, indent=1))
            print(model_type, len(line.get("rows", ())), *line["failed"][:2], flush=True)
        for half, found in json.loads(kept.read_text()).items():
            if half != "failed" and found:
                halves[half][model_type] = found
    table = assemble(halves["facts"], halves["rows"], halves["backbones"])
    for model_type in args.model_types:
        print(json.dumps({model_type: table[model_type]}, indent=1))
    if args.write:
        write(table, TABLE)
        return 0
    there = json.loads(TABLE.read_text(encoding="utf-8"))
    different = sorted(model for model in {*table, *there} if table.get(model) != there.get(model))
    for model in different:
        print(f"{model}: surveyed {json.dumps(table.get(model))[:300]}")
        print(f"{model}: in the table {json.dumps(there.get(model))[:300]}")
    print(f"{len(table)} model types, {len(different)} differ from the table")
    return 1 if different else 0


def _too_slow(*_: Any) -> None:
    """The end of a family that takes too long."""
    raise TimeoutError(f"more than {_SECONDS} s")


if __name__ == "__main__":
    sys.exit(main())
