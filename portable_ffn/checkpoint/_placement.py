"""Where residual and normalisation stand round a network, by family and names: the one literal table."""

from typing import NamedTuple

from portable_ffn.checkpoint._recipe import NormRecipe


class Placement(NamedTuple):
    """The normalisations round a network, each None where there is none."""

    before: NormRecipe | None = None
    after: NormRecipe | None = None
    post: NormRecipe | None = None
    factor: float = 1.0
