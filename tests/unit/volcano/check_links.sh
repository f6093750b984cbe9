#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_links.sh PROGRAM: what links the library for Volcano's scheduler links nothing of gRPC, libcurl, libpci and hwloc.
set -eu
found=$(nm "$1" | grep -E ' (grpc_|curl_|pci_|hwloc_)' || true)
libraries=$(readelf -d "$1" | grep -E 'NEEDED.*(grpc|curl|pci|hwloc)' || true)
[ -z "$found$libraries" ] || { echo "$1 has: $found $libraries"; exit 1; }
