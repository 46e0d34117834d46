"""Summarize with any program: the prompt on its standard input, the summary on its standard output."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from contextlib import suppress
from functools import partial
from pathlib import PurePath
from shutil import which
from typing import ClassVar

from msgspec import Struct

from lossless.errors import InvalidInput, SummarizerUnavailable
from lossless.model import SummaryRequest
from lossless.summarizers.base import Reply, check_cancelled, count_request, on_cancel
from lossless.summarizers.reply_text import summary_of, well_formed


class Command(Struct, frozen=True):
    """A program with its arguments, run without a shell; after the timeout its child processes are ended, too."""

    arguments: tuple[str, ...]
    timeout: float = 60.0
    counts: ClassVar[bool] = True

    @classmethod
    def parse(cls, line: str, timeout: float) -> Command:
        """Parse a command line with shell quoting; variables and pipes are not supported."""
        try:
            arguments = tuple(shlex.split(line))
        except ValueError as error:
            raise InvalidInput(f"command:{line} cannot be read: {error}.") from error
        if not arguments:
            raise InvalidInput("command: names no program.", hint="Write command:PROGRAM ARGUMENTS.")
        return cls(arguments, timeout)

    @property
    def name(self) -> str:
        """The program without its arguments: it is stored with each summary, and an argument may be a secret."""
        return f"command:{PurePath(self.arguments[0]).name}"

    def ask(self, request: SummaryRequest) -> Reply:
        prompt = well_formed(f"{request.system}\n\n{request.prompt}")
        if which(self.arguments[0]):  # a program that cannot be run is not a request
            count_request()
        try:
            status, out, err = self._run(prompt.encode(), request.within(self.timeout))
        except subprocess.TimeoutExpired as error:
            raise SummarizerUnavailable(f"{self.name} did not answer within {error.timeout:g} s.") from error
        except OSError as error:
            raise SummarizerUnavailable(f"{self.name} cannot be run: {error.strerror}.") from error
        if status:
            check_cancelled()
            lines = err.decode(errors="replace").strip().splitlines()
            why = "".join(filter(str.isprintable, lines[-1]))[:200] if lines else "no message"
            raise SummarizerUnavailable(f"{self.name} ended with status {status}: {why.rstrip('.')}.")
        return Reply(summary_of(out.decode(errors="replace")), self.name)

    def _run(self, prompt: bytes, seconds: float) -> tuple[int, bytes, bytes]:
        pipe = subprocess.PIPE
        with subprocess.Popen(  # noqa: S603 - the user's own program, without a shell
            self.arguments, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        ) as process:
            on_cancel(partial(_end, process))
            try:
                out, err = process.communicate(prompt, seconds)
            except BaseException:
                # After any error, including Ctrl-C: child processes may keep our pipes open.
                _end(process)
                raise
        return process.returncode, out, err


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
