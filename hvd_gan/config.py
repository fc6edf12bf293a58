"""Settings: typed, and validated at the door.

What the keys mean, their types and defaults. `config_files` reads them from presets, files and the
command line.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from hvd_gan.config_base import ConfigError, Name, Positive, Share, Strict
from hvd_gan.config_stages import (
    CycleSettings,
    Entry,
    OptimizerSettings,
    StageSettings,
    default_stages,
)


class HoleSettings(Strict):
    """Which holes are cut into the images.

    `min` and `max` bound the sides of the hole's bounding box, in pixels. `strokes` draws
    free-form strokes inside that box instead of filling it. `centre` keeps the hole's centre in
    the middle eighth of the image, for data that is centred itself, such as digits.
    """

    kind: Literal["box", "strokes"] = "box"
    min: int = Field(24, ge=1)
    max: int = Field(32, ge=1)
    place: Literal["anywhere", "centre"] = "anywhere"

    @model_validator(mode="after")
    def _sides_in_order(self) -> HoleSettings:
        if self.min > self.max:
            raise ValueError(f"min ({self.min}) is larger than max ({self.max})")
        return self


class DataSettings(Strict):
    """Where images come from and how they are prepared.

    `source` is a module of `hvd_gan.data.sources` or an import path `package.module:function`.
    `dataset` names the array in an .npz or HDF5 file.
    `short_side` is the range in pixels that an image's short side is scaled to before the crop
    (section 3.4 of the GLCIC paper: 256 to 384); left out, the short side becomes `image_size`.
    `held_out` is the share of a folder's images that training never sees. `mean_color` is what a
    hole is filled with, RGB in [0, 1]; left out, it is measured on the training images.
    `max_unreadable` is the share of a split's images that may be unreadable: they are skipped, and
    more of them end the run. `max_pixels` is the most pixels of an image that is decoded, which
    takes up to 16 bytes of memory each; larger ones count as unreadable.
    """

    source: str = "folder"
    path: Path | None = None
    dataset: str | None = None
    image_size: int = Field(64, ge=8)
    short_side: tuple[int, int] | None = None
    flip: bool = True
    hole: HoleSettings = HoleSettings()
    held_out: Share = 0.02
    max_unreadable: Share = 0.01
    max_pixels: int = Field(178_000_000, ge=1)
    mean_color: tuple[Share, Share, Share] | None = None

    @model_validator(mode="after")
    def _geometry_is_possible(self) -> DataSettings:
        if self.hole.max > self.image_size:
            raise ValueError(
                f"hole.max ({self.hole.max}) is larger than image_size ({self.image_size}); "
                "a hole has to fit into the image"
            )
        if self.short_side is not None:
            low, high = self.short_side
            if not self.image_size <= low <= high:
                raise ValueError(
                    f"short_side ({low} to {high}) has to start at image_size "
                    f"({self.image_size}) or above, and not end below its start"
                )
        return self

    @property
    def scale_range(self) -> tuple[int, int]:
        """The range of the short side before the crop, in pixels."""
        return self.short_side or (self.image_size, self.image_size)


class ScalingSettings(Strict):
    """How stated learning rates follow the global batch.

    `linear`: times batch / reference_batch (Goyal et al. 2017, section 2.1); `sqrt`: its square
    root (Krizhevsky 2014, section 5). Warm-up raises the rate linearly from zero over the first
    `warmup_steps` steps of the run.
    """

    rule: Literal["none", "linear", "sqrt"] = "none"
    reference_batch: int | None = Field(None, ge=1)
    warmup_steps: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _has_a_reference(self) -> ScalingSettings:
        if self.rule != "none" and self.reference_batch is None:
            raise ValueError(
                f"rule {self.rule} needs reference_batch: the global batch that the "
                "stated learning rates were tuned for"
            )
        return self

    def factor(self, batch: int) -> float:
        """What a stated learning rate is multiplied by at this global batch."""
        if self.rule == "none" or self.reference_batch is None:
            return 1.0
        ratio = batch / self.reference_batch
        return ratio if self.rule == "linear" else math.sqrt(ratio)


class ModelSettings(Strict):
    """`build` names the model's function, `package.module:function`; `settings` are its own."""

    build: str = Field("hvd_gan.models.glcic:build", pattern=r"^[\w.]+:\w+$")
    settings: dict[str, Any] = Field({})


