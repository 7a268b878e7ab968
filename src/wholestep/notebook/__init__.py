"""The notebook extension `%load_ext wholestep`: pipelines, weights by bare names, and views of programs and models."""
