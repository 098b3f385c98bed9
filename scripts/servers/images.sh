#!/usr/bin/env bash
# Makes sure that a Docker engine answers and has images of Redis 8 and Valkey.
#
# Where an engine answers that reaches a registry, nothing is done: the tests pull redis:8-alpine
# and valkey/valkey:8-alpine by themselves. Where none answers, Debian's docker.io is installed
# and started, under the conditions of setup.sh. Where the registry cannot be reached, images
# weir/redis:8 and weir/valkey:8 are built of the packages of Debian 13, from the mirror that
# this machine's apt uses.
#
#   images.sh         all of that
#   images.sh stop    ends the engine that this script started, if any
#
# Environment: WEIR_DOCKER_DIR (/var/tmp/weir-docker: the engine's data, log and pid).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/servers/lib.sh
. "$here/lib.sh"
dir=${WEIR_DOCKER_DIR:-/var/tmp/weir-docker}
export DOCKER_BUILDKIT=0 # the classic builder: Debian's docker.io brings no other

answers() { docker version --format '{{.Server.Version}}' 2>/dev/null; }
is_dockerd() { [ -s "$dir/pid" ] && [ "$(cat "/proc/$(cat "$dir/pid")/comm" 2>/dev/null)" = dockerd ]; }

stop() {
	is_dockerd || { rm -f "$dir/pid"; return 0; }
	local pid
	pid=$(cat "$dir/pid")
	kill "$pid"
	for _ in $(seq 150); do [ -d "/proc/$pid" ] || break; sleep 0.1; done
	rm -f "$dir/pid"
}

# start_engine starts dockerd. Without --bip the first engine on a machine reports no gateway
# for its bridge, and a client that believes itself in a container looks for it elsewhere.
start_engine() {
	local version=
	mkdir -p "$dir"
	is_dockerd || rm -f "$dir/pid"
	setsid nohup dockerd --data-root "$dir/data" --exec-root "$dir/exec" --pidfile "$dir/pid" \
		--host unix:///var/run/docker.sock --bip 172.17.0.1/16 >"$dir/log" 2>&1 </dev/null &
	for _ in $(seq 300); do
		if version=$(answers) && [ -n "$version" ]; then break; fi
		sleep 0.1
	done
	[ -n "$version" ] || { say "dockerd does not answer:"; tail -20 "$dir/log" >&2; return 1; }
	say "Docker: started $version, log in $dir/log; end it with $0 stop"
}

have() { docker image inspect "$1" >/dev/null 2>&1; }

# mirror is where this machine's apt gets Debian from.
mirror() {
	local f
	for f in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
		[ -s "$f" ] || continue
		awk '/^URIs:/ {print $2} /^deb / {for (i=2;i<=NF;i++) if ($i ~ /^[a-z]+:\/\//) {print $i; break}}' "$f"
	done | sed 's,/*$,,' | grep -v security | head -1
}

build_images() {
	local key=/usr/share/keyrings/debian-archive-keyring.gpg from
	from=$(mirror)
	[ -n "$from" ] || { say "apt on this machine names no Debian mirror"; return 1; }
	command -v mmdebstrap >/dev/null || install_packages mmdebstrap
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	say "building weir/redis:8 and weir/valkey:8 from $from"
	echo "deb [signed-by=$key] $from trixie main" >"$work/sources.list"
	mmdebstrap --quiet --mode=root --variant=apt --format=tar --include=redis-server,valkey-server \
		--dpkgopt=force-unsafe-io --aptopt='Acquire::Languages "none"' --aptopt='APT::Install-Recommends "false"' \
		trixie "$work/base.tar" "$work/sources.list" >"$work/log" 2>&1 || { tail -20 "$work/log" >&2; return 1; }
	docker import "$work/base.tar" weir/base:trixie >/dev/null
	for server in redis valkey; do
		mkdir "$work/$server"
		cat >"$work/$server/Dockerfile" <<-EOF
			FROM weir/base:trixie
			USER $server
			WORKDIR /var/lib/$server
			EXPOSE 6379
			ENTRYPOINT ["$server-server", "--bind", "0.0.0.0", "--protected-mode", "no", "--save", ""]
			CMD ["--appendonly", "no"]
		EOF
		docker build -q -t "weir/$server:8" "$work/$server" >"$work/log" 2>&1 || { cat "$work/log" >&2; return 1; }
	done
}

[ "${1:-}" != stop ] || { stop; exit; }
if version=$(answers) && [ -n "$version" ]; then
	say "Docker: $version"
elif may_install; then
	command -v dockerd >/dev/null || install_packages docker.io iptables
	start_engine
else
	say "no Docker engine answers, so Redis 8 and Valkey are not tested; start one, or run this with WEIR_SETUP=1 as root on Debian"
	exit 0
fi
if have weir/redis:8 && have weir/valkey:8; then
	say "images: weir/redis:8, weir/valkey:8"
elif have redis:8-alpine || timeout 60 docker pull -q redis:8-alpine >/dev/null 2>&1; then
	say "images: from the registry"
else
	build_images
	say "images: weir/redis:8, weir/valkey:8, built here"
fi
