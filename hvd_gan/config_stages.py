"""The settings of the schedule: stages, their updates, optimizers, and what changes over time."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from hvd_gan.config_base import Name, Positive, Share, Strict


class RateSchedule(Strict):
    """How a learning rate changes over a stage, as a factor on it.

    `cosine` falls from 1 to `end` over the stage (Loshchilov and Hutter 2017, equation 5, without
    restarts); `piecewise` takes, from each step in `factors` on, the factor beside it. Either is
    multiplied by a linear rise from zero over the stage's first `warmup_steps`.
    """

    kind: Literal["constant", "cosine", "piecewise"] = "constant"
    end: Share = 0.0
    factors: dict[Annotated[int, Field(ge=1)], Positive] = Field({})
    warmup_steps: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _only_own_fields(self) -> RateSchedule:
        if bool(self.factors) != (self.kind == "piecewise"):
            raise ValueError("factors are what a piecewise schedule has: {1000: 0.1, 2000: 0.01}")
        if self.end and self.kind != "cosine":
            raise ValueError(f"a {self.kind} schedule has no end; a cosine one has")
        return self


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
    schedule: RateSchedule = RateSchedule()

    @model_validator(mode="after")
    def _only_own_fields(self) -> OptimizerSettings:
        own = OPTIMIZER_DEFAULTS[self.name]
        for field in sorted(
            self.model_fields_set - {"name", "learning_rate", "clip_norm", "schedule"}
        ):
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


class Ramp(Strict):
    """A weight that goes linearly from `start` to `end` over a stage's first `steps` steps."""

    start: float = 0.0
    end: float = 1.0
    steps: int = Field(ge=1)


Weight = Annotated[
    Annotated[float, Tag("<number>")] | Annotated[Ramp, Tag("<ramp>")],
    Discriminator(lambda value: "<ramp>" if isinstance(value, dict | Ramp) else "<number>"),
]


class UpdateSettings(Strict):
    """Which loss moves which networks, with which optimizer (the run's, if left out).

    `loss` is one of the model's, or a weighted sum: `{completion: 1, adversarial: {end: 0.0004,
    steps: 500}}`. `allow_unreached` holds shell patterns of variables that it may leave unreached.
    """

    loss: dict[str, Weight] = Field(min_length=1)
    networks: tuple[Name, ...] = Field(min_length=1)
    optimizer: OptimizerSettings | None = None
    allow_unreached: tuple[str, ...] = ()

    @field_validator("loss", mode="before")
    @classmethod
    def _one_loss_is_a_sum_of_one(cls, loss: Any) -> Any:
        return {loss: 1.0} if isinstance(loss, str) else loss


class Plateau(Strict):
    """Ends a stage early: when the mean of `loss` over `window` steps has not fallen by more than
    `min_delta` below its best for `patience` windows in a row.
    """

    loss: str
    window: int = Field(100, ge=1)
    patience: int = Field(5, ge=1)
    min_delta: float = Field(0.0, ge=0)


class StageSettings(Strict):
    """A stretch of training. Its updates are made together in every step, or, with `alternate`,
    one a step: `{discriminator: 5, generator: 1}` is five steps of one, then one of the other.
    """

    steps: int = Field(ge=0)
    updates: dict[Name, UpdateSettings] = Field(min_length=1)
    alternate: dict[Name, Annotated[int, Field(ge=1)]] | None = None
    plateau: Plateau | None = None

    @model_validator(mode="after")
    def _alternates_its_updates(self) -> StageSettings:
        if self.alternate is not None and set(self.alternate) != set(self.updates):
            raise ValueError(
                f"alternate names {', '.join(self.alternate)}; the stage's updates are "
                f"{', '.join(self.updates)}, and each needs its count"
            )
        return self


class CycleSettings(Strict):
    """Stages that are gone through `repeat` times, one after the other."""

    repeat: int = Field(ge=1)
    stages: dict[Name, StageSettings] = Field(min_length=1)


# A mapping with `repeat` or `stages` means to be a cycle, so its errors are told as a cycle's.
Entry = Annotated[
    Annotated[StageSettings, Tag("<stage>")] | Annotated[CycleSettings, Tag("<cycle>")],
    Discriminator(
        lambda value: (
            "<cycle>"
            if isinstance(value, CycleSettings)
            or (isinstance(value, dict) and {"repeat", "stages"} & value.keys())
            else "<stage>"
        )
    ),
]


def default_stages() -> dict[str, Entry]:
    """Completion, discriminator, joint: the schedule of the GLCIC paper's algorithm 1, short."""

    def update(loss: str, network: str) -> UpdateSettings:
        return UpdateSettings(loss={loss: 1.0}, networks=(network,))

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
