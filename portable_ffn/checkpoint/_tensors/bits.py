"""Codes of 2 to 8 bits out of words of 32: one code after another from the lowest bit on, across words."""

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.uint8]


def words_for(count: int, bits: int) -> int:
    """How many words hold so many codes."""
    return -(-count * bits // 32)


def unpack(words: npt.NDArray[np.integer], bits: int, count: int, axis: int = -1) -> Codes:
    """The first `count` codes along an axis of little-endian words of 32 bits."""
    wide: npt.NDArray[np.uint32] = np.moveaxis(words, axis, -1).view(np.uint32)
    if 32 % bits == 0:
        codes = _in_words(wide, bits)
    else:
        codes = _across_words(wide, bits)
    return np.moveaxis(codes[..., :count], -1, axis)


def _in_words(words: npt.NDArray[np.uint32], bits: int) -> Codes:
    """Codes of 2, 4 or 8 bits, none of which is cut by a word's end."""
    data = np.ascontiguousarray(words).view(np.uint8)
    per, mask = 8 // bits, (1 << bits) - 1
    if per == 1:
        return data
    codes = np.empty((*data.shape, per), np.uint8)
    for i in range(per):
        np.right_shift(data, i * bits, out=codes[..., i])
    codes &= np.uint8(mask)
    return codes.reshape(*data.shape[:-1], data.shape[-1] * per)


def _across_words(words: npt.NDArray[np.uint32], bits: int) -> Codes:
    """Codes of 3, 5, 6 or 7 bits: eight of them in as many bytes as a code has bits."""
    data = np.ascontiguousarray(words).view(np.uint8)
    groups = -(-data.shape[-1] // bits)
    padded = np.zeros((*data.shape[:-1], groups, 8), np.uint8)
    whole = data.shape[-1] // bits
    padded[..., :whole, :bits] = data[..., : whole * bits].reshape(*data.shape[:-1], whole, bits)
    if whole < groups:
        rest = data[..., whole * bits :]
        padded[..., whole, : rest.shape[-1]] = rest
    wide = padded.view("<u8")
    codes = np.empty((*wide.shape[:-1], 8), np.uint8)
    mask = np.uint64((1 << bits) - 1)
    for i in range(8):
        codes[..., i] = (wide[..., 0] >> np.uint64(i * bits)) & mask
    return codes.reshape(*data.shape[:-1], groups * 8)
