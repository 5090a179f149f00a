#!/usr/bin/env bash
# Installs the two FOCUS validators, each in an environment of its own under .venv-tools/ (their pins contradict ours).
# focus-validator needs Python 3.12 or newer; without one it is left out, and this says so. `--toolkit` leaves it out anyway.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=.venv-tools

if [ ! -x "$tools/focus-toolkit/bin/focus-toolkit" ]; then
  .venv/bin/python -m venv "$tools/focus-toolkit"
  "$tools/focus-toolkit/bin/pip" install --quiet focus-data-toolkit==0.14.1
fi

if [ "${1:-}" != --toolkit ] && [ ! -x "$tools/focus-validator/bin/focus-validator" ]; then
  found=""
  for candidate in python3.13 python3.12 "$HOME"/.pyenv/versions/3.12.*/bin/python3.12; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
      found=$candidate
      break
    fi
  done
  if [ -z "$found" ]; then
    echo "focus-validator is not installed: it needs Python 3.12 or newer, and there is none" >&2
  else
    # A plain install breaks: it pins numpy<2, and newer pyarrow needs numpy 2.
    "$found" -m venv "$tools/focus-validator"
    "$tools/focus-validator/bin/pip" install --quiet focus-validator==2.2.1 'pyarrow<22' 'numpy<2'
  fi
fi
