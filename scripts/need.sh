#!/bin/sh
# need.sh THING... makes sure that what the demo and the tests use is on this machine.
#
#   postgres   a Postgres server's binaries, where internal/devpg looks for them
#   pgbouncer  for the test that runs a worker behind it
#   cc         a C compiler, which Go's race detector links with
#   drivers    psycopg and node-postgres, for the docs' snippets, where their interpreters are
#
# What is missing is installed with apt-get, as root or with a sudo that asks no password; no service is
# started or left enabled by it. Where that is impossible it says what is missing and what follows.
set -eu

say() { printf '%s\n' "$*" >&2; }

have() { command -v "$1" >/dev/null 2>&1; }

# as_root COMMAND... runs it as root, and fails where this user cannot.
as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif have sudo && sudo -n true 2>/dev/null; then
		sudo -n "$@"
	else
		return 1
	fi
}

can_install() { have apt-get && as_root true; }

# apt_install PACKAGE... keeps apt-get from starting the packages' services, and Postgres' package from creating a cluster:
# a server of ours under .tidemark/ is all that is wanted. Both settings are taken back at the end.
apt_install() {
	no_cluster=/etc/postgresql-common/createcluster.d/tidemark.conf
	no_start=/usr/sbin/policy-rc.d
	say "need: installing $* with apt-get"
	as_root sh -eu -c '
		no_cluster=$1 no_start=$2
		shift 2
		ours=
		clean() { rm -f "$no_cluster"; [ -z "$ours" ] || rm -f "$no_start"; }
		trap clean EXIT
		trap "exit 1" HUP INT TERM
		mkdir -p "${no_cluster%/*}"
		echo "create_main_cluster = false" >"$no_cluster"
		if [ ! -e "$no_start" ]; then
			ours=yes
			printf "#!/bin/sh\nexit 101\n" >"$no_start"
			chmod 755 "$no_start"
		fi
		export DEBIAN_FRONTEND=noninteractive
		apt-get -qq -o DPkg::Lock::Timeout=120 update
		apt-get -qq -o DPkg::Lock::Timeout=120 install -y --no-install-recommends "$@" >/dev/null
	' need "$no_cluster" "$no_start" "$@"
}

# postgres_bin prints the folder of a Postgres server's binaries; it looks where internal/devpg does.
postgres_bin() {
	for dir in \
		"${TIDEMARK_POSTGRES_BIN:-}" \
		"$(pg_config --bindir 2>/dev/null || true)" \
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
	if postgres_bin >/dev/null; then
		return
	fi
	if can_install; then
		apt_install postgresql
	fi
	if ! postgres_bin >/dev/null; then
		say "need: no Postgres here and no way to install Debian's package (not root, no sudo without a password, or no apt-get);"
		say "need: a server will be downloaded on first use. To use your own, set TIDEMARK_POSTGRES_BIN or TIDEMARK_DATABASE_URL."
	fi
}

need_pgbouncer() {
	if have pgbouncer || [ -x /usr/sbin/pgbouncer ]; then
		return
	fi
	if can_install; then
		apt_install pgbouncer
		as_root update-rc.d pgbouncer disable >/dev/null 2>&1 || true
	else
		say "need: pgbouncer is missing and cannot be installed from here; the test that uses it will fail. Install it with your package manager."
	fi
}

need_cc() {
	if have "$(go env CC)"; then
		return
	fi
	if can_install; then
		apt_install gcc libc6-dev
	else
		say "need: the race detector needs a C compiler and there is none; install gcc, or run with RACE=0."
		return 1
	fi
}

need_drivers() {
	if have python3 && ! python3 -c 'import psycopg' 2>/dev/null && ! /usr/bin/python3 -c 'import psycopg' 2>/dev/null; then
		if can_install; then
			apt_install python3-psycopg
		else
			say "need: python3 has no psycopg; the docs' Python snippet will not be run. Install it with: pip install psycopg"
		fi
	fi
	if have node && ! NODE_PATH=.tidemark/node/node_modules:/usr/share/nodejs node -e 'require("pg")' 2>/dev/null; then
		if have npm; then
			say "need: installing node-postgres into .tidemark/node with npm"
			npm install --silent --no-save --prefix .tidemark/node pg@8 >/dev/null
		elif can_install; then
			apt_install node-pg
		else
			say "need: node has no pg; the docs' Node snippet will not be run. Install it with: npm install --prefix .tidemark/node pg"
		fi
	fi
}

for thing in "$@"; do
	case $thing in
	postgres | pgbouncer | cc | drivers) "need_$thing" ;;
	*)
		say "need: unknown thing $thing"
		exit 2
		;;
	esac
done
