#!/usr/bin/env bash
# Installs what makes the folder with SimGrid, which tests/simulation compares with.
set -euo pipefail
command -v mmdebstrap >/dev/null && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "not installed: mmdebstrap; the comparison with SimGrid is skipped" >&2
    exit 0
fi
apt-get update --quiet
DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends mmdebstrap
