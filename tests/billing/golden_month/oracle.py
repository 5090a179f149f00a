"""The golden month reckoned from its raw lines by fractions: standard library alone, no name of the ledger's.

`python -I -S oracle.py SPOOL` writes JSON; amounts are cents exactly or fractions as `n/d`.
"""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from fractions import Fraction as F
from pathlib import Path
from typing import Any

Json = dict[str, Any]
HOUR = 3_600 * 10**9
GPUS = {"e0": 8, "e1": 4}
TYPES = {"e0": "h200", "e1": "l40s"}
PAID = {"ok", "client_abort"}
NO_REQUEST = {"rejected", "bad_request"}
FRESH, CACHED, OUT = F("0.61"), F("0.07"), F("2.43")
BERLIN = ("2026-09-30T22:00", "2026-10-31T23:00", "2026-11-30T23:00")
KOLKATA = ("2026-09-30T18:30", "2026-10-31T18:30", "2026-11-30T18:30")
STARTS = {"clinic": BERLIN, "forge": KOLKATA, "shop": BERLIN}
RATES = {"clinic": (F(1), F(1)), "forge": (F("1.0842"), F("1.0917")), "shop": (F(1), F(1))}
TAX = {"clinic": F("0.19"), "forge": F(0), "shop": F(0)}
UTC_MONTHS = ("2026-09-01T00:00", "2026-10-01T00:00", "2026-11-01T00:00", "2026-12-01T00:00")


