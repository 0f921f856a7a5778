#!/bin/sh
# need.sh THING... makes sure that this machine has what the demo and the tests use.
#
#   postgres   a Postgres server's binaries, where internal/devpg looks for them
#   pgbouncer  for the test that runs a worker behind it
#   redis      a Redis server, for the tests of the inbox on Redis
#   promtool   Prometheus and promtool, for the tests of the rules
#   chromium   a browser, for the tests of the pages
#   cc         a C compiler, for linking with Go's race detector
#   drivers    psycopg and node-postgres, for the snippets in the docs, if their interpreters are installed
#   duckdb     DuckDB for node, for the tests of the lake sink, if node is installed
#
# It installs missing things with apt-get, as root or with sudo without a password. It starts and
# enables no services. If it cannot install something, it says what is missing and what will fail.
set -eu

node_drivers=.tidemark/node
node_duckdb=.tidemark/duckdb

say() { printf '%s\n' "$*" >&2; }

have() { command -v "$1" >/dev/null 2>&1; }

# as_root COMMAND... runs the command as root, and fails if this user cannot.
as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif have sudo && sudo -n true 2>/dev/null; then
		sudo -n "$@"
	else
		return 1
	fi
}

lists=old # set to new after the first apt-get update

# try_install PACKAGE... installs packages without starting their services, and without creating a
# Postgres cluster: only the server under .tidemark/ is needed. It reverts both settings at the end.
try_install() {
	have apt-get && as_root true || return 1
	no_cluster=/etc/postgresql-common/createcluster.d/tidemark.conf
	no_start=/usr/sbin/policy-rc.d
	say "need: installing $* with apt-get"
	as_root sh -eu -c '
		no_cluster=$1 no_start=$2 lists=$3
		shift 3
		ours=
		log=
		clean() { rm -f "$no_cluster" ${ours:+"$no_start"} ${log:+"$log"}; }
		trap clean EXIT
		trap "exit 1" HUP INT TERM
		mkdir -p "${no_cluster%/*}"
		echo "create_main_cluster = false" >"$no_cluster"
		if [ ! -e "$no_start" ]; then
			ours=yes
			printf "#!/bin/sh\nexit 101\n" >"$no_start"
			chmod 755 "$no_start"
		fi
		log=$(mktemp)
		export DEBIAN_FRONTEND=noninteractive
		if ! { { [ "$lists" = new ] || apt-get -q -o DPkg::Lock::Timeout=120 update; } &&
			apt-get -q -o DPkg::Lock::Timeout=120 install -y --no-install-recommends "$@"; } >"$log" 2>&1; then
			cat "$log" >&2
			exit 1
		fi
	' need "$no_cluster" "$no_start" "$lists" "$@" && lists=new
}

# postgres_bin prints the folder of a Postgres server's binaries. It searches the same places as
# internal/devpg.
postgres_bin() {
	for dir in \
		"$(command -v initdb 2>/dev/null | sed 's|/[^/]*$||')" \
		/usr/lib/postgresql/*/bin \
		/opt/homebrew/opt/postgresql*/bin \
		/usr/local/opt/postgresql*/bin \
		/home/linuxbrew/.linuxbrew/opt/postgresql*/bin; do
		if [ -n "$dir" ] && [ -x "$dir/initdb" ] && [ -x "$dir/postgres" ]; then
			printf '%s\n' "$dir"
			return
		fi
	done
	return 1
}

need_postgres() {
	if [ -n "${TIDEMARK_POSTGRES_BIN:-}" ] || postgres_bin >/dev/null; then
		return
	fi
	if ! try_install postgresql || ! postgres_bin >/dev/null; then
		say "need: no Postgres found, and apt-get cannot install one. The demo and migrations download one;"
		say "need: for tests install one, or set TIDEMARK_POSTGRES_BIN to its bin folder."
	fi
}

need_pgbouncer() {
	if have pgbouncer || [ -x /usr/sbin/pgbouncer ]; then
		return
	fi
	if try_install pgbouncer; then
		as_root update-rc.d pgbouncer disable >/dev/null 2>&1 || true
	else
		say "need: pgbouncer is missing; the test that uses it will fail. Install it with your package manager."
	fi
}

need_redis() {
	if have redis-server; then
		return
	fi
	if try_install redis-server; then
		as_root update-rc.d redis-server disable >/dev/null 2>&1 || true
	else
		say "need: redis-server is missing; the tests that use it will fail. Install it with your package manager."
	fi
}

need_promtool() {
	if have promtool && have prometheus; then
		return
	fi
	if try_install prometheus; then
		as_root update-rc.d prometheus disable >/dev/null 2>&1 || true
	else
		say "need: prometheus or promtool is missing; the tests that use them will fail. Install Prometheus with your package manager."
	fi
}

# The headless shell takes less than half the work of the whole browser. Older releases have
# only the browser.
need_chromium() {
	if have chromium-headless-shell || have chromium; then
		return
	fi
	if ! try_install chromium-headless-shell && ! try_install chromium; then
		say "need: chromium is missing; the tests of the pages will fail. Install it with your package manager."
	fi
}

need_cc() {
	if have "$(go env CC)" || try_install gcc libc6-dev; then
		return
	fi
	say "need: the race detector needs a C compiler; install gcc, or run with RACE=0."
	return 1
}

need_drivers() {
	if have python3 && ! python3 -c 'import psycopg' 2>/dev/null && ! /usr/bin/python3 -c 'import psycopg' 2>/dev/null; then
		try_install python3-psycopg || say "need: python3 has no psycopg; the docs' Python snippets will not run. Install it with: pip install psycopg"
	fi
	if have node && ! NODE_PATH=$node_drivers/node_modules:/usr/share/nodejs node -e 'require("pg")' 2>/dev/null; then
		if have npm; then
			say "need: installing node-postgres into $node_drivers with npm"
			npm install --silent --no-save --prefix "$node_drivers" pg@8.23.1 >/dev/null
		else
			try_install node-pg
		fi || say "need: node has no pg; the docs' Node snippets will not run. Install it with: npm install --prefix $node_drivers pg@8.23.1"
	fi
}

need_duckdb() {
	if ! have node || [ -d "$node_duckdb/node_modules/@duckdb/node-api" ]; then
		return
	fi
	say "need: installing DuckDB into $node_duckdb with npm"
	have npm && npm install --silent --no-save --prefix "$node_duckdb" @duckdb/node-api@1.5.6-r.1 >/dev/null ||
		say "need: node has no DuckDB; the lake sink's test with it will not run. Install it with: npm install --prefix $node_duckdb @duckdb/node-api@1.5.6-r.1"
}

for thing in "$@"; do
	case $thing in
	postgres | pgbouncer | redis | chromium | promtool | cc | drivers | duckdb) "need_$thing" ;;
	*)
		say "need: unknown thing $thing"
		exit 2
		;;
	esac
done
