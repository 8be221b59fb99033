#!/usr/bin/env bash
# Measures everything and makes BENCHMARKS.md, the charts in docs/, and results.txt
# and summary.csv in this directory. Arguments: see go run . -help.
set -euo pipefail
cd "$(dirname "$0")"
export GOWORK=off
exec go run . "$@"
