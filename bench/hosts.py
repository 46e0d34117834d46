"""What a turn costs in the hosts with our memory, against the same host without us, in the same run.

    python bench/hosts.py                                # frameworks, Hermes, our processes; 10,000 messages: some minutes
    python bench/hosts.py --messages 1000 10000          # whether it grows with the history
    python bench/hosts.py --hosts openclaw --turns 10    # the gateway of OpenClaw, too large for every run
    python bench/hosts.py --quick                        # 1,000 messages, few turns, without Hermes: less than a minute

Both sides take the same turns one after the other: a prompt, one call of a stand-in for a model on loopback, a reply. The side
without us sends requests of the same size. Turns to warm up are left out. See bench/README.md.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import host_programs
from host_frameworks import FRAMEWORKS
from host_history import Result, Spent, measure, p95
from host_programs import PROGRAMS, Cost
from stand_in import StandIn

HOSTS = {**FRAMEWORKS, **PROGRAMS}
DEFAULT = [*FRAMEWORKS, "hermes", "processes"]
HEAD = (
    f"{'messages':>9} {'host':24} {'kB sent':>11} {'without p50':>12} {'p95':>8} {'with p50':>9} {'p95':>8}"
    f" {'p50 x':>6} {'p95 x':>6} {'CPU x':>6}"
)


def results(names: Sequence[str], messages: int, turns: int, warm_up: int) -> Iterator[Result]:
    """Measure each host with its own database and its own stand-in."""
    for name in names:
        with (
            tempfile.TemporaryDirectory() as folder,
            StandIn() as provider,
            HOSTS[name](Path(folder), provider.url, messages) as contest,
        ):
            yield measure(contest, provider, turns, warm_up)


def row(messages: int, result: Result) -> str:
    """Return a line of the table."""
    without, with_us = ([each.wall * 1e3 for each in side] for side in (result.without, result.with_us))
    cpu = [statistics.median(each.cpu for each in side) for side in (result.without, result.with_us)]
    middle, high = (of(without) for of in (statistics.median, p95))
    our_middle, our_high = (of(with_us) for of in (statistics.median, p95))
    sent = " / ".join(f"{each / 1000:.0f}" for each in result.sent)
    ratio = f"{cpu[1] / cpu[0]:>6.2f}" if result.name != "OpenClaw" else f"{'':>6}"
    return (
        f"{messages:>9,} {result.name:24} {sent:>11} {middle:>10.1f}ms {high:>6.1f}ms {our_middle:>7.1f}ms"
        f" {our_high:>6.1f}ms {our_middle / middle:>6.2f} {our_high / high:>6.2f} {ratio}"
    )


def costs(messages: int, turns: int, warm_up: int) -> Iterator[Cost]:
    """Measure the processes that hosts start."""
    runs = max(5, turns // 3)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield host_programs.bridge(folder, messages, turns, warm_up, whole=False)
        yield host_programs.bridge(folder, messages, turns, warm_up, whole=True)
        yield from host_programs.hook(folder, messages, runs)
        yield host_programs.mcp(folder, messages, runs)
        yield host_programs.python(runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, nargs="+", default=[10_000])
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--warm-up", type=int, default=4)
    parser.add_argument("--hosts", nargs="+", choices=[*HOSTS, "processes"], default=DEFAULT)
    parser.add_argument("--quick", action="store_true", help="1,000 messages, 6 turns, frameworks and processes")
    parser.add_argument("--fail-above", type=float, metavar="RATIO", help="exit with 1 if a median ratio is higher")
    options = parser.parse_args()
    if options.quick:
        options.messages, options.turns, options.warm_up = [1_000], 6, 2
        options.hosts = [*FRAMEWORKS, "processes"]
    with tempfile.TemporaryDirectory() as state:
        os.environ["XDG_STATE_HOME"] = state
        worst = report(options.messages, options.hosts, options.turns, options.warm_up)
    if options.fail_above and worst > options.fail_above:
        sys.exit(f"a turn takes {worst:.2f} times as long with us, more than {options.fail_above}")


def report(sizes: Sequence[int], names: Sequence[str], turns: int, warm_up: int) -> float:
    """Print both tables; return the highest ratio of medians."""
    worst = 0.0
    hosts = [name for name in names if name in HOSTS]
    if hosts:
        print(HEAD)
    for messages in sizes:
        for result in results(hosts, messages, turns, warm_up):
            print(row(messages, result), flush=True)
            worst = max(worst, _median(result.with_us) / _median(result.without))
    for messages in sizes if "processes" in names else ():
        print(f"{messages:>9,} messages: our processes {'p50':>14} {'p95':>9}")
        for cost in costs(messages, turns, warm_up):
            middle, high = (of(cost.seconds) * 1e3 for of in _FIGURES)
            print(f"{'':>10}{cost.name:30} {middle:>7.1f}ms {high:>7.1f}ms   {cost.what}", flush=True)
    return worst


def _median(side: Sequence[Spent]) -> float:
    return statistics.median(each.wall for each in side)


_FIGURES: tuple[Callable[[Sequence[float]], float], ...] = (statistics.median, p95)


if __name__ == "__main__":
    main()
