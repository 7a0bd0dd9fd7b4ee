"""How fast the decoders of quantised weights are: megabytes of float32 a second, of one core's own time.

    python ci/decoders.py            # a line each; asked is 200 at least for GGUF and four bits

The codes are random bytes of a matrix of 2048 x 4096; the time is the process's, the best of three.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import gguf
import ml_dtypes
import numpy as np

from portable_ffn.checkpoint._tensors import awq, bitsandbytes, compressed, fp4, fp8, gptq, mlx
from portable_ffn.checkpoint._tensors import gguf as ours

ROWS, WIDTH = 2048, 4096
RNG = np.random.default_rng(0)


def words(*shape: int) -> np.ndarray:
    """Random words of 32 bits."""
    return RNG.integers(0, 2**32, shape, dtype=np.uint32).view(np.int32)


def halves(*shape: int) -> np.ndarray:
    """Random scales."""
    return RNG.random(shape).astype(np.float16)


def cases() -> Iterator[tuple[str, Callable[[Any, Any], np.ndarray], Any, tuple[np.ndarray, ...]]]:
    """Each format: its name, its decoder, its numbers, its arrays."""
    groups = WIDTH // 128
    order = RNG.permutation(np.arange(WIDTH) // 128).astype(np.int32)
    for bits in (2, 3, 4, 8):
        arrays = words(WIDTH * bits // 32, ROWS), words(groups, ROWS * bits // 32), halves(groups, ROWS)
        yield f"GPTQ {bits}-bit", gptq.decode, gptq.How(bits, WIDTH, 1, False), arrays
        if bits == 4:
            yield "GPTQ 4-bit, act-order", gptq.decode, gptq.How(bits, WIDTH, 1, True), (*arrays, order)
    arrays = words(WIDTH, ROWS // 8), words(groups, ROWS // 8), halves(groups, ROWS)
    yield "AWQ 4-bit", awq.decode, None, arrays
    for bits in (2, 3, 4, 6, 8):
        arrays = words(ROWS, WIDTH * bits // 32), halves(ROWS, WIDTH // 64), halves(ROWS, WIDTH // 64)
        yield f"MLX {bits}-bit", mlx.decode, mlx.How("affine", bits), arrays
    for bits in (3, 4, 8):
        how = compressed.How(bits, WIDTH, False, False, False)
        yield (
            f"compressed-tensors int{bits}",
            compressed.decode,
            how,
            (words(ROWS, WIDTH * bits // 32), halves(ROWS, groups)),
        )
    codes = RNG.integers(0, 256, (ROWS, WIDTH // 2), dtype=np.uint8)
    absmax, table = RNG.random(ROWS * WIDTH // 64).astype(np.float32), RNG.random(16).astype(np.float32)
    yield "bitsandbytes nf4", bitsandbytes.decode, bitsandbytes.How((ROWS, WIDTH), 64), (codes, absmax, table)
    yield "MXFP4", fp4.decode, fp4.How("uint8"), (codes, RNG.integers(110, 140, (ROWS, WIDTH // 32), dtype=np.uint8))
    scales = RNG.random((ROWS, WIDTH // 16)).astype(ml_dtypes.float8_e4m3fn)
    yield "NVFP4", fp4.decode, fp4.How("float8_e4m3fn", True), (codes, scales, np.ones(1, np.float32))
    weight = RNG.random((ROWS, WIDTH)).astype(ml_dtypes.float8_e4m3fn)
    blocks = RNG.random((ROWS // 128, WIDTH // 128)).astype(np.float32)
    yield "FP8, blocks of 128 x 128", fp8.decode, fp8.How("float32", (128, 128)), (weight, blocks)
    for kind in sorted(ours.decodable() - {"BF16"}):
        block, nbytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
        # Bytes below 64: whatever of them is a scale is a finite one.
        rows = RNG.integers(0, 64, (ROWS, WIDTH // block * nbytes), dtype=np.uint8)
        yield f"GGUF {kind}", ours.decode, ours.How(kind, False), (rows,)


for name, decode, how, arrays in cases():
    times = []
    for _ in range(3):
        start = time.process_time()
        size = decode(how, arrays).nbytes
        times.append(time.process_time() - start)
    print(f"{name:28} {size / 1e6 / min(times):6.0f} MB/s", flush=True)
