# Shorthands. What they run can be run by hand as well.

.PHONY: dev build test lint fuzz bench chaos mutants mutants

# The embedded gateway with demo services; DATA=dir keeps its state across restarts.
dev:
	go run ./cmd/latchkey dev $(if $(DATA),--data $(DATA))

build:
	CGO_ENABLED=0 go build -trimpath -o bin/latchkey ./cmd/latchkey

# Everything, with servers of its own; PKG='./lock/...' for some packages alone.
test:
	bash .ci/test $(PKG)

lint:
	bash .ci/lint

# One fuzz test for a minute: make fuzz PKG=./intent FUZZ=FuzzParse
fuzz:
	go test -run '^$$' -fuzz '^$(FUZZ)$$' -fuzztime 1m $(PKG)

bench:
	go test -run '^$$' -bench . -benchmem $(or $(PKG),./...)

# Breaks one guard of the promise at a time; every one must turn its tests red. Minutes.
# ONLY=name,name for some; REPORT=loadtest/reports/mutants.md writes the table there.
mutants:
	go run ./loadtest mutants $(if $(ONLY),--only $(ONLY)) $(if $(REPORT),--report $(REPORT))

# Agents as they are, on a stage that is being broken: make chaos ARGS='--duration 10m --redis sentinel'
chaos:
	go run ./loadtest chaos $(ARGS)

# Breaks one guard at a time; every mutant must turn its tests red.
mutants:
	go run ./loadtest mutants $(ARGS)
