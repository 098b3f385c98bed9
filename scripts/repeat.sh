#!/usr/bin/env bash
# Runs the conformance suite many times on one store, each time with a new seed, and says how
# often it failed:
#
#	go build -o conform ./conformance/backends/cmd/conform
#	scripts/repeat.sh ./conform 20 out/redis redis://127.0.0.1:6379/0
#
# The report of each run is kept as <out>-<n>.txt and .json; the JSON has the seed, with which
# -seed repeats the random choices. What follows the URL goes to the command as it is. The
# exit code is 1 when a run failed.
set -euo pipefail

if [[ $# -lt 4 ]]; then
	sed -n '2,/^set/p' "$0" | sed -n 's/^# \{0,1\}//p' >&2
	exit 2
fi
conform=$1 runs=$2 out=$3 store=$4
shift 4
mkdir -p "$(dirname "$out")"

failed=0
for ((n = 1; n <= runs; n++)); do
	verdict=passed
	if ! "$conform" -store "$store" -o "$out-$n" "$@" >"$out-$n.log" 2>&1; then
		verdict=FAILED
		failed=$((failed + 1))
	fi
	seed=$(sed -n 's/^ *"seed": *\([0-9]*\).*/\1/p' "$out-$n.json" 2>/dev/null | head -n 1) || true
	echo "$store run $n: $verdict, seed ${seed:-unknown}"
done
echo "$store: $failed of $runs runs failed"
[[ $failed -eq 0 ]]
