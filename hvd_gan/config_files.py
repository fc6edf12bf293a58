"""Settings from a preset, a file and the command line, with the place of each for its errors.

Later layers win: the defaults, a preset, settings files, overrides. A mapping merges key by key,
but a `loss`, or one with another `name`, replaces; `null` removes a key, so that a preset's stage
can be taken out.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.dataclasses import is_pydantic_dataclass

from hvd_gan.config import Settings
from hvd_gan.config_base import ConfigError
from hvd_gan.config_stages import default_stages

Key = tuple[str, ...]
Model = TypeVar("Model")
Result = TypeVar("Result")
# Mappings that say one thing: a sum of losses, the turns of updates, the rates of a schedule.
WHOLE = {"loss", "alternate", "factors"}
COMMAND_LINE = "command line"


@dataclass
class Layer:
    """A tree of settings and, for each key in it, where it was set: `my.yaml:12`."""

    tree: dict[str, Any] = field(default_factory=dict)
    places: dict[Key, str] = field(default_factory=dict)

    def put(self, other: Layer) -> None:
        """Lays `other` over this layer."""
        _merge(self.tree, other.tree)
        self.places.update(other.places)

    def place(self, key: Key) -> str:
        """Where `key` was set: itself, the nearest key above, or one below; '' if nowhere."""
        for end in range(len(key), 0, -1):
            if key[:end] in self.places:
                return self.places[key[:end]]
        below = (place for stated, place in self.places.items() if stated[: len(key)] == key)
        return next(below, "")

    def error(self, key: str, message: str) -> ConfigError:
        """An error about a dotted key, with its place."""
        place = self.place(tuple(key.split(".")))
        return ConfigError(f"{place}: {key}: {message}" if place else f"{key}: {message}")

    def locating(self, function: Callable[[], Result]) -> Result:
        """Calls `function`; where it raises a ValueError about a dotted key, adds the key's place.

        For what only shows where settings meet a graph: an image too small for its patch.
        """
        try:
            return function()
        except ValueError as error:
            key, colon, message = str(error).partition(": ")
            if colon and "." in key and " " not in key:
                raise self.error(key, message) from error
            raise

    def validate(self, model: type[Model], under: str = "") -> Model:
        """The settings under a dotted key, as a pydantic model or dataclass.

        Raises ConfigError, one line a finding: place, key, what is wrong, the nearest known key.
        """
        prefix = tuple(under.split(".")) if under else ()
        tree: Any = self.tree
        for part in prefix:
            tree = tree.get(part) or {}
        try:
            return TypeAdapter(model).validate_python(tree)
        except ValidationError as error:
            raise ConfigError(
                "\n".join(self._explain(model, prefix, finding) for finding in error.errors())
            ) from None

    def _explain(self, model: type, prefix: Key, finding: Mapping[str, Any]) -> str:
        # Pydantic puts in what it chose between: tags in angle brackets, and `[key]`.
        inner = tuple(str(part) for part in finding["loc"] if str(part)[:1] not in "<[")
        key = ".".join(prefix + inner)
        if finding["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            known = _keys_at(model, inner[:-1])
            near = difflib.get_close_matches(inner[-1], known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(known)}"
            return str(self.error(key, f"unknown key; {hint}"))
        message = finding["msg"].removeprefix("Value error, ")
        shown = finding["input"]
        if finding["type"] not in ("value_error", "missing") and not isinstance(shown, dict | list):
            message += f", not {shown!r}"
        return str(self.error(key or "settings", message[0].lower() + message[1:]))


def load(
    preset: str | None = None, files: Sequence[Path] = (), overrides: Sequence[str] = ()
) -> tuple[Settings, Layer]:
    """The settings of a run and where each was set.

    `overrides` are dotted assignments, `stages.completion.steps=500`; their values are YAML.
    Raises ConfigError.
    """
    stated = _preset_layer(preset) if preset is not None else Layer()
    for file in files:
        stated.put(read(file))
    layer = _default_schedule(stated)
    layer.put(stated)
    for override in overrides:
        _override(layer, override)
    return layer.validate(Settings), layer


def presets() -> list[str]:
    """The names of the presets that come with the package."""
    folder = resources.files("hvd_gan") / "presets"
    names = (entry.name for entry in folder.iterdir())
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def read(path: Path) -> Layer:
    """A settings file as a layer. Raises ConfigError if it cannot be read or is no mapping."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"{path}: cannot read the settings file: {reason}") from None
    return _parse(text, str(path))


def dump(settings: BaseModel) -> str:
    """Settings as YAML that `read` takes back."""
    return yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False)


def differences(old: BaseModel, new: BaseModel) -> dict[str, tuple[Any, Any]]:
    """Dotted keys whose values differ, with the old and the new value (None where absent)."""
    before = dict(_leaves(old.model_dump(mode="json")))
    after = dict(_leaves(new.model_dump(mode="json")))
    keys = [*before, *(key for key in after if key not in before)]
    return {
        ".".join(key): (before.get(key), after.get(key))
        for key in keys
        if before.get(key) != after.get(key)
    }