def ns(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 10**9


def cents(amount: F) -> F:
    """Half away from zero."""
    twice = abs(amount) * 200
    whole = (twice.numerator // twice.denominator + 1) // 2
    return F(whole if amount >= 0 else -whole, 100)


def price(engine: str, at: int) -> F:
    if engine == "e1":
        return F("1.10")
    return F("4.20") if at >= ns("2026-10-16T00:00") else F("3.60")


def attributes(thing: Json) -> Json:
    return {a["key"]: next(iter(a["value"].values())) for a in thing["attributes"]}


class Facts:
    """What the files say, each thing once."""

    def __init__(self, files: list[Path]) -> None:
        self.events: dict[tuple[str, str, str], Json] = {}
        self.records: dict[str, Json] = {}
        self.bad = 0
        for line in (line for file in files for line in file.read_text().splitlines()):
            try:
                message = json.loads(line)
            except ValueError:
                self.bad += 1
                continue
            for scope in (s for r in message.get("resourceLogs", ()) for s in r["scopeLogs"]):
                for event in scope["logRecords"]:
                    named = attributes(event)
                    key = event["eventName"], named["loraledger.emitter"], named["loraledger.seq"]
                    self.events[key] = json.loads(event["body"]["stringValue"])
            for scope in (s for r in message.get("resourceSpans", ()) for s in r["scopeSpans"]):
                for span in scope["spans"]:
                    record = json.loads(attributes(span)["loraledger.usage.record"])
                    self.records[f"{record['emitter']}:{record['seq']}"] = record

    def named(self, word: str) -> list[Json]:
        return [body for (name, _, _), body in self.events.items() if name.endswith(word)]

    def attempts(self) -> dict[str, Json]:
        """Closed ones, and lost ones: opened, never closed."""
        found = {f"{o['emitter']}:{o['seq']}": {**o, "status": "lost", "slices": None} for o in self.named("opened")}
        return found | self.records

    def cold(self) -> Iterator[tuple[str, str, int, F]]:
        """(tenant, engine, start, ns) of each adapter load, shared by the requests of its UTC month."""
        for window in self.named("window"):
            for adapter, spent in window["cold_ns"].items():
                month = max(m for m in UTC_MONTHS if ns(m) <= window["start_ns"])
                after = UTC_MONTHS[UTC_MONTHS.index(month) + 1]
                users = Counter(
                    a["tenant"]
                    for a in self.attempts().values()
                    if a["adapter"] == adapter and a["engine"] and a["slices"] != [] and a["status"] not in NO_REQUEST
                    and ns(month) <= a["arrival_ns"] < ns(after)
                )  # fmt: skip
                for tenant, count in users.items():
                    share = F(spent * count, users.total())
                    assert share.denominator == 1, "choose loads that can be shared"
                    yield tenant, window["engine"], window["start_ns"], share


def terms(facts: Facts, tenant: str, start: int, end: int, only: str | None = None) -> dict[tuple[str, F], list[F]]:
    """Engine seconds x GPUs by (GPU type, price): base, LoRA, saved, cold; of what the tenant pays."""
    found: defaultdict[tuple[str, F], list[F]] = defaultdict(lambda: [F(0)] * 4)

    def add(engine: str, at: int, position: int, amount: F | int) -> None:
        if start <= at < end:
            group = found[TYPES[engine], price(engine, at)]
            group[position] += F(amount * GPUS[engine], HOUR)

    attempts = facts.attempts()
    mine = {
        k
        for k, a in attempts.items()
        if a["tenant"] == tenant and a["status"] in PAID and only in (None, a["request_id"])
    }
    for window in facts.named("window"):
        for share in (s for s in window["shares"] if s["attempt"] in mine):
            add(window["engine"], window["start_ns"], 0, share["base_ns"])
            add(window["engine"], window["start_ns"], 1, share["adapter_ns"])
    for attempt in (attempts[key] for key in mine):
        for part in attempt["slices"]:
            base, lora = part["kv_saved_base_ns"], part["kv_saved_adapter_ns"]
            for position, amount in ((0, base), (1, lora), (2, base + lora)):
                add(attempt["engine"], part["start_ns"], position, amount)
    if only is None:
        for who, engine, at, spent in facts.cold():
            if who == tenant:
                add(engine, at, 3, spent)
    return found


def cost_plus(facts: Facts, tenant: str, start: int, end: int, rate: F) -> list[F]:
    lines: list[F] = []
    cost = F(0)
    for (_, per_hour), (base, lora, saved, cold) in sorted(terms(facts, tenant, start, end).items()):
        for hours in (base, lora, -saved, cold):
            lines.append(cents(hours * per_hour * rate))
            cost += hours * per_hour
    return [*lines, cents(cost / 4 * rate)] if lines else []


def per_token(facts: Facts, start: int, end: int) -> list[F]:
    done = [
        r
        for r in facts.records.values()
        if r["tenant"] == "shop" and r["status"] in PAID and start <= r["finished_ns"] < end
    ]
    cached, out = sum(r["cached_tokens"] for r in done), sum(r["output_tokens_delivered"] for r in done)
    fresh = sum(r["input_tokens"] for r in done) - cached
    lines = [cents(F(n, 10**6) * p) for n, p in ((fresh, FRESH), (cached, CACHED), (out, OUT))]
    return [*lines, -cents((sum(lines, F(0)) - 1) * F("0.15"))]


def month(facts: Facts, tenant: str, number: int) -> list[F]:
    start, end = (ns(text) for text in STARTS[tenant][number : number + 2])
    if tenant == "shop":
        return per_token(facts, start, end)
    return cost_plus(facts, tenant, start, end, RATES[tenant][number])


def disputed(facts: Facts) -> F:
    """What request f3 cost: its own time, and its part of loading the adapter, by requests of the tenant's month."""
    begin, until = (ns(text) for text in KOLKATA[:2])
    own = terms(facts, "forge", begin, until, "req-f3").items()
    loaded = {key: cold for key, (_, _, _, cold) in terms(facts, "forge", begin, until).items()}
    asked = sum(
        r["tenant"] == "forge" and r["adapter"] == "code-complete" and begin <= r["finished_ns"] < until
        for r in facts.records.values()
    )
    ((key, (base, lora, saved, _)),) = own
    parts = [hours * key[1] * RATES["forge"][0] for hours in (base, lora, -saved, loaded[key] / asked)]
    return sum((cents(part) for part in [*parts, sum(parts, F(0)) / 4]), F(0))


def engine_hours(facts: Facts) -> dict[str, dict[str, str]]:
    """By engine and hour: what the GPUs cost, and each owner's part of it."""
    rented: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for session in facts.named("session"):
        rented[session["engine"], session["session"]][session["event"]] = session["at_ns"]
    owned: defaultdict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    for (engine, _), moments in rented.items():
        at = moments["started"]
        while at < moments["stopped"]:
            until = min(moments["stopped"], at - at % HOUR + HOUR)
            owned[engine, at - at % HOUR]["rented"] += until - at
            at = until
    for w in facts.named("window"):
        hour = owned[w["engine"], w["start_ns"] - w["start_ns"] % HOUR]
        parts = {
            "idle": w["idle_ns"], "system": sum(w["system_ns"].values()), "cold": sum(w["cold_ns"].values()),
            "unattributed": w["unattributed_ns"], "recompute": sum(s["recompute_ns"] for s in w["shares"]),
            "tenants": sum(s["base_ns"] + s["adapter_ns"] for s in w["shares"]),
        }  # fmt: skip
        hour.update(parts | {"down": -sum(parts.values())})
    found = {}
    for (engine, at), spent in sorted(owned.items()):
        spent["down"] += spent["rented"]
        name = f"{engine} {datetime.fromtimestamp(at // 10**9, UTC):%Y-%m-%dT%H:%M:%SZ}"
        found[name] = {who: str(F(n * GPUS[engine], HOUR) * price(engine, at)) for who, n in spent.items() if n}
    return found


def main(spool: Path) -> None:
    october = [spool / "october.jsonl", spool / "october-again.jsonl"]
    then = Facts(october)
    later = Facts([*october, spool / "late.jsonl"])
    end = Facts([*october, spool / "late.jsonl", spool / "november.jsonl"])
    said: Json = {"bad": end.bad, "engine_hours": engine_hours(end), "invoices": {}, "known": {}}
    for tenant in STARTS:
        first, known, second = month(then, tenant, 0), month(later, tenant, 0), month(end, tenant, 1)
        corrected = sum(known, F(0)) - sum(first, F(0))
        assert corrected > 0
        for name, lines, more in (("2026-10", first, F(0)), ("2026-11", second, corrected)):
            net = sum(lines, more)
            tax = cents(net * TAX[tenant])
            said["invoices"][f"{name} {tenant}"] = {
                "lines": [str(line) for line in lines], "corrections": str(more), "net": str(net), "tax": str(tax),
                "gross": str(net + tax),
            }  # fmt: skip
        said["known"][tenant] = str(sum(known, F(0)))
    said["disputed"] = str(disputed(later))
    json.dump(said, sys.stdout, indent=1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
