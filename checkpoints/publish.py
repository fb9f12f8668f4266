"""Puts a package into a repository on a model hub: one commit, or none.

What is large is uploaded first and shows nowhere; the commit then names it. An upload that broke off is taken
up by the same command: what the hub has already is not sent again.
"""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from backbones.errors import RowcastError
from checkpoints.config import CONFIG_FILE, BundleConfig, read_config
from checkpoints.hub import FILES, LIMITS, SECONDS, hub_errors
from checkpoints.package import Package
from checkpoints.places import HubPlace
from checkpoints.token import VARIABLE, token_if_any
from checkpoints.weights import WEIGHTS_FILE

BEFORE_ANYTHING = {".gitattributes", "README.md", "LICENSE"}
"""What a repository may hold before there are heads in it."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """Where it went."""

    url: str
    commit: str


def licence_of(repository: str) -> str | None:
    """The licence that a repository's page states; none where it states none or can't be asked."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HTTPError

    try:
        data = HfApi(token=token_if_any() or False).model_info(repository, timeout=SECONDS).card_data
    except (OSError, HTTPError):
        return None
    found = None if data is None else data.get("license_name") or data.get("license")
    return found if isinstance(found, str) else None


def publish(package: Package, place: HubPlace, *, private: bool, token: str) -> Published:
    """Uploads `package` and commits it.

    Args:
        package: what `pack` made.
        place: the repository, made when missing, and the branch, made from the main one when missing.
        private: whether the repository has to be.
        token: with write access.

    Raises:
        RowcastError: if the repository holds heads of another backbone or kind, or something else; if it is
            public and must not be; if the upload breaks off or the hub refuses it.
    """
    from huggingface_hub import HfApi

    api = HfApi(token=token, library_name="rowcast")
    advice = f"the same command again goes on where this one stopped; {VARIABLE} needs write access there"
    with hub_errors(f"to publish to {place}", advice):
        main = _main(api, place.repository, private)
        head = main if place.revision is None else _branch(api, place)
        if place.revision is None or head.sha != main.sha:  # a branch of its own; nothing else is replaced
            _require_same_heads(api, place, head, package.config)
        done = api.create_commit(
            place.repository,
            _operations(package, _names(head)),
            commit_message=f"Publish {package.config.heads.name} heads for {package.config.backbone.name}",
            revision=place.revision,
            parent_commit=head.sha,  # refused if somebody else published meanwhile
        )
    tree = "" if place.revision is None else f"/tree/{place.revision}"
    return Published(url=f"{api.endpoint}/{place.repository}{tree}", commit=done.oid)


def _main(api: Any, repository: str, private: bool) -> Any:
    """The state of the main branch of the repository, which is made when missing."""
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        found = api.model_info(repository, files_metadata=True)
    except RepositoryNotFoundError:
        api.create_repo(repository, private=private or None)  # none: as the organisation has it by default
        found = api.model_info(repository, files_metadata=True)
    if private and not found.private:
        raise RowcastError(
            f"expected {repository} to be private, found it public: make it private on the hub, "
            "or name another repo="
        )
    return found


def _branch(api: Any, place: HubPlace) -> Any:
    """The state of another branch, which is made when missing."""
    from huggingface_hub.errors import RevisionNotFoundError

    try:
        return api.model_info(place.repository, revision=place.revision, files_metadata=True)
    except RevisionNotFoundError:
        api.create_branch(place.repository, branch=place.revision)
        return api.model_info(place.repository, revision=place.revision, files_metadata=True)


def _names(info: Any) -> set[str]:
    return {file.rfilename for file in info.siblings or []}


def _operations(package: Package, there: set[str]) -> list[Any]:
    """The whole of the commit; files of earlier heads that these do not have go."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    files = {**package.texts, WEIGHTS_FILE: package.weights}
    added = [CommitOperationAdd(path_in_repo=name, path_or_fileobj=files[name]) for name in sorted(files)]
    stale = sorted(there & (set(FILES) - files.keys()))
    return [*added, *(CommitOperationDelete(path_in_repo=name) for name in stale)]


def _require_same_heads(api: Any, place: HubPlace, head: Any, config: BundleConfig) -> None:
    """Refuses to write over anything but heads of the same kind for the same backbone."""
    there = _names(head)
    if CONFIG_FILE not in there:
        others = sorted(there - BEFORE_ANYTHING)
        if others:
            raise RowcastError(
                f"expected an empty repository or one of such heads at {place}, found {others[0]} there: "
                "name another repo="
            )
        return
    found = _published_config(api, place, head)
    differing = config.backbone.differences(found.backbone)
    if found.heads.name != config.heads.name:
        differing.insert(0, "kind")
    if differing:
        raise RowcastError(
            f"expected {config.heads.name} heads for {config.backbone.name} "
            f"{config.backbone.fingerprint[:16]} at {place}, found {found.heads.name} heads for "
            f"{found.backbone.name} {found.backbone.fingerprint[:16]} ({', '.join(differing)}): "
            "name another repo= or revision="
        )


def _published_config(api: Any, place: HubPlace, head: Any) -> BundleConfig:
    size = next(file.size for file in head.siblings if file.rfilename == CONFIG_FILE)
    if size > LIMITS[CONFIG_FILE]:
        raise RowcastError(
            f"expected heads of Rowcast at {place}, found a {CONFIG_FILE} of {size:,} bytes: "
            "name another repo="
        )
    with TemporaryDirectory() as folder:
        api.hf_hub_download(place.repository, CONFIG_FILE, revision=head.sha, local_dir=folder)
        try:
            return read_config(Path(folder))
        except RowcastError as error:
            raise RowcastError(
                f"expected heads that this version of Rowcast reads at {place}, found another {CONFIG_FILE}: "
                "name another repo="
            ) from error
