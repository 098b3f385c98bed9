#!/usr/bin/env bash
# Installs dynalite, as the lock file beside this script says, into the user's cache folder,
# where package conformance/backends/servers looks for it, and checks for moto_server.
# Nothing is done when it is there already.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/weir/dynalite
command -v node >/dev/null && command -v npm >/dev/null || {
	echo "dynalite needs Node.js 20 or newer, with npm: install both, and run this again" >&2
	exit 1
}
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
if ! cmp -s "$here/package-lock.json" "$cache/installed-lock.json"; then
	cp "$here/package.json" "$here/package-lock.json" "$cache/"
	(cd "$cache" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
	cp "$here/package-lock.json" "$cache/installed-lock.json"
fi
if [ -z "${WEIR_MOTO_SERVER:-}" ] && ! command -v moto_server >/dev/null; then
	echo "moto_server is missing: pip install 'moto[server]==5.2.1', or name it in WEIR_MOTO_SERVER" >&2
	exit 1
fi
