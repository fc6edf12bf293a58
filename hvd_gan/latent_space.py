"""The latent space of a trained model: images to points, points to images, and ways between."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf

from hvd_gan.auditing import NoImages
from hvd_gan.config import Settings
from hvd_gan.config_base import ConfigError
from hvd_gan.config_files import read
from hvd_gan.data.pipeline import batches
from hvd_gan.engine.checkpoint_files import newest_good
from hvd_gan.engine.checkpoints import read_values
from hvd_gan.engine.graph import Arrays
from hvd_gan.engine.inference import Inference
from hvd_gan.engine.model import find_model
from hvd_gan.run_folder import RunFolder, load_settings

CHUNK = 32


class LatentSpace:
    """A run's model at its newest good checkpoint; `warnings` names newer ones that are damaged.

    It needs a model whose inference has the inputs `image` and `latent` and the outputs `latent`
    and `generated`, as `hvd_gan.models.vae_gan` has.
    """

    def __init__(self, run: Path) -> None:
        """Raises ConfigError where the folder holds no run, no checkpoint or another model."""
        folder = RunFolder(run)
        self.settings: Settings = load_settings(folder)
        newest = newest_good(folder.checkpoints)
        self.warnings = newest.reports
        if newest.checkpoint is None:
            raise ConfigError(f"{run}: has no checkpoint yet; train it first")
        self._inference = _inference(folder, self.settings)
        values = read_values(newest.checkpoint)
        try:
            self._inference.load(values)
        except KeyError as error:
            raise ConfigError(f"{newest.checkpoint}: holds no {error} that the model has") from None
        self.size = int(self._inference.gan.outputs["latent"].shape[1])

    def encode(self, images: np.ndarray) -> np.ndarray:
        """The mean of each image's q(z|x): float32 [n, latent].

        images: float32 [n, size, size, 3] in [0, 1].
        """
        return self._run("latent", {"image": images})

    def decode(self, points: np.ndarray) -> np.ndarray:
        """The images at some points: float32 [n, size, size, 3] in [0, 1].

        points: float [n, latent].
        """
        return self._run("generated", {"latent": points})

    def draw(self, count: int, seed: int) -> np.ndarray:
        """Points of the prior, standard normal: float32 [count, latent]."""
        return np.random.default_rng(seed).standard_normal((count, self.size), np.float32)

    def _run(self, output: str, inputs: Arrays) -> np.ndarray:
        tensors = {output: self._inference.gan.outputs[output]}
        [(name, values)] = inputs.items()
        parts = [
            self._inference.run(tensors, {name: values[start : start + CHUNK]})[output]
            for start in range(0, len(values), CHUNK)
        ]
        return np.concatenate(parts)


def between(start: np.ndarray, end: np.ndarray, steps: int) -> np.ndarray:
    """`steps` points from one to the other, both included: float [steps, latent].

    Along the great circle between their directions, while their length changes evenly: a straight
    line would pass nearer to the origin than the prior's points lie (White 2016, "Sampling
    Generative Networks"). start, end: float [latent].
    """
    lengths = np.linalg.norm(start), np.linalg.norm(end)
    share = np.linspace(0, 1, steps)[:, np.newaxis]
    straight = (1 - share) * start + share * end
    if min(lengths) == 0:
        return straight
    one, other = start / lengths[0], end / lengths[1]
    angle = np.arccos(np.clip(one @ other, -1, 1))
    if np.sin(angle) < 1e-6:
        return straight
    turned = (np.sin((1 - share) * angle) * one + np.sin(share * angle) * other) / np.sin(angle)
    return ((1 - share) * lengths[0] + share * lengths[1]) * turned


def attribute_vector(having: np.ndarray, lacking: np.ndarray) -> np.ndarray:
    """The mean point of images with an attribute minus that of those without: float [latent].

    having, lacking: float [n, latent], n at least 1. Larsen et al. 2016 call it a visual
    attribute vector.
    """
    return having.mean(axis=0) - lacking.mean(axis=0)


def _inference(folder: RunFolder, settings: Settings) -> Inference:
    model = find_model(settings.model.build)
    with tf.Graph().as_default():
        data = settings.data.model_copy(
            update={"mean_color": settings.data.mean_color or (0, 0, 0)}
        )
        like = batches(NoImages(), data, seed=0, batch=1, rank=0, ranks=1, threads=1).tensors
    config = tf.compat.v1.ConfigProto(allow_soft_placement=True)
    config.gpu_options.allow_growth = True
    own = model.settings(read(folder.settings))
    inference = Inference(model.build, own, like, config)
    gan = inference.gan
    if not {"image", "latent"} <= set(gan.inputs) or not {"latent", "generated"} <= set(
        gan.outputs
    ):
        raise ConfigError(
            f"{folder.path}: its model, {settings.model.build}, has no latent space; this is for "
            "a VAE-GAN"
        )
    return inference
