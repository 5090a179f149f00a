"""Documents and code name the same things: what there is is documented, and what is documented is there."""

from __future__ import annotations

import importlib.util
import re
from pathlib import PurePosixPath

from alerts.rules import alerts, recorded_names
from serving.wire.keys import ENDPOINT_KEY, TURN_KEY, TURNS_KEY
from telemetry import names
from telemetry.names import Attr, EventName, SpanName
from telemetry.otlp_encode import ATTR_EMITTER, ATTR_SEQ
from tests.docs.pages import PAGES, ROOT, TEXT, found, strange

ROOMS = ("alerts", "billing", "catalog", "dashboards", "loraledger", "pipelines", "serving", "telemetry")
SOURCES = "\n".join(path.read_text() for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")))
VARIABLE = r"\bLORALEDGER_[A-Z_]+[A-Z]\b"
INTERNAL = {"LORALEDGER_ENGINE_LOG"}
"""Variables that a process sets for its own children: nobody else has a use for them."""
SUFFIXES = {"histogram": ("_bucket", "_count", "_sum", ""), "counter": ("",), "gauge": ("",)}


def constants(of: type) -> set[str]:
    return {value for name, value in vars(of).items() if name.isupper()}


def test_every_variable_is_in_the_readme_and_every_variable_of_a_page_is_read() -> None:
    known = set(re.findall(VARIABLE, SOURCES)) - INTERNAL
    tests = set(re.findall(VARIABLE, (ROOT / "conftest.py").read_text()))
    tests |= {name for path in (ROOT / "tests").rglob("*.py") for name in re.findall(VARIABLE, path.read_text())}
    assert known - set(re.findall(VARIABLE, PAGES["README.md"])) == set()
    assert tests - known - INTERNAL - set(re.findall(VARIABLE, PAGES["CONTRIBUTING.md"])) == set()
    assert strange(VARIABLE, known | tests) == {}


def test_every_metric_of_a_page_is_declared() -> None:
    """That each one declared is documented is held where docs/metrics.md is compared with what is generated."""
    series = {metric.name + suffix for metric in names.METRICS for suffix in SUFFIXES[metric.kind]}
    prefixes = {name[: found.end()] for name in series for found in re.finditer("_", name)} | {
        f"{name}_" for name in series
    }
    flags = {"lora_modules"}
    assert strange(r"\b(?:lora|loraledger|kv_pool|gen_ai_server)_[a-z0-9_]+\b", series | prefixes | flags) == {}
    assert strange(r"`([a-z]+(?::[a-z0-9_]+)+)`", recorded_names()) == {}


def test_every_alert_of_a_page_is_a_rule() -> None:
    assert strange(r"\bLora[A-Z][A-Za-z]+\b", {alert.name for alert in alerts()}) == {}


def test_every_attribute_span_and_event_is_on_the_page_of_tracing() -> None:
    page = PAGES["docs/tracing.md"]
    events, attributes, spans = constants(EventName), constants(Attr), constants(SpanName)
    assert {
        name for name in events | attributes | spans if not re.search(rf"[`─ ]{re.escape(name)}[` ;]", page)
    } == set()
    known = events | attributes | {ATTR_EMITTER, ATTR_SEQ}
    assert strange(r"(?<!ON )\b(?:loraledger|gen_ai)\.[a-z_]+(?:\.[a-z_]+)*\b", known) == {}


def test_every_key_of_a_lone_engine_is_on_its_page() -> None:
    rows = re.findall(r"^\| (`[^|]+) \|", PAGES["docs/remote-engines.md"], re.MULTILINE)
    assert {key for row in rows for key in re.findall(r"`(\w+)`", row)} == {
        ENDPOINT_KEY,
        "engine",
        "gpu_type",
        "gpu_count",
        "profile",
        TURNS_KEY,
        TURN_KEY,
        "steps",
    }


def test_every_table_that_a_page_asks_exists() -> None:
    migrations = "\n".join(path.read_text() for path in (ROOT / "billing" / "store" / "migrations").glob("*.sql"))
    known = set(
        re.findall(r"CREATE (?:OR REPLACE )?(?:MATERIALIZED )?(?:TABLE|VIEW) (?:IF NOT EXISTS )?(\w+)", migrations)
    )
    assert len(known) > 40
    roles = set(re.findall(r"CREATE ROLE IF NOT EXISTS (\w+)", PAGES["deploy/roles.sql"]))
    assert strange(r"`((?:finance|focus)_\w+)`", known | roles | {"focus_gates"}) == {}
    assert strange(r"\b(?:FROM|JOIN) ([a-z]\w+)\b", known | {"system"}) == {}
    assert set(re.findall(r"ON loraledger\.(\w+)", PAGES["deploy/roles.sql"])) <= known
    assert {view for view in known if view.startswith(("finance_", "focus_")) and "_version" not in view} <= set(
        re.findall(r"`(\w+)`", PAGES["docs/finance-sql.md"])
    )


def test_every_file_that_a_page_names_exists() -> None:
    kept = [
        path.relative_to(ROOT) for path in ROOT.rglob("*") if not {".git", ".venv", "__pycache__"} & set(path.parts)
    ]
    tails = {"/".join(path.parts[-n:]) for path in kept for n in range(1, len(path.parts) + 1)}
    file = r"`((?:[\w.-]+/)*[\w.*-]+\.(?:py|sql|md|yaml|toml|sh|jsonl|j2))`"
    missing = {
        page: gone
        for page, files in found(file).items()
        if (gone := {name for name in files if name not in tails and not any(ROOT.glob(name))} - MADE)
    }
    assert missing == {}
    folder = r"`([a-z][\w.-]*(?:/[\w.-]+)*/?)`"
    inside = {word for words in found(folder).values() for word in words if word.split("/")[0] in ROOMS and "/" in word}
    assert {word for word in inside if not (ROOT / word).exists()} == set()


MADE = {"catalog.yaml", "profile.json", "spool.jsonl"}
"""Files that commands write or that people have."""


def test_every_function_that_a_page_names_by_its_module_exists() -> None:
    modules: dict[str, str] = {}
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            modules[path.stem] = modules.get(path.stem, "") + path.read_text()
    named = {
        name
        for words in found(r"`(?!loraledger\.|gen_ai\.|http\.|url\.)(?:[a-z_]+\.)*([a-z_]+\.\w+)\b[^`/]*`").values()
        for name in words
    }
    known = {
        name for name in named if name.split(".")[0] in modules and name.split(".")[1] not in {"py", "yaml", "json"}
    }
    known -= {"prices.gpu_hours", "tenant_cost.revenue"}  # a field of the catalog, a column
    assert len(known) > 10
    defined = r"^(?:class|def|async def) {0}\b|^{0}\b ?[:=]"
    assert {
        n for n in known if not re.search(defined.format(n.split(".")[1]), modules[n.split(".")[0]], re.MULTILINE)
    } == set()


def test_every_link_of_a_page_leads_somewhere() -> None:
    gone = {
        page: [
            link
            for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
            if "://" not in link and not (ROOT / PurePosixPath(page).parent / link).exists()
        ]
        for page, text in PAGES.items()
    }
    assert {page: links for page, links in gone.items() if links} == {}


def test_every_module_that_a_page_starts_exists() -> None:
    modules = {
        name for words in found(r"python -m ([a-z_.]+)\b").values() for name in words if name.split(".")[0] != "vllm"
    }
    assert modules
    assert {name for name in modules if importlib.util.find_spec(name) is None} == set()


def test_the_pages_are_all_in_the_readme() -> None:
    pages = {path for path in PAGES if re.fullmatch(r"docs/[\w-]+\.md", path)}
    assert pages - set(re.findall(r"\]\((docs/[\w-]+\.md)", PAGES["README.md"])) == set()
    assert len(TEXT) > 100_000


def test_the_lives_of_an_attempt_and_of_a_nanosecond_pass_no_file_twice() -> None:
    """That each file exists is held above."""
    page = PAGES["docs/architecture.md"]
    lives = page[page.index("## The life of one attempt") : page.index("## Exactness")]
    stops = re.findall(r"`([\w/]+\.(?:py|sql))`", lives)
    assert len(stops) > 40
    assert sorted(set(stops)) == sorted(stops)


def test_the_page_of_architecture_has_every_room_and_folder() -> None:
    page = PAGES["docs/architecture.md"]
    for room in ("serving", "billing"):
        inside = page.split(f"### Inside `{room}`")[1].split("##")[0]
        listed = re.findall(r"^\| `(\w+)` \|", inside, re.MULTILINE)
        assert sorted(listed) == sorted(path.parent.name for path in (ROOT / room).glob("*/__init__.py"))
    assert set(ROOMS) == set(re.findall(r"^\| `(\w+)` \|", page.split("### Inside")[0], re.MULTILINE))
