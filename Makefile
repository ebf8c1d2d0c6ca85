# Every target needs: pip install -c constraints.txt -e '.[hf,dev]'

.PHONY: test real check format site bench

test:            ## run the tests
	pytest

real:            ## run the tests that need a real model from the package index
	pytest -m real -n 0

check:           ## check format, lint, types and import rules
	ruff format --check . && ruff check . && mypy && lint-imports

format:          ## format and fix the code
	ruff format . && ruff check --fix .

site:            ## build the documentation site in build/site
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict

bench:           ## compare overhead with lm-eval; LM_EVAL_PYTHON is a Python with lm-eval, ASSAY_SHARED the folder of datasets and models
	python bench/overhead.py --lm-eval-python $(LM_EVAL_PYTHON)
	python bench/startup.py --lm-eval-python $(LM_EVAL_PYTHON)
	python -m bench.first_request --lm-eval-python $(LM_EVAL_PYTHON) --shared $(ASSAY_SHARED)
