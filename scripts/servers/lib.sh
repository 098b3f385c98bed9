# Words that the scripts beside this one share. Sourced, not run.

say() { printf '%s\n' "$*" >&2; }

# may_install reports whether packages may be installed here.
may_install() {
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && { [ "${WEIR_SETUP:-}" = 1 ] || [ ! -t 0 ]; }
}

# install_packages NAME... installs Debian packages, and does not let them start services.
install_packages() {
	local log policy=/usr/sbin/policy-rc.d ours=
	log=$(mktemp)
	say "installing $*"
	if [ ! -e "$policy" ]; then
		printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy"
		ours=1
	fi
	local rc=0
	{ apt-get install -y -qq --no-install-recommends "$@" ||
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"; }; } >"$log" 2>&1 </dev/null || rc=$?
	[ -z "$ours" ] || rm -f "$policy"
	[ "$rc" = 0 ] || tail -20 "$log" >&2
	rm -f "$log"
	return "$rc"
}
