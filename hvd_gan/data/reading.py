"""Reading the images of a source: patient, and with every failure told as Unreadable."""

from __future__ import annotations

from hvd_gan.data.patience import may_pass, patiently
from hvd_gan.data.source import Image, Source, Unreadable, reason_of


class Reader:
    """Reads a source's images, from several threads at once.

    An error that may pass (`patience`) is waited for, some seconds a time. Waiting is given up for
    an image that it did not help before, and, while a whole disk is gone, for all: from the image
    for which it was in vain until one can be read again.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._hopeless: set[int] = set()
        self._all_is_lost = False

    def read(self, index: int) -> Image:
        """Image `index`, as the source has it. Raises Unreadable.

        An OSError of the source, or a lack of memory, counts as Unreadable too.
        """
        hopeless = self._all_is_lost or index in self._hopeless
        try:
            image = patiently(lambda: self._source.read(index), 0 if hopeless else None)
        except (Unreadable, OSError, MemoryError) as error:
            if may_pass(error):
                self._hopeless.add(index)
                self._all_is_lost = True
            if isinstance(error, Unreadable):
                raise
            raise Unreadable(self._source.name(index), reason_of(error)) from error
        self._all_is_lost = False
        return image
