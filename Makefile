# Few verbs. Everything assumes: pip install -c constraints.txt -e '.[hf,dev]'

.PHONY: test real check format bench

test:            ## the tests that CI runs first
	pytest

real:            ## tests with real models from the package index
	pytest -m real -n 0

check:           ## lint, types, import rules
	ruff format --check . && ruff check . && mypy && lint-imports

format:          ## write the house format
	ruff format . && ruff check --fix .

bench:           ## overhead beside lm-eval; LM_EVAL_PYTHON names a Python that has it, ASSAY_SHARED the folder of datasets and models
	python bench/overhead.py --lm-eval-python $(LM_EVAL_PYTHON)
	python bench/startup.py --lm-eval-python $(LM_EVAL_PYTHON)
	python -m bench.first_request --lm-eval-python $(LM_EVAL_PYTHON) --shared $(ASSAY_SHARED)