def _preset_layer(name: str) -> Layer:
    if name not in presets():
        near = difflib.get_close_matches(name, presets(), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"--preset {name}: there are {', '.join(presets())}{hint}")
    text = (resources.files("hvd_gan") / "presets" / f"{name}.yaml").read_text(encoding="utf-8")
    return _parse(text, f"preset {name}")


def _default_schedule(over: Layer) -> Layer:
    """The default stages, to lie under a layer: if it has stages, those of the same names that
    do not state their updates.

    In the layer's order, which is the schedule's: merging keeps the place of a key that is there.
    """
    stages = {name: stage.model_dump(mode="json") for name, stage in default_stages().items()}
    stated = over.tree.get("stages")
    if not isinstance(stated, dict):
        return Layer({"stages": stages})

    def default(name: str) -> dict[str, Any]:
        whole = isinstance(stated[name], dict) and "updates" in stated[name]
        return {} if whole else stages.get(name, {})

    return Layer({"stages": {name: default(name) for name in stated}})


def _override(layer: Layer, override: str) -> None:
    """Lays one dotted assignment over a layer."""
    dotted, equals, text = override.partition("=")
    key = tuple(dotted.split("."))
    if not equals or not all(key):
        raise ConfigError(
            f"{COMMAND_LINE}: {override!r} is no setting; write key=value, "
            "for example stages.completion.steps=500"
        )
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ConfigError(f"{COMMAND_LINE}: {dotted}: {text!r} is not valid YAML") from None
    tree = layer.tree
    for part in key[:-1]:
        if not isinstance(tree.get(part), dict):
            tree[part] = {}
        tree = tree[part]
    _merge(tree, {key[-1]: value})
    layer.places[key] = COMMAND_LINE


def _parse(text: str, origin: str) -> Layer:
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        layer = Layer()
        if node is None:
            return layer
        if not isinstance(node, yaml.MappingNode):
            raise ConfigError(f"{origin}:{_line(node)}: settings are a mapping of keys to values")
        layer.tree = _construct(loader, node, (), origin, layer.places)
        return layer
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError(f"{origin}{line}: not valid YAML: {problem}") from None
    finally:
        loader.dispose()


def _construct(
    loader: yaml.SafeLoader, node: yaml.Node, key: Key, origin: str, places: dict[Key, str]
) -> Any:
    """Builds a node's value and notes the line of each key; PyYAML lets duplicates pass."""
    if not isinstance(node, yaml.MappingNode):
        return loader.construct_object(node, deep=True)
    loader.flatten_mapping(node)
    tree: dict[str, Any] = {}
    for key_node, value_node in node.value:
        name = str(loader.construct_object(key_node))
        inner = (*key, name)
        if name in tree:
            raise ConfigError(
                f"{origin}:{_line(key_node)}: {'.'.join(inner)}: stated twice, "
                f"first at {places[inner]}"
            )
        places[inner] = f"{origin}:{_line(key_node)}"
        tree[name] = _construct(loader, value_node, inner, origin, places)
    return tree


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1


def _merge(below: dict[str, Any], above: Mapping[str, Any]) -> None:
    for key, value in above.items():
        if value is None:
            below.pop(key, None)
        elif isinstance(value, Mapping):
            known = below.get(key)
            # What has another name is another thing: an optimizer with parameters of its own.
            same = isinstance(known, dict) and value.get("name", known.get("name")) == known.get(
                "name"
            )
            if key in WHOLE or not same:
                below[key] = {}
            _merge(below[key], value)
        else:
            below[key] = value


def _leaves(tree: Any, key: Key = ()) -> Iterable[tuple[Key, Any]]:
    if isinstance(tree, dict) and tree:
        for name, value in tree.items():
            yield from _leaves(value, (*key, name))
    else:
        yield key, tree


def _keys_at(model: type, key: Key) -> list[str]:
    """The keys that are known under `key`, found by walking the models' annotations."""
    kinds: list[Any] = [model]
    for part in key:
        below: list[Any] = []
        for kind in kinds:
            if get_origin(kind) is dict:
                below += _options(get_args(kind)[1])
            elif part in _fields(kind):
                below += _options(_fields(kind)[part].annotation)
        kinds = below
    return list(dict.fromkeys(name for kind in kinds for name in _fields(kind)))


def _options(annotation: Any) -> list[Any]:
    """The models and mappings that an annotation allows, inside unions and Annotated too."""
    if _fields(annotation) or get_origin(annotation) is dict:
        return [annotation]
    return [option for inner in get_args(annotation) for option in _options(inner)]


def _fields(kind: Any) -> dict[str, Any]:
    """The fields of a pydantic model or dataclass; none of anything else."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind.model_fields
    if isinstance(kind, type) and is_pydantic_dataclass(kind):
        return kind.__pydantic_fields__
    return {}
