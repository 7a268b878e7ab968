"""The parts of SciPy that also take traced arrays: special, stats, linalg, signal, integrate.

>>> import wholestep as ws, wholestep.scipy.special as special
>>> float(ws.grad(lambda x: special.logsumexp(x * special.expit(x)))(0.0))
0.5
"""