class CheckpointSettings(Strict):
    """A checkpoint every `every` steps and at each stage's end; the last `keep` are kept.

    With --elastic, every rank also keeps the state in its memory, every `commit` steps.
    """

    every: int = Field(1000, ge=1)
    keep: int = Field(3, ge=1)
    commit: int = Field(50, ge=1)


class NumericsSettings(Strict):
    """What happens when a loss or gradient is not finite, and how often ranks are compared.

    `stop` ends the job; `skip` undoes the step and goes on with the next batches; `rollback` goes
    back to the newest checkpoint and on with batches that have not come yet. Both do so `at_most`
    times without a finite step beyond, then stop. Every `drift_every` steps, at each stage's end
    and before each checkpoint, checksums of all variables are compared over ranks; 0: never.
    """

    not_finite: Literal["stop", "skip", "rollback"] = "stop"
    at_most: int = Field(5, ge=1)
    drift_every: int = Field(100, ge=0)


class InitSettings(Strict):
    """Weights that a new run starts from: those of another run, at its newest checkpoint or at a
    `step`, for some `networks` or all. With `strict`, each of their variables has to be there.
    """

    run: Path
    step: int | None = Field(None, ge=0)
    networks: tuple[Name, ...] | None = None
    strict: bool = True


class EvaluationSettings(Strict):
    """Held-out images measured at each stage's end, and a picture of some every `every` steps."""

    samples: int = Field(512, ge=0)
    every: int = Field(500, ge=1)


class Settings(Strict):
    """All that a run depends on. `batch` is global: over all ranks and accumulated passes.

    `loss_scale` is what losses are multiplied by before their gradients, and reduced gradients
    divided by: it lifts small ones over the end of fp16 (6e-8) in `compression: fp16`.
    """

    seed: int = Field(1, ge=0, lt=2**31)
    batch: int = Field(32, ge=1)
    backward_passes_per_step: int = Field(1, ge=1)
    model: ModelSettings = ModelSettings()
    data: DataSettings = DataSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    scaling: ScalingSettings = ScalingSettings()
    stages: dict[Name, Entry] = Field(default_factory=default_stages, min_length=1)
    init: InitSettings | None = None
    compression: Literal["none", "fp16"] = "none"
    loss_scale: Positive = 1.0
    precision: Literal["float32", "bfloat16"] = "float32"
    deterministic: bool = False
    verify: bool = False
    numerics: NumericsSettings = NumericsSettings()
    log_every: int = Field(10, ge=1)
    checkpoints: CheckpointSettings = CheckpointSettings()
    evaluation: EvaluationSettings = EvaluationSettings()

    @field_validator("stages")
    @classmethod
    def _some_steps_of_distinct_stages(cls, stages: dict[str, Entry]) -> dict[str, Entry]:
        names = [name for name, _ in _flat(stages)]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"{', '.join(sorted(twice))} stands twice; stages need distinct names")
        if not any(stage.steps for _, stage in _flat(stages)):
            raise ValueError("every stage has 0 steps; give at least one of them some")
        return stages

    @property
    def distinct_stages(self) -> dict[str, StageSettings]:
        """Every stage by name, those inside cycles too, in the order of their first visit."""
        return dict(_flat(self.stages))

    @property
    def visits(self) -> list[str]:
        """The names of the stages in the order in which training goes through them."""
        visits: list[str] = []
        for name, entry in self.stages.items():
            visits += (
                list(entry.stages) * entry.repeat if isinstance(entry, CycleSettings) else [name]
            )
        return visits

    def rank_batch(self, ranks: int) -> int:
        """Images that one rank sees in one pass. Raises ConfigError if it is not whole."""
        parts = ranks * self.backward_passes_per_step
        if self.batch % parts:
            below, above = self.batch // parts * parts, -(-self.batch // parts) * parts
            sizes = " or ".join(str(size) for size in (below, above) if size)
            divisors = [str(n) for n in range(1, self.batch + 1) if self.batch % n == 0]
            raise ConfigError(
                f"batch: {self.batch} images do not divide over {ranks} ranks"
                + (f" x {parts // ranks} passes" if parts != ranks else "")
                + f"; set batch={sizes}, or take a number of ranks x passes that divides it: "
                + ", ".join(divisors)
            )
        return self.batch // parts


def _flat(stages: dict[str, Entry]) -> Iterator[tuple[str, StageSettings]]:
    for name, entry in stages.items():
        if isinstance(entry, CycleSettings):
            yield from entry.stages.items()
        else:
            yield name, entry
