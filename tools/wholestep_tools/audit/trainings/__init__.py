"""Trainings that audits share: small jobs, random programs, and stacks."""
