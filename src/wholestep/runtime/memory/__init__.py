"""Host memory: aligned arrays, mapped files and the pool of result buffers."""
