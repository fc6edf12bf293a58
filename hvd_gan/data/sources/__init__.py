"""One module for each image source; its name is what `data.source` says.

A module here offers `open_source(settings, split) -> Source` (see `hvd_gan.data.source`).
"""
