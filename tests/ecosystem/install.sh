#!/usr/bin/env bash
# Installs the servers of tests/ecosystem that are packages of the system.
set -euo pipefail
for program in xrootd cc openssl; do
    if ! PATH="$PATH:/usr/sbin" command -v "$program" >/dev/null; then
        apt-get update --quiet
        DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends xrootd-server \
            xrootd-server-plugins xrootd-client gcc libc6-dev openssl
        break
    fi
done
