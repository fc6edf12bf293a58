"""How well holes are completed: PSNR over hole pixels, SSIM, and two fills to compare with."""

from __future__ import annotations

import math

import numpy as np
from scipy.ndimage import binary_dilation
from skimage.metrics import structural_similarity

from hvd_gan.engine.graph import Arrays

RING_PIXELS = 2


class CompletionQuality:
    """Measures completed images against the originals.

    Beside the model stand two fills that anyone can have without one: the training set's mean
    color, and the mean of the ring of pixels around the hole.
    """

    def measure(self, batch: Arrays, outputs: Arrays) -> list[dict[str, float]]:
        """One row an image: its hole's squared error and values, and SSIM over the whole image.

        batch: `image` float32 [batch, height, width, 3] in [0, 1], `mask` [batch, height, width,
        1], `mean_color` [3]; outputs: `completed`, like `image`.
        """
        rows = []
        images = zip(batch["image"], batch["mask"], outputs["completed"], strict=True)
        for image, mask, completed in images:
            fills = {
                "": completed,
                "_mean_fill": fill(image, mask, batch["mean_color"]),
                "_ring_fill": fill(image, mask, ring_color(image, mask)),
            }
            row = {"values": float(mask.sum()) * image.shape[-1]}
            for name, filled in fills.items():
                error = np.square((filled - image).astype(np.float64)) * mask
                row[f"error{name}"] = float(error.sum())
                row[f"ssim{name}"] = float(
                    structural_similarity(image, filled, data_range=1.0, channel_axis=-1)
                )
            rows.append(row)
        return rows

    def summarize(self, rows: list[dict[str, float]]) -> dict[str, float]:
        """PSNR in dB over all hole pixels together (peak 1), and the mean SSIM, for each fill."""
        values = sum(row["values"] for row in rows)
        summary = {}
        for name in ("", "_mean_fill", "_ring_fill"):
            error = sum(row[f"error{name}"] for row in rows) / values
            summary[f"psnr{name}"] = -10 * math.log10(error) if error else math.inf
            summary[f"ssim{name}"] = sum(row[f"ssim{name}"] for row in rows) / len(rows)
        return summary


def fill(image: np.ndarray, mask: np.ndarray, color: np.ndarray) -> np.ndarray:
    """The image with one color in its hole."""
    return (image * (1 - mask) + color * mask).astype(image.dtype)


def ring_color(image: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The mean color of the two pixels around the hole; of the hole's outside if there are none."""
    hole = mask[..., 0] > 0.5
    ring = binary_dilation(hole, iterations=RING_PIXELS) & ~hole
    return image[ring if ring.any() else np.ones_like(hole)].mean(axis=0)
