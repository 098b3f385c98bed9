#!/usr/bin/env bash
# Makes sure that this machine has the servers that the tests start:
#
#   redis-server     child processes, a cluster and sentinels
#   Redis 8, Valkey  containers, where a Docker engine answers or may be installed
#   emulators        of DynamoDB (dynamo/setup.sh) and Firestore (firestore.sh)
#
# It installs packages only as root on Debian or Ubuntu, and only with WEIR_SETUP=1 or without
# a terminal; otherwise it says what is missing. What is there stays as it is. Running it
# again costs little.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/servers/lib.sh
. "$here/lib.sh"

failed=0
if program=$(command -v "${WEIR_REDIS_SERVER:-redis-server}"); then
	say "Redis: $program, $("$program" --version | sed 's/ sha=.*//')"
elif may_install; then
	install_packages redis-server
	say "Redis: $(redis-server --version | sed 's/ sha=.*//')"
else
	say "redis-server is missing: install it (Debian: apt-get install redis-server), run this with WEIR_SETUP=1, or name running servers in WEIR_TEST_REDIS"
	failed=1
fi
"$here/images.sh" || failed=1
for other in "$here/dynamo/setup.sh" "$here/firestore.sh"; do
	[ ! -x "$other" ] || "$other" || failed=1
done
exit $failed
