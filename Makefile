.PHONY: hosts soak shots install check test slow bench package reference clean
BIN := .venv/bin

install:
	python3 -m venv .venv
	$(BIN)/pip install -q -c constraints.txt -e '.[all,dev]'

check:
	$(BIN)/ruff check src tests bench scripts examples
	$(BIN)/ruff format --check src tests bench scripts examples
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_language.py

test:
	$(BIN)/pytest

hosts:
	$(BIN)/pip install -q -c constraints.txt -e '.[dev,frameworks]'
	LCM_TEST_HOSTS=all $(BIN)/pytest -m hosts --timeout 600

slow:
	LCM_TEST_PROFILE=slow LCM_TEST_KILLS=200 $(BIN)/pytest --timeout 1800

soak:
	$(BIN)/python scripts/soak.py --seconds 1200
	$(BIN)/python scripts/soak.py --seconds 1200 --postgres

bench:
	$(BIN)/python bench/ingest.py

package:
	python3 scripts/try_package.py --pipx --uv

reference:
	$(BIN)/python scripts/reference.py
	$(BIN)/python scripts/show_examples.py
	$(BIN)/python scripts/openclaw_manifest.py
	$(BIN)/python scripts/copy_to_plugins.py

shots:
	$(BIN)/python scripts/shots.py
	$(BIN)/python scripts/picture.py

clean:
	rm -rf .venv dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
