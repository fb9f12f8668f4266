"""The report's maps of the grid: acceptance by direction and round, and the order of commit."""

from collections.abc import Mapping, Sequence
from html import escape

from eval.figures import heat_map, order_map
from eval.maps import DIRECTIONS, AcceptanceMap, Maps
from eval.page import section, tag
from eval.results import DecoderResult, Results
from eval.table import law


def maps_section(results: Results, maps: Mapping[str, Maps], first: str) -> str | None:
    """A folded part for every decoder that has maps, `first` opened."""
    shown = [decoder for decoder in results.decoders if decoder.name in maps]
    if not shown:
        return None
    shown.sort(key=lambda decoder: decoder.name != first)
    longest = max(decoder.forwards for decoder in shown)
    parts = [_decoder(decoder, maps[decoder.name], decoder.name == first) for decoder in shown]
    note = (
        "Acceptance: the share of a cell's drafts that verification lets stand, by where the draft came from "
        "and how often it had been verified before; empty cells never held such a draft. Order: the forward "
        f"after which a cell was final, of up to {longest:.0f}. Means over the images; hover for figures."
    )
    return section("The grid, cell by cell", note, _scales(), *parts)


def _scales() -> str:
    return (
        '<div class="scale"><span>acceptance 0 %</span><i class="share"></i><span>100 %</span>'
        '<span class="gap">order: first forward</span><i class="time"></i><span>last</span></div>'
    )


def _decoder(decoder: DecoderResult, maps: Maps, opened: bool) -> str:
    order = maps.order
    tip = f"final after forward {order.min():.0f} to {order.max():.0f}"
    below = f"forward {order.min():.0f} to {order.max():.0f}"
    groups = [_group("order of commit", [_figure(order_map(order.tolist(), tip), "", below)])]
    for direction, title in DIRECTIONS.items():
        found = [_acceptance(one) for one in maps.acceptance if one.direction == direction]
        groups += [_group(f"acceptance, {title}", found)] if found else []
    summary = f"<summary>{escape(decoder.name)} {tag(law(decoder))} {_overall(maps.acceptance)}</summary>"
    return f'<details{" open" if opened else ""}>{summary}<div class="maps">{"".join(groups)}</div></details>'


def _group(title: str, figures: Sequence[str]) -> str:
    return f'<div class="group"><h4>{escape(title)}</h4>{"".join(figures)}</div>'


def _overall(maps: Sequence[AcceptanceMap]) -> str:
    fresh = [found for found in maps if found.round == 0]
    examined = sum(found.examined for found in fresh)
    if examined == 0:
        return '<span class="soft">no drafts</span>'
    share = 100 * sum(found.accepted for found in fresh) / examined
    return f'<span class="soft">{share:.0f} % of fresh drafts stand</span>'


def _acceptance(found: AcceptanceMap) -> str:
    share = 100 * found.accepted / found.examined
    tip = f"{share:.1f} % of {found.examined:,} drafts accepted"
    title = f"round {found.round + 1}: "
    return _figure(heat_map(found.cells.tolist(), 1.0, tip), title, f"{share:.0f} %")


def _figure(image: str, title: str, below: str) -> str:
    return f"<figure>{image}<figcaption>{escape(title)}<b>{escape(below)}</b></figcaption></figure>"
