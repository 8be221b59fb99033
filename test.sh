#!/usr/bin/env bash
# Runs the tests of every module in this repository; arguments go to go test.
#
# Why a script and no go.work: a workspace makes each build of the root module
# load the requirements of all nested ones (stores, browsers, plots), while a user
# of the root module needs none of them. Nested modules find the root by a replace
# directive, so each also stands alone.
set -euo pipefail
cd "$(dirname "$0")"
export GOWORK=off
git ls-files -co --exclude-standard '*go.mod' | sort | while read -r mod; do
	dir=$(dirname "$mod")
	echo "== $dir"
	(cd "$dir" && go test "$@" ./... </dev/null)
done
