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
RIVALS := results/meta_rivals
STARTS := results/evolved_starts

THROUGHPUT := point_goal.py random_hopper.py directional_hopper.py random_walker.py random_reacher.py \
  directional_half_cheetah.py goal_ant.py goal_ant.py:laptop_forward_backward goal_ant.py:laptop_no_reset fetch.py \
  $(addprefix one_task.py:,hopper half_cheetah walker2d ant reacher) \
  $(addprefix gymnasium_env.py:,Pendulum-v1 CartPole-v1 LunarLanderContinuous-v3)

# A test whose summary is there is not repeated.
tested = output=$(FIGURES)/tests/$(1)-test; test -f $$output/summary.json ||
TEST := $(PY) -m launch.meta_test --output_dir=$$output --overwrite

# Another interpreter than that of .venv is used as it is; nothing is installed for it.
BAZEL_PYTHON ?= $(PY)
BAZEL_TARGETS ?= //tests:test_build //tests:test_golden //tests:test_imports //tests/artifacts:test_learned_loss \
  //tests/core:test_files //tests/tasks:test_point_goal

.PHONY: venv demo figures test test-slow test-faults bazel-test throughput lint docs build-tools horovod clean

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
	@$(PY) -m launch.meta_train --config=configs/hidden_goal.py:demo --run_dir=$(RUN)/teacher --seed=$(SEED) --resume
	@$(PY) -m launch.meta_test --loss=$(RUN)/teacher/best --output_dir=$(RUN)/teacher-test --lives=128 --overwrite

# The papers' figures, as far as shipped losses and results/ allow; tests that are there are not repeated.
figures: $(READY)
	@mkdir -p $(FIGURES)/tests
	@for name in random_hopper random_reacher; do \
	  $(call tested,$${name}_laptop-0) $(TEST) --loss=$$name --config=$$name:laptop --lives=64 --compare=ppo || exit 1; done
	@$(call tested,directional_half_cheetah_laptop-0) $(TEST) --loss=directional_half_cheetah --lives=64 \
	  --config=directional_half_cheetah:laptop --compare=ppo,maml:$(RIVALS)/cheetah-maml-0,rl2:$(RIVALS)/cheetah-rl2-0
	@$(call tested,directional_hopper_laptop-0) $(TEST) --loss=results/starts/directional_hopper-policy_gradient-0 \
	  --config=directional_hopper:laptop --lives=64 --compare=ppo
	@$(call tested,random_hopper_laptop-0-768_updates-against-none) $(TEST) --loss=random_hopper \
	  --config=random_hopper:laptop --lives=20 --compare=none --updates=768
	@$(call tested,random_hopper_laptop_past-0-768_updates-against-none) $(TEST) --loss=results/past_policies/hopper-past-0 \
	  --config=random_hopper:laptop_past --lives=20 --compare=none --updates=768
	@$(call tested,random_walker_laptop-0) $(TEST) --loss=$(STARTS)/walker-epg-0 --config=random_walker:laptop --lives=64 --compare=ppo
	@for moved in epg_i ppo_i; do $(call tested,random_walker_laptop-$$moved-0) $(TEST) --loss=$(STARTS)/walker-$$moved-0 \
	  --config=random_walker:laptop --lives=64 --compare=none || exit 1; done
	@$(call tested,directional_half_cheetah_laptop-policy_gradient-0) $(TEST) --loss=results/starts/directional_half_cheetah-policy_gradient-0 \
	  --config=directional_half_cheetah:laptop --lives=64 --compare=ppo
	@for moved in epg_i ppo_i; do $(call tested,directional_half_cheetah_laptop-$$moved-0) $(TEST) --loss=$(STARTS)/cheetah-$$moved-0 \
	  --config=directional_half_cheetah:laptop --lives=64 --compare=none || exit 1; done
	@for seed in 0 1 2; do $(call tested,metagenrl_laptop-$$seed-point_goal) $(TEST) --loss=results/metagenrl_replay/seed$$seed \
	  --config=metagenrl_laptop --lives=8 --compare=$$([ $$seed = 0 ] && echo ppo || echo none) --environment=point_goal || exit 1; done
	@$(call tested,metagenrl_laptop-0-gymnasium_Pendulum_v1) $(TEST) --loss=results/metagenrl_replay/seed0 \
	  --config=metagenrl_laptop --lives=8 --compare=ppo --environment=gymnasium:Pendulum-v1 --env_steps=8000
	@$(PY) -m launch.figure --name=all --runs=$(FIGURES)/tests,results --output_dir=$(FIGURES)/pictures --overwrite
	@$(PY) -m launch.figure --list --runs=$(FIGURES)/tests,results --json=$(FIGURES)/figures.json > $(FIGURES)/figures.txt
	@tail -n 1 $(FIGURES)/figures.txt; echo "pictures are in $(FIGURES)/pictures, what is missing is in $(FIGURES)/figures.txt"

test: $(READY)
	@$(PY) -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow" tests

test-slow: $(READY)
	@$(PY) -m pytest -n 2 --dist loadfile -m slow $(SLOW)

# Kills, damaged files, full disks, and inputs that Hypothesis searches; part of test-slow.
test-faults: $(READY)
	@$(PY) -m pytest -n 2 --dist load -m slow tests/faults

bazel-test:
	@if command -v bazel >/dev/null 2>&1 && [ -d /usr/share/bazel/rules/java ]; then \
	  $(if $(filter $(PY),$(BAZEL_PYTHON)),$(MAKE) --no-print-directory venv,true) && export PYTHON=$(BAZEL_PYTHON) \
	  && tools/debian_bazel/bazel build --nobuild //... \
	  && tools/debian_bazel/bazel test --local_test_jobs=1 $(BAZEL_TARGETS) \
	  && tools/debian_bazel/bazel run //launch:list_tasks > /dev/null && echo "//launch:list_tasks ran"; \
	else echo "bazel-test: skipped; it needs Debian's packages bazel-bootstrap and bazel-rules-java"; fi

throughput: $(READY)
	@for config in $(THROUGHPUT); do $(PY) -m launch.benchmark --config=configs/$$config --config.compute.shard_lives=64 --lives=128 --markdown; done

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
