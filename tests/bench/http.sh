#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What the HTTP server of the daemons costs by itself: requests with the 15 KB body of 500 node names over keep-alive,
# plain and TLS, in a closed and in an open loop, new connections, and a body of 50 MB taken in pieces.
#
#     tests/bench/http.sh BUILD/bin
#
# Each is measured three times, for two seconds, and the round with the best p99 is told; "late" is how long after
# its time the client itself started a request, which other work on the machine delays. Server and client get a core each where there are two. The form of the output is that of loss.sh.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
if [ $# -ne 1 ] || [ ! -x "$1/bench_http" ] || [ ! -x "$1/http_load" ]; then
	echo "usage: $0 DIRECTORY-OF-bench_http-AND-http_load (a release build)" >&2
	exit 2
fi
bin=$(cd "$1" && pwd)
buffer=32768
rounds=3

work=$(mktemp -d)
server=
stop() {
	[ -z "$server" ] || kill "$server" 2>/dev/null || true
	[ -z "$server" ] || wait "$server" 2>/dev/null || true
	server=
}
trap 'stop; rm -rf "$work"' EXIT
trap 'exit 2' INT TERM
cd "$work"

on_core() {
	local core=$1
	shift
	if [ "$(nproc)" -ge 2 ] && command -v taskset >/dev/null; then
		exec taskset -c "$core" "$@"
	else
		exec "$@"
	fi
}

head -c 15000 /dev/zero | tr '\0' n >names
head -c 52428800 /dev/zero | tr '\0' n >large
tls=
if command -v openssl >/dev/null &&
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key -out cert -days 2 \
		-subj /CN=localhost 2>/dev/null; then
	tls=yes
fi

# measure NAME SCHEME PATH GOALS [option...]: GOALS is "what:goal what:goal", or "".
measure() {
	local name=$1 scheme=$2 path=$3 goals=$4 port
	shift 4
	if [ "$scheme" = https ] && [ -z "$tls" ]; then
		printf 'skipped\t%s: no certificate without openssl\n' "$name"
		return
	fi
	rm -f port
	if [ "$scheme" = https ]; then
		(on_core 0 "$bin/bench_http" $buffer cert key) >port &
	else
		(on_core 0 "$bin/bench_http" $buffer) >port &
	fi
	server=$!
	for _ in $(seq 100); do
		[ ! -s port ] || break
		sleep 0.05
	done
	port=$(cat port)
	# Other work on the machine delays a round; what it costs without that shows in the best one.
	for round in $(seq "$rounds"); do
		(on_core 1 "$bin/http_load" --duration 2000 --measures "$name" --server "$server" "$@" "$scheme://127.0.0.1:$port$path") >"$round" ||
			echo "# $name: there were errors"
		printf '%s %s\n' "$(awk -F'\t' '$1 ~ /: p99$/ { print $2 }' "$round")" "$round"
	done >list
	grep '^#' list || true
	cp "$(grep -v '^#' list | sort -g | head -1 | cut -d' ' -f2)" result
	awk -F'\t' -v OFS='\t' -v goals="$goals" '
		BEGIN { n = split(goals, list, " "); for (i = 1; i <= n; i++) { split(list[i], g, "="); goal[g[1]] = g[2] } }
		{ what = $1; sub(/^.*: /, "", what); gsub(/ /, "_", what) }
		what == "errors" { $4 = "<1" }
		what in goal { $4 = goal[what] }
		what ~ /^(requests|p50|p99|p99.9|late_p99|body|errors|server_CPU_each)$/ { print }' result
	awk -v name="$name" '/^VmRSS/ { printf "%s: server memory\t%.1f\tMB\t-\n", name, $2 / 1024 }' "/proc/$server/status"
	stop
}

{
	measure "15 KB, keep-alive" http /collect "requests=>5000" -b names -c 8
	measure "15 KB, keep-alive, TLS" https /collect "requests=>5000" -b names -c 8
	measure "15 KB, 2,500/s" http /collect "p99=<1000" -b names -c 16 -r 2500
	measure "15 KB, 2,500/s, TLS" https /collect "p99=<1000" -b names -c 16 -r 2500
	measure "15 KB, 300 clients, new connections" http /collect "" -b names -c 300 -k
	measure "15 KB, 16 clients, new connections, TLS" https /collect "" -b names -c 16 -k
	measure "50 MB, in pieces" http /eat "body=>200" -b large -c 1
	measure "50 MB, in pieces, TLS" https /eat "body=>200" -b large -c 1
} >measures
awk -f "$here/report.awk" measures
