"""Models: each file is one, with a function `build(batch, settings, training) -> GanGraph`."""
