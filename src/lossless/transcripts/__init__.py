"""Read the transcripts of other programs as messages.

    header = recognise(path)
    for entry in reader(header.format).entries(path, header, tally): ...

Nothing is written, and no file is held in memory: it is read line by line, from any offset.
"""

from lossless.transcripts.base import Branch, Header, Reader, Tally, TranscriptEntry
from lossless.transcripts.recognise_program import KNOWN, may_be_transcript, reader, recognise

__all__ = [
    "KNOWN",
    "Branch",
    "Header",
    "Reader",
    "Tally",
    "TranscriptEntry",
    "may_be_transcript",
    "reader",
    "recognise",
]
