#!/usr/bin/env bash
# Installs the judges that some tests run (promtool, amtool, pdftotext, chromium, rotel) when they are missing; those of the system
# only as root on Debian or Ubuntu. Where it cannot, it says what is missing; those tests then skip with the same words.
set -euo pipefail
cd "$(dirname "$0")/.."

root_with_apt() { [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; }
apt_install() { DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" > /dev/null; }

missing=()
command -v promtool > /dev/null || missing+=(prometheus)
command -v amtool > /dev/null || missing+=(prometheus-alertmanager)
command -v pdftotext > /dev/null || missing+=(poppler-utils)
command -v chromium > /dev/null || command -v google-chrome > /dev/null || missing+=(chromium)
if [ ${#missing[@]} -gt 0 ]; then
    if root_with_apt; then
        echo "Installing ${missing[*]} ..."
        apt-get update -qq > /dev/null
        apt_install "${missing[@]}"
    else
        echo "Not installed and not root: ${missing[*]}. The tests that need them will skip." >&2
    fi
fi

[ ! -x .venv/bin/python ] || scripts/focus_gates.sh --toolkit || echo "focus-data-toolkit cannot be installed here. Its test will skip." >&2

# rotel, a real OTLP collector: a binary in a wheel that not every system can take, linked to the shared library of its Python.
python=.venv/bin/python
[ -x "$python" ] || exit 0
agent='import rotel.agent, pathlib; print(pathlib.Path(rotel.agent.__file__).with_name("rotel-agent"))'
runs() { ! ldd "$("$python" -c "$agent")" | grep 'not found' > /dev/null; }
if ! "$python" -c 'import rotel' 2> /dev/null; then
    "$python" -m pip --disable-pip-version-check install --quiet --constraint constraints.txt rotel 2> /dev/null ||
        { echo "rotel cannot be installed here. The test that needs it will skip." >&2; exit 0; }
fi
library=libpython$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
runs || { root_with_apt && apt_install "$library"; } || echo "$library is not installed, and rotel needs it. Its test will skip." >&2
