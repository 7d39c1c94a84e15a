#!/bin/sh
# Installs the servers of tests/storage as far as this machine allows, and prints their versions. What it cannot
# install is named; its tests are then skipped by name.
set -u
cd "$(dirname "$0")/../.."
HADOOP=target/hadoop
JAVA_OPENS="--add-opens java.base/java.lang=ALL-UNNAMED"

install_packages() {
    missing=
    for package in "$@"; do
        dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -q '^install ok' || missing="$missing $package"
    done
    [ -z "$missing" ] && return 0
    if [ "$(id -u)" != 0 ]; then
        echo "cannot install$missing: only root may; run this as root, or install them by hand"
        return 1
    fi
    if [ -z "${lists_are_fresh:-}" ]; then
        apt-get -qq update || { echo "cannot install$missing: apt-get update failed"; return 1; }
        lists_are_fresh=yes
    fi
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $missing >/dev/null \
        || { echo "cannot install$missing: apt-get failed"; return 1; }
}

install_hadoop() {
    [ -f "$HADOOP/lib/.complete" ] && return 0
    command -v mvn >/dev/null || install_packages maven || return 1
    mkdir -p "$HADOOP"
    mvn -q --batch-mode -f tests/storage/hadoop.xml dependency:copy-dependencies -DincludeScope=runtime \
        -DoutputDirectory="$PWD/$HADOOP/lib" && touch "$HADOOP/lib/.complete" \
        || { echo "cannot install HDFS: Maven failed"; return 1; }
}

versions() {
    for package in "$@"; do
        dpkg-query -W -f '  ${Package} ${Version}\n' "$package" 2>/dev/null || echo "  $package: not there"
    done
    jar=$(ls "$HADOOP"/lib/hadoop-hdfs-[0-9]*.jar 2>/dev/null)
    if [ -n "$jar" ]; then echo "  $(basename "$jar" .jar)"; else echo "  hadoop-hdfs: not there"; fi
    # shellcheck disable=SC2086
    java $JAVA_OPENS -version 2>&1 | sed -n 's/^/  /;1p'
}

BASE="nginx-light xrootd-server xrootd-client openssl curl gcc"
CEPH="ceph-mon ceph-osd ceph-mds radosgw ceph-common ceph-fuse attr"
MOOSE="moosefs-master moosefs-chunkserver moosefs-client"
GLUSTER="glusterfs-server glusterfs-client"
# shellcheck disable=SC2086
for group in "$BASE" "xrootd-fuse" "btrfs-progs" "fio" "$CEPH" "$MOOSE" "$GLUSTER" "openjdk-17-jre-headless"; do
    install_packages $group
done
install_hadoop
echo "The servers of tests/storage:"
# shellcheck disable=SC2086
versions $BASE xrootd-fuse $CEPH $MOOSE $GLUSTER
