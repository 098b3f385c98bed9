# make demo   the main job on SQLite: a chat that is killed again and again, and goes on
# make test   everything: make check, and the suite on every backend
# make check  all that needs no service
# make bench  benchmarks, each with a raw-driver baseline beside it

SHELL := /bin/bash
GOLANGCI_VERSION := v2.15.0
GOLANGCI := $(CURDIR)/bin/golangci-lint-$(GOLANGCI_VERSION)
MODULES := $(shell go list -m -f '{{.Dir}}')
export GOFLAGS += -mod=readonly

.PHONY: demo test check build vet fmt lint race explore standalone backends bench tidy clean

demo:
	@scripts/demo

test: check demo backends

check: build vet fmt lint race explore standalone

build:
	go build work

vet:
	go vet work

fmt:
	@bad=$$(gofmt -l $(MODULES)); if [ -n "$$bad" ]; then echo "gofmt would change: $$bad"; exit 1; fi

lint: $(GOLANGCI)
	@for m in $(MODULES); do (cd $$m && $(GOLANGCI) run ./...) || exit 1; done

$(GOLANGCI):
	@mkdir -p $(dir $@)
	GOFLAGS= GOBIN=$(CURDIR)/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv $(CURDIR)/bin/golangci-lint $@

# The tests of conformance/backends run in the target of that name.
race:
	go test -race $$(go list work | grep -v /conformance/backends)

# Without the race detector's weight: all interleavings of the storage protocol, and 2000
# random flows that are cut anywhere.
explore:
	go test -run 'Protocol|Explorer|64MiB' ./persistence
	go test -run CutAnywhere ./conformance

# Each module as its users get it, without the workspace.
standalone:
	@for m in $(MODULES); do echo "GOWORK=off go vet $${m#$(CURDIR)/}"; (cd $$m && GOWORK=off go vet ./...) || exit 1; done

backends:
	scripts/servers/setup.sh
	scripts/test-backends

bench:
	go test -run "^$$" -bench SaveAndLoad -benchmem ./conformance/backends
	@for p in ./core ./core/flow ./reducer ./persistence/sqlite ./persistence/redis; do go test -run '^$$' -bench . -benchmem $$p || exit 1; done

tidy:
	@for m in $(MODULES); do (cd $$m && GOFLAGS= GOWORK=off go mod tidy) || exit 1; done

clean:
	rm -rf bin weir-demo.db weir-demo.db-shm weir-demo.db-wal weir-demo.ledger
