.PHONY: install check test slow bench clean
BIN := .venv/bin

install:
	python3 -m venv .venv
	$(BIN)/pip install -q -c constraints.txt -e '.[all,dev]'

check:
	$(BIN)/ruff check src tests bench
	$(BIN)/ruff format --check src tests bench
	$(BIN)/mypy
	$(BIN)/lint-imports

test:
	$(BIN)/pytest

slow:
	LCM_TEST_PROFILE=slow LCM_TEST_KILLS=200 $(BIN)/pytest --timeout 1800

bench:
	$(BIN)/python bench/ingest.py

clean:
	rm -rf .venv dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
