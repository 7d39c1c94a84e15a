#!/usr/bin/env bash
# Lock what pyproject.toml asks for. peers.txt holds everything but the packages of `make test-ecosystem`. The other
# files agree with it, except for the Rucio server, which has an environment of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=$1
shift

lock() {
    local name=$1
    shift
    "$uv" pip compile pyproject.toml --quiet --python-version 3.11 --generate-hashes --no-header --no-annotate \
        --no-emit-find-links --no-emit-index-url --output-file "requirements/$name.txt" "$@"
}

lock peers --extra all --extra dask-awkward --extra demo --extra xrootd --group build --group dev --group docs --group peers "$@"
lock demo --extra demo --constraint requirements/peers.txt
lock docs --extra reports --group docs --constraint requirements/peers.txt
lock wheel --group wheel --constraint requirements/peers.txt
lock build --extra reports --group build --constraint requirements/peers.txt
lock ecosystem --extra rucio --group ecosystem --constraint requirements/peers.txt
lock rucio-server --group rucio-server
