"""Keras, where it is installed and started on a backend that holds arrays of the standard."""

from portable_ffn.adapters._module import missing

BACKENDS = ("torch", "jax", "numpy")
CURE = f"set KERAS_BACKEND to one of {', '.join(BACKENDS)} before Keras is imported"

try:
    import keras
except ImportError as error:
    if error.name == "keras":
        raise missing("Keras", "keras") from error
    raise ImportError(f"Keras must be able to start its backend, got {error}; {CURE}") from error
if keras.backend.backend() not in BACKENDS:
    raise ImportError(
        f"the backend of Keras must hold arrays of the array API standard, got {keras.backend.backend()}; {CURE}",
    )

__all__ = ["keras"]
