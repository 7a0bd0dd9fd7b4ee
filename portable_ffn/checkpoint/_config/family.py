"""What one row of the table of families can say; the table itself is in `families`."""

from typing import NamedTuple

Eps = float | str


class Clip(NamedTuple):
    """Clamps of a gate: numbers, or the config keys that hold them. A list in the config has one number a layer.

    `alpha_else` is alpha where the config has no such key; `optional` says that no limit, or 0, means no clamp;
    `named` that the activation inside is the one that the config names.
    """

    limit: float | str
    alpha: float | str = 1.0
    offset: float = 0.0
    clip: str = "before"
    alpha_else: float = 1.0
    optional: bool = False
    named: bool = False


class Softcap(NamedTuple):
    """Config keys of the two caps of a softcapped SwiGLU."""

    gate: str
    up: str


class TopK(NamedTuple):
    """Config key of the share of gates that a Gaussian top-k puts to zero, a layer each."""

    sparsity: str


class Switch(NamedTuple):
    """A config key that is true or false, and the activation that each means."""

    key: str
    yes: str
    no: str


class Norm(NamedTuple):
    """A normalisation inside the network: its name beside the matrices, its kind, its eps (or the key of it).

    The kind is one of `recipe.NORMS`, or the config key that says "layer_norm" or "no_norm".
    """

    name: str
    kind: str = "layer"
    eps: Eps = 1e-5


class Family(NamedTuple):
    """One row: for `models` (model types), where `where` is found in the layer's path.

    Attributes
    ----------
    when : (str, bool)
        A key of the config and what it must be for the row to count.
    activation
        What the code computes whatever the config says: a name, or a gate whose numbers the config holds.
    means : (str, str)
        A name in the config, and the activation that it means here.
    gate : {"first", "second", "interleaved"}
        Where a fused matrix has the gate.
    layout : {"out_in", "in_out"}
    before, middle, after : Norm
        Normalisations inside, of the input, of the hidden layer and of the output.
    after_residual : bool
        Whether `after` takes the sum with the input.
    residual : bool
        Whether the input is added at the end.
    scale : str
        The config key of a number that multiplies the output before the residual.
    batch_norm : tuple of (matrix, name, after the matrix, eps)
    scales : tuple of (matrix, name)
        Vectors that multiply a matrix's outputs, times sqrt(d_model).
    multipliers : tuple of (matrix, config key, index)
        Numbers that multiply a matrix's outputs.
    lora : str
        The list of low-rank additions to the fused matrix, one for each layer that shares the block.
    accept : bool
        Names that are too general elsewhere are enough here.
    ignore : bool
        What is named so here is no feed-forward network.
    groups : (str, str)
        The config keys of both convolutions' groups.
    packed : str
        The key of ffn_config that counts the experts packed into one matrix.
    halved : bool
        Whether the config's d_ff is twice the layer's.
    doubled : str
        The config key that says that some layers have twice the config's d_ff.
    adjusted : bool
        Whether d_ff is the config's, shrunk to 2/3 and rounded up, as LFM2's.
    free_width : bool
        Whether the config names no d_ff for these layers.
    beside : str
        Names that stand under the network's path and are no part of it.
    root : bool
        Whether the outermost config speaks for these layers, whatever words their path has.
    words : str
        Words by which the config calls these layers, which their path lacks.
    """

    models: str
    where: str = ""
    when: tuple[str, bool] | None = None
    activation: str | Clip | Softcap | TopK | Switch | None = None
    means: tuple[str, str] | None = None
    gate: str | None = None
    layout: str | None = None
    before: Norm | None = None
    middle: Norm | None = None
    after: Norm | None = None
    after_residual: bool = False
    residual: bool = False
    scale: str | None = None
    batch_norm: tuple[tuple[str, str, bool, Eps], ...] = ()
    scales: tuple[tuple[str, str], ...] = ()
    lora: str | None = None
    accept: bool = False
    ignore: bool = False
    multipliers: tuple[tuple[str, str, int], ...] = ()
    groups: tuple[str, str] | None = None
    packed: str | None = None
    halved: bool = False
    doubled: str = ""
    adjusted: bool = False
    free_width: bool = False
    beside: str = ""
    root: bool = False
    words: str = ""
