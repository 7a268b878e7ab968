"""Write ordinary NumPy; get its gradients, and the whole training step as one compiled program."""

__version__ = "0.1.0"
__all__: list[str] = []
