"""Where things are. Read once, from the environment and the command line, and passed down as a value."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pipelines.settings import Settings as PipelineSettings
from pipelines.settings import font_folders, patient


class SettingInvalid(OSError):
    """An environment variable makes no sense."""

    def __init__(self, name: str, fact: str) -> None:
        super().__init__(f"could not read {name}: {fact}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(PipelineSettings):
    """One installation: its home directory, catalog, ledger, spool and output folder.

    Environment: LORALEDGER_HOME (default ~/.local/share/loraledger), LORALEDGER_CATALOG (default examples/catalog.yaml),
    LORALEDGER_DSN (default chDB under the home), LORALEDGER_WAIT_S (how long a chDB ledger that another process has open is waited
    for, default 30; the DSN's own `?wait_s=` comes first), LORALEDGER_SPOOL, LORALEDGER_OUT,
    LORALEDGER_FONTS (folders of fonts for documents, with `:` between them, beside those that come with the program),
    LORALEDGER_SNAPSHOT (the file that tells gateways the ledger's figures),
    LORALEDGER_OPERATOR_TOKEN (opens /metrics, /v1/traces and the details of /health to callers from other hosts),
    LORALEDGER_OTLP_ENDPOINT (an OTLP/HTTP collector, such as http://127.0.0.1:4318, that gets the spans too),
    LORALEDGER_TRUSTED_PROXIES (addresses and networks, separated by commas, whose X-Forwarded-For is believed),
    LORALEDGER_DRAIN_S (seconds that requests in flight get to end when the gateway stops; 5 unless given) and
    LORALEDGER_SUPERVISED (1: whoever started `serve` starts it again, so it ends when its engine is lost).
    """

    home: Path
    operator_token: str | None = None
    otlp_endpoint: str | None = None
    trusted_proxies: tuple[str, ...] = ()
    drain_s: float | None = None
    supervised: bool = False

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Settings:
        """Settings from environment variables, every path absolute."""
        home = (
            Path(environ.get("LORALEDGER_HOME") or Path.home() / ".local" / "share" / "loraledger")
            .expanduser()
            .absolute()
        )
        return cls(
            home=home,
            catalog=Path(environ.get("LORALEDGER_CATALOG") or "examples/catalog.yaml").absolute(),
            dsn=patient(environ.get("LORALEDGER_DSN") or f"chdb://{home / 'ledger'}", environ),
            spool=Path(environ.get("LORALEDGER_SPOOL") or home / "spool").absolute(),
            out=Path(environ.get("LORALEDGER_OUT") or home / "invoices").absolute(),
            snapshot=Path(environ.get("LORALEDGER_SNAPSHOT") or home / "snapshot.json").absolute(),
            operator_token=environ.get("LORALEDGER_OPERATOR_TOKEN") or None,
            otlp_endpoint=environ.get("LORALEDGER_OTLP_ENDPOINT") or None,
            trusted_proxies=_proxies(environ.get("LORALEDGER_TRUSTED_PROXIES", "")),
            drain_s=_seconds("LORALEDGER_DRAIN_S", environ.get("LORALEDGER_DRAIN_S")),
            fonts=font_folders(environ),
            supervised=environ.get("LORALEDGER_SUPERVISED", "") in {"1", "true", "yes"},
        )

    def at(self, home: Path, environ: Mapping[str, str]) -> Settings:
        """The same with another home; what the environment names explicitly stays."""
        moved = Settings.from_environ({**environ, "LORALEDGER_HOME": str(home)})
        return replace(moved, catalog=self.catalog)

    def environment(self) -> dict[str, str]:
        """These settings as environment variables, for a child process."""
        return {
            "LORALEDGER_HOME": str(self.home),
            "LORALEDGER_CATALOG": str(self.catalog),
            "LORALEDGER_DSN": self.dsn,
            "LORALEDGER_SPOOL": str(self.spool),
            "LORALEDGER_OUT": str(self.out),
            "LORALEDGER_SNAPSHOT": str(self.snapshot),
            "LORALEDGER_FONTS": os.pathsep.join(map(str, self.fonts)),
            "LORALEDGER_SUPERVISED": str(int(self.supervised)),
        }

    def secret(self) -> bytes:
        """The key that salts the prefix cache per tenant: made once, readable by the owner alone."""
        path = self.home / "secret"
        if not path.exists():
            self.home.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_hex(32))
        return bytes.fromhex(path.read_text().strip())


def _proxies(text: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    for proxy in found:
        try:
            ipaddress.ip_network(proxy)
        except ValueError as error:
            raise SettingInvalid("LORALEDGER_TRUSTED_PROXIES", f"{error}; give addresses and networks") from error
    return found


def _seconds(name: str, text: str | None) -> float | None:
    if not text:
        return None
    with contextlib.suppress(ValueError):
        if 0 <= (seconds := float(text)) <= 3600:
            return seconds
    raise SettingInvalid(name, f"{text!r} is not a number of seconds from 0 to 3600")
