# Every target sets up what it needs: .venv to run and test, .venv-lint for ruff and mypy, because
# mypy needs a newer typing_extensions than TF-Agents allows; .venv-docs for Sphinx. `make clean`
# removes them, never runs/.
PYTHON ?= python3.11
PY := .venv/bin/python
READY := .venv/.ready
LINT := .venv-lint/bin
LINT_READY := .venv-lint/.ready
DOCS_READY := .venv-docs/.ready
SEED ?= 0
RUN ?= runs/demo
SLOW ?= tests
FIGURES ?= runs/figures
CHEETAH := epg_tf/pretrained/directional_half_cheetah

THROUGHPUT := point_goal random_hopper directional_hopper random_walker random_reacher directional_half_cheetah \
  goal_ant fetch $(addsuffix :night,random_hopper directional_hopper random_walker random_reacher \
  directional_half_cheetah goal_ant fetch) random_hopper:paper \
  $(addprefix one_task:,hopper half_cheetah walker2d ant reacher) \
  $(addprefix gymnasium_env:,Pendulum-v1 CartPole-v1 LunarLanderContinuous-v3)

# Another interpreter than that of .venv is used as it is; nothing is installed for it.
BAZEL_PYTHON ?= $(PY)
BAZEL_TARGETS ?= //tests:test_imports //tests/artifacts:test_artifact //tests/core:test_files

.PHONY: venv demo figures pages gallery test test-slow test-faults bazel-test throughput lint docs build-tools horovod clean

venv: $(READY)

$(READY): setup.py pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null 2>&1 && $(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' \
	  || { echo "Python 3.11 is needed and '$(PYTHON)' is not it: install it, or name it with PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "setting up .venv (once; about a minute)"
	@$(PYTHON) -m venv --clear .venv
	@$(PY) -m pip install --quiet --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $(READY)

$(LINT_READY): constraints-lint.txt | $(READY)
	@echo "setting up .venv-lint (once; a few seconds)"
	@$(PY) -m venv --clear .venv-lint
	@$(LINT)/python -m pip install --quiet --quiet --disable-pip-version-check -c constraints-lint.txt mypy ruff
	@touch $(LINT_READY)

demo: $(READY)
	@$(PY) -m launch.meta_train --config=configs/point_goal.py --run_dir=$(RUN)/evolution --seed=$(SEED) --resume
	@$(PY) -m launch.meta_test --loss=$(RUN)/evolution/best --output_dir=$(RUN)/test --lives=128 --overwrite
	@$(PY) -m launch.meta_train --config=configs/directional_half_cheetah.py:demo --run_dir=$(RUN)/cheetah --seed=$(SEED) --resume
	@$(PY) -m launch.meta_test --loss=$(RUN)/cheetah/best --output_dir=$(RUN)/cheetah-test --lives=64 --overwrite \
	  --fixed_policies=$(CHEETAH)/zero_shot_linear,$(CHEETAH)/zero_shot_policy

# The papers' figures, as far as pretrained losses and results/ allow; tests in $(FIGURES) are read, too.
figures: $(READY)
	@mkdir -p $(FIGURES)
	@for scale in laptop night; do \
	  $(PY) -m launch.figure --name=all --scale=$$scale --runs=$(FIGURES),results --output_dir=$(FIGURES)/pictures/$$scale --overwrite || exit; \
	done
	@echo "pictures are in $(FIGURES)/pictures; what is missing: $(PY) -m launch.figure --list --runs=$(FIGURES),results"

test: $(READY)
	@$(PY) -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow" tests

test-slow: $(READY)
	@$(PY) -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m slow $(SLOW)

# Kills, damaged files, full disks, and inputs that Hypothesis searches; part of test-slow.
test-faults: $(READY)
	@$(PY) -m pytest -n 2 --dist load -m slow tests/faults

bazel-test:
	@if command -v bazel >/dev/null 2>&1 && [ -d /usr/share/bazel/rules/java ]; then \
	  $(if $(filter $(PY),$(BAZEL_PYTHON)),$(MAKE) --no-print-directory venv,true) && export PYTHON=$(BAZEL_PYTHON) \
	  && tools/debian_bazel/bazel build --nobuild //... \
	  && tools/debian_bazel/bazel test --local_test_jobs=1 $(BAZEL_TARGETS) \
	  && tools/debian_bazel/bazel run //launch:list > /dev/null && echo "//launch:list ran"; \
	else echo "bazel-test: skipped; it needs Debian's packages bazel-bootstrap and bazel-rules-java"; fi

# Env steps/s of whole lives, their share of physics alone, and % of time in each of its parts, in exact and
# coarse physics, on one core and two.
throughput: $(READY)
	@echo "| config | cores | exact | of physics | % acting / physics / family / updating / rest | coarse | of physics | % |"
	@echo "|---|---|---|---|---|---|---|---|"
	@for config in $(THROUGHPUT); do for cores in 1 2; do printf '| `%s` ' $$config; \
	  $(PY) -m launch.benchmark --config=$$config --threads=$$cores --lives=128 --updates=16 --markdown || exit; done; done

lint: $(READY) $(LINT_READY)
	@$(LINT)/ruff check .
	@$(LINT)/ruff format --check .
	@$(LINT)/mypy --python-executable $(PY)

# Sphinx reads the modules without importing them, so its environment has no TensorFlow.
$(DOCS_READY): constraints-docs.txt
	@echo "setting up .venv-docs (once; a few seconds)"
	@$(PYTHON) -m venv --clear .venv-docs
	@.venv-docs/bin/python -m pip install --quiet --quiet --disable-pip-version-check -r constraints-docs.txt
	@touch $(DOCS_READY)

# What pages take from results/: tables, numbers, pictures.
pages: $(READY)
	@$(PY) docs/make_pages.py

# Pictures of the pages that take minutes.
gallery: $(READY)
	@$(PY) docs/make_gallery.py $(GALLERY)

docs: $(DOCS_READY)
	@.venv-docs/bin/sphinx-build -W --keep-going --quiet -c docs -b html . build/docs
	@echo "the pages are in build/docs; begin with build/docs/docs/index.html"

build-tools:
	@for tool in g++ cmake; do command -v $$tool >/dev/null 2>&1 \
	  || { echo "building Horovod needs $$tool: install the packages 'g++' and 'cmake'" >&2; exit 1; }; done

horovod: build-tools $(READY)
	@echo "building Horovod against the TensorFlow in .venv (about two minutes)"
	@HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_MPI=1 HOROVOD_WITHOUT_PYTORCH=1 \
	  HOROVOD_WITHOUT_MXNET=1 $(PY) -m pip install --quiet --disable-pip-version-check --no-build-isolation \
	  --force-reinstall --no-cache-dir -c constraints.txt horovod==0.28.1
	@.venv/bin/horovodrun --check-build

clean:
	@rm -rf .venv .venv-lint .venv-docs .pytest_cache .ruff_cache .mypy_cache build dist *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
