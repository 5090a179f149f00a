"""`loraledger serve` as a child process: started, watched, ended in order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from loraledger.settings import Settings

START_S = 240.0
STOP_S = 60.0


class ServeFailed(OSError):
    """The server ended before it answered; the message ends with its own last words."""

    def __init__(self, fact: str, log: Path) -> None:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-8:]) if log.is_file() else ""
        super().__init__(f"could not start `loraledger serve`: {fact}; its log is {log}\n{tail}")


class ServeProcess:
    """A context manager: entering waits until requests are answered, leaving ends the process in order.

    It runs in a session of its own, so that Ctrl-C reaches only us and the server can end in order. `port` 0 takes a free one.
    """

    def __init__(self, settings: Settings, say: Callable[[str], None], port: int = 0) -> None:
        self._settings, self._say, self._port = settings, say, port
        self._address = settings.home / "serve.json"
        self.log = settings.home / "serve.log"
        self.url = ""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Process id of the server."""
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        self._settings.home.mkdir(parents=True, exist_ok=True)
        self._address.unlink(missing_ok=True)
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "loraledger", "serve", "--port", str(self._port)],
                env={**os.environ, **self._settings.environment()},
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            self.url = self._wait()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> int | None:
        """End it in order (SIGTERM, then SIGKILL after a minute); its exit status."""
        if self._process is None:
            return None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.kill()
        return self._process.wait()

    def wait(self, timeout_s: float) -> int:
        """Wait until the server ends by itself and return its exit status. TimeoutError after that many seconds."""
        assert self._process is not None
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(str(error)) from error

    def kill(self) -> None:
        """SIGKILL to the server and its engine, as a crash of the machine would end them."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _wait(self) -> str:
        assert self._process is not None
        deadline = time.monotonic() + START_S
        said = ""
        while time.monotonic() < deadline:
            if (code := self._process.poll()) is not None:
                raise ServeFailed(f"it ended with status {code}", self.log)
            last = next(
                (line for line in reversed(self.log.read_text(errors="replace").splitlines()) if line.startswith("· ")),
                "",
            )
            if last != said:
                said = last
                self._say(last.removeprefix("· "))
            if self._address.exists() and (url := _answers(self._address)):
                return url
            time.sleep(0.2)
        raise ServeFailed(f"no answer within {START_S:.0f} s", self.log)


def _answers(address: Path) -> str | None:
    try:
        url: str = json.loads(address.read_text())["url"]
        return url if httpx.get(f"{url}/health", timeout=5).status_code == 200 else None
    except (OSError, ValueError, KeyError, httpx.HTTPError):
        return None
