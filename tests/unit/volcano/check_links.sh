#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_links.sh PROGRAM CC ARCHIVES: what links the library for Volcano's scheduler links nothing of gRPC, libcurl, libpci and hwloc,
# and the Go linker gets all that the library needs: ARCHIVES is the file with its arguments.
set -eu
found=$(nm "$1" | grep -E ' (grpc_|curl_|pci_|hwloc_)' || true)
libraries=$(readelf -d "$1" | grep -E 'NEEDED.*(grpc|curl|pci|hwloc)' || true)
[ -z "$found$libraries" ] || { echo "$1 has: $found $libraries"; exit 1; }
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
echo 'int main(void) { return 0; }' >"$directory/main.c"
# shellcheck disable=SC2046 # one argument a word
"$2" -o "$directory/main" "$directory/main.c" -Wl,-u,gt_volcano_new $(cat "$3")
