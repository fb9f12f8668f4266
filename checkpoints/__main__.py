"""Publishes, shows and proves head bundles.

python -m checkpoints inspect bundle=outputs/pocket/train/heads
python -m checkpoints publish bundle=outputs/pocket/train/heads repo=me/pocket-heads dry_run=true
"""

import sys

from conf.launch import BAD_INPUT, launch
from conf.schema import InspectJob, PublishJob, VerifyJob

FAILED = 1
"""Exit status where a proof failed."""
USAGE = """Head bundles: trained draft heads, in a folder or on a model hub.

  python -m checkpoints publish bundle=<folder> repo=<organisation/name>    puts one on the hub, with its card
  python -m checkpoints inspect bundle=<folder or organisation/name>        says what one is
  python -m checkpoints verify bundle=<...> [+model=<name>]                 proves that one is whole, and fits

--help after a command shows its options."""


def publish(job: PublishJob) -> None:
    """Says what goes up, uploads it, and says where it is."""
    from pathlib import Path

    from checkpoints.places import HubPlace, require_repository, require_revision
    from checkpoints.token import required_token

    revision = None if job.revision is None else require_revision(job.revision, "revision")
    place = HubPlace(require_repository(job.repo, "repo"), revision)
    token = None if job.dry_run else required_token()

    from checkpoints.package import pack, write_package  # heavy, so after what may be mistaken
    from checkpoints.publish import licence_of, publish

    package = pack(
        Path(job.bundle).expanduser(),
        place,
        base_model=job.base_model,
        licence=licence_of,
        custom_generate=job.custom_generate,
    )
    for name, size in sorted(package.sizes.items()):
        print(f"  {name:<27}{size:>14,} bytes")
    if package.left_out:
        print(f"  left out: {', '.join(package.left_out)}")
    if package.licence is None:
        print("  the card states no licence of the base model: no page on the hub said one")
    if token is None:
        write_package(package, Path(job.out).expanduser())
        print(f"{job.out} holds what would be published as {place}")
    else:
        done = publish(package, place, private=job.private, token=token)
        print(
            f"{done.url}\nload it as heads={place}, or for ever the same as "
            f"heads={place.repository}@{done.commit}"
        )


def inspect(job: InspectJob) -> None:
    """Prints what a bundle is."""
    from checkpoints.describe import describe
    from checkpoints.hub import resolve

    print(describe(resolve(job.bundle, weights=False), job.bundle))


def verify(job: VerifyJob) -> None:
    """Prints a line a proof and a table at the end; exits with 1 if a proof failed."""
    from dataclasses import asdict

    from backbones.report import Report
    from checkpoints.hub import resolve
    from checkpoints.verify import verify

    report = Report()
    verify(report, resolve(job.bundle), None if job.model is None else asdict(job.model))
    print(report.table())
    if report.failed:
        sys.exit(FAILED)


COMMANDS = {"publish": (PublishJob, publish), "inspect": (InspectJob, inspect), "verify": (VerifyJob, verify)}


def main(words: list[str]) -> None:
    """Takes the command off; the rest are options."""
    if not words or words[0] in ("-h", "--help"):
        print(USAGE)
    elif words[0] not in COMMANDS:
        known = ", ".join(COMMANDS)
        print(f"checkpoints: expected one of {known}, found {words[0]!r}: --help shows them", file=sys.stderr)
        sys.exit(BAD_INPUT)
    else:
        schema, job = COMMANDS[words[0]]
        sys.argv[1:] = words[1:]
        launch(words[0], schema, job, command=words[0])


if __name__ == "__main__":
    main(sys.argv[1:])
