#!/usr/bin/env bash
# Installs the judges that some tests run (promtool, amtool, pdftotext) when they are missing and this is root on Debian or Ubuntu.
# Anywhere else it says what is missing; those tests then skip with the same words.
set -euo pipefail

missing=()
command -v promtool > /dev/null || missing+=(prometheus)
command -v amtool > /dev/null || missing+=(prometheus-alertmanager)
command -v pdftotext > /dev/null || missing+=(poppler-utils)
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    echo "Installing ${missing[*]} ..."
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}"; } > /dev/null
else
    echo "Not installed and not root: ${missing[*]}. The tests that need them will skip." >&2
fi
