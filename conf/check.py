"""Turns a composed config into its dataclass, or says in one line which option is wrong, and how."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ValidationError

from backbones.errors import RowcastError
from backbones.rules import Rule, parse, similarity

FOLDER = Path(__file__).resolve().parent

T = TypeVar("T")


def choices(group: str) -> list[str]:
    """The names that a config group knows: its YAML files."""
    return sorted(path.stem for path in (FOLDER / group).glob("*.yaml"))


def groups(config_name: str) -> dict[str, str]:
    """The config groups of a job, by the option that chooses in them: folders that hold YAML files.

    A group of one job alone lies in a folder of the job's name, since to Hydra an option and a group of one
    name are the same: `heads` chooses in `train/heads`, and is a plain option of other jobs.
    """
    folders = [*FOLDER.iterdir(), *FOLDER.glob(f"{config_name}/*")]
    return {
        path.name: path.relative_to(FOLDER).as_posix()
        for path in sorted(folders)
        if path.is_dir() and any(path.glob("*.yaml"))
    }


def option_names(schema: type, prefix: str = "") -> Iterator[str]:
    """Dotted names of every option of a schema, those of all decoders and of all kinds of heads included."""
    hints = get_type_hints(schema)
    for entry in fields(schema):
        name = prefix + entry.name
        kinds = entry.metadata.get("kinds")
        yield name
        if kinds:
            yield f"{name}.name"
        for kind in kinds.values() if kinds else [_group(hints[entry.name])]:
            if kind is not None:
                yield from option_names(kind, f"{name}.")


def require_known(name: str, schema: type) -> None:
    """Refuses an option that the schema lacks.

    Raises:
        RowcastError: naming the most similar option.
    """
    known = sorted(set(option_names(schema)))
    if name not in known:
        nearest = max(known, key=lambda other: similarity(name, other))
        raise RowcastError(f"unknown option {name}: did you mean {nearest}?")


def require_choice(group: str, name: str) -> None:
    """Refuses a group choice for which there is no YAML file.

    Raises:
        RowcastError: listing the known ones.
    """
    if name not in choices(group):
        option = group.rpartition("/")[2]
        raise RowcastError(f"unknown {option} {name!r}: choose {option}= one of {', '.join(choices(group))}")


def typed(config: DictConfig, schema: type[T]) -> T:
    """The config as an instance of its dataclass, types and ranges checked, interpolations resolved.

    Raises:
        RowcastError: for an unknown option, a missing one, a wrong type or a value out of range.
    """
    _require_keys(config, schema, "")
    entries = fields(schema)  # pyright: ignore[reportArgumentType]
    kinds = {entry.name: entry.metadata["kinds"] for entry in entries if "kinds" in entry.metadata}
    checked = {name: checked_choice(config[name], known, name) for name, known in kinds.items()}
    try:
        merged = OmegaConf.merge(OmegaConf.structured(schema), config)
    except ValidationError as error:
        raise _wrong_type(error, schema) from None
    for name in sorted(OmegaConf.missing_keys(merged)):
        raise RowcastError(f"option {name} is missing: add {_example(schema, name)}")
    job: Any = OmegaConf.to_object(merged)
    _require_rules(job, "")
    for name, options in checked.items():
        setattr(job, name, options)
    return job


def checked_choice(config: object, kinds: Mapping[str, type], where: str) -> dict[str, Any]:
    """The options of one decoder or one kind of heads, `name` among them, checked against its own schema.

    Args:
        config: the group.
        kinds: schemas by name.
        where: the option that holds the group.

    Raises:
        RowcastError: as `typed`.
    """
    if not isinstance(config, DictConfig):
        raise RowcastError(f"option {where}: expected a group of options, found {config!r}")
    name = config.get("name")
    if name not in kinds:
        raise RowcastError(f"unknown {where}.name {name!r}: expected one of {', '.join(kinds)}")
    options = OmegaConf.to_container(config, resolve=True)
    assert isinstance(options, dict)
    named = {str(key): value for key, value in options.items()}
    parse(kinds[name], {key: value for key, value in named.items() if key != "name"}, where)
    return named


def _group(hint: Any) -> type | None:
    """The schema of an option that is a group of options, or may be one; else none."""
    forms = [kind for kind in (hint, *get_args(hint)) if isinstance(kind, type) and is_dataclass(kind)]
    return forms[0] if forms else None


def _require_keys(config: DictConfig, schema: type, prefix: str) -> None:
    hints = get_type_hints(schema)
    for key in config:
        if key not in hints:
            nearest = max(hints, key=lambda other: similarity(str(key), other))
            raise RowcastError(f"unknown option {prefix}{key}: did you mean {prefix}{nearest}?")
        value = None if OmegaConf.is_missing(config, key) else config[key]
        group = _group(hints[str(key)])
        if group is not None and isinstance(value, DictConfig):
            _require_keys(value, group, f"{prefix}{key}.")


def _require_rules(job: Any, prefix: str) -> None:
    for entry in fields(job):
        name, value = f"{prefix}{entry.name}", getattr(job, entry.name)
        if is_dataclass(value):
            _require_rules(value, f"{name}.")
        wanted: Rule | None = entry.metadata.get("rule")
        if wanted is not None and value is not None and not wanted.holds(value):
            raise RowcastError(f"option {name}: expected {wanted.text}, found {value!r}")


def _wrong_type(error: ValidationError, schema: type, prefix: str = "") -> RowcastError:
    name = prefix + (error.full_key or "").removeprefix(prefix)
    kind = str(_entry_type(schema, name.removeprefix(prefix)))
    return RowcastError(f"option {name}: expected {kind}, found {error.value!r}")


def _entry_type(schema: type, name: str) -> str:
    first, _, rest = name.partition(".")
    kind = get_type_hints(schema)[first.partition("[")[0]]
    group = _group(kind)
    if rest and group is not None:
        return _entry_type(group, rest)
    return (
        "a group of options"
        if group is not None
        else getattr(kind, "__name__", str(kind).replace("None", "null"))
    )


def _example(schema: type, name: str) -> str:
    metadata: Mapping[str, str] = next((e.metadata for e in fields(schema) if e.name == name), {})
    return metadata.get("example", f"{name}=...")
