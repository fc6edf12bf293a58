"""The images of a run, opened on all ranks: the same ones everywhere, and those it began with."""

from __future__ import annotations

from dataclasses import dataclass

from hvd_gan.cluster.world import AgreedError, World
from hvd_gan.config import DataSettings
from hvd_gan.data.source import Listed, Source, open_source
from hvd_gan.data.survey import glance, mean_color


@dataclass(frozen=True)
class Opened:
    """Both splits, and the settings with their mean color. notes: lines for the person."""

    images: Source
    held_out: Source
    settings: DataSettings
    notes: tuple[str, ...]


def open_data(settings: DataSettings, world: World, begun_with: list[bytes]) -> Opened:
    """Opens both splits. A collective: every rank calls it.

    begun_with: what `begun.recall` says of a run that is resumed, else nothing. Raises AgreedError,
    on all ranks, where there are no images, the ranks see different ones, or too many are gone or
    unreadable.
    """
    sources = [
        world.on_all(lambda: open_source(settings, "train")),
        world.on_all(lambda: open_source(settings, "held_out")),
    ]
    for source in sources:
        _check_same_images(world, source)
    # All ranks have the same list, so they come here together.
    if begun_with:
        sources = world.on_all(lambda: _as_begun(sources, begun_with))
    images, held_out = sources
    notes = tuple(
        f"{kind}: {note}"
        for kind, source in (("images", images), ("held-out images", held_out))
        for note in getattr(source, "notes", ())
    )
    world.on_root(lambda: glance(held_out, settings))
    if settings.mean_color is None:
        threads = world.device.threads
        color = world.on_root(
            lambda: mean_color(images, settings, threads=threads, beat=world.beat)
        )
        settings = settings.model_copy(update={"mean_color": color})
    return Opened(images, held_out, settings, notes)


def _check_same_images(world: World, images: Source) -> None:
    seen = world.gather((len(images), images.fingerprint()))
    for rank, other in enumerate(seen):
        if other != seen[0]:
            raise AgreedError(
                f"data: rank {rank} on host {world.members[rank]} sees other images ({other[0]}) "
                f"than rank 0 ({seen[0][0]}); give all hosts the same folder"
            )


def _as_begun(sources: list[Source], listings: list[bytes]) -> list[Source]:
    return [
        source.as_listed(listing) if isinstance(source, Listed) else source
        for source, listing in zip(sources, listings, strict=True)
    ]
