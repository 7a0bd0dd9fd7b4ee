"""One feed-forward layer of a checkpoint: what is known of it from the headers, and how to load it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from portable_ffn import Weights
from portable_ffn._arrays.typing import Array
from portable_ffn.checkpoint._errors import CheckpointError, guarded
from portable_ffn.checkpoint._facts.block import BlockRecipe
from portable_ffn.checkpoint._facts.decide import Decision
from portable_ffn.checkpoint._facts.mixture import read_block
from portable_ffn.checkpoint._facts.sublayer import Placement
from portable_ffn.checkpoint._loaded.fold import read_arrays
from portable_ffn.checkpoint._loaded.network import Network, Norm, Sublayer
from portable_ffn.checkpoint._loaded.recipe import NormRecipe, Recipe
from portable_ffn.checkpoint._tensors.store import Store


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A feed-forward layer that was found; no weight has been read.

    Attributes
    ----------
    name : str
        The longest dotted path that holds the layer's tensors, made unique by #... where layers share one.
    stack : str
        "main", or the words of "vision", "audio", "text", "qformer", "encoder", "decoder" that its path has.
    layer : int
        Its number in the stack.
    form : str
        "dense", "gated", "fused-gated" (both branches in one matrix on disk), "expert", or "experts": a router and
        all that it mixes.
    activation : str, gate object, callable or None
        None where it is not decided.
    d_model, d_ff : int
        None where they are not decided.
    dtype : str
        That of the first matrix: "float32", "bfloat16" ...
    tensors : tuple of str
        The names on disk that the layer reads.
    evidence : tuple of str
        On what grounds each thing was decided.
    expert : int or None
        Its number among the experts of one layer.
    experts : tuple of Entry
        The experts of a mixture, each an entry of its own; `shared` is what all tokens go through.
    problem : CheckpointError or None
        What `load` raises, where it can't be loaded as it stands.
    """

    name: str
    stack: str
    layer: int
    form: str
    activation: Any
    d_model: int | None
    d_ff: int | None
    dtype: str
    tensors: tuple[str, ...]
    evidence: tuple[str, ...]
    expert: int | None = None
    problem: CheckpointError | None = None
    store: Store | None = field(default=None, repr=False)
    decision: Decision | None = field(default=None, repr=False)
    placement: Placement | None = field(default=None, repr=False)
    mark: str = field(default="", repr=False)
    block: BlockRecipe | None = field(default=None, repr=False)
    experts: "tuple[Entry, ...]" = field(default=(), repr=False)
    shared: "Entry | None" = field(default=None, repr=False)

    @property
    def base(self) -> str:
        """The name without what makes it unique."""
        return self.name.partition("#")[0]

    @property
    def networks(self) -> "tuple[Entry, ...]":
        """Itself, or the networks of a mixture: what is shared, then the experts."""
        if not self.experts:
            return (self,)
        return self.experts if self.shared is None else (self.shared, *self.experts)

    @property
    def bias(self) -> bool:
        """Whether any matrix has a bias."""
        recipe = self.decision.recipe if self.decision else None
        return recipe is not None and any(p is not None for p in (recipe.b1, recipe.b2, recipe.c))

    def load(self, like: Array | None = None, *, expert: int | None = None) -> Any:
        """The network, computing what the model's own module computes.

        Parameters
        ----------
        like : array, optional
            Its library and device are taken, and its dtype if that is real floating; NumPy and the file's dtype
            where it is None.
        expert : int, optional
            One of a mixture's experts alone.

        Returns
        -------
        Network
            Called on x of shape (..., d_model); it has `weights`, `activation` and `to(like=)`. A mixture of experts
            has `router`, `routing` and `networks` instead.

        Raises
        ------
        Undecided
            Where the checkpoint can mean several things; `argument` names the argument of `find` that settles it.
        CheckpointError
            Where it contradicts itself.
        """
        if expert is not None:
            return self._expert(expert).load(like)
        if self.experts:
            return self._mixture(like)
        store, recipe = self._recipe()
        with guarded(self.name or "the layer"):
            network = self._network(store, recipe, own_dtype=like is None)
        return network if like is None else network.to(like=like)

    def _expert(self, number: int) -> "Entry":
        """One of the experts; ValueError where there is none of that number."""
        found = next((entry for entry in self.experts if entry.expert == number), None)
        if found is None:
            have = f"experts 0 to {len(self.experts) - 1}" if self.experts else "no experts"
            raise ValueError(f"expert must be the number of one, got {number!r}; {self.name or 'the layer'} has {have}")
        return found

    def _mixture(self, like: Array | None) -> Any:
        """The whole block."""
        if self.problem is not None:
            raise self.problem
        assert self.store is not None
        assert self.block is not None
        with guarded(self.name or "the layer"):
            networks = tuple(entry.load() for entry in self.experts)
            shared = None if self.shared is None else self.shared.load()
            block = read_block(self.block, self.store, networks, shared)
        return block if like is None else block.to(like=like)

    def _network(self, store: Store, recipe: Recipe, *, own_dtype: bool) -> Network:
        """The network in NumPy; what is folded stays float64 unless the file's own dtype is wanted."""
        arrays = read_arrays(recipe, store)
        if own_dtype and recipe.folds:
            dtype = max((store.dtype_of(part.key) for part in (recipe.W1, recipe.W2)), key=lambda kind: kind.itemsize)
            with np.errstate(all="ignore"):
                arrays = type(arrays)(*(None if a is None else a.astype(dtype) for a in arrays))  # type: ignore[arg-type]
        assert self.decision is not None
        return Network(
            Weights(*arrays),
            _activation(self.decision, recipe, store),
            self.form,
            before=_norm(recipe.before, store),
            middle=_norm(recipe.middle, store),
            after=_norm(recipe.after, store),
            after_residual=recipe.after_residual,
            residual=recipe.residual,
            scale=recipe.scale,
        )

    def load_sublayer(self, like: Array | None = None) -> Sublayer:
        """The network with the residual connection and the normalisation that the family puts round it.

        Parameters, errors as `load`; CheckpointError too where the family's placement is not known.
        """
        if self.problem is not None:
            raise self.problem
        place, store = self.placement, self.store
        if place is None or store is None:
            raise CheckpointError(
                f"where the normalisation stands round {self.name} is not known for this family; "
                "use load() and portable_ffn.sublayer"
            )
        if place.problem is not None:
            raise place.problem
        with guarded(self.name or "the layer"):
            norms = [_norm(recipe, store) for recipe in (place.before, place.after, place.post)]
        before, after, post = (norm if norm is None or like is None else norm.to(like=like) for norm in norms)
        return Sublayer(self.load(like), before=before, after=after, post=post, factor=place.factor)

    def _recipe(self) -> tuple[Store, Recipe]:
        """The store and the recipe; the problem is raised where there is one."""
        if self.problem is not None:
            raise self.problem
        assert self.store is not None
        assert self.decision is not None
        return self.store, self.decision.recipe


def _norm(recipe: NormRecipe | None, store: Store) -> Norm | None:
    """A normalisation with its tensors."""
    if recipe is None:
        return None
    gamma, beta = (None if key is None else store.read_logical(key) for key in (recipe.gamma, recipe.beta))
    return Norm(recipe.kind, gamma, beta, recipe.eps)


def _activation(decision: Decision, recipe: Recipe, store: Store) -> Any:
    """The activation, with its own weights read."""
    if not recipe.learned:
        return decision.activation.activation
    # Learned numbers that are none (NaN) are refused by the activation, in its own words.
    try:
        return _learned(decision, recipe, store)
    except ValueError as error:
        raise CheckpointError(f"{', '.join(recipe.learned)}: {error}") from None


def _learned(decision: Decision, recipe: Recipe, store: Store) -> Any:
    """PReLU or XIELU with its numbers."""
    from portable_ffn._activations.learned import XIELU, PReLU

    numbers = [np.asarray(store.read_logical(key), dtype=np.float64).reshape(-1) for key in recipe.learned]
    if decision.activation.activation == "prelu":
        return PReLU(tuple(float(n) for n in numbers[0]))
    return XIELU(*(float(n[0]) for n in numbers))
