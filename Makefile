# setup · demo · test · lint · bench · docs · notebooks · package: the whole of the project's housekeeping.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
export OMP_NUM_THREADS := 1
export MKL_NUM_THREADS := 1

.PHONY: setup demo test lint bench claims index picture docs notebooks package clean torture

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "recombine needs Python 3.11 or newer with venv; $(PYTHON) is not. Try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv --clear .venv
	$(INSTALL) pip # 25.1 or newer, for --group
	$(INSTALL) torch
	$(INSTALL) -e '.[dask,notebook]' --group dev
	@touch $@

# Standard decoders against one that can compose, five seeds each, and one cure, in about a minute.
DEMO := $(addprefix liang2025.,decoders_fit_what_they_see decoders_fail_in_the_hole \
	decoders_misplace_the_bump failure_is_a_superposition rendering_by_factor_composes stripes_cure_the_cnn \
	stripes_place_the_bump)

demo: setup
	$(BIN)/recombine reproduce $(DEMO) --workers 2 --records runs/demo

# Emoji are real images in an npm package (74 MB, fetched once). Three processes for two cores: the tests of Slurm and
# of signals mostly wait.
test: setup
	@$(BIN)/recombine data get emoji || echo "The emoji cannot be fetched here; their test is skipped."
	$(BIN)/python -m pytest -n 3 --dist loadfile

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: setup
	$(BIN)/python -m benchmarks

# The picture of the README, from the committed records.
picture: setup
	$(BIN)/python docs/picture.py

# Measure every claim at quick size and write what is made from records: claims, README's table, citation.
claims: setup
	$(BIN)/recombine reproduce --workers 2 --records results --no-arrays --page runs/claims.html
	$(BIN)/python docs/generate.py
	$(BIN)/python -m tools.metadata

# Names and sentences of everything, which `recombine list` reads without importing it.
index: setup
	$(BIN)/python -m recombine.runs.listing

# Kills, fuzzed command lines, hostile files and API probes; writes docs/reliability.md.
torture: setup
	nice -n 19 $(BIN)/python -m benchmarks.torture

# The site, built offline into build/docs/site.
docs: setup
	$(BIN)/python docs/website.py

# The scripts in notebooks/, executed, each beside itself as .ipynb.
notebooks: setup
	$(BIN)/python -m tools.notebooks

# Build sdist and wheel, and try the wheel outside the checkout.
package: setup
	.ci/package

clean:
	rm -rf .venv runs build
