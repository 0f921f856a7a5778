# Tidemark. `make` lists the targets. It needs only Go, git and make.

GO ?= go
RACE ?= $(if $(filter true,$(CI)),1,0)
TESTFLAGS ?=

# Pinned, and kept in Go's build cache: only the first run builds them.
VULN := $(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0
# Linting makes much garbage: collected less often, it takes a quarter less.
LINT := GOGC=400 $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

race := $(if $(filter 1,$(RACE)),-race)

# Only the race detector needs cgo. Without cgo everything is built as it is shipped, and linking
# takes a third less.
export CGO_ENABLED := $(if $(race),1,0)

# With the race detector, a program waits a second before it exits, for races of goroutines that are
# left. test/support/leaktest fails tests that leave some, so there is nothing to wait for.
export GORACE ?= atexit_sleep_ms=10

# `make lint` vets everything, tests included. Vetting again for each test binary takes longer than
# many of the tests. Without the checkout's path in them, packages that another checkout has built come
# from Go's build cache.
TEST := $(GO) test $(race) -vet=off -trimpath $(TESTFLAGS)

matrix := TestNothingErasedIsLeftWhateverMeets

# Number of packages tested at once: one more than processors, since one usually waits.
packages := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))

# Packages whose tests start workers, servers, poolers or browsers of their own, or run whole examples.
systemtests := chaos|crash|failover|groups|infrastructure|model|modes|network|pgbouncer|publish
system := /examples/|/internal/(app|demo|devpg)|/internal/surface/pages$$|/test/($(systemtests))$$

# These take longest, so they start first and no processor waits for one of them at the end.
longest := ./pkg/projector ./test/matrix ./pkg/archive ./pkg/erasure ./internal/docstest ./internal/surface/command
longestsystem := ./internal/surface/pages ./test/crash ./test/failover

.DEFAULT_GOAL := help
.PHONY: help demo test test-system test-matrix testsystem testmodules testtools
.PHONY: bench lint vuln sbom release fmt build migrate tidy screenshot postgres

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: postgres ## run the demo: Postgres, three workers, live load, one worker killed halfway (DEMO_SECONDS=30)
	@$(GO) run ./cmd/tidemark demo

# `make test test-matrix` runs the cells of the matrix once.
test: testtools ## run the tests that need one Postgres, private or TIDEMARK_TEST_DATABASE_URL (RACE=1: race detector)
	$(TEST) -p $(packages) -timeout 40m $(if $(filter test-matrix,$(MAKECMDGOALS)),-skip '^$(matrix)$$') $(longest) \
		$$($(GO) list ./... | grep -vE '$(system)')

test-system: testtools ## run the tests that start workers, servers, poolers and browsers, and those of the other modules
	@$(MAKE) --no-print-directory -k testsystem testmodules

testsystem:
	$(TEST) -p $(packages) -timeout 40m $(longestsystem) $$($(GO) list ./... | grep -E '$(system)')

testmodules:
	cd adapters/watermill && $(TEST) -timeout 5m ./...
	cd adapters/pubsub && $(TEST) -timeout 5m ./...
	cd adapters/lake && $(TEST) -timeout 20m ./...
	cd adapters/s3 && $(TEST) -timeout 5m ./...
	cd test/monitoring && $(TEST) -timeout 5m ./...

test-matrix: postgres ## run all cells of the matrix of acts, states and features, of which `test` runs each pair
	$(TEST) -timeout 20m -run '^$(matrix)$$' ./test/matrix -args -all

bench: postgres ## compare with a bare loop and with peers; writes bench/out/latest.json
	cd bench && $(GO) run .

lint: ## check style, import directions and go.mod
	$(GO) mod tidy -diff
	$(LINT) run ./...
	cd bench && $(GO) mod tidy -diff && $(GO) vet ./...
	cd adapters/watermill && $(GO) mod tidy -diff && $(LINT) run ./...
	cd adapters/pubsub && $(GO) mod tidy -diff && $(LINT) run ./...
	cd adapters/lake && $(GO) mod tidy -diff && $(LINT) run ./...
	cd adapters/s3 && $(GO) mod tidy -diff && $(LINT) run ./...
	cd test/monitoring && $(GO) mod tidy -diff && $(LINT) run ./...

# Exit code 3: the database of vulnerabilities cannot be reached, so nothing was checked.
vuln: ## look for known vulnerabilities in called code; needs https://vuln.go.dev
	@curl -sSf -m 10 -o /dev/null https://vuln.go.dev/index/modules.json || { \
		echo "vuln: https://vuln.go.dev cannot be reached from here; nothing was checked" >&2; exit 3; }
	$(VULN) ./...

sbom: build ## write an SBOM of each program to bin/*.cdx.json (CycloneDX)
	@for program in tidemark worker migrate maintenance; do \
		$(GO) -C scripts/sbom tool cyclonedx-gomod bin -json -std -output $(CURDIR)/bin/$$program.cdx.json \
			$(CURDIR)/bin/$$program || exit; done
	@echo "sbom: $$(grep -h '"purl"' bin/*.cdx.json | sort -u | wc -l) modules in bin/*.cdx.json"

release: ## build a release into dist/ (VERSION=v1.2.3 at its tag; DRY=1 at any commit)
	@VERSION="$(VERSION)" DRY="$(DRY)" scripts/release.sh

fmt: ## format the code
	$(LINT) fmt ./...

build: ## build the programs into bin/, statically linked
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/ ./cmd/...

migrate: postgres ## migrate the schema (TIDEMARK_DATABASE_URL, or the private server)
	@$(GO) run ./cmd/tidemark migrate up $(if $(TIDEMARK_DATABASE_URL),,--dev)

tidy: ## tidy all modules
	$(GO) mod tidy
	cd bench && $(GO) mod tidy
	cd adapters/watermill && $(GO) mod tidy
	cd adapters/pubsub && $(GO) mod tidy
	cd adapters/lake && $(GO) mod tidy
	cd adapters/s3 && $(GO) mod tidy
	cd test/monitoring && $(GO) mod tidy

screenshot: ## take README's picture of the pages, with a busy worker
	@scripts/need.sh postgres chromium
	$(GO) test ./internal/surface/pages -run TestTheOverviewOfREADME -count 1 -update

postgres:
	@[ -n "$$TIDEMARK_DATABASE_URL" ] || scripts/need.sh postgres

testtools:
	@scripts/need.sh $(if $(race),cc) postgres pgbouncer redis chromium promtool drivers duckdb
