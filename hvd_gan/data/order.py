"""Which image, and which randomness, stands at position k of a run.

Both are functions of (seed, k) alone. They do not depend on the number of ranks, on batch sizes or
on what was read before, so a run can start anywhere and can go on with other ranks.
"""

from __future__ import annotations

import hashlib
import math
import struct

import numpy as np

ROUNDS = 8


def image_at(
    position: int, *, count: int, seed: int, held_out: bool = False, tries: int = 0
) -> int:
    """The index, in 0..count-1, of the image at a position.

    Each epoch, `count` positions long, is a permutation of the images. Held-out images come in
    their own order. `tries` is how many candidates for this position could not be read: the next
    one is the image of as many positions further on, within the same epoch.
    """
    epoch, place = divmod(position, count)
    place = (place + tries) % count
    return place if held_out else shuffled(place, count, seed, epoch)


def generator(seed: int, position: int) -> np.random.Generator:
    """The random numbers of one position: of its scale, crop, flip and hole.

    Philox (Salmon et al. 2011) is made for this: every key gives an independent stream.
    """
    return np.random.Generator(np.random.Philox(key=np.array([seed, position], np.uint64)))


def shuffled(index: int, count: int, seed: int, epoch: int) -> int:
    """Where a permutation of 0..count-1, chosen by (seed, epoch), takes `index`.

    It takes constant memory: a generalised Feistel network over a grid of at least `count` cells,
    repeated while it leads outside (Black and Rogaway 2002, "Ciphers with Arbitrary Finite
    Domains": cycle-walking, and the generalised-Feistel construction).
    TensorFlow's `index_shuffle` would do the same, but it keeps only the low bits of the seed
    (below 65,537 images, seeds 1 and 257 give one order), and with many images the orders of two
    successive epochs are almost the same.
    """
    rows = math.isqrt(count - 1) + 1
    columns = -(-count // rows)
    while True:
        index = _feistel(index, rows, columns, seed, epoch)
        if index < count:
            return index


def _feistel(index: int, rows: int, columns: int, seed: int, epoch: int) -> int:
    """A permutation of the cells of a grid. ROUNDS is even, so that the sides end in place."""
    left, right = divmod(index, columns)
    modulus, other = rows, columns
    for number in range(ROUNDS):
        message = struct.pack("<4q", seed, epoch, number, right)
        digest = hashlib.blake2b(message, digest_size=8).digest()
        left, right = right, (left + int.from_bytes(digest, "little")) % modulus
        modulus, other = other, modulus
    return left * columns + right
