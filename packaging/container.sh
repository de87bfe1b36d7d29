#!/bin/sh
# Builds the container of packaging/Containerfile and asks it: container.sh build/package/packages PROGRAM
# With buildah, which needs no daemon; its image stays in a folder of its own. Needs root.
set -eu
packages=$(cd "$1" && pwd)
program=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
store=$(mktemp -d)
trap 'rm -rf "$store"' EXIT
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
image() { buildah --root "$store/images" --runroot "$store/run" "$@"; }

image bud --quiet -t steelyard "$packages" >/dev/null
container=$(image from steelyard)
entry=$(image inspect --type image --format '{{index .OCIv1.Config.Entrypoint 0}}' steelyard)
cat >"$store/run.toml" <<RUN
model = "llama-3.1-8b"
engine = "fsdp2"
[cluster]
device = "h100-sxm-80gb"
devices = 8
[training]
sequence_length = 4096
RUN
mkdir "$store/here"
mv "$store/run.toml" "$store/here"
image run --volume "$store/here:/work:ro" --workingdir /work "$container" -- "$entry" weigh run.toml --json >"$store/told"
(cd "$store/here" && "$program" weigh run.toml --json) >"$store/expected"
cmp "$store/told" "$store/expected"
grep -q '"steelyard.prediction/1"' "$store/told"
echo "ok      a container from scratch ($(image images --format '{{.Size}}' steelyard)) weighs run.toml of the folder that is mounted, as the build does"
