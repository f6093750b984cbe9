#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gputopo for a site without a network. The release's files follow below this script's last line.
set -eu
usage() {
	cat <<-END
		sh $0 load                     gives this node's containerd the image
		sh $0 push REGISTRY/PROJECT    pushes images, chart and all other files into a registry of yours (needs python3 and skopeo)
		sh $0 extract DIRECTORY        writes all files: chart, Debian packages, kubectl's plugin, images, sources
	END
}
carried() { sed '1,/^# -- files --$/d' "$0" | tar -x -C "$1"; }
checked() {
	carried "$1" 2>/dev/null && (cd "$1" && sha256sum --quiet --strict -c SHA256SUMS >/dev/null 2>&1) ||
		{ echo "$0: this file is damaged; copy it once more" >&2; exit 1; }
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
case ${1:-help}:$# in
load:1)
	checked "$scratch"
	case $(uname -m) in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; *) arch=$(uname -m) ;; esac
	command -v ctr >/dev/null || { echo "$0: ctr is not there; load needs the containerd of a node" >&2; exit 1; }
	found=
	for image in "$scratch"/*-image-"$arch".tar; do
		[ -e "$image" ] || continue
		ctr -n k8s.io images import "$image"
		found=yes
	done
	[ "$found" ] || { echo "$0: there is no image for $arch in it" >&2; exit 1; }
	;;
push:[23])
	checked "$scratch"
	shift
	python3 "$scratch/publish" "$scratch" "$@"
	;;
extract:2)
	mkdir -p "$2"
	[ -z "$(ls -A "$2")" ] || { echo "$0: $2 is not empty" >&2; exit 1; }
	checked "$scratch"
	cp "$scratch"/* "$2"
	;;
help:* | -h:* | --help:*) usage ;;
*) usage >&2; exit 2 ;;
esac
exit
# -- files --
