"""`loraledger calibrate` on the real engine, and from steps that were logged; and what serving does with the profile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from catalog.model import BaseModelSpec, Engine
from loraledger.calibrate import drive_by_http, read_steps
from loraledger.serve import step_profile
from serving.calibration.corners import CORNERS
from serving.calibration.fit import CalibrationRefused
from serving.step_model.profile import DEFAULT_PROFILE, Profile, ProfileInvalid
from serving.step_model.step_class import STEP_CLASSES

ROOT = Path(__file__).parents[2]
TINY = BaseModelSpec(name="tiny-llama")


def calibrate(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("LORALEDGER_")}
    return subprocess.run(
        [sys.executable, "-m", "loraledger", "calibrate", *arguments],
        cwd=ROOT,
        env={**clean, "LORALEDGER_HOME": str(home), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.engine
def test_an_engine_gets_a_profile_that_predicts_what_it_did_not_see(tmp_path: Path) -> None:
    """Twelve phases are enough; the same steps, read from their log, give the same profile."""
    pytest.importorskip("vllm", reason="vllm is not installed")
    engine_home = Path(tempfile.gettempdir()) / f"loraledger-tests-{os.getuid()}"
    log, out = tmp_path / "steps.jsonl", tmp_path / "profile.json"
    done = calibrate(engine_home, "--phases", "12", "--log", str(log), "--out", str(out), "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    found = Profile.load(out)
    assert said["hash"] == found.hash
    assert found.steps is not None
    assert found.steps >= 200
    assert said["method"] == found.method
    assert said["corners"] == found.corners
    assert {name.partition("-")[2] for name in found.corners} >= {"none", "alone", "beside-base", "several"}
    assert set(found.error_ppm) <= set(STEP_CLASSES)
    assert set(found.error_ppm) >= {"decode-none", "decode-alone", "decode-beside-base"}
    assert said["unseen"] == [name for name in CORNERS if found.corners.get(name, 0) < 5]
    again = tmp_path / "again.json"
    table = calibrate(engine_home, "--steps", str(log), "--out", str(again))
    assert table.returncode == 0, table.stderr
    assert Profile.load(again) == found
    assert "median error" in table.stdout
    assert "decode-beside-base" in table.stdout
    assert f"{found.seen['adapters']} adapters in a step" in table.stdout


def test_too_few_steps_are_refused_and_a_bad_line_is_named(tmp_path: Path) -> None:
    steps = tmp_path / "steps.jsonl"
    steps.write_text('[0,5000000,[[16,0,0,null,0,"r"]]]\n' * 199)
    done = calibrate(tmp_path, "--steps", str(steps), "--out", str(tmp_path / "p.json"))
    assert done.returncode == 1
    assert (
        done.stderr.strip() == "error: could not fit step profile: 199 steps with rows, 200 are needed; run more load"
    )
    assert not (tmp_path / "p.json").exists()
    steps.write_text('[0,5000000,[]]\n[0,"x"\n')
    with pytest.raises(CalibrationRefused, match=r"steps.jsonl:2: "):
        read_steps([steps])


class _Refusing(BaseHTTPRequestHandler):
    """Lists one model, and takes no request."""

    def do_GET(self) -> None:
        self._answer(200, {"data": [{"id": "tiny", "max_model_len": 512}]})

    def do_POST(self) -> None:
        self._answer(503, {"error": "busy"})

    def _answer(self, status: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


def test_an_engine_that_does_not_take_the_load_is_refused_in_words() -> None:
    """Whether nobody listens, or requests in the middle of a phase are answered with an error."""
    engine = Engine(id="gpu-7", gpu_type="h100")
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(CalibrationRefused, match="completions answered 503"):
            drive_by_http(url, engine, 2, 1, lambda _: None)
        server.shutdown()
    with pytest.raises(CalibrationRefused, match=f"engine at {url}"):
        drive_by_http(url, engine, 2, 1, lambda _: None)


def test_phases_of_two_logs_stay_apart(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("[0,1,[]]\n[3,1,[]]\n")
    assert [sample.phase for sample in read_steps([tmp_path / "a", tmp_path / "b"])] == [0, 3, 4, 7]


def test_serving_takes_the_profile_that_the_catalog_names(tmp_path: Path) -> None:
    told: list[str] = []
    path = tmp_path / "profile.json"
    other = Profile(1, 2, 3, 4, 5, 6, 7, 8, build="other")
    other.save(path)
    engine = Engine(id="cpu-0", gpu_type="demo-cpu")
    assert step_profile(engine.model_copy(update={"profile": str(path)}), TINY, told.append) == other
    assert step_profile(engine, TINY, told.append) == DEFAULT_PROFILE
    assert not told
    assert step_profile(engine, BaseModelSpec(name="mid", path="builtin:mid"), told.append) == DEFAULT_PROFILE
    assert "run loraledger calibrate" in told[0]
    path.write_text("{}")
    with pytest.raises(ProfileInvalid, match="none of engine-step/1, engine-step/2"):
        step_profile(engine.model_copy(update={"profile": str(path)}), TINY, told.append)
