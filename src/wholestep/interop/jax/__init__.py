"""Functions of JAX as functions here: a reader of jaxprs, and a handler for each primitive of lax."""
