# Works from a fresh clone: every target sets up its Python first where that is missing.
# An active virtual or conda environment is used; otherwise one is made in .venv.
TORCH ?= torch==2.13.0
SCALE ?= cpu
NAMES ?=
WORKERS ?= 2
export OMP_WAIT_POLICY ?= PASSIVE

ACTIVE := $(VIRTUAL_ENV)
ifeq ($(ACTIVE),)
ifneq ($(CONDA_DEFAULT_ENV),base)
ACTIVE := $(CONDA_PREFIX)
endif
endif
ifeq ($(ACTIVE),)
PY := .venv/bin/python
READY := .venv/.ready
else
PY := $(ACTIVE)/bin/python
READY := active-environment
endif

.DEFAULT_GOAL := help
.PHONY: help setup demo test check notebooks lab explore gallery report train lock python active-environment

help:
	@echo "make demo        a solve from sparse sensors, as an executed notebook (SCALE=smoke|cpu)"
	@echo "make test        the tests (WORKERS=2 of them at once)"
	@echo "make check       lint, format, types, notebook pairs"
	@echo "make notebooks   write each .ipynb from its .py"
	@echo "make lab         JupyterLab on this machine only"
	@echo "make explore     the explorers as a page, on this machine only"
	@echo "make gallery     executed copies for visitors (NAMES='20_darcy 21_poisson')"
	@echo "make report      every table and figure from the recorded results"
	@echo "make train       train the Darcy model that ships (SCALE=smoke|cpu|gpu)"
	@echo "make setup|lock  set up only | write constraints.txt from what is installed"

setup: $(READY)

demo: setup
	$(PY) -m prisma_lib.notebooks demo --scale $(SCALE)

# Each process of the tests has one thread: most are too small for more.
test: setup
	OMP_NUM_THREADS=1 $(PY) -m pytest -q -n $(WORKERS) --dist loadfile

check: setup
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m prisma_lib.notebooks check

notebooks: setup
	$(PY) -m prisma_lib.notebooks pair

lab: setup
	$(PY) -m jupyterlab --ServerApp.ip=127.0.0.1 --ServerApp.root_dir=.

# Voilà prints the address with its token, and opens it where there is a browser. Of
# JupyterLab's extensions it needs the widgets; others miss JupyterLab around them.
explore: setup
	@$(PY) -c 'import voila' 2>/dev/null || $(PY) -m pip install -q -c constraints.txt "voila>=0.5.8"
	$(PY) -m voila notebooks/60_explorer.ipynb --Voila.ip=127.0.0.1 --Voila.auto_token=True \
	  --VoilaConfiguration.extension_allowlist=@jupyter-widgets/jupyterlab-manager \
	  --VoilaConfiguration.extension_allowlist=@voila-dashboards/widgets-manager8 \
	  --VoilaConfiguration.extension_allowlist=anywidget

gallery: setup
	$(PY) -m prisma_lib.notebooks gallery $(NAMES)

# The executed report is made anew: it would be kept, though the results changed.
report: setup
	$(PY) -m prisma_lib.report
	rm -rf outputs/report
	$(PY) -m prisma_lib.notebooks gallery 90_report

train: setup
	$(PY) -m prisma_lib.train params/train_darcy.yaml --scale $(SCALE)

lock: setup
	$(PY) -m pip freeze --exclude-editable 2>/dev/null \
	  | sed 's/+[a-z0-9.]*$$//' | grep == | LC_ALL=C sort -f > constraints.txt

python: setup
	@echo $(PY)

# torch goes first and pinned: asked for loosely, pip may take a much larger build.
.venv/.ready: pyproject.toml $(wildcard constraints.txt)
	@for p in python3 python3.13 python3.12 python3.11 python; do \
	  if $$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
	    >/dev/null 2>&1; then found=$$p; break; fi; done; \
	if [ -z "$$found" ]; then echo "No Python 3.11 or newer with its venv module was \
	found. Install one (Debian and Ubuntu: python3-venv), or use conda: see README.md." \
	>&2; exit 2; fi; \
	echo "Setting up .venv with $$($$found --version); this takes some minutes once." && \
	$$found -m venv .venv
	$(PY) -m pip install -q "$(TORCH)"
	$(PY) -m pip install -q -c constraints.txt -e ".[all]"
	@touch $@

# An environment that has torch keeps its versions; an empty one gets the tested ones.
active-environment:
	@$(PY) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "The active environment has $$($(PY) --version 2>&1); Python 3.11 or newer is \
	needed. Deactivate it, or activate a newer one." >&2; exit 2; }
	@$(PY) -c 'import prisma_lib, papermill, jupytext, matplotlib, pytest, xdist, beartype, \
	mypy, anywidget, distributed, dask_jobqueue, cryptography' \
	  2>/dev/null || { echo "Installing into $(ACTIVE)."; \
	  if $(PY) -c 'import torch' 2>/dev/null; then $(PY) -m pip install -q -e ".[all]"; \
	  else $(PY) -m pip install -q "$(TORCH)" && \
	    $(PY) -m pip install -q -c constraints.txt -e ".[all]"; fi; }
