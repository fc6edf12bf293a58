"""The images that a run began with, kept in its folder: their order rests on which they were."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

from hvd_gan.config_base import ConfigError
from hvd_gan.data.source import Listed, Source
from hvd_gan.engine.writing import write_whole

LENGTH = struct.Struct("<Q")


def keep(path: Path, sources: Sequence[Source]) -> None:
    """Writes down which images there are, if the sources are such that images come and go.

    Raises WriteError.
    """
    listings = [source.listing() for source in sources if isinstance(source, Listed)]
    if not listings:
        return
    body = b"".join(LENGTH.pack(len(listing)) + listing for listing in listings)
    write_whole(path, zlib.compress(body, 1))


def recall(path: Path) -> list[bytes]:
    """What `keep` wrote: a listing for each source; none if there is no such file.

    Raises ConfigError if the file is damaged.
    """
    if not path.exists():
        return []
    listings = []
    try:
        rest = zlib.decompress(path.read_bytes())
        while rest:
            (length,) = LENGTH.unpack_from(rest)
            listings.append(rest[LENGTH.size : LENGTH.size + length])
            rest = rest[LENGTH.size + length :]
    except (zlib.error, struct.error) as error:
        raise ConfigError(
            f"{path}: damaged, so nobody knows which images the run began with: {error}"
        ) from error
    return listings
