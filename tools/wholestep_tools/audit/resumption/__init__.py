"""Audits of bits: training that is cut, killed, resumed or done in another mode ends in the same ones."""
