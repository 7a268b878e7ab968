PYTHON ?= $(if $(wildcard .venv/bin/python),.venv/bin/python,python)
SOURCES = src tests tools $(wildcard docs examples)
QUICK = $(wildcard tests/test_floors.py tests/test_names.py tests/laws tests/golden)

.DEFAULT_GOAL := help
.PHONY: help check format lint test golden levels cards versions mutate docs gallery pictures notebooks site bench ulp ordinary campaign endurance

help:  ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

check: lint  ## format, lint, types, floors, names, laws, goldens: under a minute
	$(PYTHON) -m pytest -n 2 $(QUICK)

lint:  ## formatting, lint and types, changing nothing
	$(PYTHON) -m ruff format --check $(SOURCES)
	$(PYTHON) -m ruff check $(SOURCES)
	$(PYTHON) -m mypy

format:  ## rewrite the files in the one format
	$(PYTHON) -m ruff check --fix $(SOURCES)
	$(PYTHON) -m ruff format $(SOURCES)

test:  ## every test
	$(PYTHON) -m pytest -n 2

golden:  ## rewrite the golden files, then read the diff
	$(PYTHON) -m pytest --update-golden

levels:  ## the tests of compiled code as a processor with narrower vectors finds them
	$(PYTHON) tests/levels.py

cards:  ## the tests of training steps on the OpenCL device: about an hour
	WHOLESTEP_TEST_DEVICES=opencl $(PYTHON) -m pytest -n 2 tests/train -k "opencl and not message"

versions:  ## the tests with the lowest versions of all packages, and with each Python that is installed
	$(PYTHON) tests/versions.py

mutate:  ## plant known bugs and demand that the tests fail
	$(PYTHON) tests/mutants.py

docs:  ## write the generated pages of the documentation
	$(PYTHON) docs/generate.py

gallery:  ## run the examples of the gallery, and write down what each reached
	$(PYTHON) -m wholestep_tools.site.gallery
	$(PYTHON) docs/generate.py

pictures:  ## draw the pictures of the gallery's examples that have changed
	$(PYTHON) -m wholestep_tools.site.drawn

notebooks:  ## run the notebooks, and keep what they print and draw: pip install -e "tools[notebooks]"
	$(PYTHON) -m wholestep_tools.site.notebooks

site:  ## build the documentation as a site in build/site, and check all that its pages refer to
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict --quiet
	$(PYTHON) -m wholestep_tools.site.built build/site

bench:  ## time calls that compute next to nothing
	$(PYTHON) -m wholestep bench calls

ulp:  ## measure the errors of the compiled scalar functions on all float32 inputs: about an hour
	$(PYTHON) -m tests.kernel.ulp

ordinary:  ## all programs of ordinary NumPy through all transforms, compiled: some two minutes
	$(PYTHON) -m tests.ordinary.everything

endurance:  ## a million calls of one step, which must take no memory, descriptors or threads
	$(PYTHON) -m wholestep audit calls --record docs/records/calls.json

campaign:  ## 10,000 random training steps, compiled, against float64, with a record: about an hour
	$(PYTHON) -m wholestep audit steps --record docs/records/steps.json
