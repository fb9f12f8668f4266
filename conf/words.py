"""The words of a command line made ready for Hydra: plain texts quoted, mistakes named in our words."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, Quote, QuotedString
from hydra.errors import HydraException
from omegaconf import ListConfig, OmegaConf

from backbones.errors import RowcastError
from conf.check import FOLDER, groups, option_names, require_choice, require_known

REPEATED = "prompt"
"""The one option that may be given several times; its values become a list."""


def prepare(words: Sequence[str], config_name: str, schema: type) -> list[str]:
    """The words as Hydra takes them.

    Args:
        words: what stands after the program's name: flags and `option=value`.
        config_name: the job's YAML file.
        schema: its typed form.

    Raises:
        RowcastError: for what is no option, one that the job or its decoder lacks, or one given twice.
    """
    flags = [word for word in words if word.startswith("-")]
    many = bool({"-m", "--multirun"} & set(flags))
    known, chosen = groups(config_name), _chosen_in(config_name)
    texts = [in_full(_without_plus(word, known), schema) for word in words if not word.startswith("-")]
    overrides = [_parsed(text) for text in texts]
    for override in overrides:
        _check(override, schema, many, {name: known[name] for name in known if known[name] in chosen})
    for entry in fields(schema):
        if "kinds" in entry.metadata:
            _check_kind(entry.name, entry.metadata["kinds"], overrides, config_name, known[entry.name])
    return [*flags, *(_in_group(word, known) for word in _gathered(overrides))]


def _without_plus(word: str, known: Mapping[str, str]) -> str:
    """`+model=x` as `model=x`: groups are in the defaults lists, where Hydra takes no plus."""
    name = word.lstrip("+").partition("=")[0]
    return word.lstrip("+") if name in known else word


def _in_group(word: str, known: Mapping[str, str]) -> str:
    """A group's choice with the group's full name, which Hydra knows it by."""
    name, sign, value = word.partition("=")
    return f"{known[name]}{sign}{value}" if name in known else word


def in_full(word: str, schema: type) -> str:
    """An option by its last part alone, where only one option ends so: `path=x` for `model.path=x`."""
    name, sign, value = word.partition("=")
    known = set(option_names(schema))
    if not sign or name in known:
        return word
    ending = [option for option in known if option.endswith(f".{name}")]
    return f"{ending[0]}={value}" if len(ending) == 1 else word


def _parsed(word: str) -> Override:
    """The word by Hydra's grammar; a value that is not in it ("what's this", "a=b.png") is a plain text.

    `~/` is not in it either, and means the home folder where the shell has left it alone.
    """
    name, sign, text = word.partition("=")
    text = str(Path(text).expanduser()) if text.startswith("~/") else text
    quoted = f"{name}={QuotedString(text, Quote.double).with_quotes()}"
    for candidate in (word, quoted) if sign else ():
        try:
            return OverridesParser.create().parse_override(candidate)
        except HydraException:
            continue
    raise RowcastError(f"expected option=value, found {word!r}: --help shows the options")


def _check(override: Override, schema: type, many: bool, known: Mapping[str, str]) -> None:
    """Names the nearest option or the known choices, where Hydra would speak of structs and search paths."""
    name = override.key_or_group
    if name.partition(".")[0].partition("/")[0] == "hydra":
        return
    if name not in known:
        require_known(name, schema)
    if override.is_sweep_override():
        if not many:
            text = _text(override)
            raise RowcastError(f"option {name}: a text with commas needs quotes, '{name}=\"{text}\"'")
    elif name in known:
        require_choice(known[name], str(override.value()))


def _check_kind(
    option: str, kinds: Mapping[str, type], overrides: Sequence[Override], config_name: str, group: str
) -> None:
    """Refuses an option of another decoder, or of another kind of heads, than the one chosen."""
    given = [name for override in overrides if (name := override.key_or_group).startswith(f"{option}.")]
    chosen = [override for override in overrides if override.key_or_group == option]
    if not given or any(override.is_sweep_override() for override in chosen):
        return
    choice = str(chosen[-1].value()) if chosen else _default(group, config_name)
    file = OmegaConf.load(FOLDER / group / f"{choice}.yaml")
    kind = OmegaConf.select(file, f"{option}.name") or OmegaConf.select(file, "name")
    known = list(option_names(kinds[kind], f"{option}."))
    for name in given:
        if name not in known:
            has = ", ".join(other for other in known if other != f"{option}.name") or "none"
            raise RowcastError(f"{option}={choice} has no option {name}: it has {has}")


def _default(group: str, config_name: str) -> str:
    """The choice in a group that a job makes by itself."""
    return next(entry[group] for entry in _defaults(config_name) if group in entry)


def _chosen_in(config_name: str) -> set[str]:
    """The groups in which a job chooses."""
    return {group for entry in _defaults(config_name) if not isinstance(entry, str) for group in entry}


def _defaults(config_name: str) -> ListConfig:
    """The defaults list of a job."""
    return OmegaConf.select(OmegaConf.load(FOLDER / f"{config_name}.yaml"), "defaults")


def _gathered(overrides: Sequence[Override]) -> Iterator[str]:
    """One word an option: repeated prompts become a list."""
    by_name: dict[str, list[Override]] = {}
    for override in overrides:
        by_name.setdefault(override.key_or_group, []).append(override)
    for name, same in by_name.items():
        if len(same) == 1:
            yield same[0].input_line or ""
        elif name == REPEATED:
            texts = ",".join(_text(override) or '""' for override in same)
            yield f"{name}=[{texts}]"
        else:
            lines = " and ".join(override.input_line or "" for override in same)
            raise RowcastError(f"expected option {name} once, found {lines}: leave one of them out")


def _text(override: Override) -> str:
    """What was written after the sign."""
    return (override.input_line or "").partition("=")[2]
