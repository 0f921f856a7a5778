#!/usr/bin/env bash
# containers.sh runs the compose set in real containers: migrate, three workers, load. It checks
# that every replica is healthy, that all appended events are applied, and that everything stops in
# time. With compose it also checks that Prometheus finds every replica and can evaluate every rule,
# and that workers report an outage of Postgres and recover on their own.
#
#   scripts/containers.sh compose   runs docker-compose.yml unchanged. It needs an engine with the
#                                   compose plugin, and a registry to fetch images from
#   scripts/containers.sh local     runs programs built here in the last stage of the same image, on the
#                                   host's network and the Postgres of TIDEMARK_DATABASE_URL. It needs
#                                   only an engine. It migrates and fills the database: use an empty one
#
# Variables: ENGINE (docker; podman has the same commands), SECONDS_OF_LOAD (10), RATE (1000),
# WORKERS (3).
set -euo pipefail
cd "$(dirname "$0")/.."

engine=${ENGINE:-docker}
seconds=${SECONDS_OF_LOAD:-10}
rate=${RATE:-1000}
workers=${WORKERS:-3}
grace=50 # stop_grace_period of docker-compose.yml

say() { printf 'containers: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# eventually COMMAND... runs the command once a second until it succeeds, for a minute.
eventually() {
	for _ in $(seq 60); do
		if "$@"; then return; fi
		sleep 1
	done
	die "did not succeed within a minute: $*"
}

$engine version >/dev/null 2>&1 || die "\"$engine version\" fails: start a container engine, or set ENGINE to another"

healthy() { [ "$($engine inspect --format '{{.State.Health.Status}}' "$1")" = healthy ]; }

# stops CONTAINER... stops each container with SIGTERM and fails unless it exits with 0 within the
# grace.
stops() {
	for c in "$@"; do
		local began=$SECONDS
		$engine stop --time "$grace" "$c" >/dev/null
		code=$($engine inspect --format '{{.State.ExitCode}}' "$c")
		[ "$code" = 0 ] || die "$c exited with $code. Its log:
$($engine logs --tail 20 "$c" 2>&1)"
		say "$c stopped within $((SECONDS - began)) s, exit code 0"
	done
}

compose() {
	$engine compose version >/dev/null 2>&1 || die "$engine has no compose plugin: install it, or try: $0 local"
	trap '$engine compose --profile tools down --volumes --timeout 60 >/dev/null 2>&1 || true' EXIT
	$engine compose up --build --detach --wait --scale "worker=$workers"
	$engine compose run --rm load -rate "$rate" -seconds "$seconds"
	applied() { $engine compose run --rm tidemark lag --json | tr -d ' \n' | grep -Eqv '"events":[1-9]'; }
	eventually applied
	say "all events are applied"
	$engine compose run --rm tidemark doctor

	metric() { $engine compose exec -T prometheus promtool query instant http://127.0.0.1:9090 "$1" | awk '{ print $(NF - 1) }'; }
	watched() { [ "$(metric 'count(up{job="tidemark"} == 1)')" = "$workers" ]; }
	recorded() { [ "$(metric 'count(job_consumer_group:tidemark_group_lag_events:max)')" -ge 1 ]; }
	eventually watched
	eventually recorded
	[ "$(metric 'sum(prometheus_rule_evaluation_failures_total)')" = 0 ] || die "Prometheus cannot evaluate every rule"
	say "Prometheus scrapes $workers workers"

	unhealthy() { [ "$($engine inspect --format '{{.State.Health.Status}}' "$1")" = unhealthy ]; }
	replicas=$($engine compose ps --quiet worker)
	$engine compose stop postgres
	for c in $replicas; do eventually unhealthy "$c"; done
	$engine compose start postgres
	for c in $replicas; do eventually healthy "$c"; done
	[ "$($engine inspect --format '{{.RestartCount}}' $replicas | sort -u)" = 0 ] || die "a worker restarted during the outage of Postgres"
	say "workers recovered from the outage of Postgres"

	$engine compose run --rm load -rate "$rate" -seconds "$seconds" &
	stops $replicas # while they have work
	wait
}

local_set() {
	[ -n "${TIDEMARK_DATABASE_URL:-}" ] || die "set TIDEMARK_DATABASE_URL to an empty database that the host can reach"
	work=$(mktemp -d)
	names=()
	trap '[ ${#names[@]} = 0 ] || $engine rm --force "${names[@]}" >/dev/null 2>&1; rm -rf "$work"' EXIT
	mkdir -p "$work/out" "$work/etc/ssl/certs"
	say "building the programs"
	programs=$(sed -n 's/^RUN CGO_ENABLED=0 go build .* -o \/out\/ //p' Dockerfile)
	# shellcheck disable=SC2086 # several
	CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o "$work/out/" $programs
	cp /etc/ssl/certs/ca-certificates.crt "$work/etc/ssl/certs/"
	sed -n '/^FROM scratch/,$p' Dockerfile | sed 's/^COPY --from=build /COPY /' >"$work/Dockerfile"
	DOCKER_BUILDKIT=0 $engine build --quiet --tag tidemark:local "$work" >/dev/null 2>"$work/log" || die "$(cat "$work/log")"
	say "image of $($engine image inspect --format '{{.Size}}' tidemark:local | awk '{ printf "%.0f MB", $1 / 1e6 }'), user $($engine image inspect --format '{{.Config.User}}' tidemark:local)"
	confined=(--network host --read-only --cap-drop ALL --security-opt no-new-privileges --env TIDEMARK_DATABASE_URL)

	$engine run --rm "${confined[@]}" --no-healthcheck tidemark:local tidemark migrate up
	port=${FIRST_PORT:-18080}
	for n in $(seq "$workers"); do
		name=tidemark-local-$$-$n
		names+=("$name")
		$engine run --detach --name "$name" "${confined[@]}" --volume "$PWD/examples/tabletop/projections:/projections:ro" --env TIDEMARK_PROJECTIONS_DIR=/projections \
			--env TIDEMARK_HTTP_ADDR="127.0.0.1:$((port + n))" --env TIDEMARK_LOG_FORMAT=json --env TIDEMARK_SHUTDOWN_TIMEOUT=35s tidemark:local >/dev/null
	done
	for name in "${names[@]}"; do eventually healthy "$name"; done
	say "$workers workers are healthy"
	$engine exec "${names[0]}" /tidemark worker healthcheck || die "tidemark worker healthcheck fails in ${names[0]}"
	$engine run --rm "${confined[@]}" --no-healthcheck --entrypoint /loadgen tidemark:local -rate "$rate" -seconds "$seconds"
	applied() { $engine run --rm "${confined[@]}" --no-healthcheck tidemark:local lag --json | tr -d ' \n' | grep -Eqv '"events":[1-9]'; }
	eventually applied
	say "all events are applied"
	$engine run --rm "${confined[@]}" --no-healthcheck tidemark:local doctor || say "tidemark doctor reports problems with this server: see above"
	$engine run --detach --name "load-$$" "${confined[@]}" --no-healthcheck --entrypoint /loadgen tidemark:local -rate "$rate" -seconds 0 >/dev/null
	names+=("load-$$")
	stops "${names[@]:0:workers}" # while they have work
}

case ${1:-} in
compose) compose ;;
local) local_set ;;
*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
say "all checks passed"
