"""Settings: typed, and validated at the door.

What the keys mean, their types and defaults. `config_files` reads them from presets, files and the
command line.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class ConfigError(ValueError):
    """A setting is wrong. The message names the key, where it was set, and the cure."""


class Strict(BaseModel):
    """Base of all settings: unknown keys and not-finite numbers are refused, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


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
    `short_side` is the range in pixels that an image's short side is scaled to before the crop
    (section 3.4 of the GLCIC paper: 256 to 384); left out, the short side becomes `image_size`.
    `held_out` is the share of a folder's images that training never sees. `mean_color` is what a
    hole is filled with, RGB in [0, 1]; left out, it is measured on the training images.
    """

    source: str = "folder"
    path: Path | None = None
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


class OptimizerSettings(Strict):
    """An optimizer by name. Fields that the named one does not use are refused, not ignored."""

    name: Literal["adam", "adadelta", "rmsprop", "momentum", "sgd"] = "adam"
    learning_rate: Positive = 2e-4
    beta1: Share | None = None
    beta2: Share | None = None
    rho: Share | None = None
    momentum: Share | None = None
    epsilon: Positive | None = None
    clip_norm: Positive | None = None

    @model_validator(mode="after")
    def _only_own_fields(self) -> OptimizerSettings:
        own = OPTIMIZER_DEFAULTS[self.name]
        for field in sorted(self.model_fields_set - {"name", "learning_rate", "clip_norm"}):
            if getattr(self, field) is not None and field not in own:
                raise ValueError(
                    f"{self.name} has no {field}; it takes {', '.join(own) or 'a learning_rate'}"
                )
        return self

    def hyperparameters(self) -> dict[str, float]:
        """What the optimizer runs with besides its rate: its defaults, then what was set."""
        own = OPTIMIZER_DEFAULTS[self.name]
        stated = {field: getattr(self, field) for field in own}
        return {field: own[field] if value is None else value for field, value in stated.items()}


# Adam: Kingma and Ba 2015, with beta1 lowered as in Radford et al. 2016 (DCGAN), section 4.
# Adadelta: Zeiler 2012, sections 3 and 4.1 (with learning_rate 1.0 it is the paper's algorithm).
OPTIMIZER_DEFAULTS: dict[str, dict[str, float]] = {
    "adam": {"beta1": 0.5, "beta2": 0.999, "epsilon": 1e-8},
    "adadelta": {"rho": 0.95, "epsilon": 1e-6},
    "rmsprop": {"rho": 0.9, "momentum": 0.0, "epsilon": 1e-10},
    "momentum": {"momentum": 0.9},
    "sgd": {},
}


class UpdateSettings(Strict):
    """Which loss moves which networks, with which optimizer (the run's, if left out).

    `allow_unreached` holds shell patterns of variables that the loss may leave unreached.
    """

    loss: str
    networks: tuple[Name, ...] = Field(min_length=1)
    optimizer: OptimizerSettings | None = None
    allow_unreached: tuple[str, ...] = ()


class StageSettings(Strict):
    """A stretch of training: its updates are made together, once in every step."""

    steps: int = Field(ge=0)
    updates: dict[Name, UpdateSettings] = Field(min_length=1)


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
    settings: dict[str, Any] = {}


class CheckpointSettings(Strict):
    """A checkpoint every `every` steps and at each stage's end; the last `keep` are kept."""

    every: int = Field(1000, ge=1)
    keep: int = Field(3, ge=1)


class EvaluationSettings(Strict):
    """Held-out images measured at each stage's end, and a picture of some every `every` steps."""

    samples: int = Field(512, ge=0)
    every: int = Field(500, ge=1)


class Settings(Strict):
    """All that a run depends on. `batch` is global: over all ranks and accumulated passes."""

    seed: int = Field(1, ge=0, lt=2**31)
    batch: int = Field(32, ge=1)
    backward_passes_per_step: int = Field(1, ge=1)
    model: ModelSettings = ModelSettings()
    data: DataSettings = DataSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    scaling: ScalingSettings = ScalingSettings()
    stages: dict[Name, StageSettings] = Field(
        default_factory=lambda: default_stages(), min_length=1
    )
    compression: Literal["none", "fp16"] = "none"
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    deterministic: bool = False
    verify: bool = False
    log_every: int = Field(10, ge=1)
    checkpoints: CheckpointSettings = CheckpointSettings()
    evaluation: EvaluationSettings = EvaluationSettings()

    @field_validator("stages")
    @classmethod
    def _some_steps(cls, stages: dict[str, StageSettings]) -> dict[str, StageSettings]:
        if not any(stage.steps for stage in stages.values()):
            raise ValueError("every stage has 0 steps; give at least one of them some")
        return stages

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


def default_stages() -> dict[str, StageSettings]:
    """Completion, discriminator, joint: the schedule of the GLCIC paper's algorithm 1, short."""

    def update(loss: str, network: str) -> UpdateSettings:
        return UpdateSettings(loss=loss, networks=(network,))

    generator, discriminator = (
        update("completion", "generator"),
        update("discriminator", "discriminator"),
    )
    return {
        "completion": StageSettings(steps=9000, updates={"generator": generator}),
        "discriminator": StageSettings(steps=1000, updates={"discriminator": discriminator}),
        "joint": StageSettings(
            steps=40000,
            updates={"discriminator": discriminator, "generator": update("joint", "generator")},
        ),
    }
