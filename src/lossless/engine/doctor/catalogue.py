"""Every check: what it holds a database to, how bad a fault is, and whether a fix can put it right."""

from __future__ import annotations

from msgspec import Struct

from lossless.errors import InvalidInput
from lossless.model import Severity

SEVERITIES: tuple[Severity, ...] = ("info", "warn", "error", "critical")


class Check(Struct, frozen=True):
    """One thing a doctor looks at."""

    id: str
    severity: Severity
    """Of a fault; some faults of a check are less."""
    holds: str
    """What is true of a healthy database."""
    told: str
    """What is said of `{count}` faults."""
    fix: str = ""
    """What a fix does; empty where none can help."""


_ALL = (
    Check("D01", "critical", "The database itself is sound.", "The database is damaged ({count}): restore a backup."),
    Check(
        "D02",
        "critical",
        "What a row refers to is there.",
        "{count} rows refer to something that is not there.",
        "Links that lead nowhere go; rows that are no links stay.",
    ),
    Check(
        "D03",
        "critical",
        "Tables, columns, views and indexes are those of the newest schema.",
        "{count} parts of the schema are missing.",
        "Indexes are made anew; older schemas move forward when the database is opened for writing.",
    ),
    Check("D04", "info", "The file holds little room that is not used.", "The database takes more room than it needs."),
    Check(
        "M01",
        "error",
        "The messages of a conversation are numbered from 1 on, without gaps.",
        "The numbers of the messages do not add up.",
        "The next number is set behind the last message. A message that is gone cannot be brought back.",
    ),
    Check(
        "M02",
        "error",
        "A message that says something costs something.",
        "{count} messages cost nothing.",
        "Their tokens are estimated anew.",
    ),
    Check(
        "M03",
        "warn",
        "What a message costs is within half of what is estimated today.",
        "{count} messages cost something else than their words.",
        "Their tokens are estimated anew.",
    ),
    Check(
        "M04",
        "warn",
        "The parts of a message lie within its words.",
        "{count} messages have parts that cannot be read.",
    ),
    Check("M05", "warn", "An event id belongs to one message.", "{count} event ids belong to several messages."),
    Check("M06", "info", "Later messages are not an hour older.", "{count} messages are older than the one before."),
    Check(
        "M07", "info", "A tool call has its result, a result its call.", "{count} tool calls or results stand alone."
    ),
    Check(
        "S01",
        "error",
        "A leaf was made from messages, a condensed summary from summaries.",
        "{count} summaries were made from nothing, or from both messages and summaries.",
    ),
    Check(
        "S02",
        "error",
        "A summary is one deeper than its deepest source.",
        "{count} summaries have another depth than their sources give them.",
        "The depths are counted anew.",
    ),
    Check(
        "S03",
        "critical",
        "No summary is made from itself, over whatever detours.",
        "{count} summaries lead back to themselves.",
        "The links to a later summary are cut.",
    ),
    Check(
        "S04",
        "error",
        "What a summary was made from is of its conversation.",
        "{count} summaries reach into another conversation.",
    ),
    Check(
        "S05",
        "warn",
        "The sources of a summary are numbered from 0 on, without gaps.",
        "{count} summaries have gaps between their sources.",
        "They are numbered anew, in their order.",
    ),
    Check(
        "S06",
        "warn",
        "A summary's time is that of what lies below it.",
        "{count} summaries have another time than what lies below them.",
        "The times are taken from what lies below.",
    ),
    Check(
        "S07",
        "warn",
        "A summary counts the summaries below it.",
        "{count} summaries miscount those below them.",
        "They are counted anew.",
    ),
    Check(
        "S08",
        "warn",
        "A summary knows what the messages below it cost.",
        "{count} summaries do not know what lies below them costs.",
        "It is summed up anew.",
    ),
    Check(
        "S09",
        "error",
        "A summary says something, was not left behind by a failure, and is shorter than its sources.",
        "{count} summaries are empty, were left behind by a failure, or are longer than their sources.",
        "They are marked as provisional, and made anew as soon as a model is there.",
    ),
    Check(
        "S10",
        "warn",
        "No summary gives orders to its reader.",
        "{count} summaries give orders to whoever reads them.",
        "They are marked to be made anew.",
    ),
    Check(
        "S11",
        "info",
        "Every summary is in a context, beside one, or below another.",
        "{count} summaries are kept for recall only.",
    ),
    Check("S12", "info", "It is known who wrote a summary.", "It is not known who wrote {count} summaries."),
    Check(
        "S13", "info", "No two summaries of a conversation say the same.", "{count} summaries say what another says."
    ),
    Check(
        "S14",
        "critical",
        "Every message is in the context, below it, listed beside it, or kept out for a reason.",
        "{count} messages are nowhere.",
        "What lies behind the last summary comes back into the context, the rest is listed beside it.",
    ),
    Check(
        "S15",
        "error",
        "No message is reached twice.",
        "{count} messages are reached more than once.",
        "What stands in the context is no longer listed beside it.",
    ),
    Check(
        "S16",
        "error",
        "The words below a summary are those it was made from.",
        "What lies below {count} summaries is not what they were made from.",
        "Where nothing was recorded, it is recorded now. What was changed cannot be brought back.",
    ),
    Check(
        "S17",
        "warn",
        "Summaries are whole, and written by the model that is configured, if one is.",
        "{count} summaries were written without the model that is configured: `lcm repair` rewrites them.",
    ),
    Check(
        "S18",
        "warn",
        "Every claim of a summary is found in its sources.",
        "{count} summaries contain claims not found in their sources.",
        "They are marked to be rewritten.",
    ),
    Check(
        "C02",
        "critical",
        "Every item of a context is there and stands for something.",
        "{count} items stand for nothing.",
        "They go.",
    ),
    Check(
        "C04",
        "warn",
        "The items of a context stand in the order of what they stand for.",
        "{count} items are out of order.",
        "They take the place of the first message below them.",
    ),
    Check(
        "C05",
        "error",
        "Nothing stands in a context beside a summary of it.",
        "{count} items stand beside a summary of themselves.",
        "The summary stays.",
    ),
    Check(
        "C06",
        "warn",
        "A context fits into the window that its host named last, else into 128,000 tokens.",
        "The context is longer than its window.",
    ),
    Check(
        "C07",
        "error",
        "What no model is to see is in no context.",
        "{count} messages are in the context that no model is to see.",
        "They leave the context, and stay stored.",
    ),
    Check(
        "C08",
        "warn",
        "An item costs what it stands for, a context the sum of its items.",
        "{count} items or sums cost something else than they say.",
        "They are counted anew.",
    ),
    Check(
        "F01",
        "error",
        "A file that left a message is where it was put, as it was.",
        "{count} files are missing or damaged: restore the files directory from a backup.",
    ),
    Check(
        "F02",
        "info",
        "Every file in the files directory belongs to a message.",
        "{count} files belong to nothing.",
        "They are removed.",
    ),
    Check(
        "F03",
        "warn",
        "A file that a message or a summary names is known.",
        "{count} files are named that are not known.",
    ),
    Check(
        "X01",
        "warn",
        "The search index holds every message and summary, and nothing else.",
        "{count} texts are missing from the search index, or left over in it.",
        "It is made anew.",
    ),
    Check(
        "X03",
        "warn",
        "Every event id is known, so that nothing is stored twice.",
        "{count} event ids would not be recognised.",
        "They are noted anew.",
    ),
    Check(
        "V01",
        "error",
        "What is archived is not active, what is not active is archived.",
        "{count} conversations are both active and archived, or neither.",
    ),
    Check(
        "V03",
        "info",
        "No conversation is left over from a scheduled job or a sub-agent.",
        "{count} conversations may be cleaned away.",
    ),
    Check(
        "J01",
        "warn",
        "Who works on a conversation is alive.",
        "{count} conversations are held by a worker that is gone.",
        "They are released.",
    ),
    Check(
        "J02",
        "info",
        "Nothing is owed to an archived conversation.",
        "{count} debts of archived conversations are open.",
        "They are closed.",
    ),
    Check(
        "G01", "info", "Grants that are over are forgotten.", "{count} grants are over.", "They go, with their ledgers."
    ),
    Check(
        "K01",
        "warn",
        "The settings say what they seem to say.",
        "{count} settings are overridden, or hold a password in clear text.",
    ),
)
CHECKS = {check.id: check for check in _ALL}


def chosen(ids: object) -> tuple[str, ...]:
    """The checks of these ids, in the order of the catalogue; all without any."""
    if ids is None:
        return tuple(CHECKS)
    if isinstance(ids, str) or not isinstance(ids, list | tuple | set | frozenset):
        raise InvalidInput(f"{ids!r} is not a list of checks.", hint="Give checks=['S14', ...].")
    unknown = [each for each in ids if each not in CHECKS]
    if unknown:
        raise InvalidInput(f"There is no check {unknown[0]}.", hint=f"There are {', '.join(CHECKS)}.")
    return tuple(check for check in CHECKS if check in ids)
