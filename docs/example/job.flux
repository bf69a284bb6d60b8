#!/bin/bash
#FLUX: --job-name=logdur
#FLUX: --nodes=2
#FLUX: --nslots=16
#FLUX: --gpus-per-slot=1
#FLUX: --time-limit=30m
#
# Usage: flux batch job.flux APP [ARGUMENT ...]
# LOGDUR_ROOT is the folder of logdur, IMAGE an Apptainer image with ROCm; without an image, the host's ROCm is used.
set -euo pipefail

: "${LOGDUR_ROOT:?the folder in which logdur is installed}"
run=$PWD/logdur-${FLUX_JOB_ID:-local}
mkdir -p "$run"

container=()
if [ -n "${IMAGE:-}" ]; then
    container=(apptainer exec --rocm --bind "$LOGDUR_ROOT:$LOGDUR_ROOT:ro" --bind "$run:$run" "$IMAGE")
fi

# Every rank logs to a file of its own.
flux run --ntasks=16 --gpus-per-task=1 "${container[@]}" "$LOGDUR_ROOT/bin/omniprobe" --log-location "$run/%r.csv" -- "$@"
"$LOGDUR_ROOT/bin/omniprobe" summary "$run/%r.csv" --by process

# Rank 0 captures the first dispatch of the kernel that CAPTURE names.
if [ -n "${CAPTURE:-}" ]; then
    flux run --ntasks=16 --gpus-per-task=1 "${container[@]}" "$LOGDUR_ROOT/bin/omniprobe" --ranks 0 --log-location /dev/null \
        --capture "$run/%r.ldcap" --capture-kernels "$CAPTURE" -- "$@"
    "$LOGDUR_ROOT/bin/omniprobe" info "$run/0.ldcap"
fi
